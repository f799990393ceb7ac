"""The commands ``complete``, ``predict``, ``suggest``, ``audit`` and ``explain``."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.core import ParameterSource

from dm2l.cli import _shared as shared
from dm2l.cli._shared import say
from dm2l.io._columns import PROBABILITY, SCORE, as_number
from dm2l.io._label_columns import label_columns
from dm2l.review import Journal
from dm2l.review._export import verify
from dm2l.review._sample import FilledRate
from dm2l.tables import (
    Table,
    audit_table,
    complete_table,
    explain_model,
    load_bundle,
    suggest_entries,
    suggest_rows,
    write_completion,
)
from dm2l.tables._completion import (
    INVERTED,
    MARGIN,
    REPEATED,
    completion_summary,
    counted_columns,
)
from dm2l.tables._filled import check_form
from dm2l.tables._model import constant_warnings, no_positive_warnings
from dm2l.tables._output import write_columns
from dm2l.tables._reading import read_cells

_AUDITED = 20  # the most suspected label errors that are printed
_SHOWN = 10  # maximum number of suggestions to print
_FILE = "The .csv, .tsv, .parquet or .xlsx file for "


@click.command("complete")
@shared.file_option(
    "FILLED", "The completed table, in the format of TABLE or as .xlsx.", required=True
)
@shared.file_option(
    "FILE",
    "Write a line per missing label to this file, instead of adding columns to the table.",
    "--details",
)
@click.option(
    "--margin",
    type=click.FloatRange(0, 0.5),
    default=MARGIN,
    help="Mark an entry for checking if its probability differs from 0.5 by at most this much.",
)
@click.option(
    "--max-error-rate",
    callback=shared.share,
    metavar="SHARE",
    help="Fill as many missing labels as possible with an expected error rate of at most SHARE, "
    "such as 5% or 0.05, among yes and among no. The others stay missing and are marked for "
    "checking. The exit code is 0 even if nothing is filled. Not allowed with --margin.",
)
@shared.file_option(
    "ANSWERS",
    "Answers of dm2l review --check, from which the error rate is estimated. All answers in the "
    "file replace the filled values.",
    "--verified",
    new=False,
)
@shared.model_options
def complete_command(
    output: Path,
    details: Path | None,
    margin: float,
    max_error_rate: float | None,
    verified: Path | None,
    safe_csv: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Fill in the missing labels of TABLE with MODEL.

    A missing label is imputed from the features and the known labels of its row. Observed entries
    and all other columns keep their text. For each label, two columns are added: LABEL__probability
    and LABEL__look, which is yes for entries to check. They are blank where the label was observed.

    Example: dm2l complete assays.dm2l assays.csv -o filled.csv --max-error-rate 5%
    """
    source = click.get_current_context().get_parameter_source("margin")
    if max_error_rate is not None and source is not ParameterSource.DEFAULT:
        raise click.UsageError(
            "--margin cannot be combined with --max-error-rate, which itself determines the "
            "entries to check. Pass only one of the two."
        )
    outputs = {"--output": output, "--details": details}
    with shared.opened(outputs, columns=False, **given) as (model, table, tell):
        check_form(table, output)
        tell("filling missing labels")
        completion = complete_table(model, table, margin, max_error_rate=max_error_rate)
        rates: list[FilledRate] = []
        if verified is not None:
            with Journal(verified, table) as journal:
                journal.obey(model.classifier.rules)
                completion, rates = verify(completion, journal)
        tell(f"writing {output.name}")
        marks = [*model.missing, *given["missing"]]
        write_completion(
            completion, table, output, missing=marks, details=details, safe_csv=safe_csv
        )
    shared.warn(completion.warnings)
    counts = counted_columns(completion)
    n_missing, n_filled = completion.count(completion.missing), completion.count(completion.filled)
    if as_json:
        shared.echo_json(
            {
                "output": output,
                "details": details,
                "max_error_rate": max_error_rate,
                "expected_wrong": completion.expected_wrong,
                "expected_wrong_yes": completion.expected_wrong_yes,
                "expected_wrong_no": completion.expected_wrong_no,
                "expected_wrong_values": completion.expected_wrong_values,
                "implied": completion.n_implied,
                "lowest_bound": completion.lowest_bound,
                "verified": rates,
                "filled": n_filled,
                "left": n_missing - n_filled,
                "labels": counts,
            }
        )
        return
    last = "to check" if max_error_rate is None else "missing"
    rows = [[one[key] for key in ("label", "filled", "positive", "look")] for one in counts]
    cells = [["-" if value is None else str(value) for value in row] for row in rows]
    shared.show_grid(("label", "filled", "positive", last), cells)
    shared.say_wrapped(*completion_summary(completion, max_error_rate))
    if completion.n_implied:
        say(f"{completion.n_implied} of the filled labels follow from the rules.")
    if rates:
        shared.say_wrapped(*map(str, rates))
    elif getattr(model.classifier, "missing_as", None) == "unlabelled":
        say("To estimate the error rate, check filled entries with dm2l review --check 50.")
    say(f"Completed table: {output}", *([] if details is None else [f"Details: {details}"]))


