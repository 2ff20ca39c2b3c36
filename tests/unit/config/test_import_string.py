"""Users' functions are imported by name and called with the keywords that they accept."""

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from accel_train.config import import_string
from accel_train.config.import_string import (
    call_function,
    check_code_in_file,
    failed_in,
    import_object,
    is_function_name,
)
from accel_train.errors import UserError

MODULE = """
from torch import nn
def narrow(classes): return nn.Sequential(nn.Flatten(), nn.Linear(3, classes))
def some(classes): return ("some", classes)
def all_of_it(**given): return given
def defaults(classes, depth=3): return (classes, depth)
def none_of_it(): return "called"
def positional(classes, /): return classes
def needs_more(classes, depth): return None
def fails(classes): raise TypeError("of its own")
number = 3
class Net:
    def __init__(self, channels): self.channels = channels
    def forward(self): return 1 / 0
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write mine/nets.py to the current directory, which is not in sys.path yet."""
    monkeypatch.setattr(import_string, "_users_models", set())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/nets.py").write_text(MODULE)
    (tmp_path / "mine/needs.py").write_text("import no_such_package_anywhere")
    (tmp_path / "mine/typo.py").write_text("def f(:")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))


def refusal(name: str) -> tuple[str, str]:
    with pytest.raises(UserError) as caught:
        call_function(name, "--model", classes=10, channels=3)
    return caught.value.message, caught.value.hint


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("my.module:function", True),
        ("module:function", True),
        ("_a.b1:c_2", True),
        ("module", False),
        ("module:", False),
        (":function", False),
        ("my..module:function", False),
        ("my/module:function", False),
        ("C:\\pictures", False),
        ("module:a.b", False),
        ("synthetic:64,3", False),
        ("a:b:c", False),
    ],
)
def test_function_name_has_a_module_and_a_function(name: str, expected: bool) -> None:
    assert is_function_name(name) is expected


@pytest.mark.parametrize(
    ("function", "returned"),
    [
        ("some", ("some", 10)),
        ("all_of_it", {"classes": 10, "channels": 3}),
        ("defaults", (10, 3)),
        ("none_of_it", "called"),
    ],
)
def test_function_gets_the_keywords_that_it_accepts(function: str, returned: object) -> None:
    assert call_function(f"mine.nets:{function}", "--model", classes=10, channels=3) == returned


def test_class_can_be_called_too() -> None:
    assert call_function("mine.nets:Net", "--model", classes=10, channels=3).channels == 3


@pytest.mark.parametrize(("function", "lacks"), [("needs_more", "'depth'"), ("positional", "'classes'")])
def test_function_that_needs_other_arguments_is_refused_with_those_offered(function: str, lacks: str) -> None:
    message, hint = refusal(f"mine.nets:{function}")
    assert message.startswith(f"--model mine.nets:{function}: ")
    assert lacks in message
    assert hint == "it is called with the keyword arguments classes, channels; make all others optional"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("mine.nets:fails", "TypeError: of its own"), ("mine.typo:f", "SyntaxError: invalid syntax")],
)
def test_error_inside_users_code_names_the_option(name: str, reason: str) -> None:
    message, hint = refusal(name)
    assert message.startswith(f"--model {name}: {reason}")
    assert hint == "mend your code; accel_train --debug … prints the traceback"


def test_place_of_a_later_error_in_users_code_is_found() -> None:
    net = call_function("mine.nets:Net", "--model", channels=3)
    with pytest.raises(ZeroDivisionError) as caught:
        net.forward()
    assert failed_in(caught.value) == f"nets.py, line {MODULE.count(chr(10))}, in forward"
    with pytest.raises(ZeroDivisionError) as elsewhere:
        _ = 1 / 0
    assert failed_in(elsewhere.value) is None


def test_layer_of_a_users_model_that_fails_in_torch_is_named() -> None:
    images_BD = torch.zeros(2, 4)
    with pytest.raises(RuntimeError) as caught:
        nn.Sequential(nn.Flatten(), nn.Linear(3, 2))(images_BD)
    assert failed_in(caught.value) is None  # of a model of ours
    net = call_function("mine.nets:narrow", "--model", classes=2)
    with pytest.raises(RuntimeError) as caught:
        net(images_BD)
    assert failed_in(caught.value) == "--model mine.nets:narrow, in Linear"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_such_module:f", "No module named 'no_such_module'"),
        ("mine.nets:missing", "module 'mine.nets' has no attribute 'missing'"),
        ("mine.needs:f", "No module named 'no_such_package_anywhere'"),
    ],
)
def test_failed_import_names_the_option(name: str, reason: str) -> None:
    module_name, _, function = name.partition(":")
    assert refusal(name) == (
        f"--model {name}: {reason}",
        f"make {module_name} importable from the current directory, and define {function}",
    )


