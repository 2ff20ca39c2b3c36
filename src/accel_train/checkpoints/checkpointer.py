"""Saves the state of a run asynchronously, from a copy on the CPU, and loads it."""

import json
import shutil
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from accel_train.checkpoints import state_file, store
from accel_train.distributed.strategies.base import Strategy
from accel_train.errors import LocalError, UserError
from accel_train.history.files import CHECKPOINTS, WEIGHTS
from accel_train.models import weights_file
from accel_train.system import os_errors
from accel_train.system.atomic_files import write_file
from accel_train.training.ema import Ema
from accel_train.training.state import TrainingState

_TENSORS = "tensors"
_MODEL, _OPTIMIZER, _EMA = "model.", "optimizer.", "average."
_COUNTER, _NORM = "step", "second_moment"
"""The optimizer's tensors that are single numbers; all others have the shape of their parameter."""


@dataclass(frozen=True)
class TrainedTensors:
    """The tensors that training changes, under names that depend neither on the number of processes nor strategy."""

    model: nn.Module
    """Without wrappers."""
    optimizer: torch.optim.Optimizer
    ema: Ema | None
    strategy: Strategy

    def by_name(self) -> dict[str, Tensor]:
        """Return all tensors by name, not copied."""
        named = {_MODEL + name: tensor for name, tensor in self.model.state_dict().items()}
        for name, parameter in self.model.named_parameters():
            for slot, value in self.optimizer.state.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    named[f"{_OPTIMIZER}{name}.{slot}"] = value
        if self.ema is not None:
            named |= {_EMA + name: tensor for name, tensor in self.ema.tensors().items()}
        return named

    def is_elsewhere(self, name: str) -> bool:
        """Return whether only other processes store the tensor of this name."""
        kind, _, rest = name.partition(".")
        own = rest.rpartition(".")[0] if f"{kind}." == _OPTIMIZER else rest
        return own in self.strategy.elsewhere

    def allocate_optimizer_state(self, names: dict[str, Any]) -> None:
        """Allocate the optimizer's tensors by a checkpoint's metadata; torch would only with the first update.

        They are of a parameter's shape, or single numbers. A fused kernel would write beyond any others.
        """
        for name, parameter in self.model.named_parameters():
            prefix = f"{_OPTIMIZER}{name}."
            for slot in (key.removeprefix(prefix) for key in names if key.startswith(prefix)):
                self.optimizer.state[parameter][slot] = _allocated(parameter.detach(), slot)


def _allocated(parameter: Tensor, slot: str) -> Tensor:
    if slot in (_COUNTER, _NORM):
        return torch.zeros((), dtype=torch.float32 if slot == _COUNTER else parameter.dtype, device=parameter.device)
    return torch.zeros_like(parameter)


@contextmanager
def saving_in(folder: Path) -> Iterator[None]:
    """Raise LocalError if a file of a run folder cannot be used."""
    try:
        yield
    except (OSError, safetensors.SafetensorError) as error:
        found = os_errors.explain(error, folder) or os_errors.Explanation(str(error), "give another --output")
        raise LocalError(f"cannot save in {folder}: {found.reason}", found.hint) from None


