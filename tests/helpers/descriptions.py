"""Descriptions of small data sets and of models trained on them."""

from typing import Any

from accel_train.checkpoints.run_folder import Description
from accel_train.data.contents import Contents, SplitContents

CONTENTS = Contents(("a", "b"), {"train": SplitContents(6, (4, 2), "7f3a"), "val": SplitContents(2, (1, 1), "19c0")})


def description(**changed: Any) -> Description:
    """Return the description of a model trained on CONTENTS."""
    values: dict[str, Any] = {
        **{"model": "mlp", "classes": CONTENTS.classes, "channels": 3, "data_channels": 1, "data_size": 28},
        **{"adapted_to": 32, "interpolation": "bicubic"},
        **{"image_size": 32, "mean": (0.1 + 0.2,), "std": (1 / 3,), "splits": CONTENTS.splits},
        "matches": ("grey images are repeated as 3 channels",),
    }
    return Description(**values | changed)
