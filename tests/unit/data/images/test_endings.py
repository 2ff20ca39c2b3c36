"""Files are pictures by their ending, if their decoder is installed; the others are named with a way to read them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from accel_train.data.images import endings
from accel_train.data.images.endings import DECODED, ending_of, is_picture
from accel_train.data.sources.listing import FolderLister


@pytest.fixture
def without_decoders(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    endings._has_decoder.cache_clear()
    monkeypatch.setattr(endings, "find_spec", lambda name: None)
    yield
    endings._has_decoder.cache_clear()


@pytest.mark.parametrize(
    ("name", "ending"),
    [("a.JPG", ".jpg"), ("a.b.Png", ".png"), ("none", ""), (".hidden", ""), ("a.", "."), ("a.tar.gz", ".gz")],
)
def test_ending_is_in_small_letters(name: str, ending: str) -> None:
    assert ending_of(name) == ending


@pytest.mark.parametrize("ending", [*sorted(DECODED), ".avif", ".jp2", ".heic", ".heif"])
def test_pictures_by_ending(ending: str) -> None:
    assert is_picture(f"x{ending.upper()}")


@pytest.mark.parametrize("name", ["x.txt", "x.eps", "jpg", "x.jpg.part", "x"])
def test_other_files(name: str) -> None:
    assert not is_picture(name)


def test_pictures_without_a_decoder_are_named_with_the_way_to_read_them(tmp_path: Path, without_decoders: None) -> None:
    for name in ("1.heic", "2.HEIC", "3.avif", "4.psd"):
        (tmp_path / "a").mkdir(exist_ok=True)
        (tmp_path / "a" / name).touch()
    assert not is_picture("x.heic")
    lister = FolderLister(tmp_path)
    lister.list_split("")
    assert lister.ignored_files == 4
    assert lister.notes == (
        "files of other kinds are ignored: 2 × .heic (pip install 'accel_train[heic]' reads them), "
        "1 × .avif (Pillow 11.3 or newer reads them), 1 × .psd",
    )
