"""The command ``plan``."""

import json as json_format
import shlex
import sys
import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accel_train.cli.options import with_options
from accel_train.cli.progress import say
from accel_train.config.plan_options import PlanConfig
from accel_train.distributed.launcher import check_alone
from accel_train.errors import UserError
from accel_train.loggers.text import printable
from accel_train.system.process import without_gc

if TYPE_CHECKING:
    from accel_train.planning.choice import Choice
    from accel_train.planning.estimate import Estimate
    from accel_train.planning.run_plan import RunPlan
    from accel_train.planning.speed import Speed

FILE = "accelerate.yaml"

Measure = Annotated[bool, typer.Option("--measure", help="Measure the speed of one device here, for some seconds.")]
Emit = Annotated[bool, typer.Option("--emit", help=f"Print {FILE} for accelerate launch, with the command on top.")]
Json = Annotated[bool, typer.Option("--json", help="Print the plan as one JSON line, bytes and seconds.")]


@with_options(PlanConfig, many=True)
def plan(
    config: PlanConfig, origins: dict[str, str], measure: Measure = False, emit: Emit = False, json: Json = False
) -> None:
    """Show what a run needs before there is a GPU: memory, traffic, time and price by strategy, and which to take."""
    check_alone("plan")
    if measure and config.images_per_second:
        raise UserError("--measure and --images-per-second contradict each other", "leave one of them out")
    if config.price and not (measure or config.images_per_second):
        raise UserError("--price has no effect without the speed", "add --images-per-second or --measure")
    if emit and json:
        raise UserError("--emit and --json contradict each other", "leave one of them out")
    with without_gc():
        from accel_train.planning.choice import choose
        from accel_train.planning.measure import check_device
        from accel_train.planning.run_plan import plan_run

    planned = plan_run(config, origins)
    if measure:
        check_device(planned.config.device)
    found = list(planned.estimates())
    speed = _speed(planned, config, measure)
    size = planned.plan.batch_size
    choice = choose(found, size, config.gpu_memory, planned.config.strategy, planned.cluster)
    if emit:
        _emit(planned, choice, origins)
    elif json:
        sys.stdout.write(json_format.dumps(_record(planned, found, choice, speed, config)) + "\n")
    else:
        _show(planned, found, choice, speed, config)


def _speed(planned: "RunPlan", config: PlanConfig, measure: bool) -> "Speed | None":
    from accel_train.planning.speed import Speed

    if measure:
        from accel_train.planning.measure import measure as measure_here

        return measure_here(planned)
    return Speed.of_training(config.images_per_second) if config.images_per_second else None


def _show(
    planned: "RunPlan", found: list["Estimate"], choice: "Choice", speed: "Speed | None", config: PlanConfig
) -> None:
    from rich.console import Console

    from accel_train.cli.plan_rows import columns, next_step, parts_row, plan_rows, problem_rows, save_row, speed_row
    from accel_train.cli.table import table_lines, terminal_width
    from accel_train.loggers.rows import print_rows

    whole = [each for each in found if each.devices and each.way.strategy == "ddp"]
    rows = [*plan_rows(planned), *map(parts_row, whole[:1])]
    rows += [save_row(choice.estimate)] if choice.estimate else []
    if speed:
        rows += [speed_row(speed, config)]
    console = Console(highlight=False)
    print_rows(console, rows)
    say("")
    for line in table_lines(columns(found, planned, config, speed), terminal_width()):
        say(line)
    print_rows(console, list(problem_rows(found)))
    taken = f"take {choice.estimate.way.name}" if choice.estimate else "nothing fits"
    say(textwrap.fill(printable(f"{taken}: {choice.reason}"), terminal_width(), break_on_hyphens=False))
    say(f"next: {next_step(choice, planned)}")


def _emit(planned: "RunPlan", choice: "Choice", origins: dict[str, str]) -> None:
    """Print a YAML file for accelerate launch, whose first lines are the command as comments."""
    import yaml

    from accel_train.cli.train_command import train_command
    from accel_train.jobs.train_options import as_words
    from accel_train.planning.emit import DECIDED, accelerate_config, decided_options

    if choice.estimate is None:
        raise UserError(f"no strategy can be taken: {choice.reason}", "see the plan without --emit")
    config, cluster, way = planned.config, planned.cluster, choice.estimate.way
    batches = (planned.plan.batch_size, planned.plan.global_batch)
    decided = decided_options(way, choice.estimate.split, config.pipeline_schedule, batches)
    words = [*train_command(planned.given, origins, without=DECIDED)[1:], *as_words(decided)]
    sys.stdout.write(f"# accelerate launch --config_file {FILE} -m accel_train {shlex.join(words)}\n")
    if cluster.nodes > 1:
        sys.stdout.write("# On each machine, with --machine_rank 0, 1, …; main_process_ip is that of machine 0.\n")
    on_cpu = config.device == "cpu"
    content = accelerate_config(way, cluster, precision=config.precision, on_cpu=on_cpu)
    sys.stdout.write(yaml.safe_dump(content, sort_keys=False))


def _record(
    planned: "RunPlan", found: list["Estimate"], choice: "Choice", speed: "Speed | None", config: PlanConfig
) -> dict[str, Any]:
    from accel_train.cli.plan_rows import total_price, total_seconds
    from accel_train.planning.choice import USABLE
    from accel_train.planning.run_plan import as_record

    plan, records = planned.plan, []
    limit = USABLE * 1e9 * (config.gpu_memory or 0)
    for each in found:
        record = as_record(each, plan.batch_size)
        if each.devices:
            record["largest_batch_size"] = each.largest_batch(limit) if config.gpu_memory else None
            seconds = total_seconds(each, planned, config, speed) if speed else None
            record["seconds"] = seconds
            record["price"] = total_price(seconds, planned, config) if seconds and config.price else None
        records.append(record)
    return {
        "kind": "plan",
        "devices": planned.cluster.devices,
        "parameters": planned.parameters,
        "batch_size": plan.batch_size,
        "global_batch": plan.global_batch,
        "micro_batches": plan.micro_batches,
        "accumulate": plan.accumulate,
        "epochs": plan.epochs,
        "total_updates": plan.total_updates,
        "peak_lr": plan.learning_rate.peak,
        "images_per_second": speed.training if speed else None,
        "strategies": records,
        "take": choice.estimate.way.name if choice.estimate else None,
        "reason": choice.reason,
    }
