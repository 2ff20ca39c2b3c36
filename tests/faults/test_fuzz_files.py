"""Whatever the files of a run, a pack or a checkpoint hold: an answer or one error, and nothing outside is touched.

A seeded mutation changes one file; the commands that read it must end in time, without a traceback, and may only
give the result that the unchanged files give, unless the file has no checksum.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers.cli import write_pictures
from helpers.mutations import KINDS, OF_FOLDERS, PLANTED, Place, all_names, fingerprint, mutate
from helpers.runner import Ended, Runner

TRAIN = ("--data", "pics", "--model", "mlp", "--image-size", "8", "--batch-size", "4", "--device", "cpu")
RESUME = ("train", *TRAIN, "--epochs", "3", "--workers", "0", "--output", "run")
PACK = ("pack", "pics", "packed", "--side", "8", "--workers", "1")
TRAIN_PACKED = ("train", *TRAIN, "--epochs", "1", "--workers", "0", "--data", "packed", "--output", "new")
EVALUATE = ("evaluate", "run", "--workers", "0")
READERS = {
    "model.safetensors": [EVALUATE],
    "best.safetensors": [(*EVALUATE, "--weights", "best")],
    "data_files.json.gz": [(*EVALUATE, "--data", "more")],
    "config.json": [EVALUATE, RESUME],
    "config.yaml": [EVALUATE, RESUME],
    "train-00000.safetensors": [TRAIN_PACKED],
    "pack.json": [TRAIN_PACKED, PACK],
}
"""The commands that read a file; other files of a run are read when it is resumed, and of a pack when it is repeated.
"""
SECONDS = 10
WITHOUT_PRIVILEGES = """
import sys
from helpers.privileges import no_privileges
from accel_train.cli.app import main
sys.argv = ["accel_train", *sys.argv[1:]]
with no_privileges():
    main()
