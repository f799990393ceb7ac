"""Probabilities of a row's labels, from calibration curves fitted without that row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from dm2l.labels._entries import Signs
from dm2l.metrics._rates import Array

FOLDS = 5
# Standard deviations of a label's intercept and slope around those of all labels.
SPREAD = np.array([2.0, 1.0])


def cross_fitted_probabilities(T: Signs, S: Array, weights: Array) -> Array:
    """A logistic curve per label, shrunk to the curve of all labels, cross-fitted over rows.

    Curves of each fifth of the rows are fitted to the other rows, so that a row's own labels do
    not influence its probabilities.
    """
    largest = np.abs(S).max(initial=0.0)
    S = S / largest if largest > 0 else S  # squares of large numbers are none
    spread = S.std()
    Z = (S - S.mean(axis=0)) / (spread if spread > 0 else 1.0)
    W = np.where(T != 0, weights, 0.0)
    W *= np.count_nonzero(T) / max(W.sum(), 1e-300)
    yes = (T > 0).astype(np.float64)
    overall = (W * yes).sum() / max(W.sum(), 1e-300)
    share = ((W * yes).sum(axis=0) + overall + 1e-3) / (W.sum(axis=0) + 1.0 + 2e-3)
    # Missing entries have weight 0: keep the observed ones of each label, padded to equal length.
    seen = W > 0
    most = int(seen.sum(axis=0).max(initial=0))
    rows = np.argsort(~seen, axis=0, kind="stable")[:most]
    near, W, yes = (np.take_along_axis(part, rows, axis=0).T.copy() for part in (Z, W, yes))
    curves = np.stack([logit(share), np.ones(T.shape[1])])
    curves = _newton(curves, near, W, yes, steps=10)
    result = np.empty_like(Z)
    for fold in range(FOLDS):
        others = W * (fold != rows.T % FOLDS)
        own = _newton(curves, near, others, yes, steps=3)
        result[fold::FOLDS] = _expit(own[0] + own[1] * Z[fold::FOLDS])
    return np.clip(result, 1e-4, 1 - 1e-4)


def _expit(x: Array) -> Array:
    """The logistic curve, three times as fast as scipy's; absolute digits matter."""
    return 0.5 + 0.5 * np.tanh(0.5 * x)


def _newton(curves: Array, Z: Array, W: Array, yes: Array, steps: int) -> Array:
    """Newton steps for all labels at once; the entries of a label are a row."""
    total = W.sum(axis=1) + 1e-9
    prior = (1 / SPREAD**2)[:, None]
    powers = np.stack([np.ones_like(Z), Z, Z * Z], axis=2)
    for _ in range(steps):
        middle = (curves @ total)[:, None] / total.sum()
        P = _expit(curves[0][:, None] + curves[1][:, None] * Z)
        off = W * (yes - P)
        P *= 1 - P
        P *= W
        # The sums over entries, and over these times scores and their squares.
        slope = (off[:, None, :] @ powers)[:, 0, :2].T - prior * (curves - middle)
        a, b, d = (P[:, None, :] @ powers)[:, 0, :].T
        a, d = a + prior[0], d + prior[1]
        step = np.stack([d * slope[0] - b * slope[1], a * slope[1] - b * slope[0]])
        # Steps are bounded: they diverge where scores separate the classes.
        curves = curves + np.clip(step / (a * d - b * b), -1.0, 1.0)
    return curves


def standard_error(shares: NDArray[np.float64]) -> float:
    """Of a sum of what rows, drawn one by one, add to an error (the linear jackknife)."""
    n = len(shares)
    return float(np.sqrt((shares**2).sum() * n / (n - 1))) if n > 1 else float("nan")
