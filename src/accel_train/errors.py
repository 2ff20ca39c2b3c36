"""Errors that the user can fix: one message and one hint."""


class UserError(Exception):
    """A user's mistake, which every process finds before training starts.

    The command line prints `message` after ``error:`` and `hint` after ``hint:``, once per machine, and exits with
    code 2.
    """

    everywhere = True
    """True if every process finds the same mistake, so that one of them reports it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class LocalError(UserError):
    """A mistake that only one process finds, such as an unreadable image: that process reports it."""

    everywhere = False
