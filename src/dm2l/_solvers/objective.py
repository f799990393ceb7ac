r"""The objective of DM2L as a function of the scores.

.. math:: J(F) = \tfrac12 \|O \circ F - T\|_F^2
          + \lambda_d \Bigl(\sum_k \|F_k\|_* - \|F_C\|_*\Bigr)

``T`` holds the signs of the observed labels (0 = missing), and ``O = (T != 0)``. ``F_k`` are the
rows of ``F`` with label ``k`` as an *observed* positive. ``F_C`` are all rows that are in at least
one ``F_k``. In the paper's (3) and (4), the global norm is of all rows instead of ``F_C``. With
``F_C``, Theorem 1 holds for every mask, and the bracket is never negative. With all rows, the
objective has no lower bound if the scores of a row without an observed positive can change.

With real targets and weights ``M`` (:class:`dm2l.labels.EntryWeights`) the loss is
:math:`\tfrac12 \sum_{ij} M_{ij} (F_{ij} - T_{ij})^2`. Row i of ``F_k`` is multiplied by
:math:`M_{ik}^{1/2}`, as if it occurred :math:`M_{ik}` times. Each row of ``F_C`` is multiplied by
the largest of its factors in all ``F_k``, so that Theorem 1 holds for all weights.
"""

from functools import partial
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array
from numpy.typing import NDArray

from dm2l._solvers.nuclear import Evaluation, Norm, nuclear_norm, thresholded_nuclear_norm
from dm2l._utils.arrays import WORTH_SHARING, asarray_like, float64, one_blas_thread, pool, to_numpy
from dm2l.labels._entries import EntryWeights, Signs

FEW = 64  # up to this number of columns, padding rows costs less than another stack


class Groups:
    """For each label, the group of rows with an observed positive, padded and stacked by size."""

    # Covered rows are sorted by descending label count, so rows with at least j labels come first.
    # Stacks can then be added by a gather and a slice per j; the array API has no scatter.
    def __init__(self, T: Signs, padding: float = 1.1) -> None:
        positive = T > 0
        counts = positive.sum(axis=1)
        covered = np.flatnonzero(counts)
        self.covered = covered[np.argsort(-counts[covered], kind="stable")]
        n_covered = len(self.covered)
        place = np.full(len(T), n_covered, dtype=np.int64)
        place[self.covered] = np.arange(n_covered)
        self.place = place  # uncovered rows have an index one past the end
        self.labels = np.flatnonzero(positive.any(axis=0))  # labels with a group of rows
        sizes = positive.sum(axis=0)[self.labels]
        ends = np.cumsum(sizes)
        self.members = np.split(np.nonzero(positive[self.covered].T)[1], ends)[:-1]
        by_size = np.argsort(sizes, kind="stable")
        self.order = self.labels[by_size]
        # Estimated number of multiplications for the norms of the groups.
        small = np.minimum(sizes, T.shape[1])
        costs = 2.0 * sizes * T.shape[1] * small + 10.0 * small**3 + 1e4
        self.work = float(costs.sum())
        self.stacks = self._stack(by_size, costs, T.shape[1], padding)
        self.slots: list[Any] = []
        if not self.members:
            return
        flat = np.concatenate(self.stacks, axis=None)
        by_row = np.argsort(flat, kind="stable")[: int(counts.sum())]  # padding comes last
        counts = counts[self.covered]
        first = np.cumsum(counts) - counts
        for j in range(int(counts[0])):
            self.slots.append(by_row[first[counts > j] + j])

    def _stack(
        self, by_size: NDArray[np.intp], costs: NDArray[np.float64], n_labels: int, padding: float
    ) -> list[NDArray[np.int64]]:
        """Return index arrays (groups, rows) of the covered rows, with the largest groups first."""
        # Work for several threads is divided into at least 16 stacks, approximately.
        most = self.work / 16 if self.work > WORTH_SHARING and padding < 2 else np.inf
        stacks: list[list[NDArray[np.int64]]] = []
        filled = highest = 0.0
        for k in by_size:
            rows, cost = self.members[k], costs[k]
            # Within a stack, groups are in ascending order of size.
            if not stacks or len(rows) > highest or filled + cost > most:
                stacks.append([])
                filled, ratio = 0.0, padding
                # Padding rows are cheap with few columns or on an accelerator.
                if n_labels <= len(rows) <= 10 * n_labels and n_labels <= FEW:
                    ratio = max(ratio, 2.0)
                if n_labels <= len(rows) and ratio > 2.0:
                    ratio *= 2.0
                # Another call would cost more than padding the smallest groups.
                highest = max(ratio * len(rows), min(16, n_labels))
            stacks[-1].append(rows)
            filled += cost
        indices = []
        for stack in reversed(stacks):
            index = np.full((len(stack), len(stack[-1])), len(self.covered), dtype=np.int64)
            for i, rows in enumerate(stack):
                index[i, : len(rows)] = rows
            indices.append(index)
        return indices

    def roots(self, weights: NDArray[np.float64]) -> tuple[list[NDArray[Any]], NDArray[Any]]:
        """Return the factors of rows in each stack, and of covered rows in the global norm."""
        padded = np.zeros((len(self.covered) + 1, weights.shape[1]))  # padding rows remain zero
        padded[:-1] = np.sqrt(weights[self.covered])
        scales, first = [], len(self.members)
        for stack in self.stacks:  # the largest groups come first
            first -= len(stack)
            scales.append(padded[stack, self.order[first : first + len(stack), None]])
        everywhere = np.zeros(len(padded))
        for stack, scale in zip(self.stacks, scales, strict=True):
            np.maximum.at(everywhere, stack, scale)
        return scales, everywhere[:-1, None]

    def sum_back(self, stacked: Any) -> Any:
        """Return for each covered row the sum of all its copies in the concatenated stacks."""
        xp = array_namespace(stacked)
        total = xp.take(stacked, self.slots[0], axis=0)
        for slot in self.slots[1:]:
            total[: slot.shape[0], :] += xp.take(stacked, slot, axis=0)
        return total


