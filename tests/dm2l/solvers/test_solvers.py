"""Solvers against cvxpy, dense least squares and each other; factors of kernel matrices."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import dm2l_oracles as oracle
from dm2l import DM2LClassifier
from dm2l._solvers.cccp import solve_cccp
from dm2l._solvers.features import Features
from dm2l._solvers.kernels import kernel_factor
from dm2l._solvers.lbfgs import solve_lbfgs
from dm2l._solvers.objective import Objective
from dm2l._solvers.problem import Preconditioner, Problem, conjugate_gradients, masked_ridge
from dm2l._utils.arrays import solve_triangular, take_rows

TALL, WIDE = (16, 4, 3), (8, 12, 3)
tight = {"tol": 1e-10, "max_iter": 20_000}


def fitted(X, T, lambda_d=0.3, alpha=0.5, **settings):
    model = DM2LClassifier(lambda_d, alpha, coupling=None, **(tight | settings))
    return model.fit(X, oracle.as_labels(T))


def unstack(features, W):
    """Weights and intercept on the features as they were given."""
    W = features.to_original(W)
    return (W[:-1], W[-1]) if features.intercept else (W, np.zeros(W.shape[1]))


def exact_objective(model, X, T, **terms):
    """The brute-force J of a fitted linear model, over the rows and labels that it learns."""
    reduced, rows, labels = oracle.reduce_targets(T)
    return oracle.objective(
        X[rows],
        model.coef_[labels].T,
        model.intercept_[labels],
        reduced,
        lambda_d=model.lambda_d,
        alpha=model.alpha,
        **terms,
    )


# ------------------------------------------------------------------------ the convex problems


@pytest.mark.parametrize("shape", [TALL, WIDE])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("solver", ["lbfgs", "cccp"])
@pytest.mark.parametrize("seed", range(3))
def test_without_the_global_norm_both_solvers_find_the_optimum_of_cvxpy(
    shape, intercept, solver, seed
):
    X, T = oracle.draw_problem(seed, *shape)
    model = fitted(X, T, discriminant=False, fit_intercept=intercept, solver=solver)
    best, _ = oracle.convex_optimum(X, T, lambda_d=0.3, alpha=0.5, intercept=intercept)
    found = exact_objective(model, X, T, discriminant=False)
    assert found == pytest.approx(best, rel=1e-6)
    assert found >= best * (1 - 1e-8)


@pytest.mark.parametrize("shape", [TALL, WIDE])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_surrogate_of_algorithm_1_is_minimised_to_the_optimum_of_cvxpy(shape, intercept, seed):
    X, T = oracle.draw_problem(seed, *shape)
    n, d, c = shape
    settings = {"lambda_d": 0.4, "alpha": 0.3}
    start = np.random.default_rng(seed).standard_normal((n, c))
    G = oracle.global_subgradient(start, T)
    problem = Problem(Features(X, intercept), Objective(T, 0.4), 0.3)
    preconditioner = Preconditioner(problem)
    V = np.zeros((d + intercept, c))
    evaluate = partial(problem.evaluate, linear=G)
    solution = solve_lbfgs(problem, preconditioner, V, **tight, evaluate=evaluate)
    W, b = unstack(problem.features, solution.W)
    found = oracle.surrogate(X, W, b, T, G, **settings)
    best, _ = oracle.convex_optimum(X, T, **settings, intercept=intercept, G=G)
    assert found == pytest.approx(best, rel=1e-6)
    assert found >= best - 1e-8 * abs(best)


@pytest.mark.parametrize("seed", range(3))
def test_rounds_of_cccp_are_those_of_algorithm_1_from_the_same_start(seed):
    X, T = oracle.draw_problem(seed, *TALL)
    settings = {"lambda_d": 0.2, "alpha": 0.5}
    model = fitted(X, T, **settings, solver="cccp", fit_intercept=False)
    start = X @ np.eye(4, 3)
    expected = oracle.cccp(X, T, **settings, intercept=False, start=start, n_iter=3)
    first = oracle.objective(X, np.eye(4, 3), np.zeros(3), T, **settings)
    assert model.objective_history_[0] == pytest.approx(first, rel=1e-10)
    # J is not flat at the optimum of a surrogate: what that lacks shows up as its square root.
    np.testing.assert_allclose(model.objective_history_[1:4], expected, rtol=1e-4)


@pytest.mark.parametrize("lambda_d", [0.1, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_cccp_ends_where_an_exact_round_of_algorithm_1_gains_nothing(lambda_d, seed):
    X, T = oracle.draw_problem(seed, 24, 4, 4, 0.6)
    T, rows, _ = oracle.reduce_targets(T)
    X = X[rows]
    settings = {"lambda_d": lambda_d, "alpha": 1.0}
    model = fitted(X, T, **settings, solver="cccp")
    end = model.decision_function(X)
    (further,) = oracle.cccp(X, T, **settings, intercept=True, start=end, n_iter=1)
    assert model.objective_ <= further * (1 + 1e-6)


@pytest.mark.parametrize("solver", ["lbfgs", "cccp"])
@pytest.mark.parametrize("seed", range(4))
def test_a_warm_start_close_to_the_optimum_still_reaches_the_optimum_of_cvxpy(solver, seed):
    X, T = oracle.draw_problem(seed, *TALL)
    model = fitted(X, T, discriminant=False, solver=solver, warm_start=True)
    model.set_params(lambda_d=0.32).fit(X, oracle.as_labels(T))
    best, _ = oracle.convex_optimum(X, T, lambda_d=0.32, alpha=0.5, intercept=True)
    assert exact_objective(model, X, T, discriminant=False) == pytest.approx(best, rel=1e-6)


# --------------------------------------------------------------------- the non-convex problem


@pytest.mark.parametrize("observed", [1.0, 0.7, 0.3])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    ("kernel", "seed"), [("linear", 0), ("linear", 1), ("linear", 2), ("rbf", 0)]
)
def test_cccp_never_raises_the_exact_objective(observed, intercept, kernel, seed):
    X, T = oracle.draw_problem(seed, 20, 4, 4, observed)
    model = fitted(
        X,
        T,
        lambda_d=1.0,
        alpha=0.1,
        solver="cccp",
        kernel=kernel,
        fit_intercept=intercept,
        tol=1e-6 if kernel == "linear" else 1e-5,  # which takes twice as long to 1e-6
    )
    history = model.objective_history_
    assert len(history) > 2
    assert np.all(np.diff(history) <= 0)
    assert model.objective_ == history[-1]


@pytest.mark.parametrize("seed", range(3))
def test_cccp_started_at_a_point_never_ends_above_it(seed):
    X, T = oracle.draw_problem(seed, *TALL)
    problem = Problem(Features(X, True), Objective(T, 2.0), 0.1)
    start = np.random.default_rng(seed).standard_normal((5, 3))
    solution = solve_cccp(problem, Preconditioner(problem), start, tol=1e-6, max_iter=50)
    history = np.array(solution.history)
    assert history[0] == pytest.approx(problem.exact(start), rel=1e-12)
    assert np.all(np.diff(history) <= 0)
    assert problem.exact(solution.W) == pytest.approx(history[-1], rel=1e-9)


@pytest.mark.parametrize("lambda_d", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("observed", [1.0, 0.6])
@pytest.mark.parametrize("seed", range(4))
def test_lbfgs_and_cccp_agree_on_the_objective_when_the_concave_part_is_mild(
    lambda_d, observed, seed
):
    X, T = oracle.draw_problem(seed, 24, 4, 4, observed)
    one = fitted(X, T, lambda_d=lambda_d, alpha=1.0)
    other = fitted(X, T, lambda_d=lambda_d, alpha=1.0, solver="cccp")
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-5)


@pytest.mark.parametrize("lambda_d", [0.1, 1.0])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("seed", range(3))
def test_no_nearby_point_is_better_than_the_solution_of_lbfgs(lambda_d, kernel, seed):
    X, T = oracle.draw_problem(seed, 18, 3, 3)
    Phi = X
    if kernel == "rbf":
        Phi = np.linalg.cholesky(np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2)))
    problem = Problem(Features(Phi, True), Objective(T, lambda_d), 0.5)
    preconditioner = Preconditioner(problem)
    V = conjugate_gradients(problem, preconditioner)
    W = solve_lbfgs(problem, preconditioner, V, **tight).W
    settings = {"lambda_d": lambda_d, "alpha": 0.5}
    at = oracle.objective(Phi, *unstack(problem.features, W), T, **settings)
    rng = np.random.default_rng(seed)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(20):
            step = W + size * rng.standard_normal(W.shape)
            there = oracle.objective(Phi, *unstack(problem.features, step), T, **settings)
            assert there >= at * (1 - 1e-7)


@pytest.mark.parametrize("solver", ["lbfgs", "cccp"])
@pytest.mark.parametrize("shape", [TALL, WIDE])
@pytest.mark.parametrize("lambda_d", [0.1, 2.0])
def test_reported_objective_is_the_brute_force_objective_of_the_reported_weights(
    solver, shape, lambda_d
):
    X, T = oracle.draw_problem(3, *shape)
    model = fitted(X, T, lambda_d=lambda_d, solver=solver, tol=1e-7)
    assert model.objective_ == pytest.approx(exact_objective(model, X, T), rel=1e-6)
    assert model.objective_ == pytest.approx(min(model.objective_history_), rel=1e-6)


@pytest.mark.parametrize("lambda_d", [0.3, 2.0, 10.0])
@pytest.mark.parametrize("max_iter", [3, 10, 24])
def test_reported_objective_is_that_of_the_weights_when_the_iterations_run_out(lambda_d, max_iter):
    for seed in range(8):
        X, T = oracle.draw_problem(seed, 20, 5, 4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = fitted(X, T, lambda_d=lambda_d, tol=1e-6, max_iter=max_iter)
        assert model.objective_ == pytest.approx(exact_objective(model, X, T), rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_published_solver_reports_the_paper_objective_of_its_weights(seed):
    X, T = oracle.draw_problem(seed, 30, 5, 4, observed=0.9)
    model = DM2LClassifier.published(lambda_d=0.01).fit(X, oracle.as_labels(T))
    expected = exact_objective(model, X, T, global_rows="all")
    assert model.objective_history_[-1] == pytest.approx(expected, rel=1e-9)
    assert model.objective_ == pytest.approx(expected, rel=1e-9)
    start = oracle.objective(
        X, np.eye(5, 4), np.zeros(4), T, lambda_d=0.01, alpha=0.0, global_rows="all"
    )
    assert model.objective_history_[0] == pytest.approx(start, rel=1e-9)
    assert np.all(np.diff(model.objective_history_) <= 0)


def test_running_out_of_iterations_is_a_warning():
    X, T = oracle.draw_problem(0, 20, 5, 4)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        fitted(X, T, max_iter=2)


@pytest.mark.parametrize("solver", ["lbfgs", "cccp"])
def test_a_warm_start_ends_no_higher_than_it_began(solver):
    X, T = oracle.draw_problem(1, *TALL)
    model = fitted(X, T, solver=solver, warm_start=True)
    before = model.objective_
    model.fit(X, oracle.as_labels(T))
    assert model.objective_history_[0] == pytest.approx(before, rel=1e-8)
    assert model.objective_ <= before * (1 + 1e-8)


# -------------------------------------------------------------------------- change of variables


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_preconditioner_makes_loss_and_ridge_round_when_everything_is_observed(intercept, alpha):
    X, _ = oracle.draw_problem(0, 20, 5, 3)
    T = np.where(np.random.default_rng(0).random((20, 3)) < 0.5, 1, -1).astype(np.int8)
    problem = Problem(Features(X, intercept), Objective(T, 0.0), alpha)
    preconditioner = Preconditioner(problem)
    rng = np.random.default_rng(1)
    V, D = rng.standard_normal((2, problem.features.size, 3))
    middle, left, right = (problem.exact(preconditioner.to_weights(V + s * D)) for s in (0, -1, 1))
    assert left + right - 2 * middle == pytest.approx(np.sum(D * D), rel=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
def test_change_of_variables_is_undone_and_carries_gradients(intercept):
    X, T = oracle.draw_problem(0, 12, 4, 3)
    problem = Problem(Features(sp.csr_array(X), intercept), Objective(T, 0.0), 0.2)
    preconditioner = Preconditioner(problem)
    W = np.random.default_rng(0).standard_normal((4 + intercept, 3))
    V = preconditioner.to_variables(W)
    np.testing.assert_allclose(preconditioner.to_weights(V), W, atol=1e-11)
    gradient = problem.evaluate(W, None).gradient
    expected = oracle.central_differences(
        lambda at: problem.exact(preconditioner.to_weights(at)), V, 1e-5
    )
    np.testing.assert_allclose(preconditioner.to_gradient(gradient), expected, atol=1e-7)


# --------------------------------------------------------------------------------- masked ridge


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.integers(2, 25),
    st.integers(1, 8),
    st.integers(1, 5),
    st.sampled_from([0.2, 0.6, 0.9, 1.0]),
    st.sampled_from([0.01, 1.0, 50.0]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["auto", "direct", "cg"]),
    st.integers(0, 2**32 - 1),
)
def test_masked_ridge_is_dense_least_squares_on_each_label_s_observed_rows(
    n, d, c, observed, alpha, intercept, sparse, method, seed
):
    X, T = oracle.draw_problem(seed, n, d, c, observed)
    features = Features(sp.csr_array(X) if sparse else X, intercept)
    W, b = unstack(features, masked_ridge(features, T, alpha, method=method))
    expected_W, expected_b = oracle.masked_ridge(X, T, alpha, intercept)
    np.testing.assert_allclose(W, expected_W, atol=1e-8)
    np.testing.assert_allclose(b, expected_b, atol=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
def test_labels_that_share_a_mask_get_the_solution_they_get_alone(intercept):
    X, T = oracle.draw_problem(0, 30, 5, 6)
    T[:, 2] = np.where(T[:, 0] != 0, -T[:, 0], 0)  # same mask as label 0
    T[:, 4] = T[:, 0]
    T[:, 1] = np.where(T[:, 1] == 0, 1, T[:, 1])  # complete
    T[:, 5] = -T[:, 1]
    features = Features(X, intercept)
    together = masked_ridge(features, T, 0.7)
    for j in range(6):
        alone = masked_ridge(features, T[:, [j]], 0.7)
        np.testing.assert_allclose(together[:, [j]], alone, atol=1e-11)
    W, b = oracle.masked_ridge(X, T, 0.7, intercept)
    np.testing.assert_allclose(unstack(features, together)[0], W, atol=1e-10)
    np.testing.assert_allclose(unstack(features, together)[1], b, atol=1e-10)


@pytest.mark.parametrize("observed", [0.3, 0.8, 1.0])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_rank_deficient_least_squares_without_ridge_gets_the_least_norm_solution(
    observed, intercept, seed
):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 7))
    T = oracle.draw_targets(rng, 40, 3, observed)
    features = Features(X, intercept)
    W, b = unstack(features, masked_ridge(features, T, 0.0))
    expected_W, expected_b = oracle.masked_ridge(X, T, 0.0, intercept)
    np.testing.assert_allclose(W, expected_W, atol=1e-8)
    np.testing.assert_allclose(b, expected_b, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_no_ridge_is_the_limit_of_a_small_ridge_when_columns_add_up_to_a_constant(seed):
    # One-hot columns: they sum to the column of ones, so weights and intercept are not unique.
    rng = np.random.default_rng(seed)
    X = np.eye(3)[rng.integers(0, 3, 40)]
    T = oracle.draw_targets(rng, 40, 2, 0.8)
    features = Features(X, True)
    none, small = (unstack(features, masked_ridge(features, T, alpha)) for alpha in (0.0, 1e-6))
    W, b = oracle.masked_ridge(X, T, 0.0, True)
    np.testing.assert_allclose(small[0], W, atol=1e-5)
    np.testing.assert_allclose(none[0], W, atol=1e-8)
    np.testing.assert_allclose(none[1], b, atol=1e-8)


@pytest.mark.parametrize("method", ["direct", "cg"])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("shift", [1e2, 1e4, 1e6])
def test_masked_ridge_with_intercept_does_not_care_where_zero_is(method, alpha, shift):
    X, T = oracle.draw_problem(0, 60, 3, 2)
    expected_W, expected_b = oracle.masked_ridge(X, T, alpha, True)
    far = X + np.array([shift, 0, 0])
    features = Features(far, True)
    W, b = unstack(features, masked_ridge(features, T, alpha, method=method))
    np.testing.assert_allclose(far @ W + b, X @ expected_W + expected_b, atol=1e-5)


@pytest.mark.parametrize("method", ["direct", "cg"])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("scale", [1e-2, 1e4, 1e8])
def test_masked_ridge_is_right_with_columns_of_very_different_scales(method, alpha, scale):
    X, T = oracle.draw_problem(0, 60, 3, 2)
    units = np.array([scale, 1.0, 1.0])
    W = masked_ridge(Features(X * units, False), T, alpha, method=method)
    for j in range(2):
        # The same problem in columns of one size: the ridge is then alpha / units^2.
        A, t = X[oracle.observed_rows(T, j)], T[oracle.observed_rows(T, j), j]
        expected = np.linalg.solve(A.T @ A + np.diag(alpha / units**2), A.T @ t)
        np.testing.assert_allclose(W[:, j] * units, expected, atol=1e-6)


@pytest.mark.parametrize("observed", [1.0, 0.7, 0.3])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("alpha", [0.1, 10.0])
def test_conjugate_gradients_converge_to_masked_ridge(observed, intercept, alpha):
    X, T = oracle.draw_problem(1, 40, 6, 4, observed)
    features = Features(X, intercept)
    problem = Problem(features, Objective(T, 0.5), alpha)
    preconditioner = Preconditioner(problem)
    V = conjugate_gradients(problem, preconditioner, tol=1e-13, max_iter=200)
    found = preconditioner.to_weights(V)
    W, b = oracle.masked_ridge(X, T, alpha, intercept)
    np.testing.assert_allclose(unstack(features, found)[0], W, atol=1e-9)
    np.testing.assert_allclose(unstack(features, found)[1], b, atol=1e-9)
    few = preconditioner.to_weights(conjugate_gradients(problem, preconditioner))
    assert np.linalg.norm(few - found) <= 0.02 * np.linalg.norm(found)


# -------------------------------------------------------------------------- kernel factorization


def kernel_matrices():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((15, 3))
    gaussian = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    twice = np.vstack([X, X[:5]])
    doubled = np.exp(-((twice[:, None] - twice[None]) ** 2).sum(axis=2))
    return {
        "full rank": (gaussian, 15),
        "low rank": (X @ X.T, 3),
        "duplicate rows": (doubled, 15),
        "rank one": (np.outer(X[:, 0], X[:, 0]), 1),
        "identity": (np.eye(6), 6),
        "zero row": (np.diag([2.0, 0.0, 1.0]), 2),
        "large": (1e8 * gaussian, 15),
        "small": (1e-8 * gaussian, 15),
    }


@pytest.mark.parametrize("name", kernel_matrices())
def test_kernel_factor_rebuilds_the_kernel_matrix_with_its_rank(name):
    K, rank = kernel_matrices()[name]
    factor = kernel_factor(K)
    assert factor.Phi.shape == (len(K), rank)
    np.testing.assert_allclose(factor.Phi @ factor.Phi.T, K, atol=1e-10 * K.max())
    np.testing.assert_allclose(factor.Phi[factor.pivots], factor.L, atol=0)
    np.testing.assert_array_equal(factor.L, np.tril(factor.L))


@pytest.mark.parametrize("name", kernel_matrices())
def test_dual_coefficients_give_the_scores_of_the_weights(name):
    K, rank = kernel_matrices()[name]
    factor = kernel_factor(K)
    W = np.random.default_rng(1).standard_normal((rank, 2))
    F = factor.Phi @ W
    np.testing.assert_allclose(
        K[:, factor.pivots] @ solve_triangular(factor.L, W, transpose=True),
        F,
        atol=1e-6 * np.abs(F).max(),
    )
    np.testing.assert_allclose(
        solve_triangular(factor.L, take_rows(F, factor.pivots)), W, atol=1e-6
    )


def test_float32_kernel_matrix_is_factorised_to_its_own_precision():
    X = np.random.default_rng(2).standard_normal((40, 4)).astype(np.float32)
    K = X @ X.T
    factor = kernel_factor(K)
    np.testing.assert_allclose(factor.Phi @ factor.Phi.T, K, atol=1e-4)


indefinite = {
    "negative eigenvalue": np.array([[1.0, 2.0], [2.0, 1.0]]),
    "negative diagonal entry": np.diag([1.0, 1.0, -1.0]),
    "negative": -np.eye(3),
    "zero": np.zeros((3, 3)),
    "zero diagonal": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]),
    "zero diagonal after two pivots": np.array(
        [[2.0, 0.0, 1.0, 0.0], [0.0, 2.0, 0.0, 1.0], [1.0, 0.0, 0.5, 0.4], [0.0, 1.0, 0.4, 0.5]]
    ),
}


@pytest.mark.parametrize("name", indefinite)
def test_kernel_matrix_that_is_not_positive_semi_definite_is_refused(name):
    with pytest.raises(ValueError, match="positive semidefinite"):
        kernel_factor(indefinite[name])
