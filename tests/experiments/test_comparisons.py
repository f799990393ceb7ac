"""Methods beside published figures, beside each other, and over all data sets and rates."""

import math

import numpy as np
import pytest
from scipy import stats

from experiments.comparisons import (
    against_best,
    block_statistics,
    dm2l_variants,
    duels,
    reproduced,
    ridge_pairs,
    won,
)
from experiments.published import MEASURES, SOURCES, published_figures

RKL, AUC = MEASURES[:2]

# -- the published figures ----------------------------------------------------------------------


def test_figures_are_compared_with_those_of_the_same_method(rows):
    rows.add("Arts", "LEML", [0.150, 0.152])  # in print 0.167: 10 % is 0.0167
    rows.add("Arts", "LSML", [0.160])  # in print 0.127
    rows.add("Arts", "LEML, tuned", [0.15])
    found = reproduced(rows.results()).set_index("method")
    assert list(found.index) == ["LEML", "LSML"]
    assert found.loc["LEML", "published"] == 0.167
    assert found.loc["LEML", "mean"] == pytest.approx(0.151)
    assert found["within"].to_dict() == {"LEML": True, "LSML": False}
    assert found["n"].to_dict() == {"LEML": 2, "LSML": 1}


def test_figures_belong_to_rates_and_measures(rows):
    rows.add("Arts", "LEML", [{"Rkl": 0.2, "lAuc": 0.7}], rate=0.3)
    rows.add("Arts", "LEML", [{"Rkl": 0.2}], rate=0.5)
    (found,) = reproduced(rows.results()).to_dict("records")
    assert (found["rate"], found["measure"], found["published"]) == (0.3, "Rkl", 0.234)


def test_figures_of_tmc_belong_to_the_old_edition(rows):
    for name in ("Tmc2007-500", "Tmc2007-500-old"):
        rows.add(name, "LEML", [0.05])
    (found,) = reproduced(rows.results()).to_dict("records")
    assert (found["dataset"], found["published"]) == ("Tmc2007-500-old", 0.046)


def test_the_best_by_hand(rows):
    # Best in print on Arts, rate 1: Rkl 0.125, Auc 0.876, Cvg 4.965, Ap 0.625.
    rows.add("Arts", "A", [{"Rkl": 0.1254, "Auc": 0.8766, "Cvg": 4.9656, "Ap": 0.5}])
    rows.add("Arts", "B", [{"Rkl": 0.2, "Auc": 0.9, "Cvg": 6.0, "Ap": 0.6244}])
    rows.add("Arts", "not ours", [{"Rkl": 0.0, "Auc": 1.0, "Cvg": 0.0, "Ap": 1.0}])
    found = against_best(rows.results(), ["A", "B"])
    assert len(found) == 96
    arts = found[(found["dataset"] == "Arts") & (found["rate"] == 1)].set_index("measure")
    outcomes = {"Rkl": "equal", "Auc": "better", "Cvg": "worse", "Ap": "worse"}
    assert arts["outcome"].to_dict() == outcomes
    assert arts["method"].to_dict() == {"Rkl": "A", "Auc": "B", "Cvg": "A", "Ap": "B"}
    assert won(found) == 2
    assert (found["outcome"] == "missing").sum() == 92
    assert found.loc[found["outcome"] == "missing", "mean"].isna().all()


def test_a_method_counts_from_the_fewest_repetitions_on(rows):
    rows.add("Arts", "A", [0.01])
    rows.add("Arts", "B", [0.1, 0.2])
    for fewest, method in ((1, "A"), (2, "B"), (3, "")):
        found = against_best(rows.results(), ["A", "B"], fewest).iloc[0]
        assert (found["measure"], found["method"]) == ("Rkl", method)


def test_published_figures_win_against_themselves(rows):
    """Every cell equal: with the table of the paper as our results, whatever wins there."""
    values = {}
    for (dataset, rate, measure, method), figure in published_figures().items():
        values.setdefault((dataset, rate, method), {})[measure] = figure
    for (dataset, rate, method), figures in values.items():
        for name in SOURCES[dataset]:
            rows.add(name, method, [figures], rate=rate)
    results = rows.results()
    found = against_best(results, {key[2] for key in values})
    assert set(found["outcome"]) == {"equal"}
    alone = against_best(results, ["LEML"])
    assert won(alone) == alone["by"].str.contains("LEML").sum()
    assert reproduced(results)["within"].all()


# -- two methods --------------------------------------------------------------------------------


