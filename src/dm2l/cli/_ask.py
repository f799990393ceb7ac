"""The commands ``complete``, ``predict``, ``suggest``, ``audit`` and ``explain``."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np

from dm2l import tables
from dm2l.cli import _shared as shared
from dm2l.cli._shared import say
from dm2l.io._columns import PROBABILITY, SCORE, as_number
from dm2l.io._label_columns import label_columns
from dm2l.review import Journal
from dm2l.review._export import verify
from dm2l.review._sample import FilledRate
from dm2l.tables._completion import INVERTED, MARGIN, REPEATED, completion_summary, counted_columns
from dm2l.tables._filled import check_form
from dm2l.tables._model import constant_warnings, no_positive_warnings
from dm2l.tables._output import write_columns
from dm2l.tables._reading import read_cells

Tell = Callable[[str], None]
_AUDITED = 20  # maximum number of suspected label errors to print
_SHOWN = 10  # maximum number of suggestions to print
_EXPECTED = ("expected_wrong", *(f"expected_wrong_{part}" for part in ("yes", "no", "values")))
_FILE = "The .csv, .tsv, .parquet or .xlsx file for "


@click.command("complete")
@shared.file_option(
    "FILLED", "The completed table, in the format of TABLE or as .xlsx.", required=True
)
@shared.file_option(
    "FILE",
    "Instead of adding columns, write a line for each missing label and added tag to this file.",
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
    help="Fill as many missing labels as possible while the expected error rates of all labels "
    "filled with yes and of all labels filled with no are at most SHARE, such as 5% or 0.05. The "
    "rate of a single column may be higher. Labels that stay missing are marked for checking. If "
    "no label is filled, the exit code is still 0. Cannot be combined with --margin.",
)
@shared.file_option(
    "ANSWERS",
    "File of answers from dm2l review --check, used to estimate the error rate. Every answer in "
    "the file also replaces the filled value.",
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
    and all other columns stay unchanged. For each label, two columns are added: LABEL__probability
    and LABEL__look, which is yes for entries to check. For observed labels, added cells are blank.

    Example: dm2l complete tox.dm2l tox.csv -o filled.csv --max-error-rate 5%
    """
    source = click.get_current_context().get_parameter_source("margin")
    if max_error_rate is not None and source is shared.TYPED:
        raise click.UsageError(
            "--margin cannot be combined with --max-error-rate, which itself determines the "
            "entries to check. Pass only one of these options."
        )
    outputs = {"--output": output, "--details": details}
    with shared.opened(outputs, columns=False, **given) as (model, table, tell):
        check_form(table, output)
        tell("filling missing labels")
        completion = tables.complete_table(model, table, margin, max_error_rate=max_error_rate)
        rates: list[FilledRate] = []
        if verified is not None:
            with Journal(verified, table) as journal:
                journal.obey(model.classifier.rules)
                completion, rates = verify(completion, journal)
        tell(f"writing {output.name}")
        how: dict[str, Any] = {"details": details, "safe_csv": safe_csv}
        how["missing"] = [*model.missing, *given["missing"]]
        tables.write_completion(completion, table, output, **how)
    shared.warn(completion.warnings)
    counts = counted_columns(completion)
    n_missing, n_filled = completion.count(completion.missing), completion.count(completion.filled)
    if as_json:
        shared.echo_json(
            {
                "output": output,
                "details": details,
                "max_error_rate": max_error_rate,
                **{name: getattr(completion, name) for name in _EXPECTED},
                "implied": completion.n_implied,
                "overlooked": completion.overlooked,
                "lowest_bound": completion.lowest_bound,
                "verified": rates,
                "filled": n_filled,
                "left": n_missing - n_filled,
                "labels": counts,
            }
        )
        return
    last = "to check" if max_error_rate is None else "missing"
    names = ("label", "filled", "positive", "look", "expected_wrong")
    shown = sorted(counts, key=lambda one: -one["filled"] * (one["expected_wrong"] or 0.0))
    shown = counts if len(counts) <= _SHOWN + 2 else shown[:_SHOWN]
    cells = [
        ["-" if x is None else f"{x:.1%}" if isinstance(x, float) else str(x) for x in line]
        for line in ([one[name] for name in names] for one in shown)
    ]
    shared.show_grid((*names[:3], last, "expected errors"), cells)
    if len(shown) < (n := len(counts)):
        say(f"These {_SHOWN} of {n} columns have the most expected errors. For all, pass --json.")
    shared.say_wrapped(*completion_summary(completion, max_error_rate))
    if completion.n_implied:
        say(f"{completion.n_implied} of the filled labels follow from the rules.")
    if rates:
        shared.say_wrapped(*map(str, rates))
    elif n_filled and getattr(model.classifier, "missing_as", None) == "unlabelled":
        line = shared.command_line("review", "--answers", "answers.jsonl", "--check", 50)
        say(f"To estimate the error rate, check a random sample: {line}")
    written = [f"Wrote the completed table to {output}."]
    say(*written, *([] if details is None else [f"Wrote the details to {details}."]))


