"""The output of a run: on a terminal, in a pipe, as JSON, and before it starts."""

import json
import math
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.cli import Call, in_process, write_pictures
from helpers.runner import LAUNCHERS, Runner, clean_environment, without_report
from helpers.screen import Screen
from helpers.terminal import OnTerminal
from helpers.tiny_mnist import tiny_mnist


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return in_process(tmp_path, monkeypatch, capsys)


def lines_that_start(text: str, start: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(start)]


def test_lines_reach_a_pipe_immediately(tmp_path: Path) -> None:
    epochs = 40
    words = without_report("train", "--epochs", str(epochs), "--limit", "512", "--output", "out")
    process = subprocess.Popen(
        [*LAUNCHERS["accel_train"](1), *words],
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdout
    first = next(line for line in process.stdout if line.startswith("epoch 1/"))
    so_far = (tmp_path / "out" / "metrics.jsonl").read_text()
    out, err = process.communicate(timeout=120)

    assert process.returncode == 0, err
    assert '"kind": "end"' not in so_far  # the run was not over when its first line arrived
    rows = [first, *lines_that_start(out, "epoch ")]
    pattern = r"epoch \d+/40  train loss \d+\.\d{4}  val loss \d+\.\d{4}  val accuracy [01]\.\d{4}  lr \S+  .*"
    assert len(rows) == epochs
    assert all(re.fullmatch(pattern, row.rstrip("\n")) for row in rows)
    assert "\r" not in out + err
    assert "\x1b" not in out + err
    assert err == ""


def test_two_processes_print_each_result_once_and_a_line_per_rank(run: Runner, call: Call) -> None:
    flags = ("--epochs", "2", "--batch-size", "32", "--limit", "256", "--device", "cpu")
    ended = run("train", *flags, "--output", "two", processes=2)
    again = call("train", "--config", "two/config.yaml", "--print-config", "--device", "cpu")

    assert ended.code == 0, ended.err
    assert [row.split("  ")[0] for row in lines_that_start(ended.out, "epoch ")] == ["epoch 1/2", "epoch 2/2"]
    assert len(lines_that_start(ended.out, "ended ")) == 1
    assert "32 per process × 2 processes × 1 accumulation = 64 per update" in ended.out
    assert ended.err == ""
    own = [line.split("] ")[0] for line in lines_that_start(ended.out, "[rank ")]
    assert own == 3 * ["[rank 0/2 cpu", "[rank 1/2 cpu"]  # where they run, and each epoch
    assert sorted(path.name for path in (run.folder / "two" / "log").iterdir()) == ["rank_0.log", "rank_1.log"]
    assert again.code == 0, again.err
    here, there = yaml.safe_load(again.out), yaml.safe_load((run.folder / "two" / "config.yaml").read_text())
    assert here == there
    assert here["global_batch_size"] == 64
    assert "# accumulate: 2" in again.out


def test_json_prints_only_records_on_stdout(run: Runner) -> None:
    ended = run("train", "--epochs", "2", "--json", "--output", "out", "--log-every", "10")

    assert ended.code == 0, ended.err
    printed = ("saved", "ranks", "notice")  # and not in metrics.jsonl
    history = [record for record in untimed(ended.out) if record["kind"] not in printed]
    metrics = (run.folder / "out" / "metrics.jsonl").read_text()
    assert history == untimed(metrics)
    assert [record["update"] for record in ended.records if record["kind"] == "saved"] == [22, 44]
    kinds = [record["kind"] for record in history]
    assert kinds == ["run", *2 * ("progress", "progress", "epoch_by_rank", "epoch"), "end"]
    assert all(math.isfinite(value) for value in numbers(ended.records))
    assert len(lines_that_start(ended.err, "epoch ")) == 2
    assert lines_that_start(ended.err, "run ") == ["run            out"]


def untimed(lines: str) -> list[dict[str, Any]]:
    """Return records without the time at which each was written, and check that time."""
    records = [json.loads(line) for line in lines.splitlines()]
    times = [datetime.fromisoformat(record.pop("time")) for record in records]
    assert times == sorted(times)
    return records


def numbers(records: list[dict[str, Any]]) -> list[float]:
    return [value for record in records for value in record.values() if isinstance(value, float)]


def test_quiet_prints_only_notes_and_the_final_result(run: Runner) -> None:
    ended = run("train", "--epochs", "1", "--quiet", "--output", "out")

    assert ended.code == 0, ended.err
    assert ended.err == ""
    *notes, result = ended.out.splitlines()
    assert all(line.startswith("note: ") for line in notes)
    assert re.fullmatch(r"validation accuracy [01]\.\d{4}, best .* in epoch 1, 1 epoch in .*: out", result)


def test_ascii_stream_gets_ascii_equivalents(run: Runner) -> None:
    names = ["café", "日本語", "a[b]c", "old caf\udce9"]  # the last in Latin-1, as old archives have it
    write_pictures(run.folder / "ünï", {f"{split}/{name}": 2 for split in ("train", "val") for name in names})
    flags = ("--data", "ünï", "--model", "cnn", "--epochs", "1", "--workers", "0", "--output", "naïve[/x]")

    ended = run("train", *flags, forked=False, PYTHONIOENCODING="ascii", LC_ALL="C", NO_COLOR="1")

    assert ended.code == 0, ended.err
    assert (ended.out + ended.err).isascii()
    assert "0.1 at 256 -> " in ended.out
    assert r"na\xefve[/x]" in ended.out
    config = json.loads((run.folder / "naïve[/x]" / "config.json").read_text(encoding="utf-8"))
    assert config["classes"] == sorted(names)


def test_loggers_write_to_ascii_streams_without_importing_torch(run: Runner) -> None:
    code = """
import sys
import accel_train.loggers.select, accel_train.loggers.jsonl, accel_train.loggers.rank_log
from accel_train.loggers.text import prepare_streams
prepare_streams()
print("×猫", "torch" in sys.modules)
print("→", file=sys.stderr)
"""
    ended = run.program([sys.executable, "-c", code], PYTHONIOENCODING="ascii")
    assert ended.code == 0, ended.err
    assert ended.out.split() == ["x\\u732b", "False"]
    assert ended.err.split() == ["->"]


def on_terminal(folder: Path, columns: int, *flags: str, **environment: str) -> str:
    """Run on a terminal and return all that it was sent."""
    with OnTerminal(
        ["-m", "accel_train", *without_report("train", "--epochs", "3", *flags)],
        folder=folder,
        environment=clean_environment() | {"TERM": "xterm-256color"} | environment,
        columns=columns,
    ) as child:
        assert child.ends() == 0, child.before
        shown: str = child.before
    return shown


def test_terminal_shows_a_bar_and_a_table(tmp_path: Path) -> None:
    shown = on_terminal(tmp_path, 110, "--output", "out")

    lines = Screen(110, shown).lines
    assert "━" in shown
    assert "epoch 2/3" in shown
    assert "images/s" in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")  # the cursor is back
    header = next(line for line in lines if "val accuracy" in line)
    rows = [line for line in lines if re.match(r" +\d/3 ", line)]
    assert header.split("  ")[-1] == "time"
    assert [row.split()[0] for row in rows] == ["1/3", "2/3", "3/3"]
    assert all(len(row.split()) in (8, 9) for row in rows)  # with and without ★
    assert all(len(line) <= 110 for line in lines)
    assert not any("━" in line for line in lines)


def test_narrow_terminal_without_colour_is_readable(tmp_path: Path) -> None:
    shown = on_terminal(tmp_path, 40, "--output", "out", NO_COLOR="1")

    lines = Screen(40, shown).unwrapped
    assert not re.search(r"\x1b\[(3|4|9)\d", shown)  # no colours; bold may be
    copied = [line for line in lines if "accel_train report" in line]
    assert [line for line in lines if len(line) > 40 and line not in copied] == []
    assert [row.split()[0] for row in lines if re.match(r" +\d/3 ", row)] == ["1/3", "2/3", "3/3"]
    assert "val accuracy" in next(line for line in lines if "epoch  " in line)
    assert copied[0] == "next           accel_train report out"  # in one piece, to be copied


def test_dry_run_prints_the_banner_and_writes_nothing(call: Call, tmp_path: Path) -> None:
    ended = call("train", "--dry-run", "--batch-size", "32", "--accumulate", "2", "--epochs", "3", "--device", "cpu")

    assert ended.code == 0, ended.err
    assert list(tmp_path.iterdir()) == []
    rows = dict(line.split("  ", 1) for line in ended.out.splitlines() if re.match(r"\w+ ?\w*  ", line))
    rows = {label: text.strip() for label, text in rows.items()}
    assert rows["run"] == "runs/digits_cnn_001"
    assert rows["batch"] == "32 per process × 1 process × 2 accumulations = 64 per update"
    assert "same run on other hardware: --global-batch-size 64 --batch-size 32" in ended.out
    assert "learning rate  0.1 at 256 → 0.025 at 64 (linear), cosine" in ended.out
    assert rows["dropped"] == "30 of 1,438 images (incomplete last batch) per epoch"
    assert rows["updates"] == "22 per epoch × 3 epochs = 66"
    assert rows["devices"].startswith("1 process × cpu (asked: cpu), started by accel_train")


def test_printed_config_can_be_read_back(call: Call, tmp_path: Path) -> None:
    flags = ("--schedule", "step", "--milestones", "2", "--milestones", "2.5", "--lr", "1e-3", "--precision", "bf16")
    data = ("--data", "fashion-mnist", "--data-dir", "with: colon # and hash")
    (tmp_path / data[-1]).mkdir()
    for name, content in tiny_mnist().items():
        (tmp_path / data[-1] / name).write_bytes(content)
    printed = call("train", "--print-config", *flags, *data, "--device", "cpu")
    (tmp_path / "again.yaml").write_text(printed.out, encoding="utf-8")

    again = call("train", "--print-config", "--config", "again.yaml", "--device", "cpu")

    assert printed.code == again.code == 0
    resolved = yaml.safe_load(printed.out)
    assert yaml.safe_load(again.out) == resolved
    assert resolved["lr"] == 0.001
    assert resolved["milestones"] == [2.0, 2.5]
    assert resolved["data_dir"] == "with: colon # and hash"
    assert "lr: 0.001  # flag\n" in printed.out
    assert "epochs: 10  # default for fashion-mnist\n" in printed.out
    assert "lr: 0.001  # again.yaml\n" in again.out
    assert {path.name for path in tmp_path.iterdir()} == {"again.yaml", data[-1]}


def test_flags_override_a_config(call: Call, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("lr: 1e-3\nepochs: 7\n")

    ended = call("train", "--print-config", "--config", "my.yaml", "--epochs", "5", "--device", "cpu")

    assert ended.code == 0, ended.err
    assert "epochs: 5  # flag\n" in ended.out
    assert "lr: 0.001  # my.yaml\n" in ended.out  # 1e-3 is text to YAML 1.1
