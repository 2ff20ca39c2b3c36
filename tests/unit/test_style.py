"""Limits of size and structure, and words that the code and the docs do not use."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "accel_train"
FILES = sorted(PACKAGE.rglob("*.py"))
TEXTS = [*FILES, ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINES_PER_FILE, LINES_PER_FUNCTION, FILES_AT_TOP, LAYERS = 250, 40, 5, 14
USE_INSTEAD = {
    r"virtual[- _]workers?": "micro-batch, micro-batch index",
    r"tickets?(_B)?": "sample index",
    r"hand-?overs?": "shared-memory transfer",
    r"(open_)?sinks?": "logger",
    r"facts": "events",
    r"so manyth": "every n-th",
    r"so many": "N",
    r"anew": "again, from scratch",
    r"goes on|go on": "resumes, continues",
    r"is said|says so|say so|is said to": "is printed, is reported",
    r"lies|lie": "is stored",
    r"judged": "evaluated",
    r"passed over|counts? for nothing": "skipped, ignored",
    r"the same bits": "bit-identical",
    r"tells? whether": "return whether",
    r"what is under way": "a noun",
}
"""Patterns of whole words, and the words to use instead."""


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_file_and_its_functions_are_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LINES_PER_FILE
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in functions}
    assert {name: lines for name, lines in lengths.items() if lines > LINES_PER_FUNCTION} == {}


def test_package_has_few_files_at_its_top() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= FILES_AT_TOP


def test_layers_are_few() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    assert len(layers) <= LAYERS


def test_only_strategies_know_fsdp2() -> None:
    names = re.compile(r"\b(is_fsdp2|DTensor|FSDPModule)\b")
    knowing = [path for path in FILES if names.search(path.read_text(encoding="utf-8"))]
    assert {path.parent.name for path in knowing} == {"strategies"}


@pytest.mark.parametrize("pattern", USE_INSTEAD)
def test_words_are_those_of_the_field(pattern: str) -> None:
    word = re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.IGNORECASE)
    found = [
        f"{relative(path)}:{number}: {line.strip()}"
        for path in TEXTS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if word.search(line)
    ]
    assert found == [], f"use instead: {USE_INSTEAD[pattern]}"
