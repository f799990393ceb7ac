r"""The objective of DM2L as a function of the scores.

.. math:: J(F) = \tfrac12 \|O \circ F - T\|_F^2
          + \lambda_d \Bigl(\sum_k \|F_k\|_* - \|F_C\|_*\Bigr)

``T`` holds the signs of the observed labels (0 = missing) and ``O = (T != 0)``; ``F_k`` are the
rows whose label ``k`` is an *observed* positive, ``F_C`` the rows that lie in at least one
``F_k``. This is the paper's (3) and (4) with one change: the global term covers ``F_C`` instead
of all rows. Theorem 1 then holds for every mask and the bracket is never negative; with all rows
the objective has no lower bound as soon as a row without an observed positive can be moved alone.

With real targets and weights ``M`` (:class:`dm2l.labels.EntryWeights`) the loss is
:math:`\tfrac12 \sum_{ij} M_{ij} (F_{ij} - T_{ij})^2`. Rows of ``F_k`` count :math:`M_{ik}^{1/2}`
times, as those that are there twice count :math:`2^{1/2}` times; rows of ``F_C`` as often as in the
group where they count most, so that Theorem 1 holds for all weights.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array
from numpy.typing import NDArray

from dm2l._solvers.nuclear import Norm, NormValue, SmoothNorm, nuclear_norm, subgradient
from dm2l._utils.arrays import CudaGraph, float64, is_on_cuda, to_numpy
from dm2l._utils.threads import WORTH_SHARING, one_blas_thread, run_each
from dm2l.labels._entries import EntryWeights, Signs

# Columns up to which rows that fill up a stack cost less than a stack more.
FEW = 64


class ObjectiveValue(NormValue):
    """Smoothed value, exact value, and gradient of the smoothed value.

    ``curvature`` (c x c), where it was asked for, is the sum over the groups of
    :attr:`dm2l._solvers.nuclear.NormValue.curvature`.
    """


class Groups:
    """The groups ``X_k`` of observed positives, ready for gathering and summing back.

    Covered rows are kept in the order of falling label count. The rows that have a ``j``-th
    label are then a prefix, and summing the groups' rows back into scores is one gather and one
    slice per ``j``: no scatter, which the array API does not have.

    Groups of similar size are gathered as stacks, the smaller ones filled up with a zero row, so
    that one batched product and one batched ``eigh`` serve many of them.
    """

    def __init__(self, T: Signs, padding: float = 1.1) -> None:
        positive = T > 0
        counts = positive.sum(axis=1)
        covered = np.flatnonzero(counts)
        self.covered = covered[np.argsort(-counts[covered], kind="stable")]
        n_covered = len(self.covered)
        place = np.full(len(T), n_covered, dtype=np.int64)
        place[self.covered] = np.arange(n_covered)
        self.place = place  # uncovered rows point one past the end
        members = [np.sort(place[np.flatnonzero(column)]) for column in positive.T]
        self.labels = np.flatnonzero(positive.any(axis=0))  # whose members these are
        self.members = [members[k] for k in self.labels]
        self.stacks = self._stack(T.shape[1], padding)
        if not self.members:
            self.slots: list[Any] = []
            return
        flat = np.concatenate([stack.ravel() for stack in self.stacks])
        by_row = np.argsort(flat, kind="stable")[: int(counts.sum())]  # fillers come last
        counts = counts[self.covered]
        first = np.cumsum(counts) - counts
        self.slots = [by_row[first[counts > j] + j] for j in range(int(counts[0]))]

    def _stack(self, n_labels: int, padding: float) -> list[NDArray[np.int64]]:
        """Rows of the covered scores as index arrays of shape (groups, rows).

        The costliest come first. Where there is enough work for several threads none holds more
        than about a sixteenth of it, so that they end together.
        """
        by_size = sorted(self.members, key=len)
        self.order = self.labels[np.argsort([len(rows) for rows in self.members], kind="stable")]
        costs = [_cost(len(rows), n_labels) for rows in by_size]
        shared = sum(costs) > WORTH_SHARING and padding < 2
        most = sum(costs) / 16 if shared else np.inf
        stacks: list[list[NDArray[np.int64]]] = []
        filled = 0.0
        for rows, cost in zip(by_size, costs, strict=True):
            # The last group of a stack is the largest so far, the first the smallest.
            fits = stacks and len(rows) <= _highest(len(stacks[-1][0]), n_labels, padding)
            if not fits or filled + cost > most:
                stacks.append([])
                filled = 0.0
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
        """What rows are multiplied by in each stack, and the covered rows in all scores."""
        padded = np.zeros((len(self.covered) + 1, weights.shape[1]))  # fillers stay zero
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
        """Sum the rows of all stacks, one under the other, into the covered rows."""
        xp = array_namespace(stacked)
        total = xp.take(stacked, self.slots[0], axis=0)
        for slot in self.slots[1:]:
            total[: slot.shape[0], :] += xp.take(stacked, slot, axis=0)
        return total


def _highest(rows: int, columns: int, padding: float) -> float:
    """Most rows of a group in a stack whose smallest has so many.

    The smallest of all cost less than the calls that would keep them apart, and so do some more
    rows where the ``eigh`` is that of few columns.
    """
    if columns <= rows <= 10 * columns and columns <= FEW:
        padding = max(padding, 2.0)
    if columns <= rows and padding > 2.0:  # of an accelerator, on which calls cost more
        padding *= 2.0
    return max(padding * rows, min(16, columns))


def _cost(rows: int, columns: int) -> float:
    """Multiplications for the norm of one group, about."""
    small = min(rows, columns)
    return 2.0 * rows * columns * small + 10.0 * small**3 + 1e4


class Objective:
    """Value and gradient of ``J`` in the scores ``F``.

    Attributes
    ----------
    observed : array of shape (n, c)
        Weights of the entries: 1 where observed and 0 at holes, unless others were given.
    targets : array of shape (n, c)
        Targets times ``observed``.
    rows : ndarray of shape (n,) or None
        What the rows weigh; None: one.
    """

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
        self._xp, self._device = array_namespace(example), device(example)
        self.discriminant = discriminant
        entries = entries or EntryWeights()
        self.rows = entries.rows
        M = T != 0 if entries.weights is None else entries.weights
        goal = T if entries.targets is None else entries.targets
        self.targets = self._put(goal if entries.weights is None else M * goal, example.dtype)
        self.observed = self._put(M, example.dtype)
        self._set_divisor()
        self._graphs: dict[bool, CudaGraph] = {}
        ordinary = is_numpy_array(example)
        # An accelerator wants few large stacks, a processor no needless work.
        self.groups = Groups(T, padding=1.1 if ordinary else 4.0)
        self.groups.slots = [self._put(slot) for slot in self.groups.slots]
        work = sum(_cost(len(rows), T.shape[1]) for rows in self.groups.members)
        self._workers = workers if ordinary and work > WORTH_SHARING else 1
        self._local = local and len(self.groups.covered) > 0
        self.set_weight(lambda_d)
        self._covered = self._put(self.groups.covered)
        self._place = self._put(self.groups.place)
        full = len(self.groups.covered)
        heights = [(stack < full).sum(axis=1) for stack in self.groups.stacks]
        # Stacks are padded with copies of a row, multiplied by zero.
        scales = [(stack < full).reshape(-1, 1) for stack in self.groups.stacks]
        self._weighted = entries.weights is not None
        # Where all rows are covered they need not be gathered.
        self._everyone = global_rows == "all" or (not self._weighted and full == len(T))
        self._roots: Any = None  # what rows are multiplied by in the global norm
        if entries.weights is not None:
            scales, roots = self.groups.roots(entries.weights)
            # A row that is there twice is two rows; a light one is a row all the same.
            heights = [
                np.maximum(height, (scale**2).sum(axis=1))
                for height, scale in zip(heights, scales, strict=True)
            ]
            scales = [scale.reshape(-1, 1) for scale in scales]
            everyone = np.sqrt(entries.weights.max(axis=1))[:, None]
            self._roots = self._put(everyone if self._everyone else roots, example.dtype)
        rows = np.append(self.groups.covered, 0)
        self._stacks = [
            (
                self._put(rows[stack]),
                self._put(height),
                None if scale.all() and not self._weighted else self._put(scale, example.dtype),
            )
            for stack, height, scale in zip(self.groups.stacks, heights, scales, strict=True)
        ]
        self._ends = np.cumsum([stack.size for stack in self.groups.stacks]).tolist()

    def _put(self, array: NDArray[Any], dtype: Any = None) -> Any:
        """``array`` where the scores live."""
        xp = self._xp
        array = xp.asarray(array, device=self._device)
        return array if dtype is None else xp.astype(array, dtype, copy=False)

    def fill(self, targets: NDArray[Any]) -> None:
        """Give every entry a target, holes too; the groups stay those of observed positives.

        Holes then weigh what their row does.
        """
        self._graphs = {}
        self.targets = self._put(targets, self.targets.dtype)
        if self.rows is None:
            self.observed = self._xp.ones_like(self.targets)
            return
        weights = to_numpy(self.observed)
        weights = np.where(weights > 0, weights, self.rows[:, None])
        self.observed = self._put(weights, self.targets.dtype)
        self.targets = self.targets * self.observed
        self._set_divisor()

    def _set_divisor(self) -> None:
        """What squares of weighted residuals are divided by; None where all weights are one."""
        self._divisor = None
        if self.rows is not None:
            ones = self._xp.ones_like(self.observed)
            self._divisor = self._xp.where(self.observed > 0, self.observed, ones)

    @property
    def filled(self) -> NDArray[np.float64]:
        """Targets as they were given, in numpy."""
        targets = self.targets if self._divisor is None else self.targets / self._divisor
        return to_numpy(float64(targets))

    @property
    def at_zero(self) -> float:
        """``J(0)``: every observed entry is off by its target."""
        squares = self.targets**2
        if self._divisor is not None:
            squares = squares / self._divisor
        return 0.5 * float(self._xp.sum(squares))

    def set_weight(self, lambda_d: float) -> None:
        """Change the weight of the norms; it is 0 where there are none."""
        self.lambda_d = float(lambda_d) if self._local else 0.0

    def loss(self, F: Any) -> tuple[float, Any]:
        """``1/2 ||O*F - T||^2`` and its gradient."""
        value, gradient = self._loss(F)
        return float(value), gradient

    def _loss(self, F: Any) -> tuple[Any, Any]:
        xp = array_namespace(F)
        residual = F * self.observed
        residual -= self.targets
        if self._divisor is not None:
            squares = residual * residual / self._divisor
            return 0.5 * xp.sum(squares, dtype=xp.float64), residual
        if residual.dtype == xp.float64:
            flat = xp.reshape(residual, (-1,))
            return 0.5 * xp.vecdot(flat, flat), residual
        return 0.5 * xp.sum(residual * residual, dtype=xp.float64), residual

    def exact(self, F: Any) -> float:
        """``J(F)`` from singular value decompositions."""
        value = self.loss(F)[0]
        if self.lambda_d:
            value += self.lambda_d * self.bracket(F)
        return value

    def bracket(self, F: Any) -> float:
        """``sum_k ||F_k||_* - ||F_C||_*``; never negative over the covered rows."""
        xp = array_namespace(F)
        F_C = self._covered_scores(F)
        with one_blas_thread():
            if self._roots is None:
                groups = (xp.take(F_C, self._put(rows), axis=0) for rows in self.groups.members)
            else:
                groups = (self._stacked(F, stack, scale) for stack, _, scale in self._stacks)
            local = sum(map(nuclear_norm, groups))
        return local - (self.global_norm(F) if self.discriminant else 0.0)

    def global_norm(self, F: Any) -> float:
        """``||F_C||_*``."""
        return nuclear_norm(self._scaled(F if self._everyone else self._covered_scores(F)))

    def _scaled(self, rows: Any) -> Any:
        """Rows of the global norm, or of its gradient, as they count."""
        return rows if self._roots is None else self._roots * rows

    @staticmethod
    def _stacked(F: Any, stack: Any, scale: Any) -> Any:
        """Rows of the groups of a stack, as they count."""
        xp = array_namespace(F)
        rows = xp.take(F, xp.reshape(stack, (-1,)), axis=0)
        if scale is not None:
            rows *= scale
        # Products of plain matrices are faster.
        return rows if stack.shape[0] == 1 else xp.reshape(rows, (*stack.shape, rows.shape[1]))

    def _covered_scores(self, F: Any) -> Any:
        return array_namespace(F).take(F, self._covered, axis=0)

    def evaluate(
        self, F: Any, norm: Norm, linear: Any = None, *, curvature: bool = False
    ) -> ObjectiveValue:
        """Smoothed and exact ``J`` and the gradient of the smoothed one."""
        if self.lambda_d and linear is None and isinstance(norm, SmoothNorm) and is_on_cuda(F):
            return self._replay(F, norm.mu, curvature)
        value, gradient = self.loss(F)
        if not self.lambda_d or not np.isfinite(value):
            return ObjectiveValue(value, value, gradient)
        at = self._with_norms(F, value, gradient, norm, linear, curvature, self.lambda_d)
        return at._replace(value=float(at.value), exact=float(at.exact))

    def add_norms(
        self, gradient: Any, F: Any, norm: Norm, *, curvature: bool = False
    ) -> ObjectiveValue:
        """The nuclear terms alone, of scores of any number of columns.

        Their gradient is added to ``gradient`` in place; the rest is as of :meth:`evaluate`.
        """
        at = self._with_norms(F, 0.0, gradient, norm, None, curvature, self.lambda_d)
        return at._replace(value=float(at.value), exact=float(at.exact))

    def _replay(self, F: Any, mu: float, curvature: bool) -> ObjectiveValue:
        """The same as one graph: the GPU would wait for each of its many small kernels."""

        def work(F: Any, mu: Any, lambda_d: Any) -> tuple[Any, ...]:
            at = self._with_norms(F, *self._loss(F), SmoothNorm(mu), None, curvature, lambda_d)
            numbers = array_namespace(F).stack([at.value, at.exact])
            return (numbers, at.gradient, at.curvature) if curvature else (numbers, at.gradient)

        if curvature not in self._graphs:
            self._graphs[curvature] = CudaGraph(work, F, mu, self.lambda_d)
        numbers, *arrays = self._graphs[curvature](F, mu, self.lambda_d)
        return ObjectiveValue(*to_numpy(numbers).tolist(), *arrays)

    def _with_norms(
        self,
        F: Any,
        value: Any,
        gradient: Any,
        norm: Norm,
        linear: Any,
        curvature: bool,
        lambda_d: Any,
    ) -> ObjectiveValue:
        """Loss and norms from the loss and its gradient, which is changed in place.

        Values of a GPU stay there.
        """
        xp = array_namespace(F)
        c = F.shape[1]
        stacked = xp.empty((self._ends[-1], c), dtype=F.dtype, device=self._device)

        def local_norm(stack: Any, heights: Any, scale: Any, end: int) -> NormValue:
            options: dict[str, Any] = {"curvature": True} if curvature else {}
            if curvature and (stack.shape[0] > 1 or self._weighted):
                options["heights"] = heights
            at = norm(self._stacked(F, stack, scale), **options)
            slope = xp.reshape(at.gradient, (-1, c))
            stacked[end - slope.shape[0] : end, :] = scale * slope if self._weighted else slope
            return at._replace(gradient=None)

        concave = self.discriminant and linear is None
        tasks = [
            partial(local_norm, *stack, end)
            for stack, end in zip(self._stacks, self._ends, strict=True)
        ]
        if concave:
            rows = F if self._everyone else self._covered_scores(F)
            tasks.insert(0, partial(norm, self._scaled(rows)))
        norms, bend = [], None
        with one_blas_thread():
            found = run_each(tasks, self._workers)
            everyone = next(found) if concave else None
            for at in found:
                norms.append(at[:2])
                if curvature:
                    bend = at.curvature if bend is None else bend + at.curvature
        tasks.clear()
        shared: tuple[Any, Any] = (0.0, 0.0)
        slope = None
        if everyone is not None:
            shared, slope = everyone[:2], self._scaled(everyone.gradient)
        elif self.discriminant:
            inner = xp.sum(linear * F, dtype=xp.float64)
            shared = inner, inner
            gradient -= lambda_d * linear
        # What follows is the peak of a fit with many labels: each array goes when it has served.
        everyone = rows = None
        if slope is not None and self._everyone:
            slope *= lambda_d
            gradient -= slope
            slope = None
        total = self.groups.sum_back(stacked)
        stacked = None
        if slope is not None:
            total -= slope
            slope = None
        total *= lambda_d
        gradient += self._spread(total)
        exact = value + lambda_d * (sum(exact for _, exact in norms) - shared[1])
        value = value + lambda_d * (sum(value for value, _ in norms) - shared[0])
        return ObjectiveValue(value, exact, gradient, bend)

    def global_subgradient(self, F: Any, delta: float = 0.0) -> Any:
        """Subgradient of ``||F_C||_*`` in ``F`` (Algorithm 2), zero on the other rows."""
        rows = self._scaled(F if self._everyone else self._covered_scores(F))
        slope = self._scaled(subgradient(rows, delta))
        return slope if self._everyone else self._spread(slope)

    def _spread(self, rows: Any) -> Any:
        """Covered rows back to their places, zero rows elsewhere."""
        xp = array_namespace(rows)
        if rows.shape[0] < self._place.shape[0]:
            zero = xp.zeros((1, rows.shape[1]), dtype=rows.dtype, device=self._device)
            rows = xp.concat([rows, zero], axis=0)  # where uncovered rows point to
        return xp.take(rows, self._place, axis=0)