class Checkpointer:
    """Writes the checkpoints of a run from one thread, in the order of the calls."""

    def __init__(self, folder: Path, trained: TrainedTensors, *, group: Any, rank: int, keep: int) -> None:
        """`group` is used by nothing else and holds the processes that write; None if rank 0 writes all."""
        self._folder = folder
        self._trained = trained
        self._group = group
        self._writes = group is not None or rank == 0
        self._commits = rank == 0
        self._keep = keep
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoints")
        self._pending: list[Future[int | None]] = []
        self._last_save: Future[int | None] | None = None

    def save(self, state: TrainingState, extra: dict[str, Any]) -> None:
        """Collective: copy the tensors and write them asynchronously; waits until the previous save is committed.

        `extra` holds further JSON values to store with the state.
        """
        if not self._writes:
            return
        if self._last_save is not None:
            self._last_save.exception()  # wait: do not hold two copies; :meth:`committed` raises its error
        copies = {name: self._trained.strategy.cpu_copy(tensor) for name, tensor in self._trained.by_name().items()}
        record = {"format": state_file.FORMAT, "position": state.as_record(), **extra}
        best = state.best.update if state.best else None
        self._last_save = self._thread.submit(self._write, copies, state.update, record, best)
        self._pending.append(self._last_save)

    def save_weights(self, weights: dict[str, Tensor], path: Path) -> None:
        """Let rank 0 write unsharded weights on the CPU to a file that plain torch loads."""
        if self._commits:
            self._pending.append(self._thread.submit(_write_weights, weights, path))

    @property
    def pending(self) -> bool:
        """True if a save is not known to be committed."""
        return bool(self._pending)

    def committed(self, wait: bool = False) -> list[int]:
        """Return the updates of the checkpoints committed since the last call.

        Raises:
            LocalError: a file could not be written.
        """
        done = [future for future in self._pending if wait or future.done()]
        self._pending = [future for future in self._pending if future not in done]
        with saving_in(self._folder):
            return [update for future in done if (update := future.result()) is not None]

    def close(self) -> None:
        """Wait for all writes, then end the thread."""
        self._thread.shutdown()

    def _write(self, copies: dict[str, Any], update: int, record: dict[str, Any], best: int | None) -> int | None:
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
        from torch.distributed.checkpoint.state_dict_saver import save

        partial = store.begin(self._folder / CHECKPOINTS, update, record["nonce"])
        try:
            writer = HuggingFaceStorageWriter(str(partial / _TENSORS), save_distributed=True)
            # torch warns that nothing is distributed, as intended
            with warnings.catch_warnings(action="ignore"), _causes(reported=self._commits):
                save(copies, storage_writer=writer, process_group=self._group, no_dist=self._group is None)
            if not self._commits:
                return None
            (partial / state_file.NAME).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            if best is not None:
                shutil.copyfile(self._folder / WEIGHTS["best"], partial / WEIGHTS["best"])
            store.commit(partial)
            store.prune(self._folder / CHECKPOINTS, self._keep, {best, update})
        except BaseException:
            if self._commits:  # on other ranks: rank 0 may be about to commit the folder
                shutil.rmtree(partial, ignore_errors=True)
            raise
        return update


@contextmanager
def _causes(reported: bool = True) -> Iterator[None]:
    """Raise the error of a rank, such as an OSError, instead of torch's CheckpointException, a BaseException.

    All ranks get the same exception of a save, each in its own time: with `reported` False, leave it to the others.
    """
    from torch.distributed.checkpoint.api import CheckpointException

    try:
        yield
    except CheckpointException as error:
        cause, _ = next(iter(error.failures.values()))
        if reported:
            raise cause from None


def load_tensors(checkpoint: Path, trained: TrainedTensors) -> None:
    """Load the tensors of a checkpoint in place: each process its own part, whichever processes wrote them.

    Raises:
        UserError: they do not fit this model and optimizer.
    """
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = HuggingFaceStorageReader(str(checkpoint / _TENSORS))
    try:
        stored: dict[str, Any] = reader.read_metadata().state_dict_metadata
    except Exception as error:  # verified, so somebody else has made it; torch raises all kinds of errors
        raise UserError(f"cannot read the tensors in {checkpoint}: {error}", "give another checkpoint") from None
    trained.optimizer.state.clear()
    trained.allocate_optimizer_state(stored)
    tensors = trained.by_name()
    here = {name for name in stored if not trained.is_elsewhere(name)}
    missing = {_MODEL + name for name in trained.strategy.elsewhere} - stored.keys()
    if different := (tensors.keys() ^ here) | missing:
        name = min(different)
        raise UserError(
            f"{checkpoint} and the run do not both have the tensor {name}", "resume with the version that wrote it"
        )
    for name, tensor in tensors.items():
        found = stored[name]
        for what, was, now in (
            ("shape", tuple(found.size), tuple(tensor.shape)),
            ("type", found.properties.dtype, tensor.dtype),
        ):
            if was != now:
                raise UserError(
                    f"{checkpoint} has {name} of {what} {was}, the run of {now}",
                    "resume with the model and data that it was trained with",
                )
    with warnings.catch_warnings(action="ignore"), _causes():
        load(tensors, storage_reader=reader, no_dist=True)


def load_weights(path: Path) -> dict[str, Tensor]:
    """Read the exported weights of a run.

    Raises:
        UserError: there is no such file, or it is damaged.
    """
    try:
        weights_file.verify(path, needs_checksum=True)
        return safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise UserError(f"cannot read the weights in {path}: {error}", "give the folder of a run that ended") from None


def _write_weights(weights: dict[str, Tensor], path: Path) -> None:
    write_file(path, weights_file.encode(weights))
