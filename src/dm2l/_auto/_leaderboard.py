"""Cross-fitting of the candidate models, and the quality of their out-of-fold probabilities."""

from functools import partial
from typing import Any

import numpy as np
from scipy.special import betaln, expit
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score

from dm2l._auto._base_models import (
    FAILURES,
    TRIAL,
    BaseModel,
    EnsembleContext,
    OutOfTimeError,
    candidates,
)
from dm2l._auto._stack import MOST_ENTRIES, Bools, Floats, Stack
from dm2l._utils.arrays import Index
from dm2l.labels._entries import Signs
from dm2l.labels._matrix import constant_scores
from dm2l.model_selection import Interval

Z95 = 1.959964


def cross_fitted(
    scores: Floats,
    T: Signs,
    shares: Bools,
    fold: Index,
    weights: Floats | None = None,
    prior: Floats | None = None,
) -> Floats:
    """Return out-of-fold log-odds; the stack for each fold is fitted to the other folds."""
    result = rate_log_odds(T, fold)
    for number in range(int(fold.max()) + 1):
        here = fold == number
        rest = ~here & (fold >= 0)
        own = None if weights is None else weights[rest]
        found = Stack.fit(scores[:, rest], T[rest], shares, own, prior).log_odds(scores[:, here])
        # Labels that a fold could not learn get their observed rates, as in a fit to the same rows.
        result[here] = np.where(np.isnan(found), result[here], found)
    return result


def rate_log_odds(T: Signs, fold: Index) -> Floats:
    """Return log-odds of the share of positives in other folds; NaN for rows without a fold."""
    result = np.full(T.shape, np.nan)
    for number in range(int(fold.max(initial=-1)) + 1):
        rest = (fold != number) & (fold >= 0)
        positives, negatives = (T[rest] > 0).sum(axis=0), (T[rest] < 0).sum(axis=0)
        result[fold == number] = 2 * constant_scores(positives, negatives)
    return result


def log_loss(eta: Floats, T: Signs) -> Interval:
    """Return the log loss of observed entries with a confidence interval over rows."""
    return _mean_loss(*_losses(eta, T))


def _losses(eta: Floats, T: Signs) -> tuple[Bools, Floats]:
    """Return the mask of observed entries with a score, and their log loss (0 elsewhere)."""
    known = (T != 0) & np.isfinite(eta)
    return known, np.where(known, np.logaddexp(0.0, -T * np.where(known, eta, 0.0)), 0.0)


def label_auc(eta: Floats, T: Signs, fold: Index | None = None) -> tuple[Interval, Floats, Floats]:
    """Return the mean AUC with a confidence interval, and AUC and standard error of each label."""
    value, pulls = _auc_by_label(eta, T, fold)
    defined = np.isfinite(value)
    error = np.where(defined, np.sqrt((pulls**2).sum(axis=0)), np.nan)
    if not defined.any():
        return Interval(np.nan, np.nan, np.nan), value, error
    spread = float(np.linalg.norm(pulls.sum(axis=1))) / defined.sum()
    return _interval(value[defined].mean(), Z95 * spread, 1.0), value, error


def _auc_by_label(eta: Floats, T: Signs, fold: Index | None) -> tuple[Floats, Floats]:
    """Return the AUC of each label, and the terms (n, c) of rows in its standard error."""
    # Standard errors follow DeLong, DeLong and Clarke-Pearson (1988), with rows as units. Rows are
    # compared only within folds, because scores of different models may differ in level.
    value, pulls = np.full(T.shape[1], np.nan), np.zeros(T.shape)
    fold = np.zeros(len(T), dtype=np.intp) if fold is None else fold
    for k in range(T.shape[1]):
        known, positive = (T[:, k] != 0) & np.isfinite(eta[:, k]) & (fold >= 0), T[:, k] > 0
        wins = np.full(len(T), np.nan)
        for number in range(int(fold.max(initial=-1)) + 1):
            rows, others = known & (fold == number), T[(fold != number) & (fold >= 0), k]
            # In folds without both classes, the model could not learn the label.
            if ((others > 0).any() and (others < 0).any()) or not len(others):
                wins[rows] = _wins(eta[rows, k], positive[rows])
        rows = np.flatnonzero(np.isfinite(wins))
        if len(rows):
            value[k] = wins[rows[positive[rows]]].mean()
            count = np.where(positive[rows], positive[rows].sum(), (~positive[rows]).sum())
            pulls[rows, k] = (wins[rows] - value[k]) / np.maximum(count - 1, 1)
    return value, pulls


