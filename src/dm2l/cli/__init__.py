"""The command ``dm2l``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say what is missing for it."""
    try:
        from dm2l.cli._commands import cli
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(f"The command line needs {error.name}: pip install 'dm2l[cli]'")
    cli()
