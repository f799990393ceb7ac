"""Ranks, Friedman's test and critical differences, against other libraries and brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from experiments.ranks import (
    average_ranks,
    friedman,
    indistinguishable_groups,
    nemenyi_critical_difference,
)

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
    for function in (average_ranks, friedman):
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
