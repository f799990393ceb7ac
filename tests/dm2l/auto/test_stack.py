"""Weights and curves of a stack, against scikit-learn's logistic regression and by laws."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from dm2l._auto import _leaderboard, _stack
from dm2l._auto._stack import Stack


@pytest.fixture
def held_out():
    """Two models that see half of the truth each, one that sees nothing; 20 % holes."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 2000, 3))
    T = np.where(rng.random((2000, 3)) < expit(2 * a + 2 * b - 1), 1, -1)
    scores = np.stack([0.3 * a - 0.7, 2 * expit(3 * b) - 1, rng.normal(size=a.shape)])
    return scores, np.where(rng.random(T.shape) < 0.2, 0, T)


SHARES = np.array([False, True, False])


def log_loss(eta, T):
    return np.logaddexp(0.0, -T * eta)[T != 0].mean()


def test_one_label_without_holding_is_a_logistic_regression(held_out, monkeypatch):
    scores, T = held_out
    scores, T = scores[:2, :, :1], T[:, :1]
    for name in ("HELD_SLOPE", "HELD_WEIGHT", "HELD_COMMON"):
        monkeypatch.setattr(_stack, name, 0.0)
    eta = Stack.fit(scores, T, SHARES[:2]).log_odds(scores)[:, 0]
    Z = np.column_stack([scores[0, :, 0], _stack._linked(scores, SHARES[:2])[1, :, 0]])
    known = T[:, 0] != 0
    free = LogisticRegression(C=np.inf).fit(Z[known], T[known, 0])
    # The intercept stays lightly held, to that of the label's rate.
    best = free.decision_function(Z)
    assert np.abs(eta - best).mean() < 0.05
    assert log_loss(eta[:, None], T) == pytest.approx(log_loss(best[:, None], T), abs=1e-4)


def test_a_model_that_knows_nothing_has_no_effect(held_out):
    scores, T = held_out
    stack = Stack.fit(scores, T, SHARES)
    share = stack.effects / stack.effects.sum()
    assert share[2] < 0.02
    assert share[:2].min() > 0.3
    assert (stack.weights >= 0).all()


def test_weights_are_nearly_equal_where_positives_are_few(held_out):
    scores, T = held_out
    few, many = (Stack.fit(scores[:, :n], T[:n], SHARES).common for n in (30, len(T)))
    assert np.ptp(few / few.sum()) < np.ptp(many / many.sum()) / 2


def test_a_stack_is_better_than_its_parts_and_calibrated(held_out):
    scores, T = held_out
    eta = Stack.fit(scores, T, SHARES).log_odds(scores)
    for j in range(3):
        alone = Stack.fit(scores[[j]], T, SHARES[[j]]).log_odds(scores[[j]])
        assert log_loss(eta, T) < log_loss(alone, T) - 0.02
    p = expit(eta)
    for low in (0.0, 0.25, 0.5, 0.75):
        inside = (T != 0) & (p >= low) & (p < low + 0.25)
        assert p[inside].mean() == pytest.approx((T[inside] > 0).mean(), abs=0.04)


def test_holes_have_no_say(held_out):
    scores, T = held_out
    other = scores.copy()
    other[:, T == 0] = 9.0
    first, second = Stack.fit(scores, T, SHARES), Stack.fit(other, T, SHARES)
    assert (first.weights == second.weights).all()
    assert (first.intercept == second.intercept).all()


def test_a_rare_label_borrows_the_weights_of_the_others(held_out):
    scores, T = held_out
    rare = T.copy()
    rare[40:, 2] = 0
    stack = Stack.fit(scores, rare, SHARES)
    own = np.abs(stack.weights[:2] - stack.common[:2, None]).max(axis=0)
    assert own[2] < 0.1


