"""Trying the candidates in turn, and the leaderboard of the results."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l._auto._base_models import TRIAL, BaseModel, Candidate, EnsembleContext, candidates
from dm2l._auto._effort import EarlyDiscardError, OutOfTimeError
from dm2l._auto._quality import cross_fitted, label_auc, log_loss
from dm2l._auto._stack import MOST_ENTRIES, Bools, Floats, Stack
from dm2l.labels._entries import Signs

Board = dict[str, list[Any]]

COLUMNS = (
    *("model", "settings", "label_auc", "log_loss", "weight", "auc_gain", "log_loss_gain"),
    *("seconds", "note"),
)
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
    _add(trials.board, "stack", "", weight=1.0)
    for name, settings, note in trials.skipped:
        _add(trials.board, name, settings, note=note)
    return trials.models, np.stack(trials.scores), trials.board


class _Trials:
    """What was tried so far."""

    def __init__(self, context: EnsembleContext) -> None:
        self.models: list[BaseModel] = []
        self.scores: list[Floats] = []
        self.board: Board = {name: [] for name in COLUMNS}
        self.skipped: list[tuple[str, str, str]] = []
        self._context, self._budget = context, context.budget

    def run(self, candidate: Candidate) -> None:
        """Hold out the models of a candidate; those that stay reserve time for their last fit."""
        start, reserved = self._budget.passed, self._budget.reserved
        found: list[BaseModel] = []
        self._budget.step = candidate.choosing
        try:
            found = candidate.make()
            self._budget.advance()
            if not found:
                self.skip(candidate, "too many labels and rows for trees")
                return
            a_fit = (candidate.seconds - candidate.choosing) / (len(self._context.folds) + 1)
            a_fit /= len(found)
            self._budget.step = a_fit
            for model in found:
                self._budget.reserved = reserved + a_fit
                if self._hold_out(model, a_fit):
                    reserved = self._budget.reserved
                    seconds = self._budget.passed - start
                    _add(self.board, model.name, model.settings, seconds=seconds)
                    start = self._budget.passed
        except OutOfTimeError:
            if any(model in self.models for model in found):
                self.skipped.append((candidate.name, "", "the time limit came first"))
            else:
                self.skip(candidate, "the time limit came first")
        self._budget.reserved = reserved

    def _hold_out(self, model: BaseModel, a_fit: float) -> bool:
        """Get its held-out scores, unless it gains nothing in the first folds."""
        folds = len(self._context.folds)
        race = folds >= 2 * TRIAL and bool(self.models)
        helps = partial(_helps, self._context, [*self.models, model], self.scores)
        try:
            self.scores.append(model.held_out(self._context, helps if race else None))
        except EarlyDiscardError:
            self.skipped.append((model.name, model.settings, DISCARDED))
            self._budget.planned -= a_fit * (folds + 1 - TRIAL)
            return False
        self.models.append(model)
        return True

    def skip(self, candidate: Candidate, note: str) -> None:
        """Leave out a candidate, and its time in the plan."""
        self.skipped.append((candidate.name, "", note))
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


def _add(board: Board, name: str, settings: str, **values: Any) -> None:
    row = {"model": name, "settings": settings, "note": ""} | values
    for key, column in board.items():
        column.append(row.get(key, float("nan")))


def add_gains(
    board: Board,
    scores: Floats,
    T: Signs,
    shares: Bools,
    fold: NDArray[np.intp],
    eta: Floats,
    weights: Floats | None,
) -> None:
    """Quality of each base model and the stack, and what the stack loses without each model."""
    m = len(scores)
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
