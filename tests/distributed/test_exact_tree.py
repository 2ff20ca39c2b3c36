"""The fixed gradient reduction order gives bit-identical sums on any number of Gloo processes."""

import hashlib
import json

import pytest
import torch
from helpers.runner import Runner
from torch import Tensor

LENGTHS = (0, 1, 2, 10_007)
ADDS = f"""
import hashlib, json, sys, torch
from accel_train.config.plan import divide
from accel_train.training.tree_reduce import TreeReduce

torch.distributed.init_process_group("gloo")
rank, processes = torch.distributed.get_rank(), torch.distributed.get_world_size()
micro_batches = int(sys.argv[1])
leaves = torch.load("leaves.pt", weights_only=True)
blocks = divide(micro_batches, processes)
tree = TreeReduce(blocks, rank)
hashes = []
for length in {LENGTHS}:
    for index in blocks[rank]:
        tree.add(leaves[index, :length].clone())
    hashes.append(hashlib.sha256(tree.total().numpy().tobytes()).hexdigest())
with open(f"found_{{processes}}_{{rank}}.json", "w") as file:
    json.dump(hashes, file)
torch.distributed.barrier()
torch.distributed.destroy_process_group()
"""


def tree(level: list[Tensor]) -> Tensor:
    while len(level) > 1:
        level = [level[i] + level[i + 1] if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
    return level[0]


@pytest.mark.parametrize(
    ("micro_batches", "processes"), [(6, 1), (6, 2), (6, 3), (6, 4), (8, 1), (8, 2), (8, 3), (8, 4)]
)
def test_every_rank_has_the_sum_of_the_tree(run: Runner, micro_batches: int, processes: int) -> None:
    generator = torch.Generator().manual_seed(micro_batches)
    sizes = 10.0 ** torch.randint(-4, 5, (micro_batches, LENGTHS[-1]), generator=generator)
    leaves = torch.randn(micro_batches, LENGTHS[-1], generator=generator) * sizes
    torch.save(leaves, run.folder / "leaves.pt")
    ended = run.script("-c", ADDS, str(micro_batches), processes=processes)
    assert ended.code == 0, ended.err
    assert "Warning" not in ended.err
    expected = [hashlib.sha256(tree(list(leaves[:, :n])).numpy().tobytes()).hexdigest() for n in LENGTHS]
    for rank in range(processes):
        found = json.loads((run.folder / f"found_{processes}_{rank}.json").read_text())
        assert found == expected
