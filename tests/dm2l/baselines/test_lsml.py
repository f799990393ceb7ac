"""LSML against brute force, finite differences, the published algorithm and cvxpy."""

from __future__ import annotations

import re

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import dm2l_oracles as oracle
from dm2l import ConstantLabelWarning
from dm2l.baselines import LSMLClassifier
from dm2l.baselines._correlations import Lsml, label_laplacian, soft_threshold
from dm2l.baselines._linear import ImputedTargets, Inputs, ridge

laws = settings(max_examples=60, deadline=None, derandomize=True)
TALL, WIDE = (14, 3, 4), (8, 12, 4)
SEEDS = range(3)
CODINGS = ["negative", "neutral"]
# lambda1 (faithfulness), lambda2 (weights), lambda3 (correlations), lambda4 (graph).
MIXED = (1.7, 0.4, 0.3, 0.8)


def coded(T, missing):
    """Targets 0/1 with missing as negatives, or -1/0/+1."""
    return (T == 1).astype(float) if missing == "negative" else T.astype(float)


def weights_of(model):
    """``W`` and ``b`` on the scale of the targets."""
    if model.missing == "negative":
        return model.coef_.T / 2, (model.intercept_ + 1) / 2
    return model.coef_.T, model.intercept_


# ------------------------------------------------------------------------- slow definitions


def brute_smooth(X, Y, W, C, b, lambda1, lambda4):
    """The three smooth terms, entry by entry."""
    (n, d), c = X.shape, Y.shape[1]
    total = 0.0
    for i in range(n):
        for j in range(c):
            supplemented = sum(Y[i, a] * C[a, j] for a in range(c))
            score = b[j] + sum(X[i, p] * W[p, j] for p in range(d))
            total += 0.5 * (score - supplemented) ** 2
            total += 0.5 * lambda1 * (supplemented - Y[i, j]) ** 2
    for p in range(d):
        for i in range(c):
            for j in range(c):
                laplacian = (sum(C[i]) if i == j else 0.0) - C[i, j]
                total += lambda4 * W[p, i] * laplacian * W[p, j]
    return total


def best_intercept(X, Y, W, C):
    """The intercepts that cost least: only the first term has them."""
    return (Y @ C - X @ W).mean(axis=0)


def literal_lsml(X, Y, lambdas, rho, n_iter, *, whole_gradient=False):
    """The published algorithm without backtracking and without its stopping rule.

    The published gradient in ``C`` forgets that the Laplacian depends on ``C``;
    ``whole_gradient`` puts that back.
    """
    lam1, lam2, lam3, lam4 = lambdas
    d, c = X.shape[1], Y.shape[1]
    XTX, XTY, YTY = X.T @ X, X.T @ Y, Y.T @ Y
    norm = lambda A: np.linalg.norm(A, 2)  # noqa: E731
    soft = lambda A, t: np.maximum(A - t, 0) - np.maximum(-A - t, 0)  # noqa: E731
    W = W_1 = np.linalg.solve(XTX + rho * np.eye(d), XTY)
    C = C_1 = np.zeros((c, c))
    b = b_1 = 1.0
    Lip1 = 2 * norm(XTX) ** 2 + 2 * norm(XTY) ** 2 + 2 * norm((lam1 + 1) * YTY) ** 2
    for _ in range(n_iter):
        L = np.diag(C @ np.ones(c)) - C
        Lip = np.sqrt(Lip1 + 2 * norm(lam4 * (L + L.T)) ** 2)
        C_k = C + ((b_1 - 1) / b) * (C - C_1)
        slope = (lam1 + 1) * YTY @ C_k - XTY.T @ W - lam1 * YTY
        if whole_gradient:
            for i in range(c):
                for j in range(c):
                    slope[i, j] += lam4 * W[:, i] @ (W[:, i] - W[:, j])
        C_1, C = C, np.maximum(soft(C_k - slope / Lip, lam3 / Lip), 0)
        L = np.diag(C @ np.ones(c)) - C
        W_k = W + ((b_1 - 1) / b) * (W - W_1)
        slope = XTX @ W_k - XTY @ C + lam4 * W_k @ (L.T + L)
        W_1, W = W, soft(W_k - slope / Lip, lam2 / Lip)
        b_1, b = b, (1 + np.sqrt(4 * b**2 + 1)) / 2
    return W, C


