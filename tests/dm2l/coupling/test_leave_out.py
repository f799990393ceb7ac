"""Leave-one-row-out residuals against refits."""

from __future__ import annotations

import array_api_strict as strict
import numpy as np
import pytest
from sklearn.linear_model import Ridge

from dm2l.coupling import honest_scores, leave_row_out, leverages


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
    h = leverages(X, T != 0, 2.0, intercept=intercept, method="exact")
    honest = honest_scores(T, F, h)
    np.testing.assert_allclose(honest[T == 0], F[T == 0])
    for i in range(0, len(X), 5):
        without = np.delete(T, i, axis=0)
        for j in np.flatnonzero(T[i]):
            rows = without[:, j] != 0
            model = Ridge(2.0, fit_intercept=intercept)
            model.fit(np.delete(X, i, axis=0)[rows], without[rows, j])
            np.testing.assert_allclose(honest[i, j], model.predict(X[[i]])[0], atol=1e-8)


@pytest.mark.parametrize("size", [(30, 4), (20, 40)])
def test_the_shared_curvature_has_its_share_of_other_rows_and_all_of_its_own(size):
    X, T = table(*size)
    h = leverages(X, T != 0, 2.0, intercept=False, method="shared")
    for i, j in np.argwhere(T != 0)[::7]:
        rate = np.mean(T[:, j] != 0)
        H = rate * X.T @ X + (1 - rate) * np.outer(X[i], X[i]) + 2.0 * np.eye(size[1])
        np.testing.assert_allclose(h[i, j], X[i] @ np.linalg.solve(H, X[i]), atol=1e-9)


def test_the_shared_curvature_comes_close_to_the_exact_one():
    X, T = table(400, 12, c=6)
    exact = leverages(X, T != 0, 2.0, method="exact")[T != 0]
    shared = leverages(X, T != 0, 2.0, method="shared")[T != 0]
    assert np.corrcoef(exact, shared)[0, 1] > 0.95
    np.testing.assert_allclose(shared.mean(), exact.mean(), rtol=0.05)


def test_labels_with_one_mask_need_one_factor_and_are_exact():
    X, T = table(40, 5, rate=1.0)
    T[::3] = 0
    np.testing.assert_allclose(
        leverages(X, T != 0, 2.0), leverages(X, T != 0, 2.0, method="exact"), atol=1e-12
    )


def test_a_row_that_determines_its_own_score_stays_finite():
    assert np.isfinite(leave_row_out(np.array([[0.1]]), np.array([[1.0]]))).all()


def test_a_label_without_known_entries_and_a_strange_method():
    X, T = table(20, 3)
    T[:, 0] = 0
    for method in ("exact", "shared"):
        assert np.isfinite(leverages(X, T != 0, 1.0, method=method)).all()
    with pytest.raises(ValueError, match="method must be 'auto', 'exact' or 'shared'"):
        leverages(X, T != 0, 1.0, method="best")


@pytest.mark.parametrize("method", ["exact", "shared"])
@pytest.mark.parametrize("size", [(30, 4), (20, 40)])
def test_another_array_library_gives_the_same(method, size):
    X, T = table(*size)
    here = leverages(X, T != 0, 2.0, method=method)
    there = leverages(strict.asarray(X), T != 0, 2.0, method=method)
    np.testing.assert_allclose(np.asarray(there), here, atol=1e-9)
