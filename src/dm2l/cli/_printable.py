"""The door of all that is printed: names come from files, and must not talk to the terminal."""

from __future__ import annotations

import re

import click

# Control characters, with which a terminal can be told anything; marks that turn the direction of
# writing; ends of lines that few programs know; halves of characters.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The text with all that is no character spelt out, as JSON spells it."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def say(text: str, *, err: bool = False) -> None:
    """Print a line."""
    click.echo(printable(text), err=err)
