"""Names of images: paths below the folder of a split, else numbers."""

from pathlib import Path

import numpy as np
import torch

from accel_train.data.image_names import image_names
from accel_train.data.sources.base import Subset
from accel_train.data.sources.memory import MemorySource
from accel_train.data.sources.picture_files import FolderSource

ZEROS = np.zeros(3, dtype=np.int64)
FILES = FolderSource(("a",), Path("/elsewhere"), ("a/1.png", "a/2.png", "a/sub/3.png"), ZEROS, ZEROS)
IN_MEMORY = MemorySource(("a",), torch.zeros(3, 1, 2, 2), torch.zeros(3, dtype=torch.int64))


def test_pictures_have_their_paths_wherever_the_folder_is() -> None:
    assert image_names(FILES) == ("a/1.png", "a/2.png", "a/sub/3.png")


def test_other_images_have_their_numbers() -> None:
    assert image_names(IN_MEMORY) == ("0", "1", "2")


def test_some_images_keep_their_names() -> None:
    assert image_names(Subset(FILES, np.array([2, 0]))) == ("a/sub/3.png", "a/1.png")
    assert image_names(Subset(IN_MEMORY, np.array([2]))) == ("2",)
