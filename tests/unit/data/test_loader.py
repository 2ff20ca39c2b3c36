"""Loaders read the right images with the right keys, in this process or in workers, and report errors."""

import multiprocessing
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.echo_source import EchoSource
from torch import Tensor
from torch.utils.data import DataLoader

from accel_train.config.plan import divide
from accel_train.data.loader import (
    EvaluationReader,
    LoaderSizes,
    TrainReader,
    batches,
    choose_workers,
    evaluation_loader,
    micro_batches_per_read,
    train_loader,
)
from accel_train.data.sampler import PADDING, ImageOrder, UpdateSampler
from accel_train.data.sources.base import Ids, Source, Subset, View
from accel_train.data.sources.memory import MemorySource
from accel_train.data.sources.picture_files import FolderSource
from accel_train.data.sources.user import ItemSource
from accel_train.data.worker_batches import Batch
from accel_train.errors import LocalError
from accel_train.rng import hash_ids, make_key

ALONE = LoaderSizes(batch_size=4, replicas=1, workers=0, pin_memory=False)
IN_WORKERS = replace(ALONE, workers=2)
VIEW = View(8, random_crop=True)


def loader_of(
    source: Source, sizes: LoaderSizes, seed: int = 3, accumulate: int = 1, epochs: int = 9
) -> tuple[DataLoader[Batch], UpdateSampler]:
    order = ImageOrder(seed, len(source))
    return train_loader(
        source, VIEW, sizes, order, blocks=divide(sizes.replicas * accumulate, sizes.replicas), epochs=epochs
    )


def read_all(loader: DataLoader[Batch]) -> list[Batch]:
    """Return copies of all batches: their memory is reused."""
    return [Batch(*(tensor.clone() for tensor in batch)) for batch in batches(loader)]


def memory_source() -> MemorySource:
    return MemorySource(("a", "b"), torch.zeros(2, 1, 1, 1, dtype=torch.uint8), torch.tensor([0, 1]))


@pytest.mark.parametrize("sizes", [ALONE, IN_WORKERS])
def test_training_reads_each_sample_index_with_its_own_key_over_all_epochs(sizes: LoaderSizes) -> None:
    loader, _ = loader_of(EchoSource(11), sizes)
    read = read_all(loader)
    sample_indices = torch.cat([batch.sample_indices_B for batch in read])
    assert sample_indices.tolist() == [i for epoch in range(9) for i in ImageOrder(3, 11).sample_indices(epoch)[:8]]
    ids, keys = torch.cat([batch.images_BCHW for batch in read]).T
    assert ids.tolist() == (sample_indices % 11).tolist()
    assert torch.equal(keys, hash_ids(make_key(3, "read"), sample_indices))


@pytest.mark.parametrize("sizes", [ALONE, IN_WORKERS])
def test_reading_can_stop_and_resume_at_another_update(sizes: LoaderSizes) -> None:
    """As a rollback does; batches that workers have prefetched by then are dropped."""
    loader, sampler = loader_of(EchoSource(11), sizes)
    whole = [batch.sample_indices_B.tolist() for batch in batches(loader)]
    for first_update in (0, 5, 2):
        sampler.first_update = first_update
        some = [batch.sample_indices_B.tolist() for batch in islice(batches(loader), 3)]
        assert some == whole[first_update : first_update + 3]


def test_key_of_an_image_changes_with_seed_and_epoch() -> None:
    keys = [
        TrainReader(EchoSource(10), VIEW, seed).__getitems__(np.array([i])).images_BCHW[0, 1].item()
        for seed in (0, 1)
        for i in (3, 13)
    ]
    assert len(set(keys)) == 4


LABELS = torch.zeros(4, dtype=torch.int64)


def test_sources_are_read_with_the_loaders_view() -> None:
    class Sized(EchoSource):
        def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
            return torch.full((len(ids), 1, view.size, view.size), int(view.random_crop)), LABELS[: len(ids)]

    loader, _ = train_loader(Sized(8), View(5, random_crop=True), ALONE, ImageOrder(0, 8), blocks=[range(1)], epochs=1)
    for made, expected in ((loader, 1), (evaluation_loader(Sized(8), View(5, random_crop=False), ALONE), 0)):
        for batch in batches(made):
            assert batch.images_BCHW.equal(torch.full((4, 1, 5, 5), expected))