def expected_auc(eta: Floats, T: Signs, fold: Index) -> Interval:
    """Return the expected mean AUC of labels on new rows, with a confidence interval."""
    # Each label is weighted by the probability that new rows have both of its classes. The
    # undefined AUC of a label with one class counts as 1/2. A label with both classes that is not
    # learnable in any fold gets the AUC of the rarest learnable label.
    value, pulls = _auc_by_label(eta, T, fold)
    counts = np.stack([(T[fold >= 0] == sign).sum(axis=0) for sign in (1, -1)])
    new, rarer = (fold >= 0).sum() / (fold.max() + 1), counts.min(axis=0)
    defined = np.isfinite(value)
    if not defined.any():
        return Interval(np.nan, np.nan, np.nan)
    # Probabilities that new rows lack a class, with a uniform prior on its rate.
    absent = betaln(counts + 1, counts[::-1] + 1 + new) - betaln(counts + 1, counts[::-1] + 1)
    weight = np.maximum(1 - np.exp(absent).sum(axis=0), 0.0)
    weight /= weight.sum()
    unknown, like = ~defined & (rarer > 0), defined & (rarer == rarer[defined].min())
    part = np.where(like, weight[unknown].sum() / like.sum(), 0.0) + np.where(defined, weight, 0.0)
    mean = part @ np.where(defined, value, 0.0) + 0.5 * weight[rarer == 0].sum()
    typical = value[like].mean()
    spread = np.var(value[like], ddof=1) if like.sum() > 1 else typical * (1 - typical)
    error = np.sqrt(((pulls @ part) ** 2).sum() + spread * (weight[unknown] ** 2).sum())
    return _interval(mean, Z95 * float(error), 1.0)


def _wins(s: Floats, positive: Bools) -> Floats:
    """Return for each row the share of rows of the other class that are ranked correctly."""
    if positive.all() or not positive.any():
        return np.full(len(s), np.nan)
    below = rankdata(s)
    for side in (positive, ~positive):  # ties count as one half
        below[side] = (below[side] - rankdata(s[side])) / (~side).sum()
    return np.where(positive, below, 1 - below)


def label_table(eta: Floats, T: Signs, names: Any, fold: Index | None = None) -> dict[str, Any]:
    """Return counts, AUC with its interval, average precision and log loss of every label."""
    _, value, error = label_auc(eta, T, fold)
    known, loss = _losses(eta, T)
    count = np.maximum(known.sum(axis=0), 1)
    precision = np.full(T.shape[1], np.nan)
    for k in np.flatnonzero(np.isfinite(value)):
        rows = known[:, k]
        precision[k] = average_precision_score(T[rows, k] > 0, eta[rows, k])
    return {
        "label": [str(name) for name in names],
        "positives": (T > 0).sum(axis=0),
        "negatives": (T < 0).sum(axis=0),
        "auc": value,
        "auc_low": np.maximum(value - Z95 * error, 0.0),
        "auc_high": np.minimum(value + Z95 * error, 1.0),
        "average_precision": precision,
        "log_loss": np.where(known.any(axis=0), loss.sum(axis=0) / count, np.nan),
    }


def brier(eta: Floats, T: Signs) -> Interval:
    """Return the Brier score of observed entries with a confidence interval over rows."""
    known = (T != 0) & np.isfinite(eta)
    return _mean_loss(known, np.where(known, (expit(eta) - (T > 0)) ** 2, 0.0))


def _mean_loss(known: Bools, loss: Floats) -> Interval:
    count = known.sum()
    if not count:
        return Interval(np.nan, np.nan, np.nan)
    mean = float(loss.sum() / count)
    by_row = (loss.sum(axis=1) - mean * known.sum(axis=1)) / count
    return _interval(mean, Z95 * float(np.sqrt((by_row**2).sum())))


def on_new_rows(found: Interval, folds: int, most: float = np.inf) -> Interval:
    """Return the prediction interval of the mean over as many new rows as a fold has."""
    # With K folds and variance v of the mean, the difference to the mean of new rows has variance
    # v (1 + K + K / (K - 1)). The last term is due to shared training rows (Nadeau and Bengio).
    half = max(found.mean - found.low, found.high - found.mean)
    half *= np.sqrt(1 + folds + folds / max(folds - 1, 1))
    return _interval(found.mean, half, most)


def estimates(
    eta: Floats, T: Signs, fold: Index, names: Any, learnable: Bools
) -> tuple[dict[str, Interval], dict[str, Any]]:
    """Return quality estimates for new rows, and the quality of each learnable label."""
    folds = int(fold.max()) + 1
    found = {
        "label_auc": on_new_rows(expected_auc(eta, T, fold), folds, 1.0),
        "log_loss": on_new_rows(log_loss(eta, T), folds),
        "brier": on_new_rows(brier(eta, T), folds, 1.0),
    }
    return found, label_table(eta[:, learnable], T[:, learnable], names[learnable], fold)


def _interval(mean: float, half: float, most: float = np.inf) -> Interval:
    return Interval(float(mean), float(max(mean - half, 0.0)), float(min(mean + half, most)))


Board = dict[str, list[Any]]

NUMBERS = ("label_auc", "log_loss", "weight", "auc_gain", "log_loss_gain", "seconds")
COLUMNS = {"model": "", "settings": "", **dict.fromkeys(NUMBERS, np.nan), "note": ""}
# Base models with a smaller share of the log-odds are dropped (benchmarks/study.py, scene).
WORTHWHILE = 0.1
DISCARDED = f"dropped: negligible weight after {TRIAL} folds"


