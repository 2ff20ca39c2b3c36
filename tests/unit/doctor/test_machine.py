"""What a process finds by itself."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from accel_train.config.doctor_options import DoctorConfig
from accel_train.doctor import machine
from accel_train.doctor.finding import Finding
from accel_train.doctor.machine import examine_process, shared_memory, unused_gpu

CONFIG = DoctorConfig()


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)


def free(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=size, f_frsize=1))


@pytest.mark.parametrize(
    ("mebibytes", "gpus", "fails"),
    [(64, 0, None), (16, 0, None), (15, 0, True), (63, 1, False), (64, 1, None), (15, 1, True)],
)
def test_little_shared_memory_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mebibytes: int, gpus: int, fails: bool | None
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    free(monkeypatch, mebibytes * 2**20)
    assert [one.fails for one in shared_memory(CONFIG, tmp_path)] == ([] if fails is None else [fails])


def test_missing_shared_memory_is_found(tmp_path: Path) -> None:
    (one,) = shared_memory(CONFIG, tmp_path / "shm")
    assert (one.message, one.fails) == (f"{tmp_path / 'shm'} cannot be written", True)


@pytest.mark.parametrize(
    ("build", "reason"), [(None, "it was built for CPUs"), ("13.0", "The NVIDIA driver on your system is too old")]
)
def test_gpu_that_torch_does_not_find_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, build: str | None, reason: str
) -> None:
    def fail() -> None:
        raise RuntimeError("The NVIDIA driver on your system is too old\nUpdate it")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", build)
    monkeypatch.setattr(torch.cuda, "init", fail)
    assert list(unused_gpu(CONFIG, tmp_path)) == []
    (tmp_path / "nvidiactl").touch()
    assert list(unused_gpu(CONFIG, tmp_path)) == []
    (tmp_path / "nvidia0").touch()
    (one,) = unused_gpu(CONFIG, tmp_path)
    assert one.message == f"this machine has an NVIDIA GPU, but torch {torch.__version__} finds none: {reason}"
    assert list(unused_gpu(DoctorConfig(device="cpu"), tmp_path)) == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert list(unused_gpu(CONFIG, tmp_path)) == []


def test_gpu_that_another_program_uses_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (70 * 2**30, 80 * 2**30))
    (one,) = machine._gpu_memory("cuda")
    assert (one.fails, one.message) == (False, "10.0 GiB of 80.0 GiB of cuda:0 are in use before the run starts")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (79 * 2**30, 80 * 2**30))
    assert list(machine._gpu_memory("cuda")) == []


def test_process_reports_itself_and_missing_data(tmp_path: Path) -> None:
    before = Finding("launcher", "a message", "a fix")
    missing = tmp_path / "pictures"
    report = examine_process(DoctorConfig(data=str(missing), device="cpu", seed=7), [before])
    assert [(one.check, one.message, one.ranks) for one in report.findings] == [
        ("launcher", "a message", (0,)),
        ("data", f"--data {missing} does not exist here", (0,)),
    ]
    assert (report.rank, report.device, report.backend, report.gpus) == (0, "cpu", None, 0)
    assert report.options == {"--seed": "7"}
    assert report.versions["torch"] == torch.__version__


def test_data_that_are_there_are_not_found(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    assert examine_process(DoctorConfig(data=str(tmp_path), device="cpu")).findings == ()
    assert examine_process(DoctorConfig(data="digits", device="cpu")).findings == ()


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost"])
def test_meeting_point_that_is_each_host_itself_is_found(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    place = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    for name, value in {**place, "MASTER_ADDR": address, "MASTER_PORT": "29500"}.items():
        monkeypatch.setenv(name, value)
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "lo")
    (one,) = examine_process(DoctorConfig(device="cpu")).findings
    assert one.message == f"MASTER_ADDR={address} is this host itself, where only 1 of 2 processes are"


def test_device_that_is_missing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    report = examine_process(DoctorConfig(device="cuda"))
    assert [(one.check, one.message) for one in report.findings] == [
        ("device", "--device cuda, but torch finds no such device")
    ]
    assert report.device == ""


def test_check_that_hangs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(_: DoctorConfig) -> Iterable[Finding]:
        raise TimeoutError

    checks: dict[str, Callable[[DoctorConfig], Iterable[Finding]]] = {"open files": hang}
    monkeypatch.setattr(machine, "_CHECKS", checks)
    (one,) = examine_process(DoctorConfig(device="cpu", timeout=9)).findings
    assert (one.check, one.message) == ("open files", "this check has not ended within 9 s")


def test_function_for_data_that_does_not_return_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(machine, "check_data", hang)
    (one,) = examine_process(DoctorConfig(device="cpu", timeout=9)).findings
    assert (one.check, one.message) == ("data", "this check has not ended within 9 s")


def test_driver_that_hangs_is_found_and_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(_: DoctorConfig) -> None:
        raise TimeoutError

    monkeypatch.setattr(machine, "_devices", hang)
    monkeypatch.setattr(machine, "_CHECKS", {"unused GPU": pytest.fail})
    report = examine_process(DoctorConfig(timeout=9))
    assert [(one.check, one.message) for one in report.findings] == [("device", "this check has not ended within 9 s")]
    assert (report.device, report.versions) == ("", {})
