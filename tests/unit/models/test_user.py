"""A user's function receives the arguments that it accepts, and must return a model."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.models import build
from torch import nn

from accel_train.errors import UserError

NETS = """
import torch
from torch import nn

def some(num_classes, image_size):
    return nn.Linear(image_size, num_classes)

def by_name(*, classes, in_channels, depth=3):
    return nn.Linear(in_channels, classes * depth)

def all_of_them(**offered):
    net = nn.Linear(1, 1)
    net.offered = offered
    return net

def synced(classes):
    return nn.Sequential(nn.Flatten(), nn.SyncBatchNorm(classes))

def nothing(classes):
    return None

def lazy(classes):
    return nn.LazyLinear(classes)

def without_data(classes):
    return nn.Linear(4, classes, device="meta")

def of_complex_numbers(classes):
    return nn.Linear(4, classes, dtype=torch.cfloat)

def frozen(classes):
    return nn.Linear(4, classes).requires_grad_(False)
"""


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a module in the current directory, which is not on the path yet."""
    (tmp_path / "nets_of_a_user.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    monkeypatch.delitem(sys.modules, "nets_of_a_user", raising=False)
    return "nets_of_a_user"


@pytest.mark.parametrize(
    ("function", "read", "expected"),
    [
        ("some", lambda net: tuple(net.weight.shape), (10, 28)),
        ("by_name", lambda net: tuple(net.weight.shape), (30, 4)),
        (
            "all_of_them",
            lambda net: net.offered,
            {"classes": 10, "num_classes": 10, "channels": 4, "in_channels": 4, "image_size": 28},
        ),
    ],
)
def test_function_receives_the_arguments_that_it_accepts(
    nets: str, function: str, read: Callable[[nn.Module], object], expected: object
) -> None:
    built = build(f"{nets}:{function}", channels=4)
    assert read(built.module) == expected
    assert (built.channels, built.image_size, built.notes) == (4, 28, ())


def test_function_receives_the_given_image_size(nets: str) -> None:
    built = build(f"{nets}:some", image_size=17)
    assert built.module.get_parameter("weight").shape == (10, 17)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("{nets}:nothing", "returned NoneType"),
        ("{nets}:synced", r"contains SyncBatchNorm \(1\)"),
        ("{nets}:lazy", "{nets}:lazy: weight has no size yet: its layer is lazy"),
        ("{nets}:without_data", "{nets}:without_data: weight is on the device meta, without data"),
        ("{nets}:of_complex_numbers", "{nets}:of_complex_numbers: weight is torch.complex64"),
        ("{nets}:frozen", "returned a model without weights to train"),
        ("{nets}:absent", "absent"),
        ("no_such_module_here:build", "No module named 'no_such_module_here'"),
    ],
)
def test_function_is_rejected_with_the_reason(nets: str, name: str, message: str) -> None:
    with pytest.raises(UserError, match=message.format(nets=nets)):
        build(name.format(nets=nets))
