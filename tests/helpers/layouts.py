"""Awkward data folders, and what each must give: its classes and counts, or an error."""

import functools
import io
import os
import shutil
import socket
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

_FORMATS = {".png": "PNG", ".jpg": "JPEG"}
Splits = Mapping[str, Mapping[str, int]]
"""Number of pictures by class, by split: train and val, or all."""


@dataclass(frozen=True)
class Layout:
    """A data folder: what to make in it, and what must be found.

    Texts may contain {root}, its path; {out} is a folder beside it.
    """

    tree: Sequence[str]
    """Paths: a picture, another file, or a folder that ends in a slash. `NAME*3` makes three pictures."""
    splits: Splits | None = None
    """What must be found; None for an error."""
    test: Mapping[str, int] = field(default_factory=dict)
    """Test pictures by class, which only `evaluate --split test` and `pack` use."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Targets by path."""
    more: Callable[[Path], None] | None = None
    """Makes what the others cannot."""
    error: str = ""
    """The error's message."""
    ignored: int = 0
    """Number of other files."""
    notes: Sequence[str] = ()

    def make(self, root: Path) -> None:
        for text in self.tree:
            path, _, count = text.partition("*")
            for number in range(int(count or 1)):
                _make(_at(root, f"{path}/{number}.png" if count else path))
        for link, target in self.links.items():
            path = Path(_at(root, link))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target.format(root=root, out=root.parent / "out"))
        if self.more:
            self.more(root)


@functools.cache
def picture(format: str) -> bytes:
    """Return the bytes of a picture of 8 × 8 pixels."""
    content = io.BytesIO()
    Image.new("RGB", (8, 8), (90, 120, 150)).save(content, format)
    return content.getvalue()


def _at(root: Path, path: str) -> str:
    return path.format(root=root, out=root.parent / "out") if path.startswith("{") else f"{root}/{path}"


