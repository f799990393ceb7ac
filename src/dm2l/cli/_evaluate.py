"""``dm2l evaluate``: how well holes are filled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from dm2l.cli import _table_options as shared
from dm2l.cli._printable import printable
from dm2l.model_selection import Interval
from dm2l.tables import MEASURES, TableEvaluation, evaluate_table


@click.command("evaluate")
@shared.table_argument
@shared.labels_option
@click.option(
    "--hide",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.2,
    show_default=True,
    help="Share of the observed labels that is hidden each time.",
)
@click.option(
    "--repetitions", type=click.IntRange(1), default=5, show_default=True, help="How often."
)
@shared.search_options
@shared.reading_options
@shared.feature_options
@shared.seed_option
@shared.json_option
def evaluate_command(
    path: Path,
    labels: tuple[str, ...],
    hide: float,
    repetitions: int,
    kinds: dict[str, str],
    drop: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Hide some observed labels of TABLE, fill them in from the rest, and say how well that went.

    DM2L stands beside ridge on the observed labels and beside ridge that takes every hole for a
    no. All settings are chosen from the labels that were left. Brackets are 95 % confidence
    intervals over the repetitions.

    Example: dm2l evaluate assays.csv --labels 'tox_*' --repetitions 10
    """
    wishes = shared.wishes_of(options)
    with shared.data_problems(), shared.progress() as tell:
        tell(f"reading {path.name}")
        table = shared.open_table(path, labels, kinds, **options)
        found = evaluate_table(
            table,
            wishes,
            hide=hide,
            repetitions=repetitions,
            kinds=kinds,
            drop=drop,
            tell=tell,
        )
    if as_json:
        shared.echo_json(found)
    else:
        _show(Console(), found)


def _show(console: Console, found: TableEvaluation) -> None:
    console.print(
        f"{found.n_hidden} observed labels hidden ({found.hide:.0%}), {found.repetitions} times.",
        highlight=False,
    )
    grid = Grid("measure on hidden labels", *found.methods)
    for key, words, up in MEASURES:
        cells = [_shown(values[key]) for values in found.methods.values()]
        grid.add_row(f"{words} {'↑' if up else '↓'}", *map(escape, cells))
    console.print(grid)
    for name, gains in found.gains.items():
        gain = gains["label_average_precision"]
        sure = "surely" if gain.low > 0 or gain.high < 0 else "not surely"
        console.print(
            f"Average precision of DM2L less that of {name!r}: {gain.mean:+.3f} "
            f"[{gain.low:+.3f}, {gain.high:+.3f}], {sure} different.",
            markup=False,
            highlight=False,
        )
    grid = Grid("label", title="average precision by label")
    for heading in ("hidden", "yes", "AUC", *found.methods):
        grid.add_column(heading, justify="right")
    for quality in found.labels:
        numbers = (
            quality.auc,
            quality.average_precision,
            quality.ridge_average_precision,
            quality.negatives_average_precision,
        )
        counts = (str(quality.n_hidden), str(quality.n_positive))
        grid.add_row(
            escape(printable(quality.label)), *counts, *(_number(value) for value in numbers)
        )
    console.print(grid)


def _shown(value: Interval) -> str:
    return f"{_number(value.mean)} [{_number(value.low)}, {_number(value.high)}]"


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.3f}"
