"""Sets the momentum of a model's BatchNorm."""

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from accel_train.errors import UserError


def set_momentum(model: nn.Module, momentum: float, name: str) -> None:
    """Set the weight of a new batch in the running statistics.

    Raises:
        UserError: the model has no BatchNorm.
    """
    norms = [part for part in model.modules() if isinstance(part, _BatchNorm)]
    if not norms:
        raise UserError(f"--batch-norm-momentum {momentum:g}: {name} has no BatchNorm", "leave it out")
    for norm in norms:
        norm.momentum = momentum
