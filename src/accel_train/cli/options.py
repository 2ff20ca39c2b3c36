"""Makes Typer options from the fields of a config."""

import inspect
import re
import typing
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from accel_train.config.derived import through_file
from accel_train.config.fields import Config, Everyday, choices_of, expand_home, help_of, marked, panel_of
from accel_train.config.import_string import check_code_in_file
from accel_train.config.load import make_config, merged, read_values
from accel_train.errors import UserError
from accel_train.recipes import read as recipes

Command = Callable[..., None]
_MOST_OF_CHOICES = 18
"""Characters of a line."""

_ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="YAML file of options, such as a run's config.yaml; flags win. --recipe NAME: one of ours.",
    ),
]


_Recipe = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        metavar="NAME",
        help="Options of a recipe, one of `accel_train recipes`; flags win.",
        hidden=True,
        autocompletion=lambda incomplete: [name for name in recipes.names() if name.startswith(incomplete)],
    ),
]


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


def with_options(kind: type[Config], *, many: bool = False) -> Callable[[Command], Command]:
    """Give a command that takes `config` and `origins` an option for each field of a config.

    `origins` maps each given value to its source: "flag", or the name of the file of ``--config``. A parameter
    `signals` gets the process's StopSignals. Other parameters remain options of the command. If the options are `many`,
    ``--config`` reads them from a file and ``--recipe`` from one of ours, ``--help`` shows only those marked Everyday,
    and ``--help-all`` all.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(context: typer.Context, **given: Any) -> None:
            given.pop("help_all", None)
            path, recipe = given.pop("config_file", None), given.pop("recipe", None)
            flags = {name: given.pop(name) for name in kind.model_fields}
            flags = {name: value for name, value in flags.items() if _is_given(context, name)}
            from_file, derived, origin = _from_file(kind, path, recipe)
            from_file = merged(from_file, flags, derived)
            if path:
                check_code_in_file(expand_home(path), from_file)
            origins = dict.fromkeys(from_file, origin) | dict.fromkeys(flags, "flag")
            if "signals" in inspect.signature(command).parameters:
                given["signals"] = context.obj
            config = make_config(kind, {**from_file, **flags}, origins)
            origins |= {name: through_file(derived[name], origin) for name in derived.keys() & from_file.keys()}
            command(config=config, origins=origins, **given)

        signature = _signature(command, kind, many)
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
        return run

    return decorate


def _from_file(kind: type[Config], path: Path | None, recipe: str | None) -> tuple[dict[str, Any], dict[str, str], str]:
    """Return the values of ``--config`` or ``--recipe``, the origins of those that were a run's defaults, the file."""
    if path and recipe:
        raise UserError(f"--config {path} and --recipe {recipe} exclude each other", "leave one of them out")
    if recipe is not None:
        found = recipes.find(recipe)
        return found.values(set(kind.model_fields)), {}, found.origin
    return (*read_values(path, set(kind.model_fields)), str(path)) if path else ({}, {}, "")


def _signature(command: Command, kind: type[Config], many: bool) -> inspect.Signature:
    """Return what Typer makes options of: the command's own parameters, ours for many, and the config's fields."""
    filled_here = ("config", "origins", "signals")
    parameters = inspect.signature(command).parameters.values()
    own = [_keyword(p.name, p.default, p.annotation) for p in parameters if p.name not in filled_here]
    if many:
        files = [_keyword("config_file", None, _ConfigFile), _keyword("recipe", None, _Recipe)]
        own = [*files, *own, _keyword("help_all", False, _HelpAll)]
    shown = marked(kind, Everyday) if many else kind.model_fields.keys()
    options = [_option(kind, name, hidden=name not in shown) for name in kind.model_fields]
    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    return inspect.Signature([context, *own, *options])


def _option(kind: type[Config], name: str, *, hidden: bool) -> inspect.Parameter:
    """Return the parameter of a field: a flag, or texts, which pydantic reads like the values of a file."""
    field = kind.model_fields[name]
    without = field.is_required() or field.default is None or field.default is False
    default = "" if without else f" Default: {field.default}."
    required = " Required." * field.is_required()
    value, choices = _value_type(field.annotation), choices_of(kind, name)
    option = typer.Option(
        help=help_of(kind, name) + default + required,
        rich_help_panel=panel_of(kind, name),
        show_default=False,
        hidden=hidden,
        metavar=None if value is bool else _folded(f"<{'|'.join(choices) or value.__name__.lower()}>"),
        autocompletion=_completion(choices) if choices else None,
    )
    for_typer = bool if value is bool else list[str] if _is_list(field.annotation) else str
    return _keyword(name, None if field.is_required() else field.default, Annotated[for_typer | None, option])


def _folded(choices: str) -> str:
    """Return choices on lines that leave room for names and help on 80 columns, broken between choices only."""
    lines = [""]
    for part in re.findall(r"[^|]+\|?", choices):
        if lines[-1] and len(lines[-1] + part) > _MOST_OF_CHOICES:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _keyword(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _completion(choices: Sequence[str]) -> Callable[[str], list[str]]:
    """Return what Typer calls to complete a value."""

    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return complete


def _value_type(annotation: Any) -> type:
    """Return the type of an option's values: str also for a choice, Path for UserPath, float for tuple[float, ...]."""
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation
    if typing.get_origin(annotation) is typing.Literal:
        return str
    return _value_type(typing.get_args(annotation)[0])


def _is_list(annotation: Any) -> bool:
    return typing.get_origin(annotation) is tuple or any(map(_is_list, typing.get_args(annotation)))


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
