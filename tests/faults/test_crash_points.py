"""A save killed before any system call that changes files, on any thread, loses nothing reported as saved."""

import re
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import torch
from helpers import warm
from helpers.crash_points import Call, Death, follow
from helpers.descriptions import CONTENTS
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from accel_train.checkpoints import run_folder, store
from accel_train.checkpoints.checkpointer import Checkpointer, TrainedTensors, load_tensors
from accel_train.checkpoints.run_folder import CHECKPOINTS, WEIGHTS
from accel_train.checkpoints.state_file import read_state
from accel_train.checkpoints.store import newest_valid, update_of
from accel_train.distributed import process_group
from accel_train.distributed.strategies.ddp import DDP
from accel_train.distributed.strategies.fsdp2 import FSDP2
from accel_train.events import EpochEnd
from accel_train.models import weights_file
from accel_train.system.atomic_files import clean, is_partial
from accel_train.training.ema import Ema
from accel_train.training.state import TrainingState

OLD, NEW = 2, 3
"""The update at which the run has saved, and that at which it saves when it is killed."""
REPORTED = "reported"
"""A file that is created when the save is reported."""
STORE = "store"
SYNCING, WRITING = ("fsync", "fdatasync"), ("write", "pwrite64", "writev", "sendfile", "copy_file_range")


