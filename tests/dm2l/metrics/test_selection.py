"""Scores to select hyperparameters by, against scipy and scikit-learn."""

from functools import partial

import numpy as np
import pytest
from scipy.stats import pearsonr
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import roc_auc_score

from dm2l.metrics import label_ranking_average_precision
from dm2l.metrics._ranking import (
    FULL_WEIGHT,
    label_discrimination,
    ranking_and_discrimination,
)
from dm2l.model_selection import selection_score


@pytest.fixture
def told():
    """Labels with holes, one of them rare, and scores with ties that know something of them."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(300, 3)).round(1)
    Y = (scores + rng.normal(size=scores.shape) > [0.0, 1.0, 2.5]).astype(float)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    return Y, scores


def test_discrimination_is_half_correlation_and_half_auc_by_what_labels_can_say(told):
    Y, scores = told
    values, say = [], []
    for y, s in zip(Y.T, scores.T, strict=True):
        y, s = y[~np.isnan(y)], s[~np.isnan(y)]
        values.append((pearsonr(y, s)[0] + 2 * roc_auc_score(y, s) - 1) / 2)
        say.append(min(y.sum(), (1 - y).sum(), FULL_WEIGHT))
    assert min(say) < FULL_WEIGHT
    assert label_discrimination(Y, scores) == pytest.approx(np.average(values, weights=say))


def test_a_rare_label_that_is_told_without_fail_counts_in_full():
    Y = np.zeros((200, 1))
    Y[:2] = 1
    assert label_discrimination(Y, Y) == pytest.approx(1.0)
    assert label_discrimination(Y, -Y) == pytest.approx(
        -1.0
    )  # by chance as often as the other: no bias


def test_holes_and_labels_of_one_class_have_no_say():
    rng = np.random.default_rng(0)
    Y, scores = (rng.random((50, 2)) < 0.4).astype(float), rng.normal(size=(50, 2))
    Y[:, 1] = 0
    assert label_discrimination(Y, scores) == pytest.approx(
        label_discrimination(Y[:, :1], scores[:, :1])
    )
    Y[:9, 0], other = np.nan, scores.copy()
    other[:9] = 1e3
    assert label_discrimination(Y, other) == pytest.approx(label_discrimination(Y, scores))
    assert label_discrimination(Y, np.ones_like(Y)) == 0


# An estimate knows each row apart from its copy.
@pytest.mark.parametrize(
    "metric", [label_discrimination, partial(ranking_and_discrimination, estimate=False)]
)
def test_a_weight_of_two_is_the_row_twice_and_zero_is_none(metric, told):
    Y, scores = (table[:60] for table in told)
    weights = np.arange(60) % 3
    twice = np.repeat(np.arange(60), weights)
    weighted = metric(Y, scores, sample_weight=weights)
    assert weighted == pytest.approx(metric(Y[twice], scores[twice]))


@pytest.mark.parametrize("estimate", [True, False])
def test_both_ways_count_alike(estimate, told):
    Y, scores = told
    rows = label_ranking_average_precision(Y, scores, estimate=estimate)
    mean = (rows + label_discrimination(Y, scores)) / 2
    assert ranking_and_discrimination(Y, scores, estimate=estimate) == pytest.approx(mean)


def test_labels_of_one_class_leave_the_order_in_rows():
    one_class = np.array([[1.0, 0.0], [1.0, 0.0]])
    scores = np.array([[0.2, 0.1], [0.3, 0.4]])
    assert (
        ranking_and_discrimination(one_class, scores)
        == label_ranking_average_precision(one_class, scores) / 2
    )
    with pytest.warns(UndefinedMetricWarning):
        assert np.isnan(label_discrimination(one_class, scores))
    nothing = np.full((2, 2), np.nan)
    assert np.isnan(selection_score("ranking_and_discrimination", nothing, scores))


def test_where_no_estimate_is_possible_observed_labels_are_judged(told):
    Y, scores = told
    Y = np.where(Y[:, [0, 1, 2, 1]] == 0, [0, 0, 0, np.nan], Y[:, [0, 1, 2, 1]])  # yes alone
    scores = scores[:, [0, 1, 2, 1]]
    with pytest.warns(UndefinedMetricWarning):
        assert np.isnan(ranking_and_discrimination(Y, scores))
    observed = ranking_and_discrimination(Y, scores, estimate=False)
    assert selection_score("ranking_and_discrimination", Y, scores) == observed


def test_counts_are_those_of_labels_and_of_rows(told):
    Y, scores = told
    found = label_discrimination(Y, scores, return_counts=True)
    assert (found.n_units, found.n_entries) == (3, int((~np.isnan(Y)).sum()))
    assert found.value == label_discrimination(Y, scores, estimate=False)
    found = ranking_and_discrimination(Y, scores, return_counts=True)
    rows = label_ranking_average_precision(Y, scores, return_counts=True)
    assert (found.n_units, found.kind) == (rows.n_units, "estimate")
    assert found.value == ranking_and_discrimination(Y, scores)
