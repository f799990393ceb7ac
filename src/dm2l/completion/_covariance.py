"""Residual covariance of labels, and conditional moments (docs/research/imputing.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from dm2l._utils.arrays import Index
from dm2l.labels._entries import Floats, Mask, Signs

Pair = tuple[Floats, Floats]

MEMORY = 2.0**27  # memory in bytes for the intermediate results of a batch of rows
# Lower limit of the eigenvalues of a correlation matrix before it is inverted.
FLOOR = 0.01
# Weight of the initial covariance relative to the number of rows (benchmarks/completion.py).
PRIOR = 0.3
RIDGE = 30.0  # ridge on the loadings of the factors, in rows (benchmarks/completion.py)
# With more labels, low-rank factors are used, because a dense covariance costs (c / 2)^3 per row.
MAX_DENSE, RANK = 200, 24
WORK = 1e9  # value of rows * labels^3 for which an EM iteration takes about 0.1 seconds
FOLDS = 3  # number of folds for out-of-fold moments


@dataclass(frozen=True)
class DenseCovariance:
    """Dense covariance, for up to 200 labels."""

    S: Floats

    def matrix(self) -> Floats:
        """Return the covariance as a c x c array."""
        return self.S

    def precision(self) -> Floats:
        """Return the inverse of the covariance."""
        inverse = np.linalg.inv(self.S)
        return np.asarray(0.5 * (inverse + inverse.T))

    def shifts(self, E: Floats, known: Mask) -> Pair:
        """Return the effect of the other known labels on each entry's mean, and its variance."""
        shift, variance, P = np.zeros(E.shape), np.zeros(E.shape), self.precision()
        for batch in batches(known):
            base, here = self.S if batch.known else P, known[batch.rows]
            G: Any = np.linalg.inv(batch.blocks(base))
            strips = np.where(batch.valid[:, :, None], base[batch.index], 0.0)
            # Diagonal of the covariance, given the labels of the block.
            left = np.diagonal(base) - np.sum(strips * (G @ strips), axis=1)
            left, G = left[batch.pattern], G[batch.pattern]
            inside = batch.scatter(np.diagonal(G, axis1=1, axis2=2), len(base))
            diagonal = np.where(here == batch.known, inside, left)
            missing, weighted = self._weigh(batch, G, E[batch.rows], here, P)
            shift[batch.rows] = np.where(here, -weighted / diagonal, missing)
            variance[batch.rows] = np.where(here, 1.0 / diagonal, diagonal)
        return shift, variance

    def _weigh(self, batch: Batch, G: Floats, e: Floats, here: Mask, P: Floats) -> Pair:
        """Return effects ``S_UO A e`` on missing entries, and ``A e``, both of shape (b, c)."""
        if batch.known:
            inner = (G @ batch.gather(e)[:, :, None])[:, :, 0]
            weighted = batch.scatter(inner, len(P))
            return np.where(here, 0.0, weighted @ self.S), weighted
        # The completed residual x has (S^-1 x)_U = 0 and (S^-1 x)_O = A e.
        inner = -(G @ batch.gather(e @ P)[:, :, None])[:, :, 0]
        missing = batch.scatter(inner, len(P))
        return missing, np.where(here, (e + missing) @ P, 0.0)

    def expected(self, E: Floats, known: Mask, plan: list[Batch]) -> tuple[Floats, float]:
        """Return gradient and value of the log-likelihood of known entries, summed over batches."""
        # The gradient is twice the derivative with respect to S: the sum of A e e' A - A, with the
        # inverses A of known blocks.
        by_known, by_missing, outer = (np.zeros_like(self.S) for _ in range(3))
        n_missing, value, P = 0, 0.0, self.precision()
        logdet = float(np.linalg.slogdet(self.S)[1])
        for batch in plan:
            blocks = batch.blocks(self.S if batch.known else P)
            G: Any = np.linalg.inv(blocks)
            times = np.bincount(batch.pattern, minlength=len(blocks))
            value -= 0.5 * float(np.sum(np.linalg.slogdet(blocks)[1] * times))
            # Each inverse is added to the entries of its labels in a c x c matrix.
            both = batch.valid[:, :, None] & batch.valid[:, None, :]
            flat = batch.index[:, :, None] * len(P) + batch.index[:, None, :]
            added = np.where(both, G * times[:, None, None], 0.0)
            total = np.bincount(flat.ravel(), added.ravel(), P.size).reshape(P.shape)
            if batch.known:
                by_known += total
            else:
                by_missing, n_missing = by_missing + total, n_missing + len(batch.rows)
                value -= 0.5 * logdet * len(batch.rows)
            e = E[batch.rows]
            _, weighted = self._weigh(batch, G[batch.pattern], e, known[batch.rows], P)
            outer += weighted.T @ weighted
            value -= 0.5 * float(np.sum(weighted * e))
        # With the inverse G of the missing block, the inverse of the known block is P - P G P.
        return outer - by_known - (n_missing * P - P @ by_missing @ P), value


