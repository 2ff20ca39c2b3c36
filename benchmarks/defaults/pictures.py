"""Makes the folders of pictures on which defaults are measured, from Debian's packages.

`photos32` has 4,000 crops of 32 pixels, of ten photographs of mate-backgrounds, `photos280` 380 crops of 256 pixels, of
five. A class is a photograph, and its validation crops are of a part of it from which no training crop is taken.
`photos300` has 300 cut-out photographs of tuxpaint-stamps-default in five classes, of many sizes.

    apt-get install mate-backgrounds tuxpaint-stamps-default
    python -m benchmarks.defaults.pictures DIR
"""

import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

PHOTOGRAPHS = Path("/usr/share/backgrounds/mate/nature")
FIVE = ("FreshFlower", "Garden", "LadyBird", "Storm", "Wood")
STAMPS = Path("/usr/share/tuxpaint/stamps")
NAMES = ("Aqua", "Blinds", "Dune", "FreshFlower", "Garden", "GreenMeadow", "LadyBird", "RainDrops", "Storm", "Wood")
CLASSES = {"animals": 70, "food": 67, "town": 70, "vehicles": 38, "seasonal": 55}
"""Of the stamps, with the number of pictures taken."""


def make_crops(folder: Path, names: Sequence[str], *, train: int, val: int, side: int) -> None:
    """Write square crops; the left 70 % of a photograph is for training, the rest for validation."""
    rng = random.Random(0)
    for name in names:
        with Image.open(PHOTOGRAPHS / f"{name}.jpg") as opened:
            photograph = opened.convert("RGB")
        photograph.thumbnail((1920, 1920))
        border = round(0.7 * photograph.width)
        for split, count, left, right in (("train", train, 0, border), ("val", val, border, photograph.width)):
            target = folder / split / name
            target.mkdir(parents=True)
            for number in range(count):
                size = rng.randint(side, min(4 * side, right - left, photograph.height))
                x, y = rng.randint(left, right - size), rng.randint(0, photograph.height - size)
                crop = photograph.crop((x, y, x + size, y + size)).resize((side, side))
                crop.save(target / f"{number:03}.png")


def make_photos300(folder: Path) -> None:
    """Copy the first stamps of each class in a shuffled order; the split is left to the trainer."""
    for name, count in CLASSES.items():
        found = sorted(path for path in (STAMPS / name).rglob("*.png"))
        random.Random(0).shuffle(found)
        (folder / name).mkdir(parents=True)
        for number, path in enumerate(found[:count]):
            shutil.copy(path, folder / name / f"{number:03}.png")


def main(folder: Path) -> None:
    """Make the folders in a folder."""
    make_crops(folder / "photos32", NAMES, train=300, val=100, side=32)
    make_crops(folder / "photos280", FIVE, train=56, val=20, side=256)
    make_photos300(folder / "photos300")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
