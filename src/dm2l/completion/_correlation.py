"""Label correlation: residual covariance, and the probabilities and error rates based on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dm2l.completion._calibration import best_f1_thresholds
from dm2l.completion._combine import Combiner
from dm2l.completion._condition import condition, residuals
from dm2l.completion._covariance import LabelCovariance
from dm2l.completion._covariance_fit import FOLDS, WORK, out_of_fold_means, quick_covariance
from dm2l.completion._error_rate import ErrorRateBound

Floats = NDArray[np.float64]

# Probabilities have a few weights a label: more rows cost time and gain little. With many labels a
# row is more expensive and more informative.
MOST_ROWS, FEWEST_ROWS = 2000, 500
# A covariance overfits its rows, the more so the more labels there are: probabilities are learnt in
# folds of rows unless there are so many rows for each label (benchmarks/completion.py).
PLENTY = 50
# Examples of either class that a label's probabilities need to be trusted with decisions.
ENOUGH = 5


@dataclass(frozen=True)
class LabelCorrelation:
    """Covariance of the residuals of all labels, and what is learnt from it.

    Attributes
    ----------
    covariance : LabelCovariance
        Of the residuals; labels that cannot be learnt are uncorrelated with the others.
    combiner : Combiner
        Probabilities given the scores and the other labels of a row.
    error_rates : ErrorRateBound
        How often decisions of a given confidence are wrong.
    threshold : float or None
        Cutoff of the conditional means; None: decide by probability.
    cutoffs : ndarray of shape (n_labels,)
        Cutoff of the probability where ``threshold`` is None; NaN for labels with too few examples
        of a class, which are decided by their conditional means.
    rates : ndarray of shape (n_labels,)
        Share of positives, for labels with one class observed.
    """

    covariance: LabelCovariance
    combiner: Combiner
    error_rates: ErrorRateBound
    threshold: float | None
    cutoffs: Floats
    rates: Floats

    @classmethod
    def fit(
        cls,
        T: NDArray[Any],
        F: Floats,
        threshold: Any = None,
        order: NDArray[np.intp] | None = None,
    ) -> Self:
        """Learn from signs and held-out scores ``F`` of known entries, NaN where there are none.

        Samples of rows are drawn in ``order``, which should be random; None makes one.
        """
        scored = np.isfinite(F)
        seen, T, F = T, np.where(scored, T, 0), np.where(scored, F, 0.0)
        kept = (T != 0).any(axis=1)
        rates = ((seen[kept] > 0).sum(axis=0) + 0.5) / ((seen[kept] != 0).sum(axis=0) + 1.0)
        chosen = np.random.default_rng(0).permutation(np.flatnonzero(kept))
        if order is not None:
            chosen = order[kept[order]]
        T, F = T[chosen], F[chosen]
        number = None if threshold is None or isinstance(threshold, str) else float(threshold)
        rarer = np.minimum((T > 0).sum(axis=0), (T < 0).sum(axis=0))
        cutoffs = np.where(rarer < ENOUGH, np.nan, 0.5)
        covariance = quick_covariance(*residuals(T, F))
        most = int(np.clip(WORK / T.shape[1] ** 3, FEWEST_ROWS, MOST_ROWS))
        if len(T) > max(1.5 * most, PLENTY * T.shape[1]):
            train, test = slice(0, most), slice(most, 2 * most)
            combiner = Combiner().fit(
                T[train], F[train], *condition(covariance, T[train], F[train])
            )
            T, F = T[test], F[test]
            mean, variance = condition(covariance, T, F)
            p = combiner.predict(T, F, mean, variance)
        else:
            folds = np.arange(len(T)) % FOLDS
            mean, variance = out_of_fold_means(T, F, folds)
            few = slice(0, FOLDS * most // (FOLDS - 1))
            T, F, mean, variance = T[few], F[few], mean[few], variance[few]
            combiner = Combiner()
            p = combiner.cross_fit(T, F, mean, variance, folds[few])
        nothing = ErrorRateBound.nothing()
        found = cls(covariance.bare(), combiner, nothing, number, cutoffs, rates)
        if isinstance(threshold, str):  # "f1"
            best = best_f1_thresholds(p - 0.5, T, min_positives=ENOUGH)
            found = replace(found, cutoffs=cutoffs + best)
        positive = found.decide(mean, p)
        bound = ErrorRateBound.fit(np.where(positive, p, 1 - p), positive, T)
        return replace(found, error_rates=bound)

    def predict(self, T: NDArray[Any], F: Floats) -> tuple[Floats, Floats]:
        """Mean and probability of every entry, given the *other* known labels of its row."""
        mean, variance = condition(self.covariance, T, F)
        return mean, self.combiner.predict(T, F, mean, variance)

    def decide(self, mean: Floats, p: Floats) -> NDArray[np.bool_]:
        """Whether an entry is positive."""
        if self.threshold is not None:
            return np.asarray(mean > self.threshold)
        return np.where(np.isnan(self.cutoffs), mean > 0, p > self.cutoffs)