def _make(path: str) -> None:
    os.makedirs(path if path.endswith("/") else os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
    if not path.endswith("/"):
        format = _FORMATS.get(Path(path).suffix.lower())
        Path(path).write_bytes(picture(format) if format else b"")


def _fifo_and_socket(root: Path) -> None:
    os.mkfifo(root / "cat" / "fifo.jpg")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(root / "cat", os.O_RDONLY)  # the path may be too long for a socket
        listener.bind(f"/proc/self/fd/{here}/socket.png")
        os.close(here)


@contextmanager
def deep_folder(parent: Path, name: str, depth: int) -> Iterator[Path]:
    """Make `depth` folders called `name`, each in the one before, give the last as a path in /proc, and remove them.

    pytest could not remove them: it goes down one call a folder, and the paths are too long.
    """
    last = os.open(parent, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=last)
        inner = os.open(name, os.O_RDONLY, dir_fd=last)
        os.close(last)
        last = inner
    try:
        yield Path(f"/proc/self/fd/{last}")
    finally:
        os.close(last)
        first, rest = parent / name, parent / "rest"
        for _ in range(depth - 1):
            (first / name).rename(rest)
            shutil.rmtree(first)
            rest.rename(first)
        shutil.rmtree(first)


def _hard_link(root: Path) -> None:
    os.link(root / "cat" / "0.png", root / "dog" / "same.png")


NFC, NFD = (unicodedata.normalize(form, "é") for form in ("NFC", "NFD"))
CATS = {"cat": 3, "dog": 3}
PAIR = {"train": {"cat": 3, "dog": 3}, "val": {"cat": 1, "dog": 1}}
_RUN = (
    "config.yaml",
    "config.json",
    "metrics.jsonl",
    ".lock",
    "log/rank_0.log",
    "checkpoints/update_000010/MANIFEST.json",
)


def _pair(train: str, val: str, *more: str) -> tuple[str, ...]:
    return f"{train}/cat*3", f"{train}/dog*3", f"{val}/cat*1", f"{val}/dog*1", *more


_SAME_SPLIT = "{root} holds %s/ and %s/, which mean the same split"

LAYOUTS: dict[str, Layout] = {
    # Splits by name
    "classes": Layout(("cat*3", "dog*3"), {"all": CATS}),
    "train and val": Layout(_pair("train", "val"), PAIR),
    "Train and Val": Layout(_pair("Train", "Val"), PAIR),
    "train and valid": Layout(_pair("train", "valid"), PAIR),
    "training and validation": Layout(_pair("training", "validation"), PAIR),
    "TRN and dev": Layout(_pair("TRN", "dev"), PAIR),
    "train_set and val-set": Layout(_pair("train_set", "val-set"), PAIR),
    "TrainImages and ValImages": Layout(_pair("TrainImages", "ValImages"), PAIR),
    "train2017 and val2017": Layout(_pair("train2017", "val2017"), PAIR),
    "Training and Testing": Layout(
        _pair("Training", "Testing"), PAIR, notes=["Testing/ is used for validation: there is no val/"]
    ),
    "train and eval": Layout(_pair("train", "eval"), PAIR, notes=["eval/ is used for validation: there is no val/"]),
    "train, val and test": Layout(
        _pair("train", "val", "test/cat*5", "docs/x.txt"),
        PAIR,
        test={"cat": 5, "dog": 0},
        notes=["not used in {root}: docs/, test/"],
    ),
    "seg_train and seg_test": Layout(
        _pair("seg_train", "seg_test", "seg_pred/1.png"),
        PAIR,
        notes=["not used in {root}: seg_pred/", "seg_test/ is used for validation: there is no val/"],
    ),
    "test without classes": Layout(
        ("train/cat*3", "train/dog*3", "test1/1.png", "test1/2.png"), error="{root} has train/ but no val/"
    ),
    "only train": Layout(("train/cat*3", "train/dog*3"), error="{root} has train/ but no val/"),
    "train and runs": Layout(
        ("train/cat*3", "train/dog*3", *(f"runs/x/{name}" for name in _RUN)), error="{root} has train/ but no val/"
    ),
    "train in folders, plane in folders": Layout(
        ("train/2024*3", "plane/2024*3"), error="{root} has train/ but no val/"
    ),
    "val and test": Layout(("val/cat*1", "val/dog*1", "test/cat*1"), error="{root} has test/ and val/ but no train/"),
    "val and valid": Layout(_pair("train", "val", "valid/cat*1"), error=_SAME_SPLIT % ("val", "valid")),
    "Train and train": Layout(_pair("Train", "train"), error=_SAME_SPLIT % ("Train", "train")),
    "train, training and val": Layout(
        _pair("train", "val", "training/cat*1"), error=_SAME_SPLIT % ("train", "training")
    ),
    "two sets of splits": Layout(
        _pair("train", "val", "seg_train/cat*1", "seg_val/cat*1"), error=_SAME_SPLIT % ("seg_train", "train")
    ),
    "classes train, plane, bus": Layout(("train*3", "plane*3", "bus*3"), {"all": {"bus": 3, "plane": 3, "train": 3}}),
    "classes valid and invalid": Layout(("valid*3", "invalid*3"), {"all": {"invalid": 3, "valid": 3}}),
    "classes train_station and test_tube": Layout(
        ("train_station*3", "test_tube*3"), {"all": {"test_tube": 3, "train_station": 3}}
    ),
    "splits below classes": Layout(
        ("cat/train*3", "cat/val*1", "dog/train*3", "dog/val*1"),
        error="{root}/cat holds train/ and val/: splits below a class",
    ),
    # What other programs leave
    "@eaDir": Layout(
        (*_pair("train", "val"), "train/@eaDir/x.png", "train/cat/@eaDir/0.png/SYNOPHOTO_THUMB_M.jpg", "@eaDir/x.png"),
        PAIR,
        notes=["folders of other programs are ignored: 3 × @eaDir"],
    ),
    "side-cars": Layout(
        (
            *("cat*3", "dog*3", "__MACOSX/cat/._0.png", "__MACOSX/x.png", "lost+found/x.png", "#recycle/x.png"),
            *("System Volume Information/x.png", "$RECYCLE.BIN/x.png", "cat/.ipynb_checkpoints/0.png", "dog/._0.png"),
            *(".cache/0.png", "dog/__pycache__/0.png", "Network Trash Folder/x.png", "dog/Thumbs.db", "desktop.ini"),
        ),
        {"all": CATS},
        ignored=2,
        notes=[
            "files of other kinds are ignored: 1 × .db, 1 × .ini",
            "folders of other programs are ignored: 1 × #recycle, 1 × $RECYCLE.BIN, 1 × Network Trash Folder, "
            "1 × System Volume Information, 1 × __MACOSX and 2 more",
        ],
    ),
    "runs": Layout(
        ("cat*3", "dog*3", *(f"runs/pics_cnn_00{n}/{name}" for n in (1, 2) for name in _RUN)),
        {"all": CATS},
        notes=["folders of runs and packed folders are ignored: {root}/runs/pics_cnn_001, {root}/runs/pics_cnn_002"],
    ),
    "a run as a class": Layout(
        ("cat*3", "dog*3", *(f"out/{name}" for name in _RUN), "out/curves.png"),
        {"all": CATS},
        notes=["folders of runs and packed folders are ignored: {root}/out"],
    ),
    "a run that has just begun, in a class": Layout(
        ("cat*3", "dog*3", "cat/out/.lock", "cat/out/log/rank_0.log"),
        {"all": CATS},
        notes=["folders of runs and packed folders are ignored: {root}/cat/out"],
    ),
    "a packed folder": Layout(
        ("cat*3", "dog*3", "packed/pack.json", "packed/all-00000.safetensors", "more/packed/unfinished.json"),
        {"all": CATS},
        notes=["folders of runs and packed folders are ignored: {root}/more/packed, {root}/packed"],
    ),
    # Files in the wrong place, and what is no picture
    "pictures beside class folders": Layout(
        ("cat*3", "dog*3", "1.png", "2.JPG", "labels.csv"),
        {"all": CATS},
        ignored=1,
        notes=[
            "2 pictures directly in {root}, in no class folder: ignored",
            "files of other kinds are ignored: 1 × .csv",
        ],
    ),
    "pictures beside splits": Layout(
        (*_pair("train", "val"), "train/1.png", "val/1.png", "val/2.png", "1.png"),
        PAIR,
        notes=[
            "1 picture directly in {root}, in no class folder: ignored",
            "1 picture directly in {root}/train, in no class folder: ignored",
            "2 pictures directly in {root}/val, in no class folder: ignored",
        ],
    ),
    "no class folders": Layout(("1.png", "2.png"), error="{root} holds no class folders"),
    "one class": Layout(("cat*3",), error="{root} holds only the class folder cat"),
    "an empty class": Layout(("cat*3", "dog*3", "eel/"), error="the class folder {root}/eel holds no pictures"),
    "other files": Layout(
        ("cat*3", "dog*3", "cat/a.zip", "dog/sub/b.csv", "cat/c.CSV", "dog/none"),
        {"all": CATS},
        ignored=4,
        notes=["files of other kinds are ignored: 2 × .csv, 1 × no ending, 1 × .zip"],
    ),
    "folders below classes": Layout(
        ("cat/2024/may*2", "cat/0.PNG", "dog/cat*2", "dog/x.jpg/0.png"), {"all": {"cat": 3, "dog": 3}}
    ),
    "no regular files": Layout(
        ("cat*3", "dog*3"),
        {"all": CATS},
        more=_fifo_and_socket,
        ignored=2,
        notes=["files of other kinds are ignored: 1 × .jpg, 1 × .png"],
    ),
    # Classes of two splits
    "val lacks a class": Layout(
        ("train/cat*3", "train/dog*3", "val/dog*1"), {"train": CATS, "val": {"cat": 0, "dog": 1}}
    ),
    "val has another class": Layout(
        _pair("train", "val", "val/eel*1"), error="{root}/val holds the class eel, which {root}/train lacks"
    ),
    "val has Cat for cat": Layout(
        ("train/cat*3", "train/dog*3", "val/Cat*1", "val/dog*1"),
        error="{root}/val holds the class 'Cat', which {root}/train has as 'cat'",
    ),
    "composed and decomposed letters": Layout(
        (f"train/caf{NFC}*3", "train/cag*3", f"val/caf{NFD}*1", "val/cag*1"),
        {"train": {f"caf{NFC}": 3, "cag": 3}, "val": {f"caf{NFC}": 1, "cag": 1}},
    ),
    "Cat and cat": Layout(
        ("Cat*3", "cat*3"), error="{root} holds the classes 'Cat' and 'cat', whose names read the same"
    ),
    "cat and cat with a space": Layout(
        ("cat*3", "cat *3"), error="{root} holds the classes 'cat' and 'cat ', whose names read the same"
    ),
    "cat and cat with a zero-width space": Layout(
        ("cat*3", "cat\u200b*3"), error="{root} holds the classes 'cat' and 'cat\\u200b', whose names read the same"
    ),
    "one letter, composed and decomposed": Layout(
        (f"caf{NFC}*3", f"caf{NFD}*3"),
        error=f"{{root}} holds the classes 'caf{NFD}' and 'caf{NFC}', whose names read the same",
    ),
    "odd names": Layout(
        ("with space*3", "[red]*3", "it's*3", "-n*3", "猫*3", "cat\udcff*3", "line\nbreak*3"),
        {"all": dict.fromkeys(("-n", "[red]", "cat\udcff", "it's", "line\nbreak", "with space", "猫"), 3)},
    ),
    # Links
    "links that lead out": Layout(
        ("cat*2", "dog*2", "{out}/eel*3", "{out}/more*1", "{out}/1.png", ".annex/2.png"),
        {"all": {"cat": 4, "dog": 3, "eel": 3}},
        links={
            "eel": "{out}/eel",
            "cat/more": "{out}/more",
            "cat/1_.png": "{out}/1.png",
            "dog/1_.png": "{out}/1.png",
            "dog/docs.txt": "{out}/1.png",
        },
        ignored=1,
        notes=["files of other kinds are ignored: 1 × .txt"],
    ),
    "links to a store in the folder": Layout(
        ("train/cat*2", "train/dog*2", "val/cat*1", "val/dog*1", ".annex/2.png", "all/3.png"),
        PAIR,
        links={"train/cat/2.png": "../../.annex/2.png", "train/dog/3.png": "../../all/3.png"},
        notes=["not used in {root}: all/"],
    ),
    "links within a class": Layout(("cat*2", "dog*3"), {"all": CATS}, links={"cat/again.png": "0.png"}),
    "hard links": Layout(("cat*3", "dog*2"), {"all": CATS}, more=_hard_link),
    "a link to no class": Layout(
        ("cat*3", "dog*3"),
        links={"eel": "/nowhere/eel"},
        error="{root}/eel is a link to /nowhere/eel, which does not exist",
    ),
    "a link to no picture": Layout(
        ("cat*3", "dog*3"),
        links={"dog/9.png": "gone.png"},
        error="{root}/dog/9.png is a link to gone.png, which does not exist",
    ),
    "a link to no validation pictures": Layout(
        ("train/cat*3", "train/dog*3"),
        links={"val": "../val"},
        error="{root}/val is a link to ../val, which does not exist",
    ),
    "a link to itself": Layout(
        ("cat*3", "dog*3"), links={"cat/x": "x"}, error="cannot list {root}/cat/x: Too many levels of symbolic links"
    ),
    "a class is a link to another": Layout(
        ("cat*3", "dog*3"), links={"felines": "cat"}, error="{root}/felines and {root}/cat are the same folder"
    ),
    "two classes are links to one folder": Layout(
        ("cat*3", "{out}/x*3"),
        links={"eel": "{out}/x", "fish": "{out}/x"},
        error="{root}/fish and {root}/eel are the same folder",
    ),
    "a link to a part of another class": Layout(
        ("cat*3", "dog/2024*3"),
        links={"cat/x": "../dog/2024"},
        error="{root}/dog/2024 and {root}/cat/x are the same folder",
    ),
    "a link that contains another class": Layout(
        ("{out}/x/cat*3", "dog*3"),
        links={"cat": "{out}/x/cat", "animals": "{out}/x"},
        error="{root}/cat and {root}/animals/cat are the same folder",
    ),
    "links in a circle": Layout(
        ("cat*3", "dog*3"),
        links={"cat/x": "../dog", "dog/y": "../cat"},
        error="{root}/cat/x/y and {root}/cat are the same folder",
    ),
    "a link to the folder above": Layout(
        ("cat*3", "dog*3"), links={"cat/x": "../.."}, error="{root}/cat/x and {root.parent} are the same folder"
    ),
    "a folder twice in one class": Layout(
        ("cat/1*3", "dog*3"), links={"cat/2": "1"}, error="{root}/cat/2 and {root}/cat/1 are the same folder"
    ),
    "val is a link to train": Layout(
        ("train/cat*3", "train/dog*3"), links={"val": "train"}, error="{root}/val and {root}/train are the same folder"
    ),
    "a picture is a link to another class": Layout(
        ("cat*3", "dog*3"),
        links={"dog/x.png": "../cat/0.png"},
        error="{root}/dog/x.png is a link to a picture of another class or split, {root}/cat",
    ),
    "a picture is a link to a link to another class": Layout(
        ("cat*3", "dog*3"),
        links={"{out}/x.png": "{root}/cat/0.png", "dog/x.png": "{out}/x.png"},
        error="{root}/dog/x.png is a link to a picture of another class or split, {root}/cat",
    ),
    "a validation picture is a link to a training picture": Layout(
        _pair("train", "val"),
        links={"val/cat/x.png": "../../train/cat/0.png"},
        error="{root}/val/cat/x.png is a link to a picture of another class or split, {root}/train/cat",
    ),
}
