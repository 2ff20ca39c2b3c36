"""fastai's `vision_learner(...).fine_tune(...)`, as documented: the head for an epoch, then one cycle of all layers.

Defaults throughout: batches of 64, Adam with decoupled weight decay, a head of two layers, batch augmentation. One
epoch of the turn is that of the head, so a turn of one epoch trains the head alone.
"""

import warnings

from fastai.vision.all import ImageDataLoaders, Resize, accuracy, aug_transforms, set_seed, vision_learner

from benchmarks.finetune.materials import MODEL
from benchmarks.finetune.tools.turn import asked, tell


def main() -> None:
    turn = asked()
    warnings.filterwarnings("ignore")
    set_seed(turn.seed, reproducible=True)
    pictures = ImageDataLoaders.from_folder(
        turn.data, valid="val", item_tfms=Resize(turn.size), batch_tfms=aug_transforms(), num_workers=0, device="cpu"
    )
    learner = vision_learner(pictures, MODEL, metrics=accuracy)
    with learner.no_bar(), learner.no_logging():
        if turn.epochs > 1:
            learner.fine_tune(turn.epochs - 1)
        else:
            learner.fit_one_cycle(1)
    tell([float(values[2]) for values in learner.recorder.values])


if __name__ == "__main__":
    main()
