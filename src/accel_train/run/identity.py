"""What decides the last bits of a sum, besides the config: hardware, libraries, threads and the environment."""

import hashlib
import os
import platform
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch

from accel_train.distributed import process_group
from accel_train.distributed.accelerator import Processes
from accel_train.distributed.environment_check import changing_numbers
from accel_train.distributed.ranks import rank_name
from accel_train.errors import UserError

_PACKAGES = ("torchvision", "pillow", "simplejpeg")
"""Besides torch, those that define models and decode pictures."""
_IN_TORCH = (("MKL", r"Math Kernel Library Version (\S+)"), ("oneDNN", r"MKL-DNN v(\S+)"))
_CPUINFO = Path("/proc/cpuinfo")
_NAMES = ("model name", "Model", "CPU part")  # x86; Raspberry Pi and others; Arm
_NUMBERS = ("vendor_id", "cpu family", "model", "stepping", "CPU implementer", "CPU variant", "CPU revision")
_FEATURES = {
    "flags": re.compile(r"sse|avx|amx|fma|f16c"),
    "Features": re.compile(r"asimd|fphp|sve|sme|bf16|i8mm|fcma"),
}
"""Instruction sets for which libraries have kernels of their own, of x86 and of Arm.

The kernel and the firmware switch other features on and off, such as x86's `smep` and `sme`, which encrypts memory.
"""


def identity_of(device: torch.device) -> dict[str, str]:
    """Return what decides the last bits of a sum on a device, by name."""
    found = {"device": device.type}
    if device.type == "cuda":
        found["device"] = torch.cuda.get_device_name(device)
        found["GPU libraries"] = f"CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"  # type: ignore[no-untyped-call]
    else:
        found["CPU"] = describe_cpu()
    found["instructions"] = torch.backends.cpu.get_cpu_capability()
    found["threads"] = str(torch.get_num_threads())
    found["libraries"] = _libraries()
    if environment := changing_numbers(os.environ):
        found["environment"] = " ".join(environment)
    return found


def identity_text(identity: Mapping[str, str]) -> str:
    """Return an identity in one line."""
    return ", ".join(f"{name} {value}" for name, value in identity.items())


def identity_changes(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return where two identities differ, in one line; an empty text if they do not."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return ", ".join(f"{name} {before.get(name, 'none')} → {now.get(name, 'none')}" for name in names)


def refuse_other_identities(processes: Processes, own: Mapping[str, str]) -> None:
    """Collective: check that all processes have the same identity.

    Raises:
        UserError: one has another, so that results would depend on which process computes what.
    """
    texts = process_group.exchange_texts(processes.group, identity_text(own))
    rank = next((rank for rank, text in enumerate(texts) if text != texts[0]), None)
    if rank is not None:
        raise UserError(
            f"--exact: {rank_name(processes.ranks, rank)} computes on {texts[rank]}, but rank 0 on {texts[0]}",
            "use machines of one kind with the same libraries and environment, or leave out --exact",
        )


def describe_cpu(cpuinfo: Path = _CPUINFO) -> str:
    """Return name and numbers of the CPU, and a hash of its instruction sets: virtual machines hide some of them."""
    lines = []
    if cpuinfo.exists():
        with cpuinfo.open(encoding="utf-8", errors="replace") as file:
            for line in file:  # only the first CPU: the system asks each for its frequency
                if line.isspace():
                    break
                lines.append(line)
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    named = next((fields[name] for name in _NAMES if name in fields), platform.processor() or platform.machine())
    numbers = "/".join(fields[name] for name in _NUMBERS if name in fields)
    sets = " ".join(
        sorted(word for name, has in _FEATURES.items() for word in fields.get(name, "").split() if has.search(word))
    )
    return " ".join(filter(None, (named, numbers, hashlib.sha256(sets.encode()).hexdigest()[:8] if sets else "")))


@cache
def _libraries() -> str:
    built = torch.__config__.show()
    inside = [f"{name} {found[1]}" for name, pattern in _IN_TORCH if (found := re.search(pattern, built))]
    return " ".join([f"torch {torch.__version__}", *inside, *(f"{name} {version(name)}" for name in _PACKAGES)])
