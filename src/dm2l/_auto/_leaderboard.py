"""Trying the candidates in turn, and the quality of their held-out probabilities."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.metrics import average_precision_score

from dm2l._auto._base_models import (
    TRIAL,
    BaseModel,
    Candidate,
    EnsembleContext,
    OutOfTimeError,
    candidates,
)
from dm2l._auto._stack import MOST_ENTRIES, Bools, Floats, Stack
from dm2l.labels._entries import Signs
from dm2l.model_selection import Interval

FoldOfRow = NDArray[np.intp]
Z95 = 1.959964


def cross_fitted(
    scores: Floats, T: Signs, shares: Bools, fold: FoldOfRow, weights: Floats | None = None
) -> Floats:
    """Log-odds of a stack of held-out scores that was fitted to the other folds."""
    result = np.full(T.shape, np.nan)
    for number in range(int(fold.max()) + 1):
        here = fold == number
        rest = ~here & (fold >= 0)
        own = None if weights is None else weights[rest]
        stack = Stack.fit(scores[:, rest], T[rest], shares, own)
        result[here] = stack.log_odds(scores[:, here])
    return result


def log_loss(eta: Floats, T: Signs) -> Interval:
    """Mean of observed entries, with an interval by rows."""
    return _mean_loss(*_losses(eta, T))


def _losses(eta: Floats, T: Signs) -> tuple[Bools, Floats]:
    """Observed entries that have a probability, and their log-loss, 0 elsewhere."""
    known = (T != 0) & np.isfinite(eta)
    return known, np.where(known, np.logaddexp(0.0, -T * np.where(known, eta, 0.0)), 0.0)


def label_auc(
    eta: Floats, T: Signs, fold: FoldOfRow | None = None
) -> tuple[Interval, Floats, Floats]:
    """Mean over labels with a confidence interval, and AUC and standard error of each label."""
    # Standard errors are those of DeLong, DeLong and Clarke-Pearson (1988), with rows as the units
    # of all labels together. Rows are paired within their fold: models of folds differ in level.
    n, c = T.shape
    value, error, by_row = np.full(c, np.nan), np.full(c, np.nan), np.zeros(n)
    for k in range(c):
        known = (T[:, k] != 0) & np.isfinite(eta[:, k])
        wins = np.full(n, np.nan)
        for number in [0] if fold is None else range(int(fold.max()) + 1):
            rows = np.flatnonzero(known if fold is None else known & (fold == number))
            wins[rows] = _wins(eta[rows, k], T[rows, k] > 0)
        rows = np.flatnonzero(np.isfinite(wins))
        positive = T[rows, k] > 0
        if not len(rows):
            continue
        value[k] = wins[rows[positive]].mean()
        count = np.where(positive, positive.sum(), (~positive).sum())
        pull = (wins[rows] - value[k]) / np.maximum(count - 1, 1)
        error[k] = np.sqrt((pull**2).sum())
        by_row[rows] += pull
    defined = np.isfinite(value)
    if not defined.any():
        return Interval(np.nan, np.nan, np.nan), value, error
    spread = float(np.sqrt((by_row**2).sum())) / defined.sum()
    return _interval(value[defined].mean(), Z95 * spread, 1.0), value, error


def _wins(s: Floats, positive: Bools) -> Floats:
    """Share of each row's pairs with the other class that are in order, NaN without pairs."""
    if positive.all() or not positive.any():
        return np.full(len(s), np.nan)
    wins = np.empty(len(s))
    for side, sign in ((positive, 1.0), (~positive, -1.0)):
        mine, others = sign * s[side], np.sort(sign * s[~side])
        below = np.searchsorted(others, mine), np.searchsorted(others, mine, side="right")
        wins[side] = (below[0] + below[1]) / (2 * len(others))  # ties count half
    return wins


def label_table(eta: Floats, T: Signs, names: Any, fold: FoldOfRow | None = None) -> dict[str, Any]:
    """Counts, AUC with interval, average precision and log-loss of every label."""
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
    """Mean squared error of probabilities of observed entries, with an interval by rows."""
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
    """Prediction interval for as many new rows as one of K folds has."""
    # With the variance v of the mean, a value of new rows differs from it with the variance
    # v (1 + K + K / (K - 1)); the last term is for training rows that folds share (Nadeau and
    # Bengio).
    half = max(found.mean - found.low, found.high - found.mean)
    half *= np.sqrt(1 + folds + folds / max(folds - 1, 1))
    return _interval(found.mean, half, most)


def _interval(mean: float, half: float, most: float = np.inf) -> Interval:
    return Interval(float(mean), float(max(mean - half, 0.0)), float(min(mean + half, most)))


Board = dict[str, list[Any]]

