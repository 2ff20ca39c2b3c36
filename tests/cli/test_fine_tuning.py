"""Fine-tuning on the command line: its defaults with their origins, what a dry run tells, and what is refused."""

from pathlib import Path

import pytest
import yaml
from helpers.runner import Runner

SMALL = ("--model", "mlp", "--limit", "100", "--device", "cpu")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Return a folder with a run whose weights others start from."""
    run = Runner(tmp_path_factory.mktemp("trained"))
    assert run("train", *SMALL, "--epochs", "1", "--output", "base").code == 0
    return run


def test_defaults_and_their_origins_are_stored(trained: Runner) -> None:
    ended = trained("train", *SMALL, "--weights", "base", "--unfreeze-at", "1", "--output", "tuned")
    assert ended.code == 0, ended.err
    text = (trained.folder / "tuned" / "config.yaml").read_text()
    assert yaml.safe_load(text)["epochs"] == 20  # the most: 60,000 images would be 600 epochs
    for line in (
        "freeze: backbone  # because --unfreeze-at was given\n",
        "epochs: 20  # default for digits of 100 images with --weights\n",
        "optimizer: sgd  # default for fine-tuning mlp\n",
        "lr: 0.05  # default for fine-tuning mlp with sgd\n",
        "max_lr: 0.025  # default for fine-tuning mlp with sgd\n",
    ):
        assert line in text


def test_dry_run_tells_what_is_frozen(trained: Runner) -> None:
    ended = trained("train", *SMALL, "--weights", "base", "--freeze", "1", "--dry-run")
    assert ended.code == 0, ended.err
    assert "note: frozen: 1 of 2 layers before the head, up to 1 (16,640 of 85,002 parameters)\n" in ended.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--weights base --freeze all", "--freeze all: must be backbone or a number of layers, from 1"),
        ("--weights base --freeze 3", "--freeze 3: mlp has 2 layers before its head"),
        ("--freeze backbone", "--freeze backbone would keep random weights: no --weights are given"),
        ("--weights base --unfreeze-at 4 --epochs 4", "--unfreeze-at 4 must be less than the 4 epochs of the run"),
        ("--stochastic-depth 0.1", "--stochastic-depth 0.1: mlp has no stochastic depth"),
        ("--batch-norm-momentum 0.4", "--batch-norm-momentum 0.4: mlp has no BatchNorm"),
        ("--zero-init-residual", "--zero-init-residual: mlp has no residual blocks that end in BatchNorm"),
        ("--weights base --zero-init-residual", "--zero-init-residual has no effect with --weights base"),
    ],
)
def test_mistake_is_an_error_with_a_hint(trained: Runner, options: str, message: str) -> None:
    ended = trained("train", *SMALL, *options.split(), "--output", "refused")
    assert ended.code == 2
    assert f"error: {message}\n" in ended.err
    assert "hint: " in ended.err
    assert not Path(trained.folder / "refused").exists()


@pytest.mark.slow
def test_stochastic_depth_changes_training_and_is_the_same_on_two_processes(trained: Runner) -> None:
    small = ("--model", "efficientnet_b0", "--image-size", "16", "--limit", "16", "--epochs", "1", "--exact")
    batch = ("--batch-size", "4", "--global-batch-size", "8", "--device", "cpu")
    written = []
    for number, (processes, probability) in enumerate([(1, "0.5"), (2, "0.5"), (1, "0")]):
        more = ("--stochastic-depth", probability, "--output", str(number))
        ended = trained("train", *small, *batch, *more, processes=processes)
        assert ended.code == 0, ended.err
        written.append((trained.folder / str(number) / "model.safetensors").read_bytes())
    assert written[0] == written[1] != written[2]
