"""`accel_train bench` measures real runs, continues after one that does not fit, and rejects wrong options."""

import os
from pathlib import Path
from signal import SIGTERM

import pytest
from helpers.cli import Call, assert_refused, in_process
from helpers.faults import started
from helpers.marks import slow
from helpers.runner import Runner

GREEDY = """
from torch import nn

class Greedy(nn.Sequential):
    def forward(self, images):
        if self.training and len(images) > 8:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
        return super().forward(images)

def net(classes):
    return Greedy(nn.Flatten(), nn.Linear(64, classes))
"""

REFUSED = {
    "--batch-sizes 4,x": ("--batch-sizes 4,x", "2,64,256"),
    "--batch-sizes 0": ("--batch-sizes 0", "above 0"),
    "--devices cpu,gpu": ("'gpu' is unknown", "cuda"),
    "--precisions fp8": ("'fp8' is unknown", "bf16"),
    "--updates 29": ("--updates 29", "30"),
    "--against peers": ("--against peers: must be bare", "--against: bare: alternate with a bare loop on one batch"),
    "--png nowhere/f.png": ("--png nowhere/f.png",),
}


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return in_process(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("options", REFUSED)
def test_wrong_option_is_rejected(call: Call, options: str) -> None:
    ended = call("bench", *options.split())
    assert ended.code == 2
    assert_refused(ended, *REFUSED[options])


@pytest.mark.parametrize(("processes", "precision"), [(1, "fp32"), slow(2, "bf16")])
def test_run_is_measured_against_the_bare_loop(run: Runner, processes: int, precision: str) -> None:
    ended = run(
        *("bench", "--batch-sizes", "4", "--devices", "cpu", "--precisions", precision, "--updates", "40"),
        *("--data", "digits", "--against", "bare", "--json", "--processes", str(processes)),
    )
    assert ended.code == 0, ended.err
    (row,) = ended.records
    asked = {"batch_size": 4, "precision": precision, "processes": processes, "updates": 40, "failure": None}
    assert asked.items() <= row.items()
    assert row["ratio_to_bare"] == row["images_per_second"] / row["bare_images_per_second"]
    assert 0.05 < row["ratio_to_bare"] < 5
    assert 100 * 2**20 < row["peak_memory_bytes"] < 8 * 2**30
    assert 1 < row["seconds_to_first_update"] < 100
    shares = [row[f"{name}_share"] for name in ("data", "compute", "communication", "other")]
    assert sum(shares) == pytest.approx(1)
    assert (row["communication_share"] > 0) == (processes > 1)
    assert list(run.folder.glob("*")) == []


def test_table_continues_after_a_row_out_of_memory(run: Runner) -> None:
    (run.folder / "greedy.py").write_text(GREEDY)
    words = ("bench", "--devices", "cpu", "--data", "digits", "--model", "greedy:net", "--updates", "30")
    ended = run(*words, "--batch-sizes", "16,4")
    assert ended.code == 0, ended.err
    title, header, large, small = map(str.rstrip, ended.out.splitlines())
    assert "greedy:net on digits" in title
    assert header.split()[:4] == ["device", "batch", "precision", "images/s"]
    assert large.split() == ["cpu", "16", "fp32", "out", "of", "memory"]
    assert small.split()[:2] == ["cpu", "4"]
    assert small.endswith("%")


def test_error_of_a_run_ends_the_benchmark(run: Runner) -> None:
    ended = run("bench", "--devices", "cpu", "--model", "resnet19")
    assert ended.code == 2
    assert_refused(ended, "resnet19", "resnet18")


def test_signal_ends_bench_and_removes_its_folder(tmp_path: Path) -> None:
    words = ("--batch-sizes", "4", "--devices", "cpu", "--updates", "20000")
    with started(tmp_path, *words, command="bench", TMPDIR=str(tmp_path)) as program:
        program.wait_for(lambda: any(tmp_path.glob("accel_train_bench_*/run/metrics.jsonl")))
        os.kill(program.pid, SIGTERM)
        assert program.wait(20) == 143
        assert program.err == "ended by SIGTERM\n"
    assert list(tmp_path.glob("accel_train_bench_*")) == []
