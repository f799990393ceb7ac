"""The numerical core runs on any array-API library and gives what numpy gives."""

import array_api_strict as strict
import numpy as np
import pytest
from array_api_compat import numpy as ordinary

from dm2l._solvers.features import Features
from dm2l._solvers.nuclear import SmoothNorm, nuclear_norm, thresholded_nuclear_norm
from dm2l._solvers.objective import Objective
from dm2l._solvers.problem import Preconditioner, Problem, conjugate_gradients


@pytest.fixture
def problem_data():
    rng = np.random.default_rng(0)
    T = rng.choice([-1, 0, 1], size=(30, 5)).astype(np.int8)
    T[3] = 0
    return rng.standard_normal((30, 4)), T, rng.standard_normal((5, 5))


def assert_same(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", [(9, 4), (4, 9)])
def test_nuclear_norms(shape):
    Z = np.random.default_rng(0).standard_normal(shape)
    S = strict.asarray(Z)
    assert nuclear_norm(S) == pytest.approx(nuclear_norm(Z))
    found, expected = thresholded_nuclear_norm(S), thresholded_nuclear_norm(Z)
    assert_same(found.gradient, expected.gradient)
    found, expected = SmoothNorm(0.1)(S), SmoothNorm(0.1)(Z)
    assert float(found.value) == pytest.approx(expected.value)
    assert_same(found.gradient, expected.gradient)


@pytest.mark.parametrize("discriminant", [True, False])
@pytest.mark.parametrize("global_rows", ["covered", "all"])
def test_objective_gradient_and_surrogate(problem_data, discriminant, global_rows):
    X, T, W = problem_data
    norm = SmoothNorm(0.01)
    settings = {"discriminant": discriminant, "global_rows": global_rows}
    results = []
    for xp in (ordinary, strict):
        objective = Objective(T, 0.3, like=xp.asarray(X), **settings)
        problem = Problem(Features(xp.asarray(X), True), objective, 0.5)
        weights = xp.asarray(W)
        scores = problem.features.scores(weights)
        plain = problem.evaluate(weights, norm)
        linear = objective.global_subgradient(scores)
        surrogate = problem.evaluate(weights, norm, linear)
        results.append((plain, surrogate, problem.exact(weights)))
    for found, expected in zip(results[1][:2], results[0][:2], strict=True):
        assert float(found.value) == pytest.approx(expected.value)
        assert found.exact == pytest.approx(expected.exact)
        assert_same(found.gradient, expected.gradient)
    assert results[1][2] == pytest.approx(results[0][2])


def test_preconditioner_and_masked_ridge_start(problem_data):
    X, T, W = problem_data
    results = []
    for xp in (ordinary, strict):
        objective = Objective(T, 0.3, like=xp.asarray(X))
        problem = Problem(Features(xp.asarray(X), True), objective, 0.5)
        preconditioner = Preconditioner(problem)
        V = conjugate_gradients(problem, preconditioner)
        back = preconditioner.to_weights(preconditioner.to_variables(xp.asarray(W)))
        results.append((V, back))
    assert_same(results[1][0], results[0][0])
    assert_same(results[1][1], W)
