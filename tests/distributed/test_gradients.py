"""Gradients are averaged over micro-batches and processes, clipped once, and augmented by index."""

import json
import re

import pytest
from helpers.comparing import flags, greatest_difference
from helpers.runner import Runner, read_metrics

DIGITS = {"model": "cnn", "precision": "fp64", "epochs": 1, "lr": 0.1, "log_every": 1, "device": "cpu"}
UNUSED = r"the loss does not depend on the model's parameter 1\.spare_head\.weight and 1 more"
UNUSED_HINT = r"remove the unused part, or freeze it with requires_grad_\(False\)"
RECORDS_NORMS = """
import json, sys, torch
from accel_train.config.load import make_config
from accel_train.config.options import TrainConfig
from accel_train.distributed.accelerator import stop
from accel_train.run.build import build_run
from accel_train.run.session import Session
from accel_train.system.signals import StopSignals

limits, before, at_step, clip = [], [], [], torch.nn.utils.clip_grads_with_norm_

def recording_clip(parameters, limit, norm):
    clip(parameters, limit, norm)
    limits.append(limit), before.append(norm.item())

def record_norm(optimizer, *_):
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"]]
    at_step.append(torch.nn.utils.get_total_norm(gradients).item())

torch.nn.utils.clip_grads_with_norm_ = recording_clip
run = build_run(make_config(TrainConfig, json.loads(sys.argv[1]), {}), {})
session = Session(run, StopSignals())
run.training.updater.optimizer.register_step_pre_hook(record_norm)
for event in session.events():
    pass
if run.processes.is_main:
    print(json.dumps({"limits": limits, "before": before, "at_step": at_step}))
stop()
"""
MODELS = """
import json, os, random
import numpy, torch
from torch import nn

def unused_head(classes, channels):
    model = nn.Sequential(nn.Flatten(), nn.Linear(64 * channels, classes))
    model[1].register_module("spare_head", nn.Linear(3, 4))
    return model

def synchronised(channels, classes):
    return nn.Sequential(nn.Conv2d(channels, 4, 3), nn.SyncBatchNorm(4), nn.Flatten(), nn.Linear(144, classes))

def without_momentum(channels, classes):
    norm = nn.BatchNorm2d(4, momentum=None)
    return nn.Sequential(nn.Conv2d(channels, 4, 3), norm, nn.Flatten(), nn.Linear(144, classes))

class Brightened(nn.Linear):
    '''Changes its images in place, by a parameter.'''
    def __init__(self, classes):
        super().__init__(64, classes)
        self.brightness = nn.Parameter(torch.tensor(1.0))

    def forward(self, images):
        images *= self.brightness
        return super().forward(images.flatten(1))

def brightened(classes):
    return Brightened(classes)

class Pixels:
    '''Identical images with one bright pixel: its place after augmentation shows the shift.'''
    classes = ("a", "b")

    def __len__(self):
        return 64

    def __getitem__(self, i):
        image = torch.zeros(1, 9, 9, dtype=torch.uint8)
        image[0, 4, 3] = 200
        image[0, 0, :] = torch.tensor([random.randrange(50), numpy.random.randint(50), *torch.randint(50, (7,))])
        return image, i % 2

class Witness(nn.Linear):
    def forward(self, images):
        if self.training:
            places = images.flatten(1).argmax(1).tolist()
            drawn = [images.sum((1, 2, 3)).tolist(), torch.rand(1).item(), random.random(), numpy.random.rand()]
            with open(os.path.join(os.environ["WITNESS"], os.environ["RANK"]), "a") as file:
                file.write(json.dumps([places, *drawn]) + "\\n")
        return super().forward(images.flatten(1))

def pixels():
    return Pixels(), Pixels()

def witness(classes):
    return Witness(81, classes)
"""


