"""Sparse labels are read as their dense twins are, and stay sparse."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dm2l.labels._matrix import parse_labels, parse_sparse_labels
from dm2l.labels._parsing import SparseLabelMatrix

patient = settings(deadline=None)  # the machine may be busy with other tests
matrices = hnp.arrays(np.int8, (4, 3), elements=st.integers(-1, 1))
masks = st.one_of(st.none(), hnp.arrays(bool, (4, 3)))


def holes(T, mask):
    """The same signs as a dense matrix with NaN."""
    return np.where((T == 0) | (mask is not None and ~mask), np.nan, T > 0)


@patient
@given(matrices, masks, st.booleans())
def test_signed_labels_are_those_of_a_matrix_with_holes(T, mask, sparse_mask):
    assume((T < 0).any())
    given_mask = sp.csr_array(mask) if sparse_mask and mask is not None else mask
    options = {"label_mask": given_mask, "missing_as": "missing", "allow_empty": True}
    expected = parse_labels(holes(T, mask), allow_empty=True).signs
    stored = parse_sparse_labels(sp.csr_array(T), **options)
    np.testing.assert_array_equal(stored.signs(), expected)
    np.testing.assert_array_equal(parse_labels(sp.csr_array(T), **options).signs, expected)


@patient
@given(hnp.arrays(bool, (4, 3)), masks, st.booleans())
def test_absence_that_means_no_is_a_no_under_a_mask_and_nothing_outside(Y, mask, sparse_mask):
    given_mask = sp.csr_array(mask) if sparse_mask and mask is not None else mask
    options = {"label_mask": given_mask, "missing_as": "negative", "allow_empty": True}
    expected = np.where(Y, 1, -1) * (1 if mask is None else mask)
    stored = parse_sparse_labels(sp.csr_array(Y), **options)
    np.testing.assert_array_equal(stored.signs(), expected)
    np.testing.assert_array_equal(parse_labels(sp.csr_array(Y), **options).signs, expected)
    assert stored.signed.nnz == (Y.sum() if mask is None else mask.sum())


@patient
@given(matrices)
def test_counts_are_those_of_the_signs(T):
    stored = SparseLabelMatrix.of_signs(T)
    np.testing.assert_array_equal(stored.signs(), T)
    np.testing.assert_array_equal(stored.positives(), (T > 0).sum(axis=0))
    np.testing.assert_array_equal(stored.negatives(), (T < 0).sum(axis=0))
    np.testing.assert_array_equal(stored.n_observed(), (T != 0).sum(axis=1))
    everything = np.tile(np.arange(3), (4, 1))
    np.testing.assert_array_equal(stored.at(everything), T)


def test_what_stands_under_a_sparse_false_is_never_read():
    Y = sp.csr_array(([7, 1, -1], ([0, 0, 1], [0, 1, 0])), shape=(2, 2))
    mask = sp.csr_array(np.array([[False, True], [True, False]]))
    np.testing.assert_array_equal(
        parse_sparse_labels(Y, label_mask=mask).signs(), [[0, 1], [-1, 0]]
    )


def test_a_false_that_a_sparse_mask_stores_is_a_false():
    mask = sp.csr_array(([True, False, True], ([0, 0, 1], [0, 1, 1])), shape=(2, 2))
    stored = parse_sparse_labels(sp.csr_array(np.eye(2)), label_mask=mask, missing_as="negative")
    np.testing.assert_array_equal(stored.n_observed(), [1, 1])
    assert mask.nnz == 3  # the caller's own is left alone


def test_a_mask_leaves_nothing_of_doubtful_absence():
    with pytest.raises(ValueError, match="either label_mask or missing_as='unlabelled', not both"):
        parse_sparse_labels(
            sp.csr_array(np.eye(2)), label_mask=np.eye(2) == 1, missing_as="unlabelled"
        )
