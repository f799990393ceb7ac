"""Estimates of quality, against scikit-learn and by repetition."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import betabinom
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score

from dm2l import AutoClassifier, ConstantLabelWarning
from dm2l._auto import _leaderboard as quality


def draw(rng, n=150, shift=1.0):
    T = np.where(rng.random((n, 3)) < 0.3, 1, -1)
    eta = rng.normal(size=(n, 3)) + shift * T + rng.normal(size=(n, 1))
    return eta, np.where(rng.random(T.shape) < 0.25, 0, T)


def test_auc_of_labels_is_that_of_scikit_learn():
    eta, T = draw(np.random.default_rng(0))
    eta = eta.round(1)  # with ties
    mean, value, _ = quality.label_auc(eta, T)
    for k in range(3):
        known = T[:, k] != 0
        assert value[k] == pytest.approx(roc_auc_score(T[known, k], eta[known, k]))
    assert mean.mean == pytest.approx(value.mean())


def test_intervals_by_rows_cover_the_truth():
    rng = np.random.default_rng(0)
    truth = quality.label_auc(*draw(rng, n=100_000))[0].mean
    loss = quality.log_loss(*draw(rng, n=100_000)).mean
    covered = []
    for _ in range(300):
        eta, T = draw(rng)
        found = quality.label_auc(eta, T)[0], quality.log_loss(eta, T)
        covered.append([f.low <= t <= f.high for f, t in zip(found, (truth, loss), strict=True)])
    assert (np.mean(covered, axis=0) > 0.9).all()
    assert (np.mean(covered, axis=0) < 0.99).all()


def test_estimates_cover_new_rows_as_many_as_a_fold_has():
    """Of a linear model that is fitted in folds and to all rows, as the estimator does it."""
    W = np.random.default_rng(9).normal(size=(10, 3)) / 3
    covered, in_mean = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(240, 10))
        T = np.where(rng.random((240, 3)) < expit(X @ W - 1), 1, -1)
        fold, eta = np.arange(200) % 5, np.zeros((200, 3))
        for number in range(5):
            rest = np.flatnonzero(fold != number)
            eta[fold == number] = Ridge(10.0).fit(X[rest], T[rest]).predict(X[:200][fold == number])
        whole = Ridge(10.0).fit(X[:200], T[:200]).predict(X[200:])
        found = quality.label_auc(eta, T[:200], fold)[0]
        low, high = quality.on_new_rows(found, 5, 1.0)[1:]
        value = quality.label_auc(whole, T[200:])[0].mean
        covered.append(low <= value <= high)
        in_mean.append(found.low <= value <= found.high)
    assert 0.9 <= np.mean(covered) <= 0.99  # 0.96 without the part of rows that folds share
    assert np.mean(in_mean) < 0.7


def test_rows_are_paired_with_those_of_their_fold():
    eta, T = draw(np.random.default_rng(0), n=600)
    fold = np.arange(600) % 2
    apart = quality.label_auc(eta + 5.0 * fold[:, None], T, fold)
    same = quality.label_auc(eta, T, fold)
    assert (apart[1] == same[1]).all()
    assert same[0].mean == pytest.approx(quality.label_auc(eta, T)[0].mean, abs=0.01)
    assert quality.label_auc(eta + 5.0 * fold[:, None], T)[0].mean < same[0].mean - 0.05


def test_labels_of_one_class_have_no_auc():
    eta, T = draw(np.random.default_rng(0))
    T[:, 1] = np.abs(T[:, 1])
    table = quality.label_table(eta, T, ["a", "b", "c"])
    assert np.isnan(table["auc"][1])
    assert table["negatives"][1] == 0
    assert np.isfinite(table["auc"][[0, 2]]).all()


def test_weights_of_a_fold_do_not_see_its_labels():
    rng = np.random.default_rng(0)
    eta, T = draw(rng)
    fold = np.arange(len(T)) % 3
    scores, shares = np.stack([eta, rng.normal(size=eta.shape)]), np.zeros(2, dtype=bool)
    first = quality.cross_fitted(scores, T, shares, fold)
    T[fold == 0] *= -1
    second = quality.cross_fitted(scores, T, shares, fold)
    assert (first[fold == 0] == second[fold == 0]).all()
    assert (first[fold == 1] != second[fold == 1]).any()


def test_labels_of_rare_positives_count_with_their_rates():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 3)), np.zeros((60, 4))
    Y[:, 0], Y[7, 1] = X[:, 0] > 0, 1  # one positive, and two labels without any
    Y[30:, 3] = np.nan
    with pytest.warns(ConstantLabelWarning, match="2 label"):
        model = AutoClassifier("quick", cv=4, random_state=0).fit(X, Y)
    scores, p = model.decision_function(X[:5]), model.predict_proba(X[:5])
    np.testing.assert_allclose(p[:, 2:], np.tile([0.5 / 61, 0.5 / 31], (5, 1)))
    np.testing.assert_allclose(scores, 2 * p - 1, atol=1e-12)
    np.testing.assert_allclose(model.complete(X[:5], Y[:5] * np.nan, method="predict_proba"), p)
    fold = model.held_out_folds_ == model.held_out_folds_[7]
    # Without its positive, the label has the rate of the other folds, and an AUC of one half.
    expected = 0.5 / ((~fold).sum() + 1)
    np.testing.assert_allclose(model.held_out_[fold][:, [1, 2]], expected)
    assert np.isnan(model.label_quality_["auc"][1])
    both = np.mean([roc_auc_score(Y[r, 0], model.held_out_[r, 0]) for r in folds(model)])
    # 15 new rows show a positive of labels without any in 60 or 30 rows by these probabilities.
    shown = [1 - betabinom.pmf(0, 15, 1, n + 1) for n in (60, 30)]
    assert shown == pytest.approx([15 / 76, 15 / 46])
    first = Y[:, 0].sum()
    learnt = [1 - sum(betabinom.pmf(0, 15, k + 1, 61 - k) for k in (n, 60 - n)) for n in (first, 1)]
    expected = np.average([both, both, 0.5, 0.5], weights=[*learnt, *shown])
    assert model.estimate_["label_auc"].mean == pytest.approx(expected, abs=0.02)


def test_intervals_cover_new_rows_if_most_labels_are_rare():
    """Labels with few positives, which a fold may lack, of a model that folds fit to 67 rows."""
    W, covered = np.random.default_rng(9).normal(size=(10, 30)) / 2, []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X, fold = rng.normal(size=(133, 10)), np.arange(100) % 3
        T = np.where(rng.random((133, 30)) < expit(X @ W - 4.5), 1, -1)
        eta, new = quality.rate_log_odds(T[:100], fold), np.zeros((33, 30))
        for rows, here in [*((fold != k, fold == k) for k in range(3)), (fold >= 0, None)]:
            learnt = (T[:100][rows] > 0).any(axis=0)
            model = Ridge(10.0).fit(X[:100][rows], T[:100][rows][:, learnt])
            if here is None:
                new[:, learnt] = model.predict(X[100:])
            else:
                eta[np.ix_(here, learnt)] = model.predict(X[:100][here])
        value = quality.label_auc(new, T[100:])[0].mean
        found = quality.expected_auc(eta, T[:100], fold)
        low, high = quality.on_new_rows(found, 3, 1.0)[1:]
        covered.append(low <= value <= high)
    # 0.66 if folds counted whose models have no positive of a label to learn from.
    assert 0.9 <= np.mean(covered) < 1


def folds(model):
    return [model.held_out_folds_ == k for k in range(model.held_out_folds_.max() + 1)]