def test_value_is_not_a_function() -> None:
    assert refusal("mine.nets:number")[0] == "--model mine.nets:number is not a function"


def test_import_object_imports_classes_and_values() -> None:
    assert import_object("pathlib:Path") is Path
    assert import_object("sys:path") is sys.path


def test_current_directory_is_searched_after_pythons_modules_and_before_installed_ones(tmp_path: Path) -> None:
    for name in ("wave", "pluggy"):  # of Python, and of an installed package
        (tmp_path / f"{name}.py").write_text("def build(): return 'of the user'")
        sys.modules.pop(name, None)
    assert call_function("pluggy:build", "--model") == "of the user"
    message, hint = refusal("wave:build")
    assert message == "--model wave:build: module 'wave' has no attribute 'build'"
    assert hint == "rename your module: wave is one of Python's own"
    position = sys.path.index(str(tmp_path))
    assert not any("site-packages" in entry for entry in sys.path[:position])
    assert call_function("mine.nets:none_of_it", "--model") == "called"
    assert sys.path.count(str(tmp_path)) == 1


def test_current_directory_keeps_the_position_that_the_user_gave_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = list(sys.path)
    call_function("mine.nets:none_of_it", "--model")
    assert sys.path == before


def make_run(folder: Path) -> Path:
    """Make a folder that looks like that of a run, with a module in it."""
    (folder / "log").mkdir(parents=True)
    for name in ("config.yaml", "metrics.jsonl"):
        (folder / name).touch()
    for place in ("evil.py", "log/evil.py"):
        (folder / place).write_text("from pathlib import Path\nPath('imported').touch()\ndef build(): return 'evil'")
    return folder


@pytest.mark.parametrize("package", ["", "__init__.py"], ids=["namespace", "package"])
def test_nothing_is_imported_from_a_run(tmp_path: Path, package: str) -> None:
    run = make_run(tmp_path / "runs/bad")
    if package:
        for folder in (run, run / "log"):
            (folder / package).write_text((run / "evil.py").read_text())
    message, hint = refusal("runs.bad.log.evil:build")
    assert message == f"--model runs.bad.log.evil:build: runs.bad is in {run}, the folder of a run"
    assert hint == "nothing is imported from there: if you know and trust it, copy it elsewhere"
    (tmp_path / "link").symlink_to(run / "log")
    assert "link is in" in refusal("link.evil:build")[0]
    assert not (tmp_path / "imported").exists()


def test_current_directory_in_a_run_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "runs/bad")
    monkeypatch.chdir(run / "log")
    (run / "log/pluggy.py").write_text((run / "evil.py").read_text())
    assert refusal("evil:build") == (
        "--model evil:build: No module named 'evil'",
        f"nothing is imported from {run}, the folder of a run: change to another directory",
    )
    assert str(run / "log") not in sys.path
    monkeypatch.setattr(sys, "path", [str(run / "log"), *sys.path])  # as `python -m` does
    assert f"evil is in {run}, the folder of a run" in refusal("evil:build")[0]
    assert not (run / "log/imported").exists()


def test_module_without_a_file_is_not_in_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(make_run(tmp_path / "runs/bad"))
    assert refusal("builtins:dict") == (
        "--model builtins:dict: no signature found for builtin type <class 'dict'>",
        "name a function that is written in Python",
    )
    assert "has no attribute" in refusal("__main__:missing")[0]


@pytest.mark.parametrize(("name", "value"), [("model", "mine.nets:some"), ("data", "mine.nets:some")])
def test_config_file_of_a_run_names_no_code(tmp_path: Path, name: str, value: str) -> None:
    file = make_run(tmp_path / "runs/bad") / "config.yaml"
    with pytest.raises(UserError) as caught:
        check_code_in_file(file, {"lr": 0.1, name: value})
    assert caught.value.message == f"{file} names code of its own: {name} {value}"
    assert caught.value.hint == f"if you know and trust it, add --{name} {value}"
    check_code_in_file(file, {name: "cnn", "weights": "a:b", "model" if name == "data" else "data": None})
    check_code_in_file(tmp_path / "mine.yaml", {name: value})
