"""`--resume RUN` alone continues a run with its own configuration, and a finished run keeps what it needs."""

from pathlib import Path

import pytest
import yaml
from helpers.runner import Ended, Runner, read_metrics

pytestmark = pytest.mark.xdist_group("resume")  # the tests share a run

ASKED = ("--model", "mlp", "--limit", "256", "--lr", "0.03", "--seed", "5", "--label-smoothing", "0.1")
BATCH = ("--batch-size", "16", "--global-batch-size", "32")
WORDS = ("train", *ASKED, *BATCH, "--epochs", "2", "--save-every", "2updates", "--log-every", "1", "--device", "cpu")
"""Eight updates an epoch; of the options only --device belongs to the place where it runs."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Return a runner in a folder with a finished run, and one that has ended in its second epoch."""
    run = Runner(tmp_path_factory.mktemp("resume"))
    finished = run(*WORDS, "--output", "finished")
    kept = run(*WORDS, "--output", "kept", "--keep", "9")
    assert (finished.code, kept.code) == (0, 0), finished.err + kept.err
    assert "note: removed 2 checkpoints (" in finished.out
    assert "removed" not in kept.out
    return run


def updates(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("update_")) for path in (folder / "checkpoints").glob("update_*"))


def succeeded(ended: Ended) -> str:
    assert ended.code == 0, ended.err
    return ended.out


def test_finished_run_keeps_its_weights_and_the_last_checkpoint(made: Runner) -> None:
    assert updates(made.folder / "finished") == [16]
    for weights in ("last", "best"):
        assert made("evaluate", "finished", "--weights", weights).code == 0


def test_checkpoints_that_were_asked_for_are_kept(made: Runner) -> None:
    assert updates(made.folder / "kept") == [2, 4, 6, 8, 10, 12, 14, 16]


def test_run_is_continued_with_its_own_configuration(made: Runner) -> None:
    out = succeeded(made("train", "--resume", "kept/checkpoints/update_000010", "--output", "continued"))
    assert "resumed at epoch 2 of 2, update 10\n" in out
    assert "--label-smoothing 0.1" in out
    here, there = (yaml.safe_load((made.folder / name / "config.yaml").read_text()) for name in ("continued", "kept"))
    assert here == there
    assert "lr: 0.03  # from the run\n" in (made.folder / "continued/config.yaml").read_text()
    for name in ("model.safetensors", "best.safetensors"):
        assert (made.folder / "continued" / name).read_bytes() == (made.folder / "finished" / name).read_bytes()


def test_only_what_is_given_is_changed(made: Runner) -> None:
    words = ("--resume", "kept/checkpoints/update_000016", "--output", "longer", "--epochs", "3", "--log-every", "4")
    out = succeeded(made("train", *words))
    folder = made.folder / "longer"
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert (config["epochs"], config["log_every"], config["seed"], config["lr"]) == (3, 4, 5, 0.03)
    rates = {record["update"]: record["lr"] for record in read_metrics(folder, "progress")}
    assert (
        "note: epochs 2 → 3: the cosine schedule is recomputed over 3 epochs: "
        f"the learning rate of update 17 is {plan_lr(out)} (it was {rates[16]:.4g} at the end of the finished run)\n"
    ) in out
    assert updates(folder) == [18, 20, 22, 24]  # of another folder; --keep 9 is the run's


def plan_lr(out: str) -> str:
    return out.partition("learning rate of update 17 is ")[2].partition(" ")[0]


def test_learning_rate_that_is_announced_is_used(made: Runner) -> None:
    words = ("--resume", "kept/checkpoints/update_000016", "--output", "used", "--epochs", "3")
    announced = plan_lr(succeeded(made("train", *words)))
    rates = {record["update"]: record["lr"] for record in read_metrics(made.folder / "used", "progress")}
    assert announced == f"{rates[17]:.4g}"
    assert rates[17] > 3 * rates[16]


def test_finished_run_says_so_and_trains_nothing(made: Runner) -> None:
    before = (made.folder / "finished/model.safetensors").read_bytes()
    out = succeeded(made("train", "--resume", "finished"))
    assert "resumed at epoch 2 of 2, update 16\n" in out
    assert "note: the run is finished: 2 epochs; --epochs 3 or more continues it\n" in out
    assert "\nspeed" not in out
    assert (made.folder / "finished/model.safetensors").read_bytes() == before


