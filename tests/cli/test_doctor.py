"""`doctor` on one process: what it prints, its exit codes, and the file for `accelerate launch`."""

import json
import re
from pathlib import Path

import pytest
import torch
from helpers.cli import Call, assert_refused, in_process


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("accelerate.commands.config.config_args.default_config_file", str(tmp_path / "none.yaml"))
    return in_process(tmp_path, monkeypatch, capsys)


def test_healthy_machine_has_no_findings(call: Call, tmp_path: Path) -> None:
    ended = call("doctor", "--device", "cpu", "--output", "runs/new")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[2].startswith("hardware ")
    assert lines[3:6] == [
        "processes      1 process, launched by accel_train",
        f"run folder     examined in {tmp_path}",
        "start          a run starts: single process",
    ]
    assert lines[6].split() == ["rank", "host", "process", "device", "clock", "GFLOP/s", "waits", "for", "CPU"]
    assert re.fullmatch(r" +0 +\S+ +\d+ +cpu +0 s +[\d.,]+ +\d+%", lines[7])
    assert lines[8] == "healthy: nothing found"
    assert lines[9].startswith("next: ")
    assert len(lines) == 10
    assert list(tmp_path.iterdir()) == []


def test_failure_has_its_fix_and_an_exit_code(call: Call) -> None:
    ended = call("doctor", "--device", "cuda")
    assert (ended.code, ended.err) == (1, "")
    assert ended.out.splitlines()[-4:] == [
        "FAILS          device: --device cuda, but torch finds no such device",
        "               fix: use --device cpu, or install its driver",
        "1 failure, 0 warnings",
        "next: mend the first failure, then start the same command again",
    ]


def test_options_that_train_refuses_are_found(call: Call) -> None:
    ended = call("doctor", "--device", "cpu", "--model", "resnet1")
    assert (ended.code, ended.err) == (1, "")
    lines = ended.out.splitlines()
    assert "start          a run does not start" in lines
    assert "FAILS          run: unknown model 'resnet1'" in lines


def test_variable_that_a_run_refuses_is_a_finding(call: Call) -> None:
    ended = call("doctor", "--device", "cpu", "--json", ACCELERATE_GRADIENT_ACCUMULATION_STEPS="4")
    assert ended.code == 1
    (finding,) = json.loads(ended.out)["findings"]
    asks = (
        "ACCELERATE_GRADIENT_ACCUMULATION_STEPS=4 asks for gradient accumulation by Accelerate, which is not supported"
    )
    assert (finding["check"], finding["message"]) == ("launcher", asks)


@pytest.mark.parametrize(("named", "code", "label"), [(True, 1, "FAILS"), (False, 0, "warning")])
def test_file_for_accelerate_launch_is_examined(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool, code: int, label: str
) -> None:
    file = tmp_path / "launch.yaml"
    file.write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 8\nuse_cpu: false\n"
    )
    monkeypatch.setattr("accelerate.commands.config.config_args.default_config_file", str(file))
    ended = call("doctor", *(["--accelerate-config", file] if named else []))
    assert ended.code == code
    lines = ended.out.splitlines()
    assert f"accelerate     {file}: accelerate launch starts 8 processes: ddp, fp32" in lines
    refused = "the launcher's configuration says use_cpu: false, but torch finds no GPU"
    assert f"{label.ljust(15)}accelerate config: {refused}" in lines


def test_missing_file_is_refused(call: Call) -> None:
    ended = call("doctor", "--accelerate-config", "none.yaml")
    assert ended.code == 2
    assert_refused(ended, "--accelerate-config none.yaml: there is no such file", "give a file for accelerate launch")


def test_json_is_one_object(call: Call, tmp_path: Path) -> None:
    ended = call("doctor", "--device", "cpu", "--json")
    assert ended.err.startswith("accel_train ")
    (line,) = ended.out.splitlines()
    report = json.loads(line)
    assert report["kind"] == "doctor"
    assert (ended.code, report["healthy"], report["processes"], report["findings"]) == (0, True, 1, [])
    assert report["folder"] == str(tmp_path)
