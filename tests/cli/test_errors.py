"""A user's mistake gives one error line, one hint line and exit code 2, and writes nothing."""

import errno
import re
from pathlib import Path

import pytest
from helpers.cli import Call, assert_refused, in_process, write_pictures
from helpers.runner import Ended, Runner

from accel_train.cli import app
from accel_train.config.fields import help_of
from accel_train.config.options import TrainConfig

MEANING = "--OPTION: its help"
"""Stands for a hint that is the help of the option."""

READ_BY_TYPER = {
    "--lr 0": ("--lr 0: must be greater than 0", MEANING),
    "--lr -1": ("--lr -1: must be greater than 0", "did you mean 1?"),
    "--lr nan": ("--lr nan: must be finite", MEANING),
    "--lr inf": ("--lr inf: must be finite", MEANING),
    "--lr 1e-3x": ("--lr 1e-3x: must be a number", "did you mean 0.001?"),
    "--batch-size 0": ("--batch-size 0: must be greater than 0", "use --batch-size 1 or more"),
    "--batch-size 2.5": ("--batch-size 2.5: must be a whole number", "did you mean 2?"),
    "--epochs -3": ("--epochs -3: must be greater than 0", "did you mean 3?"),
    "--epochs two": ("--epochs two: must be a whole number", MEANING),
    "--seed -1": ("--seed -1: must be at least 0", "did you mean 1?"),
    "--timeout 2000000": ("--timeout 2000000: must be at most 1,000,000", "use --timeout 1000000 or less"),
    "--val-fraction 1": ("--val-fraction 1: must be less than 1", MEANING),
    "--val-fraction 20": ("--val-fraction 20: must be less than 1", "did you mean 0.2?"),
    "--target-accuracy 95": ("--target-accuracy 95: must be at most 1", "did you mean 0.95?"),
    "--label-smoothing 10": ("--label-smoothing 10: must be less than 1", "did you mean 0.1?"),
    "--label-smoothing 200": ("--label-smoothing 200: must be less than 1", MEANING),
    "--device gpu": ("--device gpu: must be one of auto, cpu, cuda, mps", "did you mean cuda?"),
    "--device CPU": ("--device CPU: must be one of auto, cpu, cuda, mps", "did you mean cpu?"),
    "--optimizer adam": (
        "--optimizer adam: must be one of sgd, adamw, lars, lamb, novograd, muon",
        "did you mean adamw?",
    ),
    "--precision fp8": ("--precision fp8: must be one of fp32, tf32, bf16, fp16, fp64", "did you mean bf16?"),
    "--precision bfloat16": ("--precision bfloat16: must be one of fp32, tf32, bf16, fp16, fp64", "did you mean bf16?"),
    "--schedule onecycle": (
        "--schedule onecycle: must be one of constant, cosine, step, linear",
        "did you mean cosine?",
    ),
    "--strategy fsdp": ("--strategy fsdp: must be one of auto, ddp, fsdp2, hsdp, dp, pipeline", "did you mean fsdp2?"),
    "--strategy DDP": ("--strategy DDP: must be one of auto, ddp, fsdp2, hsdp, dp, pipeline", "did you mean ddp?"),
    "--lr-scaling square-root": ("--lr-scaling square-root: must be one of none, linear, sqrt", "did you mean sqrt?"),
    "--augment heavy": ("--augment heavy: must be one of none, light, standard, strong", "did you mean strong?"),
    "--rand-augment 2,99": (
        "--rand-augment 2,99: must be the number of operations (to 16) and their magnitude (0 to 30), "
        "such as 2,9, or 0",
        MEANING,
    ),
    "--milestones 3,x --schedule step": ("--milestones x: must be a number", MEANING),
    "--epoch 3": ("there is no option --epoch", "did you mean --epochs?"),
    "--epochz 3": ("there is no option --epochz", "did you mean --epochs?"),
    "--batchsize 3": ("there is no option --batchsize", "did you mean --batch-size?"),
    "--BATCH_SIZE 3": ("there is no option --BATCH_SIZE", "did you mean --batch-size?"),
    "--bs 3": ("there is no option --bs", "did you mean --batch-size?"),
    "--learning-rate 0.1": ("there is no option --learning-rate", "did you mean --lr?"),
    "--lr-scheduler step": ("there is no option --lr-scheduler", "did you mean --schedule?"),
    "--lr-max 0.1": ("there is no option --lr-max", "did you mean --max-lr?"),
    "--wd 0.1": ("there is no option --wd", "did you mean --weight-decay?"),
    "--gpus 2": ("there is no option --gpus", "did you mean --processes?"),
    "--num-workers 2": ("there is no option --num-workers", "did you mean --workers?"),
    "--arch resnet18": ("there is no option --arch", "did you mean --model?"),
    "--dataset digits": ("there is no option --dataset", "did you mean --data?"),
    "--pretrained": ("there is no option --pretrained", "did you mean --weights?"),
    "--init-from runs/a": ("there is no option --init-from", "did you mean --weights?"),
    "--warmup 3": ("there is no option --warmup", "did you mean --warmup-from or --warmup-epochs?"),
    "--version": ("--version is no option of accel_train train", "did you mean accel_train --version?"),
    "--frobnicate": ("there is no option --frobnicate", "see accel_train train --help-all"),
    "digits": ("unexpected argument digits", "did you mean --data digits?"),
    "--quiet maybe": ("--quiet maybe is neither true nor false", "write --quiet, --quiet true or --quiet false"),
    "--lr": ("--lr needs a value", MEANING),
    "--milestones 3": ("--milestones needs --schedule step, not cosine", "add --schedule step"),
    "--gamma 0.5": ("--gamma needs --schedule step, not cosine", "add --schedule step"),
    "--schedule step": ("--schedule step has no milestones", "add its epochs, such as --milestones 30,60"),
    "--lr-scaling none --lr-base-batch 256": (
        "--lr-base-batch has no effect with --lr-scaling none",
        "leave --lr-base-batch out, or choose --lr-scaling linear or sqrt",
    ),
    "--warmup-epochs 0 --warmup-from 0.1": (
        "--warmup-from has no effect with --warmup-epochs 0",
        "leave one of them out",
    ),
    "--config nowhere.yaml": (
        "cannot read nowhere.yaml: No such file or directory",
        "give a YAML file that exists, such as config.yaml in a run folder",
    ),
    "--limit 64k": ("--limit 64k: must be a whole number", "did you mean 64000?"),
    "--milestones 3;6 --schedule step": ("--milestones '3;6': must be a number", MEANING),
    "--lr 0.1 --lr-base-batch 64": ("--lr-base-batch has no effect with --lr alone", "add --lr-scaling linear or sqrt"),
    "-lr 0.1": ("there is no option -lr", "did you mean --lr?"),
    "-epochs 3": ("there is no option -epochs", "did you mean --epochs?"),
    "-b 64": ("there is no option -b", "did you mean --batch-size?"),
    "--lr 0,1": ("--lr 0,1: must be a number", "did you mean 0.1?"),
    "--batch-size 1,024": ("--batch-size 1,024: must be a whole number", "did you mean 1024?"),
    "--epochs 10epochs": ("--epochs 10epochs: must be a whole number", "did you mean 10?"),
    "--epochs 1e3": ("--epochs 1e3: must be a whole number", "did you mean 1000?"),
    "--target-accuracy 95%": ("--target-accuracy 95%: must be a number", "did you mean 0.95?"),
    "--target-accuracy 1.5": ("--target-accuracy 1.5: must be at most 1", "use --target-accuracy 1 or less"),
    "--label-smoothing -0.1": ("--label-smoothing -0.1: must be at least 0", "did you mean 0.1?"),
    "--weight-decay -5e-4": ("--weight-decay -5e-4: must be at least 0", "did you mean 0.0005?"),
    "--timeout 5min": ("--timeout 5min: must be a whole number", MEANING),
    "--seed 1.5": ("--seed 1.5: must be a whole number", "did you mean 2?"),
    "--time-limit 3hours": ("--time-limit 3hours: not a duration such as 3h50m, 10min or 90s", "did you mean 3h?"),
    "--time-limit 0": (
        "--time-limit 0: not a duration such as 3h50m, 10min or 90s",
        "write a whole number above 0 and its unit: d, h, min or s",
    ),
    "--save-every 1": (
        "--save-every 1: not an interval such as 1epoch, 500updates or 10min",
        "did you mean 1update or 1epoch?",
    ),
    "--save-every 0epochs": (
        "--save-every 0epochs: an interval must be longer than zero, such as 1epoch, 500updates or 10min",
        "write a whole number above 0 and its unit: epochs, updates, d, h, min or s",
    ),
    "--ema 0.999": (
        "--ema 0.999 is a half-life in images, not a decay",
        "a decay of 0.999 per update of 64 images is --ema 44339",
    ),
    "--keep 0": ("--keep 0: must be greater than 0", "use --keep 1 or more"),
    "--workers two": (
        "--workers two: must be auto or a whole number from 0 to 1,024",
        "leave it out: auto chooses by cores and device",
    ),
    "--workers 4096": (
        "--workers 4096: must be auto or a whole number from 0 to 1,024",
        "leave it out: auto chooses by cores and device",
    ),
    "--image-size 224x224": ("--image-size 224x224: must be a whole number", MEANING),
    "--on-nan skip": ("--on-nan skip: must be one of stop, rollback", "did you mean rollback?"),
    "--device cuda:0": ("--device cuda:0: must be one of auto, cpu, cuda, mps", "did you mean cuda?"),
    "--processes two": ("--processes two: must be a whole number", MEANING),
    "--precision 16": ("--precision 16: must be one of fp32, tf32, bf16, fp16, fp64", "did you mean fp16?"),
    "--optimizer lion": ("--optimizer lion: must be one of sgd, adamw, lars, lamb, novograd, muon", MEANING),
    "--augment no": ("--augment no: must be one of none, light, standard, strong", "did you mean none?"),
    "my.yaml": ("unexpected argument my.yaml", "did you mean --config my.yaml?"),
    "epochs 3": ("unexpected arguments epochs 3", "did you mean --epochs 3?"),
    "lr=0.1": ("unexpected argument lr=0.1", "did you mean --lr 0.1?"),
    "--max-lr 0.1 --lr 0.1": ("--max-lr has no effect with --lr alone", "add --lr-scaling linear or sqrt"),
    "--gamma 2": ("--gamma 2: must be less than 1", MEANING),
    "--exact --compile": ("--exact does not work with --compile yet", "leave one of them out"),
    "--activation-checkpointing --compile": (
        "--activation-checkpointing does not work with --compile yet",
        "leave one of them out",
    ),
    "--global-batch-size 64 --accumulate 2": (
        "--accumulate 2 and --global-batch-size 64 leave the batch size open",
        "add --batch-size, or leave out --accumulate: it follows from the others",
    ),
}
"""Errors found before torch is imported: what is printed after `error:` and `hint:`."""

