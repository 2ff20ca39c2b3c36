"""Train, its first lines, pack and evaluate agree on the classes and counts of every awkward folder."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from helpers.cli import Call, assert_refused, in_process, write_pictures
from helpers.layouts import LAYOUTS, Layout
from helpers.marks import chaos
from helpers.privileges import no_privileges
from helpers.runner import Runner, read_metrics

from accel_train.data.packing.manifest import MANIFEST, read_manifest
from accel_train.loggers.text import printable, quantity

TINY = ("--model", "mlp", "--image-size", "32", "--batch-size", "2", "--device", "cpu", "--threads", "1")
GIVEN = {name: layout for name, layout in LAYOUTS.items() if layout.splits}
REFUSED = {name: layout for name, layout in LAYOUTS.items() if not layout.splits}
OTHER_NAMES = (
    *("Train and Val", "train and valid", "training and validation", "TRN and dev", "train_set and val-set"),
    *("TrainImages and ValImages", "train2017 and val2017"),
)
"""Folders that differ from others only by the names of the splits, which unit tests list."""
EVALUATED = {"val and test": 2, "one class": 3}
"""Folders that cannot be trained on, and how many of their pictures can be evaluated."""


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return in_process(tmp_path, monkeypatch, capsys)


@pytest.fixture(scope="module")
def cats_and_dogs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run whose classes are cat and dog."""
    run = Runner(tmp_path_factory.mktemp("run"))
    write_pictures(run.folder / "pics", {"cat": 4, "dog": 4}, size=8)
    assert run("train", "--data", "pics", *TINY, "--epochs", "1", "--output", "out").code == 0
    return run.folder / "out"


def shown(out: str) -> dict[str, tuple[int, int]]:
    """Return the numbers of training and validation pictures of each class, as --verbose shows them."""
    (line,) = re.findall(r"^classes +(.+)$", out, re.MULTILINE)
    return {name: (int(train), int(val)) for name, train, val in re.findall(r"(?:^|, )(.+?) (\d+) \+ (\d+)", line)}


def totals(counts: Mapping[str, tuple[int, int]], layout: Layout) -> dict[str, dict[str, int]]:
    """Return counts as the layout has them: those of a folder without splits are added."""
    assert layout.splits
    if "all" in layout.splits:
        assert all(train and val for train, val in counts.values())
        return {"all": {name: train + val for name, (train, val) in counts.items()}}
    return {split: {name: of[part] for name, of in counts.items()} for part, split in enumerate(("train", "val"))}


@pytest.mark.parametrize(
    "layout", [chaos(layout) if name in OTHER_NAMES else layout for name, layout in GIVEN.items()], ids=GIVEN
)
def test_all_commands_find_the_same_pictures(run: Runner, call: Call, layout: Layout) -> None:
    layout.make(run.folder / "pics")
    assert layout.splits
    expected = {split: {printable(name): n for name, n in counts.items()} for split, counts in layout.splits.items()}
    trained = run("train", "--data", "pics", *TINY, "--epochs", "1", "--output", "trained", "--verbose")
    assert trained.code == 0, trained.err
    counts = shown(trained.out)
    assert totals(counts, layout) == expected
    (record,) = read_metrics(run.folder / "trained", "run")
    contents = record["contents"]
    by_split = (contents["splits"][split]["counts"] for split in ("train", "val"))
    recorded = zip(contents["classes"], *by_split, strict=True)
    assert {printable(name): (train, val) for name, train, val in recorded} == counts

    packed = call("pack", "pics", "dst")
    assert packed.code == 0, packed.err
    manifest = read_manifest(run.folder / "dst" / MANIFEST)
    found = {split: dict(zip(manifest.classes, of, strict=True)) for split, of in manifest.splits.items()}
    assert found == {**layout.splits, **({"test": layout.test} if layout.test else {})}
    assert shown(call("train", "--data", "dst", *TINY, "--dry-run").out) == counts

    held_out = sum(val for _, val in counts.values())
    everything = sum(map(sum, counts.values()))
    of_packed = everything if "all" in layout.splits else held_out  # the packed folder is not the run's
    for words, images in ((), held_out), (("--data", "pics"), held_out), (("--data", "dst"), of_packed):
        evaluated = call("evaluate", "trained", *words, "--device", "cpu")
        assert evaluated.code == 0, evaluated.err
        assert f": {quantity(images, 'image')}, " in evaluated.out

    for note in (note.format(root="pics") for note in layout.notes):
        assert f"note: {note}\n" in trained.out
        used = ", test/" if layout.test else ""  # by `pack`
        assert f"note: {note.replace(used, '')}\n" in packed.out


@pytest.mark.parametrize(("name", "layout"), REFUSED.items(), ids=REFUSED)
def test_all_commands_refuse_the_same_folders(
    tmp_path: Path, call: Call, cats_and_dogs: Path, name: str, layout: Layout
) -> None:
    layout.make(tmp_path / "pics")
    message = layout.error.format(root=Path("pics")) if "{root.parent}" not in layout.error else "are the same folder"
    assert_refused(call("train", "--data", "pics", *TINY), message)
    assert_refused(call("pack", "pics", "dst"), message)
    evaluated = call("evaluate", cats_and_dogs, "--data", "pics", "--device", "cpu")
    if name in EVALUATED:
        assert f": {EVALUATED[name]} images, " in evaluated.out
    else:
        assert_refused(evaluated)


@pytest.mark.parametrize("closed", ["train/dog", "val/dog/2024"])
def test_folder_without_permission_is_refused_by_all_commands(
    tmp_path: Path, call: Call, cats_and_dogs: Path, closed: str
) -> None:
    Layout(("train/cat*3", "train/dog*3", "val/cat*3", "val/dog/2024*3")).make(tmp_path / "pics")
    (tmp_path / "pics" / closed).chmod(0)
    message = f"cannot list pics/{closed}: Permission denied"
    try:
        with no_privileges():
            assert_refused(call("train", "--data", "pics", *TINY), message)
            assert_refused(call("pack", "pics", "dst"), message)
            evaluated = call("evaluate", cats_and_dogs, "--data", "pics", "--device", "cpu")
        if closed.startswith("val"):
            assert_refused(evaluated, message)
        else:
            assert ": 6 images, " in evaluated.out  # training pictures are not listed
    finally:
        (tmp_path / "pics" / closed).chmod(0o700)


def test_picture_without_permission_is_refused_by_name(tmp_path: Path, call: Call) -> None:
    Layout(("cat*3", "dog*3")).make(tmp_path / "pics")
    (tmp_path / "pics/dog/1.png").chmod(0)
    with no_privileges():
        assert_refused(
            call("train", "--data", "pics", *TINY), "cannot read the picture pics/dog/1.png", "Permission denied"
        )
        packed = call("pack", "pics", "dst")
    assert packed.code == 2
    assert packed.err.startswith("error: cannot read the picture pics/dog/1.png: [Errno 13] Permission denied")
