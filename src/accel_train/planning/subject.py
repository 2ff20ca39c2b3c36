"""The run that is planned: its model, its optimizer and its loss.

Shape suffixes: B images, C channels, H height, W width.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from accel_train.config.options import ResolvedConfig
from accel_train.config.plan import Plan
from accel_train.data.sources.base import DataSet
from accel_train.models.build import BuiltModel
from accel_train.run.fine_tuning import FineTuning, fine_tuning
from accel_train.run.initial_model import Start, initial_model
from accel_train.training.loss import Loss, Targets
from accel_train.training.optimizers import SpecialParameters, build_optimizer

_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Subject:
    """The run that is planned."""

    config: ResolvedConfig
    plan: Plan
    data: DataSet
    checkpointing: bool = False
    """Whether activations are computed again, whatever the config says."""

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of weights and images."""
        return torch.float64 if self.config.precision == "fp64" else torch.float32

    @property
    def on_cpu(self) -> bool:
        """Whether the run is planned for CPUs, with ``--device cpu``."""
        return self.config.device == "cpu"

    @property
    def classes(self) -> int:
        return len(self.data.train.classes)

    def build(self) -> tuple[BuiltModel, FineTuning]:
        """Build the model; on the device `meta` it has no data, and is made at once.

        Raises:
            UserError: the run could not start.
        """
        changes = {"weights": "none", "activation_checkpointing": self.checkpointing}
        _, built, _ = initial_model(self.config.model_copy(update=changes), self.data, Start(), None)
        built.module.to(self.dtype)
        tuning = fine_tuning(self.config, built, self.classes)
        tuning.freezing.exclude(built.module)
        return built, tuning

    def build_without_data(self, memory_format: torch.memory_format) -> tuple[BuiltModel, FineTuning]:
        """Build the model on the device `meta`, to train.

        Raises:
            UserError: the run could not start.
        """
        with torch.device("meta"):
            built, tuning = self.build()
        built.module.to(memory_format=memory_format).train()
        return built, tuning

    def optimizer(self, module: nn.Module, tuning: FineTuning, *, fused: bool) -> torch.optim.Optimizer:
        """Return the optimizer with its state, which torch makes in the first update, and no gradients."""
        optimizer = build_optimizer(
            self.config.optimizer,
            module,
            weight_decay=self.config.weight_decay,
            betas=self.plan.betas,
            eps=self.plan.eps,
            fused=fused,
            special=SpecialParameters(tuning.lr_factors, tuning.freezing.later),
        )
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        optimizer.zero_grad()
        return optimizer

    def images(self, built: BuiltModel, batch_size: int) -> Tensor:
        """Return a micro-batch as the model takes it."""
        shape = (batch_size, built.channels, built.image_size, built.image_size)
        return torch.zeros(shape, dtype=self.dtype).contiguous(memory_format=torch.channels_last)

    def loss(self, outputs: Any) -> Tensor:
        """Return the loss of a micro-batch, given the outputs of the model."""
        labels_B = torch.zeros(len(outputs[0] if isinstance(outputs, tuple) else outputs), dtype=torch.int64)
        loss, _ = Loss(self.config.label_smoothing)(outputs, Targets(labels_B))
        return loss

    @contextmanager
    def autocast(self) -> Iterator[None]:
        """Compute in the precision of the run."""
        dtype = _AUTOCAST.get(self.config.precision)
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            yield
