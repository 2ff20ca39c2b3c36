"""A model is initialized from a file, or the first tensor that does not fit is reported."""

import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from accel_train.errors import UserError
from accel_train.models.base import Weights
from accel_train.models.build import build_model
from accel_train.models.networks import mlp
from accel_train.models.pretrained import load_initial, weights_in

KEPT = "the head is kept, as if for the same classes: the weights do not name theirs"


def build(name: str, classes: int) -> nn.Module:
    return build_model(name, classes=classes, channels=3, data_size=32, image_size=None).module


def save(module: nn.Module, path: Path) -> Path:
    safetensors.torch.save_file(module.state_dict(), path)
    return path


def changed(module: nn.Module) -> nn.Module:
    """Return the module with all of its tensors changed."""
    for tensor in module.state_dict().values():
        tensor.add_(1)
    return module


def copies(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


HEADS = {
    "cnn": ["9"],
    "mlp": ["5"],
    "wide_resnet_10_1": ["linear"],
    "resnet18": ["fc"],
    "mobilenet_v3_small": ["classifier.3"],
    "squeezenet1_1": ["classifier.1"],
    "vit_b_32": ["heads.head"],
    "googlenet": ["aux1.fc2", "aux2.fc2", "fc"],
    "inception_v3": ["AuxLogits.fc", "fc"],
}


@pytest.mark.parametrize("name", HEADS)
def test_head_for_other_classes_is_kept_and_the_rest_loaded(name: str, tmp_path: Path) -> None:
    given, module = changed(build(name, 7)), build(name, 5)
    fresh, stored = copies(module), copies(given)
    file = save(given, tmp_path / "model.safetensors")
    del given
    sentences = load_initial(module, weights_in(file), 32)
    heads = {f"{layer}.{part}" for layer in HEADS[name] for part in ("weight", "bias")}
    assert sentences == (
        f"weights from {file}: {len(stored) - len(heads)} tensors",
        *(f"head {layer} replaced: 7 → 5 classes" for layer in HEADS[name]),
    )
    for tensor_name, tensor in module.state_dict().items():
        if tensor_name in heads:
            assert_made_small(fresh[tensor_name], tensor)
        else:
            assert torch.equal(tensor, stored[tensor_name]), tensor_name


def assert_made_small(fresh: Tensor, tensor: Tensor) -> None:
    """Assert that weights are the new ones, scaled down to the range of torch's linear layers if theirs is larger."""
    limit, largest = fresh[0].numel() ** -0.5, fresh.abs().max().item()
    if fresh.ndim < 2 or largest <= limit:
        assert torch.equal(tensor, fresh)
    else:
        torch.testing.assert_close(tensor, fresh * (limit / largest))


def test_new_head_is_no_larger_than_linear_layers_of_torch() -> None:
    """timm initializes the heads of EfficientNets by the number of classes, whatever that of the inputs."""
    given, module = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 7)), nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    with torch.no_grad():
        module[1].weight.copy_(torch.tensor([[3.0, -6, 0], [1.5, 0, 4]]))
    tensors = {name: tensor.clone() for name, tensor in given.state_dict().items()}
    load_initial(module, Weights("those of somebody", lambda image_size: tensors), 32)
    expected = torch.tensor([[3.0, -6, 0], [1.5, 0, 4]]) / 6 / 3**0.5
    torch.testing.assert_close(module[1].weight, expected)
    assert torch.equal(module[0].weight, tensors["0.weight"])


def test_head_that_the_weights_lack_is_new(tmp_path: Path) -> None:
    """Networks that were trained without classes have none."""
    given, module = build("resnet18", 7), build("resnet18", 5)
    tensors = {name: tensor for name, tensor in given.state_dict().items() if not name.startswith("fc.")}
    weights = Weights("those of somebody", lambda image_size: tensors, headless=("fc",))
    assert load_initial(module, weights, 32) == (
        "weights from those of somebody: 120 tensors",
        "layer fc is new: the weights have no head",
    )
    with pytest.raises(UserError, match=r"^those of somebody has no fc\.weight "):
        load_initial(module, replace(weights, headless=()), 32)


