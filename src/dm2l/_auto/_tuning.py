"""Settings of the DM2L parts, found on a sample of the rows.

Ridge, kernel width and weight of the norms belong to the labels' noise and the features' scale,
not to the number of rows, so a sample tells them. Masked ridge, which costs little, chooses kernel
and ridge; then two paths choose the weight of the norms.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning

from dm2l._search._search import DM2LClassifierCV
from dm2l._utils.arrays import take_rows
from dm2l.labels._entries import Signs
from dm2l.metrics import label_skill

LAMBDAS = (0.0, 0.1, 0.3, 1.0, 3.0)


class Setting(NamedTuple):
    """Settings of a DM2L model, and how well it tells labels."""

    kernel: str
    gamma: float | None
    alpha: float
    lambda_d: float
    skill: float

    def parameters(self) -> dict[str, Any]:
        """Arguments of :class:`dm2l.DM2LClassifier`."""
        found: dict[str, Any] = {"alpha": self.alpha, "lambda_d": self.lambda_d}
        if self.gamma is not None:
            found["gamma"] = self.gamma
        return found | {"kernel": self.kernel}

    def in_words(self) -> str:
        """For people."""
        gamma = "" if self.gamma is None else f", gamma {self.gamma:.3g}"
        return f"lambda_d {self.lambda_d:g}, alpha {self.alpha:.3g}{gamma}"


def skill(Y: NDArray[np.float64], scores: NDArray[np.float64]) -> float:
    """:func:`dm2l.metrics.label_skill`, 0 where no label shows both answers.

    On Tox21 correlations alone choose kernels that are too wide and norms that are too weak.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        value: Any = label_skill(Y, scores)
        return float(np.nan_to_num(value))


class Sample(NamedTuple):
    """Rows to choose by: features, signs, and the fold of each in what comes after.

    Folds keep together what belongs together, so a search has the same, merged to a few.
    """

    X: Any
    T: Signs
    fold: NDArray[np.intp]

    def cut(self, rows: NDArray[np.intp], labels: NDArray[np.intp]) -> Sample:
        """Some rows and labels."""
        return Sample(take_rows(self.X, rows), self.T[np.ix_(rows, labels)], self.fold[rows])

    def splits(self, most: int = 3) -> Any:
        """Training and test rows of each merged fold, or how many to make where there are none."""
        folds = int(self.fold.max()) + 1
        merged = self.fold * min(most, folds) // max(folds, 1)
        here = [(np.flatnonzero(merged != f), np.flatnonzero(merged == f)) for f in range(most)]
        held = [(train, test) for train, test in here if len(train) and len(test)]
        return held if len(held) > 1 else min(most, len(self.T))


def ridge_settings(sample: Sample, kernel: str, gammas: Sequence[float] | None) -> Setting:
    """The best ridge and width of a kernel without nuclear norms."""
    return _search(sample, kernel, gammas, None, (0.0,))


def with_norms(sample: Sample, found: Setting) -> Setting:
    """The best weight of the norms with this kernel, and whether a larger ridge goes with it.

    Where norms help, more shrinkage does as a rule: on Social and Tox21 the two together have 0.005
    more label AUC than one after the other. A smaller ridge gains nothing more and takes many more
    steps (SIDER: 11 seconds a fit, not 2).
    """
    gammas = None if found.gamma is None else [found.gamma]
    return _search(sample, found.kernel, gammas, [found.alpha, 3 * found.alpha], LAMBDAS)


def _search(
    sample: Sample,
    kernel: str,
    gammas: Sequence[float] | None,
    alphas: Sequence[float] | None,
    lambdas: Sequence[float],
) -> Setting:
    T = sample.T
    both = (T > 0).any(axis=0) & (T < 0).any(axis=0)
    rows = np.flatnonzero((T[:, both] != 0).any(axis=1))
    sample = sample.cut(rows, np.flatnonzero(both))
    search = DM2LClassifierCV(
        lambdas,
        alphas,
        gammas,
        kernel=kernel,
        scoring=skill,
        cv=sample.splits(),
        refit=False,
        coupling=None,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of labels that a sample shows one class of
        search.fit(sample.X, np.where(sample.T == 0, np.nan, sample.T > 0))
    gamma = None if search.gamma_ is None else float(search.gamma_)
    return Setting(kernel, gamma, search.alpha_, search.lambda_d_, search.best_score_)
