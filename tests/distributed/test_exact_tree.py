"""Any number of Gloo processes finds the same bits, those of the tree over all virtual workers."""

import hashlib
import json

import pytest
import torch
from helpers.runner import Runner
from torch import Tensor

LENGTHS = (0, 1, 2, 10_007)
ADDS = f"""
import hashlib, json, os, sys, torch
from accel_train.training.tree_reduce import FixedTree

torch.distributed.init_process_group("gloo")
rank, processes = torch.distributed.get_rank(), torch.distributed.get_world_size()
workers = int(sys.argv[1])
leaves = torch.load("leaves.pt", weights_only=True)
tree = FixedTree(workers, processes, rank)
hashes = []
for length in {LENGTHS}:
    for worker in range(rank * workers // processes, (rank + 1) * workers // processes):
        tree.add(leaves[worker, :length].clone())
    hashes.append(hashlib.sha256(tree.total().numpy().tobytes()).hexdigest())
with open(f"found_{{processes}}_{{rank}}.json", "w") as file:
    json.dump(hashes, file)
torch.distributed.barrier()
torch.distributed.destroy_process_group()
sys.stdout.flush()
os._exit(0)
"""


def tree(level: list[Tensor]) -> Tensor:
    while len(level) > 1:
        level = [level[i] + level[i + 1] if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
    return level[0]


@pytest.mark.parametrize(("workers", "processes"), [(6, 1), (6, 2), (6, 3), (8, 1), (8, 2), (8, 4)])
def test_every_process_has_the_bits_of_the_tree(run: Runner, workers: int, processes: int) -> None:
    generator = torch.Generator().manual_seed(workers)
    sizes = 10.0 ** torch.randint(-4, 5, (workers, LENGTHS[-1]), generator=generator)
    leaves = torch.randn(workers, LENGTHS[-1], generator=generator) * sizes
    torch.save(leaves, run.folder / "leaves.pt")
    ended = run.script("-c", ADDS, str(workers), processes=processes)
    assert ended.code == 0, ended.err
    assert "Warning" not in ended.err
    expected = [hashlib.sha256(tree(list(leaves[:, :n])).numpy().tobytes()).hexdigest() for n in LENGTHS]
    for rank in range(processes):
        found = json.loads((run.folder / f"found_{processes}_{rank}.json").read_text())
        assert found == expected
