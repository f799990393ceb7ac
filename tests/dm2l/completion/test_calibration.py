"""From scores to probabilities and borders, against brute force."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from sklearn.metrics import accuracy_score, f1_score

from dm2l import DM2LClassifier
from dm2l.completion._errors import (
    Calibrator,
    best_f1_thresholds,
    best_thresholds,
    plain_probability,
)
from dm2l.datasets import load_digit_attributes

METHODS = ["sigmoid", "isotonic"]


@pytest.fixture
def sample():
    """Scores of 80 rows and signs with holes; a higher score makes a positive likelier."""
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((80, 3))
    T = np.where(rng.uniform(size=scores.shape) < 1 / (1 + np.exp(1 - 3 * scores)), 1, -1)
    T[rng.uniform(size=T.shape) < 0.3] = 0
    return scores, T.astype(np.int8)


# ------------------------------------------------------------------------ without calibration


def test_the_plain_link_is_the_logistic_curve_of_twice_the_score():
    scores = np.array([[-1e3, -2.0, -0.3], [0.0, 0.7, 1e3]])
    expected = 1 / (1 + np.exp(np.clip(-2 * scores, None, 700)))
    np.testing.assert_allclose(plain_probability(scores), expected, atol=1e-15)
    assert plain_probability(scores).dtype == np.float64


def test_the_plain_link_agrees_with_least_squares_to_first_order():
    # E[t|x] = 2p - 1 for t in {-1, +1}, so p = (1 + f) / 2 near 0.
    f = np.array([-1e-3, 1e-3])
    np.testing.assert_allclose(plain_probability(f), (1 + f) / 2, atol=1e-9)


# --------------------------------------------------------------------------------- Calibrator


def isotonic_by_brute_force(x, y):
    """The min-max formula: the largest over starts of the smallest over ends of block means."""
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    levels = np.unique(x)
    first = np.searchsorted(x, levels, "left")
    last = np.searchsorted(x, levels, "right")
    fitted = [
        max(min(y[first[a] : last[b]].mean() for b in range(i, len(levels))) for a in range(i + 1))
        for i in range(len(levels))
    ]
    return levels, np.array(fitted)


@pytest.mark.parametrize("decimals", [8, 0], ids=["distinct", "ties"])
def test_isotonic_probabilities_are_the_min_max_formula_and_linear_between(sample, decimals):
    scores, T = sample
    scores = scores.round(decimals)
    calibrator = Calibrator("isotonic").fit(scores, T)
    between = np.linspace(-5, 5, 200)[:, None].repeat(3, axis=1)
    p = calibrator.predict(between)
    for k in range(3):
        use = T[:, k] != 0
        levels, fitted = isotonic_by_brute_force(scores[use, k], (T[use, k] > 0).astype(float))
        np.testing.assert_allclose(p[:, k], np.interp(between[:, k], levels, fitted), atol=1e-10)


def test_sigmoid_probabilities_minimise_platts_loss(sample):
    scores, T = sample
    p = Calibrator("sigmoid").fit(scores, T).predict(scores)
    for k in range(3):
        use = T[:, k] != 0
        f, positive = scores[use, k], T[use, k] > 0
        n_positive, n_negative = positive.sum(), (~positive).sum()
        target = np.where(positive, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2))

        def loss(ab, f=f, target=target):
            z = ab[0] * f + ab[1]
            return np.sum(np.logaddexp(0, z) - target * z)

        a, b = minimize(loss, [1.0, 0.0], tol=1e-12).x
        np.testing.assert_allclose(p[:, k], 1 / (1 + np.exp(-a * scores[:, k] - b)), atol=1e-3)


def test_a_curve_that_separates_the_classes_stays_finite_and_short_of_certainty():
    scores = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    p = Calibrator("sigmoid").fit(scores, np.array([[-1], [-1], [1], [1]])).predict(scores)
    assert (np.diff(p[:, 0]) > 0).all()
    assert p.min() > 0.01
    assert p.max() < 0.99


@pytest.mark.parametrize("method", METHODS)
def test_missing_entries_do_not_matter(sample, method):
    scores, T = sample
    spoilt = np.where(T == 0, 1e3, scores)
    expected = Calibrator(method).fit(scores, T).predict(scores)
    np.testing.assert_array_equal(Calibrator(method).fit(spoilt, T).predict(scores), expected)


@pytest.mark.parametrize("method", METHODS)
def test_labels_are_calibrated_one_by_one(sample, method):
    scores, T = sample
    together = Calibrator(method).fit(scores, T).predict(scores)
    for k in range(3):
        alone = Calibrator(method).fit(scores[:, [k]], T[:, [k]]).predict(scores[:, [k]])
        np.testing.assert_array_equal(together[:, [k]], alone)
    assert (np.ptp(together, axis=0) > 0.1).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sign", [-1, 1], ids=["no positive", "no negative"])
def test_a_label_with_one_class_gets_its_smoothed_rate(sample, method, sign):
    scores, T = sample
    T[:, 1] = sign
    p = Calibrator(method).fit(scores, T).predict(scores)
    rate = ((sign > 0) * len(T) + 0.5) / (len(T) + 1)
    np.testing.assert_allclose(p[:, 1], rate)
    assert np.ptp(p[:, 0]) > 0


@pytest.mark.parametrize("method", METHODS)
def test_a_label_with_nothing_observed_keeps_the_plain_link(sample, method):
    scores, T = sample
    T[:, 1] = 0
    p = Calibrator(method).fit(scores, T).predict(scores)
    np.testing.assert_array_equal(p[:, 1], plain_probability(scores[:, 1]))
    assert (p[:, 0] != plain_probability(scores[:, 0])).any()


@pytest.mark.parametrize("method", METHODS)
def test_entries_without_a_held_out_score_are_no_evidence(sample, method):
    scores, T = sample
    gone = np.random.default_rng(0).random(scores.shape) < 0.3
    with_nan = Calibrator(method).fit(np.where(gone, np.nan, scores), T).predict(scores)
    for k in range(T.shape[1]):
        keep = ~gone[:, k]
        alone = Calibrator(method).fit(scores[keep][:, [k]], T[keep][:, [k]])
        np.testing.assert_array_equal(with_nan[:, [k]], alone.predict(scores[:, [k]]))


@pytest.mark.parametrize("method", METHODS)
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_probabilities_never_fall_as_the_score_rises(method, data):
    n = data.draw(st.integers(2, 30))
    scores = data.draw(arrays(float, (n, 1), elements=st.floats(-3, 3, width=16)))
    T = data.draw(arrays(np.int8, (n, 1), elements=st.sampled_from([-1, 0, 1])))
    grid = np.linspace(-4, 4, 50)[:, None]
    p = Calibrator(method).fit(scores, T).predict(grid)
    assert ((p >= 0) & (p <= 1)).all()
    assert (np.diff(p[:, 0]) >= -1e-12).all()


def test_scores_in_reverse_do_not_reverse_the_sigmoid(sample):
    scores, T = sample
    p = Calibrator("sigmoid").fit(-scores, T).predict(scores)
    rate = ((T > 0).sum(axis=0) + 0.5) / ((T != 0).sum(axis=0) + 1)
    np.testing.assert_allclose(p, np.tile(rate, (len(T), 1)))


@pytest.mark.parametrize("method", METHODS)
def test_calibration_lowers_the_brier_score_of_its_own_sample(sample, method):
    scores, T = sample
    observed = T != 0

    def brier(p):
        return np.mean((p - (T > 0))[observed] ** 2)

    calibrated = brier(Calibrator(method).fit(scores, T).predict(scores))
    # Measured: 0.116 plain, 0.090 sigmoid, 0.067 isotonic.
    assert calibrated < 0.9 * brier(plain_probability(scores))


@pytest.mark.parametrize("method", METHODS)
def test_a_calibrator_can_be_pickled(sample, method):
    scores, T = sample
    calibrator = Calibrator(method).fit(scores, T)
    back = pickle.loads(pickle.dumps(calibrator))
    np.testing.assert_array_equal(back.predict(scores), calibrator.predict(scores))


# --------------------------------------------------------------------------- best_f1_thresholds


def f1(predicted, positive):
    hits = np.sum(predicted & positive)
    return 2 * hits / max(1, predicted.sum() + positive.sum())


def best_f1_by_brute_force(scores, T):
    """Every set of rows that some border can cut off, one loop for the border."""
    scores, positive = scores[T != 0], T[T != 0] > 0
    return max(f1(scores >= cut, positive) for cut in scores)


def reached(scores, T, threshold):
    return f1(scores[T != 0] > threshold, T[T != 0] > 0)


# Few levels make ties.
levels = st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0])
floats = st.floats(-100, 100, width=16)


@pytest.mark.parametrize("elements", [levels, floats], ids=["ties", "floats"])
@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_the_threshold_reaches_the_best_f1_of_all_cut_points(elements, data):
    shape = data.draw(st.tuples(st.integers(1, 12), st.integers(1, 3)))
    scores = data.draw(arrays(float, shape, elements=elements))
    T = data.draw(arrays(np.int8, shape, elements=st.sampled_from([-1, 0, 1])))
    thresholds = best_f1_thresholds(scores, T, min_positives=1)
    assert thresholds.shape == (shape[1],)
    for k, threshold in enumerate(thresholds):
        if (T[:, k] > 0).any():
            best = best_f1_by_brute_force(scores[:, k], T[:, k])
            assert reached(scores[:, k], T[:, k], threshold) == pytest.approx(best)
        else:
            assert threshold == 0


@pytest.mark.parametrize("value", [1.0, np.nextafter(1.0, 2.0), 0.1, -0.3, 1e17, -1e17])
@pytest.mark.parametrize("n_negative", [0, 2])
def test_the_threshold_cuts_between_neighbouring_floats_and_below_large_ones(value, n_negative):
    scores = np.array([value, value, *[np.nextafter(value, -np.inf)] * n_negative])
    T = np.array([1, 1, *[-1] * n_negative], dtype=np.int8)
    (threshold,) = best_f1_thresholds(scores[:, None], T[:, None], min_positives=1)
    np.testing.assert_array_equal(scores > threshold, T > 0)


def test_the_threshold_lies_halfway_between_the_scores_it_separates():
    scores = np.array([[0.9], [0.5], [0.1], [-0.7]])
    T = np.array([[1], [1], [-1], [-1]])
    np.testing.assert_allclose(best_f1_thresholds(scores, T, min_positives=1), [0.3])


def test_missing_entries_do_not_move_the_threshold():
    scores = np.array([[0.9], [0.5], [0.45], [0.1], [-9.0], [9.0]])
    T = np.array([[1], [1], [0], [-1], [0], [0]])
    np.testing.assert_allclose(best_f1_thresholds(scores, T, min_positives=1), [0.3])


@pytest.mark.parametrize("sign", [-1, 0], ids=["negatives only", "nothing observed"])
def test_a_label_without_observed_positives_keeps_threshold_zero(sign):
    scores = np.array([[0.9, 0.9], [0.5, 0.5], [-0.7, -0.7]])
    T = np.array([[1, sign], [-1, sign], [-1, sign]])
    np.testing.assert_allclose(best_f1_thresholds(scores, T, min_positives=1), [0.7, 0])


def test_all_positives_lie_above_the_threshold():
    scores = np.array([[0.2], [-0.4]])
    assert best_f1_thresholds(scores, np.array([[1], [1]]), min_positives=1)[0] < -0.4


@pytest.mark.parametrize("parameters", [{}, {"kernel": "rbf"}, {"coupling": "joint"}], ids=str)
def test_probabilities_are_probabilities_unless_told_otherwise(parameters):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 8))
    rare = X @ rng.normal(size=(8, 4)) / 2 + rng.normal(size=(5000, 4)) > [3.2, 2.4, 1.0, 0.0]
    Y = np.where(rng.random(rare.shape) < 0.7, rare, np.nan)
    model = DM2LClassifier(**parameters).fit(X[:1500], Y[:1500])
    p = model.predict_proba(X[1500:])
    share = rare[1500:].mean(axis=0)
    assert share.min() < 0.06
    chance = np.sqrt(share * (1 - share) * (1 / (0.7 * 1500) + 1 / 3500))
    assert (np.abs(p.mean(axis=0) - share) < 3 * chance).all()
    # Nothing is known of these rows but their features.
    blank = np.full(rare[1500:].shape, np.nan)
    filled = model.complete(X[1500:], blank, method="predict_proba")
    agreed = (model.predict(X[1500:]) == 1) == (p > 0.5)
    np.testing.assert_allclose(filled, np.where(agreed, p, 0.5))


@pytest.mark.parametrize("rule", ["f1_samples", "subset_accuracy"])
def test_a_common_threshold_is_the_best_of_all_for_its_rule(rule):
    rng = np.random.default_rng(4)
    Y = (rng.random((40, 4)) < 0.4).astype(int)
    scores = rng.normal(size=Y.shape) - 0.5 + 1.5 * Y
    known = np.ones(Y.shape, dtype=bool)

    def value(cut):
        chosen = (scores > cut).astype(int)
        if rule == "subset_accuracy":
            return accuracy_score(Y, chosen)
        return f1_score(Y, chosen, average="samples", zero_division=1.0)

    found = best_thresholds(rule, scores, 2 * Y - 1)
    assert np.ptp(found) == 0
    assert value(found[0]) == pytest.approx(max(map(value, scores.ravel())), abs=1e-12)
    known[:, 1], known[3], scores[5, 1] = False, False, np.nan  # not read
    hidden = np.where(known, 2 * Y - 1, 0)
    other = best_thresholds(rule, np.where(known, scores, -scores), hidden)
    np.testing.assert_array_equal(other, best_thresholds(rule, scores, hidden))


def test_decisions_by_row_are_chosen_on_out_of_fold_scores():
    digits = load_digit_attributes()
    X, Y = digits.data[:700], digits.target[:700].astype(float)
    f1, right = {}, {}
    for rule in (None, "f1_samples", "subset_accuracy"):
        model = DM2LClassifier(threshold=rule, cv=3).fit(X[:200], Y[:200])
        predicted = model.predict(X[200:])
        f1[rule] = f1_score(Y[200:], predicted, average="samples", zero_division=1.0)
        right[rule] = accuracy_score(Y[200:], predicted)
        assert np.ptp(model.thresholds_) == 0
    assert f1["f1_samples"] > f1[None] + 0.005
    assert right["subset_accuracy"] >= right[None]


def test_unknown_rules_of_decisions_are_refused():
    X, ticks = np.eye(4), np.where(np.eye(4) > 0, 1.0, np.nan)
    with pytest.raises(ValueError, match="one of 'f1', 'f1_samples', 'subset_accuracy', got 'f2'"):
        DM2LClassifier(threshold="f2").fit(X, ticks)
    model = DM2LClassifier(threshold="f1_samples", missing_as="unlabelled")
    with pytest.raises(ValueError, match="missing_as='unlabelled' does not support threshold"):
        model.fit(X, ticks)
