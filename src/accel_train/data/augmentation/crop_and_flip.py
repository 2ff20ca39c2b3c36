"""Shifts images within a margin, and mirrors them.

Shape suffixes: B images, N images and their mirror images, C channels, H height, W width; 3 for down, right, mirrored.
"""

import torch
from torch import Tensor
from torch.nn import functional

from accel_train.rng import integers, make_key, signed

_PARTS = 2**24
"""Of the unit interval: what probabilities are compared with."""


class CropAndFlip:
    """Shifts each image within a margin of zeros and mirrors some."""

    def __init__(self, seed: int, *, shift: int, flip: float, device: torch.device) -> None:
        self._shift = shift
        keys = [[signed(make_key(seed, name))] for name in ("down", "right", "flip")]
        shifts = 2 * shift + 1
        self._keys_31 = torch.tensor(keys, device=device)
        self._limits_31 = torch.tensor([[shifts], [shifts], [_PARTS]], device=device)
        self._first_mirrored = round(_PARTS * (1 - flip))

    def __call__(self, images_BCHW: Tensor, sample_indices_B: Tensor) -> Tensor:
        down_B, right_B, part_B = integers(self._keys_31, sample_indices_B, self._limits_31)
        mirrored_B = part_B >= self._first_mirrored
        both_ways = torch.cat([images_BCHW, images_BCHW.flip(3)])
        images = len(images_BCHW)
        chosen_B = torch.arange(images, device=images_BCHW.device) + images * mirrored_B
        if not self._shift:  # whole images: takes a third of the time in channels last
            return both_ways.permute(0, 2, 3, 1).index_select(0, chosen_B).permute(0, 3, 1, 2)
        right_B = torch.where(mirrored_B, 2 * self._shift - right_B, right_B)
        return self._windows(both_ways, chosen_B, down_B, right_B)

    def _windows(self, images_NCHW: Tensor, chosen_B: Tensor, down_B: Tensor, right_B: Tensor) -> Tensor:
        """Copy from each chosen image, padded, the window of the original size at its offset down and right."""
        channels, height, width = images_NCHW.shape[1:]
        padded = functional.pad(images_NCHW.contiguous(), (self._shift,) * 4)
        per_image, per_channel, per_row, _ = padded.stride()
        last = per_channel * (channels - 1) + per_row * (height - 1) + width - 1  # offset of a window's last pixel
        windows = padded.as_strided((padded.numel() - last, channels, height, width), (1, per_channel, per_row, 1))
        return windows.index_select(0, per_image * chosen_B + per_row * down_B + right_B)


class VerticalFlip:
    """Turns some images upside down."""

    def __init__(self, seed: int, probability: float) -> None:
        self._key = make_key(seed, "vertical")
        self._first = round(_PARTS * (1 - probability))

    def __call__(self, images_BCHW: Tensor, sample_indices_B: Tensor) -> Tensor:
        chosen_B = integers(self._key, sample_indices_B, _PARTS) >= self._first
        return torch.where(chosen_B.view(-1, 1, 1, 1), images_BCHW.flip(2), images_BCHW)
