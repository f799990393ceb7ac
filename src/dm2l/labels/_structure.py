"""Structure of a label matrix: co-occurrence of labels, and its spectrum."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Implication:
    """Rows with ``label`` mostly have ``implied``: with which probability, and base rate."""

    label: str
    implied: str
    probability: float
    rows: int
    base: float


@dataclass(frozen=True, eq=False)
class Cooccurrence:
    """How often label k occurs with label j, where both were observed."""

    probability: Numbers  # [j, k]: P(k | j), nan without such rows
    count: NDArray[np.int64]  # [j, k]: rows with j in which k was observed
    base: Numbers  # [k]: share of positives of k

    @classmethod
    def of(cls, T: ArrayLike) -> Self:
        """Count in a matrix of signs, 0 where a label is missing."""
        T = np.asarray(T)
        # Floats, so that the products below are those of BLAS; counts stay exact.
        yes, seen = (part.astype(np.float64) for part in (T > 0, T != 0))
        count, total = yes.T @ seen, seen.sum(axis=0)
        with np.errstate(invalid="ignore"):  # nan of 0 rows
            share, base = (yes.T @ yes) / count, yes.sum(axis=0) / total
        return cls(share, np.rint(count).astype(np.int64), base)

    def told(self, min_rows: int = 10) -> Numbers:
        """Probabilities of pairs with enough rows; nan elsewhere and on the diagonal."""
        P = np.where(self.count >= max(min_rows, 1), self.probability, np.nan)
        np.fill_diagonal(P, np.nan)
        return P

    def implied(
        self, min_rows: int = 10, min_probability: float = 0.9, min_gain: float = 0.2
    ) -> NDArray[np.bool_]:
        """Whether label j implies k: P(k | j) is high, and higher than the base by a margin."""
        P = self.told(min_rows)
        with np.errstate(invalid="ignore"):  # nan is neither
            return (min_probability <= P) & (self.base + min_gain <= P)

    def implications(self, names: Sequence[str], **least: Any) -> list[Implication]:
        """Implications, most probable first; arguments as in :meth:`implied`."""
        found = [self.implication(names, j, k) for j, k in np.argwhere(self.implied(**least))]
        return sorted(found, key=lambda i: (-i.probability, -i.rows))

    def implication(self, names: Sequence[str], j: int, k: int) -> Implication:
        """Label k in the rows where label j is positive."""
        probability, base = float(self.probability[j, k]), float(self.base[k])
        return Implication(names[j], names[k], probability, int(self.count[j, k]), base)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Singular values of a matrix of labels or scores, largest first."""

    shape: tuple[int, int]
    singular_values: Numbers

    @classmethod
    def of(cls, Z: ArrayLike) -> Self:
        """The spectrum of a matrix."""
        Z = np.asarray(Z, dtype=np.float64)
        return cls((len(Z), Z.shape[1]), np.linalg.svd(Z, compute_uv=False))

    @cached_property
    def rank(self) -> int:
        """Singular values above rounding, as :func:`numpy.linalg.matrix_rank` counts them."""
        s = self.singular_values
        return int((s > s[0] * max(self.shape) * np.finfo(np.float64).eps).sum()) if len(s) else 0

    @cached_property
    def nuclear_norm(self) -> float:
        """Sum of the singular values."""
        return float(self.singular_values.sum())

    @cached_property
    def effective_rank(self) -> float:
        """``(||Z||_* / ||Z||_F)^2``, from 1 to the rank: reached where all values are equal."""
        square = float((self.singular_values**2).sum())
        return self.nuclear_norm**2 / square if square else 0.0