READ_BY_TORCH = {
    "--data nowhere": (
        "--data nowhere: neither a known data set nor a folder",
        "choose digits, fashion-mnist, mnist, kmnist, cifar10, cifar100, svhn, synthetic, a folder, "
        "hf:NAME or my.module:function",
    ),
    "--data didgits": ("--data didgits: neither a known data set nor a folder", "did you mean digits?"),
    "--data FashionMNIST": (
        "--data FashionMNIST: neither a known data set nor a folder",
        "did you mean fashion-mnist?",
    ),
    "--data fashion_mnist": (
        "--data fashion_mnist: neither a known data set nor a folder",
        "did you mean fashion-mnist?",
    ),
    "--data CIFAR-10": ("--data CIFAR-10: neither a known data set nor a folder", "did you mean cifar10?"),
    "--data synthetic:1,2": (
        "--data synthetic:1,2: invalid sizes",
        "write synthetic:N,C,H,W,K, for example synthetic:1280,3,32,32,10",
    ),
    "--data my.nets:build": (
        "--data my.nets:build: No module named 'my'",
        "make my.nets importable from the current directory, and define build",
    ),
    "--val-fraction 0.5": (
        "--val-fraction has no effect on digits, which has its own validation images",
        "leave it out",
    ),
    "--model resnet19": ("unknown model 'resnet19'", "did you mean resnet18?"),
    "--model Resnet18": ("unknown model 'Resnet18'", "did you mean resnet18?"),
    "--model vit": ("unknown model 'vit'", "did you mean vit_b_16 or vit_b_32 or vit_h_14?"),
    "--model wide-resnet": ("unknown model 'wide-resnet'", "did you mean wide_resnet?"),
    "--model wide_resnet_11_1": (
        "a wide ResNet cannot be 11 layers deep: depth is 6 × blocks + 4",
        "use wide_resnet_10_1 or wide_resnet_16_1",
    ),
    "--model maxvit_t --image-size 32": (
        "maxvit_t does not take images of 32 pixels: 224 is the model's fixed size",
        "give --image-size 224, or leave it out",
    ),
    "--batch-size 1439": (
        "the global batch of 1,439 images is larger than the 1,438 training images",
        "use --batch-size 1438 or less",
    ),
    "--batch-size 500 --accumulate 3": (
        "the global batch of 1,500 images is larger than the 1,438 training images",
        "use --batch-size 479 or less (3 micro-batches per update)",
    ),
    "--global-batch-size 100 --batch-size 64": (
        "--global-batch-size 100 is not a multiple of --batch-size 64",
        "choose a multiple, such as 128",
    ),
    "--global-batch-size 128 --batch-size 64 --accumulate 3": (
        "--accumulate 3 × 1 process × --batch-size 64 is not --global-batch-size 128",
        "leave out --accumulate: it follows from the others (2 per process)",
    ),
    "--warmup-epochs 3 --epochs 3": (
        "--warmup-epochs 3 must be less than the 3 epochs of the run",
        "use --warmup-epochs 0.6, or --epochs 4 or more",
    ),
    "--precision fp16 --device cpu": ("--precision fp16 has no effect on cpu", "use bf16 or fp32"),
    "--precision tf32 --device cpu": ("--precision tf32 has no effect on cpu", "use bf16 or fp32"),
    "--backend nccl --device cpu": (
        "--backend nccl has no effect on a single process",
        "leave it out, or add --processes",
    ),
    "--output full": ("--output full is not empty: file does not belong to a run", "give a new or empty folder"),
    "--output full/file": ("--output full/file is a file", "give a folder"),
    "--output full/file/below": (
        "cannot create the run folder full/file/below: {folder}/full/file is a file",
        "give another --output",
    ),
    "--output /proc/run --epochs 1": (
        "cannot create the run folder /proc/run: No such file or directory",
        "give another --output",
    ),
    "--resume nowhere": ("--resume nowhere is no run and no checkpoint of one", "give auto, never, or one of runs/*"),
    "--weights nowhere": (
        "--weights nowhere: there is no such file or folder, and cnn has no published weights",
        "give a run folder or a file of weights, or a --model of torchvision or timm",
    ),
    "--weights ./nowhere": (
        "--weights ./nowhere: there is no such file or folder",
        "give a run folder or a file of weights",
    ),
    "--device cuda": ("--device cuda, but torch finds no such device", "use --device cpu, or install its driver"),
    "--milestones 99 --schedule step": (
        "--milestones 99 is not within the 20 epochs of the run",
        "use epochs above 0 and below 20, or more --epochs",
    ),
    "--model my.nets:x": (
        "--model my.nets:x: No module named 'my'",
        "make my.nets importable from the current directory, and define x",
    ),
    "--optimizer adamw --lr-scaling sqrt --batch-size 1400": (
        "the sqrt scaling rule cannot take adamw from 256 to 1400 images per update",
        "use at most 1280 images per update, --max-lr 0.008, or --lr-scaling none",
    ),
    "--shard-size 2": ("--shard-size 2 has no effect with --strategy ddp", "leave it out, or add --strategy hsdp"),
    "--strategy hsdp": ("--strategy hsdp needs --shard-size", "add --shard-size 2, the processes per replica"),
    "--strategy hsdp --shard-size 2": (
        "HSDP has no effect on a single process",
        "use --strategy ddp, or add --processes",
    ),
    "--strategy dp --device cpu": (
        "--strategy dp needs two GPUs or more, and this run has 0 GPUs",
        "use DDP: accel_train train --processes 2 …, without --strategy, on GPUs or with --device cpu",
    ),
    "--profile --epochs 1 --limit 64": (
        "--profile needs 20 updates, but the run has 8",
        "add --epochs, or lower the batch size",
    ),
}

