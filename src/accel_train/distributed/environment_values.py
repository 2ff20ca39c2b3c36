"""Reads the values of environment variables; a malformed one raises ValueError with what it is not."""

from logging import getLevelNamesMapping

NOTHING = ("", "0", "n", "no", "f", "false", "off", "none")
"""Values, in lower case, that ask for nothing."""
YES = ("1", "y", "yes", "t", "true", "on")


def flag(value: str) -> bool:
    """Return the truth value of a variable, as Accelerate reads it."""
    if value.strip().lower() not in (*NOTHING, *YES):
        raise ValueError("is neither true nor false")
    return value.strip().lower() in YES


def number(value: str) -> int:
    """Return a whole number of 0 or more."""
    if not (value.strip().isascii() and value.strip().isdecimal()):
        raise ValueError("is not a whole number")
    return int(value)


def count(value: str) -> int:
    """Return a whole number above 0."""
    if (found := number(value)) == 0:
        raise ValueError("is not above 0")
    return found


def thread_counts(value: str) -> int:
    """Return the first number of OMP_NUM_THREADS; the others are for nested parallel regions, which torch has not."""
    first, *_ = [count(part) for part in value.split(",")]
    return first


def port(value: str) -> int:
    """Return the number of a TCP port."""
    if not 0 < (found := number(value)) < 1 << 16:
        raise ValueError("is not a port from 1 to 65535")
    return found


def log_level(value: str) -> str:
    """Return the name of a level of Python's logging."""
    if value.upper() not in getLevelNamesMapping():
        raise ValueError("is no log level")
    return value.upper()


def cpu_capability(value: str) -> str:
    """Return the name of a set of CPU instructions, as torch reads it."""
    if value not in ("default", "avx2", "avx512", "vsx", "zvector", "sve256"):
        raise ValueError("is no set of instructions that torch knows")
    return value
