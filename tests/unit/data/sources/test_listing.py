"""Every awkward folder gives its classes and counts, or one clear error."""

import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.layouts import LAYOUTS, Layout, deep_folder, picture
from helpers.privileges import no_privileges

from accel_train.data.sources import listing
from accel_train.data.sources.entries import Entries, read_entries
from accel_train.data.sources.folder import Listing, list_folder, open_folder_for_evaluation
from accel_train.data.sources.picture_files import FolderSource
from accel_train.data.sources.split import path_hash
from accel_train.errors import UserError


def counts(found: Listing[FolderSource]) -> dict[str, dict[str, int]]:
    """Return the number of pictures by class, by split."""
    return {
        split: dict(zip(source.classes, source.counts.tolist(), strict=True)) for split, source in found.splits.items()
    }


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_folder_gives_its_classes_and_counts_or_an_error(tmp_path: Path, layout: Layout) -> None:
    root = tmp_path / "pics"
    layout.make(root)
    if layout.splits is None:
        with pytest.raises(UserError) as caught:
            list_folder(root)
        assert caught.value.message == layout.error.format(root=root)
        assert caught.value.hint
        return
    found = list_folder(root)
    assert counts(found) == layout.splits
    assert [list(of) for of in counts(found).values()] == [list(of) for of in layout.splits.values()]  # their order
    assert found.ignored_files == layout.ignored
    assert list(found.notes) == [note.format(root=root) for note in layout.notes]


CANNOT_BE_LISTED = {
    "class": ("cat", 0, "cat"),
    "folder in a class": ("dog/2024", 0, "dog/2024"),
    "class whose files cannot be looked at": ("cat", 0o400, "cat/0.png"),
    "folder that a link leads to": ("../out", 0, "dog/more"),
    "folder of a linked picture": ("../pictures", 0, "dog/link.png"),
    "the folder itself": (".", 0, "."),
}


@pytest.mark.parametrize(("closed", "mode", "named"), CANNOT_BE_LISTED.values(), ids=CANNOT_BE_LISTED)
@pytest.mark.parametrize("split", ["", "val"])
def test_folder_without_permission_is_an_error_that_names_it(
    tmp_path: Path, closed: str, mode: int, named: str, split: str
) -> None:
    train, root = tmp_path / "pics/train", tmp_path / "pics" / split
    Layout(("cat*1", "dog/2024*3", "../out/more*3", "../pictures/1.png")).make(root)
    (root / "dog/more").symlink_to("../../out/more")
    (root / "dog/link.png").symlink_to("../../pictures/1.png")
    if split:
        Layout(("cat*1", "dog*1")).make(train)
    opens: list[Callable[[Path], object]] = [
        list_folder,
        lambda folder: open_folder_for_evaluation(folder, ("cat", "dog"), "runs/x"),
    ]
    (root / closed).chmod(mode)
    try:
        for opened in opens:
            with no_privileges(), pytest.raises(UserError) as caught:
                opened(tmp_path / "pics")
            assert caught.value.message == f"cannot list {root / named}: Permission denied"
            assert caught.value.hint == "make it readable, or move it elsewhere"
    finally:
        (root / closed).chmod(0o700)


def test_path_that_is_too_long_is_an_error(tmp_path: Path) -> None:
    Layout(("cat*3", "dog*3")).make(tmp_path)
    with deep_folder(tmp_path / "cat", "x" * 250, 20), pytest.raises(UserError) as caught:
        list_folder(tmp_path)
    assert caught.value.message.startswith(f"cannot list {tmp_path}/cat/xxx")
    assert caught.value.message.endswith(": File name too long")


def test_folder_that_vanishes_meanwhile_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Layout(("cat*3", "cat/more*3", "dog*3")).make(tmp_path)

    def read_and_remove(folder: str, real_path: Callable[[str], str]) -> Entries:
        found = read_entries(folder, real_path)
        if folder == str(tmp_path / "cat"):
            shutil.rmtree(tmp_path / "cat/more")
        return found

    monkeypatch.setattr(listing, "read_entries", read_and_remove)
    with pytest.raises(UserError) as caught:
        list_folder(tmp_path)
    assert caught.value.message == f"cannot list {tmp_path}/cat/more: No such file or directory"


def test_deep_folders_are_listed(tmp_path: Path) -> None:
    Layout(("cat*3", "dog/1.png")).make(tmp_path)
    with deep_folder(tmp_path / "dog", "x", 1500) as last:
        (last / "2.png").write_bytes(picture("PNG"))
        assert counts(list_folder(tmp_path)) == {"all": {"cat": 3, "dog": 2}}


def test_order_of_pictures_is_by_name_files_before_folders(tmp_path: Path) -> None:
    Layout(("dog/b/1.png", "dog/b.png", "dog/a/x/1.png", "dog/a/2.png", "dog/B.png", "cat/10.png", "cat/9.png")).make(
        tmp_path
    )
    (source,) = list_folder(tmp_path).splits.values()
    assert source.paths == (
        *("cat/10.png", "cat/9.png", "dog/B.png", "dog/b.png", "dog/a/2.png", "dog/a/x/1.png", "dog/b/1.png"),
    )
    assert source.sizes.tolist() == [len(picture("PNG"))] * 7


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_order_of_classes_and_pictures_does_not_depend_on_how_letters_are_composed(tmp_path: Path, form: str) -> None:
    ordered = ["f/1.png", "zz/1.png", "é/f.png", "é/é.png"]
    Layout([unicodedata.normalize(form, name) for name in ordered]).make(tmp_path)
    (source,) = list_folder(tmp_path).splits.values()
    assert source.classes == ("f", "zz", "é")
    assert [unicodedata.normalize("NFC", path) for path in source.paths] == [
        "f/1.png",
        "zz/1.png",
        "é/f.png",
        "é/é.png",
    ]
    assert source.path_hashes.tolist() == [path_hash(path) for path in ("f/1.png", "zz/1.png", "é/f.png", "é/é.png")]


def test_link_of_val_is_refused_in_evaluation_too(tmp_path: Path) -> None:
    Layout(("train/cat*3", "train/dog*3", "val/cat*1"), links={"val/dog": "../train/dog"}).make(tmp_path)
    with pytest.raises(UserError) as caught:
        open_folder_for_evaluation(tmp_path, ("cat", "dog"), "runs/x")
    assert caught.value.message == f"{tmp_path}/train/dog and {tmp_path}/val/dog are the same folder"
