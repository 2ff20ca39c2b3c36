"""Parts of sharded tensors; tensors that are not sharded are their own part."""

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from accel_train.distributed.strategies import sharded

WHOLE = torch.tensor([[3.0, 4.0], [0.0, 12.0]])


def test_tensors_that_are_not_sharded_are_their_own_part() -> None:
    assert sharded.local(WHOLE) is WHOLE
    assert sharded.full(WHOLE) is WHOLE
    assert sharded.own_part(WHOLE, WHOLE) is WHOLE
    assert sharded.local_parts([None, WHOLE])[0] is WHOLE
    assert torch.equal(sharded.norms([WHOLE, WHOLE[0]], WHOLE), torch.tensor([13.0, 5.0]))


def test_sharded_tensors_have_parts_and_whole_norms(gloo: DeviceMesh) -> None:
    for placement in (Shard(0), Replicate()):
        tensor = distribute_tensor(WHOLE, gloo, [placement])
        (part,) = sharded.local_parts([tensor, None])
        assert not isinstance(part, DTensor)
        assert part.data_ptr() == tensor.to_local().data_ptr()
        assert torch.equal(sharded.full(tensor), WHOLE)
        own = sharded.own_part(WHOLE, tensor)
        assert not isinstance(own, DTensor)
        assert torch.equal(own, part)
        assert torch.allclose(sharded.norms([part, part], tensor), torch.tensor([13.0, 13.0]))
