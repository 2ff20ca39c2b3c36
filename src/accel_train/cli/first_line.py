"""The first line of a command: on the screen before torch is imported, which takes seconds."""

import os
import textwrap
from contextlib import suppress
from typing import TextIO

from accel_train import __version__
from accel_train.config.options import TrainConfig
from accel_train.distributed.environment import launched_rank, started_by_us, world_size
from accel_train.loggers.text import as_encoded, printable, quantity


def print_first_line(doing: str, stream: TextIO) -> None:
    """Print what the command is doing, once however many processes there are."""
    if started_by_us() or launched_rank() > 0:
        return
    line = f"accel_train {__version__}: {printable(doing)}; importing torch …"
    with suppress(OSError):  # its reader is gone, which the command finds out too
        if stream.isatty():
            line = as_encoded(line, stream.encoding)
            line = textwrap.fill(line, os.get_terminal_size(stream.fileno()).columns or len(line))
        stream.write(line + "\n")
        stream.flush()


def training(config: TrainConfig, processes: int) -> str:
    """Return what a run is doing; `processes` is the number that accel_train will start."""
    count = max(processes, world_size())
    several = f" with {quantity(count, 'process', 'processes')}" * (count > 1)
    folder = f" in {config.output}" * (config.output is not None)
    resumed = config.resume not in ("auto", "never")  # then the run knows its data
    return f"{f'resuming {config.resume}' if resumed else f'training on {config.data}'}{several}{folder}"
