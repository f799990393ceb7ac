"""The door for sparse matrices: what passes is what scipy makes of it, all else is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dm2l._utils.arrays import sparse_from_parts

LOW = -(2**31)


@pytest.mark.parametrize("layout", ["csr", "csc"])
@pytest.mark.parametrize("integers", [np.int32, np.int64, np.uint64, np.uint8, ">i4"])
def test_a_sound_matrix_comes_through_unchanged(layout, integers):
    known = sp.random(7, 5, density=0.4, format=layout, random_state=0)
    made = sparse_from_parts(
        known.data,
        known.indices.astype(integers),
        known.indptr.astype(integers),
        np.array(known.shape),
        layout=layout,
    )
    assert made.format == layout
    assert isinstance(made, sp.sparray)
    np.testing.assert_array_equal(made.toarray(), known.toarray())
    assert np.shares_memory(made.data, known.data)


def parts(**changes):
    sound = {"data": np.ones(3), "indices": [0, 1, 2], "indptr": [0, 1, 1, 3], "shape": (3, 4)}
    return {key: np.array(value) for key, value in (sound | changes).items()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indices": [0, 1, 4]}, "indices go from 0 to 4, but must be from 0 to 3"),
        ({"indices": [0, 1, -5]}, "indices go from -5 to 1"),
        (
            {"indices": np.array([0, 1, 2**64 - 5], dtype=np.uint64)},
            "0 to 184467440737095516",
        ),
        ({"indices": [0, 1]}, "3 values, but 2 indices"),
        (
            {"indices": [0.0, 1.0, 2.0]},
            "a 1-D array of integers, not 1-D float64",
        ),
        ({"indices": [[0, 1, 2]]}, "not 2-D"),
        ({"indptr": [0, 1, 3]}, "indptr must have 4 entries, not 3"),
        ({"indptr": [1, 1, 1, 3]}, "indptr must not decrease"),
        ({"indptr": [0, 2, 1, 3]}, "indptr must not decrease"),
        ({"indptr": [0, 1, 1, 4]}, "indptr must not decrease"),
        ({"indptr": [0, 1, 1, 2]}, "indptr must not decrease"),
        # The difference of these wraps, so that scipy finds nothing wrong with them.
        (
            {"indptr": np.array([0, 1, LOW, -1, 3], dtype=np.int32), "shape": (4, 4)},
            "indptr must not decrease",
        ),
        (
            {"indptr": np.array([0, 1, -(2**63), -1, 3]), "shape": (4, 4)},
            "indptr must not decrease",
        ),
        # Ends in 0: scipy looks no further.
        (
            {"data": [], "indices": np.array([], dtype=int), "indptr": [0, 2000, 0, 0]},
            "indptr must not decrease",
        ),
        ({"data": np.ones(3) * 1j}, "data must be a 1-D array of real numbers"),
        ({"data": np.array([1, None, 2])}, "1-D object"),
        ({"data": 1.0}, "0-D"),
        ({"shape": 3}, "two integers"),
        ({"shape": [3, -4]}, "two integers"),
        ({"shape": [3]}, "two integers"),
        ({"shape": [3, 4, 1]}, "two integers"),
        ({"shape": [3.0, 4.0]}, "two integers"),
        ({"shape": [2**62, 4]}, "indptr must have 4611686018427387905 entries"),
        ({"shape": np.array([3, 2**64 - 1], dtype=np.uint64)}, "two integers"),
    ],
)
def test_parts_that_make_no_matrix_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        sparse_from_parts(**parts(**changes))


def test_parts_that_are_no_arrays_are_refused():
    with pytest.raises(ValueError, match="not list"):
        sparse_from_parts([1.0], np.array([0]), np.array([0, 1]), (1, 1))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(-3, 6), max_size=5),
    st.lists(st.integers(-2, 6) | st.sampled_from([LOW, 2**31 - 1]), min_size=1, max_size=5),
    st.integers(0, 4),
    st.integers(0, 4),
)
def test_what_passes_is_what_the_parts_say_entry_by_entry(indices, indptr, rows, columns):
    data = np.arange(1.0, len(indices) + 1)
    sound = (
        len(indptr) == rows + 1
        and indptr == sorted(indptr)
        and (indptr[0], indptr[-1]) == (0, len(indices))
        and all(0 <= j < columns for j in indices)
    )
    given_parts = (data, np.array(indices, dtype=np.int32), np.array(indptr, dtype=np.int32))
    if not sound:
        with pytest.raises(ValueError, match=r"indptr|indices"):
            sparse_from_parts(*given_parts, (rows, columns))
        return
    expected = np.zeros((rows, columns))
    for i in range(rows):
        for k in range(indptr[i], indptr[i + 1]):
            expected[i, indices[k]] += data[k]
    np.testing.assert_array_equal(
        sparse_from_parts(*given_parts, (rows, columns)).toarray(), expected
    )
