"""Commands of ``dm2l``, each loaded when it is called."""

from collections.abc import Iterator
from contextlib import contextmanager
from pkgutil import resolve_name
from typing import Any

import click

from dm2l import __version__

# The first line of each command's help, here so that the list loads none of them.
COMMANDS = {
    "inspect": "Inspect TABLE before a fit.",
    "fit": "Fit a model to the observed labels of TABLE and write it to a file.",
    "complete": "Write TABLE with its missing labels filled in by MODEL.",
    "predict": "Write predictions of MODEL for every label of every row of TABLE.",
    "evaluate": "Measure imputation: hide observed labels of TABLE, fill them in, and compare.",
    "suggest": "Rank the missing labels of TABLE by the expected value of an answer.",
    "audit": "List suspected label errors of TABLE, the most likely first.",
    "review": "Answer the most valuable missing labels of TABLE on a page in the browser.",
    "backend": "Serve MODEL to Label Studio, which annotates the rows of TABLE.",
    "explain": "List the features that the labels of MODEL depend on, and correlated labels.",
    "demo": "Hide labels of digit images, learn from the rest, and fill in the missing ones.",
}
_MODULES = {"review": "_review", "backend": "_review", "demo": "_demo"}
_MODULES |= dict.fromkeys(("inspect", "fit", "evaluate"), "_learn")


@contextmanager
def _printable_errors() -> Iterator[None]:
    """Spell out control characters of errors, whatever they quote."""
    try:
        yield
    except click.ClickException as error:
        # Not before it is needed: --help loads no array library.
        from dm2l._utils.files import printable

        error.message = printable(error.message)  # type: ignore[misc]
        raise


class Commands(click.Group):
    """A group that loads the command that is called, and no other."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command; None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module = _MODULES.get(cmd_name, "_ask")
        command: click.Command = resolve_name(f"dm2l.cli.{module}:{cmd_name}_command")
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; its errors are printable."""
        with _printable_errors():
            return super().invoke(ctx)

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        """Parse options of the group; errors are printable."""
        with _printable_errors():
            return super().make_context(*arguments, **extra)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without loading any."""
        width = formatter.width - 6 - max(map(len, COMMANDS))
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, click.Command(name, help=text).get_short_help_str(width))
                    for name, text in COMMANDS.items()
                ]
            )


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, prog_name="dm2l")
def cli() -> None:
    """Multi-label learning when labels are missing."""
