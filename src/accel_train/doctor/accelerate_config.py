"""What `accelerate launch` would start with a configuration file: asked of Accelerate itself, but nothing is started.

Accelerate has no public function for it; those used here are checked by a test (accelerate 1.15).
"""

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from accel_train.config.doctor_options import DoctorConfig
from accel_train.distributed.accelerate_launch import check_unheard, read_command
from accel_train.distributed.environment_check import check_environment
from accel_train.distributed.resolve import choose_backend, choose_device, choose_precision, choose_strategy
from accel_train.distributed.strategies import load_strategy
from accel_train.doctor.finding import Finding
from accel_train.errors import UserError
from accel_train.loggers.text import quantity

_CHECK = "accelerate config"
_STRATEGIES = "use distributed_type MULTI_GPU (DDP) or FSDP, as in accelerate_configs/"
_UNSUPPORTED = {"use_deepspeed": ("DeepSpeed", _STRATEGIES), "tpu": ("TPUs", _STRATEGIES)}


@dataclass(frozen=True)
class Launch:
    """What `accelerate launch` would do."""

    by_torchrun: bool
    """Else it starts one process, whatever it was asked for."""
    processes: int
    machines: int
    environ: dict[str, str]
    """Variables of the first process."""


def default_file() -> Path | None:
    """Return the file that `accelerate config` has written, which `accelerate launch` reads by itself."""
    from accelerate.commands.config.config_args import default_config_file

    path = Path(default_config_file)
    return path if path.is_file() else None


def examine_file(file: Path, config: DoctorConfig) -> tuple[str, list[Finding]]:
    """Return in a line what `accelerate launch` would start with a file and these options, and what is wrong."""
    words = ["--config_file", str(file), "-m", "accel_train", "train"]
    try:
        launch = _launch(words)
    except UserError as error:
        return "it is not supported", [Finding.of(_CHECK, error)]
    except (Exception, SystemExit) as error:  # of Accelerate, which raises errors of many kinds
        reason = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, AttributeError):  # it takes whatever the file holds for a mapping
            reason = "it has no `key: value` pairs"
        return "it cannot be used", [
            Finding(_CHECK, f"accelerate launch refuses {file}: {reason}", "correct it, or run accelerate config again")
        ]
    return _described(launch, words, config)


def _launch(words: list[str]) -> Launch:
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env, prepare_simple_launcher_cmd_env

    options, stored, _ = _validate_launch_command(launch_command_parser().parse_args(words))
    for name, (what, hint) in _UNSUPPORTED.items():
        if getattr(options, name):
            raise UserError(f"it asks for {what}, which is not supported", hint)
    if stored is not None and stored.compute_environment == "AMAZON_SAGEMAKER":
        raise UserError("it starts a job on SageMaker, and nothing here", "see accel_train job sagemaker")
    by_torchrun = _starts_torchrun(options)
    environ = prepare_multi_gpu_env(options) if by_torchrun else prepare_simple_launcher_cmd_env(options)[1]
    processes, machines = int(options.num_processes or 1), int(options.num_machines or 1)
    if by_torchrun:
        places = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(processes)}
        environ |= places | {"LOCAL_WORLD_SIZE": str(max(1, processes // machines))}
    return Launch(by_torchrun, processes, machines, environ)


def _starts_torchrun(options: argparse.Namespace) -> bool:
    return bool((options.use_fsdp or options.use_megatron_lm or options.multi_gpu) and not options.cpu)


def _described(launch: Launch, words: list[str], config: DoctorConfig) -> tuple[str, list[Finding]]:
    findings: list[Finding] = []
    environ = os.environ | launch.environ

    def tried(function: Callable[[], str | None]) -> str | None:
        try:
            return function()
        except UserError as error:
            findings.append(Finding.of(_CHECK, error))
            return None

    asked = read_command(words, environ)
    tried(lambda: check_environment(environ))
    tried(lambda: check_unheard(asked))
    device = tried(lambda: choose_device(config.device, environ, asked.use_cpu))
    precision = tried(lambda: choose_precision(config.precision, device or "cpu", environ))
    strategy = tried(lambda: _strategy(launch, device or "cpu", environ, config))
    if device:
        tried(lambda: choose_backend(config.backend, device, launch.processes))
    findings += _too_few(launch)
    count = quantity(launch.processes, "process", "processes")
    where = f" on {quantity(launch.machines, 'machine')}" * (launch.machines > 1)
    how = [strategy if launch.processes > 1 else None, device, precision]
    if not launch.by_torchrun and launch.processes > 1:
        count = f"1 process, accel_train the other {launch.processes - 1}"
    return f"accelerate launch starts {count}{where}: {', '.join(filter(None, how))}", findings


def _strategy(launch: Launch, device: str, environ: Mapping[str, str], config: DoctorConfig) -> str:
    name, options = choose_strategy(config.strategy, config.strategy_options, launch.processes, environ)
    load_strategy(name, options).check(launch.processes, device, environ)
    return name


def _too_few(launch: Launch) -> Iterator[Finding]:
    """Yield a finding if one process is started in place of several machines."""
    if launch.machines > 1 and not launch.by_torchrun:
        yield Finding(
            _CHECK,
            f"it names {launch.machines} machines, but accelerate launch starts one process on each, which know "
            "nothing of one another",
            "set distributed_type: MULTI_GPU, also with use_cpu: true",
        )
