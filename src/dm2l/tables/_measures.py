"""Metrics of a table's model on held-out labels, with confidence intervals."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from dm2l._auto._leaderboard import label_auc, label_table, on_new_rows
from dm2l._utils.arrays import Index, take_rows
from dm2l._utils.html import Cell, block, grid
from dm2l.completion._completer import Imputation
from dm2l.completion._errors import check_max_error_rate
from dm2l.labels import ConstantLabelWarning, LabelMatrix
from dm2l.labels._entries import Floats, Mask
from dm2l.metrics import evaluate, evaluate_positive_unlabelled
from dm2l.metrics._complete import LOWEST
from dm2l.model_selection import Interval, corrected_t_interval
from dm2l.simulate import simulate_per_label
from dm2l.tables._kinds import ColumnUse
from dm2l.tables._options import FitOptions, Hyperparameters, Tell, check_learnable, fit_pipeline
from dm2l.tables._preparation import table_inputs
from dm2l.tables._reading import Cells, Table, count_cells


def signs_of(Y: Floats) -> NDArray[np.int8]:
    """Convert labels from 1, 0 and NaN to the signs 1, -1 and 0."""
    return np.where(np.isnan(Y), 0, 2 * Y - 1).astype(np.int8)


class Predictions(NamedTuple):
    """Scores, probabilities and predicted labels of rows, with one column per label."""

    scores: Floats
    probabilities: Floats
    positive: Mask


def predictions(classifier: Any, X: Any) -> Predictions:
    """Compute scores, probabilities and predicted labels of prepared rows in a single pass."""
    X = classifier._check_X(X)
    scores, probabilities = classifier._answers(X)
    return Predictions(scores, probabilities, np.asarray(classifier._decide(scores) == 1))


def impute(
    classifier: Any, X: Any, Y: Floats, max_error_rate: float | None = None, together: Cells = ()
) -> Imputation:
    """Impute the missing labels of ``Y`` from prepared features and known labels of each row."""
    bound = None
    if max_error_rate is not None:
        if getattr(classifier, "missing_as", None) == "unlabelled":
            raise ValueError(
                "--max-error-rate (max_error_rate=) requires observed negatives, but the model was "
                "fitted with --missing-as unlabelled (missing_as=). Omit the limit, and estimate "
                "the error rate with dm2l review --check."
            )
        if not hasattr(classifier, "label_covariance_"):
            raise ValueError(
                "max_error_rate requires a model with coupling, but this model has none. Fit the "
                "model again with coupling='residual', the default."
            )
        bound = check_max_error_rate(max_error_rate)
    missing = np.isnan(Y)
    cells = np.zeros(Y.shape, dtype=bool)
    for labels, _ in together:
        cells[:, labels] = missing[:, labels].all(axis=1, keepdims=True)
    # The label correlation was estimated in known cells, so missing cells use features alone.
    found = classifier._score_and_impute(classifier._check_X(X), signs_of(Y), bound, ~cells)
    implied = np.broadcast_to(np.asarray(found.implied), Y.shape)
    chosen, least = found.chosen.copy(), 0.0 if bound is None else 1.0 - bound[0]
    for labels, group in together:
        open_ = cells[:, labels] & ~implied[:, labels].all(axis=1, keepdims=True)
        likely = group.probability(found.probabilities[:, labels], found.positive[:, labels])
        chosen[:, labels] = np.where(open_, likely[:, None] >= least, chosen[:, labels])
    return found._replace(
        probabilities=np.where(missing, found.probabilities, Y),
        positive=found.positive & missing,
        chosen=chosen & missing,
    )


# (key, printed name, whether higher is better); model files may lack some of the keys
MEASURES = (
    ("label_auc", "macro AUC", True),
    ("label_average_precision", "macro average precision", True),
    ("label_ranking_average_precision", "label ranking average precision", True),
    ("f1_macro", "macro F1", True),
    ("accuracy", "accuracy", True),
    ("brier", "Brier score", False),
)

MOST_ERROR = 0.1  # largest standard error of the row-wise metric for complete rows


@dataclass(frozen=True)
class LabelEstimate:
    """Quality of a label on held-out rows, with a 95 % confidence interval of the AUC."""

    label: str
    positives: int
    negatives: int
    auc: float
    auc_low: float
    auc_high: float
    average_precision: float
    log_loss: float


@dataclass(frozen=True)
class Estimate:
    """Estimated quality on new rows, from ``n_entries`` held-out entries of all folds."""

    values: dict[str, Interval]
    n_entries: int
    repetitions: int
    labels: list[LabelEstimate]


def measure(
    Y: Floats,
    scores: Floats,
    probabilities: Floats,
    positive: Mask,
    estimate: bool = True,
    ranked: tuple[Floats, Floats] | None = None,
) -> dict[str, float]:
    """Compute all metrics on observed entries or, with ``estimate``, as if no label was missing."""
    # Row-wise metrics use all observed labels, because few labels are easier to rank. A row without
    # negatives would count as ranked perfectly; the convention "published" leaves such rows out.
    labels, row_wise = LabelMatrix.of_signs(signs_of(Y)), "label_ranking_average_precision"
    options: dict[str, Any] = {"convention": "published", "y_pred": positive.astype(float)}
    # Metrics that compare all pairs of labels would take minutes with hundreds of labels.
    only = ("label_auc", "f1_macro", "hamming_loss")
    found = evaluate(labels, scores, estimate=estimate, only=only, **options)
    all_labels, all_scores = (Y, scores) if ranked is None else ranked
    given = LabelMatrix.of_signs(signs_of(all_labels))
    found |= evaluate(given, all_scores, only=(row_wise,), **options)
    precision = label_table(scores, labels.signs, range(Y.shape[1]))["average_precision"]
    known, defined, by_row = ~np.isnan(Y), ~np.isnan(precision), found[row_wise]
    few = (~np.isnan(all_labels)).mean() < LOWEST or not by_row.standard_error <= MOST_ERROR
    unsure = by_row.kind == "estimate" and few
    return {
        "label_auc": found["label_auc"].value,
        "label_average_precision": float(precision[defined].mean()) if defined.any() else np.nan,
        row_wise: np.nan if unsure else by_row.value,
        "f1_macro": found["f1_macro"].value,
        "accuracy": 1 - found["hamming_loss"].value,
        "brier": float(np.mean((probabilities[known] - Y[known]) ** 2)) if known.any() else np.nan,
    }


def held_out_scores(model: Any, X: Any, Y: Floats, hidden: Floats, scores: Floats) -> Floats:
    """Combine the scores of hidden entries with held-out scores of entries used in the fit."""
    rows = model._completer.training_rows
    known = scores if rows is None else rows.hold_out(model._check_X(X), signs_of(Y), scores)
    return np.where(np.isnan(hidden), known, scores)


def _measure_answer(Y: Floats, found: Predictions, class_prior: Floats | None) -> dict[str, float]:
    """Compute all metrics of predictions; with a class prior, labels are positive-unlabelled."""
    if class_prior is None:
        return measure(Y, *found)
    measured = dict.fromkeys((key for key, *_ in MEASURES), np.nan)
    if not (Y == 1).any() or (Y == 1).all():
        return measured
    positive = found.positive.astype(float)
    estimated = evaluate_positive_unlabelled(Y, found.scores, class_prior, y_pred=positive)
    return measured | {
        "label_auc": estimated["label_auc"].value,
        "f1_macro": estimated["f1_macro"].value,
        "accuracy": 1 - estimated["hamming_loss"].value,
    }


def _measure_positives(
    hidden: Floats, found: Predictions, class_prior: Floats
) -> tuple[dict[str, float], dict[str, Floats]]:
    """Return ranking metrics of hidden positives (1) among blanks (0): means, and by label."""
    # The share of positives among the blanks: known positives (NaN) are not evaluated.
    n, known = len(hidden), np.isnan(hidden).sum(axis=0)
    prior = np.clip((class_prior * n - known) / np.maximum(n - known, 1), 0.0, 1.0)
    each = []
    for k, rows in enumerate(~np.isnan(hidden.T)):
        at = np.ix_(rows, [k])
        part = Predictions(found.scores[at], found.probabilities[at], found.positive[at])
        each.append(_measure_answer(hidden[at], part, prior[[k]]))
    values = {key: np.array([one[key] for one in each]) for key in each[0]}
    known_values = {key: column[~np.isnan(column)] for key, column in values.items()}
    means = {key: float(v.mean()) if len(v) else np.nan for key, v in known_values.items()}
    return means, {"auc": values["label_auc"], "average_precision": np.full(len(each), np.nan)}


def hold_out(
    Y: Floats, share: float, seed: int, groups: Index | None = None, cells: Sequence[list[int]] = ()
) -> tuple[Floats, Floats]:
    """Split labels into training and held-out labels, without splitting cells or row groups."""
    groups = np.arange(len(Y)) if groups is None else groups
    whole = np.full((groups.max() + 1, Y.shape[1]), -1.0)
    np.maximum.at(whole, groups, np.nan_to_num(Y, nan=-1.0))
    whole[whole < 0] = np.nan
    _, kept = simulate_per_label(whole, 1 - share, return_mask=True, random_state=seed)
    stays = kept[groups]
    for labels in cells:
        stays[:, labels] = stays[:, labels[:1]]
    return np.where(stays, Y, np.nan), np.where(stays, np.nan, Y)


def cell_accuracy(
    table: Table, left: Floats, hidden: Floats, answers: Mapping[str, Predictions]
) -> dict[str, dict[str, float]]:
    """For each column with several values, count hidden cells and compute accuracies."""
    found: dict[str, dict[str, float]] = {}
    for labels, group in table.exclusive:
        at = np.ix_(~np.isnan(hidden[:, labels[0]]), np.asarray(labels))
        seen, truth = left[~np.isnan(left[:, labels[0]])], group.place(hidden[at] == 1)
        said = {"majority": np.bincount(group.place(seen[:, labels] == 1), minlength=1).argmax()}
        for name, one in answers.items():
            said[name] = group.place(one.positive[at], one.probabilities[at])
        n = max(len(truth), 1)
        rates = {name: float(np.sum(place == truth)) / n for name, place in said.items()}
        found[group.column] = {"hidden": float(len(truth)), **rates}
    return found


def interval(
    values: Sequence[float], held_out: float, bounds: tuple[float, float] = (0.0, 1.0)
) -> Interval:
    """Return the mean of defined values, and the corrected resampled t interval in ``bounds``."""
    known = [value for value in values if not np.isnan(value)]
    if len(known) < 2:
        return Interval(known[0] if known else np.nan, np.nan, np.nan)
    mean, low, high = corrected_t_interval(known, held_out)
    return Interval(mean, max(low, bounds[0]), min(high, bounds[1]))


def intervals(
    measured: Sequence[dict[str, float]], held_out: float, bounds: tuple[float, float] = (0.0, 1.0)
) -> dict[str, Interval]:
    """Compute the mean and interval of each metric over the repetitions."""
    return {key: interval([m[key] for m in measured], held_out, bounds) for key in measured[0]}


def changes(
    after: Sequence[dict[str, float]], before: Sequence[dict[str, float]], held_out: float
) -> dict[str, Interval]:
    """Compute the mean and interval of each metric's paired differences between two models."""
    pairs = zip(after, before, strict=True)
    gains = [{key: new[key] - old[key] for key in new} for new, old in pairs]
    return intervals(gains, held_out, (-1.0, 1.0))


