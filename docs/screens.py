"""Records what people see in terminals of tmux, and writes screens.md with it: `make screens`, about two minutes."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, SVG_EXPORT_THEME, TerminalTheme
from rich.text import Text

DOCS = Path(__file__).parent
ROWS, SECONDS = 46, 180
END = re.compile(r"\s*exit code (\d+)\s*$")
MIDDLE = r"epoch ([4-9]|1\d)/\d+ .* left"
THEMES = {"light": DEFAULT_TERMINAL_THEME, "dark": SVG_EXPORT_THEME}
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
FONTS = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
CELL, LINE = 8.4, 18
"""Width of a character and height of a line in a picture, pixels."""


@dataclass(frozen=True)
class Screen:
    """A command, and when to look at it."""

    title: str
    command: str
    columns: int = 80
    until: str = ""
    """Pattern of the text after which to look; empty for the end of the command."""
    key: str = ""
    """Key to press then, such as C-c, before the end is awaited."""
    environment: dict[str, str] = field(default_factory=dict)
    place: str = ""
    """Name of the folder to work in, if it is shared with other screens."""
    picture: str = ""
    """Name of the pictures with the colours of a light and a dark terminal."""
    terminal: bool = True


LONG = "accel_train train --batch-size 8"  # lasts for seconds on fast machines too
SCREENS = (
    Screen("A run, 80 columns", LONG, until=MIDDLE, picture="running"),
    Screen("60 columns", LONG, 60, until=MIDDLE),
    Screen("120 columns", LONG, 120, until=MIDDLE),
    Screen("200 columns", LONG, 200, until=MIDDLE),
    Screen("Its end", "accel_train train --epochs 10", picture="ended"),
    Screen("Everything that was asked for", "accel_train train --epochs 3 --seed 0 --ema 5000 --keep 5 --exact"),
    Screen("`--verbose`", "accel_train train --epochs 3 --verbose", 120),
    Screen("`--quiet`", "accel_train train --quiet"),
    Screen("`--dry-run`", "accel_train train --dry-run --batch-size 32 --accumulate 2", 120),
    Screen("Off a terminal", "accel_train train --epochs 4", terminal=False),
    Screen("`NO_COLOR`", LONG, until=MIDDLE, environment={"NO_COLOR": "1"}),
    Screen("ASCII", LONG, until=MIDDLE, environment=ASCII),
    Screen("Two processes", "accel_train train --epochs 3 --processes 2", 120),
    Screen("Four processes, off a terminal", "accel_train train --epochs 2 --processes 4", terminal=False),
    Screen("Ctrl-C", LONG, until=MIDDLE, key="C-c", place="resumed"),
    Screen("`--resume` alone", "accel_train train --resume runs/digits_cnn_001", place="resumed"),
    Screen("More epochs", "accel_train train --resume runs/digits_cnn_001 --epochs 23", 120, place="resumed"),
    Screen("Another configuration", "accel_train train --resume runs/digits_cnn_001 --lr 1", place="resumed"),
    Screen("A mistake", "accel_train train --epoch 5"),
    Screen("A wrong value", "accel_train train --device gpu"),
)


def environment(screen: Screen) -> dict[str, str]:
    """Return the environment of a user who has set nothing."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "ACCEL", "TMUX"))}
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        mine.pop(name, None)
    path = f"{Path(sys.executable).parent}{os.pathsep}{mine.get('PATH', '')}"
    return mine | {"PATH": path, "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"} | screen.environment


def recorded(screen: Screen, folder: Path) -> str:
    """Return what the screen shows, with its control sequences for colours."""
    if screen.terminal:
        return on_terminal(screen, folder)
    words = shlex.split(screen.command)
    ended = subprocess.run(
        words, cwd=folder, env=environment(screen), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
    )
    return ended.stdout.decode()


