"""`plan` shows what a run needs, and what it prints starts that run."""

from pathlib import Path

import pytest
import yaml
from helpers.cli import assert_refused
from helpers.runner import Runner

pytestmark = pytest.mark.xdist_group("plan")

DATA = ("--data", "synthetic:4096,3,16,16,10", "--device", "cpu", "--epochs", "2")
SPEED = ("--images-per-second", "20000")
DEEP = ("--model", "wide_resnet_10_1", "--batch-size", "16")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(tmp_path_factory.mktemp("planned"))


def test_strategies_side_by_side(place: Runner) -> None:
    ended = place("plan", *DATA, *DEEP, "--gpus", "4", "--link-gbps", "10", "--gpu-memory", "0.1", *SPEED)
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[0] == "devices        4 CPU processes, fp32"
    assert lines[1] == "data           synthetic:4096,3,16,16,10: 4,096 training images, 10 classes"
    assert lines[2].startswith("model          wide_resnet_10_1, 77,850 parameters, input 3 × 16 × 16, sgd")
    assert "batch          G 64 = n 16 × 4 micro-batches (K), accumulate 1 (A)" in lines
    assert any(line.startswith("base rate      0.2 (default for wide_resnet_10_1 with sgd)") for line in lines)
    start = next(number for number, line in enumerate(lines) if line.startswith("strategy"))
    assert lines[start].split() == [
        "strategy",
        "peak",
        "largest",
        "n",
        "activations",
        "weights",
        "optimizer",
        "sent",
        "link",
        "time",
    ]
    assert lines[start - 2] == "speed          20,000 images/s of one device"
    names = [line.split("  ")[0] for line in lines[start + 1 : start + 9]]
    assert names[::2] == ["ddp", "fsdp2", "hsdp 2", "pipeline 2"]
    assert names[1::2] == [f"{name} + checkpointing" for name in names[::2]]
    assert lines[-2].startswith("take ddp: it takes ")
    assert lines[-1] == "next: add --emit for its command"


def test_record_has_time_and_price(place: Runner) -> None:
    options = ("--gpus", "2", "--images-per-second", "100", "--price", "3", "--strategy", "fsdp2")
    ended = place("plan", *DATA, *DEEP, *options, "--json")
    (record,) = ended.records
    assert (record["global_batch"], record["total_updates"], record["take"]) == (32, 256, "fsdp2")
    ddp = record["strategies"][0]
    seconds = 256 * 16 / 100 + 2 * 819 / (2 * 300)
    assert ddp["seconds"] == pytest.approx(seconds)
    assert ddp["price"] == pytest.approx(seconds * 2 * 3 / 3600)
    assert ddp["devices"][0]["gradients"] == 4 * record["parameters"]
    assert ddp["bytes_sent_per_update"] == 4 * record["parameters"]
    assert ddp["largest_batch_size"] is None


def test_emitted_file_starts_the_run(place: Runner) -> None:
    options = ("--gpus", "2", "--strategy", "fsdp2", "--limit", "64", "--no-report")
    ended = place("plan", *DATA, *DEEP, *options, "--emit")
    assert ended.code == 0, ended.err
    command = ended.out.splitlines()[0].removeprefix("# ").split()
    assert command[:6] == ["accelerate", "launch", "--config_file", "accelerate.yaml", "-m", "accel_train"]
    (place.folder / "accelerate.yaml").write_text(ended.out)
    assert yaml.safe_load(ended.out)["num_processes"] == 2
    dry = place("train", *command[7:], "--processes", "1", "--dry-run")
    assert dry.code == 0, dry.err


def test_nothing_fits(place: Runner) -> None:
    ended = place("plan", *DATA, *DEEP, "--gpu-memory", "0.002")
    assert ended.code == 0
    assert ended.out.splitlines()[-2].startswith("nothing fits: --batch-size 16 needs ")
    step = ended.out.splitlines()[-1].removeprefix("next: give ")
    fitting = place("plan", *DATA, "--model", "wide_resnet_10_1", *step.split(), "--gpu-memory", "0.002")
    assert fitting.out.splitlines()[-2].startswith("take ddp + checkpointing: ")
    refused = place("plan", *DATA, *DEEP, "--gpu-memory", "0.002", "--emit")
    assert_refused(refused, "no strategy can be taken")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--measure", "--images-per-second", "3"), "--measure and --images-per-second contradict each other"),
        (("--price", "2"), "--price has no effect without the speed"),
        (("--emit", "--json"), "--emit and --json contradict each other"),
        (("--weights", "gone.pt"), "--weights gone.pt: there is no such file or folder"),
        (("--strategy", "hsdp", "--gpus", "3"), "--shard-size 2 must divide the 3 processes"),
        (("--gpus", "2", "--processes", "3"), "--processes 3 is not --gpus 2 × --nodes 1"),
        (("--images", "30"), "--classes is missing"),
        (("--model", "resnet19"), "unknown model 'resnet19'"),
        (("--data", "nowhere"), "--data nowhere: neither a known data set nor a folder"),
    ],
    ids=lambda value: value[0].lstrip("-") if isinstance(value, tuple) else "",
)
def test_mistakes_are_refused(place: Runner, options: tuple[str, ...], message: str) -> None:
    assert_refused(place("plan", *options), message)


@pytest.mark.slow
def test_speed_is_measured(place: Runner) -> None:
    ended = place("plan", *DATA, *DEEP, "--measure", "--json")
    assert ended.code == 0, ended.err
    (record,) = ended.records
    assert record["images_per_second"] > 0
    assert record["strategies"][0]["seconds"] > 4096 * 2 / record["images_per_second"]
    assert not list(Path(place.folder).glob("runs"))
