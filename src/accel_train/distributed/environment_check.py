"""Checks what the environment asks for, and lists what of it is obeyed."""

import json
import os
import re
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress

from accel_train.distributed.environment import LAUNCHER_SET, launched
from accel_train.distributed.environment_table import CLOSED, TABLE, Obeyed, Refused, Row
from accel_train.distributed.environment_values import NOTHING
from accel_train.errors import UserError

_PLACE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
_OF_KUBERNETES = re.compile(r"_SERVICE_(HOST|PORT)|_PORT(_\d+_TCP.*)?$")
"""Names that Kubernetes makes for a service, which may be called fsdp or accelerate."""
_LAUNCHER = "start every process with accelerate launch or torchrun, or unset them and use --processes N"


def row_of(name: str) -> Row | None:
    """Return the row of a variable: its own, or that of the longest prefix."""
    key = _key_of(name)
    return TABLE[key] if key else None


def _key_of(name: str) -> str | None:
    if name in TABLE:
        return name
    return max((key for key in TABLE if key[-1] == "*" and name.startswith(key[:-1])), key=len, default=None)


def check_environment(environ: Mapping[str, str] = os.environ, applies: str = "run") -> None:
    """Check the variables that apply to every run, or only to the runs that `applies` names, see :class:`Refused`.

    Raises:
        UserError: one is malformed, asks for what is not supported, or contradicts another.
    """
    for name, value, row in _met(environ):
        asks = value.strip().lower()
        if row is None:
            if applies == "run" and asks not in NOTHING:
                raise UserError(f"{name}={value} is not known, so it would have no effect", f"unset {name}")
        elif isinstance(row, Refused) and row.applies == applies and asks not in row.nothing:
            raise refusal(f"{name}={value}", value, row)
        elif isinstance(row, Obeyed) and row.applies == applies and asks:
            try:
                row.read(value)
            except ValueError as error:
                raise UserError(f"{name}={value} {error}", f"correct it, or unset {name}") from None
    if applies == "run":
        _check_place(environ)
        if not launched(environ):
            _check_machines(environ)


def refusal(what: str, value: str, row: Refused) -> UserError:
    """Return the error for a setting that asks for what is not supported."""
    return UserError(f"{what} asks for {row.asks_for}, which is not supported", row.hint.format(value=value))


def obeyed(environ: Mapping[str, str], given: Collection[str], applies: Collection[str]) -> tuple[str, ...]:
    """Return the variables that a run obeys, as NAME=value, for the banner; options `given` override some."""
    by_launcher = environ.get(LAUNCHER_SET, "").split(",")
    return tuple(
        f"{name}={value}"
        for name, value, row in _met(environ)
        if isinstance(row, Obeyed)
        and row.printed
        and row.applies in applies
        and value.strip().lower() not in row.nothing
        and not set(row.unless) & set(given)
        and name not in by_launcher
    )


def changing_numbers(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that change the last bits of results, as NAME=value."""
    return tuple(
        f"{name}={value.strip()}"
        for name, value, row in _met(environ)
        if isinstance(row, Obeyed) and row.changes_numbers and value.strip()
    )


def check_interface(name: str, environ: Mapping[str, str] = os.environ) -> None:
    """Check that this machine has the network interfaces that a variable of Gloo or NCCL names.

    Raises:
        UserError: it has not, and the processes would wait for one another.
    """
    value = environ.get(name, "").strip()
    there = [interface for _, interface in socket.if_nameindex()]
    exact = name.startswith("GLOO") or value.startswith("=")
    if not value or (not exact and value.startswith("^")):  # NCCL: all but these
        return
    asked = value.removeprefix("=").split(",")
    if exact:
        missing = [one for one in asked if one not in there]
    else:  # NCCL takes prefixes, and any of them will do
        missing = [] if any(one.startswith(tuple(asked)) for one in there) else asked
    if missing:
        raise UserError(f"{name}={value}: this machine has no network interface {missing[0]}", _choose(name, there))


def _choose(name: str, interfaces: list[str]) -> str:
    return f"set {name} to one of {', '.join(interfaces)}, or unset it"


def _met(environ: Mapping[str, str]) -> Iterator[tuple[str, str, Row | None]]:
    """Yield name, value and row of variables, in the order of the table; those without a row only if of `CLOSED`."""
    position = {key: number for number, key in enumerate(TABLE)}
    keys = {name: _key_of(name) for name in environ}
    for name in sorted(environ, key=lambda name: (position.get(keys[name] or "", len(TABLE)), name)):
        if key := keys[name]:
            yield name, environ[name], TABLE[key]
        elif name.startswith(CLOSED) and not _OF_KUBERNETES.search(name):
            yield name, environ[name], None


def _check_place(environ: Mapping[str, str]) -> None:
    given = {name: int(environ[name]) for name in _PLACE if environ.get(name, "").strip()}
    if given in ({}, {"WORLD_SIZE": 1}):
        return
    if missing := [name for name in ("RANK", "WORLD_SIZE") if name not in given]:
        first = next(iter(given))
        raise UserError(f"{first}={given[first]} is set without {' and '.join(missing)}", _LAUNCHER)
    for number, limit in (("RANK", "WORLD_SIZE"), ("LOCAL_RANK", "LOCAL_WORLD_SIZE")):
        if limit in given and given.get(number, 0) >= given[limit]:
            raise UserError(f"{number}={given[number]} must be less than {limit}={given[limit]}", _LAUNCHER)
    if given.get("LOCAL_WORLD_SIZE", 1) > given["WORLD_SIZE"]:
        raise UserError(
            f"LOCAL_WORLD_SIZE={given['LOCAL_WORLD_SIZE']} is more than WORLD_SIZE={given['WORLD_SIZE']}", _LAUNCHER
        )


def _check_machines(environ: Mapping[str, str]) -> None:
    """Check that nothing names several machines to a process that no launcher has told its place."""
    for name, count in _MACHINES.items():
        with suppress(ValueError, KeyError, TypeError, AttributeError):  # it means something else
            if count(environ[name]) > 1:
                raise UserError(
                    f"{name}={environ[name]} names several machines, and each would train the whole run",
                    "start one run on all of them with torchrun -m accel_train train, or accelerate launch",
                )


_MACHINES: dict[str, Callable[[str], int]] = {
    "PET_NNODES": lambda value: int(value.rpartition(":")[2]),  # torchrun's --nnodes, set by Kubeflow
    "SM_HOSTS": lambda value: len(json.loads(value)),  # SageMaker
    "TF_CONFIG": lambda value: len(json.loads(value)["cluster"]["worker"]),  # Vertex AI
}
"""The number of machines that a variable names."""