def test_in_memory_sources_get_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(source: MemorySource, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
        assert keys is None
        return torch.zeros(len(ids), 1, 1, 1), torch.zeros(len(ids))

    monkeypatch.setattr(MemorySource, "read", read)
    for source in (memory_source(), Subset(memory_source(), np.array([1, 0]))):
        assert isinstance(TrainReader(source, VIEW, 0).__getitems__(np.array([1, 2])), Batch)


def test_padding_reads_the_first_image_and_stays_marked() -> None:
    batch = EvaluationReader(EchoSource(10), VIEW).__getitems__(np.array([8, 9, PADDING, PADDING]))
    assert batch.images_BCHW[:, 0].tolist() == [8, 9, 0, 0]
    assert batch.sample_indices_B.tolist() == [8, 9, -1, -1]


@pytest.mark.parametrize("sizes", [ALONE, IN_WORKERS])
def test_evaluation_reads_without_keys(sizes: LoaderSizes) -> None:
    read = list(batches(evaluation_loader(EchoSource(6), VIEW, sizes)))
    assert [batch.sample_indices_B.tolist() for batch in read] == [[0, 1, 2, 3], [4, 5, -1, -1]]
    assert all(batch.images_BCHW[:, 1].tolist() == [0, 0, 0, 0] for batch in read)


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        (torch.tensor([0, 1, 2]), "image 6 has the label 2, but labels go from 0 to 1"),
        (torch.tensor([0, -1, 2]), "image 5 has the label -1, but labels go from 0 to 1"),
        (torch.tensor([0.0, 1.0, 1.0]), "the labels of 3 images are torch.float32 of shape (3,), not int64"),
        (torch.tensor([0, 1]), "the labels of 3 images are torch.int64 of shape (2,), not int64"),
        (torch.tensor([[0, 1, 1]]), "the labels of 3 images are torch.int64 of shape (1, 3), not int64"),
    ],
)
@pytest.mark.parametrize("training", [True, False])
def test_labels_that_are_no_index_of_a_class_are_an_error(labels: Tensor, problem: str, training: bool) -> None:
    class Labelled(EchoSource):
        def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
            return torch.zeros(len(ids), 1, 1, 1), labels

    source = Labelled(10)
    reader = TrainReader(source, VIEW, 0) if training else EvaluationReader(source, VIEW)
    error = reader.__getitems__(np.array([4, 5, 6]))
    assert isinstance(error, LocalError)
    assert (error.message, error.hint) == (problem, "a label is the index of its class in `classes`")


class Noisy:
    """A user's data set whose items draw from torch's global generator."""

    classes = ("a", "b")

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.rand(1, 2, 2), index % 2


def read_noise(sizes: LoaderSizes) -> list[Batch]:
    source = ItemSource(Noisy.classes, Noisy())
    loader, _ = loader_of(source, sizes, seed=1, accumulate=2, epochs=3)
    return read_all(loader) + read_all(evaluation_loader(source, VIEW, sizes))


def test_random_items_do_not_depend_on_the_number_of_workers() -> None:
    with_none, with_two = read_noise(ALONE), read_noise(IN_WORKERS)
    assert len(with_none) == len(with_two) == 16
    for one, two in zip(with_none, with_two, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def twenty_images(sizes: LoaderSizes) -> DataLoader[Batch]:
    """Return a loader of images of which one cannot be read."""
    return loader_of(EchoSource(20), sizes, seed=0, epochs=1)[0]


def failure(loader: DataLoader[Batch]) -> LocalError:
    """Return the error of reading, without the traceback, which would keep the loader alive."""
    try:
        list(batches(loader))
    except LocalError as error:
        return error.with_traceback(None)
    pytest.fail("nothing failed")


@pytest.mark.parametrize("sizes", [ALONE, IN_WORKERS])
def test_read_error_keeps_its_message_and_hint(sizes: LoaderSizes) -> None:
    error = failure(twenty_images(sizes))
    assert (error.message, error.hint) == ("cannot read the picture a/13.jpg: broken", "repair it or remove it")


@pytest.mark.parametrize("sizes", [ALONE, IN_WORKERS])
def test_truncated_picture_is_named(tmp_path: Path, sizes: LoaderSizes) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8\xff\xe0 no more")
    source = FolderSource(("a", "b"), tmp_path, ("bad.jpg",) * 4, np.array([0, 1, 0, 1]), np.zeros(4, np.int64))
    message = failure(evaluation_loader(source, VIEW, sizes)).message
    assert message.startswith(f"cannot read the picture {tmp_path / 'bad.jpg'}: ")


def test_read_error_ends_the_workers_at_once() -> None:
    """If the error referred to them, they would live until garbage is collected, which then waits 5 s for each."""
    before = set(multiprocessing.active_children())
    with suppress(LocalError):
        list(batches(twenty_images(IN_WORKERS)))
    assert set(multiprocessing.active_children()) <= before


def test_items_hold_the_batches_of_all_processes_for_accelerate_to_split() -> None:
    sizes = LoaderSizes(batch_size=2, replicas=3, workers=0, pin_memory=False)
    loader, _ = loader_of(EchoSource(12), sizes, accumulate=2, epochs=1)
    assert [len(batch.sample_indices_B) for batch in batches(loader)] == [6, 6]
    assert len(loader) == 2


def test_files_get_workers_and_in_memory_sources_none() -> None:
    memory, files = memory_source(), EchoSource(2)
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


def test_only_in_memory_sources_read_several_micro_batches_at_once() -> None:
    for batch_bytes, expected in ((1 << 18, 8), (3 << 20, 1)):
        assert micro_batches_per_read(memory_source(), batch_bytes) == expected
        assert micro_batches_per_read(EchoSource(2), batch_bytes) == 1
