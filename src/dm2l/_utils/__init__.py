"""Helper functions for all packages, and :func:`require` for optional modules."""

from importlib import import_module
from typing import Any


def require(module: str, extra: str) -> Any:
    """Import an optional module, or raise an ImportError that names the extra to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # If an installed module cannot import another module, its own error is more helpful.
        if not error.name or not f"{module}.".startswith(f"{error.name}."):
            raise
        what = f"This function needs {error.name}, which is not installed."
        raise ImportError(f"{what} Run: pip install 'dm2l[{extra}]'") from error
