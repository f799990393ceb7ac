"""From features and the row's other labels to a probability."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dm2l.coupling._patterns import row_blocks

# Of a standardised score; keeps curves finite where scores separate the classes.
SCORE_PENALTY = 1.0
# Of another label's sign. Choosing among 10, 30, 100 and leaving the signs out, label by label and
# by cross-validation, gave the same AUC to 0.003 on emotions, yeast, scene, Arts and Tox21.
LABEL_PENALTY = 30.0
ROUNDS = 30
HALVINGS = 12
# In units of the log-likelihood of a label: far below what the data can tell.
TOL = 1e-3
MAX_LABELS = 64


class Combiner:
    r"""One logistic model a label on its scores and on the signs of the row's other labels.

    The inputs are :math:`(f/s,\; m/s,\; 1/s)` with the score f of the features, mean m and
    standard deviation s given the other labels, and, lightly trusted, the signs of the other
    labels with 0 for a hole. The first three calibrate; the signs carry what the Gaussian cannot,
    such as holes that are not there at random (assays that were not run).

    It is fitted on known entries, each of which must have been scored as if it had been a hole
    (:func:`condition`), and the sign of a label is never an input of its own model.

    Parameters
    ----------
    labels : bool, default=True
        Whether the other labels' signs are inputs. With more than 64 labels they are not.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.coupling import Combiner
    >>> T = np.array([[1, -1], [1, 1], [-1, -1], [-1, 1], [1, 0]])
    >>> F = 0.5 * T
    >>> p = Combiner().fit(T, F, F, np.ones(F.shape)).predict(T, F, F, np.ones(F.shape))
    >>> (p[:4] > 0.5) == (T[:4] > 0)
    array([[ True,  True],
           [ True,  True],
           [ True,  True],
           [ True,  True]])
    """

    def __init__(self, labels: bool = True) -> None:
        self.labels = labels

    def fit(
        self, T: NDArray[Any], F: NDArray[Any], mean: NDArray[Any], variance: NDArray[Any]
    ) -> Combiner:
        """Fit to the known entries of ``T`` (signs, 0 = hole), all arguments (n, c)."""
        known = T != 0
        c = T.shape[1]
        Z = self._scores(F, mean, variance)
        weight = known / np.maximum(known.sum(axis=0), 1)
        self.centre_ = np.einsum("nc,ncs->cs", weight, Z)
        spread = np.einsum("nc,ncs->cs", weight, Z * Z) - self.centre_**2
        self.scale_ = np.where(spread > 1e-12, 1 / np.sqrt(np.maximum(spread, 1e-12)), 0.0)
        self.with_labels_ = self.labels and 1 < c <= MAX_LABELS
        p = 4 + (c if self.with_labels_ else 0)
        penalty = np.full(p, LABEL_PENALTY)
        penalty[:4] = [1e-3, *[SCORE_PENALTY] * 3]
        self.weights_ = np.zeros((c, p))
        self.weights_[:, 0] = self._prior(T)
        signs, inputs = T.astype(np.float64), self._inputs(Z)
        loss = self._loss(signs, inputs, penalty)
        for _ in range(ROUNDS):
            step, before = self._newton(signs, inputs, penalty), loss
            start = self.weights_
            # A full step can overshoot where a label is rare: halve it for labels that got worse.
            for _ in range(HALVINGS):
                self.weights_ = start + step
                loss = self._loss(signs, inputs, penalty)
                worse = loss > before
                if not worse.any():
                    break
                step[worse] *= 0.25
            if (before - loss).max(initial=0.0) < TOL:
                break
        return self

    def _loss(
        self, T: NDArray[Any], inputs: NDArray[Any], penalty: NDArray[Any]
    ) -> NDArray[np.float64]:
        margins = np.logaddexp(0.0, -T * self._margins(T, inputs))
        return np.sum(margins, axis=0, where=T != 0) + 0.5 * self.weights_**2 @ penalty

    @staticmethod
    def _prior(T: NDArray[Any]) -> NDArray[np.float64]:
        return np.log(((T > 0).sum(axis=0) + 0.5) / ((T < 0).sum(axis=0) + 0.5))

    @staticmethod
    def _scores(F: NDArray[Any], mean: NDArray[Any], variance: NDArray[Any]) -> NDArray[np.float64]:
        inverse = 1.0 / np.sqrt(variance)
        return np.stack([F * inverse, mean * inverse, inverse], axis=2)

    def _inputs(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        ready = (Z - self.centre_) * self.scale_
        return np.concatenate([np.ones((*Z.shape[:2], 1)), ready], axis=2)

    def _margins(self, T: NDArray[Any], inputs: NDArray[np.float64]) -> NDArray[np.float64]:
        eta = np.einsum("ncs,cs->nc", inputs, self.weights_[:, :4])
        # The weight of a label in its own model is zero, see _newton.
        return eta + T @ self.weights_[:, 4:].T if self.with_labels_ else eta

    def _newton(
        self, T: NDArray[Any], inputs: NDArray[Any], penalty: NDArray[Any]
    ) -> NDArray[np.float64]:
        """One step for all labels at once."""
        c, p = self.weights_.shape
        H, g = np.zeros((c, p, p)), np.zeros((c, p))
        for rows in row_blocks(len(T), 8.0 * (c * c + 40 * c), 2.0**26):
            t, z = T[rows], inputs[rows]
            probability = expit(self._margins(t, z))
            error = np.where(t != 0, (t > 0) - probability, 0.0)
            curve = np.where(t != 0, probability * (1 - probability), 0.0)
            g[:, :4] += np.einsum("nc,ncs->cs", error, z)
            weighted = curve[:, :, None] * z
            H[:, :4, :4] += weighted.transpose(1, 2, 0) @ z.transpose(1, 0, 2)
            if self.with_labels_:
                g[:, 4:] += error.T @ t
                across = weighted.transpose(1, 2, 0) @ t
                H[:, :4, 4:] += across
                H[:, 4:, :4] += across.transpose(0, 2, 1)
                pairs = (t[:, :, None] * t[:, None, :]).reshape(len(t), -1)
                H[:, 4:, 4:] += (curve.T @ pairs).reshape(c, c, c)
        g -= penalty * self.weights_
        H[:, np.arange(p), np.arange(p)] += penalty
        if self.with_labels_:
            own = np.arange(c)
            g[own, 4 + own] = 0.0
            H[own, 4 + own, :] = 0.0
            H[own, :, 4 + own] = 0.0
            H[own, 4 + own, 4 + own] = 1.0
        step: NDArray[np.float64] = np.linalg.solve(H, g[:, :, None])[:, :, 0]
        return step

    def predict(
        self, T: NDArray[Any], F: NDArray[Any], mean: NDArray[Any], variance: NDArray[Any]
    ) -> NDArray[np.float64]:
        """Probability of every entry; that of a known one is as if it had been a hole."""
        inputs = self._inputs(self._scores(F, mean, variance))
        probability: NDArray[np.float64] = expit(self._margins(T.astype(np.float64), inputs))
        return probability
