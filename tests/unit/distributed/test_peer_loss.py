"""The death of another process is recognized by torch's messages."""

import pytest

from accel_train.distributed.peer_loss import PeerLostError, what_was_lost


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:1"), "another rank died"),
        (RuntimeError("ncclRemoteError: A call failed"), "another rank died"),
        (PeerLostError("rank 1 (process 4 on node2) died"), "rank 1 (process 4 on node2) died"),
        (RuntimeError("out of memory"), ""),
    ],
)
def test_lost_processes_are_recognized(error: Exception, lost: str) -> None:
    assert what_was_lost(error) == lost