def on_terminal(screen: Screen, folder: Path) -> str:
    """Return what a terminal of tmux shows of a command."""
    server = ("tmux", "-S", str(folder.parent / f"tmux_{time.monotonic_ns()}"), "-f", "/dev/null")

    def tmux(*words: str) -> str:
        return subprocess.run(
            [*server, *words], env=environment(screen), check=True, capture_output=True
        ).stdout.decode()

    def wait(pattern: str) -> str:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            shown = tmux("capture-pane", "-p", "-e", "-S", "-")
            if re.search(pattern, Text.from_ansi(shown).plain):
                return shown
            time.sleep(0.05)
        raise TimeoutError(f"{screen.title}: {pattern} has not appeared:\n{shown}")

    # The shell must survive the Ctrl-C that the run gets.
    script = f"trap : INT; cd {shlex.quote(str(folder))}; {screen.command}; echo exit code $?; sleep 999"
    tmux("new-session", "-d", "-x", str(screen.columns), "-y", str(ROWS), "sh", "-c", script)
    try:
        shown = wait(screen.until or END.pattern)
        if screen.key:
            tmux("send-keys", screen.key)
            shown = wait(END.pattern)
        return shown
    finally:
        subprocess.run([*server, "kill-server"], check=False)


def picture(shown: str, columns: int, theme: TerminalTheme) -> str:
    """Return an SVG of a screen in the colours of a theme."""
    console = Console(color_system="truecolor", force_terminal=True, width=columns)
    lines = Text.from_ansi(shown).split("\n")
    texts = []
    for row, line in enumerate(lines, start=1):
        column = 0
        for text, style, _ in line.render(console):
            colour = style.color.get_truecolor(theme) if style and style.color else theme.foreground_color
            weight = ' font-weight="bold"' if style and style.bold else ""
            place = f'x="{CELL * (column + 1):.1f}" y="{LINE * row + 4}" textLength="{CELL * len(text):.1f}"'
            if text.strip():
                texts.append(f'<text {place} fill="{colour.hex}"{weight}>{escape(text)}</text>')
            column += len(text)
    width, height = CELL * (columns + 2), LINE * (len(lines) + 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}">\n'
        f"<style>text {{ font-family: {FONTS}; font-size: 14px; white-space: pre }}</style>\n"
        f'<rect width="100%" height="100%" fill="{theme.background_color.hex}"/>\n' + "\n".join(texts) + "\n</svg>\n"
    )


def section(screen: Screen, shown: str) -> str:
    """Return a section of the page; write its pictures."""
    found = END.search(Text.from_ansi(shown).plain)
    lines = shown.rstrip().splitlines()
    if found and found[1] == "0":
        lines.pop()
    while lines and not lines[-1].strip():
        lines.pop()
    text = "\n".join(line.rstrip() for line in Text.from_ansi("\n".join(lines)).plain.splitlines())
    typed = " ".join([*(f"{name}={value}" for name, value in screen.environment.items()), screen.command])
    pipe = "" if screen.terminal else " | cat"
    parts = [f"## {screen.title}", f"```console\n$ {typed}{pipe}\n{text}\n```"]
    if screen.picture:
        for name, theme in THEMES.items():
            file = DOCS / "screens" / f"{screen.picture}_{name}.svg"
            file.write_text(picture("\n".join(lines), screen.columns, theme), encoding="utf-8")
        images = [f"![{screen.title}, {name}](screens/{screen.picture}_{name}.svg)" for name in THEMES]
        parts[1:] = [f"`$ {typed}`", *images]
    return "\n\n".join(parts)


def main() -> None:
    """Record all screens, and write the page."""
    if not shutil.which("tmux"):
        sys.exit("tmux is missing: install it, such as with `apt-get install tmux`")
    (DOCS / "screens").mkdir(exist_ok=True)
    parts = ["# Screens", "What a run shows, recorded by `make screens` in terminals of tmux, on two cores."]
    with tempfile.TemporaryDirectory() as name:
        for number, screen in enumerate(SCREENS):
            folder = Path(name, screen.place or str(number))
            folder.mkdir(exist_ok=True)
            sys.stderr.write(f"{screen.title}: {screen.command}\n")
            parts.append(section(screen, recorded(screen, folder)))
    (DOCS / "screens.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
