"""What a user can put right: one message and one hint."""


class UserError(Exception):
    """A mistake of the user's, found alike by every process before training starts.

    The command line prints `message` behind ``error:`` and `hint` behind ``hint:``, once per machine,
    and exits with code 2.
    """

    everywhere = True
    """Whether every process finds the same mistake, so that one of them is enough to report it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class LocalError(UserError):
    """A mistake that one process meets alone, such as a picture that cannot be read: it reports itself."""

    everywhere = False
