"""Where images are held follows what is asked for and what there is, or is refused."""

from dataclasses import replace

import pytest
import torch

from accel_train.config.options import TrainConfig
from accel_train.data import cache
from accel_train.data.cache import cached
from accel_train.data.sources.base import DataSet, ItemSource, MemorySource, in_memory
from accel_train.errors import UserError

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def held() -> DataSet:
    """Return a data set of 2 × 40 bytes of images and 2 × 80 bytes of labels."""
    source = MemorySource(("a", "b"), torch.arange(40, dtype=torch.uint8).view(10, 1, 2, 2), torch.arange(10) % 2)
    return in_memory("digits", "made here", source, source)


def read_one_by_one() -> DataSet:
    source = ItemSource(("a", "b"), [(torch.zeros(1, 2, 2, dtype=torch.uint8), 0)] * 4)
    return replace(held(), train=source, val=source)


def choose(images: DataSet, device: torch.device = CPU, **given: object) -> str:
    return cache._choose(images, TrainConfig.model_validate(given), device)


@pytest.mark.parametrize(
    ("device", "workers", "processes", "free", "place"),
    [
        (CPU, "auto", 1, 0, "off"),
        (CPU, "auto", 2, 0, "ram"),
        (CPU, "2", 2, 0, "ram"),
        (CUDA, "auto", 1, 960, "device"),
        (CUDA, "0", 8, 960, "device"),
        (CUDA, "auto", 1, 959, "off"),
        (CUDA, "auto", 2, 959, "ram"),
        (CUDA, "2", 2, 960, "ram"),
        (CUDA, "2", 1, 960, "off"),
    ],
)
def test_auto_prefers_the_device_then_memory_that_is_shared(
    monkeypatch: pytest.MonkeyPatch, device: torch.device, workers: str, processes: int, free: int, place: str
) -> None:
    for name, value in (("RANK", "0"), ("WORLD_SIZE", str(processes)), ("LOCAL_WORLD_SIZE", str(processes))):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free, 10_000))
    assert choose(held(), device, workers=workers) == place
    assert choose(read_one_by_one(), device, workers=workers) == "off"


@pytest.mark.parametrize("asked", ["device", "ram", "off"])
def test_what_is_asked_for_is_done_and_changes_no_image(asked: str) -> None:
    data, place = cached(held(), TrainConfig(cache=asked), CPU, None)
    assert place == asked
    for source in (data.train, data.val):
        images, labels = source.read([3, 0], None)
        assert images.flatten().tolist() == [12, 13, 14, 15, 0, 1, 2, 3]
        assert labels.tolist() == [1, 0]


@pytest.mark.parametrize("asked", ["device", "ram"])
def test_what_is_read_one_by_one_is_not_held(asked: str) -> None:
    with pytest.raises(UserError, match=f"--cache {asked}: pictures is read picture by picture"):
        choose(read_one_by_one(), cache=asked, data="pictures")


def test_workers_cannot_use_the_device() -> None:
    with pytest.raises(UserError, match="--cache device does not work with --workers 2"):
        choose(held(), cache="device", workers=2)


def test_memory_that_cannot_be_shared_is_an_error_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int, offset: int, length: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(UserError, match=r"cannot share 40 bytes of memory .*: No space left on device") as found:
        cached(held(), TrainConfig(cache="ram"), CPU, None)
    assert found.value.hint == "use --cache off"
