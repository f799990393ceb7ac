"""Probabilities from scores, conditional means and the row's other labels."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from dm2l.completion._correlation import LABEL_PENALTY, PAIRS, Combiner, LabelCorrelation
from dm2l.completion._covariance import DenseCovariance, conditional_moments


def table(n=400, c=3, rate=0.7, seed=0):
    """Labels whose residuals hang together, honest scores, and what conditioning makes of them."""
    rng = np.random.default_rng(seed)
    F = rng.uniform(-0.8, 0.8, (n, c))
    common = rng.normal(size=(n, 1))
    Y = np.where(F + 0.8 * common + 0.6 * rng.normal(size=(n, c)) > 0, 1, -1)
    T = np.where(rng.random((n, c)) < rate, Y, 0).astype(np.int8)
    S = DenseCovariance(0.5 * np.eye(c) + 0.3)
    return Y, T, F, *conditional_moments(S, T, F)


def standardized(T, F, mean, variance, j):
    """Inputs of a label's model at its known entries, and its signs there."""
    rows, s = T[:, j] != 0, np.sqrt(variance[:, j])
    middle = F[rows, j].mean()
    Z = (np.stack([F[:, j] - middle, mean[:, j] - middle, np.ones(len(T))]) / s).T[rows]
    return (Z - Z.mean(axis=0)) / Z.std(axis=0), T[rows, j], T[rows]


def test_it_minimises_the_penalised_loss(monkeypatch):
    monkeypatch.setattr("dm2l.completion._correlation.TOL", 1e-9)
    _, T, F, mean, variance = table()
    model = Combiner().fit(T, F, mean, variance)
    labels = [standardized(T, F, mean, variance, j) for j in range(3)]

    def all_labels(w):
        loss = 1.5 * w[3:] @ w[3:]
        for own, (Z, t, _) in zip(w[:3], labels, strict=True):
            loss += np.logaddexp(0, -t * (own + Z @ w[3:])).sum() + 0.5e-3 * own**2
        return loss

    common = scipy.optimize.minimize(all_labels, np.zeros(6), options={"gtol": 1e-6}).x[3:]
    Z, t, others = labels[1]
    inputs = np.column_stack([np.ones(len(Z)), Z, others[:, [0, 2]]])
    penalty = np.array([1e-3, 10, 10, 10, 30, 30])
    held = np.array([0, *common, 0, 0])

    def one_label(w):
        return np.logaddexp(0, -t * (inputs @ w)).sum() + 0.5 * penalty @ (w - held) ** 2

    best = scipy.optimize.minimize(one_label, held, options={"gtol": 1e-6})
    np.testing.assert_allclose(model.weights_[1, [0, 1, 2, 3, 4, 6]], best.x, atol=1e-4)
    assert model.weights_[1, 5] == 0.0


def test_the_sign_of_a_label_is_no_input_of_its_own_model():
    _, T, F, mean, variance = table()
    model = Combiner().fit(T, F, mean, variance)
    other = T.copy()
    other[:, 1] *= -1
    same = model.predict(other, F, mean, variance)[:, 1]
    np.testing.assert_array_equal(same, model.predict(T, F, mean, variance)[:, 1])


def test_probabilities_of_holes_are_calibrated_and_better_than_those_of_features():
    Y, T, F, mean, variance = table(4000)
    holes = T == 0

    def log_loss(p):
        return -np.mean(np.log(np.where(Y > 0, p, 1 - p)[holes]))

    coupled = Combiner().fit(T, F, mean, variance).predict(T, F, mean, variance)
    flat = np.ones(F.shape)
    plain = Combiner(labels=False).fit(T, F, F, flat).predict(T, F, F, flat)
    assert log_loss(coupled) < 0.97 * log_loss(plain)
    for low in np.arange(0.1, 0.9, 0.2):
        inside = holes & (coupled >= low) & (coupled < low + 0.2)
        np.testing.assert_allclose((Y[inside] > 0).mean(), coupled[inside].mean(), atol=0.06)


