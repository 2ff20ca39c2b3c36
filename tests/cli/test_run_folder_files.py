"""The files of a run are complete, plain and reproducible, and evaluate to the results of the run."""

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import torchvision
import yaml
from helpers.cli import in_process, write_pictures
from helpers.runner import Runner, read_metrics
from torch import nn

pytestmark = pytest.mark.xdist_group("run folder files")  # the tests share runs

DIGITS = ("--epochs", "2", "--device", "cpu")
SAME = ("model.safetensors", "best.safetensors", "config.json")


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Return a runner in a folder with a finished run on the digits, `first`."""
    run = Runner(tmp_path_factory.mktemp("digits"))
    ended = run("train", *DIGITS, "--output", "first")
    assert ended.code == 0, ended.err
    return run


@pytest.fixture(scope="module")
def colours(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Return a runner with a finished run on colours, `out`; val/ lacks the first of three classes."""
    run = Runner(tmp_path_factory.mktemp("colours"))
    write_pictures(run.folder / "pictures" / "train", {"a": 5, "b": 5, "c": 5})
    write_pictures(run.folder / "pictures" / "val", {"b": 4, "c": 4}, shade=2)
    ended = run("train", "--data", "pictures", "--epochs", "5", "--output", "out")
    assert ended.code == 0, ended.err
    return run


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_finished_run_has_these_files(digits: Runner) -> None:
    folder = digits.folder / "first"

    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    checkpoints = [file for file in files if file.startswith("checkpoints/")]
    assert {file.split("/")[1] for file in checkpoints} == {"update_000044"}
    assert [file for file in files if file not in checkpoints] == [
        ".lock",
        "best.safetensors",
        "config.json",
        "config.yaml",
        "log/rank_0.log",
        "metrics.jsonl",
        "model.safetensors",
    ]


@pytest.mark.parametrize("name", ["model.safetensors", "best.safetensors"])
def test_weights_load_into_a_plain_network(digits: Runner, name: str) -> None:
    by_hand = nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(64 * 2 * 2, 128), nn.ReLU(), nn.Linear(128, 10)),
    )

    by_hand.load_state_dict(safetensors.torch.load_file(digits.folder / "first" / name), strict=True)


def test_second_run_and_run_from_config_are_identical(digits: Runner) -> None:
    again = digits("train", *DIGITS, "--output", "again")
    from_config = digits("train", "--config", "first/config.yaml", "--output", "from_config")
    first, second, third = (digits.folder / name for name in ("first", "again", "from_config"))

    assert again.code == from_config.code == 0
    for name in SAME:
        assert (first / name).read_bytes() == (second / name).read_bytes() == (third / name).read_bytes()
    assert [line for line in (first / "config.yaml").read_text().splitlines() if "output:" not in line] == [
        line for line in (second / "config.yaml").read_text().splitlines() if "output:" not in line
    ]
    resolved = [yaml.safe_load((folder / "config.yaml").read_text()) for folder in (first, third)]
    assert resolved[0] == resolved[1]


