"""Checkpoints of a few bytes; the tensors of checkpoints, and those that a run resumes from."""

import warnings
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.state_dict_loader import load

from accel_train.checkpoints.store import begin, commit

WRITES_RESTORED_TENSORS = """
import os, sys
import safetensors.torch
from accel_train.checkpoints.checkpointer import load_tensors
from accel_train.cli.app import main
from accel_train.run import restore

def load_and_write(folder, trained):
    load_tensors(folder, trained)
    restored = {name: trained.strategy.full(tensor).contiguous() for name, tensor in trained.by_name().items()}
    safetensors.torch.save_file(restored, f"restored_by_{os.environ['RANK']}.safetensors")

assert restore.load_tensors is load_tensors
restore.load_tensors = load_and_write
main()
"""
"""accel_train, whose ranks also write the tensors that they resume from."""
FILES = {"state.json": b'{"update": 9}', "tensors/a.safetensors": bytes(range(200)), "tensors/deep/b": b""}


def save(checkpoints: Path, update: int) -> Path:
    """Commit a checkpoint and return its folder."""
    partial = begin(checkpoints, update, "ab_c")
    for name, data in FILES.items():
        (partial / name).parent.mkdir(exist_ok=True, parents=True)
        (partial / name).write_bytes(data)
    return commit(partial)


def stored(checkpoint: Path) -> dict[str, Tensor]:
    """Return all tensors of a checkpoint, unsharded."""
    reader = HuggingFaceStorageReader(str(checkpoint / "tensors"))
    found = reader.read_metadata().state_dict_metadata
    tensors = {name: torch.empty(of.size, dtype=of.properties.dtype) for name, of in found.items()}
    with warnings.catch_warnings(action="ignore"):  # that nothing is distributed
        load(tensors, storage_reader=reader, no_dist=True)
    return tensors
