"""The command ``schedule``."""

import shlex

from accel_train.cli.options import with_options
from accel_train.cli.progress import say
from accel_train.cli.schedule_plot import plot_schedule
from accel_train.cli.schedule_rows import curve_points, rate_rows
from accel_train.cli.table import terminal_width
from accel_train.cli.train_command import train_command
from accel_train.config.defaults import kind_of_data
from accel_train.config.options import ResolvedConfig, TrainConfig
from accel_train.config.plan import Plan, make_plan
from accel_train.config.resolve import resolve
from accel_train.config.schedule_options import ScheduleConfig
from accel_train.distributed.launcher import check_alone
from accel_train.errors import UserError
from accel_train.history.chart import Curve, chart_lines
from accel_train.loggers.text import printable, quoted

_RUNS = ("auto", "never")
"""Values of --resume that name no run."""


@with_options(ScheduleConfig, many=True)
def schedule(config: ScheduleConfig, origins: dict[str, str]) -> None:
    """Draw the learning rate of a run by update, and tell where each number comes from.

    The run is that which `accel_train train` would start with the same options. Nothing is trained.
    """
    check_alone("schedule")
    from rich.console import Console

    from accel_train.loggers.rows import print_rows

    given = {name: origin for name, origin in origins.items() if name in TrainConfig.model_fields}
    asked = TrainConfig.model_construct(**{name: getattr(config, name) for name in TrainConfig.model_fields})
    resolved, all_origins, images = _resolved(asked, given, config.images)
    plan = _planned(resolved, images)
    points, title = curve_points(plan.learning_rate), _title(resolved, plan)
    if config.png:
        plot_schedule(config.png, title, points, plan.updates_per_epoch)
    say(printable(title))
    print_rows(Console(highlight=False), list(rate_rows(resolved, all_origins, plan, images)))
    for line in chart_lines("learning rate by update", [Curve("o", points, in_steps=True)], min(terminal_width(), 80)):
        say(line)
    if config.png:
        say(printable(f"plot: {quoted(config.png)}"))
    say(printable(f"next: {shlex.join(train_command(asked, given))}"))


def _title(config: ResolvedConfig, plan: Plan) -> str:
    return f"{config.data}, {config.model}, {config.optimizer}, {plan.global_batch:,} images per update"


def _planned(config: ResolvedConfig, images: int) -> Plan:
    """Return the plan on the processes that are asked for; a batch size to be found does not change it."""
    any_size = 1 if config.auto_micro_batch and config.global_batch_size else None
    return make_plan(config, config.processes or 1, images, any_size, stages=config.pipeline_stages or 1)


def _resolved(
    asked: TrainConfig, origins: dict[str, str], images: int | None
) -> tuple[ResolvedConfig, dict[str, str], int]:
    """Return the config with its defaults, the origins, and the training images; opens data of unknown size only.

    Raises:
        UserError: the data, or the run that --resume names, cannot be opened.
    """
    if asked.resume not in _RUNS:
        from accel_train.run.resume_point import fill_from_run

        asked, origins = fill_from_run(asked, origins)
    kind, known = kind_of_data(asked.data)
    if known and (asked.data_dir or asked.val_fraction or asked.labels or asked.label_column):
        from accel_train.run.training_data import refuse_unused

        refuse_unused(asked, origins)
    images = images or known
    if images is None:
        from accel_train.run.training_data import open_training_data

        try:
            data = open_training_data(asked, origins)
        except UserError as error:
            raise UserError(error.message, f"{error.hint}; or add --images: schedule needs no data") from None
        kind, images = data.kind, len(data.train)
    images = min(images, asked.limit or images)
    architecture, replicas = _architecture(asked, kind), (asked.processes or 1) // (asked.pipeline_stages or 1)
    config, all_origins = resolve(asked, origins, kind, images, "fp32", architecture=architecture, replicas=replicas)
    return config, all_origins, images


def _architecture(asked: TrainConfig, kind: str) -> str | None:
    """Return the architecture that given weights are for.

    Raises:
        UserError: there are no such weights.
    """
    if not asked.starts_from_weights:
        return None
    from accel_train.config.defaults import DATA_DEFAULTS
    from accel_train.models.build import architecture_name
    from accel_train.run.weights import check_weights

    model = asked.model or DATA_DEFAULTS[kind].model
    if asked.resume in _RUNS:  # a run to resume has its own
        check_weights(model, asked.weights)
    return architecture_name(model)
