"""Weights and curves of a stack, against scikit-learn's logistic regression and by laws."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from dm2l._auto import _stack
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
