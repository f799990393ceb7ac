"""How settings are judged, against scipy and scikit-learn, and which are looked at."""

import numpy as np
import pytest
from scipy.stats import pearsonr
from sklearn.metrics import roc_auc_score

from dm2l.auto import _tuning
from dm2l.auto._tuning import LAMBDAS, Sample, ridge_settings, skill, with_norms
from dm2l.datasets import make_missing_multilabel
from dm2l.search import DM2LClassifierCV


def test_skill_is_half_correlation_and_half_auc_by_what_labels_can_say():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(300, 3)).round(1)  # with ties
    Y = (scores + rng.normal(size=scores.shape) > [0.0, 1.0, 2.5]).astype(float)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    told, say = [], []
    for y, s in zip(Y.T, scores.T, strict=True):
        y, s = y[~np.isnan(y)], s[~np.isnan(y)]
        told.append((pearsonr(y, s)[0] + 2 * roc_auc_score(y, s) - 1) / 2)
        say.append(min(y.sum(), (1 - y).sum(), _tuning.FULL_SAY))
    assert min(say) < _tuning.FULL_SAY
    assert skill(Y, scores) == pytest.approx(np.average(told, weights=say))


def test_a_rare_label_that_is_told_without_fail_counts_in_full():
    Y = np.zeros((200, 1))
    Y[:2] = 1
    assert skill(Y, Y) == pytest.approx(1.0)
    assert skill(Y, -Y) == pytest.approx(-1.0)  # by chance as often as the other: no bias


def test_holes_and_labels_of_one_class_have_no_say():
    rng = np.random.default_rng(0)
    Y, scores = (rng.random((50, 2)) < 0.4).astype(float), rng.normal(size=(50, 2))
    Y[:, 1] = 0
    alone = skill(Y[:, :1], scores[:, :1])
    assert skill(Y, scores) == pytest.approx(alone)
    Y[:9, 0], other = np.nan, scores.copy()
    other[:9] = 1e3
    assert skill(Y, other) == pytest.approx(skill(Y, scores))
    assert skill(Y, np.ones_like(Y)) == 0


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
