"""`accel_train check` lists every bad picture with its reason, and classes and sizes."""

from pathlib import Path

import pytest
from helpers.cli import Call, assert_refused, in_process, write_pictures
from PIL import Image


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return in_process(tmp_path, monkeypatch, capsys)


def make(folder: Path) -> Path:
    for split, count in {"train": 20, "val": 3, "test": 2}.items():
        write_pictures(folder / split, {"cat": count, "dog": count}, size=24)
    Image.new("RGB", (640, 480)).save(folder / "train" / "cat" / "large.jpg")
    (folder / "train" / "cat" / "notes.txt").touch()
    return folder


def test_healthy_folder(call: Call, tmp_path: Path) -> None:
    make(tmp_path / "pics")
    ended = call("check", "pics", "--workers", "1")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        "note: files of other kinds are ignored: 1 × .txt",
        "checking pics: 51 pictures (train 41, val 6, test 4)",
        "class  train  val  test",
        "cat       21    3     2",
        "dog       20    3     2",
        "width × height: 24 × 24 to 640 × 480 pixels, median 24 × 24",
        "all 51 pictures can be read",
    ]


def test_every_bad_picture_is_listed_with_its_reason(call: Call, tmp_path: Path) -> None:
    pics = make(tmp_path / "pics")
    jpeg = pics / "train" / "cat" / "large.jpg"
    jpeg.write_bytes(jpeg.read_bytes()[:-40] + b"\xff\xd9")
    (pics / "val" / "dog" / "1.png").write_bytes(b"")
    (pics / "test" / "dog" / "1.png").write_bytes((pics / "test" / "dog" / "0.png").read_bytes()[:-30])
    ended = call("check", "pics")
    assert (ended.code, ended.err) == (1, "")
    assert ended.out.splitlines()[-4:] == [
        "pics/train/cat/large.jpg: Corrupt JPEG data: premature end of data segment",
        "pics/val/dog/1.png: the file is empty",
        "pics/test/dog/1.png: damaged PNG: it ends within a chunk",
        "3 of 51 pictures cannot be read: repair or remove them, "
        "or leave them out of training with --on-bad-image skip",
    ]


def test_limit_of_pixels(call: Call, tmp_path: Path) -> None:
    make(tmp_path / "pics")
    ended = call("check", "pics", "--max-pixels", "1000")
    assert ended.code == 1
    assert (
        "pics/train/cat/large.jpg: 640 × 480 pixels, more than the 1,000 of --max-pixels, which may be raised\n1 of 51"
        in ended.out
    )
    assert_refused(call("train", "--data", "pics", "--max-pixels", "0"), "--max-pixels 0: must be greater than 0")


def test_packed_folder_is_verified(call: Call, tmp_path: Path) -> None:
    source, packed = write_pictures(tmp_path / "src", {"a": 4, "b": 4}), tmp_path / "packed"
    assert call("pack", source, packed, "--side", "8").code == 0
    assert call("check", packed).out == f"{packed} is complete: all 1 shard verified by sha256\n"
    refused = f"--labels and --label-column have no effect on {packed}, which is packed"
    assert_refused(call("check", packed, "--labels", "x.csv"), refused)
    shard = packed / "all-00000.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1] + b"!")
    ended = call("check", packed)
    assert ended.code == 1
    assert ended.out.splitlines() == [
        f"{shard}: damaged or missing",
        f"1 of 1 shard cannot be used: repair them with: accel_train pack {source} {packed} --side 8",
    ]


def test_saved_data_set_is_checked(call: Call, tmp_path: Path) -> None:
    import datasets

    files = [path.read_bytes() for path in sorted(write_pictures(tmp_path / "src", {"a": 2, "b": 2}).rglob("*.png"))]
    rows = [
        {"image": {"bytes": file[: len(file) - 5 * (n == 2)], "path": None}, "label": n // 2}
        for n, file in enumerate(files)
    ]
    kinds = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])})
    datasets.Dataset.from_list(rows, features=kinds).save_to_disk(tmp_path / "saved")
    ended = call("check", "saved")
    assert (ended.code, ended.out.splitlines()[0]) == (1, "checking saved: 4 pictures (all 4)")
    assert "row 2 of saved: damaged PNG: it ends within a chunk" in ended.out.splitlines()
    assert_refused(call("check", "saved", "--labels", "x.csv"), "--labels has no effect on saved")


def test_folder_that_cannot_be_listed_is_refused(call: Call) -> None:
    assert_refused(call("check", "nowhere"), "there is no folder nowhere")
