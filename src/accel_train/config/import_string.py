"""Import strings: objects named as my.module:function."""

import importlib
import importlib.util
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from traceback import walk_tb
from typing import Any, TypeVar

from accel_train.errors import UserError
from accel_train.system import os_errors
from accel_train.system.run_around import run_around

T = TypeVar("T")
LIBRARIES = frozenset({"hf", "timm"})
"""Prefixes of names that libraries give, as in timm:resnet50 and hf:mnist: no code of a user's."""
CODE = ("model", "data")
"""Fields of a config that may name a function."""
MEND = "mend your code; accel_train --debug … prints the traceback"
"""Hint for an error in a user's code."""
_users_modules: set[str] = set()
"""Modules that functions were imported from."""
_users_models: set[str] = set()
"""Functions that were called for a model."""


def import_object(name: str) -> Any:
    """Import the object of an import string."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def is_function_name(name: str) -> bool:
    """Return True if a name has the form my.module:function."""
    module, colon, function = name.partition(":")
    identifiers = all(part.isidentifier() for part in (*module.split("."), function))
    return bool(colon) and module not in LIBRARIES and identifiers


def trusted(stored: str, given: str | None, option: str, run: Path) -> str:
    """Return the name that a run folder stores, or the function that the user has given instead.

    Raises:
        UserError: the folder names code that the user has not, or the user has given another name for something else.
    """
    if given is None and is_function_name(stored):
        raise _foreign_code(run, option, stored)
    if given not in (None, stored) and not (is_function_name(stored) and is_function_name(str(given))):
        raise UserError(f"{option} {given}, but that of {run} is {stored}", f"leave {option} out")
    return given or stored


def check_code_in_file(path: Path, values: Mapping[str, Any]) -> None:
    """Check the values that only a config file gives: a file in the folder of a run may not name code.

    Raises:
        UserError: it does.
    """
    for name in CODE:
        value = values.get(name)
        if isinstance(value, str) and is_function_name(value) and run_around(path):
            raise _foreign_code(path, f"--{name}", value)


def _foreign_code(place: Path, option: str, name: str) -> UserError:
    return UserError(
        f"{place} names code of its own: {option[2:]} {name}", f"if you know and trust it, add {option} {name}"
    )


def call_function(name: str, option: str, **offered: Any) -> Any:
    """Import a user's function and call it with those of the offered keywords that it accepts.

    Modules in the current directory can be imported. They take precedence over installed ones, not over Python's own.

    Raises:
        UserError: the function cannot be imported, needs other arguments or fails; the message names `option`.
    """
    return _explained(lambda: _call(_import_function(name, option), name, option, offered), name, option)


def check_function(name: str, option: str) -> None:
    """Import a user's function, and do not call it.

    Raises:
        UserError: it cannot be imported; the message names `option`.
    """
    _explained(lambda: _import_function(name, option), name, option)


def takes(name: str, option: str, keyword: str) -> bool:
    """Import a user's function and return whether it is called with a keyword, if that is offered.

    Raises:
        UserError: the function cannot be imported; the message names `option`.
    """
    return keyword in _explained(
        lambda: _accepted(_import_function(name, option), name, option, [keyword]), name, option
    )


def failed_in(error: Exception) -> str | None:
    """Return where an error was raised in users' code, such as ``nets.py, line 7, in forward``; None if it was not."""
    places = [
        f"{Path(frame.f_code.co_filename).name}, line {line}, in {frame.f_code.co_name}"
        for frame, line in walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") in _users_modules
    ]
    return places[-1] if places else _failed_layer(error)


def _failed_layer(error: Exception) -> str | None:
    """Return the layer of a user's model in which an error was raised: its code may all be torch's own."""
    layers = [
        type(frame.f_locals.get("self")).__name__
        for frame, _ in walk_tb(error.__traceback__)
        if frame.f_code.co_name == "_call_impl" and frame.f_globals.get("__name__") == "torch.nn.modules.module"
    ]
    return f"--model {', '.join(_users_models)}, in {layers[-1]}" if layers and _users_models else None


def _explained(run: Callable[[], T], name: str, option: str) -> T:
    """Return what a function returns; raise what fails in a user's code as a UserError."""
    try:
        return run()
    except UserError:
        raise
    except Exception as error:
        if os_errors.explain(error):  # a full disk, or a limit: no fault of the code
            raise
        raise UserError(f"{option} {name}: {type(error).__name__}: {error}", MEND) from error


def _call(function: Callable[..., Any], name: str, option: str, offered: Mapping[str, Any]) -> Any:
    arguments = {key: offered[key] for key in _accepted(function, name, option, offered)}
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        raise UserError(
            f"{option} {name}: {error}",
            f"it is called with the keyword arguments {', '.join(offered)}; make all others optional",
        ) from None
    return function(**arguments)


def _accepted(function: Callable[..., Any], name: str, option: str, offered: Iterable[str]) -> list[str]:
    """Return those of the offered keywords that a function accepts."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError as error:  # of some built-in functions
        raise UserError(f"{option} {name}: {error}", "name a function that is written in Python") from None
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    accepted = {p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY}
    return [keyword for keyword in offered if takes_all or keyword in accepted]


def _import_function(name: str, option: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    _search_current_directory()
    try:
        _refuse_module_in_run(module, option, name)
        function = import_object(name)
    except (ImportError, AttributeError) as error:
        hint = f"make {module} importable from the current directory, and define {attribute}"
        if run := run_around(Path.cwd()):
            hint = f"nothing is imported from {run}, the folder of a run: change to another directory"
        if (first := module.partition(".")[0]) in sys.stdlib_module_names:
            hint = f"rename your module: {first} is one of Python's own"
        raise UserError(f"{option} {name}: {error}", hint) from None
    if not callable(function):
        raise UserError(f"{option} {name} is not a function", f"define `def {attribute}(…)` in {module}")
    _users_modules.add(module)
    if option == "--model":
        _users_models.add(name)
    called: Callable[..., Any] = function
    return called


def _refuse_module_in_run(module: str, option: str, name: str) -> None:
    """Check, before each is imported, that neither the module nor one of its packages is in the folder of a run."""
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        try:
            spec = importlib.util.find_spec(".".join(parts[:count]))
        except ValueError:  # of a module without one, such as __main__
            return
        if spec is None:
            return  # the import tells what is missing
        for place in (*(spec.submodule_search_locations or ()), *([spec.origin] if spec.has_location else [])):
            if run := run_around(Path(str(place))):
                raise UserError(
                    f"{option} {name}: {'.'.join(parts[:count])} is in {run}, the folder of a run",
                    "nothing is imported from there: if you know and trust it, copy it elsewhere",
                )


def _search_current_directory() -> None:
    """Add the current directory to the search path, unless it is in a run.

    It comes after Python's own modules, which its files would hide: torch imports `queue`, `json`, …
    """
    here = str(Path.cwd())
    if "" in sys.path or here in sys.path or run_around(Path.cwd()):
        return
    standard = Path(sysconfig.get_path("stdlib"))
    own = [i for i, entry in enumerate(sys.path) if Path(entry) in (standard, standard / "lib-dynload")]
    sys.path.insert(max(own, default=-1) + 1, here)
