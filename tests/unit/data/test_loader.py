"""Loaders read the right images with the right keys, in this process or in workers, and report what fails."""

import errno
import multiprocessing
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from accel_train.data.images.crops import FolderSource
from accel_train.data.loader import (
    EvaluationReader,
    LoaderSizes,
    TrainReader,
    batches,
    choose_workers,
    evaluation_loader,
    train_loader,
)
from accel_train.data.sampler import PADDING, ImageOrder
from accel_train.data.sources.base import ItemSource, MemorySource
from accel_train.data.worker_batches import Batch
from accel_train.errors import LocalError
from accel_train.rng import hash_ids, make_key
from accel_train.system import shared_memory as anonymous_files

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


def read_all(loader: DataLoader[Batch]) -> list[Batch]:
    """Return copies of all batches: their memory is used again."""
    return [Batch(*(tensor.clone() for tensor in batch)) for batch in batches(loader)]


@pytest.mark.parametrize("sizes", [ALONE, IN_WORKERS])
def test_training_reads_each_ticket_with_a_key_of_its_own_epoch_after_epoch(sizes: LoaderSizes) -> None:
    loader, _ = train_loader(EchoSource(11), sizes, ImageOrder(3, 11), accumulate=1, epochs=9)
    read = read_all(loader)
    tickets = torch.cat([batch.tickets_B for batch in read])
    assert tickets.tolist() == [t for epoch in range(9) for t in ImageOrder(3, 11).tickets(epoch)[:8]]
    assert torch.cat([batch.images_BCHW for batch in read]).tolist() == (tickets % 11).tolist()
    assert torch.equal(torch.cat([batch.labels_B for batch in read]), hash_ids(make_key(3, "read"), tickets))


@pytest.mark.parametrize("sizes", [ALONE, IN_WORKERS])
def test_reading_can_be_broken_off_and_go_on_elsewhere(sizes: LoaderSizes) -> None:
    """As a rollback does; what workers have read ahead by then is left out."""
    loader, sampler = train_loader(EchoSource(11), sizes, ImageOrder(3, 11), accumulate=1, epochs=9)
    whole = [batch.tickets_B.tolist() for batch in batches(loader)]
    for first_update in (0, 5, 2):
        sampler.first_update = first_update
        some = [batch.tickets_B.tolist() for batch in islice(batches(loader), 3)]
        assert some == whole[first_update : first_update + 3]


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


def read_noise(sizes: LoaderSizes) -> list[Batch]:
    source = ItemSource(Noisy.classes, Noisy())
    loader, _ = train_loader(source, sizes, ImageOrder(1, len(source)), accumulate=2, epochs=3)
    return read_all(loader) + read_all(evaluation_loader(source, sizes))


