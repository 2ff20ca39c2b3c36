"""Opens a folder that `save_to_disk` of the library `datasets` has written, or names what is damaged in it."""

from pathlib import Path
from typing import Any, Literal

from accel_train.data.sources.names import SAVED_INFO, SAVED_SPLITS, SAVED_STATE
from accel_train.errors import UserError
from accel_train.system.records import checked, parse_json
from accel_train.system.regular_files import read_regular

_COMPLETE = "copy the whole folder again, or save the data set again with save_to_disk"


def load_saved(root: Path) -> Any:
    """Return a table, or a dict of tables by split.

    Raises:
        UserError: a file is missing or damaged, there are no splits, or one has no rows.
    """
    if not (root / SAVED_SPLITS).is_file():
        return _table(root)
    splits = _value(root / SAVED_SPLITS, "splits", list[str])
    if not splits:
        raise UserError(f"{root} has no splits", "give a data set that has some")
    return {split: _table(root / split) for split in splits}


def _table(folder: Path) -> Any:
    import datasets

    files = _value(folder / SAVED_STATE, "_data_files", list[dict[Literal["filename"], str]])
    names = [name for file in files for name in file.values()]
    _json(folder / SAVED_INFO)
    if not names:
        raise UserError(f"{folder} has no images", "give a data set that has some")
    for name in names:
        if not (folder / name).is_file():
            raise UserError(f"{folder / name} is missing: {folder} is not complete", _COMPLETE)
    try:
        return datasets.load_from_disk(str(folder))
    except Exception as error:  # of the library or its parsers
        reason = " ".join(str(error).split())
        raise UserError(f"{folder} is damaged: {type(error).__name__}: {reason}", _COMPLETE) from None


def _value(file: Path, key: str, kind: Any) -> Any:
    """Return a value of a JSON object in a file.

    Raises:
        UserError: the file is missing or damaged.
    """
    try:
        return checked({key: _json(file).get(key)}, dict[str, kind])[key]
    except ValueError as error:
        raise UserError(f"{file} {error}", _COMPLETE) from None


def _json(file: Path) -> dict[str, Any]:
    try:
        values = parse_json(read_regular(file))
    except FileNotFoundError:
        raise UserError(f"{file} is missing: {file.parent} is not complete", _COMPLETE) from None
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}", _COMPLETE) from None
    except ValueError as error:
        raise UserError(f"{file} {error}", _COMPLETE) from None
    if not isinstance(values, dict):
        raise UserError(f"{file} is damaged: it is no JSON object", _COMPLETE)
    return values
