"""The page of screens shows what was recorded, with the colours of a light and a dark terminal."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
RECORDED = "\x1b[1mrun\x1b[0m            <a>\n\x1b[31mred\x1b[0m\n\nexit code 0\n\n"


@pytest.fixture
def screens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("screens", ROOT / "docs" / "screens.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "screens", module)  # dataclasses look there
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "DOCS", tmp_path)
    (tmp_path / "screens").mkdir()
    return module


def test_text_is_shown_as_it_was_typed_and_printed(screens: ModuleType) -> None:
    screen = screens.Screen("A run", "accel_train train", environment={"NO_COLOR": "1"}, terminal=False)
    block = "```console\n$ NO_COLOR=1 accel_train train | cat\nrun            <a>\nred\n```"
    assert screens.section(screen, RECORDED) == f"## A run\n\n{block}"
    assert "\nexit code 2\n```" in screens.section(screen, RECORDED.replace("code 0", "code 2"))


def test_picture_has_the_colours_of_each_theme(screens: ModuleType, tmp_path: Path) -> None:
    screen = screens.Screen("A run", "accel_train train", 20, picture="one")
    assert "![A run, dark](screens/one_dark.svg)" in screens.section(screen, RECORDED)
    light, dark = ((tmp_path / "screens" / f"one_{name}.svg").read_text() for name in ("light", "dark"))
    for picture in (light, dark):
        assert 'font-weight="bold">run</text>' in picture
        assert "&lt;a&gt;</text>" in picture
    assert 'fill="#ffffff"/>' in light
    assert 'fill="#ffffff"/>' not in dark


def test_missing_tmux_is_named(screens: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screens.shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match="tmux is missing: install it"):
        screens.main()


def test_page_is_of_the_screens_of_the_script(screens: ModuleType) -> None:
    page = (ROOT / "docs" / "screens.md").read_text(encoding="utf-8")
    titles = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]
    assert titles == [screen.title for screen in screens.SCREENS]
    assert {screen.columns for screen in screens.SCREENS} == {60, 80, 120, 200}