BY_ENVIRONMENT = {
    "ACCELERATE_USE_FSDP=true": ("FSDP2 has no effect on a single process", "use --strategy ddp, or add --processes"),
    "ACCELERATE_USE_DEEPSPEED=true": (
        "ACCELERATE_USE_DEEPSPEED=true asks for DeepSpeed, which is not supported",
        "use distributed_type MULTI_GPU (DDP) or FSDP, as in accelerate_configs/",
    ),
    "ACCELERATE_MIXED_PRECISION=fp8": (
        "mixed_precision of the launcher's configuration: fp8 is not supported",
        "choose no, bf16, fp16",
    ),
    "ACCELERATE_MIXED_PRECISION=fp16": (
        "mixed_precision of the launcher's configuration: fp16 has no effect on cpu",
        "use bf16 or fp32",
    ),
}

IN_YAML = {
    "lr: -1": ("--lr -1 in my.yaml: must be greater than 0", "did you mean 1?"),
    "lr: 1e-3x": ("--lr 1e-3x in my.yaml: must be a number", "did you mean 0.001?"),
    "epochs: 2.5": ("--epochs 2.5 in my.yaml: must be a whole number", "did you mean 2?"),
    "optimizer: adam": (
        "--optimizer adam in my.yaml: must be one of sgd, adamw, lars, lamb, novograd, muon",
        "did you mean adamw?",
    ),
    "target_accuracy: 95": ("--target-accuracy 95 in my.yaml: must be at most 1", "did you mean 0.95?"),
    "learning_rate: 1": ("unknown key 'learning_rate' in my.yaml", "did you mean lr?"),
    "Epochs: 1": ("unknown key 'Epochs' in my.yaml", "did you mean epochs?"),
    "milestones: [1, x]\nschedule: step": ("--milestones x in my.yaml: must be a number", MEANING),
    "milestones: [1]": ("--milestones needs --schedule step, not cosine (in my.yaml)", "add --schedule step"),
    "lrr: 1": ("unknown key 'lrr' in my.yaml", "did you mean lr?"),
    "lr-scaling: none": ("unknown key 'lr-scaling' in my.yaml", "did you mean lr_scaling?"),
    "3: 4": ("unknown key 3 in my.yaml", "see accel_train train --help-all"),
    "- lr": ("my.yaml has no `key: value` pairs", "write one `key: value` per line"),
    "lr: [1": (
        "my.yaml is not YAML: line 1: expected ',' or ']', but got '<stream end>'",
        "write one `key: value` per line",
    ),
}


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return in_process(tmp_path, monkeypatch, capsys)


