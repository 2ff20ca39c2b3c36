"""The pages agree with the repository: the tree, files, links and make targets that they name exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "accel_train"
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "benchmarks" / "README.md"]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def tree() -> set[str]:
    """Return the files of the tree in the architecture page, relative to the package."""
    lines = ARCHITECTURE.partition("```text\nsrc/accel_train/\n")[2].partition("```")[0].splitlines()
    files, folders = set(), [""]
    for line in lines:
        name, depth = line.split()[0], (len(line) - len(line.lstrip())) // 4
        folders[depth:] = [f"{folders[depth - 1]}{name}"]
        if not name.endswith("/"):
            files.add(folders[depth])
    return files


def test_architecture_page_lists_every_module() -> None:
    modules = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}
    assert tree() == {name for name in modules if not name.endswith("/__init__.py")}


def test_files_named_in_architecture_page_exist() -> None:
    named = re.findall(r"`([\w/.]+/[\w.]+\.(?:py|yaml|md|toml))`", ARCHITECTURE)
    assert len(named) > 30
    missing = [n for n in named if "NAME" not in n and not (PACKAGE / n).exists() and not (ROOT / n).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_and_make_targets_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert not [link for link in links if not (page.parent / link).exists()]
    targets = re.findall(r"`make ([\w-]+)`", text)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert not [target for target in targets if not re.search(rf"^{target}:", makefile, re.M)]
