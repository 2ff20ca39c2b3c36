"""What only a GPU shows; `make test-gpu` runs these on a machine that has one."""

import pytest
import torch
from helpers.runner import Runner, read_metrics

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
def test_digits_train_on_a_gpu_in_every_precision(run: Runner, precision: str) -> None:
    folder = run.folder / "run"
    ended = run("train", "--device", "cuda", "--precision", precision, "--output", folder)
    assert ended.code == 0, ended.err
    (started,) = read_metrics(folder, "run")
    assert (started["device"], started["precision"]) == ("cuda:0", precision)
    assert read_metrics(folder, "epoch")[-1]["val_accuracy"] > 0.95


def test_a_gpu_starts_as_a_cpu_does(run: Runner) -> None:
    losses = []
    for device in ("cpu", "cuda"):
        folder = run.folder / device
        options = ("--device", device, "--precision", "fp32", "--epochs", "1", "--log-every", "1", "--output", folder)
        assert run("train", *options).code == 0
        losses.append([record["local_loss"] for record in read_metrics(folder, "progress")][:5])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_evaluation_on_a_gpu_repeats_the_runs_own(run: Runner) -> None:
    folder = run.folder / "run"
    assert run("train", "--device", "cuda", "--epochs", "2", "--output", folder).code == 0
    ended = run("evaluate", folder, "--device", "cuda", "--json")
    assert ended.records[0]["accuracy"] == read_metrics(folder, "epoch")[-1]["val_accuracy"]


def test_more_processes_than_gpus_are_refused(run: Runner) -> None:
    processes = torch.cuda.device_count() + 1
    ended = run("train", "--device", "cuda", processes=processes)
    assert ended.code == 2
    assert f"{processes} processes on this machine" in ended.err
