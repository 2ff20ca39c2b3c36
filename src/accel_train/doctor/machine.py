"""Checks what a process can check without the others: limits, shared memory, device, network interface, data."""

import os
import platform
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch

from accel_train.config.doctor_options import DoctorConfig
from accel_train.distributed.accelerate_launch import asked_of_accelerate, check_unheard
from accel_train.distributed.environment import (
    available_cores,
    launched_rank,
    local_rank,
    local_world_size,
    machine,
    world_size,
)
from accel_train.distributed.interfaces import check_named_interfaces, choose_interface, chosen_interface
from accel_train.distributed.loopback import on_one_machine
from accel_train.distributed.meeting_store import meeting_point
from accel_train.distributed.process_group import check_open_files
from accel_train.distributed.ranks import device_name
from accel_train.distributed.resolve import choose_backend, choose_device, choose_precision
from accel_train.doctor.finding import Finding
from accel_train.doctor.options import check_data, check_run
from accel_train.errors import UserError
from accel_train.run.identity import describe_cpu
from accel_train.run.resume_point import decisive_options
from accel_train.system.os_errors import format_bytes
from accel_train.system.time_limit import within

_PACKAGES = ("accel_train", "torchvision", "accelerate")
SHARED_MEMORY = Path("/dev/shm")
_LEAST_SHARED, _SHARED_PER_GPU = 16 * 2**20, 64 * 2**20
"""Free bytes of shared memory that loader workers need, and NCCL; Docker gives 64 MiB in all."""
_FREE_SHARE = 0.9
"""Of the memory of a GPU that nobody else uses, at least."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a process knows of itself."""

    rank: int
    host: str
    machine: int
    """Number that the launcher gave its machine."""
    pid: int
    versions: Mapping[str, str]
    options: Mapping[str, str]
    """Those that all processes must be started with."""
    device: str
    """Empty if the device that was asked for cannot be had."""
    hardware: str
    """Name of the GPU or CPU."""
    backend: str | None
    """None for a single process."""
    network: str
    """Its interface; empty if the backend chooses."""
    cores: int
    gpus: int
    """Of its machine; 0 if it computes on CPUs."""
    findings: tuple[Finding, ...]

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Self:
        """Return the report of another process from its JSON."""
        return cls(**{**record, "findings": tuple(map(Finding.read, record["findings"]))})


class _Devices(NamedTuple):
    """What torch tells of devices and libraries."""

    versions: Mapping[str, str]
    device: str = ""
    hardware: str = ""
    backend: str | None = None
    gpus: int = 0
    findings: tuple[Finding, ...] = ()


def examine_process(
    config: DoctorConfig, before: Sequence[Finding] = (), origins: Mapping[str, str] | None = None
) -> Report:
    """Return what this process knows of itself, and has found `before`; each check has a time limit."""
    findings = list(before)
    try:
        devices = within(config.timeout, partial(_devices, config))
    except TimeoutError:
        devices = _Devices({}, findings=(_hangs("device", config.timeout),))
    for check, function in _CHECKS.items() if devices.versions else ():
        findings += _limited(check, partial(function, config), config.timeout)
    refused = _limited("run", partial(_run, config, origins or {}), config.timeout)
    findings += refused or _limited("data", partial(_data, config, origins or {}), config.timeout)
    rank = launched_rank()
    return Report(
        rank=rank,
        host=socket.gethostname(),
        machine=machine(),
        pid=os.getpid(),
        versions=devices.versions,
        options=decisive_options(config),
        device=devices.device,
        hardware=devices.hardware,
        backend=devices.backend,
        network=chosen_interface(devices.backend),
        cores=available_cores(),
        gpus=devices.gpus,
        findings=tuple(replace(finding, ranks=(rank,)) for finding in (*findings, *devices.findings)),
    )


def _limited(check: str, function: Callable[[], Iterable[Finding]], seconds: int) -> list[Finding]:
    """Return what a check finds, also if it hangs."""
    try:
        return within(seconds, lambda: list(function()))
    except UserError as error:
        return [Finding.of(check, error)]
    except TimeoutError:
        return [_hangs(check, seconds)]


def _hangs(check: str, seconds: int) -> Finding:
    hint = "see dmesg for a dead device or network file system; --timeout raises the limit"
    return Finding(check, f"this check has not ended within {seconds} s", hint)


