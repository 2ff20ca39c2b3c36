"""The command ``preview``."""

from typing import TYPE_CHECKING

from accel_train.cli.options import with_options
from accel_train.cli.progress import progress, say
from accel_train.config.options import PreviewConfig, TrainConfig
from accel_train.distributed.environment import available_cores
from accel_train.distributed.launcher import check_alone
from accel_train.errors import UserError
from accel_train.loggers.text import printable, quantity, quoted
from accel_train.system.process import without_gc

if TYPE_CHECKING:
    from accel_train.run.preview import Preview


@with_options(PreviewConfig, many=True)
def preview(config: PreviewConfig, origins: dict[str, str]) -> None:
    """Write a PNG of the first training images as the model gets them, and report on all images of the data."""
    check_alone("preview")
    with without_gc():
        from accel_train.run.data_report import class_lines, examine_all, report_lines, splits_of
        from accel_train.run.preview import run_of
        from accel_train.run.training_data import open_training_data

    asked, origins = run_of(config, origins)
    data = open_training_data(asked, origins, with_test=True)
    splits = splits_of(data)
    images = sum(map(len, splits.values()))
    counts = ", ".join(f"{split} {len(source):,}" for split, source in splits.items())
    say(printable(f"{asked.data}: {quantity(images, 'image')} ({counts})"))
    for note in data.notes:
        say(f"note: {printable(note)}")
    failure = _show_first_images(asked, origins, config)
    for line in class_lines(splits):
        say(line)
    with progress(images) as show:
        found = examine_all(splits, asked.max_pixels, _workers(config), show)
    for line in report_lines(splits, found):
        say(printable(line))
    if failure:
        raise failure


def _workers(config: PreviewConfig) -> int:
    return available_cores() if config.workers == "auto" else int(config.workers)


def _show_first_images(asked: TrainConfig, origins: dict[str, str], config: PreviewConfig) -> UserError | None:
    """Write the sheet and describe it; return the error that a run would stop with."""
    from accel_train.distributed.accelerator import stop
    from accel_train.run.contact_sheet import write_sheet
    from accel_train.run.preview import preview as preview_run

    try:
        shown = preview_run(asked, origins, config.images)
        title = _title(shown)
        width, height = write_sheet(config.output, title, shown.images, "--output")
    except UserError as error:
        return error
    finally:
        stop()
    for line in (f"{quoted(config.output)}: {title[0]}, {width:,} × {height:,} pixels", *title[1:]):
        say(printable(line))
    return None


def _title(shown: "Preview") -> list[str]:
    """Return the lines above the images: the data, the update and the augmentation."""
    from accel_train.run.data_report import numbers

    run = shown.run
    updates = "update 1" if shown.updates == 1 else f"updates 1 to {shown.updates}"
    every = run.plan.global_batch * shown.updates
    some = f"{len(shown.images):,} of the " * (len(shown.images) < every)
    mixed = {"mixup": run.config.mixup, "CutMix": run.config.cutmix}
    mixing = "".join(f", {name} {alpha:g}" for name, alpha in mixed.items() if alpha)
    return [
        f"{run.config.data}: {some}{quantity(every, 'image')} of {updates}, seed {run.config.seed}",
        f"augmentation {run.config.augment}: {run.config.augmentation}{mixing}",
        f"normalised by mean {numbers(run.data.mean)}, std {numbers(run.data.std)}",
    ]
