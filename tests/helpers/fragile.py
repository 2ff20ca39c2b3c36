"""A user's data and model whose loss is NaN for one image."""

FRAGILE = """
import torch
from torch import nn

class Images:
    classes = ("a", "b")

    def __init__(self, ids):
        self.ids = ids

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        image = torch.randint(200, (1, 8, 8), generator=torch.Generator().manual_seed(self.ids[i]), dtype=torch.uint8)
        return image.fill_(50) if self.ids[i] == POISON else image, i % 2

class Fragile(nn.Sequential):
    '''Returns NaN for an image whose pixels are all equal.'''

    def forward(self, images):
        alike = images.amax((1, 2, 3)) == images.amin((1, 2, 3))
        return super().forward(images) * torch.where(alike, float("nan"), 1.0)[:, None]

def data():
    return Images(range(64)), Images(range(100, 120))

def net(classes):
    return Fragile(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, classes))
"""
"""The code of a module that must also define POISON, the number of that image."""
