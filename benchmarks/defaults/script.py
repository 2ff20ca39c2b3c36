"""The training script that many tutorials teach: ResNet-18 from scratch on a folder of pictures, without accel_train.

python -m benchmarks.defaults.script pictures/photos280 --epochs 20
"""

import argparse
import time

import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.models import resnet18
from torchvision.transforms import v2


def main() -> None:
    """Train and print the accuracy after each epoch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    finish = [
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ]
    augment = v2.Compose([v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), *finish])
    train = DataLoader(ImageFolder(f"{args.folder}/train", augment), batch_size=32, shuffle=True)
    val = ImageFolder(f"{args.folder}/val", v2.Compose([v2.Resize(256), v2.CenterCrop(224), *finish]))
    model = resnet18(num_classes=len(val.classes))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=7, gamma=0.1)
    began = time.perf_counter()
    for epoch in range(1, args.epochs + 1):
        model.train()
        for images, labels in train:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        schedule.step()
        model.eval()
        with torch.no_grad():
            hits = sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(val, batch_size=50))
        print(f"epoch {epoch}: accuracy {hits / len(val):.3f}, {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