@dataclass(frozen=True)
class FactorCovariance:
    """Covariance ``L L' + diag(psi)`` with ``L`` (c, r); a row costs |O| r^2 + r^3 operations."""

    L: Floats
    psi: Floats

    def matrix(self) -> Floats:
        """Return the covariance as a c x c array."""
        return self.L @ self.L.T + np.diag(self.psi)

    def _squares(self) -> Floats:
        return (self.L[:, :, None] * self.L[:, None, :]).reshape(len(self.L), -1)

    def posterior(self, E: Floats, known: Any) -> Pair:
        """Return the posterior means (n, r) and covariances (n, r * r) of each row's factors."""
        r = self.L.shape[1]
        inner = known @ (self._squares() / self.psi[:, None])
        P = np.linalg.inv(inner.reshape(-1, r, r) + np.eye(r))
        mean = (P @ (E @ (self.L / self.psi[:, None]))[:, :, None])[:, :, 0]
        return mean, P.reshape(-1, r * r)

    def shifts(self, E: Floats, known: Mask) -> Pair:
        """Return the effect of the other known labels on each entry's mean, and its variance."""
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
    """Return residuals ``t - f``, with 0 at missing entries, and the mask of known entries."""
    known = T != 0
    return np.where(known, T - F, 0.0), known


def conditional_moments(covariance: LabelCovariance, T: Any, F: Floats) -> Pair:
    """Return mean and variance of each entry, given the features and the *other* known labels."""
    E, known = residuals(T, F)
    shift, variance = covariance.shifts(E, known)
    return np.where(known, T, F) + shift, variance


@dataclass(frozen=True)
class Batch:
    """Batch of rows whose blocks of the covariance or precision matrix are inverted together."""

    rows: Index
    known: bool  # whether blocks contain the known labels, not the missing labels
    index: Index  # (p, k), the known or missing labels of each of p patterns
    valid: Mask  # (p, k), False for padding
    pattern: Index  # (b,), the pattern of each row

    def blocks(self, matrix: Floats) -> Floats:
        """Return the blocks (p, k, k) of a c x c matrix, padded with the identity."""
        found = matrix[self.index[:, :, None], self.index[:, None, :]]
        both = self.valid[:, :, None] & self.valid[:, None, :]
        return np.where(both, found, np.eye(self.index.shape[1]))

    def gather(self, values: Floats) -> Floats:
        """Select the values of each row's block of labels; padding is 0."""
        found = np.take_along_axis(values, self.index[self.pattern], axis=1)
        return np.where(self.valid[self.pattern], found, 0.0)

    def scatter(self, values: Floats, n_labels: int) -> Floats:
        """Invert :meth:`gather`: place values in rows of all labels, with zeros for the others."""
        found = np.zeros((len(values), n_labels))
        values = np.where(self.valid[self.pattern], values, 0.0)
        np.put_along_axis(found, self.index[self.pattern], values, axis=1)
        return found