def estimate_rows(
    inputs: Any,
    uses: Sequence[ColumnUse] | None,
    Y: Floats,
    options: FitOptions,
    folds: int,
    label_names: Sequence[str],
    groups: Index | None,
    tell: Tell,
) -> Estimate:
    """Estimate the quality on new rows; each fold repeats preparation, search and calibration."""
    seen = np.flatnonzero((~np.isnan(Y)).any(axis=1))
    splitter = replace(options, cv=folds).splitter(Y, groups)
    splitter.groups = None if groups is None else groups[seen]
    folds = splitter.n_splits
    measured, held, fold = [], np.full(Y.shape, np.nan), np.full(len(Y), -1)
    for number, (train, test) in enumerate(splitter.split(Y[seen], Y[seen]), 1):
        train, test = seen[train], seen[test]
        both = (Y[train] == 1).any(axis=0)
        both &= options.unlabelled | (Y[train] == 0).any(axis=0)
        if not both.any():
            continue

        def told(line: str, number: int = number) -> None:
            tell(f"estimating the quality, fold {number} of {folds}: {line}")

        # A fold may lack a class of a rare label even if the table has both classes.
        with warnings.catch_warnings(action="ignore", category=ConstantLabelWarning):
            pipeline, _ = fit_pipeline(
                take_rows(inputs, train),
                uses,
                Y[train],
                options,
                groups=None if groups is None else groups[train],
                tell=told,
            )
        model = pipeline[-1]
        found = predictions(model, pipeline[:-1].transform(take_rows(inputs, test)))
        prior = model.class_prior_ if options.unlabelled else None
        measured.append(_measure_answer(Y[test], found, prior))
        held[test], fold[test] = found.probabilities, number - 1
    return _estimate(measured, held, fold, Y, label_names)