@click.command("predict")
@shared.file_option("SCORES", f"{_FILE}the predictions.", required=True)
@shared.keep_option
@shared.model_options
def predict_command(
    output: Path, keep: tuple[str, ...], safe_csv: bool, as_json: bool, **given: Any
) -> None:
    """Predict every label of every row of TABLE with MODEL.

    TABLE needs the feature columns of the table that MODEL was fitted to, but no labels. For each
    label, three columns are written: LABEL with the predicted value, written as in the training
    table, LABEL__probability and LABEL__score. Unknown categories are ignored. Rows with invalid
    SMILES stay blank.

    Example: dm2l predict assays.dm2l new.csv -o scores.csv --keep compound
    """
    with shared.opened({"--output": output}, labels=False, **given) as (model, table, tell):
        ends = (PROBABILITY, SCORE)
        names = [*label_columns(model), *(name + end for name in model.label_names for end in ends)]
        columns: dict[str, Any] = {"row": list(range(1, table.n_rows + 1))}
        columns |= _kept(table, keep, names)
        tell("predicting")
        rows, warnings = model.inputs(table)
        answer = model.answer(rows)
        blank = np.isnan(answer.scores[:, 0])
        for name, (labels, group) in label_columns(model).items():
            if group is None:
                pair = np.array(_values(*model.words.written.get(name, ("1", "0"))), dtype=object)
                values = pair[(~answer.positive[:, labels[0]]).astype(int)]
            else:
                positive, p = answer.positive[:, labels], answer.probabilities[:, labels]
                cells = list(map(group.cell, positive, p))
                values = np.array(_numbers(cells), dtype=object)
            columns[name] = _unless(blank, values)
            for k in labels:
                for end, numbers in ((PROBABILITY, answer.probabilities), (SCORE, answer.scores)):
                    columns[model.label_names[k] + end] = _unless(blank, numbers[:, k].round(6))
        write_columns(output, columns, safe=safe_csv)
    varied = np.asarray(model.classifier._learnable) & ~blank[:, None]
    warnings += no_positive_warnings(model.label_names, varied, answer.positive)
    same = ": the prediction is the same in every row, because {lack} in the training table"
    shared.warn([*warnings, *constant_warnings(model.classifier, model.label_names, same)])
    if as_json:
        positive = answer.positive.sum(axis=0)
        counts = dict(zip(model.label_names, positive.tolist(), strict=True))
        shared.echo_json({"output": output, "n_rows": table.n_rows, "positive": counts})
    else:
        say(f"{table.n_rows} rows, {shared.count_labels(model)}: {output}")


def _values(yes: str, no: str) -> list[Any]:
    """The two values of a label as booleans or numbers if the training table held such."""
    return [True, False] if (yes, no) == ("True", "False") else _numbers([yes, no])


def _numbers(texts: list[str]) -> list[Any]:
    """Convert texts to numbers if all are numbers."""
    numbers = [number for text in texts if (number := as_number(text)) is not None]
    if len(numbers) < len(texts):
        return texts
    return list(map(int, numbers)) if all(map(float.is_integer, numbers)) else numbers


def _unless(blank: Any, values: Any) -> list[Any]:
    """The values as a list, with None for blank cells."""
    cells = values.astype(object)
    cells[blank] = None
    return cells.tolist()


def _kept(table: Table, keep: Sequence[str], names: Sequence[str]) -> dict[str, list[Any]]:
    """Read the columns to copy; unknown columns and names that the output needs are errors."""
    count = Counter(["row", *names])
    twice = next((name for name in names if count[name] > 1), None)
    if twice is not None:
        raise ValueError(
            f"The label {twice!r} has the name of another column of the predictions. Rename the "
            "label in the table and fit the model again."
        )
    keep = tuple(dict.fromkeys(keep))
    for name in keep:
        if table.frame is None or name not in table.frame.columns:
            raise click.UsageError(
                f"{table.path} has no column {name!r}. Pass --keep with one of its feature columns."
            )
        if name in count:
            raise click.UsageError(
                f"{name!r} cannot be kept because the output has a column of that name. Rename the "
                f"column in {table.path}."
            )
    return read_cells(table, keep) if keep else {}


