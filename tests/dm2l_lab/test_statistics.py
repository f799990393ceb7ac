"""Ranks and tests, against other libraries and brute force."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from dm2l.plots._ranks import (
    average_ranks,
    friedman,
    indistinguishable_groups,
    nemenyi_critical_difference,
)
from dm2l_lab._statistics import holm, pairwise_wilcoxon

# Average precision in thousandths, as the DM2L paper prints it: LEML, ML-LRC, GLOCAL, LSML,
# DM2L-l, DM2L-nl on 8 data sets at rho 1, 0.7 and 0.3 (four decimals of Recreation rounded).
PUBLISHED_AP = np.array(
    [
        [596, 484, 610, 625, 623, 610],
        [864, 885, 877, 881, 882, 887],
        [603, 575, 618, 631, 635, 633],
        [589, 603, 632, 634, 588, 648],
        [758, 781, 783, 783, 760, 833],
        [723, 596, 666, 777, 780, 783],
        [328, 293, 306, 335, 328, 339],
        [833, 821, 833, 833, 833, 886],
        [556, 479, 600, 608, 621, 623],
        [835, 876, 877, 867, 882, 889],
        [556, 577, 601, 600, 628, 635],
        [560, 557, 622, 550, 578, 631],
        [748, 778, 779, 778, 720, 825],
        [697, 595, 671, 757, 776, 780],
        [326, 284, 300, 334, 323, 346],
        [832, 831, 830, 832, 830, 881],
        [505, 468, 568, 585, 610, 614],
        [777, 856, 872, 835, 876, 886],
        [516, 565, 527, 569, 617, 610],
        [487, 471, 576, 406, 553, 583],
        [729, 768, 759, 764, 697, 816],
        [671, 594, 671, 735, 768, 768],
        [299, 286, 282, 318, 282, 311],
        [818, 805, 821, 816, 823, 864],
    ]
)
LEML, GLOCAL, DM2L_L, DM2L_NL = 0, 2, 4, 5

# Few levels, so that ties are common.
tables = st.tuples(st.integers(2, 7), st.integers(2, 6)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(-4, 4))
)
directions = st.booleans()


@pytest.fixture
def untied():
    """30 blocks, 5 methods, no two numbers alike."""
    return np.random.default_rng(3).normal(size=(30, 5)) + np.linspace(0, 0.8, 5)


# -------------------------------------------------------------------------------------- ranks


@given(tables, directions)
def test_a_rank_is_one_plus_the_better_plus_half_the_equal(table, higher):
    better = (lambda a, b: a > b) if higher else (lambda a, b: a < b)
    expected = np.mean(
        [
            [1 + sum(better(b, a) for b in row) + (sum(b == a for b in row) - 1) / 2 for a in row]
            for row in table
        ],
        axis=0,
    )
    np.testing.assert_allclose(average_ranks(table, higher), expected)


@given(tables, directions, st.randoms(use_true_random=False))
def test_ranks_follow_the_methods_and_ignore_the_order_of_blocks(table, higher, random):
    n, k = table.shape
    rows, columns = random.sample(range(n), n), random.sample(range(k), k)
    ranks = average_ranks(table, higher)
    np.testing.assert_allclose(average_ranks(table[rows][:, columns], higher), ranks[columns])


@given(tables, directions)
def test_ranks_ignore_monotone_transforms_of_each_block(table, higher):
    moved = table * 1.0
    for i, row in enumerate(moved):
        moved[i] = [row, np.exp(row), row**3, 2 * row - 7][i % 4]
    np.testing.assert_array_equal(average_ranks(moved, higher), average_ranks(table, higher))
    np.testing.assert_array_equal(average_ranks(-moved, not higher), average_ranks(table, higher))


def test_ranks_accept_an_infinite_loss_of_a_run_that_diverged():
    np.testing.assert_array_equal(average_ranks([[1.0, np.inf, 2.0]], False), [1, 3, 2])


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
    for function in (average_ranks, friedman, pairwise_wilcoxon):
        with pytest.raises(ValueError, match=message):
            function(values, True)


# ----------------------------------------------------------------------------------- friedman


@given(tables)
def test_friedman_is_scipys_chi_square_and_the_anova_of_ranks(table):
    result = friedman(table, True)
    n, k = table.shape
    ranks = stats.rankdata(table, axis=1)
    grand, methods = ranks.mean(), ranks.mean(axis=0)
    ss_methods = n * ((methods - grand) ** 2).sum()
    ss_residual = ((ranks - methods) ** 2).sum()  # every block has the same mean
    if (ranks == grand).all():
        assert (result.chi_square, result.p_value) == (0, 1)
        assert (result.f_statistic, result.f_p_value) == (0, 1)
        return
    if k > 2:
        expected = stats.friedmanchisquare(*table.T)
        np.testing.assert_allclose(result.chi_square, expected.statistic, atol=1e-12)
        np.testing.assert_allclose(result.p_value, expected.pvalue, atol=1e-12)
    assert (result.df, result.f_df) == (k - 1, (k - 1, (k - 1) * (n - 1)))
    assert (result.n_blocks, result.n_methods) == (n, k)
    if ss_residual < 1e-9:
        assert (result.f_statistic, result.f_p_value) == (np.inf, 0)
    else:
        f = ss_methods / (k - 1) / (ss_residual / ((k - 1) * (n - 1)))
        np.testing.assert_allclose(result.f_statistic, f, atol=1e-12)
        np.testing.assert_allclose(result.f_p_value, stats.f.sf(f, *result.f_df), atol=1e-12)


@given(tables)
def test_friedman_ignores_direction_and_order(table):
    assert friedman(table, True) == friedman(table, False)
    assert friedman(table[::-1, ::-1], True) == friedman(table, True)


def test_friedman_finds_its_level_when_methods_do_not_differ():
    rng = np.random.default_rng(0)
    results = [friedman(rng.normal(size=(12, 4)), True) for _ in range(1500)]
    # 0.05 give or take three standard errors, 0.017; the chi-square is a little conservative.
    assert abs(np.mean([r.f_p_value <= 0.05 for r in results]) - 0.05) < 0.017
    assert abs(np.mean([r.p_value <= 0.05 for r in results]) - 0.045) < 0.02


def test_friedman_needs_two_blocks():
    with pytest.raises(ValueError, match=r"shape \(1, 3\).*at least 2 row"):
        friedman([[1, 2, 3]], True)


# ------------------------------------------------------------------------ critical difference

# Table 5 of Demšar (2006): constants for 2 to 10 methods.
DEMSAR = {
    0.05: [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164],
    0.10: [1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920],
}


@pytest.mark.parametrize("alpha", DEMSAR)
def test_critical_differences_have_the_printed_constants(alpha):
    for k, q in enumerate(DEMSAR[alpha], start=2):
        ours = nemenyi_critical_difference(k, 10, alpha)
        np.testing.assert_allclose(ours, q * np.sqrt(k * (k + 1) / 60), rtol=4e-4)


def test_the_paper_took_the_constant_of_nine_methods_for_six():
    assert round(nemenyi_critical_difference(6, 24), 3) == 1.539
    nine = nemenyi_critical_difference(9, 24) / np.sqrt(9 * 10 / (6 * 24))
    assert round(nemenyi_critical_difference(6, 24, q=nine), 3) == 1.675
    assert nemenyi_critical_difference(6, 24, alpha=0.3, q=3.102) == pytest.approx(1.6753, abs=1e-4)


def test_dm2l_and_leml_do_not_differ_on_published_average_precision_with_either_constant():
    ranks = average_ranks(PUBLISHED_AP, higher_is_better=True)
    for q in (None, 3.102):
        cd = nemenyi_critical_difference(6, 24, q=q)
        assert any({LEML, DM2L_L} <= set(g) for g in indistinguishable_groups(ranks, cd))
        assert not any({LEML, DM2L_NL} <= set(g) for g in indistinguishable_groups(ranks, cd))


def test_the_critical_difference_decides_as_the_p_values_of_scikit_posthocs(untied):
    posthocs = pytest.importorskip("scikit_posthocs", reason="an oracle that is optional")
    for table in (untied, PUBLISHED_AP * 1.0):
        p = posthocs.posthoc_nemenyi_friedman(table).to_numpy()
        ranks = average_ranks(table, True)
        gaps = np.abs(ranks[:, None] - ranks)
        n, k = table.shape
        for a, b in combinations(range(k), 2):
            if 1e-4 < p[a, b] < 0.999:
                at_p = nemenyi_critical_difference(k, n, alpha=p[a, b])
                assert at_p == pytest.approx(gaps[a, b], rel=1e-4)
        for alpha in (0.01, 0.05, 0.3):
            beyond = gaps > nemenyi_critical_difference(k, n, alpha)
            np.testing.assert_array_equal(beyond, p < alpha)


def test_ranks_friedman_and_critical_difference_are_those_of_autorank(untied):
    autorank = pytest.importorskip("autorank", reason="an oracle that is optional")
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(untied, columns=list("abcde"))
    theirs = autorank.autorank(frame, alpha=0.05, verbose=False, force_mode="nonparametric")
    ranks = average_ranks(untied, True)
    np.testing.assert_allclose(theirs.rankdf.loc[list("abcde"), "meanrank"], ranks)
    assert theirs.omnibus == "friedman"
    assert theirs.pvalue == pytest.approx(friedman(untied, True).p_value)
    assert theirs.cd == pytest.approx(nemenyi_critical_difference(5, 30), rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_methods": 1, "n_blocks": 5}, "n_methods=1"),
        ({"n_methods": 3, "n_blocks": 0}, "n_blocks=0"),
        ({"n_methods": 3, "n_blocks": 5, "alpha": 1.0}, r"alpha .* got 1.0"),
        ({"n_methods": 3, "n_blocks": 5, "q": 0.0}, r"q must be a positive number, got 0.0"),
        ({"n_methods": 3, "n_blocks": 5, "q": np.nan}, "q must be a positive number, got nan"),
    ],
)
def test_impossible_critical_differences_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        nemenyi_critical_difference(**arguments)


# ------------------------------------------------------------------------------------- groups


@given(
    st.lists(st.integers(4, 28).map(lambda quarter: quarter / 4), min_size=1, max_size=7),
    st.integers(0, 28).map(lambda quarter: quarter / 4),
)
def test_groups_are_the_maximal_sets_within_the_critical_difference(ranks, cd):
    within = [
        set(subset)
        for size in range(2, len(ranks) + 1)
        for subset in combinations(range(len(ranks)), size)
        if all(abs(ranks[a] - ranks[b]) <= cd for a, b in combinations(subset, 2))
    ]
    maximal = {frozenset(s) for s in within if not any(s < other for other in within)}
    groups = indistinguishable_groups(ranks, cd)
    assert len(groups) == len(maximal)
    assert {frozenset(group) for group in groups} == maximal
    for group in groups:
        assert [ranks[m] for m in group] == sorted(ranks[m] for m in group)
    assert [ranks[g[0]] for g in groups] == sorted(ranks[g[0]] for g in groups)


@pytest.mark.parametrize(
    ("ranks", "cd", "message"),
    [
        ([1.0, np.nan], 1.0, "ranks must be a list of finite numbers"),
        ([[1.0, 2.0]], 1.0, "ranks must be a list of finite numbers"),
        ([1.0, 2.0], -0.1, "cd must be a finite number, 0 or more, got -0.1"),
        ([1.0, 2.0], np.nan, "cd must be"),
    ],
)
def test_groups_refuse_what_is_no_rank(ranks, cd, message):
    with pytest.raises(ValueError, match=message):
        indistinguishable_groups(ranks, cd)


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
    for pair in pairwise_wilcoxon(PUBLISHED_AP / 1000, True, control=DM2L_NL):
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
