"""Folders become data sets: classes by name, the same labels in train and val, no file ignored silently."""

from pathlib import Path

import pytest
from PIL import Image

from accel_train.data.sources.base import DataSet, Request, View
from accel_train.data.sources.folder import FolderSource, open_folder, open_folder_for_evaluation
from accel_train.errors import UserError


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
    assert hint == f"add it there or remove {tmp_path / 'val' / 'zebra'}"


def test_val_without_pictures_is_rejected(tmp_path: Path) -> None:
    many(tmp_path / "train", a=2, b=2)
    (tmp_path / "val").mkdir()
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
    assert images.shape == (20, 3, 4, 4)


def test_folder_without_class_folders_is_rejected(tmp_path: Path) -> None:
    """t02"""
    make(tmp_path, "1.jpg", "2.jpg")
    assert refusal(tmp_path) == (
        f"{tmp_path} holds no class folders",
        f"put the pictures into {tmp_path}/CLASS/, one folder for each class",
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
    assert refusal(tmp_path, 0.5)[0] == f"--val-fraction has no effect: {tmp_path} has its own val/"


def test_nested_folders_belong_to_the_class_at_the_top(tmp_path: Path) -> None:
    make(tmp_path / "train", "a/2024/may/1.png", "a/0.png", "b/x/1.png", "b/a/1.png")
    many(tmp_path / "val", a=1, b=1)
    assert labelled(opened(tmp_path).train) == {"a/0.png": 0, "a/2024/may/1.png": 0, "b/a/1.png": 1, "b/x/1.png": 1}


@pytest.mark.parametrize(
    ("fraction", "counts"), [(None, (2, 4)), (0.2, (2, 4)), (0.5, (5, 10)), (0.9, (9, 18)), (0.01, (1, 1))]
)
def test_split_takes_the_same_fraction_of_every_class(
    tmp_path: Path, fraction: float | None, counts: tuple[int, int]
) -> None:
    many(tmp_path, a=10, b=20)
    data = opened(tmp_path, fraction)
    train, val = labelled(data.train), labelled(data.val)
    assert tuple(list(val.values()).count(label) for label in (0, 1)) == counts
    assert train.keys() & val.keys() == set()
    assert len(train | val) == 30
    assert all(label == "ab".index(path[0]) for path, label in (train | val).items())


def test_split_is_determined_by_the_seed(tmp_path: Path) -> None:
    many(tmp_path, a=20, b=20)
    first = paths(opened(tmp_path, 0.5).val)
    assert paths(opened(tmp_path, 0.5).val) == first
    assert paths(opened(tmp_path, 0.5, seed=1).val) != first
    assert first != tuple(f"{name}/{i:02d}.png" for name in "ab" for i in range(10))  # not just the first ones


@pytest.mark.parametrize(("pictures", "fraction"), [(1, None), (3, 0.9)])
def test_class_too_small_to_split_is_rejected(tmp_path: Path, pictures: int, fraction: float | None) -> None:
    many(tmp_path, a=30, b=pictures)
    message, hint = refusal(tmp_path, fraction)
    assert message == f"{tmp_path / 'b'} holds {pictures} pictures, too few to split"
    assert hint == "add some, or lower --val-fraction"


def test_evaluation_labels_pictures_by_the_runs_classes(tmp_path: Path) -> None:
    many(tmp_path / "plain", b=2, c=1)
    many(tmp_path / "whole/train", a=1, b=1)
    many(tmp_path / "whole/val", c=1)
    assert labelled(open_folder_for_evaluation(tmp_path / "plain", ("a", "b", "c"), "runs/x")) == {
        "b/00.png": 1,
        "b/01.png": 1,
        "c/00.png": 2,
    }
    assert labelled(open_folder_for_evaluation(tmp_path / "whole", ("a", "b", "c"), "runs/x")) == {"c/00.png": 2}
    with pytest.raises(UserError, match="holds the class c, which runs/x lacks"):
        open_folder_for_evaluation(tmp_path / "plain", ("a", "b"), "runs/x")


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "data" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "data" / name / "0.png")
    (tmp_path / "elsewhere").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "elsewhere" / "1.png")
    (tmp_path / "data" / "a" / "more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data" / "b" / "circle").symlink_to(tmp_path / "data")
    source = open_folder_for_evaluation(tmp_path / "data", ("a", "b"), "the run")
    assert source.paths == ("a/0.png", "a/more/1.png", "b/0.png")
