"""Images are moved to the place asked for, or to the best one; impossible places are rejected."""

from dataclasses import replace

import pytest
import torch

from accel_train.config.fields import Cache
from accel_train.data import cache
from accel_train.data.cache import cached
from accel_train.data.sources.base import DataSet, View
from accel_train.data.sources.memory import MemorySource, memory_data
from accel_train.data.sources.user import ItemSource
from accel_train.errors import UserError

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def in_memory_data() -> DataSet:
    """Return a data set of 2 × 40 bytes of images and 2 × 80 bytes of labels."""
    source = MemorySource(("a", "b"), torch.arange(40, dtype=torch.uint8).view(10, 1, 2, 2), torch.arange(10) % 2)
    return memory_data("digits", "generated", source, source)


def read_one_by_one() -> DataSet:
    source = ItemSource(("a", "b"), [(torch.zeros(1, 2, 2, dtype=torch.uint8), 0)] * 4)
    return replace(in_memory_data(), origin="from pictures", train=source, val=source)


def choose(data: DataSet, asked: Cache = "auto", workers: str = "auto", device: torch.device = CPU) -> str:
    return cache._choose(data, asked, workers, device)


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
def test_auto_prefers_the_device_then_shared_ram(
    monkeypatch: pytest.MonkeyPatch, device: torch.device, workers: str, processes: int, free: int, place: str
) -> None:
    for name, value in (("RANK", "0"), ("WORLD_SIZE", str(processes)), ("LOCAL_WORLD_SIZE", str(processes))):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free, 10_000))
    assert choose(in_memory_data(), workers=workers, device=device) == place
    assert choose(read_one_by_one(), workers=workers, device=device) == "off"


@pytest.mark.parametrize("asked", ["device", "ram", "off"])
def test_images_are_unchanged_in_the_place_asked_for(asked: Cache) -> None:
    data, place = cached(in_memory_data(), asked=asked, workers="auto", device=CPU, group=None)
    assert place == asked
    for source in (data.train, data.val):
        images, labels = source.read([3, 0], None, View(2, random_crop=False))
        assert images.flatten().tolist() == [12, 13, 14, 15, 0, 1, 2, 3]
        assert labels.tolist() == [1, 0]


@pytest.mark.parametrize("asked", ["device", "ram"])
def test_images_read_one_by_one_cannot_be_cached(asked: Cache) -> None:
    message = f"--cache {asked} needs images in memory, but those from pictures are read one by one"
    with pytest.raises(UserError, match=message):
        choose(read_one_by_one(), asked)


def test_cache_on_the_device_with_workers_is_rejected() -> None:
    with pytest.raises(UserError, match="--cache device does not work with --workers 2"):
        choose(in_memory_data(), "device", workers="2")


def test_too_little_memory_to_share_is_a_user_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int, offset: int, length: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(UserError, match=r"cannot share 40 bytes of memory .*: No space left on device") as found:
        cached(in_memory_data(), asked="ram", workers="auto", device=CPU, group=None)
    assert found.value.hint == "use --cache off"