"""
PLANTS = (
    *(".tmp_config.yaml", ".tmp_metrics.jsonl", ".tmp_model.safetensors", ".tmp_best.safetensors", "profile"),
    *("checkpoints/.tmp_update_000004_ab", "checkpoints/update_000006", "checkpoints/update_000099"),
    *("checkpoints/.tmp_removed_update_000002", "checkpoints/set_aside_update_000004", "log/rank_1.log"),
)
"""Names of a run that were not there."""
PACKED = ("pack.json", "train-00000.safetensors", "val-00000.safetensors")
PLANTS_OF_PACK = (".tmp_pack.json", ".tmp_unfinished.json", ".tmp_train-00000.safetensors", "val-00001.safetensors")
EVIL = "from pathlib import Path\nPath({marker!r}).touch()\ndef touch(**given): pass\n"
BATCHES, PER_BATCH, OF_ALL = 6, 10, 1000


@dataclass(frozen=True)
class Made:
    """The unchanged files, those of another run, and the results; the former were made in `work`."""

    folder: Path
    names: dict[str, list[str]]
    """Of all files and folders of each root."""
    results: dict[tuple[str, ...], object]
    """Of each command, by its words."""

    @property
    def work(self) -> Path:
        return self.folder / "work"


def make_run(at: Runner, *words: str) -> None:
    """Make the folder of a run that has lost its last epoch but not the weights that it exported."""
    assert at("train", *TRAIN, "--epochs", "3", "--keep", "9", "--output", "run", *words).code == 0
    shutil.rmtree(at.folder / "run/checkpoints/update_000006")


def result(folder: Path, command: Sequence[str], out: str) -> object:
    """Return what a command has computed."""
    if command[0] == "evaluate":
        return out
    if command == PACK:
        return [(folder / "packed" / name).read_bytes() for name in PACKED]
    return (folder / command[-1] / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("made")
    at = Runner(folder / "work")
    for name, seed in (("other", 1), ("base", 0)):
        at.folder.mkdir()
        for root, shade in (("pics/train", seed), ("pics/val", 2), ("more", 4)):
            write_pictures(at.folder / root, {"a": 4, "b": 4}, size=12, shade=shade)
        make_run(at, "--seed", str(seed))
        assert at(*PACK).code == 0
        for place in (".", "run"):
            (at.folder / place / "evil.py").write_text(EVIL.format(marker=str(folder / "marker")))
        at.folder.rename(folder / name)
    (folder / "base/run/evil.py").rename(folder / "base/run/log/evil.py")
    (folder / "victim").mkdir()
    shutil.copytree(folder / "base/run/checkpoints", folder / "victim/checkpoints")
    (folder / "victim/precious").write_text("mine\n")
    shutil.copytree(folder / "base", at.folder)
    commands = dict.fromkeys(command for commands in READERS.values() for command in commands)
    results = {command: result(at.folder, command, at(*command).out) for command in commands}
    shutil.rmtree(at.folder)
    return Made(folder, {root: all_names(folder / "base" / root) for root in ("run", "packed")}, results)


def chosen(made: Made, number: int) -> tuple[str, str, str]:
    """Return root, name and kind of a mutation: all kinds in turn, each for one name after another."""
    turn, at = divmod(number, len(KINDS))
    kind = list(KINDS)[at]
    is_run = turn % 3 < 2
    root, planted = ("run", PLANTS) if is_run else ("packed", PLANTS_OF_PACK)
    base = made.folder / "base" / root
    names = [name for name in made.names[root] if kind in OF_FOLDERS or not (base / name).is_dir()]
    names += planted if kind in PLANTED else ()
    before = turn // 3 * 2 + turn % 3 if is_run else turn // 3
    return root, names[(before + 3 * at) % len(names)], kind


def checked(ended: Ended) -> Ended:
    """Check that a command has ended as it should: with a result, or one error and one hint."""
    text = ended.out + ended.err
    assert ended.code in (0, 2), text
    assert "Traceback" not in text
    assert "please report" not in text
    labels = [line.partition(": ")[0] for line in ended.err.splitlines()]
    assert labels.count("error") == labels.count("hint") == (ended.code == 2), ended.err
    assert all(glyph.isprintable() or glyph == "\n" for glyph in text), text
    return ended


def run(folder: Path, words: Sequence[str]) -> Ended:
    return checked(Runner(folder).tasks("-c", WITHOUT_PRIVILEGES, *words, environments=[{}], timeout=SECONDS))


def check(made: Made, number: int) -> None:
    """Mutate a file, run the commands that read it, and look for what must not have happened."""
    root, name, kind = chosen(made, number)
    folder = shutil.copytree(made.folder / "base", made.work)
    victim = shutil.copytree(made.folder / "victim", made.folder / "victim_now")
    if root == "packed" and number // len(KINDS) % 2:
        (folder / "packed/pack.json").rename(folder / "packed/unfinished.json")
        name = name.replace("pack.json", "unfinished.json")
    before = fingerprint(victim)
    done = mutate(Place(folder / root, name, made.folder / "other" / root, victim), kind, number)
    without_checksum = name in ("config.json", "config.yaml", "pack.json", "unfinished.json")
    believed = without_checksum or kind in ("forged field", "swap", "of another")
    try:
        for command in READERS.get(name, [RESUME] if root == "run" else [PACK]):
            ended = run(folder, command)
            trusted = command == PACK or (command == RESUME and kind != "forged field")
            if ended.code == 0 and (trusted or not believed):
                assert result(folder, command, ended.out) == made.results[command], ended.out + ended.err
        assert fingerprint(victim) == before
        assert not (made.folder / "marker").exists()
    except BaseException as error:
        error.add_note(f"mutation {done}")
        raise
    finally:
        for path in (folder, *folder.rglob("*")):
            if not path.is_symlink() and path.is_dir():
                path.chmod(0o755)
        shutil.rmtree(folder)
        shutil.rmtree(victim)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_file_is_believed_or_followed_outside(made: Made, batch: int) -> None:
    for number in range(batch * PER_BATCH, (batch + 1) * PER_BATCH):
        check(made, number)


@pytest.mark.chaos
@pytest.mark.parametrize("number", range(BATCHES * PER_BATCH, OF_ALL))
def test_no_file_is_believed_or_followed_outside_in_a_thousand(made: Made, number: int) -> None:
    check(made, number)