def test_accumulation_changes_neither_losses_nor_weights(run: Runner) -> None:
    runs = []
    for accumulate in (1, 4):
        output = run.folder / str(accumulate)
        # 200 images are 3 updates and 8 images, which must not become an update.
        options = {**DIGITS, "limit": 200, "batch_size": 64 // accumulate, "accumulate": accumulate, "output": output}
        ended = run("train", *flags(options))
        assert ended.code == 0, ended.err
        losses = [record["local_loss"] for record in read_metrics(output, "progress")]
        (epoch,) = read_metrics(output, "epoch")
        runs.append((output, [*losses, epoch["train_loss"], epoch["val_loss"]]))
    (one, losses), (four, same) = runs
    assert len(losses) == 3 + 2
    assert losses[3] == pytest.approx(sum(losses[:3]) / 3, rel=1e-9)
    assert same == pytest.approx(losses, rel=1e-6)
    assert greatest_difference(one, four) < 1e-6


def test_gradient_is_clipped_once_per_update(run: Runner) -> None:
    limit, found = 0.05, []
    for processes in (1, 2):
        options = {**DIGITS, "limit": 192, "global_batch_size": 64, "batch_size": 8, "clip_norm": limit}
        options["output"] = str(run.folder / str(processes))
        ended = run.script("-c", RECORDS_NORMS, json.dumps(options), processes=processes)
        assert ended.code == 0, ended.err
        (norms,) = ended.records
        assert norms["limits"] == [limit] * 3
        assert min(norms["before"]) > 2 * limit
        assert norms["at_step"] == pytest.approx([limit] * 3, rel=1e-5)
        found.append(norms["before"])
    assert found[1] == pytest.approx(found[0], rel=1e-6)


@pytest.mark.parametrize(
    ("processes", "model", "more", "error", "hint"),
    [
        (2, "unused_head", (), UNUSED, UNUSED_HINT),
        (2, "unused_head", ("--accumulate", "2", "--exact"), UNUSED, UNUSED_HINT),
        (1, "synchronised", (), r"models:synchronised contains SyncBatchNorm \(1\)", r"use BatchNorm: .+"),
    ],
    ids=["unused head", "unused head, exact", "SyncBatchNorm"],
)
def test_model_that_processes_cannot_share_is_rejected(
    run: Runner, processes: int, model: str, more: tuple[str, ...], error: str, hint: str
) -> None:
    (run.folder / "models.py").write_text(MODELS)
    words = ("--model", f"models:{model}", "--batch-size", "16", "--epochs", "1", "--limit", "64", "--quiet", *more)
    ended = run("train", *words, processes=processes)
    assert ended.code == 2
    assert re.fullmatch(rf"error: {error}\nhint: {hint}\n", ended.err), ended.err


@pytest.mark.parametrize("model", ["without_momentum", "brightened"])
def test_unusual_models_train_the_same_on_two_processes(run: Runner, model: str) -> None:
    """BatchNorm with momentum=None; a model that changes its images in place must not change the next batch."""
    (run.folder / "models.py").write_text(MODELS)
    for processes in (1, 2):
        options = {**DIGITS, "model": f"models:{model}", "output": run.folder / str(processes)}
        options |= {"limit": 256, "global_batch_size": 64, "batch_size": 16}
        ended = run("train", *flags(options), processes=processes)
        assert ended.code == 0, ended.err
    assert greatest_difference(run.folder / "1", run.folder / "2") < 1e-9


def test_augmentation_differs_by_rank_and_repeats_in_every_run(run: Runner) -> None:
    (run.folder / "models.py").write_text(MODELS)
    seen = []
    for workers in (0, 1):
        (notes := run.folder / str(workers)).mkdir()
        options = {"data": "models:pixels", "model": "models:witness", "augment": "standard", "seed": 3, "epochs": 2}
        options |= {"batch_size": 8, "accumulate": 2, "workers": workers, "output": run.folder / f"out_{workers}"}
        ended = run("train", *flags(options), processes=2, WITNESS=str(notes))
        assert ended.code == 0, ended.err
        seen.append([[json.loads(line) for line in (notes / rank).read_text().splitlines()] for rank in "01"])
    assert seen[0] == seen[1]
    first, second = seen[0]
    assert len(first) == len(second) == 2 * 2 * 2
    for numbers in zip(*first, *second, strict=True):  # one kind of number, over ranks and micro-batches
        assert len({json.dumps(number) for number in numbers}) == len(numbers), numbers
