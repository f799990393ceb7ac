"""Tests of pairs of methods, against other libraries and brute force."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from experiments.published import best_published, published_figures
from experiments.statistics import holm, pairwise_wilcoxon

# Few levels, so that ties are common.
tables = st.tuples(st.integers(2, 7), st.integers(2, 6)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(-4, 4))
)
directions = st.booleans()


@pytest.fixture
def untied():
    """30 blocks, 5 methods, no two numbers alike."""
    return np.random.default_rng(3).normal(size=(30, 5)) + np.linspace(0, 0.8, 5)


# --------------------------------------------------------------------------------------- holm


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_the_largest_over_smaller_p_values_of_p_times_those_not_smaller(p):
    corrected = holm(p)
    for i, value in enumerate(p):
        # Ties in p: the first in line carries the largest factor.
        candidates = [(len(p) - sum(r < q for r in p)) * q for q in p if q <= value]
        assert corrected[i] == pytest.approx(min(1, max(candidates)))
        assert corrected[i] >= value


def test_holm_is_that_of_statsmodels():
    multitest = pytest.importorskip("statsmodels.stats.multitest", reason="optional oracle")
    rng = np.random.default_rng(1)
    for m in (1, 2, 15):
        p = np.concatenate([rng.uniform(size=m) ** 3, [0.01, 0.01]])
        np.testing.assert_allclose(holm(p), multitest.multipletests(p, method="holm")[1])


def test_holm_refuses_what_is_no_probability():
    with pytest.raises(ValueError, match=r"between 0 and 1, got \[0.2, nan\]"):
        holm([0.2, np.nan])
    assert holm([]).shape == (0,)


# ----------------------------------------------------------------------------------- wilcoxon


def signed_rank_by_brute_force(difference):
    """Share of all sign patterns at least as far from the middle as the one seen."""
    d = np.array([x for x in difference if x != 0])
    size = np.abs(d)
    ranks = np.array([(size < s).sum() + ((size == s).sum() + 1) / 2 for s in size])
    middle = ranks.sum() / 2
    seen = abs(ranks[d > 0].sum() - middle)
    sums = [
        sum(r for r, s in zip(ranks, signs, strict=True) if s)
        for signs in product([0, 1], repeat=len(d))
    ]
    return np.mean([abs(s - middle) >= seen for s in sums])


@settings(max_examples=60)
@given(arrays(np.int64, st.integers(1, 10), elements=st.integers(-5, 5)))
def test_p_values_are_exact_with_ties_and_zeros(difference):
    table = np.column_stack([difference, np.zeros_like(difference)])
    (pair,) = pairwise_wilcoxon(table, True)
    assert pair.exact
    assert pair.p_value == pytest.approx(signed_rank_by_brute_force(difference), abs=1e-12)
    assert pair.p_holm == pair.p_value
    assert pair.wins == (difference > 0).sum()
    assert pair.ties == (difference == 0).sum()
    assert pair.losses == (difference < 0).sum()
    assert pair.median_difference == np.median(difference)


@pytest.mark.parametrize("n", [5, 24, 60, 200])
def test_without_ties_p_values_are_scipys_exact_ones(n):
    table = np.random.default_rng(n).normal([0.2, 0.0], size=(n, 2))
    (pair,) = pairwise_wilcoxon(table, True)
    expected = stats.wilcoxon(table[:, 0], table[:, 1], method="exact")
    assert pair.exact
    assert pair.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    assert pair.statistic == expected.statistic


@pytest.mark.parametrize("shift", [0.0, 0.1, 0.2])
def test_beyond_200_blocks_the_approximation_is_close_to_the_exact_p_value(shift):
    table = np.random.default_rng(1).normal([shift, 0.0], size=(201, 2))
    (pair,) = pairwise_wilcoxon(table, True)
    assert not pair.exact
    expected = stats.wilcoxon(table[:, 0], table[:, 1], method="exact").pvalue
    assert pair.p_value == pytest.approx(expected, abs=0.002)


def test_a_large_sample_gives_scipys_approximation():
    table = np.random.default_rng(0).integers(0, 40, size=(400, 2))
    (pair,) = pairwise_wilcoxon(table, False)
    expected = stats.wilcoxon(table[:, 0], table[:, 1], method="approx")
    assert not pair.exact
    assert pair.p_value == pytest.approx(expected.pvalue)
    assert pair.statistic == expected.statistic


def test_pairs_with_holms_correction_are_those_of_scikit_posthocs(untied):
    posthocs = pytest.importorskip("scikit_posthocs", reason="an oracle that is optional")
    pd = pytest.importorskip("pandas")
    long = pd.DataFrame(untied, columns=list("abcde")).melt(var_name="method")
    theirs = posthocs.posthoc_wilcoxon(
        long, val_col="value", group_col="method", p_adjust="holm"
    ).to_numpy()
    pairs = pairwise_wilcoxon(untied, True)
    assert [(p.first, p.second) for p in pairs] == list(combinations(range(5), 2))
    for pair in pairs:
        assert pair.p_holm == pytest.approx(theirs[pair.first, pair.second])


def test_a_control_is_compared_with_all_others_and_corrected_over_these_only(untied):
    every = {(p.first, p.second): p.p_value for p in pairwise_wilcoxon(untied, True)}
    pairs = pairwise_wilcoxon(untied, True, control=2)
    assert [(p.first, p.second) for p in pairs] == [(2, 0), (2, 1), (2, 3), (2, 4)]
    raw = [every[tuple(sorted((p.first, p.second)))] for p in pairs]
    np.testing.assert_allclose([p.p_value for p in pairs], raw)
    np.testing.assert_allclose([p.p_holm for p in pairs], holm(raw))


@given(tables, st.randoms(use_true_random=False))
def test_pairs_ignore_the_order_of_blocks_and_turn_with_the_direction(table, random):
    pairs = pairwise_wilcoxon(table, True)
    rows = random.sample(range(len(table)), len(table))
    assert pairwise_wilcoxon(table[rows], True) == pairs
    for pair, turned in zip(pairs, pairwise_wilcoxon(table, False), strict=True):
        assert (turned.wins, turned.losses) == (pair.losses, pair.wins)
        assert turned.median_difference == -pair.median_difference
        assert (turned.p_value, turned.p_holm) == (pair.p_value, pair.p_holm)


@given(tables, st.sampled_from([10, 1000, 7]))
def test_decimals_tie_as_the_integers_they_were_printed_from(table, denominator):
    # In binary 0.3 - 0.2 and 0.2 - 0.1 are different numbers.
    decimals = (table + 300) / denominator
    for pair, expected in zip(
        pairwise_wilcoxon(decimals, True), pairwise_wilcoxon(table, True), strict=True
    ):
        assert (pair.ties, pair.statistic) == (expected.ties, expected.statistic)
        assert pair.p_value == pytest.approx(expected.p_value, abs=1e-12)


def test_a_difference_that_is_only_rounding_is_a_tie():
    (pair,) = pairwise_wilcoxon([[0.1 + 0.2, 0.3], [0.5, 0.4]], True)
    assert (pair.wins, pair.ties, pair.losses) == (1, 1, 0)


def test_a_large_block_does_not_hide_the_differences_of_small_ones():
    small = np.column_stack([np.arange(1, 7) * 1e-6, np.zeros(6)])
    table = np.vstack([small, [[1e15, 2e15]]])
    (pair,) = pairwise_wilcoxon(table, True)
    assert (pair.wins, pair.ties, pair.losses) == (6, 0, 1)


def test_equal_methods_have_p_value_one():
    (pair,) = pairwise_wilcoxon(np.ones((4, 2)), True)
    assert (pair.statistic, pair.p_value, pair.ties) == (0, 1, 4)


def test_published_average_precision_of_dm2l_nl_beats_every_method():
    figures = published_figures()
    methods = list(dict.fromkeys(method for *_, method in figures))
    blocks = [block for block in best_published() if block[2] == "Ap"]
    table = [[round(figures[*block, method], 3) for method in methods] for block in blocks]
    for pair in pairwise_wilcoxon(table, True, control=methods.index("DM2L-nl")):
        assert pair.wins >= 20
        assert pair.p_holm < 0.001


def test_comparisons_cannot_be_changed_and_controls_must_exist():
    (pair,) = pairwise_wilcoxon([[1, 2], [2, 3]], True)
    with pytest.raises(FrozenInstanceError):
        pair.p_value = 0.0
    for control in (2, -1):
        with pytest.raises(ValueError, match=f"control={control} is no column"):
            pairwise_wilcoxon([[1, 2], [2, 3]], True, control=control)
    with pytest.raises(ValueError, match="inf for block 1, method 0"):
        pairwise_wilcoxon([[1, 2], [np.inf, 3]], True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[0.1, 0.2], [0.3, np.nan]], "no number for block 1, method 1"),
        ([0.1, 0.2], r"shape \(2,\)"),
        ([[0.1], [0.2]], "at least 2 columns"),
        (np.empty((0, 3)), r"shape \(0, 3\)"),
    ],
)
def test_incomplete_tables_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        pairwise_wilcoxon(values, True)
