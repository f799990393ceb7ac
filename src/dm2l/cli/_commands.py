"""Commands of ``dm2l``, each loaded when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import click

from dm2l import __version__


class Entrance(NamedTuple):
    """Where a command is, and what the list of commands says of it."""

    module: str
    name: str
    help: str


# What a command says of itself is its own; the list would have to load them all to know it.
COMMANDS = {
    "inspect": Entrance(
        "dm2l.cli._inspect",
        "inspect_command",
        "Say what TABLE holds before anything is learnt from it.",
    ),
    "fit": Entrance(
        "dm2l.cli._fit",
        "fit_command",
        "Learn from what is observed in TABLE and write the model to a file.",
    ),
    "complete": Entrance(
        "dm2l.cli._complete",
        "complete_command",
        "Write TABLE with the holes of its labels filled by MODEL.",
    ),
    "predict": Entrance(
        "dm2l.cli._predict",
        "predict_command",
        "Write what MODEL says about every label of every row of TABLE.",
    ),
    "evaluate": Entrance(
        "dm2l.cli._evaluate",
        "evaluate_command",
        "Hide some observed labels of TABLE, fill them in from the rest, and say how well that "
        "went.",
    ),
    "suggest": Entrance(
        "dm2l.cli._suggest",
        "suggest_command",
        "Rank the holes of TABLE by how much a person's answer would help MODEL.",
    ),
    "review": Entrance(
        "dm2l.cli._review",
        "review_command",
        "Answer the holes of TABLE that help MODEL most, on a page in the browser.",
    ),
    "explain": Entrance(
        "dm2l.cli._explain",
        "explain_command",
        "Say which features carry the labels of MODEL, and which labels move together.",
    ),
    "experiment": Entrance(
        "dm2l_lab.cli",
        "experiment",
        "Compare methods on data sets; every run can be stopped and resumed.",
    ),
    "demo": Entrance(
        "dm2l.cli._demo",
        "demo_command",
        "Hide labels of real digit images, learn from the rest, and fill in the holes.",
    ),
}


class Commands(click.Group):
    """A group that knows its commands by name and loads the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in the order in which one meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command; None where there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        entrance = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(entrance.module), entrance.name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without loading any."""
        width = formatter.width - 6 - max(map(len, COMMANDS))
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, click.Command(name, help=entrance.help).get_short_help_str(width))
                    for name, entrance in COMMANDS.items()
                ]
            )


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dm2l")
def cli() -> None:
    """Multi-label learning when labels are missing."""
