"""The upper bound that training is measured against: a bare loop over one batch in memory.

No data, augmentation, metrics, logging or Accelerate in the loop; the same model, optimizer, precision, memory format,
allocator and threads as in a run. With several processes it is a bare DDP loop.

Shape suffixes: B images, C channels, H height, W width.
"""

import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional

from accel_train.bench.results import Setting
from accel_train.distributed import accelerator as distributed
from accel_train.distributed.environment import launched
from accel_train.distributed.launcher import start_processes
from accel_train.models.build import build_model
from accel_train.training.optimizers import build_optimizer
from accel_train.training.torch_settings import keep_freed_memory, set_torch_options

_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


def images_per_second(setting: Setting, *, model: str, classes: int, channels: int, image_size: int) -> float:
    """Collective: train with a setting; return the images/s of all processes from the second update on."""
    precision = setting.precision
    set_torch_options(threads=None, exact=False)
    keep_freed_memory()
    processes = distributed.start(device=setting.device, backend=None, precision=precision, timeout=300)
    device, dtype = processes.device, processes.dtype
    torch.manual_seed(0)
    built = build_model(model, classes=classes, channels=channels, data_size=image_size, image_size=image_size)
    module = built.module.to(device, dtype).to(memory_format=torch.channels_last).train()
    optimizer = build_optimizer("sgd", module, weight_decay=5e-4, betas=(0.9, 0.999), eps=1e-8)
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    if setting.compile:
        module.compile()
    if processes.count > 1:
        module = nn.parallel.DistributedDataParallel(module, broadcast_buffers=False, gradient_as_bucket_view=True)
    images_BCHW = torch.randn(setting.batch_size, channels, image_size, image_size, device=device, dtype=dtype)
    images_BCHW = images_BCHW.to(memory_format=torch.channels_last)
    labels_B = torch.randint(0, classes, (setting.batch_size,), device=device)
    scaler = torch.amp.GradScaler(device.type, enabled=precision == "fp16")
    started = 0.0
    for update in range(setting.updates):
        if update == 1:
            started = _now(device)
        with torch.autocast(device.type, _AUTOCAST.get(precision), enabled=precision in _AUTOCAST):
            loss = functional.cross_entropy(module(images_BCHW), labels_B)
        scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return (setting.updates - 1) / setting.updates * setting.images / (_now(device) - started)


def _now(device: torch.device) -> float:
    if device.type != "cpu":
        torch.accelerator.synchronize()
    return time.perf_counter()


def main(words: str) -> int:
    """Start the processes of a setting, or be one of them and print its images/s; return the exit code."""
    arguments = json.loads(words)
    setting = Setting(**arguments.pop("setting"))
    if setting.processes > 1 and not launched():
        return start_processes(setting.processes, [words], module="accel_train.bench.bare_loop")
    sys.stdout.write(f"{images_per_second(setting, **arguments)}\n")
    sys.stdout.flush()
    distributed.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
