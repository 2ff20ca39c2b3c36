"""Pictures whose labels are in a file: which of them make each split, in which order, and what is refused."""

from pathlib import Path

import pytest
from helpers.layouts import picture

from accel_train.data.open import open_data, open_for_evaluation
from accel_train.data.sources.base import DataSet, LabelsFrom
from accel_train.data.sources.folder import list_folder, list_pictures
from accel_train.data.sources.labelled import list_labelled
from accel_train.data.sources.picture_files import FolderSource
from accel_train.errors import UserError


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Return a folder of eight pictures."""
    for name in ("a.png", "b.png", "c.png", "d.png", "e.png", "sub/f.png", "sub/g.png", ".hidden.png"):
        path = tmp_path / "pics" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(picture("PNG"))
    return tmp_path / "pics"


def labels(root: Path, *lines: str) -> Path:
    path = root.parent / "labels.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


SPLITS = (
    "file,label,split",
    "a.png,dog,train",
    "sub/g.png,cat,train",
    "b.png,cat,train",
    "c.png,cat,val",
    "d.png,dog,test",
)


def opened(root: Path, *lines: str, with_test: bool = False, val_fraction: float | None = None) -> DataSet:
    return open_data(
        str(root),
        directory=None,
        val_fraction=val_fraction,
        seed=0,
        limit=None,
        labels=LabelsFrom(labels(root, *lines)),
        with_test=with_test,
    )


def labelled(source: object) -> list[tuple[str, int]]:
    assert isinstance(source, FolderSource)
    return list(zip(source.paths, source.labels.tolist(), strict=True))


def refusal(root: Path, *lines: str) -> tuple[str, str]:
    with pytest.raises(UserError) as caught:
        opened(root, *lines)
    return caught.value.message.replace(f"{root.parent}/", ""), caught.value.hint.replace(f"{root.parent}/", "")


def test_splits_of_the_file_are_those_of_the_run(pictures: Path) -> None:
    data = opened(pictures, *SPLITS, with_test=True)
    assert data.train.classes == data.val.classes == ("cat", "dog")
    assert labelled(data.train) == [("b.png", 0), ("sub/g.png", 0), ("a.png", 1)]  # by class, then path
    assert labelled(data.val) == [("c.png", 0)]
    assert labelled(data.test) == [("d.png", 1)]
    assert data.origin == f"from {pictures}, labels from {pictures.parent}/labels.csv"
    assert data.notes == (f"2 pictures in {pictures}, not listed in {pictures.parent}/labels.csv: ignored",)
    without = opened(pictures, *SPLITS)
    assert without.test is None
    assert without.notes[0] == f"not used in {pictures.parent}/labels.csv: the split test"


def test_order_of_lines_and_spelling_of_paths_change_nothing(pictures: Path) -> None:
    first = opened(pictures, *SPLITS).train
    lines = (
        "file,label,split",
        "./b.png,cat,train",
        f"{pictures}/a.png,dog,train",
        "sub//../sub/g.png,cat,train",
        *SPLITS[4:],
    )
    again = opened(pictures, *lines).train
    assert labelled(again) == labelled(first)
    assert again.fingerprint == first.fingerprint  # type: ignore[attr-defined]


def test_fingerprint_differs_with_a_label(pictures: Path) -> None:
    first = opened(pictures, *SPLITS).train
    other = opened(pictures, SPLITS[0], "a.png,dog,train", "sub/g.png,dog,train", *SPLITS[3:]).train
    assert other.fingerprint != first.fingerprint  # type: ignore[attr-defined]
    assert other.labelled_paths() == ("cat/b.png", "dog/a.png", "dog/sub/g.png")  # type: ignore[attr-defined]


def test_file_without_splits_holds_out_as_folders_do(pictures: Path) -> None:
    """The same pictures in class folders and in a file of labels are the same run."""
    for number in range(20):
        path = pictures / "in" / ("cat" if number % 2 else "dog") / f"{number:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture("PNG"))
    root = pictures / "in"
    listed = [f"{path.relative_to(root)},{path.parent.name}" for path in root.rglob("*.png")]
    ours = opened(root, "file,label", *listed, val_fraction=0.4)
    folders = open_data(str(root), directory=None, val_fraction=0.4, seed=0, limit=None)
    assert labelled(ours.train) == labelled(folders.train)
    assert labelled(ours.val) == labelled(folders.val)
    assert ours.notes == folders.notes == ()


def test_test_validates_if_there_is_no_val(pictures: Path) -> None:
    lines = (*SPLITS[:4], "c.png,cat,test")
    data = opened(pictures, *lines, with_test=True)
    assert labelled(data.val) == [("c.png", 0)]
    assert data.test is None
    assert data.notes[0] == f"the split test of {pictures.parent}/labels.csv is used for validation: it has no val"


def test_evaluation_has_the_owners_classes(pictures: Path) -> None:
    def found(split: str, *lines: str) -> list[tuple[str, list[tuple[str, int]]]]:
        file = LabelsFrom(labels(pictures, *lines))
        listing = open_for_evaluation(pictures, ("eel", "dog", "cat"), "runs/x", split=split, labels=file)
        return [(name, labelled(source)) for name, source in listing.splits.items()]

    assert found("val", *SPLITS) == [("val", [("c.png", 2)])]
    assert found("test", *SPLITS) == [("test", [("d.png", 1)])]
    assert found("val", "file,label", "a.png,dog", "b.png,dog") == [("all", [("a.png", 1), ("b.png", 1)])]
    with pytest.raises(UserError, match="lists no pictures of the split test"):
        found("test", "file,label", "a.png,dog")
    with pytest.raises(UserError, match="lists no pictures of the split val"):
        found("val", *SPLITS[:4])
    with pytest.raises(UserError, match=r"labels\.csv holds the class fox, which runs/x lacks"):
        found("val", "file,label", "a.png,fox")


@pytest.mark.parametrize(
    ("lines", "message", "hint"),
    [
        (
            ("file,label", "a.png,cat", "a.png,dog"),
            "labels.csv, line 3: a.png has several labels: cat in line 2 and dog",
            "give each picture one label: several labels per picture cannot be trained on yet",
        ),
        (
            ("file,label", "a.png,cat", "./a.png,cat"),
            "labels.csv, line 3: a.png is listed already in line 2",
            "list each picture once",
        ),
        (
            ("file,label", "a.png,cat", "y.png,dog", "x.png,dog"),
            "labels.csv lists 2 pictures that do not exist, the first in labels.csv, line 3: y.png",
            "give paths below pics, or its place with --data",
        ),
        (
            ("file,label", "g.png,cat", "a.png,dog"),
            "labels.csv lists 1 picture that does not exist, the first in labels.csv, line 2: g.png",
            "give --data pics/sub",
        ),
        (
            ("file,label", "a,cat", "b,dog"),
            "labels.csv lists 2 pictures that do not exist, the first in labels.csv, line 2: a",
            "write names with their endings, such as a.png",
        ),
        (
            ("file,label", "train/a.png,cat", "b.png,dog"),
            "labels.csv lists 1 picture that does not exist, the first in labels.csv, line 2: train/a.png",
            "give paths below pics, such as a.png",
        ),
        (
            ("file,label", "../labels.csv,cat", "a.png,dog"),
            "labels.csv, line 2: ../labels.csv is not below pics",
            "give --data /, and paths below it",
        ),
        (
            ("file,label", "sub,cat", "a.png,dog"),
            "labels.csv lists 1 picture that does not exist, the first in labels.csv, line 2: sub",
            "give paths below pics, or its place with --data",
        ),
        (
            ("file,label", "a.png,cat", "b.png,cat"),
            "labels.csv holds only the class cat",
            "list pictures of two classes or more",
        ),
        (
            ("file,label", "a.png,cat", "b.png,Cat", "c.png,dog"),
            "labels.csv holds the classes 'Cat' and 'cat', whose names read the same",
            "rename one of them, or put their pictures into one folder",
        ),
        (
            ("file,label", "a.png,cat", "b.png,cat", "c.png,dog"),
            "the class dog of labels.csv has 1 picture, too few to split",
            "add some, or remove it",
        ),
        (
            SPLITS[:4],
            "labels.csv lists no pictures of the split val",
            "mark some, or remove the column split: a part is then held out by --val-fraction",
        ),
        (
            (SPLITS[0], "c.png,cat,val"),
            "labels.csv lists no pictures of the split train",
            "mark some, or remove the column split: a part is then held out by --val-fraction",
        ),
        (
            (*SPLITS[:4], "c.png,eel,val"),
            "labels.csv holds the class eel, which the split train of labels.csv lacks",
            "add it there, or leave it out of labels.csv",
        ),
    ],
)
def test_file_that_does_not_fit_the_pictures_is_an_error(
    pictures: Path, lines: tuple[str, ...], message: str, hint: str
) -> None:
    found = refusal(pictures, *lines)
    assert found[0] == message
    assert found[1].replace(str(pictures.parent), "/") == hint


def test_val_fraction_and_labels_without_effect_are_refused(pictures: Path) -> None:
    file = labels(pictures, *SPLITS)
    with pytest.raises(UserError, match=r"--val-fraction has no effect: .*labels\.csv has its own validation pictures"):
        opened(pictures, *SPLITS, val_fraction=0.5)
    options = {"directory": None, "val_fraction": None, "seed": 0, "limit": None}
    with pytest.raises(UserError, match="--labels has no effect on digits, which has its own labels"):
        open_data("digits", **options, labels=LabelsFrom(file))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="--label-column x has no effect without a file of --labels"):
        open_data("digits", **options, labels=LabelsFrom(None, "x"))  # type: ignore[arg-type]


def test_class_folders_list_their_test_pictures_if_they_are_wanted(tmp_path: Path) -> None:
    for path in ("train/cat/1", "train/dog/1", "val/cat/2", "test/dog/3"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / f"{path}.png").write_bytes(picture("PNG"))
    plain, wanted = list_folder(tmp_path), list_pictures(tmp_path, LabelsFrom(), with_test=True)
    assert (set(plain.splits), plain.notes) == ({"train", "val"}, (f"not used in {tmp_path}: test/",))
    assert (set(wanted.splits), wanted.notes) == ({"train", "val", "test"}, ())
    assert labelled(wanted.splits["test"]) == [("dog/3.png", 1)]
    (tmp_path / "test/dog").rename(tmp_path / "test/eel")
    odd = list_pictures(tmp_path, LabelsFrom(), with_test=True)
    assert set(odd.splits) == {"train", "val"}
    assert odd.notes == (f"test/ is not used: {tmp_path}/test holds the class eel, which {tmp_path}/train lacks",)


def test_listing_reads_no_more_than_the_used_splits(pictures: Path) -> None:
    found = list_labelled(pictures, labels(pictures, *SPLITS, "gone.png,cat,test"), None)
    assert set(found.for_training(with_test=False).splits) == {"train", "val"}
    with pytest.raises(UserError, match="1 picture that does not exist"):
        found.for_training(with_test=True)