@pytest.mark.parametrize("c", [1, 2, 70])
def test_any_number_of_labels_and_sides_never_seen(c):
    rng = np.random.default_rng(c)
    T = rng.choice([-1, 0, 1], (50, c)).astype(np.int8)
    T[:, 0] = np.minimum(T[:, 0], 0)  # one side only
    T[:, -1] = 0 if c > 1 else T[:, -1]
    F = rng.normal(size=(50, c))
    v = np.ones(F.shape)
    p = Combiner().fit(T, F, F, v).predict(T, F, F, v)
    assert ((p > 0) & (p < 1)).all()
    assert (p[:, 0] < 0.5).all()


def test_the_order_of_labels_does_not_matter():
    _, T, F, mean, variance = table()
    order = [2, 0, 1]
    p = Combiner().fit(T, F, mean, variance).predict(T, F, mean, variance)
    moved = [a[:, order] for a in (T, F, mean, variance)]
    np.testing.assert_allclose(Combiner().fit(*moved).predict(*moved), p[:, order], atol=1e-6)


def test_rare_labels_that_scores_nearly_separate_stay_finite_and_in_order():
    rng = np.random.default_rng(3)
    T = np.full((3000, 4), -1, dtype=np.int8)
    T[:3] = 1
    F = np.where(T > 0, 2.0, -0.95) + 0.05 * rng.normal(size=T.shape)
    v = 0.01 * np.exp(rng.normal(size=T.shape))
    model = Combiner().fit(T, F, F, v)
    assert np.abs(model.weights_).max() < 50
    p = model.predict(T, F, F, v)
    assert p[:3].min() > p[3:].max()


def test_a_variance_beyond_those_of_the_fit_does_not_change_the_answer():
    """Of a label without errors, the variance hardly differs between rows, but between folds."""
    Y, T, F, mean, variance = table()
    T[:, 0] = np.where(T[:, 0] == 0, 0, Y[:, 0])
    F[:, 0] = mean[:, 0] = 0.99 * Y[:, 0]
    rng = np.random.default_rng(1)
    variance[:, 1] = np.where(Y[:, 1] > 0, 0.4, 0.8)  # so that 1 / s matters for all labels
    variance[:, 0] = 1e-3 * (1 + 1e-3 * rng.random(len(Y)))
    model = Combiner().fit(T, F, mean, variance)
    assert abs(model.weights_[0, 3]) > 0.1
    variance[:, 0] *= 0.7  # those of a covariance that was fitted to more rows
    eta = model.margins(T, F, mean, variance)[:, 0]
    assert ((eta > 0) == (Y[:, 0] > 0)).all()


def test_the_signs_of_a_fold_have_no_part_in_its_own_probabilities():
    _, T, F, mean, variance = table(120)
    folds = np.arange(120) % 3
    p = Combiner(labels=False).cross_fit(T, F, mean, variance, folds=folds)[0]
    other = np.where((folds == 1)[:, None], -T, T)
    changed = Combiner(labels=False).cross_fit(other, F, mean, variance, folds=folds)[0]
    np.testing.assert_array_equal(changed[folds == 1], p[folds == 1])
    assert np.abs(changed - p)[folds != 1].max() > 0.1


def test_with_many_labels_signs_are_weighted_as_by_scikit_learn(monkeypatch):
    """With 90 labels, whose scores tell nothing, each has the ridge of a logistic regression."""
    monkeypatch.setattr("dm2l.completion._correlation.TOL", 1e-9)
    rng = np.random.default_rng(5)
    T = np.sign(rng.normal(size=(200, 90)) + rng.normal(size=(200, 1))).astype(np.int8)
    T[rng.random(T.shape) < 0.4] = 0
    flat = np.zeros(T.shape)
    model = Combiner().fit(T, flat, flat, flat + 1)
    known, others = T[:, 7] != 0, np.arange(90) != 7
    ridge = LogisticRegression(C=PAIRS / LABEL_PENALTY / 90, tol=1e-8, max_iter=1000)
    ridge.fit(T[known][:, others], T[known, 7])
    np.testing.assert_allclose(model.weights_[7, 4:][others], ridge.coef_[0], atol=2e-4)
    assert model.weights_[7, 11] == 0.0


