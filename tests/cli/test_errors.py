"""A user's mistake gives one error line, one hint line and exit code 2, and writes nothing."""

from pathlib import Path

import pytest
from helpers.cli import Call, assert_refused, in_process, write_pictures
from helpers.runner import Runner

READ_BY_TYPER = {
    "--lr 0": ("--lr 0: must be greater than 0", "--lr: Peak learning rate"),
    "--lr -1": ("--lr -1: must be greater than 0",),
    "--lr nan": ("--lr nan: must be finite",),
    "--lr inf": ("--lr inf: must be finite",),
    "--lr 1e-3x": ("--lr 1e-3x: must be a number",),
    "--batch-size 0": ("--batch-size 0: must be greater than 0",),
    "--batch-size 2.5": ("--batch-size 2.5: must be a whole number",),
    "--epochs -3": ("--epochs -3: must be greater than 0",),
    "--epochs two": ("--epochs two: must be a whole number", "--epochs: Passes over the training data"),
    "--seed -1": ("--seed -1: must be at least 0",),
    "--timeout 2000000": ("--timeout 2000000: must be at most 1,000,000",),
    "--val-fraction 1": ("--val-fraction 1: must be less than 1",),
    "--val-fraction 20": ("--val-fraction 20: must be less than 1", "did you mean 0.2?"),
    "--target-accuracy 95": ("--target-accuracy 95: must be at most 1", "did you mean 0.95?"),
    "--label-smoothing 10": ("--label-smoothing 10: must be less than 1", "did you mean 0.1?"),
    "--label-smoothing 200": ("--label-smoothing 200: must be less than 1", "--label-smoothing: "),
    "--device gpu": ("--device gpu: must be one of auto, cpu, cuda, mps", "did you mean cuda?"),
    "--device CPU": ("--device CPU", "did you mean cpu?"),
    "--optimizer adam": ("--optimizer adam: must be one of sgd, adamw", "did you mean adamw?"),
    "--precision fp8": ("--precision fp8", "choose one of fp32, tf32, bf16, fp16, fp64"),
    "--precision bfloat16": ("--precision bfloat16", "did you mean bf16?"),
    "--schedule onecycle": ("--schedule onecycle", "choose one of"),
    "--strategy fsdp": ("--strategy fsdp", "did you mean fsdp2?"),
    "--strategy DDP": ("--strategy DDP", "did you mean ddp?"),
    "--lr-scaling square-root": ("--lr-scaling square-root", "did you mean sqrt?"),
    "--augment heavy": ("--augment heavy", "choose one of none, light, standard"),
    "--milestones 3,x --schedule step": ("--milestones x: must be a number",),
    "--epoch 3": ("there is no option --epoch", "did you mean --epochs?"),
    "--epochz 3": ("there is no option --epochz", "did you mean --epochs?"),
    "--batchsize 3": ("there is no option --batchsize", "did you mean --batch-size?"),
    "--BATCH_SIZE 3": ("there is no option --BATCH_SIZE", "did you mean --batch-size?"),
    "--bs 3": ("there is no option --bs", "did you mean --batch-size?"),
    "--learning-rate 0.1": ("there is no option --learning-rate", "did you mean --lr?"),
    "--lr-scheduler step": ("there is no option --lr-scheduler", "did you mean --schedule?"),
    "--wd 0.1": ("there is no option --wd", "did you mean --weight-decay?"),
    "--gpus 2": ("there is no option --gpus", "did you mean --processes?"),
    "--num-workers 2": ("there is no option --num-workers", "did you mean --workers?"),
    "--arch resnet18": ("there is no option --arch", "did you mean --model?"),
    "--dataset digits": ("there is no option --dataset", "did you mean --data?"),
    "--pretrained": ("there is no option --pretrained", "did you mean --init-from?"),
    "--warmup 3": ("there is no option --warmup", "did you mean --warmup-from or --warmup-epochs?"),
    "--version": ("--version is no option of accel_train train", "did you mean accel_train --version?"),
    "--frobnicate": ("there is no option --frobnicate", "see accel_train train --help-all"),
    "digits": ("unexpected extra argument", "digits"),
    "--quiet maybe": ("--quiet maybe", "neither true nor false"),
    "--lr": ("--lr needs a value", "--lr: Peak learning rate"),
    "--milestones 3": ("--milestones has no effect", "--schedule step"),
    "--gamma 0.5": ("--gamma has no effect", "--schedule step"),
    "--schedule step": ("no milestones", "--milestones 30,60"),
    "--lr-scaling none --lr-base-batch 256": ("--lr-base-batch has no effect",),
    "--warmup-epochs 0 --warmup-from 0.1": ("--warmup-from has no effect",),
    "--config nowhere.yaml": ("nowhere.yaml", "No such file"),
}
"""Errors found before torch is imported."""

