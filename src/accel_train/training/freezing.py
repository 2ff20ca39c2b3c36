"""Freezes layers: their weights do not train, and they run as in evaluation, so that their statistics do not change."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import chain

from accelerate import Accelerator
from torch import nn

from accel_train.distributed.strategies.base import Strategy
from accel_train.errors import UserError
from accel_train.training.layers import Layers


@dataclass(frozen=True)
class Freezing:
    """The layers of a model that are frozen, and for how long."""

    names: frozenset[str] = frozenset()
    """Of their parameters and buffers."""
    trainable: frozenset[str] = frozenset()
    """Those that train if they are not frozen."""
    epochs: int | None = None
    """After these they train too; None for never."""

    @property
    def constant(self) -> frozenset[str]:
        """Names of the parameters and buffers that never change."""
        return self.names if self.epochs is None else frozenset()

    @property
    def later(self) -> frozenset[str]:
        """Names of the parameters that begin to train later than the others."""
        return frozenset() if self.epochs is None else self.trainable

    def exclude(self, model: nn.Module) -> None:
        """Exclude what never trains from the trainable parameters of a new model."""
        if self.epochs is None:
            _set_trainable(model, self.trainable, trainable=False)

    def begin_epoch(self, epoch: int, accelerator: Accelerator, strategy: Strategy, model: nn.Module) -> None:
        """Collective: let a prepared model train in an epoch, counted from 0."""
        model.train()
        if not self.names:
            return
        plain = strategy.plain_model(accelerator, model)
        frozen = self.epochs is None or epoch < self.epochs
        if self.epochs is not None:
            strategy.weights_changed(model)  # copies of weights have a flag of their own
            if _set_trainable(plain, self.trainable, trainable=not frozen):
                strategy.trainable_changed(accelerator, model)
        if frozen:
            for module in _modules_of(plain, self.names):
                module.eval()


def freeze(model: nn.Module, layers: Layers, count: int | None, epochs: int | None, name: str) -> Freezing:
    """Return the freezing of the first `count` layers of a model, of all of `layers` if it is None.

    Raises:
        UserError: it has fewer layers.
    """
    if not layers:
        raise UserError(f"--freeze has no effect on {name}: it has no layers before its head", "leave it out")
    if count is not None and count > len(layers):
        raise UserError(
            f"--freeze {count}: {name} has {len(layers)} layers before its head",
            f"give --freeze {len(layers)} or less, or --freeze backbone for all of them",
        )
    names = frozenset(chain.from_iterable(layers[:count]))
    trainable = {key for key, parameter in model.named_parameters() if parameter.requires_grad}
    return Freezing(names, names & trainable, epochs)


def _set_trainable(model: nn.Module, names: Collection[str], *, trainable: bool) -> bool:
    """Let parameters train or not; return whether that changes anything."""
    changed = [parameter for name in names if (parameter := model.get_parameter(name)).requires_grad != trainable]
    for parameter in changed:
        parameter.requires_grad_(trainable)
        parameter.grad = None
    return bool(changed)


def _modules_of(model: nn.Module, names: Collection[str]) -> list[nn.Module]:
    """Return the modules whose parameters and buffers all have one of these names, and have some.

    A module that has none, such as dropout, goes with the next one that has.
    """
    inside, next_is_inside = [], False
    for path, module in reversed([*model.named_modules()]):
        own = [name for name, _ in chain(module.named_parameters(path), module.named_buffers(path))]
        is_inside = all(name in names for name in own) if own else next_is_inside
        if is_inside:
            inside.append(module)
        if own and next(module.children(), None) is None:
            next_is_inside = is_inside
    return inside
