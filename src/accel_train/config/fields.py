"""What the fields of a config are made of: the base class, markers, choices, and how to read them off a class."""

import inspect
import os
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from accel_train.config.lr_schedule import RULES, SCALINGS
from accel_train.config.optimizers import OPTIMIZERS
from accel_train.config.strategies import STRATEGIES
from accel_train.errors import UserError
from accel_train.system.atomic_files import refuse_stdout, refuse_unwritable

_MOST_WORKERS = 1024

AugmentLevel = Literal["none", "light", "standard", "strong"]
Precision = Literal["fp32", "tf32", "bf16", "fp16", "fp64"]
Device = Literal["auto", "cpu", "cuda", "mps"]
Cache = Literal["auto", "device", "ram", "off"]
Fit = Literal["crop", "pad", "squash"]
if TYPE_CHECKING:
    OptimizerName = str
    RuleName = str
    ScalingName = str
    StrategyName = str
else:  # the rows of a table
    OptimizerName = Literal[tuple(OPTIMIZERS)]
    RuleName = Literal[tuple(RULES)]
    ScalingName = Literal[tuple(SCALINGS)]
    StrategyName = Literal["auto", *STRATEGIES]


def expand_home(path: Path) -> Path:
    """Return a path with a leading ~ or ~user replaced: a shell leaves it in --output=~/x, YAML in all values."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path's raises for an unknown user


def refuse_empty(name: object) -> object:
    """Refuse a name or a path that is empty: as a path it would be the current folder."""
    if name == "":
        raise ValueError("the name is empty; is a variable of the shell unset?")
    return name


def _refuse_unwritable_plot(path: Path) -> Path:
    refuse_unwritable(path, "--png", ".png")
    return path


def _refuse_stdout(path: Path) -> Path:
    refuse_stdout(path, "--output", "folder")
    return path


def _user_name(name: str) -> str:
    return os.path.expanduser(name)  # noqa: PTH111


_MOST = 2**53
"""Integers up to this are exact as floats."""
PositiveInt = Annotated[int, Field(gt=0, le=_MOST)]
NonNegativeInt = Annotated[int, Field(ge=0, le=_MOST)]
UserPath = Annotated[Path, BeforeValidator(refuse_empty), AfterValidator(expand_home)]
"""A path in which ~ is the home folder."""
OutputFolder = Annotated[UserPath, AfterValidator(_refuse_stdout)]
"""Value of ``--output`` where a folder is written."""
Plot = Annotated[UserPath, AfterValidator(_refuse_unwritable_plot)]
"""Value of ``--png``: a PNG file that can be written."""
Name = Annotated[str, BeforeValidator(refuse_empty)]
"""A name that is given to us as it is."""
UserName = Annotated[str, BeforeValidator(refuse_empty), AfterValidator(_user_name)]
"""A name, or a path in which ~ is the home folder."""


@dataclass(frozen=True)
class Placement:
    """Marks a field that changes where and how fast a run is computed, not its result; free on resume, too."""


@dataclass(frozen=True)
class FreeOnResume:
    """Marks a field in which a resumed run may differ from the stored one."""


@dataclass(frozen=True)
class Everyday:
    """Marks a field that ``train --help`` shows; ``--help-all`` shows the others too."""


def split_list(value: object) -> object:
    """Split what was given as 30,60,80, once or several times."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        return value
    return [part.strip() for text in texts for part in text.split(",")]


def _worker_count(value: object) -> str:
    if value != "auto" and not (str(value).isdecimal() and int(str(value)) <= _MOST_WORKERS):
        raise UserError(
            f"--workers {value}: must be auto or a whole number from 0 to {_MOST_WORKERS:,}",
            "leave it out: auto chooses by cores and device",
        )
    return str(value)


Workers = Annotated[str, BeforeValidator(_worker_count), Placement()]


class Config(BaseModel):
    """Base of all configs: frozen, without unknown fields, NaN or infinities.

    Each field is an option and a YAML key. The docstring under it is its help, and its default where that is computed.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        defer_build=True,  # of panels no instance is made
    )
    panel: ClassVar[str | None] = None
    """Heading in the help of the fields that this very class declares."""


def marked(kind: type[Config], *markers: type) -> frozenset[str]:
    """Return the names of a config's fields that bear one of the markers."""
    return frozenset(
        name for name, field in kind.model_fields.items() if any(isinstance(item, markers) for item in field.metadata)
    )


def panel_of(kind: type[Config], name: str) -> str | None:
    """Return the panel of the class that declares a config's field."""
    configs = (base for base in kind.__mro__ if issubclass(base, Config))
    return next(base.panel for base in configs if name in inspect.get_annotations(base))


def choices_of(kind: type[BaseModel], name: str) -> tuple[str, ...]:
    """Return the values among which a field chooses; none if it takes others too."""
    return _choices(kind.model_fields[name].annotation)


def _choices(annotation: object) -> tuple[str, ...]:
    if typing.get_origin(annotation) is Literal:
        return tuple(map(str, typing.get_args(annotation)))
    kinds = [each for each in typing.get_args(annotation) if each not in (types.NoneType, Ellipsis)]
    return _choices(kinds[0]) if len(kinds) == 1 else ()


def help_of(kind: type[BaseModel], name: str) -> str:
    """Return the docstring of a config's field on one line, that of a base if the config only narrows the type."""
    bases = (base for base in kind.__mro__ if issubclass(base, BaseModel) and name in base.model_fields)
    texts = (base.model_fields[name].description for base in bases)
    return " ".join((next(filter(None, texts), "") or "").split())
