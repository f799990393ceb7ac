"""Metrics of the first places against sums written out entry by entry."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import ndcg_score

from dm2l.labels import SparseLabelMatrix
from observed_metrics import (
    ndcg_at_k,
    precision_at_k,
    propensities,
    propensity_scored_ndcg_at_k,
    propensity_scored_precision_at_k,
)


def ranking(truth, scores):
    """Judged labels of a row, best first, earlier labels first where scores tie."""
    judged = [j for j in range(len(truth)) if not math.isnan(truth[j])]
    return sorted(judged, key=lambda j: (-scores[j], j))


def brute(metric, Y, S, k, p=None, normalize=True):
    """A metric from its definition, with loops."""
    got, most, rows = [], [], 0
    for truth, scores in zip(Y, S, strict=True):
        order = ranking(truth, scores)[:k]
        if not order:
            continue
        positives = [j for j in range(len(truth)) if truth[j] == 1]
        gain = {j: 1.0 if p is None else 1.0 / p[j] for j in positives}
        ideal = sorted(gain.values(), reverse=True)[:k]
        width = min(k, len(truth))
        if metric == "precision":
            got.append(sum(gain.get(j, 0.0) for j in order) / len(order))
            most.append(sum(ideal) / len(order))
        else:
            places = [1 / math.log2(place + 2) for place in range(width)]
            dcg = sum(gain.get(j, 0.0) * places[i] for i, j in enumerate(order))
            best = sum(g * places[i] for i, g in enumerate(ideal))
            if p is None:
                if not positives:
                    continue
                got.append(dcg / best)
            else:
                got.append(dcg / sum(places))
                most.append(best / sum(places))
        rows += 1
    if not rows:
        return math.nan
    if p is None or not normalize:
        return sum(got) / rows
    return sum(got) / sum(most) if sum(most) else math.nan


@st.composite
def judged(draw, holes=True):
    n, c = draw(st.integers(1, 5)), draw(st.integers(1, 7))
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    values = [0.0, 1.0, np.nan] if holes else [0.0, 1.0]
    Y = rng.choice(values, size=(n, c))
    S = rng.integers(0, 4, size=(n, c)).astype(float)  # ties
    return Y, S, draw(st.integers(1, 8)), rng.uniform(0.1, 1.0, size=c)


@settings(max_examples=150, deadline=None)
@given(judged())
def test_metrics_of_dense_scores_equal_their_definitions(case):
    Y, S, k, p = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        pairs = [
            (precision_at_k(Y, S, k), brute("precision", Y, S, k)),
            (ndcg_at_k(Y, S, k), brute("ndcg", Y, S, k)),
        ]
        for normalize in (True, False):
            options = {"k": k, "normalize": normalize}
            pairs += [
                (
                    propensity_scored_precision_at_k(Y, S, p, **options),
                    brute("precision", Y, S, k, p, normalize),
                ),
                (
                    propensity_scored_ndcg_at_k(Y, S, p, **options),
                    brute("ndcg", Y, S, k, p, normalize),
                ),
            ]
    for found, expected in pairs:
        assert found == pytest.approx(expected, nan_ok=True)


@settings(max_examples=100, deadline=None)
@given(judged())
def test_a_list_of_all_labels_says_what_all_scores_say(case):
    Y, S, k, p = case
    order = np.argsort(-S, axis=1, kind="stable")
    listed = order, np.take_along_axis(S, order, axis=1)
    signed = sp.csr_array(np.where(np.isnan(Y), 0, 2 * np.nan_to_num(Y) - 1))
    if not signed.nnz:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        for metric, more in (
            (precision_at_k, ()),
            (ndcg_at_k, ()),
            (propensity_scored_precision_at_k, (p,)),
            (propensity_scored_ndcg_at_k, (p,)),
        ):
            whole = metric(Y, S, *more, k=k, return_counts=True)
            labels = SparseLabelMatrix.from_array(signed, missing_as="missing")
            part = metric(labels, listed, *more, k=k, return_counts=True)
            assert part.value == pytest.approx(whole.value, nan_ok=True)
            assert part[1:] == whole[1:]


@settings(max_examples=50, deadline=None)
@given(judged(holes=False))
def test_absent_labels_that_mean_no_are_judged_without_being_stored(case):
    Y, S, k, p = case
    k = min(k, Y.shape[1])
    order = np.argsort(-S, axis=1, kind="stable")[:, :k]
    listed = order, np.take_along_axis(S, order, axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        for metric, more in ((precision_at_k, ()), (propensity_scored_ndcg_at_k, (p,))):
            labels = SparseLabelMatrix.from_array(sp.csr_array(Y), missing_as="negative")
            found = metric(labels, listed, *more, k=k)
            assert found == pytest.approx(metric(Y, S, *more, k=k), nan_ok=True)


def test_ndcg_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    Y, S = (rng.random((40, 12)) < 0.2).astype(int), rng.normal(size=(40, 12))
    for k in (1, 3, 12):
        expected = ndcg_score(Y, S, k=k, ignore_ties=True)
        assert ndcg_at_k(Y, S, k, undefined=0.0) == pytest.approx(expected)


def test_unjudged_labels_of_a_list_take_no_place():
    Y = sp.csr_array(np.array([[0, 1, -1, 0], [0, 0, 0, 1], [0, 1, 0, 0]]))
    best = np.array([[0, 1, 2], [0, 1, 2], [1, 0, 2]]), np.array([[3.0, 2.0, 1.0]] * 3)
    found = precision_at_k(Y, best, 2, return_counts=True)
    # Row 0: one of two. Row 1: nothing in its list is judged. Row 2: one of the one that is.
    assert found.value == pytest.approx((0.5 + 1.0) / 2)
    assert (found.n_units, found.n_undefined) == (2, 1)
    with pytest.raises(ValueError, match="undefined on 1 of 3 rows"):
        precision_at_k(Y, best, 2, undefined="raise")


def test_propensities_follow_the_published_curve():
    Y = np.zeros((1000, 3))
    Y[:400, 0], Y[:3, 1] = 1, 1
    scale = (math.log(1000) - 1) * 2.5**0.55
    expected = [1 / (1 + scale * math.exp(-0.55 * math.log(m + 1.5))) for m in (400, 3, 0)]
    np.testing.assert_allclose(propensities(Y), expected)
    np.testing.assert_allclose(propensities(sp.csr_array(Y)), expected)
    other = 1 / (1 + (math.log(1000) - 1) * 3.6**0.6 * 402.6**-0.6)
    assert propensities(Y, a=0.6, b=2.6)[0] == pytest.approx(other)
    signed = sp.csr_array(np.where(Y > 0, 1, 0) - np.eye(1000, 3, k=-500).astype(int))
    np.testing.assert_allclose(propensities(signed), expected)


def test_the_best_order_scores_one_and_rare_labels_count_more():
    Y = np.array([[1, 1, 0, 0], [0, 1, 1, 0]])
    p = np.array([0.9, 0.1, 0.5, 0.5])
    best = Y / p
    for metric in (propensity_scored_precision_at_k, propensity_scored_ndcg_at_k):
        assert metric(Y, best, p, k=2) == pytest.approx(1.0)
        common_first = np.array([[2.0, 1.0, 0.0, 0.0], [0.0, 1.0, 2.0, 0.0]])
        assert metric(Y, common_first, p, k=1) < 0.3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "k must be an integer >= 1, got 0"),
        ({"k": 3}, "at least 3 labels per row, got 2"),
        ({"y_score": (np.zeros((2, 2), int),)}, "a pair .* got 1 elements"),
        (
            {"y_score": (np.zeros((1, 2), int), np.zeros((1, 2)))},
            r"2 rows and the same shape, got shapes \(1, 2\)",
        ),
        ({"y_score": (np.array([[0, 5], [0, 1]]), np.zeros((2, 2)))}, "index 5 in row 0.* 0 to 2"),
        (
            {"y_score": (np.array([[0, 0], [0, 1]]), np.zeros((2, 2)))},
            "label 0 twice in row 0",
        ),
        (
            {"y_score": (np.array([[0, 1], [0, 1]]), np.array([[0, 1.0]] * 2))},
            "row 0 of y_score contain NaN or are not sorted",
        ),
        ({"missing_as": "unlabelled"}, "'unlabelled', but this metric"),
        ({"mask": np.ones((2, 2), bool)}, r"mask has shape \(2, 2\)"),
    ],
)
def test_what_cannot_be_a_list_is_refused(change, message):
    Y = sp.csr_array([[1, 0, 0], [0, 1, 0]])
    arguments = {
        "y_score": (np.array([[0, 1], [1, 0]]), np.array([[1.0, 0.0]] * 2)),
        "missing_as": "negative",
        "mask": None,
    } | change
    marks = {name: arguments.pop(name) for name in ("missing_as", "mask")}
    with pytest.raises(ValueError, match=message):
        ndcg_at_k(SparseLabelMatrix.from_array(Y, **marks), **arguments)


@pytest.mark.parametrize("sparse_mask", [False, True])
@pytest.mark.parametrize("metric", [precision_at_k, ndcg_at_k])
def test_a_mask_over_a_list_is_that_of_holes_over_all_scores(metric, sparse_mask):
    rng = np.random.default_rng(3)
    Y, S = rng.integers(0, 2, size=(20, 6)), rng.normal(size=(20, 6))
    mask = rng.random(Y.shape) < 0.6
    order = np.argsort(-S, axis=1)
    everything = order, np.take_along_axis(S, order, axis=1)
    given = sp.csr_array(mask) if sparse_mask else mask
    labels = SparseLabelMatrix.from_array(sp.csr_array(Y), missing_as="negative", mask=given)
    found = metric(labels, everything, 2)
    assert found == pytest.approx(metric(np.where(mask, Y, np.nan), S, 2), abs=1e-12)


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([0.5, 0.5], r"shape \(3,\), one per label, got \(2,\)"),
        ([0.5, 0.0, 1.0], "0.0 for label 1"),
    ],
)
def test_propensities_that_are_no_chances_are_refused(p, message):
    with pytest.raises(ValueError, match=message):
        propensity_scored_precision_at_k([[1, 0, 1]], [[0.1, 0.2, 0.3]], p)


def test_labels_without_a_positive_make_scored_metrics_undefined():
    Y, S, p = np.zeros((2, 3)), np.ones((2, 3)), np.full(3, 0.5)
    with pytest.warns(UndefinedMetricWarning, match="undefined on"):
        assert np.isnan(propensity_scored_precision_at_k(Y, S, p))
    assert propensity_scored_precision_at_k(Y, S, p, undefined=0.0) == 0.0
    with pytest.raises(ValueError, match="undefined on"):
        propensity_scored_ndcg_at_k(Y, S, p, undefined="raise")
    with pytest.raises(ValueError, match="at least 3 rows, got 2"):
        propensities(np.ones((2, 1)))
