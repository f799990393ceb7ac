"""The descent of the released code, with its deviations from the paper as options.

This implementation is independent of dm2l and uses only singular value decompositions. With the
subgradient of Algorithm 2, thin factors and groups of observed positives, the descent takes the
same steps as ``DM2LClassifier.published()``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import line_search

Array = NDArray[np.float64]
Norm = Callable[[Array], tuple[float, Array]]

DELTA = 0.005  # threshold of Algorithm 2


def algorithm_2(Z: Array, full: bool = False) -> tuple[float, Array]:
    """Return the nuclear norm and its subgradient ``U1 V1'``; ``full`` computes an n x n ``U``."""
    U, s, Vt = np.linalg.svd(Z, full_matrices=full)
    kept = int((s > DELTA).sum())
    return float(s.sum()), U[:, :kept] @ Vt[:kept]


def released_product(Z: Array, signs: np.random.Generator | None = None) -> tuple[float, Array]:
    """Return the nuclear norm, and the product that the released code uses as its subgradient.

    For ``Z = U S V'``, this product multiplies the first s columns of ``U`` by the first s *rows*
    of ``V``. ``signs`` flips the signs of random pairs of singular vectors, which gives an equally
    valid decomposition.
    """
    U, s, Vt = np.linalg.svd(Z, full_matrices=len(Z) < Z.shape[1])  # V must be square
    V = Vt.T
    kept = int((s > DELTA).sum())
    if signs is not None:
        turned = signs.choice([-1.0, 1.0], size=V.shape[1])
        U, V = U * turned[: U.shape[1]], V * turned
    return float(s.sum()), U[:, :kept] @ V[:kept]


class Surrogate:
    """The convex surrogate of Algorithm 1, for weights as a vector.

    Parameters
    ----------
    Phi : ndarray of shape (n, d)
        Features, or a kernel matrix.
    T : ndarray of shape (n, c)
        Labels -1 and +1; 0 is a missing label.
    members : ndarray of bool of shape (n, c)
        Members of the groups ``X_k``: the observed positives or, as in the released code, all
        positives of the training labels, including hidden ones.
    lambda_d : float
        Weight of the nuclear norms.
    norm : callable
        Function that returns the nuclear norm of a matrix and a subgradient.
    """

    def __init__(
        self, Phi: Array, T: Array, members: Any, lambda_d: float, norm: Norm = algorithm_2
    ) -> None:
        self.Phi, self.T, self.lambda_d, self.norm = Phi, T, lambda_d, norm
        self.groups = [np.flatnonzero(column) for column in members.T if column.any()]
        self.shape = (Phi.shape[1], T.shape[1])
        self.linearize(self.start())

    def start(self) -> Array:
        return np.eye(*self.shape).ravel()

    def linearize(self, w: Array) -> None:
        """Replace the global norm by its tangent at the weights ``w``."""
        self._tangent = self.norm(self.Phi @ w.reshape(self.shape))[1]
        self._at: Array | None = None

    def both(self, w: Array) -> tuple[float, Array]:
        """Return value and gradient; both are cached, as a line search needs them separately."""
        if self._at is None or not np.array_equal(w, self._at):
            F = self.Phi @ w.reshape(self.shape)
            G = np.where(self.T != 0, F - self.T, 0.0)
            value = 0.5 * np.vdot(G, G) - self.lambda_d * np.vdot(self._tangent, F)
            G -= self.lambda_d * self._tangent
            for rows in self.groups:
                norm, subgradient = self.norm(F[rows])
                value += self.lambda_d * norm
                G[rows] += self.lambda_d * subgradient
            self._at = w.copy()
            self._last = float(value), (self.Phi.T @ G).ravel()
        return self._last

    def value(self, w: Array) -> float:
        return self.both(w)[0]

    def gradient(self, w: Array) -> Array:
        return self.both(w)[1]


def steepest_descent(surrogate: Surrogate, steps: int) -> Iterator[Array]:
    """Yield weights after each step: linearize, then search along the negative gradient."""
    w = surrogate.start()
    for _ in range(steps):
        surrogate.linearize(w)
        value, gradient = surrogate.both(w)
        w = w - _step(surrogate, w, value, gradient) * gradient
        yield w.reshape(surrogate.shape)


def _step(surrogate: Surrogate, w: Array, value: float, gradient: Array) -> float:
    # The search begins at the minimum of the loss alone. scipy computes its first trial from the
    # value before the last step.
    slope = float(gradient @ gradient)
    change = surrogate.Phi @ gradient.reshape(surrogate.shape)
    bend = float(np.sum(np.where(surrogate.T != 0, change, 0.0) ** 2))
    before = value + 0.5 * slope * (slope / bend) / 1.01
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # if no step is found
        step = line_search(
            surrogate.value, surrogate.gradient, w, -gradient, gradient, value, before, c2=0.1
        )[0]
    if step is not None:
        return float(step)
    # With a wrong gradient, no step may satisfy the line search. Accept any lower value instead.
    halves = (0.5**k * slope / bend for k in range(60))
    return next((s for s in halves if surrogate.value(w - s * gradient) < value), 0.0)
