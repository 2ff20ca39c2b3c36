"""Tensors cross between stages contiguous and arrive in the layout in which they were computed."""

from contextlib import nullcontext
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from accel_train.distributed.strategies.pipeline_cut import BlockCost
from accel_train.distributed.strategies.pipeline_stage import Borders, Sent, StageModule


class Part(NamedTuple):
    """A block."""

    name: str
    forward: nn.Module
    parts: tuple[str, ...] = ()


def sent_like(x: Tensor) -> Sent:
    channels_last = x.ndim == 4 and not x.is_contiguous()
    return Sent.output_of(BlockCost(0.0, 0, x.shape, x.dtype, channels_last))


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(2, 3, 4, 5),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(2, 7, dtype=torch.float64),
        torch.randn(2, 5, 3),
    ],
    ids=["contiguous", "channels last", "vectors", "tokens"],
)
def test_tensors_and_gradients_keep_layout_and_values(x: Tensor) -> None:
    sent = sent_like(x)
    packed = sent.pack(x.requires_grad_())
    assert packed.is_contiguous()
    assert (packed.shape, packed.dtype) == (sent.shape, sent.dtype)
    assert packed.data_ptr() == x.data_ptr()  # nothing is copied to send
    received = packed.detach().clone().requires_grad_()
    unpacked = sent.unpack(received)
    assert torch.equal(unpacked, x)
    assert unpacked.stride() == x.stride()
    unpacked.mul_(2)  # as an in-place layer does
    gradient = torch.randn_like(x)
    unpacked.backward(gradient)
    assert received.grad is not None
    assert received.grad.is_contiguous()
    packed.backward(received.grad)
    assert x.grad is not None
    assert torch.equal(x.grad, 2 * gradient)
    assert x.grad.stride() == x.stride()


def test_tensor_of_another_layout_is_sent_as_announced() -> None:
    x = torch.randn(2, 3, 4, 5)
    sent = sent_like(x.to(memory_format=torch.channels_last))
    assert torch.equal(sent.unpack(sent.pack(x)), x)
    assert sent.pack(x).is_contiguous()


def test_description_is_what_is_received() -> None:
    sent = Sent(torch.Size([2, 3]), torch.bfloat16)
    described, empty = sent.description(), sent.empty(torch.device("cpu"))
    assert (described.shape, described.dtype, described.device.type) == (empty.shape, empty.dtype, "meta")
    assert described.requires_grad
    assert not empty.requires_grad


def test_stage_runs_its_blocks_and_returns_logits_in_fp32() -> None:
    torch.manual_seed(0)
    first, last = nn.Linear(3, 4), nn.Linear(4, 2)
    x = torch.randn(5, 3)
    activations = Sent(torch.Size([5, 4]), torch.float32)
    one = StageModule([Part("0", first)], Borders(Sent(x.shape, x.dtype), activations), nullcontext)
    two = StageModule([Part("1", nn.ReLU(inplace=True)), Part("2", last)], Borders(activations, None), nullcontext)
    sent = one(x)
    kept = sent.detach().clone()
    assert torch.equal(two(sent), last(torch.relu(first(x))))
    assert torch.equal(sent, kept)  # the block that writes into its input has its own
    half = StageModule([Part("2", last)], Borders(activations, None), lambda: torch.autocast("cpu", torch.bfloat16))
    assert half(sent).dtype == torch.float32
