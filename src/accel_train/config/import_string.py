"""Users' own functions, named as my.module:function."""

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from accel_train.errors import UserError


def is_function_name(name: str) -> bool:
    """Tell whether a name has the form my.module:function."""
    module, colon, function = name.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), function))


def call_function(name: str, option: str, **offered: Any) -> Any:
    """Import `name` and call it with those of the offered keywords that it accepts.

    The current directory can be imported from, as with ``python -m``.

    Raises:
        UserError: the module cannot be imported or has no such function; names `option`.
    """
    function = _load(name, option)
    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    accepted = {p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY}
    arguments = {key: value for key, value in offered.items() if takes_all or key in accepted}
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise UserError(
            f"{option} {name}: {error}", f"it is called with {', '.join(offered)}, as far as it takes them"
        ) from None
    return function(**arguments)


def _load(name: str, option: str) -> Callable[..., Any]:
    module_name, _, function_name = name.partition(":")
    here = str(Path.cwd())
    if "" not in sys.path and here not in sys.path:
        sys.path.insert(0, here)
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError) as error:
        raise UserError(
            f"{option} {name}: {error}",
            f"{module_name} must be importable from here and define {function_name}",
        ) from None
    if not callable(function):
        raise UserError(f"{option} {name} is no function", f"define `def {function_name}(…)` in {module_name}")
    called: Callable[..., Any] = function
    return called
