"""Evaluates an untrained model on 9, 17 and 3 images, 4 at a time, and writes what was counted, a JSON line each."""

import json
import os
import sys

import torch
from accelerate import Accelerator

from accel_train.config.defaults import Augmentation
from accel_train.data.loader import LoaderSizes, evaluation_loader
from accel_train.data.open import open_data
from accel_train.data.sources.base import View, spread
from accel_train.data.transforms import ImageTransform
from accel_train.distributed import accelerator as distributed
from accel_train.models.build import build_model
from accel_train.training import loop as engine

data = open_data("digits", directory=None, val_fraction=None, seed=0, limit=None)
torch.manual_seed(0)
model = build_model("cnn", classes=10, channels=1, data_size=8, image_size=None).module
accelerator: Accelerator
accelerator, _ = distributed.start(device="cpu", backend=None, precision=None, timeout=60)
transform = ImageTransform(
    0, Augmentation(), 1, 8, mean=data.mean, std=data.std, dtype=torch.float32, device=accelerator.device
)
model = accelerator.prepare(model)
for images in (9, 17, 3):
    sizes = LoaderSizes(batch_size=4, processes=accelerator.num_processes, workers=0, pin_memory=False)
    loader = accelerator.prepare(evaluation_loader(spread(data.val, images), View(8, random_crop=False), sizes))
    found = engine.evaluate(accelerator, model, loader, transform)
    if accelerator.is_main_process:
        sys.stdout.write(json.dumps([found.images, found.accuracy, found.loss]) + "\n")
distributed.stop()
sys.stdout.flush()
os._exit(0)  # at the end of a script, with a DDP model still among its globals, torch 2.14 aborts about once in 16