def test_run_is_continued_on_two_processes(made: Runner) -> None:
    words = ("train", "--resume", "kept/checkpoints/update_000010", "--output", "pair")
    out = succeeded(made(*words, processes=2))
    assert "batch          16 per process × 2 processes × 1 accumulation = 32 per update" in out
    losses = [
        {record["update"]: record["train_loss"] for record in read_metrics(made.folder / name, "epoch")}
        for name in ("pair", "finished")
    ]
    assert losses[0][16] == pytest.approx(losses[1][16], rel=1e-5)


def test_processes_that_cannot_share_the_batches_get_the_numbers_that_can(made: Runner) -> None:
    ended = made("train", "--resume", "kept", processes=4)
    assert ended.code == 2
    error, hint = ended.err.splitlines()
    assert error.startswith("error: 4 processes cannot share 2 micro-batches of 16")
    assert hint == "hint: a resumed run keeps its batches; give --processes 2 or fewer"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--lr", "0.1"), "kept holds a run of another configuration: --lr 0.1 instead of 0.03"),
        (("--seed", "6", "--lr", "0.03"), "kept holds a run of another configuration: --seed 6 instead of 5"),
        (("--model", "cnn"), "kept holds a run of another configuration: --model cnn instead of mlp"),
        (
            ("--data", "fashion-mnist", "--limit", "256"),
            "kept holds a run of another configuration: --data fashion-mni",
        ),
        (("--epochs", "1"), "--epochs 1 is fewer than the 2 of the run in kept"),
    ],
)
def test_another_configuration_is_refused(made: Runner, words: tuple[str, ...], error: str) -> None:
    ended = made("train", "--resume", "kept", *words)
    assert ended.code == 2
    assert ended.err.startswith(f"error: {error}"), ended.err
    assert ended.err.splitlines()[1].startswith("hint: ")


def test_python_takes_the_configuration_too(made: Runner) -> None:
    program = (
        "import accel_train as a;"
        "run = a.TrainConfig(resume='kept/checkpoints/update_000010', output='python', device='cpu');"
        "[print(e.changed) for e in a.train(run) if type(e).__name__ == 'RunStarted']"
    )
    ended = made.script("-c", program, processes=1)
    assert ended.code == 0, ended.err
    assert {"lr", "seed", "label_smoothing", "device"} <= set(eval(ended.out))
    assert (made.folder / "python/model.safetensors").read_bytes() == (
        made.folder / "finished/model.safetensors"
    ).read_bytes()


def test_checkpoints_are_removed_once_the_weights_are_written(made: Runner) -> None:
    program = (
        "import accel_train as a, pathlib;"
        "config = a.TrainConfig(model='mlp', limit=256, epochs=2, output='left', device='cpu');"
        "notices = (e for e in a.train(config) if type(e).__name__ == 'Notice' and 'removed' in e.text);"
        "next(notices);"
        "print(*sorted(p.name for p in pathlib.Path('left').iterdir()))"
    )
    ended = made.script("-c", program, processes=1)
    assert {"model.safetensors", "best.safetensors"} <= set(succeeded(ended).split())
    assert "\nended          all epochs done\n" in succeeded(made("train", "--resume", "left"))
    assert [record["epochs"] for record in read_metrics(made.folder / "left", "end")] == [2]


def test_command_of_an_interrupted_run_resumes_it_after_other_runs(run: Runner) -> None:
    few = ("train", "--model", "mlp", "--limit", "64", "--batch-size", "16", "--device", "cpu")
    succeeded(run(*few, "--epochs", "2"))
    (run.folder / "runs/digits_mlp_001/model.safetensors").unlink()  # as if it had not finished
    succeeded(run(*few, "--epochs", "1", "--lr", "0.01"))
    assert "\nfiles          runs/digits_mlp_003\n" in succeeded(run(*few, "--epochs", "1"))  # it is longer: another
    resumed = succeeded(run(*few, "--epochs", "3"))
    assert "\nresumed at epoch 3 of 3, update 8\n" in resumed
    assert "\nfiles          runs/digits_mlp_001\n" in resumed
