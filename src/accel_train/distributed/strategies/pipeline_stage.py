"""One stage of a pipeline: computes its blocks, receives what they need and sends what they give.

Shape suffixes: B images, C channels, H height, W width, K classes.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage

from accel_train.distributed.strategies.inputs import Block, Passes
from accel_train.distributed.strategies.pipeline_cut import BlockCost
from accel_train.distributed.strategies.pipeline_grid import Grid
from accel_train.distributed.strategies.pipeline_schedule import SCHEDULES, Progress, timetable


class Sent(NamedTuple):
    """How a tensor crosses to the next stage: contiguous, as backends need it, and without changing its layout."""

    shape: torch.Size
    dtype: torch.dtype
    channels_last: bool = False

    @classmethod
    def output_of(cls, cost: BlockCost) -> Self:
        shape = torch.Size([cost.shape[i] for i in (0, 2, 3, 1)]) if cost.channels_last else cost.shape
        return cls(shape, cost.dtype, cost.channels_last)

    def pack(self, x: Tensor) -> Tensor:
        """Return a tensor as it is sent; one in channels last is contiguous as BHWC."""
        return (x.permute(0, 2, 3, 1) if self.channels_last else x).contiguous()

    def unpack(self, x: Tensor) -> Tensor:
        """Return a received tensor as the stage before has computed it; a copy, since a block may write into it."""
        return (x.permute(0, 3, 1, 2) if self.channels_last else x).clone()

    def empty(self, device: torch.device) -> Tensor:
        return torch.empty(self.shape, dtype=self.dtype, device=device)

    def description(self) -> Tensor:
        """Return the tensor that describes it to torch."""
        return torch.empty(self.shape, dtype=self.dtype, device="meta", requires_grad=True)


class Borders(NamedTuple):
    """What a stage gets and gives."""

    received: Sent
    """Of the first stage the images, which are not sent."""
    sent: Sent | None
    """None for the logits of the last stage."""


class StageModule(nn.Module):
    """The blocks of a stage, from a tensor as it is received to one as it is sent."""

    def __init__(
        self, blocks: Sequence[Block], borders: Borders, autocast: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        super().__init__()
        self._blocks = blocks
        self._received, self._sent = borders
        self._autocast = autocast

    def forward(self, x: Tensor) -> Tensor:
        x = self._received.unpack(x)
        with self._autocast():
            for block in self._blocks:
                x = block.forward(x)
        if self._sent:
            return self._sent.pack(x)
        return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


class Stage(PipelineStage):
    """torch's stage, which calls training around each pass."""

    def __init__(self, module: StageModule, borders: Borders, grid: Grid) -> None:
        received, sent = borders
        given = (sent or Sent(torch.Size([1]), torch.float32)).description()  # of logits nothing is needed
        super().__init__(
            module,
            grid.stage,
            grid.stages,
            grid.device,
            input_args=received.description(),
            output_args=given,
            group=grid.of_replica,
        )
        self.passes: Passes
        self.progress: Progress

    def get_fwd_recv_ops(self, fwd_chunk_id: int) -> list[Any]:
        self.progress.waits_for("forward", fwd_chunk_id)
        operations: list[Any] = super().get_fwd_recv_ops(fwd_chunk_id)
        return operations

    def get_bwd_recv_ops(self, bwd_chunk_id: int) -> list[Any]:
        self.progress.waits_for("backward", bwd_chunk_id)
        operations: list[Any] = super().get_bwd_recv_ops(bwd_chunk_id)
        return operations

    def forward_one_chunk(self, fwd_chunk_id: int, args: tuple[Any, ...], *more: Any, **options: Any) -> Any:
        with self.passes.forward(fwd_chunk_id) as images_BCHW:
            args = (images_BCHW,) if self.is_first else args
            output = super().forward_one_chunk(fwd_chunk_id, args, *more, **options)
        self.progress.has_made("forward", fwd_chunk_id)
        return output

    def backward_one_chunk(self, bwd_chunk_id: int, *more: Any, **options: Any) -> None:
        with self.passes.backward(bwd_chunk_id):
            super().backward_one_chunk(bwd_chunk_id, *more, **options)
        self.progress.has_made("backward", bwd_chunk_id)


class Runner:
    """Runs the passes of this process's stage."""

    def __init__(
        self,
        blocks: Sequence[Block],
        borders: Borders,
        grid: Grid,
        schedule: str,
        micro_batches: tuple[int, int],
        autocast: Callable[[], AbstractContextManager[Any]],
        tick: Callable[[], None],
    ) -> None:
        """`micro_batches` are this replica's in an update, and the most that a replica has."""
        self._module = StageModule(blocks, borders, autocast)
        self._borders = borders
        self._grid = grid
        self._tick = tick
        own, most = micro_batches
        self._numbers = torch.arange(own)
        self._stage = Stage(self._module, borders, grid)
        self._schedule = SCHEDULES[schedule](self._stage, own, self._loss, scale_grads=False)
        end = 1 + max(max(times.values()) for times in timetable(schedule, grid.stages, most))
        self._stage.progress = Progress(timetable(schedule, grid.stages, own)[grid.stage], end, tick)
        self._sending: tuple[Any, Tensor] | None = None

    def run(self, passes: Passes) -> None:
        """Collective: make the passes of an update; torch divides no gradient."""
        self._stage.passes = passes
        target = self._numbers if self._grid.is_last else None
        try:
            self._schedule.step(target=target, return_outputs=False)
        except RuntimeError as error:  # torch puts the arguments of the stage around what has happened
            raise error.__cause__ or error from None
        self._stage.progress.ends_update()

    def evaluate(self, images_BCHW: Tensor) -> Tensor | None:
        """Collective: return the logits_BK on the last stage, while those before it compute the next batch."""
        grid, sent = self._grid, self._borders.sent
        for _ in range(grid.stage):
            self._tick()  # a stage that waits is ahead of those before it
        x = images_BCHW
        if grid.stage:
            x = self._borders.received.empty(grid.device)
            torch.distributed.recv(x, group=grid.of_replica, group_src=grid.stage - 1)
        output: Tensor = self._module(x)
        for _ in range(grid.stage, grid.stages):
            self._tick()
        if self._sending:
            self._sending[0].wait()
        if not sent:
            return output
        work = torch.distributed.isend(output, group=grid.of_replica, group_dst=grid.stage + 1)
        self._sending = work, output  # must live until it is sent
        return None

    def _loss(self, logits_BK: Tensor, numbers: Tensor) -> Tensor:
        return self._stage.passes.loss(int(numbers), logits_BK)
