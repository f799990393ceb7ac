"""What taking rows away costs in digits, and rows that were never there."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dm2l import DM2LClassifier
from dm2l.outofcore import RoundingWarning, SufficientStatistics
from dm2l.outofcore._tally import Tally


def case(scale, n=200, d=4, c=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    T = rng.choice(np.array([-1, 0, 1], dtype=np.int8), size=(n, c))
    X[n // 2 :] *= scale
    return X, T


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3])
def test_rows_of_usual_size_are_taken_away_in_silence(scale):
    X, T = case(scale)
    first = SufficientStatistics(4, 3).add(X[:100], T[:100])
    whole = first + SufficientStatistics(4, 3).add(X[100:], T[100:])
    left = whole - SufficientStatistics(4, 3).add(X[100:], T[100:])
    assert left.rounding < 1e-6
    left.move(first.offset)
    assert_allclose(left.H, first.H, rtol=0, atol=1e-6 * np.abs(first.H).max())


@pytest.mark.parametrize("scale", [1e6, 1e7])
def test_rows_that_are_much_larger_leave_a_warning_with_a_bound_that_holds(scale):
    X, T = case(scale)
    whole = SufficientStatistics(4, 3).add(X[:100], T[:100]).add(X[100:], T[100:])
    with pytest.warns(RoundingWarning, match="Gather statistics anew"):
        left = whole - SufficientStatistics(4, 3).add(X[100:], T[100:])
    alone = SufficientStatistics(4, 3).add(X[:100], T[:100])
    alone.move(left.offset)
    apart = np.abs(left.rows.gram - alone.rows.gram).max() / np.diagonal(alone.rows.gram).min()
    assert 1e-6 < apart < 100 * left.rounding


def test_the_warning_reaches_who_unlearns():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((100, 3)), (rng.standard_normal((100, 2)) > 0).astype(float)
    X[60:] *= 1e7
    model = DM2LClassifier().partial_fit(X[:60], Y[:60]).partial_fit(X[60:], Y[60:])
    with pytest.warns(RoundingWarning):
        model.unlearn(X[60:], Y[60:])


def test_a_column_of_which_nothing_is_left_is_no_loss():
    rng = np.random.default_rng(0)
    X, T = rng.standard_normal((80, 3)), np.tile(np.array([[1], [-1]], dtype=np.int8), (40, 1))
    X[:, 2] = 0
    X[60:, 2] = 1
    whole = Tally(3, 1).add(X, T)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (whole - Tally(3, 1).add(X[60:], T[60:])).rounding < 1e-12
        assert (whole - Tally(3, 1).add(X, T)).rounding == 0.0


def test_the_bound_goes_with_statistics_to_files(tmp_path):
    X, T = case(1e3)
    statistics = SufficientStatistics(4, 3).add(X, T)
    statistics -= SufficientStatistics(4, 3).add(X[100:], T[100:])
    statistics.save(tmp_path / "s.npz")
    assert SufficientStatistics.load(tmp_path / "s.npz").rounding == statistics.rounding > 0


def test_rows_that_were_never_added_are_refused_and_nothing_changes():
    X, T = case(1.0)
    whole = SufficientStatistics(4, 3).add(X, T)
    before = whole.copy()
    with pytest.raises(ValueError, match="sum of squares of feature"):
        whole -= SufficientStatistics(4, 3).add(100 * X[:50], T[:50])
    assert np.array_equal(whole.H, before.H)
    assert np.array_equal(whole.positives, before.positives)
    never = np.zeros((300, 4))
    with pytest.raises(ValueError, match="not part of these statistics"):
        whole -= SufficientStatistics(4, 3).add(never, np.tile(T, (2, 1))[:300])


@pytest.mark.parametrize("scale", [1e8, 1e9, 1e12])
def test_rows_beside_which_nothing_is_left_of_the_others_are_refused(scale):
    X, T = case(scale)
    whole = SufficientStatistics(4, 3).add(X[:100], T[:100]).add(X[100:], T[100:])
    before = whole.copy()
    with pytest.raises(ValueError, match=r"nothing but rounding would be left\. Gather"):
        whole -= SufficientStatistics(4, 3).add(X[100:], T[100:])
    assert np.array_equal(whole.G, before.G)
