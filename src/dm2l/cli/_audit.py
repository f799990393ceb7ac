"""Labels that may be wrong: ``dm2l audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from dm2l.cli import _table_options as shared
from dm2l.cli._table_options import say
from dm2l.tables import audit_table
from dm2l.tables._output import check_suffix, write_columns

# What a line says of an entry.
_LINES = {
    "yes": "says yes  wrong",
    "no": "says no   wrong",
    "blank": "is blank  overlooked",
}


@click.command("audit")
@shared.model_argument
@shared.table_argument
@shared.new_file_option(
    "-o", "--output", metavar="FILE", help="A .csv, .tsv, .parquet or .xlsx file for the list."
)
@click.option(
    "--top", type=click.IntRange(1), default=20, show_default=True, help="How many to list."
)
@shared.reading_options
@shared.safe_csv_option
@shared.force_option
@shared.json_option
def audit_command(
    model_path: Path,
    path: Path,
    output: Path | None,
    top: int,
    safe_csv: bool,
    force: bool,
    as_json: bool,
    **reading: Any,
) -> None:
    """List observed labels of TABLE that everything else about their rows contradicts.

    The probability is that of being wrong, given the features and the other labels of the row, and
    false alarms are the share of right ones down to that line. Both are estimates: a label that is
    right and yet odd, however sure a prediction may be, counts as a mistake. Row 1 is the first row
    below the header. TABLE should be the one that MODEL was fitted to. If that was with
    --blank unlabelled, what is listed are blanks that should have been ticked.

    Example: dm2l audit assays.dm2l assays.csv --top 50 -o doubtful.csv
    """
    shared.check_outputs(force, output)
    with shared.data_problems(), shared.progress() as tell:
        if output is not None:
            check_suffix(output)
        tell(f"reading {path.name}")
        model, table = shared.open_both(model_path, path, **reading)
        tell("looking for contradictions")
        found = audit_table(model, table, top)
        columns = {
            "row": found.row.tolist(),
            "label": found.label,
            "observed": np.select([found.blank, found.observed], ["blank", "yes"], "no").tolist(),
            "probability": found.probability.round(4).tolist(),
            "false_alarms": found.false_alarms.round(4).tolist(),
        }
        if output is not None:
            write_columns(output, columns, safe=safe_csv)
    shared.warn(found.warnings)
    lines = list(zip(*columns.values(), strict=True))
    if as_json:
        doubts = [dict(zip(columns, line, strict=True)) for line in lines]
        shared.echo_json({"output": output, "doubts": doubts})
        return
    for row, label, observed, probability, false_alarms in lines:
        say(
            f"row {row:>6}  {label}  {_LINES[observed]} with probability "
            f"{probability:.2f}  false alarms so far {false_alarms:.0%}"
        )
    if output is not None:
        say(f"{len(lines)} labels: {output}")
