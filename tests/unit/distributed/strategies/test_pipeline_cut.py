"""A model is cut where it was asked for, or so that the slowest stage is as fast as possible."""

import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from accel_train.distributed.strategies.pipeline_cut import (
    BlockCost,
    cheapest_cut,
    check_checkpointed,
    check_trainable,
    cut_at,
    describe_cut,
    measure,
)
from accel_train.errors import UserError
from accel_train.training.activation_checkpointing import checkpoint_blocks


class Part(NamedTuple):
    """A block."""

    name: str
    forward: Callable[[Tensor], Tensor] = torch.relu
    parts: tuple[str, ...] = ()


RESNET = [Part(name) for name in ("conv1", "layer1.0", "layer1.1", "layer2.0", "fc")]


def cost(seconds: float, bytes: int = 4, outputs: int = 0) -> BlockCost:
    return BlockCost(seconds, bytes, torch.Size([outputs]), torch.float32, channels_last=False)


@pytest.mark.parametrize(
    ("names", "starts"),
    [(("layer2", "fc"), [0, 3, 4]), (("layer1", "layer1.1"), [0, 1, 2]), (("layer1.1", "layer2.0"), [0, 2, 3])],
)
def test_stages_start_at_named_modules(names: tuple[str, ...], starts: list[int]) -> None:
    assert cut_at(RESNET, names, 3) == starts


@pytest.mark.parametrize(
    ("names", "message", "hint"),
    [
        (("fc",), "--pipeline-split fc cuts the model into 2 stages, not into --pipeline-stages 3", "name 2: where"),
        (("layer3", "fc"), "no stage can start at layer3", "choose from layer1.0, layer1.1, layer2.0, fc"),
        (("conv1", "fc"), "no stage can start at conv1", "choose from layer1.0, layer1.1, layer2.0, fc"),
        (("layer", "fc"), "no stage can start at layer", "choose from layer1.0"),
        (("fc", "layer1"), "layer1 does not follow the name before it", "the order is layer1.0, layer1.1"),
        (("fc", "fc"), "fc does not follow the name before it", "the order is"),
    ],
)
def test_wrong_names_are_rejected_with_the_valid_ones(names: tuple[str, ...], message: str, hint: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)) as rejected:
        cut_at(RESNET, names, 3)
    assert rejected.value.message.startswith(f"--pipeline-split {','.join(names)}")
    assert rejected.value.hint.startswith(hint)


def test_names_of_deep_models_are_shortened() -> None:
    deep = [Part("stem"), *(Part(f"layer{i}.{j}") for i in range(1, 4) for j in range(30))]
    with pytest.raises(UserError) as rejected:
        cut_at(deep, ("head",), 2)
    assert rejected.value.hint == "choose from layer1, layer2, layer3"


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_cheapest_cut_is_the_best_of_all(stages: int) -> None:
    generator = torch.Generator().manual_seed(stages)
    for _ in range(20):
        seconds = torch.rand(8, generator=generator).tolist()
        costs = [cost(s) for s in seconds]

        def slowest(starts: Sequence[int], seconds: list[float] = seconds) -> float:
            return max(sum(seconds[i:j]) for i, j in pairwise([*starts, 8]))

        best = min(slowest((0, *others)) for others in combinations(range(1, 8), stages - 1))
        assert slowest(cheapest_cut(costs, stages, 4)) == pytest.approx(best, abs=1e-6)


def test_large_activations_and_weights_move_the_cut() -> None:
    def cut(*costs: BlockCost) -> int:
        return cheapest_cut(costs, 2, 4)[1]

    even = [cost(0.1), cost(0.1), cost(0.1), cost(0.1)]
    assert cut(*even) == 2
    large = 10**9  # floats take four seconds
    assert cut(even[0], cost(0.1, outputs=large), *even[2:]) in (1, 3)
    assert cut(*even[:3], cost(0.1, bytes=8 * 10**9)) == 3


def test_each_stage_has_something_to_train() -> None:
    costs = [cost(0.1), cost(5.0, bytes=0), cost(5.0, bytes=0), cost(0.1)]
    assert cheapest_cut(costs, 2, 1) in ([0, 1], [0, 2], [0, 3])
    assert cheapest_cut([cost(0.1, bytes=0), *costs], 2, 1)[1] >= 2
    for starts, stage in (([0, 1, 3], 1), ([0, 3, 4], None)):
        costs = [cost(0.1), cost(0.1, bytes=0), cost(0.1, bytes=0), cost(0.1), cost(0.1)]
        if stage is None:
            check_trainable(RESNET, costs, starts)
            continue
        with pytest.raises(UserError, match=r"stage 1 of --strategy pipeline, from layer1\.0 on, has no trainable"):
            check_trainable(RESNET, costs, starts)