def test_weights_are_loaded_in_place(tmp_path: Path) -> None:
    given, module = changed(build("resnet18", 5)), build("resnet18", 5)
    addresses = [tensor.data_ptr() for tensor in module.state_dict().values()]
    file = save(given, tmp_path / "any.safetensors")
    assert load_initial(module, weights_in(file), 32) == (f"weights from {file}: 122 tensors", KEPT)
    assert all(torch.equal(t, given.state_dict()[name]) for name, t in module.state_dict().items())
    assert [tensor.data_ptr() for tensor in module.state_dict().values()] == addresses


WRAPPED: dict[str, Callable[[dict[str, Tensor]], Any]] = {
    "plain.pt": lambda weights: weights,
    "ddp.pth": lambda weights: {f"module.{name}": t for name, t in weights.items()},
    "compiled.pt": lambda weights: {f"_orig_mod.module.{name}": t for name, t in weights.items()},
    "timm.pth": lambda weights: {"epoch": 3, "state_dict": weights},
    "torchvision.pth": lambda weights: {"optimizer": {"lr": 0.1}, "model": weights},
}


@pytest.mark.parametrize("file", WRAPPED)
def test_files_of_other_programs_are_loaded(file: str, tmp_path: Path) -> None:
    given, module = changed(mlp(3, 1, 4)), mlp(3, 1, 4)
    torch.save(WRAPPED[file](given.state_dict()), tmp_path / file)
    load_initial(module, weights_in(tmp_path / file), 32)
    assert all(torch.equal(t, given.state_dict()[name]) for name, t in module.state_dict().items())


def test_prefix_that_the_model_itself_has_is_kept(tmp_path: Path) -> None:
    given, module = changed(nn.ModuleDict({"module": nn.Linear(2, 3)})), nn.ModuleDict({"module": nn.Linear(2, 3)})
    load_initial(module, weights_in(save(given, tmp_path / "a.safetensors")), 32)
    assert torch.equal(module["module"].weight, given["module"].weight)


def test_missing_batch_norm_counters_start_at_0(tmp_path: Path) -> None:
    """Old files of torchvision lack them."""
    given = {name: t for name, t in build("resnet18", 5).state_dict().items() if "num_batches" not in name}
    torch.save(given, tmp_path / "old.pth")
    assert load_initial(build("resnet18", 5), weights_in(tmp_path / "old.pth"), 32) == (
        f"weights from {tmp_path / 'old.pth'}: 102 tensors",
        KEPT,
        "20 counters of BatchNorm, missing in the file, start at 0",
    )


def without(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda weights: weights.pop(name)


MISFITS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "missing": (without("3.bias"), "{file} has no 3.bias (256 in the model)"),
    "surplus": (lambda w: w.update(more=torch.ones(2, 3)), "{file} has more (2 × 3), which is not in the model"),
    "shape": (
        lambda w: w.update({"1.weight": torch.ones(256, 64)}),
        "1.weight is 256 × 64 in {file}, but 256 × 16 in the model",
    ),
    "hidden layer": (
        lambda w: w.update({"1.weight": torch.ones(128, 16)}),
        "1.weight is 128 × 16 in {file}, but 256 × 16 in the model",
    ),
    "head of another width": (
        lambda w: w.update({"5.weight": torch.ones(9, 128)}),
        "5.weight is 9 × 128 in {file}, but 3 × 256 in the model",
    ),
    "no tensor": (lambda w: w.update({"1.bias": 3}), "1.bias is a int in {file}, but 256 in the model"),
    "one number": (
        lambda w: w.update(n_averaged=torch.tensor(3)),
        "{file} has n_averaged (one number), which is not in the model",
    ),
}


