"""The command group ``dm2l``, which loads a command only when that command is called."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pkgutil import resolve_name

import click

from dm2l import __version__

# The first line of each command's help. It is repeated here so that --help loads no command.
COMMANDS = {
    "inspect": "Show columns, label counts and possible problems of TABLE.",
    "fit": "Fit a model to the observed labels of TABLE and save it.",
    "complete": "Fill in the missing labels of TABLE with MODEL.",
    "predict": "Predict every label of every row of TABLE with MODEL.",
    "evaluate": "Measure how well hidden labels of TABLE are imputed.",
    "suggest": "Rank missing labels by how many errors their annotation prevents.",
    "audit": "List suspected label errors of TABLE, most likely first.",
    "review": "Answer questions about missing labels of TABLE in a browser.",
    "backend": "Serve MODEL to Label Studio for annotating rows of TABLE.",
    "explain": "List important features and label correlations of MODEL.",
    "demo": "Impute hidden labels of digit images and compare methods.",
}
_MODULES = {"review": "_review", "backend": "_review", "demo": "_demo"}
_MODULES |= dict.fromkeys(("inspect", "fit", "evaluate"), "_learn")


@contextmanager
def _printable_errors() -> Iterator[None]:
    """Escape control characters in error messages, which may quote names from a file."""
    try:
        yield
    except click.ClickException as error:
        # Imported here because --help must not load NumPy.
        from dm2l.cli._shared import fitted

        error.message = "\n".join(fitted(f"Error: {error.message}", sys.stderr))[7:]  # type: ignore[misc]
        raise


class Commands(click.Group):
    """A command group that loads only the command that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order in which a user needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load and return a command, or return None if no command has this name."""
        path = f"dm2l.cli.{_MODULES.get(cmd_name, '_ask')}:{cmd_name}_command"
        return resolve_name(path) if cmd_name in COMMANDS else None

    # Errors of parsing the options, and of running a command.
    make_context = _printable_errors()(click.Group.make_context)
    invoke = _printable_errors()(click.Group.invoke)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without loading any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, prog_name="dm2l")
def cli() -> None:
    """Multi-label learning when labels are missing."""
