"""The configuration on the page, and the commands that work as they are copied."""

from dataclasses import replace
from pathlib import Path

from helpers.reports import metrics

from accel_train.history.config_file import Setting
from accel_train.history.run import RunHistory
from accel_train.report.settings import commands, next_commands, options


def history(**config: object) -> RunHistory:
    found = metrics(1)
    started = {**found.started, "config": config}
    return RunHistory(Path("my runs/1"), replace(found, started=started), has_weights=True)


def test_options_that_were_given_or_follow_from_the_data_come_first() -> None:
    found = options(
        {
            "lr": Setting(0.05, "default for cnn"),
            "milestones": Setting([30.0, 60.0], "my.yaml"),
            "exact": Setting(True, "flag"),
            "seed": Setting(0, "default"),
            "timeout": Setting(600, "default, in other/config.yaml"),
            "flip": Setting(0.5, "--augment light for digits"),
            "ema": Setting(None, "default"),
        }
    )
    assert [(option.name, option.value, option.origin) for option in found.chosen] == [
        ("--lr", "0.05", "default for cnn"),
        ("--milestones", "30,60", "my.yaml"),
        ("--exact", "true", "flag"),
    ]
    assert [option.name for option in found.others] == ["--seed", "--timeout", "--flip"]


def test_commands_are_quoted_and_name_the_users_own_model() -> None:
    assert commands(history(), None) == [("On any hardware", "accel_train train --config 'my runs/1/config.yaml'")]
    plain = dict(next_commands(history(model="timm:resnet50")))
    assert plain["Classify new pictures"] == "accel_train predict 'my runs/1' PICTURES"
    own = dict(next_commands(history(model="my.nets:build")))
    assert own["Evaluate on other data"] == "accel_train evaluate 'my runs/1' --model my.nets:build --data FOLDER"
    assert own["Compare it with another run"] == "accel_train compare 'my runs/1' OTHER_RUN"