def estimate_auto(model: Any, Y: Floats, label_names: Sequence[str]) -> Estimate:
    """Estimate the quality on new rows from the out-of-fold probabilities of AutoClassifier."""
    p, fold = model.held_out_, model.held_out_folds_
    measured = []
    for number in range(int(fold.max()) + 1):
        rows = fold == number
        known = np.where(np.isnan(p[rows]), np.nan, Y[rows])
        given = np.nan_to_num(p[rows], nan=0.5)
        measured.append(measure(known, 2 * given - 1, given, given > 0.5))
    return _estimate(measured, p, fold, Y, label_names)


def _estimate(
    measured: list[dict[str, float]], p: Floats, fold: Index, Y: Floats, label_names: Sequence[str]
) -> Estimate:
    if not measured:
        return Estimate({key: Interval(np.nan, np.nan, np.nan) for key, *_ in MEASURES}, 0, 0, [])
    T = signs_of(Y)
    eta = logit(np.clip(p, 1e-13, 1 - 1e-13))
    table = label_table(eta, T, label_names, fold)
    columns: list[list[Any]] = [np.asarray(column).tolist() for column in table.values()]
    rows = [LabelEstimate(*row) for row in zip(*columns, strict=True)]
    values = {key: new_rows([m[key] for m in measured]) for key in measured[0]}
    if any(np.isnan(m["label_ranking_average_precision"]) for m in measured):
        values["label_ranking_average_precision"] = Interval(np.nan, np.nan, np.nan)
    # For the AUC, an interval from all rows is more precise than one from a few folds.
    by_rows = label_auc(eta, T, fold)[0]
    if np.isfinite(by_rows.mean):  # undefined for positive-unlabelled labels
        values["label_auc"] = on_new_rows(by_rows, len(measured), 1.0)
    defined = [row for row in rows if not np.isnan(row.auc)]
    return Estimate(values, int((~np.isnan(Y)).sum()), len(measured), defined)


