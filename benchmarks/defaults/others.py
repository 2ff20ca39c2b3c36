"""Trains on FashionMNIST for some seconds as torchvision's and timm's training scripts do with nothing set.

The defaults are those of torchvision's references/classification/train.py and of timm's train.py: model, image size,
batch, learning rate, schedule, regularization and augmentation (without timm's colour jitter). `--model` trains a model
of accel_train instead, such as cnn, on images of 28 pixels. `--epochs` ends the schedule early, `--fit` with the time.
On a busy machine, `--clock cpu` counts the seconds that the process computes. Prints what was reached when the time
was over.

    python -m benchmarks.defaults.others --form torchvision --seconds 120
    python -m benchmarks.defaults.others --form timm --model cnn --epochs 10 --seconds 120 --clock cpu
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torchvision
from torch import Tensor, nn
from torch.nn import functional
from torchvision.transforms import v2

from accel_train.data.open import open_data
from accel_train.data.sources.base import Source, View
from accel_train.models.build import build_model

IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
EVALUATED = 500
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass(frozen=True)
class Form:
    """The defaults of a training script."""

    model: str
    batch: int
    lr: float
    weight_decay: float
    nesterov: bool
    label_smoothing: float
    epochs: int
    rate: Callable[[float, int], float]
    """Multiplier of the learning rate at an epoch, of as many."""


def step(epoch: float, epochs: int) -> float:
    """Return a tenth after each third of the run: 30 of 90 epochs."""
    return 0.1 ** int(3 * epoch / epochs)


def cosine(epoch: float, epochs: int) -> float:
    """Return a half cosine, after a warmup of 5 of 300 epochs."""
    warmup = epochs * 5 / 300
    return epoch / warmup if epoch < warmup else 0.5 * (1 + math.cos(math.pi * epoch / epochs))


FORMS = {
    "torchvision": Form("resnet18", 32, 0.1, 1e-4, False, 0.0, 90, step),
    "timm": Form("resnet50", 128, 0.1 * 128 / 256, 2e-5, True, 0.1, 300, cosine),
}


def main() -> None:
    """Train until the time is over, then evaluate."""
    args = arguments()
    form = FORMS[args.form]
    torch.manual_seed(args.seed)
    small, now = args.model != "own", CLOCKS[args.clock]
    size, channels = (28, 1) if small else (224, 3)
    model = ours(args.model) if small else getattr(torchvision.models, form.model)(num_classes=10)
    data = open_data("fashion-mnist", directory=None, val_fraction=None, seed=0, limit=None)
    epochs = args.epochs or form.epochs
    decay = {"weight_decay": form.weight_decay, "nesterov": form.nesterov}
    optimizer = torch.optim.SGD(model.parameters(), lr=form.lr, momentum=0.9, **decay)
    augment = v2.Compose([v2.RandomResizedCrop(size, antialias=True), v2.RandomHorizontalFlip()])
    began, updates = now(), 0
    per_epoch = len(data.train) // form.batch
    for images, labels in batches(data.train, form.batch, epochs):
        if (seconds := now() - began) >= args.seconds:
            break
        epoch = epochs * seconds / args.seconds if args.fit else updates / per_epoch
        for group in optimizer.param_groups:
            group["lr"] = form.lr * form.rate(epoch, epochs)
        inputs = normalized(torch.stack([augment(image) for image in images]), channels)
        loss = functional.cross_entropy(model(inputs), labels, label_smoothing=form.label_smoothing)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        updates += 1
    seconds = now() - began
    found = accuracy(model, data.val, size, channels, len(data.val) if small else EVALUATED)
    done = f"{updates / per_epoch:.2f} of {epochs} epochs in {seconds:.0f} {args.clock} s"
    print(f"{args.form} {args.model}: {done}, accuracy {found:.4f}")


def ours(name: str) -> nn.Module:
    """Build a model of accel_train for FashionMNIST."""
    return build_model(name, classes=10, channels=1, data_size=28, image_size=None).module


def batches(source: Source, size: int, epochs: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield shuffled batches."""
    for _ in range(epochs):
        order = torch.randperm(len(source))
        for ids in order[: len(order) // size * size].view(-1, size):
            yield source.read(ids.numpy(), None, View(28, random_crop=False))


def normalized(images_BCHW: Tensor, channels: int) -> Tensor:
    """Return images as the network takes them."""
    images_BCHW = images_BCHW.expand(-1, channels, -1, -1).float() / 255
    if channels == 1:
        return (images_BCHW - 0.286) / 0.353
    return v2.functional.normalize(images_BCHW, list(IMAGENET["mean"]), list(IMAGENET["std"]))


@torch.no_grad()
def accuracy(model: nn.Module, source: Source, size: int, channels: int, count: int) -> float:
    """Return the accuracy on the first images; resized to 256 and cropped to 224 if the network takes those."""
    model.eval()
    hits = 0
    for ids in torch.arange(count).split(50):
        images, labels = source.read(ids.numpy(), None, View(28, random_crop=False))
        if size == 224:
            images = v2.functional.center_crop(v2.functional.resize(images, [256], antialias=True), [224])
        hits += int((model(normalized(images, channels)).argmax(1) == labels).sum())
    return hits / count


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--form", choices=FORMS, required=True)
    parser.add_argument("--model", default="own", help="own: that of the form")
    parser.add_argument("--epochs", type=int, help="of the schedule; default: that of the script")
    parser.add_argument("--fit", action="store_true", help="end the schedule with the seconds")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
