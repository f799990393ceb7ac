"""Helpers of all packages; :func:`require` imports optional modules when they are needed."""

from importlib import import_module
from typing import Any


def require(module: str, extra: str) -> Any:
    """Import an optional module; the ImportError names the extra of this package to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # A module that is there and misses another one is broken, which is another matter.
        if not error.name or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ImportError(
            f"This needs {error.name}, which is not installed: pip install 'dm2l[{extra}]'"
        ) from error
