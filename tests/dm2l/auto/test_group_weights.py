"""How much rows of large and small groups count in the stack."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from dm2l import AutoClassifier
from dm2l._auto import _classifier, _leaderboard
from dm2l._auto._leaderboard import cross_fitted, log_loss
from dm2l._auto._stack import WITHIN, Stack, row_weights
from dm2l.datasets import duplicate_groups, make_missing_multilabel
from dm2l.model_selection import MultilabelKFold


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_a_group_counts_for_as_many_rows_as_its_design_effect_leaves(groups, random):
    weight = row_weights(groups)
    assert weight.mean() == pytest.approx(1)
    # A row of a group of n: its part of n / (1 + (n - 1) rho), in units that all rows share.
    size = np.array([groups.count(g) for g in groups])
    unit = weight * (1 + WITHIN * (size - 1))
    assert unit == pytest.approx(np.full(len(groups), unit[0]))
    order = list(range(len(groups)))
    random.shuffle(order)
    named = row_weights([f"group {9 - groups[i]}" for i in order])
    assert named == pytest.approx(weight[order])


def test_a_giant_group_counts_for_ten_rows_and_groups_of_one_size_for_all_of_theirs():
    weight = row_weights(np.repeat(np.arange(101), [10_000] + [1] * 100))
    assert weight[:10_000].sum() == pytest.approx(10 * weight[-1], rel=1e-2)
    assert (row_weights(np.repeat(np.arange(7), 3)) == 1.0).all()


@pytest.fixture
def family():
    """A good model that is off by a shift where a family was held out, a poor one; and groups."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(3000, 2))
    T = np.where(rng.random(truth.shape) < expit(2 * truth), 1, -1)
    good, poor = truth + [[[0.3]], [[1.5]]] * rng.normal(size=(2, *truth.shape))
    good[:1500] += 4.0
    return np.stack([good, poor]), T, np.where(np.arange(3000) < 1500, 0, np.arange(3000))


def test_a_family_that_shifts_scores_does_not_decide_the_weights(family):
    scores, T, groups = family
    shares, weights = np.zeros(2, dtype=bool), np.tile(row_weights(groups)[:, None], 2)
    plain = Stack.fit(scores, T, shares)
    fair = Stack.fit(scores, T, shares, weights)
    alone = Stack.fit(scores[:, 1500:], T[1500:], shares)
    assert plain.common.argmax() == 1
    share = alone.common / alone.common.sum()
    assert fair.common / fair.common.sum() == pytest.approx(share, abs=0.1)


def test_a_family_that_shifts_scores_does_not_end_a_race(family):
    (good, poor), T, groups = family
    parts = [SimpleNamespace(shares=False)] * 2
    weights = np.tile(row_weights(groups)[:, None], 2)
    # The last fold has no scores yet; the family's shift would make the good model look idle.
    good[:1500] += 20.0
    good[2500:] = np.nan
    fold = np.zeros(len(T), dtype=np.intp)  # ranks suffer from the shift too
    plain, fair = (SimpleNamespace(T=T, weights=each, fold=fold) for each in (None, weights))
    assert not _leaderboard._helps(plain, parts, [poor], good)
    assert _leaderboard._helps(fair, parts, [poor], good)


@pytest.fixture
def tried(monkeypatch):
    """Held-out scores of the last fit, and the kinds of its base models."""
    seen = {}

    def try_all(context):
        models, seen["scores"], board = _leaderboard.try_all(context)
        seen["shares"] = np.array([model.shares for model in models])
        return models, seen["scores"], board

    monkeypatch.setattr(_classifier, "try_all", try_all)
    return seen


@pytest.fixture(scope="module")
def data():
    """With rows of which nothing is known, and copies of rows."""
    X, Y = make_missing_multilabel(n_samples=150, random_state=0)
    X[100:] = X[99]
    Y[::7] = np.nan
    return X, Y[:, 4:7]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("given", ["values", "duplicates"])
def test_groups_of_the_folds_weigh_the_stack(tried, data, given, weighted):
    X, Y = data
    groups = duplicate_groups(X)
    values = np.char.add("g", groups.astype(str)) if given == "values" else given
    cv = MultilabelKFold(3, groups=values, random_state=0)
    own = np.random.default_rng(1).uniform(0.5, 2, Y.shape) if weighted else None
    model = AutoClassifier("quick", cv=cv, random_state=0).fit(X, Y, label_weight=own)
    kept = ~np.isnan(Y).all(axis=1)
    T = np.nan_to_num(2 * Y[kept] - 1).astype(int)
    weights = row_weights(groups[kept])[:, None] * (np.ones(Y.shape) if own is None else own)[kept]
    expected = Stack.fit(tried["scores"], T, tried["shares"], weights)
    assert len(expected.common) == len(model.stack_.common) == 2
    np.testing.assert_allclose(model.stack_.weights, expected.weights, rtol=1e-6)
    np.testing.assert_allclose(model.stack_.intercept, expected.intercept, rtol=1e-6, atol=1e-9)
    # The table compares stacks that are weighed alike.
    fold = model.held_out_folds_[kept]
    for j in (0, 1):
        one = cross_fitted(tried["scores"][[j]], T, tried["shares"][[j]], fold, weights)
        assert model.leaderboard_["log_loss"][j] == pytest.approx(log_loss(one, T).mean)
        loss = model.leaderboard_["log_loss_gain"][1 - j] + model.leaderboard_["log_loss"][2]
        assert loss == pytest.approx(log_loss(one, T).mean)
    unweighed = Stack.fit(tried["scores"], T, tried["shares"], None if own is None else own[kept])
    assert np.abs(model.stack_.weights - unweighed.weights).max() > 1e-3


def test_groups_of_one_size_change_nothing_but_the_folds(data):
    X, Y = data[0][:100], np.nan_to_num(data[1][:100])
    cv = MultilabelKFold(4, groups=np.arange(100) // 5, random_state=0)
    grouped = AutoClassifier("quick", cv=cv, random_state=0).fit(X, Y)
    folds = list(cv.split(X, Y))
    plain = AutoClassifier("quick", cv=folds, random_state=0).fit(X, Y)
    assert (grouped.held_out_folds_ == plain.held_out_folds_).all()
    assert (grouped.predict_proba(X) == plain.predict_proba(X)).all()
