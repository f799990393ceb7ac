"""Commands on a labelled table: ``dm2l inspect``, ``fit`` and ``evaluate``."""

from dataclasses import astuple
from pathlib import Path
from typing import Any

import click

from dm2l._search._search import usual_scoring
from dm2l._utils.files import atomic_write
from dm2l._utils.html import percent
from dm2l.cli import _shared as shared
from dm2l.cli._shared import say, show_grid
from dm2l.model_selection import Interval
from dm2l.tables import TableModel, evaluate_table, fit_table, inspect_table, save_bundle
from dm2l.tables._inspection import Inspection, fit_warnings, observed_warnings, order_hints
from dm2l.tables._kinds import DATE_PARTS, DATES
from dm2l.tables._measures import MEASURES, SHORT, TableEvaluation

# maximum number of rules, and of columns of a kind, that inspect prints
RULES, NAMED = 10, 8
LABELS = 40  # maximum number of labels that fit prints


@click.command("inspect")
@shared.label_options
@shared.missing_as_option
@shared.file_option(
    "RULES",
    "Write the implications and exclusions found in the labels to this file. Delete the rules that "
    "are not always true, and pass the file to --rules of other commands.",
    "--write-rules",
)
@shared.force_option
def inspect_command(
    path: Path, write_rules: Path | None, force: bool, as_json: bool, **options: Any
) -> None:
    """Show columns, label counts and possible problems of TABLE.

    Run this command before dm2l fit. It prints how every column will be used, how many entries of
    each label are observed, which labels imply or exclude other labels, and warnings. dm2l fit uses
    only the rules that you pass with --rules.

    Example: dm2l inspect assays.csv --labels "tox_*"
    """
    shared.check_outputs({"TABLE": path}, {"--write-rules": write_rules}, force=force)
    with shared.data_problems(), shared.progress() as tell:
        table, columns = shared.open_table(path, tell, **options)
        tell(f"inspecting {table.n_rows} rows and {len(table.label_names)} labels")
        found = inspect_table(table, **columns)
        if write_rules is not None:
            kept = [rule for rule in found.rules if rule.holds == rule.rows]
            refuted = [f"# {rule}" for rule in found.rules if rule.holds < rule.rows]
            lines = ["# Delete the rules that hold only by chance.", *kept, *refuted]
            with atomic_write(write_rules) as partial:
                partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if as_json:
        shared.echo_json(found)
        return
    _show_inspection(found)
    if write_rules is not None:
        say(f"Wrote {len(kept)} rules to {write_rules}.")
        if refuted:
            say(f"As comments, the file also lists {len(refuted)} rules that have exceptions.")


def _show_inspection(found: Inspection) -> None:
    missing, entries, n = found.n_missing, found.n_entries, found.n_label_columns
    several = "s" * (n > 1) + f" with {len(found.labels)} labels" * (len(found.labels) > n)
    say(
        f"{found.n_rows} rows and {found.n_columns} columns, including {n} label column{several}.",
        f"{missing} of {entries} label entries are missing ({percent(missing, entries)}).",
    )
    if found.uses is not None:
        say("", "Feature columns")
        by_kind: dict[str, list[str]] = {}
        for use in found.uses:
            kind = {"boolean": "yes/no"}.get(use.kind, use.kind)
            kind += f" ({', '.join(DATE_PARTS)})" if use.kind in DATES else ""
            by_kind.setdefault(kind if use.used else f"{kind}, left out", []).append(use.name)
        for kind, names in by_kind.items():
            more = ", ..." if len(names) > NAMED else ""
            say(f"  {kind} ({len(names)}): {', '.join(names[:NAMED])}{more}")
    rows = [
        (count.label, *map(str, numbers), percent(count.missing, found.n_rows))
        for count in found.labels
        for numbers in [(count.positive, count.negative, count.missing)]
    ]
    show_grid(("label", "yes", "no", "missing", "missing %"), rows, "Labels")
    shared.say_wrapped("", *found.groups)
    if found.rules:
        say(
            "Rules found in the labels. Of M rows that could contradict a rule, N obey it.",
            '"At least": lower 95% confidence bound of N/M. Pass only true rules to --rules.',
            *(f"  {rule}" for rule in found.rules[:RULES]),
        )
    if len(found.rules) > RULES:
        say(f"To see {len(found.rules) - RULES} more rules, pass --write-rules or --json.")
    say(f"Duplicate rows: {found.n_duplicates}.")
    shared.say_wrapped(*(f"warning: {shared.one_line(line)}" for line in found.warnings))


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
    help="Number of folds to estimate the quality of a model with --kernel. 0 skips this estimate, "
    "the slowest step of the fit.",
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
        table, columns = shared.open_table(path, tell, **options)
        columns |= {"missing": options["missing"], "estimate_folds": estimate_folds}
        model = fit_table(table, fit, tell=tell, **columns)
        tell("writing the model")
        save_bundle(model, output)
    labelled, kinds, rules = fit.read(table), columns["kinds"], model.classifier.rules
    known = {"grouped": columns["groups"] is not None, "missing": not fit.unlabelled}
    shared.warn(fit_warnings(labelled, model.uses, kinds, rules, **known))
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
        Y = labelled.Y
        scoring = fit.scoring or usual_scoring(Y == 1, Y == 0, unlabelled=fit.unlabelled)
        _show_model(model, table.n_rows, scoring, verbose)
        say(f"Wrote the model to {output}.")


