"""Recognizes that another process of the run has died."""

_WORDS = ("gloo/transport", "ncclRemoteError", "Connection reset by peer")
"""Parts of the messages that torch 2.14 raises."""


class PeerLostError(RuntimeError):
    """Other processes have died; the message names them."""


def what_was_lost(error: BaseException) -> str:
    """Return which processes have died, if that is the reason of an error; else an empty text."""
    if isinstance(error, PeerLostError):
        return str(error)
    return "another rank died" if any(words in str(error) for words in _WORDS) else ""
