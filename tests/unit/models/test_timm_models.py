"""timm's models are built by name, with timm's own preprocessing and weights."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import timm
import torch
from PIL import Image
from timm.data import create_transform

from accel_train.data.images.view import View
from accel_train.errors import UserError
from accel_train.models import timm_models
from accel_train.models.base import Preprocessing, Weights
from accel_train.models.build import BuiltModel, architecture_name, build_model, published_weights
from accel_train.models.hub import MissingFileError
from accel_train.models.pretrained import load_initial

RESNET, VIT = "timm:test_resnet", "timm:test_vit"
HALF = (0.5, 0.5, 0.5)


def build(name: str, *, classes: int = 5, channels: int = 3, image_size: int | None = None) -> BuiltModel:
    return build_model(name, classes=classes, channels=channels, data_size=32, image_size=image_size)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that stands for the hub: OWNER/NAME/FILE."""

    def hub_file(repository: str, name: str) -> Path:
        if not (file := tmp_path / repository / name).exists():
            raise MissingFileError(name)
        return file

    monkeypatch.setattr(timm_models, "hub_file", hub_file)
    return tmp_path


def store(hub: Path, repository: str, name: str, **config: Any) -> dict[str, torch.Tensor]:
    """Store the weights of a model of timm for 1,000 classes as a repository; return them."""
    torch.manual_seed(1)
    weights: dict[str, torch.Tensor] = timm.create_model(name).state_dict()
    (hub / repository).mkdir(parents=True)
    safetensors.torch.save_file(weights, hub / repository / "model.safetensors")
    if config:
        (hub / repository / "config.json").write_text(json.dumps({"architecture": name} | config))
    return weights


def loaded(built: BuiltModel, weights: Weights) -> tuple[str, ...]:
    return load_initial(built.module, weights, built.image_size)


def test_model_takes_images_of_the_data_unless_its_size_is_fixed() -> None:
    built = build(RESNET, channels=1)
    assert (built.name, built.channels, built.image_size) == (RESNET, 3, 32)
    assert built.module(torch.zeros(2, 3, 32, 32)).shape == (2, 5)
    vit = build(VIT)
    assert (vit.image_size, vit.notes) == (
        160,
        ("images are enlarged from 32 to 160 pixels, the model's usual size",),
    )
    assert build(VIT, image_size=96).module(torch.zeros(2, 3, 96, 96)).shape == (2, 5)


def test_size_that_the_model_does_not_take_is_refused() -> None:
    with pytest.raises(UserError, match=f"^{VIT} does not take images of 100 pixels: ") as caught:
        build(VIT, image_size=100)
    assert caught.value.hint == "give --image-size 160, for which it was made, or another multiple of 32"


def test_published_weights_are_loaded_with_timms_preprocessing_and_another_head(hub: Path) -> None:
    stored = store(hub, "timm/test_resnet.r160_in1k", "test_resnet")
    names = published_weights(RESNET)
    assert list(names) == ["DEFAULT", "r160_in1k"]
    weights = names["r160_in1k"]()
    config = timm.get_pretrained_cfg("test_resnet")
    assert weights.preprocessing == Preprocessing(160, config.mean, config.std, "bilinear", config.crop_pct, "crop")
    assert weights.classes
    assert (len(weights.classes), weights.classes[0]) == (1000, "n01440764")
    built = build(RESNET)
    file = hub / "timm/test_resnet.r160_in1k/model.safetensors"
    assert loaded(built, weights) == (
        f"weights from timm's test_resnet.r160_in1k ({file}): {len(stored) - 2} tensors",
        "head fc replaced: 1,000 → 5 classes",
    )
    live = built.module.state_dict()
    assert all(torch.equal(live[name], tensor) for name, tensor in stored.items() if not name.startswith("fc."))


def test_position_embeddings_are_resized(hub: Path) -> None:
    stored = store(hub, "timm/test_vit.r160_in1k", "test_vit")
    built = build(VIT, image_size=96)
    loaded(built, published_weights(VIT)["DEFAULT"]())
    live = built.module.state_dict()
    assert live["pos_embed"].shape != stored["pos_embed"].shape
    assert torch.equal(live["blocks.0.attn.qkv.weight"], stored["blocks.0.attn.qkv.weight"])


def test_weights_of_a_repository_are_found_by_its_name(hub: Path) -> None:
    changed = {"mean": HALF, "std": HALF, "input_size": [3, 64, 64], "interpolation": "bilinear", "crop_pct": 1.0}
    classes = {"label_names": ["cat", "dog"], "num_classes": 2}
    store(hub, "me/mine", "test_resnet", pretrained_cfg=changed | {"url": "http://x"}, **classes)
    name = "timm:hf-hub:me/mine"
    built = build(name)
    assert built.name == RESNET  # it is built again without the hub
    weights = published_weights(name)["DEFAULT"]()
    assert weights.preprocessing == Preprocessing(64, HALF, HALF, "bilinear", 1.0, "crop")
    assert weights.classes == ("cat", "dog")


