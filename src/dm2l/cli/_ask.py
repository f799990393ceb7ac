"""What a fitted model is asked: ``dm2l complete``, ``predict``, ``suggest`` and ``explain``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.core import ParameterSource
from numpy.typing import NDArray

from dm2l.cli import _table_options as shared
from dm2l.cli._table_options import say
from dm2l.io._columns import PROBABILITY, SCORE
from dm2l.io._words import as_number
from dm2l.tables import (
    Table,
    complete_table,
    explain_model,
    load_bundle,
    suggest_entries,
    suggest_rows,
    write_completion,
)
from dm2l.tables._completion import MARGIN
from dm2l.tables._filled import check_form
from dm2l.tables._output import check_suffix, write_columns
from dm2l.tables._reading import read_cells
from dm2l.tables._unlearnt import prediction_warnings

_SHOWN = 10  # suggestions on the terminal


def _share(_context: click.Context, _option: click.Parameter, value: str | None) -> float | None:
    """A share such as 5% or 0.05."""
    if value is None:
        return None
    number, percent, rest = value.strip().partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if rest or not 0 <= share <= 1:
        raise click.BadParameter(f"{value!r} is not a share such as 5% or 0.05.")
    return share


@click.command("complete")
@shared.model_argument
@shared.table_argument
@shared.output_option("FILLED", "For the completed table, of the form of TABLE, or .xlsx.")
@shared.new_file_option(
    "--details",
    metavar="FILE",
    help="Put probabilities into this file, one line per hole, and add no columns.",
)
@click.option(
    "--margin",
    type=click.FloatRange(0, 0.5),
    default=MARGIN,
    show_default=True,
    help="An entry is worth a look if its probability is this close to one half.",
)
@click.option(
    "--max-error-rate",
    callback=_share,
    metavar="SHARE",
    help="Fill only as many holes as keep the expected share of wrong answers at or below this, "
    "such as 5% or 0.05, and leave the others as they are. Not with --margin: those left are "
    "the ones worth a look.",
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
    max_error_rate: float | None,
    force: bool,
    as_json: bool,
    **reading: Any,
) -> None:
    """Write TABLE with the holes of its labels filled by MODEL.

    A hole is filled by the features and the known labels of its row. Observed entries and all
    other columns keep their very text. For each label two columns are added, LABEL__probability
    and LABEL__look, with something in them where there was a hole.

    Example: dm2l complete assays.dm2l assays.csv -o filled.csv --max-error-rate 5%
    """
    source = click.get_current_context().get_parameter_source("margin")
    if max_error_rate is not None and source is not ParameterSource.DEFAULT:
        raise click.UsageError(
            "--margin and --max-error-rate exclude each other: --max-error-rate decides which "
            "labels stay missing."
        )
    shared.check_outputs(force, output, details)
    with shared.data_problems(), shared.progress() as tell:
        tell(f"reading {path.name}")
        model, table = shared.open_both(model_path, path, **reading)
        check_form(table, output)
        tell("filling")
        completion = complete_table(model, table, margin, max_error_rate=max_error_rate)
        tell(f"writing {output.name}")
        marks = [*model.missing, *reading["missing"]]
        write_completion(completion, table, output, missing=marks, details=details)
    shared.warn(completion.warnings)
    counts = [
        {
            "label": name,
            "filled": int(completion.filled[:, k].sum()),
            "positive": int(completion.positive[:, k].sum()),
            "left": int((completion.holes & ~completion.filled)[:, k].sum()),
            "look": int(completion.look[:, k].sum()),
        }
        for k, name in enumerate(completion.label_names)
    ]
    n_holes, n_filled = int(completion.holes.sum()), int(completion.filled.sum())
    if as_json:
        shared.echo_json(
            {
                "output": output,
                "details": details,
                "max_error_rate": max_error_rate,
                "expected_wrong": completion.expected_wrong,
                "filled": n_filled,
                "left": n_holes - n_filled,
                "labels": counts,
            }
        )
        return
    width = max(5, *(len(name) for name in completion.label_names))
    last = "worth a look" if max_error_rate is None else "left"
    say(f"{'label':<{width}}  filled  with yes  {last:>12}")
    for count in counts:
        say(
            f"{count['label']:<{width}}  {count['filled']:6}  {count['positive']:8}  "
            f"{count['look']:12}"
        )
    if max_error_rate is not None:
        share = f"; of the filled {completion.expected_wrong:.2%} are expected to be wrong"
        say(
            f"{n_filled} of {n_holes} holes filled, {n_holes - n_filled} left"
            f"{share if n_filled else ''}, asked for at most {100 * max_error_rate:.4g}%."
        )
    say(f"Completed: {output}" + ("" if details is None else f", details: {details}"))


_keep_option = click.option(
    "--keep",
    multiple=True,
    metavar="COLUMN",
    help="A column of TABLE to copy as it is, such as its key.",
)


@click.command("predict")
@shared.model_argument
@shared.table_argument
@shared.output_option("SCORES", "A .csv, .tsv, .parquet or .xlsx file for the predictions.")
@_keep_option
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
    there is a column LABEL in the words of the table that the model was fitted to (yes and no, 1
    and 0, those of --positive and --cutoff), LABEL__probability and LABEL__score. Categories that
    were not seen before count as none; rows whose SMILES cannot be read stay blank.

    Example: dm2l predict assays.dm2l new.csv -o scores.csv --keep compound
    """
    shared.check_outputs(force, output)
    keep = tuple(dict.fromkeys(keep))
    with shared.data_problems(), shared.progress() as tell:
        check_suffix(output)
        tell(f"reading {path.name}")
        model, table = shared.open_both(model_path, path, labels=False, **reading)
        ends = ("", PROBABILITY, SCORE)
        _check_columns(table, keep, [name + end for name in model.label_names for end in ends])
        columns: dict[str, Any] = {"row": list(range(1, table.n_rows + 1))}
        columns |= read_cells(table, keep) if keep else {}
        tell("predicting")
        inputs, warnings = model.inputs(table)
        answer = model.answer(inputs)
        blank = model.unread(inputs)
        for k, name in enumerate(model.label_names):
            pair = np.array(_values(*model.words.written.get(name, ("1", "0"))), dtype=object)
            columns[name] = _unless(blank, pair[(~answer.positive[:, k]).astype(int)])
            columns[name + PROBABILITY] = _unless(blank, answer.probabilities[:, k].round(6))
            columns[name + SCORE] = _unless(blank, answer.scores[:, k].round(6))
        write_columns(output, columns, safe=safe_csv)
    shared.warn([*warnings, *prediction_warnings(model.classifier, model.label_names)])
    if as_json:
        positive = answer.positive.sum(axis=0)
        counts = dict(zip(model.label_names, positive.tolist(), strict=True))
        shared.echo_json({"output": output, "n_rows": table.n_rows, "positive": counts})
    else:
        say(f"{table.n_rows} rows, {len(model.label_names)} labels: {output}")


