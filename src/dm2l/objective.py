r"""The objective of DM2L as a function of the scores.

.. math:: J(F) = \tfrac12 \|O \circ F - T\|_F^2
          + \lambda_d \Bigl(\sum_k \|F_k\|_* - \|F_C\|_*\Bigr)

``T`` holds the signs of the observed labels (0 = missing) and ``O = (T != 0)``; ``F_k`` are the
rows whose label ``k`` is an *observed* positive, ``F_C`` the rows that lie in at least one
``F_k``. This is the paper's (3) and (4) with one change: the global term covers ``F_C`` instead
of all rows. Theorem 1 then holds for every mask and the bracket is never negative; with all rows
the objective has no lower bound as soon as a row without an observed positive can be moved alone.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import numpy as numpy_namespace

from dm2l.labels import Signs
from dm2l.nuclear import Norm, nuclear_norm, one_blas_thread, subgradient

__all__ = ["Evaluation", "Groups", "Objective"]


class Evaluation(NamedTuple):
    """Smoothed value, exact value, and gradient of the smoothed value in the scores."""

    value: float
    exact: float
    gradient: Any


class Groups:
    """The groups ``X_k`` of observed positives, ready for gathering and summing back.

    Covered rows are kept in the order of falling label count. The rows that have a ``j``-th
    label are then a prefix, and summing the groups' rows back into scores is one gather and one
    slice per ``j``: no scatter, which the array API does not have.

    Parameters
    ----------
    T : ndarray of shape (n, c), int8
        Signs of the observed labels.
    """

    def __init__(self, T: Signs) -> None:
        positive = T > 0
        counts = positive.sum(axis=1)
        covered = np.flatnonzero(counts)
        self.covered = covered[np.argsort(-counts[covered], kind="stable")]
        place = np.full(len(T), len(self.covered), dtype=np.int64)
        place[self.covered] = np.arange(len(self.covered))
        self.place = place  # uncovered rows point one past the end
        members = [np.sort(place[np.flatnonzero(column)]) for column in positive.T]
        self.members = [rows for rows in members if len(rows)]
        if not self.members:
            self.slots: list[Any] = []
            return
        by_row = np.argsort(np.concatenate(self.members), kind="stable")
        counts = counts[self.covered]
        first = np.cumsum(counts) - counts
        self.slots = [by_row[first[counts > j] + j] for j in range(int(counts[0]))]

    def sum_back(self, parts: list[Any]) -> Any:
        """Sum rows of the groups (in the order of ``members``) into the covered rows."""
        xp = array_namespace(parts[0])
        stacked = xp.concat(parts, axis=0)
        total = xp.take(stacked, xp.asarray(self.slots[0]), axis=0)
        for slot in self.slots[1:]:
            head = slice(0, len(slot))
            total[head, :] = total[head, :] + xp.take(stacked, xp.asarray(slot), axis=0)
        return total


class Objective:
    """Value and gradient of ``J`` in the scores ``F``.

    Parameters
    ----------
    T : ndarray of shape (n, c), int8
        Signs of the observed labels, 0 where missing.
    lambda_d : float
        Weight of the nuclear norms.
    local : bool, default=True
        Whether the norms are there at all; False leaves the loss.
    discriminant : bool, default=True
        Whether the global norm is subtracted; False is the paper's DM2L-Lo.
    global_rows : {"covered", "all"}, default="covered"
        Rows of the global term; "all" is the paper's objective.
    xp : array namespace, default=numpy
        Where the scores live.
    dtype : dtype, default=float64
        Dtype of the scores.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.objective import Objective
    >>> T = np.array([[1, -1], [1, 0], [-1, 1]], dtype=np.int8)
    >>> round(Objective(T, lambda_d=0.5).exact(T.astype(float)), 6)
    0.426174
    """

    def __init__(
        self,
        T: Signs,
        lambda_d: float,
        *,
        local: bool = True,
        discriminant: bool = True,
        global_rows: Literal["covered", "all"] = "covered",
        xp: Any = numpy_namespace,
        dtype: Any = np.float64,
    ) -> None:
        self.lambda_d = float(lambda_d) if local else 0.0
        self.discriminant = discriminant
        self.observed = xp.asarray(T != 0)
        self.targets = xp.astype(xp.asarray(T), dtype)
        self.groups = Groups(T)
        if not len(self.groups.covered):
            self.lambda_d = 0.0
        self._covered = xp.asarray(self.groups.covered)
        self._place = xp.asarray(self.groups.place)
        self._members = [xp.asarray(m) for m in self.groups.members]
        everyone = global_rows == "all"
        self._global = xp.arange(len(T)) if everyone else self._covered

    def loss(self, F: Any) -> tuple[float, Any]:
        """``1/2 ||O*F - T||^2`` and its gradient."""
        xp = array_namespace(F)
        residual = xp.where(self.observed, F - self.targets, xp.zeros_like(F))
        return 0.5 * float(xp.sum(residual * residual, dtype=xp.float64)), residual

    def exact(self, F: Any) -> float:
        """``J(F)`` from singular value decompositions."""
        value = self.loss(F)[0]
        if self.lambda_d:
            value += self.lambda_d * self.bracket(F)
        return value

    def bracket(self, F: Any) -> float:
        """``sum_k ||F_k||_* - ||F_C||_*``; never negative over the covered rows."""
        xp = array_namespace(F)
        F_C = xp.take(F, self._covered, axis=0)
        with one_blas_thread():
            local = sum(nuclear_norm(xp.take(F_C, rows, axis=0)) for rows in self._members)
        return local - (self.global_norm(F) if self.discriminant else 0.0)

    def global_norm(self, F: Any) -> float:
        """``||F_C||_*``."""
        return nuclear_norm(array_namespace(F).take(F, self._global, axis=0))

    def evaluate(self, F: Any, norm: Norm, linear: Any = None) -> Evaluation:
        """Smoothed and exact ``J`` and the gradient of the smoothed one.

        Parameters
        ----------
        F : array of shape (n, c)
            Scores.
        norm : callable
            How a nuclear norm is evaluated, e.g. ``partial(smooth_nuclear_norm, mu=1e-3)``.
        linear : array of shape (n, c), default=None
            A subgradient ``D`` of the global norm. If given, the concave part is replaced by
            ``-lambda_d <D, F>``: the convex surrogate of Algorithm 1.

        Returns
        -------
        Evaluation
            ``value``, ``exact``, ``gradient``.
        """
        xp = array_namespace(F)
        value, gradient = self.loss(F)
        exact = value
        if not self.lambda_d:
            return Evaluation(value, exact, gradient)
        concave = self.discriminant and linear is None
        F_C = xp.take(F, self._covered, axis=0)
        with one_blas_thread():
            norms = [norm(xp.take(F_C, rows, axis=0)) for rows in self._members]
            total = self.groups.sum_back([at.gradient for at in norms])
            everyone = norm(xp.take(F, self._global, axis=0)) if concave else None
        local, local_exact = sum(n.value for n in norms), sum(n.exact for n in norms)
        shared = 0.0, 0.0
        if everyone is not None:
            shared = everyone.value, everyone.exact
            if self._global is self._covered:
                total = total - everyone.gradient
            else:
                gradient = gradient - self.lambda_d * everyone.gradient
        elif self.discriminant:
            inner = float(xp.sum(linear * F, dtype=xp.float64))
            shared = inner, inner
            gradient = gradient - self.lambda_d * linear
        value += self.lambda_d * (local - shared[0])
        exact += self.lambda_d * (local_exact - shared[1])
        return Evaluation(value, exact, gradient + self.lambda_d * self._spread(total))

    def global_subgradient(self, F: Any, delta: float = 0.0) -> Any:
        """Subgradient of ``||F_C||_*`` in ``F`` (Algorithm 2), zero on the other rows."""
        xp = array_namespace(F)
        D = subgradient(xp.take(F, self._global, axis=0), delta)
        return self._spread(D) if self._global is self._covered else D

    def _spread(self, rows: Any) -> Any:
        """Covered rows back to their places, zero rows elsewhere."""
        xp = array_namespace(rows)
        padded = xp.concat([rows, xp.zeros((1, rows.shape[1]), dtype=rows.dtype)], axis=0)
        return xp.take(padded, self._place, axis=0)
