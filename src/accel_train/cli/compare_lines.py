"""A comparison of runs as lines of text."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from accel_train.cli.table import Column, table_lines, terminal_width
from accel_train.config.options import PLACEMENT
from accel_train.history.chart import Curve, chart_lines
from accel_train.history.compared import Compared
from accel_train.history.comparison import Parting
from accel_train.history.summary import Summary
from accel_train.loggers.text import (
    accuracy,
    learning_rate,
    loss,
    option_value,
    printable,
    quantity,
    quoted,
    rough_duration,
    speed,
)
from accel_train.metrics.mcnemar import PairedTest
from accel_train.system.os_errors import format_bytes

_SIGNIFICANT = 0.05


def comparison_lines(compared: Compared) -> list[str]:
    """Return results, options that differ, curves, and what each run has over the first."""
    lines = [printable(f"{letter}  {run.folder}") for letter, run in compared.runs.items()]
    problems = [f"{run.run_folder}: {problem}" for run in compared.summaries for problem in run.problems]
    lines += [f"note: {printable(problem)}" for problem in problems]
    lines += ["", *_table("", compared, _results(compared))]
    placed = {name: each for name, each in compared.options.items() if name in PLACEMENT}
    decisive = {name: each for name, each in compared.options.items() if name not in PLACEMENT}
    chosen = {name: each for name, each in decisive.items() if name not in compared.derived}
    for title, values in (
        ("options that differ", chosen),
        ("defaults that differ", {name: each for name, each in decisive.items() if name not in chosen}),
        ("options that only place a run", placed),
        ("what else differs", compared.surroundings),
    ):
        texts = {name: [_text(value) for value in each] for name, each in values.items()}
        lines += ["", *_table(title, compared, texts)] if texts else []
    lines += _curves(compared)
    first = next(iter(compared.runs))
    for letter in compared.partings:
        lines += ["", *_against(first, letter, compared)]
    return lines


def next_command(compared: Compared) -> str:
    """Return the command for the first update that runs of the same options do not share, else for the best run."""
    for letter, found in compared.partings.items():
        if found.unit == "update" and found.differs_at and compared.options.keys() <= PLACEMENT:
            return f"accel_train replay {quoted(compared.runs[letter].folder)} --update {found.differs_at}"
    best = max(compared.summaries, key=lambda run: run.best_val_accuracy or 0)
    return f"accel_train report {quoted(best.run_folder)}"


def _table(title: str, compared: Compared, rows: Mapping[str, Sequence[str]]) -> list[str]:
    """Return rows of one text per run; no column is left out, however narrow the terminal is."""
    names = Column(title, list(rows), left=True)
    columns = [
        Column(letter, [texts[number] for texts in rows.values()]) for number, letter in enumerate(compared.runs)
    ]
    return list(table_lines([names, *columns], sys.maxsize))


def _results(compared: Compared) -> dict[str, list[str]]:
    texts: dict[str, Callable[[Summary], str]] = {
        "state": lambda run: run.state,
        "best accuracy": lambda run: accuracy(run.best_val_accuracy),
        "of epoch": lambda run: str(run.best_epoch or "-"),
        "last accuracy": lambda run: accuracy(run.val_accuracy),
        "validation loss": lambda run: loss(run.val_loss),
        "training loss": lambda run: loss(run.train_loss),
        "epochs": lambda run: f"{run.epochs}/{run.planned_epochs or '?'}",
        "images/s": lambda run: speed(run.images_per_second or 0),
        "time": lambda run: rough_duration(run.seconds) if run.seconds else "-",
        "GPU memory": lambda run: format_bytes(run.gpu_memory_bytes) if run.gpu_memory_bytes else "-",
    }
    rows = {name: [text(run) for run in compared.summaries] for name, text in texts.items()}
    if not any(run.gpu_memory_bytes for run in compared.summaries):
        del rows["GPU memory"]
    if any(cost is not None for cost in compared.costs):
        rows["cost"] = ["-" if cost is None else f"{cost:,.2f}" for cost in compared.costs]
    return rows


def _text(value: Any) -> str:
    return "-" if value is None else option_value(value) or "-"


def _curves(compared: Compared) -> list[str]:
    """Return the chart of accuracies by epoch; before there are two epochs, that of losses by update."""
    runs, width = compared.runs, min(terminal_width(), 80)
    epochs = [
        Curve(letter, [(epoch.epoch, epoch.selection_accuracy) for epoch in run.epochs]) for letter, run in runs.items()
    ]
    updates = [Curve(letter, [(p.update, p.local_loss) for p in run.metrics.progress]) for letter, run in runs.items()]
    lines = list(chart_lines("validation accuracy by epoch", epochs, width))
    lines = lines or list(chart_lines("training loss by update", updates, width))
    return ["", *lines] if lines else []


def _against(first: str, other: str, compared: Compared) -> list[str]:
    """Return what a run has over the first: is it more accurate, and where do they part?"""
    paired = compared.tests[other]
    lines = [f"{first} and {other}: {_parting_text(compared.partings[other])}"]
    if paired.test:
        lines.append(f"{first} and {other}: {_test_text(first, other, paired.test)}")
    return [*lines, *(f"{first} and {other}: {printable(note)}" for note in paired.notes)]


def _parting_text(found: Parting) -> str:
    if found.differs_at is None:
        if found.equal_until is None:
            return "no update that both have logged"
        return f"equal to the last bit up to {found.unit} {found.equal_until:,}, the last that both have logged"
    assert found.values
    assert found.losses
    since = f"equal up to {found.unit} {found.equal_until:,}, " if found.equal_until else ""
    differs = f"first differ at {found.unit} {found.differs_at:,}"
    values = " and ".join(learning_rate(value) if isinstance(value, float) else str(value) for value in found.values)
    low, high = found.losses
    losses = f", losses {loss(low)} and {loss(high)}" * (found.quantity not in ("loss", "training loss"))
    if found.quantity in ("loss", "training loss"):
        values = f"{low:.9g} and {high:.9g}"
    return f"{since}{differs}: {found.quantity} {values}{losses}"


def _test_text(first: str, other: str, test: PairedTest) -> str:
    better = f"{other} is better" if test.difference > 0 else f"{first} is better"
    verdict = better if test.p_value < _SIGNIFICANT else "no significant difference"
    how = "McNemar, exact" if test.exact else "McNemar"
    return (
        f"{verdict}: of {quantity(test.images, 'image')} only {first} has {test.only_first:,} right and only {other} "
        f"{test.only_second:,}; accuracy of {other} {100 * test.difference:+.2f} points (95 % interval "
        f"{100 * test.low:+.2f} to {100 * test.high:+.2f}), p = {test.p_value:.2g} ({how})"
    )
