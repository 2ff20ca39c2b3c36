"""Users' functions are imported by name and called with the keywords that they accept."""

import sys
from pathlib import Path

import pytest

from accel_train.config.import_string import call_function, import_object, is_function_name
from accel_train.errors import UserError

MODULE = """
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
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write mine/nets.py to the current directory, which is not in sys.path yet."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/nets.py").write_text(MODULE)
    (tmp_path / "mine/needs.py").write_text("import no_such_package_anywhere")
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


def test_error_inside_the_function_is_raised_unchanged() -> None:
    with pytest.raises(TypeError, match="of its own"):
        call_function("mine.nets:fails", "--model", classes=10)


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