def test_a_label_that_held_out_scores_tell_wrongly_keeps_the_order_of_rows(held_out):
    scores, T = held_out
    odd = scores[:1].copy()
    odd[:, :, 2] *= -1
    stack = Stack.fit(odd, T, SHARES[:1])
    eta = stack.log_odds(odd)[:, 2]
    assert (np.argsort(eta) == np.argsort(odd[0, :, 2])).all()
    assert np.ptp(eta) < 0.2  # and says next to nothing


def test_without_rows_to_hold_out_a_least_squares_score_is_a_probability():
    scores = np.array([[[-1.0, 0.0, 0.5]]])
    p = expit(Stack.plain(3).log_odds(scores))
    assert np.allclose(p, (1 + np.tanh(scores[0])) / 2)


def test_extreme_scores_of_labels_with_few_positives_are_not_trusted():
    """Scores with heavy tails, as of rows with many words."""
    rng = np.random.default_rng(0)
    scores, rates = rng.standard_t(2, size=(1, 3000, 40)), np.append(np.full(39, 0.01), 0.4)
    eta = np.log(rates / (1 - rates)) + 1.2 * np.clip(scores[0], -3, 3)
    T = np.where(rng.random(eta.shape) < expit(eta), 1, -1)
    stack, new, truth = Stack.fit(scores[:, :150], T[:150], SHARES[:1]), scores[:, 150:], T[150:]
    plain, found = replace(stack, variance=0.0).log_odds(new), stack.log_odds(new)
    assert log_loss(found, truth) < log_loss(plain, truth) - 0.01
    sure = expit(plain)[:, :-1] > 0.9
    assert expit(plain)[:, :-1][sure].mean() - (truth[:, :-1][sure] > 0).mean() > 0.5
    assert (expit(found)[:, :-1] > 0.9).sum() < sure.sum() / 4
    for label, order in enumerate(np.argsort(new[0], axis=0).T):  # AUC stays the same
        assert (np.diff(found[order, label]) > -1e-9).all()


@pytest.mark.parametrize("good", [0, 2, None])
def test_weights_are_shrunk_to_the_best_model_if_equal_weights_are_worse(good):
    rng = np.random.default_rng(1)
    T = np.where(rng.random((900, 4)) < 0.3, 1, -1)
    scores = 0.7 * T + rng.normal(size=(3, 900, 4))
    if good is not None:  # the others have its information and large errors
        best = 2.0 * T + rng.normal(size=T.shape)
        scores = best + 2.0 * rng.normal(size=scores.shape) ** 3
        scores[good] = best
    few, rest, shares = slice(0, 100), slice(100, None), np.zeros(3, dtype=bool)
    fold = np.arange(100) % 5
    context = SimpleNamespace(T=T[few], fold=fold, weights=None)
    board = {name: [np.nan] * 4 for name in _leaderboard.COLUMNS}
    eta, prior = _leaderboard.weigh(board, context, scores[:, few], shares)
    np.testing.assert_array_equal(board["log_loss"][3], _leaderboard.log_loss(eta, T[few]).mean)
    loss = []
    for start in (None, prior):
        stack = Stack.fit(scores[:, few], T[few], shares, prior=start)
        loss.append(log_loss(stack.log_odds(scores[:, rest]), T[rest]))
    if good is None:  # all models are needed
        assert prior is None
        assert loss[0] < min(board["log_loss"][:3])
    else:
        np.testing.assert_array_equal(prior, np.eye(3)[good])
        assert loss[1] < loss[0] - 0.005


def test_the_only_positive_of_a_label_counts_for_its_level():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(1, 200, 2))
    T = np.where(rng.random((200, 2)) < expit(scores[0]), 1, -1)
    T[:, 1] = -1
    T[0, 1] = 1
    scores[:, :40, 1] = np.nan  # a fold without the positive cannot learn the label
    scores[:, 160:] = np.nan  # in no fold
    stack = Stack.fit(scores, T, np.zeros(1, dtype=bool))
    p = expit(stack.log_odds(scores[:, 40:160]))[:, 1]
    assert p.mean() == pytest.approx(1.5 / 161, rel=0.3)