def trained(updates: int, shard: bool = False) -> TrainedTensors:
    """Return a model after N updates; computes no gradients, which would start threads."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
    if shard:
        fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    optimizer = torch.optim.Adam(model.parameters())
    strategy = FSDP2() if shard else DDP()
    ema = Ema(model, 0.5, strategy)
    for update in range(updates):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, update - 0.5)
        for buffer in model.buffers():
            buffer.add_(1)
        optimizer.step()
        ema.update()
    return TrainedTensors(model, optimizer, ema, strategy)


def training_state(update: int) -> TrainingState:
    """Return the state at the end of an epoch, the best so far."""
    return TrainingState(update, best=EpochEnd(1, update, 0.5, 0.5, 0.5, 0.5, None, None, 0.1, 100.0, 1.0, True))


def weights(tensors: TrainedTensors) -> dict[str, Tensor]:
    """Collective: return the weights that a run exports."""
    full = tensors.strategy.full
    return {name: full(tensor.detach()).clone() for name, tensor in tensors.model.state_dict().items()}


def save(
    folder: Path, update: int, nonce: str, *, tensors: TrainedTensors, group: object = None, rank: int = 0
) -> None:
    """Collective: do what a run does when its best epoch has ended."""
    checkpointer = Checkpointer(folder, tensors, group=group, rank=rank, keep=1 if update == NEW else 2)
    exported = weights(tensors)
    for name in WEIGHTS.values():
        checkpointer.save_weights(exported, folder / name)
    extra = {"nonce": nonce, "metrics_bytes": 0, "config": {}, "identity": {}, "scaler": None}
    checkpointer.save(training_state(update), extra | {"data": CONTENTS.as_record()})
    if update in checkpointer.committed(wait=True):
        (folder / REPORTED).touch()
    checkpointer.close()


def save_part(rank: int, folder: Path, update: int, nonce: str) -> None:
    """Do what one of two FSDP2 processes does."""
    store = torch.distributed.FileStore(str(folder.with_name(STORE)), 2)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    tensors = trained(update, shard=True)
    save(folder, update, nonce, tensors=tensors, group=process_group.host_group(30), rank=rank)


RANKS: dict[int, list[Callable[[Path, int, str], None]]] = {
    1: [lambda folder, update, nonce: save(folder, update, nonce, tensors=trained(update))],
    2: [partial(save_part, 0), partial(save_part, 1)],
}
"""What each process does to save, by the number of processes."""


def save_together(processes: int, folder: Path, update: int, nonce: str, death: Death | None = None) -> list[Call]:
    """Save, and check that no process fails, or that only the chosen one is killed."""
    folder.with_name(STORE).unlink(missing_ok=True)
    calls, codes = follow([partial(rank, folder, update, nonce) for rank in RANKS[processes]], folder, death)
    if death is None:
        assert codes == [0] * processes
    else:
        assert codes[death.process] == -signal.SIGKILL
    return calls


def begin(processes: int, folder: Path) -> None:
    """Make the folder of a run that has saved twice, last at update OLD."""
    trained(OLD)  # imports what torch imports late
    folder.mkdir()
    for update in range(1, OLD + 1):
        save_together(processes, folder, update, "began")
    (folder / REPORTED).unlink()


def save_new(processes: int, folder: Path) -> list[Call]:
    begin(processes, folder)
    calls = save_together(processes, folder, NEW, "whole")
    assert_all_is_new(folder)
    return calls


def die_everywhere(processes: int, dying: int, alone: bool, every: int, folder: Path) -> int:
    """Kill a process before each of its calls, or every n-th, and check what is left; return the number of calls."""
    began = folder.with_name("began")
    begin(processes, began)
    shutil.copytree(began, folder)
    points = sum(call.process == dying for call in save_together(processes, folder, NEW, "whole"))
    for point in range(0, points, every):
        shutil.rmtree(folder)
        shutil.copytree(began, folder)
        calls = save_together(processes, folder, NEW, "killed", Death(dying, point, alone))
        try:
            reported = (folder / REPORTED).exists()
            assert checked_update(folder) in ((NEW,) if reported else (OLD, NEW))
            save_together(processes, folder, NEW, "again")
            assert_all_is_new(folder)
        except Exception as error:
            error.add_note(f"killed before call {point} of {points}, after {calls[-1:]}")
            raise
    return points


def checked_update(folder: Path) -> int:
    """Return the update that a run would resume from, after checking that all tensors are bit-identical."""
    clean(folder, run_folder.FILES)
    clean(folder / CHECKPOINTS, store.FOLDERS)
    newest, problems = newest_valid(folder / CHECKPOINTS)
    assert newest, problems
    assert problems == []
    update = update_of(newest)
    assert read_state(newest).position == training_state(update)
    loaded = trained(0)
    load_tensors(newest, loaded)
    torch.testing.assert_close(loaded.by_name(), trained(update).by_name(), rtol=0, atol=0)
    files = {at: weights_file.encode(weights(trained(at))) for at in (OLD, NEW)}
    assert (newest / WEIGHTS["best"]).read_bytes() == files[update]
    for name in WEIGHTS.values():  # written before the checkpoint
        assert (folder / name).read_bytes() in (files[update], files[NEW]), name
    return update


def assert_all_is_new(folder: Path) -> None:
    """Check that a folder contains the state at update NEW and nothing else."""
    left = {path.name for place in (folder, folder / CHECKPOINTS) for path in place.iterdir()}
    assert left == {REPORTED, CHECKPOINTS, f"update_{NEW:06d}", *WEIGHTS.values()}
    assert checked_update(folder) == NEW


@pytest.fixture(scope="module")
def forking() -> Iterator[ProcessPoolExecutor]:
    """Return a process that has imported torch and started no thread, so that it can be forked."""
    with ProcessPoolExecutor(1, warm.context()) as pool:
        yield pool


@pytest.mark.parametrize(
    ("processes", "dying", "alone", "every"),
    [
        pytest.param(1, 0, False, 1, id="one process"),
        pytest.param(2, 0, False, 6, id="rank 0"),
        pytest.param(2, 1, False, 6, id="rank 1", marks=pytest.mark.slow),
        pytest.param(2, 0, False, 1, id="rank 0, every call", marks=pytest.mark.chaos),
        pytest.param(2, 0, True, 1, id="rank 0, the other survives", marks=pytest.mark.chaos),
        pytest.param(2, 1, True, 1, id="rank 1, the other survives", marks=pytest.mark.chaos),
    ],
)
def test_save_killed_before_any_call_loses_nothing(
    forking: ProcessPoolExecutor, tmp_path: Path, processes: int, dying: int, alone: bool, every: int
) -> None:
    points = forking.submit(die_everywhere, processes, dying, alone, every, tmp_path / "run").result()
    assert points > (40 if dying == 0 else 4)


def index(calls: list[Call], name: str, *paths: Path) -> int:
    (found,) = (at for at, call in enumerate(calls) if call.name.startswith(name) and call.paths == paths)
    return found


def threads_write(folder: Path) -> None:
    together = threading.Barrier(3)  # so that they are three threads

    def write(path: Path) -> None:
        together.wait()
        path.write_text("x", encoding="utf-8")

    with ThreadPoolExecutor(3) as pool:
        pool.map(write, (folder / str(number) for number in range(3)))


def test_calls_of_all_threads_are_counted_and_the_chosen_one_is_prevented(
    forking: ProcessPoolExecutor, tmp_path: Path
) -> None:
    calls, codes = forking.submit(follow, [partial(threads_write, tmp_path)], tmp_path).result()
    assert sorted(call.name for call in calls) == ["openat"] * 3 + ["write"] * 3
    assert codes == [0]
    for number in range(6):
        place = tmp_path / f"before {number}"
        place.mkdir()
        calls, codes = forking.submit(follow, [partial(threads_write, place)], place, Death(0, number)).result()
        assert codes == [-signal.SIGKILL]
        assert len(calls) == number
        assert len(list(place.iterdir())) <= sum(call.name == "openat" for call in calls)
        assert sum(path.stat().st_size for path in place.iterdir()) <= sum(call.name == "write" for call in calls)


def assert_survives_power_loss(calls: list[Call], before: Path, final: Path, reported: int) -> None:
    """Check that all files were synced before the rename, then the folder, and that the report came after both."""
    renamed = index(calls, "rename", before, final)
    changed: dict[Path, int] = {}
    synced: dict[Path, int] = {}
    for at, call in enumerate(calls[:renamed]):
        for path in call.paths:
            (synced if call.name in SYNCING else changed)[path] = at
            if call.name not in (*SYNCING, *WRITING):
                changed[path.parent] = at
    inside = [before, *(before / path.relative_to(final) for path in final.rglob("*"))]
    assert [path for path in inside if changed[path] > synced.get(path, -1)] == []
    following = next(at for at in range(renamed + 1, reported) if calls[at].process == calls[renamed].process)
    assert (calls[following].name, calls[following].paths) == ("fsync", (final.parent,))


@pytest.mark.parametrize("processes", RANKS)
def test_all_files_are_synced_before_the_save_is_reported(
    forking: ProcessPoolExecutor, tmp_path: Path, processes: int
) -> None:
    folder = tmp_path / "run"
    calls = forking.submit(save_new, processes, folder).result()
    reported = index(calls, "open", folder / REPORTED)
    checkpoints = folder / CHECKPOINTS
    assert_survives_power_loss(
        calls, checkpoints / f".tmp_update_{NEW:06d}_whole", checkpoints / f"update_{NEW:06d}", reported
    )
    for name in WEIGHTS.values():
        before, _ = next(call.paths for call in calls if call.paths[1:] == (folder / name,))
        assert is_partial(before.name, re.escape(name))
        assert_survives_power_loss(calls, before, folder / name, reported)