@click.command("suggest")
@shared.file_option("FILE", f"{_FILE}the ranking.", required=True)
@click.option("--top", type=click.IntRange(1), help="Write only this many suggestions.")
@click.option("--rows", "by_row", is_flag=True, help="Rank whole rows instead of single entries.")
@shared.keep_option
@shared.model_options
def suggest_command(
    output: Path,
    top: int | None,
    by_row: bool,
    keep: tuple[str, ...],
    safe_csv: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Rank missing labels of TABLE by the value of an answer.

    The value is the expected number of wrong imputations that an answer prevents in this entry, in
    other missing labels of its row, and in this label of other rows. Row 1 is the first row below
    the header.

    Example: dm2l suggest assays.dm2l assays.csv -o ask.csv --top 50 --keep compound
    """
    with shared.opened({"--output": output}, **given) as (model, table, tell):
        names = ["open", "value"] if by_row else ["label", "probability", "value"]
        cells = _kept(table, keep, names)
        tell("ranking missing labels")
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
    lines = _lines(columns)
    if as_json:
        shared.echo_json({"output": output, "suggestions": lines})
        return
    for line in lines[:_SHOWN]:
        if by_row:
            entry = f"{line['open']} missing labels"
        else:
            entry = f"{line['label']}  probability {line['probability']:.2f}"
        say(f"row {line['row']:>6}  {entry}  value {line['value']:.3g}")
    say(f"{len(lines)} {'rows' if by_row else 'missing labels'} written: {output}")


def _lines(columns: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)]


def _tested(found: int, suspects: int) -> dict[str, float]:
    """Share of inverted labels among the first suspects, with Wilson's confidence interval."""
    from scipy.stats import binomtest  # imported here, because loading it is slow

    low, high = binomtest(found, suspects).proportion_ci(method="wilson")
    first = suspects // REPEATED
    shares = {"found": found / suspects, "low": low, "high": high}
    return {"suspects": first} | {name: round(value, 4) for name, value in shares.items()}


@click.command("audit")
@shared.file_option("FILE", f"{_FILE}the list.")
@click.option(
    "--top",
    type=click.IntRange(1),
    default=1000,
    help="Number of entries in the file; the screen shows the first 20.",
)
@shared.keep_option
@shared.model_options
def audit_command(
    output: Path | None,
    top: int,
    keep: tuple[str, ...],
    safe_csv: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """List suspected label errors of TABLE, most likely first.

    An observed label is suspected if the features and the other labels of its row contradict it.
    p_error is the estimated probability that the label is wrong. The screen shows the first 20
    entries, and the file has the others, too. TABLE should be the table that MODEL was fitted to.
    If the model was fitted with --missing-as unlabelled, blanks that should be positive are listed.
    Row 1 is the first row below the header.

    Example: dm2l audit assays.dm2l assays.csv -o suspected.csv --keep compound
    """
    with shared.opened({"--output": output}, **given) as (model, table, tell):
        cells = _kept(table, keep, ["label", "observed", "p_error"])
        tell("searching label errors")
        found = audit_table(model, table, top)
        columns = {
            "row": found.row.tolist(),
            **{name: [values[i - 1] for i in found.row] for name, values in cells.items()},
            "label": found.label,
            "observed": np.select([found.blank, found.observed], ["blank", "yes"], "no").tolist(),
            "p_error": found.probability.round(4).tolist(),
        }
        if output is not None:
            write_columns(output, columns, safe=safe_csv)
    shared.warn(found.warnings)
    lines = _lines(columns)
    test = None if found.test is None else _tested(*found.test)
    if as_json:
        shared.echo_json({"output": output, "label_errors": lines, "test": test})
        return
    shown = lines[:_AUDITED]
    if shown:
        headings = list(columns)
        rows = [[f"{v:.2f}" if k == "p_error" else str(v) for k, v in row.items()] for row in shown]
        shared.show_grid(headings, rows, left=len(headings) - 1)
        share = found.probability[: len(shown)].mean()
        say(f"By these probabilities, {share:.0%} of the {len(shown)} labels shown are wrong.")
    if test is not None:
        say(
            f"In a test with {INVERTED:.0%} inverted labels, {test['found']:.0%} of the first "
            f"{test['suspects']:.0f} suspects were inverted",
            f"(95% confidence interval: {test['low']:.0%} to {test['high']:.0%}). "
            "The others are wrong already, or correct.",
        )
    if output is not None:
        say(f"{len(lines)} labels written: {output}")


@click.command("explain")
@shared.model_argument
@click.option(
    "--label", type=shared.unquoted, metavar="NAME", help="Explain only this label or column."
)
@click.option(
    "--top",
    type=click.IntRange(1),
    default=8,
    help="Number of features and of labels with correlated scores to list for each label.",
)
@shared.seed_option
@shared.json_option
def explain_command(
    model_path: Path, label: str | None, top: int, seed: int, as_json: bool
) -> None:
    """List important features and label correlations of MODEL.

    For a linear model, the numbers are coefficients of features with unit variance. For other
    models, a number is the change of the label's score when the column is shuffled among training
    rows, for the 40 columns with the largest linear weights. For the automatic model, its sign is
    the sign of the linear weight.

    Example: dm2l explain assays.dm2l --label tox_liver
    """
    with shared.data_problems(), shared.progress() as tell:
        model = load_bundle(model_path)
        found = explain_model(model, label, top=top, random_state=seed, tell=tell)
    kernel = "auto" if model.settings is None else model.settings.kernel
    if as_json:
        shared.echo_json({"kernel": kernel, "labels": found})
        return
    for item in found:
        say(item.label)
        for name, value in item.features:
            say(f"  {value:+.3f}  {name}" if kernel == "linear" else f"  {value:.3f}  {name}")
        if item.together:
            # No line ends within a name.
            listed = (f"{name} ({r:+.2f})".replace(" ", "\xa0") for name, r in item.together)
            say(*shared.wrapped(f"  labels with correlated scores: {', '.join(listed)}", 80))
