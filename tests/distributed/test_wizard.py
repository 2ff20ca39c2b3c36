"""The file that `accelerate config` writes starts what was answered, or is refused with one error."""

import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.marks import chaos, slow
from helpers.runner import Ended, Runner, read_metrics
from helpers.wizard import Walk, all_walks, walk

NO_GPUS = {"CUDA_VISIBLE_DEVICES": ""}
SMALL = ("--epochs", "1", "--limit", "64", "--batch-size", "16", "--model", "mlp")
SINGLE, MULTI_CPU, MULTI_GPU, TPU = "0", "1", "4", "10"
"""Rows of the wizard's menu of machines."""
OTHER_DEVICES = ("2", "3", "5", "6", "7", "8", "9")

# Python 3.12 warns of any fork next to a thread; the child runs another program at once.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


def launch(run: Runner, file: Path, *flags: str) -> Ended:
    words = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(file), "-m", "accel_train"]
    return run.python([*words, "train", *SMALL, *flags, "--no-report", "--output", "out"], **NO_GPUS)


def errors(ended: Ended) -> list[str]:
    """Return our lines on stderr: `accelerate launch` adds a traceback."""
    return [line for line in ended.err.splitlines() if line.startswith(("error: ", "hint: "))]


@pytest.mark.parametrize(
    ("answers", "flags", "obtained"),
    [
        slow({"of machine": SINGLE, "on CPU only": "yes"}, (), (1, "auto", None, "single process")),
        ({"of machine": MULTI_CPU, "How many processes": "2"}, (), (2, "auto", "gloo", "DDP")),
        slow({"of machine": MULTI_GPU, "How many GPU": "2"}, ("--device", "cpu"), (2, "cpu", "gloo", "DDP")),
        slow(
            {"of machine": MULTI_GPU, "How many GPU": "2", "FullySharded": "yes"},
            ("--device", "cpu"),
            (2, "cpu", "gloo", "FSDP2"),
        ),
    ],
    ids=["one CPU process", "multi-CPU", "multi-GPU on CPUs", "FSDP on CPUs"],
)
def test_config_of_the_wizard_starts_what_was_answered(
    run: Runner, answers: dict[str, str], flags: tuple[str, ...], obtained: tuple[int, str, str | None, str]
) -> None:
    file = run.folder / "wizard.yaml"
    made = walk(file, answers)
    assert all(any(key in question.text for question in made.questions) for key in answers), "never asked"
    ended = launch(run, file, *flags)
    assert ended.code == 0, ended.err
    (record,) = read_metrics(run.folder / "out", "run")
    assert tuple(record[name] for name in ("world_size", "device_asked", "backend", "strategy")) == obtained
    assert (record["device"], record["precision"]) == ("cpu", "fp32")


@pytest.mark.parametrize(
    ("answers", "error", "hint"),
    [
        slow(
            {"of machine": SINGLE},
            "the launcher's configuration says use_cpu: false, but torch finds no GPU",
            "set use_cpu: true in it, or add --device cpu",
        ),
        (
            {"of machine": SINGLE, "on CPU only": "yes", "torch dynamo": "yes"},
            "ACCELERATE_DYNAMO_BACKEND=INDUCTOR asks for torch.compile by Accelerate, which is not supported",
            "use --compile, and remove dynamo_config from the launcher's configuration",
        ),
        slow(
            {"of machine": MULTI_CPU, "How many processes": "2", "different machines": "2", "IP": "::1", "port": "1"},
            "accelerate launch starts CPU processes on several machines only through MPI",
            "start it as `accel_train train --processes N`, or with accelerate's --multi_gpu and --num_processes N",
        ),
    ],
    ids=["GPU", "dynamo", "several machines"],
)
def test_unsupported_answer_is_one_error(run: Runner, answers: dict[str, str], error: str, hint: str) -> None:
    file = run.folder / "wizard.yaml"
    walk(file, answers)
    ended = launch(run, file, "--exact")
    assert ended.code != 0
    assert errors(ended) == [f"error: {error}", f"hint: {hint}"], ended.err
    assert not (run.folder / "out").exists()


