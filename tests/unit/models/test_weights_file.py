"""Files of weights load everywhere, and each of their bytes is verified."""

import hashlib
import os
import re
from pathlib import Path

import pytest
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from accel_train.checkpoints.checkpointer import load_weights
from accel_train.errors import UserError
from accel_train.models import weights_file
from accel_train.models.networks import mlp
from accel_train.models.pretrained import load_initial, weights_in

WEIGHTS: dict[str, Tensor] = {
    'odd "accel_train.sha256":"0': torch.arange(3),
    "half": torch.ones(2, 2, dtype=torch.bfloat16),
    "number": torch.tensor(0.5),
    "nothing": torch.empty(0, 4),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(weights_file.encode(WEIGHTS))
    return path


def test_other_programs_load_the_file(file: Path) -> None:
    found = safetensors.torch.load_file(file)
    assert found.keys() == WEIGHTS.keys()
    assert all(found[name].equal(WEIGHTS[name]) for name in WEIGHTS)
    assert file.read_bytes() == weights_file.encode(dict(reversed(WEIGHTS.items())))


def test_others_can_verify_it_as_documented(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    page = (Path(__file__).parents[3] / "docs/security.md").read_text()
    code = re.search(r"((?:    .*\n)*    assert hashlib.*\n)", page)
    assert code
    program = "".join(line[4:] + "\n" for line in code[1].splitlines())
    exec(program, {})
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    with pytest.raises(AssertionError):
        exec(program, {})


def test_every_byte_is_verified(file: Path) -> None:
    content = file.read_bytes()
    load_weights(file)
    for place in range(len(content)):
        other = ord("\t") if content[place] == ord(" ") else content[place] ^ 1
        file.write_bytes(content[:place] + bytes([other]) + content[place + 1 :])
        with pytest.raises(UserError, match=str(file)):
            load_weights(file)


def test_longer_and_shorter_files_are_refused(file: Path) -> None:
    content = file.read_bytes()
    for changed in (b"", content[:7], content[:100], content[:-1], content + b"\0", b"\xff" * 8 + content[8:]):
        file.write_bytes(changed)
        with pytest.raises(UserError, match=str(file)):
            load_weights(file)


def test_weights_of_another_program_need_no_checksum_except_in_a_run(tmp_path: Path) -> None:
    lone, module = tmp_path / "lone.safetensors", mlp(3, 1, 4)
    safetensors.torch.save_file(module.state_dict(), lone)
    assert load_initial(module, weights_in(lone), 8)[0] == f"weights from {lone}: 6 tensors"
    for load in (load_weights, lambda path: load_initial(module, weights_in(path, needs_checksum=True), 8)):
        with pytest.raises(UserError) as caught:
            load(lone)
        assert caught.value.message == f"{lone} contains no sha256: it is damaged, or not as accel_train wrote it"


def test_damaged_initial_weights_are_refused(tmp_path: Path) -> None:
    path, module = tmp_path / "copy.safetensors", mlp(3, 1, 4)
    content = weights_file.encode(module.state_dict())
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(UserError) as caught:
        load_initial(module, weights_in(path), 8)
    assert caught.value.message == f"{path} is damaged: its sha256 differs"
    assert caught.value.hint == "copy it again from where it was written, or train again"


@pytest.mark.parametrize("name", ["pipe.safetensors", "pipe.pt", "pipe.pth"])
def test_fifo_is_refused(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(UserError, match="it is a FIFO"):
        load_initial(mlp(3, 1, 4), weights_in(tmp_path / name), 8)


def test_digest_is_of_the_file_with_zeros_in_place_of_its_digits(file: Path) -> None:
    content = file.read_bytes()
    with safetensors.safe_open(file, "pt") as opened:
        (digits,) = opened.metadata().values()
    assert hashlib.sha256(content.replace(digits.encode(), b"0" * 64)).hexdigest() == digits
