"""Released descent steps of GLOCAL against a literal re-run and against exact minima."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dm2l._solvers.features import Features
from dm2l.baselines import GLOCALClassifier
from dm2l.baselines._glocal import Glocal
from dm2l.datasets import make_missing_multilabel
from experiments import released_glocal
from experiments.released_glocal import (
    ReleasedGlocal,
    ReleasedGLOCALClassifier,
    steepest_descent,
)

WEIGHTED = [
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_sample_weights_list",
    "check_sample_weights_not_overwritten",
]
STEPS = 8  # longer paths turn the rounding of a sum into the third digit


def descend_literally(cost, gradient, A, retract=lambda A: A):
    """Manopt's steepest descent as specified, one rule at a time."""
    f = [cost(A)]
    for t in range(STEPS):
        g = gradient(A)
        d, slope = -g, -float((g**2).sum())
        if np.linalg.norm(g) < 1e-6:
            break
        alpha = 1 / np.linalg.norm(d) if t == 0 else 2 * (2 * (f[-1] - f[-2]) / slope)
        new, evaluations = cost(retract(A + alpha * d)), 1
        while new > f[-1] + 1e-4 * alpha * slope and evaluations < 25:
            alpha, evaluations = alpha / 2, evaluations + 1
            new = cost(retract(A + alpha * d))
        if new > f[-1] or alpha * np.linalg.norm(d) < 1e-10:
            break
        A = retract(A + alpha * d)
        f.append(new)
        if t >= 4 and all(abs(f[-i] - f[-i - 1]) < 1e-5 for i in (1, 2, 3)):
            break
    return A


@pytest.fixture
def few_steps(monkeypatch):
    monkeypatch.setattr(released_glocal, "STEPS", STEPS)


@pytest.mark.parametrize("seed", range(5))
def test_steepest_descent_is_the_specified_one(few_steps, seed):
    rng = np.random.default_rng(seed)
    R, B, start = rng.normal(size=(5, 5)), rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    R = R @ R.T / 5

    def cost(A):
        return 0.5 * float((A * (R @ A)).sum()) - float((A * B).sum())

    found = steepest_descent(cost, lambda A: R @ A - B, start)
    expected = descend_literally(cost, lambda A: R @ A - B, start)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert cost(found) < cost(start)


def test_steepest_descent_stops_where_the_cost_refuses_every_step():
    start = np.ones((2, 2))
    found = steepest_descent(lambda A: -float((A**2).sum()), lambda A: 2 * A, start)
    np.testing.assert_array_equal(found, start)


def released(seed, correlated):
    """A problem with its released steps, and a point of it."""
    rng = np.random.default_rng(seed)
    n, d, c, k = 12, 4, 5, 3
    T = rng.choice([-1, 0, 1], size=(n, c)).astype(np.int8)
    weights = (0.7, 0.4, 0.3, 0.2, 0.5, 0.6)
    problem = ReleasedGlocal(Features(rng.normal(size=(n, d)), False), T, np.arange(n) % 2, weights)
    Z = [rng.normal(size=(c, k)) for _ in range(2)] if correlated else []
    Z = [Zm / np.linalg.norm(Zm, axis=1, keepdims=True) for Zm in Z]
    return problem, rng.normal(size=(c, k)), rng.normal(size=(n, k)), rng.normal(size=(d, k)), Z


@pytest.mark.parametrize("seed", range(3))
def test_released_steps_descend_on_spectral_costs_along_the_right_gradient(few_steps, seed):
    """Costs and gradients written out from the published code's description."""
    problem, U, V, W, Z = released(seed, correlated=True)
    X, T, seen = problem.features.Phi, problem.T, problem.observed
    lam, lam1, lam2, _, lam4, lam5 = 0.7, 0.4, 0.3, 0.2, 0.5, 0.6
    parts = [X[m::2] for m in range(2)]
    grams = [lam2 * len(P) / len(X) * X.T @ X + lam1 * P.T @ P for P in parts]
    laplacians = [Zm @ Zm.T for Zm in Z]

    def squared(A):
        return float(np.linalg.norm(A, 2) ** 2)

    def smooth(U, W):
        inner = [
            np.trace(U @ W.T @ G @ W @ U.T @ M) for G, M in zip(grams, laplacians, strict=True)
        ]
        return float(sum(inner))

    expected = descend_literally(
        lambda A: squared(seen * (V @ A.T) - T) + lam4 * squared(A) + smooth(A, W),
        lambda A: problem._curve_U(A, V, problem._middles(W, Z), Z) - problem.T.T @ V,
        U,
    )
    np.testing.assert_allclose(problem.step_U(U, V, W, Z), expected, rtol=1e-6, atol=1e-8)
    expected = descend_literally(
        lambda A: lam * squared(V - X @ A) + lam5 * squared(A) + smooth(U, A),
        lambda A: problem._curve_W(A, problem._sides(U, Z)) - lam * X.T @ V,
        W,
    )
    np.testing.assert_allclose(problem.step_W(U, V, W, Z), expected, rtol=1e-6, atol=1e-8)
    C = U @ W.T @ grams[1] @ W @ U.T
    expected = descend_literally(
        lambda A: 0.5 * float(np.trace(C @ A @ A.T)),
        lambda A: C @ A,
        Z[1],
        lambda A: A / np.linalg.norm(A, axis=1, keepdims=True),
    )
    np.testing.assert_allclose(problem.step_Z(1, U, W, Z), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_released_steps_without_correlations_lead_to_the_exact_minima(seed):
    problem, U, V, W, _ = released(seed, correlated=False)
    exact = Glocal.step_U(problem, U, V, W, [])
    for _ in range(30):
        U = problem.step_U(U, V, W, [])
    np.testing.assert_allclose(U, exact, atol=0.02)
    exact = Glocal.step_V(problem, U, V, W)
    for _ in range(30):
        V = problem.step_V(U, V, W)
    np.testing.assert_allclose(V, exact, atol=0.02)
    exact = Glocal.step_W(problem, U, V, W, [])
    for _ in range(30):
        W = problem.step_W(U, V, W, [])
    np.testing.assert_allclose(W, exact, atol=0.02)


def test_the_released_steps_take_every_round_and_rank_like_the_exact_minima():
    X, Y = make_missing_multilabel(200, 10, 6, random_state=0)
    exact = GLOCALClassifier(random_state=0).fit(X, Y)
    model = ReleasedGLOCALClassifier(max_iter=4, random_state=0).fit(X, Y)
    assert model.n_iter_ == 4
    pairs = zip(model.decision_function(X).T, exact.decision_function(X).T, strict=True)
    assert min(np.corrcoef(a, b)[0, 1] for a, b in pairs) > 0.9
    assert np.abs(model.coef_ - exact.coef_).max() > 1e-6


def test_weights_are_refused():
    X, Y = make_missing_multilabel(40, 5, 4, random_state=0)
    with pytest.raises(ValueError, match="take no weights"):
        ReleasedGLOCALClassifier().fit(X, Y, sample_weight=np.full(40, 2.0))


@pytest.mark.filterwarnings("ignore::dm2l.ConstantLabelWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [ReleasedGLOCALClassifier(max_iter=3)],
    expected_failed_checks=lambda _: dict.fromkeys(WEIGHTED, "the released code has no weights"),
)
def test_scikit_learn_common_check(estimator, check):
    check(estimator)
