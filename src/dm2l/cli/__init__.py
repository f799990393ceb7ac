"""The command ``dm2l``."""

import signal
import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say what is missing for it."""
    # Processes that fit for this one are ended on the way out; by default there is no such way.
    signal.signal(signal.SIGTERM, _leave)
    try:
        from dm2l.cli._commands import cli

        cli()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("click", "rich"):
            raise
        sys.exit(f"The command line needs {missing}: pip install 'dm2l[cli]'")


def _leave(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)