def new_rows(values: Sequence[float]) -> Interval:
    """Return the mean over folds, with the 95 % prediction interval for a fold of new rows."""
    # With K folds of standard deviation s, the prediction error has the variance
    # s^2 (1 + 1/K + 1/(K - 1)), for the new rows, the mean, and the shared training rows (Nadeau
    # and Bengio). The corrected t interval for a test share of K / (2 K - 1) has this variance.
    k = int((~np.isnan(values)).sum())
    return interval(values, k / (2 * k - 1))


# The first two methods share one fit and differ in the use of the known labels of a row.
METHODS = ("DM2L", "features alone", "masked ridge", "missing = negative")
COUPLED, ALONE, RIDGE, NEGATIVES = METHODS
AUTOMATIC = "automatic"  # name of the first method if it is AutoClassifier
SHORT = {AUTOMATIC: "auto", ALONE: "alone", RIDGE: "ridge", NEGATIVES: "as no"}


@dataclass(frozen=True)
class LabelQuality:
    """Number of hidden entries of a label in all repetitions, and mean metrics on these entries."""

    label: str
    n_hidden: int
    n_positive: int
    auc: float
    average_precision: float
    features_average_precision: float
    ridge_average_precision: float
    negatives_average_precision: float


@dataclass(frozen=True)
class TableEvaluation:
    """Result of :func:`evaluate_table`; ``settings`` holds None for the automatic model."""

    # For ``unlabelled`` blanks, ``n_hidden`` counts positive entries, and metrics that cannot be
    # estimated are NaN. For each column with several values, ``columns`` has the mean number of
    # hidden cells, and the accuracy of the most frequent value (``majority``) and of each method.

    hide: float
    repetitions: int
    n_hidden: int
    methods: dict[str, dict[str, Interval]]
    gains: dict[str, dict[str, Interval]]
    labels: list[LabelQuality]
    settings: list[Hyperparameters | None]
    unlabelled: bool = False
    columns: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def main_metric(self) -> str:
        """Name of the metric by which the methods are compared."""
        return "label_auc" if self.unlabelled else "label_average_precision"

    def _repr_html_(self) -> str:
        rows: list[list[Cell]] = []
        ours = next(iter(self.methods), "")
        for key, words, up in MEASURES:
            for name, values in self.methods.items():
                value = values[key]
                if value.mean != value.mean:
                    continue
                sure = f"[{value.low:.3f}, {value.high:.3f}]" if value.low == value.low else ""
                first = f"{words} {'↑' if up else '↓'}" if name == ours else ""
                rows.append([first, name, value.mean, sure])
        by_label = [astuple(label)[:5] for label in self.labels]
        return block(
            f"{self.n_hidden:,} observed label entries ({self.hide:.0%}) were hidden in each of "
            f"{self.repetitions} repetitions",
            grid(("metric", "method", "mean", "95% interval"), rows),
            grid(("label", "hidden", "yes", "AUC", "average precision"), by_label),
        )


