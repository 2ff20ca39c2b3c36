"""Runs on a GPU, never forked: CUDA cannot be used in a fork of a process that has used it."""

import pytest
import torch
from helpers.runner import Runner, read_metrics

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
def test_digits_train_in_every_precision(run: Runner, precision: str) -> None:
    folder = run.folder / "run"
    ended = run("train", "--device", "cuda", "--precision", precision, "--output", folder, forked=False)
    assert ended.code == 0, ended.err
    (started,) = read_metrics(folder, "run")
    assert (started["device"], started["precision"]) == ("cuda:0", precision)
    assert read_metrics(folder, "epoch")[-1]["val_accuracy"] > 0.95


def test_first_losses_equal_those_on_a_cpu(run: Runner) -> None:
    losses = []
    for device in ("cpu", "cuda"):
        folder = run.folder / device
        options = ("--device", device, "--precision", "fp32", "--epochs", "1", "--log-every", "1", "--output", folder)
        assert run("train", *options, forked=False).code == 0
        losses.append([record["local_loss"] for record in read_metrics(folder, "progress")][:5])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_whitening_layer_is_made_from_images_on_the_gpu_as_from_those_on_a_cpu(run: Runner) -> None:
    losses = []
    for device in ("cpu", "cuda"):
        folder = run.folder / device
        options = ("--device", device, "--precision", "fp32", "--epochs", "1", "--log-every", "1", "--output", folder)
        ended = run("train", "--data", "synthetic:256,3,12,12,4", "--model", "airbench94_8_8_8", *options, forked=False)
        assert ended.code == 0, ended.err
        losses.append(read_metrics(folder, "progress")[0]["local_loss"])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


@pytest.mark.parametrize("optimizer", ["lars", "lamb", "novograd", "muon"])
def test_first_losses_of_an_optimizer_of_ours_equal_those_on_a_cpu_after_resuming_too(
    run: Runner, optimizer: str
) -> None:
    losses = []
    for device in ("cpu", "cuda"):
        folder = run.folder / device
        options = ("--device", device, "--optimizer", optimizer, "--log-every", "1", "--output", folder)
        for epochs in ("1", "2"):
            assert run("train", *options, "--limit", "192", "--epochs", epochs, forked=False).code == 0
        losses.append([record["local_loss"] for record in read_metrics(folder, "progress")])
    assert len(losses[0]) == len(losses[1]) > 5
    assert losses[1][:5] == pytest.approx(losses[0][:5], rel=1e-3)


def test_evaluation_gives_the_results_of_the_run(run: Runner) -> None:
    folder = run.folder / "run"
    assert run("train", "--device", "cuda", "--epochs", "2", "--output", folder, forked=False).code == 0
    ended = run("evaluate", folder, "--device", "cuda", "--json", forked=False)
    assert ended.records[0]["accuracy"] == read_metrics(folder, "epoch")[-1]["val_accuracy"]


def test_more_processes_than_gpus_are_rejected(run: Runner) -> None:
    processes = torch.cuda.device_count() + 1
    ended = run("train", "--device", "cuda", processes=processes, forked=False)
    assert ended.code == 2
    assert f"{processes} processes on this machine" in ended.err
