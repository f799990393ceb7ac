"""Two methods on the same splits."""

import math

import numpy as np
import pytest
from scipy import stats

from dm2l_lab._published import MEASURES
from dm2l_lab.report._duels import dm2l_variants, duels, ridge_pairs
from reports import RKL, add, table


def test_duels_are_t_intervals_of_paired_differences(store):
    generator = np.random.default_rng(3)
    ours = generator.normal(0.10, 0.01, 6).tolist()
    ridge = (np.array(ours) + generator.normal(0.02, 0.002, 6)).tolist()
    facts = {"n_train": 700, "n_test": 300}
    add(store, "Arts", "DM2L linear", ours[:5], **facts)  # the sixth has no partner
    add(store, "Arts", "masked ridge", ridge, **facts)
    found = duels(table(store), [("DM2L linear", "masked ridge")])
    duel = next(d for d in found if d.measure == RKL)
    differences = np.subtract(ours[:5], ridge[:5])
    spread = stats.t.ppf(0.975, 4) * np.sqrt((1 / 5 + 3 / 7) * differences.var(ddof=1))
    assert duel.first.n == duel.second.n == 5
    assert duel.interval.mean == pytest.approx(differences.mean())
    assert duel.interval.low == pytest.approx(differences.mean() - spread)
    assert duel.interval.high == pytest.approx(differences.mean() + spread)
    assert duel.second.mean == pytest.approx(np.mean(ridge[:5]))
    verdicts = {d.measure.name: d.verdict for d in found}
    assert {verdicts[m.name] for m in MEASURES if not m.higher_is_better} == {"better"}
    assert {verdicts[m.name] for m in MEASURES if m.higher_is_better} == {"worse"}


def test_four_tenths_are_tested_on_where_rows_do_not_say(store):
    add(store, "Arts", "a", [0.1, 0.2, 0.4])
    add(store, "Arts", "b", [0.2, 0.2, 0.2])
    interval = duels(table(store), [("a", "b")])[0].interval
    d = np.array([-0.1, 0.0, 0.2])
    half = stats.t.ppf(0.975, 2) * d.std(ddof=1) * math.sqrt(1 / 3 + 0.4 / 0.6)
    assert interval.high - interval.mean == pytest.approx(half)


@pytest.mark.parametrize("values", [[0.1], [0.1, 0.1, 0.1]])
def test_no_difference_is_shown_by_one_split_or_by_equals(store, values):
    add(store, "Arts", "a", [0.9] if len(values) == 1 else values)
    add(store, "Arts", "b", values)
    assert {d.verdict for d in duels(table(store), [("a", "b")])} == {"no difference shown"}


def test_methods_without_common_repetitions_have_no_duel(store):
    add(store, "Arts", "a", [None, 0.1])
    add(store, "Arts", "b", [0.1])
    assert duels(table(store), [("a", "b")]) == []
    with pytest.raises(ValueError, match="no results of 'c'"):
        duels(table(store), [("a", "c")])


def test_names_tell_what_is_compared():
    names = ["DM2L-l", "DM2L-nl", "DM2L-Lo", "masked ridge", "masked kernel ridge", "LEML"]
    assert dm2l_variants(names) == ["DM2L-l", "DM2L-nl"]
    pairs = [("DM2L-l", "masked ridge"), ("DM2L-nl", "masked kernel ridge")]
    assert ridge_pairs(names) == pairs
    ranked = ("DM2L kernel, for ranking", "masked kernel ridge, for ranking")
    assert ridge_pairs([*names, *ranked]) == [*pairs, ranked]