def evaluate_table(
    table: Table,
    options: FitOptions | None = None,
    *,
    hide: float = 0.2,
    repetitions: int = 5,
    kinds: Mapping[str, str] | None = None,
    drop: Sequence[str] = (),
    groups: Any = None,
    tell: Tell | None = None,
) -> TableEvaluation:
    """Hide labels of a table, and compare how well a model and other methods impute them.

    Each repetition hides the same share of the positive and negative entries of every label, and
    fits all methods to the remaining labels. The first method is :class:`dm2l.AutoClassifier` or,
    with fixed hyperparameters, DM2L. This method uses the features and the known labels of a row,
    like :func:`complete_table`. The other methods are the same model without the known labels,
    ridge on observed labels (``lambda_d = 0``), and ridge that reads missing labels as negative.

    Parameters
    ----------
    table : Table
        A table with labels, from :func:`read_table`.
    options : FitOptions, default=None
        The model and its fixed hyperparameters.
    hide : float, default=0.2
        Share of the observed labels to hide.
    repetitions : int, default=5
        Number of repetitions.
    kinds, drop, groups
        As in :func:`fit_table`. A label is hidden in all rows of a group or in none.
    tell : callable, default=None
        Function that is called with a line of text about each step.

    Returns
    -------
    TableEvaluation
        Means and confidence intervals of all metrics (``methods``) and of the differences between
        the first method and each other method (``gains``), and mean metrics by label (``labels``).

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import FitOptions, evaluate_table, table_from_frame
    >>> frame = pd.DataFrame({"mass": [0, 1, 2, 3] * 20, "toxic": [0, None, 1, 1] * 20})
    >>> table = table_from_frame(frame, "toxic")
    >>> found = evaluate_table(table, FitOptions("linear", 0.1, 1.0), repetitions=2)
    >>> found.methods["DM2L"]["label_auc"].mean
    1.0
    """
    options, tell = options or FitOptions(), tell or (lambda line: None)
    if not 0 < hide < 1:
        raise ValueError(f"hide must be a share between 0 and 1, such as 0.2, got {hide}.")
    options, table = options.with_rules(table), options.read(table)
    inputs, uses, observed, together = table_inputs(table, kinds, drop, groups)
    check_learnable(observed, str(table.path), options)
    # Positive-unlabelled models do not use known labels, and their nuclear norms are zero.
    names = (COUPLED, NEGATIVES) if options.unlabelled else METHODS
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    labels: dict[str, list[dict[str, Floats]]] = {name: [] for name in METHODS}
    accuracy: list[dict[str, dict[str, float]]] = []
    hidden_labels, chosen, prior = [], [], np.zeros(observed.shape[1])
    ours = AUTOMATIC if options.automatic else COUPLED
    called = {name: ours if name == COUPLED else name for name in names}
    ridge = replace(options, lambda_d=0.0, rules=None)
    fits = {COUPLED: options, RIDGE: ridge, NEGATIVES: replace(ridge, missing_as="missing")}
    fits = {name: fixed for name, fixed in fits.items() if name in names}
    cells = [labels for labels, _ in table.exclusive]
    for repetition in range(repetitions):
        seed = options.random_state + repetition
        left, hidden = hold_out(observed, hide, seed, together, cells)
        check_learnable(left, f"{table.path} with {hide:.0%} of its labels hidden", options)
        if options.unlabelled:  # hidden positives are compared with all unlabelled entries
            hidden = np.where(np.isnan(left), np.nan_to_num(hidden), np.nan)
        hidden_labels.append(hidden)
        given: dict[str, Predictions] = {}
        for name, fixed in fits.items():
            tell(f"evaluating, repetition {repetition + 1} of {repetitions}: {called[name]}")
            Y = np.nan_to_num(left) if name == NEGATIVES else left
            with warnings.catch_warnings(action="ignore", category=ConstantLabelWarning):
                pipeline, settings = fit_pipeline(inputs, uses, Y, fixed, groups=together)
            X, model = pipeline[:-1].transform(inputs), pipeline[-1]
            chosen += [settings] if name == COUPLED else []
            answer = predictions(model, X)
            if options.unlabelled:
                if name == COUPLED:
                    prior = model.class_prior_
                means, each = _measure_positives(hidden, answer, prior)
                measured[name].append(means)
                labels[name].append(each)
                continue
            held_out = held_out_scores(model, X, Y, hidden, answer.scores)
            answers = {ALONE if name == COUPLED else name: answer}
            if name == COUPLED:
                filled = impute(model, X, left, together=table.exclusive)
                p = filled.probabilities
                answers[name] = Predictions(p, p, filled.positive)
            for method, answer in answers.items():
                ranked = held_out
                if method == COUPLED:  # hidden labels are ranked by probabilities
                    ranked = model._completer.probabilities(held_out)
                    ranked = np.where(np.isnan(hidden), ranked, answer.scores)
                found = measure(hidden, *answer, estimate=False, ranked=(observed, ranked))
                measured[method].append(found)
                given[called[method]] = answer
                T = signs_of(hidden)
                labels[method].append(label_table(answer.scores, T, table.label_names))
        accuracy.append({} if options.unlabelled else cell_accuracy(table, left, hidden, given))
        for name in names if accuracy[-1] else ():
            right = (given[called[name]].positive == (hidden == 1)).astype(float)
            right[np.isnan(hidden)] = np.nan
            for k, one in zip(cells, accuracy[-1].values(), strict=True):  # a cell counts once
                right[:, k[1:]] = np.nan
                right[:, k[0]] = np.where(np.isnan(right[:, k[0]]), np.nan, one[called[name]])
            measured[name][-1]["accuracy"] = float(np.nanmean(right))
    stacked, unlabelled = np.stack(hidden_labels), options.unlabelled
    counted = stacked == 1 if unlabelled else ~np.isnan(stacked)

    def mean(method: str, measure: str, k: int) -> float:
        return interval([found[measure][k] for found in labels[method]], hide).mean

    return TableEvaluation(
        hide=hide,
        repetitions=repetitions,
        n_hidden=count_cells(counted[0], () if unlabelled else table.exclusive),
        methods={called[name]: intervals(values, hide) for name, values in measured.items()},
        gains={name: changes(measured[COUPLED], measured[name], hide) for name in names[1:]},
        labels=[
            LabelQuality(
                label,
                int(counted[:, :, k].sum()),
                int((stacked[:, :, k] == 1).sum()),
                mean(COUPLED, "auc", k),
                *(mean(name, "average_precision", k) for name in METHODS),
            )
            for k, label in enumerate(table.label_names)
        ],
        settings=chosen,
        unlabelled=unlabelled,
        columns={
            name: {key: float(np.mean([one[name][key] for one in accuracy])) for key in values}
            for name, values in accuracy[0].items()
        },
    )
