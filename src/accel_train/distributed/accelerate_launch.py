"""Reads what `accelerate launch` was asked for and does not tell the processes that it starts (accelerate 1.15)."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_train.distributed.environment import LAUNCHER_PID, by_accelerate
from accel_train.distributed.environment_check import refusal, row_of
from accel_train.distributed.environment_table import Refused
from accel_train.errors import UserError

_ITSELF = ("accelerate-launch", "accelerate.commands.launch")
_WITH_COMMANDS = ("accelerate", "accelerate.commands.accelerate_cli")
_UNHEARD = (
    *("gradient_", "zero", "offload_", "use_deepspeed", "deepspeed_", "use_megatron_lm", "megatron_lm_"),
    *("fp8_", "downcast_bf16", "enable_cpu_affinity"),
)
"""Prefixes of options that have no effect, or whose variables are refused before."""
_WITH = {
    "ACCELERATE_USE_FSDP": ("use_fsdp", "fsdp_"),
    "ACCELERATE_USE_PARALLELISM_CONFIG": ("use_parallelism_config", "parallelism_config_"),
}
"""Prefixes of options that have no effect unless a variable is set."""


@dataclass(frozen=True)
class Asked:
    """What `accelerate launch` was asked for, by its options or else by its configuration file."""

    processes: int | None
    machines: int
    use_cpu: bool | None
    """None unless a configuration file says it, or --cpu is given: without a file it takes what there is."""
    unheard: Mapping[str, Any]
    """Options that it accepts without effect, by name."""


def asked_of_accelerate(environ: Mapping[str, str] = os.environ) -> Asked | None:
    """Return what the `accelerate launch` that started this process was asked for; None if another program did.

    A process that :mod:`launcher` has started finds it behind its parent.
    """
    if not by_accelerate(environ):
        return None
    import psutil

    with suppress(psutil.Error, OSError):
        parent = psutil.Process(os.getppid())
        options = _options(parent.cmdline())
        if options is None and LAUNCHER_PID in environ:
            options = _options(psutil.Process(parent.ppid()).cmdline())
        if options is not None:
            return read_command(options, environ)
    return None


def check_unheard(asked: Asked | None) -> None:
    """Check that `accelerate launch` was given no option that it accepts without effect.

    Raises:
        UserError: it was.
    """
    for name, value in (asked.unheard if asked else {}).items():
        row = row_of(f"ACCELERATE_{name.removeprefix('enable_').upper()}")
        if not isinstance(row, Refused):
            raise UserError(
                f"{name} {value} of accelerate launch has no effect with its other options",
                "remove it from its command line or configuration file, or choose the distributed_type that it is for",
            )
        if str(value).lower() not in row.nothing:
            raise refusal(f"{name} {value} of accelerate launch", str(value), row)


def _options(words: Sequence[str]) -> Sequence[str] | None:
    """Return the words after `accelerate launch`."""
    for i, word in enumerate(words):
        if Path(word).name in _ITSELF or (word == "launch" and Path(words[i - 1]).name in _WITH_COMMANDS):
            return words[i + 1 :]
    return None


def read_command(words: Sequence[str], environ: Mapping[str, str]) -> Asked:
    """Return what the words after `accelerate launch` ask for, in a process with this environment."""
    import yaml
    from accelerate.commands.config.config_args import default_config_file
    from accelerate.commands.launch import launch_command_parser

    parser = launch_command_parser()
    options, defaults = vars(parser.parse_args(words)), vars(parser.parse_args(["script"]))
    # As Accelerate does: its default file is read unless --cpu is given.
    file = options["config_file"] or ("" if options["cpu"] else default_config_file)
    stored = (yaml.safe_load(Path(file).read_text(encoding="utf-8")) if Path(file).is_file() else None) or {}
    processes = options["num_processes"] or stored.get("num_processes")
    parts = [part for part in stored.values() if isinstance(part, dict)]
    given = {name: value for name, value in stored.items() if value not in parts}
    given |= {name: value for part in parts for name, value in part.items()}
    given |= {name: value for name, value in options.items() if value != defaults[name]}
    unheard = (*_UNHEARD, *(prefix for name, prefixes in _WITH.items() if name not in environ for prefix in prefixes))
    return Asked(
        processes=int(processes) if processes else None,
        machines=int(options["num_machines"] or stored.get("num_machines") or 1),
        use_cpu=options["cpu"] or stored.get("use_cpu"),
        unheard={name: value for name, value in given.items() if name.startswith(unheard)},
    )
