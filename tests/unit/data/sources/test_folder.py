"""Folders become data sets: classes by name, the same labels in train and val, no file ignored silently."""

import os
import shutil
from pathlib import Path

import pytest
from PIL import Image

from accel_train.data.sources.base import DataSet, Request, View
from accel_train.data.sources.folder import list_folder, open_folder, open_folder_for_evaluation
from accel_train.data.sources.picture_files import FolderSource
from accel_train.errors import LocalError, UserError


def make(root: Path, *names: str) -> None:
    """Make small pictures, and empty files of other kinds."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() in (".jpg", ".png", ".gif"):
            Image.new("RGB", (8, 8)).save(path)
        else:
            path.touch()


def many(root: Path, **counts: int) -> None:
    make(root, *(f"{name}/{i:02d}.png" for name, count in counts.items() for i in range(count)))


def opened(root: Path, val_fraction: float | None = None, seed: int = 0) -> DataSet:
    return open_folder(Request(str(root), None, val_fraction, seed))


def paths(source: object) -> tuple[str, ...]:
    assert isinstance(source, FolderSource)
    return source.paths


def refusal(root: Path, val_fraction: float | None = None) -> tuple[str, str]:
    with pytest.raises(UserError) as caught:
        opened(root, val_fraction)
    return caught.value.message, caught.value.hint


def labelled(source: object) -> dict[str, int]:
    assert isinstance(source, FolderSource)
    return dict(zip(source.paths, source.labels, strict=True))


def test_train_and_val_folders_are_the_splits(tmp_path: Path) -> None:
    make(tmp_path, "train/dog/1.jpg", "train/cat/2.jpg", "train/cat/1.jpg", "val/cat/3.jpg", "val/dog/4.jpg")
    data = opened(tmp_path)
    assert data.kind == "folder"
    assert data.train.classes == data.val.classes == ("cat", "dog")
    assert labelled(data.train) == {"cat/1.jpg": 0, "cat/2.jpg": 0, "dog/1.jpg": 1}
    assert labelled(data.val) == {"cat/3.jpg": 0, "dog/4.jpg": 1}
    assert (data.mean, data.std) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def test_hidden_files_and_folders_are_skipped_and_not_counted(tmp_path: Path) -> None:
    """d04"""
    hidden = (".ipynb_checkpoints/x.png", "cat/.ipynb_checkpoints/x.png", "dog/._000.png", ".DS_Store", "cat/.DS_Store")
    many(tmp_path / "train", cat=3, dog=2)
    make(tmp_path / "train", *hidden)
    many(tmp_path / "val", cat=1, dog=1)
    make(tmp_path / "val", *hidden)
    data = opened(tmp_path)
    assert data.train.classes == ("cat", "dog")
    assert (len(data.train), len(data.val), data.ignored_files) == (5, 2, 0)


@pytest.mark.parametrize("where", ["train/", ""])
def test_empty_class_folder_is_rejected(tmp_path: Path, where: str) -> None:
    """d05"""
    many(tmp_path / where, a=3, c=3)
    make(tmp_path / where, "b_empty/readme.txt")
    if where:
        many(tmp_path / "val", a=1, c=1)
    message, hint = refusal(tmp_path)
    assert message == f"the class folder {tmp_path / where / 'b_empty'} holds no pictures"
    assert hint == "add some, or remove the folder"


def test_labels_of_val_are_those_of_train(tmp_path: Path) -> None:
    """d06: val lacks the first class, so numbering its own classes would differ."""
    many(tmp_path / "train", a=2, b=2, c=2)
    many(tmp_path / "val", b=1, c=1)
    assert labelled(opened(tmp_path).val) == {"b/00.png": 1, "c/00.png": 2}


def test_empty_class_in_val_changes_no_label(tmp_path: Path) -> None:
    many(tmp_path / "train", a=2, b=2, c=2)
    many(tmp_path / "val", c=1)
    make(tmp_path / "val", "b/note.txt")
    data = opened(tmp_path)
    assert labelled(data.val) == {"c/00.png": 2}
    assert data.ignored_files == 1


def test_class_in_val_that_train_lacks_is_rejected(tmp_path: Path) -> None:
    many(tmp_path / "train", a=2, b=2)
    many(tmp_path / "val", a=1, zebra=1)
    message, hint = refusal(tmp_path)
    assert message == f"{tmp_path / 'val'} holds the class zebra, which {tmp_path / 'train'} lacks"
    assert hint == f"add it there, or leave it out of {tmp_path / 'val'}"


def test_val_without_pictures_is_rejected(tmp_path: Path) -> None:
    many(tmp_path / "train", a=2, b=2)
    (tmp_path / "val").mkdir()
    assert refusal(tmp_path)[0] == f"{tmp_path / 'val'} holds no pictures in class folders"
    (tmp_path / "val/a").mkdir()
    assert refusal(tmp_path)[0] == f"the class folder {tmp_path / 'val' / 'a'} holds no pictures"


def test_extensions_match_in_any_case_and_other_files_are_counted(tmp_path: Path) -> None:
    """d07"""
    make(tmp_path / "train", "a/SHOUTING.JPG", "a/still.gif", "a/notes.txt", "b/1.png", "b/deep/Thumbs.db", "b/none")
    make(tmp_path / "val", "a/1.jpg", "a/labels.csv")
    data = opened(tmp_path)
    assert paths(data.train) == ("a/SHOUTING.JPG", "a/still.gif", "b/1.png")
    assert data.ignored_files == 4


def test_names_in_any_script_are_kept(tmp_path: Path) -> None:
    """d11"""
    names = ("Äpfel", "猫", "with space", "[red]", "it's")
    many(tmp_path, **dict.fromkeys(names, 5))
    data = opened(tmp_path)
    assert data.train.classes == tuple(sorted(names))
    assert {path.split("/")[0] for path in paths(data.train)} == set(names)
    images, _ = data.train.read(range(len(data.train)), None, View(4, random_crop=False))
    assert images.shape == (len(data.train), 3, 4, 4)


def test_folder_without_class_folders_is_rejected(tmp_path: Path) -> None:
    """t02"""
    make(tmp_path, "1.jpg", "2.jpg")
    assert refusal(tmp_path) == (
        f"{tmp_path} holds no class folders",
        f"put the pictures into {tmp_path}/CLASS/, or give a file of their labels with --labels",
    )


def test_single_class_is_rejected_by_name(tmp_path: Path) -> None:
    many(tmp_path / "train", only=3)
    many(tmp_path / "val", only=1)
    assert refusal(tmp_path)[0] == f"{tmp_path / 'train'} holds only the class folder only"


def test_train_without_val_is_rejected_with_a_hint(tmp_path: Path) -> None:
    many(tmp_path / "train", a=2, b=2)
    message, hint = refusal(tmp_path)
    assert message == f"{tmp_path} has train/ but no val/"
    assert hint == f"add {tmp_path}/val, or split a part off with --data {tmp_path / 'train'}"


def test_val_fraction_with_a_val_folder_is_rejected(tmp_path: Path) -> None:
    many(tmp_path / "train", a=2, b=2)
    many(tmp_path / "val", a=2, b=2)
    assert refusal(tmp_path, 0.5)[0] == f"--val-fraction has no effect: {tmp_path} has its own validation pictures"


def test_nested_folders_belong_to_the_class_at_the_top(tmp_path: Path) -> None:
    make(tmp_path / "train", "a/2024/may/1.png", "a/0.png", "b/x/1.png", "b/a/1.png")
    many(tmp_path / "val", a=1, b=1)
    assert labelled(opened(tmp_path).train) == {"a/0.png": 0, "a/2024/may/1.png": 0, "b/a/1.png": 1, "b/x/1.png": 1}


def test_evaluation_labels_pictures_by_the_runs_classes(tmp_path: Path) -> None:
    many(tmp_path / "plain", b=2, c=1)
    many(tmp_path / "whole/train", a=1, b=1)
    many(tmp_path / "whole/val", c=1)
    plain, whole = (
        open_folder_for_evaluation(tmp_path / name, ("a", "b", "c"), "runs/x") for name in ("plain", "whole")
    )
    assert labelled(plain.splits["all"]) == {"b/00.png": 1, "b/01.png": 1, "c/00.png": 2}
    assert labelled(whole.splits["val"]) == {"c/00.png": 2}
    with pytest.raises(UserError, match="holds the class c, which runs/x lacks"):
        open_folder_for_evaluation(tmp_path / "plain", ("a", "b"), "runs/x")


def test_pictures_are_labelled_in_the_owners_order(tmp_path: Path) -> None:
    many(tmp_path, a=2, c=1)
    source = open_folder_for_evaluation(tmp_path, ("c", "b", "a"), "runs/x").splits["all"]
    assert labelled(source) == {"c/00.png": 0, "a/00.png": 2, "a/01.png": 2}
    assert source.counts.tolist() == [1, 0, 2]


def test_evaluation_finds_the_validation_pictures_of_any_layout(tmp_path: Path) -> None:
    many(tmp_path / "pics/Validation", a=1, b=1)
    assert list(open_folder_for_evaluation(tmp_path / "pics", ("a", "b"), "runs/x").splits) == ["val"]
    many(tmp_path / "pics/Testing", a=2, b=2)
    assert len(open_folder_for_evaluation(tmp_path / "pics", ("a", "b"), "runs/x").splits["val"]) == 2
    many(tmp_path / "train_only/train", a=1, b=1)
    with pytest.raises(UserError) as caught:
        open_folder_for_evaluation(tmp_path / "train_only", ("a", "b"), "runs/x")
    assert caught.value.message == f"{tmp_path / 'train_only'} has train/ but no val/"
    assert caught.value.hint == f"add {tmp_path / 'train_only'}/val, or give --data {tmp_path / 'train_only' / 'train'}"


def test_fingerprint_is_that_of_paths_and_sizes(tmp_path: Path) -> None:
    many(tmp_path / "one", a=2, b=2)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    fingerprints = [list_folder(tmp_path / name).splits["all"].fingerprint for name in ("one", "two")]
    (tmp_path / "two/a/00.png").rename(tmp_path / "two/a/x.png")
    fingerprints.append(list_folder(tmp_path / "two").splits["all"].fingerprint)
    (tmp_path / "one/a/00.png").write_bytes(b"")
    fingerprints.append(list_folder(tmp_path / "one").splits["all"].fingerprint)
    assert fingerprints[0] == fingerprints[1]
    assert len(set(fingerprints)) == 3


def test_spelling_of_the_path_makes_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many(tmp_path / "pics", a=2, b=2)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("pics")
    listed = [list_folder(Path(name)).splits["all"] for name in ("pics", "pics/", "./pics", "pics/.", "link")]
    monkeypatch.chdir(tmp_path / "pics")
    listed.append(list_folder(Path()).splits["all"])
    assert {(source.paths, source.fingerprint) for source in listed} == {(listed[0].paths, listed[0].fingerprint)}


def test_adding_a_picture_moves_no_other(tmp_path: Path) -> None:
    many(tmp_path, a=20, b=20)
    before = labelled(opened(tmp_path).val)
    make(tmp_path, "a/000.png", "b/9z.png")
    assert before.keys() <= labelled(opened(tmp_path).val).keys()


def test_picture_that_has_become_a_fifo_does_not_block(tmp_path: Path) -> None:
    many(tmp_path, a=2, b=2)
    source = list_folder(tmp_path).splits["all"]
    (tmp_path / "a/00.png").unlink()
    os.mkfifo(tmp_path / "a/00.png")
    with pytest.raises(LocalError, match="cannot read the picture"):
        source.read([0], None, View(4, random_crop=False))
    with pytest.raises(UserError, match="cannot read the picture"):
        _ = source.shape
