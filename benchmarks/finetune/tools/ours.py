"""accel_train with its defaults: nothing is set but data, model, weights, image size, seed and epochs."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import accel_train
from accel_train.events import EpochEnd
from benchmarks.finetune.materials import MODEL
from benchmarks.finetune.tools.turn import asked, tell


def main(more: Sequence[str] = ()) -> None:
    turn = asked()
    given = dict(option.split("=", 1) for option in more)
    with tempfile.TemporaryDirectory() as folder:
        config = accel_train.TrainConfig(
            data=str(turn.data),
            model=f"timm:{MODEL}",
            weights="DEFAULT",
            image_size=turn.size,
            epochs=turn.epochs,
            seed=turn.seed,
            output=Path(folder) / "run",
            **given,
        )
        tell([event.val_accuracy for event in accel_train.train(config) if isinstance(event, EpochEnd)])


if __name__ == "__main__":
    main()
