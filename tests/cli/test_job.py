"""`accel_train job` prints a job file, or refuses what would fail on the cluster before anything is printed."""

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest
from helpers.cli import Call, assert_refused, in_process
from helpers.runner import Runner

KUBERNETES = ("kubernetes", "--image", "image:1", "--claim", "work")
SAGEMAKER = ("sagemaker", "--image", "image:1", "--instance-type", "ml.g5.xlarge", "--checkpoints", "s3://bucket/runs")
HF = ("hf", "--image", "image:1", "--flavor", "l4x4", "--bucket", "me/runs")
TARGETS = {"slurm": ("slurm",), "kubernetes": KUBERNETES, "sagemaker": SAGEMAKER, "hf": HF}


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return in_process(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("target", TARGETS)
def test_file_is_printed_and_the_next_command_is_named(call: Call, target: str) -> None:
    ended = call("job", *TARGETS[target], "--", "--epochs", "3", "--quiet")
    assert ended.code == 0, ended.err
    assert f"accel_train job {' '.join(TARGETS[target])} -- --epochs 3 --quiet\n" in ended.out
    assert ended.err.startswith("next: write it to a file (> job.")
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("target", TARGETS)
def test_mistyped_option_of_train_is_refused_before_anything_is_printed(call: Call, target: str) -> None:
    ended = call("job", *TARGETS[target], "--", "--epochz", "3")
    assert (ended.code, ended.out) == (2, "")
    assert_refused(ended, "there is no option --epochz", "did you mean --epochs?")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--", "--batch-size", "0"), ("--batch-size 0: must be greater than 0",)),
        (("--", "--exact", "--compile"), ("--exact does not work with --compile yet",)),
        (("--", "--config", "missing.yaml"), ("cannot read missing.yaml",)),
        (("--", "--processes", "7"), ("--processes 7, but", "leave it out")),
        (("--", "train", "--epochs", "3"), ("unexpected train after --",)),
        (("--epochs", "3"), ("--epochs is an option of train, not of accel_train job", "after --")),
        (("--job-nmae", "x"), ("there is no option --job-nmae", "did you mean --job-name?")),
    ],
    ids=["value", "conflict", "file", "processes", "command", "place", "own"],
)
def test_mistake_is_refused(call: Call, words: tuple[str, ...], problem: tuple[str, ...]) -> None:
    assert_refused(call("job", "slurm", *words), *problem)


def test_batch_that_the_processes_cannot_share_is_refused(call: Call) -> None:
    words = ("--nodes", "3", "--gpus-per-node", "8", "--", "--global-batch-size", "512", "--batch-size", "32")
    assert_refused(call("job", "slurm", *words), "24 processes cannot share 16 micro-batches of 32")


@pytest.mark.parametrize(
    ("train", "problem"),
    [
        (("--data", "pictures", "--global-batch-size", "100"), "8 processes cannot share 2 micro-batches of 50"),
        (("--global-batch-size", "4096"), "the global batch of 4,096 images is larger than the 1,438 training images"),
        (("--epochs", "5", "--warmup-epochs", "7"), "--warmup-epochs 7 must be less than the 5 epochs of the run"),
        (("--recipe", "imagenet_1hour"), "the data of recipe imagenet_1hour are not in the package"),
    ],
    ids=["share", "images", "warmup", "recipe"],
)
def test_plan_that_the_run_would_refuse_is_refused(call: Call, train: tuple[str, ...], problem: str) -> None:
    assert_refused(call("job", "slurm", "--gpus-per-node", "8", "--", *train), problem)


def test_plan_that_depends_on_the_images_is_left_to_the_run(call: Call) -> None:
    words = ("--data", "pictures", "--model", "resnet18", "--weights", "DEFAULT", "--warmup-epochs", "7")
    assert call("job", "slurm", "--", *words, "--batch-size", "8").code == 0


DP, PIPELINE = ("--strategy", "dp"), ("--strategy", "pipeline", "--pipeline-stages")
HSDP = ("--strategy", "hsdp", "--shard-size", "3")


