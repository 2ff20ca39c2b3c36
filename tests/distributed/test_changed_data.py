"""A run resumes on the data that it was trained on, wherever they are, and on no others."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.cli import assert_refused, write_pictures
from helpers.comparing import flags
from helpers.runner import Ended, Runner
from PIL import Image

pytestmark = pytest.mark.xdist_group("changed data")  # the tests of a kind share runs

OPTIONS = {
    **{"model": "mlp", "image_size": 8, "batch_size": 4, "device": "cpu", "augment": "light", "threads": 1},
    **{"warmup_epochs": 0.2, "lr": 0.01, "lr_scaling": "none"},
}
MODULE = """
import torch
from accel_train.data.sources import MemorySource

def images(count, shade=0):
    pixels = torch.arange(count * 3 * 8 * 8, dtype=torch.int64).mul(37).add(shade) % 251
    return pixels.to(torch.uint8).view(count, 3, 8, 8)

def load():
    train = MemorySource(("a", "b"), images(24), torch.arange(24) % 2)
    val = MemorySource(("a", "b"), images(6, shade=9), torch.arange(6) % 2)
    return train, val

class Items:
    classes = ("a", "b")
    def __init__(self, count): self.count = count
    def __len__(self): return self.count
    def __getitem__(self, index): return images(self.count)[index], index % 2

class Marked(Items):
    fingerprint = "v1"

def items(): return Items(24), Items(6)
def marked(): return Marked(24), Marked(6)
"""
KINDS = {"folder": "pics", "packed": "packed", "memory": "mine:load", "marked": "mine:marked", "items": "mine:items"}

TRANSPOSED = "view(count, 3, 8, 8).transpose(2, 3).contiguous().transpose(2, 3)"
SWAP = (("apes", "x"), ("cats", "apes"), ("x", "cats"))
Change = Callable[[Path], object]


def train(run: Runner, data: str, epochs: int) -> Ended:
    words = ("train", "--data", data, *flags(OPTIONS), "--epochs", str(epochs), "--output", "run")
    return run(*words, HOME=str(run.folder))


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a run, except its lock."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def weights(folder: Path) -> bytes:
    return (folder / "run" / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def of_every_kind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with pictures, packed pictures, a module, and for each a run of one epoch and one of two."""
    folder = tmp_path_factory.mktemp("changed")
    for name, count, shade in (("train", 12, 0), ("val", 4, 3)):
        write_pictures(folder / "pics" / name, dict.fromkeys(("apes", "bears", "cats"), count), size=8, shade=shade)
    for path in folder.rglob("*.png"):
        path.write_bytes(path.read_bytes() + bytes("abc".index(path.parent.name[0])))  # a size for each class
    (folder / "mine.py").write_text(MODULE)
    at_top = Runner(folder)
    assert at_top("pack", "pics", "packed", "--side", "8").code == 0
    for kind, data in KINDS.items():
        for name, epochs in (("one", 1), ("two", 2)):
            place = Runner(folder / f"{kind}_{name}")
            place.folder.mkdir()
            for source in ("pics", "packed"):
                shutil.copytree(folder / source, place.folder / source)
            shutil.copy(folder / "mine.py", place.folder)
            if name == "two":
                shutil.copytree(folder / f"{kind}_one" / "run", place.folder / "run")
            ended = train(place, data, epochs)
            assert ended.code == 0, ended.err
    return folder


@pytest.fixture
def place(run: Runner, of_every_kind: Path, kind: str) -> Runner:
    """Return a copy of the run of one epoch and its data."""
    shutil.copytree(of_every_kind / f"{kind}_one", run.folder, dirs_exist_ok=True, copy_function=shutil.copy2)
    return run


def touch(folder: Path) -> None:
    for path in folder.rglob("*"):
        os.utime(path, (1, 1))


