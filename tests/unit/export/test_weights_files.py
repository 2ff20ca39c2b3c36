"""Weights for other programs: the printed lines load them into the same model."""

from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from helpers.exports import run_model
from helpers.marks import chaos
from torch import nn

from accel_train.errors import UserError
from accel_train.export.weights_files import loading_lines, write_weights
from accel_train.run.inference import RunModel


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("cnn", 16),
        ("timm:test_vit", 64),
        ("timm:test_resnet", 64),
        ("resnet18", 32),
        ("resnet18", 64),
        chaos("vit_b_16", 32),
    ],
)
def test_printed_lines_load_the_model(tmp_path: Path, name: str, size: int) -> None:
    run = run_model(name, size)
    assert write_weights(tmp_path, run, half=False) == ["model.safetensors", "config.json"]
    lines = loading_lines(run, str(tmp_path))
    assert len(lines) <= 5
    names: dict[str, Any] = {}
    exec("\n".join(lines), names)  # as a user would
    model = names["model"].eval()
    images_BCHW = torch.randn(2, 3, size, size)
    with torch.no_grad():
        assert torch.equal(model(images_BCHW), run.module(images_BCHW))
    assert names.get("classes", ["a", "b"]) == ["a", "b"]


def test_timm_prepares_pictures_as_the_run(tmp_path: Path) -> None:
    write_weights(tmp_path, run_model("timm:test_vit", 64, eval_crop=0.9, interpolation="bicubic"), half=False)
    model = timm.create_model(f"local-dir:{tmp_path}", pretrained=True)
    config = timm.data.resolve_model_data_config(model)
    assert config == {
        **{"input_size": (3, 64, 64), "interpolation": "bicubic", "crop_pct": 0.9, "crop_mode": "center"},
        **{"mean": [0.3, 0.4, 0.5], "std": [0.2, 0.3, 0.25]},
    }


def test_timm_shows_whole_pictures_where_the_run_does(tmp_path: Path) -> None:
    write_weights(tmp_path, run_model("timm:test_vit", 64, fit="squash", eval_crop=None), half=False)
    config = timm.data.resolve_model_data_config(timm.create_model(f"local-dir:{tmp_path}"))
    assert (config["crop_mode"], config["crop_pct"]) == ("squash", 1.0)


def test_half_precision_halves_the_file(tmp_path: Path) -> None:
    run = run_model("resnet18", 64)
    sizes = []
    for half in (False, True):
        write_weights(tmp_path, run, half=half)
        sizes.append((tmp_path / "model.safetensors").stat().st_size)
    assert sizes[1] < 0.51 * sizes[0]


@pytest.mark.parametrize("name", ["wide_resnet", "my.nets:build"])
def test_model_that_no_library_knows_is_refused(name: str) -> None:
    run = run_model("wide_resnet_10_1" if name == "wide_resnet" else "mlp")
    if name != "wide_resnet":
        own = nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(768, 2)))
        run = RunModel(run.folder, run.config, run.description, "last", (), own)
    with pytest.raises(UserError, match="is no model of timm or torchvision"):
        loading_lines(run, "folder")
