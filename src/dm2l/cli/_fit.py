"""``dm2l fit``: a model of a half-labelled table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dm2l.cli import _table_options as shared
from dm2l.cli._printable import say
from dm2l.tables import MEASURES, TableModel, column_warnings, fit_table, save_bundle


@click.command("fit")
@shared.table_argument
@shared.labels_option
@shared.output_option("MODEL", "The file for the model.")
@shared.search_options
@click.option(
    "--calibration",
    type=click.Choice(["sigmoid", "isotonic"]),
    default="sigmoid",
    show_default=True,
    help="The curve from scores to probabilities.",
)
@click.option(
    "--estimate-folds",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="Folds of the quality estimate; 0 leaves it out, which saves most of the time.",
)
@shared.reading_options
@shared.feature_options
@shared.seed_option
@shared.force_option
@shared.json_option
def fit_command(
    path: Path,
    labels: tuple[str, ...],
    output: Path,
    estimate_folds: int,
    kinds: dict[str, str],
    drop: tuple[str, ...],
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Learn from what is observed in TABLE and write the model to a file.

    Columns are prepared by kind, settings that are not given are chosen by cross-validation, and
    probabilities are calibrated. The estimate is for rows that no part of this has seen.

    Example: dm2l fit assays.csv --labels 'tox_*' -o assays.dm2l
    """
    shared.check_outputs(force, output)
    wishes = shared.wishes_of(options)
    with shared.data_problems(), shared.progress() as tell:
        tell(f"reading {path.name}")
        table = shared.open_table(path, labels, kinds, **options)
        model = fit_table(
            table,
            wishes,
            kinds=kinds,
            drop=drop,
            missing=options["missing"],
            estimate_folds=estimate_folds,
            tell=tell,
        )
        save_bundle(model, output)
    shared.warn(column_warnings(model.uses or []))
    if as_json:
        shared.echo_json(
            {
                "model": output,
                "n_rows": table.n_rows,
                "labels": model.label_names,
                "columns": model.uses,
                "n_features": len(model.features),
                "settings": model.settings,
                "estimate": model.estimate,
            }
        )
    else:
        _show(model, table.n_rows)
        say(f"Model: {output}")


def _show(model: TableModel, n_rows: int) -> None:
    columns = "" if model.uses is None else f" of {sum(use.used for use in model.uses)} columns"
    say(f"{n_rows} rows, {len(model.label_names)} labels, {len(model.features)} features{columns}.")
    chosen = model.settings
    score = "" if chosen.score is None else f", score {chosen.score:.3f} in the search"
    say(
        f"Settings: {chosen.kernel} model, lambda_d {chosen.lambda_d:g}, alpha {chosen.alpha:.3g}"
        f"{score}."
    )
    estimate = model.estimate
    if estimate is None:
        return
    say(f"On rows not seen ({estimate.repetitions} folds, {estimate.n_entries} entries):")
    for key, words, _ in MEASURES:
        value = estimate.values[key]
        if value.mean == value.mean:  # else undefined, as a ranking within rows of one label is
            say(f"  {words:<27} {value.mean:.3f}  [{value.low:.3f}, {value.high:.3f}]")