def assert_lines(ended: Ended, error: str, hint: str) -> None:
    """Check the two lines of an error, whole."""
    option = error.split(maxsplit=1)[0]
    if hint == MEANING:
        hint = f"{option}: {help_of(TrainConfig, option[2:].replace('-', '_'))}"
    assert ended.err == f"error: {error}\nhint: {hint}\n"
    assert ended.code == 2
    assert all(line.startswith("accel_train ") for line in ended.out.splitlines())  # the first line of a run


@pytest.mark.parametrize("options", READ_BY_TYPER)
def test_wrong_option_is_rejected(call: Call, tmp_path: Path, options: str) -> None:
    assert_lines(call("train", *options.split()), *READ_BY_TYPER[options])
    assert list(tmp_path.iterdir()) == []


def test_file_whose_name_begins_with_a_dash_is_named_by_its_path(call: Call, tmp_path: Path) -> None:
    (tmp_path / "-my picture.png").touch()
    ended = call("predict", "run", "-my picture.png")
    assert_lines(ended, "there is no option -my picture.png", "if the file is meant, write './-my picture.png'")


@pytest.mark.parametrize("options", READ_BY_TORCH)
def test_option_that_data_model_or_folder_contradicts_is_rejected(call: Call, tmp_path: Path, options: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()

    ended = call("train", *(() if "--device" in options else ("--device", "cpu")), *options.split())

    error, hint = READ_BY_TORCH[options]
    assert_lines(ended, error.replace("{folder}", str(tmp_path)), hint)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "full"]


