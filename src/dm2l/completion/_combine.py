"""From features and the row's other labels to a probability."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from dm2l.completion._patterns import row_blocks

Floats = NDArray[np.float64]

# Penalty on the difference of a label's weights of its scores from those of all labels together:
# without it rare labels lose order, with more the log-loss of common ones rises.
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


class Combiner:
    r"""One logistic model a label, of its scores and of the signs of the row's other labels.

    The inputs are :math:`((f - \bar f)/s,\; (m - \bar f)/s,\; 1/s)` with the score f of the
    features, its mean over the label's known entries, mean m and standard deviation s given the
    other labels, and the signs of the other labels, 0 where missing. The first three calibrate; the
    signs, with a large penalty, model what a Gaussian cannot, such as labels that are not missing
    at random. Weights of the scores are shrunk to those of one model of all labels.

    It is fitted to known entries, each scored as if it were missing (:func:`condition`), by a
    covariance that was fitted to other rows; the sign of a label is no input of its own model. With
    more than 64 labels, or ``labels=False``, signs are no inputs.
    """

    weights_: Floats
    with_labels_: bool

    def __init__(self, labels: bool = True) -> None:
        self.labels = labels

    def fit(
        self, T: NDArray[Any], F: NDArray[Any], mean: NDArray[Any], variance: NDArray[Any]
    ) -> Self:
        """Fit to the known entries of ``T`` (signs, 0 where missing), all arguments (n, c)."""
        return self._scale(T, F, mean, variance)._learn(T, F, mean, variance)

    def cross_fit(
        self,
        T: NDArray[Any],
        F: NDArray[Any],
        mean: NDArray[Any],
        variance: NDArray[Any],
        folds: NDArray[np.intp],
    ) -> Floats:
        """Fit once without each fold of rows, and take the mean of the weights.

        Returns the probabilities of all entries by the model that was fitted without their row.
        """
        self._scale(T, F, mean, variance)
        p, weights = np.empty(np.shape(F)), []
        for k in range(int(folds.max(initial=0)) + 1):
            rest, here = folds != k, folds == k
            part = copy(self)._learn(T[rest], F[rest], mean[rest], variance[rest])
            p[here] = part.predict(T[here], F[here], mean[here], variance[here])
            weights.append(part.weights_)
        self.with_labels_, self.weights_ = part.with_labels_, np.mean(weights, axis=0)
        return p

    def _scale(
        self, T: NDArray[Any], F: NDArray[Any], mean: NDArray[Any], variance: NDArray[Any]
    ) -> Self:
        known = T != 0
        weight = known / np.maximum(known.sum(axis=0), 1)
        self.middle_ = np.sum(weight * F, axis=0)
        scores = self._scores(F, mean, variance)
        self.centre_ = np.stack([np.sum(weight * z, axis=0) for z in scores])
        square = np.stack([np.sum(weight * z * z, axis=0) for z in scores])
        spread = np.maximum(square - self.centre_**2, 0.0)
        self.scale_ = np.where(spread > 1e-12, 1 / np.sqrt(spread + 1e-300), 0.0)
        return self

    def _learn(
        self, T: NDArray[Any], F: NDArray[Any], mean: NDArray[Any], variance: NDArray[Any]
    ) -> Self:
        T, c = np.asarray(T, dtype=np.float64), T.shape[1]
        Z = self._standardise(self._scores(F, mean, variance))
        # One model of all labels, each with an intercept of its own rate, then one a label.
        rate = np.log(((T > 0).sum(axis=0) + 0.5) / ((T < 0).sum(axis=0) + 0.5))
        self.with_labels_ = False
        self.weights_ = np.zeros((c, SCORES))
        self.weights_[:, 0] = rate
        self._descend(T, Z, np.array([1e-3, 1.0, 1.0, 1.0]), self.weights_ * 0.0, together=True)
        self.with_labels_ = self.labels and 1 < c <= MAX_LABELS
        extra = c if self.with_labels_ else 0
        self.weights_ = np.pad(self.weights_, ((0, 0), (0, extra)))
        held = self.weights_.copy()
        held[:, 0] = 0.0
        penalty = np.array([1e-3, *[OWN_PENALTY] * (SCORES - 1), *[LABEL_PENALTY] * extra])
        self._descend(T, Z, penalty, held, together=False)
        return self

    def predict(
        self, T: NDArray[Any], F: NDArray[Any], mean: NDArray[Any], variance: NDArray[Any]
    ) -> Floats:
        """Probability of every entry; known ones as if they were missing."""
        Z = self._standardise(self._scores(F, mean, variance))
        probability: Floats = expit(self._margins(np.asarray(T, dtype=np.float64), Z))
        return probability

    def _scores(self, F: NDArray[Any], mean: NDArray[Any], variance: NDArray[Any]) -> list[Floats]:
        # From the middle of the label's scores: those of a rare label are all near -1, and divided
        # by s they would be little else than 1/s.
        inverse = 1.0 / np.sqrt(variance)
        return [(F - self.middle_) * inverse, (mean - self.middle_) * inverse, inverse]

    def _standardise(self, scores: list[Floats]) -> list[Floats]:
        ready = zip(scores, self.centre_, self.scale_, strict=True)
        return [(z - centre) * scale for z, centre, scale in ready]

    def _margins(self, T: Floats, Z: list[Floats]) -> Floats:
        W = self.weights_
        eta = W[:, 0] + Z[0] * W[:, 1] + Z[1] * W[:, 2] + Z[2] * W[:, 3]
        # The weight of a label in its own model is zero.
        return eta + T @ W[:, SCORES:].T if self.with_labels_ else eta

    def _loss(self, T: Floats, eta: Floats, penalty: Floats, held: Floats) -> Floats:
        fit = np.sum(log_expit(T * eta), axis=0, where=T != 0)
        return 0.5 * (self.weights_ - held) ** 2 @ penalty - fit

    def _descend(
        self, T: Floats, Z: list[Floats], penalty: Floats, held: Floats, *, together: bool
    ) -> None:
        """Newton's method for all labels at once; ``together`` they share all but intercepts."""
        eta = self._margins(T, Z)
        loss = self._loss(T, eta, penalty, held)
        for _ in range(ROUNDS):
            H, g = self._curvature(T, Z, eta)
            g -= penalty * (self.weights_ - held)
            H[:, np.arange(len(penalty)), np.arange(len(penalty))] += penalty
            step = _shared_step(H, g) if together else self._own_step(H, g)
            start, before = self.weights_, loss
            # A full step can overshoot where a label is rare: shorten it where things got worse.
            for _ in range(HALVINGS):
                self.weights_ = start + step
                eta = self._margins(T, Z)
                loss = self._loss(T, eta, penalty, held)
                worse = loss > before + 1e-9
                if together:
                    worse[:] = loss.sum() > before.sum() + 1e-9
                if not worse.any():
                    break
                step[worse] *= 0.25
            gain = before - loss
            if (gain.sum() if together else gain.max(initial=0.0)) < TOL:
                break

    def _curvature(self, T: Floats, Z: list[Floats], eta: Floats) -> tuple[Floats, Floats]:
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
            for rows in row_blocks(len(T), 8.0 * c * c, 2.0**26):
                t = T[rows]
                pairs = (t[:, :, None] * t[:, None, :]).reshape(len(t), -1)
                H[:, SCORES:, SCORES:] += (curve[rows].T @ pairs).reshape(c, c, c)
        return H, g

    def _own_step(self, H: Floats, g: Floats) -> Floats:
        if self.with_labels_:
            own = np.arange(len(g))
            g[own, SCORES + own] = 0.0
            H[own, SCORES + own, :] = 0.0
            H[own, :, SCORES + own] = 0.0
            H[own, SCORES + own, SCORES + own] = 1.0
        return np.asarray(np.linalg.solve(H, g[:, :, None])[:, :, 0], dtype=np.float64)


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
