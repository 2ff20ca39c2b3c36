"""The loop of timm's train script, of timm's own parts and with the script's defaults.

The script is in timm's repository, not in its package. These are its defaults for one process: batches of 128, SGD with
Nesterov momentum, 0.1 at 256 images by the linear rule, weight decay 2e-5, a cosine by epoch after five epochs of
warmup, label smoothing, random crops, flips, colour jitter. With fewer than ten epochs, half of them warm up. --tuned
sets the script's options as for fine-tuning: batches of 64, AdamW at 0.0005, one epoch of warmup, larger crops.
"""

import sys
from typing import NamedTuple

import timm
import torch
from timm.data import create_dataset, create_loader, resolve_data_config
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import random_seed
from torch import nn

from benchmarks.finetune.materials import MODEL
from benchmarks.finetune.tools.turn import Turn, asked, tell


class Options(NamedTuple):
    """Options of the script."""

    opt: str = "sgd"
    batch: int = 128
    lr: float = 0.1 * 128 / 256
    warmup: int = 5
    smallest_crop: float = 0.08


TUNED = Options("adamw", batch=64, lr=5e-4, warmup=1, smallest_crop=0.35)


def main() -> None:
    options = TUNED if "--tuned" in sys.argv else Options()
    sys.argv = [word for word in sys.argv if word != "--tuned"]
    turn, device = asked(), torch.device("cpu")
    random_seed(turn.seed)
    classes = len(list((turn.data / "train").iterdir()))
    model = timm.create_model(MODEL, pretrained=True, num_classes=classes)
    training, validation = (loader(turn, model, split, options) for split in ("train", "val"))
    optimizer = create_optimizer_v2(model, opt=options.opt, lr=options.lr, momentum=0.9, weight_decay=2e-5)
    schedule, epochs = create_scheduler_v2(
        optimizer, num_epochs=turn.epochs, warmup_epochs=min(options.warmup, turn.epochs // 2), warmup_lr=1e-5
    )
    loss_of, accuracies = LabelSmoothingCrossEntropy(0.1).to(device), []
    for epoch in range(epochs):
        model.train()
        for images, labels in training:
            loss_of(model(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad()
        accuracies.append(accuracy(model, validation))
        schedule.step(epoch + 1)
    tell(accuracies)


def loader(turn: Turn, model: nn.Module, split: str, options: Options) -> torch.utils.data.DataLoader:
    """Return the script's loader of a split, without worker processes: there is one thread to compute with."""
    config = resolve_data_config({"input_size": (3, turn.size, turn.size)}, model=model)
    training = split == "train"
    changes = (
        {"scale": (options.smallest_crop, 1.0), "ratio": (3 / 4, 4 / 3), "interpolation": "random"} if training else {}
    )
    return create_loader(
        create_dataset("", root=str(turn.data), split=split, is_training=training),
        batch_size=options.batch,
        is_training=training,
        num_workers=0,
        persistent_workers=False,
        device=torch.device("cpu"),
        crop_pct=None if training else config["crop_pct"],
        **{name: config[name] for name in ("input_size", "mean", "std", "interpolation")} | changes,
    )


@torch.no_grad()
def accuracy(model: nn.Module, loader: torch.utils.data.DataLoader) -> float:
    model.eval()
    right = [model(images).argmax(1) == labels for images, labels in loader]
    return torch.cat(right).float().mean().item()


if __name__ == "__main__":
    main()
