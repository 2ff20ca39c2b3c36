"""A run's folder is chosen, created, described and read back, or rejected before anything is written."""

import gzip
import json
import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.descriptions import description

from accel_train.checkpoints.data_files import read_files
from accel_train.checkpoints.run_folder import (
    CONFIG,
    DATA_FILES,
    DESCRIPTION,
    check_destination,
    make,
    numbered,
    plain_values,
    read_description,
    remove_empty,
    write,
)
from accel_train.errors import UserError

DESCRIBED = description(classes=("Äpfel", "猫"))


SPLIT = {"images": 2, "counts": [1, 1], "fingerprint": None}
FILES = {"train": {"猫/1.jpg": 5, "a\nb/\udcff.png": 0}, "val": {}}


def refusal(output: Path) -> tuple[str, str]:
    with pytest.raises(UserError) as caught:
        check_destination(output)
    return caught.value.message, caught.value.hint


@pytest.fixture
def ordinary_user() -> Iterator[None]:
    """Run the test as a user whom permissions restrict."""
    root = os.geteuid() == 0
    if root:
        os.setresuid(65534, 65534, 0)
    yield
    if root:
        os.setresuid(0, 0, 0)


def test_runs_are_numbered_without_creating_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert numbered("digits_cnn") == ([], Path("runs/digits_cnn_001"))
    assert not Path("runs").exists()
    for other in ("digits_cnn_002", "digits_cnn_1004", "digits_cnn_004", "digits_cnn_12", "my_digits_cnn_007", "008"):
        make(Path("runs", other))
    found = [Path(f"runs/digits_cnn_{number}") for number in ("1004", "004", "002")]
    assert numbered("digits_cnn") == (found, Path("runs/digits_cnn_1005"))
    assert numbered("digits_mlp") == ([], Path("runs/digits_mlp_001"))
    make(Path("runs/a[1]_cnn_001"))
    assert numbered("a[1]_cnn") == ([Path("runs/a[1]_cnn_001")], Path("runs/a[1]_cnn_002"))


@pytest.mark.parametrize("name", ["new", "new/and/deep", "empty"])
def test_new_or_empty_folder_is_accepted(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    assert check_destination(tmp_path / name) == tmp_path / name
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_folder_with_foreign_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / ".hidden").touch()
    assert refusal(tmp_path) == (
        f"--output {tmp_path} is not empty: .hidden does not belong to a run",
        "give a new or empty folder",
    )


def test_folder_of_run_that_died_before_saving_is_accepted(tmp_path: Path) -> None:
    make(tmp_path)
    for name in (".lock", ".tmp_config.yaml", "metrics.jsonl"):
        (tmp_path / name).touch()
    assert check_destination(tmp_path) == tmp_path


def test_file_as_destination_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert refusal(file) == (f"--output {file} is a file", "give a folder")
    assert refusal(file / "below")[0] == f"cannot create the run folder {file / 'below'}: {file} is a file"


@pytest.mark.usefixtures("ordinary_user")
def test_unwritable_destination_is_reported() -> None:
    output = Path("/no_such_folder/run")
    assert refusal(output) == (f"cannot write to the run folder {output}: no permission in /", "give another --output")


def test_unreadable_destination_is_reported(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0)
    request.getfixturevalue("ordinary_user")
    message, hint = refusal(closed / "run")
    assert message == f"cannot read the run folder {closed / 'run'}: no permission for {closed / 'run'}"
    assert hint == "give another --output"


def test_make_accepts_existing_folder_unless_it_must_be_new(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    make(folder, new=True)
    make(folder)
    assert folder.is_dir()
    with pytest.raises(FileExistsError):
        make(folder, new=True)


def test_only_a_folder_with_nothing_but_a_lock_is_removed(tmp_path: Path) -> None:
    for name in ("mine", "config.yaml", ".lock"):
        folder = tmp_path / name.strip(".")
        folder.mkdir()
        (folder / ".lock").touch()
        (folder / name).touch()
        remove_empty(folder)
        assert folder.exists() == (name != ".lock")
    remove_empty(tmp_path / "missing")


def test_empty_parents_are_removed_too(tmp_path: Path) -> None:
    folder = tmp_path / "kept/a/b"
    folder.mkdir(parents=True)
    (tmp_path / "kept/mine").touch()
    remove_empty(folder, folder.parent, tmp_path / "kept")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["mine"]


def test_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError) as caught:
        make(tmp_path / "file" / "run")
    assert caught.value.message == f"cannot create the run folder {tmp_path / 'file' / 'run'}: Not a directory"


