"""A damaged checkpoint is reported, and the run resumes from an older one to the same end."""

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.faults import TINY, assert_same_run, finished, started

from accel_train.checkpoints.store import update_of

WORDS = (*TINY, "--epochs", "3", "--save-every", "2updates")
FILES = (
    "MANIFEST.json",
    "best.safetensors",
    "state.json",
    "tensors/shard-00001-model-00001-of-00001.safetensors",
)


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "flip": _flip,
    "truncate": lambda path: os.truncate(path, path.stat().st_size // 2),
    "zero": lambda path: path.write_bytes(bytes(path.stat().st_size)) and None,
    "delete": Path.unlink,
}


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("baseline")
    finished(folder, "--output", folder / "run", *WORDS)
    return folder / "run"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that was killed in its second epoch."""
    folder = tmp_path_factory.mktemp("stopped")
    with started(folder, "--output", folder / "run", *WORDS) as program:
        program.wait_for(lambda: program.saved() >= 10)
    assert not (folder / "run" / "model.safetensors").exists()
    return folder / "run"


@pytest.fixture
def output(stopped: Path, tmp_path: Path) -> Path:
    """Return a copy of that folder."""
    return shutil.copytree(stopped, tmp_path / "run")


def _newest(output: Path) -> Path:
    return max((output / "checkpoints").glob("update_*"), key=update_of)


def assert_falls_back(output: Path, newest: Path, baseline: Path) -> None:
    """Check that the run reports the damage, resumes from an older checkpoint and ends like the baseline."""
    program = finished(output.parent, "--output", output, *WORDS)
    assert f"{newest.name} is damaged" in program.out
    assert 0 < program.resumed() < update_of(newest)
    assert_same_run(output, baseline)


def test_every_file_of_a_checkpoint_is_tested(output: Path) -> None:
    newest = _newest(output)
    assert sorted(path.relative_to(newest).as_posix() for path in newest.rglob("*") if path.is_file()) == sorted(FILES)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_run_resumes_from_an_older_checkpoint(damage: str, name: str, output: Path, baseline: Path) -> None:
    newest = _newest(output)
    DAMAGES[damage](newest / name)
    assert_falls_back(output, newest, baseline)


@pytest.mark.parametrize("name", FILES)
def test_damaged_checkpoint_that_was_asked_for_is_rejected(name: str, output: Path) -> None:
    newest = _newest(output)
    DAMAGES["truncate"](newest / name)  # of the manifest a flipped bit may be in another file's digest
    program = finished(output.parent, "--output", output, "--resume", newest, *WORDS, code=2)
    errors = [line for line in program.err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1, program.err
    assert name in errors[0]
    assert "Traceback" not in program.err


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self._folder),)


def test_pickle_in_a_checkpoint_is_never_loaded(output: Path, baseline: Path, tmp_path: Path) -> None:
    newest = _newest(output)
    data = pickle.dumps(Trap(tmp_path / "sprung"))
    for name in ("x.pkl", "tensors/.metadata"):  # the second is what torch.distributed.checkpoint unpickles
        (newest / name).write_bytes(data)
    assert_falls_back(output, newest, baseline)
    assert not (tmp_path / "sprung").exists()
    pickle.loads(data)
    assert (tmp_path / "sprung").exists()
