"""The command line and file of `accelerate launch` say what its processes are not told."""

import os
from pathlib import Path

import psutil
import pytest

from accel_train.distributed.accelerate_launch import Asked, asked_of_accelerate, check_unheard
from accel_train.distributed.launcher import processes_to_start
from accel_train.errors import UserError

BY_ACCELERATE = {"ACCELERATE_MIXED_PRECISION": "no", "ACCELERATE_DYNAMO_MODE": "default"}


class Parent:
    """Stands in for `accelerate launch`: only its command line is read."""

    words: tuple[str, ...] = ()
    between: tuple[str, ...] = ()
    """Command line of our launcher, if it has started this process."""

    def __init__(self, number: int) -> None:
        self._is_parent = number == os.getppid()

    def ppid(self) -> int:
        return os.getppid() + 1

    def cmdline(self) -> list[str]:
        return ["python", *(self.between if self._is_parent and self.between else self.words)]


@pytest.fixture(autouse=True)
def parent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(psutil, "Process", Parent)
    monkeypatch.setattr(Parent, "between", ())
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "ACCEL_TRAIN_LAUNCHER_PID"):
        monkeypatch.delenv(name, raising=False)


def start(monkeypatch: pytest.MonkeyPatch, *words: str, **variables: str) -> None:
    monkeypatch.setattr(Parent, "words", words)
    for name, value in (BY_ACCELERATE | variables).items():
        monkeypatch.setenv(name, value)


def write(folder: Path, text: str) -> str:
    file = folder / "file.yaml"
    file.write_text(f"compute_environment: LOCAL_MACHINE\n{text}\n", encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("words", "stored", "count"),
    [
        (("accelerate", "launch", "--cpu", "--num_processes", "2", "-m", "accel_train"), "", 2),
        (("/bin/accelerate-launch", "--cpu", "--num_processes", "2", "accel_train", "launch"), "", 2),
        (("-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2", "accel_train"), "", 2),
        (("-m", "accelerate.commands.accelerate_cli", "launch", "--cpu", "--num_processes", "2", "x"), "", 2),
        (("accelerate", "launch", "--config_file", "FILE", "accel_train"), "num_processes: 4\nnum_machines: 1", 4),
        (("accelerate", "launch", "--config_file", "FILE", "--num_processes", "2", "x"), "num_processes: 4", 2),
    ],
)
def test_options_of_accelerate_override_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...], stored: str, count: int
) -> None:
    file = write(tmp_path, f"distributed_type: MULTI_CPU\nuse_cpu: true\n{stored}")
    start(monkeypatch, *(file if word == "FILE" else word for word in words), MASTER_PORT="29500")
    assert processes_to_start(None) == count
    assert processes_to_start(count) == count
    with pytest.raises(UserError, match=f"--processes 7, but accelerate launch was asked for {count}"):
        processes_to_start(7)


def test_cpu_processes_on_several_machines_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    start(monkeypatch, "accelerate", "launch", "--num_machines", "2", "--num_processes", "4", "x", MASTER_PORT="1")
    with pytest.raises(UserError, match="several machines only through MPI"):
        processes_to_start(None)


def test_several_processes_that_another_program_has_hidden_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    start(monkeypatch, "bash", "launch", "--num_processes", "2", MASTER_PORT="29500")
    with pytest.raises(UserError, match="accelerate launch was asked for several processes, and started one"):
        processes_to_start(None)


@pytest.mark.parametrize(
    ("text", "options", "use_cpu"),
    [
        ("use_cpu: true", (), True),
        ("use_cpu: false", (), False),
        ("use_cpu: false", ("--cpu",), True),
        ("num_processes: 2", (), None),
        (None, (), None),
        (None, ("--cpu",), True),
        (None, ("--multi_gpu", "--num_processes", "2"), None),
    ],
)
def test_file_says_whether_a_gpu_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None, options: tuple[str, ...], use_cpu: bool | None
) -> None:
    file = ("--config_file", write(tmp_path, text)) if text else ()
    start(monkeypatch, "accelerate", "launch", *file, *options, "x")
    monkeypatch.setattr("accelerate.commands.config.config_args.default_config_file", str(tmp_path / "none"))
    asked = asked_of_accelerate()
    assert asked
    assert asked.use_cpu is use_cpu


