"""Labels of a sparse matrix: signed entries, and the meaning of an entry that is not stored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l.labels._entries import Signs
from dm2l.labels._parsing import check_mask, is_null

MissingAs = Literal["missing", "negative", "unlabelled"]

_MEANINGS = (
    "'missing' (unknown), 'negative' (an observed negative) or 'unlabelled' (negative, or a "
    "positive that was not marked)"
)


@dataclass(frozen=True, eq=False)
class SparseLabelMatrix:
    """Labels of a sparse matrix, which is never made dense.

    A signed sparse matrix can be given to metrics and estimators as it is. Use :meth:`from_array`
    for one of positives only, to say what an entry that is not stored means.

    Attributes
    ----------
    signed : csr_array of shape (n, c), float64
        ``+1`` observed positive, ``-1`` observed negative.
    missing_as : {"missing", "negative", "unlabelled"}
        Meaning of an entry that is not stored.
    dense, negative
        Whether the labels came as an array or data frame, and their code of a negative, 0 or -1.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from dm2l.labels import SparseLabelMatrix
    >>> labels = SparseLabelMatrix.from_array(sp.eye_array(3).tocsr(), missing_as="negative")
    >>> labels.negatives()
    array([2, 2, 2])
    """

    signed: Any
    missing_as: MissingAs
    dense: bool = False
    negative: int = 0

    @classmethod
    def from_array(cls, Y: Any, *, missing_as: Any = None, mask: Any = None) -> SparseLabelMatrix:
        """Read labels, which may all be missing, from a sparse matrix.

        Parameters
        ----------
        Y : sparse matrix of shape (n, c)
            ``+1`` observed positives, ``-1`` observed negatives.
        missing_as : {None, "missing", "negative", "unlabelled"}, default=None
            Meaning of an entry that is not stored, if ``Y`` holds positives only.
        mask : array-like or sparse matrix of bool of shape (n, c), default=None
            True where the entry may be used.
        """
        if not sp.issparse(Y):
            raise TypeError(f"Y must be a sparse matrix, got {type(Y).__name__}: use LabelMatrix.")
        return read_sparse(Y, mask, missing_as=missing_as, allow_empty=True)

    @classmethod
    def of_signs(cls, T: Signs) -> SparseLabelMatrix:
        """From dense signs; if nothing is missing, negatives are not stored."""
        complete = bool((T != 0).all())
        signed = sp.csr_array(np.where(T > 0, 1.0, 0.0) if complete else T.astype(np.float64))
        return cls(signed, "negative" if complete else "missing", dense=True)

    def __getitem__(self, rows: Any) -> SparseLabelMatrix:
        """Return some rows."""
        return replace(self, signed=self.signed[rows])

    def positives(self) -> NDArray[np.int64]:
        """Observed positives of each label."""
        return np.bincount(
            self.signed.indices[self.signed.data > 0], minlength=self.signed.shape[1]
        )

    def negatives(self) -> NDArray[np.int64]:
        """Negatives of each label, stored or implied."""
        n, c = self.signed.shape
        if self.missing_as == "missing":
            return np.bincount(self.signed.indices[self.signed.data < 0], minlength=c)
        return n - self.positives()

    def at(self, labels: NDArray[np.intp]) -> NDArray[np.int8]:
        """Signs of some labels of each row, given by an array of shape (n, k)."""
        rows = np.repeat(np.arange(len(labels)), labels.shape[1])
        found = _entries(self.signed, rows, labels.ravel()).reshape(labels.shape)
        if self.missing_as != "missing":
            found = np.where(found == 0, -1, found)
        return found.astype(np.int8)

    def n_observed(self) -> NDArray[np.int64]:
        """Number of observed labels of each row."""
        n, c = self.signed.shape
        if self.missing_as != "missing":
            return np.full(n, c, dtype=np.int64)
        return np.diff(self.signed.indptr).astype(np.int64)

    def signs(self) -> Signs:
        """Dense signs; an entry that is not stored is negative unless it is missing."""
        signs = self.signed.toarray().astype(np.int8)
        if self.missing_as != "missing":
            signs[signs == 0] = -1
        return np.asarray(signs)


def _entries(matrix: Any, rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[Any]:
    """Entries of a dense or sparse matrix; of no entries scipy would make a sparse array."""
    if not len(rows):
        return np.zeros(0, dtype=matrix.dtype)
    return np.asarray(matrix[rows, columns]).ravel()


def check_missing_as(missing_as: Any) -> None:
    """Refuse a meaning of missing entries that does not exist."""
    if missing_as is not None and missing_as not in ("missing", "negative", "unlabelled"):
        raise ValueError(f"missing_as must be None, {_MEANINGS}; got {missing_as!r}.")


def read_sparse(
    Y: Any,
    label_mask: Any = None,
    missing_label: Any = np.nan,
    missing_as: str | None = None,
    allow_empty: bool = False,
) -> SparseLabelMatrix:
    """Signed CSR of a sparse ``Y``; neither it nor a sparse ``label_mask`` is made dense."""
    # With a mask, an entry that is not stored but means "negative" is stored as -1.
    check_missing_as(missing_as)
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
            f"Sparse Y holds positives only. Say what nothing stored means: missing_as={_MEANINGS}."
        )
    absent = cast("MissingAs", missing_as or "missing")
    values = np.where(data == 1, 1.0, -1.0)
    stored = sp.csr_array((values, (rows, columns)), shape=Y.shape)
    if mask is not None and absent == "negative":
        stored, absent = sp.csr_array(2.0 * stored - sp.csr_array(mask, dtype=float)), "missing"
    return SparseLabelMatrix(stored, absent, negative=-1 if signed else 0)


def _check_stored(
    rows: NDArray[Any],
    columns: NDArray[Any],
    data: NDArray[Any],
    missing_label: Any,
    missing_as: str | None,
) -> bool:
    """Refuse invalid values of a signed sparse ``Y``; return whether it holds negatives."""
    negative = (data == -1) if data.dtype.kind in "if" else np.zeros(len(data), dtype=bool)
    marked = np.asarray(not is_null(missing_label) and data == missing_label)
    refused = {
        "an explicit 0 in {place}. Ordinary sparse arithmetic drops such zeros silently, so they "
        "cannot mean 'negative'. Store -1 for an observed negative and nothing for a missing "
        "label; or call Y.eliminate_zeros() and say what absence means with missing_as='missing' "
        "or missing_as='negative'.": data == 0,
        "{value!r} in {place}. A signed sparse Y holds +1 (observed positive) and -1 (observed "
        "negative) only; if entries were added twice, their duplicates were summed.": (
            (data != 1) & (data != -1)
        ),
        "{value!r} in {place}, which missing_label calls missing. In a sparse Y a missing label is "
        "one that is not stored: remove those entries and leave missing_label alone.": marked,
        "{value:g} in {place}, so nothing stored already means missing; missing_as='negative' "
        "contradicts that.": negative & (missing_as == "negative"),
    }
    for text, bad in refused.items():
        if bad.any():
            at = int(np.argmax(bad))
            place, value = f"row {rows[at]}, column {columns[at]}", data[at].item()
            raise ValueError("Sparse Y stores " + text.format(place=place, value=value))
    return bool(negative.any())
