"""Makes Typer options from the fields of a config."""

import inspect
import types
import typing
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from accel_train.config.fields import Config, Everyday, help_of, marked, panel_of
from accel_train.config.load import make_config, read_yaml

Command = Callable[..., None]

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="YAML file of options, such as a run's config.yaml; flags win."),
]
"""Annotation of a command's parameter `config_file`, which :func:`with_options` reads."""


def _show_all(context: typer.Context, wanted: bool) -> None:
    if wanted:
        for option in context.command.params:
            if isinstance(option, typer.core.TyperOption):
                option.hidden = False
        context.command.epilog = None
        typer.echo(context.get_help())
        raise typer.Exit


_HelpAll = Annotated[
    bool, typer.Option("--help-all", help="Show all options and exit.", callback=_show_all, is_eager=True)
]


def with_options(kind: type[Config], *, help_all: bool = False) -> Callable[[Command], Command]:
    """Give a command that takes `config` and `origins` an option for each field of a config.

    `origins` maps each given value to its source: "flag", or the name of the file that the parameter `config_file`
    gave. A parameter `signals` gets the process's StopSignals. Other parameters remain options of the command. With
    `help_all`, ``--help`` shows only the fields marked Everyday, and a new option ``--help-all`` shows all.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(context: typer.Context, **given: Any) -> None:
            given.pop("help_all", None)
            path = given.pop("config_file", None)
            from_file = read_yaml(path, set(kind.model_fields)) if path else {}
            flags = {name: given.pop(name) for name in kind.model_fields}
            flags = {name: value for name, value in flags.items() if _is_given(context, name)}
            origins = {name: str(path) for name in from_file} | dict.fromkeys(flags, "flag")
            if "signals" in inspect.signature(command).parameters:
                given["signals"] = context.obj
            command(config=make_config(kind, {**from_file, **flags}, origins), origins=origins, **given)

        signature = _signature(command, kind, help_all)
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
        return run

    return decorate


def _signature(command: Command, kind: type[Config], help_all: bool) -> inspect.Signature:
    """Return what Typer makes options of: the command's own parameters, ``--help-all`` and the config's fields."""
    filled_here = ("config", "origins", "signals")
    parameters = inspect.signature(command).parameters.values()
    own = [_keyword(p.name, p.default, p.annotation) for p in parameters if p.name not in filled_here]
    if help_all:
        own.append(_keyword("help_all", False, _HelpAll))
    shown = marked(kind, Everyday) if help_all else kind.model_fields.keys()
    options = [_option(kind, name, hidden=name not in shown) for name in kind.model_fields]
    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    return inspect.Signature([context, *own, *options])


def _option(kind: type[Config], name: str, *, hidden: bool) -> inspect.Parameter:
    field = kind.model_fields[name]
    default = "" if field.default is None or field.default is False else f" Default: {field.default}."
    option = typer.Option(
        help=help_of(kind, name) + default, rich_help_panel=panel_of(kind, name), show_default=False, hidden=hidden
    )
    return _keyword(name, field.default, Annotated[_for_typer(field.annotation), option])


def _keyword(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _for_typer(annotation: Any) -> Any:
    """Drop bounds, which pydantic checks, and turn tuple[X, ...] into list[X]: Typer repeats options of lists only."""
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is Annotated:
        return _for_typer(arguments[0])
    if typing.get_origin(annotation) is tuple:
        return list[_for_typer(arguments[0])]  # type: ignore[misc]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.Union[tuple(map(_for_typer, arguments))]  # noqa: UP007
    return annotation


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
