"""`preview` shows exactly what the first update sees, and reports on all images."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.cli import assert_refused
from helpers.runner import Runner
from PIL import Image

pytestmark = pytest.mark.xdist_group("preview")  # the tests share pictures

RECORDING = '''
import os
import torch
from torch import nn


class Recording(nn.Module):
    """Stores the inputs of its first passes, by rank."""

    def __init__(self, classes):
        super().__init__()
        self.head = nn.Linear(3, classes)
        self.seen = []

    def forward(self, images):
        if self.training and len(self.seen) < 2:
            self.seen.append(images.clone())
            torch.save(torch.cat(self.seen), f"seen_{os.environ.get('RANK', '0')}.pt")
        return self.head(images.mean((2, 3)))


def build(classes, channels):
    return Recording(classes)
'''
OPTIONS = ("--data", "pics", "--model", "recording:build", "--image-size", "32", "--device", "cpu", "--epochs", "1")
BATCH = ("--batch-size", "4", "--accumulate", "2", "--processes", "2")
SIDE, MARGIN = 96, 8


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Return a folder of pictures with two splits, one picture of which is in both, and one in another size."""
    run = Runner(tmp_path_factory.mktemp("previewed"))
    (run.folder / "recording.py").write_text(RECORDING)
    for split, count in (("train", 12), ("val", 3), ("test", 1)):
        for label, name in enumerate("ab"):
            (run.folder / "pics" / split / name).mkdir(parents=True)
            for number in range(count):
                small = np.random.default_rng([len(split), label, number]).integers(0, 256, (4, 5, 3), dtype=np.uint8)
                picture = Image.fromarray(small).resize((50, 40), Image.Resampling.BICUBIC)
                picture.save(run.folder / "pics" / split / name / f"{number:02d}.png")
    shutil.copy(run.folder / "pics/train/a/03.png", run.folder / "pics/val/b/copy.png")
    with Image.open(run.folder / "pics/train/b/05.png") as picture:
        picture.resize((100, 80)).save(run.folder / "pics/test/a/larger.jpg", quality=95)
    return run


def tiles(path: Path, count: int, lines: int, columns: int) -> list[np.ndarray]:
    """Return the images of a sheet with three lines of title, in order."""
    with Image.open(path) as sheet:
        pixels = np.asarray(sheet.convert("RGB"))
    top = 3 * 18 + 2 * MARGIN
    cell = SIDE + MARGIN, SIDE + lines * 18 + MARGIN
    places = [divmod(number, columns) for number in range(count)]
    return [pixels[top + row * cell[1] :, MARGIN + column * cell[0] :][:SIDE, :SIDE] for row, column in places]


@pytest.mark.parametrize(
    ("options", "lines", "columns"),
    [(("--augment", "standard"), 1, 4), (("--augment", "strong", "--cutmix", "1", "--workers", "1"), 2, 5)],
    ids=["standard", "strong and mixed"],
)
def test_sheet_shows_what_the_first_update_sees_on_two_processes(
    place: Runner, options: tuple[str, ...], lines: int, columns: int
) -> None:
    words = (*OPTIONS, *BATCH, *options)
    trained = place("train", *words, "--output", f"run_{lines}")
    assert trained.code == 0, trained.err
    shown = place("preview", *words, "--output", "sheet.png")
    assert shown.code == 0, shown.err
    seen_BCHW = torch.cat([torch.load(place.folder / f"seen_{rank}.pt", weights_only=True) for rank in range(2)])
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    expected = ((seen_BCHW * std + mean) * 255).round().clamp(0, 255).byte().permute(0, 2, 3, 1).numpy()
    found = tiles(place.folder / "sheet.png", 16, lines, columns)
    assert len(expected) == 16
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one.repeat(3, axis=0).repeat(3, axis=1), other)
    assert "sheet.png: pics: 16 images of update 1, seed 0, " in shown.out
    again = place(
        "preview", "--resume", f"run_{lines}", "--model", "recording:build", "--images", "16", "--output", "b.png"
    )
    assert again.code == 0, again.err
    assert (place.folder / "b.png").read_bytes() == (place.folder / "sheet.png").read_bytes()


def test_report_names_counts_sizes_colours_duplicates_and_what_cannot_be_read(place: Runner) -> None:
    shutil.copytree(place.folder / "pics", place.folder / "damaged")
    (place.folder / "damaged/val/a/00.png").write_bytes((place.folder / "pics/val/a/00.png").read_bytes()[:300])
    shown = place("preview", "--data", "damaged", "--model", "mlp", "--output", "other.png", "--images", "3")
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert lines[0] == "damaged: 34 images (train 24, val 7, test 3)"
    assert lines[1].startswith("other.png: damaged: 3 of the 8 images of update 1, seed 0, ")
    report = lines[lines.index("class  train  val  test") :]
    assert report[1:3] == ["a         12    3     2", "b         12    4     1"]
    assert report[3] == "width × height: 50 × 40 to 100 × 80 pixels, median 50 × 40"
    assert report[4].startswith("training pixels: mean 0.")
    assert report[5:9] == [
        "1 image with the bytes of one of another split:",
        "  val/b/copy.png and train/a/03.png",
        "1 image with nearly the look of one of another split (pHash, at most 4 of 64 bits differ):",
        "  test/a/larger.jpg and train/b/05.png",
    ]
    assert report[9] == "1 image of 34 cannot be read:"
    assert report[10].startswith("  val/a/00.png: ")
    assert len(report) == 11


def test_run_that_could_not_start_is_reported_after_the_data(place: Runner) -> None:
    shutil.copytree(place.folder / "pics", place.folder / "unreadable")
    (place.folder / "unreadable/train/a/00.png").write_bytes(b"no picture")
    shown = place("preview", "--data", "unreadable", "--model", "mlp", "--output", "none.png")
    assert shown.code == 2
    assert "1 image of 34 cannot be read:\n  train/a/00.png: " in shown.out
    assert "error: cannot read the picture unreadable/train/a/00.png: " in shown.err
    assert not (place.folder / "none.png").exists()
    left_out = place("preview", "--data", "unreadable", "--model", "mlp", "--on-bad-image", "skip")
    assert left_out.code == 0, left_out.err
    assert (place.folder / "sheet.png").is_file()


def test_preview_writes_only_the_sheet(run: Runner) -> None:
    shown = run("preview", "--data", "digits", "--limit", "32", "--output", "digits.png", "--processes", "2")
    assert shown.code == 0, shown.err
    assert [path.name for path in run.folder.iterdir() if path.name != "hf_home"] == ["digits.png"]
    assert "digits.png: digits: 16 images of update 1, seed 0, " in shown.out
    assert_refused(run("preview", "--data", "nothing"), "--data nothing: neither a known data set nor a folder")


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("sheet.jpg", "--output sheet.jpg: a PNG file is written"),
        ("none/sheet.png", "--output none/sheet.png: there is no folder none"),
    ],
)
def test_sheet_that_cannot_be_written_is_refused_first(run: Runner, output: str, message: str) -> None:
    assert_refused(run("preview", "--output", output), message)
