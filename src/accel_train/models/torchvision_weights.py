"""The weights that torchvision publishes, with the preprocessing of the images that they were trained on."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from accel_train.models.base import Preprocessing, Weights
from accel_train.models.download import download, torch_cache
from accel_train.models.weights_content import read_tensors

_TRANSFORM_INPUT = {"googlenet", "inception_v3"}
"""torchvision's models of these names change images normalised as for ImageNet to a mean and std of 0.5 themselves, if
they get its weights; here, images are normalised so right away."""
_IMAGENET_IDS = "385e0240499426c022b773be1ae4da780f057b89c9694c7f47199f62746b6edd"
"""Of n01440764, … n15075141, which the folders of ImageNet are called, in the order of torchvision's categories."""
_DENSE_LAYER = re.compile(r"(denselayer\d+\.(?:norm|conv))\.([12]\.)")
"""Names in the files of DenseNets, which are older than its code."""


def published(name: str) -> Mapping[str, Callable[[], Weights]]:
    """Return the complete weights of a classifier by name, torchvision's default first; they are downloaded if needed.

    Left out are weights of a part of the model, which have no classes.
    """
    from torchvision.models import get_model_weights

    found = get_model_weights(name)
    complete = {each.name: each for each in found if each.meta["categories"]}
    return {key: partial(_fetch, name, entry) for key, entry in {"DEFAULT": found.DEFAULT, **complete}.items()}


def _fetch(model: str, entry: Any) -> Weights:
    """Return the weights of an entry of torchvision's tables, downloading them if they are not in torch's cache."""
    file = download(entry.url, torch_cache())
    transforms = entry.transforms()
    own = model in _TRANSFORM_INPUT
    return Weights(
        f"{entry.name} of {model} ({file})",
        partial(_read, model, file),
        Preprocessing(
            image_size=transforms.crop_size[0],
            mean=(0.5,) * 3 if own else tuple(transforms.mean),
            std=(0.5,) * 3 if own else tuple(transforms.std),
            interpolation=transforms.interpolation.value,
            crop=min(1.0, transforms.crop_size[0] / transforms.resize_size[0]),
            fit="crop",
        ),
        classes=tuple(entry.meta["categories"]),
        digest_of_ids=_IMAGENET_IDS,
    )


def _read(model: str, file: Path, image_size: int) -> Mapping[str, Any]:
    tensors = {_DENSE_LAYER.sub(r"\1\2", name): tensor for name, tensor in read_tensors(file).items()}
    return resized_embeddings(model, tensors, image_size) if model.startswith("vit") else tensors


def resized_embeddings(model: str, tensors: dict[str, Tensor], image_size: int) -> Mapping[str, Tensor]:
    """Return the tensors of a ViT with position embeddings interpolated for another image size."""
    from torchvision.models.vision_transformer import interpolate_embeddings

    changed: Mapping[str, Tensor] = interpolate_embeddings(image_size, vit_patch(model), tensors)
    return changed


def vit_patch(model: str) -> int:
    """Return the pixels of a patch, which the name of a ViT tells."""
    return int(model.rpartition("_")[2])