@pytest.mark.parametrize(
    ("job", "train", "problem"),
    [
        (("--gpus-per-node", "2"), (*PIPELINE, "3"), ("--pipeline-stages 3 must divide the 2 processes",)),
        (("--nodes", "2"), DP, ("--strategy dp is for one process, and 2 were started",)),
        ((), DP, ("--strategy dp needs two GPUs or more, and the job has 1 GPU",)),
        ((), HSDP, ("HSDP has no effect on a single process", "ask for more GPUs, or leave it out")),
        ((), HSDP[2:], ("--shard-size 3 has no effect with --strategy ddp",)),
        ((), ("--device", "cpu"), ("--device cpu, but the job has 1 GPU on each machine", "--gpus-per-node 0")),
        (("--gpus-per-node", "0"), ("--device", "cuda"), ("--device cuda, but the job has no GPU",)),
    ],
    ids=["stages", "dp", "dp alone", "hsdp", "option", "cpu", "cuda"],
)
def test_strategy_or_device_that_the_job_cannot_have_is_refused(
    call: Call, job: tuple[str, ...], train: tuple[str, ...], problem: tuple[str, ...]
) -> None:
    assert_refused(call("job", "slurm", *job, "--", *train), *problem)


def test_flavor_of_unknown_hardware_is_noted(call: Call) -> None:
    ended = call("job", *HF[:4], "weird", *HF[5:])
    assert ended.code == 0
    assert ended.err.startswith("note: flavor weird is not known here: the job gets one process, for one GPU; ")
    assert "\nnext: " in ended.err


def test_job_with_gpus_never_trains_on_cpus_instead(call: Call) -> None:
    assert "\nsrun accel_train train --epochs 3 --device cuda\n" in call("job", "slurm", "--", "--epochs", "3").out
    assert "\nsrun accel_train train --device cpu\n" in call("job", "slurm", "--gpus-per-node", "0").out
    assert "\nsrun accel_train train --device auto\n" in call("job", "slurm", "--", "--device", "auto").out


def test_sagemaker_decides_the_run_folder(call: Call) -> None:
    assert_refused(call("job", *SAGEMAKER, "--", "--output", "out"), "--output has no effect on SageMaker")


def test_config_file_becomes_options_where_it_is_not_there(call: Call, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("epochs: 7\nexact: true\n")
    words = ("--", "--config", "run.yaml", "--epochs", "8")
    assert "\nsrun accel_train train --config run.yaml --epochs 8 --device cuda\n" in call("job", "slurm", *words).out
    printed = call("job", *KUBERNETES, *words).out
    assert '"--epochs=8"' in printed
    assert '"--exact"' in printed
    assert "--config" not in printed.splitlines()[-1]


def test_help_of_train_is_shown_after_the_dashes(call: Call) -> None:
    ended = call("job", "slurm", "--", "--help")
    assert ended.code == 0
    assert "accel_train train" in ended.out
    assert "#SBATCH" not in ended.out


def test_name_with_a_line_break_stays_in_its_comment(call: Call) -> None:
    printed = call("job", "slurm", "--", "--data", "a\nreboot").out
    assert [line for line in printed.splitlines() if line.startswith("reboot")] == [
        "reboot' --device cuda"
    ]  # quoted, after srun


STUBS = """
srun() {{ echo "srun $*"; return {code}; }}
scontrol() {{ echo "scontrol $*"; }}
"""


@pytest.mark.parametrize(
    ("code", "restarts", "requeues"),
    [(138, "", True), (138, "99", True), (138, "100", False), (0, "", False), (143, "", False)],
)
def test_slurm_script_queues_itself_again_only_at_its_time_limit(
    call: Call, code: int, restarts: str, requeues: bool
) -> None:
    script = STUBS.format(code=code) + call("job", "slurm", "--", "--data", "two words; $(x)").out
    ended = subprocess.run(
        ["bash", "-c", script],
        env={"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": restarts, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (code, "")
    assert ended.stdout.splitlines() == [
        "srun accel_train train --data two words; $(x) --device cuda",
        *(["scontrol requeue 7"] * requeues),
    ]


def test_hugging_face_reads_the_command_as_it_is_meant(call: Call, run: Runner) -> None:
    printed = call("job", *HF, "--", "--data", "hf:beans", "--timeout", "60", "--seed", "1", "--json").out
    (run.folder / "job.sh").write_text(printed.replace("--detach", "--dry-run"))
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))
    ended = run.program(["bash", "job.sh"], PATH=path, HF_HUB_OFFLINE="1", NO_COLOR="1")
    assert ended.code == 0, ended.err
    shown = dict(line.strip().split(maxsplit=1) for line in ended.out.splitlines() if line.startswith("  "))
    ours = "--processes 4 --device cuda --output runs/accel-train --time-limit 86280s"
    given = "--data hf:beans --seed 1 --timeout 60 --json"
    assert shown["command"] == f"sh -c 'cd /work && exec accel_train train {ours} {given}'"
    assert {name: shown[name] for name in ("image", "flavor", "timeout", "attempts", "volumes")} == {
        **{"image": "image:1", "flavor": "l4x4", "timeout": "86400s", "attempts": "3"},
        "volumes": "hf://buckets/me/runs:/work",
    }
