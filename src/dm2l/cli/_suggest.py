"""``dm2l suggest``: which holes to answer first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dm2l.cli import _table_options as shared
from dm2l.cli._printable import say
from dm2l.tables import check_suffix, suggest_entries, write_columns

SHOWN = 10


@click.command("suggest")
@shared.model_argument
@shared.table_argument
@shared.output_option("FILE", "A .csv, .tsv or .parquet file for the ranking.")
@click.option("--top", type=click.IntRange(1), help="Write only this many.")
@shared.reading_options
@shared.safe_csv_option
@shared.force_option
@shared.json_option
def suggest_command(
    model_path: Path,
    path: Path,
    output: Path,
    top: int | None,
    safe_csv: bool,
    force: bool,
    as_json: bool,
    **reading: Any,
) -> None:
    """Rank the holes of TABLE by how much a person's answer would help MODEL.

    The value of a hole is the uncertainty of its answer times the effect that the answer would
    have on the other holes of its label. Row 1 is the first row below the header.

    Example: dm2l suggest assays.dm2l assays.csv -o ask.csv --top 50
    """
    shared.check_outputs(force, output)
    with shared.data_problems(), shared.progress() as tell:
        check_suffix(output)
        tell(f"reading {path.name}")
        model, table = shared.open_both(model_path, path, **reading)
        tell("ranking")
        found = suggest_entries(model, table, top)
        columns = {
            "row": found.row.tolist(),
            "label": found.label,
            "probability": found.probability.round(4).tolist(),
            "value": [float(f"{value:.6g}") for value in found.value],
        }
        write_columns(output, columns, safe=safe_csv)
    shared.warn(found.warnings)
    lines = list(zip(*columns.values(), strict=True))
    if as_json:
        shared.echo_json(
            {
                "output": output,
                "suggestions": [dict(zip(columns, line, strict=True)) for line in lines],
            }
        )
        return
    for row, label, probability, value in lines[:SHOWN]:
        say(f"row {row:>6}  {label}  probability {probability:.2f}  value {value:.3g}")
    say(f"{len(found.label)} holes: {output}")
