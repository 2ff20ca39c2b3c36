"""A plain torch loop over a DataLoader, as tutorials write it.

Shape suffixes: B images, C channels, H height, W width.
"""

from torch import nn
from torch.utils.data import DataLoader, DistributedSampler

from benchmarks.peers.work import Clock, Pictures, Work, cosine_for, optimizer_for, pictures, usual_transform


def train(work: Work, clock: Clock) -> nn.Module:
    data = work.open()
    images = pictures(work, data, usual_transform(data))
    model = work.distributed(work.build(data).module).train()
    sampler: DistributedSampler[Pictures] | None = DistributedSampler(images) if work.processes > 1 else None
    loader = DataLoader(images, work.batch_size, shuffle=sampler is None, sampler=sampler, drop_last=True)
    criterion = nn.CrossEntropyLoss()
    optimizer = optimizer_for(model.parameters())
    scheduler = cosine_for(optimizer, work)
    for epoch in range(work.epochs):
        if sampler:
            sampler.set_epoch(epoch)
        for images_BCHW, labels_B in loader:
            optimizer.zero_grad()
            with work.autocast():
                loss = criterion(model(images_BCHW.to(work.device)), labels_B.to(work.device))
            loss.backward()
            optimizer.step()
            scheduler.step()
            clock.tick()
    return model
