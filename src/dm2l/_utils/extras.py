"""Optional packages: imported when needed, or named with the extra that brings them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["require"]


def require(module: str, extra: str) -> Any:
    """Import an optional module, or say which extra brings it.

    Parameters
    ----------
    module : str
        Its name, such as ``"pyarrow.parquet"``.
    extra : str
        The extra of this package that it belongs to.

    Returns
    -------
    module
        The module.

    Raises
    ------
    ImportError
        If it is not installed.

    Examples
    --------
    >>> from dm2l._utils.extras import require
    >>> require("nowhere", "io")
    Traceback (most recent call last):
        ...
    ImportError: This needs nowhere, which is not installed: pip install 'dm2l[io]'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # A module that is there and misses another one is broken, which is another matter.
        if not error.name or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ImportError(
            f"This needs {error.name}, which is not installed: pip install 'dm2l[{extra}]'"
        ) from error
