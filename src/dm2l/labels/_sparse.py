"""Sparse signed labels: what is stored, and what it means that nothing is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l.labels._containers import check_mask, is_null
from dm2l.labels._entries import Signs

Absence = Literal["missing", "negative", "unlabelled"]

_MEANINGS = {
    "missing": "nobody looked",
    "negative": "somebody looked, and it is not there",
    "unlabelled": "mostly not there, but some positives were never marked",
}


@dataclass(frozen=True)
class StoredLabels:
    """Observed labels as a signed CSR array, and what absence means.

    Attributes
    ----------
    signed : csr_array of shape (n, c), float64
        ``+1`` observed positive, ``-1`` observed negative.
    absent : {"missing", "negative", "unlabelled"}
        Meaning of nothing stored.
    dense : bool
        Whether the labels came as an array or data frame.
    negative : {0, -1}
        How the input wrote an observed negative.
    """

    signed: Any
    absent: Absence
    dense: bool = False
    negative: int = 0

    @classmethod
    def of_signs(cls, T: Signs) -> StoredLabels:
        """Dense signs; where nothing is missing, the negatives need not be stored."""
        complete = bool((T != 0).all())
        signed = sp.csr_array(np.where(T > 0, 1.0, 0.0) if complete else T.astype(np.float64))
        return cls(signed, "negative" if complete else "missing", dense=True)

    def positives(self) -> NDArray[np.int64]:
        """Observed positives of each label."""
        return self._count(self.signed.data > 0)

    def negatives(self) -> NDArray[np.int64]:
        """Negatives of each label, those that are absences too."""
        if self.absent == "missing":
            return self._count(self.signed.data < 0)
        return self.signed.shape[0] - self.positives()

    def _count(self, which: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.bincount(self.signed.indices[which], minlength=self.signed.shape[1])

    def at(self, labels: NDArray[np.intp]) -> NDArray[np.int8]:
        """Signs of some labels of every row, given as an array of shape (n, k); 0 is missing."""
        rows = np.repeat(np.arange(len(labels)), labels.shape[1])
        found = _entries(self.signed, rows, labels.ravel()).reshape(labels.shape)
        if self.absent != "missing":
            found = np.where(found == 0, -1, found)
        return found.astype(np.int8)

    def n_observed(self) -> NDArray[np.int64]:
        """Judged labels of each row."""
        n, c = self.signed.shape
        if self.absent != "missing":
            return np.full(n, c, dtype=np.int64)
        return np.diff(self.signed.indptr).astype(np.int64)

    def signs(self) -> Signs:
        """Dense signs; an absence that is not "missing" counts as a negative."""
        signs = self.signed.toarray().astype(np.int8)
        if self.absent != "missing":
            signs[signs == 0] = -1
        return np.asarray(signs)


def _entries(matrix: Any, rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[Any]:
    """Entries of a dense or sparse matrix; of no entries scipy would make a sparse array."""
    if not len(rows):
        return np.zeros(0, dtype=matrix.dtype)
    return np.asarray(matrix[rows, columns]).ravel()


def check_absent(missing_as: Any, *, unlabelled: bool = False) -> None:
    """Refuse a meaning of absence that does not exist."""
    if missing_as is not None and missing_as not in list(_MEANINGS)[: 2 + unlabelled]:
        raise ValueError(f"missing_as must be None, {_meanings(unlabelled)}; got {missing_as!r}.")


def _meanings(unlabelled: bool) -> str:
    *first, last = (f"{word!r} ({_MEANINGS[word]})" for word in list(_MEANINGS)[: 2 + unlabelled])
    return f"{', '.join(first)} or {last}"


def read_sparse(
    Y: Any,
    label_mask: Any = None,
    missing_label: Any = np.nan,
    missing_as: str | None = None,
    allow_empty: bool = False,
    *,
    unlabelled: bool = False,
) -> StoredLabels:
    """Signed CSR of a sparse ``Y``, of which nothing is made dense.

    A sparse ``label_mask`` stays sparse too. Where it is given, an absence that means "negative"
    is stored as ``-1`` under True, and everything else is missing.
    """
    check_absent(missing_as, unlabelled=unlabelled)
    # Through CSR, which adds up duplicates: an entry stored twice is refused whatever the format.
    Y = sp.csr_array(Y, copy=True)
    Y.sum_duplicates()
    mask = None if label_mask is None else check_mask(label_mask, Y.shape, sparse=True)
    rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    columns, data = Y.indices, Y.data
    if mask is not None:
        if missing_as == "unlabelled":
            raise ValueError("label_mask does not go with missing_as='unlabelled'.")
        if sp.issparse(mask):
            mask = sp.csr_array(mask, copy=True)
            mask.sum_duplicates()
            mask.eliminate_zeros()
        use = _entries(mask, rows, columns)
        rows, columns, data = rows[use], columns[use], data[use]
    signed = _check_stored(rows, columns, data, missing_label, missing_as)
    allowed = Y.shape[0] * Y.shape[1] if mask is None else int(mask.sum())
    certain = missing_as in ("negative", "unlabelled") and allowed
    if not (allow_empty or len(data) or certain):
        raise ValueError(
            "Y has nothing observed: no entry is stored. At least one label of one row is needed; "
            "check label_mask."
        )
    if len(data) and not signed and missing_as is None and len(data) != allowed:
        raise ValueError(
            "Sparse Y holds positives only. Say what nothing stored means: missing_as="
            f"{_meanings(unlabelled)}."
        )
    absent = cast("Absence", missing_as or "missing")
    values = np.where(data == 1, 1.0, -1.0)
    stored = sp.csr_array((values, (rows, columns)), shape=Y.shape)
    if mask is not None and absent == "negative":
        stored, absent = sp.csr_array(2.0 * stored - sp.csr_array(mask, dtype=float)), "missing"
    return StoredLabels(stored, absent, negative=-1 if signed else 0)


def _check_stored(
    rows: NDArray[Any],
    columns: NDArray[Any],
    data: NDArray[Any],
    missing_label: Any,
    missing_as: str | None,
) -> bool:
    """Refuse what a signed sparse ``Y`` cannot hold, and say whether it holds negatives."""

    def place(bad: NDArray[np.bool_]) -> str:
        at = int(np.argmax(bad))
        return f"row {rows[at]}, column {columns[at]}"

    zero = data == 0
    if zero.any():
        raise ValueError(
            f"Sparse Y stores an explicit 0 in {place(zero)}. Ordinary sparse arithmetic drops "
            "such zeros silently, so they cannot mean 'negative'. Store -1 for an observed "
            "negative and nothing for a missing label; or call Y.eliminate_zeros() and say what "
            "absence means with missing_as='missing' or missing_as='negative'."
        )
    wrong = (data != 1) & (data != -1)
    if wrong.any():
        raise ValueError(
            f"Sparse Y stores {data[wrong][0].item()!r} in {place(wrong)}. A signed sparse Y holds "
            "+1 (observed positive) and -1 (observed negative) only; if entries were added twice, "
            "their duplicates were summed."
        )
    if not is_null(missing_label) and (data == missing_label).any():
        raise ValueError(
            f"Sparse Y stores {missing_label!r}, which missing_label={missing_label!r} calls "
            "missing. In a sparse Y a missing label is one that is not stored: remove those "
            "entries and leave missing_label alone."
        )
    negative = (data == -1) if data.dtype.kind in "if" else np.zeros(len(data), dtype=bool)
    if negative.any() and missing_as == "negative":
        raise ValueError(
            f"Sparse Y stores -1 in {place(negative)}, so nothing stored already means missing; "
            "missing_as='negative' contradicts that."
        )
    return bool(negative.any())
