"""Fills in the template of a job file; a value is always quoted for the language in which it stands."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from accel_train.loggers.text import printable

_WIDTH = 100


def render(template: str, command: Sequence[str], values: Mapping[str, Any]) -> str:
    """Return the text of a template in this folder; `command` made it, and is printed in its head."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"command": shell_command, "quoted": shlex.quote, "literal": literal}
    made_by = f"accel_train {version('accel_train')}: {printable(shlex.join(command))}"
    return environment.get_template(template).render(values, made_by=made_by)


def shell_command(words: Sequence[str]) -> str:
    """Return the words of a command for a shell: on one line, or with a line for each option."""
    line = shlex.join(words)
    return line if len(line) <= _WIDTH else " \\\n    ".join(map(shlex.join, _grouped(words)))


def literal(value: Any) -> str:
    """Return a value as Python has it, with double quotes: a text is the same in YAML."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _grouped(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield each option with its value, after the words before the first option."""
    starts = [index for index, word in enumerate(words) if word.startswith("--")]
    for start, end in zip([0, *starts], [*starts, len(words)], strict=True):
        yield list(words[start:end])