def _show_model(model: TableModel, n_rows: int, scoring: str, verbose: bool) -> None:
    n, n_labels = sum(use.used for use in model.uses or ()), shared.count_labels(model)
    n_features = f"{len(model.features)} features"
    columns = f" from {n} column{'s' * (n > 1)}" if n else ""
    say(f"The training table has {n_rows} rows, {n_labels}, and {n_features}{columns}.")
    chosen, board = model.settings, getattr(model.classifier, "leaderboard_", None)
    if board is not None:
        _show_leaderboard(board, verbose)
    elif chosen is not None:
        words = scoring.removeprefix("neg_").replace("_", " ")  # the score is a negated loss
        score = "" if chosen.score is None else f", cross-validated {words} {abs(chosen.score):.3f}"
        values = f", lambda_d {chosen.lambda_d:g}, alpha {chosen.alpha:.3g}" if verbose else ""
        say(f"Model: DM2L, {chosen.kernel} kernel{values}{score}.")
    prior = getattr(model.classifier, "class_prior_", None)
    if prior is not None:
        found = zip(model.label_names, prior, model.classifier.class_prior_error_, strict=True)
        rows = [(name, f"{value:.3f}", f"{error:.3f}") for name, value, error in found]
        named = ("label", "share", "standard error")
        show_grid(named, rows[:LABELS], "Estimated share of positives")
    estimate = model.estimate
    if estimate is None:
        return
    stored = estimate.values
    means = [(words, stored[key]) for key, words, _ in MEASURES if key in stored]
    # With a single label, the ranking of labels within a row is undefined.
    metrics = [(words, f"{v.mean:.3f}", _span(v)) for words, v in means if v.mean == v.mean]
    folds = f"Cross-validation: {estimate.repetitions} folds"
    new = f"95% interval for {n_rows // max(estimate.repetitions, 1)} new rows"
    show_grid(("metric", "mean", new), metrics, f"{folds}, {estimate.n_entries} observed entries")
    if prior is not None:
        say("The estimated shares are used to correct the metrics for overlooked positives.")
    if not estimate.labels:
        return
    by_label = []
    for one in estimate.labels[:LABELS]:
        counts, ends = (str(one.positives), str(one.negatives)), (one.auc_low, one.auc_high)
        numbers = (f"{one.auc:.3f}", "[{:.3f}, {:.3f}]".format(*ends))
        by_label.append((one.label, *counts, *numbers, _number(one.average_precision)))
    headings = ("label", "yes", "no", "CV AUC", "95% interval", "CV AP")
    show_grid(headings, by_label, "Cross-validation by label (AP: average precision)")
    if len(estimate.labels) > LABELS:
        say(f"To see {len(estimate.labels) - LABELS} more labels, pass --json.")