def test_description_survives_write_and_read(tmp_path: Path) -> None:
    write(tmp_path, "lr: 0.1  # flag\n", DESCRIBED, None)
    assert read_description(tmp_path) == DESCRIBED
    assert (tmp_path / CONFIG).read_text(encoding="utf-8") == "lr: 0.1  # flag\n"
    text = (tmp_path / DESCRIPTION).read_text(encoding="utf-8")
    assert "猫" in text
    assert json.loads(text)["format"] == 3


def test_equal_runs_write_equal_bytes(tmp_path: Path) -> None:
    written = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, "", replace(DESCRIBED), FILES)
        written.append([(tmp_path / name / file).read_bytes() for file in (DESCRIPTION, DATA_FILES)])
    assert written[0] == written[1]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"{}",
        b'{"format": 3}',
        b'{"format": 3, "model": "cnn", "more": 2}',
    ],
)
def test_damaged_description_is_reported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / DESCRIPTION).write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_description(tmp_path)
    assert caught.value.message.startswith(f"{tmp_path / DESCRIPTION} is damaged: ")
    assert caught.value.hint == "give the folder of another run, or use the version of accel_train that wrote it"


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("image_size", "8", "image_size is '8': must be a whole number"),
        ("image_size", True, "image_size is True: must be a whole number"),
        ("image_size", 2**17, "image_size is 131072: must be at most 65,536"),
        ("channels", 0, "channels is 0: must be at least 1"),
        ("data_size", 2.5, "data_size is 2.5: must be a whole number"),
        ("data_channels", 3, "mean and std have 1 and 1 values for 3 channels"),
        ("std", [0.0], "std.0 is 0.0: must be greater than 0"),
        ("std", [-1.0], "std.0 is -1.0: must be greater than 0"),
        ("std", ["x"], "std.0 is 'x': must be a number"),
        ("std", [math.nan], "std.0 is nan: must be finite"),
        ("mean", [math.inf], "mean.0 is inf: must be finite"),
        ("mean", [10**400], "mean.0 is a number of 1,329 bits: must be a number"),
        ("adapted_to", 0, "adapted_to is 0: must be at least 1"),
        ("interpolation", "nearest", "interpolation is 'nearest': input should be 'bilinear' or 'bicubic'"),
        ("mean", [0.1, 0.2], "mean and std have 2 and 1 values for 1 channels"),
        ("model", 3, "model is 3: input should be a valid string"),
        ("classes", ["a", 3], "classes.1 is 3: input should be a valid string"),
        ("classes", "ab", "classes is 'ab': input should be a valid tuple"),
        ("classes", {"a": 1, "b": 1}, "classes is {'a': 1, 'b': 1}: input should be a valid tuple"),
        ("matches", None, "matches is None: input should be a valid tuple"),
        ("more\x1b", 1, "more\\x1b is unknown"),
        ("splits", {}, "the splits are none instead of train and val"),
        ("splits", {"../x": SPLIT}, "the splits are '../x' instead of train and val"),
        ("splits", {"train": SPLIT, "val": SPLIT | {"counts": [3, -1]}}, "splits.val.counts.1 is -1: must be "),
        ("splits", {"train": SPLIT, "val": SPLIT | {"counts": [3]}}, "the counts of val are not those of 2 images in "),
        ("splits", {"train": SPLIT, "val": {"images": 2}}, "splits.val.counts is missing"),
    ],
)
def test_value_that_cannot_be_right_is_reported(tmp_path: Path, field: str, value: Any, problem: str) -> None:
    write(tmp_path, "", DESCRIBED, None)
    record = json.loads((tmp_path / DESCRIPTION).read_text(encoding="utf-8"))
    (tmp_path / DESCRIPTION).write_text(json.dumps(record | {field: value}))
    with pytest.raises(UserError) as caught:
        read_description(tmp_path)
    assert caught.value.message.startswith(f"{tmp_path / DESCRIPTION} is damaged: {problem}")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[" * 100_000, "it is nested too deeply"),
        (b'{"format": 3, "model": 1' + b"0" * 5000 + b"}", "Exceeds the limit"),
        (b'{"format": 3, "model": "mlp", "model": "cnn"}', "the key 'model' is there twice"),
        (b'{"format": true}', "has format True, this version reads 3"),
    ],
    ids=["deep", "digits", "twice", "format"],
)
def test_json_that_breaks_a_parser_is_reported(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / DESCRIPTION).write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_description(tmp_path)
    assert problem in caught.value.message


