"""Masked ridge with one unknown per row, against the direct solution of each label."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from dm2l._solvers import dual
from dm2l.baselines import MaskedRidgeClassifier


@pytest.mark.parametrize("weighted", [False, True])
def test_coefficients_are_those_of_ridge_on_the_observed_rows(weighted, monkeypatch):
    monkeypatch.setattr(dual, "TOLERANCE", 1e-10)
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.random((40, 90)) * (rng.random((40, 90)) < 0.2))
    T = rng.choice([-1, 0, 1], (40, 3))
    weights = rng.uniform(0.5, 2, T.shape) if weighted else None
    W, b = dual.dual_ridge(X, T, 0.3, weights)
    for k in range(3):
        rows = np.flatnonzero(T[:, k])
        given = None if weights is None else weights[rows, k]
        model = Ridge(0.3).fit(X[rows].toarray(), T[rows, k], given)
        np.testing.assert_allclose(W[:, k], model.coef_, atol=1e-6)
        assert b[k] == pytest.approx(model.intercept_, abs=1e-6)


def test_the_estimator_agrees_with_the_direct_solver_up_to_its_tolerance():
    rng = np.random.default_rng(1)
    X = sp.csr_array(rng.random((60, 200)) * (rng.random((60, 200)) < 0.1))
    Y = np.where(rng.random((60, 4)) < 0.3, np.nan, rng.random((60, 4)) < 0.5)
    dual_model, direct = (
        MaskedRidgeClassifier(1.0, solver=solver, coupling=None).fit(X, Y)
        for solver in ("dual", "direct")
    )
    found, expected = dual_model.decision_function(X), direct.decision_function(X)
    assert np.abs(found - expected).max() < 0.01
    with pytest.raises(ValueError, match="solver='dual'"):
        MaskedRidgeClassifier(1.0, solver="dual", fit_intercept=False).fit(X, Y)
