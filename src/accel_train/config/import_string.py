"""Import strings: objects named as my.module:function."""

import importlib
import inspect
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

from accel_train.errors import UserError


def import_object(name: str) -> Any:
    """Import the object of an import string."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def is_function_name(name: str) -> bool:
    """Return True if a name has the form my.module:function."""
    module, colon, function = name.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), function))


def trusted(stored: str, given: str | None, option: str, run: Path) -> str:
    """Return the name that a run folder stores, or the function that the user has given instead.

    Raises:
        UserError: the folder names code that the user has not, or the user has given another name for something else.
    """
    if given is None and is_function_name(stored):
        raise UserError(
            f"{run} names code of its own: {option[2:]} {stored}", f"if you know and trust it, add {option} {stored}"
        )
    if given not in (None, stored) and not (is_function_name(stored) and is_function_name(str(given))):
        raise UserError(f"{option} {given}, but that of {run} is {stored}", f"leave {option} out")
    return given or stored


def call_function(name: str, option: str, **offered: Any) -> Any:
    """Import a user's function and call it with those of the offered keywords that it accepts.

    Modules in the current directory can be imported. They take precedence over installed ones, not over Python's own.

    Raises:
        UserError: the function cannot be imported or needs other arguments; the message names `option`.
    """
    function = _import_function(name, option)
    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    accepted = {p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY}
    arguments = {key: value for key, value in offered.items() if takes_all or key in accepted}
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise UserError(
            f"{option} {name}: {error}",
            f"it is called with the keyword arguments {', '.join(offered)}; make all others optional",
        ) from None
    return function(**arguments)


def _import_function(name: str, option: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    _search_current_directory()
    try:
        function = import_object(name)
    except (ImportError, AttributeError) as error:
        hint = f"make {module} importable from the current directory, and define {attribute}"
        if (first := module.partition(".")[0]) in sys.stdlib_module_names:
            hint = f"rename your module: {first} is one of Python's own"
        raise UserError(f"{option} {name}: {error}", hint) from None
    if not callable(function):
        raise UserError(f"{option} {name} is not a function", f"define `def {attribute}(…)` in {module}")
    called: Callable[..., Any] = function
    return called


def _search_current_directory() -> None:
    """Add the current directory to the search path after Python's own modules: torch imports `queue`, `json`, …"""
    here = str(Path.cwd())
    if "" in sys.path or here in sys.path:
        return
    standard = Path(sysconfig.get_path("stdlib"))
    own = [i for i, entry in enumerate(sys.path) if Path(entry) in (standard, standard / "lib-dynload")]
    sys.path.insert(max(own, default=-1) + 1, here)
