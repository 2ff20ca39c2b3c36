"""Names of folders mean what people read in them."""

import pytest

from accel_train.checkpoints import run_folder
from accel_train.data.packing.manifest import MANIFEST, UNFINISHED
from accel_train.data.sources.names import class_name, is_ours, labels_of, left_by_programs, split_name
from accel_train.errors import UserError


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train", ("train", "")),
        ("TRAINING", ("train", "")),
        ("trainset", ("train", "")),
        ("training-data", ("train", "")),
        ("01_train", ("train", "")),
        ("TestImages", ("test", "")),
        ("test1", ("test", "")),
        ("valid", ("val", "")),
        ("Validation Set", ("val", "")),
        ("dev", ("val", "")),
        ("eval", ("test", "")),
        ("ILSVRC2012_img_val", ("val", "ilsvrc")),
        ("seg_train", ("train", "seg")),
        ("train_station", ("train", "station")),
        ("train_test", None),
        ("trainer", None),
        ("strain", None),
        ("invalid", None),
        ("developer", None),
        ("contest", None),
        ("2024", None),
        ("@", None),
    ],
)
def test_split_is_read_from_words_of_a_name(name: str, expected: tuple[str, str] | None) -> None:
    assert split_name(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("@eaDir", True), ("@EADIR", True), ("Lost+Found", True), ("__MACOSX", True), ("eaDir", False), ("cat", False)],
)
def test_folders_of_other_programs_are_known_in_any_case(name: str, expected: bool) -> None:
    assert left_by_programs(name) is expected


def test_folders_of_ours_are_known_by_their_files() -> None:
    assert is_ours([run_folder.CONFIG, run_folder.DESCRIPTION], [])
    assert is_ours([run_folder.CONFIG, run_folder.METRICS], [run_folder.CHECKPOINTS])
    assert is_ours([run_folder.LOCK], [run_folder.LOGS])
    assert is_ours([MANIFEST], [])
    assert is_ours([UNFINISHED], [])
    for files, folders in (([run_folder.CONFIG], []), ([run_folder.DESCRIPTION], []), ([], [run_folder.LOGS])):
        assert not is_ours(files, folders)


def test_class_is_named_alike_on_every_file_system() -> None:
    assert class_name("cafe\u0301") == class_name("caf\u00e9") == "caf\u00e9"


def test_labels_are_those_of_the_owner() -> None:
    assert labels_of(["caf\u00e9", "b"], ["b", "x", "cafe\u0301"], "pics", "runs/x") == [2, 0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("eel", "pics holds the class eel, which runs/x lacks"),
        ("CAT", "pics holds the class 'CAT', which runs/x has as 'Cat'"),
        ("Cat ", "pics holds the class 'Cat ', which runs/x has as 'Cat'"),
        ("stra\u00dfe", "pics holds the class 'stra\u00dfe', which runs/x has as 'STRASSE'"),
        ("C\u00adat", "pics holds the class 'C\\xadat', which runs/x has as 'Cat'"),
    ],
)
def test_class_that_the_owner_lacks_or_writes_otherwise_is_rejected(name: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        labels_of([name], ["Cat", "STRASSE"], "pics", "runs/x")
    assert caught.value.message == message