def test_default_file_of_the_wizard_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("accelerate.commands.config.config_args.default_config_file", write(tmp_path, "use_cpu: false"))
    start(monkeypatch, "accelerate", "launch", "x")
    asked = asked_of_accelerate()
    assert asked
    assert asked.use_cpu is False


def test_process_of_our_launcher_finds_accelerate_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    start(monkeypatch, "accelerate", "launch", "--cpu", "x", ACCEL_TRAIN_LAUNCHER_PID="1")
    monkeypatch.setattr(Parent, "between", ("-m", "accel_train", "train"))
    asked = asked_of_accelerate()
    assert asked
    assert asked.use_cpu is True


def test_other_programs_ask_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    start(monkeypatch, "torchrun", "launch", "x")
    assert asked_of_accelerate() is None
    for name in BY_ACCELERATE:
        monkeypatch.delenv(name)
    monkeypatch.setattr(Parent, "words", ("accelerate", "launch", "--cpu", "x"))
    assert asked_of_accelerate() is None
    check_unheard(None)


@pytest.mark.parametrize(
    ("options", "text", "message", "hint"),
    [
        (
            ("--gradient_accumulation_steps", "4"),
            "",
            "gradient_accumulation_steps 4 of accelerate launch asks for gradient accumulation by Accelerate",
            "use --accumulate 4 instead, and remove it from the launcher's configuration, or unset the variable",
        ),
        (
            (),
            "deepspeed_config:\n  gradient_accumulation_steps: 2",
            "gradient_accumulation_steps 2 of accelerate launch asks for gradient accumulation by Accelerate",
            "use --accumulate 2 instead, and remove it from the launcher's configuration, or unset the variable",
        ),
        (
            ("--gradient_clipping", "0.5"),
            "",
            "gradient_clipping 0.5 of accelerate launch asks for clipping by Accelerate",
            "use --clip-norm 0.5 instead, and remove it from the launcher's configuration, or unset the variable",
        ),
        (("--zero_stage", "3"), "", "zero_stage 3 of accelerate launch has no effect", "remove it"),
        (("--fsdp_offload_params", "true"), "", "fsdp_offload_params true of accelerate launch has no", "remove it"),
        ((), "fsdp_config:\n  fsdp_version: 2", "fsdp_version 2 of accelerate launch has no effect", "remove it"),
        (("--megatron_lm_tp_degree", "2"), "", "megatron_lm_tp_degree 2 of accelerate launch has", "remove it"),
        (("--parallelism_config_tp_size", "2"), "", "parallelism_config_tp_size 2 of accelerate", "remove it"),
        ((), "enable_cpu_affinity: true", "enable_cpu_affinity True of accelerate launch asks for CPU", "set enable_"),
        (("--downcast_bf16",), "", "downcast_bf16 True of accelerate launch asks for bf16 on TPUs", "remove it"),
    ],
)
def test_option_without_effect_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: tuple[str, ...], text: str, message: str, hint: str
) -> None:
    start(monkeypatch, "accelerate", "launch", "--config_file", write(tmp_path, text), *options, "x")
    with pytest.raises(UserError) as refused:
        check_unheard(asked_of_accelerate())
    assert refused.value.message.startswith(message)
    assert refused.value.hint.startswith(hint)


def test_file_of_the_wizard_that_asks_for_nothing_is_accepted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = write(tmp_path, "downcast_bf16: 'no'\nenable_cpu_affinity: false\ndeepspeed_config: {}\nfsdp_config: {}")
    start(monkeypatch, "accelerate", "launch", "--config_file", file, "x")
    check_unheard(asked_of_accelerate())


def test_options_that_ask_for_nothing_are_accepted() -> None:
    check_unheard(Asked(1, 1, None, {"gradient_accumulation_steps": 1, "gradient_clipping": None}))


def test_settings_of_fsdp_are_heard_if_accelerate_passes_them_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = write(tmp_path, "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2")
    start(monkeypatch, "accelerate", "launch", "--config_file", file, "x", ACCELERATE_USE_FSDP="true")
    check_unheard(asked_of_accelerate())
