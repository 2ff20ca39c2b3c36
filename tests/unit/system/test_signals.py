"""StopSignals does nothing before it listens; tests/faults has the tests that send signals."""

import signal
import threading
import time

from accel_train.system.signals import SIGNALS, StopSignals


def test_constructor_has_no_side_effects() -> None:
    handlers, threads = [signal.getsignal(number) for number in SIGNALS], threading.active_count()
    signals = StopSignals(launcher=1)
    time.sleep(0.01)
    assert [signal.getsignal(number) for number in SIGNALS] == handlers
    assert threading.active_count() == threads
    assert signals.reason is None
    assert signals.seconds_running >= 0.01
