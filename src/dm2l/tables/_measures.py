"""How good scores and probabilities are on labels that were kept back, and how sure that is."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from scipy.stats import t
from sklearn.metrics import average_precision_score

from dm2l._auto._quality import label_auc, label_table, on_new_rows
from dm2l.labels import ConstantLabelWarning
from dm2l.metrics import evaluate, evaluate_positive_unlabelled
from dm2l.model_selection import Interval, corrected_t_interval
from dm2l.simulate import simulate_per_label
from dm2l.tables._kinds import ColumnUse
from dm2l.tables._settings import FitOptions, Tell, fit_pipeline, take

# (key, in words, whether higher is better)
MEASURES = (
    ("label_auc", "AUC by label", True),
    ("label_average_precision", "average precision by label", True),
    ("label_ranking_average_precision", "average precision by row", True),
    ("f1_macro", "F1 by label", True),
    ("accuracy", "share of entries right", True),
    ("brier", "Brier score", False),
)


@dataclass(frozen=True)
class LabelEstimate:
    """How well one label is told on rows that were kept back, with a 95 % interval of its AUC."""

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
    """Measures on labels that were kept back.

    Attributes
    ----------
    values : dict of str to Interval
        Mean over folds of each measure, and what as many new rows as a fold has would show (95 %).
    n_entries : int
        Labels that were kept back, all repetitions together.
    repetitions : int
        Folds or repetitions behind each mean.
    labels : list of LabelEstimate
        One for each label of which both answers were kept back.
    """

    values: dict[str, Interval]
    n_entries: int
    repetitions: int
    labels: list[LabelEstimate]


def measure(
    Y: NDArray[np.float64],
    scores: NDArray[np.float64],
    probabilities: NDArray[np.float64],
    positive: NDArray[np.bool_],
    estimate: bool = True,
) -> dict[str, float]:
    """All measures, of complete rows or of the observed entries of ``Y``; nan where undefined."""
    # A row without a "no" cannot be ranked wrongly and would count as 1: "published" leaves it out.
    found = evaluate(
        Y,
        scores,
        y_pred=positive.astype(float),
        convention="published",
        estimate=estimate,
        # Others, which compare the labels of a row with each other, take minutes of 617 labels.
        only=("label_auc", "label_ranking_average_precision", "f1_macro", "hamming_loss"),
    )
    known = ~np.isnan(Y)
    precision = label_precision(Y, scores)
    defined = precision[~np.isnan(precision)]
    return {
        "label_auc": found["label_auc"].value,
        "label_average_precision": float(defined.mean()) if len(defined) else np.nan,
        "label_ranking_average_precision": found["label_ranking_average_precision"].value,
        "f1_macro": found["f1_macro"].value,
        "accuracy": 1 - found["hamming_loss"].value,
        "brier": float(np.mean((probabilities[known] - Y[known]) ** 2)) if known.any() else np.nan,
    }


def measure_pipeline(pipeline: Any, inputs: Any, Y: NDArray[np.float64]) -> dict[str, float]:
    """All measures of what a fitted pipeline says about these inputs."""
    X, model = pipeline[:-1].transform(inputs), pipeline[-1]
    scores, probabilities = model.decision_function(X), model.predict_proba(X)
    return measure(Y, scores, probabilities, model.predict(X) == 1)


def measure_ticks(pipeline: Any, inputs: Any, Y: NDArray[np.float64]) -> dict[str, float]:
    """What ticks can tell of them, by the class priors that were found; nan for the others."""
    X, model = pipeline[:-1].transform(inputs), pipeline[-1]
    measured = dict.fromkeys((key for key, *_ in MEASURES), np.nan)
    if not (Y == 1).any():
        return measured
    found = evaluate_positive_unlabelled(
        Y, model.decision_function(X), model.class_prior_, y_pred=model.predict(X)
    )
    return measured | {
        "label_auc": found["label_auc"].value,
        "f1_macro": found["f1_macro"].value,
        "accuracy": 1 - found["hamming_loss"].value,
    }


def label_precision(Y: NDArray[np.float64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average precision of each label over its observed entries; nan without both answers."""
    result = np.full(Y.shape[1], np.nan)
    for k in range(Y.shape[1]):
        known = ~np.isnan(Y[:, k])
        if len(np.unique(Y[known, k])) == 2:
            result[k] = average_precision_score(Y[known, k], scores[known, k])
    return result