def convex_optimum(X, Y, lambdas, intercept):
    """The minimum for ``lambda4 = 0``, where the problem is convex in all of W, b and C."""
    lam1, lam2, lam3, _ = lambdas
    (n, d), c = X.shape, Y.shape[1]
    W, C, b = cp.Variable((d, c)), cp.Variable((c, c), nonneg=True), cp.Variable((1, c))
    cost = 0.5 * cp.sum_squares(X @ W + np.ones((n, 1)) @ b - Y @ C)
    cost += 0.5 * lam1 * cp.sum_squares(Y @ C - Y)
    cost += lam2 * cp.sum(cp.abs(W)) + lam3 * cp.sum(C)
    problem = cp.Problem(cp.Minimize(cost), [] if intercept else [b == 0])
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == "optimal"
    return problem.value


# ------------------------------------------------------------------------------------ thresholds


@laws
@given(
    value=st.floats(-5, 5),
    threshold=st.floats(0, 3),
)
def test_the_threshold_is_the_minimum_it_stands_for(value, threshold):
    found = float(soft_threshold(np.array([[value]]), threshold)[0, 0])

    def cost(p):
        return 0.5 * (p - value) ** 2 + threshold * np.abs(p)

    grid = np.linspace(-6, 6, 4801)
    best = grid[np.argmin(cost(grid))]
    assert abs(found - best) <= 12 / 4800
    assert cost(found) <= cost(grid).min() + 1e-12


def test_the_threshold_works_entry_by_entry_and_gives_exact_zeros():
    A = np.array([[3.0, -3.0, 0.5], [-0.5, 1.0, 0.0]])
    np.testing.assert_array_equal(soft_threshold(A, 1.0), [[2, -2, 0], [0, 0, 0]])
    np.testing.assert_array_equal(soft_threshold(A, 0.0), A)


# ------------------------------------------------------------------------- inputs and objective


def test_label_laplacian_has_row_sums_on_its_diagonal():
    C = np.array([[1.0, 2.0], [5.0, 4.0]])
    np.testing.assert_array_equal(label_laplacian(C), [[2.0, -2.0], [-5.0, 5.0]])
    rng = np.random.default_rng(0)
    np.testing.assert_allclose(label_laplacian(rng.random((4, 4))).sum(axis=1), 0, atol=1e-14)


def draw_lsml(seed, shape, intercept, sparse, lambdas=MIXED, missing="neutral"):
    """Arrays, an ``Lsml`` and a point; features away from zero."""
    X, T = oracle.draw_problem(seed, *shape)
    X = X + 1.5
    X[np.abs(X) < 0.5] = 0.0
    Y = coded(T, missing)
    rng = np.random.default_rng(100 + seed)
    W, C = rng.standard_normal((shape[1], shape[2])), rng.random((shape[2], shape[2]))
    problem = Lsml(sp.csr_matrix(X) if sparse else X, Y, intercept, *lambdas)
    return X, Y, problem, W, C


every_input = pytest.mark.parametrize(
    ("shape", "intercept", "sparse"),
    [
        (shape, intercept, sparse)
        for shape in (TALL, WIDE)
        for intercept in (False, True)
        for sparse in (False, True)
    ],
)


@every_input
@pytest.mark.parametrize("seed", SEEDS)
def test_inputs_are_products_with_the_centred_features(seed, shape, intercept, sparse):
    X, Y, _, W, _ = draw_lsml(seed, shape, intercept, sparse)
    inputs = Inputs(sp.csr_matrix(X) if sparse else X, intercept)
    centred = X - X.mean(axis=0) if intercept else X
    assert (inputs.n, inputs.d) == X.shape
    np.testing.assert_allclose(inputs.scores(W), centred @ W, atol=1e-10)
    np.testing.assert_allclose(inputs.adjoint(Y), centred.T @ Y, atol=1e-10)
    np.testing.assert_allclose(inputs.gram(), centred.T @ centred, atol=1e-10)
    b = np.arange(4.0)
    scores = X @ W + inputs.intercept(W, b)
    np.testing.assert_allclose(scores, centred @ W + b, atol=1e-10)


