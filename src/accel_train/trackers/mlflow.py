"""The tracker mlflow: the server or the store that MLFLOW_TRACKING_URI names, else the one in the current folder."""

import os
from collections.abc import Mapping
from pathlib import Path

from accel_train.config.trackers import PROJECT
from accel_train.history.files import REPORT
from accel_train.trackers.base import Row, TrackedRun

_TAG = "accel_train.run"
"""By which the tracked run is found again."""


class MLflow:
    """Sends values one row at a time; MLflow cannot take a value back, and would show one that is sent again."""

    def open(self, run: TrackedRun) -> Mapping[str, int]:
        import mlflow
        from accelerate.tracking import MLflowTracker

        experiment = run.project or os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
        found = mlflow.search_runs(
            experiment_names=[experiment],
            filter_string=f"tags.`{_TAG}` = '{run.identity}'",
            output_format="list",
        )
        self._report = run.folder / REPORT
        self._tracker = MLflowTracker(
            experiment,
            run_id=found[0].info.run_id if found else None,
            run_name=run.name,
            tags={_TAG: run.identity, "run_folder": str(run.folder)},
        )
        self._tracker.start()
        identity = self._tracker.tracker.info.run_id
        held = mlflow.MlflowClient().get_run(identity).data
        # MLflow refuses another value of a parameter that it has, such as more epochs.
        new = {name: value for name, value in run.parameters.items() if name not in held.params}
        self._tracker.store_init_configuration(new)
        histories = {key: mlflow.MlflowClient().get_metric_history(identity, key) for key in held.metrics}
        return {key: max(metric.step for metric in history) for key, history in histories.items()}

    def log(self, row: Row) -> None:
        self._tracker.log(row.by_key, step=row.update, timestamp=round(1000 * row.time))

    def add_pictures(self, pictures: Mapping[str, Path], update: int) -> None:
        for path in (*pictures.values(), self._report):
            if path.exists():
                self._tracker.log_artifact(str(path))

    def close(self, *, complete: bool) -> None:
        import mlflow

        mlflow.end_run("FINISHED" if complete else "KILLED")