def _show_leaderboard(board: dict[str, list[Any]], verbose: bool) -> None:
    rows, about = [], []
    for values in zip(*board.values(), strict=True):
        row = dict(zip(board, values, strict=True))
        if not row["note"]:  # the note has the reason why a model was dropped
            seconds = "-" if row["seconds"] != row["seconds"] else f"{row['seconds']:.0f}"
            numbers = (_number(row[name]) for name in ("label_auc", "log_loss", "weight"))
            rows.append((row["model"], *numbers, seconds))
        remarks = (row["settings"] if verbose else "", row["note"])
        about += [f"{row['model']}: {'; '.join(filter(None, remarks))}"] if any(remarks) else []
    show_grid(("model", "CV AUC", "log-loss", "weight", "seconds"), rows, "Models")
    shared.say_wrapped(*about)


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
@click.option(
    "--wide", is_flag=True, help="Print intervals, full headings and more than 80 columns."
)
@shared.seed_option
def evaluate_command(
    path: Path, hide: float, repetitions: int, wide: bool, as_json: bool, **options: Any
) -> None:
    """Measure how well hidden labels of TABLE are imputed.

    Each repetition hides some observed labels, fits all methods to the remaining labels, and
    compares predictions with the hidden labels. The automatic model (or DM2L with --kernel) uses
    the features and the known labels of a row, as dm2l complete does. This model is compared with
    the same model without the known labels, with ridge on the observed labels, and with ridge that
    reads missing labels as negative. --wide adds 95% confidence intervals over the repetitions.
    With --missing-as unlabelled, only positives are hidden, and ranked among all blanks.

    Example: dm2l evaluate assays.csv --labels "tox_*" --repetitions 10
    """
    with shared.data_problems(), shared.progress() as tell:
        fit = shared.fit_options(options)
        table, columns = shared.open_table(path, tell, **options)
        shared.warn(observed_warnings(fit.read(table), fit.with_rules(table).rules))
        found = evaluate_table(table, fit, hide=hide, repetitions=repetitions, tell=tell, **columns)
    if as_json:
        shared.echo_json(found)
    else:
        _show_evaluation(found, wide=wide)
        shared.say_wrapped(*order_hints(table))


def _show_evaluation(found: TableEvaluation, *, wide: bool = False) -> None:
    entries = "positive entries" if found.unlabelled else "observed label entries"
    hidden = f"{found.n_hidden} {entries} ({found.hide:.0%})"
    say(f"Repetitions: {found.repetitions}. Each repetition hides {hidden}.")
    if found.unlabelled:
        say(
            "Other blanks may be overlooked positives, so only metrics that correct for the",
            "estimated share of positives are shown.",
        )
    spans: list[str] = []
    methods = [name if wide else SHORT.get(name, name) for name in found.methods]
    rows = []
    for key, words, up in MEASURES:
        row = [values[key] for values in found.methods.values()]
        if any(value.mean == value.mean for value in row):
            ends = [f" {_span(value)}" if wide else "" for value in row]
            spans += [end.strip() for end in ends]
            cells = (_number(v.mean) + end for v, end in zip(row, ends, strict=True))
            rows.append((f"{words} {'↑' if up else '↓'}", *cells))
    show_grid(("metric", *methods), rows, "Means" if not wide else "Means and 95% intervals")
    key, ours = found.main_metric, next(iter(found.methods))
    words = next(words for name, words, _ in MEASURES if name == key)
    rows = []
    for name, gains in found.gains.items():
        gain = gains[key]
        sure = "yes" if gain.low > 0 or gain.high < 0 else "no"
        sure = "needs 2 repetitions" if found.repetitions < 2 else sure
        spans.append(_span(gain, -1.0, "+"))
        rows.append((name, f"{gain.mean:+.3f}", spans[-1], sure))
    title = f"Difference in {words}: {ours!r} minus each other method"
    show_grid(("method", "mean", "95% interval", "significant"), rows, title)
    # Metrics that cannot be estimated have no column.
    columns: list[tuple[str, ...]] = [("hidden", *(str(row.n_hidden) for row in found.labels))]
    if not found.unlabelled:
        columns.append(("yes", *(str(row.n_positive) for row in found.labels)))
    values = list(zip(*(astuple(row)[3:] for row in found.labels), strict=True)) or [()] * 5
    for heading, numbers in zip(("AUC", *methods), values, strict=False):
        if any(number == number for number in numbers):
            columns.append((heading, *map(_number, numbers)))
    headings, *lines = zip(("label", *(row.label for row in found.labels)), *columns, strict=True)
    title = "AUC" if found.unlabelled else f"AUC of {ours!r} and average precision"
    show_grid(headings, lines, f"{title} by label (counts: all repetitions)")
    if found.columns:
        keys = ("majority", *found.methods)
        rows = [
            (name, f"{one['hidden']:.0f}", *(_number(one[key]) for key in keys))
            for name, one in found.columns.items()
        ]
        title = "Accuracy in columns with several values (majority: the most frequent value)"
        show_grid(("column", "hidden", "majority", *methods), rows, title)
    if "-" in spans:
        say("", '"-" stands for an interval that cannot be estimated from so few repetitions.')
    if not wide:
        say("", *(f"{short}: {name}" for name, short in SHORT.items() if name in found.methods))


def _span(value: Interval, lowest: float = 0.0, sign: str = "") -> str:
    """Return an interval as text, or "-" if it is undefined or covers all possible values."""
    if not (value.low > lowest or value.high < 1):
        return "-"
    return f"[{value.low:{sign}.3f}, {value.high:{sign}.3f}]"


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.3f}"
