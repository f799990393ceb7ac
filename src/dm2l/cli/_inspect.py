"""``dm2l inspect``: what a half-labelled table holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from dm2l.cli import _table_options as shared
from dm2l.cli._printable import printable
from dm2l.tables import Inspection, inspect_table

IMPLICATIONS, NAMED = 10, 8


@click.command("inspect")
@shared.table_argument
@shared.labels_option
@shared.reading_options
@shared.feature_options
@shared.json_option
def inspect_command(
    path: Path,
    labels: tuple[str, ...],
    kinds: dict[str, str],
    drop: tuple[str, ...],
    as_json: bool,
    **reading: Any,
) -> None:
    """Say what TABLE holds before anything is learnt from it.

    How every column will be used, how many entries of each label are observed, which labels come
    with others, and what looks wrong.

    Example: dm2l inspect assays.csv --labels 'tox_*'
    """
    with shared.data_problems():
        table = shared.open_table(path, labels, kinds, **reading)
        found = inspect_table(table, kinds=kinds, drop=drop)
    if as_json:
        shared.echo_json(
            {**vars(found), "ranks": {**vars(found.ranks), "in_words": found.ranks.in_words()}}
        )
    else:
        _show(Console(), found)


def _show(console: Console, found: Inspection) -> None:
    missing = sum(count.missing for count in found.labels)
    entries = found.n_rows * len(found.labels)
    console.print(
        f"{found.n_rows} rows, {found.n_columns} columns, of which {len(found.labels)} are labels; "
        f"{missing} of {entries} labels are missing ({missing / max(entries, 1):.0%}).\n",
        highlight=False,
    )
    if found.uses is not None:
        by_kind: dict[str, list[str]] = {}
        for use in found.uses:
            kind = use.kind if use.used else f"{use.kind}: left out"
            by_kind.setdefault(kind, []).append(use.name)
        grid = Grid("kind", "columns", "which", title="columns that are not labels")
        for kind, names in by_kind.items():
            more = ", ..." if len(names) > NAMED else ""
            grid.add_row(kind, str(len(names)), escape(printable(", ".join(names[:NAMED]) + more)))
        console.print(grid)
    grid = Grid("label", title="labels")
    for heading in ("yes", "no", "missing", "missing %"):
        grid.add_column(heading, justify="right")
    for count in found.labels:
        share = f"{count.missing / max(found.n_rows, 1):.0%}"
        numbers = (str(count.positive), str(count.negative), str(count.missing), share)
        grid.add_row(escape(printable(count.label)), *numbers)
    console.print(grid)
    for implied in found.implications[:IMPLICATIONS]:
        console.print(
            printable(
                f"{implied.label} comes with {implied.implied}: {implied.probability:.0%} of "
                f"{implied.rows} rows, {implied.base:.0%} of all."
            ),
            markup=False,
            highlight=False,
        )
    console.print(printable(found.ranks.in_words()), markup=False, highlight=False)
    console.print(f"{found.n_duplicates} rows repeat an earlier one.", highlight=False)
    for line in found.warnings:
        console.print(printable(f"warning: {line}"), markup=False, highlight=False, soft_wrap=True)
