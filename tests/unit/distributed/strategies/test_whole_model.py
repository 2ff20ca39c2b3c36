"""What a strategy does in which every process has all layers; updates are tested in training/test_updater.py."""

import torch
from torch import nn

from accel_train.distributed.strategies.ddp import DDP


def test_norm_state_and_losses_are_those_of_this_process() -> None:
    strategy, net = DDP(), nn.BatchNorm1d(2)
    net.weight.grad = torch.tensor([3.0, 0.0])
    net.bias.grad = torch.tensor([0.0, 4.0])
    assert strategy.gradient_norm(net.parameters()).item() == 5.0
    state = dict(strategy.full_state(net))
    assert list(state) == list(net.state_dict())
    assert not any(tensor.requires_grad for tensor in state.values())
    loss = torch.tensor(2.5)
    assert strategy.from_last_stage(loss) is loss
    assert (strategy.stages, strategy.replica_group, strategy.place(1)) == (1, None, "")
