"""The best bare loop: one batch in memory, channels last, freed memory kept; no data, metrics or logging.

Shape suffixes: B images, C channels, H height, W width.
"""

import torch
from torch import nn
from torch.nn import functional

from accel_train.training.torch_settings import keep_freed_memory
from benchmarks.peers.work import Clock, Work, optimizer_for


def train(work: Work, clock: Clock) -> nn.Module:
    keep_freed_memory()
    data = work.open()
    built = work.build(data)
    layout = torch.channels_last if work.channels_last else torch.contiguous_format
    model = work.distributed(built.module.to(memory_format=layout)).train()
    if work.compile:
        model.compile()
    optimizer = optimizer_for(model.parameters())
    size = (work.batch_size, built.channels, built.image_size, built.image_size)
    images_BCHW = torch.randn(size, device=work.device).to(memory_format=layout)
    labels_B = torch.randint(0, len(data.train.classes), (work.batch_size,), device=work.device)
    for _ in range(work.updates_per_epoch):
        with work.autocast():
            loss = functional.cross_entropy(model(images_BCHW), labels_B)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        clock.tick()
    return model
