"""Files, folders, patterns, lists and zips lead to pictures, each once and in order; nothing is missed in silence."""

import os
import zipfile
from pathlib import Path

import pytest
from helpers.privileges import no_privileges

from accel_train.data.sources.inputs import Inputs, find_pictures
from accel_train.errors import UserError


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a folder with some files; nothing is decoded here."""
    monkeypatch.chdir(tmp_path)
    for name in ("photos/b.jpg", "photos/a.PNG", "photos/deep/c.webp", "photos/notes.txt", "photos/.hidden.jpg"):
        touch(name)
    for name in ("photos/.git/x.jpg", "photos/@eaDir/y.jpg", "other", "one.jpg"):
        touch(name)
    with zipfile.ZipFile("some.zip", "w") as archive:
        for name in ("z/2.jpg", "z/1.jpg", "z/read.me", "../../up.jpg", "/root.png", "__MACOSX/z/1.jpg", "z/.t/u.jpg"):
            archive.writestr(name, b"")
        archive.mkdir("z/folder.jpg")


def touch(name: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).touch()


def found(*paths: str, listed: bytes = b"") -> Inputs:
    return find_pictures(paths, lambda: listed)


def names(*paths: str, listed: bytes = b"") -> list[str]:
    return [picture.name for picture in found(*paths, listed=listed).pictures]


IN_PHOTOS = ["photos/a.PNG", "photos/b.jpg", "photos/deep/c.webp"]
MEMBERS = ["z/2.jpg", "z/1.jpg", "../../up.jpg", "/root.png"]
IN_ZIP = ["some.zip/z/2.jpg", "some.zip/z/1.jpg", "some.zip/../../up.jpg", "some.zip/root.png"]


def test_folder_gives_the_pictures_in_it_and_below_in_order() -> None:
    assert names("photos") == names("photos/") == IN_PHOTOS
    assert names("./photos") == [f"./{name}" for name in IN_PHOTOS]
    assert found("photos").notes == ("files of other kinds are ignored: 1 × .txt",)


def test_named_file_is_a_picture_whatever_its_ending() -> None:
    assert names("other", "photos/.hidden.jpg", "one.jpg") == ["other", "photos/.hidden.jpg", "one.jpg"]


def test_zip_gives_its_members_in_its_order() -> None:
    assert names("some.zip") == IN_ZIP
    pictures = found("some.zip").pictures
    assert {picture.path for picture in pictures} == {"some.zip"}
    assert [picture.member and picture.member.name for picture in pictures] == MEMBERS
    assert found("some.zip").notes == ("files of other kinds are ignored: 1 × .me",)


def test_quoted_pattern_gives_the_pictures_that_match() -> None:
    assert names("photos/*.jpg") == ["photos/b.jpg"]
    assert names("photos/**/*.webp") == ["photos/deep/c.webp"]
    assert sorted(names("photos/**")) == IN_PHOTOS
    assert found("photos/**").notes == ("files of other kinds are ignored: 1 × .txt",)
    assert names("*.zip") == IN_ZIP
    assert names("*/deep") == ["photos/deep/c.webp"]


def test_file_whose_name_looks_like_a_pattern_is_a_file() -> None:
    touch("a[1].jpg")
    touch("a1.jpg")
    assert names("a[1].jpg") == ["a[1].jpg"]


def test_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert names("~/one.jpg", "~/photos/*.jpg") == [f"{tmp_path}/one.jpg", f"{tmp_path}/photos/b.jpg"]


def test_list_gives_a_path_a_line_that_need_not_exist() -> None:
    listed = b"one.jpg\r\n\nmissing.jpg\nphotos\nsome.zip\nmissing.zip\nlat\xe9.jpg"
    expected = ["one.jpg", "missing.jpg", *IN_PHOTOS, *IN_ZIP, "missing.zip", "lat\udce9.jpg"]
    assert names("-", listed=listed) == expected
    assert names("other", "-", listed=b"one.jpg") == ["other", "one.jpg"]


def test_list_with_nuls_gives_names_with_line_breaks() -> None:
    touch("new\nline.jpg")
    assert names("-", listed=b"new\nline.jpg\0one.jpg\0") == ["new\nline.jpg", "one.jpg"]
    assert names("*.jpg") == ["new\nline.jpg", "one.jpg"]


def test_each_picture_is_used_once_by_its_first_name(tmp_path: Path) -> None:
    again = found("one.jpg", "photos", f"{tmp_path}/one.jpg", "photos/deep/../deep", "some.zip", "*.zip")
    assert [picture.name for picture in again.pictures] == ["one.jpg", *IN_PHOTOS, *IN_ZIP]
    assert again.notes[1:] == ("6 pictures given again: each is used once",)
    assert found("-", listed=b"one.jpg\n./one.jpg\n").notes == ("1 picture given again: each is used once",)


def test_links_are_followed_but_not_in_a_circle() -> None:
    Path("photos/deep/up").symlink_to("..")
    Path("photos/self").symlink_to("self")
    Path("photos/dangling.jpg").symlink_to("nowhere")
    Path("linked").symlink_to("photos")
    pictures = ["a.PNG", "b.jpg", "dangling.jpg", "deep/c.webp"]
    assert names("photos") == [f"photos/{name}" for name in pictures]
    assert names("linked") == [f"linked/{name}" for name in pictures]
    Path("link.jpg").symlink_to("one.jpg")
    assert names("one.jpg", "link.jpg") == ["one.jpg", "link.jpg"]  # two names, two pictures


def test_folders_of_runs_below_are_ignored_with_a_note() -> None:
    for name in ("runs/a/config.yaml", "runs/a/config.json", "runs/a/figure.png", "runs/x.jpg"):
        touch(name)
    assert found("runs").notes == ("folders of runs and packed folders are ignored: runs/a",)
    assert names("runs") == ["runs/x.jpg"]
    assert names("runs/a") == ["runs/a/figure.png"]


def test_what_cannot_be_listed_is_returned_as_a_picture() -> None:
    Path("photos/deep").chmod(0o300)
    with no_privileges():
        assert names("photos") == ["photos/a.PNG", "photos/b.jpg", "photos/deep"]


REFUSED = {
    "missing": ("missing.jpg", "there is no file or folder missing.jpg"),
    "no match": ("photos/*.bmp", "'photos/*.bmp' matches no file or folder"),
    "empty": ("", "there is no file or folder ''"),
    "no zip": ("no.zip", "cannot read the zip no.zip: File is not a zip file"),
    "FIFO": ("fifo.zip", "cannot read the zip fifo.zip: [Errno 22] it is a FIFO: 'fifo.zip'"),
    "no pictures": ("bare", "no pictures in bare"),
    "empty list": ("-", "no pictures in the list on stdin"),
}


@pytest.mark.parametrize(("path", "message"), REFUSED.values(), ids=REFUSED)
def test_path_that_leads_to_no_picture_is_refused(path: str, message: str) -> None:
    touch("no.zip")
    touch("bare/text.txt")
    os.mkfifo("fifo.zip")
    with pytest.raises(UserError) as raised:
        found(path)
    assert raised.value.message == message
    if path != "-":
        with pytest.raises(UserError, match="there is no file or folder missing"):
            found("one.jpg", "missing")