@every_input
@pytest.mark.parametrize("seed", SEEDS)
def test_products_with_the_square_of_the_features(seed, shape, intercept, sparse):
    X, _, problem, W, _ = draw_lsml(seed, shape, intercept, sparse)
    centred = X - X.mean(axis=0) if intercept else X
    np.testing.assert_allclose(problem.gram_product(W), centred.T @ centred @ W, atol=1e-10)
    largest = np.linalg.svd(centred, compute_uv=False)[0] ** 2
    assert problem.gram_norm() == pytest.approx(largest, rel=1e-5)


@every_input
@pytest.mark.parametrize("missing", CODINGS)
@pytest.mark.parametrize("seed", SEEDS)
def test_value_is_the_formula_at_the_best_intercept(seed, missing, shape, intercept, sparse):
    X, Y, problem, W, C = draw_lsml(seed, shape, intercept, sparse, missing=missing)
    b = best_intercept(X, Y, W, C) if intercept else np.zeros(shape[2])
    lambda1, lambda2, lambda3, lambda4 = MIXED
    smooth = brute_smooth(X, Y, W, C, b, lambda1, lambda4)
    assert problem.smooth(W, C) == pytest.approx(smooth, rel=1e-10)
    norms = lambda2 * sum(abs(w) for w in W.ravel()) + lambda3 * sum(abs(v) for v in C.ravel())
    assert problem.value(W, C) == pytest.approx(smooth + norms, rel=1e-10)


