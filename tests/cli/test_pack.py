"""`accel_train pack`: progress, interruption, faults, and training on a packed folder."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.cli import assert_refused, write_pictures
from helpers.marks import slow
from helpers.runner import Runner, clean_environment
from helpers.terminal import OnTerminal
from PIL import Image

from accel_train.cli import progress as progressing


def many_pictures(root: Path, per_class: int, size: tuple[int, int] = (500, 375)) -> Path:
    """Make two classes with links to one picture each."""
    for name in "ab":
        (root / name).mkdir(parents=True)
        Image.effect_noise(size, 40).convert("RGB").save(root / name / "0.jpg")
        for number in range(1, per_class):
            os.link(root / name / "0.jpg", root / name / f"{number}.jpg")
    return root


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


@pytest.mark.parametrize("number", [signal.SIGINT, slow(signal.SIGKILL)], ids=["Ctrl-C", "kill -9"])
def test_interrupted_pack_resumes_to_the_same_bytes(run: Runner, number: signal.Signals) -> None:
    source, folder = many_pictures(run.folder / "src", 640), run.folder / "dst"
    words = [sys.executable, "-m", "accel_train", "pack", str(source), str(folder), "--workers", "1"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while len(list(folder.glob("*.safetensors"))) < 2:  # the first is then recorded
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    if number == signal.SIGINT:
        last = out.splitlines()[-1]
        assert re.fullmatch(r"stopped by SIGINT: \d of 5 shards packed; run the same command again to resume", last)
        assert err == ""
    refused = run("train", "--data", folder, "--dry-run")
    assert_refused(refused, f"{folder} is not completely packed", f"accel_train pack {source} {folder}")
    first = (folder / "all-00000.safetensors").stat().st_mtime_ns
    again = run("pack", source, folder)
    assert again.code == 0, again.err
    assert re.search(r"holds 1,280 pictures in 5 shards, \d of them packed earlier and verified by sha256", again.out)
    assert (folder / "all-00000.safetensors").stat().st_mtime_ns == first
    assert run("pack", source, "whole").code == 0
    assert contents(folder) == contents(run.folder / "whole")


def test_finished_pack_is_verified_and_trains(run: Runner) -> None:
    source = write_pictures(run.folder / "src", {"a": 20, "b": 20}, size=40)
    for words in ("holds 40 pictures in 1 shard;", "is complete: 40 pictures, all 1 shard verified by sha256"):
        ended = run("pack", source, "dst", "--side", "32")
        assert (ended.code, ended.err) == (0, "")
        assert words in ended.out
    options = ("--model", "cnn", "--epochs", "1", "--batch-size", "8", "--output", "out")
    assert run("train", "--data", "dst", *options).code == 0
    (source / "a" / "0.png").touch()
    note = (
        f"note: {source} has changed since dst was packed; pack it again with: accel_train pack {source} dst --side 32"
    )
    assert note in run("train", "--data", "dst", *options[:-1], "other").out
    for data in ((), ("--data", "dst")):
        evaluated = run("evaluate", "out", *data)
        assert evaluated.code == 0
        assert evaluated.err.strip() == note
    assert ": 6 images, " in evaluated.out  # those held out
    assert_refused(run("pack", "nowhere", "dst"), "there is no folder nowhere")


def test_all_damaged_pictures_are_named_at_once(run: Runner) -> None:
    source = write_pictures(run.folder / "src", {"a": 300, "b": 20}, size=4)
    bad = [source / "b" / f"{number}.png" for number in (2, 5)]
    for path in bad:
        path.write_bytes(b"no picture")
    ended = run("pack", source, "dst")
    named = [f"cannot read the picture {path}: not a picture of a known format" for path in bad]
    assert ended.out.splitlines()[-2:] == named
    assert ended.err.splitlines() == [
        "error: 2 of 320 pictures cannot be read",
        "hint: repair or remove them and run the same command again, or leave them out with --on-bad-image skip",
    ]
    for path in bad:
        path.unlink()
    assert "holds 318 pictures in 2 shards" in run("pack", source, "dst").out


def test_damaged_pictures_are_left_out_if_asked(run: Runner) -> None:
    source = write_pictures(run.folder / "src", {"a": 6, "b": 6}, size=8)
    (source / "a" / "3.png").write_bytes(b"")
    for again in (False, True):
        ended = run("pack", source, "dst", "--on-bad-image", "skip")
        assert (ended.code, ended.err) == (0, "")
        assert f"left out: {source / 'a' / '3.png'}: the file is empty" in ended.out
        assert ("is complete: 11 pictures" if again else "holds 11 pictures in 1 shard") in ended.out
    options = ("--model", "mlp", "--image-size", "8", "--batch-size", "2", "--epochs", "1", "--exact")
    for data, *more in ((source, "--on-bad-image", "skip"), ("dst",)):
        trained = run(
            "train", "--data", data, *more, *options, "--augment", "none", "--output", f"of_{Path(data).name}"
        )
        assert (trained.code, trained.err) == (0, "")
        assert "has changed since" not in trained.out
    folder, packed = ((run.folder / f"of_{name}" / "model.safetensors").read_bytes() for name in ("src", "dst"))
    assert folder == packed
    for picture in (source / "b").iterdir():
        picture.write_bytes(b"")
    refused = run("pack", source, "other", "--on-bad-image", "skip")
    assert refused.err.startswith("error: no picture of the class b can be read\nhint: ")


def test_damaged_picture_is_one_error(run: Runner) -> None:
    source = write_pictures(run.folder / "src", {"a": 4, "b": 4})
    (source / "b" / "2.png").write_bytes(b"no picture")
    ended = run("pack", source, "dst")
    assert ended.code == 2
    errors = [line for line in ended.err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert f"cannot read the picture {source / 'b' / '2.png'}" in errors[0]
    assert "Traceback" not in ended.err


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system with space for one and a half shards of 64 × 64 pictures."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_full_disk_is_one_error_and_packing_resumes_with_space(run: Runner, small_disk: Path) -> None:
    source = many_pictures(run.folder / "src", 256, size=(64, 64))
    full = run("pack", source, small_disk / "dst", "--workers", "1")
    assert full.code == 2
    assert full.err.splitlines() == [
        f"error: cannot write {small_disk / 'dst' / 'all-00001.safetensors'}: No space left on device",
        "hint: make room and run the same command again: finished shards are kept",
    ]
    subprocess.run(["mount", "-o", "remount,size=32m", str(small_disk)], check=True)
    assert "2 shards, 1 of them packed earlier" in run("pack", source, small_disk / "dst").out


def test_terminal_shows_a_bar(run: Runner) -> None:
    source = many_pictures(run.folder / "src", 16, size=(64, 64))
    words = ["-m", "accel_train", "pack", str(source), str(run.folder / "dst")]
    with OnTerminal(words, folder=run.folder, environment=clean_environment()) as terminal:
        terminal.expect("32/32")
        terminal.expect("holds 32 pictures in 1 shard")
        assert terminal.ends() == 0


def test_lines_of_a_long_packing_tell_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter((0.0, 9.0, 200.0, 200.0, 200.0, 201.0, 300.0, 300.0, 300.0))
    monkeypatch.setattr(progressing.time, "monotonic", lambda: next(clock))
    with progressing.progress(1000) as show:
        for done in (20, 500, 510, 999):
            show(done)
    assert capsys.readouterr().out == "500 of 1,000 pictures, 3 min 20 s left\n999 of 1,000 pictures, 0 s left\n"