def test_wrong_inputs_name_value_limit_and_fix() -> None:
    """At least sixty of them; each hint says what to do, or what the option means."""
    tables = READ_BY_TYPER | READ_BY_TORCH | BY_ENVIRONMENT | IN_YAML
    verbs = "add|choose|did you mean|give|leave|make|see|use|write|a decay of"
    assert len(tables) > 60
    assert [hint for _, hint in tables.values() if hint != MEANING and not re.match(verbs, hint)] == []


@pytest.mark.parametrize("setting", BY_ENVIRONMENT)
def test_unsupported_launcher_setting_is_rejected(call: Call, tmp_path: Path, setting: str) -> None:
    variable, _, value = setting.partition("=")
    assert_lines(call("train", "--device", "cpu", **{variable: value}), *BY_ENVIRONMENT[setting])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", IN_YAML)
def test_error_in_a_config_names_the_file(call: Call, tmp_path: Path, text: str) -> None:
    (tmp_path / "my.yaml").write_text(text)
    assert_lines(call("train", "--config", "my.yaml"), *IN_YAML[text])


def test_files_and_folders_are_taken_for_values_of_options(call: Call, tmp_path: Path) -> None:
    (tmp_path / "my photos").mkdir()
    assert_lines(call("train", "my photos"), "unexpected argument my photos", "did you mean --data 'my photos'?")
    assert_lines(
        call("evaluate", "my", "run"),
        "unexpected argument run",
        "give one RUN, and quote a name that contains spaces",
    )


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
        (["predcit"], ("there is no command predcit", "did you mean predict?")),
        (["infer"], ("there is no command infer", "did you mean predict?")),
        (["classify"], ("there is no command classify", "did you mean predict?")),
        (["val"], ("there is no command val", "did you mean evaluate?")),
        (["--epochs", "3"], ("there is no option --epochs", "did you mean accel_train train --epochs?")),
        (["--versoin"], ("--versoin", "did you mean --version?")),
        (["evaluate"], ("RUN is missing", "RUN: Folder of a run.")),
        (["pack", "a", "b", "--side", "x"], ("--side x: must be a whole number", "--side: Shorter side")),
        (["evaluate", "nowhere"], ("nowhere is not the folder of a run",)),
        (
            ["evaluate", "nowhere", "--weights", "worst"],
            ("--weights worst: must be one of last, best", "--weights: Weights of the last epoch"),
        ),
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
    ended = run("train", "--global-batch-size", "64", "--batch-size", "64", processes=2)

    assert ended.code == 2
    assert_refused(
        ended,
        "2 processes cannot share one micro-batch of 64 (--global-batch-size 64)",
        "use --batch-size 32, or 1 process",
    )
    assert not (run.folder / "runs").exists()


