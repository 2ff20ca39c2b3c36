"""The JSON records of events."""

import json

from helpers.run_events import STARTED, epoch_by_rank, epoch_end

from accel_train.events import PhaseTimes, Profiled, as_record

RUN_KEYS = {
    *("kind", "run_folder", "data", "train_images", "val_images", "classes", "model", "parameters", "matches"),
    *("augment", "world_size", "local_world_size", "device_asked", "device", "backend", "strategy", "precision"),
    *("threads", "cores", "launched_by", "batch_size", "accumulate", "stages", "global_batch", "epochs"),
    "updates_per_epoch",
    *("total_updates", "images_dropped", "optimizer", "optimizer_settings", "base_lr", "lr_scaling"),
    *("lr_base_batch", "lr_cap", "origin", "shape", "cache", "ignored_files"),
    *("peak_lr", "schedule", "warmup_updates", "warmup_from", "seed", "exact", "ema_half_life", "config", "changed"),
    *("contents", "environment", "identity", "hosts", "command", "commit", "versions"),
}


def test_run_record_is_flat_and_holds_the_whole_config() -> None:
    record = as_record(STARTED)
    assert set(record) == RUN_KEYS
    assert list(record)[:2] == ["kind", "run_folder"]
    assert (record["kind"], record["classes"], record["world_size"], record["peak_lr"]) == ("run", 10, 2, 0.05)
    assert record["config"] == STARTED.config
    assert json.loads(json.dumps(record))["config"] == STARTED.config


def test_epoch_record_has_the_fields_that_checkpoints_store() -> None:
    assert list(as_record(epoch_end(1))) == [
        *("kind", "epoch", "update", "train_loss", "train_accuracy", "val_loss", "val_accuracy", "ema_val_loss"),
        *("ema_val_accuracy", "lr", "images_per_second", "seconds", "best"),
        *("val_balanced_accuracy", "ema_val_balanced_accuracy"),
        *("noise_scale", "noise_scale_low", "noise_scale_high"),
    ]


def test_phase_times_of_ranks_stay_nested() -> None:
    times = PhaseTimes(data_wait=1.0, forward=2.0, backward=3.0, optimizer=4.0, communication=5.0, other=6.0)
    record = as_record(Profiled(11, 20, (times,), 0, "profile"))
    assert record["ranks"][0]["communication"] == 5.0


def test_ranks_of_an_epoch_stay_nested() -> None:
    record = as_record(epoch_by_rank(2))
    assert list(record) == ["kind", "epoch", "update", "ranks"]
    assert list(record["ranks"][1]) == [
        "device",
        "loss",
        "images",
        "images_per_second",
        "weights",
        "sharded",
        "data_wait_share",
        "memory_bytes",
    ]
    assert [rank["loss"] for rank in record["ranks"]] == [0.2, 0.2123]
