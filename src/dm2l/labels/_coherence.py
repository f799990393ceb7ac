r"""Probabilities and decisions that obey rules between labels.

Probabilities :math:`p` are projected onto the set of probabilities that obey all rules,

.. math:: \min_x \|x - p\|^2 \quad\text{with}\quad x_{\text{child}} \le x_{\text{parent}},
          \quad \sum_{j \in G} x_j \le 1 \;\text{(or} = 1), \quad x \ge 0,

and with :math:`x_j = 0` or :math:`1` for known labels. All rows are projected at once. There are
exact projections for a group G and for a forest, in which each label has at most one parent.
Dykstra's method combines these projections into the projection for all rules.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l.labels._entries import Floats, Mask, Signs

# Known labels become -1000 or 1000, so that averages with other numbers are clipped to 0 or 1, too.
_FAR = 1e3
# Tolerance for violated rules, tolerance for the convergence of Dykstra's method, and its limit.
SLACK, _TOL, _MOST_ROUNDS = 1e-9, 1e-10, 5000
_LONGEST = 1.0  # time limit in seconds for one row, as overlapping groups can take very long


class Forest:
    """Implications in which each label has at most one parent; labels are sorted in preorder."""

    def __init__(self, parents: dict[int, int]) -> None:
        children: dict[int, list[int]] = {}
        for child, parent in parents.items():
            children.setdefault(parent, []).append(child)
        order, waiting = [], [label for label in children if label not in parents]
        while waiting:
            order.append(waiting.pop())
            waiting += children.get(order[-1], [])
        place = {label: k for k, label in enumerate(order)}
        self.labels = np.array(order, dtype=np.intp)
        self.below = np.zeros(len(order), dtype=np.intp)  # number of descendants of each label
        for label in order[:0:-1]:
            if label in parents:
                self.below[place[parents[label]]] += self.below[place[label]] + 1

    def project(self, P: Floats) -> Floats:
        """Return the isotonic regression of each column of ``P``; rows of ``P`` are labels."""
        # The value of a root is the largest mean over connected sets that contain it. When all
        # labels below it are solved, its set of labels with larger values is updated until it stays
        # the same. X then has the smallest value on the path from a solved root to a label.
        X = P.copy()
        for k in np.flatnonzero(self.below)[::-1]:
            parts = slice(k + 1, k + 1 + self.below[k])
            low = X[parts]
            rows = np.flatnonzero(low.max(axis=0) > X[k])
            if len(rows):
                under, given, own = low[:, rows], P[parts][:, rows], P[k, rows]
                value, rises = own, np.ones(len(rows), dtype=bool)
                while rises.any():
                    inside = under > value
                    mean = own + np.einsum("kn,kn->n", given, inside)
                    mean /= 1 + inside.sum(axis=0)
                    rises = mean > value
                    value = np.where(rises, mean, value)
                X[k, rows] = value
                low[:, rows] = np.minimum(under, value)
        return X


class Group(NamedTuple):
    """Labels whose probabilities sum to one or, with ``exact=False``, to at most one."""

    labels: NDArray[np.intp]
    exact: bool

    def project(self, P: Floats) -> Floats:
        """Project columns of ``P`` onto nonnegative vectors with sum 1 (``exact``) or at most 1."""
        falling = -np.sort(-P, axis=0)
        shift = (np.cumsum(falling, axis=0) - 1) / np.arange(1, len(P) + 1)[:, None]
        last = (falling > shift).sum(axis=0) - 1
        shift = np.take_along_axis(shift, last[None], axis=0)
        return np.maximum(P - (shift if self.exact else np.maximum(shift, 0.0)), 0.0)


class Coherence:
    """Rules about ``m`` labels, as linear constraints ``low <= A x <= high`` and as convex sets."""

    def __init__(self, m: int, implications: Any, groups: Sequence[Group], reach: Any) -> None:
        self.groups, pairs = groups, len(implications)
        rows = [*implications, *(group.labels for group in groups)]
        signs = [(1.0, -1.0)] * pairs + [np.ones(len(group.labels)) for group in groups]
        # Solvers of older versions of scipy only accept 32-bit integers.
        k = np.repeat(np.arange(len(rows), dtype=np.int32), list(map(len, rows)))
        columns = np.concatenate([[], *rows]).astype(np.int32)
        parts = (np.concatenate([[], *signs]), (k, columns))
        self.A = sp.csr_array(parts, shape=(len(rows), m))
        self.high = np.repeat([0.0, 1.0], [pairs, len(groups)])
        exact = np.array([False] * pairs + [group.exact for group in groups], dtype=bool)
        self.low = np.where(exact, 1.0, -np.inf)
        self.sets: list[Group | Forest] = [*groups, *_forests(implications, reach)]

    def violations(self, positive: NDArray[Any], missing: Mask | None = None) -> NDArray[np.intp]:
        """Return how many constraints each row violates for every value of its missing entries."""
        low = high = positive.astype(np.float64) @ self.A.T
        if missing is not None:
            low = low + missing @ self.A.minimum(0).T
            high = high + missing @ self.A.maximum(0).T
        return np.asarray(((low > self.high + SLACK) | (high < self.low - SLACK)).sum(axis=1))

    def project(self, P: Floats, T: Signs) -> Floats:
        """Return the nearest probabilities that obey the rules and agree with known labels."""
        X = np.where(T == 0, P, T > 0)
        rows = np.flatnonzero(self.violations(X))
        if len(rows):
            X[rows] = self._project(X[rows].T.copy(), T[rows].T).T
        return X

    def _project(self, X: Floats, T: Signs) -> Floats:
        """Apply Dykstra's method to the columns of ``X``."""
        result, active = X, np.arange(X.shape[1])
        off: list[Any] = [0.0] * len(self.sets)
        for _ in range(_MOST_ROUNDS):
            moved = np.zeros(len(active))
            for k, part in enumerate(self.sets):
                known = T[part.labels]
                given = np.where(known == 0, X[part.labels] + off[k], _FAR * known)
                found = np.clip(part.project(given), 0.0, 1.0)
                rest = np.where(known == 0, given - found, 0.0)
                moved = np.maximum(moved, np.abs(rest - off[k]).max(axis=0))
                off[k], X[part.labels] = rest, found
            result[:, active] = X
            goes_on = moved > _TOL
            if len(self.sets) == 1 or not goes_on.any():
                break
            active, X, T = active[goes_on], X[:, goes_on], T[:, goes_on]
            off = [rest[:, goes_on] for rest in off]
        return result

    def best(self, p: Floats, known: Signs) -> Mask | None:
        """Return the most probable decisions of one row that obey all rules, or None on failure."""
        from scipy.optimize import Bounds, LinearConstraint, milp  # this import is slow

        rules, bounds = LinearConstraint(self.A, self.low, self.high), Bounds(known > 0, known >= 0)
        limits = {"integrality": np.ones(len(p)), "options": {"time_limit": _LONGEST}}
        found = milp(0.5 - p, bounds=bounds, constraints=rules, **limits).x
        return None if found is None else found > 0.5


def _forests(implications: NDArray[np.intp], reach: Any) -> list[Forest]:
    """Return forests that together contain all implications except redundant ones."""
    m = reach.shape[0]
    if not len(implications):
        return []
    child, parent = np.unique(implications, axis=0).T
    edges = sp.csr_array((np.ones(len(child), np.float32), (child, parent)), shape=(m, m))
    above = sp.csr_array(reach) - sp.eye_array(m)
    through = (edges @ above).tocsr()[child, parent] > 0
    parents: dict[int, list[int]] = {}
    for one, other in zip(child[~through].tolist(), parent[~through].tolist(), strict=True):
        parents.setdefault(one, []).append(other)
    return [
        Forest({child: some[k] for child, some in parents.items() if len(some) > k})
        for k in range(max(map(len, parents.values())))
    ]
