"""Estimates for complete labels: against enumeration of all masks, and the laws they obey."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from sklearn.exceptions import UndefinedMetricWarning

from dm2l import metrics
from dm2l.metrics import _complete
from dm2l.metrics._complete import observation_rates

NAN = math.nan
RANKING = (
    "ranking_loss",
    "label_ranking_average_precision",
    "coverage_error",
    "instance_auc",
    "one_error",
)
SCORES = (*RANKING, "label_auc", "precision_at_k", "ndcg_at_k", "calibrated_log_loss")
DECISIONS = ("hamming_loss", "f1_micro", "f1_macro")


def problem(seed: int = 0, n: int = 400, c: int = 6):
    """Complete labels that depend on each other, and scores that know something of them."""
    rng = np.random.default_rng(seed)
    row, label = rng.normal(size=(n, 1)), np.linspace(-2.0, 0.5, c)
    odds = rng.normal(size=(n, c))
    Y = (0.7 * row + label + odds + rng.logistic(size=(n, c)) > 0).astype(float)
    return Y, odds + 0.3 * row + label + 0.8


def hide(Y, rates, seed: int):
    return np.where(np.random.default_rng(seed).random(Y.shape) < rates, Y, NAN)


# -- expectation over masks ----------------------------------------------------------------------

# What rows add and what they count for, and the plain measure of a row, 0 where it is undefined.
ROWS = {
    "precision": (
        lambda rows: (rows.precision(), rows.some_positive),
        lambda Y, S: metrics.label_ranking_average_precision(Y, S, undefined=0.0),
    ),
    "pairs, a tie is wrong": (
        lambda rows: rows.pairs(0.0),
        lambda Y, S: metrics.ranking_loss(Y, S, undefined=0.0),
    ),
    "pairs, a tie is half": (
        lambda rows: rows.pairs(0.5),
        lambda Y, S: 1 - metrics.instance_auc(Y, S, undefined=1.0),
    ),
    "depth": (
        lambda rows: (rows.depth(), rows.some_positive),
        lambda Y, S: metrics.coverage_error(Y, S, convention="sklearn"),
    ),
}


@pytest.mark.parametrize("rate", [0.35, 0.6])
@pytest.mark.parametrize("break_ties", [False, True])
@pytest.mark.parametrize("measure", ROWS)
def test_what_rows_add_has_the_complete_rows_as_its_mean_over_all_masks(
    measure, break_ties, rate, monkeypatch
):
    added, plain = ROWS[measure]
    # Any probabilities will do that do not depend on the mask.
    rng = np.random.default_rng(1)
    Y = np.array([[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 1]], dtype=np.int8)
    S = rng.integers(3, size=Y.shape).astype(float)
    rates = rate * rng.uniform(0.8, 1.2, size=Y.shape)
    P = rng.uniform(0.1, 0.9, size=Y.shape)
    monkeypatch.setattr(_complete, "cross_fitted_probabilities", lambda T, S, weights: P)
    x, w = np.polynomial.legendre.leggauss(3)
    exact = list(zip((x + 1) / 2, w / 2, strict=True))
    monkeypatch.setattr(_complete.CompleteRows, "_one_over", lambda *_, **__: exact)
    total = np.zeros((2, len(Y)))
    for kept in itertools.product([0, 1], repeat=Y.shape[1]):
        mask = np.array(kept)
        chance = np.where(mask, rates, 1 - rates).prod(axis=1)
        rows = _complete.CompleteRows.__new__(_complete.CompleteRows)
        T = (2 * Y - 1) * mask
        vars(rows).update(T=T, S=S, rates=rates, break_ties=break_ties)
        rows.weights = rows.sample = np.ones(len(Y))
        total += chance * np.array(added(rows))
    if break_ties:
        S = S + 1e-3 * np.arange(Y.shape[1])  # the later label first
    some, all_ = Y.any(axis=1), Y.all(axis=1)
    expected = [plain(Y[[i]], S[[i]]) for i in range(len(Y))]
    counted = some & ~all_ if measure.startswith("pairs") else some
    np.testing.assert_allclose(total, [expected, counted], atol=1e-9)


@pytest.mark.parametrize("convention", ["paper", "published", "sklearn"])
@pytest.mark.parametrize("name", RANKING[:4])
def test_a_row_that_is_known_adds_what_the_plain_measure_says(name, convention):
    """One hole in a label that is known elsewhere: all other rows are exact."""
    Y, S = problem(3, n=60, c=5)
    S = np.round(S * 2)  # ties
    if name == "instance_auc" and convention == "sklearn":
        both = (Y.sum(axis=1) > 0) & (Y.sum(axis=1) < 5)
        Y, S = Y[both], S[both]
    hidden = Y.copy()
    hidden[0, 0] = NAN
    metric = getattr(metrics, name)
    options = {"convention": convention, "rates": np.where(np.isnan(hidden), 0.5, 1.0)}
    found = metric(hidden, S, **options, return_counts=True)
    assert found.kind == "estimate"
    plain = metric(Y, S, convention=convention)
    assert found.value == pytest.approx(
        plain, abs=3 / len(Y) * (5 if name == "coverage_error" else 1)
    )
    alone = metric(Y[1:], S[1:], convention=convention)
    rest = found.value * len(Y) - alone * (len(Y) - 1)
    assert abs(rest) < 10


@pytest.mark.parametrize("rate", [0.3, 0.7])
@pytest.mark.parametrize("name", [*SCORES, *DECISIONS])
def test_the_mean_over_masks_is_the_value_of_complete_labels(name, rate):
    Y, S = problem(n=600)
    metric = getattr(metrics, name)
    options = {"k": 3} if name.endswith("at_k") else {}
    answers = (S > 0).astype(float) if name in DECISIONS else S
    truth = metric(Y, answers, **options)
    found = [
        metric(hide(Y, rate, seed), answers, **options, return_counts=True) for seed in range(12)
    ]
    values = np.array([f.value for f in found])
    scale = Y.shape[1] if name == "coverage_error" else 1
    assert abs(values.mean() - truth) < max(0.01 * scale, 3 * values.std() / 12**0.5)
    errors = np.array([f.standard_error for f in found])
    assert (np.abs(values - truth) <= 2.5 * errors).mean() >= 0.8
    assert {f.kind for f in found} == {"estimate"}


MASKS = {
    "by row": lambda Y, S, rng: np.broadcast_to(rng.choice([0.2, 0.8], (len(Y), 1)), Y.shape),
    "by label": lambda Y, S, rng: np.broadcast_to(np.linspace(0.25, 0.8, Y.shape[1]), Y.shape),
    "by score": lambda Y, S, rng: np.where(S > 0, 0.7, 0.3),
    "by side": lambda Y, S, rng: np.where(Y > 0, 0.3, 0.7),
}


@pytest.mark.parametrize("mask", MASKS)
def test_rates_that_differ_are_made_up_for(mask):
    Y, S = problem(5, n=1500)
    rng = np.random.default_rng(0)
    told = mask in ("by score", "by side")
    truth = metrics.evaluate(Y, S)
    sums = dict.fromkeys(truth, 0.0)
    for seed in range(8):
        R = MASKS[mask](Y, S, rng)
        options = {"rates": (0.3, 0.7) if mask == "by side" else R} if told else {}
        for name, found in metrics.evaluate(hide(Y, R, seed), S, **options).items():
            sums[name] += found.value / 8
    for name, value in sums.items():
        allowed = 0.02 * (Y.shape[1] if name == "coverage_error" else 1)
        assert value == pytest.approx(truth[name].value, abs=allowed), name


# -- laws ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SCORES, *DECISIONS])
def test_without_holes_nothing_is_estimated(name):
    Y, S = problem(1, n=50)
    answers = (S > 0).astype(float) if name in DECISIONS else S
    plain = getattr(metrics, name)(Y, answers, return_counts=True, estimate=False)
    assert getattr(metrics, name)(Y, answers, return_counts=True, rates=0.1)[:5] == plain[:5]
    assert plain.kind == "complete"


def test_evaluate_says_what_each_function_says():
    Y, S = problem(2, n=80)
    hidden = hide(Y, 0.5, 0)
    together = metrics.evaluate(hidden, S)
    for name in (*RANKING, "label_auc"):
        assert together[name] == getattr(metrics, name)(hidden, S, return_counts=True), name
    observed = metrics.evaluate(hidden, S, estimate=False)
    assert {value.kind for value in observed.values()} == {"observed"}


def test_rows_of_which_nothing_was_ever_asked_do_not_count():
    Y, S = problem(4, n=200)
    half = np.where(np.arange(200)[:, None] < 100, hide(Y, 0.6, 0), NAN)
    with_them = metrics.label_ranking_average_precision(half, S, return_counts=True)
    without = metrics.label_ranking_average_precision(half[:100], S[:100], return_counts=True)
    assert with_them.value == pytest.approx(without.value, abs=0.03)
    assert with_them.n_units < 120


def test_a_label_of_which_nothing_is_seen_takes_no_part():
    Y, S = problem(6, n=100)
    hidden = hide(Y, 0.5, 0)
    hidden[:, 2] = NAN
    others = [0, 1, 3, 4, 5]
    assert metrics.ranking_loss(hidden, S) == metrics.ranking_loss(hidden[:, others], S[:, others])


def test_positives_alone_say_nothing_about_complete_rows():
    Y, S = problem(7, n=100)
    hidden = hide(Y, 0.5, 0)
    hidden[:, 1] = np.where(Y[:, 1] == 1, 1.0, NAN)
    for name in (*RANKING, "label_auc"):
        with pytest.warns(UndefinedMetricWarning, match="label 1 has .* no observed negative"):
            assert math.isnan(getattr(metrics, name)(hidden, S))
        assert not math.isnan(getattr(metrics, name)(hidden, S, estimate=False))


def test_a_scores_own_row_has_no_part_in_its_probabilities():
    Y, S = problem(8, n=50)
    T = (2 * Y - 1).astype(np.int8)
    other = T.copy()
    other[7] *= -1
    P, Q = (_complete.cross_fitted_probabilities(t, S, np.ones(t.shape)) for t in (T, other))
    np.testing.assert_allclose(P[7], Q[7], atol=1e-3)
    assert np.abs(P[8] - Q[8]).max() > 1e-4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rates": 2.0}, "at most 1"),
        ({"rates": 0.0}, "above 0"),
        ({"rates": [0.5, 0.5]}, "one per label"),
        ({"rates": (0.5, 0.5, 0.5)}, "a pair"),
        ({"undefined": "raise"}, "estimate=False"),
        ({"undefined": "guess"}, "undefined must be"),
    ],
)
def test_what_makes_no_sense_is_refused(options, message):
    Y, S = problem(9, n=20)
    with pytest.raises(ValueError, match=message):
        metrics.ranking_loss(hide(Y, 0.5, 0), S, **options)


def test_rates_are_those_of_labels_and_rows():
    rng = np.random.default_rng(0)
    label = np.array([0.2, 0.5, 0.9, 0.6])
    seen = rng.random((4000, 4)) < label
    found, _ = observation_rates(seen.astype(np.int8))
    np.testing.assert_allclose(found.mean(axis=0), label, atol=0.03)
    assert np.ptp(found, axis=0).max() == 0  # rows differ by chance only
    rows = np.where(rng.random((4000, 1)) < 0.5, 0.2, 0.8)
    found, _ = observation_rates((rng.random((4000, 12)) < rows).astype(np.int8))
    last = found[:, -1]
    assert np.corrcoef(last, rows[:, 0])[0, 1] > 0.9


def test_a_standard_error_shrinks_with_rows():
    errors = []
    for n in (200, 1800):
        Y, S = problem(10, n=n)
        errors.append(metrics.ranking_loss(hide(Y, 0.5, 0), S, return_counts=True).standard_error)
    assert errors[1] < 0.5 * errors[0]


def test_log_loss_prefers_scores_that_know_more():
    Y, S = problem(11)
    noise = S + np.random.default_rng(0).normal(scale=2.0, size=S.shape)
    hidden = hide(Y, 0.3, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        better, worse = (metrics.calibrated_log_loss(hidden, s) for s in (S, noise))
    assert better < worse < math.log(2)


@pytest.mark.parametrize("scale", [0.0, 1e-200, 1e300])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_few_rows_and_scores_of_any_size_are_judged(n, scale):
    Y, S = problem(12, n=n)
    Y[0, :2] = 1, 0
    hidden = hide(Y, 0.6, 0)
    hidden[0, :2] = 1, 0
    for name, found in metrics.evaluate(hidden, scale * S).items():
        assert math.isnan(found.value) or 0 <= found.value <= 6, name
    assert math.isfinite(metrics.calibrated_log_loss(hidden, scale * S))


def test_another_rule_for_ties_forgets_what_the_first_one_found():
    rng = np.random.default_rng(0)
    T = rng.integers(-1, 2, (60, 5)).astype(np.int8)
    S = rng.integers(0, 2, (60, 5)).astype(float)
    fresh = _complete.CompleteRows(T, S).precision()
    first = _complete.CompleteRows(T, S, break_ties=True)
    first.precision()
    np.testing.assert_allclose(first.reordered(break_ties=False).precision(), fresh)
