"""All methods over all data sets and rates."""

import math

import numpy as np
import pytest
from scipy import stats

from dm2l_lab.report._blocks import block_statistics
from reports import AUC, RKL, add, table


def test_block_statistics_agree_with_scipy(filled):
    found = block_statistics(table(filled), RKL)
    assert found.methods == ["LEML", "DM2L linear", "masked ridge", "other"]
    assert len(found.blocks) == 6
    values = [[e.mean for e in table(filled).line(d, r, "Rkl").values()] for d, r in found.blocks]
    chi, p = stats.friedmanchisquare(*np.transpose(values))
    assert found.friedman.chi_square == pytest.approx(chi)
    assert found.friedman.p_value == pytest.approx(p)
    assert found.ranks == pytest.approx(stats.rankdata(values, axis=1).mean(axis=0))
    q = stats.studentized_range.ppf(0.95, 4, np.inf) / math.sqrt(2)
    assert found.cd == pytest.approx(q * math.sqrt(4 * 5 / (6 * 6)))
    assert len(found.pairs) == 6


def test_direction_of_the_measure_counts(filled):
    up, down = (block_statistics(table(filled), measure) for measure in (AUC, RKL))
    assert up.ranks == pytest.approx(5 - down.ranks)


def test_blocks_are_means_of_common_repetitions(store):
    for dataset in ("Arts", "Enron"):
        add(store, dataset, "a", [0.1, 0.2, 0.9])  # without the third a is better
        add(store, dataset, "b", [0.2, 0.3])
    assert block_statistics(table(store), RKL).ranks.tolist() == [1.0, 2.0]


def test_what_lacks_most_is_left_out(store):
    for dataset in ("Arts", "Enron", "Image"):
        add(store, dataset, "a", [0.1])
        add(store, dataset, "b", [0.2])
    add(store, "Arts", "rare", [0.3])
    add(store, "Social", "a", [0.3])
    found = block_statistics(table(store), RKL)
    assert found.left_out_methods == ["rare"]
    assert found.left_out_blocks == [("Social", 1.0)]
    assert [name for name, _ in found.blocks] == ["Arts", "Enron", "Image"]


def test_too_little_for_statistics(store):
    add(store, "Arts", "a", [0.1])
    add(store, "Arts", "b", [0.2])
    assert block_statistics(table(store), RKL) is None
