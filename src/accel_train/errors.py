"""Errors that the user can fix: one message and one hint."""

import reprlib


class UserError(Exception):
    """A user's mistake, which every process finds before training starts.

    The command line prints `message` after ``error:`` and `hint` after ``hint:``, once per machine.
    """

    everywhere = True
    """True if every process finds the same mistake, so that one of them reports it."""
    exit_code = 2
    """Exit code of the command line."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class LocalError(UserError):
    """A mistake that only one process finds, such as an unreadable image: that process reports it."""

    everywhere = False


class _Shortened(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 2, 80, 80

    def repr_int(self, x: int, level: int) -> str:
        """Python refuses to print thousands of digits."""
        return super().repr_int(x, level) if x.bit_length() < 1000 else f"a number of {x.bit_length():,} bits"


shown = _Shortened().repr
"""Return a value out of a file as a message shows it: short, with control characters escaped."""
