"""Loaders read the right images with the right keys, in this process or in workers, and report what fails."""

import multiprocessing
import pickle
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from accel_train.data.loader import (
    Batch,
    EvaluationReader,
    LoaderSizes,
    TrainReader,
    batches,
    choose_workers,
    evaluation_loader,
    train_loader,
)
from accel_train.data.order import PADDING, EpochOrder
from accel_train.data.pictures import FolderSource
from accel_train.data.sources import ItemSource, MemorySource
from accel_train.errors import LocalError
from accel_train.random_keys import hash_ids, make_key

ALONE = LoaderSizes(batch_size=4, processes=1, workers=0, pin_memory=False)
IN_WORKERS = LoaderSizes(batch_size=4, processes=1, workers=2, pin_memory=False)


@dataclass(frozen=True)
class EchoSource:
    """Its images hold the ids and keys that were asked for: pixel 0 the id, the label the key."""

    images: int
    classes: tuple[str, ...] = ("a", "b")
    in_memory: bool = False

    def __len__(self) -> int:
        return self.images

    def read(self, ids: Sequence[int], keys: Sequence[int] | None) -> tuple[Tensor, Tensor]:
        if 13 in ids and keys is not None:
            raise LocalError("cannot read the picture a/13.jpg: broken", "repair it or remove it")
        return torch.tensor(ids), torch.tensor(keys if keys is not None else [0] * len(ids))


@pytest.mark.parametrize("sizes", [ALONE, IN_WORKERS])
def test_training_reads_each_ticket_with_a_key_of_its_own_epoch_after_epoch(sizes: LoaderSizes) -> None:
    loader = train_loader(EchoSource(11), sizes, EpochOrder(3, 11), accumulate=1)
    expected = EpochOrder(3, 11)
    for epoch in (0, 1):  # workers outlive the epoch
        loader.batch_sampler.sampler.set_epoch(epoch)
        expected.set_epoch(epoch)
        read = list(batches(loader))
        tickets = torch.cat([batch.tickets_B for batch in read])
        assert tickets.tolist() == expected.tickets()[:8].tolist()
        assert torch.cat([batch.images_BCHW for batch in read]).tolist() == (tickets % 11).tolist()
        assert torch.equal(torch.cat([batch.labels_B for batch in read]), hash_ids(make_key(3, "read"), tickets))


def test_an_images_key_changes_with_seed_and_epoch() -> None:
    keys = [
        TrainReader(EchoSource(10), seed).__getitems__(np.array([t])).labels_B.item()
        for seed in (0, 1)
        for t in (3, 13)
    ]
    assert len(set(keys)) == 4


def test_padding_reads_the_first_image_and_keeps_its_mark() -> None:
    batch = EvaluationReader(EchoSource(10)).__getitems__(np.array([8, 9, PADDING, PADDING]))
    assert batch.images_BCHW.tolist() == [8, 9, 0, 0]
    assert batch.tickets_B.tolist() == [8, 9, -1, -1]


@pytest.mark.parametrize("sizes", [ALONE, IN_WORKERS])
def test_evaluation_reads_without_keys(sizes: LoaderSizes) -> None:
    read = list(batches(evaluation_loader(EchoSource(6), sizes)))
    assert [batch.tickets_B.tolist() for batch in read] == [[0, 1, 2, 3], [4, 5, -1, -1]]
    assert all(batch.labels_B.tolist() == [0, 0, 0, 0] for batch in read)


class Noisy:
    """A user's data set whose items draw from torch's global generator."""

    classes = ("a", "b")

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.rand(1, 2, 2), index % 2


def read_all(sizes: LoaderSizes) -> list[Batch]:
    source = ItemSource(Noisy.classes, Noisy())
    loader = train_loader(source, sizes, EpochOrder(1, len(source)), accumulate=2)
    return [*batches(loader), *batches(evaluation_loader(source, sizes))]


def test_no_workers_and_two_read_the_same_numbers() -> None:
    with_none, with_two = read_all(ALONE), read_all(IN_WORKERS)
    assert len(with_none) == len(with_two) == 8
    for one, two in zip(with_none, with_two, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def failure(loader: DataLoader[Batch]) -> LocalError:
    """Return what reading fails with, without the traceback, which would keep the loader alive."""
    try:
        list(batches(loader))
    except LocalError as error:
        return error.with_traceback(None)
    pytest.fail("nothing failed")


@pytest.mark.parametrize("sizes", [ALONE, IN_WORKERS])
def test_an_error_in_reading_arrives_whole(sizes: LoaderSizes) -> None:
    error = failure(train_loader(EchoSource(20), sizes, EpochOrder(0, 20), accumulate=1))
    assert (error.message, error.hint) == ("cannot read the picture a/13.jpg: broken", "repair it or remove it")


@pytest.mark.parametrize("sizes", [ALONE, IN_WORKERS])
def test_a_truncated_picture_is_named(tmp_path: Path, sizes: LoaderSizes) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8\xff\xe0 no more")
    source = FolderSource(("a", "b"), tmp_path, ("bad.jpg",) * 4, (0, 1, 0, 1), size=8)
    message = failure(evaluation_loader(source, sizes)).message
    assert message.startswith(f"cannot read the picture {tmp_path / 'bad.jpg'}: ")


def test_an_error_in_reading_ends_the_workers_at_once() -> None:
    """Held by the error, they would live until garbage is collected, which then waits 5 s for each."""
    before = set(multiprocessing.active_children())
    with suppress(LocalError):
        list(batches(train_loader(EchoSource(20), IN_WORKERS, EpochOrder(0, 20), accumulate=1)))
    assert set(multiprocessing.active_children()) <= before


def test_errors_survive_the_way_between_processes() -> None:
    copy = pickle.loads(pickle.dumps(LocalError("what", "how")))
    assert (type(copy), copy.message, copy.hint, copy.everywhere) == (LocalError, "what", "how", False)


def test_batches_of_all_processes_come_together_for_accelerate_to_split() -> None:
    sizes = LoaderSizes(batch_size=2, processes=3, workers=0, pin_memory=False)
    loader = train_loader(EchoSource(12), sizes, EpochOrder(0, 12), accumulate=2)
    assert [len(batch.tickets_B) for batch in batches(loader)] == [6, 6]
    assert len(loader) == 2


def test_files_get_workers_and_memory_gets_none() -> None:
    memory = MemorySource(("a", "b"), torch.zeros(2, 1, 1, 1, dtype=torch.uint8), torch.tensor([0, 1]))
    files = EchoSource(2)
    for cores, on_cpu, expected in (
        (1, True, 1),
        (2, True, 1),
        (16, True, 4),
        (2, False, 1),
        (6, False, 5),
        (64, False, 8),
    ):
        assert choose_workers("auto", memory, cores=cores, on_cpu=on_cpu) == 0
        assert choose_workers("auto", files, cores=cores, on_cpu=on_cpu) == expected
    for asked in (0, 3):
        assert [choose_workers(str(asked), s, cores=8, on_cpu=True) for s in (memory, files)] == [asked, asked]
