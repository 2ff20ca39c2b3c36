"""Changes the colours of each image by a factor of its own.

The functions are those of torchvision.transforms.v2, which take one factor for all images. Images are uint8, of one or
three channels.

Shape suffixes: B images, C channels, H height, W width.
"""

import torch
from torch import Tensor
from torch.nn import functional

from accel_train.rng import fractions, make_key

_LUMA = (0.2989, 0.587, 0.114)
_BELOW_256 = 255.999  # torchvision's: floats to 1 become 0 to 255 by truncation


def brightness(images_BCHW: Tensor, factors_B: Tensor) -> Tensor:
    return _clipped(images_BCHW * _per_image(factors_B))


def contrast(images_BCHW: Tensor, factors_B: Tensor) -> Tensor:
    """Return images blended with the mean of their grey values."""
    grey_B1HW = _grey(images_BCHW) if images_BCHW.shape[1] == 3 else images_BCHW.to(torch.float32)
    return _blended(images_BCHW, grey_B1HW.mean(dim=(1, 2, 3), keepdim=True), factors_B)


def saturation(images_BCHW: Tensor, factors_B: Tensor) -> Tensor:
    """Return images blended with their grey values."""
    return images_BCHW if images_BCHW.shape[1] == 1 else _blended(images_BCHW, _grey(images_BCHW), factors_B)


def hue(images_BCHW: Tensor, shifts_B: Tensor) -> Tensor:
    """Return images with their hues shifted by a fraction of the circle."""
    if images_BCHW.shape[1] == 1:
        return images_BCHW
    pixels_BCHW = images_BCHW.to(torch.float32) / 255
    low_BHW, high_BHW = torch.aminmax(pixels_BCHW, dim=1)
    range_BHW = high_BHW - low_BHW
    divisor_BHW = torch.where(range_BHW == 0, 1.0, range_BHW)
    red, green, blue = pixels_BCHW.unbind(1)
    sixths_BHW = torch.where(
        high_BHW == red,
        (green - blue) / divisor_BHW,
        torch.where(high_BHW == green, 2 + (blue - red) / divisor_BHW, 4 + (red - green) / divisor_BHW),
    ).add_(6 * shifts_B.view(-1, 1, 1))
    # A channel is at the top in two sixths of the circle, at the bottom in two, and rises or falls in between.
    channels = [(sixths_BHW + offset).remainder_(6) for offset in (5, 3, 1)]
    parts = [range_BHW * torch.minimum(k, 4 - k).clamp_(0, 1) for k in channels]
    shifted_BCHW = torch.stack([high_BHW - part for part in parts], dim=1)
    return (shifted_BCHW.clamp_(0, 1) * _BELOW_256).to(torch.uint8)


def sharpness(images_BCHW: Tensor, factors_B: Tensor) -> Tensor:
    """Return images blended with themselves smoothed, except at their borders."""
    channels, height, width = images_BCHW.shape[1:]
    if min(height, width) <= 2:
        return images_BCHW
    kernel = torch.full((3, 3), 1 / 13, device=images_BCHW.device)
    kernel[1, 1] = 5 / 13
    # torch convolves channels last fifteen times as fast
    pixels_BCHW = images_BCHW.to(torch.float32, memory_format=torch.channels_last, copy=True)
    smoothed_BCHW = functional.conv2d(pixels_BCHW, kernel.expand(channels, 1, 3, 3), groups=channels).round_()
    inner_BCHW = pixels_BCHW[..., 1:-1, 1:-1]
    inner_BCHW.add_(smoothed_BCHW.sub_(inner_BCHW) * _per_image(1 - factors_B))
    return _clipped(pixels_BCHW)


def posterize(images_BCHW: Tensor, bits_B: Tensor) -> Tensor:
    """Keep the first bits of each value of the images."""
    masks_B = 256 - 2 ** (8 - bits_B.to(torch.int64))
    return images_BCHW & masks_B.to(torch.uint8).view(-1, 1, 1, 1)


def solarize(images_BCHW: Tensor, thresholds_B: Tensor) -> Tensor:
    """Invert the values of the images from a threshold on."""
    first_B = thresholds_B.ceil().to(torch.uint8).view(-1, 1, 1, 1)
    return images_BCHW ^ (images_BCHW >= first_B).to(torch.uint8).mul_(255)


def _per_image(factors_B: Tensor) -> Tensor:
    return factors_B.view(-1, 1, 1, 1)


def _grey(images_B3HW: Tensor) -> Tensor:
    red, green, blue = images_B3HW.unbind(1)
    return (red * _LUMA[0]).add_(green, alpha=_LUMA[1]).add_(blue, alpha=_LUMA[2]).floor_().unsqueeze_(1)


def _blended(images_BCHW: Tensor, other_BCHW: Tensor, factors_B: Tensor) -> Tensor:
    factors_B111 = _per_image(factors_B)
    return _clipped((images_BCHW * factors_B111).add_(other_BCHW * (1 - factors_B111)))


def _clipped(values_BCHW: Tensor) -> Tensor:
    return values_BCHW.clamp_(0, 255).to(torch.uint8)


_CHANGES = (brightness, contrast, saturation)


class ColorJitter:
    """Changes brightness, contrast, saturation and hue, in this order, by a random factor of each image."""

    def __init__(self, seed: int, strengths: tuple[float, ...]) -> None:
        self._keys = [make_key(seed, "jitter", number) for number in range(len(strengths))]
        self._strengths = strengths

    def __call__(self, images_BCHW: Tensor, sample_indices_B: Tensor) -> Tensor:
        draws = [2 * fractions(key, sample_indices_B) - 1 for key in self._keys]
        for change, strength, draw_B in zip(_CHANGES, self._strengths, draws, strict=False):
            if strength:
                images_BCHW = change(images_BCHW, 1 + strength * draw_B)
        return hue(images_BCHW, self._strengths[3] * draws[3]) if self._strengths[3] else images_BCHW
