"""Training and evaluation from Python: runs of one process do not affect each other, and equal those of the command."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import yaml
from helpers.runner import Runner

import accel_train
from accel_train.errors import UserError

pytestmark = pytest.mark.xdist_group("python api")  # the tests share runs

PROGRAM = """
import json, os, sys
from pathlib import Path

import accel_train
from accel_train import EvaluateConfig, TrainConfig

found = {"loaded by the import": sorted({"torch", "accelerate", "torchvision"} & set(sys.modules))}
OPTIONS = {"data": "digits", "model": "mlp", "epochs": 1, "limit": 256, "batch_size": 32, "device": "cpu"}
OPTIONS |= {"report": False}

def train(output, **more):
    return accel_train.train(TrainConfig(**OPTIONS | more, output=output))

def kinds(events):
    return [type(event).__name__ for event in events]

def error(*args, **more):
    try:
        list(train(*args, **more))
    except accel_train.errors.UserError as error:
        return [error.message, error.hint]

first = list(train("first", precision="bf16", exact=True, threads=2))
found["first run"] = kinds(first)
found["first hardware"] = [first[0].hardware.precision, first[0].hardware.threads]
found["errors"] = [
    error("other", processes=2),
    error("first", exact=False),  # after the Accelerator was made
    error("other", cudnn_benchmark=True),  # after the model was built
]
second = list(train("second", threads=1))
found["second hardware"] = [second[0].hardware.precision, second[0].hardware.threads]
found["second result"] = next(event for event in second if event.kind == "end").val_accuracy

child = os.fork()
if not child:
    from accel_train.system.folder_lock import FolderLock

    FolderLock(Path("second")).acquire()
    os._exit(0)
found["lock"] = os.waitpid(child, 0)[1]
found["finished run"] = kinds(train("second", threads=1))
evaluated = accel_train.evaluate("second")
found["evaluated"] = [evaluated.images, evaluated.accuracy, evaluated.weights]
found["evaluated best"] = accel_train.evaluate(Path("second"), EvaluateConfig(weights="best", batch_size=7)).accuracy

for event in train("left", threads=1, save_every="2updates"):
    if isinstance(event, accel_train.events.Saved):
        break
found["resumed"] = kinds(train("left", threads=1, save_every="2updates"))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("python_api")


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    """Return what a fresh process has found."""
    ended = Runner(folder).program([sys.executable, "-c", PROGRAM])
    assert ended.code == 0, ended.err
    assert ended.err == ""
    (record,) = ended.records  # nothing else is printed
    return record


def test_import_does_not_load_torch(found: dict[str, Any]) -> None:
    assert found["loaded by the import"] == []


def test_run_yields_its_events(found: dict[str, Any]) -> None:
    assert [kind for kind in found["first run"] if kind != "Notice"] == [
        *("RunStarted", "RanksStarted", *["UpdateDone"] * 8, "EpochByRank", "EpochEnd", "Saved", "RunEnded"),
    ]


def test_later_run_has_its_own_settings(found: dict[str, Any]) -> None:
    assert found["first hardware"] == ["bf16", 2]
    assert found["second hardware"] == ["fp32", 1]


def test_errors_are_raised_and_leave_the_process_usable(found: dict[str, Any]) -> None:
    processes, other_run, no_gpu = found["errors"]
    assert processes == [
        "2 processes asked for, but this is one of 1",
        "start it with `accel_train train --processes 2` or a launcher",
    ]
    assert re.match("first holds a run of another configuration: --exact False instead of True", other_run[0])
    assert no_gpu[0] == "--cudnn-benchmark has no effect on cpu"


def test_run_equals_that_of_the_command(found: dict[str, Any], folder: Path) -> None:
    options = ("--data", "digits", "--model", "mlp", "--epochs", "1", "--limit", "256", "--batch-size", "32")
    ended = Runner(folder)("train", *options, "--device", "cpu", "--threads", "1", "--output", "command")
    assert ended.code == 0, ended.err
    runs = [folder / name for name in ("second", "command")]
    python, command = (sorted(path.name for path in run.iterdir()) for run in runs)
    assert python == command
    for name in ("model.safetensors", "best.safetensors"):
        assert (runs[0] / name).read_bytes() == (runs[1] / name).read_bytes(), name
    assert len({json.dumps(yaml.safe_load((run / "config.yaml").read_text())) for run in runs}) == 1
    metrics = [[json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()] for run in runs]
    kinds = [[record["kind"] for record in records] for records in metrics]
    assert kinds == [["run", "epoch_by_rank", "epoch", "end"]] * 2
    assert metrics[0][2]["val_loss"] == metrics[1][2]["val_loss"]
    assert metrics[0][1]["ranks"][0]["weights"] == metrics[1][1]["ranks"][0]["weights"]


def test_finished_run_can_be_evaluated(found: dict[str, Any], folder: Path) -> None:
    assert found["evaluated"] == [256, found["second result"], "last"]
    assert found["evaluated best"] == found["second result"]
    events = [kind for kind in found["finished run"] if kind != "Notice"]
    assert events == ["RunStarted", "Resumed", "RanksStarted", "RunEnded"]


def test_folder_lock_is_released_after_the_run(found: dict[str, Any]) -> None:
    assert found["lock"] == 0


def test_run_that_its_consumer_has_left_is_resumed(found: dict[str, Any], folder: Path) -> None:
    resumed = found["resumed"]
    assert resumed[:2] == ["RunStarted", "Resumed"]
    assert 0 < resumed.count("UpdateDone") < 8
    left, second = (safetensors.torch.load_file(folder / run / "model.safetensors") for run in ("left", "second"))
    assert all(weight.equal(second[name]) for name, weight in left.items())


@pytest.mark.parametrize("read", [accel_train.evaluate, accel_train.load])
def test_empty_path_is_not_the_current_folder(read: Callable[[str], object]) -> None:
    with pytest.raises(UserError, match=r"^the path of the run is empty$"):
        read("")


def test_exported_names_exist() -> None:
    assert sorted(accel_train.__all__) == ["EvaluateConfig", "TrainConfig", "__version__", "evaluate", "load", "train"]
    assert all(hasattr(accel_train, name) for name in accel_train.__all__)
