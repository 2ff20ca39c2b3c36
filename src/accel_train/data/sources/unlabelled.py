"""Pictures without labels as a source; those that cannot be read are flagged instead of ending the run.

Shape suffixes: B images of a batch, C channels, H height, W width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from accel_train.data.images.decode import decode_window
from accel_train.data.images.view import View
from accel_train.data.sources.base import Ids, as_list
from accel_train.data.sources.inputs import Picture
from accel_train.data.sources.zip_members import MOST_BYTES, read_member
from accel_train.system.regular_files import read_regular

UNREADABLE, READABLE = 0, 1
"""Labels."""
LUMA = (19_595, 38_470, 7_471)
"""Weights of red, green and blue as Pillow has them (ITU-R BT.601); their sum is 2**16: grey does not change."""


@dataclass(frozen=True)
class UnlabelledSource:
    """Picture files and members of zips; a label tells if the picture could be read, else it is black."""

    pictures: Sequence[Picture]
    channels: int
    """3, or 1 for grey images."""
    side: int
    """Of a typical image, pixels."""

    @property
    def classes(self) -> tuple[str, ...]:
        return "unreadable", "readable"

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.channels, self.side, self.side

    def __len__(self) -> int:
        return len(self.pictures)

    def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
        shape = (len(ids), self.channels, view.size, view.size)
        images_BCHW = torch.zeros(shape, dtype=torch.uint8).contiguous(memory_format=torch.channels_last)
        labels_B = torch.full([len(ids)], READABLE)
        for position, image_id in enumerate(as_list(ids)):
            try:
                images_BCHW[position] = self._image(image_id, view)
            except Exception:  # damaged bytes make decoders raise any type
                labels_B[position] = UNREADABLE
        return images_BCHW, labels_B

    def problem(self, image_id: int, view: View) -> str:
        """Return why a picture cannot be read: read it again, because a loader does not pass on the reason."""
        try:
            self._image(image_id, view)
        except OSError as error:
            return error.strerror or str(error)
        except Exception as error:
            return str(error) or type(error).__name__
        return "it could be read only when it was tried again"

    def _image(self, image_id: int, view: View) -> Tensor:
        """Return an image as read, of the channels of the source.

        Other programs, which may use an export of the model, decode JPEGs at full size; so it is here.
        """
        picture = self.pictures[image_id]
        box = partial(view.box, key=None)
        window_HWC = torch.from_numpy(decode_window(_encoded(picture), box, None, view.most_pixels))
        image_CHW = view.resized(window_HWC[None].permute(0, 3, 1, 2))[0]
        return image_CHW if self.channels == 3 else as_grey(image_CHW)


def _encoded(picture: Picture) -> bytes:
    """Return the bytes of a picture.

    Raises:
        Exception: they cannot be read; `zipfile` raises any type.
    """
    if picture.member is not None:
        return read_member(picture.path, picture.member)
    return read_regular(Path(picture.path), MOST_BYTES)


def as_grey(images_CHW: Tensor) -> Tensor:
    """Convert RGB as Pillow does; there may be a dimension of images before the channels."""
    weights_C11 = torch.tensor(LUMA, dtype=torch.int32)[:, None, None]
    return ((images_CHW * weights_C11).sum(dim=-3, keepdim=True) + 2**15 >> 16).to(torch.uint8)