@click.command("predict")
@shared.file_option("SCORES", f"{_FILE}the predictions.", required=True)
@shared.keep_option
@shared.model_options
def predict_command(output: Path, as_json: bool, **given: Any) -> None:
    """Predict every label of every row of TABLE with MODEL.

    TABLE needs the feature columns of the table that MODEL was fitted to, but no labels. For each
    label, three columns are written: LABEL (the predicted value, as in the training table),
    LABEL__probability and LABEL__score. Categories that the training table does not have are
    ignored. Predictions for rows with invalid SMILES are blank.

    Example: dm2l predict assays.dm2l new.csv -o scores.csv --keep compound
    """
    ends, columns = (PROBABILITY, SCORE), {}

    def names(model: tables.TableModel) -> Sequence[str]:
        return [*label_columns(model), *(name + end for name in model.label_names for end in ends)]

    with _listing(output, names, labels=False, **given) as (model, table, tell, write):
        tell("predicting")
        rows, warnings = model.inputs(table)
        answer = model.answer(rows)
        blank, empty = np.isnan(answer.scores[:, 0]), np.array(None)
        for name, (labels, group) in label_columns(model).items():
            if group is None:
                pair: list[Any] = [*model.words.written.get(name, ("1", "0"))]
                pair = [True, False] if pair == ["True", "False"] else _numbers(pair)
                values = np.array(pair, dtype=object)[(~answer.positive[:, labels[0]]).astype(int)]
            else:
                positive, p = answer.positive[:, labels], answer.probabilities[:, labels]
                cells = list(map(group.cell, positive, p))
                values = np.array(_numbers(cells), dtype=object)
            columns[name] = np.where(blank, empty, values).tolist()
            for k in labels:
                for end, numbers in zip(ends, (answer.probabilities, answer.scores), strict=True):
                    cells = np.where(blank, empty, numbers[:, k].round(6)).tolist()
                    columns[model.label_names[k] + end] = cells
        write(list(range(1, table.n_rows + 1)), columns)
    varied = np.asarray(model.classifier._learnable) & ~blank[:, None]
    warnings += no_positive_warnings(model.label_names, varied, answer.positive)
    same = ": the prediction is the same in every row, because {lack} in the training table"
    shared.warn([*warnings, *constant_warnings(model.classifier, model.label_names, same)])
    if as_json:
        positive = answer.positive.sum(axis=0)
        counts = dict(zip(model.label_names, positive.tolist(), strict=True))
        shared.echo_json({"output": output, "n_rows": table.n_rows, "positive": counts})
    else:
        say(f"Wrote {shared.count_labels(model)} for each of {table.n_rows} rows to {output}.")


def _numbers(texts: list[str]) -> list[Any]:
    """Convert texts to numbers if every text is a number, or else return the texts."""
    numbers = [number for text in texts if (number := as_number(text)) is not None]
    if len(numbers) < len(texts):
        return texts
    return list(map(int, numbers)) if all(map(float.is_integer, numbers)) else numbers


