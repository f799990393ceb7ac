"""Levels of least-squares fits, which differ between folds and the fit to all rows."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from dm2l import AutoClassifier, DM2LClassifier
from dm2l._auto._base_models import BaseModel, TimeBudget


@pytest.fixture
def rare():
    """Features and a label with five positives, one or two in each of four folds."""
    X = np.random.default_rng(0).normal(size=(120, 5))
    Y = np.zeros((120, 2))
    Y[:, 0], Y[np.argsort(X[:, 1])[-5:], 1] = X[:, 0] > 0, 1
    order = np.argsort(-Y[:, 1], kind="stable")
    folds = [np.sort(order[k::4]) for k in range(4)]
    return X, Y, [(np.setdiff1d(order, test), test) for test in folds]


def context_of(X, Y, folds):
    T = np.where(Y > 0, 1, -1).astype(np.int8)
    budget = TimeBudget(None, None)
    return SimpleNamespace(
        X=X, F=X, numbers=None, wide=False, T=T, entries=None, folds=folds, budget=budget
    )


def test_a_fold_without_a_rare_positive_is_not_ranked_below_others(rare):
    X, Y, folds = rare
    # With a strong penalty, all scores of a fold are near the rate of the other folds.
    plain = BaseModel("linear", "", DM2LClassifier(0.0, alpha=1e5, coupling=None))
    found = {}
    for name, model in (("plain", plain), ("levelled", replace(plain, levelled=True))):
        scores = model.held_out(context_of(X, Y, folds))
        found[name] = roc_auc_score(Y[:, 1], scores[:, 1])
        within = np.mean([scores[test, 1].std() for _, test in folds])
        apart = np.ptp([scores[test, 1].mean() for _, test in folds])
        assert (apart > 5 * within) == (name == "plain")
    assert found["plain"] < 0.7
    assert found["levelled"] > 0.9


def test_the_fit_to_all_rows_has_its_own_level(rare):
    X, Y, folds = rare
    model = BaseModel("linear", "", DM2LClassifier(3.0, coupling=None), levelled=True)
    model.fit(context_of(X, Y, folds))
    np.testing.assert_allclose(model.level, model.model.decision_function(X).mean(axis=0))
    ensemble = AutoClassifier("quick", cv=folds, coupling=None, random_state=0).fit(X, Y)
    assert next(iter(ensemble._inputs)) == "linear"
    level = ensemble.models_["linear"].decision_function(X).mean(axis=0)
    away = np.abs(ensemble.stack_.centre[0] - level) / ensemble.stack_.scale[0]
    assert away.max() < 1
    assert np.abs(ensemble.predict_proba(X).mean(axis=0) - Y.mean(axis=0)).max() < 0.03
