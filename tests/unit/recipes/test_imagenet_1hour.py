"""The recipe imagenet_1hour is that of Goyal et al. 2017, line by line: in its config, its plan and its model."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from accel_train.config.load import make_config
from accel_train.config.options import ResolvedConfig, TrainConfig
from accel_train.config.plan import Plan, make_plan
from accel_train.config.resolve import resolve
from accel_train.data.sources.base import DataSet
from accel_train.data.sources.memory import MemorySource, memory_data
from accel_train.models.build import BuiltModel
from accel_train.recipes.read import find
from accel_train.run.initial_model import Start, initial_model
from accel_train.training.optimizers import build_optimizer

IMAGES = 1_281_167
PER_EPOCH = IMAGES // 8192
HARDWARE = (1, 8, 64, 256)


def config(**flags: Any) -> ResolvedConfig:
    recipe = find("imagenet_1hour")
    values = recipe.values(set(TrainConfig.model_fields)) | flags
    asked = make_config(TrainConfig, values, dict.fromkeys(values, recipe.origin))
    return resolve(asked, {}, "folder", IMAGES, "fp32")[0]


def plan(processes: int = 256, **flags: Any) -> Plan:
    return make_plan(config(**flags), processes, IMAGES)


@pytest.fixture(scope="module")
def built() -> BuiltModel:
    """Return the model, for 1,000 classes."""
    source = MemorySource(
        tuple(map(str, range(1000))), torch.zeros(1, 3, 224, 224, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64)
    )
    data: DataSet = memory_data("synthetic", "", source, source)
    return initial_model(config(), data, Start(), None)[1]


@pytest.mark.parametrize("processes", HARDWARE)
def test_batch_norm_sees_32_images_whatever_the_hardware(processes: int) -> None:
    """§2.3 and §3.2: n is fixed as k grows, and kn = 8,192."""
    found = plan(processes)
    assert (found.batch_size, found.global_batch, found.micro_batches) == (32, 8192, 256)
    assert found.accumulate * processes == 256


@pytest.mark.parametrize(("global_batch", "peak"), [(256, 0.1), (512, 0.2), (2048, 0.8), (8192, 3.2)])
def test_learning_rate_is_a_tenth_times_batch_by_256(global_batch: int, peak: float) -> None:
    """§2.1, the linear scaling rule; without a limit."""
    rate = plan(8, global_batch_size=global_batch).learning_rate
    assert rate.peak == pytest.approx(peak)
    assert rate(0) == pytest.approx(0.1)


def test_everything_else_stays_as_the_batch_grows() -> None:
    small, large = config(global_batch_size=256).model_dump(), config().model_dump()
    assert {name for name in large if small[name] != large[name]} == {"global_batch_size"}


def test_warmup_adds_a_constant_amount_per_update_from_the_base_rate() -> None:
    """§2.2, gradual warmup over 5 epochs."""
    rate = plan().learning_rate
    updates = 5 * PER_EPOCH
    rates = [rate(update) for update in range(updates + 1)]
    added = [after - before for before, after in pairwise(rates)]
    assert added == pytest.approx([(3.2 - 0.1) / updates] * updates)
    assert (rates[0], rates[-1]) == pytest.approx((0.1, 3.2))


def test_rate_falls_to_a_tenth_at_epochs_30_60_and_80_from_epoch_0() -> None:
    """§5.1."""
    found = plan()
    assert (found.epochs, found.total_updates) == (90, 90 * PER_EPOCH)
    rate = found.learning_rate
    for epoch, before, after in ((30, 3.2, 0.32), (60, 0.32, 0.032), (80, 0.032, 0.0032)):
        assert rate(epoch * PER_EPOCH - 1) == pytest.approx(before)
        assert rate(epoch * PER_EPOCH) == pytest.approx(after)
    assert rate(found.total_updates - 1) == pytest.approx(0.0032)


def test_optimizer_is_sgd_with_nesterov_momentum_and_no_decay_of_batch_norm(built: BuiltModel) -> None:
    """§5.1; §5.3: no weight decay on γ and β."""
    resolved = config()
    optimizer = build_optimizer(
        resolved.optimizer, built.module, weight_decay=resolved.weight_decay, betas=(0.9, 0.999), eps=1e-8
    )
    assert isinstance(optimizer, torch.optim.SGD)
    assert {(group["momentum"], group["nesterov"], group["dampening"]) for group in optimizer.param_groups} == {
        (0.9, True, 0)
    }
    decay = {id(weight): group["weight_decay"] for group in optimizer.param_groups for weight in group["params"]}
    for name, part in built.module.named_modules():
        if isinstance(part, nn.BatchNorm2d):
            assert (decay[id(part.weight)], decay[id(part.bias)]) == (0, 0), name
        elif isinstance(part, nn.Conv2d | nn.Linear):
            assert decay[id(part.weight)] == 1e-4, name


def test_last_batch_norm_of_each_residual_block_starts_at_0(built: BuiltModel) -> None:
    """§5.1."""
    norms = {name: part for name, part in built.module.named_modules() if isinstance(part, nn.BatchNorm2d)}
    zero = {name for name, norm in norms.items() if not norm.weight.any()}
    assert zero == {name for name in norms if name.endswith("bn3")}
    assert len(zero) == 16
    assert all(bool((norms[name].weight == 1).all()) for name in norms.keys() - zero)


def test_classifier_starts_with_a_standard_deviation_of_a_hundredth(built: BuiltModel) -> None:
    """§5.1."""
    weight = built.module.get_parameter("fc.weight")
    assert weight.shape == (1000, 2048)
    assert weight.std().item() == pytest.approx(0.01, rel=0.01)
    assert weight.mean().item() == pytest.approx(0, abs=1e-4)


def test_running_statistics_keep_nine_tenths(built: BuiltModel) -> None:
    """§5.1: "the running average is 0.9"; torch's momentum is the rest."""
    found = {part.momentum for part in built.module.modules() if isinstance(part, nn.BatchNorm2d)}
    assert found == {0.1}
    assert not any(isinstance(part, nn.SyncBatchNorm) for part in built.module.modules())


def test_images_are_cropped_by_scale_and_ratio_and_flipped_only() -> None:
    """§5.1, and Szegedy et al. 2015 for the crops."""
    resolved = config()
    assert str(resolved.augmentation) == "random resized crop, flip"
    assert (resolved.crop_scale, resolved.flip) == ((0.08, 1.0), 0.5)
    assert resolved.crop_ratio == pytest.approx((3 / 4, 4 / 3))
    assert (resolved.image_size, resolved.eval_crop) == (224, 224 / 256)
    assert (resolved.mixup, resolved.cutmix, resolved.label_smoothing, resolved.ema) == (0, 0, 0, None)
