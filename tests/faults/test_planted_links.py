"""A run, a pack or a save writes and removes nothing outside its own folder, whatever links are in it."""

import os
import re
import shutil
from pathlib import Path

import pytest
from helpers.cli import assert_refused, write_pictures
from helpers.faults import TINY
from helpers.mutations import fingerprint
from helpers.runner import Runner

WORDS = ("train", *TINY, "--epochs", "2", "--keep", "2", "--output", "run")
PLANTED = (
    *(".tmp_config.yaml", ".tmp_metrics.jsonl", ".tmp_model.safetensors", ".tmp_best.safetensors"),
    *("checkpoints/update_000024", "checkpoints/update_000099", "checkpoints/.tmp_update_000024_ab"),
    *("checkpoints/.tmp_removed_update_000008", "checkpoints/set_aside_update_000016"),
)
"""Names that a run writes, renames or removes."""
PACK = ("pack", "pics", "packed", "--side", "8", "--workers", "1")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run, a packed folder, and a victim with files of the same names."""
    at = Runner(tmp_path_factory.mktemp("links"))
    write_pictures(at.folder / "pics", {"a": 5, "b": 5}, size=12)
    for command in (WORDS, PACK):
        assert at(*command).code == 0
    shutil.copytree(at.folder / "run", at.folder / "victim")
    (at.folder / "victim/file").write_text("mine")
    return at.folder


@pytest.fixture
def place(run: Runner, made: Path) -> Runner:
    shutil.copytree(made, run.folder, dirs_exist_ok=True)
    return run


def replaced(path: Path, target: Path) -> None:
    """Replace a file or folder by a link."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize("name", ["checkpoints", "log", "profile", "metrics.jsonl", "config.yaml", "best.safetensors"])
def test_run_with_a_link_in_its_folder_is_refused(place: Runner, name: str) -> None:
    victim = place.folder / "victim"
    replaced(place.folder / "run" / name, victim / name)
    before = fingerprint(victim)
    ended = place("train", *TINY, "--epochs", "3", "--output", "run", "--keep", "1")
    kind = "folder" if name in ("checkpoints", "log", "profile") else "file"
    assert_refused(ended, f"run/{name} is a link, not a {kind} of a run", "only that folder itself may be a link")
    assert fingerprint(victim) == before


@pytest.mark.parametrize("target", ["victim/file", "victim/checkpoints/update_000016", "victim/new"])
def test_planted_links_are_not_followed(place: Runner, target: str) -> None:
    for name in PLANTED:
        (place.folder / "run" / name).symlink_to(place.folder / target)
    before = fingerprint(place.folder / "victim")
    ended = place("train", *TINY, "--epochs", "3", "--output", "run", "--keep", "1")
    assert ended.code == 0, ended.err
    assert re.search(r"^resumed at epoch \d of \d, update 16$", ended.out, re.MULTILINE)
    assert fingerprint(place.folder / "victim") == before
    assert not (place.folder / "run/checkpoints/update_000024").is_symlink()
    assert not list((place.folder / "run").glob("**/.tmp_*"))


def test_hard_link_is_not_written_to(place: Runner) -> None:
    for folder, name, command in (
        ("run", ".lock", WORDS),
        ("run", "log/rank_0.log", WORDS),
        ("run", "metrics.jsonl", WORDS),
        ("packed", ".lock", PACK),
        ("packed", "pack.json", PACK),
    ):
        path = place.folder / folder / name
        path.unlink()
        path.hardlink_to(place.folder / "victim/file")
        ended = place(*command)
        assert ended.code == (2 if name == "pack.json" else 0), ended.err
        assert (place.folder / "victim/file").read_text() == "mine"


def test_lock_that_is_no_file_is_refused(place: Runner) -> None:
    for folder, command in (("run", WORDS), ("packed", PACK)):
        (place.folder / folder / ".lock").unlink()
        os.mkfifo(place.folder / folder / ".lock")
        assert_refused(place(*command), f"{folder}/.lock is a FIFO, not a")


def test_profile_is_not_written_through_a_link(place: Runner) -> None:
    (place.folder / "run/profile").mkdir()
    (place.folder / "run/profile/rank_0.json.gz").symlink_to(place.folder / "victim/file")
    ended = place("train", *TINY, "--epochs", "6", "--output", "run", "--profile")
    assert ended.code == 0, ended.err
    assert (place.folder / "victim/file").read_text() == "mine"
    assert (place.folder / "run/profile/rank_0.json.gz").stat().st_size > 100


def test_output_and_runs_may_be_links(place: Runner) -> None:
    for name in ("disk", "disk/runs", "disk/one"):
        (place.folder / name).mkdir()
    (place.folder / "runs").symlink_to("disk/runs")
    (place.folder / "one").symlink_to("disk/one")
    for words in ((), ("--output", "one"), ("--output", "one", "--epochs", "2")):
        ended = place("train", *TINY, "--epochs", "1", *words)
        assert ended.code == 0, ended.err
    assert re.search(r"^resumed at epoch \d of \d, update 8$", ended.out, re.MULTILINE)
    (found,) = (place.folder / "disk/runs").iterdir()
    assert (found / "model.safetensors").is_file()
    assert (place.folder / "disk/one/checkpoints/update_000016").is_dir()


@pytest.mark.parametrize("name", ["pack.json", "all-00000.safetensors", "unfinished.json"])
@pytest.mark.parametrize("target", ["victim/file", "victim/new"])
def test_pack_refuses_a_link_in_place_of_a_file(place: Runner, name: str, target: str) -> None:
    replaced(place.folder / "packed" / name, place.folder / target)
    if name == "pack.json":
        shutil.copy(place.folder / "victim/config.json", place.folder / "packed/unfinished.json")
    before = fingerprint(place.folder / "victim")
    assert_refused(place(*PACK), f"packed/{name} is a link, not a file of a packed folder")
    assert fingerprint(place.folder / "victim") == before


def test_pack_writes_through_no_unfinished_link(place: Runner) -> None:
    for name in ("pack.json", "unfinished.json", "all-00000.safetensors"):
        (place.folder / "packed" / f".tmp_{name}").symlink_to(place.folder / "victim/file")
        (place.folder / "packed" / name).unlink(missing_ok=True)
    ended = place(*PACK)
    assert ended.code == 0, ended.err
    assert (place.folder / "victim/file").read_text() == "mine"
