"""Saves the state of a run in the background from a copy, and loads it."""

import json
import shutil
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from accel_train.checkpoints import store
from accel_train.checkpoints.run_folder import CHECKPOINTS, WEIGHTS
from accel_train.distributed.strategies import fsdp2 as sharding
from accel_train.errors import LocalError, UserError
from accel_train.system.atomic_files import write_file
from accel_train.training.ema import WeightAverage
from accel_train.training.state import Position

_STATE, _TENSORS = "state.json", "tensors"
_FORMAT = 1
_MODEL, _OPTIMIZER, _AVERAGE = "model.", "optimizer.", "average."


@dataclass(frozen=True)
class Trained:
    """What changes as a run goes on: its live tensors, named alike for every number of processes and strategy."""

    model: nn.Module
    """As it is without what Accelerate put around it."""
    optimizer: torch.optim.Optimizer
    average: WeightAverage | None

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors by name, not copied."""
        named = {_MODEL + name: tensor for name, tensor in self.model.state_dict().items()}
        for name, parameter in self.model.named_parameters():
            for slot, value in self.optimizer.state.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    named[f"{_OPTIMIZER}{name}.{slot}"] = value
        if self.average is not None:
            named |= {_AVERAGE + name: tensor for name, tensor in self.average.tensors().items()}
        return named

    def make_room(self, names: dict[str, Any]) -> None:
        """Give the optimizer, which makes its tensors with the first update, those of a checkpoint's metadata."""
        for name, parameter in self.model.named_parameters():
            prefix = f"{_OPTIMIZER}{name}."
            for slot in (key.removeprefix(prefix) for key in names if key.startswith(prefix)):
                stored = names[prefix + slot]
                like_parameter = stored.size == parameter.shape
                self.optimizer.state[parameter][slot] = (
                    torch.zeros_like(parameter.detach())
                    if like_parameter
                    else torch.zeros(stored.size, dtype=stored.properties.dtype, device=parameter.device)
                )


class Checkpoints:
    """The checkpoints of a run, and the one thread in which a process writes, in the order that it is asked to."""

    def __init__(self, folder: Path, trained: Trained, *, group: Any, rank: int, keep: int) -> None:
        """`group` is of the processes that each write their part, for nothing else; None if rank 0 writes all."""
        self._folder = folder
        self._trained = trained
        self._group = group
        self._writes = group is not None or rank == 0
        self._commits = rank == 0
        self._keep = keep
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoints")
        self._pending: list[Future[int | None]] = []
        self._last_save: Future[int | None] | None = None

    def save(self, position: Position, facts: dict[str, Any]) -> None:
        """Collective: copy the state and have it written; waits for the one before to be committed.

        `facts` are further JSON values to be kept with the position.
        """
        if not self._writes:
            return
        if self._last_save is not None:
            self._last_save.exception()  # waits, not to hold two copies; :meth:`committed` raises what went wrong
        staged = {name: sharding.copy(tensor) for name, tensor in self._trained.tensors().items()}
        record = {"format": _FORMAT, "position": position.as_record(), **facts}
        best = position.best.update if position.best else None
        self._last_save = self._thread.submit(self._write, staged, position.update, record, best)
        self._pending.append(self._last_save)

    def save_weights(self, weights: dict[str, Tensor], path: Path) -> None:
        """Have whole weights on the CPU written by rank 0 as one file that plain torch loads."""
        if self._commits:
            self._pending.append(self._thread.submit(_write_weights, weights, path))

    @property
    def pending(self) -> bool:
        """Whether something that was to be saved is not known to be committed."""
        return bool(self._pending)

    def committed(self, wait: bool = False) -> list[int]:
        """Return the updates whose checkpoints were committed since last asked.

        Raises:
            LocalError: one could not be.
        """
        done = [future for future in self._pending if wait or future.done()]
        self._pending = [future for future in self._pending if future not in done]
        try:
            return [update for future in done if (update := future.result()) is not None]
        except OSError as error:
            raise LocalError(
                f"cannot save in {self._folder}: {error.strerror or error}",
                "make room, and start the same command again: it goes on from the last checkpoint, which is whole",
            ) from None

    def close(self) -> None:
        """Let the thread end, once it has written what was asked for."""
        self._thread.shutdown()

    def _write(self, staged: dict[str, Any], update: int, record: dict[str, Any], best: int | None) -> int | None:
        from torch.distributed.checkpoint.api import CheckpointException
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
        from torch.distributed.checkpoint.state_dict_saver import save

        partial = store.begin(self._folder / CHECKPOINTS, update, record["nonce"])
        try:
            writer = HuggingFaceStorageWriter(str(partial / _TENSORS), save_distributed=True)
            with warnings.catch_warnings(action="ignore"):  # that nothing is distributed is what we ask for
                save(staged, storage_writer=writer, process_group=self._group, no_dist=self._group is None)
            if not self._commits:
                return None
            (partial / _STATE).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            if best is not None:
                shutil.copyfile(self._folder / WEIGHTS["best"], partial / WEIGHTS["best"])
            store.commit(partial)
            store.prune(self._folder / CHECKPOINTS, self._keep, {best, update})
        except BaseException as error:
            if self._commits:  # else rank 0 may be about to commit what it finds there
                shutil.rmtree(partial, ignore_errors=True)
            if isinstance(error, CheckpointException):
                cause, _ = next(iter(error.failures.values()))  # such as an OSError: the disk is full
                raise cause from None
            raise
        return update


def read_state(checkpoint: Path) -> tuple[Position, dict[str, Any]]:
    """Read the position of a checkpoint that was verified, and the facts kept with it.

    Raises:
        UserError: a newer version wrote it.
    """
    record = json.loads((checkpoint / _STATE).read_text(encoding="utf-8"))
    if record["format"] != _FORMAT:
        raise UserError(
            f"{checkpoint} has format {record['format']}, this version reads {_FORMAT}", "update accel_train"
        )
    return Position.from_record(record["position"]), record


def load_tensors(checkpoint: Path, trained: Trained) -> None:
    """Load the tensors of a checkpoint into the live ones: each process its own part, whoever wrote them.

    Raises:
        UserError: they are not those of this model and optimizer.
    """
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = HuggingFaceStorageReader(str(checkpoint / _TENSORS))
    stored = reader.read_metadata().state_dict_metadata
    trained.optimizer.state.clear()
    trained.make_room(stored)
    tensors = trained.tensors()
    if different := tensors.keys() ^ stored.keys():
        name = min(different)
        raise UserError(
            f"{checkpoint} and the run do not both have the tensor {name}", "resume with the version that wrote it"
        )
    with warnings.catch_warnings(action="ignore"):
        load(tensors, storage_reader=reader, no_dist=True)


def load_weights(path: Path) -> dict[str, Tensor]:
    """Read the weights that a run leaves.

    Raises:
        UserError: there is no such file, or it is damaged.
    """
    try:
        return safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise UserError(f"cannot read the weights in {path}: {error}", "give the folder of a run that ended") from None


def _write_weights(weights: dict[str, Tensor], path: Path) -> None:
    write_file(path, safetensors.torch.save(weights))
