"""Every command in the README and the docs runs as written, up to the start of training."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import torch
from helpers.marks import slow
from helpers.runner import Ended, Runner, of_python
from PIL import Image

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands() -> list[str]:
    """Return the commands of all pages: indented lines that start accel_train, accelerate or torchrun; each once."""
    lines = [line for page in PAGES for line in page.read_text(encoding="utf-8").splitlines()]
    found = [re.sub(r"\s+#.*", "", line.strip()) for line in lines if re.match("    (accel|torchrun)", line)]
    return list(dict.fromkeys(found))


def prepare(folder: Path) -> None:
    """Make the files that the commands name: a folder of pictures, a file of their labels, and the configs."""
    for split in ("train", "val"):
        for colour in ("red", "green", "blue"):
            for number in range(64 if split == "train" else 4):
                path = folder / "pictures" / split / colour / f"{number}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.new("RGB", (32, 32), colour).save(path)
    listed = [path.relative_to(folder / "pictures") for path in (folder / "pictures").rglob("*.png")]
    lines = [f"{path},{path.parent.name},{path.parts[0]}" for path in listed]
    (folder / "labels.csv").write_text("\n".join(["file,label,split", *lines]))
    shutil.copytree(ROOT / "accelerate_configs", folder / "accelerate_configs")


def start(run: Runner, command: str) -> Ended:
    """Run a command, but do not train."""
    words = shlex.split(command.replace("ddp.yaml", "ddp.yaml --num_processes 2"))  # the file asks for 8 GPUs
    if "train" in words and not {"--help", "--dry-run"} & set(words):
        words.append("--dry-run")
    if "ddp.yaml" in command and not torch.cuda.is_available():  # what it asks for would be refused
        words += ["--device", "cpu"]
    if "bench" in words:
        words += ["--batch-sizes", "8", "--updates", "30", "--rounds", "1", "--devices", "cpu"]
    program, *arguments = words
    return run(*arguments) if program == "accel_train" else run.python(of_python(*words))


def cases() -> list[object]:
    """Return all commands; benchmarks, and launchers that the README does not name, are slow."""
    readme = PAGES[0].read_text(encoding="utf-8")
    return [
        one if "bench" not in one and (one.startswith("accel_train") or one in readme) else slow(one)
        for one in commands()
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that the commands name, and the run `runs/digits_cnn_001`."""
    folder = tmp_path_factory.mktemp("docs")
    prepare(folder)
    assert Runner(folder)("train", "--epochs", "1").code == 0
    return folder


@pytest.mark.parametrize("command", cases())
def test_command_in_docs_runs(folder: Path, command: str) -> None:
    ended = start(Runner(folder), command)
    assert ended.code == 0, ended.out + ended.err
    assert [path.name for path in (folder / "runs").iterdir()] == ["digits_cnn_001"]


def test_docs_show_commands() -> None:
    assert len(commands()) > 12
