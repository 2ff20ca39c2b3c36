"""Reads the values of options as shells and services pass them: empty ones, and those of flags."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import typer
import typer.core

from accel_train.errors import UserError

_OPPOSITES = "Most flags (<bool>) have an opposite: --no-NAME."
_TRUTH = dict.fromkeys(("true", "1", "yes", "on"), True) | dict.fromkeys(("false", "0", "no", "off"), False)


class OptionsWithValues(typer.core.TyperCommand):
    """A command that also accepts ``--flag true`` and ``--batch_size 32``: SageMaker passes options so.

    It refuses empty values: as a path, that of an unset variable of the shell would be the current folder.
    """

    passes_on: ClassVar[str | None] = None
    """The argument whose words another command reads."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            words = list(_usual_form(args, self.get_params(ctx)))
            if not ctx.resilient_parsing and "" in {word.rpartition("=")[2] for word in words}:
                checked = [each for each in self.get_params(ctx) if each.name != self.passes_on]
                _refuse_empty(self.make_parser(ctx).parse_args(list(words))[0], checked)
            return super().parse_args(ctx, words)
        except typer.TyperException as error:
            error.ctx = ctx  # type: ignore[attr-defined] # a missing value has none
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show flags without their --no- names, whose column would cut off other names on 80 columns."""
        flags = [option for option in self.params if option.secondary_opts]
        shown = any(not getattr(flag, "hidden", False) for flag in flags)
        names, epilog = [flag.secondary_opts for flag in flags], self.epilog
        for flag in flags:
            flag.secondary_opts = []
        self.epilog = "\n\n".join(filter(None, (_OPPOSITES if shown else "", epilog)))
        try:
            super().format_help(ctx, formatter)
        finally:
            self.epilog = epilog
            for flag, secondary in zip(flags, names, strict=True):
                flag.secondary_opts = secondary


def _refuse_empty(given: Mapping[str, Any], parameters: Sequence[Any]) -> None:
    """Check the values that are given on the command line, by the names of their parameters.

    Raises:
        UserError: one is empty.
    """
    for parameter in parameters:
        value = given.get(parameter.name)
        if "" in (value if isinstance(value, list | tuple) else [value]):
            option = next((name for name in parameter.opts if name.startswith("-")), None)
            name = option or parameter.metavar or parameter.name.upper()
            raise UserError(f"{name} is empty; is a variable of the shell unset?", f"{name}: {parameter.help}")


def _usual_form(words: Sequence[str], parameters: Sequence[Any]) -> Iterator[str]:
    """Yield arguments with dashes in the names of options, and ``--flag``, ``--no-flag`` or nothing for a flag's value.

    Raises:
        UserError: the value of a flag is neither true nor false.
    """
    options = {name: option for option in parameters for name in (*option.opts, *option.secondary_opts)}
    has_arguments = any(parameter.param_type_name == "argument" for parameter in parameters)
    left = list(words)
    while left:
        if (word := left.pop(0)) == "--":
            yield from (word, *left)
            return
        name, equals, value = word.partition("=")
        if name.startswith("--") and name.replace("_", "-") in options:
            name = name.replace("_", "-")
        option = options.get(name)
        if option is None or not getattr(option, "is_flag", False):
            yield name + equals + value
            continue
        following = left[0] if left else "-"
        if not equals and (following.lower() in _TRUTH or not (has_arguments or following.startswith("-"))):
            equals, value = "=", left.pop(0)
        if not equals:
            yield name
        elif value.lower() not in _TRUTH:
            given = f"{name} {shlex.quote(value)}"
            raise UserError(f"{given} is neither true nor false", f"write {name}, {name} true or {name} false")
        else:
            wanted = _TRUTH[value.lower()] == (name in option.opts)
            yield from (option.opts if wanted else option.secondary_opts)[:1]
