"""What signs say where blanks are unlabelled."""

from __future__ import annotations

import numpy as np

from dm2l.labels._entries import EntryWeights, Signs


def read_ticks(signs: Signs) -> tuple[Signs, EntryWeights]:
    """Signs in which what is not ticked counts as negative, and as targets what was said.

    Parameters
    ----------
    signs : ndarray of shape (n, c), int8
        +1 ticks, -1 negatives that somebody saw, 0 unlabelled.

    Returns
    -------
    T : ndarray of shape (n, c), int8
        Without zeros.
    entries : Entries
        Whose targets are the signs.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.pu._reading import read_ticks
    >>> read_ticks(np.array([[1, 0, -1]], dtype=np.int8))[0]
    array([[ 1, -1, -1]], dtype=int8)
    """
    T = np.where(signs > 0, 1, -1).astype(np.int8)
    return T, EntryWeights.of(T, targets=signs)
