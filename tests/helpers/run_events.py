"""The events of a run of two processes and two epochs."""

from dataclasses import fields, replace
from typing import Any

from accel_train.config.options import TrainConfig
from accel_train.events import (
    DataRecord,
    EpochByRank,
    EpochEnd,
    Event,
    HardwareRecord,
    HostRecord,
    ModelRecord,
    PlanRecord,
    Progress,
    RankEpoch,
    RanksStarted,
    RankStart,
    RunEnded,
    RunStarted,
    SoftwareRecord,
    UpdateDone,
)

STARTED = RunStarted(
    run_folder="runs/digits-1",
    data=DataRecord(
        data="digits",
        origin="in the package",
        shape=(1, 8, 8),
        train_images=1437,
        val_images=360,
        classes=10,
        contents={
            "classes": list("0123456789"),
            "splits": {
                "train": {"images": 1437, "counts": [141, *[144] * 9], "fingerprint": "5f2d73fdad091dd6"},
                "val": {"images": 360, "counts": [36] * 10, "fingerprint": "d902b69771016404"},
            },
        },
        cache="in each process",
        ignored_files=0,
        augment="light: shift by up to 1 pixel",
    ),
    model=ModelRecord(model="cnn", parameters=93_322, matches=("images stay at 8×8, which the model takes",)),
    hardware=HardwareRecord(
        world_size=2,
        local_world_size=2,
        device_asked="auto",
        device="cpu",
        backend="gloo",
        strategy="ddp",
        precision="fp32",
        threads=1,
        cores=8,
        launched_by="accelerate launch",
        environment=(),
        identity={"device": "cpu", "CPU": "AMD EPYC", "threads": "1"},
        hosts=(HostRecord("node1", ranks=(0, 1), devices=("cpu", "cpu"), stages=("", ""), network="lo"),),
    ),
    software=SoftwareRecord(
        command="accel_train train --processes 2",
        commit="0123456789abcdef0123456789abcdef01234567",
        versions={"Python": "3.11.2", "accel_train": "0.1.0", "torch": "2.14.1"},
    ),
    plan=PlanRecord(
        batch_size=32,
        accumulate=1,
        stages=1,
        global_batch=64,
        epochs=2,
        updates_per_epoch=22,
        total_updates=44,
        images_dropped=29,
        optimizer="sgd",
        optimizer_settings={"momentum": 0.9, "nesterov": True},
        base_lr=0.2,
        lr_scaling="linear",
        lr_base_batch=256,
        lr_cap="",
        peak_lr=0.05,
        schedule="cosine",
        warmup_updates=22,
        warmup_from=0.0005,
        seed=0,
        exact=False,
        ema_half_life=None,
    ),
    config={**TrainConfig().model_dump(mode="json"), "weight_decay": 5e-4, "image_size": 8},
    changed=(),
)


def started(config: dict[str, Any] | None = None, **changes: Any) -> RunStarted:
    """Return STARTED with other values of some fields of it or its records, and with changed fields of its config."""
    records = {}
    for name in ("data", "model", "hardware", "software", "plan"):
        record = getattr(STARTED, name)
        own = {field.name: changes.pop(field.name) for field in fields(record) if field.name in changes}
        records[name] = replace(record, **own)
    changed = (*STARTED.changed, *(config or {}))
    return replace(STARTED, **records, **changes, config={**STARTED.config, **(config or {})}, changed=changed)


ENDED = RunEnded(
    reason="all epochs done",
    epochs=2,
    updates=44,
    train_accuracy=0.9505,
    val_accuracy=0.9031,
    best_epoch=2,
    best_val_accuracy=0.9031,
    images_per_second=2912.4,
    data_wait_share=0.0123,
    save_share=0.001,
    watch_share=0.0002,
    seconds_to_first_update=0.4,
    gpu_memory_bytes=0,
    seconds=62.1,
)


RANKS = RanksStarted(tuple(RankStart("cpu", "node1", pid, threads=1) for pid in (4711, 4712)))


def epoch_by_rank(epoch: int) -> EpochByRank:
    """Return what each rank has trained of an epoch."""
    ranks = tuple(
        RankEpoch("cpu", rank_loss / epoch, 704, 1456.2, weights="8f3a19c25b70d4e6", sharded=False)
        for rank_loss in (0.4, 0.4246)
    )
    return EpochByRank(epoch, 22 * epoch, ranks)


def epoch_end(epoch: int) -> EpochEnd:
    """Return the end of an epoch, the best one so far."""
    return EpochEnd(
        epoch=epoch,
        update=22 * epoch,
        train_loss=0.4123 / epoch,
        train_accuracy=0.85,
        val_loss=0.278,
        val_accuracy=0.9031,
        ema_val_loss=None,
        ema_val_accuracy=None,
        lr=0.05,
        images_per_second=2912.4,
        seconds=21.0,
        best=True,
    )


def run_events() -> list[Event]:
    """Return all events of the run, with progress every 10 updates."""
    events: list[Event] = [STARTED, RANKS]
    for update in range(1, 45):
        epoch = (update - 1) // 22 + 1
        events.append(UpdateDone(epoch, update))
        if update % 10 == 0:
            progress = Progress(epoch, update, lr=0.1 + 0.2, local_loss=1 / 3, gradient_norm=2.5, local_ids_hash="0x1f")
            events.append(progress)
        if update % 22 == 0:
            events += [epoch_by_rank(epoch), epoch_end(epoch)]
    return [*events, ENDED]
