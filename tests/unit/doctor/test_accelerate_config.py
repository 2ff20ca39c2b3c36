"""What `accelerate launch` would start with a file is told, and what of it does not work."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from accel_train.config.doctor_options import DoctorConfig
from accel_train.doctor.accelerate_config import default_file, examine_file

ROOT = Path(__file__).parents[3]
CPU = {
    "compute_environment": "LOCAL_MACHINE",
    "distributed_type": "MULTI_GPU",
    "num_machines": 1,
    "num_processes": 2,
    "mixed_precision": "no",
    "use_cpu": True,
}


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)


def examine(folder: Path, values: Any, **options: Any) -> tuple[str, list[str]]:
    file = folder / "launch.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    line, findings = examine_file(file, DoctorConfig(**options))
    assert {finding.check for finding in findings} <= {"accelerate config"}
    return line, [finding.message.replace(str(file), "FILE") for finding in findings]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "accelerate launch starts 2 processes: ddp, cpu, fp32"),
        (
            {"distributed_type": "MULTI_CPU"},
            "accelerate launch starts 1 process, accel_train the other 1: ddp, cpu, fp32",
        ),
        ({"distributed_type": "NO", "num_processes": 1}, "accelerate launch starts 1 process: cpu, fp32"),
        ({"mixed_precision": "bf16"}, "accelerate launch starts 2 processes: ddp, cpu, bf16"),
        (
            {
                "distributed_type": "FSDP",
                "fsdp_config": {"fsdp_version": 2, "fsdp_auto_wrap_policy": "SIZE_BASED_WRAP"},
            },
            "accelerate launch starts 2 processes: fsdp2, cpu, fp32",
        ),
        (
            {"num_machines": 2, "main_process_ip": "10.0.0.1", "main_process_port": 29500, "machine_rank": 0},
            "accelerate launch starts 2 processes on 2 machines: ddp, cpu, fp32",
        ),
    ],
)
def test_what_starts_is_told(tmp_path: Path, changes: dict[str, Any], line: str) -> None:
    assert examine(tmp_path, CPU | changes) == (line, [])


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"use_cpu": False}, "the launcher's configuration says use_cpu: false, but torch finds no GPU"),
        (
            {"dynamo_config": {"dynamo_backend": "INDUCTOR"}},
            "ACCELERATE_DYNAMO_BACKEND=INDUCTOR asks for torch.compile by Accelerate, which is not supported",
        ),
        ({"mixed_precision": "fp16"}, "mixed_precision of the launcher's configuration: fp16 has no effect on cpu"),
        (
            {"distributed_type": "MULTI_CPU", "num_machines": 2, "main_process_ip": "a", "main_process_port": 1},
            "it names 2 machines, but accelerate launch starts one process on each, which know nothing of one another",
        ),
        (
            {"distributed_type": "FSDP", "fsdp_config": {"fsdp_version": 1}},
            "FSDP_VERSION=1 asks for FSDP 1, which is not supported",
        ),
        ({"distributed_type": "DEEPSPEED"}, "it asks for DeepSpeed, which is not supported"),
        ({"num_proceses": 2}, "accelerate launch refuses FILE: The config file at FILE had unknown keys"),
        ({"num_processes": -1}, "accelerate launch refuses FILE: You need to manually pass in `--num_processes`"),
    ],
)
def test_what_does_not_work_is_found(tmp_path: Path, changes: dict[str, Any], found: str) -> None:
    _, (message, *_) = examine(tmp_path, CPU | changes)
    assert message.startswith(found)


def test_option_wins_over_the_file(tmp_path: Path) -> None:
    assert examine(tmp_path, CPU | {"use_cpu": False}, device="cpu")[1] == []


@pytest.mark.parametrize("name", ["cpu", "cpu_2_processes", "fsdp2_cpu_2_processes", "hsdp_cpu_4_processes"])
def test_our_files_for_cpus_work(name: str) -> None:
    _, findings = examine_file(ROOT / "accelerate_configs" / f"{name}.yaml", DoctorConfig())
    assert findings == []


@pytest.mark.parametrize("name", ["ddp", "fsdp2", "hsdp", "gpu", "ddp_2_nodes", "fsdp2_2_nodes"])
def test_our_files_for_gpus_do_not_work_without(name: str) -> None:
    _, (finding, *_) = examine_file(ROOT / "accelerate_configs" / f"{name}.yaml", DoctorConfig())
    assert "but torch finds no GPU" in finding.message


def test_file_of_the_wizard_is_found_if_it_exists(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "default_config.yaml"
    monkeypatch.setattr("accelerate.commands.config.config_args.default_config_file", str(file))
    assert default_file() is None
    file.touch()
    assert default_file() == file


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "- a\n- b\n"])
def test_file_without_values_is_refused_in_plain_words(tmp_path: Path, text: str) -> None:
    file = tmp_path / "launch.yaml"
    file.write_text(text, encoding="utf-8")
    line, (finding,) = examine_file(file, DoctorConfig())
    assert line == "it cannot be used"
    assert finding.message == f"accelerate launch refuses {file}: it has no `key: value` pairs"
