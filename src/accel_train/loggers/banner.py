"""Says at the start of a run what was asked for and what will run."""

from rich.console import Console

from accel_train.events import RunStarted
from accel_train.loggers.rows import Row, print_rows
from accel_train.loggers.text import learning_rate, quantity


def print_banner(console: Console, started: RunStarted) -> None:
    """Print the rows of :func:`banner_rows`."""
    print_rows(console, banner_rows(started))


def banner_rows(started: RunStarted) -> list[Row]:
    """Describe a run: where it is, what it computes, and on what."""
    return [
        ("run", started.run_folder),
        ("data", started.data),
        ("model", f"{started.model}, {quantity(started.parameters, 'parameter')}"),
        *(("", match) for match in started.matches),
        ("devices", _devices(started)),
        *_threads(started),
        ("strategy", started.strategy + (f" over {started.backend}" if started.backend else "")),
        *_batch(started),
        ("optimizer", started.optimizer),
        ("learning rate", _learning_rate(started)),
        ("warmup", _warmup(started)),
        ("updates", _updates(started)),
        ("dropped", _dropped(started)),
        ("precision", started.precision),
        ("augmentation", started.augment),
        ("seed", str(started.seed)),
    ]


def _devices(started: RunStarted) -> str:
    processes = quantity(started.world_size, "process", "processes")
    return f"{processes} × {started.device} (asked: {started.device_asked}), started by {started.launched_by}"


def _threads(started: RunStarted) -> list[Row]:
    rows = [("threads", f"{started.threads} per process, {quantity(started.cores, 'core')}")]
    share = started.cores // started.local_world_size
    if started.device.startswith("cpu") and started.threads < share:
        rows.append(("", f"cores lie idle: set OMP_NUM_THREADS={share} to use them"))
        if "accelerate" in started.launched_by:
            rows.append(("", "(accelerate launch sets it to 1 where it is not set)"))
    return rows


def _batch(started: RunStarted) -> list[Row]:
    factors = (
        f"{started.batch_size} per process × {quantity(started.world_size, 'process', 'processes')}"
        f" × {quantity(started.accumulate, 'accumulation')}"
    )
    rows = [("batch", f"{factors} = {started.global_batch:,} per update")]
    if started.global_batch > started.batch_size:
        flags = f"--global-batch-size {started.global_batch} --batch-size {started.batch_size}"
        rows.append(("", f"same run on other hardware: {flags}"))
    return rows


def _learning_rate(started: RunStarted) -> str:
    peak = learning_rate(started.peak_lr)
    if started.lr_scaling == "none":
        return f"{peak} (none), {started.schedule}"
    base = f"{learning_rate(started.base_lr)} at {started.lr_base_batch:,}"
    return f"{base} → {peak} at {started.global_batch:,} ({started.lr_scaling}), {started.schedule}"


def _warmup(started: RunStarted) -> str:
    if not started.warmup_updates:
        return "none"
    return f"{quantity(started.warmup_updates, 'update')} from {learning_rate(started.warmup_from)}"


def _updates(started: RunStarted) -> str:
    epochs = quantity(started.epochs, "epoch")
    return f"{started.updates_per_epoch:,} per epoch × {epochs} = {started.total_updates:,}"


def _dropped(started: RunStarted) -> str:
    if not started.images_dropped:
        return "none"
    images = f"{started.images_dropped:,} of {started.train_images:,} images"
    return f"{images} fill no update and are dropped each epoch"
