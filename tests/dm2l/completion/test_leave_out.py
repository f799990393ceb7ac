"""Leave-one-row-out residuals against refits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from dm2l.completion._leave_out import without_own_row
from dm2l_oracles import leverages


def table(n, d, c=3, rate=0.6):
    rng = np.random.default_rng(n * d)
    X = rng.normal(size=(n, d)) + 1.0
    T = np.sign(X @ rng.normal(size=(d, c)) + rng.normal(size=(n, c)))
    return X, np.where(rng.random((n, c)) < rate, T, 0.0)


def ridge_scores(X, T, intercept):
    F = np.empty(T.shape)
    for j in range(T.shape[1]):
        rows = T[:, j] != 0
        F[:, j] = Ridge(2.0, fit_intercept=intercept).fit(X[rows], T[rows, j]).predict(X)
    return F


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("size", [(30, 4), (20, 40)])
@pytest.mark.parametrize("rate", [0.6, 1.0])
def test_exact_residuals_are_those_of_refits_without_the_row(size, intercept, rate):
    X, T = table(*size, rate=rate)
    F = ridge_scores(X, T, intercept)
    h = leverages(X, T != 0, 2.0, intercept)
    found = without_own_row(T, F, h)
    for i in range(0, len(X), 5):
        without = np.delete(T, i, axis=0)
        for j in np.flatnonzero(T[i]):
            rows = without[:, j] != 0
            model = Ridge(2.0, fit_intercept=intercept)
            model.fit(np.delete(X, i, axis=0)[rows], without[rows, j])
            np.testing.assert_allclose(found[i, j], model.predict(X[[i]])[0], atol=1e-8)


def test_a_row_that_determines_its_own_score_stays_finite():
    assert np.isfinite(without_own_row(*np.array([[[0.1]], [[0.0]], [[1.0]]]))).all()