def _values(yes: str, no: str) -> tuple[Any, Any]:
    """Words of a label as values: numbers and booleans where the table had such."""
    if (yes, no) == ("True", "False"):
        return True, False
    a, b = as_number(yes), as_number(no)
    if a is None or b is None:
        return yes, no
    return (int(a), int(b)) if a.is_integer() and b.is_integer() else (a, b)


def _unless(blank: NDArray[np.bool_], values: NDArray[Any]) -> list[Any]:
    """Values as they are written: nothing where nothing can be said."""
    if not blank.any():
        return values.tolist()
    return [None if no else value for value, no in zip(values.tolist(), blank, strict=True)]


def _check_columns(table: Table, keep: Sequence[str], names: Sequence[str]) -> None:
    """Refuse columns to keep that are not there, and columns of one name."""
    count = Counter(["row", *names])
    twice = next((name for name in names if count[name] > 1), None)
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
                f"{name!r} cannot be kept: the output has a column named so. Rename it in "
                f"{table.path}."
            )


@click.command("suggest")
@shared.model_argument
@shared.table_argument
@shared.output_option("FILE", "A .csv, .tsv, .parquet or .xlsx file for the ranking.")
@click.option("--top", type=click.IntRange(1), help="Write only this many.")
@click.option(
    "--rows",
    "by_row",
    is_flag=True,
    help="Rank rows by what answering all their holes would bring, for who reads whole rows.",
)
@_keep_option
@shared.reading_options
@shared.safe_csv_option
@shared.force_option
@shared.json_option
def suggest_command(
    model_path: Path,
    path: Path,
    output: Path,
    top: int | None,
    by_row: bool,
    keep: tuple[str, ...],
    safe_csv: bool,
    force: bool,
    as_json: bool,
    **reading: Any,
) -> None:
    """Rank the holes of TABLE by how much a person's answer would help.

    The value of a hole is the number of mistakes about holes that its answer is expected to spare:
    in itself, in the other holes of its row, and in other rows. Row 1 is the first row below the
    header.

    Example: dm2l suggest assays.dm2l assays.csv -o ask.csv --top 50 --keep compound
    """
    shared.check_outputs(force, output)
    keep = tuple(dict.fromkeys(keep))
    with shared.data_problems(), shared.progress() as tell:
        check_suffix(output)
        tell(f"reading {path.name}")
        model, table = shared.open_both(model_path, path, **reading)
        names = ["open", "value"] if by_row else ["label", "probability", "value"]
        _check_columns(table, keep, names)
        cells = read_cells(table, keep) if keep else {}
        tell("ranking")
        found: Any = (suggest_rows if by_row else suggest_entries)(model, table, top)
        columns: dict[str, Any] = {"row": found.row.tolist()}
        columns |= {name: [values[i - 1] for i in found.row] for name, values in cells.items()}
        if by_row:
            columns["open"] = found.n_open.tolist()
        else:
            columns |= {"label": found.label, "probability": found.probability.round(4).tolist()}
        columns["value"] = [float(f"{value:.6g}") for value in found.value]
        write_columns(output, columns, safe=safe_csv)
    shared.warn(found.warnings)
    lines = [dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)]
    if as_json:
        shared.echo_json({"output": output, "suggestions": lines})
        return
    for line in lines[:_SHOWN]:
        what = f"{line['open']} open" if by_row else f"{line['label']}  probability "
        what += "" if by_row else f"{line['probability']:.2f}"
        say(f"row {line['row']:>6}  {what}  value {line['value']:.3g}")
    say(f"{len(lines)} {'rows' if by_row else 'holes'}: {output}")


