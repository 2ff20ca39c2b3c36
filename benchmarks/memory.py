"""Compares the peak memory of all processes of a training run with that of the bare loop plus the data.

The run is `accel_train train` with `cnn` on FashionMNIST, including validation and saving; the bare loop trains the
same model on one batch, started without a launcher. They take turns. On Linux, memory that processes share counts once,
provided that no other process has torch loaded. Prints medians, and medians and ranges of the ratios.

    python benchmarks/memory.py --rounds 3
"""

import argparse
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from accel_train.bench.measure import peak_memory
from accel_train.bench.results import Setting
from accel_train.distributed.environment import available_cores

DATA_BYTES = 70_000 * 28 * 28
"""Bytes of the pixels of FashionMNIST, training and validation."""
_START_RANKS = 'for rank in $(seq 0 $((WORLD_SIZE - 1))); do RANK=$rank LOCAL_RANK=$rank "$@" & done; wait'


def ours(setting: Setting) -> int:
    with tempfile.TemporaryDirectory() as folder:
        words = [
            *(sys.executable, "-m", "accel_train", "train", "--no-report"),
            *("--data", "fashion-mnist", "--model", "cnn"),
            *("--limit", str(setting.images), "--epochs", "1", "--batch-size", str(setting.batch_size)),
            *("--processes", str(setting.processes), "--device", setting.device, "--precision", setting.precision),
            *("--json", "--quiet", "--output", f"{folder}/run"),
        ]
        peak, output = peak_of(words, os.environ)
    if json.loads(output.splitlines()[-1])["kind"] != "end":
        raise SystemExit("error: the run did not finish")
    return peak


def bare(setting: Setting) -> int:
    asked = {"setting": asdict(setting), "model": "cnn", "classes": 10, "channels": 1, "image_size": 28}
    words = [sys.executable, "-m", "accel_train.bench.bare_loop", json.dumps(asked)]
    environment = dict(os.environ)
    if setting.processes > 1:  # torchrun would load torch in one more process
        words = ["sh", "-c", _START_RANKS, "sh", *words]
        environment |= {
            "WORLD_SIZE": str(setting.processes),
            "LOCAL_WORLD_SIZE": str(setting.processes),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(_free_port()),
            "GLOO_SOCKET_IFNAME": "lo",
        }
        environment.setdefault("OMP_NUM_THREADS", str(max(1, available_cores() // setting.processes)))
    peak, output = peak_of(words, environment)
    if len(output.split()) != setting.processes:
        raise SystemExit("error: the bare loop did not finish")
    return peak


def peak_of(words: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a program; return the peak memory of it and its children together, and its output."""
    over = threading.Event()
    with (
        ThreadPoolExecutor(1) as pool,
        subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as child,
    ):
        peak = pool.submit(peak_memory, child.pid, over)
        try:
            output, _ = child.communicate()
        finally:
            over.set()
        return peak.result(), output


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=12_800, help="training images; all of the data is in memory")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[64, 256], help="images per process")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    sys.stdout.write(f"MB; the data takes {DATA_BYTES / 1e6:.0f}\n\n")
    sys.stdout.write("| processes | batch | bare | accel_train | ÷ (bare + data) |\n|---|---|---|---|---|\n")
    for processes, batch_size in itertools.product(options.processes, options.batch_sizes):
        updates = options.images // (batch_size * processes)
        setting = Setting("cpu", batch_size, "fp32", compile=False, processes=processes, updates=updates)
        rounds = [(bare(setting), ours(setting)) for _ in range(options.rounds)]
        floor, peak = (f"{statistics.median(side) / 1e6:,.0f}" for side in zip(*rounds, strict=True))
        ratios = [one / (other + DATA_BYTES) for other, one in rounds]
        ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
        sys.stdout.write(f"| {processes} | {batch_size} | {floor} | {peak} | {ratio} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