class Objective:
    """Value and gradient of ``J`` as a function of the scores ``F``."""

    def __init__(
        self,
        T: Signs,
        lambda_d: float,
        *,
        local: bool = True,
        discriminant: bool = True,
        global_rows: Literal["covered", "all"] = "covered",
        like: Any = None,
        workers: int = 1,
        entries: EntryWeights | None = None,
    ) -> None:
        example = np.empty(0) if like is None else like
        self._xp, self._example = array_namespace(example), example[:0, ...]
        as_scores = partial(asarray_like, other=example, dtype=example.dtype)
        self.discriminant = discriminant
        weights, given = (None, None) if entries is None else (entries.weights, entries.targets)
        goal: Any = T if given is None else given
        self.targets = as_scores(goal if weights is None else weights * goal)  # times the weights
        self.observed = as_scores(T != 0 if weights is None else weights)  # weights of the entries
        # Divisor of squared weighted residuals, and row weights; both None if all weights are one.
        self.divisor: Any = None
        self.rows: NDArray[np.float64] | None = None
        if entries is not None and weights is not None:
            self.rows = entries.rows
            self._set_divisor()
        ordinary = is_numpy_array(example)
        # On accelerators, few large stacks are faster; on CPUs, little padding is faster.
        groups = self.groups = Groups(T, padding=1.1 if ordinary else 4.0)
        if not ordinary:
            groups.slots = [asarray_like(slot, example) for slot in groups.slots]
        self._workers = workers if ordinary and groups.work > WORTH_SHARING else 1
        self._local = local and len(groups.covered) > 0
        self.lambda_d = float(lambda_d) if self._local else 0.0
        self._covered = asarray_like(groups.covered, example)
        self._place = asarray_like(groups.place, example)
        full = len(groups.covered)
        self._weighted = weights is not None
        # If all rows are covered, gathering them is unnecessary.
        self._everyone = global_rows == "all" or (not self._weighted and full == len(T))
        self._roots: Any = None  # row factors in the global norm
        scales: list[NDArray[Any]] = []
        if weights is not None:
            scales, roots = groups.roots(weights)
            everyone = np.sqrt(weights.max(axis=1))[:, None]
            self._roots = as_scores(everyone if self._everyone else roots)
        rows = np.append(groups.covered, 0)
        self._stacks, end = [], 0
        for k, stack in enumerate(groups.stacks):
            real = stack < full  # padding is a copy of a row, multiplied by zero
            height: NDArray[Any] = real.sum(axis=1)
            scale: NDArray[Any] | None = None if real.all() else real.reshape(-1, 1)
            if weights is not None:
                # A row of weight two counts as two rows; a row of weight below one counts as one.
                height = np.maximum(height, (scales[k] ** 2).sum(axis=1))
                scale = scales[k].reshape(-1, 1)
            end += stack.size
            heights = float(height[0]) if len(stack) == 1 else asarray_like(height, example)
            where = asarray_like(rows[stack], example)
            self._stacks.append((where, heights, None if scale is None else as_scores(scale), end))

    def fill(self, targets: NDArray[Any]) -> None:
        """Set a target for every entry; missing entries get the weights of their rows."""
        self.targets = asarray_like(targets, self._example, self.targets.dtype)
        if self.rows is None:
            self.observed = self._xp.ones_like(self.targets)
            return
        weights = to_numpy(self.observed)
        weights = np.where(weights > 0, weights, self.rows[:, None])
        self.observed = asarray_like(weights, self._example, self.targets.dtype)
        self.targets = self.targets * self.observed
        self._set_divisor()

    def _set_divisor(self) -> None:
        ones = self._xp.ones_like(self.observed)
        self.divisor = self._xp.where(self.observed > 0, self.observed, ones)

    @property
    def filled(self) -> NDArray[np.float64]:
        """Return the unweighted targets as a numpy array."""
        targets = self.targets if self.divisor is None else self.targets / self.divisor
        return to_numpy(float64(targets))

    def set_weight(self, lambda_d: float) -> None:
        """Set the weight of the norms, which remains 0 if there are no norms."""
        self.lambda_d = float(lambda_d) if self._local else 0.0

    def loss(self, F: Any) -> tuple[Any, Any]:
        """Return ``1/2 ||O*F - T||^2``, on the device of ``F``, and its gradient."""
        xp = array_namespace(F)
        residual = F * self.observed
        residual -= self.targets
        if self.divisor is None and residual.dtype == xp.float64:
            flat = xp.reshape(residual, (-1,))
            return 0.5 * xp.vecdot(flat, flat), residual
        squares = residual * residual
        squares = squares if self.divisor is None else squares / self.divisor
        return 0.5 * xp.sum(squares, dtype=xp.float64), residual

    def exact(self, F: Any) -> float:
        """Return ``J(F)`` computed by singular value decompositions."""
        value = float(self.loss(F)[0])
        if self.lambda_d:
            value += self.lambda_d * self.bracket(F)
        return value

    def bracket(self, F: Any) -> float:
        """Return ``sum_k ||F_k||_* - ||F_C||_*``, which is never negative."""
        xp = array_namespace(F)
        with one_blas_thread():
            if self._roots is None:
                F_C = xp.take(F, self._covered, axis=0)
                members = (asarray_like(rows, F) for rows in self.groups.members)
                groups = (xp.take(F_C, rows, axis=0) for rows in members)
            else:
                groups = (self._stacked(F, stack, scale) for stack, _, scale, _ in self._stacks)
            local = sum(map(nuclear_norm, groups))
        return local - (nuclear_norm(self._global_rows(F)) if self.discriminant else 0.0)

    def _global_rows(self, F: Any) -> Any:
        """Return the scores of the rows in the global norm, multiplied by their factors."""
        rows = F if self._everyone else array_namespace(F).take(F, self._covered, axis=0)
        return rows if self._roots is None else self._roots * rows

    @staticmethod
    def _stacked(F: Any, stack: Any, scale: Any) -> Any:
        """Return the scores of the groups in a stack, multiplied by their row factors."""
        xp = array_namespace(F)
        rows = xp.take(F, xp.reshape(stack, (-1,)), axis=0)
        if scale is not None:
            rows *= scale
        # A product of matrices is faster than a product of stacks of one matrix.
        return rows if stack.shape[0] == 1 else xp.reshape(rows, (*stack.shape, rows.shape[1]))

    def add_norms(
        self, F: Any, value: Any, gradient: Any, norm: Norm, linear: Any, *, curvature: bool = False
    ) -> Evaluation:
        """Return a loss plus the norms; the gradient array of the loss is changed in place."""
        xp = array_namespace(F)
        c = F.shape[1]
        stacked = xp.empty((self._stacks[-1][-1], c), dtype=F.dtype, device=device(F))

        def norm_of(parts: Any) -> Evaluation:
            if parts is None:
                return norm(self._global_rows(F))
            stack, heights, scale, end = parts
            options: dict[str, Any] = {"curvature": True, "heights": heights} if curvature else {}
            at = norm(self._stacked(F, stack, scale), **options)
            slope = xp.reshape(at.gradient, (-1, c))
            stacked[end - slope.shape[0] : end, :] = scale * slope if self._weighted else slope
            return at._replace(gradient=None)

        concave = self.discriminant and linear is None
        local: Any = 0
        local_exact: Any = 0
        bend = everyone = None
        with one_blas_thread():
            items = [None, *self._stacks] if concave else self._stacks
            alone = self._workers == 1
            found = map(norm_of, items) if alone else pool(self._workers).map(norm_of, items)
            if concave:
                everyone = next(found)
            for at in found:
                local, local_exact = local + at.value, local_exact + at.exact
                if curvature:
                    bend = at.curvature if bend is None else bend + at.curvature
        shared: tuple[Any, Any] = (0.0, 0.0)
        slope = None
        if everyone is not None:
            shared, slope = everyone[:2], everyone.gradient
            slope = slope if self._roots is None else self._roots * slope
        elif self.discriminant:
            inner = xp.sum(linear * F, dtype=xp.float64)
            shared = inner, inner
            gradient -= self.lambda_d * linear
        # With many labels, memory use peaks here, so arrays are deleted as early as possible.
        everyone = None
        if slope is not None and self._everyone:
            slope *= self.lambda_d
            gradient -= slope
            slope = None
        total = self.groups.sum_back(stacked)
        stacked = None
        if slope is not None:
            total -= slope
            slope = None
        total *= self.lambda_d
        gradient += self._spread(total)
        exact = float(value + self.lambda_d * (local_exact - shared[1]))
        value = float(value + self.lambda_d * (local - shared[0]))
        return Evaluation(value, exact, gradient, bend)

    def global_subgradient(self, F: Any, delta: float = 0.0) -> Any:
        """Return the subgradient of ``||F_C||_*`` with respect to all rows (Algorithm 2)."""
        slope = thresholded_nuclear_norm(self._global_rows(F), delta).gradient
        slope = slope if self._roots is None else self._roots * slope
        return slope if self._everyone else self._spread(slope)

    def _spread(self, rows: Any) -> Any:
        """Expand an array of covered rows to all rows, with zeros in uncovered rows."""
        xp = array_namespace(rows)
        if rows.shape[0] < self._place.shape[0]:
            zero = xp.zeros((1, rows.shape[1]), dtype=rows.dtype, device=device(rows))
            rows = xp.concat([rows, zero], axis=0)  # the zero row for all uncovered rows
        return xp.take(rows, self._place, axis=0)