READ_BY_TORCH = {
    "--data nowhere": ("--data nowhere", "digits"),
    "--data didgits": ("--data didgits", "did you mean digits?"),
    "--data FashionMNIST": ("--data FashionMNIST", "did you mean fashion-mnist?"),
    "--data fashion_mnist": ("--data fashion_mnist", "did you mean fashion-mnist?"),
    "--data CIFAR-10": ("--data CIFAR-10", "did you mean cifar10?"),
    "--data synthetic:1,2": ("synthetic:1,2", "synthetic:N,C,H,W,K"),
    "--data my.nets:build": ("my.nets:build", "importable"),
    "--val-fraction 0.5": ("--val-fraction has no effect", "digits"),
    "--model resnet19": ("resnet19", "resnet18"),
    "--model Resnet18": ("Resnet18", "did you mean resnet18?"),
    "--model vit": ("vit", "did you mean vit_b_16 or vit_b_32 or vit_h_14?"),
    "--model wide-resnet": ("wide-resnet", "did you mean wide_resnet?"),
    "--model wide_resnet_11_1": ("11 layers", "10 or 16"),
    "--model vit_b_16 --image-size 32": ("vit_b_16", "--image-size 224"),
    "--batch-size 1439": ("1,439 images", "1,438 training images"),
    "--batch-size 500 --accumulate 3": ("1,500 images", "1,438"),
    "--global-batch-size 100 --batch-size 64": ("100 is not a multiple of --batch-size 64", "128"),
    "--global-batch-size 128 --batch-size 64 --accumulate 3": ("--accumulate 3", "(2)"),
    "--warmup-epochs 3 --epochs 3": ("--warmup-epochs 3 must be less than --epochs 3", "more epochs"),
    "--optimizer adamw --batch-size 1400": ("--lr-scaling sqrt", "at most 1280"),
    "--precision fp16 --device cpu": ("fp16 has no effect on cpu", "bf16"),
    "--precision tf32 --device cpu": ("tf32 has no effect on cpu", "bf16"),
    "--backend nccl --device cpu": ("--backend nccl", "single process"),
    "--output full": ("--output full is not empty", "new or empty"),
    "--output full/file": ("full/file is a file", "give a folder"),
    "--output full/file/below": ("full/file is a file", "--output"),
    "--output /proc/run --epochs 1": ("/proc/run", "--output"),
}

BY_ENVIRONMENT = {
    "ACCELERATE_USE_FSDP=true": ("FSDP2", "single process"),
    "ACCELERATE_USE_DEEPSPEED=true": ("DeepSpeed", "MULTI_GPU"),
    "ACCELERATE_MIXED_PRECISION=fp8": ("fp8", "bf16"),
    "ACCELERATE_MIXED_PRECISION=fp16": ("mixed_precision of the launcher's configuration: fp16", "bf16"),
}

