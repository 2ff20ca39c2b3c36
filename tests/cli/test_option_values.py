"""Services pass each option as a name and a value: flags take true and false, names may have underscores."""

from pathlib import Path

import pytest
from helpers.cli import Call, assert_refused, in_process, write_pictures


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return in_process(tmp_path, monkeypatch, capsys)


TINY = ("--data", "synthetic:64,1,8,8,2", "--model", "mlp", "--device", "cpu", "--threads", "1")


def resolved(call: Call, *options: str) -> dict[str, str]:
    """Return the resolved config, as --print-config prints it."""
    ended = call("train", *TINY, "--print-config", *options)
    assert ended.code == 0, ended.err
    lines = (line.partition(":") for line in ended.out.splitlines())
    return {key: value.partition("#")[0].strip() for key, _, value in lines}


@pytest.mark.parametrize(
    ("options", "exact"),
    [
        *((f"--exact {word}", "true") for word in ("true", "True", "TRUE", "1", "yes", "on")),
        *((f"--exact {word}", "false") for word in ("false", "False", "0", "no", "off")),
        ("--exact", "true"),
        ("--no-exact", "false"),
        ("--exact=true", "true"),
        ("--exact=False", "false"),
        ("--no-exact true", "false"),
        ("--no-exact false", "true"),
        ("--exact false --exact", "true"),
        ("--exact true --seed 1", "true"),
        ("--seed 1 --exact", "true"),
    ],
)
def test_flag_takes_a_value(call: Call, options: str, exact: str) -> None:
    assert resolved(call, *options.split())["exact"] == exact


def test_every_option_as_sagemaker_passes_it(call: Call) -> None:
    given = {"batch_size": "16", "global_batch_size": "32", "exact": "True", "lr": "0.5", "quiet": "false"}
    found = resolved(call, *(word for name, value in given.items() for word in (f"--{name}", value)))
    expected = {"batch_size": "16", "global_batch_size": "32", "exact": "true", "lr": "0.5"}
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("options", ["--batch_size=16", "--batch_size 16", "--batch-size 16"])
def test_underscores_are_dashes(call: Call, options: str) -> None:
    assert resolved(call, *options.split())["batch_size"] == "16"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("train --exact maybe", "--exact maybe is neither true nor false"),
        ("train --exact=maybe", "--exact maybe is neither true nor false"),
        ("train --no_exact 2", "--no-exact 2 is neither true nor false"),
        ("train --dry-run tru", "--dry-run tru is neither true nor false"),
        ("train --json=", "--json '' is neither true nor false"),
        ("bench --compile perhaps", "--compile perhaps is neither true nor false"),
        ("evaluate RUN --json=maybe", "--json maybe is neither true nor false"),
        ("train --batch_sie 3", "there is no option --batch_sie"),
    ],
)
def test_other_values_of_flags_are_refused(call: Call, words: str, named: str) -> None:
    ended = call(*words.split())
    assert ended.code == 2
    assert_refused(ended, " ".join(named.split()))


def test_flags_that_are_no_fields_take_values(call: Call) -> None:
    assert "\nrun  " in call("train", *TINY, "--dry-run", "true").out
    assert call("train", *TINY, "--dry-run", "false", "--print_config", "1").out.startswith("#")
    ended = call("train", *TINY, "--help-all", "true")
    assert (ended.code, "--profile" in ended.out) == (0, True)


def test_argument_after_a_flag_stays_an_argument(call: Call, tmp_path: Path) -> None:
    for words in (("--json", "gone"), ("--json", "true", "gone"), ("gone", "--json", "True"), ("--", "gone")):
        ended = call("evaluate", *words)
        assert ended.code == 2
        assert_refused(ended, "gone")
    write_pictures(tmp_path, {"pics/a": 3, "pics/b": 3})
    ended = call("pack", "pics", "packed", "--workers", "1", "--side", "8")
    assert ended.code == 0, ended.err


def test_augment_on_the_command_line_replaces_all_augmentation_of_a_file(call: Call, tmp_path: Path) -> None:
    names = ("augment", "shift", "rotate", "crop_scale", "epochs")
    (tmp_path / "my.yaml").write_text("augment: standard\nshift: 3\nrotate: 10\nepochs: 3\n")
    config = resolved(call, "--config", str(tmp_path / "my.yaml"))
    assert [config[name] for name in names] == ["standard", "3", "10.0", "null", "3"]
    config = resolved(call, "--config", str(tmp_path / "my.yaml"), "--augment", "light", "--crop-scale", "0.5,1")
    assert [config[name] for name in names] == ["light", "0", "0.0", "[0.5, 1.0]", "3"]
    config = resolved(call, "--config", str(tmp_path / "my.yaml"), "--no-random-crop", "--trivial-augment", "true")
    assert [config[name] for name in ("random_crop", "trivial_augment", "rotate")] == ["false", "true", "10.0"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["check", ""], "DATA"),
        (["pack", "photos", ""], "DST"),
        (["pack", "", "packed"], "SRC"),
        (["predict", "run", "a.png", ""], "PATH"),
        (["predict", "run", "--", ""], "PATH"),
        (["evaluate", ""], "RUN"),
        (["compare", "run", ""], "RUN"),
        (["runs", ""], "FOLDER"),
        (["recipes", ""], "NAME"),
        (["report", "run", "--output="], "--output"),
        (["export", "run", "--output", ""], "--output"),
        (["train", "--config", ""], "--config"),
        (["train", "--weights", ""], "--weights"),
        (["train", "--model", ""], "--model"),
        (["preview", "--data_dir", ""], "--data-dir"),
        (["bench", "--png", ""], "--png"),
        (["check", "photos", "--labels", ""], "--labels"),
        (["job", "slurm", "--", "--output", ""], "--output"),
        (["train", ""], "an argument"),
    ],
)
def test_empty_value_is_refused(call: Call, words: list[str], named: str) -> None:
    ended = call(*words)
    assert ended.code == 2
    assert ended.err.startswith(f"error: {named} is empty; is a variable of the shell unset?\n")
    assert_refused(ended)


def test_empty_word_that_is_no_value_is_named(call: Call) -> None:
    for words, named in (
        (("",), "command ''"),
        (("train", "--exact", ""), "--exact ''"),
        (("job", "slurm", "--", ""), "''"),
    ):
        assert_refused(call(*words), named)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("report run --output -", "file"),
        ("preview --output -", "file"),
        ("evaluate run --predictions -", "file"),
        ("replay run --update 1 --show -", "file"),
        ("schedule --png -", "file"),
        ("find-lr --png -", "file"),
        ("compare a b --png -", "file"),
        ("bench --png -", "file"),
        ("export run --output -", "folder"),
        ("train --output -", "folder"),
        ("job slurm -- --output -", "folder"),
        ("pack photos -", "folder"),
    ],
)
def test_file_or_folder_is_not_standard_output(call: Call, tmp_path: Path, words: str, kind: str) -> None:
    ended = call(*words.split())
    assert ended.code == 2
    assert_refused(ended, f" -: a {kind} is written, not standard output", f"the name of a {kind}")
    assert list(tmp_path.iterdir()) == []
