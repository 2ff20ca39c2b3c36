"""Explains a command line that cannot be read, and suggests what the user may have meant."""

import shlex
import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from accel_train.config.defaults import DATA_DEFAULTS
from accel_train.config.suggest import COMMANDS, OPTIONS, did_you_mean, suggestions
from accel_train.system.records import reason_of


def usage_error(error: Exception, message: str) -> tuple[str, str]:
    """Return message and hint for one of Typer's errors; `message` is its own."""
    context: Any = getattr(error, "ctx", None)
    see = f"see {context.command_path if context else 'accel_train'} --help"
    option = getattr(error, "option_name", None)
    if context is None:
        return message, see
    for start, explain in _EXPLAINED.items():
        if message.startswith(start):
            return explain(context, error, message)
    if option:
        parameter = next(each for each in context.command.params if option in each.opts)
        return f"{option} needs a value", f"{option}: {parameter.help}"
    if parameter := getattr(error, "param", None):
        return _bad_value(error, message, parameter)
    return message, see


def _bad_value(error: Exception, message: str, parameter: Any) -> tuple[str, str]:
    """Explain a value that Typer refused with pydantic's reason, or a missing argument."""
    option = next((name for name in parameter.opts if name.startswith("-")), "")
    hint = f"{option or parameter.name.upper()}: {parameter.help}"
    if isinstance(error.__cause__, ValidationError):
        first = error.__cause__.errors()[0]
        return f"{option} {first['input']}: {reason_of(first)}".strip(), hint
    return (f"{parameter.name.upper()} is missing" if message.startswith("Missing") else message), hint


def _extra_argument(context: Any, error: Exception, message: str) -> tuple[str, str]:
    """Explain a word that is no option: perhaps its name, or the value of one."""
    extra = message[message.index("(", len("Got unexpected extra argument(s)")) + 1 : -1]
    if not extra.strip():
        return "an argument is empty; is a variable of the shell unset?", f"see {context.command_path} --help"
    first, _, rest = (extra, "", "") if Path(extra).is_dir() else extra.partition(" ")
    names = [name for each in context.command.params for name in each.opts if name.startswith("--")]
    options = {"--data": first in DATA_DEFAULTS or Path(first).is_dir(), "--config": first.endswith((".yaml", ".yml"))}
    meant = [f"{name} {shlex.quote(first)}" for name, fits in options.items() if fits and name in names]
    word, _, value = first.replace("=", " ", 1).partition(" ")
    meant = meant or [f"{name} {value or rest}".strip() for name in suggestions(word, names)]
    argument = next((each.name.upper() for each in context.command.params if each.opts == [each.name]), None)
    one = f"give one {argument}, and quote a name that contains spaces" if argument else ""
    see = f"see {context.command_path} --help"
    return f"unexpected argument{'s' * bool(rest)} {extra}", did_you_mean(meant, one or see)


def _unknown_command(context: Any, error: Exception, message: str) -> tuple[str, str]:
    name, commands = message.split("'")[1], list(context.command.commands)
    return f"there is no command {shlex.quote(name)}", did_you_mean(
        suggestions(name, commands, COMMANDS), f"the commands are {', '.join(commands)}"
    )


def _unknown_option(context: Any, error: Any, message: str) -> tuple[str, str]:
    option = _as_typed(error.option_name)
    names = [name for each in context.command.params for name in each.opts if name.startswith("--")]
    if meant := suggestions(option, names, {f"--{other}": f"--{ours}" for other, ours in OPTIONS.items()}):
        return f"there is no option {option}", did_you_mean(meant, "")
    above = context.parent
    if above and any(option in each.opts for each in above.command.params):
        return f"{option} is no option of {context.command_path}", f"did you mean {above.command_path} {option}?"
    for name, command in getattr(context.command, "commands", {}).items():
        if any(option in each.opts for each in command.params):
            return f"there is no option {option}", f"did you mean {context.command_path} {name} {option}?"
    if Path(option).exists():
        return f"there is no option {option}", f"if the file is meant, write {shlex.quote(f'./{option}')}"
    help_all = " --help-all" if "--help-all" in names else " --help"
    return f"there is no option {option}", f"see {context.command_path}{help_all}"


def _as_typed(option: str) -> str:
    """Return the whole word of what is read as the letters of short options, such as -lr."""
    words = (word for word in sys.argv[1:] if not word.startswith("--") and word.startswith(option))
    return option if option.startswith("--") else next(words, option)


_EXPLAINED = {
    "Got unexpected extra argument": _extra_argument,
    "No such command": _unknown_command,
    "No such option": _unknown_option,
}
"""By the start of Typer's message."""
