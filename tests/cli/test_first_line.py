"""One line is printed before torch is imported, and once however many processes there are."""

import sys

import pytest
from helpers.cli import write_pictures
from helpers.runner import Ended, Runner

from accel_train import __version__

FAKE_TORCH = """
import sys
print("torch is imported", file=sys.stderr)
sys.exit(3)
"""


@pytest.fixture
def without_torch(run: Runner) -> Runner:
    """Return a runner for programs that end when they import torch."""
    (run.folder / "torch").mkdir()
    (run.folder / "torch" / "__init__.py").write_text(FAKE_TORCH, encoding="utf-8")
    return run


def accel_train(run: Runner, *words: str, **environment: str) -> Ended:
    return run.program([sys.executable, "-P", "-m", "accel_train", *words], PYTHONPATH=str(run.folder), **environment)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "training on digits"),
        (("--data", "fashion-mnist", "--output", "my runs/1"), "training on fashion-mnist in my runs/1"),
        (("--processes", "2"), "training on digits with 2 processes"),
        (("--data", "bad\x1bname"), r"training on bad\x1bname"),
        (("--dry-run",), "training on digits"),
    ],
)
def test_first_line_comes_before_torch(without_torch: Runner, words: tuple[str, ...], line: str) -> None:
    ended = accel_train(without_torch, "train", *words)
    assert ended.out == f"accel_train {__version__}: {line}; importing torch …\n"
    assert "torch is imported" in ended.err


def test_named_run_to_resume_is_in_the_first_line(run: Runner) -> None:
    words = ("--data", "synthetic:16,1,8,8,2", "--model", "mlp", "--epochs", "1", "--device", "cpu")
    assert run("train", *words, "--output", "out").code == 0
    ended = run("train", *words, "--resume", "out")
    assert ended.out.splitlines()[0] == f"accel_train {__version__}: resuming out; importing torch …"


@pytest.mark.parametrize("words", [("--quiet",), ("--print-config",)])
def test_first_line_is_left_out(without_torch: Runner, words: tuple[str, ...]) -> None:
    ended = accel_train(without_torch, "train", *words)
    assert (ended.out, ended.err) == ("", "torch is imported\n")


def test_first_line_is_no_json(without_torch: Runner) -> None:
    ended = accel_train(without_torch, "train", "--json")
    assert ended.out == ""
    assert ended.err.splitlines() == [
        f"accel_train {__version__}: training on digits; importing torch …",
        "torch is imported",
    ]


@pytest.mark.parametrize(("rank", "lines"), [("0", 1), ("1", 0)])
def test_only_rank_0_of_another_launcher_prints_it(without_torch: Runner, rank: str, lines: int) -> None:
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    ended = accel_train(without_torch, "train", **place)
    line = f"accel_train {__version__}: training on digits with 2 processes; importing torch …"
    assert ended.out.splitlines() == [line] * lines


def test_refused_option_comes_without_it(without_torch: Runner) -> None:
    ended = accel_train(without_torch, "train", "--epochs", "0")
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("error: ")


def test_result_of_evaluate_stays_alone_in_a_pipe(run: Runner) -> None:
    write_pictures(run.folder / "photos", {f"{split}/{name}": 2 for split in ("train", "val") for name in "ab"})
    words = ("--data", "photos", "--model", "cnn", "--epochs", "1", "--workers", "0", "--device", "cpu")
    assert run("train", *words, "--output", "out").code == 0
    ended = run("evaluate", "out", "--device", "cpu")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("out (last) on photos: 4 images, loss ")


def test_full_disk_of_the_output_does_not_end_the_command(without_torch: Runner) -> None:
    command = f"env -u PYTHONUNBUFFERED {sys.executable} -P -m accel_train train >/dev/full; echo $?"
    ended = without_torch.program(["sh", "-c", command], PYTHONPATH=str(without_torch.folder))
    assert ended.out == "3\n"  # it got as far as the import of torch


def test_commands_are_imported_without_slow_imports(run: Runner) -> None:
    slow = {"numpy", "torch", "jinja2", "matplotlib"}
    code = (
        "import sys; from accel_train.cli.commands import Commands; commands = Commands().commands;"
        f"commands['train']; print({slow | {'rich'}} & set(sys.modules));"
        f"print(len(list(commands.values())) > 10, {slow} & set(sys.modules))"  # the help needs rich
    )
    ended = run.program([sys.executable, "-c", code])
    assert (ended.out, ended.err) == ("set()\nTrue set()\n", "")


def test_command_imports_no_other(run: Runner) -> None:
    code = (
        "import sys; from accel_train.cli import app; app._run(None); modules = set(sys.modules);"
        "print({name for name in modules if name.startswith('accel_train.cli.')} & {'accel_train.cli.train',"
        "'accel_train.cli.plan', 'accel_train.cli.runs'})"
    )
    ended = run.program([sys.executable, "-c", code, "runs", "--sort", "no"])
    assert ended.out == "{'accel_train.cli.runs'}\n"
