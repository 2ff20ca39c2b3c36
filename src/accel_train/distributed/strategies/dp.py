"""DP: one process computes on all GPUs of the machine; slower than DDP, for teaching and comparison."""

from collections.abc import Mapping
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.dropout import _DropoutNd

from accel_train.config.strategies import check_processes
from accel_train.distributed.strategies.base import accelerate_plain_model
from accel_train.distributed.strategies.ddp import DDP
from accel_train.errors import UserError


class DP(DDP):
    """`torch.nn.DataParallel`: each forward pass copies the model to all GPUs and splits the micro-batch among them.

    The gradient is that of the whole micro-batch, so the run is that of one GPU, unless layers see other images than
    there (BatchNorm) or draw other numbers (dropout): such models are refused.
    """

    name = "DP"
    exact_supported = False
    batch_size_search_supported = False
    compile_supported = False

    def check(self, processes: int, device: str, environ: Mapping[str, str]) -> None:
        check_processes("dp", {}, processes)
        gpus = torch.cuda.device_count() if device == "cuda" else 0
        if gpus < 2:
            found = f"{gpus} GPU" + "s" * (gpus != 1)
            raise UserError(
                f"--strategy dp needs two GPUs or more, and this run has {found}",
                "use DDP: accel_train train --processes 2 …, without --strategy, on GPUs or with --device cpu",
            )

    def describe(self, processes: int) -> str:
        return f"DataParallel on {torch.cuda.device_count()} GPUs"

    def notices(self) -> tuple[str, ...]:
        gpus = torch.cuda.device_count()
        return (f"DataParallel is slower than DDP: accel_train train --processes {gpus} …, without --strategy",)

    def prepare(
        self, accelerator: Accelerator, model: nn.Module, optimizer: torch.optim.Optimizer, *loaders: Any
    ) -> tuple[Any, ...]:
        refuse_split_layers(model)
        # Accelerate's autocast is around DataParallel then, whose threads take it over.
        return super().prepare(accelerator, nn.DataParallel(model), optimizer, *loaders)

    plain_model = staticmethod(accelerate_plain_model)


def refuse_split_layers(model: nn.Module) -> None:
    """Refuse a model whose result changes when its micro-batch is split.

    Raises:
        UserError: a layer normalizes by the batch, or draws random numbers.
    """
    for name, layer in model.named_modules():
        if isinstance(layer, _NormBase) and (layer.track_running_stats or isinstance(layer, _BatchNorm)):
            reason = "would see the images of one GPU only, and keep the statistics of the first"
        elif _draws(layer):
            reason = "would draw other random numbers on each GPU"
        else:
            continue
        raise UserError(
            f"--strategy dp cannot train this model: {name} ({type(layer).__name__}) {reason}",
            "use DDP: accel_train train --processes N …, without --strategy",
        )


def _draws(layer: nn.Module) -> bool:
    """Return whether a layer draws random numbers in training."""
    if isinstance(layer, nn.MultiheadAttention):
        return bool(layer.dropout)
    if isinstance(layer, nn.RReLU):
        return True
    by_probability = isinstance(layer, _DropoutNd) or type(layer).__name__ == "StochasticDepth"
    return by_probability and bool(layer.p)