@pytest.mark.parametrize("what", MISFITS)
def test_tensor_that_does_not_fit_is_reported_and_nothing_loaded(what: str, tmp_path: Path) -> None:
    change, message = MISFITS[what]
    weights = dict(changed(mlp(3, 1, 4)).state_dict())
    change(weights)
    file = tmp_path / "a.pt"
    torch.save(weights, file)
    module = mlp(3, 1, 4)
    fresh = copies(module)
    with pytest.raises(UserError) as caught:
        load_initial(module, weights_in(file), 32)
    assert caught.value.message == message.format(file=file)
    assert all(torch.equal(t, fresh[name]) for name, t in module.state_dict().items())


@pytest.mark.parametrize("name", ["a.safetensors", "a.pt", "a.pth"])
@pytest.mark.parametrize("damage", ["empty", "cut", "noise", "missing", "folder"])
def test_unreadable_file_is_reported(name: str, damage: str, tmp_path: Path) -> None:
    file = tmp_path / name
    weights = mlp(3, 1, 4).state_dict()
    (safetensors.torch.save_file if name == "a.safetensors" else torch.save)(weights, file)
    content = file.read_bytes()
    file.write_bytes({"empty": b"", "cut": content[: len(content) // 2]}.get(damage, os.urandom(len(content))))
    if damage in ("missing", "folder"):
        file.unlink()
    if damage == "folder":
        file.mkdir()
    with pytest.raises(UserError, match=f"cannot read the weights in {file}"):
        load_initial(mlp(3, 1, 4), weights_in(file), 32)


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read the weights in .*model\.safetensors: .*No such file"):
        load_initial(mlp(3, 1, 4), weights_in(tmp_path / "model.safetensors"), 32)


def test_unknown_file_type_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.npz: weights are read from \.safetensors, \.pt, \.pth, \.bin$"):
        load_initial(mlp(3, 1, 4), weights_in(tmp_path / "a.npz"), 32)


class Trap:
    """Creates a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize("kind", ["zip", "old", "bare pickle"])
def test_pickled_code_never_runs(kind: str, tmp_path: Path) -> None:
    file, sprung = tmp_path / "a.pt", tmp_path / "sprung"
    content = {**mlp(3, 1, 4).state_dict(), "trap": Trap(sprung)}
    if kind == "bare pickle":
        file.write_bytes(pickle.dumps({"trap": Trap(sprung)}))
    else:
        torch.save(content, file, _use_new_zipfile_serialization=kind == "zip")
    with pytest.raises(UserError, match="contains more than tensors"):
        load_initial(mlp(3, 1, 4), weights_in(file), 32)
    assert not sprung.exists()
    with suppress(RuntimeError):
        torch.load(file, weights_only=False)  # the trap is a real one
    assert sprung.exists()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda tensor: tensor.to(torch.int8), "5.bias is torch.int8 in {file}, but torch.float32 in the model"),
        (lambda tensor: tensor.to(torch.cfloat), "5.bias is torch.complex64 in {file}, but torch.float32 in the model"),
        (lambda tensor: tensor.to("meta"), "5.bias is torch.strided on meta in {file}"),
    ],
)
def test_numbers_that_a_copy_would_change_are_rejected(
    tmp_path: Path, change: Callable[[Tensor], Tensor], found: str
) -> None:
    module, file = build("mlp", 5), tmp_path / "weights.pt"
    torch.save({name: change(tensor) if name == "5.bias" else tensor for name, tensor in copies(module).items()}, file)
    with pytest.raises(UserError) as caught:
        load_initial(module, weights_in(file), 32)
    assert caught.value.message == found.format(file=file)


def test_names_that_are_no_texts_are_rejected(tmp_path: Path) -> None:
    torch.save({3: torch.zeros(2)}, tmp_path / "weights.pt")
    with pytest.raises(UserError, match="have the name 3, which is no text"):
        load_initial(build("mlp", 5), weights_in(tmp_path / "weights.pt"), 32)
