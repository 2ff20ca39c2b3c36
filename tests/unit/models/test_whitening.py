"""The filters of a whitening layer are the principal components of patches, scaled to a variance of 1."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from accel_train.models.whitening import PatchWhitening


def smooth_images(count: int = 64, channels: int = 3) -> Tensor:
    """Return images whose neighbouring pixels are alike, as in photographs."""
    noise_BCHW = torch.randn(count, channels, 12, 12, generator=torch.Generator().manual_seed(0))
    return functional.avg_pool2d(noise_BCHW, 3, stride=1) * 3


def fitted(images_BCHW: Tensor, at_once: int = 64) -> PatchWhitening:
    layer = PatchWhitening(images_BCHW.shape[1])
    layer.fit(images_BCHW.split(at_once))
    return layer


def test_filters_whiten_patches() -> None:
    images_BCHW = smooth_images()
    filters = fitted(images_BCHW).filters
    outputs = functional.conv2d(images_BCHW, filters[:12]).transpose(0, 1).flatten(1).double().numpy()
    windows = np.lib.stride_tricks.sliding_window_view(images_BCHW.double().numpy(), (2, 2), axis=(2, 3))
    patches = windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, 12)
    variances = np.linalg.eigvalsh(patches.T @ patches / len(patches))[::-1]
    moments = outputs @ outputs.T / outputs.shape[1]
    np.testing.assert_allclose(moments, np.diag(variances / (variances + 5e-4)), atol=2e-4)


def test_filters_come_with_their_negatives_and_are_not_trained() -> None:
    layer = fitted(smooth_images(channels=1))
    assert layer.filters.shape == (8, 1, 2, 2)
    assert torch.equal(layer.filters[:4], -layer.filters[4:])
    assert [name for name, _ in layer.named_parameters()] == ["bias"]
    assert set(layer.state_dict()) == {"bias", "filters"}


def test_filters_do_not_depend_on_how_the_images_are_divided_nor_on_threads() -> None:
    images_BCHW = smooth_images()
    expected, threads = fitted(images_BCHW).filters, torch.get_num_threads()
    for at_once, number in ((7, 1), (64, 2), (1, 3)):
        torch.set_num_threads(number)
        try:
            assert torch.equal(fitted(images_BCHW, at_once).filters, expected)
        finally:
            torch.set_num_threads(threads)


def test_few_patches_of_large_images_are_in_memory_together(monkeypatch: pytest.MonkeyPatch) -> None:
    images_BCHW = smooth_images()
    expected, sizes, unfold = fitted(images_BCHW).filters, [], functional.unfold
    monkeypatch.setattr(functional, "unfold", lambda images, side: sizes.append(len(images)) or unfold(images, side))
    monkeypatch.setattr("accel_train.models.whitening._AT_ONCE", 1_000)
    assert torch.equal(fitted(images_BCHW).filters, expected)
    assert sizes == [10] * 6 + [4]  # of 10 × 10 pixels
    fitted(functional.interpolate(images_BCHW[:2], size=(40, 40)))
    assert sizes[7:] == [1, 1]


def test_layer_is_convolution_and_gelu() -> None:
    layer, images_BCHW = fitted(smooth_images()), smooth_images(count=2)
    with torch.no_grad():
        layer.bias += 0.5
    expected = functional.gelu(functional.conv2d(images_BCHW, layer.filters) + 0.5)
    torch.testing.assert_close(layer(images_BCHW), expected)
