"""Commands on a labelled table: ``dm2l inspect``, ``fit`` and ``evaluate``."""

from dataclasses import astuple
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Column
from rich.table import Table as Grid

from dm2l._utils.files import atomic_write, printable
from dm2l.cli import _shared as shared
from dm2l.cli._shared import say
from dm2l.tables import TableModel, evaluate_table, fit_table, inspect_table, save_bundle
from dm2l.tables._inspection import Inspection, fit_warnings
from dm2l.tables._kinds import DATE_PARTS, DATES
from dm2l.tables._measures import MEASURES, TableEvaluation

# maximum number of rules, and of columns of a kind, that inspect prints
RULES, NAMED = 10, 8
LABELS = 40  # maximum number of labels that fit prints


@click.command("inspect")
@shared.label_options
@shared.file_option(
    "RULES",
    "Write the implications and exclusions found in the labels to this file. Delete those that are "
    "not true, and pass the file to --rules of other commands.",
    "--write-rules",
)
@shared.force_option
def inspect_command(
    path: Path, write_rules: Path | None, force: bool, as_json: bool, **options: Any
) -> None:
    """Show columns, label counts and possible problems of TABLE.

    Run this command before a fit. It prints how every column will be used, how many entries of
    each label are observed, which labels imply or exclude others, and warnings. A fit uses no rule
    that is not passed with --rules.

    Example: dm2l inspect assays.csv --labels "tox_*"
    """
    shared.check_outputs({"TABLE": path}, {"--write-rules": write_rules}, force=force)
    with shared.data_problems(), shared.progress() as tell:
        tell(f"reading {path.name}")
        table, columns = shared.open_table(path, **options)
        tell(f"inspecting {table.n_rows} rows and {len(table.label_names)} labels")
        found = inspect_table(table, **columns)
        if write_rules is not None:
            lines = ["# Delete the rules that are not true: the data cannot tell.", *found.rules]
            with atomic_write(write_rules) as partial:
                partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if as_json:
        shared.echo_json(found)
    else:
        _show_inspection(Console(), found)


def _show_inspection(console: Console, found: Inspection) -> None:
    missing = sum(count.missing for count in found.labels)
    entries = found.n_rows * len(found.labels)
    console.print(
        f"{found.n_rows} rows and {found.n_columns} columns, {len(found.labels)} of them labels.\n"
        f"{missing} of {entries} label entries are missing ({missing / max(entries, 1):.0%}).\n",
        highlight=False,
    )
    if found.uses is not None:
        by_kind: dict[str, list[str]] = {}
        for use in found.uses:
            kind = use.kind if use.used else f"{use.kind}: left out"
            kind += f" ({', '.join(DATE_PARTS)})" if use.kind in DATES else ""
            by_kind.setdefault(kind, []).append(use.name)
        grid = Grid("kind", "columns", "names", title="feature columns")
        for kind, names in by_kind.items():
            more = ", ..." if len(names) > NAMED else ""
            grid.add_row(kind, str(len(names)), _cell(", ".join(names[:NAMED]) + more))
        console.print(grid)
    grid = _by_label("labels", "yes", "no", "missing", "missing %")
    for count in found.labels:
        share = f"{count.missing / max(found.n_rows, 1):.0%}"
        numbers = (str(count.positive), str(count.negative), str(count.missing), share)
        grid.add_row(_cell(count.label), *numbers)
    console.print(grid)
    lines = [*found.groups, *map(str, found.rules[:RULES])]
    if len(found.rules) > RULES:
        lines.append(f"{len(found.rules) - RULES} more rules: pass --write-rules or --json.")
    for line in (*lines, f"Duplicate rows: {found.n_duplicates}."):
        _print(console, line)
    for line in found.warnings:
        _print(console, f"warning: {line}", soft_wrap=True)