@click.command("explain")
@shared.model_argument
@click.option("--label", help="Only this label.")
@click.option(
    "--top",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="Features and labels to name for each label.",
)
@shared.seed_option
@shared.json_option
def explain_command(
    model_path: Path, label: str | None, top: int, seed: int, as_json: bool
) -> None:
    """Say which features carry the labels of MODEL, and which labels move together.

    Features of a linear model come with their coefficients; numbers have unit variance, so that
    coefficients compare. For other models the number says how far the label's score moves when the
    column is shuffled among training rows; for the automatic one its sign is that of the linear
    part, which also says which columns are tried.

    Example: dm2l explain assays.dm2l --label tox_liver
    """
    with shared.data_problems(), shared.progress() as tell:
        model = load_bundle(model_path)
        found = explain_model(model, label, top=top, seed=seed, tell=tell)
    kernel = "auto" if model.settings is None else model.settings.kernel
    if as_json:
        shared.echo_json({"kernel": kernel, "labels": found})
        return
    linear = kernel == "linear"
    for item in found:
        say(item.label)
        for name, value in item.features:
            say(f"  {value:+.3f}  {name}" if linear else f"  {value:.3f}  {name}")
        if item.together:
            listed = ", ".join(f"{name} ({value:+.2f})" for name, value in item.together)
            say(f"  moves with: {listed}")
