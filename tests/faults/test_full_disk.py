"""A full disk ends a run with one error and a valid last checkpoint; the run resumes when there is space."""

import re
import subprocess
from pathlib import Path

from helpers.runner import Runner

TRAIN = ("train", "--data", "synthetic:64,1,8,8,2", "--model", "mlp", "--batch-size", "8", "--epochs", "6")


def test_full_disk_is_one_error_and_the_run_resumes_with_space(run: Runner, small_disk: Path) -> None:
    assert run(*TRAIN, "--output", "whole").code == 0
    full = run(*TRAIN, "--output", small_disk / "run")
    assert full.code == 2, full.err
    assert "Traceback" not in full.err
    (error,) = [line for line in full.err.splitlines() if line.startswith("error:")]
    cannot_save = (
        f"error: cannot save in {small_disk / 'run'}: No space left on device: the file system {small_disk} has "
    )
    assert error.startswith(cannot_save)
    assert error.endswith(" of 1.8 MiB free")
    assert "saved checkpoint update 8" in full.out
    subprocess.run(["mount", "-o", "remount,size=32m", str(small_disk)], check=True)
    resumed = run(*TRAIN, "--output", small_disk / "run")
    assert resumed.code == 0, resumed.err
    assert re.search(r"^resumed at epoch \d of \d, update 8$", resumed.out, re.MULTILINE)
    for name in ("model.safetensors", "best.safetensors"):
        assert (small_disk / "run" / name).read_bytes() == (run.folder / "whole" / name).read_bytes()
    assert not list(small_disk.rglob(".tmp_*"))
