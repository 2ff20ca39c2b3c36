"""Evaluates an untrained model in batches of 4; prints [images, accuracy, loss, balanced accuracy], as JSON, for each
number of images.

Arguments: the strategy, then the numbers of images.
"""

import json
import sys

import torch

from accel_train.config.defaults import Augmentation
from accel_train.data.loader import LoaderSizes, evaluation_loader
from accel_train.data.open import open_data
from accel_train.data.sources.base import View, spread
from accel_train.data.transforms import ImageTransform
from accel_train.distributed.accelerator import start, stop
from accel_train.models.build import build_model
from accel_train.training.evaluate import evaluate

strategy, *counts = sys.argv[1:]
data = open_data("digits", directory=None, val_fraction=None, seed=0, limit=None)
torch.manual_seed(0)
module = build_model("cnn", classes=10, channels=1, data_size=8, image_size=None).module
processes = start(device="cpu", backend=None, precision=None, timeout=60, strategy=strategy)
transform = ImageTransform(
    0, Augmentation(), 1, 8, mean=data.mean, std=data.std, dtype=torch.float32, device=processes.device
)
sizes = LoaderSizes(batch_size=4, replicas=processes.count, workers=0, pin_memory=False)
loaders = [evaluation_loader(spread(data.val, int(count)), View(8, random_crop=False), sizes) for count in counts]
optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
model, _, *prepared = processes.strategy.prepare(processes.accelerator, module, optimizer, *loaders)
for loader in prepared:
    found = evaluate(processes.accelerator, model, loader, transform, classes=10)
    assert found is not None
    if processes.is_main:
        print(json.dumps([found.images, found.accuracy, found.loss, found.balanced_accuracy]))
stop()
