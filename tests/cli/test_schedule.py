"""`schedule` draws the learning rate of a run that `train` would start, without torch if it can."""

import sys

from helpers.cli import assert_refused, write_pictures
from helpers.runner import Runner, read_metrics
from PIL import Image

NO_TORCH = "import sys\nsys.modules['torch'] = None\nfrom accel_train.cli.app import main\nmain()"


def test_schedule_is_drawn_without_torch(run: Runner) -> None:
    words = ("--data", "imagenet", "--images", "1281167", "--global-batch-size", "8192", "--batch-size", "32")
    words += ("--lr", "0.1", "--lr-scaling", "linear", "--epochs", "90", "--warmup-epochs", "5", "--png", "rate.png")
    ended = run.program([sys.executable, "-c", NO_TORCH, "schedule", *words])
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == "imagenet, resnet18, sgd, 8,192 images per update"
    assert "scaling        0.1 × 8,192 / 256 = 3.2, linear (--lr-scaling)" in lines
    chart = lines[lines.index("learning rate by update") + 1 :]
    assert chart[0].startswith("      3.2 |    ooo")
    assert chart[11].startswith("4.491e-08 |o ")
    assert chart[12].split() == ["1", "14040"]
    assert lines[-2] == "plot: rate.png"
    assert lines[-1].startswith("next: accel_train train --data imagenet --epochs 90 ")
    with Image.open(run.folder / "rate.png") as plot:
        assert plot.width > 100


def test_rates_are_those_that_train_logs(run: Runner) -> None:
    options = ("--limit", "300", "--batch-size", "64", "--epochs", "3", "--optimizer", "lamb", "--processes", "2")
    ended = run("schedule", *options)
    assert ended.code == 0, ended.err
    words = ended.out.splitlines()[-1].removeprefix("next: accel_train ").split()
    trained = run(*words, "--device", "cpu", "--log-every", "1", "--output", "out")
    assert trained.code == 0, trained.err
    (started,) = read_metrics(run.folder / "out", "run")
    rates = [record["lr"] for record in read_metrics(run.folder / "out", "progress")]
    assert f"peak           {started['peak_lr']:.4g}\n" in ended.out
    assert f"last update    {rates[-1]:.4g}\n" in ended.out
    assert f"updates        {len(rates)}: 2 in each epoch, 44 of 300 images dropped in each\n" in ended.out

    resumed = run("schedule", "--resume", "out", "--epochs", "5")
    assert "base rate      0.016 (from the run), for 256 images per update (from the run)\n" in resumed.out
    assert "epochs         5 (--epochs)\n" in resumed.out


def test_images_of_a_folder_are_counted(run: Runner) -> None:
    write_pictures(run.folder / "photos", {"train/a": 5, "train/b": 5, "val/a": 2, "val/b": 2})
    ended = run("schedule", "--data", "photos", "--epochs", "2", "--batch-size", "4")
    assert ended.code == 0, ended.err
    assert ended.out.startswith("photos, resnet18, sgd, 4 images per update\n")
    assert "updates        4: 2 in each epoch, 2 of 10 images dropped in each\n" in ended.out


def test_bad_input_is_refused(run: Runner) -> None:
    error, hint = "--png no/rate.png: there is no folder no", "make it, or give another --png"
    assert_refused(run("schedule", "--png", "no/rate.png"), error, hint)
    error = "--milestones 9 is not within the 3 epochs of the run"
    words = ("--epochs", "3", "--schedule", "step", "--milestones", "9")
    assert_refused(run("schedule", *words), error, "use epochs above 0 and below 3, or more --epochs")
    error, hint = "--val-fraction has no effect on digits, which has its own validation images", "leave it out"
    assert_refused(run("schedule", "--data", "digits", "--val-fraction", "0.5"), error, hint)
    hint = "give a folder that exists, from"
    refused = run("schedule", "--data", "no/pictures")
    assert_refused(refused, "--data no/pictures: neither a known data set nor a folder", hint)
    assert refused.err.rstrip().endswith("; or add --images: schedule needs no data")


def test_next_command_names_the_data_that_a_recipe_lacks(run: Runner) -> None:
    ended = run("schedule", "--recipe", "imagenet_1hour", "--images", "1281167")
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[-1] == "next: accel_train train --recipe imagenet_1hour --data DIR"


def test_weights_that_are_not_there_are_refused(run: Runner) -> None:
    ended = run("schedule", "--images", "1000", "--model", "resnet18", "--weights", "nowhere.pt")
    assert_refused(ended, "--weights nowhere.pt: there is no such file or folder", "choose DEFAULT")