IN_YAML = {
    "lr: -1": ("--lr -1 in my.yaml",),
    "lr: 1e-3x": ("--lr 1e-3x in my.yaml",),
    "epochs: 2.5": ("--epochs 2.5 in my.yaml: must be a whole number",),
    "optimizer: adam": ("--optimizer adam in my.yaml", "did you mean adamw?"),
    "target_accuracy: 95": ("--target-accuracy 95 in my.yaml", "did you mean 0.95?"),
    "learning_rate: 1": ("'learning_rate' in my.yaml", "did you mean lr?"),
    "Epochs: 1": ("'Epochs' in my.yaml", "did you mean epochs?"),
    "milestones: [1, x]\nschedule: step": ("--milestones x in my.yaml",),
    "milestones: [1]": ("--milestones has no effect", "my.yaml"),
    "lrr: 1": ("'lrr' in my.yaml", "did you mean lr?"),
    "lr-scaling: none": ("'lr-scaling' in my.yaml", "did you mean lr_scaling?"),
    "3: 4": ("unknown key 3 in my.yaml",),
    "- lr": ("my.yaml has no",),
    "lr: [1": ("my.yaml is not YAML",),
}


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return in_process(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("options", READ_BY_TYPER)
def test_wrong_option_is_rejected(call: Call, tmp_path: Path, options: str) -> None:
    ended = call("train", *options.split())

    assert ended.code == 2
    assert_refused(ended, *READ_BY_TYPER[options])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", READ_BY_TORCH)
def test_option_that_data_model_or_folder_contradicts_is_rejected(call: Call, tmp_path: Path, options: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()

    ended = call("train", "--device", "cpu", *options.split())

    assert ended.code == 2
    assert_refused(ended, *READ_BY_TORCH[options])
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "full"]


@pytest.mark.parametrize("setting", BY_ENVIRONMENT)
def test_unsupported_launcher_setting_is_rejected(call: Call, tmp_path: Path, setting: str) -> None:
    variable, _, value = setting.partition("=")

    ended = call("train", "--device", "cpu", **{variable: value})

    assert ended.code == 2
    assert_refused(ended, *BY_ENVIRONMENT[setting])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", IN_YAML)
def test_error_in_a_config_names_the_file(call: Call, tmp_path: Path, text: str) -> None:
    (tmp_path / "my.yaml").write_text(text)

    ended = call("train", "--config", "my.yaml")

    assert ended.code == 2
    assert_refused(ended, *IN_YAML[text])


def test_error_of_a_flag_does_not_name_the_config(call: Call, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("lr: 0.1")

    ended = call("train", "--config", "my.yaml", "--lr", "0")

    assert_refused(ended, "--lr 0: ")
    assert "my.yaml" not in ended.err


@pytest.mark.parametrize(
    ("train", "val", "words"),
    [
        ({}, {}, ("train holds no class folders", "CLASS")),
        ({"a": 2}, {"a": 2}, ("only the class folder a",)),
        ({"a": 2, "b_empty": 0}, {"a": 2}, ("train/b_empty", "no pictures")),
        ({"a": 2, "b": 2}, {"a": 2, "stray": 2}, ("the class stray", "train lacks")),
        ({"a": 2, "b": 2}, {}, ("val", "no pictures")),
        ({"a": 2, "b": 2}, None, ("no val/", "split")),
    ],
)
def test_folder_that_is_no_data_set_is_rejected(
    call: Call, tmp_path: Path, train: dict[str, int], val: dict[str, int] | None, words: tuple[str, ...]
) -> None:
    for split, counts in (("train", train), ("val", val)):
        if counts is not None:
            (tmp_path / "pictures" / split).mkdir(parents=True)
            write_pictures(tmp_path / "pictures" / split, counts)

    ended = call("train", "--data", "pictures")

    assert ended.code == 2
    assert_refused(ended, *words)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["trian"], ("there is no command trian", "did you mean train?")),
        (["eval"], ("there is no command eval", "did you mean evaluate?")),
        (["predict"], ("there is no command predict", "the commands are train, evaluate, bench, pack")),
        (["--epochs", "3"], ("there is no option --epochs", "did you mean accel_train train --epochs?")),
        (["--versoin"], ("--versoin", "did you mean --version?")),
        (["evaluate"], ("RUN is missing", "RUN: Folder of a finished run.")),
        (["pack", "a", "b", "--side", "x"], ("--side x: must be a whole number", "--side: Shorter side")),
        (["evaluate", "nowhere"], ("nowhere is not the folder of a run",)),
        (["evaluate", "nowhere", "--weights", "worst"], ("--weights worst", "choose one of last, best")),
        (["train", "--processes", "0"], ("--processes 0",)),
    ],
)
def test_wrong_command_or_argument_is_rejected(call: Call, words: list[str], expected: tuple[str, ...]) -> None:
    ended = call(*words)

    assert ended.code == 2
    assert_refused(ended, *expected)