def test_evaluation_gives_the_results_of_the_run(
    digits: Runner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = in_process(digits.folder, monkeypatch, capsys)("evaluate", "first", "--json", "--device", "cpu")
    two = digits("evaluate", "first", "--json", "--device", "cpu", processes=2)
    last = read_metrics(digits.folder / "first", "epoch")[-1]

    assert one.code == two.code == 0, one.err + two.err
    for ended in (one, two):
        [record] = ended.records
        assert record["kind"] == "evaluation"
        assert record["images"] == 359
        assert record["accuracy"] == last["val_accuracy"]
        assert record["loss"] == pytest.approx(last["val_loss"], abs=1e-6)
        assert record["accuracy"] < record["top5"] <= 1


def test_labels_are_right_if_val_lacks_the_first_class(colours: Runner) -> None:
    epochs = read_metrics(colours.folder / "out", "epoch")

    assert read_json(colours.folder / "out" / "config.json")["classes"] == ["a", "b", "c"]
    assert len(epochs) == 5
    assert epochs[-1]["val_accuracy"] >= 0.9


def test_best_weights_are_evaluated_on_other_data(
    colours: Runner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call = in_process(colours.folder, monkeypatch, capsys)
    write_pictures(colours.folder / "other", {"c": 1, "b": 2})

    [record] = call("evaluate", "out", "--data", "other", "--weights", "best", "--json", "--workers", "0").records
    said = call("evaluate", "out", "--weights", "best", "--workers", "0")

    assert (record["images"], record["weights"], record["data"]) == (3, "best", "other")
    assert record["top5"] == 1.0
    best = [epoch for epoch in read_metrics(colours.folder / "out", "epoch") if epoch["best"]][-1]
    assert said.out.splitlines()[0] == (
        f"out (best) on pictures: 8 images, loss {best['val_loss']:.4f}, accuracy {best['val_accuracy']:.4f}"
    )


def test_weights_load_into_torchvision_resnet(run: Runner) -> None:
    write_pictures(run.folder / "pictures", {f"{split}/{name}": 2 for split in ("train", "val") for name in "ab"})
    flags = ("--model", "resnet18", "--image-size", "64", "--epochs", "1", "--batch-size", "2", "--workers", "0")

    ended = run("train", "--data", "pictures", *flags, "--output", "out")

    assert ended.code == 0, ended.err
    plain = torchvision.models.resnet18(num_classes=2)
    plain.load_state_dict(safetensors.torch.load_file(run.folder / "out" / "model.safetensors"), strict=True)
    assert plain.bn1.num_batches_tracked == 2  # one for each update
    assert (
        "images are enlarged from 32 to 64 pixels, as asked" in read_json(run.folder / "out" / "config.json")["matches"]
    )


def test_single_last_image_does_not_break_batch_norm(run: Runner) -> None:
    write_pictures(run.folder / "pictures", {"train/a": 9, "train/b": 8, "val/a": 5, "val/b": 4})
    flags = ("--model", "resnet18", "--image-size", "32", "--batch-size", "8", "--epochs", "1")

    ended = run("train", "--data", "pictures", *flags, "--output", "out", "--json", "--verbose")

    assert ended.code == 0, ended.err
    started = ended.records[0]
    assert (started["train_images"], started["images_dropped"], started["val_images"]) == (17, 1, 9)
    assert "1 of 17 images (incomplete last batch) per epoch" in ended.err
    right = read_metrics(run.folder / "out", "epoch")[0]["val_accuracy"] * 9
    assert right == pytest.approx(round(right))


def write_fashion(folder: Path, count: int) -> None:
    """Write the four files of Fashion-MNIST, filled with noise."""
    folder.mkdir()
    for split in ("train", "t10k"):
        images = torch.randint(0, 256, (count, 28, 28), dtype=torch.uint8)
        labels = torch.arange(count, dtype=torch.uint8) % 10
        for name, tensor in ((f"{split}-images-idx3-ubyte", images), (f"{split}-labels-idx1-ubyte", labels)):
            header = bytes((0, 0, 8, tensor.ndim)) + b"".join(size.to_bytes(4, "big") for size in tensor.shape)
            (folder / name).write_bytes(header + tensor.numpy().tobytes())


def test_grey_images_train_a_model_for_colours(run: Runner) -> None:
    write_fashion(run.folder / "idx", count=40)
    flags = (
        "--data",
        "fashion-mnist",
        "--data-dir",
        "idx",
        "--batch-size",
        "8",
        "--model",
        "resnet18",
        "--limit",
        "16",
        "--epochs",
        "1",
    )

    ended = run("train", *flags, "--output", "out", "--verbose")

    assert ended.code == 0, ended.err
    config = read_json(run.folder / "out" / "config.json")
    assert (config["channels"], config["data_channels"]) == (3, 1)
    assert "grey images are repeated to 3 channels" in config["matches"]
    assert "grey images are repeated to 3 channels" in ended.out
    assert "16 training and 16 validation images" in ended.out


def test_run_stops_at_its_target_accuracy(run: Runner) -> None:
    ended = run("train", "--epochs", "9", "--target-accuracy", "0.9", "--output", "out")

    assert ended.code == 0, ended.err
    assert "ended          target accuracy 0.9 reached\n" in ended.out
    reached = [epoch["val_accuracy"] >= 0.9 for epoch in read_metrics(run.folder / "out", "epoch")]
    assert 1 < len(reached) < 9
    assert reached == [False] * (len(reached) - 1) + [True]
    [end] = read_metrics(run.folder / "out", "end")
    assert (end["reason"], end["epochs"]) == ("target accuracy 0.9 reached", len(reached))


def test_run_without_improvement_stops(run: Runner) -> None:
    ended = run("train", "--epochs", "9", "--patience", "2", "--lr", "1e-30", "--output", "out")

    assert ended.code == 0, ended.err
    assert "ended          no better epoch for 2\n" in ended.out
    assert [epoch["best"] for epoch in read_metrics(run.folder / "out", "epoch")] == [True, False, False]
    [end] = read_metrics(run.folder / "out", "end")
    assert (end["reason"], end["epochs"], end["best_epoch"]) == ("no better epoch for 2", 3, 1)


def test_evaluation_uses_the_given_threads(run: Runner) -> None:
    (run.folder / "nets.py").write_text(
        "import torch\n"
        "def net(classes):\n"
        "    print('threads:', torch.get_num_threads())\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, classes))\n"
    )
    assert run("train", "--model", "nets:net", "--epochs", "1", "--device", "cpu", "--output", "out").code == 0
    ended = run("evaluate", "out", "--model", "nets:net", "--threads", "2", "--device", "cpu")
    assert "threads: 2\n" in ended.out, ended.out + ended.err
