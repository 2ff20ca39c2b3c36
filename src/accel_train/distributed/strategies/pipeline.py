"""Pipeline: the model is cut into stages, one per process, through which the micro-batches of an update flow.

Process p is stage p % S of replica p // S of the model. Replicas average the gradients of each stage, as DDP does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from accel_train.config.strategies import check_processes
from accel_train.distributed import process_group
from accel_train.distributed.strategies.inputs import Block, Division, Passes
from accel_train.distributed.strategies.pipeline_cut import (
    cheapest_cut,
    check_checkpointed,
    check_trainable,
    cut_at,
    describe_cut,
    measure,
)
from accel_train.distributed.strategies.pipeline_grid import Grid, Stored
from accel_train.distributed.strategies.pipeline_stage import Borders, Runner, Sent
from accel_train.errors import UserError


class Pipeline:
    """`torch.distributed.pipelining`: a stage passes on activations, and gets their gradients back."""

    name = "Pipeline"
    variables = ""
    exact_supported = True
    batch_size_search_supported = False
    compile_supported = False
    unfreezing_supported = False
    fused_optimizer = True
    collective_forward = False

    def __init__(
        self, pipeline_stages: int, pipeline_schedule: str = "1f1b", pipeline_split: Sequence[str] = ()
    ) -> None:
        self.stages = pipeline_stages
        self._schedule = pipeline_schedule
        self._split = tuple(pipeline_split)
        self.replica_group: ProcessGroup | None = None
        self.elsewhere: frozenset[str] = frozenset()
        self._notices: tuple[str, ...] = ()
        self._stored: dict[str, Stored] = {}
        self._parameters: list[str] = []
        self._trainable: list[str] = []

    def check(self, processes: int, device: str, environ: Mapping[str, str]) -> None:
        check_processes("pipeline", {"pipeline_stages": self.stages}, processes)

    def describe(self, processes: int) -> str:
        pipeline = f"pipeline of {self.stages} stages, {self._schedule}"
        return pipeline if processes == self.stages else f"{processes // self.stages} replicas × {pipeline}"

    def notices(self) -> tuple[str, ...]:
        return self._notices

    def part(self, rank: int) -> int:
        return rank % self.stages

    def place(self, rank: int) -> str:
        replica, stage = divmod(rank, self.stages)
        return f"stage {stage} of replica {replica}"

    def plugin(self, environ: Mapping[str, str]) -> None:
        return None

    def activate(self, accelerator: Accelerator, plugin: Any) -> None:
        pass

    def is_active(self, accelerator: Accelerator) -> bool:
        return bool(accelerator.distributed_type != DistributedType.FSDP)

    def divide(self, accelerator: Accelerator, model: nn.Module, division: Division) -> None:
        """Collective: cut the model, and remove the stages of other processes from it."""
        _refuse_unsupported(accelerator)
        blocks = division.blocks()
        if len(blocks) < self.stages:
            found = "1 block" if len(blocks) == 1 else f"{len(blocks)} blocks"
            raise UserError(f"--pipeline-stages {self.stages}: the model has {found}", "use fewer stages")
        check_checkpointed(model, blocks)
        starts = cut_at(blocks, self._split, self.stages) if self._split else []
        images_BCHW = division.images_BCHW.to(accelerator.device)
        costs = division.on_main(lambda: measure(model, blocks, images_BCHW, accelerator.autocast))
        own, most = division.micro_batches
        starts = starts or cheapest_cut(costs, self.stages, most)
        check_trainable(blocks, costs, starts)
        self._notices = (describe_cut(blocks, costs, starts, most),)
        self._grid = grid = Grid(
            accelerator.process_index, accelerator.num_processes, self.stages, accelerator.device, division.timeout
        )
        self.replica_group = grid.of_stage
        by_stage = [blocks[start:end] for start, end in pairwise([*starts, len(blocks)])]
        self._stored = _stored(model, by_stage)
        self.elsewhere = frozenset(name for name, stored in self._stored.items() if stored.stage != grid.stage)
        self._parameters = [name for name, _ in model.named_parameters()]
        self._trainable = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        drop_blocks(model, [block for stage, theirs in enumerate(by_stage) if stage != grid.stage for block in theirs])
        first, end = starts[grid.stage], [*starts, len(blocks)][grid.stage + 1]
        borders = Borders(
            Sent.output_of(costs[first - 1]) if first else Sent(images_BCHW.shape, images_BCHW.dtype),
            None if grid.is_last else Sent.output_of(costs[end - 1]),
        )
        self._runner = Runner(
            blocks[first:end], borders, grid, self._schedule, (own, most), accelerator.autocast, division.tick
        )

    def prepare(
        self, accelerator: Accelerator, model: nn.Module, optimizer: torch.optim.Optimizer, *loaders: Any
    ) -> tuple[Any, ...]:
        return (Staged(model.to(accelerator.device), self._runner), *accelerator.prepare(optimizer, *loaders))

    def run(self, accelerator: Accelerator, model: nn.Module, passes: Passes) -> None:
        self._runner.run(passes)
        if passes.averaged:
            self._grid.average_over_replicas([p.grad for p in model.parameters() if p.grad is not None])

    def from_last_stage(self, tensor: Tensor) -> Tensor:
        return self._grid.from_last_stage(tensor)

    def gradient_norm(self, parameters: Iterable[nn.Parameter]) -> Tensor:
        own = [n for n, name in enumerate(self._trainable) if name not in self.elsewhere]
        gradients = [parameter.grad for parameter in parameters if parameter.requires_grad]
        return self._grid.norm(dict(zip(own, gradients, strict=True)), len(self._trainable))

    def gradient_leaves(self, model: nn.Module) -> list[Tensor | None]:
        own = model.parameters()
        return [None if name in self.elsewhere else next(own) for name in self._parameters]

    def no_sync(self, accelerator: Accelerator, model: nn.Module) -> AbstractContextManager[Any]:
        return nullcontext()

    def plain_model(self, accelerator: Accelerator, model: nn.Module) -> nn.Module:
        assert isinstance(model, Staged)
        return model.module

    def weights_changed(self, model: nn.Module) -> None:
        pass

    def trainable_changed(self, accelerator: Accelerator, model: nn.Module) -> None:
        pass

    def local(self, tensor: Tensor) -> Tensor:
        return tensor

    def full(self, tensor: Tensor) -> Tensor:
        return tensor

    def full_state(self, model: nn.Module) -> Iterator[tuple[str, Tensor]]:
        return self._grid.gather(model.state_dict(), self._stored)

    def is_replicated(self, tensor: Tensor) -> bool:
        return False

    def cpu_copy(self, tensor: Tensor) -> Tensor:
        return tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)

    def checkpoint_group(self, timeout: int) -> ProcessGroup | None:
        """Return a group of the stages of the first replica, which write."""
        return process_group.host_group(timeout, range(self.stages))


class Staged(nn.Module):
    """What is left of a model, which computes one stage."""

    def __init__(self, module: nn.Module, runner: Runner) -> None:
        super().__init__()
        self.module = module
        self._runner = runner

    def forward(self, images_BCHW: Tensor) -> Tensor | None:
        """Collective: return the logits on the last stage, None on others."""
        return self._runner.evaluate(images_BCHW)


def _refuse_unsupported(accelerator: Accelerator) -> None:
    if accelerator.scaler is not None:
        raise UserError("--precision fp16 does not work with --strategy pipeline", "use bf16")
    if accelerator.device.type != "cpu" and not process_group.sends_gpu_tensors():
        raise UserError("--strategy pipeline on GPUs does not work with --backend gloo", "use nccl, or --device cpu")


def _stored(model: nn.Module, by_stage: Sequence[Sequence[Block]]) -> dict[str, Stored]:
    """Return where each tensor of the state dict is stored, in its order."""
    stage_of = {part: stage for stage, blocks in enumerate(by_stage) for block in blocks for part in block.parts}
    found = {}
    for name, tensor in model.state_dict().items():
        stage = next(stage_of[part] for part in stage_of if f"{name}.".startswith(f"{part}."))
        found[name] = Stored(stage, tensor.shape, tensor.dtype)
    return found


def drop_blocks(model: nn.Module, blocks: Sequence[Block]) -> None:
    """Remove blocks from a model; the names of what is left stay the same."""
    for part in (part for block in blocks for part in block.parts):
        parent, _, own = part.rpartition(".")
        owner = model.get_submodule(parent)
        del (owner._parameters if own in owner._parameters else owner._modules)[own]