def test_launcher_with_another_number_of_processes_is_rejected(call: Call) -> None:
    one = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}

    launched = call("train", "--processes", "2", **one)
    half_launched = call("train", MASTER_PORT="29500", ACCELERATE_DYNAMO_MODE="default")

    assert launched.code == half_launched.code == 2
    assert_refused(launched, "--processes 2", "started 1")
    assert_refused(half_launched, "asked for several processes, and started one", "--processes N")


def test_backend_without_support_for_the_device_is_rejected(call: Call) -> None:
    two = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}

    ended = call("train", "--device", "cpu", "--backend", "nccl", **two)

    assert ended.code == 2
    assert_refused(ended, "--backend nccl")  # does not serve cpu, or is not in this torch


def test_started_program_prints_errors_and_exits_with_2(run: Runner) -> None:
    wrong = run("train", "--epochz", "3", forked=False)
    traced = run("--debug", "train", "--lr", "0")
    bare = run(forked=False)

    assert wrong.code == 2
    assert_refused(wrong, "--epochz", "did you mean --epochs?")
    assert traced.code != 0
    assert "Traceback" in traced.err
    assert "make_config" in traced.err
    assert bare.code == 2
    assert "Usage" in bare.out
    assert bare.err == ""
    assert list(run.folder.iterdir()) == []


def test_several_processes_report_an_error_once(run: Runner) -> None:
    ended = run("train", "--global-batch-size", "192", "--batch-size", "64", processes=2)

    assert ended.code == 2
    assert_refused(ended, "2 processes cannot share 3 micro-batches of 64 images", "can be 1, 3")
    assert not (run.folder / "runs").exists()


def test_several_processes_report_an_unreadable_picture_once(run: Runner) -> None:
    pictures = write_pictures(run.folder / "pictures", {"train/a": 2, "train/b": 2, "val/a": 2})
    (pictures / "train" / "a" / "1.png").write_bytes(b"no picture")

    ended = run("train", "--data", "pictures", "--model", "cnn", "--workers", "0", processes=2)

    assert ended.code == 2
    assert_refused(ended, "pictures/train/a/1.png")


@pytest.mark.parametrize(
    ("launcher", "processes", "options", "word"),
    [
        ("accelerate", 1, ("--lr", "0"), "--lr 0"),
        ("accelerate", 2, ("--lr", "0"), "--lr 0"),
        ("torchrun", 2, ("--data", "nowhere"), "--data nowhere"),
    ],
)
def test_launched_processes_report_an_error_once(
    run: Runner, launcher: str, processes: int, options: tuple[str, ...], word: str
) -> None:
    ended = run("train", *options, launcher=launcher, processes=processes)

    assert ended.code == 1  # what launchers make of ours
    ours = [line for line in ended.err.splitlines() if line.startswith(("error:", "hint:"))]
    assert [line.partition(":")[0] for line in ours] == ["error", "hint"], ended.err
    assert word in ours[0]
    assert list(run.folder.glob("runs")) == []
