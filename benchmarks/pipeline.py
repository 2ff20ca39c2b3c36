"""Measures how long the two stages of a pipeline are idle, and compares that with (S - 1) / (A + S - 1).

Trains two equal stages, of convolutions or of pauses that need no CPU, with 1, 2, 4 and 8 micro-batches per update and
--profile, by both schedules in turn. A stage is idle while it makes neither a forward nor a backward pass; updates of
the weights and waits for data do not count. Prints the mean of both stages, the least of the rounds (other programs on
the machine only add to it), and draws it.

    python -m benchmarks.pipeline --model pauses --svg docs/pipeline_idle.svg
"""

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

STAGES = 2
PAUSE_SECONDS = 0.02
SCHEDULES = ("gpipe", "1f1b")
_BUSY, _IGNORED = ("forward", "backward"), ("optimizer", "data wait")
_UPDATES = 20
"""That --profile needs."""
_WIDTH, _HEIGHT, _LEFT, _TOP = 460, 250, 50, 20
_COLOURS = {"gpipe": "#c44e52", "1f1b": "#4c72b0"}

Shares = Mapping[tuple[str, int], Sequence[float]]
"""Idle shares measured, by schedule and micro-batches."""


def twins(classes: int, channels: int, width: int = 64, layers: int = 4) -> nn.Module:
    """Return a network whose modules `0` and `1` take equally long."""

    def half(*before: nn.Module) -> nn.Sequential:
        convolutions = (nn.Conv2d(width, width, kernel_size=3, padding=1) for _ in range(layers))
        return nn.Sequential(*before, *convolutions)

    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))
    return nn.Sequential(half(nn.Conv2d(channels, width, kernel_size=1)), half(), head)


class Pause(nn.Module):
    """Takes a fixed time: in the forward pass once, in the backward pass twice."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            time.sleep(PAUSE_SECONDS)
        y = x * self.scale
        if y.requires_grad:
            y.register_hook(lambda gradient: time.sleep(2 * PAUSE_SECONDS))
        return y


def pauses(classes: int, channels: int) -> nn.Module:
    """Return a network whose modules `0` and `1` take equally long, whatever else the machine does."""
    return nn.Sequential(Pause(), Pause(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def idle_share(model: str, schedule: str, micro_batches: int, batch_size: int, device: str) -> float:
    """Train, and return the mean idle share of the stages."""
    images = _UPDATES * micro_batches * batch_size
    with tempfile.TemporaryDirectory() as folder:
        words = [
            *(sys.executable, "-m", "accel_train", "train", "--no-report"),
            *("--model", f"benchmarks.pipeline:{model}", "--profile"),
            *("--data", f"synthetic:{images},3,16,16,10", "--batch-size", str(batch_size), "--epochs", "1"),
            *("--processes", str(STAGES), "--strategy", "pipeline", "--pipeline-stages", str(STAGES)),
            *("--pipeline-schedule", schedule, "--pipeline-split", "1", "--accumulate", str(micro_batches)),
            *("--device", device, "--augment", "none", "--quiet", "--output", f"{folder}/run"),
        ]
        path = os.pathsep.join(filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH"))))
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": path})
        traces = [Path(folder, "run", "profile", f"rank_{rank}.json.gz") for rank in range(STAGES)]
        return statistics.mean(map(_idle, traces))


def _idle(trace: Path) -> float:
    """Return the idle share of a stage by its trace, whose spans do not overlap."""
    with gzip.open(trace, "rt", encoding="utf-8") as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("cat") == "user_annotation"]
    seconds = {name: sum(e["dur"] for e in events if e["name"] == name) for name in (*_BUSY, *_IGNORED)}
    spans = [(e["ts"], e["ts"] + e["dur"]) for e in events if e["name"] in seconds]
    total = max(end for _, end in spans) - min(start for start, _ in spans)
    busy = sum(seconds[name] for name in _BUSY)
    return 1 - busy / (total - sum(seconds[name] for name in _IGNORED))


def formula(micro_batches: float) -> float:
    return (STAGES - 1) / (micro_batches + STAGES - 1)


def table(shares: Shares, counts: Sequence[int]) -> str:
    lines = ["| micro-batches per update | formula | " + " | ".join(SCHEDULES) + " |", "|---|---|---|---|"]
    for count in counts:
        cells = []
        for schedule in SCHEDULES:
            found = shares[schedule, count]
            spread = f" (to {100 * max(found):.0f} %)" * (len(found) > 1)
            cells.append(f"{100 * min(found):.0f} %{spread}")
        lines.append(f"| {count} | {100 * formula(count):.0f} % | {' | '.join(cells)} |")
    return "\n".join(lines)


def drawing(shares: Shares, counts: Sequence[int]) -> str:
    """Return an SVG: the formula as a line, the measured shares as points."""
    most = max(counts)

    def at(micro_batches: float, share: float) -> str:
        x = _LEFT + (micro_batches - 0.5) / most * (_WIDTH - _LEFT - 10)
        return f"{x:.1f},{_TOP + (1 - share) * (_HEIGHT - _TOP - 45):.1f}"

    def text(x: float, y: float, words: str, anchor: str = "middle") -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'

    parts = [f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>']
    for percent in range(0, 101, 25):
        left, right = at(0.5, percent / 100), at(most + 0.5, percent / 100)
        parts.append(f'<polyline points="{left} {right}" stroke="#ddd"/>')
        parts.append(text(_LEFT - 6, float(left.split(",")[1]) + 4, f"{percent} %", "end"))
    for count in counts:
        parts.append(text(float(at(count, 0).split(",")[0]), _HEIGHT - 28, str(count)))
    parts.append(text((_WIDTH + _LEFT) / 2, _HEIGHT - 10, "micro-batches per update"))
    curve = " ".join(at(1 + i * (most - 1) / 50, formula(1 + i * (most - 1) / 50)) for i in range(51))
    parts.append(f'<polyline points="{curve}" fill="none" stroke="#555" stroke-dasharray="4 3"/>')
    for row, (name, colour) in enumerate([("1 / (A + 1)", "#555"), *_COLOURS.items()]):
        parts.append(f'<circle cx="{_WIDTH - 110}" cy="{_TOP + 16 * row}" r="4" fill="{colour}"/>')
        parts.append(text(_WIDTH - 98, _TOP + 16 * row + 4, name, "start"))
    for (schedule, count), found in shares.items():
        x, y = at(count + (0.06 if schedule == "1f1b" else -0.06), min(found)).split(",")
        parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{_COLOURS[schedule]}"/>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif"'
    return "\n".join(
        [f'{head} font-size="12" role="img">', "<title>Idle share of two stages</title>", *parts, "</svg>\n"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--micro-batches", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--model", choices=("twins", "pauses"), default="twins")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--svg", type=Path)
    options = parser.parse_args()
    shares: dict[tuple[str, int], list[float]] = {(s, n): [] for n in options.micro_batches for s in SCHEDULES}
    for _ in range(options.rounds):
        for (schedule, count), found in shares.items():
            found.append(idle_share(options.model, schedule, count, options.batch_size, options.device))
    sys.stdout.write(table(shares, options.micro_batches) + "\n")
    if options.svg:
        options.svg.write_text(drawing(shares, options.micro_batches), encoding="utf-8")


if __name__ == "__main__":
    main()
