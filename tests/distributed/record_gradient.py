"""Trains five updates; writes the gradient of the first, and each rank's losses.

Arguments: a folder, and options of TrainConfig as JSON.
"""

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from accel_train.config.load import make_config
from accel_train.config.options import TrainConfig
from accel_train.distributed.accelerator import stop
from accel_train.events import Progress
from accel_train.run.build import build_run
from accel_train.run.session import Session
from accel_train.system.signals import StopSignals

folder, options = Path(sys.argv[1]), json.loads(sys.argv[2])
run = build_run(make_config(TrainConfig, options | {"log_every": 1, "output": folder / "run"}, {}), {})
session = Session(run, StopSignals())


def write_gradient(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """Write the gradients, collected as the state of the model is."""
    model = run.plain_model
    weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.copy_(parameter.grad)
    found = run.processes.full_weights(run.training.updater.model)
    model.load_state_dict(weights)
    if run.processes.is_main:
        gradient = torch.cat([tensor.flatten() for name, tensor in found.items() if name.endswith(("weight", "bias"))])
        safetensors.torch.save_file({"gradient": gradient}, folder / "gradient.safetensors")
    hook.remove()


hook = run.training.updater.optimizer.register_step_pre_hook(write_gradient)
progress = (event for event in session.events() if isinstance(event, Progress))
losses = [event.local_loss for event in islice(progress, 5)]
(folder / f"losses_{run.processes.rank}.json").write_text(json.dumps(losses))
stop()
