"""Checkpoints of a few bytes."""

from pathlib import Path

from accel_train.checkpoints.store import begin, commit

FILES = {"state.json": b'{"update": 9}', "tensors/a.safetensors": bytes(range(200)), "tensors/deep/b": b""}


def save(checkpoints: Path, update: int) -> Path:
    """Commit a checkpoint and return its folder."""
    partial = begin(checkpoints, update, "ab_c")
    for name, data in FILES.items():
        (partial / name).parent.mkdir(exist_ok=True, parents=True)
        (partial / name).write_bytes(data)
    return commit(partial)