@every_input
@pytest.mark.parametrize("lambda4", [0.0, 5.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_gradients_are_the_differences_of_the_smooth_part(seed, lambda4, shape, intercept, sparse):
    lambdas = (1.7, 0.4, 0.3, lambda4)
    _, _, problem, W, C = draw_lsml(seed, shape, intercept, sparse, lambdas)
    # Quadratic in each variable: central differences are exact but for rounding.
    by_W = oracle.central_differences(lambda A: problem.smooth(A, C), W, 1e-2)
    by_C = oracle.central_differences(lambda A: problem.smooth(W, A), C, 1e-2)
    np.testing.assert_allclose(problem.gradient_W(W, C), by_W, atol=1e-8 * np.abs(by_W).max())
    np.testing.assert_allclose(problem.gradient_C(W, C), by_C, atol=1e-8 * np.abs(by_C).max())


@every_input
@pytest.mark.parametrize("lambda1", [0.0, 3.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_steepness_bounds_how_fast_each_gradient_turns(seed, lambda1, shape, intercept, sparse):
    lambdas = (lambda1, 0.4, 0.3, 0.0)
    X, Y, problem, W, C = draw_lsml(seed, shape, intercept, sparse, lambdas)
    bound = np.sqrt(problem.steepness())
    rng = np.random.default_rng(seed)
    # Random directions, and the worst ones.
    centred = X - X.mean(axis=0) if intercept else X
    worst_W = np.linalg.svd(centred)[2][:1].T @ np.ones((1, shape[2]))
    worst_C = np.linalg.svd(Y)[2][:1].T @ np.ones((1, shape[2]))
    for step in (worst_W, *rng.standard_normal((5, *W.shape))):
        turned = problem.gradient_W(W + step, C) - problem.gradient_W(W, C)
        assert np.linalg.norm(turned) <= bound * np.linalg.norm(step)
    for step in (worst_C, *rng.standard_normal((5, *C.shape))):
        turned = problem.gradient_C(W, C + step) - problem.gradient_C(W, C)
        assert np.linalg.norm(turned) <= bound * np.linalg.norm(step)


@pytest.mark.parametrize("shape", [TALL, WIDE])
@pytest.mark.parametrize("seed", SEEDS)
def test_steepness_is_the_published_constant(seed, shape):
    X, Y, problem, _, _ = draw_lsml(seed, shape, False, False)
    parts = [X.T @ X, X.T @ Y, (1 + MIXED[0]) * Y.T @ Y]
    published = sum(2 * np.linalg.svd(part, compute_uv=False)[0] ** 2 for part in parts)
    assert problem.steepness() == pytest.approx(published, rel=1e-5)


# ------------------------------------------------------------------------------- the algorithm


@pytest.mark.parametrize("shape", [TALL, WIDE])
@pytest.mark.parametrize("missing", CODINGS)
@pytest.mark.parametrize(
    "lambdas", [(2.0, 0.5, 0.8, 0.0), (0.3, 0.05, 0.1, 0.0), (100.0, 0.1, 3.0, 0.0)]
)
@pytest.mark.parametrize("n_iter", [1, 2, 17])
def test_fit_is_the_published_algorithm(shape, missing, lambdas, n_iter):
    X, T = oracle.draw_problem(5, *shape)
    T[~(T != 0).any(axis=1), 0] = -1  # a row without labels would not be used
    model = LSMLClassifier(
        *lambdas, rho=0.7, missing=missing, fit_intercept=False, max_iter=n_iter, tol=0.0
    ).fit(
        X,
        oracle.as_labels(T),
    )
    W, C = literal_lsml(X, coded(T, missing), lambdas, 0.7, n_iter)
    assert model.n_iter_ == n_iter
    np.testing.assert_allclose(weights_of(model)[0], W, atol=1e-8)
    np.testing.assert_allclose(weights_of(model)[1], 0.0, atol=1e-15)
    np.testing.assert_allclose(model.correlations_, C, atol=1e-8)


@pytest.mark.parametrize("missing", CODINGS)
@pytest.mark.parametrize("lambda4", [0.1, 2.0])
def test_fit_is_the_published_algorithm_with_the_graph_in_the_gradient(missing, lambda4):
    X, T = oracle.draw_problem(6, 20, 4, 3)
    T[~(T != 0).any(axis=1), 0] = -1
    lambdas = (2.0, 0.1, 0.2, lambda4)
    model = LSMLClassifier(
        *lambdas, rho=0.7, missing=missing, fit_intercept=False, max_iter=12, tol=0.0
    ).fit(
        X,
        oracle.as_labels(T),
    )
    Y = coded(T, missing)
    W, C = literal_lsml(X, Y, lambdas, 0.7, 12, whole_gradient=True)
    np.testing.assert_allclose(weights_of(model)[0], W, atol=1e-8)
    np.testing.assert_allclose(model.correlations_, C, atol=1e-8)
    assert np.abs(C - literal_lsml(X, Y, lambdas, 0.7, 12)[1]).max() > 1e-4


@pytest.mark.parametrize("missing", CODINGS)
@pytest.mark.parametrize("shape", [TALL, WIDE])
def test_with_an_intercept_it_is_the_published_algorithm_around_the_means(missing, shape):
    """With ``lambda1 = 0`` nothing but the first term reads ``X`` and ``Y``."""
    X, T = oracle.draw_problem(5, *shape)
    X = X + 2.0
    T[~(T != 0).any(axis=1), 0] = -1
    lambdas = (0.0, 0.05, 0.1, 0.0)
    model = LSMLClassifier(*lambdas, rho=0.7, missing=missing, max_iter=9, tol=0.0).fit(
        X,
        oracle.as_labels(T),
    )
    Y = coded(T, missing)
    W, C = literal_lsml(X - X.mean(axis=0), Y - Y.mean(axis=0), lambdas, 0.7, 9)
    np.testing.assert_allclose(weights_of(model)[0], W, atol=1e-8)
    np.testing.assert_allclose(model.correlations_, C, atol=1e-8)
    np.testing.assert_allclose(weights_of(model)[1], best_intercept(X, Y, W, C), atol=1e-8)


@pytest.mark.parametrize("missing", CODINGS)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("shape", [(20, 4, 3), (8, 10, 3)])
@pytest.mark.parametrize("seed", SEEDS)
def test_without_the_graph_it_finds_the_optimum_of_cvxpy(seed, shape, intercept, missing):
    X, T = oracle.draw_problem(seed, *shape)
    X = X + 0.5
    T[~(T != 0).any(axis=1), 0] = -1
    lambdas = (2.0, 0.3, 0.2, 0.0)
    model = LSMLClassifier(
        *lambdas, rho=1.0, missing=missing, fit_intercept=intercept, tol=1e-11, max_iter=20_000
    ).fit(X, oracle.as_labels(T))
    Y = coded(T, missing)
    best = convex_optimum(X, Y, lambdas, intercept)
    W, b = weights_of(model)
    C = model.correlations_
    assert C.min() >= 0
    reached = brute_smooth(X, Y, W, C, b, lambdas[0], 0.0) + 0.3 * np.abs(W).sum() + 0.2 * C.sum()
    assert model.objective_ == pytest.approx(best, rel=1e-4)
    assert reached == pytest.approx(model.objective_, rel=1e-9)


def test_objective_history_ends_at_the_value_of_what_is_reported():
    X, T = oracle.draw_problem(1, *TALL)
    T[~(T != 0).any(axis=1), 0] = -1
    lambdas = (2.0, 0.3, 0.2, 0.5)
    model = LSMLClassifier(*lambdas, rho=1.0, max_iter=8, tol=0.0).fit(X, oracle.as_labels(T))
    W, b = weights_of(model)
    C = model.correlations_
    value = brute_smooth(X, coded(T, "negative"), W, C, b, 2.0, 0.5)
    value += 0.3 * np.abs(W).sum() + 0.2 * C.sum()
    assert model.objective_ == model.objective_history_[-1] == pytest.approx(value, rel=1e-10)
    assert len(model.objective_history_) == model.n_iter_ == 8


def test_stops_when_the_objective_changes_by_less_than_tol():
    X, T = oracle.draw_problem(0, 30, 4, 3)
    Y = oracle.as_labels(T)
    model = LSMLClassifier(2.0, 0.1, 0.1, 0.1, tol=1e-3, max_iter=500).fit(X, Y)
    history = model.objective_history_
    changes = np.abs(np.diff(history)) / history[:-1]
    assert 3 < model.n_iter_ < 500
    assert (changes[:-1] > 1e-3).all()
    assert changes[-1] <= 1e-3


def test_it_stops_after_max_iter_or_when_the_objective_settles():
    X, T = oracle.draw_problem(0, *TALL)
    assert LSMLClassifier(max_iter=3, tol=1e-9).fit(X, oracle.as_labels(T)).n_iter_ == 3
    # One value of the objective has nothing to be compared with.
    assert LSMLClassifier(max_iter=1, tol=1e9).fit(X, oracle.as_labels(T)).n_iter_ == 1
    assert LSMLClassifier(max_iter=9, tol=1e9).fit(X, oracle.as_labels(T)).n_iter_ == 2


# ------------------------------------------------------------------------------------ estimator


def test_correlations_are_not_negative_and_sparse_where_they_are_charged():
    X, T = oracle.draw_problem(2, 40, 5, 6)
    Y = oracle.as_labels(T)
    settings = {"lambda2": 0.01, "lambda4": 0.0, "tol": 1e-8, "max_iter": 20_000, "rho": 1.0}
    zeros = []
    for lambda3 in (0.0, 5.0, 1e6):
        C = LSMLClassifier(3.0, lambda3=lambda3, **settings).fit(X, Y).correlations_
        assert C.min() >= 0
        zeros.append(int((C == 0).sum()))
    assert zeros[0] < zeros[1] < zeros[2] == 36


def test_weights_are_sparse_where_they_are_charged():
    X, T = oracle.draw_problem(2, 40, 5, 6)
    Y = oracle.as_labels(T)
    settings = {"lambda3": 0.01, "lambda4": 0.0, "tol": 1e-8, "max_iter": 20_000, "rho": 1.0}
    zeros = [
        int((LSMLClassifier(3.0, lambda2, **settings).fit(X, Y).coef_ == 0).sum())
        for lambda2 in (0.0, 2.0, 1e6)
    ]
    assert zeros[0] == 0
    assert 0 < zeros[1] < zeros[2] == 30


def test_the_graph_draws_the_weights_of_correlated_labels_together():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    first = X @ [1.0, 1.0, 0.0, 0.0] + 0.8 * rng.standard_normal(60) > 0
    Y = np.c_[first, first ^ (rng.random(60) < 0.2)].astype(float)
    apart = []
    for lambda4 in (0.0, 30.0):
        model = LSMLClassifier(0.1, 1e-3, 1e-3, lambda4, tol=1e-9, max_iter=20_000).fit(X, Y)
        assert model.correlations_[0, 1] > 0
        apart.append(np.linalg.norm(model.coef_[0] - model.coef_[1]))
    assert apart[1] < 0.5 * apart[0]


def test_a_label_of_one_class_has_no_weights_and_no_correlations():
    X, T = oracle.draw_problem(3, 30, 4, 3)
    Y = oracle.as_labels(T)
    alone = LSMLClassifier(tol=0.5).fit(X, Y)
    with pytest.warns(ConstantLabelWarning):
        among = LSMLClassifier(tol=0.5).fit(X, np.insert(Y, 1, 0.0, axis=1))
    others = [0, 2, 3]
    empty = ~(T != 0).any(axis=1)
    assert not empty.any()
    np.testing.assert_allclose(among.coef_[others], alone.coef_, atol=1e-12)
    np.testing.assert_allclose(among.correlations_[np.ix_(others, others)], alone.correlations_)
    np.testing.assert_array_equal(among.coef_[1], 0.0)
    np.testing.assert_array_equal(among.correlations_[1], 0.0)
    np.testing.assert_array_equal(among.correlations_[:, 1], 0.0)
    np.testing.assert_allclose(among.predict_proba(X)[:, 1], 0.5 / 31)
    assert alone.correlations_.max() > 0


def test_nothing_to_learn_leaves_zeros():
    with pytest.warns(ConstantLabelWarning):
        model = LSMLClassifier().fit(np.eye(3, 2), np.tile([0.0, 1.0], (3, 1)))
    np.testing.assert_array_equal(model.coef_, 0.0)
    np.testing.assert_array_equal(model.correlations_, np.zeros((2, 2)))
    assert (model.n_iter_, model.objective_) == (1, 0.0)
    assert model.objective_history_.shape == (0,)


@pytest.mark.parametrize("shape", [(30, 4, 3), (10, 25, 3)])
@pytest.mark.parametrize("shift", [1.0, 1e3])
@pytest.mark.parametrize("missing", CODINGS)
def test_a_constant_added_to_the_features_does_not_change_the_scores(shape, shift, missing):
    X, T = oracle.draw_problem(4, *shape)
    Y = oracle.as_labels(T)
    model = LSMLClassifier(2.0, 0.1, 0.1, 0.1, rho=1.0, missing=missing, max_iter=25, tol=0.0)
    scores = model.fit(X, Y).decision_function(X)
    moved = X + shift * np.linspace(-1, 1, X.shape[1])
    again = model.fit(moved, Y).decision_function(moved)
    np.testing.assert_allclose(again, scores, atol=1e-5)


@pytest.mark.parametrize("shape", [(30, 4, 3), (10, 25, 3)])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("missing", CODINGS)
def test_sparse_and_dense_features_give_the_same(shape, intercept, missing):
    X, T = oracle.draw_problem(4, *shape)
    X = X + 0.7
    X[np.abs(X) < 0.6] = 0.0
    Y = oracle.as_labels(T)
    dense, sparse = (
        LSMLClassifier(
            2.0, 0.1, 0.1, 0.1, missing=missing, fit_intercept=intercept, max_iter=25, tol=0.0
        ).fit(
            A,
            Y,
        )
        for A in (X, sp.csr_matrix(X))
    )
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-6)
    np.testing.assert_allclose(sparse.intercept_, dense.intercept_, atol=1e-6)
    np.testing.assert_allclose(sparse.correlations_, dense.correlations_, atol=1e-6)
    np.testing.assert_allclose(
        sparse.decision_function(sp.csr_matrix(X)), dense.decision_function(X), atol=1e-6
    )


@pytest.mark.parametrize("shape", [(30, 4, 3), (10, 25, 3)])
def test_a_constant_added_to_sparse_features_does_not_change_the_scores(shape):
    X, T = oracle.draw_problem(4, *shape)
    Y = oracle.as_labels(T)
    model = LSMLClassifier(2.0, 0.1, 0.1, 0.1, rho=1.0, max_iter=25, tol=0.0)
    scores = model.fit(X, Y).decision_function(X)
    moved = sp.csr_matrix(X + 10.0)
    again = model.fit(moved, Y).decision_function(moved)
    np.testing.assert_allclose(again, scores, atol=1e-5)


def test_without_an_intercept_there_is_none_on_the_scale_of_the_targets():
    X, T = oracle.draw_problem(4, *TALL)
    for missing, border in (("negative", -1.0), ("neutral", 0.0)):
        model = LSMLClassifier(missing=missing, fit_intercept=False, tol=0.9)
        model.fit(X, oracle.as_labels(T))
        np.testing.assert_array_equal(model.intercept_, border)


def test_holes_are_negatives_or_neutral():
    X, T = oracle.draw_problem(7, 30, 4, 3, observed=0.6)
    T[~(T != 0).any(axis=1), 0] = -1
    missing, filled = oracle.as_labels(T), (T > 0).astype(float)
    settings = {"max_iter": 10, "tol": 0.0}
    on_holes, on_filled = (
        LSMLClassifier(missing="negative", **settings).fit(X, Y).coef_ for Y in (missing, filled)
    )
    np.testing.assert_array_equal(on_holes, on_filled)
    on_holes, on_filled = (
        LSMLClassifier(missing="neutral", **settings).fit(X, Y).coef_ for Y in (missing, filled)
    )
    assert np.abs(on_holes - on_filled).max() > 1e-3


def test_targets_follow_their_coding():
    T = np.array([[1, -1], [0, 1]], dtype=np.int8)
    ignore, neutral, negative = (
        ImputedTargets(T, how) for how in ("ignore", "neutral", "negative")
    )
    np.testing.assert_array_equal(ignore.values, T)
    np.testing.assert_array_equal(neutral.values, T)
    np.testing.assert_array_equal(negative.values, [[1, 0], [0, 1]])
    np.testing.assert_array_equal(ignore.observed, [[True, True], [False, True]])
    assert neutral.observed.all()
    assert negative.observed.all()
    coef, intercept = np.array([[3.0, -1.0]]), np.array([0.5, 1.0])
    np.testing.assert_array_equal(negative.scores(coef, intercept)[0], [[6.0, -2.0]])
    np.testing.assert_array_equal(negative.scores(coef, intercept)[1], [0.0, 1.0])
    np.testing.assert_array_equal(neutral.scores(coef, intercept)[1], intercept)


@pytest.mark.parametrize("shape", [TALL, WIDE])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_the_ridge_of_the_start_is_dense_least_squares(shape, intercept, shift):
    X, T = oracle.draw_problem(8, *shape)
    X = X + shift * intercept
    W, b = ridge(X, ImputedTargets(T, "ignore"), 0.8, intercept)
    expected_W, expected_b = oracle.masked_ridge(X, T, 0.8, intercept)
    np.testing.assert_allclose(W, expected_W, atol=1e-7)
    np.testing.assert_allclose(X @ W + b, X @ expected_W + expected_b, atol=1e-7)


def test_rho_is_the_ridge_of_the_start_only():
    X, T = oracle.draw_problem(8, 30, 4, 3)
    Y = oracle.as_labels(T)
    settings = {"lambda1": 2.0, "lambda2": 0.1, "lambda3": 0.1, "lambda4": 0.0}
    early = [LSMLClassifier(**settings, rho=rho, max_iter=1).fit(X, Y).coef_ for rho in (1e-3, 1e3)]
    late = [
        LSMLClassifier(**settings, rho=rho, tol=1e-12, max_iter=20_000).fit(X, Y).coef_
        for rho in (1e-3, 1e3)
    ]
    assert np.abs(early[0] - early[1]).max() > 0.1
    np.testing.assert_allclose(late[0], late[1], atol=1e-3)


@pytest.mark.parametrize("intercept", [False, True])
def test_features_that_say_nothing_give_the_same_finite_scores_to_all_rows(intercept):
    Y = np.array([[0, 1], [1, 0], [1, 1]])
    for X in (np.zeros((3, 2)), np.ones((3, 2))):
        scores = LSMLClassifier(fit_intercept=intercept).fit(X, Y).decision_function(X)
        assert np.isfinite(scores).all()
        np.testing.assert_allclose(scores, scores[[0, 0, 0]])


# Not strict: scipy 1.12 goes on from another vector where 1.17 gives up.
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("X", "intercept"),
    [
        (np.zeros((3, 5)), False),
        (np.zeros((3, 5)), True),
        (np.ones((3, 5)), True),
        # Rows that sum to the same, as differences or shares do.
        (np.array([[1.0, -1, 0, 0, 0], [0, 0, 2, -2, 0], [1, 1, -1, -1, 0]]), False),
        (np.array([[6.0, 4, 5, 5, 5], [5, 5, 7, 3, 5], [6, 6, 4, 4, 5]]), True),
    ],
)
def test_wide_features_whose_rows_sum_to_the_same_can_be_fitted(X, intercept, sparse):
    Y = np.array([[0, 1], [1, 0], [1, 1]])
    given = sp.csr_matrix(X) if sparse else X
    largest = np.linalg.svd(X - X.mean(axis=0) if intercept else X, compute_uv=False)[0] ** 2
    found = Lsml(given, Y.astype(float), intercept, *MIXED).gram_norm()
    assert found == pytest.approx(largest, rel=1e-5, abs=1e-12)
    model = LSMLClassifier(fit_intercept=intercept, rho=1.0).fit(given, Y)
    assert np.isfinite(model.decision_function(given)).all()


def test_it_learns():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    truth = np.where(X @ rng.standard_normal((5, 4)) > 0.3, 1, -1)
    T = np.where((truth == 1) & (rng.random(truth.shape) < 0.2), 0, truth)
    for missing in CODINGS:
        model = LSMLClassifier(missing=missing).fit(X, oracle.as_labels(T))
        assert ((model.predict(X) > 0) == (truth > 0)).mean() > 0.8


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            (name, value)
            for name in ("lambda1", "lambda2", "lambda3", "lambda4", "tol")
            for value in (-1.0, np.inf, np.nan, "a", None)
        ),
        *(("rho", value) for value in (-1.0, np.nan, "auto")),
        *(("max_iter", value) for value in (0, -3, 2.0)),
        *(("missing", value) for value in ("ignore", "positive", None)),
    ],
)
def test_bad_parameters_are_named_with_their_value(name, value):
    X, T = oracle.draw_problem(0, *TALL)
    with pytest.raises(ValueError, match=f"^{name} must .*got {re.escape(repr(value))}"):
        LSMLClassifier(**{name: value}).fit(X, oracle.as_labels(T))


def test_zero_is_a_good_value_for_every_weight():
    X, T = oracle.draw_problem(0, 30, 4, 3)
    model = LSMLClassifier(0, 0, 0, 0, rho=0).fit(X, oracle.as_labels(T))
    assert np.isfinite(model.coef_).all()


def test_verbose_prints_one_line_an_iteration_to_standard_error(capsys):
    X, T = oracle.draw_problem(0, *TALL)
    model = LSMLClassifier(max_iter=4, tol=0.0, verbose=1)
    model.fit(X, oracle.as_labels(T))
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert len(lines) == model.n_iter_ == 4
    for turn, (line, value) in enumerate(zip(lines, model.objective_history_, strict=True), 1):
        assert re.fullmatch(
            rf"\[LSML\] iteration +{turn}  objective {re.escape(f'{value:.6g}')}", line
        )
    model.set_params(verbose=0).fit(X, oracle.as_labels(T))
    assert capsys.readouterr() == ("", "")