def test_duels_are_t_intervals_of_paired_differences(rows):
    generator = np.random.default_rng(3)
    ours = generator.normal(0.10, 0.01, 6).tolist()
    ridge = (np.array(ours) + generator.normal(0.02, 0.002, 6)).tolist()
    facts = {"n_train": 700, "n_test": 300}
    names = [measure.name for measure in MEASURES]
    every = [[dict.fromkeys(names, value) for value in values] for values in (ours, ridge)]
    rows.add("Arts", "DM2L linear", every[0][:5], **facts)  # the sixth has no partner
    rows.add("Arts", "masked ridge", every[1], **facts)
    found = duels(rows.results(), [("DM2L linear", "masked ridge")])
    duel = next(d for d in found if d.measure == RKL)
    differences = np.subtract(ours[:5], ridge[:5])
    spread = stats.t.ppf(0.975, 4) * np.sqrt((1 / 5 + 3 / 7) * differences.var(ddof=1))
    assert duel.n == 5
    assert duel.interval.mean == pytest.approx(differences.mean())
    assert duel.interval.low == pytest.approx(differences.mean() - spread)
    assert duel.interval.high == pytest.approx(differences.mean() + spread)
    assert duel.means[1] == pytest.approx(np.mean(ridge[:5]))
    verdicts = {d.measure.name: d.verdict for d in found}
    assert {verdicts[m.name] for m in MEASURES if not m.higher_is_better} == {"better"}
    assert {verdicts[m.name] for m in MEASURES if m.higher_is_better} == {"worse"}


@pytest.mark.parametrize("values", [[0.1], [0.1, 0.1, 0.1]])
def test_no_difference_is_shown_by_one_split_or_by_equals(rows, values):
    rows.add("Arts", "a", [0.9] if len(values) == 1 else values)
    rows.add("Arts", "b", values)
    assert {d.verdict for d in duels(rows.results(), [("a", "b")])} == {"no difference shown"}


def test_methods_without_common_repetitions_have_no_duel(rows):
    rows.add("Arts", "a", [None, 0.1])
    rows.add("Arts", "b", [0.1])
    assert duels(rows.results(), [("a", "b")]) == []


def test_names_tell_what_is_compared():
    names = ["DM2L-l", "DM2L-nl", "DM2L-Lo", "masked ridge", "masked kernel ridge", "LEML"]
    assert dm2l_variants(names) == ["DM2L-l", "DM2L-nl"]
    pairs = [("DM2L-l", "masked ridge"), ("DM2L-nl", "masked kernel ridge")]
    assert ridge_pairs(names) == pairs
    ranked = ("DM2L kernel, for ranking", "masked kernel ridge, for ranking")
    assert ridge_pairs([*names, *ranked]) == [*pairs, ranked]


# -- all methods --------------------------------------------------------------------------------


def test_block_statistics_agree_with_scipy(filled):
    results = filled.results()
    found = block_statistics(results, RKL)
    assert found.methods == ["LEML", "DM2L linear", "masked ridge", "other"]
    assert len(found.blocks) == 6
    values = [results.line(dataset, rate, "Rkl").mean() for dataset, rate in found.blocks]
    chi, p = stats.friedmanchisquare(*np.transpose(values))
    assert found.friedman.chi_square == pytest.approx(chi)
    assert found.friedman.p_value == pytest.approx(p)
    assert found.ranks == pytest.approx(stats.rankdata(values, axis=1).mean(axis=0))
    q = stats.studentized_range.ppf(0.95, 4, np.inf) / math.sqrt(2)
    assert found.critical_difference == pytest.approx(q * math.sqrt(4 * 5 / (6 * 6)))
    assert len(found.pairs) == 6


def test_direction_of_the_measure_counts(filled):
    up, down = (block_statistics(filled.results(), measure) for measure in (AUC, RKL))
    assert up.ranks == pytest.approx(5 - down.ranks)


def test_blocks_are_means_of_common_repetitions(rows):
    for dataset in ("Arts", "Enron"):
        rows.add(dataset, "a", [0.1, 0.2, 0.9])  # without the third a is better
        rows.add(dataset, "b", [0.2, 0.3])
    assert block_statistics(rows.results(), RKL).ranks.tolist() == [1.0, 2.0]


def test_what_lacks_most_is_left_out(rows):
    for dataset in ("Arts", "Enron", "Image"):
        rows.add(dataset, "a", [0.1])
        rows.add(dataset, "b", [0.2])
    rows.add("Arts", "rare", [0.3])
    rows.add("Social", "a", [0.3])
    found = block_statistics(rows.results(), RKL)
    assert found.methods == ["a", "b"]
    assert [name for name, _ in found.blocks] == ["Arts", "Enron", "Image"]


def test_too_little_for_statistics(rows):
    rows.add("Arts", "a", [0.1])
    rows.add("Arts", "b", [0.2])
    assert block_statistics(rows.results(), RKL) is None