@click.command("fit")
@shared.label_options
@shared.file_option("MODEL", "Write the model to this file.", required=True)
@shared.scores_options
@shared.effort_option("normal")
@shared.search_options
@click.option(
    "--calibration",
    type=click.Choice(["sigmoid", "isotonic"]),
    default="sigmoid",
    help="Method that converts scores of DM2L to probabilities; requires --kernel.",
)
@click.option(
    "--estimate-folds",
    type=click.IntRange(0),
    default=5,
    help="Folds for estimating the quality of a model with --kernel. 0 skips the estimate and "
    "saves most of the time.",
)
@click.option("--verbose", is_flag=True, help="Print the hyperparameters of each model.")
@shared.seed_option
@shared.force_option
def fit_command(
    path: Path,
    output: Path,
    estimate_folds: int,
    verbose: bool,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Fit a model to the observed labels of TABLE and save it.

    By default, linear, kernel and tree models are cross-validated and combined into an ensemble
    with calibrated probabilities. With --kernel, one DM2L model is fitted, and its hyperparameters
    are chosen by cross-validation. The quality on held-out rows is printed.

    Example: dm2l fit assays.csv --labels "tox_*" -o assays.dm2l
    """
    shared.check_outputs({"TABLE": path}, {"--output": output}, force=force)
    with shared.data_problems(), shared.progress() as tell:
        fit = shared.fit_options(options)
        tell(f"reading {path.name}")
        table, columns = shared.open_table(path, **options)
        marks = options["missing"]
        model = fit_table(
            table, fit, missing=marks, estimate_folds=estimate_folds, tell=tell, **columns
        )
        tell("writing the model")
        save_bundle(model, output)
    missing, grouped = fit.by_label["*"] == "missing", columns["groups"] is not None
    rules = model.classifier.rules
    shared.warn(fit_warnings(table, model.uses, rules, grouped=grouped, missing=missing))
    if as_json:
        shared.echo_json(
            {
                "model": output,
                "n_rows": table.n_rows,
                "labels": model.label_names,
                "columns": model.uses,
                "n_features": len(model.features),
                "settings": model.settings,
                "leaderboard": getattr(model.classifier, "leaderboard_", None),
                "estimate": model.estimate,
            }
        )
    else:
        _show_model(model, table.n_rows, verbose)
        say(f"Model: {output}")


def _show_model(model: TableModel, n_rows: int, verbose: bool) -> None:
    columns = "" if model.uses is None else f" from {sum(use.used for use in model.uses)} columns"
    say(f"{n_rows} rows, {len(model.label_names)} labels, {len(model.features)} features{columns}.")
    chosen, board = model.settings, getattr(model.classifier, "leaderboard_", None)
    if board is not None:
        _show_leaderboard(Console(), board, verbose)
    elif chosen is not None:
        score = "" if chosen.score is None else f", cross-validated score {chosen.score:.3f}"
        say(
            f"Hyperparameters: {chosen.kernel} kernel, lambda_d {chosen.lambda_d:g}, alpha "
            f"{chosen.alpha:.3g}{score}."
        )
    prior = getattr(model.classifier, "class_prior_", None)
    if prior is not None:
        grid = _by_label("estimated share of positives", "share", "standard error")
        found = zip(model.label_names, prior, model.classifier.class_prior_error_, strict=True)
        for name, value, error in list(found)[:LABELS]:
            grid.add_row(_cell(name), f"{value:.3f}", f"{error:.3f}")
        Console().print(grid)
    estimate = model.estimate
    if estimate is None:
        return
    size = n_rows // max(estimate.repetitions, 1)
    say(f"Cross-validation: {estimate.repetitions} folds, {estimate.n_entries} observed entries.")
    say(f"Means over folds, with 95 % prediction intervals for {size} new rows:")
    for key, words, _ in MEASURES:
        value = estimate.values[key]
        if value.mean == value.mean:  # a ranking within rows of a single label is undefined
            say(f"  {words:<31} {value.mean:.3f}  [{value.low:.3f}, {value.high:.3f}]")
    if not estimate.labels:
        return
    headings = ("yes", "no", "AUC", "95 % interval", "average\nprecision")
    grid = _by_label("cross-validation by label", *headings)
    for row in estimate.labels[:LABELS]:
        interval = escape(f"[{row.auc_low:.3f}, {row.auc_high:.3f}]")
        counts = (str(row.positives), str(row.negatives))
        numbers = (f"{row.auc:.3f}", interval, _number(row.average_precision))
        grid.add_row(_cell(row.label), *counts, *numbers)
    Console().print(grid)
    if len(estimate.labels) > LABELS:
        say(f"{len(estimate.labels) - LABELS} more labels are listed with --json.")


def _show_leaderboard(console: Console, board: dict[str, list[Any]], verbose: bool) -> None:
    grid, about = Grid("model", title="models"), []
    for heading in ("CV AUC", "log-loss", "weight", "seconds"):
        grid.add_column(heading, justify="right")
    for values in zip(*board.values(), strict=True):
        row = dict(zip(board, values, strict=True))
        if not row["note"]:  # the note has the reason why a model was dropped
            seconds = "-" if row["seconds"] != row["seconds"] else f"{row['seconds']:.0f}"
            numbers = (_number(row[name]) for name in ("label_auc", "log_loss", "weight"))
            grid.add_row(row["model"], *numbers, seconds)
        remarks = (row["settings"] if verbose else "", row["note"])
        about += [f"{row['model']}: {'; '.join(filter(None, remarks))}"] if any(remarks) else []
    console.print(grid)
    for line in about:
        _print(console, line)


@click.command("evaluate")
@shared.label_options
@click.option(
    "--hide",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.2,
    help="Share of the observed labels to hide in each repetition.",
)
@click.option("--repetitions", type=click.IntRange(1), default=5, help="Number of repetitions.")
@shared.effort_option("quick")
@shared.search_options
@shared.seed_option
def evaluate_command(
    path: Path, hide: float, repetitions: int, as_json: bool, **options: Any
) -> None:
    """Measure how well hidden labels of TABLE are imputed.

    Each repetition hides observed labels, fits all methods to the other labels, and compares their
    predictions with the hidden labels. The automatic model (DM2L with --kernel) uses the features
    and the known labels of a row, as dm2l complete does. It is compared with the same model without
    the known labels, with ridge on the observed labels, and with ridge that reads missing labels as
    negative. Below each mean is its 95 % confidence interval over the repetitions.

    Example: dm2l evaluate assays.csv --labels "tox_*" --repetitions 10
    """
    with shared.data_problems(), shared.progress() as tell:
        fit = shared.fit_options(options)
        tell(f"reading {path.name}")
        table, columns = shared.open_table(path, **options)
        found = evaluate_table(table, fit, hide=hide, repetitions=repetitions, tell=tell, **columns)
    if as_json:
        shared.echo_json(found)
    else:
        _show_evaluation(Console(), found)


def _show_evaluation(console: Console, found: TableEvaluation) -> None:
    console.print(
        f"{found.n_hidden} observed label entries ({found.hide:.0%}) were hidden in each of "
        f"{found.repetitions} repetitions.",
        highlight=False,
    )
    grid = Grid("metric")
    for method in found.methods:
        grid.add_column(method, justify="right", min_width=11)
    for key, words, up in MEASURES:
        row = (values[key] for values in found.methods.values())
        # On two lines, so that four methods fit into 80 columns.
        cells = [f"{_number(v.mean)}\n{_number(v.low)}-{_number(v.high)}" for v in row]
        grid.add_row(f"{words} {'↑' if up else '↓'}", *map(escape, cells))
    console.print(grid)
    ours = next(iter(found.methods))
    _print(console, f"Macro average precision of {ours!r} minus that of")
    for name, gains in found.gains.items():
        gain = gains["label_average_precision"]
        sure = "" if gain.low > 0 or gain.high < 0 else "not "
        _print(
            console,
            f"  {name:<18} {gain.mean:+.3f}  [{gain.low:+.3f}, {gain.high:+.3f}]  "
            f"{sure}significant",
        )
    # Headings on several lines leave room for the names of labels.
    methods = (name.replace(" ", "\n") for name in found.methods)
    grid = _by_label("average precision by label", "hidden", "yes", "AUC", *methods)
    for quality in found.labels:
        label, n_hidden, n_positive, *numbers = astuple(quality)
        counts = (str(n_hidden), str(n_positive))
        grid.add_row(_cell(label), *counts, *(_number(value) for value in numbers))
    console.print(grid)


def _by_label(title: str, *headings: str) -> Grid:
    """Make a table with a row for each label; long names are folded instead of cut off."""
    grid = Grid(Column("label", overflow="fold"), title=title)
    for heading in headings:
        grid.add_column(heading, justify="right")
    return grid


def _cell(name: str) -> str:
    return escape(printable(name))


def _print(console: Console, line: str, *, soft_wrap: bool = False) -> None:
    console.print(printable(line), markup=False, highlight=False, soft_wrap=soft_wrap)


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.3f}"
