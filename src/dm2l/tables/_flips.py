r"""How far shuffled 0/1 columns move a kernel model, for all columns at once.

A flip of column j changes :math:`k(x, z)` in a way that depends on :math:`x_j` and :math:`z_j`
alone. With the kernel :math:`k_0` after a flip where :math:`z_j` is low and :math:`k_1` where it is
high, and weights w, the score of a row becomes

.. math:: \sum_z w_z k_0(x, z) + \sum_z w_z (k_1 - k_0)(x, z) [z_j \text{ high}],

one product of matrices for all columns. A shuffle flips a row as often as others hold the other
value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l._utils.arrays import to_numpy
from dm2l.tables._options import Tell

Floats = NDArray[np.float64]


def two_valued(classifier: Any, sources: Sequence[str]) -> list[int]:
    """Features of a kernel model with two values that are the only ones of their raw column."""
    Z = classifier.X_fit_
    if classifier.kernel not in ("rbf", "tanimoto") or not isinstance(Z, np.ndarray):
        return []
    low, high = Z.min(axis=0), Z.max(axis=0)
    two = (np.equal(Z, low) | np.equal(Z, high)).all(axis=0)
    if classifier.kernel == "tanimoto":
        two &= np.isin([low, high], (0.0, 1.0)).all(axis=0)
    times = Counter(sources)
    return [i for i, source in enumerate(sources) if two[i] and times[source] == 1]


def by_flipping(
    classifier: Any, X: Floats, bits: list[int], labels: Sequence[int], tell: Tell | None
) -> Floats:
    """Root mean square change of scores by shuffles of each column ``bits``, (labels, bits).

    ``X`` are training rows, ``bits`` what :func:`two_valued` has returned.
    """
    kernel, Z, W = classifier._kernel, classifier.X_fit_, to_numpy(classifier.dual_coef_)
    high = Z[:, bits].max(axis=0)
    up, B = X[:, bits] == high, (Z[:, bits] == high).astype(np.float64)
    often = np.where(up, 1 - up.mean(axis=0), up.mean(axis=0))
    K = kernel(X, Z)
    rbf = classifier.kernel == "rbf"
    steps = [] if rbf else [_tanimoto_steps(X, Z, kernel.gamma, sign) for sign in (1.0, -1.0)]
    # What k is multiplied by where z had the value that x now leaves.
    away = np.exp(-kernel.gamma * (high - Z[:, bits].min(axis=0)) ** 2)
    moved = np.empty((len(labels), len(bits)))
    for j, k in enumerate(labels):
        if tell is not None:
            tell(f"flipping the 0/1 columns for label {j + 1} of {len(labels)}")
        w = W[:, k]
        score = (K @ w)[:, None]
        if rbf:
            ones = (K * w) @ B
            after = away * score + (1 / away - away) * np.where(up, score - ones, ones)
        else:
            set_, cleared = (((K0 @ w)[:, None] + ((K1 - K0) * w) @ B) for K0, K1 in steps)
            after = np.where(up, cleared, set_)
        moved[j] = np.sqrt((often * (after - score) ** 2).mean(axis=0))
    return moved


def _tanimoto_steps(X: Floats, Z: Floats, gamma: float, sign: float) -> tuple[Floats, Floats]:
    """Kernel after a bit of x was set (1) or cleared (-1), where z has it not, and where it has."""
    inner = X @ Z.T
    both = (X * X).sum(axis=1)[:, None] + sign + (Z * Z).sum(axis=1)
    found = []
    for shared in (inner, inner + sign):
        union = both - shared
        empty = union <= 0  # two rows of zeros are alike
        like = np.where(empty, 1.0, shared) / np.where(empty, 1.0, union)
        found.append(np.exp(gamma * (like - 1)))
    return found[0], found[1]
