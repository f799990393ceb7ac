"""Un-learning: what is left equals never having seen the rows; what was never added is refused."""

import warnings
from copy import deepcopy

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dm2l.outofcore import GramStatistics
from dm2l.outofcore._statistics import RowStatistics


def case(scale, n=200, d=4, c=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    T = rng.choice(np.array([-1, 0, 1], dtype=np.int8), size=(n, c))
    X[n // 2 :] *= scale
    return X, T


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3])
def test_rows_of_usual_size_are_taken_away_in_silence(scale):
    X, T = case(scale)
    first = GramStatistics(4, 3).add(X[:100], T[:100])
    whole = first + GramStatistics(4, 3).add(X[100:], T[100:])
    left = whole - GramStatistics(4, 3).add(X[100:], T[100:])
    left.move(first.offset)
    assert_allclose(left.H, first.H, rtol=0, atol=1e-6 * np.abs(first.H).max())


def test_a_column_of_which_nothing_is_left_is_no_loss():
    rng = np.random.default_rng(0)
    X, T = rng.standard_normal((80, 3)), np.tile(np.array([[1], [-1]], dtype=np.int8), (40, 1))
    X[:, 2] = 0
    X[60:, 2] = 1
    whole = RowStatistics(3, 1).add(X, T)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (whole - RowStatistics(3, 1).add(X[60:], T[60:])).weight == 60
        assert (whole - RowStatistics(3, 1).add(X, T)).weight == 0


def test_rows_that_were_never_added_are_refused_and_nothing_changes():
    X, T = case(1.0)
    whole = GramStatistics(4, 3).add(X, T)
    before = deepcopy(whole)
    with pytest.raises(ValueError, match="sum of squares of feature"):
        whole -= GramStatistics(4, 3).add(100 * X[:50], T[:50])
    assert np.array_equal(whole.H, before.H)
    assert np.array_equal(whole.positives, before.positives)
    never = np.zeros((300, 4))
    with pytest.raises(ValueError, match="statistics do not contain the block"):
        whole -= GramStatistics(4, 3).add(never, np.tile(T, (2, 1))[:300])


@pytest.mark.parametrize("scale", [1e8, 1e9, 1e12])
def test_rows_beside_which_nothing_is_left_of_the_others_are_refused(scale):
    X, T = case(scale)
    whole = GramStatistics(4, 3).add(X[:100], T[:100]).add(X[100:], T[100:])
    before = deepcopy(whole)
    with pytest.raises(ValueError, match=r"would dominate the other rows\. Gather"):
        whole -= GramStatistics(4, 3).add(X[100:], T[100:])
    assert np.array_equal(whole.G, before.G)
