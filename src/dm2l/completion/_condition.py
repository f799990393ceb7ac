"""Means and variances of every entry of a row, given the row's other known labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from dm2l._utils.arrays import asarray_like, namespace, take_rows, to_numpy
from dm2l.completion._covariance import MEMORY, LabelCovariance
from dm2l.completion._patterns import Index, known_signs, row_blocks

Scores = Callable[[Index], Any]


def condition(
    covariance: LabelCovariance,
    T: Any,
    F: Any,
    *,
    entries: tuple[Index, Index] | None = None,
    memory: float = MEMORY,
) -> tuple[Any, Any]:
    """Mean and variance of each label given the features and the *other* known labels of its row.

    A missing entry is conditioned on all known labels of its row. A known entry is scored as if
    it were missing: its own label is left out (in closed form).
    """
    n, c = T.shape
    rows = np.arange(n) if entries is None else np.unique(entries[0])
    means, variances = [], []
    for block in row_blocks(len(rows), 8.0 * 12 * c, memory / 2):
        here = rows[block]
        f = F(here) if callable(F) else take_rows(F, here)
        xp = namespace(f)
        t, known = known_signs(T, here, f)
        at = asarray_like(known, f)
        shift, variance = covariance.shifts(xp.where(at, t - f, 0.0 * f), known, memory / 2)
        mean = xp.where(at, t, f) + shift
        if entries is not None:
            inside = np.flatnonzero((entries[0] >= here[0]) & (entries[0] <= here[-1]))
            flat = np.searchsorted(here, entries[0][inside]) * c + entries[1][inside]
            mean = xp.take(xp.reshape(mean, (-1,)), asarray_like(flat, f))
            variance = xp.take(xp.reshape(variance, (-1,)), asarray_like(flat, f))
            means.append((inside, mean))
            variances.append((inside, variance))
        else:
            means.append((here, mean))
            variances.append((here, variance))
    if not means:
        empty = np.zeros((0, c) if entries is None else 0)
        return empty, empty.copy()
    return _join(means), _join(variances)


def _join(parts: list[tuple[Index, Any]]) -> Any:
    xp = namespace(parts[0][1])
    back = np.argsort(np.concatenate([where for where, _ in parts]), kind="stable")
    joined = xp.concat([values for _, values in parts])
    return joined if len(parts) == 1 and (np.diff(back) == 1).all() else take_rows(joined, back)


def residuals(T: Any, F: Any) -> tuple[Any, Any]:
    """Residuals ``t - f``, zero at missing entries, and where entries are known."""
    if sp.issparse(T):
        T = T.toarray()
    known = to_numpy(T) != 0
    xp = namespace(F)
    at = asarray_like(known, F)
    return xp.where(at, asarray_like(to_numpy(T).astype(np.float64), F) - F, 0.0 * F), known
