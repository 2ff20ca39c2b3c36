"""Takes checks step by step on all processes: each ends in time, and all know the results of all."""

from collections.abc import Callable
from typing import Any

from accel_train.distributed.exchange import Exchange
from accel_train.distributed.rendezvous import HINT
from accel_train.doctor.finding import Finding
from accel_train.errors import UserError
from accel_train.system.time_limit import within

_SECONDS_TO_REPORT = 2.0
"""More than the limit, in which what waits for other processes reports that they have not come."""
_IF_SILENT = "look on its host: has it died (dmesg, the launcher's output), is it stopped, is the network cut?"
_IF_HANGING = {
    "start": "let no firewall block any TCP port between the hosts; or name another interface in GLOO_SOCKET_IFNAME",
    "all-reduce": "set NCCL_DEBUG=INFO to see where NCCL waits; name another interface in NCCL_SOCKET_IFNAME",
}
_ELSE = "look on its host: py-spy dump --pid PID shows where it hangs; --timeout raises the limit"


class Steps:
    """The steps so far: after one that hangs somewhere, no other is taken."""

    def __init__(self, exchange: Exchange, seconds: int) -> None:
        self.exchange, self.seconds = exchange, seconds
        self.findings: list[Finding] = []
        self._hangs = False
        self._taken = 0

    def take(self, check: str, work: Callable[[], Any]) -> list[Any]:
        """Collective: let every process work; return the JSON values by rank, or nothing if one fails or hangs."""
        if self._hangs:
            return []
        self._taken += 1
        everyones = self.exchange.everyones(str(self._taken), self._outcome(work))
        silent = [rank for rank, one in enumerate(everyones) if one is None]
        hanging = [rank for rank, one in enumerate(everyones) if one and "hangs" in one]
        for rank in silent:
            self._report_hang(f"has not answered within {self.seconds} s (check: {check})", _IF_SILENT, rank)
        for rank in [] if silent else hanging:  # else they wait for one that is silent
            self._report_hang(
                f"has not ended the check {check} within {self.seconds} s", _IF_HANGING.get(check, _ELSE), rank
            )
        for rank, one in enumerate(everyones):
            if one and "message" in one:
                self.findings.append(Finding(check, one["message"], one["fix"], ranks=(rank,)))
        return [one["value"] for one in everyones] if all(one and "value" in one for one in everyones) else []

    def _outcome(self, work: Callable[[], Any]) -> dict[str, Any]:
        try:
            return {"value": within(self.seconds + _SECONDS_TO_REPORT, work)}
        except TimeoutError:
            return {"hangs": True}
        except UserError as error:
            return {"message": error.message, "fix": error.hint}
        except (OSError, RuntimeError) as error:  # of torch and its backends, which add a stack of C++
            return {"message": str(error).partition("\n")[0], "fix": HINT}

    def _report_hang(self, message: str, fix: str, rank: int) -> None:
        self._hangs = True
        self.findings.append(Finding("hang", message, fix, ranks=(rank,)))
