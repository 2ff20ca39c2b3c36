"""The tracker wandb: Weights & Biases, online or offline."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from accel_train.config.trackers import PROJECT
from accel_train.errors import shown
from accel_train.history.files import WANDB
from accel_train.system.atomic_files import remove
from accel_train.trackers.base import TRACKED, Row, TrackedRun

_UPDATE = "update"


class WandB:
    """Sends rows, each with its update, which is the axis of the curves.

    Offline, a resumed run writes its files again, so that the last folder holds the whole run.
    """

    def open(self, run: TrackedRun) -> Mapping[str, int]:
        import wandb
        from accelerate.tracking import WandBTracker

        self._tracker = WandBTracker(
            run.project or os.environ.get("WANDB_PROJECT") or PROJECT,
            id=run.identity,
            name=run.name,
            dir=str(run.folder),
            resume="allow",
            settings=wandb.Settings(console="off", silent=True),
        )
        try:
            self._tracker.start()
        except ValidationError as error:  # of a setting, which it reads from the environment
            raise ValueError(_wrong_variable(error)) from None
        self._tracker.store_init_configuration(dict(run.config))
        tracked = self._tracker.tracker
        for event in TRACKED:
            tracked.define_metric(f"{event.kind}/*", step_metric=f"{event.kind}/{_UPDATE}")
        if tracked.offline:
            for earlier in (run.folder / WANDB).glob(f"offline-run-*-{run.identity}*"):
                if not earlier.name.startswith(Path(tracked.settings.sync_dir).name):
                    remove(earlier)
            return {}
        return held_in(dict(tracked.summary)) if tracked.resumed else {}

    def log(self, row: Row) -> None:
        self._tracker.log(row.by_key | {f"{row.kind}/{_UPDATE}": row.update})

    def add_pictures(self, pictures: Mapping[str, Path], update: int) -> None:
        import wandb

        self._tracker.log({name: wandb.Image(str(path)) for name, path in pictures.items()})

    def close(self, *, complete: bool) -> None:
        self._tracker.tracker.finish(exit_code=0 if complete else 1)


def _wrong_variable(error: ValidationError) -> str:
    """Return which environment variable has a wrong value, and why it is wrong."""
    first = error.errors()[0]
    if not first["loc"]:  # settings that exclude each other
        return first["msg"]
    variable = f"WANDB_{first['loc'][0]}".upper()
    found = f"the environment variable {variable} is" if variable in os.environ else f"{first['loc'][0]} is"
    return f"{found} {shown(first['input'])}: {first['msg']}"


def held_in(summary: Mapping[str, Any]) -> dict[str, int]:
    """Return the last update of each key in the summary of a run, which holds the last value of each."""
    updates = {key.partition("/")[0]: int(value) for key, value in summary.items() if key.endswith(f"/{_UPDATE}")}
    kinds = {key: key.partition("/")[0] for key in summary}
    return {key: updates[kind] for key, kind in kinds.items() if kind in updates}
