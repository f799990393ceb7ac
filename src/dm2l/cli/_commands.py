"""Commands of ``dm2l``, each loaded when it is called."""

from __future__ import annotations

from pkgutil import resolve_name

import click

from dm2l import __version__

# What a command says of itself is its own; the list would have to load them all to know it.
COMMANDS = {
    "inspect": "Say what TABLE holds before anything is learnt from it.",
    "fit": "Learn from what is observed in TABLE and write the model to a file.",
    "complete": "Write TABLE with the holes of its labels filled by MODEL.",
    "predict": "Write what MODEL says about every label of every row of TABLE.",
    "evaluate": "Hide some observed labels of TABLE, fill them in from the rest, and say how well "
    "that went.",
    "suggest": "Rank the holes of TABLE by how much a person's answer would help.",
    "audit": "List observed labels of TABLE that everything else about their rows contradicts.",
    "review": "Answer the holes of TABLE that help MODEL most, on a page in the browser.",
    "backend": "Suggest and learn the labels of TABLE in a Label Studio that asks MODEL.",
    "explain": "Say which features carry the labels of MODEL, and which labels move together.",
    "demo": "Hide labels of real digit images, learn from the rest, and fill in the holes.",
}
# And where it is.
_MODULES = {
    "_learn": ("inspect", "fit", "evaluate"),
    "_ask": ("complete", "predict", "suggest", "explain"),
    "_audit": ("audit",),
    "_review": ("review",),
    "_backend": ("backend",),
    "_demo": ("demo",),
}
_PLACES = {
    name: f"dm2l.cli.{module}:{name}_command" for module in _MODULES for name in _MODULES[module]
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
        command: click.Command = resolve_name(_PLACES[cmd_name])
        return command

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


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dm2l")
def cli() -> None:
    """Multi-label learning when labels are missing."""
