"""The file state.json of a checkpoint: all that it holds besides tensors."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from accel_train.checkpoints.store import update_of
from accel_train.data.contents import StoredContents
from accel_train.errors import UserError
from accel_train.system.records import Count, Number, Text, read_record
from accel_train.training.state import TrainingState

NAME = "state.json"
FORMAT = 3
_HINT = "give another checkpoint, or use the version of accel_train that wrote it"


@dataclass(frozen=True)
class StoredState:
    """What a checkpoint holds besides tensors."""

    position: TrainingState
    nonce: Annotated[str, Field(strict=True, pattern=r"^\w{1,32}$")]
    """Of the run that wrote it."""
    metrics_bytes: Count
    """Size that metrics.jsonl had."""
    config: dict[Text, Any]
    """Values of the run's config that decide its result."""
    identity: dict[Text, Text]
    """What decided the last bits of a sum, besides the config."""
    data: StoredContents
    scaler: dict[Text, Count | Number] | None


def read_state(checkpoint: Path) -> StoredState:
    """Read the state of a verified checkpoint.

    Raises:
        UserError: a newer version wrote it, or something else has changed it with its checksum.
    """
    path = checkpoint / NAME
    try:
        stored = read_record(path, StoredState, FORMAT)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", _HINT) from None
    except ValueError as error:
        raise UserError(f"{path} {error}", _HINT) from None
    if stored.position.update != update_of(checkpoint):
        raise UserError(f"{checkpoint} holds update {stored.position.update}", "give it back its name, or remove it")
    return stored
