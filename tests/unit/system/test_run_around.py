"""Files that a run writes to its folder are recognized, so that no other command replaces them."""

from pathlib import Path

import pytest

from accel_train.errors import UserError
from accel_train.history import files
from accel_train.system import run_around as around
from accel_train.system.atomic_files import refuse_unwritable
from accel_train.system.run_around import RUN_FILES, run_around, run_that_writes


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "a run"
    (folder / "log").mkdir(parents=True)
    (folder / "config.yaml").touch()
    (folder / "metrics.jsonl").touch()
    return folder


def test_all_files_of_a_run_are_known() -> None:
    named = {value for name, value in vars(files).items() if name.isupper() and isinstance(value, str)}
    assert named - {files.EXPORT} | set(files.WEIGHTS.values()) == RUN_FILES  # exports have options of their own


def test_files_by_which_a_run_is_recognized_are_those_that_it_writes() -> None:
    assert set(around._BESIDE) == {files.DATA_FILES, files.METRICS, files.LOCK, *files.WEIGHTS.values()}


@pytest.mark.parametrize("name", ["config.yaml", "model.safetensors", "predictions.csv", "log/rank_0.log"])
def test_file_of_a_run_is_not_replaced(run: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to(run)
    for folder in (run, tmp_path / "link"):
        assert run_that_writes(folder / name) in (run, folder)
        with pytest.raises(UserError) as raised:
            refuse_unwritable(folder / name, "--csv")
        assert "is a file that the run " in raised.value.message
        assert raised.value.hint == "give another --csv"
    refuse_unwritable(run / name, "--csv", of_run=Path(name).name)


@pytest.mark.parametrize("place", ["a run/mine.csv", "config.yaml", "metrics.jsonl"])
def test_other_files_may_be_written(run: Path, tmp_path: Path, place: str) -> None:
    assert run_that_writes(tmp_path / place) is None
    refuse_unwritable(tmp_path / place, "--csv")


def test_run_is_found_around_a_path_and_through_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "runs/a"
    (run / "log").mkdir(parents=True)
    for name in ("config.yaml", "metrics.jsonl", "log/evil.py"):
        (run / name).touch()
    assert run_around(run) == run_around(run / "log/evil.py") == run_around(run / "not/there") == run
    assert run_around(Path("runs/a/../a/log")) == run
    (tmp_path / "link").symlink_to(run / "log")
    assert run_around(tmp_path / "link/evil.py") == run
    for other in (tmp_path / "mine/nets.py", tmp_path / "runs", tmp_path):
        assert run_around(other) is None


def test_folder_with_a_config_alone_is_no_run(tmp_path: Path) -> None:
    for name in ("config.yaml", "config.json"):
        (tmp_path / name).touch()
    assert run_around(tmp_path / "mine") is None
    (tmp_path / "checkpoints").mkdir()
    assert run_around(tmp_path / "mine") is None
    (tmp_path / "model.safetensors").symlink_to("nothing")
    assert run_around(tmp_path / "mine") == tmp_path
