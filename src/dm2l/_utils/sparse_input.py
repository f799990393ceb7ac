"""Sparse matrices of untrusted parts, checked before compiled code sees them."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

_LIMIT = 2**63 - 1


def sparse_from_parts(
    data: Any,
    indices: Any,
    indptr: Any,
    shape: Iterable[Any],
    *,
    layout: Literal["csr", "csc"] = "csr",
) -> Any:
    """A sparse matrix of parts that come from a file; a ValueError says which part is wrong.

    scipy's own check does not suffice: it looks at nothing if ``indptr`` ends in 0, and compares
    by differences, which wrap. Compiled code follows whatever pointers it is given, out of its
    arrays too. ``data`` is not copied.
    """
    rows, columns = _sizes(shape)
    major, minor = (rows, columns) if layout == "csr" else (columns, rows)
    across = "columns" if layout == "csr" else "rows"
    data, indices, indptr = (
        _flat(part, name, kinds)
        for part, name, kinds in (
            (data, "data", "biuf"),
            (indices, "indices", "iu"),
            (indptr, "indptr", "iu"),
        )
    )
    if len(data) != len(indices):
        raise ValueError(f"there are {len(data)} values, but {len(indices)} indices")
    if len(indptr) != major + 1:
        along = "rows" if layout == "csr" else "columns"
        raise ValueError(f"indptr has {len(indptr)} entries for {major} {along}, not {major + 1}")
    # Compared with each other, never subtracted: a difference of two integers may wrap.
    first, last = int(indptr[0]), int(indptr[-1])
    if first != 0 or last != len(data) or bool((indptr[1:] < indptr[:-1]).any()):
        raise ValueError(
            f"indptr has to rise from 0 to the number of values, {len(data)}, without falling"
        )
    # Without a sign, those below 0 are the largest: one pass finds them as well.
    unsigned = indices.view(indices.dtype.str.replace("i", "u"))
    if len(indices) and int(unsigned.max()) >= minor:
        raise ValueError(
            f"indices go from {indices.min()} to {indices.max()}, but the matrix has {minor} "
            f"{across}"
        )
    integers = np.int32 if max(minor, len(data)) < 2**31 else np.int64
    parts = (data, indices.astype(integers, copy=False), indptr.astype(integers, copy=False))
    made = sp.csr_array if layout == "csr" else sp.csc_array
    return made(parts, shape=(rows, columns))


def _sizes(shape: Iterable[Any]) -> tuple[int, int]:
    try:
        sizes = [operator.index(size) for size in shape]
    except TypeError:
        sizes = []
    if len(sizes) != 2 or not all(0 <= size < _LIMIT for size in sizes):
        raise ValueError(f"the shape has to be two integers from 0 on, not {str(shape)[:60]}")
    return sizes[0], sizes[1]


def _flat(part: Any, name: str, kinds: str) -> NDArray[Any]:
    if not isinstance(part, np.ndarray) or part.ndim != 1 or part.dtype.kind not in kinds:
        what = (
            f"{part.ndim}-D {part.dtype}" if isinstance(part, np.ndarray) else type(part).__name__
        )
        wanted = "integers" if kinds == "iu" else "real numbers"
        raise ValueError(f"{name} has to be a 1-D array of {wanted}, not {what}")
    return part
