"""How settings are judged, and which are looked at."""

import numpy as np
import pytest

from dm2l._auto._base_models import LAMBDAS, choose, skill
from dm2l._search._search import DM2LClassifierCV
from dm2l.datasets import make_missing_multilabel
from dm2l.labels import LabelMatrix
from dm2l.metrics._ranking import label_discrimination


def test_labels_of_one_class_alone_judge_all_settings_alike():
    Y, scores = np.zeros((4, 2)), np.arange(8.0).reshape(4, 2)
    assert skill(Y, scores) == 0
    Y[0, 1] = 1
    assert skill(Y, scores) == pytest.approx(label_discrimination(Y, scores))


@pytest.fixture
def sample():
    X, Y = make_missing_multilabel(n_samples=150, random_state=0)
    T = np.where(np.isnan(Y), 0, np.where(Y == 1, 1, -1)).astype(np.int8)
    fold = np.arange(150) % 3
    cv = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(3)]
    return X, LabelMatrix.of_signs(T), cv


@pytest.mark.parametrize(("kernel", "gammas"), [("linear", None), ("rbf", [0.01, 0.1])])
def test_a_larger_ridge_is_tried_with_the_norms(sample, kernel, gammas):
    X, labels, cv = sample
    found = choose(sample, kernel, gammas)
    assert found.lambda_d_ == 0
    best = choose(sample, kernel, ridge=found)
    search = DM2LClassifierCV(
        LAMBDAS,
        [found.alpha_, 3 * found.alpha_],
        None if gammas is None else [found.gamma_],
        kernel=kernel,
        scoring=skill,
        cv=cv,
        refit=False,
        coupling=None,
    ).fit(X, np.asarray(labels))
    assert best.best_score_ == pytest.approx(search.cv_results_["mean_test_score"].max())
    assert best.best_score_ >= found.best_score_
    alphas = (found.alpha_, 3 * found.alpha_)
    assert (best.alpha_, best.gamma_) in [(alpha, found.gamma_) for alpha in alphas]
    found.alpha_ /= 1000
    assert choose(sample, kernel, ridge=found).alpha_ == pytest.approx(3 * found.alpha_)
