"""Recognizes the folder of a run, and the files in it that only the run writes."""

import os
from pathlib import Path

_CONFIG = "config.yaml"
_BESIDE = ("data_files.json.gz", "metrics.jsonl", "model.safetensors", "best.safetensors", ".lock")
"""By these files, next to its config, the folder of a run is recognized; projects have other config.json files."""
RUN_FILES = frozenset(
    {
        *(_CONFIG, *_BESIDE, "config.json", "bad_images.txt", "predictions.csv", "report.html"),
        *("metrics.csv", "tensorboard", "wandb", "tracked_as"),
        *("checkpoints", "log", "profile"),
    }
)
"""Names of the files and folders that a run writes to its folder."""


def run_around(path: Path) -> Path | None:
    """Return the folder of a run if a path is that, or in it, with or without following links."""
    absolute, followed = Path(os.path.abspath(path)), Path(os.path.realpath(path))  # noqa: PTH100 - never raise
    folders = (absolute, *absolute.parents, followed, *followed.parents)
    return next((folder for folder in folders if _is_run(folder)), None)


def run_that_writes(path: Path) -> Path | None:
    """Return the folder of the run whose own file a path is, even if that is not there yet."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - never raises
    for place in (absolute, Path(os.path.realpath(absolute.parent), absolute.name)):  # a link itself would be replaced
        run = run_around(place.parent)
        if run and place.is_relative_to(run) and place.relative_to(run).parts[0] in RUN_FILES:
            return run
    return None


def _is_run(folder: Path) -> bool:
    # Path's own methods raise if there is no permission
    return os.path.isfile(folder / _CONFIG) and any(os.path.lexists(folder / name) for name in _BESIDE)  # noqa: PTH113
