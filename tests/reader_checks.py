"""What tests of readers share."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

NAN = float("nan")


def check(bunch, data, target, sparse):
    """Hold what was read to what was written."""
    assert sp.issparse(bunch.data) == sparse
    dense = bunch.data.toarray() if sparse else bunch.data
    assert dense.dtype == np.float64
    np.testing.assert_array_equal(dense, np.array(data, dtype=float))
    holes = np.isnan(np.array(target, dtype=float)).any()
    assert bunch.target.dtype == (np.float64 if holes else np.int8)
    np.testing.assert_array_equal(bunch.target, np.array(target, dtype=float))