def keep_back(
    Y: NDArray[np.float64], share: float, seed: int, groups: NDArray[np.intp] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Labels that are left, and labels that are kept back: a share of each label's yes and no.

    Of a group of rows a label is kept back in all or in none; one yes makes it one.
    """
    if groups is None:
        groups = np.arange(len(Y))
    whole = np.full((groups.max() + 1, Y.shape[1]), -1.0)
    np.maximum.at(whole, groups, np.nan_to_num(Y, nan=-1.0))
    whole[whole < 0] = np.nan
    _, kept = simulate_per_label(whole, 1 - share, return_mask=True, random_state=seed)
    stays = kept[groups]
    return np.where(stays, Y, np.nan), np.where(stays, np.nan, Y)


def interval(
    values: Sequence[float], kept_back: float, bounds: tuple[float, float] = (0.0, 1.0)
) -> Interval:
    """Mean with the corrected t interval of Nadeau and Bengio.

    Undefined values are left out; fewer than two tell nothing about the spread. ``bounds`` are
    those of the values.
    """
    known = [value for value in values if not np.isnan(value)]
    if len(known) < 2:
        return Interval(known[0] if known else np.nan, np.nan, np.nan)
    mean, low, high = corrected_t_interval(known, kept_back)
    return Interval(mean, max(low, bounds[0]), min(high, bounds[1]))


def intervals(measured: Sequence[dict[str, float]], kept_back: float) -> dict[str, Interval]:
    """An interval for each measure."""
    return {key: interval([m[key] for m in measured], kept_back) for key in measured[0]}


def changes(
    after: Sequence[dict[str, float]], before: Sequence[dict[str, float]], kept_back: float
) -> dict[str, Interval]:
    """An interval for how much each measure changed, on the same entries."""
    pairs = list(zip(after, before, strict=True))
    return {
        key: interval([new[key] - old[key] for new, old in pairs], kept_back, (-1.0, 1.0))
        for key in after[0]
    }


def estimate_rows(
    inputs: Any,
    uses: Sequence[ColumnUse] | None,
    Y: NDArray[np.float64],
    wishes: FitOptions,
    folds: int,
    label_names: Sequence[str],
    groups: NDArray[np.intp] | None = None,
    tell: Tell | None = None,
) -> Estimate:
    """Quality on new rows: preparation, settings and calibration are learnt without them."""
    seen = np.flatnonzero((~np.isnan(Y)).any(axis=1))
    splitter = replace(wishes, folds=folds).splitter(Y, groups)
    splitter.groups = None if groups is None else groups[seen]
    folds = splitter.n_splits
    measured, held, fold = [], np.full(Y.shape, np.nan), np.full(len(Y), -1)
    for number, (train, test) in enumerate(splitter.split(Y[seen], Y[seen]), 1):
        train, test = seen[train], seen[test]
        told = wishes.ticks | (Y[train] == 0).any(axis=0)
        if not ((Y[train] == 1).any(axis=0) & told).any():
            continue
        with warnings.catch_warnings():
            # A fold may lack a class of a rare label, which says nothing about the table.
            warnings.simplefilter("ignore", ConstantLabelWarning)
            pipeline, _ = fit_pipeline(
                take(inputs, train),
                uses,
                Y[train],
                wishes,
                groups=None if groups is None else groups[train],
                tell=None if tell is None else _part(tell, f"estimate {number} of {folds}"),
            )
        judge = measure_ticks if wishes.ticks else measure_pipeline
        measured.append(judge(pipeline, take(inputs, test), Y[test]))
        X = pipeline[:-1].transform(take(inputs, test))
        held[test] = np.where(pipeline[-1]._learnable, pipeline[-1].predict_proba(X), np.nan)
        fold[test] = number - 1
    return _estimate(measured, held, fold, Y, label_names)


def estimate_held_out(model: Any, Y: NDArray[np.float64], label_names: Sequence[str]) -> Estimate:
    """Quality on new rows by what the automatic estimator has held out for itself."""
    p, fold = getattr(model, "held_out_", np.full(Y.shape, np.nan)), model.held_out_folds_
    measured = []
    for number in range(int(fold.max()) + 1):
        rows = fold == number
        known = np.where(np.isnan(p[rows]), np.nan, Y[rows])
        told = np.nan_to_num(p[rows], nan=0.5)
        measured.append(measure(known, 2 * told - 1, told, told > 0.5))
    return _estimate(measured, p, fold, Y, label_names)


def _estimate(
    measured: list[dict[str, float]],
    p: NDArray[np.float64],
    fold: NDArray[np.intp],
    Y: NDArray[np.float64],
    label_names: Sequence[str],
) -> Estimate:
    if not measured:
        return Estimate({key: Interval(np.nan, np.nan, np.nan) for key, *_ in MEASURES}, 0, 0, [])
    T = np.where(np.isnan(Y), 0, np.where(Y == 1, 1, -1))
    table = label_table(logit(np.clip(p, 1e-13, 1 - 1e-13)), T, label_names, fold)
    rows = []
    for row in zip(*table.values(), strict=True):
        plain: list[Any] = [v if isinstance(v, str) else v.item() for v in row]
        rows.append(LabelEstimate(*plain))
    told = [row for row in rows if not np.isnan(row.auc)]
    values = {key: new_rows([m[key] for m in measured]) for key in measured[0]}
    # The rows of all folds tell the spread of this one better than a handful of folds do.
    by_rows = label_auc(logit(np.clip(p, 1e-13, 1 - 1e-13)), T, fold)[0]
    if np.isfinite(by_rows.mean):  # ticks alone have no rows to compare with
        values["label_auc"] = on_new_rows(by_rows, len(measured), 1.0)
    return Estimate(values, int((~np.isnan(Y)).sum()), len(measured), told)


def new_rows(values: Sequence[float], bounds: tuple[float, float] = (0.0, 1.0)) -> Interval:
    r"""Mean over K folds, and where the value of as many new rows as a fold has lies (95 %).

    A test set has noise of its own, which an interval for the mean leaves out: with the spread s
    of the folds, the difference has the variance :math:`s^2 (1 + 1/K + 1/(K - 1))`, the last for
    training rows that folds share (Nadeau and Bengio).
    """
    known = [value for value in values if not np.isnan(value)]
    if len(known) < 2:
        return Interval(known[0] if known else np.nan, np.nan, np.nan)
    k, mean = len(known), float(np.mean(known))
    half = t.ppf(0.975, k - 1) * np.std(known, ddof=1) * np.sqrt(1 + 1 / k + 1 / (k - 1))
    return Interval(mean, max(mean - half, bounds[0]), min(mean + half, bounds[1]))


def _part(tell: Tell, name: str) -> Tell:
    return lambda line: tell(f"{name}: {line}")