def test_cut_is_described_with_shares_and_idle_time() -> None:
    costs = [cost(0.1, 100), cost(0.1, 0), cost(0.2, 300), cost(0.6, 10_000), cost(0.0, 1)]
    assert describe_cut(RESNET, costs, [0, 3, 4], 4) == (
        "the model is cut: stage 0: conv1 to layer1.1 (4 % of the parameters, 40 % of the forward time); "
        "stage 1: layer2.0 (96 % of the parameters, 60 % of the forward time); "
        "stage 2: fc (under 1 % of the parameters, 0 % of the forward time); "
        "equal stages would be idle for 33 % of the time"
    )


def net() -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Flatten(), nn.Linear(16, 2))
    model[4].bias.requires_grad_(False)
    return model.to(memory_format=torch.channels_last)


def parts_of(model: nn.Sequential) -> list[Part]:
    return [Part(name, module, (name,)) for name, module in model._modules.items() if module is not None]


def images() -> Tensor:
    return torch.rand(3, 3, 4, 4).contiguous(memory_format=torch.channels_last)


def test_measuring_changes_nothing_and_sees_sizes_and_layout() -> None:
    model = net()
    model[1].eval()
    images_BCHW, before = images(), {n: t.clone() for n, t in model.state_dict().items()}
    state = torch.get_rng_state()
    costs = measure(model, parts_of(model), images_BCHW, nullcontext)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())
    assert [m.training for m in model] == [True, False, True, True, True]
    assert [tuple(c.shape) for c in costs] == [(3, 4, 2, 2)] * 3 + [(3, 16), (3, 2)]
    assert [c.channels_last for c in costs] == [True, True, True, False, False]
    assert [c.bytes for c in costs] == [4 * (4 * 27 + 4), 4 * 8, 0, 0, 4 * 32]  # the frozen bias is not trained
    assert costs[0].output_bytes == 4 * 3 * 4 * 4
    assert all(c.seconds > 0 for c in costs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda parts: parts[:-1], "the blocks of the model, one after another, do not give its output"),
        (
            lambda parts: [parts[0]._replace(forward=lambda x: (x, x)), *parts[1:]],
            "the block 0 returns tuple, not one tensor",
        ),
        (
            lambda parts: [parts[0]._replace(forward=lambda x: x.long()), *parts[1:]],
            "the block 0 returns torch.int64, not one tensor of floating point",
        ),
        (
            lambda parts: [parts[-1], *parts[:-1]],
            "the block 4 does not take what the blocks before it give: mat1 and mat2 shapes cannot be multiplied",
        ),
    ],
)
def test_blocks_that_are_not_the_forward_pass_are_rejected(change: Any, message: str) -> None:
    model = net()
    with pytest.raises(UserError, match=message):
        measure(model, change(parts_of(model)), images(), nullcontext)


class Between(nn.Module):
    """Computes something between its blocks, in training or evaluation only."""

    def __init__(self, training: bool, returns: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.body = net()
        self.applies, self.returns = training, returns

    def forward(self, x: Tensor) -> Any:
        x = self.body(x)
        return self.returns(x) if self.training == self.applies else x


@pytest.mark.parametrize(("training", "mode"), [(True, "training"), (False, "evaluation")])
@pytest.mark.parametrize("returns", [lambda x: dropout(x, 0.5, training=True), lambda x: (x, x)])
def test_what_a_model_computes_between_blocks_is_noticed_in_both_modes(
    training: bool, mode: str, returns: Callable[[Tensor], Any]
) -> None:
    model = Between(training, returns)
    parts = [Part(f"body.{part.name}", part.forward, (f"body.{part.name}",)) for part in parts_of(model.body)]
    with pytest.raises(UserError, match=f"do not give its output in {mode}"):
        measure(model, parts, images(), nullcontext)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


@pytest.mark.parametrize("parts", [("0.body", "1"), ("0.body.0", "0.body.1", "1")])
def test_checkpointed_module_that_no_block_calls_is_rejected(parts: tuple[str, ...]) -> None:
    model = nn.Sequential(Residual(), Residual())
    checkpoint_blocks(model, "net")
    whole = [Part(name, model.get_submodule(name), (name,)) for name in ("0", "1")]
    check_checkpointed(model, whole)
    blocks = [Part(name, model.get_submodule(name), (name,)) for name in parts]
    with pytest.raises(UserError, match="--activation-checkpointing has no effect on 0: "):
        check_checkpointed(model, blocks)


def test_first_block_may_write_into_the_images() -> None:
    class Shift(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.sub_(0.5)

    model = nn.Sequential(Shift(), *net())
    images_BCHW = images()
    assert len(measure(model, parts_of(model), images_BCHW, nullcontext)) == 6