def try_all(context: EnsembleContext) -> tuple[list[BaseModel], Floats, Board]:
    """Fit all candidates in folds; return base models, out-of-fold scores and leaderboard."""
    budget, n_folds = context.budget, len(context.folds)
    models: list[BaseModel] = []
    scores: list[Floats] = []
    rows: list[dict[str, Any]] = []  # rows of the leaderboard
    skipped: list[dict[str, Any]] = []  # leaderboard rows of models without scores
    # Without folds, only the linear model is fitted.
    linear, *others = candidates(context)
    wanted = [linear, *context.models, *others] if n_folds else [linear]
    budget.planned += sum(candidate.seconds for candidate in wanted)
    for candidate in wanted:
        start, reserved, note = budget.passed, budget.reserved, ""
        budget.binding, budget.step = candidate is not wanted[0], candidate.choosing
        found: list[BaseModel] = []
        try:
            if budget.binding and not budget.allows(candidate.seconds):
                note = "no time left"
            else:
                found = candidate.make()
                budget.advance()
                note = "" if found else "too many labels and rows for trees"
            for model in found:
                # Time is reserved for fitting the kept models to all rows.
                a_fit = (candidate.seconds - candidate.choosing) / (n_folds + 1) / len(found)
                budget.step, budget.reserved = a_fit, reserved + a_fit
                race = n_folds >= 2 * TRIAL and bool(models)
                helps = partial(_helps, context, [*models, model], scores)
                held_out = model.held_out(context, helps if race else None)
                row = {"model": model.name, "settings": model.settings}
                if held_out is None:
                    skipped.append(row | {"note": DISCARDED})
                    budget.planned -= a_fit * (n_folds + 1 - TRIAL)
                    continue
                models.append(model)
                scores.append(held_out)
                rows.append(row | {"seconds": budget.passed - start})
                start, reserved = budget.passed, budget.reserved
        except OutOfTimeError:
            note = "stopped by the time limit"
        except FAILURES as error:
            if not budget.binding:  # the ensemble requires its linear model
                raise
            note = f"failed: {error}"
        budget.reserved = reserved
        if note:
            skipped.append({"model": candidate.name, "note": note})
            if not any(model in models for model in found):
                budget.planned -= candidate.seconds
    rows += [{"model": "stack", "weight": 1.0}, *skipped]
    board = {name: [row.get(name, none) for row in rows] for name, none in COLUMNS.items()}
    return models, np.stack(scores), board


def _helps(
    context: EnsembleContext, models: list[BaseModel], scores: list[Floats], new: Floats
) -> bool:
    """Return whether the last model has enough weight, or the best AUC on rows that it scored."""
    rows = np.isfinite(new).any(axis=1)
    weights = None if context.weights is None else context.weights[rows]
    shares = np.array([model.shares for model in models])
    both = np.stack([*scores, new])[:, rows]
    stack = Stack.fit(both, context.T[rows], shares, weights)
    if stack.effects[-1] >= WORTHWHILE * stack.effects.sum():
        return True
    auc = [label_auc(each, context.T[rows], context.fold[rows])[0].mean for each in both]
    return bool(auc[-1] >= max(auc))


def weigh(
    board: Board, context: EnsembleContext, scores: Floats, shares: Bools
) -> tuple[Floats, Floats | None]:
    """Add model quality to the leaderboard; return the stack's log-odds and prior weights."""
    T, fold, weights, m = context.T, context.fold, context.weights, len(scores)
    eta, prior = cross_fitted(scores, T, shares, fold, weights), None
    losses = []
    for j in range(m):
        alone = cross_fitted(scores[[j]], T, shares[[j]], fold, weights)
        board["label_auc"][j] = label_auc(alone, T, fold)[0].mean
        board["log_loss"][j] = log_loss(alone, T).mean
        losses.append(_losses(alone, T)[1])
    # If the stack is significantly worse than its best model, weights are shrunk to this model, not
    # to equal weights, which are better otherwise (benchmarks/small_samples.py).
    best = int(np.argmin(board["log_loss"][:m]))
    known, loss = _losses(eta, T)
    if m > 1 and _mean_loss(known, loss - losses[best]).low > 0:
        prior = np.eye(m)[best]
        eta = cross_fitted(scores, T, shares, fold, weights, prior)
    auc, total = label_auc(eta, T, fold)[0].mean, log_loss(eta, T).mean
    board["label_auc"][m], board["log_loss"][m] = auc, total
    # The gain of a model requires a stack without it, which takes too long for large data.
    for j in range(m if m > 1 and scores.size <= MOST_ENTRIES else 0):
        rest = np.arange(m) != j
        others = None if prior is None or prior[j] else prior[rest]
        without = cross_fitted(scores[rest], T, shares[rest], fold, weights, others)
        board["auc_gain"][j] = auc - label_auc(without, T, fold)[0].mean
        board["log_loss_gain"][j] = log_loss(without, T).mean - total
    return eta, prior