@pytest.mark.slow
def test_answer_that_asks_for_deepspeed_is_one_error(run: Runner) -> None:
    """Wizard and launcher need the package, but read only its version and one name."""
    for name, text in {
        "deepspeed/__init__.py": '__version__ = "0.18.0"\n',
        "deepspeed/launcher/runner.py": 'DEEPSPEED_ENVIRONMENT_NAME = ".deepspeed_env"\n',
        "deepspeed-0.18.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: deepspeed\nVersion: 0.18.0\n",
    }.items():
        (run.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (run.folder / name).write_text(text)
    file, found = run.folder / "wizard.yaml", {"PYTHONPATH": str(run.folder)}
    made = walk(file, {"of machine": MULTI_GPU, "How many GPU": "2", "DeepSpeed?": "yes"}, **found)
    assert made.code == 0, made
    assert yaml.safe_load(file.read_text())["distributed_type"] == "DEEPSPEED"
    ended = run.program(
        [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(file), "-m", "accel_train", "train"],
        **NO_GPUS,
        **found,
    )
    assert ended.code != 0
    assert errors(ended) == [
        "error: ACCELERATE_USE_DEEPSPEED=true asks for DeepSpeed, which is not supported",
        "hint: use distributed_type MULTI_GPU (DDP) or FSDP, as in accelerate_configs/",
    ], ended.err


HOME = {"compute environment": "0", "should be used for distributed training": "2"}
FSDP, MEGATRON = "FullyShardedDataParallel", "Megatron-LM"
OF_ALL = ("torch dynamo", "mixed precision", "checked while running", "numa", "DeepSpeed")
"""Questions that are asked with and without FSDP and Megatron-LM."""
CUSTOM_DYNAMO = "customize the defaults sent to torch.compile"


@pytest.mark.parametrize(
    ("answers", "known", "fewest"),
    [
        chaos({"of machine": SINGLE}, (), 16),
        chaos({"of machine": MULTI_CPU}, (CUSTOM_DYNAMO,), 9),
        chaos({"of machine": MULTI_GPU}, (CUSTOM_DYNAMO, FSDP, MEGATRON), 9),
        chaos({"of machine": MULTI_GPU, FSDP: "yes"}, OF_ALL, 12),
        chaos({"of machine": MULTI_GPU, FSDP: "yes", "FSDP version": "0"}, OF_ALL, 12),
        chaos({"of machine": MULTI_GPU, MEGATRON: "yes"}, OF_ALL, 6),
    ],
    ids=["single", "multi-CPU", "multi-GPU", "FSDP 2", "FSDP 1", "Megatron-LM"],
)
def test_every_path_of_the_wizard_runs_as_answered_or_is_refused(
    run: Runner, answers: dict[str, str], known: Collection[str], fewest: int
) -> None:
    walks = [made for made, file in all_walks(run.folder, HOME | answers, known) if check(run, made, file)]
    assert len(walks) >= fewest, "the wizard asks less than accelerate 1.15"


@pytest.mark.parametrize("machine", [slow(OTHER_DEVICES[0]), *map(chaos, (TPU, *OTHER_DEVICES[1:]))])
def test_other_devices_run_as_answered_or_are_refused(run: Runner, machine: str) -> None:
    file = run.folder / "wizard.yaml"
    assert check(run, walk(file, HOME | {"of machine": machine}), file)


@pytest.mark.chaos
def test_sagemaker_starts_nothing_here(run: Runner) -> None:
    for made, file in all_walks(run.folder, {"compute environment": "1"}, known=(CUSTOM_DYNAMO,)):
        assert check(run, made, file)


def check(run: Runner, made: Walk, file: Path) -> bool:
    """Check that the file of a walk runs what it says on CPUs, or is refused; return True."""
    if not file.exists():
        assert made.code, made  # the wizard has refused the answers
        return True
    stored = yaml.safe_load(file.read_text(encoding="utf-8"))
    ended = launch(run, file, "--device", "cpu", "--dry-run")
    rows = [line for line in ended.out.splitlines() if line.startswith(("devices ", "strategy ", "precision "))]
    assert "report it" not in ended.err, made
    if stored["compute_environment"] != "LOCAL_MACHINE" or stored.get("mpirun_config"):
        assert ended.code or len(rows) == 3, made  # accelerate or mpirun may not start it
    elif unsupported(stored):
        assert (ended.code != 0, rows) == (True, []), made
        started = stored["distributed_type"] != "XLA"  # accelerate itself wants torch_xla
        assert [line.partition(":")[0] for line in errors(ended)] == ["error", "hint"] * started, (made, ended.err)
    else:
        processes = stored["num_processes"]
        strategy = "single process" if processes == 1 else "FSDP2" if stored["distributed_type"] == "FSDP" else "DDP"
        assert ended.code == 0, (made, ended.err)
        assert rows[0].split()[1] == str(processes), made
        assert rows[1].split(maxsplit=1)[1].startswith(strategy), made
        assert rows[2].split()[1] == {"no": "fp32"}.get(stored["mixed_precision"], stored["mixed_precision"]), made
    return True


SIZES = ("dp_replicate", "dp_shard", "tp", "cp")


def unsupported(stored: Mapping[str, Any]) -> bool:
    """Return whether a file of the wizard asks for what does not run on CPUs, or at all."""
    fsdp = stored.get("fsdp_config", {})
    sizes = {name: stored.get("parallelism_config", {}).get(f"parallelism_config_{name}_size", 1) for name in SIZES}
    return bool(
        stored["distributed_type"] in ("DEEPSPEED", "MEGATRON_LM", "XLA")
        or stored["mixed_precision"] in ("fp16", "fp8")
        or stored.get("dynamo_config")
        or max(sizes["tp"], sizes["cp"]) > 1
        or sizes["dp_replicate"] * sizes["dp_shard"] not in (1, stored["num_processes"])
        or stored["debug"]
        or stored["enable_cpu_affinity"]
        or fsdp.get("fsdp_version") == 1
        or fsdp.get("fsdp_offload_params")
        or fsdp.get("fsdp_activation_checkpointing")
    )
