"""The interval of a mean over splits that share rows."""

import numpy as np
import pytest
from scipy import stats

from dm2l.model_selection import corrected_t_interval


def test_the_interval_is_the_published_formula():
    values, share = [0.7, 0.75, 0.8, 0.85], 0.25
    half = 3.182446 * np.std(values, ddof=1) * np.sqrt(1 / 4 + 1 / 3)  # t of 3 degrees of freedom
    expected = (0.775, 0.775 - half, 0.775 + half)
    assert corrected_t_interval(values, share) == pytest.approx(expected, abs=1e-6)


def test_equal_values_have_an_interval_without_width():
    for d in ([0.0, 0.0], [0.1] * 7, [0.3 - 0.2, 0.1, 0.2 - 0.1]):
        assert corrected_t_interval(d, 0.4) == pytest.approx((d[0],) * 3)


def test_one_value_says_nothing_about_the_spread():
    assert corrected_t_interval([0.3], 0.4) == (0.3, -np.inf, np.inf)


def test_the_corrected_t_interval_is_that_of_baycomp():
    baycomp = pytest.importorskip("baycomp", reason="an oracle that is optional")
    rng = np.random.default_rng(4)
    first, second = rng.normal(0.8, 0.05, size=10), rng.normal(0.78, 0.05, size=10)
    # Theirs has one tenth of the rows in each test fold, as many folds as differences.
    mean, variance, df = baycomp.CorrelatedTTest.compute_statistics(first, second)
    interval = corrected_t_interval(first - second, test_share=0.1, level=0.9)
    half = stats.t.ppf(0.95, df) * np.sqrt(variance)
    mean = abs(mean) * np.sign(interval.mean)  # their sign is second minus first
    assert interval.mean == pytest.approx(mean)
    assert (interval.low, interval.high) == pytest.approx((mean - half, mean + half))


def test_the_corrected_t_interval_covers_as_promised_when_splits_are_correlated():
    # Correlation equal to the share of rows tested on is the model behind the correction.
    rng = np.random.default_rng(0)
    share, n_splits, trials = 0.4, 5, 4000
    common = rng.normal(size=(trials, 1))
    own = rng.normal(size=(trials, n_splits))
    d = np.sqrt(share) * common + np.sqrt(1 - share) * own
    intervals = [corrected_t_interval(row, share, level=0.9) for row in d]
    covered = np.mean([i.low <= 0 <= i.high for i in intervals])
    assert covered == pytest.approx(0.9, abs=0.015)  # three standard errors
    plain = stats.ttest_1samp(d, 0, axis=1).confidence_interval(0.9)
    assert np.mean((plain.low <= 0) & (plain.high >= 0)) < 0.75


@pytest.mark.parametrize(
    ("differences", "message"),
    [
        ([], "at least one number"),
        ([[0.1, 0.2]], r"shape \(1, 2\)"),
        ([0.1, np.nan], "nan at position 1"),
    ],
)
def test_intervals_refuse_what_is_no_list_of_differences(differences, message):
    with pytest.raises(ValueError, match=message):
        corrected_t_interval(differences, 0.4)


def test_shares_are_between_0_and_1():
    with pytest.raises(ValueError, match="level must lie between 0 and 1, got 95"):
        corrected_t_interval([0.1, 0.2], 0.4, level=95)
    with pytest.raises(ValueError, match=r"test_share must lie between 0 and 1, got 1\.0"):
        corrected_t_interval([0.1, 0.2], 1.0)
