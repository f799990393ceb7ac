"""Rows that share a label, gathered in stacks of bounded size, and their nuclear norms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._solvers.nuclear import Evaluation, SmoothNorm, nuclear_norm

Array = NDArray[np.float64]

# Numbers in the largest stack, 32 MB: beyond, batching saves nothing any more.
STACK = 2**22
# Groups go into one stack where the largest exceeds the smallest by no more than this factor, or
# has no more rows than this.
PADDING, SMALL = 1.1, 8


class _Stack(NamedTuple):
    """Groups of similar size: places of their rows among the covered ones, and the sparse inverse.

    ``heights`` are numbers of rows, ``weights`` sums of their weights, for the curvature.
    """

    places: NDArray[np.intp]
    heights: NDArray[np.intp]
    weights: NDArray[Any]
    back: Any


@dataclass(frozen=True)
class SharedRows:
    """Groups of the rows that share a label, from sparse positives.

    ``covered`` rows are those in at least one group, so that the global norm never exceeds the sum
    of the local ones (Theorem 1 of the paper).
    """

    covered: NDArray[np.intp]
    stacks: list[_Stack]

    @classmethod
    def gather(
        cls,
        positives: Any,
        rank: int,
        min_rows: int = 2,
        *,
        size: int = STACK,
        rows: Array | None = None,
    ) -> SharedRows:
        """Groups of a boolean sparse matrix, for scores of ``rank`` columns; ``rows`` are weights.

        No stack holds more than ``size`` numbers, unless a single group does.
        """
        positives = positives.tocsc()
        counts = np.diff(positives.indptr)
        sizes = counts if rows is None else positives.T @ rows
        labels = np.flatnonzero(sizes >= min_rows)
        labels = labels[np.argsort(counts[labels], kind="stable")]
        members = [positives.indices[slice(*positives.indptr[j : j + 2])] for j in labels]
        n = positives.shape[0]
        covered = np.unique(np.concatenate([np.zeros(0, dtype=np.intp), *members]))
        filler = len(covered)
        place = np.full(n, filler, dtype=np.intp)
        place[covered] = np.arange(filler)
        weights = None if rows is None else np.append(rows[covered], 0.0)
        heights = counts[labels].astype(np.intp)
        stacks, start = [], 0
        while start < len(labels):
            lowest = heights[start]
            highest = max(PADDING * lowest, lowest if lowest >= rank else SMALL)
            most = max(1, int(size / (highest * rank)))
            end = start + int(np.searchsorted(heights[start:], highest, side="right"))
            some = slice(start, min(end, start + most))
            places = np.full((len(heights[some]), heights[some][-1]), filler, dtype=np.intp)
            for row, group in zip(places, members[some], strict=True):
                row[: len(group)] = np.sort(place[group])
            flat = places.ravel()
            real = np.flatnonzero(flat < filler)
            inverse = (np.ones(len(real)), (flat[real], real))
            back = sp.csr_array(inverse, shape=(filler, len(flat)))
            heavy = heights[some]
            if weights is not None:  # a row that is there twice is two rows, a light one is a row
                heavy = np.maximum(heavy, weights[places].sum(axis=1))
            stacks.append(_Stack(places, heights[some], heavy, back))
            start = some.stop
        return cls(covered, stacks)

    def norms(self, F: Array, norm: SmoothNorm, *, curvature: bool = False) -> Evaluation:
        """Summed norms of the groups of covered scores ``F``, which end with a zero row."""
        value = exact = 0.0
        r = F.shape[1]
        gradient = np.zeros((len(F) - 1, r))
        bend = np.zeros((r, r)) if curvature else None
        for stack in self.stacks:
            Z = F[stack.places]
            if Z.shape[1] < r:
                at = wide_norms(Z, stack.weights, norm.mu, curvature=curvature)
            else:
                at = norm(Z, curvature=curvature, heights=stack.weights if curvature else None)
            value += at.value
            exact += at.exact
            gradient += stack.back @ at.gradient.reshape(-1, r)
            if bend is not None:
                bend += at.curvature
        return Evaluation(value, exact, gradient, bend)

    def exact(self, F: Array) -> float:
        """``sum_k ||F_k||_*`` from singular values."""
        total = 0.0
        for stack in self.stacks:
            for places, height in zip(stack.places, stack.heights, strict=True):
                total += nuclear_norm(F[places[:height]])
        return total


def wide_norms(
    Z: Array, heights: NDArray[Any], mu: float, *, curvature: bool = False
) -> Evaluation:
    """Smoothed norms, summed, of a stack of matrices with fewer rows than columns."""
    # The curvature of all is one product of tall matrices: for thousands of tail labels a stack of
    # square ones would be the largest array of the fit.
    eigenvalues, vectors = np.linalg.eigh(Z @ Z.swapaxes(1, 2))
    eigenvalues = np.clip(eigenvalues, 0.0, None)
    roots = np.sqrt(eigenvalues + mu * mu)
    turned = vectors.swapaxes(1, 2) @ Z
    gradient = vectors @ (turned / roots[:, :, None])
    found = Evaluation(float((roots - mu).sum()), float(np.sqrt(eigenvalues).sum()), gradient)
    if not curvature:
        return found
    spare = (heights - Z.shape[1])[:, None]  # negative: zero rows have a root as well, mu
    pairs = (1.0 / (roots[:, None, :] + roots[:, :, None])).sum(axis=2) + spare / (roots + mu)
    rest = (1.0 / (roots + mu)).sum(axis=1)[:, None] + spare / (2 * mu)
    safe = eigenvalues > 1e-12 * mu * mu
    weights = np.where(safe, (pairs - rest) / np.where(safe, eigenvalues, 1.0), 0.0)
    P = turned.reshape(-1, Z.shape[2])
    H = (P * weights.reshape(-1, 1)).T @ P
    H[np.diag_indices_from(H)] += rest.sum()
    return found._replace(curvature=H)
