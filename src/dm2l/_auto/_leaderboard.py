"""What was tried: parts in turn, and a table of what became of each."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l._auto._effort import NoGainError, OutOfTimeError
from dm2l._auto._parts import TRIAL, EnsembleContext, Part, candidates
from dm2l._auto._quality import cross_fitted, label_auc, log_loss
from dm2l._auto._stack import MOST_ENTRIES, Stack
from dm2l.labels._entries import Signs

Floats = NDArray[np.float64]

# Share of the log-odds after a few folds below which a part is not worth the rest: on scene three
# quarters of the time went into trees that brought 0.0002 AUC.
WORTHWHILE = 0.1
GAINLESS = f"given up: hardly any say after {TRIAL} folds"


def try_all(task: EnsembleContext) -> tuple[list[Part], Floats, dict[str, list[Any]]]:
    """Parts in the order tried, their held-out scores, and a table of what happened."""
    parts: list[Part] = []
    scores: list[Floats] = []
    board: dict[str, list[Any]] = {
        name: []
        for name in (
            *("model", "settings", "label_auc", "log_loss", "weight", "auc_gain"),
            *("log_loss_gain", "seconds", "note"),
        )
    }
    few = not task.folds
    wanted = list(candidates(task))[: 1 if few else None]
    for candidate in wanted:
        task.clock.plan(candidate.seconds)
    skipped: list[tuple[str, str, str]] = []
    fits = len(task.folds) + 1
    race = len(task.folds) >= 2 * TRIAL
    for number, candidate in enumerate(wanted):
        start = task.clock.passed
        found: list[Part] = []
        owed = task.clock.owed
        if number and not task.clock.room(candidate.seconds):
            skipped.append((candidate.name, "", "no time left"))
        else:
            task.clock.begin(candidate.choosing)
            task.clock.binding = number > 0
            try:
                found = candidate.make()
                task.clock.tick()
                a_fit = (candidate.seconds - candidate.choosing) / fits
                task.clock.begin(a_fit / max(len(found), 1))
                for part in found:
                    helps = partial(_helps, task, [*parts, part], scores)
                    task.clock.owed = owed + a_fit / len(found)  # its last fit, if it stays
                    try:
                        held = part.held_out(task, helps if race and parts else None)
                    except NoGainError:
                        task.clock.owed = owed
                        skipped.append((part.name, part.settings, GAINLESS))
                        task.clock.plan(-a_fit * (fits - TRIAL) / len(found))
                        continue
                    parts, scores = [*parts, part], [*scores, held]
                    owed = task.clock.owed
                    _add(board, part.name, part.settings, seconds=task.clock.passed - start)
                    start = task.clock.passed
                if not found:
                    skipped.append((candidate.name, "", "too many labels and rows for trees"))
            except OutOfTimeError:
                task.clock.owed = owed
                found = [part for part in found if part in parts]
                skipped.append((candidate.name, "", "the time limit came first"))
        if not found:
            task.clock.plan(-candidate.seconds)
    _add(board, "stack", "", weight=1.0)
    for name, settings, note in skipped:
        _add(board, name, settings, note=note)
    return parts, np.stack(scores) if scores else np.zeros((0, *task.T.shape)), board


def _helps(task: EnsembleContext, parts: list[Part], scores: list[Floats], new: Floats) -> bool:
    """Whether the last part would have a say in the stack, by the rows that have its scores."""
    rows = np.isfinite(new).any(axis=1)
    weights = None if task.weights is None else task.weights[rows]
    shares = np.array([part.shares for part in parts])
    both = np.stack([*scores, new])[:, rows]
    stack = Stack.fit(both, task.T[rows], shares, weights)
    says = (stack.weights * stack.slope).mean(axis=1)  # of scores that have one spread
    return bool(says[-1] >= WORTHWHILE * says.sum())


def _add(board: dict[str, list[Any]], name: str, settings: str, **values: Any) -> None:
    row = {"model": name, "settings": settings, "note": ""} | values
    for key, column in board.items():
        column.append(row.get(key, float("nan")))


def add_gains(
    board: dict[str, list[Any]],
    scores: Floats,
    T: Signs,
    shares: NDArray[np.bool_],
    fold: NDArray[np.intp],
    eta: Floats,
    weights: Floats | None = None,
) -> None:
    """What each part and the stack have, and what it loses without each part.

    The last only where a stack is fitted in no time, for there are many to fit.
    """
    m = len(scores)
    for j in range(m):
        alone = cross_fitted(scores[[j]], T, shares[[j]], fold, weights)
        board["label_auc"][j] = label_auc(alone, T, fold)[0].mean
        board["log_loss"][j] = log_loss(alone, T).mean
    auc, loss = label_auc(eta, T, fold)[0].mean, log_loss(eta, T).mean
    board["label_auc"][m], board["log_loss"][m] = auc, loss
    for j in range(m if m > 1 and scores.size <= MOST_ENTRIES else 0):
        rest = np.arange(m) != j
        without = cross_fitted(scores[rest], T, shares[rest], fold, weights)
        board["auc_gain"][j] = auc - label_auc(without, T, fold)[0].mean
        board["log_loss_gain"][j] = log_loss(without, T).mean - loss
