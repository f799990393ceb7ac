"""The command ``dm2l``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say what is missing for it."""
    try:
        from dm2l.cli._commands import cli

        cli()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("click", "rich"):
            raise
        sys.exit(f"The command line needs {missing}: pip install 'dm2l[cli]'")
