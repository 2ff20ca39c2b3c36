"""The images of one update of a run as its model is given them.

Shape suffixes: B images, C channels, H height, W width.
"""

from collections.abc import Iterator
from itertools import islice

import torch

from accel_train.data.image_names import image_names
from accel_train.data.loader import TrainReader
from accel_train.data.sampler import UpdateSampler
from accel_train.errors import LocalError
from accel_train.run.build import Run
from accel_train.run.contact_sheet import Captioned
from accel_train.run.images import training_transform, view_of
from accel_train.run.preview import captions, model_pixels
from accel_train.training.loss import Targets


def pictures_of_update(run: Run, update: int) -> Iterator[Captioned]:
    """Yield the images of an update, counted from 1, of all processes, each with its label and name.

    They are read and transformed on the CPU by this process, one micro-batch after another.
    """
    plan, config, data = run.plan, run.config, run.data
    order, mixing = run.training.batches.sampler.sampler, run.training.batches.mixing
    micro_batches = plan.micro_batches
    sampler = UpdateSampler(order, batch_size=plan.batch_size, blocks=(range(micro_batches),), epochs=plan.epochs)
    sampler.first_update = update - 1
    reader = TrainReader(data.train, view_of(config, run.built.image_size, data.interpolation), config.seed)
    transform = training_transform(config, data, run.built, dtype=torch.float32, device=torch.device("cpu"))
    names = image_names(data.train)
    for index, sample_indices_B in enumerate(islice(sampler, micro_batches)):
        read = reader.__getitems__(sample_indices_B)
        if isinstance(read, LocalError):
            raise read
        images_BCHW, targets = transform(read.images_BCHW.cpu(), read.sample_indices_B), Targets(read.labels_B.cpu())
        if mixing:
            mix = mixing.draw(update - 1, index, plan.batch_size)
            images_BCHW, targets = mix.images(images_BCHW), mix.targets(targets.labels_B)
        pixels_BHWC = model_pixels(images_BCHW, data, is_float=read.images_BCHW.is_floating_point())
        labels = captions(targets, run.contents.classes)
        ids_B = sample_indices_B % len(data.train)
        for pixels_HWC, label, image in zip(pixels_BHWC, labels, ids_B.tolist(), strict=True):
            yield Captioned(pixels_HWC, (*label, names[image]))
