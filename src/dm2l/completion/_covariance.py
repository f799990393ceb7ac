"""The residual covariance of labels, and each entry of a row given the row's other known labels.

With :math:`A = S_{OO}^{-1}` of the known labels ``O`` of a row and its residuals ``e``, a missing
entry ``k`` is shifted by :math:`S_{kO} A e` and has the variance
:math:`S_{kk} - S_{kO} A S_{Ok}`. A known entry is scored as if it were missing: the shift
:math:`-(A e)_k / A_{kk}`, added to its own sign, is its mean given all others, with the variance
:math:`1 / A_{kk}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Bytes of the intermediate results of a batch of rows.
MEMORY = 2.0**27


@dataclass(frozen=True)
class DenseCovariance:
    """A covariance held as it is, for up to some 200 labels."""

    S: Floats

    def matrix(self) -> Floats:
        """The covariance as a c x c array."""
        return self.S

    def precision(self) -> Floats:
        """Inverse of the covariance."""
        inverse = np.linalg.inv(self.S)
        return np.asarray(0.5 * (inverse + inverse.T))

    def shifts(self, E: Floats, known: Mask) -> tuple[Floats, Floats]:
        """Shift and variance of each entry of a row, given its other known labels."""
        shift, variance, P = np.zeros(E.shape), np.zeros(E.shape), self.precision()
        for batch in batches(known):
            base, here = self.S if batch.known else P, known[batch.rows]
            G: Any = np.linalg.inv(batch.blocks(base))
            strips = np.where(batch.valid[:, :, None], base[batch.index], 0.0)
            # Diagonal of what is left of the base when the labels of the block are given.
            left = np.diagonal(base) - np.sum(strips * (G @ strips), axis=1)
            left, G = left[batch.pattern], G[batch.pattern]
            inside = batch.scatter(np.diagonal(G, axis1=1, axis2=2), len(base))
            diagonal = np.where(here == batch.known, inside, left)
            missing, weighted = self._weigh(batch, G, E[batch.rows], here, P)
            shift[batch.rows] = np.where(here, -weighted / diagonal, missing)
            variance[batch.rows] = np.where(here, 1.0 / diagonal, diagonal)
        return shift, variance

    def _weigh(
        self, batch: Batch, G: Floats, e: Floats, here: Mask, P: Floats
    ) -> tuple[Floats, Floats]:
        """Shift of missing entries ``S_UO A e`` and weighted residuals ``A e``, both (b, c)."""
        if batch.known:
            inner = (G @ batch.gather(e)[:, :, None])[:, :, 0]
            weighted = batch.scatter(inner, len(P))
            return np.where(here, 0.0, weighted @ self.S), weighted
        # The completed residual x has (S^-1 x)_U = 0 and (S^-1 x)_O = A e.
        inner = -(G @ batch.gather(e @ P)[:, :, None])[:, :, 0]
        missing = batch.scatter(inner, len(P))
        return missing, np.where(here, (e + missing) @ P, 0.0)

    def expected(self, E: Floats, known: Mask, plan: list[Batch]) -> tuple[Floats, float]:
        r"""Gradient and value of the observed-data log-likelihood of this covariance.

        The gradient :math:`\sum_i \tilde A_i e_i e_i' \tilde A_i - \tilde A_i` is twice the
        derivative with respect to S; :math:`\tilde A_i` is the inverse of the known block, zero
        elsewhere. ``plan`` is the list of batches of ``known``.
        """
        by_known, by_missing, outer = (np.zeros_like(self.S) for _ in range(3))
        n_missing, value, P = 0, 0.0, self.precision()
        logdet = float(np.linalg.slogdet(self.S)[1])
        for batch in plan:
            blocks = batch.blocks(self.S if batch.known else P)
            G: Any = np.linalg.inv(blocks)
            times = np.bincount(batch.pattern, minlength=len(blocks))
            value -= 0.5 * float(np.sum(np.linalg.slogdet(blocks)[1] * times))
            total = batch.add_up(G, times, len(P))
            if batch.known:
                by_known += total
            else:
                by_missing, n_missing = by_missing + total, n_missing + len(batch.rows)
                value -= 0.5 * logdet * len(batch.rows)
            e = E[batch.rows]
            _, weighted = self._weigh(batch, G[batch.pattern], e, known[batch.rows], P)
            outer += weighted.T @ weighted
            value -= 0.5 * float(np.sum(weighted * e))
        # Inverse of the known block, by that of the missing one: A~ = P - P G P.
        return outer - by_known - (n_missing * P - P @ by_missing @ P), value


@dataclass(frozen=True)
class FactorCovariance:
    r"""Low rank plus diagonal, :math:`S = L L' + \mathrm{diag}(\psi)`, for many labels.

    A row costs :math:`|O| r^2 + r^3` (Woodbury), and all rows share their matrix products.
    """

    L: Floats
    psi: Floats

    def matrix(self) -> Floats:
        """The covariance as a c x c array."""
        return self.L @ self.L.T + np.diag(self.psi)

    def _squares(self) -> Floats:
        return (self.L[:, :, None] * self.L[:, None, :]).reshape(len(self.L), -1)

    def posterior(self, E: Floats, known: Any) -> tuple[Floats, Floats]:
        """Mean (n, r) and covariance (n, r * r) of the factors of rows, ``known`` as floats."""
        r = self.L.shape[1]
        inner = known @ (self._squares() / self.psi[:, None])
        P = np.linalg.inv(inner.reshape(-1, r, r) + np.eye(r))
        mean = (P @ (E @ (self.L / self.psi[:, None]))[:, :, None])[:, :, 0]
        return mean, P.reshape(-1, r * r)

    def shifts(self, E: Floats, known: Mask) -> tuple[Floats, Floats]:
        """Shift and variance of each entry of a row, given its other known labels."""
        c, r = self.L.shape
        shift, variance = np.zeros(E.shape), np.zeros(E.shape)
        for rows in row_blocks(len(known), 8.0 * (4 * r * r + 10 * c)):
            here = known[rows]
            mean, P = self.posterior(E[rows], here.astype(np.float64))
            explained, spread = mean @ self.L.T, P @ self._squares().T
            weighted = (E[rows] - explained) / self.psi
            of_known = np.where(here, 1.0 / self.psi - spread / self.psi**2, 1.0)
            shift[rows] = np.where(here, -weighted / of_known, explained)
            variance[rows] = np.where(here, 1.0 / of_known, self.psi + spread)
        return shift, variance


LabelCovariance = DenseCovariance | FactorCovariance


def residuals(T: NDArray[Any], F: Floats) -> tuple[Floats, Mask]:
    """Residuals ``t - f``, zero at missing entries, and where entries are known."""
    known = T != 0
    return np.where(known, T - F, 0.0), known


def conditional_moments(
    covariance: LabelCovariance, T: NDArray[Any], F: Floats
) -> tuple[Floats, Floats]:
    """Mean and variance of each label given the features and the *other* known labels of its row.

    A known entry is scored as if it were missing: its own label is left out (in closed form).
    """
    E, known = residuals(T, F)
    shift, variance = covariance.shifts(E, known)
    return np.where(known, T, F) + shift, variance


@dataclass(frozen=True)
class Batch:
    """Rows whose blocks are inverted in one call.

    A row needs the inverse of a block of the covariance: of its known labels or, on the side of the
    precision matrix, of its missing ones. ``index`` (p, k) names the labels of each of p patterns,
    ``valid`` which of them are not padding, ``pattern`` (b,) the pattern of each of the ``rows``.
    """

    rows: NDArray[np.intp]
    known: bool
    index: NDArray[np.intp]
    valid: Mask
    pattern: NDArray[np.intp]

    def _pairs(self) -> Mask:
        return self.valid[:, :, None] & self.valid[:, None, :]

    def blocks(self, matrix: Floats) -> Floats:
        """The blocks of a c x c matrix, padded with the identity, (p, k, k)."""
        found = matrix[self.index[:, :, None], self.index[:, None, :]]
        return np.where(self._pairs(), found, np.eye(self.index.shape[1]))

    def gather(self, values: Floats) -> Floats:
        """Entries of the labels named, zero where padded, from (b, c) to (b, k)."""
        found = np.take_along_axis(values, self.index[self.pattern], axis=1)
        return np.where(self.valid[self.pattern], found, 0.0)

    def scatter(self, values: Floats, n_labels: int) -> Floats:
        """The way back, from (b, k) to (b, c), zero where no label is named."""
        found = np.zeros((len(values), n_labels))
        values = np.where(self.valid[self.pattern], values, 0.0)
        np.put_along_axis(found, self.index[self.pattern], values, axis=1)
        return found

    def add_up(self, inverses: Floats, times: NDArray[np.intp], n_labels: int) -> Floats:
        """Sum over rows of their blocks (p, k, k), each at its place in a c x c matrix."""
        flat = self.index[:, :, None] * n_labels + self.index[:, None, :]
        weighted = np.where(self._pairs(), inverses * times[:, None, None], 0.0)
        total: Any = np.bincount(flat.ravel(), weighted.ravel(), n_labels * n_labels)
        return np.asarray(total.reshape(n_labels, n_labels))


def batches(known: Mask) -> Iterator[Batch]:
    """Rows in batches that fit into the memory, those with the same known labels together.

    Blocks are those of the known or of the missing labels, whichever are fewer, so that no inverse
    is larger than half of the labels.
    """
    n, c = known.shape
    packed = np.ascontiguousarray(np.packbits(known, axis=1))
    _, pattern = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_inverse=True)
    n_known = known.sum(axis=1)
    by_known = 2 * n_known <= c
    size = np.maximum(np.where(by_known, n_known, c - n_known), 1)
    order = np.lexsort((pattern, size, by_known))
    start = 0
    while start < n:
        side = by_known[order[start]]
        end = start + int(np.searchsorted(by_known[order[start:]], side, side="right"))
        # Sizes grow along the order: the last row that may join is the last that fits at its size.
        reach = np.arange(1, end - start + 1)
        k = size[order[start:end]]
        bytes_needed = 8.0 * reach * (4 * k * k + 4 * k * c + 12 * c)
        stop = start + max(int(np.searchsorted(bytes_needed, MEMORY, side="right")), 1)
        # A batch of mixed sizes pays for the largest: do not mix much.
        near = int(np.searchsorted(k, 1.25 * k[0] + 2, side="right"))
        stop = min(stop, start + near)
        rows = order[start:stop]
        # Rows of one pattern lie side by side; patterns are counted as they come.
        new = np.append(True, np.diff(pattern[rows]) != 0)
        first, which = np.flatnonzero(new), np.cumsum(new) - 1
        named = known[rows[first]] if side else ~known[rows[first]]
        width = int(size[rows[-1]])
        index = np.argsort(~named, axis=1, kind="stable")[:, :width]
        valid = np.arange(width) < named.sum(axis=1)[:, None]
        yield Batch(rows, bool(side), index, valid, which)
        start = stop


def row_blocks(n_rows: int, bytes_a_row: float) -> Iterator[slice]:
    """Slices of rows that fit into the memory."""
    step = max(int(MEMORY / bytes_a_row), 1)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))
