"""Processes of one machine are recognized, and listen for one another only."""

import socket

import pytest

from accel_train.distributed.loopback import listen, on_one_machine


@pytest.mark.parametrize(
    ("address", "world", "local", "expected"),
    [
        ("127.0.0.1", 4, 2, True),
        ("127.8.9.1", 4, 2, True),
        ("::1", 4, 2, True),
        ("localhost", 4, 2, True),
        ("10.0.0.1", 4, 4, True),
        ("10.0.0.1", 4, 2, False),
        ("node7", 4, 2, False),
        ("node7", 4, 4, True),
    ],
)
def test_one_machine_is_recognized(
    monkeypatch: pytest.MonkeyPatch, address: str, world: int, local: int, expected: bool
) -> None:
    for name, value in {"RANK": 0, "WORLD_SIZE": world, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": local}.items():
        monkeypatch.setenv(name, str(value))
    assert on_one_machine(address) == expected


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost"])
def test_listens_at_the_address_only(address: str) -> None:
    descriptor = listen(address, 0)
    assert descriptor is not None
    with socket.socket(fileno=descriptor) as listener:
        assert listener.getsockname()[0] in ("127.0.0.1", "::1")
        with socket.create_connection(listener.getsockname()[:2]), pytest.raises(OSError, match="in use"):
            listen(listener.getsockname()[0], listener.getsockname()[1])


def test_address_of_another_machine_is_left_to_torch() -> None:
    assert listen("192.0.2.1", 0) is None  # RFC 5737: of no machine
