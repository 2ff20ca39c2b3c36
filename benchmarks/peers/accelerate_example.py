"""The form of Accelerate's examples/cv_example.py: prepares everything, sums the loss on the device.

Shape suffixes: B images, C channels, H height, W width.
"""

from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader

from benchmarks.peers.work import Clock, Work, cosine_for, optimizer_for, pictures, usual_transform


def train(work: Work, clock: Clock) -> nn.Module:
    accelerator = Accelerator(
        cpu=work.device == "cpu",
        mixed_precision="bf16" if work.precision == "bf16" else "no",
        step_scheduler_with_optimizer=False,
    )
    data = work.open()
    images = pictures(work, data, usual_transform(data))
    optimizer = optimizer_for((model := work.build(data).module).parameters())
    model, optimizer, loader, scheduler = accelerator.prepare(
        model,
        optimizer,
        DataLoader(images, work.batch_size, shuffle=True, drop_last=True),
        cosine_for(optimizer, work),
    )
    criterion = nn.CrossEntropyLoss()
    for _ in range(work.epochs):
        model.train()
        total_loss = 0
        for images_BCHW, labels_B in loader:
            loss = criterion(model(images_BCHW), labels_B)
            total_loss += loss.detach().float()
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            clock.tick()
    return model
