"""A packed folder that is damaged ends a run with one error: no result contains its pictures."""

import hashlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
from helpers.cli import assert_refused
from helpers.faults import Program, started
from helpers.marks import chaos, slow
from helpers.runner import Runner
from PIL import Image

OPTIONS = ("--model", "mlp", "--image-size", "8", "--batch-size", "8", "--device", "cpu")
SHARD = "train-00000.safetensors"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with pictures, packed, and a run trained on them."""
    at_top = Runner(tmp_path_factory.mktemp("packed"))
    for split, count in (("train", 32), ("val", 8)):
        for name in "ab":
            (at_top.folder / "src" / split / name).mkdir(parents=True)
            for number in range(count):
                Image.effect_noise((12, 10), 90).convert("RGB").save(
                    at_top.folder / "src" / split / name / f"{number}.png"
                )
    assert at_top("pack", "src", "packed", "--side", "10").code == 0
    ended = at_top("train", *OPTIONS, "--data", "packed", "--epochs", "1", "--output", "run")
    assert ended.code == 0, ended.err
    return at_top.folder


@pytest.fixture
def place(run: Runner, made: Path) -> Runner:
    shutil.copytree(made, run.folder, dirs_exist_ok=True)
    manifest = run.folder / "packed/pack.json"
    manifest.write_text(manifest.read_text().replace(str(made), str(run.folder)))
    return run


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def hint(place: Runner) -> str:
    return f"hint: repair it with: accel_train pack {place.folder}/src packed --side 10"


@pytest.mark.parametrize(("processes", "workers"), [(1, "0"), (2, "2"), chaos(1, "2"), chaos(2, "0")])
def test_flipped_byte_ends_training(place: Runner, processes: int, workers: str) -> None:
    flip(place.folder / "packed" / SHARD, -1)
    words = ("train", *OPTIONS, "--data", "packed", "--workers", workers, "--epochs", "2", "--output", "out")
    ended = place(*words, processes=processes)
    assert ended.code == 2, ended.err
    errors = [line for line in ended.err.splitlines() if line.startswith(("error", "hint"))]
    assert errors == [f"error: packed/{SHARD} is damaged: the XXH3 hash of picture 63 differs", hint(place)]
    assert "Traceback" not in ended.err
    assert not list((place.folder / "out").glob("*.safetensors"))
    assert not list((place.folder / "out/checkpoints").glob("update_*"))


@pytest.mark.parametrize(("processes", "workers"), [(1, "0"), (2, "2"), chaos(1, "2"), chaos(2, "0")])
def test_flipped_byte_ends_evaluation(place: Runner, processes: int, workers: str) -> None:
    flip(place.folder / "packed/val-00000.safetensors", -1)
    ended = place("evaluate", "run", "--workers", workers, processes=processes)
    assert ended.code == 2, ended.err
    errors = [line for line in ended.err.splitlines() if line.startswith(("error", "hint"))]
    assert errors == [
        "error: packed/val-00000.safetensors is damaged: the XXH3 hash of picture 15 differs",
        hint(place),
    ]
    assert ended.out == ""


@pytest.mark.parametrize("byte", [900, chaos(0), chaos(9)])
def test_damaged_index_is_one_error_on_all_processes(place: Runner, byte: int) -> None:
    flip(place.folder / "packed" / SHARD, byte)
    ended = place("train", *OPTIONS, "--data", "packed", "--output", "out", processes=2)
    assert ended.code == 2
    assert_refused(ended, f"packed/{SHARD} is damaged: ", hint(place))
    assert not (place.folder / "out").exists()


def test_pack_repairs_damaged_shards(place: Runner) -> None:
    folder = place.folder / "packed"
    whole = {path.name: path.read_bytes() for path in folder.glob("*s*")}
    flip(folder / SHARD, -1)
    flip(folder / "val-00000.safetensors", 9)
    record = json.loads((folder / "pack.json").read_text())
    record["shards"]["val-00000.safetensors"]["index_bytes"] -= 1
    (folder / "pack.json").write_text(json.dumps(record))
    repaired = place("pack", place.folder / "src", "packed", "--side", "10")
    assert repaired.code == 0, repaired.err
    assert {path.name: path.read_bytes() for path in folder.glob("*s*")} == whole


def test_shards_of_another_place_are_refused(place: Runner) -> None:
    """A shard whose own index is sound, but which pack.json does not mean."""
    folder = place.folder / "packed"
    (folder / "other").mkdir()
    for name in "ab":
        shutil.copytree(place.folder / "src/train" / name, place.folder / "other/train" / name[::-1] / "x")
        shutil.copytree(place.folder / "src/val" / name, place.folder / "other/val" / name[::-1])
    assert place("pack", "other", "elsewhere", "--side", "10").code == 0
    shutil.copy(place.folder / "elsewhere" / SHARD, folder / SHARD)
    ended = place("train", *OPTIONS, "--data", "packed", "--output", "out")
    assert_refused(ended, f"packed/{SHARD} is damaged: the sha256 of its index differs")


@pytest.mark.parametrize(
    ("name", "position", "value"),
    [("widths", 5, 2**31 - 1), ("offsets", 0, 2**40), ("heights", 63, -1), ("offsets", 63, -7)],
)
def test_pack_that_somebody_made_with_matching_checksums_is_refused(
    place: Runner, name: str, position: int, value: int
) -> None:
    path, manifest = place.folder / "packed" / SHARD, place.folder / "packed/pack.json"
    tensors = safetensors.torch.load_file(path)
    tensors[name][position] = value
    path.write_bytes(safetensors.torch.save(tensors))
    describe(manifest, path, tensors["pixels"].nbytes)
    ended = place("train", *OPTIONS, "--data", "packed", "--output", "out")
    assert_refused(ended, f"packed/{SHARD} is damaged: picture {position} has ")


def describe(manifest: Path, shard: Path, pixels: int) -> None:
    """Write the checksums of a shard to the manifest."""
    content, record = shard.read_bytes(), json.loads(manifest.read_text())
    index = content[: len(content) - pixels]
    record["shards"][shard.name] = {
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
        "index_sha256": hashlib.sha256(index).hexdigest(),
        "index_bytes": len(index),
    }
    manifest.write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record["shards"].pop(SHARD), "packed/pack.json is damaged: 80 pictures in 1 shard"),
        (
            lambda record: record["splits"].update(train=[10**12, 10**12]),
            "packed/pack.json is damaged: 2,000,000,000,016 pictures in 2 shards",
        ),
        (
            lambda record: record.update(pictures_per_shard=2**50, splits={"train": [2**40, 0], "val": [8, 8]}),
            "packed/pack.json is damaged: 1,099,511,627,792 pictures in 2 shards",
        ),
        (lambda record: record["splits"].update(train=[40, 40]), "64 offsets of 80 pictures"),
        (lambda record: record.update(side=9), "picture 0 has 10 × 12 pixels"),
    ],
)
def test_manifest_that_does_not_fit_the_shards_is_refused(
    place: Runner, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    manifest = place.folder / "packed/pack.json"
    record = json.loads(manifest.read_text())
    change(record)
    manifest.write_text(json.dumps(record))
    assert_refused(place("train", *OPTIONS, "--data", "packed", "--output", "out"), message)


def cut(path: Path) -> None:
    replace(path, path.read_bytes()[:100])


def replace_index(path: Path) -> None:
    tensors = safetensors.torch.load_file(path)
    replace(path, safetensors.torch.save(tensors | {"offsets": tensors["offsets"].flip(0)}))


def replace(path: Path, content: bytes) -> None:
    (path.parent / "new").write_bytes(content)
    (path.parent / "new").replace(path)


def change_in_place(path: Path) -> None:
    with path.open("rb+") as file:
        file.seek(-3, os.SEEK_END)
        byte = file.read(1)
        file.seek(-3, os.SEEK_END)
        file.write(bytes([byte[0] ^ 255]))


@contextmanager
def training(place: Runner, *options: str) -> Iterator[Program]:
    words = (*OPTIONS, "--data", "packed", *options, "--epochs", "100000", "--keep", "1", "--output", "out")
    with started(place.folder, *words) as program:
        program.wait_for(lambda: program.saved() > 0)
        yield program


@pytest.mark.parametrize(
    ("change", "workers", "message"),
    [
        (change_in_place, "0", f"packed/{SHARD} is damaged: the XXH3 hash of picture "),
        (cut, "2", f"packed/{SHARD} has 100 bytes instead of "),
        (replace_index, "2", f"packed/{SHARD} is damaged: the sha256 of its index differs"),
        (Path.unlink, "0", f"cannot read packed/{SHARD}: No such file or directory"),
        slow(change_in_place, "2", f"packed/{SHARD} is damaged: the XXH3 hash of picture "),
        slow(cut, "0", f"packed/{SHARD} has 100 bytes instead of "),
    ],
)
def test_shard_that_changes_while_a_run_trains_ends_it(
    place: Runner, change: Callable[[Path], object], workers: str, message: str
) -> None:
    with training(place, "--workers", workers) as program:
        change(place.folder / "packed" / SHARD)
        assert program.wait() == 2
    error, *rest = program.err.splitlines()
    assert error.startswith(f"error: {message}")
    assert rest == [hint(place)]


def test_touched_shard_and_equal_copy_do_not_end_a_run(place: Runner) -> None:
    path = place.folder / "packed" / SHARD
    with training(place, "--workers", "2") as program:
        for change in (path.touch, lambda: replace(path, path.read_bytes())):
            change()
            before = program.saved()
            program.wait_for(lambda before=before: program.saved() > before + 40)
        os.kill(program.pid, signal.SIGTERM)
        assert program.wait() == 128 + signal.SIGTERM
    assert program.err == ""


def test_shard_that_becomes_shorter_in_place_is_explained(place: Runner) -> None:
    """A worker may be just reading it; then the system ends that worker."""
    with training(place, "--workers", "2") as program:
        os.truncate(place.folder / "packed" / SHARD, 100)
        assert program.wait() == 2
    # torch may have printed a line of its own, and a zero byte.
    lines = (line.lstrip("\0") for line in program.err.splitlines())
    error, *rest = (line for line in lines if line.startswith(("error:", "hint:")))
    assert error.startswith(f"error: packed/{SHARD} has 100 bytes instead of ") or error in (
        "error: a loader worker ended by a bus error: a file of the data has become shorter, or is unreadable",
        "error: a loader worker exited, perhaps because a file has become shorter, or memory is full",
    )
    assert len(rest) == 1
