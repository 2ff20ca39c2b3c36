"""Answers the wizard `accelerate config` in a real terminal, and finds all its questions."""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pexpect

from helpers.terminal import OnTerminal

MENU = r"([^\r\n]*\?[^\r\n]*)\s+Please select[^\r]*enter\s(.*)\x1b\[\?25l"  # it ends by hiding the cursor
FIELD = r"([^\r\n]*(?:\?|:|\]|ran)) ?$"
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
_DOWN = "\x1b[B"
_YES_NO = {"yes/NO": "yes", "YES/no": "no"}
"""The answers that are not the default."""
_LARGEST_MENU = 4
"""Of longer menus only the first and the last choice are tried."""


@dataclass(frozen=True)
class Question:
    """A question of the wizard, and the answers to try besides the default."""

    text: str
    alternatives: tuple[str, ...]


@dataclass(frozen=True)
class Walk:
    """The questions that the wizard has asked, and how it ended."""

    answers: Mapping[str, str]
    """By question; of a menu the number of the choice, and "" for the default."""
    questions: tuple[Question, ...]
    code: int | None

    def __str__(self) -> str:
        return ", ".join(f"{question} {answer}" for question, answer in self.answers.items())


def walk(file: Path, answers: Mapping[str, str], **environment: str) -> Walk:
    """Let the wizard write a file; a question that contains a key gets its answer, others the default.

    A number is the choice of a menu.
    """
    words = ["-m", "accelerate.commands.accelerate_cli", "config", "--config_file", str(file)]
    where = {"folder": file.parent, "environment": os.environ | environment, "forked": not environment}
    questions = []
    with OnTerminal(words, columns=400, **where) as wizard:  # type: ignore[arg-type]
        while (kind := wizard.expect([MENU, FIELD, pexpect.EOF])) < 2:
            text = _COLOURS.sub("", wizard.match[1]).strip(" -")
            key = next((key for key in answers if key in text), "")
            if kind == 0:
                questions.append(Question(text, _choices(wizard.match[2])))
                wizard.press(_select(answers[key]) if key else "\r")
            else:
                questions.append(Question(text, tuple(other for both, other in _YES_NO.items() if both in text)))
                wizard.send(f"{answers.get(key, '')}\r")
        return Walk(answers, tuple(questions), wizard.ends())


def all_walks(folder: Path, base: Mapping[str, str], known: Collection[str] = ()) -> Iterator[tuple[Walk, Path]]:
    """Walk the wizard so that each answer is given once to each question that can be reached from `base`.

    Every walk differs by one answer from one made before, and writes a file, which is yielded too. Questions that
    contain one of `known` keep their default.
    """
    pending, seen = [dict(base)], set()
    for number, answers in enumerate(pending):
        made = walk(file := folder / f"{number}.yaml", answers)
        yield made, file
        for question in made.questions:
            if question.text not in seen and not any(key in question.text for key in (*base, *known)):
                pending += [{question.text: answer, **answers} for answer in question.alternatives]
            seen.add(question.text)


def _choices(listed: str) -> tuple[str, ...]:
    """Return the numbers of the choices to try; an arrow marks the default."""
    lines = [line for line in _COLOURS.sub("", listed).splitlines() if line.strip()]
    return tuple(
        str(number)
        for number, line in enumerate(lines)
        if "➔" not in line and (len(lines) <= _LARGEST_MENU or number in (0, len(lines) - 1))
    )


def _select(choice: str) -> str:
    """Return the keys that select a choice: its digit, and from 10 on arrows from 9."""
    number = int(choice)
    return str(min(number, 9)) + _DOWN * (number - 9) + "\r"
