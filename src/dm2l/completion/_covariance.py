"""The residual covariance of labels, dense or as low-rank factors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dm2l._utils.arrays import add_diagonal, asarray_like, namespace
from dm2l.completion._patterns import Batch, Mask, batches, row_blocks

MEMORY = 2.0**28


class LabelCovariance(ABC):
    r"""Covariance :math:`S` of the residuals :math:`t_i - f_i` of a row.

    Two forms, :class:`DenseCovariance` and :class:`FactorCovariance`, answer the same questions.
    """

    @property
    @abstractmethod
    def n_labels(self) -> int:
        """Number of labels."""

    @property
    @abstractmethod
    def variances(self) -> Any:
        """Diagonal of the covariance, (c,)."""

    @abstractmethod
    def matrix(self) -> Any:
        """The covariance as a c x c array."""

    @abstractmethod
    def bare(self) -> LabelCovariance:
        """The same without what it has worked out and kept, for storing."""

    @abstractmethod
    def shifts(self, E: Any, known: Mask, memory: float = MEMORY) -> tuple[Any, Any]:
        r"""Shift and variance of each entry of a row, given its *other* known labels.

        With :math:`A = S_{OO}^{-1}` of the known labels ``O`` of a row, and its residuals ``e``, a
        missing entry ``k`` gets :math:`S_{kO} A e` and the variance
        :math:`S_{kk} - S_{kO} A S_{Ok}`; a known entry gets :math:`-(A e)_k / A_{kk}`, which added
        to its own sign is its mean given all others, and the variance :math:`1 / A_{kk}`.
        """


@dataclass(frozen=True)
class DenseCovariance(LabelCovariance):
    """A covariance held as it is, for up to some 200 labels."""

    S: Any

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.S.shape[0])

    @property
    def variances(self) -> Any:
        """Diagonal of the covariance, (c,)."""
        return namespace(self.S).linalg.diagonal(self.S)

    def matrix(self) -> Any:
        """The covariance as a c x c array."""
        return self.S

    def bare(self) -> DenseCovariance:
        """The same without what it has worked out and kept, for storing."""
        return DenseCovariance(self.S)

    @cached_property
    def precision(self) -> Any:
        """Inverse of the covariance."""
        xp = namespace(self.S)
        inverse = xp.linalg.inv(self.S)
        return 0.5 * (inverse + inverse.T)

    def shifts(self, E: Any, known: Mask, memory: float = MEMORY) -> tuple[Any, Any]:
        """Shift and variance of each entry of a row, given its other known labels."""
        xp, c = namespace(E), self.n_labels
        order, shift, variance = [], [], []
        for batch in batches(known, memory):
            base = self.S if batch.known else self.precision
            G = xp.linalg.inv(batch.blocks(base, xp))
            strips = batch.strips(base, xp)
            # Diagonal of what is left of the base when the labels of the block are given.
            left = xp.linalg.diagonal(base) - xp.sum(strips * (G @ strips), axis=1)
            left, G, own = self._by_row(batch, left, G, xp)
            inside = batch.scatter(own, c, xp)
            here = asarray_like(known[batch.rows], E)
            e = xp.take(E, asarray_like(batch.rows, E), axis=0)
            missing, weighted = self._weigh(batch, G, e, here, xp)
            diagonal = xp.where(here, inside, left) if batch.known else xp.where(here, left, inside)
            of_known = xp.where(here, diagonal, xp.ones_like(diagonal))
            shift.append(xp.where(here, -weighted / of_known, missing))
            variance.append(xp.where(here, 1.0 / of_known, diagonal))
            order.append(batch.rows)
        if not order:
            return xp.zeros_like(E), xp.zeros_like(E)
        back = asarray_like(np.argsort(np.concatenate(order)), E)
        return (
            xp.take(xp.concat(shift), back, axis=0),
            xp.take(xp.concat(variance), back, axis=0),
        )

    @staticmethod
    def _by_row(batch: Batch, left: Any, G: Any, xp: Any) -> tuple[Any, Any, Any]:
        own = xp.linalg.diagonal(G)
        if len(batch.pattern) == len(batch.index):  # sorted by pattern: nothing is shared
            return left, G, own
        which = asarray_like(batch.pattern, G)
        return tuple(xp.take(part, which, axis=0) for part in (left, G, own))

    def _weigh(self, batch: Batch, G: Any, e: Any, here: Any, xp: Any) -> tuple[Any, Any]:
        """Shift of missing entries ``S_UO A e`` and weighted residuals ``A e``, both (b, c)."""
        zero = asarray_like(np.zeros(()), e)
        if batch.known:
            inner = (G @ batch.gather(e, xp)[:, :, None])[:, :, 0]
            weighted = batch.scatter(inner, self.n_labels, xp)
            return xp.where(here, zero, weighted @ self.S), weighted
        # The completed residual x has (S^-1 x)_U = 0 and (S^-1 x)_O = A e.
        inner = -(G @ batch.gather(e @ self.precision, xp)[:, :, None])[:, :, 0]
        missing = batch.scatter(inner, self.n_labels, xp)
        return missing, xp.where(here, (e + missing) @ self.precision, zero)

    def expected(
        self, E: Any, known: Mask, memory: float = MEMORY, plan: list[Batch] | None = None
    ) -> tuple[Any, float]:
        r"""Gradient and value of the observed-data log-likelihood of this covariance.

        The gradient :math:`\sum_i \tilde A_i e_i e_i' \tilde A_i - \tilde A_i` is twice the
        derivative with respect to S; :math:`\tilde A_i` is the inverse of the known block, zero
        elsewhere. ``plan`` is the list of batches of ``known``, if it is there already.
        """
        xp, c = namespace(E), self.n_labels
        by_known, by_missing, n_missing, value = (
            xp.zeros_like(self.S),
            xp.zeros_like(self.S),
            0,
            0.0,
        )
        outer = xp.zeros_like(self.S)
        logdet = float(xp.linalg.slogdet(self.S)[1])
        for batch in batches(known, memory) if plan is None else plan:
            blocks = batch.blocks(self.S if batch.known else self.precision, xp)
            G = xp.linalg.inv(blocks)
            times = np.bincount(batch.pattern, minlength=len(batch.index)).astype(np.float64)
            value -= 0.5 * float(xp.sum(xp.linalg.slogdet(blocks)[1] * asarray_like(times, E)))
            total = batch.add_up(G, c, xp)
            if batch.known:
                by_known = by_known + total
            else:
                by_missing, n_missing = by_missing + total, n_missing + len(batch.rows)
                value -= 0.5 * logdet * len(batch.rows)
            e = xp.take(E, asarray_like(batch.rows, E), axis=0)
            if len(batch.pattern) != len(batch.index):
                G = xp.take(G, asarray_like(batch.pattern, G), axis=0)
            _, weighted = self._weigh(batch, G, e, asarray_like(known[batch.rows], E), xp)
            outer = outer + weighted.T @ weighted
            value -= 0.5 * float(xp.sum(weighted * e))
        # Inverse of the known block, by that of the missing one: A~ = P - P G P.
        P = self.precision
        return outer - by_known - (n_missing * P - P @ by_missing @ P), value


@dataclass(frozen=True)
class FactorCovariance(LabelCovariance):
    r"""Low rank plus diagonal, :math:`S = L L' + \mathrm{diag}(\psi)`, for many labels.

    A row costs :math:`|O| r^2 + r^3` (Woodbury), and all rows share their matrix products.
    """

    L: Any
    psi: Any

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.L.shape[0])

    @property
    def variances(self) -> Any:
        """Diagonal of the covariance, (c,)."""
        return namespace(self.L).sum(self.L**2, axis=1) + self.psi

    def matrix(self) -> Any:
        """The covariance as a c x c array."""
        return add_diagonal(self.L @ self.L.T, self.psi)

    def bare(self) -> FactorCovariance:
        """The same, for there is nothing to leave out."""
        return self

    @property
    def _squares(self) -> Any:
        c, r = self.L.shape
        return namespace(self.L).reshape(self.L[:, :, None] * self.L[:, None, :], (c, r * r))

    def posterior(self, E: Any, known: Any) -> tuple[Any, Any]:
        """Mean (n, r) and covariance (n, r * r) of the factors of rows, ``known`` as floats."""
        xp, r = namespace(E), self.L.shape[1]
        inner = known @ (self._squares / self.psi[:, None])
        P = xp.linalg.inv(xp.reshape(inner, (-1, r, r)) + asarray_like(np.eye(r), E)[None, ...])
        mean = (P @ (E @ (self.L / self.psi[:, None]))[:, :, None])[:, :, 0]
        return mean, xp.reshape(P, (-1, r * r))

    def shifts(self, E: Any, known: Mask, memory: float = MEMORY) -> tuple[Any, Any]:
        """Shift and variance of each entry of a row, given its other known labels."""
        xp = namespace(E)
        shift, variance = [], []
        for rows in row_blocks(len(known), self._bytes, memory):
            here = asarray_like(known[rows], E)
            mean, P = self.posterior(E[rows, :], xp.astype(here, E.dtype))
            explained, spread = mean @ self.L.T, P @ self._squares.T
            weighted = (E[rows, :] - explained) / self.psi
            inverse = 1.0 / self.psi - spread / self.psi**2
            of_known = xp.where(here, inverse, xp.ones_like(inverse))
            shift.append(xp.where(here, -weighted / of_known, explained))
            variance.append(xp.where(here, 1.0 / of_known, self.psi + spread))
        if not shift:
            return xp.zeros_like(E), xp.zeros_like(E)
        return xp.concat(shift), xp.concat(variance)

    @property
    def _bytes(self) -> float:
        c, r = self.L.shape
        return 8.0 * (4 * r * r + 10 * c)
