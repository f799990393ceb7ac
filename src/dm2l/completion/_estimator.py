"""What a fitted estimator keeps of the coupling, and what it does with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dm2l.completion._calibration import best_f1_thresholds
from dm2l.completion._combine import Combiner
from dm2l.completion._condition import condition, residuals
from dm2l.completion._covariance import LabelCovariance
from dm2l.completion._error_rate import ErrorRateBound
from dm2l.completion._fit import FOLDS, WORK, quick_covariance, unseen_means
from dm2l.completion._rows import TrainingRows

Floats = NDArray[np.float64]

# Probabilities have a few weights a label: more rows cost time and gain little. With many labels a
# row costs much, and has much to say.
MOST_ROWS, FEWEST_ROWS = 2000, 500
# The covariance is too good on the rows that it was fitted to, the more so the more labels there
# are: bibtex, 1,000 rows, 70 % observed, has an AUC of holes of 0.81 if probabilities are learnt on
# these rows, and 0.87 by folds of rows. So many rows a label do without folds.
PLENTY = 50
# Examples of either class that a label's probabilities need to be trusted with decisions.
ENOUGH = 5


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
        What the probability must exceed where ``threshold`` is None; NaN for labels with too few
        examples of a class to say, whose conditional means decide.
    rates : ndarray of shape (n_labels,)
        Share of positives, all that is known of a label of which one class was never seen.
    rows : TrainingRows or None
        Honest scores of training rows, where the model's own are too good.
    """

    covariance: LabelCovariance
    combiner: Combiner
    promise: ErrorRateBound
    threshold: float | None
    borders: Floats
    rates: Floats
    rows: TrainingRows | None = None

    @classmethod
    def fit(
        cls,
        T: NDArray[Any],
        F: Floats,
        threshold: Any = None,
        order: NDArray[np.intp] | None = None,
        rows: TrainingRows | None = None,
    ) -> Self:
        """Couple labels by the honest scores of their known entries.

        Parameters
        ----------
        T : ndarray of shape (n, c)
            Signs, 0 where missing.
        F : ndarray of shape (n, c)
            Scores; of known entries from a model that did not see them, NaN where there is none.
        threshold : None, float or "f1", default=None
            The estimator's.
        order : ndarray of shape (n,), default=None
            In which rows are gone through, one that means nothing, such as :func:`row_order`.
        rows : TrainingRows, default=None
            What is to be remembered of them.
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
        borders = np.where(rarer < ENOUGH, np.nan, 0.5)
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
            mean, variance = unseen_means(T, F, folds)
            few = slice(0, FOLDS * most // (FOLDS - 1))
            T, F, mean, variance = T[few], F[few], mean[few], variance[few]
            combiner = Combiner()
            p = combiner.cross_fit(T, F, mean, variance, folds[few])
        found = cls(
            covariance.bare(), combiner, ErrorRateBound.nothing(), number, borders, rates, rows
        )
        if isinstance(threshold, str):  # "f1"
            best = best_f1_thresholds(p - 0.5, T, min_positives=ENOUGH)
            found = replace(found, borders=borders + best)
        positive = found.decide(mean, p)
        return replace(found, promise=ErrorRateBound.fit(np.where(positive, p, 1 - p), positive, T))

    def believe(self, T: NDArray[Any], F: Floats) -> tuple[Floats, Floats]:
        """Conditional mean and probability of every entry, a known one as if it were a hole."""
        mean, variance = condition(self.covariance, T, F)
        return mean, self.combiner.predict(T, F, mean, variance)

    def decide(self, mean: Floats, p: Floats) -> NDArray[np.bool_]:
        """Whether an entry is filled with a yes."""
        if self.threshold is not None:
            return np.asarray(mean > self.threshold)
        return np.where(np.isnan(self.borders), mean > 0, p > self.borders)
