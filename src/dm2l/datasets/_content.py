"""Content hash of a data set, and duplicate rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from hashlib import blake2b, sha256
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array

from dm2l._utils.arrays import factorize
from dm2l.io._label_reader import label_targets

_BLOCK = 1024  # dense rows turned into CSR at a time, so that a copy of X is never made
_features = partial(check_array, accept_sparse="csr", ensure_all_finite=False, input_name="X")


def content_hash(X: Any, Y: Any) -> str:
    r"""SHA-256 of the numbers of a data set, whatever their file format, types and coding.

    Hashed are, one after the other and little-endian: the text ``dm2l-content-1\n``; n, d and c as
    int64; X as CSR without stored zeros, columns of a row ascending, as ``indptr`` (int64),
    ``indices`` (int64) and ``data`` (float64, NaN as 0x7ff8000000000000); Y row by row as int8: 1
    positive, 0 negative, -1 not observed. Missing labels are NaN.

    Examples
    --------
    >>> from dm2l.datasets import content_hash
    >>> content_hash([[0, 2.5], [1, 0]], [[1, 0], [0, 1]])[:16]
    '3a6f9f489de38725'
    """
    X = _features(X)
    Y = label_targets(Y.toarray() if sp.issparse(Y) else Y, None, "Y")
    if Y.ndim != 2 or len(Y) != X.shape[0]:
        raise ValueError(f"X of shape {X.shape} and Y of shape {Y.shape} do not make a data set.")
    digest = sha256(b"dm2l-content-1\n")
    digest.update(np.array([*X.shape, Y.shape[1]], dtype="<i8").tobytes())
    blocks = list(_canonical_blocks(X))
    lengths = np.concatenate([[0], *(np.diff(block.indptr) for block in blocks)])
    digest.update(np.cumsum(lengths).astype("<i8").tobytes())
    for block in blocks:
        digest.update(block.indices.astype("<i8").tobytes())
    for block in blocks:
        digest.update(block.data.astype("<f8").tobytes())
    digest.update(np.where(np.isnan(Y), -1, Y).astype("i1").tobytes())
    return digest.hexdigest()


def duplicate_groups(X: Any) -> NDArray[np.intp]:
    """Number the distinct rows of X, dense or sparse: equal rows share a number.

    Rows are compared bit by bit as float64 (0.0 and -0.0 are one, NaN equals NaN), through a
    128-bit hash of their nonzero entries. Groups are numbered from 0 in the order of first rows.

    Examples
    --------
    >>> from dm2l.datasets import duplicate_groups
    >>> duplicate_groups([[1, 0], [0, 2], [1, 0], [0, 2.1]])
    array([0, 1, 0, 2])
    """
    return factorize(_row_keys(_features(X)))


def count_shared(X_train: Any, X_test: Any) -> int:
    """Count the test rows that have an exact copy among the training rows.

    Rows are compared as in :func:`duplicate_groups`; repeated test rows count each time.

    Examples
    --------
    >>> from dm2l.datasets import count_shared
    >>> count_shared([[1, 0], [0, 2]], [[0, 2], [3, 3], [0, 2]])
    2
    """
    X_train, X_test = _features(X_train), _features(X_test)
    if X_train.shape[1] != X_test.shape[1]:
        raise ValueError(
            f"X_train has {X_train.shape[1]} columns, X_test {X_test.shape[1]}: their rows cannot "
            "be compared."
        )
    known = set(_row_keys(X_train))
    return sum(key in known for key in _row_keys(X_test))


def _canonical_blocks(X: Any) -> Iterator[sp.csr_array]:
    """Blocks of rows as float64 CSR in the one form that equal rows share."""
    for start in range(0, X.shape[0], _BLOCK):
        block = sp.csr_array(X[start : start + _BLOCK], dtype=np.float64, copy=True)
        block.sum_duplicates()  # sorts, too
        block.eliminate_zeros()
        block.data[np.isnan(block.data)] = np.nan
        yield block


def _row_keys(X: Any) -> Iterator[bytes]:
    for block in _canonical_blocks(X):
        columns, values = block.indices.astype(np.int64), block.data
        for start, stop in zip(block.indptr[:-1], block.indptr[1:], strict=True):
            # As many bytes of columns as of values: their border needs no mark.
            digest = blake2b(columns[start:stop].tobytes(), digest_size=16)
            digest.update(values[start:stop].tobytes())
            yield digest.digest()