def _devices(config: DoctorConfig) -> _Devices:
    """Return device and backend, or why there is none."""
    versions, cpu = _versions(), describe_cpu()
    try:
        launcher = asked_of_accelerate()
        check_unheard(launcher)
        kind = choose_device(config.device, os.environ, launcher.use_cpu if launcher else None)
        choose_precision(config.precision, kind, os.environ)
    except UserError as error:
        return _Devices(versions, hardware=cpu, findings=(Finding.of("device", error),))
    gpus = torch.cuda.device_count() if kind == "cuda" else 0
    device = device_name(torch.device(kind, local_rank()) if gpus else torch.device(kind))
    hardware = torch.cuda.get_device_name(local_rank()) if gpus else cpu
    try:
        backend = choose_backend(config.backend, kind, world_size())
    except UserError as error:
        return _Devices(versions, device, hardware, None, gpus, (Finding.of("backend", error),))
    return _Devices(versions, device, hardware, backend, gpus, tuple(_gpu_memory(kind)))


def _gpu_memory(kind: str) -> Iterator[Finding]:
    if kind != "cuda":
        return
    free, total = torch.cuda.mem_get_info(local_rank())
    if free < _FREE_SHARE * total:
        used = f"{format_bytes(total - free)} of {format_bytes(total)}"
        yield Finding(
            "GPU memory",
            f"{used} of cuda:{local_rank()} are in use before the run starts",
            "end the program that uses it (nvidia-smi names it), or choose other GPUs by CUDA_VISIBLE_DEVICES",
            fails=False,
        )


def _open_files(config: DoctorConfig) -> Iterable[Finding]:
    check_open_files()
    return ()


def shared_memory(config: DoctorConfig, folder: Path = SHARED_MEMORY) -> Iterator[Finding]:
    """Check the memory that loader workers and NCCL share."""
    larger = f"docker run --shm-size 1g, or mount -o remount,size=1g {folder}; else use --workers 0"
    if not os.access(folder, os.W_OK):
        yield Finding("shared memory", f"{folder} cannot be written", f"mount -t tmpfs none {folder}")
        return
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    if free < max(_LEAST_SHARED, _SHARED_PER_GPU * local_world_size() * torch.cuda.is_available()):
        message = f"{folder} has {format_bytes(free)} free, which loader workers and NCCL may fill"
        yield Finding("shared memory", message, f"enlarge it: {larger}", fails=free < _LEAST_SHARED)


def _interface(config: DoctorConfig) -> Iterator[Finding]:
    if world_size() == 1:
        return
    address = meeting_point()[0]
    if os.environ.get("LOCAL_WORLD_SIZE") and local_world_size() < world_size() and on_one_machine(address):
        here = f"{local_world_size()} of {world_size()} processes"
        message = f"MASTER_ADDR={address} is this host itself, where only {here} are"
        yield Finding("interface", message, "set MASTER_ADDR to the address of rank 0's host in their network")
    check_named_interfaces(config.backend or ("nccl" if torch.cuda.is_available() else "gloo"))
    choose_interface(address)


def unused_gpu(config: DoctorConfig, folder: Path = Path("/dev")) -> Iterator[Finding]:
    """Check that torch finds the GPUs that there are: --device auto computes on CPUs otherwise."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1")
    if hidden or config.device == "cpu" or torch.cuda.is_available() or not any(folder.glob("nvidia[0-9]*")):
        return
    reason = "it was built for CPUs"
    if torch.version.cuda:
        try:
            torch.cuda.init()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
    message = f"this machine has an NVIDIA GPU, but torch {torch.__version__} finds none: {reason}"
    yield Finding("unused GPU", message, "install a torch that fits the driver, or add --device cpu", fails=False)


def _run(config: DoctorConfig, origins: Mapping[str, str]) -> Iterable[Finding]:
    check_run(config, origins)
    return ()


def _data(config: DoctorConfig, origins: Mapping[str, str]) -> Iterable[Finding]:
    check_data(config, origins)
    return ()


_CHECKS: dict[str, Callable[[DoctorConfig], Iterable[Finding]]] = {
    "open files": _open_files,
    "shared memory": shared_memory,
    "interface": _interface,
    "unused GPU": unused_gpu,
}


def _versions() -> dict[str, str]:
    """Return the versions of libraries; that of torch names its build, for CPUs or GPUs."""
    found = {"Python": platform.python_version(), "torch": torch.__version__}
    found |= {name: version(name) for name in _PACKAGES}
    if not torch.cuda.is_available():
        return found
    with suppress(AttributeError):  # this torch was built without it
        found["NCCL"] = ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]
    return found
