"""Structure of a label matrix: co-occurrence of labels, and singular values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Implication:
    """Pair of labels: ``implied`` is positive in most rows in which ``label`` is positive."""

    label: str
    implied: str
    probability: float  # share of positives of ``implied`` in rows where ``label`` is positive
    rows: int  # number of these rows
    base: float  # share of positives of ``implied`` in all rows


@dataclass(frozen=True, eq=False)
class Cooccurrence:
    """Co-occurrence of pairs of labels (j, k), in rows where both were observed."""

    probability: Numbers  # [j, k]: share of positives of k where j is positive; NaN if never
    count: NDArray[np.int64]  # [j, k]: number of rows where j is positive and k was observed
    base: Numbers  # [k]: share of positives of k

    @classmethod
    def of(cls, T: ArrayLike) -> Self:
        """Compute the co-occurrence in a matrix of signs, which are 0 for missing labels."""
        T = np.asarray(T)
        # Products of floats are computed by BLAS, and counts stay exact.
        yes, seen = (part.astype(np.float64) for part in (T > 0, T != 0))
        count, total = yes.T @ seen, seen.sum(axis=0)
        with np.errstate(invalid="ignore"):  # NaN if there are no rows
            share, base = (yes.T @ yes) / count, yes.sum(axis=0) / total
        return cls(share, np.rint(count).astype(np.int64), base)

    def told(self, min_rows: int = 10) -> Numbers:
        """Return ``probability`` with NaN on the diagonal and for pairs with too few rows."""
        P = np.where(self.count >= max(min_rows, 1), self.probability, np.nan)
        np.fill_diagonal(P, np.nan)
        return P

    def implied(
        self, min_rows: int = 10, min_probability: float = 0.9, min_gain: float = 0.2
    ) -> NDArray[np.bool_]:
        """Return a mask of pairs (j, k) in which label j implies label k with few exceptions."""
        P = self.told(min_rows)
        with np.errstate(invalid="ignore"):  # comparisons with NaN are False
            return (min_probability <= P) & (self.base + min_gain <= P)

    def implication(self, names: Sequence[str], j: int, k: int) -> Implication:
        """Return the implication from label j to label k."""
        probability, base = float(self.probability[j, k]), float(self.base[k])
        return Implication(names[j], names[k], probability, int(self.count[j, k]), base)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Singular values of a matrix of labels or scores, largest first."""

    shape: tuple[int, int]
    singular_values: Numbers

    @classmethod
    def of(cls, Z: ArrayLike) -> Self:
        """Compute the singular values of a matrix."""
        Z = np.asarray(Z, dtype=np.float64)
        return cls((len(Z), Z.shape[1]), np.linalg.svd(Z, compute_uv=False))

    @property
    def rank(self) -> int:
        """Number of singular values above rounding errors, as in numpy.linalg.matrix_rank."""
        s = self.singular_values
        return int((s > s[0] * max(self.shape) * np.finfo(np.float64).eps).sum()) if len(s) else 0

    @property
    def effective_rank(self) -> float:
        """Squared ratio of nuclear norm to Frobenius norm; the result is at most the rank."""
        s = self.singular_values
        return float(s.sum()) ** 2 / float((s**2).sum()) if s.any() else 0.0