def move(old: str, new: str) -> Change:
    def change(folder: Path) -> None:
        (folder / new).parent.mkdir(parents=True, exist_ok=True)
        (folder / old).rename(folder / new)

    return change


def add(*names: str, like: str = "pics/train/apes/0.png") -> Change:
    def change(folder: Path) -> None:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / like, folder / name)

    return change


def remove(*names: str) -> Change:
    def change(folder: Path) -> None:
        for name in names:
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def then_pack(change: Change) -> Change:
    """Change the source of a packed folder and pack it again."""

    def changed(folder: Path) -> None:
        change(folder)
        shutil.rmtree(folder / "packed")
        ended = Runner(folder)("pack", "pics", "packed", "--side", "8")
        assert ended.code == 0, ended.err

    return changed


def edit(old: str, new: str) -> Change:
    """Change the user's module."""

    def change(folder: Path) -> None:
        text = (folder / "mine.py").read_text()
        assert old in text
        (folder / "mine.py").write_text(text.replace(old, new))

    return change


def nothing(folder: Path) -> None:
    pass


SAME: dict[str, tuple[str, Change, str]] = {
    "unchanged": ("folder", nothing, "pics"),
    "touched": ("folder", touch, "pics"),
    "with a slash": ("folder", nothing, "pics/"),
    "respelled": ("folder", nothing, "./pics/../pics/."),
    "moved": ("folder", move("pics", "else/where"), "else/where"),
    "moved and found from home": ("folder", move("pics", "elsewhere"), "~/elsewhere"),
    "other files beside": ("folder", add("pics/train/apes/notes.txt"), "pics"),
    "splits renamed": ("folder", move("pics/train", "pics/Training"), "pics"),
    "packed unchanged": ("packed", nothing, "packed"),
    "packed touched": ("packed", touch, "packed/"),
    "packed moved": ("packed", move("packed", "else/where"), "else/where"),
    "packed again": ("packed", then_pack(nothing), "./packed"),
    "packed, source gone": ("packed", remove("pics"), "packed"),
    "memory unchanged": ("memory", nothing, "mine:load"),
    "module edited": ("memory", edit("import torch", "import torch  # edited"), "mine:load"),
    "module renamed": ("memory", move("mine.py", "other.py"), "other:load"),
    "images not contiguous": ("memory", edit("view(count, 3, 8, 8)", TRANSPOSED), "mine:load"),
    "items unchanged": ("items", nothing, "mine:items"),
    "marked unchanged": ("marked", nothing, "mine:marked"),
    "marked, renamed": ("marked", move("mine.py", "other.py"), "other:marked"),
}


@pytest.mark.parametrize(("kind", "change", "data"), SAME.values(), ids=SAME)
def test_same_data_resume_to_the_same_bits(
    place: Runner, of_every_kind: Path, kind: str, change: Change, data: str
) -> None:
    change(place.folder)
    ended = train(place, data, 2)
    assert ended.code == 0, ended.err
    assert "resumed at epoch" in ended.out
    assert weights(place.folder) == weights(of_every_kind / f"{kind}_two")


