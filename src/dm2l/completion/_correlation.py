"""Label correlation: residual covariance, and the probabilities and error rates based on it."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from dm2l.completion._calibration import best_f1_thresholds
from dm2l.completion._covariance import (
    FOLDS,
    WORK,
    Floats,
    LabelCovariance,
    conditional_moments,
    out_of_fold_moments,
    quick_covariance,
    row_blocks,
)
from dm2l.completion._errors import ErrorRateBound
from dm2l.labels._entries import Signs

# Rows for probabilities, which have a few weights a label; fewer with many labels.
MOST_ROWS, FEWEST_ROWS = 2000, 500
# A covariance overfits its rows: probabilities are learnt in folds of rows unless there are so many
# rows for each label (benchmarks/completion.py).
PLENTY = 50
# Examples of either class that a label's probabilities need to be trusted with decisions.
ENOUGH = 5
# Penalty on the difference of a label's weights of its scores from those of all labels together.
OWN_PENALTY = 10.0
# Penalty on the weights of other labels' signs (benchmarks/completion.py).
LABEL_PENALTY = 30.0
ROUNDS = 30
HALVINGS = 8
# In units of the log-likelihood of a label.
TOL = 1e-2
# The signs of c labels cost n c^3 a round, more than anything else here.
MAX_LABELS = 64
SCORES = 4


@dataclass(frozen=True)
class LabelCorrelation:
    """Covariance of the residuals of all labels, and what is learnt from it.

    Conditional means decide, with ``threshold``, or probabilities, with ``cutoffs`` (NaN: too few
    examples of a class, so means decide). ``rates`` are those of labels with one class observed.
    """

    covariance: LabelCovariance
    combiner: Combiner
    error_rates: ErrorRateBound
    threshold: float | None
    cutoffs: Floats
    rates: Floats

    @classmethod
    def fit(
        cls, T: Signs, F: Floats, threshold: Any = None, order: NDArray[np.intp] | None = None
    ) -> Self:
        """Learn from signs and held-out scores (or NaN), sampling rows in a random ``order``."""
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
        covariance, combiner = quick_covariance(T, F), Combiner()
        most = int(np.clip(WORK / T.shape[1] ** 3, FEWEST_ROWS, MOST_ROWS))
        if len(T) > max(1.5 * most, PLENTY * T.shape[1]):
            first, second = slice(0, most), slice(most, 2 * most)
            moments = conditional_moments(covariance, T[first], F[first])
            combiner.fit(T[first], F[first], *moments)
            T, F = T[second], F[second]
            mean, variance = conditional_moments(covariance, T, F)
            p = combiner.predict(T, F, mean, variance)
        else:
            folds = np.arange(len(T)) % FOLDS
            mean, variance = out_of_fold_moments(T, F, folds)
            few = slice(0, FOLDS * most // (FOLDS - 1))
            T, F, mean, variance = T[few], F[few], mean[few], variance[few]
            p = combiner.cross_fit(T, F, mean, variance, folds=folds[few])
        nothing = np.zeros((2, 0))
        bound = ErrorRateBound(np.zeros(2, dtype=np.int64), nothing, nothing.astype(np.int64))
        found = cls(covariance, combiner, bound, number, cutoffs, rates)
        if isinstance(threshold, str):  # "f1"
            best = best_f1_thresholds(p - 0.5, T, min_positives=ENOUGH)
            found = replace(found, cutoffs=cutoffs + best)
        positive = found.decide(mean, p)
        bound = ErrorRateBound.fit(np.where(positive, p, 1 - p), positive, T)
        return replace(found, error_rates=bound)

    def predict(self, T: NDArray[Any], F: Floats) -> tuple[Floats, Floats]:
        """Mean and probability of every entry, given the *other* known labels of its row."""
        mean, variance = conditional_moments(self.covariance, T, F)
        return mean, self.combiner.predict(T, F, mean, variance)

    def decide(self, mean: Floats, p: Floats) -> NDArray[np.bool_]:
        """Whether an entry is positive."""
        if self.threshold is not None:
            return np.asarray(mean > self.threshold)
        return np.where(np.isnan(self.cutoffs), mean > 0, p > self.cutoffs)


class Combiner:
    r"""One logistic model a label, of its scores and of the signs of the row's other labels.

    The inputs are :math:`((f - \bar f)/s,\; (m - \bar f)/s,\; 1/s)` with the score f of the
    features, its mean over the label's known entries, mean m and standard deviation s given the
    other labels, and the signs of the other labels, 0 where missing. The first three calibrate; the
    signs, with a large penalty, model what a Gaussian cannot, such as labels that are not missing
    at random. Weights of the scores are shrunk to those of one model of all labels. With more than
    64 labels, or ``labels=False``, signs are no inputs. The ``inputs`` of all methods are the
    arrays f, m and :math:`s^2`, each (n, c) as the signs ``T``, of entries scored as if missing.
    """

    weights_: Floats
    with_labels_: bool

    def __init__(self, labels: bool = True) -> None:
        self.labels = labels

    def fit(self, T: Signs, *inputs: Floats) -> Self:
        """Fit to the known entries."""
        self._scale(T, *inputs)
        self._learn(T, *inputs)
        return self

    def cross_fit(self, T: Signs, *inputs: Floats, folds: NDArray[np.intp]) -> Floats:
        """Probabilities by models without each fold of rows; keeps the mean of their weights."""
        self._scale(T, *inputs)
        p, weights = np.empty(T.shape), []
        for k in range(int(folds.max(initial=0)) + 1):
            rest, here, part = folds != k, folds == k, copy(self)
            part._learn(T[rest], *(values[rest] for values in inputs))
            p[here] = part.predict(T[here], *(values[here] for values in inputs))
            weights.append(part.weights_)
        self.with_labels_, self.weights_ = part.with_labels_, np.mean(weights, axis=0)
        return p

    def predict(self, T: Signs, *inputs: Floats) -> Floats:
        """Probability of every entry; known ones as if they were missing."""
        return np.asarray(expit(self._margins(T.astype(np.float64), self._standardised(*inputs))))

    def _scale(self, T: Signs, *inputs: Floats) -> None:
        known = T != 0
        weight = known / np.maximum(known.sum(axis=0), 1)
        self.middle_ = np.sum(weight * inputs[0], axis=0)
        scores = self._scores(*inputs)
        self.centre_ = np.sum(weight * scores, axis=1)
        square = np.sum(weight * scores * scores, axis=1)
        spread = np.maximum(square - self.centre_**2, 0.0)
        self.scale_ = np.where(spread > 1e-12, 1 / np.sqrt(spread + 1e-300), 0.0)

    def _learn(self, T: Signs, *inputs: Floats) -> None:
        signs, Z, c = T.astype(np.float64), self._standardised(*inputs), T.shape[1]
        # One model of all labels, each with an intercept of its own rate, then one a label.
        self.with_labels_, self.weights_ = False, np.zeros((c, SCORES))
        self.weights_[:, 0] = np.log(((T > 0).sum(axis=0) + 0.5) / ((T < 0).sum(axis=0) + 0.5))
        penalty = np.array([1e-3, 1.0, 1.0, 1.0])
        self._descend(signs, Z, penalty, np.zeros((c, SCORES)), together=True)
        self.with_labels_ = self.labels and 1 < c <= MAX_LABELS
        extra = c if self.with_labels_ else 0
        self.weights_ = np.pad(self.weights_, ((0, 0), (0, extra)))
        goal = self.weights_.copy()
        goal[:, 0] = 0.0
        penalty = np.array([1e-3, *[OWN_PENALTY] * (SCORES - 1), *[LABEL_PENALTY] * extra])
        self._descend(signs, Z, penalty, goal, together=False)

    def _scores(self, F: Floats, mean: Floats, variance: Floats) -> Floats:
        # From the middle of the label's scores: those of a rare label are all near -1, and divided
        # by s they would be little else than 1/s.
        inverse = 1.0 / np.sqrt(variance)
        scores = (F - self.middle_) * inverse, (mean - self.middle_) * inverse, inverse
        return np.stack(scores)

    def _standardised(self, *inputs: Floats) -> Floats:
        scores = self._scores(*inputs)
        return (scores - self.centre_[:, None]) * self.scale_[:, None]

    def _margins(self, T: Floats, Z: Floats) -> Floats:
        W = self.weights_
        eta = W[:, 0] + Z[0] * W[:, 1] + Z[1] * W[:, 2] + Z[2] * W[:, 3]
        # The weight of a label in its own model is zero.
        return eta + T @ W[:, SCORES:].T if self.with_labels_ else eta

    def _loss(self, T: Floats, eta: Floats, penalty: Floats, goal: Floats) -> Floats:
        fit = np.sum(log_expit(T * eta), axis=0, where=T != 0)
        return 0.5 * (self.weights_ - goal) ** 2 @ penalty - fit

    def _descend(
        self, T: Floats, Z: Floats, penalty: Floats, goal: Floats, *, together: bool
    ) -> None:
        """Newton's method for all labels at once; ``together`` they share all but intercepts."""
        eta = self._margins(T, Z)
        loss = self._loss(T, eta, penalty, goal)
        for _ in range(ROUNDS):
            H, g = self._curvature(T, Z, eta)
            g -= penalty * (self.weights_ - goal)
            H[:, np.arange(len(penalty)), np.arange(len(penalty))] += penalty
            if self.with_labels_:  # the sign of a label is no input of its own model
                own = np.arange(len(g))
                g[own, SCORES + own] = 0.0
                H[own, SCORES + own, :] = 0.0
                H[own, :, SCORES + own] = 0.0
                H[own, SCORES + own, SCORES + own] = 1.0
            step = _shared_step(H, g) if together else np.linalg.solve(H, g[:, :, None])[:, :, 0]
            start, before = self.weights_, loss
            # A full step can overshoot where a label is rare: shorten it where things got worse.
            for _ in range(HALVINGS):
                self.weights_ = start + step
                eta = self._margins(T, Z)
                loss = self._loss(T, eta, penalty, goal)
                worse = loss > before + 1e-9
                if together:
                    worse[:] = loss.sum() > before.sum() + 1e-9
                if not worse.any():
                    break
                step[worse] *= 0.25
            gain = before - loss
            if (gain.sum() if together else gain.max(initial=0.0)) < TOL:
                break

    def _curvature(self, T: Floats, Z: Floats, eta: Floats) -> tuple[Floats, Floats]:
        c, p = self.weights_.shape
        H, g = np.zeros((c, p, p)), np.zeros((c, p))
        probability = expit(eta)
        error = np.where(T != 0, (T > 0) - probability, 0.0)
        curve = np.where(T != 0, probability * (1 - probability), 0.0)
        weighted = [curve, *[curve * z for z in Z]]
        g[:, 0], H[:, 0, 0] = error.sum(axis=0), curve.sum(axis=0)
        for a, z in enumerate(Z, start=1):
            g[:, a] = np.einsum("nc,nc->c", error, z)
            for b in range(a + 1):
                H[:, a, b] = H[:, b, a] = np.einsum("nc,nc->c", weighted[b], z)
        if self.with_labels_:
            g[:, SCORES:] = error.T @ T
            for a, w in enumerate(weighted):
                H[:, a, SCORES:] = H[:, SCORES:, a] = w.T @ T
            for rows in row_blocks(len(T), 8.0 * c * c):
                t = T[rows]
                pairs = (t[:, :, None] * t[:, None, :]).reshape(len(t), -1)
                H[:, SCORES:, SCORES:] += (curve[rows].T @ pairs).reshape(c, c, c)
        return H, g


def _shared_step(H: Floats, g: Floats) -> Floats:
    """Newton step with one intercept a label and common slopes (the intercepts eliminated)."""
    across = H[:, 0, 1:] / H[:, 0, :1]
    slopes = np.linalg.solve(
        (H[:, 1:, 1:] - across[:, :, None] * H[:, :1, 1:]).sum(axis=0),
        (g[:, 1:] - across * g[:, :1]).sum(axis=0),
    )
    step = np.empty_like(g)
    step[:, 0] = g[:, 0] / H[:, 0, 0] - across @ slopes
    step[:, 1:] = slopes
    return step
