"""Writes a part of FashionMNIST as a folder of PNGs: other pictures to fine-tune on.

python -m benchmarks.finetune.fashion FOLDER/fashion
"""

import sys
from pathlib import Path

from PIL import Image

from accel_train.data.open import open_data
from accel_train.data.sources.memory import MemorySource

_COUNTS = {"train": 1000, "val": 1000}


def main(folder: Path) -> None:
    """Write evenly spaced images of both splits."""
    data = open_data("fashion-mnist", directory=None, val_fraction=None, seed=0, limit=None)
    for split, count in _COUNTS.items():
        source = getattr(data, split)
        assert isinstance(source, MemorySource)
        for number in range(count):
            index = number * len(source) // count
            name = source.classes[source.labels_N[index]].replace("/", "_").replace(" ", "_")
            picture = folder / split / name / f"{index:05}.png"
            picture.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(source.images_NCHW[index, 0].numpy()).convert("RGB").save(picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
