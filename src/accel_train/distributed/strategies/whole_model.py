"""What strategies have in common in which every process computes all layers of the model."""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from accel_train.distributed.strategies.base import Strategy
from accel_train.distributed.strategies.inputs import Division, Passes


def not_divided(self: Strategy, accelerator: Accelerator, model: nn.Module, division: Division) -> None:
    """Leave the model as it is."""


def run_in_turn(self: Strategy, accelerator: Accelerator, model: nn.Module, passes: Passes) -> None:
    """Make the passes of one micro-batch after another."""
    total = passes.most if self.collective_forward else passes.count
    for m in range(total):
        synchronizes = passes.averaged and m == total - 1
        with nullcontext() if synchronizes else self.no_sync(accelerator, model):
            with passes.forward(m) as images_BCHW:
                loss = passes.loss(m, model(images_BCHW))
            for _ in range(passes.most - m if m == total - 1 else 1):
                passes.tick()  # as often on all processes: the watchdog looks for the one that is behind
            with passes.backward(m):
                accelerator.backward(loss)


def own_tensor(self: Strategy, tensor: Tensor) -> Tensor:
    return tensor


def full_norm(self: Strategy, parameters: Iterable[nn.Parameter]) -> Tensor:
    return self.full(torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]))


def own_parameters(self: Strategy, model: nn.Module) -> list[Tensor | None]:
    return list(model.parameters())


def full_state(self: Strategy, model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    return ((name, self.full(tensor.detach())) for name, tensor in model.state_dict().items())
