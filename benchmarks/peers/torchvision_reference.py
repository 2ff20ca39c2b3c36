"""The form of torchvision's references/classification: reads the loss and two accuracies after each update.

Shape suffixes: B images, C channels, H height, W width, K classes, T best classes.
"""

from collections import defaultdict

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler, RandomSampler

from benchmarks.peers.work import Clock, Work, cosine_for, optimizer_for, pictures, usual_transform


def train(work: Work, clock: Clock) -> nn.Module:
    data = work.open()
    images = pictures(work, data, usual_transform(data))
    model = work.distributed(work.build(data).module).train()
    sampler = _sampler(images, work)
    loader = DataLoader(images, work.batch_size, sampler=sampler, drop_last=True)
    criterion = nn.CrossEntropyLoss()
    optimizer = optimizer_for(model.parameters())
    scheduler = cosine_for(optimizer, work)
    meters: defaultdict[str, float] = defaultdict(float)
    for epoch in range(work.epochs):
        if isinstance(sampler, DistributedSampler):
            sampler.set_epoch(epoch)
        for batch in loader:
            images_BCHW, labels_B = (part.to(work.device) for part in batch)
            with work.autocast():
                logits_BK = model(images_BCHW)
                loss = criterion(logits_BK, labels_B)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            top1, top5 = _accuracies(logits_BK, labels_B)
            meters["loss"] += loss.item()
            meters["acc1"] += top1.item()
            meters["acc5"] += top5.item()
            clock.tick()
    return model


def _sampler(
    images: Dataset[tuple[Tensor, int]], work: Work
) -> "RandomSampler | DistributedSampler[tuple[Tensor, int]]":
    return DistributedSampler(images) if work.processes > 1 else RandomSampler(images)  # type: ignore[arg-type]


@torch.inference_mode()
def _accuracies(logits_BK: Tensor, labels_B: Tensor) -> tuple[Tensor, Tensor]:
    right_TB = logits_BK.topk(5).indices.t() == labels_B
    return right_TB[:1].float().sum() * (100 / len(labels_B)), right_TB.float().sum() * (100 / len(labels_B))
