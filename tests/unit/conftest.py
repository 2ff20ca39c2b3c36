"""Fixtures of the unit tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh


@pytest.fixture
def gloo(tmp_path: Path) -> Iterator[DeviceMesh]:
    """Return the mesh of a process group of this process alone."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    torch.distributed.destroy_process_group()
