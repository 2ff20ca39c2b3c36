"""Joins two network taps by a slow wire that loses packets: relay.py SECONDS SHARE, on a kernel without netem."""

import fcntl
import os
import random
import select
import struct
import sys
import time
from collections import deque
from contextlib import suppress

_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000


def open_tap(name: str) -> int:
    """Make a network interface whose packets are read from, and written to, the descriptor returned."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH", name.encode(), _IFF_TAP | _IFF_NO_PI))
    return descriptor


def main(delay: float, loss: float) -> None:
    taps = [open_tap(f"tap{number}") for number in range(2)]
    drawn = random.Random(1)
    under_way: deque[tuple[float, int, bytes]] = deque()
    print("up", flush=True)
    while True:
        wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        ready, _, _ = select.select(taps, [], [], wait)
        for tap in ready:
            frame = os.read(tap, 1 << 16)
            if drawn.random() >= loss:
                under_way.append((time.monotonic() + delay, taps[1 - taps.index(tap)], frame))
        while under_way and under_way[0][0] <= time.monotonic():
            _, tap, frame = under_way.popleft()
            with suppress(OSError):  # the first frames of one end may arrive before the other is up: they are lost
                os.write(tap, frame)


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]))
