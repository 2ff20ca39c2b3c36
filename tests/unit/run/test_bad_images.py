"""The pictures that a run leaves out are listed by name, and left out of both splits."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from accel_train.checkpoints.run_folder import BAD_IMAGES
from accel_train.config.defaults import MOST_PIXELS
from accel_train.data.bad_images import Pictures
from accel_train.data.sources.base import DataSet, Subset
from accel_train.data.sources.encoded_images import TableSource
from accel_train.data.sources.memory import MemorySource
from accel_train.data.sources.picture_files import FolderSource
from accel_train.errors import UserError
from accel_train.run import bad_images
from accel_train.run.bad_images import _decode_all, read_bad_images, without, write_bad_images


def source(*paths: str) -> FolderSource:
    labels = np.array(["ab".index(path[0]) for path in paths])
    return FolderSource(("a", "b"), Path("pics"), paths, labels, np.arange(len(paths)))


def data(train: FolderSource | Subset, val: FolderSource) -> DataSet:
    return DataSet("folder", "", train, val, (0.5,) * 3, (0.5,) * 3)


WHOLE = data(source("a/1", "a/2", "b/1", "b/2"), source("a/1", "b/1"))


def test_names_and_reasons_of_any_characters_make_a_line_each(tmp_path: Path) -> None:
    names = {"train/a/1": "it is\nlong", "val/a/tab\\t\\u2028\udc80": "x"}
    write_bad_images(tmp_path, names)
    assert read_bad_images(tmp_path) == frozenset(names)
    lines = (tmp_path / BAD_IMAGES).read_bytes().split(b"\n")
    assert lines == [b"train/a/1\tit is\\nlong", b"val/a/tab\\t\\u2028\x80\tx", b""]


def test_no_list_without_bad_images(tmp_path: Path) -> None:
    write_bad_images(tmp_path, {})
    assert not (tmp_path / BAD_IMAGES).exists()
    assert read_bad_images(tmp_path) == frozenset()
    (tmp_path / BAD_IMAGES).mkdir()
    with pytest.raises(UserError, match=rf"^cannot read {tmp_path / BAD_IMAGES}: it is a folder$"):
        read_bad_images(tmp_path)


def test_pictures_are_left_out_of_their_split_alone() -> None:
    left = without(WHOLE, {"train/a/1", "val/b/1", "train/other"}, None)
    assert isinstance(left.train, FolderSource)
    assert isinstance(left.val, FolderSource)
    assert (left.train.paths, left.val.paths) == (("a/2", "b/1", "b/2"), ("a/1",))
    assert without(WHOLE, (), None) is WHOLE


def test_processes_meet_in_rounds_and_the_first_tells_how_far_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bad_images, "_SECONDS_PER_ROUND", -1.0)
    alone: Any = SimpleNamespace(group=None, is_main=True)
    missing = source(*(f"a/{number}" for number in range(40)))
    found = _decode_all(Pictures([missing]), range(40), MOST_PIXELS, alone)
    assert list(found) == list(range(40))
    assert found[39] == "[Errno 2] No such file or directory: 'pics/a/39'"
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(",")[0] for line in lines] == ["checked 16 of 40 pictures", "checked 32 of 40 pictures"]
    assert lines[0].endswith(" left (--on-bad-image skip)")


def test_limit_counts_the_pictures_that_are_left() -> None:
    limited = data(Subset(WHOLE.train, np.array([0, 2])), source("a/1", "b/1"))
    left = without(limited, {"train/a/1"}, 2)
    assert isinstance(left.train, Subset)
    assert isinstance(left.train.source, FolderSource)
    assert [left.train.source.paths[i] for i in left.train.ids] == ["a/2", "b/1"]


def test_name_with_a_line_break_is_found() -> None:
    odd = data(source("a/1", "b/\n", "b/2"), source("a/1"))
    left = without(odd, {"train/b/\\n"}, None)
    assert left.train.counts.tolist() == [1, 1]


def test_class_without_other_pictures_is_refused() -> None:
    with pytest.raises(UserError, match=r"^no training picture of the class b can be read$"):
        without(WHOLE, {"train/b/1", "train/b/2"}, None)
    with pytest.raises(UserError, match=r"^no validation picture can be read$"):
        without(WHOLE, {"val/a/1", "val/b/1"}, None)


def test_rows_of_a_table_are_left_out() -> None:
    rows = np.array([0, 2, 5, 7])
    table = TableSource("x", ("a", "b"), None, rows, np.array([0, 1, 0, 1]), np.zeros(8, np.int64))
    left = without(DataSet("folder", "", table, table, (0.5,) * 3, (0.5,) * 3), {"train/2", "val/0"}, None)
    assert isinstance(left.train, TableSource)
    assert isinstance(left.val, TableSource)
    assert (left.train.rows.tolist(), left.val.rows.tolist()) == ([0, 5, 7], [2, 5, 7])
    assert Pictures([table, table]).name(5) == "row 2 of x"


def test_images_that_are_no_files_stay() -> None:
    memory = MemorySource(("a", "b"), torch.zeros(2, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 1]))
    in_memory = DataSet("digits", "", memory, memory, (0.5,), (0.5,))
    assert without(in_memory, {"train/a/1"}, None) is in_memory
