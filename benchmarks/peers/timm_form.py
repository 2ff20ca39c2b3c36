"""The form of timm's train.py, which its wheel does not contain, assembled from parts that it contains.

It has timm's loader (uint8 batches, normalised on the device), optimizer, scheduler, task and meter. As there, every
update reads the loss and steps the scheduler. Shape suffixes: B images, C channels, H height, W width.
"""

import torch
from timm.data import create_loader
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.task import ClassificationTask
from timm.utils import AverageMeter
from torch import nn

from benchmarks.peers.work import LEARNING_RATE, WEIGHT_DECAY, Clock, Work, pictures


def train(work: Work, clock: Clock) -> nn.Module:
    data = work.open()
    built = work.build(data)
    device = torch.device(work.device)
    model = work.distributed(built.module)  # first: the loader reads the number of processes
    loader = create_loader(
        pictures(work, data, transform=None),
        input_size=(built.channels, built.image_size, built.image_size),
        batch_size=work.batch_size,
        is_training=True,
        no_aug=True,
        mean=data.mean,
        std=data.std,
        num_workers=0,
        distributed=work.processes > 1,
        device=device,
    )
    optimizer = create_optimizer_v2(built.module, opt="sgd", lr=LEARNING_RATE, momentum=0.9, weight_decay=WEIGHT_DECAY)
    task = ClassificationTask(model, nn.CrossEntropyLoss(), device=device, verbose=False)
    scheduler, _ = create_scheduler_v2(
        optimizer, num_epochs=work.epochs, step_on_epochs=False, updates_per_epoch=len(loader)
    )
    losses, updates = AverageMeter(), 0
    for epoch in range(work.epochs):
        task.train()
        if work.processes > 1:
            loader.sampler.set_epoch(epoch)
        for images_BCHW, labels_B in loader:
            with work.autocast():
                loss = task(images_BCHW, labels_B)["loss"]
            loss.backward()
            optimizer.step()
            losses.update(loss.item(), len(labels_B))
            updates += 1
            optimizer.zero_grad()
            scheduler.step_update(num_updates=updates, metric=losses.avg)
            clock.tick()
    return model