def test_no_workers_and_two_read_the_same_numbers() -> None:
    with_none, with_two = read_noise(ALONE), read_noise(IN_WORKERS)
    assert len(with_none) == len(with_two) == 16
    for one, two in zip(with_none, with_two, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def twenty_images(sizes: LoaderSizes) -> DataLoader[Batch]:
    """Return a loader of images of which one cannot be read."""
    return train_loader(EchoSource(20), sizes, ImageOrder(0, 20), accumulate=1, epochs=1)[0]


def failure(loader: DataLoader[Batch]) -> LocalError:
    """Return what reading fails with, without the traceback, which would keep the loader alive."""
    try:
        list(batches(loader))
    except LocalError as error:
        return error.with_traceback(None)
    pytest.fail("nothing failed")


@pytest.mark.parametrize("sizes", [ALONE, IN_WORKERS])
def test_an_error_in_reading_arrives_whole(sizes: LoaderSizes) -> None:
    error = failure(twenty_images(sizes))
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
        list(batches(twenty_images(IN_WORKERS)))
    assert set(multiprocessing.active_children()) <= before


def test_errors_survive_the_way_between_processes() -> None:
    copy = pickle.loads(pickle.dumps(LocalError("what", "how")))
    assert (type(copy), copy.message, copy.hint, copy.everywhere) == (LocalError, "what", "how", False)


def test_batches_of_all_processes_come_together_for_accelerate_to_split() -> None:
    sizes = LoaderSizes(batch_size=2, processes=3, workers=0, pin_memory=False)
    loader, _ = train_loader(EchoSource(12), sizes, ImageOrder(0, 12), accumulate=2, epochs=1)
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


def test_what_workers_hand_over_is_untouched_while_it_and_the_next_are_held() -> None:
    """Accelerate holds the next batch while one is trained on; workers read as far ahead as they may meanwhile."""
    one_worker = LoaderSizes(batch_size=2, processes=1, workers=1, pin_memory=False)
    for sizes in (one_worker, IN_WORKERS):
        loader, _ = train_loader(EchoSource(11), sizes, ImageOrder(3, 11), accumulate=1, epochs=9)
        held = None
        for batch in batches(loader):
            if held is not None:
                time.sleep(0.005)
                assert held.images_BCHW.tolist() == (held.tickets_B % 11).tolist()
            held = batch


def test_batches_of_other_shapes_are_handed_over_too() -> None:
    class Growing(EchoSource):
        def read(self, ids: Sequence[int], keys: Sequence[int] | None) -> tuple[Tensor, Tensor]:
            return torch.full((len(ids), 1 + ids[0] % 3), ids[0]), torch.zeros(len(ids), dtype=torch.int64)

    loader, _ = train_loader(Growing(11), IN_WORKERS, ImageOrder(3, 11), accumulate=1, epochs=9)
    for batch in batches(loader):
        first = int(batch.tickets_B[0] % 11)
        assert batch.images_BCHW.tolist() == [[first] * (1 + first % 3)] * 4


def test_no_memory_for_a_batch_is_an_error_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(os, "posix_fallocate", refuse)  # the workers are forks
    loader, _ = train_loader(EchoSource(11), IN_WORKERS, ImageOrder(3, 11), accumulate=1, epochs=1)
    message = failure(loader).message
    assert message.startswith("cannot get 32 bytes of memory for a batch of a loader worker: ")
    assert message.endswith("Cannot allocate memory")


def test_a_python_without_anonymous_files_hands_over_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anonymous_files, "CAN_BE_MADE", False)
    test_training_reads_each_ticket_with_a_key_of_its_own_epoch_after_epoch(IN_WORKERS)


@pytest.mark.parametrize("way", ["repeated channels", "every other pixel", "channels last", "with a gradient"])
def test_images_that_do_not_lie_densely_are_handed_over(way: str) -> None:
    class Odd(EchoSource):
        def read(self, ids: Sequence[int], keys: Sequence[int] | None) -> tuple[Tensor, Tensor]:
            image = torch.arange(3 * 4 * 6).view(1, 3, 4, 6) + torch.tensor(ids).view(-1, 1, 1, 1)
            images = {
                "repeated channels": image[:, :1].expand(-1, 3, -1, -1),
                "every other pixel": image[:, :, ::2, ::2],
                "channels last": image.to(memory_format=torch.channels_last),
                "with a gradient": image.double().requires_grad_(),
            }[way]
            return images, torch.zeros(len(ids), dtype=torch.int64)

    loader, _ = train_loader(Odd(11), IN_WORKERS, ImageOrder(3, 11), accumulate=1, epochs=9)
    for batch in batches(loader):
        expected, _ = Odd(11).read((batch.tickets_B % 11).tolist(), None)
        assert torch.equal(batch.images_BCHW, expected)
        assert not batch.images_BCHW.requires_grad
        assert batch.images_BCHW.is_contiguous(memory_format=torch.channels_last) == (way == "channels last")


def test_workers_leave_no_sockets_behind(tmp_path: Path) -> None:
    words = (
        "train --data synthetic:64,1,8,8,2 --model mlp --batch-size 8 --epochs 2 --workers 2 --device cpu --output run"
    )
    command = [sys.executable, "-m", "accel_train", *words.split()]
    subprocess.run(command, cwd=tmp_path, env=os.environ | {"TMPDIR": str(tmp_path)}, check=True, capture_output=True)
    assert (tmp_path / "run" / "model.safetensors").exists()
    assert list(tmp_path.glob("pymp-*")) == []
