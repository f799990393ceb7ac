"""The search in two stages, against its stages by hand."""

import numpy as np
import pytest

from dm2l import DM2LClassifierCV
from dm2l.datasets import make_missing_multilabel
from dm2l.model_selection import MultilabelKFold
from experiments.staged import StagedSearch, _FirstFolds


@pytest.fixture
def data():
    X, Y = make_missing_multilabel(140, 6, 5, rho=0.5, random_state=1)
    seen = np.flatnonzero(~np.isnan(Y).all(axis=1))[:120]  # others would not be in any fold
    return X[seen], Y[seen]


def search(**others):
    return DM2LClassifierCV((0.0, 0.3, 3.0), alphas=(0.1, 1.0, 10.0, 100.0), cv=3, **others)


@pytest.mark.parametrize("kernel", [{}, {"kernel": "rbf", "gammas": (0.05, 0.5)}])
def test_the_second_stage_searches_around_what_the_first_chose(data, kernel):
    X, Y = data
    model = StagedSearch(search(**kernel)).fit(X, Y)
    first = search(**kernel).set_params(lambda_ds=(0.0,)).fit(X, Y)
    assert model.first_stage_ == first.best_params_
    place = (0.1, 1.0, 10.0, 100.0).index(first.alpha_)
    near = (0.1, 1.0, 10.0, 100.0)[max(0, place - 1) : place + 2]
    narrow = {"alphas": near} | ({"gammas": (first.gamma_,)} if kernel else {})
    second = search(**kernel).set_params(**narrow).fit(X, Y)
    assert kernel or place > 0  # of the linear model there are neighbours on either side
    assert tuple(model.search_.alphas) == near
    assert model.best_params_ == second.best_params_
    np.testing.assert_array_equal(model.decision_function(X), second.decision_function(X))
    np.testing.assert_array_equal(model.predict(X), second.predict(X))


@pytest.mark.parametrize(("enough", "folds"), [(1, 1), (40, 1), (41, 2), (100, 3), (10**6, 3)])
def test_folds_are_scored_until_there_are_enough_rows(data, enough, folds):
    X, Y = data
    found = list(_FirstFolds(3, enough).split(X, Y))
    whole = list(MultilabelKFold(3, random_state=0).split(X, Y))
    assert len(found) == folds
    for (train, test), (all_train, all_test) in zip(found, whole, strict=False):
        np.testing.assert_array_equal(train, all_train)
        np.testing.assert_array_equal(test, all_test)


def test_an_enough_of_one_fold_makes_the_first_stage_look_at_one_fold(data):
    X, Y = data
    fold = next(MultilabelKFold(3, random_state=0).split(X, Y))
    model = StagedSearch(search(), enough=1).fit(X, Y)
    by_hand = search().set_params(lambda_ds=(0.0,), cv=[fold], refit=False).fit(X, Y)
    assert model.first_stage_ == by_hand.best_params_


class Masked(DM2LClassifierCV):
    """A search that is given all labels, and a mask of those it may see."""

    mask = None

    def fit(self, X, Y):
        return super().fit(X, Y, label_mask=self.mask)


def test_hidden_labels_do_not_matter(monkeypatch):
    X, Y, truth = make_missing_multilabel(100, 6, 5, rho=0.5, random_state=2, return_truth=True)
    holes = np.isnan(Y)
    flipped = np.where(holes, 1 - truth, truth)
    monkeypatch.setattr(Masked, "mask", ~holes)
    masked = Masked((0.0, 0.3, 3.0), alphas=(0.1, 1.0, 10.0, 100.0), cv=3)
    models = [StagedSearch(masked).fit(X, labels) for labels in (truth, flipped)]
    np.testing.assert_array_equal(*(model.decision_function(X) for model in models))
