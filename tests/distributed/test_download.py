"""Several processes of a machine that need the same data set download it once."""

import subprocess
import sys
from pathlib import Path

from helpers.tiny_mnist import FILES, resources, serve

PROCESS = """
import sys, time
from pathlib import Path
from torchvision import datasets
from accel_train.data.open import open_data
from accel_train.data.sources.base import View

number, root, mirror, resources = sys.argv[1], Path(sys.argv[2]), sys.argv[3], eval(sys.argv[4])
datasets.MNIST.mirrors, datasets.MNIST.resources = [mirror], resources
(root / f"ready_{number}").touch()
while len(list(root.glob("ready_*"))) < 2:
    time.sleep(0.005)
data = open_data("mnist", directory=root / "cache", val_fraction=None, seed=0, limit=None)
print(len(data.train), len(data.val), data.train.read([7], None, View(4, False))[0].unique().tolist())
"""


def test_two_processes_download_each_file_once(tmp_path: Path) -> None:
    """d09"""
    with serve(tmp_path) as (address, fetched):
        words = [str(tmp_path), address, repr(resources())]
        started = [
            subprocess.Popen(
                [sys.executable, "-W", "error", "-c", PROCESS, str(number), *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(2)
        ]
        try:
            ended = [(*process.communicate(timeout=120), process.returncode) for process in started]
        finally:
            for process in started:
                process.kill()
        assert [(out, code) for out, _, code in ended] == [("30 20 [7]\n", 0)] * 2, ended
        assert fetched == {f"{name}.gz": 1 for name in FILES}
