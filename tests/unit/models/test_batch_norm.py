"""The momentum of BatchNorm is set in every layer of it."""

import pytest
from helpers.models import build
from torch import nn

from accel_train.errors import UserError
from accel_train.models.batch_norm import set_momentum


@pytest.mark.parametrize("name", ["wide_resnet_10_1", "resnet18", "timm:test_resnet"])
def test_every_batch_norm_has_the_momentum(name: str) -> None:
    model = build(name, channels=3, data_size=32).module
    set_momentum(model, 0.4, name)
    assert {part.momentum for part in model.modules() if isinstance(part, nn.BatchNorm2d)} == {0.4}


def test_model_without_batch_norm_is_refused() -> None:
    with pytest.raises(UserError) as caught:
        set_momentum(build("cnn").module, 0.4, "cnn")
    assert (caught.value.message, caught.value.hint) == (
        "--batch-norm-momentum 0.4: cnn has no BatchNorm",
        "leave it out",
    )
