"""Makes Typer options from the fields of a config."""

import inspect
import types
import typing
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic.fields import FieldInfo

from accel_train.config.load import make_config, read_yaml
from accel_train.config.options import Config

Command = Callable[..., None]

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="YAML file of these options, as in a run folder; flags win."),
]
"""Annotation of a command's parameter `config_file`, which :func:`with_options` reads."""


def with_options(kind: type[Config]) -> Callable[[Command], Command]:
    """Give a command that takes `config` and `origins` an option for each field of a config.

    `origins` says of each given value where it came from: "flag", or the name of the file that the command's
    parameter `config_file` named. A parameter `interruption` gets this process's. Others stay as they are.
    """

    def decorate(command: Command) -> Command:
        own = [
            p.replace(kind=p.KEYWORD_ONLY)
            for p in inspect.signature(command).parameters.values()
            if p.name not in ("config", "origins", "interruption")
        ]
        interruptible = "interruption" in inspect.signature(command).parameters
        context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        options = [_option(name, field) for name, field in kind.model_fields.items()]

        @wraps(command)
        def run(context: typer.Context, **given: Any) -> None:
            path = given.pop("config_file", None)
            from_file = read_yaml(path, set(kind.model_fields)) if path else {}
            flags = {name: given.pop(name) for name in kind.model_fields}
            flags = {name: value for name, value in flags.items() if _is_given(context, name)}
            origins = {name: str(path) for name in from_file} | dict.fromkeys(flags, "flag")
            if interruptible:
                given["interruption"] = context.obj
            command(config=make_config(kind, {**from_file, **flags}, origins), origins=origins, **given)

        signature = inspect.Signature([context, *own, *options])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
        return run

    return decorate


def _option(name: str, field: FieldInfo) -> inspect.Parameter:
    extra = field.json_schema_extra
    panel = extra.get("panel") if isinstance(extra, dict) else None
    option = typer.Option(help=field.description, rich_help_panel=str(panel), show_default=field.default is not None)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=field.default,
        annotation=Annotated[_without_tuples(field.annotation), option],
    )


def _without_tuples(annotation: Any) -> Any:
    """Turn tuple[X, ...] into list[X]: Typer repeats an option for a list only."""
    if typing.get_origin(annotation) is tuple:
        return list[typing.get_args(annotation)[0]]  # type: ignore[misc]
    if isinstance(annotation, types.UnionType):
        return typing.Union[tuple(map(_without_tuples, typing.get_args(annotation)))]  # noqa: UP007
    return annotation


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
