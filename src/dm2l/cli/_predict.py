"""``dm2l predict``: scores and probabilities of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from dm2l.cli import _table_options as shared
from dm2l.cli._printable import say
from dm2l.tables import Table, TableModel, check_suffix, read_cells, write_columns

_PROBABILITY, _SCORE = "__probability", "__score"


@click.command("predict")
@shared.model_argument
@shared.table_argument
@shared.output_option("SCORES", "A .csv, .tsv or .parquet file for the predictions.")
@click.option(
    "--keep",
    multiple=True,
    metavar="COLUMN",
    help="A column of TABLE to copy as it is, such as its key.",
)
@shared.reading_options
@shared.safe_csv_option
@shared.force_option
@shared.json_option
def predict_command(
    model_path: Path,
    path: Path,
    output: Path,
    keep: tuple[str, ...],
    safe_csv: bool,
    force: bool,
    as_json: bool,
    **reading: Any,
) -> None:
    """Write what MODEL says about every label of every row of TABLE.

    TABLE needs the feature columns that the model was fitted to, and no labels. For each label
    there is a column LABEL with 0 or 1, LABEL__probability and LABEL__score. Categories that were
    not seen before count as none.

    Example: dm2l predict assays.dm2l new.csv -o scores.csv --keep compound
    """
    shared.check_outputs(force, output)
    keep = tuple(dict.fromkeys(keep))
    with shared.data_problems(), shared.progress() as tell:
        check_suffix(output)
        tell(f"reading {path.name}")
        model, table = shared.open_both(model_path, path, labels=False, **reading)
        _check_columns(model, table, keep)
        columns: dict[str, Any] = {"row": list(range(1, table.n_rows + 1))}
        if keep:
            columns |= read_cells(table, keep)
        tell("predicting")
        inputs, warnings = model.inputs(table)
        answer = model.answer(inputs)
        for k, name in enumerate(model.label_names):
            columns[name] = answer.positive[:, k].astype(int).tolist()
            columns[name + _PROBABILITY] = answer.probabilities[:, k].round(6).tolist()
            columns[name + _SCORE] = answer.scores[:, k].round(6).tolist()
        write_columns(output, columns, safe=safe_csv)
    shared.warn(warnings)
    if as_json:
        positive = answer.positive.sum(axis=0)
        counts = dict(zip(model.label_names, positive.tolist(), strict=True))
        shared.echo_json({"output": output, "n_rows": table.n_rows, "positive": counts})
    else:
        say(f"{table.n_rows} rows, {len(model.label_names)} labels: {output}")


def _check_columns(model: TableModel, table: Table, keep: Sequence[str]) -> None:
    """Refuse columns to keep that are not there, and columns of one name."""
    names = [name + end for name in model.label_names for end in ("", _PROBABILITY, _SCORE)]
    count = Counter(["row", *names])
    twice = next((name for name in model.label_names if count[name] > 1), None)
    if twice is not None:
        raise ValueError(
            f"The label {twice!r} is named like another column of the predictions; rename it in "
            "the table and fit again."
        )
    for name in keep:
        if table.frame is None or name not in table.frame.columns:
            raise click.UsageError(f"{table.path} has no column {name!r} to keep.")
        if name in count:
            raise click.UsageError(
                f"{name!r} cannot be kept: predictions have a column named so. Rename it in "
                f"{table.path}."
            )