@contextmanager
def _listing(
    output: Path | None,
    names: Callable[[tables.TableModel], Sequence[str]],
    *,
    keep: Sequence[str],
    safe_csv: bool,
    **given: Any,
) -> Iterator[
    tuple[tables.TableModel, tables.Table, Tell, Callable[[list[int], dict[str, Any]], Any]]
]:
    """Yield a model, a table, a progress function, and a function that writes output columns."""
    with shared.opened({"--output": output}, **given) as (model, table, tell):
        count = Counter(["row", *names(model)])
        if twice := [name for name in count if count[name] > 1]:
            raise ValueError(
                f"The label {twice[0]!r} has the same name as another column of the output. Rename "
                "the label in the table and fit the model again."
            )
        keep = tuple(dict.fromkeys(keep))
        for name in keep:
            if table.frame is None or name not in table.frame.columns:
                raise click.UsageError(
                    f"{table.path} has no column {name!r}. Pass --keep with one of its feature "
                    "columns."
                )
            if name in count:
                raise click.UsageError(
                    f"{name!r} cannot be kept, because the output has another column with this "
                    f"name. Rename the column in {table.path}."
                )
        kept = read_cells(table, keep) if keep else {}

        def write(rows: list[int], columns: dict[str, Any]) -> list[dict[str, Any]]:
            cells = {name: [values[i - 1] for i in rows] for name, values in kept.items()}
            columns = {"row": rows, **cells, **columns}
            if output is not None:
                write_columns(output, columns, safe=safe_csv)
            lines = zip(*columns.values(), strict=True)
            return [dict(zip(columns, line, strict=True)) for line in lines]

        yield model, table, tell, write


@click.command("suggest")
@shared.file_option("FILE", f"{_FILE}the ranking.", required=True)
@click.option("--top", type=click.IntRange(1), help="Write at most this many suggestions.")
@click.option("--rows", "by_row", is_flag=True, help="Rank whole rows instead of single entries.")
@shared.keep_option
@shared.model_options
def suggest_command(
    output: Path, top: int | None, by_row: bool, as_json: bool, **given: Any
) -> None:
    """Rank missing labels by how many errors their annotation prevents.

    The value of an answer is the expected number of wrong imputations that the answer prevents, in
    the entry itself, in other missing labels of its row, and in the same label of other rows. Row 1
    is the first row below the header.

    Example: dm2l suggest tox.dm2l tox.csv -o ask.csv --top 50 --keep compound
    """
    names = ["open", "value"] if by_row else ["label", "probability", "value"]
    with _listing(output, lambda _: names, **given) as (model, table, tell, write):
        tell("ranking missing labels")
        found: Any = (tables.suggest_rows if by_row else tables.suggest_entries)(model, table, top)
        if by_row:
            columns = {"open": found.n_open.tolist()}
        else:
            columns = {"label": found.label, "probability": found.probability.round(4).tolist()}
        columns["value"] = [float(f"{value:.6g}") for value in found.value]
        lines = write(found.row.tolist(), columns)
    shared.warn(found.warnings)
    if as_json:
        shared.echo_json({"output": output, "suggestions": lines})
        return
    _show_lines(lines[:_SHOWN], 1 if by_row else 2)
    say(f"Wrote {len(lines)} ranked {'rows' if by_row else 'missing labels'} to {output}.")


def _show_lines(lines: list[dict[str, Any]], n_right: int) -> None:
    """Print rows of an output as a table whose last ``n_right`` columns are right-aligned."""
    if lines:
        cells = [
            [f"{v:.3f}" if isinstance(v, float) else f"{v}" for v in x.values()] for x in lines
        ]
        shared.show_grid(list(lines[0]), cells, left=len(lines[0]) - n_right)