PICTURES = {
    "added": (add("pics/train/apes/x.png"), "+1 file in train/apes", "train/apes contains 13 images instead of 12"),
    "added and removed": (
        lambda folder: (add("pics/train/cats/x.png")(folder), remove("pics/train/cats/0.png")(folder)),
        "+1 −1 files in train/cats",
        "train contains other images",
    ),
    "removed": (remove("pics/val/bears/3.png"), "−1 file in val/bears", "val/bears contains 3 images instead of 4"),
    "renamed": (
        move("pics/train/apes/0.png", "pics/train/apes/x.png"),
        "+1 −1 files in train/apes",
        "train contains other images",
    ),
    "replaced": (
        lambda folder: Image.effect_noise((9, 9), 40).convert("RGB").save(folder / "pics/val/cats/1.png"),
        "1 file of another size in val/cats",
        "val contains other images",
    ),
    "in another class": (
        move("pics/train/apes/1.png", "pics/train/cats/one.png"),
        "−1 file in train/apes, +1 file in train/cats",
        "train/apes contains 11 images instead of 12, train/cats contains 13 images instead of 12",
    ),
    "in another split": (
        move("pics/val/apes/1.png", "pics/train/apes/one.png"),
        "+1 file in train/apes, −1 file in val/apes",
        "train/apes contains 13 images instead of 12, val/apes contains 3 images instead of 4",
    ),
    "in a folder below": (
        move("pics/train/apes/1.png", "pics/train/apes/new/1.png"),
        "+1 −1 files in train/apes",
        "train contains other images",
    ),
    "class renamed": (
        lambda folder: [move(f"pics/{s}/apes", f"pics/{s}/zebras")(folder) for s in ("train", "val")],
        "class apes is missing, class zebras is new",
        "class apes is missing, class zebras is new",
    ),
    "class added": (add("pics/train/zebras/0.png"), "class zebras is new", "class zebras is new"),
    "class removed": (
        remove("pics/train/cats", "pics/val/cats"),
        "class cats is missing",
        "class cats is missing",
    ),
    "class names swapped": (
        lambda folder: [move(f"pics/train/{a}", f"pics/train/{b}")(folder) for a, b in SWAP],
        "12 files of another size in train/apes, 12 files of another size in train/cats",
        "train contains other images",
    ),
}
CHANGED: dict[str, tuple[str, Change, str]] = {
    **{f"picture {name}": ("folder", change, words) for name, (change, words, _) in PICTURES.items()},
    **{f"packed picture {name}": ("packed", then_pack(change), words) for name, (change, _, words) in PICTURES.items()},
    "memory: pixel": ("memory", edit("mul(37)", "mul(41)"), "train contains other images, val contains other images"),
    "memory: label": ("memory", edit("torch.arange(6) % 2", "torch.tensor([1, 0, 1, 0, 1, 0])"), "val contains other"),
    "memory: labels": (
        "memory",
        edit("torch.arange(6) % 2", "torch.arange(6) // 5"),
        "val/a contains 5 images",
    ),
    "memory: more": ("memory", edit("(24)", "(26)"), "train/a contains 13 images instead of 12"),
    "memory: class": ("memory", edit('("a", "b")', '("a", "z")'), "class b is missing, class z is new"),
    "memory: classes swapped": ("memory", edit('("a", "b")', '("b", "a")'), "the classes are b, a instead of a, b"),
    "memory: class added": ("memory", edit('("a", "b")', '("a", "b", "c")'), "class c is new"),
    "memory: wider": ("memory", edit("view(count, 3, 8, 8)", "view(count, 3, 4, 16)"), "train contains other images"),
    "items: more": ("items", edit("Items(6)", "Items(7)"), "val contains 7 images instead of 6"),
    "items: fewer": ("items", edit("Items(24)", "Items(23)"), "train contains 23 images instead of 24"),
    "items: class": ("items", edit('("a", "b")', '("z", "b")'), "class a is missing, class z is new"),
    "items: counts": (
        "items",
        edit("def __len__", "counts = property(lambda self: (len(self), 0))\n    def __len__"),
        "train contains other images",
    ),
    "marked: fingerprint": ("marked", edit('"v1"', '"v2"'), "train contains other images"),
    "marked: more": ("marked", edit("Marked(6)", "Marked(8)"), "val contains 8 images instead of 6"),
}


@pytest.mark.parametrize(("kind", "change", "words"), CHANGED.values(), ids=CHANGED)
def test_other_data_are_refused_with_what_changed(place: Runner, kind: str, change: Change, words: str) -> None:
    change(place.folder)
    before = contents(place.folder / "run")
    assert_refused(train(place, KINDS[kind], 2), "the data are not those of the run in run: " + words, "--weights")
    assert contents(place.folder / "run") == before
