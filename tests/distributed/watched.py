"""Takes part in all-reduces under a watch whose timeout is 4 s, and says `ready` when every process is known.

The first argument is the number of all-reduces from then on; each more, `rank:seconds`, is how long a rank computes
before the first of them.
"""

import sys
import time

import torch
import torch.distributed

from accel_train.distributed import process_group
from accel_train.distributed.watchdog import PeerWatch

rounds, *naps = sys.argv[1:]
seconds = dict(map(int, nap.split(":")) for nap in naps)


def say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


process_group.join("gloo", timeout=60)
rank = torch.distributed.get_rank()
watch = PeerWatch(
    torch.distributed.distributed_c10d._get_default_store(), rank, torch.distributed.get_world_size(), 4, say
)
watch.start()
time.sleep(2.5)
torch.distributed.barrier()
say("ready")
time.sleep(seconds.get(rank, 0))
for _ in range(int(rounds)):
    watch.tick()
    torch.distributed.all_reduce(torch.ones(4))
    watch.tick()
    time.sleep(0.05)
watch.stop()
process_group.leave()
