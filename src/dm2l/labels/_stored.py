"""Sparse labels that stay sparse: what is stored, and what it means that nothing is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l.labels._labels import parse_labels

Absence = Literal["missing", "negative", "unlabelled"]

_MEANINGS = (
    "'missing' (nobody looked), 'negative' (somebody looked, and it is not there) or 'unlabelled' "
    "(mostly not there, but some positives were never marked)"
)


@dataclass(frozen=True)
class StoredLabels:
    """Observed labels as a signed CSR array, and what absence means.

    Attributes
    ----------
    signed : csr_array of shape (n, c), float64
        ``+1`` observed positive, ``-1`` observed negative.
    absent : {"missing", "negative", "unlabelled"}
        Meaning of nothing stored.
    names : ndarray of object or None
        Column names, when the container had them.
    dense : bool
        Whether the labels came as an array or data frame.
    """

    signed: Any
    absent: Absence
    names: NDArray[np.object_] | None = None
    dense: bool = False

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
        found = np.asarray(self.signed[rows, labels.ravel()]).reshape(labels.shape)
        if self.absent != "missing":
            found = np.where(found == 0, -1, found)
        return found.astype(np.int8)

    def n_observed(self) -> NDArray[np.int64]:
        """Judged labels of each row."""
        n, c = self.signed.shape
        if self.absent != "missing":
            return np.full(n, c, dtype=np.int64)
        return np.diff(self.signed.indptr).astype(np.int64)


def stored_labels(
    Y: Any, *, missing_label: Any = np.nan, absent_label: Any = None, allow_empty: bool = False
) -> StoredLabels:
    """Read labels of the contract without ever making a sparse ``Y`` dense.

    Parameters
    ----------
    Y : sparse matrix, array-like or data frame of shape (n, c)
        Signed CSR, positives only, or a dense matrix with holes.
    missing_label : scalar, default=nan
        Mark of a hole in a dense ``Y``.
    absent_label : {None, "missing", "negative", "unlabelled"}, default=None
        What nothing stored means in a sparse ``Y``; None: it is signed, absence is missing.
    allow_empty : bool, default=False
        Whether nothing at all may be observed.

    Returns
    -------
    StoredLabels
        Signed CSR and the meaning of absence.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from dm2l.labels._stored import stored_labels
    >>> stored_labels(sp.csr_array([[1, -1, 0], [0, 1, 0]])).n_observed()
    array([2, 1])
    """
    if absent_label not in (None, "missing", "negative", "unlabelled"):
        raise ValueError(f"absent_label must be None, {_MEANINGS}; got {absent_label!r}.")
    if sp.issparse(Y):
        return _read_sparse(Y, absent_label, allow_empty)
    labels = parse_labels(Y, missing_label=missing_label, allow_empty=allow_empty)
    if labels.kind != "multilabel":
        raise ValueError(
            "Y must be a label matrix of shape (n, c), one column a label; got a 1-D y of classes. "
            "sklearn.preprocessing.LabelBinarizer(sparse_output=True) makes one."
        )
    T = labels.signs
    complete = bool((T != 0).all())
    signed = sp.csr_array(np.where(T > 0, 1.0, 0.0) if complete else T.astype(np.float64))
    return StoredLabels(signed, "negative" if complete else "missing", labels.names, dense=True)


def _read_sparse(Y: Any, absent_label: str | None, allow_empty: bool) -> StoredLabels:
    Y = sp.csr_array(Y, copy=True)
    Y.sum_duplicates()
    rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))

    def place(at: NDArray[np.intp]) -> str:
        return f"row {rows[at[0]]}, column {Y.indices[at[0]]}"

    zero = np.flatnonzero(Y.data == 0)
    if len(zero):
        raise ValueError(
            f"Sparse Y stores an explicit 0 in {place(zero)}. Store -1 for an observed negative; "
            "or call Y.eliminate_zeros() and say with absent_label what absence means."
        )
    wrong = np.flatnonzero((Y.data != 1) & (Y.data != -1))
    if len(wrong):
        raise ValueError(
            f"Sparse Y stores {Y.data[wrong[0]].item()!r} in {place(wrong)}. It may hold +1 "
            "(observed positive) and -1 (observed negative); entries given twice were added up."
        )
    if not Y.nnz and not allow_empty:
        raise ValueError("Y has nothing observed: no entry is stored. One positive is needed.")
    signed = Y.dtype.kind in "if" and bool((Y.data == -1).any())
    complete = Y.nnz == Y.shape[0] * Y.shape[1]
    if Y.nnz and not signed and absent_label is None and not complete:
        raise ValueError(
            "Sparse Y holds positives only. Say what nothing stored means: absent_label="
            f"{_MEANINGS}."
        )
    if signed and absent_label == "negative":
        first = np.flatnonzero(Y.data == -1)
        raise ValueError(
            f"Sparse Y stores -1 in {place(first)}, so nothing stored means missing; "
            "absent_label='negative' contradicts that. 'unlabelled' would make absence a doubtful "
            "no beside the certain ones."
        )
    absent = cast("Absence", absent_label or "missing")
    return StoredLabels(Y.astype(np.float64), absent)
