"""A run starts from given weights with the preprocessing that belongs to them; a resumed one needs them no more."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.descriptions import description
from torch import Tensor

from accel_train.config.options import ResolvedConfig, TrainConfig
from accel_train.config.resolve import resolve
from accel_train.data.sources.base import DataSet
from accel_train.data.sources.memory import MemorySource, memory_data
from accel_train.errors import UserError
from accel_train.models.base import Preprocessing, Weights
from accel_train.models.build import build_model
from accel_train.models.whitening import PatchWhitening
from accel_train.run import initial_model as module
from accel_train.run.initial_model import Start, find_start, fit_to_images, initial_model

IMAGENET = Preprocessing(64, (0.5, 0.4, 0.3), (0.1, 0.2, 0.3), "bicubic", crop=0.95, fit="squash")


def data(classes: tuple[str, ...] = ("a", "b"), *, channels: int = 3, dtype: torch.dtype = torch.uint8) -> DataSet:
    images = (torch.rand(4, channels, 8, 8, generator=torch.Generator().manual_seed(0)) * 255).to(dtype)
    source = MemorySource(classes, images, torch.arange(4) % len(classes))
    return memory_data("synthetic", "", source, source)


def config(**values: Any) -> ResolvedConfig:
    usual = {
        "seed": 0,
        "model": "resnet18",
        "image_size": None,
        "weights": "DEFAULT",
        "fit": None,
        "activation_checkpointing": False,
    }
    return ResolvedConfig.model_construct(**usual | values)


def weights(classes: int, names: tuple[str, ...] | None, preprocessing: Preprocessing | None = IMAGENET) -> Weights:
    given = build_model("resnet18", classes=classes, channels=3, data_size=64, image_size=None).module
    return Weights("those of ImageNet", lambda image_size: given.state_dict(), preprocessing, names)


def start(model: str = "resnet18", **values: Any) -> tuple[DataSet, Any, tuple[str, ...]]:
    found = Start(values.pop("weights", weights(5, ("p", "q", "r", "s", "t"))), ("it has gone on",))
    return initial_model(config(**values), values.pop("data", data()), found, None)


def test_preprocessing_of_weights_is_used_and_told() -> None:
    used, built, notes = start()
    assert (used.mean, used.std, used.interpolation) == (IMAGENET.mean, IMAGENET.std, "bicubic")
    assert (built.image_size, built.adapted_to) == (64, 64)
    assert built.notes == ("images are enlarged from 8 to 64 pixels, as for its weights",)
    assert notes == (
        "it has gone on",
        "weights from those of ImageNet: 120 tensors",
        "head fc replaced: 5 → 2 classes",
        "images as for the weights: 64 pixels, bicubic, mean 0.5 0.4 0.3, std 0.1 0.2 0.3",
    )


def test_image_size_that_was_asked_for_wins_but_the_model_is_still_that_of_the_weights() -> None:
    """Below 64 pixels a ResNet would get another stem, which the weights do not fit."""
    _, built, notes = start(image_size=32)
    assert (built.image_size, built.adapted_to) == (32, 64)
    assert notes[-1].startswith("images as for the weights: 32 pixels (its weights: 64), bicubic, ")


@pytest.mark.parametrize(
    ("fit", "told"), [("squash", ", --fit squash"), ("crop", ", --fit crop (its weights: squash)"), (None, "")]
)
def test_how_pictures_become_square_is_told_if_it_is_not_the_usual_way(fit: str | None, told: str) -> None:
    assert start(fit=fit)[2][-1].partition("std 0.1 0.2 0.3")[2] == told


def test_weights_for_grey_images_and_grey_images_for_weights_of_three_channels() -> None:
    grey = Preprocessing(8, (0.5,), (0.25,), adapted_to=64)
    used, built, _ = start(weights=weights(2, ("a", "b"), grey))
    assert (used.mean, used.std, built.image_size, built.adapted_to) == ((0.5,) * 3, (0.25,) * 3, 8, 64)
    used, built, _ = initial_model(config(), data(channels=1), Start(weights(2, ("a", "b"))), None)
    assert (used.mean, used.std, built.channels) == (IMAGENET.mean, IMAGENET.std, 3)


def test_float_images_remain_as_they_are() -> None:
    used, _, notes = initial_model(config(), data(dtype=torch.float32), Start(weights(2, ("a", "b"))), None)
    assert (used.mean, used.std) == ((0.0,) * 3, (1.0,) * 3)
    assert notes[-1] == "images as for the weights: 64 pixels, bicubic, mean 0 0 0, std 1 1 1"


@pytest.mark.parametrize(
    ("names", "note"),
    [
        (("a", "b"), None),
        (("b", "a"), "head fc replaced: other classes"),
        (("a", "c"), "head fc replaced: other classes"),
        (None, "the head is kept, as if for the same classes: the weights do not name theirs"),
    ],
)
def test_head_is_kept_only_for_the_same_classes(names: tuple[str, ...] | None, note: str | None) -> None:
    _, _, notes = start(weights=weights(2, names))
    assert notes[2:-1] == ((note,) if note else ())


def test_weights_without_preprocessing_take_that_of_the_data() -> None:
    given = data()
    used, built, notes = initial_model(config(image_size=64), given, Start(weights(2, None, None)), None)
    assert (used, built.image_size) == (given, 64)
    assert notes[-1].startswith("the weights do not tell their image size and normalisation: 64 pixels, mean 0.4")


def test_resumed_run_takes_the_preprocessing_that_it_has_stored() -> None:
    gone = Start(error=UserError("the weights are gone", ""))
    stored = description(image_size=16, adapted_to=64, mean=(0.5,) * 3, std=(0.25,) * 3)
    used, built, notes = initial_model(config(), data(), gone, stored)
    assert (used.mean, used.interpolation, built.image_size, built.adapted_to) == ((0.5,) * 3, "bicubic", 16, 64)
    assert notes == ()
    with pytest.raises(UserError, match="the weights are gone"):
        initial_model(config(), data(), gone, None)


def test_weights_that_cannot_be_had_are_an_error_only_when_they_are_needed() -> None:
    found = find_start(TrainConfig(model="cnn", weights="DEFAULT"), data())
    assert (found.weights, found.fit) == (None, None)
    assert "cnn has no published weights" in str(found.error)
    assert find_start(TrainConfig(), data()) == Start()


def test_run_that_resume_names_looks_for_no_weights() -> None:
    assert find_start(TrainConfig(model="timm:hf-hub:any/thing", weights="DEFAULT", resume="runs/a"), data()) == Start()


def test_resumed_run_is_of_the_model_that_it_has_stored() -> None:
    """A repository of the hub that described it may be gone."""
    stored = description(model="resnet18", image_size=16, adapted_to=64)
    for weights in ("none", "DEFAULT"):
        chosen = config(model="timm:hf-hub:gone/away", weights=weights)
        assert initial_model(chosen, data(), Start(), stored)[1].name == "resnet18"


def test_crop_of_the_weights_is_known_before_the_config_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    found = weights(2, None)
    monkeypatch.setattr(module, "initial_weights", lambda model, asked: (found, ()))
    start = find_start(TrainConfig(weights="DEFAULT"), data())
    assert (start.fit, start.architecture) == (("squash", 0.95), None)
    monkeypatch.setattr(module, "architecture_name", lambda model: f"that of {model}")
    assert find_start(TrainConfig(model="timm:hf-hub:a/b", weights="runs/a"), data()).architecture == (
        "that of timm:hf-hub:a/b"
    )


def test_random_weights_of_a_model_that_is_named_by_its_weights_are_told() -> None:
    note = "random weights: --weights DEFAULT starts from those of timm:test_resnet.r160_in1k"
    chosen = config(model="timm:test_resnet.r160_in1k", weights="none")
    assert initial_model(chosen, data(), Start(), None)[2] == (note,)
    assert initial_model(config(model="timm:test_resnet", weights="none"), data(), Start(), None)[2] == ()


def test_model_that_does_not_fit_into_memory_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def build_model(*given: Any, **named: Any) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 102400000000 bytes")

    monkeypatch.setattr("accel_train.run.initial_model.build_model", build_model)
    data: Any = SimpleNamespace(train=SimpleNamespace(shape=(3, 8, 8), classes=("a", "b")))
    chosen = ResolvedConfig.model_construct(seed=0, model="mlp", image_size=9000, weights="none")
    with pytest.raises(UserError, match=r"^--model mlp does not fit into memory: .* 102400000000 bytes$"):
        initial_model(chosen, data, Start(), None)


def test_model_is_initialized_as_asked_and_otherwise_by_itself() -> None:
    usual = config(weights="none")
    asked = usual.model_copy(
        update={"zero_init_residual": False, "head_init_std": 0.5, "batch_norm_momentum": 0.4, "image_size": 32}
    )
    before, after, again = (initial_model(chosen, data(), Start(), None)[1].module for chosen in (usual, asked, asked))
    assert before.get_parameter("layer1.0.bn2.weight").unique().tolist() == [0]
    assert after.get_parameter("layer1.0.bn2.weight").unique().tolist() == [1]
    assert after.get_parameter("fc.weight").std().item() == pytest.approx(0.5, rel=0.1)
    assert {part.momentum for part in after.modules() if isinstance(part, torch.nn.BatchNorm2d)} == {0.4}
    same = {key: torch.equal(value, again.state_dict()[key]) for key, value in after.state_dict().items()}
    assert all(same.values())
    kept = [key for key, value in before.state_dict().items() if torch.equal(value, after.state_dict()[key])]
    assert {"conv1.weight", "layer4.1.conv2.weight", "fc.bias", "bn1.weight"} <= set(kept)


def test_filters_of_a_whitening_layer_are_made_from_normalised_images_spread_over_the_data() -> None:
    images = torch.randint(256, (5_300, 3, 9, 9), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    source = MemorySource(("a", "b"), images, torch.arange(len(images)) % 2)
    held = memory_data("synthetic", "", source, source)
    asked = resolve(TrainConfig(data="synthetic", model="airbench94_4_4_4"), {}, "synthetic", len(images), "fp32")[0]
    built = build_model(asked.model, classes=2, channels=3, data_size=9, image_size=None)
    fit_to_images(asked, held, built)
    means, stds = (torch.tensor(values).view(3, 1, 1) for values in (held.mean, held.std))
    chosen = images[[number * 5_300 // 5_000 for number in range(5_000)]]
    expected = PatchWhitening(3)
    expected.fit([(chosen / 255 - means) / stds])
    torch.testing.assert_close(built.module.get_submodule("whitening").filters, expected.filters)


def test_filters_are_made_on_the_cpu_wherever_the_images_are_held() -> None:
    class OnDevice(Tensor):
        """A tensor that can only be copied from its device."""

        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            assert function is Tensor.cpu, f"{function} is called with a tensor of another device"
            with torch._C.DisableTorchFunctionSubclass():
                return args[0].as_subclass(Tensor)

    class Source(MemorySource):
        def read(self, ids: Any, keys: Any, view: Any) -> Any:
            images_BCHW, labels_B = super().read(ids, keys, view)
            return images_BCHW.as_subclass(OnDevice), labels_B

    images = torch.arange(8 * 3 * 9 * 9).view(8, 3, 9, 9).to(torch.uint8)
    held = memory_data("synthetic", "", *[MemorySource(("a", "b"), images, torch.arange(8) % 2)] * 2)
    moved = replace(held, train=Source(held.train.classes, images, torch.arange(8) % 2))
    asked = resolve(TrainConfig(data="synthetic", model="airbench94_4_4_4"), {}, "synthetic", 8, "fp32")[0]
    filters = []
    for each in (held, moved):
        built = build_model(asked.model, classes=2, channels=3, data_size=9, image_size=None)
        fit_to_images(asked, each, built)
        filters.append(built.module.get_submodule("whitening").filters)
    assert torch.equal(*filters)
