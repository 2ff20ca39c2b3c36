"""Options of train, from their values to the words of a command."""

from collections.abc import Iterator, Mapping
from typing import Any

from accel_train.loggers.text import option_value


def as_words(options: Mapping[str, Any], *, joined: bool = False) -> Iterator[str]:
    """Yield the words of a command line for values of train's options, by field; `joined`: as ``--name=value``."""
    for field, value in options.items():
        name = field.replace("_", "-")
        if isinstance(value, bool):
            yield f"--{name}" if value else f"--no-{name}"
        elif value is not None:
            yield from [f"--{name}={as_text(value)}"] if joined else [f"--{name}", as_text(value)]


def device_of(gpus: int) -> str:
    """Return the device to train on: a job that asks for GPUs and gets none must not train on CPUs in silence."""
    return "cuda" if gpus else "cpu"


def as_text(value: Any) -> str:
    """Return a value as a command line has it: a list with commas."""
    return option_value(value)
