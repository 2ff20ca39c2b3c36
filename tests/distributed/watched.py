"""Runs all-reduces under a watchdog with a timeout of 4 s; prints `ready` when all ranks have joined.

Arguments: the number of all-reduces, then `rank:seconds` for each rank that computes before the first of them.
"""

import sys
import time

import torch
import torch.distributed

from accel_train.distributed import process_group
from accel_train.distributed.watchdog import Watchdog

rounds, *naps = sys.argv[1:]
seconds = dict(map(int, nap.split(":")) for nap in naps)


def report(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


process_group.join("gloo", timeout=60)
rank = torch.distributed.get_rank()
watchdog = Watchdog(rank, torch.distributed.get_world_size(), 4, report)
watchdog.start(torch.distributed.distributed_c10d._get_default_store())
time.sleep(2.5)
torch.distributed.barrier()
report("ready")
time.sleep(seconds.get(rank, 0))
for _ in range(int(rounds)):
    watchdog.tick()
    torch.distributed.all_reduce(torch.ones(4))
    watchdog.tick()
    time.sleep(0.05)
watchdog.stop()
process_group.leave()
