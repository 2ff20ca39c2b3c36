"""The pages agree with the repository: the tree, files, links and make targets that they name exist."""

import re
from pathlib import Path

import pytest

from accel_train.config.optimizers import OPTIMIZERS

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


MODELS = {
    "transformers, ConvNeXt": ("vit_b_16", "convnext_tiny"),
    "`cnn`, `mlp`": ("cnn", "mlp"),
    "`cnn`": ("cnn",),
    "`mlp`": ("mlp",),
    "`wide_resnet`": ("wide_resnet",),
    "AlexNet, VGG, SqueezeNet without BatchNorm": ("alexnet", "vgg16", "squeezenet1_0"),
    "all others": ("resnet50",),
}
"""By the first column of a table of rates."""


@pytest.mark.parametrize(
    ("page", "optimizers", "from_weights"),
    [
        ("learning-rate", ("sgd", "adamw"), False),
        ("learning-rate", ("lars", "lamb", "novograd", "muon"), False),
        ("fine-tuning", ("sgd", "adamw"), True),
    ],
)
def test_tables_of_default_rates_are_those_of_the_optimizers(
    page: str, optimizers: tuple[str, ...], from_weights: bool
) -> None:
    lines = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rates = {row[0]: row[1:] for row in rows if row[0] in MODELS and len(row) == 1 + 2 * len(optimizers)}
    assert "all others" in rates
    for name, cells in rates.items():
        for model in MODELS[name]:
            defaults = [OPTIMIZERS[optimizer].rate(model, from_weights=from_weights) for optimizer in optimizers]
            expected = [value for rate in defaults for value in (rate.lr, rate.max_lr)]
            assert [float(cell) for cell in cells] == expected, model