NUMBERS = ("label_auc", "log_loss", "weight", "auc_gain", "log_loss_gain", "seconds")
COLUMNS = {"model": "", "settings": "", **dict.fromkeys(NUMBERS, np.nan), "note": ""}
# Share of the log-odds after a few folds below which a base model is not worth the rest
# (benchmarks/study.py, scene).
WORTHWHILE = 0.1
DISCARDED = f"dropped: negligible weight after {TRIAL} folds"


def try_all(context: EnsembleContext) -> tuple[list[BaseModel], Floats, Board]:
    """Base models in the order tried, their held-out scores, and the leaderboard."""
    trials, budget = _Trials(context), context.budget
    # Where nothing can be held out there is the linear model alone.
    wanted = list(candidates(context))[: None if context.folds else 1]
    for candidate in wanted:
        budget.planned += candidate.seconds
    for candidate in wanted:
        budget.binding = candidate is not wanted[0]
        if budget.binding and not budget.allows(candidate.seconds):
            trials.skip(candidate, "no time left")
        else:
            trials.run(candidate)
    rows = [*trials.rows, {"model": "stack", "weight": 1.0}, *trials.skipped]
    board = {name: [row.get(name, none) for row in rows] for name, none in COLUMNS.items()}
    return trials.models, np.stack(trials.scores), board


class _Trials:
    """What was tried so far."""

    def __init__(self, context: EnsembleContext) -> None:
        self.models: list[BaseModel] = []
        self.scores: list[Floats] = []
        self.rows: list[dict[str, Any]] = []  # of the leaderboard, as the next
        self.skipped: list[dict[str, Any]] = []
        self._context, self._budget = context, context.budget

    def run(self, candidate: Candidate) -> None:
        """Hold out the models of a candidate; those that stay reserve time for their last fit."""
        context, budget, folds = self._context, self._budget, len(self._context.folds)
        start, reserved = budget.passed, budget.reserved
        found: list[BaseModel] = []
        budget.step = candidate.choosing
        try:
            found = candidate.make()
            budget.advance()
            if not found:
                self.skip(candidate, "too many labels and rows for trees")
                return
            a_fit = (candidate.seconds - candidate.choosing) / (folds + 1) / len(found)
            budget.step = a_fit
            for model in found:
                budget.reserved = reserved + a_fit
                race = folds >= 2 * TRIAL and bool(self.models)
                helps = partial(_helps, context, [*self.models, model], self.scores)
                scores = model.held_out(context, helps if race else None)
                row = {"model": model.name, "settings": model.settings}
                if scores is None:
                    self.skipped.append(row | {"note": DISCARDED})
                    budget.planned -= a_fit * (folds + 1 - TRIAL)
                    continue
                self.models.append(model)
                self.scores.append(scores)
                seconds, start, reserved = budget.passed - start, budget.passed, budget.reserved
                self.rows.append(row | {"seconds": seconds})
        except OutOfTimeError:
            self.skipped.append({"model": candidate.name, "note": "the time limit came first"})
            if not any(model in self.models for model in found):
                budget.planned -= candidate.seconds
        budget.reserved = reserved

    def skip(self, candidate: Candidate, note: str) -> None:
        """Leave out a candidate, and its time in the plan."""
        self.skipped.append({"model": candidate.name, "note": note})
        self._budget.planned -= candidate.seconds


def _helps(
    context: EnsembleContext, models: list[BaseModel], scores: list[Floats], new: Floats
) -> bool:
    """Whether the last model gets a relevant weight, by the rows that have its scores."""
    rows = np.isfinite(new).any(axis=1)
    weights = None if context.weights is None else context.weights[rows]
    shares = np.array([model.shares for model in models])
    both = np.stack([*scores, new])[:, rows]
    stack = Stack.fit(both, context.T[rows], shares, weights)
    share = (stack.weights * stack.slope).mean(axis=1)  # of scores that have one spread
    return bool(share[-1] >= WORTHWHILE * share.sum())


def add_gains(
    board: Board, context: EnsembleContext, scores: Floats, shares: Bools, eta: Floats
) -> None:
    """Quality of each base model and the stack, and what the stack loses without each model."""
    T, fold, weights, m = context.T, context.fold, context.weights, len(scores)
    for j in range(m):
        alone = cross_fitted(scores[[j]], T, shares[[j]], fold, weights)
        board["label_auc"][j] = label_auc(alone, T, fold)[0].mean
        board["log_loss"][j] = log_loss(alone, T).mean
    auc, loss = label_auc(eta, T, fold)[0].mean, log_loss(eta, T).mean
    board["label_auc"][m], board["log_loss"][m] = auc, loss
    # Only where fitting that many stacks takes no time.
    for j in range(m if m > 1 and scores.size <= MOST_ENTRIES else 0):
        rest = np.arange(m) != j
        without = cross_fitted(scores[rest], T, shares[rest], fold, weights)
        board["auc_gain"][j] = auc - label_auc(without, T, fold)[0].mean
        board["log_loss_gain"][j] = log_loss(without, T).mean - loss
