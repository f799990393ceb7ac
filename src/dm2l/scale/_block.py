"""One block of rows: what it holds, and how it is checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array

from dm2l.arrays import is_foreign
from dm2l.labels import LabelForm, Signs


class Block(NamedTuple):
    """Rows and the signs of their labels."""

    X: Any
    T: Signs


@contextmanager
def naming_block(place: int) -> Iterator[None]:
    """Say of which block an error is."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"Block {place}: {error}") from error


def read_block(parts: Sequence[Any], form: LabelForm, n_features: int | None) -> Block:
    """Check rows and labels of a block, given as ``(X, Y)`` or ``(X, Y, label_mask)``."""
    X, Y, *mask = parts
    if is_foreign(X):
        raise TypeError("Row blocks are numpy arrays or sparse matrices; move X to the host.")
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=0)
    T = form.read(Y, mask[0] if mask else None)
    if X.shape[0] != len(T):
        raise ValueError(f"it has {X.shape[0]} rows in X and {len(T)} in Y.")
    if n_features not in (None, X.shape[1]):
        raise ValueError(f"it has {X.shape[1]} features, those before had {n_features}.")
    return Block(X, T)
