"""The commands: each is imported when it is called, because to import all takes longer than to start one."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import typer
import typer.core

from accel_train.cli.option_values import OptionsWithValues
from accel_train.config.import_string import import_object

_NAMES = (
    *("train", "evaluate", "predict", "export", "bench", "pack", "check", "preview", "plan", "schedule", "doctor"),
    *("find-lr", "report", "runs", "compare", "replay", "recipes", "job"),
)
"""In the order of the help; `find-lr` is the function `find_lr` in `find_lr.py`."""


class _OnDemand(Mapping[str, Any]):
    """Commands by name, as Typer looks them up."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in _NAMES:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = _command(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


class Commands(typer.core.TyperGroup):
    """The group of all commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _OnDemand()  # type: ignore[assignment]  # Typer only reads it

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_NAMES)


def _command(name: str) -> Any:
    function = name.replace("-", "_")
    found, app = import_object(f"accel_train.cli.{function}:{function}"), typer.Typer()
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        has_more = "help_all" in inspect.signature(found).parameters
        epilog = f"`accel_train {name} --help-all` shows all options." if has_more else None
        app.command(name, cls=OptionsWithValues, epilog=epilog)(found)
    return typer.main.get_group(app).commands[name]
