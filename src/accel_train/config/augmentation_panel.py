"""The options of augmentation, and of how a picture becomes a square image: a panel of the help."""

from dataclasses import fields
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from accel_train.config.defaults import Augmentation
from accel_train.config.fields import AugmentLevel, Config, Everyday, Fit, split_list
from accel_train.errors import UserError

_MOST_PIXELS = 1000
_MOST_OPERATIONS = 16
_MOST_MAGNITUDE = 30
LEVEL_OPTIONS = frozenset(field.name for field in fields(Augmentation))
"""Options that the level of augmentation sets if they are not given."""
Probability = Annotated[float, Field(ge=0, le=1)]


def _listed(value: object) -> object:
    """Split 0.5,1; a file may hold a number for a list of one."""
    return [value] if isinstance(value, int | float) else split_list(value)


def _range(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(values) != 2 or not 0 < values[0] <= values[1]:
        raise ValueError("must be two numbers, the smaller first, such as 0.5,1")
    return values


def _shares(values: tuple[float, ...]) -> tuple[float, ...]:
    if max(_range(values)) > 1:
        raise ValueError("must be at most 1: the whole picture")
    return values


def _jitter(values: tuple[float, ...]) -> tuple[float, ...]:
    """Return brightness, contrast, saturation and hue; one number stands for the first three."""
    strengths = (*values * 3, 0.0) if len(values) == 1 else values
    if len(strengths) != 4 or min(strengths) < 0 or max(strengths[:3]) > 1 or strengths[3] > 0.5:
        raise ValueError(
            "must be one number from 0 to 1, or four: brightness, contrast, saturation and hue (up to 0.5)"
        )
    return strengths


def _operations(values: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of operations and their magnitude."""
    if values == (0,):
        return 0, 0
    if len(values) != 2 or not (0 <= values[0] <= _MOST_OPERATIONS and 0 <= values[1] <= _MOST_MAGNITUDE):
        raise ValueError(
            f"must be the number of operations (to {_MOST_OPERATIONS}) and their magnitude (0 to {_MOST_MAGNITUDE}), "
            "such as 2,9, or 0"
        )
    return values


Range = Annotated[tuple[float, ...], BeforeValidator(_listed), AfterValidator(_range)]
Shares = Annotated[tuple[float, ...], BeforeValidator(_listed), AfterValidator(_shares)]
Jitter = Annotated[tuple[float, ...], BeforeValidator(_listed), AfterValidator(_jitter)]
Operations = Annotated[tuple[int, ...], BeforeValidator(_listed), AfterValidator(_operations)]


class Augment(Config):
    """How training images are changed at random, and how pictures become square."""

    panel = "Augmentation"

    augment: Annotated[AugmentLevel | None, Everyday()] = None
    """Augmentation level; what each does depends on the data set, and options such as --flip change it. Default: by
    data set."""
    random_crop: bool | None = None
    """Resize a random part of each image to the whole (random resized crop). Default: by level."""
    crop_scale: Shares | None = None
    """Smallest and largest area of the random crop, as fractions of the image. Default: 0.08,1."""
    crop_ratio: Range | None = None
    """Smallest and largest width / height of the random crop. Default: 3/4 to 4/3."""
    shift: Annotated[int | None, Field(ge=0, le=_MOST_PIXELS)] = None
    """Shift by up to this many pixels within a margin of zeros. Default: by level."""
    flip: Probability | None = None
    """Probability of a horizontal flip. Default: by level."""
    vertical_flip: Probability | None = None
    """Probability of a vertical flip. Default: 0."""
    rotate: Annotated[float | None, Field(ge=0, le=180)] = None
    """Rotate by up to this many degrees to either side. Default: 0."""
    color_jitter: Jitter | None = None
    """Change brightness, contrast, saturation and hue by up to these fractions, such as 0.4,0.4,0.4,0.1; one number
    stands for the first three. Default: 0."""
    rand_augment: Operations | None = None
    """RandAugment: number of operations and their magnitude, from 0 to 30, such as 2,9. Default: by level."""
    trivial_augment: bool | None = None
    """TrivialAugment: one operation of random magnitude. Default: by level."""
    random_erasing: Probability | None = None
    """Probability that a random rectangle is replaced by the mean colour. Default: by level."""
    fit: Fit | None = None
    """How a picture becomes square if it is not cropped at random: its central square (crop), all of it with black
    margins (pad), or all of it, distorted (squash). Default: that of --weights, else crop."""
    eval_crop: Annotated[float | None, Field(gt=0, le=1)] = None
    """Side of the central square as a fraction of the picture's shorter side. Default: that of --weights, else
    0.875."""

    @property
    def augmentation(self) -> Augmentation:
        """The changes of a resolved config."""
        values: dict[str, Any] = {name: getattr(self, name) for name in LEVEL_OPTIONS}
        return Augmentation(**{name: value for name, value in values.items() if value is not None})

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        whole = self.fit if self.fit in ("pad", "squash") else None
        for name, value in (("crop-scale", self.crop_scale), ("crop-ratio", self.crop_ratio)):
            if value is not None and self.random_crop is False:
                raise UserError(f"--{name} has no effect with --no-random-crop", "leave one of them out")
            if value is not None and whole and not self.random_crop:
                hint = "add --random-crop: whole pictures are then for evaluation only; or use --fit crop"
                raise UserError(f"--{name} has no effect with --fit {whole}, which shows whole pictures", hint)
        if self.eval_crop is not None and whole:
            raise UserError(f"--eval-crop has no effect with --fit {whole}", "leave one of them out")
        if self.trivial_augment and self.rand_augment and self.rand_augment[0]:
            raise UserError("--trivial-augment and --rand-augment draw the same operations", "leave one of them out")
        return self
