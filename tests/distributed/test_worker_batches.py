"""Batches of any shape arrive unchanged from loader workers, whose shared memory is reused and never left behind."""

import errno
import multiprocessing
import os
import select
import subprocess
import tempfile
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
from helpers.echo_source import EchoSource
from torch import Tensor
from torch.utils.data import DataLoader, get_worker_info

from accel_train.data.loader import LoaderSizes, batches, train_loader
from accel_train.data.sampler import ImageOrder
from accel_train.data.sources.base import Ids, Source, View
from accel_train.data.worker_batches import Batch, SharedMemoryTransfer, _File
from accel_train.errors import LocalError
from accel_train.system import shared_memory
from accel_train.system.os_errors import explain

TWO_WORKERS = LoaderSizes(batch_size=4, replicas=1, workers=2, pin_memory=False)
VIEW = View(8, random_crop=True)


def loader_of(source: Source, sizes: LoaderSizes = TWO_WORKERS, epochs: int = 9) -> DataLoader[Batch]:
    return train_loader(source, VIEW, sizes, ImageOrder(3, len(source)), blocks=[range(1)], epochs=epochs)[0]


def test_batch_is_untouched_while_it_and_the_next_are_held() -> None:
    """Accelerate holds the next batch while one is trained on; workers meanwhile prefetch as many as they may."""
    one_worker = LoaderSizes(batch_size=2, replicas=1, workers=1, pin_memory=False)
    for sizes in (one_worker, TWO_WORKERS):
        held = None
        for batch in batches(loader_of(EchoSource(11), sizes)):
            if held is not None:
                time.sleep(0.005)
                assert held.images_BCHW[:, 0].tolist() == (held.sample_indices_B % 11).tolist()
            held = batch


def test_batches_of_changing_shapes_arrive() -> None:
    class Growing(EchoSource):
        def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
            return torch.full((len(ids), 1 + ids[0] % 3), ids[0]), torch.zeros(len(ids), dtype=torch.int64)

    for batch in batches(loader_of(Growing(11))):
        first = int(batch.sample_indices_B[0] % 11)
        assert batch.images_BCHW.tolist() == [[first] * (1 + first % 3)] * 4


def test_worker_keeps_no_files_of_shapes_that_it_has_used_before() -> None:
    """Their memory would be taken until it ends."""

    class Growing(EchoSource):
        def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
            labels = torch.zeros(len(ids), dtype=torch.int64)
            return torch.full((len(ids), 1 + ids[0]), len([*Path("/dev/fd").iterdir()])), labels

    one_worker = LoaderSizes(batch_size=2, replicas=1, workers=1, pin_memory=False)
    files = [int(batch.images_BCHW[0, 0]) for batch in batches(loader_of(Growing(11), one_worker))]
    assert len(files) == 45
    assert max(files[20:]) <= max(files[:20])


@pytest.mark.parametrize("layout", ["repeated channels", "every other pixel", "channels last", "with a gradient"])
def test_images_that_are_not_dense_arrive(layout: str) -> None:
    class Odd(EchoSource):
        def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
            image = torch.arange(3 * 4 * 6).view(1, 3, 4, 6) + torch.tensor(ids).view(-1, 1, 1, 1)
            images = {
                "repeated channels": image[:, :1].expand(-1, 3, -1, -1),
                "every other pixel": image[:, :, ::2, ::2],
                "channels last": image.to(memory_format=torch.channels_last),
                "with a gradient": image.double().requires_grad_(),
            }[layout]
            return images, torch.zeros(len(ids), dtype=torch.int64)

    for batch in batches(loader_of(Odd(11))):
        expected, _ = Odd(11).read((batch.sample_indices_B % 11).tolist(), None, VIEW)
        assert torch.equal(batch.images_BCHW, expected)
        assert not batch.images_BCHW.requires_grad
        assert batch.images_BCHW.is_contiguous(memory_format=torch.channels_last) == (layout == "channels last")


def test_too_little_memory_for_a_batch_is_an_error_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(os, "posix_fallocate", refuse)  # the workers are forks
    message = ""
    try:
        list(batches(loader_of(EchoSource(11), epochs=1)))
    except LocalError as error:  # pytest.raises would keep the workers alive until garbage is collected
        message = error.message
    assert message.startswith("cannot get 128 bytes of memory for a batch of a loader worker: ")
    assert message.endswith("Cannot allocate memory")


@pytest.mark.parametrize("anonymous_files", [True, False])
def test_batches_arrive_with_and_without_anonymous_files(
    monkeypatch: pytest.MonkeyPatch, anonymous_files: bool
) -> None:
    monkeypatch.setattr(shared_memory, "CAN_BE_MADE", anonymous_files)
    alone, together = (
        [[tensor.tolist() for tensor in batch] for batch in batches(loader_of(EchoSource(11), sizes))]
        for sizes in (replace(TWO_WORKERS, workers=0), TWO_WORKERS)
    )
    assert len(alone) == 18
    assert together == alone


def test_message_of_a_worker_is_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a worker were killed while it writes, the rest would be waited for. Labels of 1,024 images are 8 kB."""

    class Readable(EchoSource):
        def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
            return torch.tensor(ids)[:, None], torch.tensor(ids) % 2

    send = Connection._send  # type: ignore[attr-defined]

    def send_at_once(self: Connection, buffer: bytes) -> None:
        if get_worker_info() and len(buffer) > select.PIPE_BUF:
            os._exit(1)
        send(self, buffer)

    monkeypatch.setattr(Connection, "_send", send_at_once)  # the workers are forks
    sizes = replace(TWO_WORKERS, batch_size=1024)
    for batch in batches(loader_of(Readable(1024), sizes, epochs=3)):
        ids_B = batch.sample_indices_B % 1024
        assert torch.equal(batch.images_BCHW[:, 0], ids_B)
        assert torch.equal(batch.labels_B, ids_B % 2)


def test_batch_of_a_worker_that_has_just_ended_is_the_error_of_a_lost_worker() -> None:
    """Before torch notices that the process has ended, its files are gone."""
    with subprocess.Popen(["true"]) as ended:
        pass
    file = _File(ended.pid, 9, 1, torch.int64, torch.Size([1]), (1,))
    with pytest.raises(RuntimeError, match="DataLoader worker") as raised:
        SharedMemoryTransfer(2).find((0, 0), (file, file, file))
    found = explain(raised.value)
    assert found
    assert found.reason.startswith("a loader worker exited")


def test_file_that_may_not_be_opened_is_that_of_a_lost_worker_only_if_its_process_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until its exit code is asked for, the files of a process that has ended belong to root."""

    def refuse(path: str, **layout: object) -> None:
        raise RuntimeError(f"unable to open file <{path}> in read-write mode: Permission denied (13)")

    monkeypatch.setattr(torch, "from_file", refuse)
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        for pid, message in ((ended.pid, "^DataLoader worker"), (os.getpid(), "Permission denied")):
            with pytest.raises(RuntimeError, match=message):
                _File(pid, 9, 1, torch.int64, torch.Size([1]), (1,)).mapped()


def test_workers_make_no_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch's own transfer does: it leaves their folders behind when a worker is killed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setitem(multiprocessing.current_process()._config, "tempdir", None)  # type: ignore[attr-defined]
    loader = loader_of(EchoSource(11))
    for _ in batches(loader):
        assert list(tmp_path.iterdir()) == []
