"""Layers to freeze are the backbone or a number; what has no effect is refused."""

from typing import Any

import pytest

from accel_train.config.options import TrainConfig
from accel_train.errors import UserError


@pytest.mark.parametrize(
    ("given", "freeze"), [(None, None), ("backbone", "backbone"), ("3", "3"), (3, "3"), ("12", "12")]
)
def test_layers_to_freeze(given: Any, freeze: str | None) -> None:
    assert TrainConfig(freeze=given).freeze == freeze


@pytest.mark.parametrize("given", ["0", "-1", "head", "", "1.5", True, 0])
def test_other_layers_are_refused(given: Any) -> None:
    with pytest.raises(UserError) as caught:
        TrainConfig(freeze=given)
    assert caught.value.message == f"--freeze {given}: must be backbone or a number of layers, from 1"
    assert caught.value.hint == "backbone trains the head alone; leave it out to train all layers"


def test_layer_decay_of_a_backbone_that_never_trains_is_refused() -> None:
    with pytest.raises(UserError) as caught:
        TrainConfig(freeze="backbone", layer_decay=0.75)
    assert caught.value.message == "--layer-decay 0.75 has no effect with --freeze backbone: only the head trains"
    assert caught.value.hint == "add --unfreeze-at, or leave one of them out"


@pytest.mark.parametrize("more", [{"freeze": "3"}, {"unfreeze_at": 2}, {"freeze": "backbone", "unfreeze_at": 2}])
def test_layer_decay_of_layers_that_train_is_accepted(more: dict[str, Any]) -> None:
    assert TrainConfig(layer_decay=0.75, **more).layer_decay == 0.75
