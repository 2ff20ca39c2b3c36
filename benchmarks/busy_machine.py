"""Measures images/s beside busy loops, for several numbers of turns that OpenMP threads spin, alternating in one run.

Each turn is a run of its own. 300000 turns are the default of libgomp, 3000 that of accel_train. Prints medians, and
the median of the ratios to libgomp's default in the same round.

    python benchmarks/busy_machine.py --busy 0 1 2 --rounds 5
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TRAIN = (sys.executable, "-m", "accel_train", "train", "--no-report")
LIBGOMP = "300000"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1, 2], help="busy loops beside")
    parser.add_argument("--spins", nargs="+", default=[LIBGOMP, "3000"], help="the first is what others relate to")
    parser.add_argument("--threads", type=int, nargs="+", default=[os.cpu_count() or 1])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("options", nargs="*", help="of train, after --")
    args = parser.parse_args()
    options = args.options or ["--data", "fashion-mnist", "--limit", "19200", "--epochs", "1"]
    settings = [(spins, threads) for spins in args.spins for threads in args.threads]
    print("busy loops  turns    threads  images/s  ratio")
    for busy in args.busy:
        with busy_loops(busy):
            rounds = [[images_per_second(*setting, options) for setting in settings] for _ in range(args.rounds)]
        for number, (spins, threads) in enumerate(settings):
            rate = statistics.median(each[number] for each in rounds)
            ratio = statistics.median(each[number] / each[0] for each in rounds)
            print(f"{busy:>10}  {spins:>7}  {threads:>7}  {rate:>8,.0f}  {ratio:5.2f}", flush=True)


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Run processes beside that do nothing but use a CPU."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def images_per_second(spins: str, threads: int, options: list[str]) -> float:
    """Train, and return the images per second of the last epoch."""
    environment = {**os.environ, "GOMP_SPINCOUNT": spins, "OMP_NUM_THREADS": str(threads)}
    with tempfile.TemporaryDirectory() as folder:
        command = [*TRAIN, *options, "--quiet", "--output", f"{folder}/run"]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        records = map(json.loads, Path(folder, "run", "metrics.jsonl").read_text().splitlines())
        return next(float(record["images_per_second"]) for record in records if record["kind"] == "end")


if __name__ == "__main__":
    main()
