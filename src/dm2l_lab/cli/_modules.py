"""``--module``: modules to import first, for the protocols that they register."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def module_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option."""
    return click.option(
        "--module",
        multiple=True,
        metavar="FILE",
        expose_value=False,
        is_eager=True,
        callback=_import_all,
        help="A .py file, or a module by its name, that registers protocols.",
    )(command)


def _import_all(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> None:
    for value in values:
        _import(value)


def _import(value: str) -> None:
    file = Path(value).resolve() if value.endswith(".py") else None
    if file is not None and not file.is_file():
        raise click.BadParameter(f"There is no file {value}.")
    # The processes that share the work get this path, and import the module by its name.
    sys.path.insert(0, str(Path.cwd() if file is None else file.parent))
    name = value if file is None else file.stem
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # of what the module itself imports
        raise click.BadParameter(f"There is no module {name}: {error}.") from error
    if file is not None and Path(module.__file__ or "").resolve() != file:
        raise click.BadParameter(
            f"{value} cannot be imported: {module.__file__ or 'a part of Python'} has the name "
            f"{name} already. Give the file another one."
        )
