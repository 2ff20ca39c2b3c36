"""The head of a model is what depends on the number of classes."""

import pytest
from helpers.models import build
from torch import nn

from accel_train.errors import UserError
from accel_train.models.head import head_of


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("cnn", {"9.weight", "9.bias"}),
        ("resnet18", {"fc.weight", "fc.bias"}),
        ("mobilenet_v3_small", {"classifier.3.weight", "classifier.3.bias"}),
        ("squeezenet1_1", {"classifier.1.weight", "classifier.1.bias"}),
        ("googlenet", {f"{path}.{kind}" for path in ("fc", "aux1.fc2", "aux2.fc2") for kind in ("weight", "bias")}),
    ],
)
def test_head_of_models(name: str, head: set[str]) -> None:
    one, other = (build(name, classes=classes, channels=3, data_size=32).module for classes in (3, 4))
    assert head_of(one, other, name) == head


def test_model_that_ignores_the_number_of_classes_is_refused() -> None:
    with pytest.raises(UserError) as caught:
        head_of(nn.Linear(2, 3), nn.Linear(2, 3), "my.nets:three")
    assert "--model my.nets:three has no head" in caught.value.message
    assert caught.value.hint == "build the last layer for the number of classes that the function is called with"