@pytest.mark.parametrize(
    ("mode", "fit"), [("squash", "squash"), ("border", "pad"), ("center", "crop"), ("", "crop"), (["squash"], "crop")]
)
def test_pictures_become_square_as_timm_makes_them(hub: Path, mode: Any, fit: str) -> None:
    store(hub, "me/mine", "test_resnet", pretrained_cfg={"crop_mode": mode})
    found = published_weights("timm:hf-hub:me/mine")["DEFAULT"]().preprocessing
    assert found
    assert found.fit == fit
    if fit == "crop":
        return  # timm resizes first, which changes the pixels at the border
    numbers = np.random.default_rng(0).integers(256, size=(40, 64, 3), dtype=np.uint8)
    made = create_transform(32, crop_mode=mode, crop_pct=1.0, interpolation="bilinear", mean=(0,) * 3, std=(1,) * 3)
    ours = View(32, random_crop=False, fit=found.fit, centre_share=1.0)
    top, left, height, width = ours.box(40, 64, None)
    window = torch.from_numpy(numbers)[None, top : top + height, left : left + width].permute(0, 3, 1, 2)
    assert (made(Image.fromarray(numbers)) * 255 - ours.resized(window)[0]).abs().max() <= 1


BAD: dict[str, tuple[str, str]] = {
    "[]": ("has another config.json than those of timm", "name a repository that timm has written"),
    "{": ("has another config.json than those of timm", "name a repository that timm has written"),
    '{"architecture": "resnet_of_tomorrow", "pretrained_cfg": {}}': (
        "is of the unknown model 'resnet_of_tomorrow'",
        "install a newer timm",
    ),
    '{"architecture": "test_resnet", "pretrained_cfg": {"more": 1}}': (
        "has another config.json than those of timm",
        "name a repository that timm has written",
    ),
    '{"architecture": ["test_resnet"]}': (
        "has another config.json than those of timm",
        "name a repository that timm has written",
    ),
    '{"architecture": "test_resnet", "pretrained_cfg": {"std": [0, 0, 0]}}': (
        "has another config.json than those of timm: mean (0.485, 0.456, 0.406) and std (0, 0, 0)",
        "name a repository that timm has written",
    ),
    '{"architecture": "test_resnet", "pretrained_cfg": {"input_size": [1, 64, 64]}}': (
        "has another config.json than those of timm: mean (0.485, 0.456, 0.406) for 1 channels",
        "name a repository that timm has written",
    ),
    '{"architecture": "test_resnet", "pretrained_cfg": {"input_size": [3, 64, 1e9]}}': (
        "has another config.json than those of timm: images of 1000000000.0 pixels",
        "name a repository that timm has written",
    ),
    '{"architecture": "test_resnet", "pretrained_cfg": {"crop_pct": 0}}': (
        "has another config.json than those of timm: a crop of 0",
        "name a repository that timm has written",
    ),
    '{"architecture": "test_resnet", "model_args": {"num_classes": 3, "act_layer": "gelu"}}': (
        "has arguments of a model of its own: act_layer",
        "choose another one",
    ),
}


@pytest.mark.parametrize("config", BAD)
def test_repository_that_is_not_timms_is_refused(hub: Path, config: str) -> None:
    (hub / "me/mine").mkdir(parents=True)
    (hub / "me/mine/config.json").write_text(config)
    with pytest.raises(UserError) as caught:
        build("timm:hf-hub:me/mine")
    message, hint = BAD[config]
    assert caught.value.message.startswith(f"timm:hf-hub:me/mine {message}")
    assert caught.value.hint.startswith(hint)


def test_repository_without_config_or_weights_is_refused(hub: Path) -> None:
    with pytest.raises(UserError, match=r"^timm:hf-hub:me/mine has no config\.json$"):
        build("timm:hf-hub:me/mine")
    with pytest.raises(UserError, match=r"has no model\.safetensors and no pytorch_model\.bin$"):
        published_weights(RESNET)["DEFAULT"]()


def test_repository_with_more_classes_than_its_weights_can_have_is_refused(hub: Path) -> None:
    store(hub, "me/birds", "test_resnet", num_classes=10**7)
    with pytest.raises(UserError, match=r"^cannot read the weights in .*: the model is far larger"):
        loaded(build("timm:hf-hub:me/birds"), published_weights("timm:hf-hub:me/birds")["DEFAULT"]())
    assert architecture_name("timm:hf-hub:me/birds") == RESNET
    assert architecture_name(RESNET) is None


def test_damaged_weights_are_refused(hub: Path) -> None:
    store(hub, "timm/test_resnet.r160_in1k", "test_resnet")
    (hub / "timm/test_resnet.r160_in1k/model.safetensors").write_bytes(b"nothing")
    with pytest.raises(UserError, match=r"^cannot read the weights in .*model\.safetensors: ") as caught:
        loaded(build(RESNET), published_weights(RESNET)["DEFAULT"]())
    assert caught.value.hint == "remove it to download it again"


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("timm:test_resnett", "unknown model 'timm:test_resnett'", "did you mean timm:test_resnet?"),
        ("timm:x:y", "unknown model 'timm:x:y'", "give timm:NAME of timm.list_models(), or timm:hf-hub:OWNER/NAME"),
        (f"{RESNET}.r160", "timm has no weights 'r160' of test_resnet", f"did you mean {RESNET}.r160_in1k?"),
        (f"{RESNET}.x", "timm has no weights 'x' of test_resnet", "choose r160_in1k"),
    ],
)
def test_unknown_name_is_an_error_with_the_nearest_ones(name: str, message: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        build(name)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_missing_timm_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    timm_models._timm.cache_clear()
    with pytest.raises(UserError, match=r"^models named timm:… need timm: ") as caught:
        build(RESNET)
    assert caught.value.hint == "pip install 'accel_train[timm]'"


def test_model_without_published_weights_names_none() -> None:
    untrained = next(name for name in timm.list_models() if not timm.get_pretrained_cfg(name).has_weights)
    assert "DEFAULT" not in published_weights(f"timm:{untrained}")
