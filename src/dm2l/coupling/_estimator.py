"""What a fitted estimator keeps of the coupling, and what it does with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dm2l.calibration import best_f1_thresholds
from dm2l.coupling._combine import Combiner
from dm2l.coupling._condition import condition, residuals
from dm2l.coupling._covariance import LabelCovariance
from dm2l.coupling._fit import fit_covariance
from dm2l.coupling._promise import Promise

Floats = NDArray[np.float64]

# Choosing it on entries held back costs as much as the covariance, and gains nothing on average
# (AUC of the holes of emotions, yeast, scene, Arts and Enron, 30 and 70 % observed).
SHRINKAGE = 1.0
# Probabilities have a few weights a label: more rows cost time and gain little.
MOST_ROWS = 2000


@dataclass(frozen=True)
class Coupling:
    """Covariance of the residuals, probabilities and promises that rest on it.

    Parameters
    ----------
    covariance : LabelCovariance
        Of the residuals of all labels; those that cannot be learnt are apart from the others.
    combiner : Combiner
        Probabilities of scores given the other labels.
    promise : Promise
        How often decisions of which confidence are wrong.
    threshold : float or None
        Border of the conditional means; None: a probability of one half decides.
    borders : ndarray of shape (n_labels,)
        What the probability must exceed where ``threshold`` is None.
    """

    covariance: LabelCovariance
    combiner: Combiner
    promise: Promise
    threshold: float | None
    borders: Floats

    @classmethod
    def fit(cls, T: NDArray[Any], F: Floats, threshold: Any = None) -> Self:
        """Couple labels by the honest scores of their known entries.

        Parameters
        ----------
        T : ndarray of shape (n, c)
            Signs, 0 where missing.
        F : ndarray of shape (n, c)
            Scores; of known entries from a model that did not see them, NaN where there is none.
        threshold : None, float or "f1", default=None
            The estimator's.
        """
        scored = np.isfinite(F)
        T, F = np.where(scored, T, 0), np.where(scored, F, 0.0)
        kept = (T != 0).any(axis=1)
        T, F = T[kept], F[kept]
        E, known = residuals(T, F)
        covariance = fit_covariance(E, known, shrinkage=SHRINKAGE)
        order = np.random.default_rng(0).permutation(len(T))[: 2 * MOST_ROWS]
        T, F = T[order], F[order]
        mean, variance = condition(covariance, T, F)
        parts = T, F, mean, variance
        combiner = Combiner().fit(*(part[:MOST_ROWS] for part in parts))
        p = combiner.predict(*parts)
        borders = np.full(T.shape[1], 0.5)
        if isinstance(threshold, str):  # "f1"
            borders += best_f1_thresholds(p - 0.5, T, min_positives=5)
        number = None if threshold is None or isinstance(threshold, str) else float(threshold)
        found = cls(covariance, combiner, Promise.nothing(), number, borders)
        # What is promised rests on rows that the probabilities were not fitted to.
        first = slice(0, MOST_ROWS if len(T) > 1.5 * MOST_ROWS else len(T) // 2)
        second = slice(first.stop, None)
        if first.stop < MOST_ROWS:
            for here, there in ((first, second), (second, first)):
                half = Combiner().fit(*(part[here] for part in parts))
                p[there] = half.predict(*(part[there] for part in parts))
            second = slice(None)
        positive = found.decide(mean[second], p[second])
        confidence = np.where(positive, p[second], 1 - p[second])
        return replace(
            found,
            covariance=covariance.bare(),
            promise=Promise.fit(confidence, positive, T[second]),
        )

    def believe(self, T: NDArray[Any], F: Floats) -> tuple[Floats, Floats]:
        """Conditional mean and probability of every entry, a known one as if it were a hole."""
        mean, variance = condition(self.covariance, T, F)
        return mean, self.combiner.predict(T, F, mean, variance)

    def decide(self, mean: Floats, p: Floats) -> NDArray[np.bool_]:
        """Whether an entry is filled with a yes."""
        if self.threshold is not None:
            return np.asarray(mean > self.threshold)
        return np.asarray(p > self.borders)