@click.command("audit")
@shared.file_option("FILE", f"{_FILE}the list.")
@click.option(
    "--top",
    type=click.IntRange(1),
    default=1000,
    help="Maximum number of entries in the file; the screen shows the first 20.",
)
@shared.keep_option
@shared.model_options
def audit_command(output: Path | None, top: int, as_json: bool, **given: Any) -> None:
    """List suspected label errors of TABLE, most likely first.

    An observed label is suspected if the features and the other labels of its row contradict it.
    p_error is the estimated probability that the label is wrong. The screen shows the first 20
    entries, and the file contains up to --top entries. TABLE should be the table that MODEL was
    fitted to. If the model was fitted with --missing-as unlabelled, blanks that may be positive
    are listed. Row 1 is the first row below the header.

    Example: dm2l audit assays.dm2l assays.csv -o suspected.csv --keep compound
    """
    names = ["label", "observed", "p_error"]
    with _listing(output, lambda _: names, **given) as (model, table, tell, write):
        tell("searching for label errors")
        found = tables.audit_table(model, table, top)
        observed = np.select([found.blank, found.observed], ["blank", "yes"], "no").tolist()
        values = (found.label, observed, found.probability.round(4).tolist())
        lines = write(found.row.tolist(), dict(zip(names, values, strict=True)))
    shared.warn(found.warnings)
    rate, test = found.expected_errors(_AUDITED), None
    if found.test is not None:
        from scipy.stats import binomtest  # imported here, because loading it is slow

        inverted, suspects = found.test
        low, high = binomtest(inverted, suspects).proportion_ci(method="wilson")
        shares = {"found": inverted / suspects, "low": low, "high": high}
        test = {"suspects": suspects // REPEATED, **{k: round(v, 4) for k, v in shares.items()}}
    if as_json:
        shared.echo_json({"output": output, "label_errors": lines, "expected": rate, "test": test})
        return
    shown = lines[:_AUDITED]
    if shown:
        _show_lines(shown, 1)
        ends = f" (95% interval: {rate.low:.0%} to {rate.high:.0%})" * (rate.low == rate.low)
        say(f"Expected share of errors among these {len(shown)} entries: {rate.mean:.0%}{ends}.")
    if test is not None:
        say(
            f"In a test with {INVERTED:.0%} inverted labels, {test['found']:.0%} of the first "
            f"{test['suspects']:.0f} suspects were inverted",
            f"(95% confidence interval: {test['low']:.0%} to {test['high']:.0%}).",
            "The other suspects are errors that the table already had, or correct labels.",
        )
    if output is not None:
        say(f"Wrote {len(lines)} suspected label errors to {output}.")


@click.command("explain")
@shared.model_argument
@click.option(
    "--label", type=shared.unquoted, metavar="NAME", help="Explain only this label, tag or column."
)
@click.option(
    "--top",
    type=click.IntRange(1),
    default=8,
    help="Maximum number of features, and of correlated labels, to list for each label.",
)
@shared.seed_option
@shared.json_option
def explain_command(
    model_path: Path, label: str | None, top: int, seed: int, as_json: bool
) -> None:
    """List important features and label correlations of MODEL.

    For a linear model, the printed numbers are coefficients of features with unit variance. For
    other models, a number is the root mean square change of the label's score when the values of a
    column are shuffled among training rows. Only the 40 columns with the largest weights in a
    linear model are shuffled. For the automatic model, numbers have the signs of these weights.

    Example: dm2l explain assays.dm2l --label tox_liver
    """
    with shared.data_problems(), shared.progress() as tell:
        model = tables.load_bundle(model_path)
        found = tables.explain_model(model, label, top=top, random_state=seed, tell=tell)
    kernel = "auto" if model.settings is None else model.settings.kernel
    if as_json:
        shared.echo_json({"kernel": kernel, "labels": found})
        return
    sign = "+" if kernel == "linear" else ""  # a category of other models has none
    for item in found:
        say(item.label, *(f"  {value:{sign}.3f}  {name}" for name, value in item.features))
        if item.together:
            # No-break spaces keep each name on one line.
            listed = (f"{name} ({r:+.2f})".replace(" ", "\xa0") for name, r in item.together)
            say(*shared.wrapped(f"  labels with correlated scores: {', '.join(listed)}", 80))