def batches(known: Mask) -> Iterator[Batch]:
    """Yield batches of rows that fit into memory; rows of a batch have blocks of similar size."""
    n, c = known.shape
    packed: Any = np.ascontiguousarray(np.packbits(known, axis=1))
    if c <= 64:  # numbers are sorted faster than bytes
        packed = np.pad(packed, ((0, 0), (0, 8 - packed.shape[1]))).view(">u8").astype(np.uint64)
    else:
        packed = packed.view(f"V{packed.shape[1]}")
    _, pattern = np.unique(packed.ravel(), return_inverse=True)
    n_known = known.sum(axis=1)
    by_known = 2 * n_known <= c
    size = np.maximum(np.where(by_known, n_known, c - n_known), 1)
    order = np.lexsort((pattern, size, by_known))
    start = 0
    while start < n:
        side = by_known[order[start]]
        end = start + int(np.searchsorted(by_known[order[start:]], side, side="right"))
        # Rows are sorted by block size, and each row needs as much memory as the largest block.
        reach = np.arange(1, end - start + 1)
        k = size[order[start:end]]
        bytes_needed = 8.0 * reach * (4 * k * k + 4 * k * c + 12 * c)
        stop = start + max(int(np.searchsorted(bytes_needed, MEMORY, side="right")), 1)
        # Every row costs as much as the row with the largest block, so sizes should be similar.
        near = int(np.searchsorted(k, 1.25 * k[0] + 2, side="right"))
        stop = min(stop, start + near)
        rows = order[start:stop]
        # Rows with the same pattern are adjacent; patterns are numbered in this order.
        new = np.append(True, np.diff(pattern[rows]) != 0)
        first, which = np.flatnonzero(new), np.cumsum(new) - 1
        named = known[rows[first]] if side else ~known[rows[first]]
        width = int(size[rows[-1]])
        index = np.argsort(~named, axis=1, kind="stable")[:, :width]
        valid = np.arange(width) < named.sum(axis=1)[:, None]
        yield Batch(rows, bool(side), index, valid, which)
        start = stop


def row_blocks(n_rows: int, bytes_a_row: float) -> Iterator[slice]:
    """Return slices of rows for which intermediate results fit into memory."""
    step = max(int(MEMORY / bytes_a_row), 1)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def quick_covariance(T: Signs, F: Floats) -> LabelCovariance:
    """Estimate the residual covariance of labels from signs and scores, in limited time."""
    n, c = T.shape
    E, known = residuals(T, F)
    if c > MAX_DENSE:  # factors are fitted to a sample of the rows
        some = slice(0, max(int(WORK / (100.0 * c)), 2000))
        return em_factor(E[some], known[some], min(RANK, c - 1), rounds=5)[0]
    start, work = DenseCovariance(pairwise_covariance(E, known)), float(n) * c**3 / WORK
    if work > 10:
        return start
    return em_dense(E, known, start, rounds=10 if work <= 1 else 5)[0]


def out_of_fold_moments(T: Signs, F: Floats, folds: Index) -> Pair:
    """Return means and variances; the covariance for a fold is fitted to the other folds."""
    mean, variance = np.empty(F.shape), np.empty(F.shape)
    for k in range(FOLDS):
        here, others = folds == k, folds != k
        covariance = quick_covariance(T[others], F[others])
        mean[here], variance[here] = conditional_moments(covariance, T[here], F[here])
    return mean, variance


def _variances(E: Floats, known: Mask) -> Floats:
    # A residual of size 1 is added. Otherwise, a label with one observed class would have
    # almost no variance, and an entry of the other class would outweigh all other labels.
    return np.asarray((np.sum(E * E, axis=0) + 1.0) / (known.sum(axis=0) + 1.0))


def pairwise_covariance(E: Floats, mask: Mask, shrinkage: float = 1.0) -> Floats:
    """Return a positive definite covariance, estimated from shrunk pairwise moments."""
    known, squares = mask.astype(np.float64), E * E
    times = np.maximum(known.T @ known, 1.0)
    S = (E.T @ E) / times
    noise = ((squares.T @ squares) / times - S * S) / times
    S = S * np.maximum(1.0 - shrinkage * noise / np.maximum(S * S, 1e-300), 0.0)
    # The variances are d, and the eigenvalues of the correlation matrix are bounded away from 0.
    scale = np.sqrt(_variances(E, mask))
    correlation = S / (scale[:, None] * scale[None, :])
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    if np.min(values) < FLOOR:
        correlation = (vectors * np.maximum(values, FLOOR)) @ vectors.T
        scale = scale * (1.0 / np.sqrt(np.diagonal(correlation)))
    return np.asarray(correlation * (scale[:, None] * scale[None, :]))


