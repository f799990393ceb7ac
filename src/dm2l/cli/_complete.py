"""``dm2l complete``: a table with its holes filled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dm2l.cli import _table_options as shared
from dm2l.cli._printable import say
from dm2l.tables import MARGIN, check_form, complete_table, write_completion


@click.command("complete")
@shared.model_argument
@shared.table_argument
@shared.output_option("FILLED", "The file for the completed table, of the same form as TABLE.")
@shared.details_option
@click.option(
    "--margin",
    type=click.FloatRange(0, 0.5),
    default=MARGIN,
    show_default=True,
    help="An entry is worth a look if its probability is this close to one half.",
)
@shared.reading_options
@shared.force_option
@shared.json_option
def complete_command(
    model_path: Path,
    path: Path,
    output: Path,
    details: Path | None,
    margin: float,
    force: bool,
    as_json: bool,
    **reading: Any,
) -> None:
    """Write TABLE with the holes of its labels filled by MODEL.

    Observed entries and all other columns keep their very text. For each label two columns are
    added, LABEL__probability and LABEL__look, with something in them where a hole was filled.

    Example: dm2l complete assays.dm2l assays.csv -o filled.csv
    """
    shared.check_outputs(force, output, details)
    with shared.data_problems(), shared.progress() as tell:
        tell(f"reading {path.name}")
        model, table = shared.open_both(model_path, path, **reading)
        check_form(table, output)
        tell("filling")
        completion = complete_table(model, table, margin)
        marks = [*model.missing, *reading["missing"]]
        write_completion(completion, table, output, missing=marks, details=details)
    shared.warn(completion.warnings)
    counts = [
        {
            "label": name,
            "filled": int(completion.holes[:, k].sum()),
            "positive": int(completion.positive[:, k].sum()),
            "look": int(completion.look[:, k].sum()),
        }
        for k, name in enumerate(completion.label_names)
    ]
    if as_json:
        shared.echo_json({"output": output, "details": details, "labels": counts})
        return
    width = max(len(name) for name in completion.label_names)
    say(f"{'label':<{width}}  filled  with yes  worth a look")
    for count in counts:
        say(
            f"{count['label']:<{width}}  {count['filled']:6}  {count['positive']:8}  "
            f"{count['look']:12}"
        )
    say(f"Completed: {output}" + ("" if details is None else f", details: {details}"))