def calibrated_labels(n=600, c=4, together=0.0):
    """Signs, half of them missing, and scores 2 p - 1 with their probabilities."""
    rng = np.random.default_rng(1)
    p = expit(2 * rng.normal(size=(n, c)))
    common = rng.random((n, 1)) < together
    Y = np.where(np.where(common, rng.random((n, 1)), rng.random((n, c))) < p, 1, -1)
    T = np.where(rng.random((n, c)) < 0.5, Y, 0).astype(np.int8)
    return Y, T, p


def loss(Y, p):
    return -np.log(np.where(Y > 0, p, 1 - p)).mean()


def test_labels_of_a_row_are_used_only_if_they_lower_the_loss_of_known_entries():
    Y, T, p = calibrated_labels()
    T, p = T[:60], p[:60]  # of independent labels, of which 60 rows look dependent
    alone = LabelCorrelation.fit(T, 2 * p - 1, calibrated=True)
    np.testing.assert_array_equal(alone.combiner.final_, [0, 0, 1, 0])
    np.testing.assert_allclose(alone.predict(T, 2 * p - 1)[1], p, atol=1e-6)
    Y, T, p = calibrated_labels(together=0.7)
    found = LabelCorrelation.fit(T, 2 * p - 1, calibrated=True).predict(T, 2 * p - 1)[1]
    assert loss(Y[T == 0], found[T == 0]) < loss(Y[T == 0], p[T == 0]) - 0.02


def test_probabilities_that_are_too_sure_are_calibrated_on_held_out_entries():
    Y, T, p = calibrated_labels(1500)
    sure = expit(2 * np.log(p / (1 - p)))  # twice the log-odds
    found = LabelCorrelation.fit(T, 2 * sure - 1, calibrated=True).predict(T, 2 * sure - 1)[1]
    missing = T == 0
    top, before = missing & (found >= 0.9), missing & (sure >= 0.9)
    assert found[top].mean() - (Y[top] > 0).mean() < 0.03
    assert sure[before].mean() - (Y[before] > 0).mean() > 0.06


def test_a_label_without_scored_examples_of_a_class_uses_the_features_alone():
    _, T, p = calibrated_labels()
    F = np.where((np.arange(4) == 2) & (T > 0), np.nan, 2 * p - 1)
    found = LabelCorrelation.fit(T, F, calibrated=True).predict(T, 2 * p - 1)[1]
    np.testing.assert_allclose(found[:, 2], p[:, 2], atol=1e-6)
    assert np.abs(found - p)[:, 0].max() > 1e-3


@pytest.mark.parametrize("known", [0.0, 0.6, 1.3])
def test_what_scores_of_training_rows_know_of_other_labels_is_not_added_again(known):
    """Scores of a model whose training rows leak: they hold a share of what labels add."""
    Y, T, p = calibrated_labels(2000, together=0.7)
    F, missing = 2 * p - 1, T == 0
    held_out = LabelCorrelation.fit(T, F, calibrated=True)
    assert held_out.added == 1
    gain = logit(held_out.predict(T, F)[1]) - logit(p)
    noise = np.random.default_rng(2).normal(size=T.shape)
    own = np.tanh(0.5 * (logit(p) + known * gain + 0.3 * noise))
    found = LabelCorrelation.fit(T, F, calibrated=True, overfit=(T, F, own))
    assert found.added == pytest.approx(max(1 - known, 0), abs=0.05)
    trained = np.arange(len(T)) < 1000
    plain, filled = found.predict(T, own)[1], found.impute(T, own, trained)[1]
    np.testing.assert_array_equal(filled[~trained], plain[~trained])
    here = missing & trained[:, None]
    assert loss(Y[here], filled[here]) < loss(Y[here], expit(logit(p) + 0.3 * noise)[here])
    if known:  # counted twice, labels make probabilities too sure
        assert loss(Y[here], filled[here]) < loss(Y[here], plain[here]) - 0.005
