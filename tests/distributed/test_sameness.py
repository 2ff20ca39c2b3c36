"""Results do not depend on the number of processes and loader workers."""

import json
from pathlib import Path

import pytest
import safetensors.torch
from helpers.comparing import flags, greatest_difference, ids, losses, mean_losses, relative
from helpers.marks import chaos
from helpers.runner import Runner, read_metrics

from accel_train.config.load import make_config
from accel_train.config.options import TrainConfig
from accel_train.config.plan import make_plan
from accel_train.config.resolve import resolve

HERE = Path(__file__).parent
SIX_MICRO_BATCHES = {"data": "networks:fashion", "global_batch_size": 96, "batch_size": 16, "augment": "standard"}
RUN = {"epochs": 1, "lr": 0.05, "warmup_epochs": 0.1, "log_every": 1, "precision": "fp64"}


@pytest.mark.parametrize("model", [chaos("cnn"), "networks:normalised"])
def test_hundred_updates_in_fp64_are_the_same_on_any_number_of_processes(run: Runner, model: str) -> None:
    """Four processes cannot share six micro-batches equally."""
    folders = {processes: run.folder / str(processes) for processes in (1, 2, 3, 4)}
    for processes, folder in folders.items():
        options = flags({**SIX_MICRO_BATCHES, **RUN, "model": model, "output": folder})
        ended = run("train", *options, processes=processes, timeout=240, PYTHONPATH=str(HERE))
        assert ended.code == 0, ended.err
    assert len(losses(folders[1], 1)) == 100
    for processes in (2, 3, 4):
        assert greatest_difference(folders[1], folders[processes]) < 1e-7
        assert ids(folders[processes], processes) == ids(folders[1], 1)
        assert losses(folders[processes], processes, 6) == pytest.approx(losses(folders[1], 1), rel=1e-7)
        lr = [[record["lr"] for record in read_metrics(folders[p], "progress")] for p in (1, processes)]
        assert lr[0] == lr[1]


@pytest.mark.parametrize("model", ["cnn", "networks:normalised"])
def test_gradient_and_losses_in_fp32_are_the_same_on_any_number_of_processes(run: Runner, model: str) -> None:
    gradients, first_losses = [], []
    for processes in (1, 2, 3, 4):
        folder = run.folder / str(processes)
        folder.mkdir()
        options = json.dumps(
            {**SIX_MICRO_BATCHES, "model": model, "lr": 0.05, "limit": 480, "epochs": 1, "device": "cpu"}
        )
        ended = run.script(HERE / "record_gradient.py", folder, options, processes=processes, PYTHONPATH=str(HERE))
        assert ended.code == 0, ended.err
        gradients.append(safetensors.torch.load_file(folder / "gradient.safetensors")["gradient"])
        by_rank = [json.loads((folder / f"losses_{rank}.json").read_text()) for rank in range(processes)]
        first_losses.append(mean_losses(by_rank, 6))
    assert len(first_losses[0]) == 5
    for gradient, others in zip(gradients[1:], first_losses[1:], strict=True):
        assert relative(gradients[0], gradient) < 1e-6
        assert others == pytest.approx(first_losses[0], rel=1e-5)


def test_weights_are_identical_in_a_second_run_and_with_loader_workers(run: Runner) -> None:
    written = []
    for name, workers in {"first": 0, "again": 0, "one worker": 1, "three workers": 3}.items():
        folder = run.folder / name
        options = flags(
            {**SIX_MICRO_BATCHES, "model": "networks:normalised", "limit": 960, "epochs": 2, "output": folder}
        )
        assert run("train", *options, "--workers", str(workers), PYTHONPATH=str(HERE)).code == 0
        written.append([(folder / name).read_bytes() for name in ("model.safetensors", "best.safetensors")])
    assert all(files == written[0] for files in written)


def test_logged_learning_rate_follows_the_schedule(run: Runner) -> None:
    for processes in (1, 2):
        folder = run.folder / str(processes)
        options = {"batch_size": 32, "accumulate": 2, "lr": 0.1, "lr_scaling": "linear", "epochs": 2, "limit": 512}
        ended = run("train", *flags({**options, "log_every": 1, "output": folder}), processes=processes)
        assert ended.code == 0, ended.err
        config, _ = resolve(make_config(TrainConfig, options, {}), {}, "digits", 512, "fp32")
        plan = make_plan(config, processes, 512)
        assert plan.learning_rate.peak == pytest.approx(0.1 * 32 * 2 * processes / 256)
        (started,) = read_metrics(folder, "run")
        assert started["peak_lr"] == plan.learning_rate.peak
        rates = [record["lr"] for record in read_metrics(folder, "progress")]
        assert rates == [plan.learning_rate(update) for update in range(plan.total_updates)]


def test_validation_counts_every_image_once(run: Runner) -> None:
    found = []
    for processes in (1, 2, 3):
        ended = run.script(HERE / "count_images.py", "auto", "9", "17", "3", processes=processes)
        assert ended.code == 0, ended.err
        found.append(ended.records)
    assert [images for images, *_ in found[0]] == [9, 17, 3]
    for other in found[1:]:
        for (images, accuracy, loss, balanced), one in zip(other, found[0], strict=True):
            assert [images, accuracy, balanced] == [one[0], one[1], one[3]]
            assert loss == pytest.approx(one[2], abs=1e-6)