def test_list_of_files_survives_write_and_read(tmp_path: Path) -> None:
    write(tmp_path, "", DESCRIBED, FILES)
    assert read_files(tmp_path) == FILES


def test_missing_list_of_files_is_none(tmp_path: Path) -> None:
    assert read_files(tmp_path) is None


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is damaged: its end is missing"),
        (b"{}", "is damaged: Error -3 while decompressing data: incorrect header check"),
        (gzip.compress(b"{}", mtime=0)[:-5], "is damaged: its end is missing"),
        (gzip.compress(b"{", mtime=0), "is damaged: Expecting property name"),
        (gzip.compress(b"[]", mtime=0), "is damaged: it is []: input should be a dictionary"),
        (gzip.compress(b'{"train": {}}', mtime=0), "is damaged: val is missing"),
        (gzip.compress(b'{"train": {}, "val": {}, "../x": {}}', mtime=0), "is damaged: ../x is unknown"),
        (gzip.compress(b'{"train": {"a": -1}}', mtime=0), "is damaged: train.a is -1: must be at least"),
        (gzip.compress(bytes(2**24), mtime=0), "is damaged: it has more than 2,6"),
    ],
)
def test_damaged_list_of_files_is_reported(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / DATA_FILES).write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_files(tmp_path)
    assert caught.value.message.startswith(f"{tmp_path / DATA_FILES} {problem}")
    assert caught.value.hint == "remove it: it only tells which files of the data have changed since"


@pytest.mark.parametrize("name", [DESCRIPTION, DATA_FILES])
@pytest.mark.timeout(10)
def test_file_that_never_ends_is_not_read(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    read = read_description if name == DESCRIPTION else read_files
    with pytest.raises(UserError, match="it is a FIFO"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["checkpoints", "log", "profile", ".lock", "config.yaml", "model.safetensors"])
def test_destination_with_a_link_or_of_the_wrong_kind_is_rejected(tmp_path: Path, name: str) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    run.mkdir()
    other.mkdir()
    is_folder = name in ("checkpoints", "log", "profile")
    ours = "a folder" if is_folder else "a file"
    (run / name).symlink_to(other)
    assert refusal(run) == (
        f"{run / name} is a link, not {ours} of a run",
        "remove it, or give another --output; only that folder itself may be a link",
    )
    (run / name).unlink()
    (run / name).touch() if is_folder else (run / name).mkdir()
    kind = "a file" if is_folder else "a folder"
    assert refusal(run)[0] == f"{run / name} is {kind}, not {ours} of a run"
    (tmp_path / "link").symlink_to(other)
    assert check_destination(tmp_path / "link") == tmp_path / "link"


def test_description_of_another_version_is_not_read(tmp_path: Path) -> None:
    (tmp_path / DESCRIPTION).write_text('{"format": 4, "unheard_of": true}')
    with pytest.raises(UserError) as caught:
        read_description(tmp_path)
    assert caught.value.message == f"{tmp_path / DESCRIPTION} has format 4, this version reads 3"
    assert caught.value.hint == "give the folder of another run, or use the version of accel_train that wrote it"


def test_folder_without_run_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read_description(tmp_path)
    missing = tmp_path / DESCRIPTION
    assert caught.value.message == f"{tmp_path} is not the folder of a run: No such file or directory: {missing}"


def test_plain_values_are_those_of_json() -> None:
    values = {"output": Path("runs/a"), "betas": (0.9, 0.999), "seed": 0, "lr": None}
    assert plain_values(values) == {"output": "runs/a", "betas": [0.9, 0.999], "seed": 0, "lr": None}
