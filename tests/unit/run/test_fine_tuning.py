"""A config says which layers are frozen and how fast each one learns; what makes no sense is refused."""

from typing import Any

import pytest
from helpers.models import build

from accel_train.config.options import ResolvedConfig, TrainConfig
from accel_train.config.resolve import resolve
from accel_train.errors import UserError
from accel_train.run.fine_tuning import FineTuning, fine_tuning
from accel_train.training.freezing import Freezing

CLASSES = 5


def tuning(model: str = "resnet18", **given: Any) -> FineTuning:
    asked = TrainConfig(**{"model": model, "weights": "runs/a", "epochs": 8, **given})
    config: ResolvedConfig = resolve(asked, {}, "folder", 1000, "fp32")[0]
    return fine_tuning(config, build(model, classes=CLASSES, channels=3, data_size=32), CLASSES)


def refusal(**given: Any) -> tuple[str, str]:
    with pytest.raises(UserError) as caught:
        tuning(**given)
    return caught.value.message, caught.value.hint


def test_nothing_is_done_unless_asked() -> None:
    assert tuning() == FineTuning(Freezing(), {}, ())


def test_frozen_backbone_is_all_but_the_head() -> None:
    found = tuning(freeze="backbone")
    assert len(found.freezing.names) == 122 - 2  # of ResNet-18, with buffers
    assert not [name for name in found.freezing.names if name.startswith("fc.")]
    assert found.notices == (
        "frozen: 9 of 9 layers before the head, up to layer4.1 (11,168,832 of 11,171,397 parameters)",
    )
    assert (found.lr_factors["fc.weight"], found.freezing.epochs) == (1.0, None)


def test_number_of_layers_counts_from_the_input() -> None:
    found = tuning(freeze="2", unfreeze_at=3)
    assert {name.partition(".")[0] for name in found.freezing.names} == {"conv1", "bn1", "layer1"}
    assert not [name for name in found.freezing.names if name.startswith("layer1.1")]
    assert found.notices[0].startswith("frozen for 3 epochs: 2 of 9 layers before the head, up to layer1.0 (")


def test_unfreeze_at_alone_freezes_the_backbone() -> None:
    found = tuning(unfreeze_at=1)
    assert found.freezing.epochs == 1
    assert found.notices[0].startswith("frozen for 1 epoch: 9 of 9 layers ")


def test_learning_rate_decays_by_layer_and_is_multiplied_for_the_head() -> None:
    found = tuning(layer_decay=0.5, head_lr_multiplier=10)
    assert found.freezing == Freezing()
    assert found.notices == ()
    factors = found.lr_factors
    assert (factors["fc.weight"], factors["layer4.1.bn2.bias"], factors["conv1.weight"]) == (10, 0.5, 0.5**9)


def test_random_weights_are_not_frozen() -> None:
    assert refusal(weights="none", freeze="backbone") == (
        "--freeze backbone would keep random weights: no --weights are given",
        "add --weights, or leave --freeze and --unfreeze-at out",
    )
    assert refusal(weights="none", unfreeze_at=2)[0].startswith("--freeze backbone would keep random weights")


def test_users_model_may_have_loaded_weights_itself() -> None:
    asked = TrainConfig(model="my.nets:build", freeze="2", epochs=8)
    config = resolve(asked, {}, "folder", 1000, "fp32")[0]
    built = build("resnet18", classes=CLASSES, channels=3, data_size=32)
    assert len(fine_tuning(config, built, CLASSES).freezing.names) == 22 - 4


@pytest.mark.parametrize(
    ("unfreeze_at", "epochs", "hint"),
    [
        (8, 8, "use --unfreeze-at 2, or give --epochs 9 or more"),
        (9, 3, "use --unfreeze-at 1, or give --epochs 10 or more"),
        (1, 1, "give --epochs 2 or more"),
    ],
)
def test_layers_that_would_train_after_the_run_are_refused(unfreeze_at: int, epochs: int, hint: str) -> None:
    message, found = refusal(unfreeze_at=unfreeze_at, epochs=epochs)
    assert message.startswith(f"--unfreeze-at {unfreeze_at} must be less than the {epochs} epoch")
    assert found == hint


def test_more_layers_than_there_are_are_refused() -> None:
    assert refusal(freeze="10")[0] == "--freeze 10: resnet18 has 9 layers before its head"
