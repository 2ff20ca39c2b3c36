"""A plan as rows and a table of texts."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from accel_train.cli.schedule_rows import rate_rows
from accel_train.cli.table import Column
from accel_train.config.plan_options import PlanConfig
from accel_train.loggers.rows import Row
from accel_train.loggers.text import quantity, rough_duration
from accel_train.loggers.text import speed as images_speed

if TYPE_CHECKING:
    from accel_train.planning.choice import Choice
    from accel_train.planning.estimate import Estimate
    from accel_train.planning.run_plan import RunPlan
    from accel_train.planning.speed import Speed


_NONE = "–"
_RATE_ROWS = ("base rate", "scaling", "limit", "peak", "warmup", "updates")
"""Of all rows of the command schedule."""


_IMPORTANCE = {
    **{"peak": 8, "largest n": 7, "activations": 4, "weights": 1, "optimizer": 1},
    **{"sent": 3, "link": 2, "time": 6, "price": 5},
}
"""Of the columns: a narrow terminal shows the most important ones."""


def plan_rows(planned: "RunPlan") -> Iterator[Row]:
    """Yield rows for devices, data, model, batches and the learning rate with the origin of its numbers."""
    config, plan, cluster = planned.config, planned.plan, planned.cluster
    data = planned.subject.data
    device = "CPU process" if config.device == "cpu" else "GPU"
    machines = f" ({quantity(cluster.nodes, 'machine')} × {cluster.gpus})" * (cluster.nodes > 1)
    plural = f"{device}es" if device.endswith("process") else None
    yield "devices", f"{quantity(cluster.devices, device, plural)}{machines}, {config.precision}"
    classes = quantity(planned.subject.classes, "class", "classes")
    sizes = f"{quantity(len(data.train), 'training image')}, {classes}"
    yield "data", f"{config.data}: {sizes}"
    shape = " × ".join(map(str, planned.input_shape))
    yield "model", f"{config.model}, {quantity(planned.parameters, 'parameter')}, input {shape}, {config.optimizer}"
    each = f"accumulate {plan.accumulate}"
    shares = f"n {plan.batch_size:,} × {quantity(plan.micro_batches, 'micro-batch', 'micro-batches')}"
    yield "batch", f"G {plan.global_batch:,} = {shares} (K), {each} (A)"
    for label, text in rate_rows(config, planned.origins, plan, len(data.train)):
        if label in _RATE_ROWS:
            yield label, text
    for note in planned.notes:
        yield "note", note


def parts_row(found: "Estimate") -> Row:
    """Return what a device of a replica stores for the whole model."""
    from accel_train.planning.choice import gigabytes

    memory = found.devices[0]
    parts = [("weights", memory.weights), ("gradients", memory.gradients), ("optimizer", memory.optimizer)]
    parts += [("EMA", memory.ema)] * bool(memory.ema) + [("sums of --exact", memory.tree)] * bool(memory.tree)
    return "unsharded", f"{', '.join(f'{name} {gigabytes(size)}' for name, size in parts)}"


def save_row(found: "Estimate") -> Row:
    """Return what a save takes of the memory of the CPU."""
    from accel_train.planning.choice import gigabytes

    own = max(memory.saved for memory in found.devices)
    who = "process 0" if found.way.strategy == "ddp" else "each process"
    return "save", f"copies {gigabytes(own)} to the CPU's memory in {who}"


def speed_row(speed: "Speed", asked: PlanConfig) -> Row:
    """Return the training speed of a device, and whether it was measured."""
    measured = "" if asked.images_per_second else f", measured on this {'CPU' if asked.device == 'cpu' else 'GPU'}"
    return "speed", f"{images_speed(speed.training)} images/s of one device{measured}"


def columns(found: Sequence["Estimate"], planned: "RunPlan", asked: PlanConfig, speed: "Speed | None") -> list[Column]:
    """Return the table of the strategies."""
    rows = [_cells(each, planned, asked, speed) if each.devices else {} for each in found]
    shown = {name: importance for name, importance in _IMPORTANCE.items() if any(name in row for row in rows)}
    names = [Column("strategy", [each.way.name for each in found], 9, left=True)]
    return names + [
        Column(name, [row.get(name, _NONE) for row in rows], importance) for name, importance in shown.items()
    ]


def _cells(each: "Estimate", planned: "RunPlan", asked: PlanConfig, speed: "Speed | None") -> dict[str, str]:
    """Return the texts of a strategy by column."""
    from accel_train.planning.choice import USABLE, gigabytes, rounded
    from accel_train.planning.speed import link_seconds

    size, devices = planned.plan.batch_size, each.devices
    cells = {
        "peak": gigabytes(each.peak(size)),
        "activations": gigabytes(max(memory.activations.at(size) for memory in devices)),
        "weights": gigabytes(max(memory.weights for memory in devices)),
        "optimizer": gigabytes(max(memory.optimizer for memory in devices)),
    }
    if each.traffic.by_device:
        cells["sent"] = gigabytes(each.traffic.by_device)
    if asked.gpu_memory:
        cells["largest n"] = f"{each.largest_batch(USABLE * 1e9 * asked.gpu_memory):,}"
    if asked.link_gbps and each.traffic.by_device:
        cells["link"] = f"{rounded(1e3 * link_seconds(each, asked.link_gbps))} ms"
    if speed:
        seconds = total_seconds(each, planned, asked, speed)
        cells["time"] = rough_duration(seconds)
        if asked.price:
            cells["price"] = f"{total_price(seconds, planned, asked):,.2f}"
    return cells


def total_seconds(each: "Estimate", planned: "RunPlan", asked: PlanConfig, speed: "Speed") -> float:
    """Return the seconds of the run."""
    from accel_train.planning.speed import run_seconds, update_seconds

    plan, given = planned.plan, planned.config.activation_checkpointing
    update = update_seconds(each, plan, speed, asked.link_gbps, checkpointing=given)
    return run_seconds(update, plan, speed, len(planned.subject.data.val), planned.cluster)


def total_price(seconds: float, planned: "RunPlan", asked: PlanConfig) -> float:
    """Return the price of the run."""
    return (asked.price or 0.0) * planned.cluster.devices * seconds / 3600


def problem_rows(found: Sequence["Estimate"]) -> Iterator[Row]:
    """Yield why a way is impossible, or how it was estimated; the same reason once."""
    for problem in dict.fromkeys(each.problem for each in found if each.problem):
        names = ", ".join(each.way.name for each in found if each.problem == problem)
        yield "note", f"{names}: {problem}"


def next_step(choice: "Choice", planned: "RunPlan") -> str:
    """Return what to do with a plan."""
    if choice.estimate:
        return "add --emit for its command"
    fixed = planned.config.global_batch_size
    sizes = (n for n in range(choice.largest_batch, 0, -1) if not fixed or fixed % n == 0)
    size = next(sizes, None)
    return f"give --batch-size {size}" if size else "give more --gpus, or more --gpu-memory"
