"""Reads back what trackers have stored, each by other code than the tracker's own."""

import csv
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

KINDS = ("progress", "epoch", "end")
Points = list[tuple[str, int, float]]
"""Key, update and value; a repeated value is there twice."""


def expected(folder: Path) -> Points:
    """Return what metrics.jsonl of a run holds, so that stores can be compared with it."""
    points = []
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        update = record.get("update", record.get("updates"))
        numbers = {name: value for name, value in record.items() if type(value) in (int, float)}
        for name in numbers.keys() - {"update", "updates"} if record["kind"] in KINDS else ():
            points.append((f"{record['kind']}/{name}", update, numbers[name]))
    return sorted(points)


def in_csv(folder: Path) -> Points:
    with (folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return sorted(
        (f"{row['kind']}/{name}", int(row["update"]), float(value))
        for row in rows
        for name, value in row.items()
        if value and name not in ("kind", "update") and not (row["kind"] == "end" and name == "updates")
    )


def in_tensorboard(folder: Path) -> Points:
    """Return all scalars of all event files; TensorBoard itself would hide what it takes for the rest of a crash."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    points = []
    for path in sorted((folder / "tensorboard").rglob("events.out.tfevents.*")):
        for data in RawEventFileLoader(str(path)).Load():
            event = Event.FromString(data)
            points += [
                (value.tag, event.step, value.simple_value)
                for value in event.summary.value
                if value.WhichOneof("value") == "simple_value"
            ]
    return sorted(points)


def shown_by_tensorboard(folder: Path) -> Any:
    """Return TensorBoard's own view of a run."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    shown = EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0})
    return shown.Reload()


def in_trackio(store: Path, project: str) -> dict[str, Points]:
    """Return the values of each run in a store, the folder that TRACKIO_DIR names."""
    found: dict[str, Points] = {}
    with closing(sqlite3.connect(f"file:{store / project}.db?mode=ro", uri=True)) as database:
        for name, update, metrics in database.execute("SELECT run_name, step, metrics FROM metrics"):
            numbers = {key: value for key, value in json.loads(metrics).items() if isinstance(value, int | float)}
            found.setdefault(name, []).extend((key, update, value) for key, value in numbers.items())
    return {name: sorted(points) for name, points in found.items()}


def in_mlflow(project: str) -> dict[str, Points]:
    """Return the values of each run, all that a metric has ever been given; MLFLOW_TRACKING_URI names the store."""
    import mlflow

    client = mlflow.MlflowClient()
    return {
        run.info.run_id: sorted(
            (key, metric.step, metric.value)
            for key in run.data.metrics
            for metric in client.get_metric_history(run.info.run_id, key)
        )
        for run in mlflow.search_runs(experiment_names=[project], output_format="list")
    }


def mlflow_run(identity: str) -> dict[str, str]:
    """Return some parameters of a run, and its status."""
    import mlflow

    run = mlflow.MlflowClient().get_run(identity)
    return {name: run.data.params[name] for name in ("batch_size", "model")} | {"status": run.info.status}


def in_wandb(folder: Path) -> dict[str, Points]:
    """Return the values in each folder of an offline run, by the identity of its run."""
    found = {}
    for path in (folder / "wandb").glob("offline-run-*/*.wandb"):
        points = []
        for record in _wandb_records(path):
            if record.WhichOneof("record_type") == "history":
                row = {
                    item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item
                }
                updates = {key.partition("/")[0]: row[key] for key in row if key.endswith("/update")}
                points += [
                    (key, updates[kind], value)
                    for key, value in row.items()
                    if (kind := key.partition("/")[0]) in updates and not key.endswith("/update")
                ]
        found[path.stem.removeprefix("run-")] = sorted(points)
    return found


def _wandb_records(path: Path) -> Iterator[Any]:
    """Yield the records of a file in the format of LevelDB's log, after seven bytes of its own."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, whole = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:  # no header fits into the rest of a block
            at += 32768 - at % 32768
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a record, or the last part of one
            yield Record.FromString(whole)
            whole = b""