USERS_MODELS = """
from torch import nn
def broken(classes): raise ValueError("boom")
class Net(nn.Linear):
    def __init__(self, classes): super().__init__(64, classes)
    def forward(self, images): raise ValueError("boom")
def too_many(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 70))
def too_narrow(classes): return nn.Sequential(nn.Flatten(), nn.Linear(63, classes))
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_error_in_a_users_model_is_told_to_be_there(run: Runner, processes: int) -> None:
    (run.folder / "nets.py").write_text(USERS_MODELS)
    hint = "mend your code; accel_train --debug … prints the traceback"

    when_built = run("train", "--model", "nets:broken", "--device", "cpu", processes=processes)
    assert when_built.code == 2
    assert_refused(when_built, "--model nets:broken: ValueError: boom", hint)

    when_called = run("train", "--model", "nets:Net", "--device", "cpu", processes=processes)
    assert when_called.code == 2
    assert when_called.err.splitlines()[-2:] == [
        "error: nets.py, line 6, in forward: ValueError: boom",
        f"hint: {hint}",
    ]
    assert when_called.err.count("boom") == 1


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        ("too_many", "the model returns torch.float32 of 64 × 70 for 64 images and 10 classes"),
        ("too_narrow", "--model nets:too_narrow, in Linear: RuntimeError: "),
    ],
)
def test_users_model_for_other_classes_or_images_is_rejected(run: Runner, function: str, problem: str) -> None:
    (run.folder / "nets.py").write_text(USERS_MODELS)
    ended = run("train", "--model", f"nets:{function}", "--device", "cpu", "--batch-size", "64")
    assert ended.code == 2
    error, hint = ended.err.splitlines()[-2:]
    assert error.startswith(f"error: {problem}")
    assert hint.startswith("hint: ")


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


@pytest.mark.parametrize(
    ("words", "again"),
    [
        (["--debug", "train"], "start the same command again: a run resumes from its last checkpoint"),
        (["predict", "train"], "start the same command again"),
        (["pack"], "start the same command again"),
    ],
)
def test_full_disk_of_a_command_that_is_no_run_speaks_of_none(
    words: list[str], again: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["accel_train", *words])
    assert app._explain(OSError(errno.EROFS, "", "/nowhere/file")) == 2
    assert capsys.readouterr().err.endswith(f"\nhint: make / usable, then {again}\n")
