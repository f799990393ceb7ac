"""How settings are judged, and which are looked at."""

import numpy as np
import pytest

from dm2l._auto._tuning import LAMBDAS, Sample, ridge_settings, skill, with_norms
from dm2l._search._search import DM2LClassifierCV
from dm2l.datasets import make_missing_multilabel
from dm2l.metrics import label_skill


def test_labels_of_one_class_alone_judge_all_settings_alike():
    Y, scores = np.zeros((4, 2)), np.arange(8.0).reshape(4, 2)
    assert skill(Y, scores) == 0
    Y[0, 1] = 1
    assert skill(Y, scores) == pytest.approx(label_skill(Y, scores))


@pytest.fixture
def sample():
    X, Y = make_missing_multilabel(n_samples=150, random_state=0)
    T = np.where(np.isnan(Y), 0, np.where(Y == 1, 1, -1)).astype(np.int8)
    return Sample(X, T, np.arange(150) % 5)


@pytest.mark.parametrize(("kernel", "gammas"), [("linear", None), ("rbf", [0.01, 0.1])])
def test_a_larger_ridge_is_tried_with_the_norms(sample, kernel, gammas):
    found = ridge_settings(sample, kernel, gammas)
    assert found.lambda_d == 0
    best = with_norms(sample, found)
    search = DM2LClassifierCV(
        LAMBDAS,
        [found.alpha, 3 * found.alpha],
        None if gammas is None else [found.gamma],
        kernel=kernel,
        scoring=skill,
        cv=sample.splits(),
        refit=False,
        coupling=None,
    ).fit(sample.X, np.where(sample.T == 0, np.nan, sample.T > 0))
    assert best.skill == pytest.approx(search.cv_results_["mean_test_score"].max())
    assert best.skill >= found.skill
    assert (best.alpha, best.gamma) in [(found.alpha, found.gamma), (3 * found.alpha, found.gamma)]
    small = found.alpha / 1000
    assert with_norms(sample, found._replace(alpha=small)).alpha == pytest.approx(3 * small)
