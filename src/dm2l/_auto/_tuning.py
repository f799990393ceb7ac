"""Hyperparameters of the DM2L models, chosen on a sample of the rows.

Ridge, kernel width and weight of the norms depend on the noise of the labels and the scale of the
features rather than on the number of rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning

from dm2l._search._search import DM2LClassifierCV, search_stage
from dm2l._utils.arrays import take_rows
from dm2l.labels._entries import Signs
from dm2l.labels._matrix import LabelMatrix
from dm2l.metrics._selection import label_discrimination

LAMBDAS = (0.0, 0.1, 0.3, 1.0, 3.0)


def skill(labels: Any, scores: NDArray[np.float64]) -> float:
    """Label discrimination, 0 where no label shows both answers."""
    # Correlations alone choose kernels that are too wide and norms that are too weak
    # (benchmarks/study.py, Tox21).
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        value: Any = label_discrimination(labels, scores)
        return float(np.nan_to_num(value))


class _SkillSearch(DM2LClassifierCV):
    def _metric(self, T: Signs) -> Callable[..., float]:
        return skill


class Sample(NamedTuple):
    """Rows to choose by: features, signs, and the fold of each in the ensemble."""

    X: Any
    T: Signs
    fold: NDArray[np.intp]

    def informative(self) -> Sample:
        """Labels with both classes, and rows with one of them observed."""
        both = np.flatnonzero((self.T > 0).any(axis=0) & (self.T < 0).any(axis=0))
        rows = np.flatnonzero((self.T[:, both] != 0).any(axis=1))
        return Sample(take_rows(self.X, rows), self.T[np.ix_(rows, both)], self.fold[rows])

    def splits(self, most: int = 3) -> Any:
        """Training and test rows of the folds, merged to a few: groups of rows stay together."""
        folds = int(self.fold.max()) + 1
        merged = self.fold * min(most, folds) // max(folds, 1)
        here = [(np.flatnonzero(merged != f), np.flatnonzero(merged == f)) for f in range(most)]
        held = [(train, test) for train, test in here if len(train) and len(test)]
        return held if len(held) > 1 else min(most, len(self.T))


def choose(
    sample: Sample,
    kernel: str,
    gammas: Sequence[float] | None = None,
    ridge: DM2LClassifierCV | None = None,
) -> DM2LClassifierCV:
    """The best ridge and width of a kernel without nuclear norms, or the norms for this ridge."""
    sample = sample.informative()
    search = _SkillSearch(
        LAMBDAS, None, gammas, kernel=kernel, cv=sample.splits(), refit=False, coupling=None
    )
    # Where norms help, more shrinkage usually does too. A smaller ridge gains nothing and takes
    # many more steps (benchmarks/study.py: Social, Tox21, SIDER).
    alphas = None if ridge is None else (ridge.alpha_, 3 * ridge.alpha_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of labels with one class in a fold
        return search_stage(search, sample.X, LabelMatrix.of_signs(sample.T), ridge, alphas)


def in_words(found: DM2LClassifierCV) -> str:
    """The chosen hyperparameters, for the leaderboard."""
    gamma = "" if found.gamma_ is None else f", gamma {found.gamma_:.3g}"
    return f"lambda_d {found.lambda_d_:g}, alpha {found.alpha_:.3g}{gamma}"
