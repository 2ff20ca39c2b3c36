"""Runs programs on a terminal, and types."""

import os
import sys
import tempfile
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pexpect import EOF, fdpexpect

from helpers import warm
from helpers.processes import wait_until


class OnTerminal(fdpexpect.fdspawn):  # type: ignore[misc]
    """A Python program on a terminal of its own, with `expect` and `send` of pexpect; it does not outlive its context.

    It is forked, unless it must not be.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        columns: int = 80,
        forked: bool = True,
    ) -> None:
        master, terminal = os.openpty()
        termios.tcsetwinsize(terminal, (50, columns))
        name = os.ttyname(terminal)
        with tempfile.TemporaryDirectory() as made:
            streams = Path(made)
            for stream in ("in", "out", "err"):
                (streams / stream).symlink_to(name)
            self.process = warm.start(
                [sys.executable, *words], folder=folder, environment=environment, streams=streams, forked=forked
            )
            wait_until(lambda: self._has_opened(name) or not self.process.is_alive(), 60)
        os.close(terminal)
        super().__init__(master, encoding="utf-8", timeout=120)

    def _has_opened(self, name: str) -> bool:
        with suppress(OSError):
            return str(Path(f"/proc/{self.process.pid}/fd/2").readlink()) == name
        return False

    def press(self, keys: str) -> None:
        """Send keys to a menu, once it reads keys and not lines: what comes before, it discards."""
        wait_until(lambda: not termios.tcgetattr(self.child_fd)[3] & termios.ICANON, 60)
        self.send(keys)

    def close(self) -> None:
        """Close the terminal, which ends the program, and wait for it."""
        super().close()
        self.process.join(60)
        self.process.kill()

    def ends(self) -> int | None:
        """Read what is left until the program ends, and return its exit code."""
        self.expect(EOF)
        self.process.join(60)
        return self.process.exitcode
