"""What the environment asks is obeyed and printed, or refused before anything starts: never a silent other result."""

import sys
from pathlib import Path

import pytest
from helpers.runner import Ended, Runner, free_port, read_metrics

SMALL = ("--limit", "64", "--epochs", "1", "--model", "mlp", "--batch-size", "8", "--device", "cpu")


def assert_refused(ended: Ended, error: str, hint: str) -> None:
    lines = [line for line in ended.err.splitlines() if "libgomp" not in line and line]
    assert ended.code == 2, ended.err
    assert [line.partition(":")[0] for line in lines] == ["error", "hint"], ended.err
    assert lines[0].startswith(f"error: {error}")
    assert lines[1].startswith(f"hint: {hint}")


REFUSED = [
    (
        {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "4"},
        "ACCELERATE_GRADIENT_ACCUMULATION_STEPS=4 asks for gradient accumulation by Accelerate",
        "use --accumulate 4 instead",
    ),
    (
        {"ACCELERATE_DYNAMO_BACKEND": "INDUCTOR"},
        "ACCELERATE_DYNAMO_BACKEND=INDUCTOR asks for torch.compile by Accelerate",
        "use --compile",
    ),
    ({"ACCELERATE_TORCH_DEVICE": "meta"}, "ACCELERATE_TORCH_DEVICE=meta asks for a device", "use --device instead"),
    ({"ACCELERATE_NEW": "1"}, "ACCELERATE_NEW=1 is not known", "unset ACCELERATE_NEW"),
    ({"LOCAL_RANK": "0"}, "LOCAL_RANK=0 is set without RANK and WORLD_SIZE", "start every process with"),
    ({"RANK": "0"}, "RANK=0 is set without WORLD_SIZE", "start every process with"),
    ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2 must be less than WORLD_SIZE=2", "start every process with"),
    ({"RANK": "one", "WORLD_SIZE": "2"}, "RANK=one is not a whole number", "correct it, or unset RANK"),
    ({"RANK": "0", "WORLD_SIZE": "2"}, "RANK and WORLD_SIZE are set, but MASTER_ADDR is not", "set MASTER_ADDR"),
    (
        {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"},
        "RANK and WORLD_SIZE are set, but MASTER_PORT is not",
        "set MASTER_PORT",
    ),
    ({"MASTER_PORT": "http"}, "MASTER_PORT=http is not a whole number", "correct it, or unset MASTER_PORT"),
    ({"OMP_NUM_THREADS": "many"}, "OMP_NUM_THREADS=many is not a whole number", "correct it, or unset OMP_NUM_"),
    ({"ACCEL_TRAIN_LAUNCHER_PID": "me"}, "ACCEL_TRAIN_LAUNCHER_PID=me is not a whole number", "correct it, or unset"),
    ({"ACCELERATE_MIXED_PRECISION": "half"}, "mixed_precision of the launcher's configuration: half is", "choose no,"),
]


@pytest.mark.parametrize(
    ("environment", "error", "hint"), REFUSED, ids=[",".join(map("=".join, case[0].items())) for case in REFUSED]
)
def test_environment_is_refused_in_two_lines(run: Runner, environment: dict[str, str], error: str, hint: str) -> None:
    assert_refused(run("train", *SMALL, "--exact", "--output", "out", **environment), error, hint)
    assert not (run.folder / "out").exists()


@pytest.mark.parametrize(
    ("environment", "error", "hint"),
    [
        ({"OMP_NUM_THREADS": "x"}, "OMP_NUM_THREADS=x is not a whole number", "correct it"),
        ({"ACCELERATE_DYNAMO_BACKEND": "EAGER"}, "ACCELERATE_DYNAMO_BACKEND=EAGER asks for", "use --compile"),
        (
            {"GLOO_SOCKET_IFNAME": "eth_none"},
            "GLOO_SOCKET_IFNAME=eth_none: this machine has no network interface eth_none",
            "set GLOO_SOCKET_IFNAME to one of ",
        ),
    ],
)
def test_two_processes_refuse_it_once(run: Runner, environment: dict[str, str], error: str, hint: str) -> None:
    assert_refused(run("train", *SMALL, "--output", "out", processes=2, **environment), error, hint)


def test_evaluation_refuses_it(run: Runner) -> None:
    ended = run("evaluate", "nothing", ACCELERATE_DYNAMO_BACKEND="INDUCTOR")
    assert_refused(ended, "ACCELERATE_DYNAMO_BACKEND=INDUCTOR asks for torch.compile", "use --compile")


def test_compiler_that_the_environment_switches_off_is_refused(run: Runner) -> None:
    ended = run("train", *SMALL, "--compile", "--dry-run", TORCHDYNAMO_DISABLE="1")
    assert_refused(ended, "TORCHDYNAMO_DISABLE=1 asks for no compiler", "unset it, or leave out --compile")


@pytest.mark.parametrize(
    ("environment", "threads"),
    [
        ({"RANK": "", "WORLD_SIZE": "", "LOCAL_RANK": "", "MASTER_PORT": ""}, 1),
        ({"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}, 1),
        ({"OMP_NUM_THREADS": "3,2"}, 3),
        ({"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "3"}, 3),
        ({"ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "1", "PMI_SIZE": ""}, 1),
    ],
)
def test_environment_of_one_process_is_obeyed(run: Runner, environment: dict[str, str], threads: int) -> None:
    record = started(run, run("train", *SMALL, "--output", "out", **environment))
    assert (record["world_size"], record["threads"], record["launched_by"]) == (1, threads, "accel_train")


@pytest.mark.parametrize(
    ("environment", "threads"),
    [({"MASTER_PORT": "{port}"}, 1), ({"OMP_NUM_THREADS": "2,1"}, 2), ({"RANK": "", "MASTER_ADDR": "nowhere"}, 1)],
)
def test_environment_of_two_processes_is_obeyed(run: Runner, environment: dict[str, str], threads: int) -> None:
    given = {name: value.format(port=free_port()) for name, value in environment.items()}
    record = started(run, run("train", *SMALL, "--output", "out", processes=2, **given))
    assert (record["world_size"], record["threads"], record["strategy"]) == (2, threads, "DDP")


def started(run: Runner, ended: Ended) -> dict[str, object]:
    assert ended.code == 0, ended.err
    (record,) = read_metrics(run.folder / "out", "run")
    return record


@pytest.mark.parametrize("processes", [1, 2])
def test_empty_number_of_threads_is_none(run: Runner, processes: int) -> None:
    record = started(run, run("train", *SMALL, "--output", "out", processes=processes, OMP_NUM_THREADS=""))
    assert record["threads"] == max(1, int(str(record["cores"])) // processes)


def test_obeyed_variables_are_printed_and_recorded(run: Runner) -> None:
    ended = run(
        *("train", *SMALL, "--output", "out", "--verbose"),
        ACCELERATE_MIXED_PRECISION="BF16",
        CUDA_VISIBLE_DEVICES="",
        forked=False,
    )
    record = started(run, ended)
    obeyed = ["ACCELERATE_MIXED_PRECISION=BF16", "OMP_NUM_THREADS=1", "CUDA_VISIBLE_DEVICES="]
    assert (record["environment"], record["precision"]) == (obeyed, "bf16")
    assert "environment    " + ", ".join(obeyed) in ended.out.splitlines()


@pytest.mark.slow
def test_exact_run_does_not_depend_on_the_cores_of_the_machine(run: Runner) -> None:
    """With OMP_NUM_THREADS unset, one process once computed the data's mean with as many threads as cores."""
    for processes, name in ((1, "one"), (2, "two")):
        size = ("--batch-size", "32", "--global-batch-size", "64", "--epochs", "1", "--model", "mlp", "--device", "cpu")
        words = ("train", *size, "--exact", "--precision", "fp64", "--output", name)
        ended = run(*words, processes=processes, forked=False, OMP_NUM_THREADS="")
        assert ended.code == 0, ended.err
    one, two = ((run.folder / name / "model.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two


THREADS_BY_OPTION = """
import torch, accel_train, sys
config = accel_train.TrainConfig(
    data="digits", model="mlp", epochs=1, limit=64, batch_size=8, threads=2, device="cpu", output="out", report=False
)
list(accel_train.train(config))
"""


def test_option_wins_where_accelerate_would_choose_the_threads(run: Runner) -> None:
    record = started(run, run.script("-c", THREADS_BY_OPTION, processes=2, OMP_NUM_THREADS=""))
    assert (record["world_size"], record["threads"]) == (2, 2)


FROM_PYTHON = """
import os, torch, accel_train, accel_train.errors
def train(output, **more):
    config = accel_train.TrainConfig(
        data="digits", model="mlp", epochs=1, limit=64, batch_size=8, device="cpu", output=output, report=False, **more
    )
    return [event.val_accuracy for event in accel_train.train(config) if event.kind == "end"]
torch.set_num_threads(3)
before = dict(os.environ)
first = train('out', threads=2, exact=True)
assert accel_train.evaluate("out").images
assert torch.get_num_threads() == 3
assert not torch.are_deterministic_algorithms_enabled()
assert dict(os.environ) == before
os.environ["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"] = "4"
try:
    train('refused')
except accel_train.errors.UserError as error:
    print(error)
del os.environ["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"]
assert train('again', threads=2, exact=True) == first
"""


def test_run_from_python_leaves_no_trace_and_refuses_too(run: Runner) -> None:
    ended = run.script("-c", FROM_PYTHON, processes=1)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("ACCELERATE_GRADIENT_ACCUMULATION_STEPS=4 asks for gradient accumulation")


LAUNCH = (sys.executable, "-m", "accelerate.commands.launch")


def test_option_that_accelerate_drops_is_refused(run: Runner) -> None:
    words = [*LAUNCH, "--cpu", "--gradient_accumulation_steps", "4", "-m", "accel_train", "train", *SMALL]
    ended = run.python([*words, "--output", "out"])
    assert ended.code != 0
    error, hint, *_ = [line for line in ended.err.splitlines() if line.startswith(("error: ", "hint: "))]
    assert error.startswith("error: gradient_accumulation_steps 4 of accelerate launch asks for gradient accumulation")
    assert (
        hint
        == "hint: use --accumulate 4 instead, and remove it from the launcher's configuration, or unset the variable"
    )
    assert not (run.folder / "out").exists()


def test_use_cpu_of_a_file_reaches_the_processes(run: Runner) -> None:
    file = Path(__file__).parents[2] / "accelerate_configs" / "cpu_2_processes.yaml"
    code = "from accel_train.distributed.accelerate_launch import asked_of_accelerate; print(asked_of_accelerate())"
    (run.folder / "read.py").write_text(code)
    ended = run.python([*LAUNCH, "--config_file", file, "read.py"])
    assert ended.out.count("Asked(processes=2, machines=1, use_cpu=True, unheard={})") == 2, ended.err
