"""The command ``dm2l``."""

import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; if click or rich is missing, exit with a message that names it."""
    # Exit normally on SIGTERM, so that worker processes are ended as well.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        from dm2l.cli._commands import cli

        cli()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("click", "rich"):
            raise
        sys.exit(f"The command line needs {missing}. Install it with: pip install 'dm2l[cli]'")
