"""A full disk ends a run with one error and a valid last checkpoint; the run resumes when there is space."""

import re
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from helpers.cli import in_process, write_pictures
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


def test_full_disk_of_an_output_is_told_by_its_option(
    run: Runner, small_disk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = ("--data", "digits", "--limit", "64", "--model", "mlp", "--epochs", "1", "--device", "cpu")
    assert run("train", *trained, "--output", "run").code == 0
    write_pictures(run.folder / "photos", {"a": 1})
    with suppress(OSError), (small_disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))
    call = in_process(run.folder, monkeypatch, capsys)
    for words, option, name in (
        ("predict run photos", "--csv", "a.csv"),
        ("evaluate run", "--predictions", "a.csv"),
        ("export run --format safetensors", "--output", "export"),
        ("report run", "--output", "report.html"),
        ("schedule", "--png", "rate.png"),
    ):
        ended = call(*words.split(), option, small_disk / name)
        assert ended.code == 2
        error, hint = ended.err.splitlines()
        place = f"error: cannot write {small_disk / name}: No space left on device: the file system {small_disk} has "
        assert error.startswith(place)
        assert hint == f"hint: free some space and start the same command again, or give another {option}"