def em_dense(
    E: Floats, mask: Mask, start: DenseCovariance, *, rounds: int = 10, tol: float = 1e-3
) -> tuple[DenseCovariance, list[float]]:
    """Fit a covariance by EM with an inverse Wishart prior; also return all objective values."""
    # The completed residuals and the covariances of missing entries follow from the gradient.
    n, history = max(len(mask), 1), []
    nu, enough = PRIOR * n, tol * int(mask.sum())
    plan, current = list(batches(mask)), start
    for k in range(rounds + 1):
        gradient, value = current.expected(E, mask, plan)
        S = current.S
        held = float(np.linalg.slogdet(S)[1]) + float(np.sum(current.precision() * start.S))
        history.append(value - 0.5 * nu * held)
        if k == rounds or (k and history[-1] - history[-2] < enough):
            break
        S = (n * S + S @ gradient @ S + nu * start.S) / (n + nu)
        current = DenseCovariance(0.5 * (S + S.T))
    return current, history


def em_factor(
    E: Floats, mask: Mask, rank: int, *, ridge: float = RIDGE, rounds: int = 10, tol: float = 1e-3
) -> tuple[FactorCovariance, list[float]]:
    """Return a low-rank covariance fitted by EM, and the objective after each round."""
    n, c = E.shape
    known, d = mask.astype(np.float64), _variances(E, mask)
    seen, squares = np.sum(known, axis=0), np.sum(E * E, axis=0)
    enough = tol * int(mask.sum())
    current, history = _first_factors(E, mask, d, rank), []
    for k in range(rounds + 1):
        C, B, value = np.zeros((c, rank * rank)), np.zeros_like(current.L), 0.0
        for rows in row_blocks(n, 8.0 * (6 * rank * rank + 4 * c)):
            mean, P = current.posterior(E[rows], known[rows])
            pairs = (mean[:, :, None] * mean[:, None, :]).reshape(-1, rank * rank)
            C += known[rows].T @ (P + pairs)
            B += E[rows].T @ mean
            # log |S_OO| = log |I + L'L / psi| + sum log psi; e'Ae by the Woodbury identity.
            value += 0.5 * float(np.sum(np.linalg.slogdet(P.reshape(-1, rank, rank))[1]))
            value += 0.5 * float(np.sum((E[rows] @ (current.L / current.psi[:, None])) * mean))
        value -= 0.5 * float(np.sum(seen * np.log(current.psi) + squares / current.psi))
        held = ridge * np.sum(current.L**2, axis=1) / current.psi
        value -= 0.5 * float(np.sum(held + np.log(current.psi) + d / current.psi))
        history.append(value)
        if k == rounds or (k and history[-1] - history[-2] < enough):
            break
        curvature = C.reshape(c, rank, rank) + ridge * np.eye(rank)
        L: Any = np.linalg.solve(curvature, B[:, :, None])[:, :, 0]
        psi: Any = (squares - np.sum(L * B, axis=1) + d) / (seen + 1.0)
        current = FactorCovariance(L, psi)
    return current, history


def _first_factors(E: Floats, mask: Mask, d: Floats, rank: int) -> FactorCovariance:
    """Return initial factors: singular vectors of residuals, divided by the observed rates."""
    scale, n = np.sqrt(d), max(len(mask), 1)
    rate = np.maximum(mask.mean(axis=0), 1.0 / n)
    _, values, vectors = randomized_svd(E / scale, rank, n_iter=4, random_state=0)
    L = vectors.T * (values / np.sqrt(n)) / rate[:, None]
    # Initially the factors explain at most 90 % of the variance of a label.
    size = np.sum(L**2, axis=1)
    L *= np.sqrt(np.minimum(1.0, 0.9 / np.maximum(size, 1e-12)))[:, None]
    psi: Any = (1.0 - np.sum(L**2, axis=1)) * scale**2
    loadings: Any = L * scale[:, None]
    return FactorCovariance(loadings, psi)
