"""GLOCAL against loops, finite differences, dense solves of each block, and a literal re-run."""

from __future__ import annotations

import pickle
import re
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import dm2l_oracles as oracle
from dm2l._solvers.features import Features
from dm2l.baselines import GLOCALClassifier
from dm2l.baselines._glocal import Glocal
from dm2l.baselines._linear import weighted_grams
from dm2l.datasets import make_missing_multilabel

laws = settings(max_examples=80, deadline=None, derandomize=True)
# lambda, lambda1 (local), lambda2 (global), lambda3 (V), lambda4 (U), lambda5 (W).
MIXED = (0.7, 0.4, 0.9, 0.3, 0.2, 0.5)
STRONG = (0.7, 300.0, 500.0, 0.3, 0.2, 0.5)
SEEDS = range(3)


def gradient_U(problem, U, V, W, Z):
    return problem._curve_U(U, V, problem._middles(W, Z), Z) - problem.T.T @ V


def gradient_V(problem, U, V, W):
    missed = problem.observed * (V @ U.T) - problem.T
    apart = V - problem.features.scores(W)
    return missed @ U + problem.lam * apart + problem.lam3 * V


def gradient_W(problem, U, V, W, Z):
    return problem._curve_W(W, problem._sides(U, Z)) - problem.lam * problem.features.adjoint(V)


def gradient_Z(problem, m, U, W, Z):
    """What is left of the gradient along the unit rows."""
    steep = U @ (problem._middles(W, Z)[m] @ (U.T @ Z[m]))
    return steep - (steep * Z[m]).sum(axis=1, keepdims=True) * Z[m]


def unit_rows(A):
    return A / np.linalg.norm(A, axis=1, keepdims=True)


@dataclass
class Case:
    """A problem as plain arrays, as a ``Glocal``, and a point in it."""

    X: np.ndarray  # with the column of ones, if there is one
    ones: bool
    T: np.ndarray
    groups: np.ndarray
    weights: tuple[float, ...]
    problem: Glocal
    U: np.ndarray
    V: np.ndarray
    W: np.ndarray
    Z: list[np.ndarray]


def draw_case(seed, n=11, d=3, c=5, k=2, *, ones=True, weights=MIXED, observed=0.6, tie=True):
    X, T = oracle.draw_problem(seed, n, d, c, observed)
    rng = np.random.default_rng(1000 + seed)
    groups = np.r_[0, 4, 7, 7, rng.choice([0, 4, 7], n - 4)]  # three of unlike size and odd names
    stacked = np.c_[X, np.ones(n)] if ones else X
    problem = Glocal(Features(X, ones), T, groups, weights)
    U, V = rng.standard_normal((c, k)), rng.standard_normal((n, k))
    W = rng.standard_normal((d + ones, k))
    Z = [unit_rows(rng.standard_normal((c, k))) for _ in range(3)] if tie else []
    return Case(stacked, ones, T, groups, weights, problem, U, V, W, Z)


# ------------------------------------------------------------------------- slow definitions


def brute_value(case, U, V, W, Z):
    """The formula, entry by entry; scores of the groups instead of traces."""
    lam, lam1, lam2, lam3, lam4, lam5 = case.weights
    (n, c), k = case.T.shape, U.shape[1]
    total = 0.0
    for i in range(n):
        for j in range(c):
            if case.T[i, j] != 0:
                fitted = sum(V[i, a] * U[j, a] for a in range(k))
                total += 0.5 * (case.T[i, j] - fitted) ** 2
        for a in range(k):
            predicted = sum(case.X[i, p] * W[p, a] for p in range(case.X.shape[1]))
            total += 0.5 * lam * (V[i, a] - predicted) ** 2 + 0.5 * lam3 * V[i, a] ** 2
    total += 0.5 * lam4 * sum(u**2 for u in U.ravel())
    penalized = W[:-1] if case.ones else W
    total += 0.5 * lam5 * sum(w**2 for w in penalized.ravel())
    scores = case.X @ W @ U.T
    for group, Zm in zip(sorted(set(case.groups)), Z, strict=True) if Z else ():
        share = np.mean(case.groups == group)
        for i in range(n):
            weight = lam2 * share + (lam1 if case.groups[i] == group else 0.0)
            total += 0.5 * weight * sum((Zm[:, a] @ scores[i]) ** 2 for a in range(Zm.shape[1]))
    return total


def dense_U(case, V, W, Z):
    """Minimum over ``U`` from its normal equations, rows of ``U`` one after the other."""
    c, k = case.T.shape[1], V.shape[1]
    _, lam1, lam2, _, lam4, _ = case.weights
    maps = np.kron(np.eye(c), V)  # U -> U V'
    seen = (case.T.T != 0).ravel()
    H = maps[seen].T @ maps[seen] + lam4 * np.eye(c * k)
    for group, Zm in zip(np.unique(case.groups), Z, strict=True) if Z else ():
        mine = case.groups == group
        all_of_it, own = case.X @ W, case.X[mine] @ W
        B = lam2 * mine.mean() * all_of_it.T @ all_of_it + lam1 * own.T @ own
        H += np.kron(Zm @ Zm.T, B)
    right = maps[seen].T @ case.T.T.ravel()[seen]
    return np.linalg.solve(H, right).reshape(c, k)


def dense_V(case, U, W):
    n, k = len(case.T), U.shape[1]
    lam, lam3 = case.weights[0], case.weights[3]
    maps = np.kron(np.eye(n), U)  # V -> V U'
    seen = (case.T != 0).ravel()
    H = maps[seen].T @ maps[seen] + (lam + lam3) * np.eye(n * k)
    right = maps[seen].T @ case.T.ravel()[seen] + lam * (case.X @ W).ravel()
    return np.linalg.solve(H, right).reshape(n, k)


def dense_W(case, U, V, Z):
    k, size = U.shape[1], case.X.shape[1]
    lam, lam1, lam2, _, _, lam5 = case.weights
    penalty = np.ones(size)
    penalty[-1] = 0.0 if case.ones else 1.0
    H = np.kron(lam * case.X.T @ case.X + lam5 * np.diag(penalty), np.eye(k))
    for group, Zm in zip(np.unique(case.groups), Z, strict=True) if Z else ():
        mine = case.groups == group
        S = lam2 * mine.mean() * case.X.T @ case.X + lam1 * case.X[mine].T @ case.X[mine]
        H += np.kron(S, U.T @ Zm @ Zm.T @ U)
    return np.linalg.solve(H, lam * (case.X.T @ V).ravel()).reshape(size, k)


def tied_cost(case, m, U, W, Zm):
    """The only term that ``Z_m`` is in."""
    _, lam1, lam2, *_ = case.weights
    mine = case.groups == np.unique(case.groups)[m]
    scores = case.X @ W @ U.T @ Zm
    return 0.5 * (lam2 * mine.mean() * np.sum(scores**2) + lam1 * np.sum(scores[mine] ** 2))


def relative(error, reference):
    return np.linalg.norm(error) / np.linalg.norm(reference)


# -------------------------------------------------------------------------- value and gradients


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ones", [False, True])
@pytest.mark.parametrize("tie", [False, True])
def test_value_is_the_formula_entry_by_entry(seed, ones, tie):
    case = draw_case(seed, ones=ones, tie=tie)
    found = case.problem.value(case.U, case.V, case.W, case.Z)
    assert found == pytest.approx(brute_value(case, case.U, case.V, case.W, case.Z), rel=1e-12)


def test_intercepts_are_not_penalized():
    heavy = draw_case(0, weights=(0.7, 0.4, 0.9, 0.3, 0.2, 1e6))
    free = draw_case(0, weights=(0.7, 0.4, 0.9, 0.3, 0.2, 0.0))
    W = np.zeros_like(heavy.W)
    W[-1] = [3.0, -4.0]
    values = [case.problem.value(case.U, case.V, W, case.Z) for case in (heavy, free)]
    assert values[0] == values[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_stands_under_a_hole_of_the_labels_does_not_matter(seed):
    case = draw_case(seed)
    V, U = case.V, case.U
    fitted = np.where(case.T != 0, V @ U.T, 0.0)  # holes cost nothing, whatever V U' is there
    ridges = zip(case.weights[3:5], (V, U), strict=True)
    found = case.problem.value(U, V, case.W, []) - sum(lam / 2 * np.sum(A**2) for lam, A in ridges)
    found -= case.weights[5] / 2 * np.sum(case.W[:-1] ** 2)
    apart = V - case.X @ case.W
    expected = 0.5 * np.sum((fitted - case.T) ** 2) + 0.5 * case.weights[0] * np.sum(apart**2)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("weights", [MIXED, STRONG])
@pytest.mark.parametrize("ones", [False, True])
@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_gradients_are_the_differences_of_the_value(seed, tie, ones, weights):
    case = draw_case(seed, ones=ones, weights=weights, tie=tie)
    problem, U, V, W, Z = case.problem, case.U, case.V, case.W, case.Z
    # Quadratic in each block: central differences are exact but for rounding.
    by_U = oracle.central_differences(lambda A: problem.value(A, V, W, Z), U, 1e-2)
    by_V = oracle.central_differences(lambda A: problem.value(U, A, W, Z), V, 1e-2)
    by_W = oracle.central_differences(lambda A: problem.value(U, V, A, Z), W, 1e-2)
    assert relative(gradient_U(problem, U, V, W, Z) - by_U, by_U) < 1e-8
    assert relative(gradient_V(problem, U, V, W) - by_V, by_V) < 1e-8
    assert relative(gradient_W(problem, U, V, W, Z) - by_W, by_W) < 1e-8


@pytest.mark.parametrize("m", range(3))
@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_in_Z_is_tangent_and_the_slope_along_the_sphere(seed, m):
    case = draw_case(seed)
    problem, U, V, W, Z = case.problem, case.U, case.V, case.W, case.Z
    gradient = gradient_Z(problem, m, U, W, Z)
    lengths = np.linalg.norm(gradient, axis=1)
    assert np.abs((gradient * Z[m]).sum(axis=1)).max() < 1e-12 * lengths.max()
    assert lengths.min() > 0

    def along(E, t):
        moved = [unit_rows(A + t * E) if index == m else A for index, A in enumerate(Z)]
        return problem.value(U, V, W, moved)

    rng = np.random.default_rng(seed)
    for _ in range(5):
        E = rng.standard_normal(Z[m].shape)
        E -= (E * Z[m]).sum(axis=1, keepdims=True) * Z[m]
        slope = (along(E, 1e-5) - along(E, -1e-5)) / 2e-5
        scale = np.linalg.norm(gradient) * np.linalg.norm(E)
        assert abs(np.vdot(gradient, E) - slope) < 1e-7 * scale


# ---------------------------------------------------------------------------- U, V and W steps


@pytest.mark.parametrize("weights", [MIXED, STRONG])
@pytest.mark.parametrize("observed", [0.6, 1.0])
@pytest.mark.parametrize("ones", [False, True])
@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_steps_are_the_dense_solutions_of_their_blocks(seed, tie, ones, observed, weights):
    case = draw_case(seed, ones=ones, weights=weights, tie=tie, observed=observed)
    assert (case.T != 0).all() == (observed == 1.0)
    problem, U, V, W, Z = case.problem, case.U, case.V, case.W, case.Z
    best = dense_U(case, V, W, Z)
    assert relative(problem.step_U(U, V, W, Z) - best, best) < 1e-6
    best = dense_V(case, U, W)
    assert relative(problem.step_V(U, V, W) - best, best) < 1e-6
    best = dense_W(case, U, V, Z)
    assert relative(problem.step_W(U, V, W, Z) - best, best) < 1e-6


@pytest.mark.parametrize(
    "correlations", [(0.0, 0.0), (0.5, 2.0), (1e3, 0.0), (0.0, 1e3), (1e4, 1e4)]
)
@pytest.mark.parametrize("shape", [(40, 8, 10, 4), (20, 30, 6, 6)])
@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_steps_leave_no_gradient_and_never_ascend(seed, tie, shape, correlations):
    weights = (0.7, *correlations, 0.3, 0.2, 0.5)
    case = draw_case(seed, *shape, weights=weights, tie=tie)
    problem, U, V, W, Z = case.problem, case.U, case.V, case.W, case.Z
    before = problem.value(U, V, W, Z)

    new = problem.step_U(U, V, W, Z)
    at_zero = gradient_U(problem, np.zeros_like(U), V, W, Z)
    assert relative(gradient_U(problem, new, V, W, Z), at_zero) < 1e-6
    assert problem.value(new, V, W, Z) <= before

    new = problem.step_V(U, V, W)
    at_zero = gradient_V(problem, U, np.zeros_like(V), W)
    assert relative(gradient_V(problem, U, new, W), at_zero) < 1e-6
    assert problem.value(U, new, W, Z) <= before

    new = problem.step_W(U, V, W, Z)
    at_zero = gradient_W(problem, U, V, np.zeros_like(W), Z)
    assert relative(gradient_W(problem, U, V, new, Z), at_zero) < 1e-6
    assert problem.value(U, V, new, Z) <= before


@pytest.mark.parametrize("shape", [(40, 8, 30, 4), (40, 8, 30, 10)])
@pytest.mark.parametrize("correlations", [(100.0, 100.0), (1000.0, 0.0)])
@pytest.mark.parametrize("seed", SEEDS)
def test_strong_correlations_among_many_labels_are_solved_as_well(seed, correlations, shape):
    """More labels than latent labels: then much of ``sum_m Z_m Z_m'`` is small or zero."""
    case = draw_case(seed, *shape, weights=(1.0, *correlations, 0.3, 0.2, 0.5))
    problem, U, V, W, Z = case.problem, case.U, case.V, case.W, case.Z
    best = dense_U(case, V, W, Z)
    found = problem.step_U(U, V, W, Z)
    assert problem.value(found, V, W, Z) <= problem.value(best, V, W, Z) * (1 + 1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_strongest_correlations_of_the_published_grid_reach_the_dense_minimum(seed):
    """Steps inside a run, at ``lambda1 = lambda2 = 10`` before rescaling."""
    n, d, c, k, g = 40, 50, 20, 10, 3
    X, T = oracle.draw_problem(seed, n, d, c, 0.5)
    o = np.sum(T != 0)
    ridges = (0.125 * o / (size * k) for size in (n, c, d))
    weights = (o / (k * n), 10 * o * g**2 / n**2, 10 * o / n**2, *ridges)
    groups = np.arange(n) % g
    rng = np.random.default_rng(seed)
    U, V, W = rng.random((c, k)), rng.random((n, k)), np.zeros((d + 1, k))
    problem = Glocal(Features(X, True), T, groups, weights)
    case = Case(np.c_[X, np.ones(n)], True, T, groups, weights, problem, U, V, W, [])
    for _ in range(3):
        U = dense_U(case, V, W, [])
        V = dense_V(case, U, W)
        W = dense_W(case, U, V, [])
    Z = [unit_rows(rng.random((c, k))) for _ in range(g)]
    Z = [problem.step_Z(m, U, W, Z) for m in range(g)]
    V = dense_V(case, U, W)
    best = problem.value(dense_U(case, V, W, Z), V, W, Z)
    U = problem.step_U(U, V, W, Z)
    assert problem.value(U, V, W, Z) == pytest.approx(best, rel=1e-5)
    best = problem.value(U, V, dense_W(case, U, V, Z), Z)
    W = problem.step_W(U, V, W, Z)
    assert problem.value(U, V, W, Z) == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_step_from_its_own_minimum_stays_there(seed):
    case = draw_case(seed, weights=STRONG)
    problem, U, V, W, Z = case.problem, case.U, case.V, case.W, case.Z
    best_U, best_W = dense_U(case, V, W, Z), dense_W(case, U, V, Z)
    for new in problem.step_U(best_U, V, W, Z), problem.step_U(U + 100, V, W, Z):
        assert relative(new - best_U, best_U) < 1e-6
    for new in problem.step_W(U, V, best_W, Z), problem.step_W(U, V, W + 100, Z):
        assert relative(new - best_W, best_W) < 1e-6


@pytest.mark.parametrize("tie", [False, True])
def test_features_of_unlike_scales_are_solved_as_well(tie):
    X, T = oracle.draw_problem(0, 30, 5, 4, 0.6)
    X = X * np.logspace(-2, 2, 5)
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1, 2], 10)
    problem = Glocal(Features(X, True), T, groups, MIXED)
    U, V = rng.standard_normal((4, 2)), rng.standard_normal((30, 2))
    Z = [unit_rows(rng.standard_normal((4, 2))) for _ in range(3)] if tie else []
    W = np.zeros((6, 2))
    case = Case(np.c_[X, np.ones(30)], True, T, groups, MIXED, problem, U, V, W, Z)
    best = dense_W(case, U, V, Z)
    found = problem.step_W(U, V, W, Z)
    assert relative(case.X @ (found - best), case.X @ best) < 1e-6


# --------------------------------------------------------------------------------------- Z step


@laws
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(5, 12),
    c=st.integers(2, 8),
    k=st.integers(1, 5),
    local=st.sampled_from([0.0, 1e-6, 1.0, 1e6]),
    whole=st.sampled_from([0.0, 1e-6, 1.0, 1e6]),
    m=st.integers(0, 2),
    n_steps=st.integers(1, 4),
)
def test_steps_for_Z_keep_rows_at_length_one_and_never_ascend(
    seed, n, c, k, local, whole, m, n_steps
):
    case = draw_case(seed, n=n, c=c, k=k, weights=(0.7, local, whole, 0.3, 0.2, 0.5))
    U, W, Z = case.U, case.W, case.Z
    before = Z[m].copy()
    new = case.problem.step_Z(m, U, W, Z, n_steps)
    np.testing.assert_allclose(np.linalg.norm(new, axis=1), 1.0, rtol=1e-12)
    start = tied_cost(case, m, U, W, before)
    assert tied_cost(case, m, U, W, new) <= start * (1 + 1e-12)
    np.testing.assert_array_equal(Z[m], before)  # in place nothing changes


@pytest.mark.parametrize("m", range(3))
@pytest.mark.parametrize("seed", SEEDS)
def test_many_steps_for_Z_end_where_the_sphere_is_flat(seed, m):
    case = draw_case(seed)
    U, W, Z = case.U, case.W, list(case.Z)
    start = np.linalg.norm(gradient_Z(case.problem, m, U, W, Z))
    before = tied_cost(case, m, U, W, Z[m])
    Z[m] = case.problem.step_Z(m, U, W, Z, 5000)
    assert np.linalg.norm(gradient_Z(case.problem, m, U, W, Z)) < 1e-4 * start
    assert tied_cost(case, m, U, W, Z[m]) < 0.9 * before


def test_more_steps_for_Z_are_steps_after_steps():
    case = draw_case(1)
    U, W = case.U, case.W
    Z = list(case.Z)
    at_once = case.problem.step_Z(0, U, W, Z, 7)
    for n_steps in (3, 4):
        Z[0] = case.problem.step_Z(0, U, W, Z, n_steps)
    np.testing.assert_allclose(at_once, Z[0], rtol=1e-12)


def test_nothing_to_tie_leaves_Z_where_it_is():
    case = draw_case(0)
    still = case.problem.step_Z(1, case.U, np.zeros_like(case.W), case.Z)
    np.testing.assert_array_equal(still, case.Z[1])


# ------------------------------------------------------------------------------- weighted grams


@pytest.mark.parametrize("seed", SEEDS)
def test_weighted_grams_are_sums_over_rows(seed):
    rng = np.random.default_rng(seed)
    Z, weights = rng.standard_normal((7, 3)), rng.random((7, 4))
    expected = np.zeros((4, 3, 3))
    for j in range(4):
        for i in range(7):
            expected[j] += weights[i, j] * np.outer(Z[i], Z[i])
    np.testing.assert_allclose(weighted_grams(Z, weights), expected, rtol=1e-12, atol=1e-14)


def test_weighted_grams_of_more_rows_than_one_block_holds():
    rng = np.random.default_rng(0)
    Z, weights = rng.standard_normal((400, 200)), rng.random((400, 2))
    found = weighted_grams(Z, weights)
    for j in range(2):
        np.testing.assert_allclose(found[j], Z.T @ np.diag(weights[:, j]) @ Z, atol=1e-10)


def test_weighted_grams_of_a_single_column():
    Z, weights = np.array([[2.0], [3.0]]), np.array([[1.0, 0.0], [1.0, 0.5]])
    np.testing.assert_allclose(weighted_grams(Z, weights), [[[13.0]], [[4.5]]])


# ------------------------------------------------------------------------------------ estimator


def draw_groups_problem(seed, n=30, d=4, c=5, observed=0.7):
    """Rows in three clouds far apart, so that k-means has no choice; something seen in each."""
    X, T = oracle.draw_problem(seed, n, d, c, observed)
    empty = ~(T != 0).any(axis=1)
    T[empty, 0] = 1
    X[:, :3] += 8.0 * np.eye(3)[np.arange(n) % 3]
    return X, T


def literal_fit(X, T, parameters, *, k, g, intercept, seed, rounds):
    """GLOCAL round by round with dense solves, on weights rescaled by hand.

    The start is the library's: groups, U, V and then Z from one random state. Returns the value
    after each round with correlations, and U and W.
    """
    random = np.random.RandomState(seed)
    (n, d), c, o = X.shape, T.shape[1], np.sum(T != 0)
    groups = np.zeros(n, dtype=int)
    lam, lam1, lam2, lam3, lam4, lam5 = parameters
    if g > 1 and (lam1 or lam2):
        groups = KMeans(g, n_init=1, random_state=random).fit_predict(X)
    found = len(set(groups))
    weights = (
        lam * o / (k * n),
        lam1 * o / (n / found) ** 2,
        lam2 * o / n**2,
        lam3 * o / (n * k),
        lam4 * o / (c * k),
        lam5 * o / (d * k),
    )
    U, V = random.uniform(size=(c, k)), random.uniform(size=(n, k))
    stacked = np.c_[X, np.ones(n)] if intercept else X
    W, Z = np.zeros((stacked.shape[1], k)), []
    problem = Glocal(Features(X, intercept), T, groups, weights)
    case = Case(stacked, intercept, T, groups, weights, problem, U, V, W, Z)
    for _ in range(rounds):
        U = dense_U(case, V, W, Z)
        V = dense_V(case, U, W)
        W = dense_W(case, U, V, Z)
    if lam1 or lam2:
        Z = [unit_rows(random.uniform(size=(c, k))) for _ in range(found)]
    history = []
    for _ in range(rounds):
        for m in range(len(Z)):
            Z[m] = problem.step_Z(m, U, W, Z)
        V = dense_V(case, U, W)
        U = dense_U(case, V, W, Z)
        W = dense_W(case, U, V, Z)
        history.append(brute_value(case, U, V, W, Z))
    return history, U, W


@pytest.mark.parametrize(
    ("parameters", "k", "g"),
    [
        ((1.3, 0.6, 0.8, 0.2, 0.15, 0.1), 3, 3),
        ((0.5, 3.0, 0.0, 0.1, 0.3, 0.2), 2, 3),
        ((0.8, 0.0, 2.0, 0.2, 0.1, 0.3), 2, 3),
        ((0.8, 1.0, 2.0, 0.2, 0.1, 0.3), 2, 1),
        ((0.8, 0.0, 0.0, 0.2, 0.1, 0.3), 4, 3),
    ],
)
@pytest.mark.parametrize("observed", [0.7, 1.0])
@pytest.mark.parametrize("intercept", [False, True])
def test_fit_is_the_literal_algorithm_with_rescaled_weights(parameters, k, g, observed, intercept):
    X, T = draw_groups_problem(3, n=24, observed=observed)
    names = ("lambda_", "lambda1", "lambda2", "lambda3", "lambda4", "lambda5")
    model = GLOCALClassifier(
        **dict(zip(names, parameters, strict=True)),
        n_components=k,
        n_groups=g,
        fit_intercept=intercept,
        max_iter=3,
        tol=0.0,
        random_state=7,
    ).fit(X, oracle.as_labels(T))
    history, U, W = literal_fit(X, T, parameters, k=k, g=g, intercept=intercept, seed=7, rounds=3)
    np.testing.assert_allclose(model.objective_history_, history, rtol=1e-6)
    assert model.objective_ == model.objective_history_[-1]
    assert model.n_iter_ == 3
    weights = W @ U.T
    scores = X @ weights[:4] + (weights[4] if intercept else 0.0)
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-5)
    np.testing.assert_allclose(model.coef_, weights[:4].T, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, weights[4] if intercept else 0.0, atol=1e-5)


@pytest.mark.parametrize("shape", [(40, 5, 6), (15, 25, 4)])
@pytest.mark.parametrize("correlations", [(1e-5, 1e-3), (1.0, 10.0), (1e3, 1e3), (0.0, 0.0)])
@pytest.mark.parametrize("seed", SEEDS)
def test_objective_never_rises(seed, correlations, shape):
    X, T = oracle.draw_problem(seed, *shape, 0.6)
    model = GLOCALClassifier(
        1.0, *correlations, n_components=3, tol=0.0, max_iter=12, random_state=seed
    ).fit(X, oracle.as_labels(T))
    history = model.objective_history_
    assert len(history) == model.n_iter_ > 1
    assert (np.diff(history) <= 1e-9 * history[:-1]).all()


def test_stops_at_the_first_round_that_gains_less_than_tol():
    X, T = draw_groups_problem(0)
    Y = oracle.as_labels(T)
    settings = {"lambda2": 1.0, "n_components": 3, "random_state": 0, "max_iter": 200}
    long = GLOCALClassifier(tol=1e-5, **settings).fit(X, Y)
    gains = -np.diff(long.objective_history_) / long.objective_history_[1:]
    assert 3 < long.n_iter_ < 200
    assert (gains[:-1] > 1e-5).all()
    assert gains[-1] <= 1e-5
    assert GLOCALClassifier(tol=0.5, **settings).fit(X, Y).n_iter_ == 2


def test_random_state_fixes_the_result_and_another_one_changes_it():
    X, T = oracle.draw_problem(0, 40, 5, 6, 0.6)
    Y = oracle.as_labels(T)
    first, again, other = (
        GLOCALClassifier(n_components=3, random_state=s).fit(X, Y) for s in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.coef_, again.coef_)
    np.testing.assert_array_equal(first.objective_history_, again.objective_history_)
    assert np.abs(first.coef_ - other.coef_).max() > 0
    drawn = GLOCALClassifier(n_components=3, random_state=np.random.RandomState(0))
    np.testing.assert_array_equal(drawn.fit(X, Y).coef_, first.coef_)


@pytest.mark.parametrize("n_groups", [4, 100])
def test_more_groups_than_distinct_rows_are_as_many_as_there_are(n_groups):
    X, T = oracle.draw_problem(0, 24, 3, 4, 0.7)
    T[~(T != 0).any(axis=1), 0] = 1
    X = np.repeat(np.array([[5.0, 0.0, 0.0], [0.0, 5.0, 1.0]]), 12, axis=0)
    settings = {"lambda1": 0.5, "lambda2": 0.5, "n_components": 2, "tol": 1e-9, "max_iter": 400}
    Y = oracle.as_labels(T)
    many = GLOCALClassifier(n_groups=n_groups, random_state=0, **settings).fit(X, Y)
    two = GLOCALClassifier(n_groups=2, random_state=0, **settings).fit(X, Y)
    # lambda1 counts with the number of groups found, so this also tells how many there were.
    assert many.objective_ == pytest.approx(two.objective_, rel=1e-4)


def test_groups_do_not_matter_without_correlations():
    X, T = draw_groups_problem(0)
    Y = oracle.as_labels(T)
    one, three = (
        GLOCALClassifier(lambda1=0, lambda2=0, n_groups=g, random_state=0).fit(X, Y) for g in (1, 3)
    )
    np.testing.assert_array_equal(one.coef_, three.coef_)


def test_correlations_change_the_scores():
    X, T = draw_groups_problem(0)
    Y = oracle.as_labels(T)
    plain = GLOCALClassifier(lambda1=0, lambda2=0, random_state=0).fit(X, Y)
    for tied in ({"lambda1": 1.0, "lambda2": 0}, {"lambda1": 0, "lambda2": 1.0}):
        model = GLOCALClassifier(**tied, random_state=0).fit(X, Y)
        assert np.abs(model.coef_ - plain.coef_).max() > 1e-3


def test_scores_have_the_rank_of_the_latent_labels():
    X, T = draw_groups_problem(1, n=40, d=6, c=5)
    Y = oracle.as_labels(T)
    for k in (1, 2):
        model = GLOCALClassifier(n_components=k, random_state=0).fit(X, Y)
        scores = model.decision_function(X)
        np.testing.assert_allclose(scores, X @ model.coef_.T + model.intercept_)
        assert np.linalg.matrix_rank(np.c_[model.coef_, model.intercept_], tol=1e-8) == k
        assert np.linalg.matrix_rank(scores, tol=1e-8) == k


def test_no_more_latent_labels_than_labels():
    X, T = draw_groups_problem(1)
    Y = oracle.as_labels(T)
    at_most, exact = (GLOCALClassifier(n_components=k, random_state=0).fit(X, Y) for k in (50, 5))
    np.testing.assert_array_equal(at_most.coef_, exact.coef_)


@pytest.mark.parametrize("shape", [(30, 4, 5), (14, 30, 4)])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("tied", [(0.0, 0.0), (0.5, 2.0)])
def test_sparse_and_dense_features_give_the_same(shape, intercept, tied):
    X, T = draw_groups_problem(2, *shape)
    X[np.abs(X) < 0.4] = 0.0
    Y = oracle.as_labels(T)
    settings = {"n_components": 3, "fit_intercept": intercept, "max_iter": 5, "tol": 0.0}
    dense, sparse = (
        GLOCALClassifier(1.0, *tied, random_state=0, **settings).fit(A, Y)
        for A in (X, sp.csr_matrix(X))
    )
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-5)
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(sparse.objective_history_, dense.objective_history_, rtol=1e-6)


@pytest.mark.parametrize("intercept", [False, True])
def test_more_columns_than_rows_are_the_literal_algorithm_too(intercept):
    X, T = draw_groups_problem(5, n=10, d=14, c=4)
    parameters = (1.0, 0.3, 0.5, 0.2, 0.2, 0.2)
    model = GLOCALClassifier(
        *parameters, n_components=2, fit_intercept=intercept, max_iter=3, tol=0.0, random_state=1
    ).fit(X, oracle.as_labels(T))
    history, U, W = literal_fit(X, T, parameters, k=2, g=3, intercept=intercept, seed=1, rounds=3)
    weights = W @ U.T
    np.testing.assert_allclose(model.objective_history_, history, rtol=1e-6)
    np.testing.assert_allclose(model.coef_, weights[:14].T, atol=1e-5)


@pytest.mark.parametrize("shape", [(30, 4, 5), (14, 30, 4)])
@pytest.mark.parametrize("shift", [1.0, 1e6])
def test_a_constant_added_to_the_features_does_not_change_the_scores(shape, shift):
    X, T = draw_groups_problem(4, *shape)
    Y = oracle.as_labels(T)
    model = GLOCALClassifier(1.0, 0.1, 0.5, n_components=3, max_iter=5, tol=0.0, random_state=0)
    scores = model.fit(X, Y).decision_function(X)
    moved = X + shift * np.linspace(-1, 1, X.shape[1])
    np.testing.assert_allclose(model.fit(moved, Y).decision_function(moved), scores, atol=1e-5)


@pytest.mark.parametrize("shape", [(30, 4, 5), (14, 30, 4)])
def test_a_constant_added_to_sparse_features_does_not_change_the_scores(shape):
    X, T = draw_groups_problem(4, *shape)
    Y = oracle.as_labels(T)
    model = GLOCALClassifier(1.0, 0.1, 0.5, n_components=3, max_iter=5, tol=0.0, random_state=0)
    scores = model.fit(X, Y).decision_function(X)
    moved = sp.csr_matrix(X + 10.0)
    np.testing.assert_allclose(model.fit(moved, Y).decision_function(moved), scores, atol=1e-5)


def test_without_an_intercept_there_is_none():
    X, T = draw_groups_problem(4)
    model = GLOCALClassifier(fit_intercept=False, random_state=0).fit(X, oracle.as_labels(T))
    np.testing.assert_array_equal(model.intercept_, 0.0)
    np.testing.assert_array_equal(model.decision_function(np.zeros((2, 4))), 0.0)


def test_rows_without_labels_and_labels_without_classes_do_not_count():
    X, T = draw_groups_problem(6)
    Y = oracle.as_labels(T)
    alone = GLOCALClassifier(random_state=0).fit(X, Y)
    more = np.c_[np.r_[Y, np.full((3, 5), np.nan)], np.r_[np.ones(30), np.full(3, np.nan)]]
    with pytest.warns(match="only one observed class|constant"):
        among = GLOCALClassifier(random_state=0).fit(np.r_[X, 100 + X[:3]], more)
    np.testing.assert_allclose(among.coef_[:5], alone.coef_, atol=1e-12)
    np.testing.assert_array_equal(among.coef_[5], 0.0)
    assert (among.predict_proba(X)[:, 5] > 0.95).all()


@pytest.mark.parametrize("X", [np.zeros((3, 2)), np.zeros((3, 5)), np.ones((3, 5))])
@pytest.mark.parametrize("intercept", [False, True])
def test_features_that_say_nothing_give_the_same_finite_scores_to_all_rows(X, intercept):
    Y = np.array([[0, 1], [1, 0], [1, 1]])
    model = GLOCALClassifier(fit_intercept=intercept, random_state=0).fit(X, Y)
    scores = model.decision_function(X)
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(scores, scores[[0, 0, 0]])


def test_it_learns():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    truth = np.where(X @ rng.standard_normal((5, 4)) > 0.3, 1, -1)
    T = truth * (rng.random(truth.shape) < 0.5)
    model = GLOCALClassifier(random_state=0).fit(X, oracle.as_labels(T))
    assert ((model.predict(X) > 0) == (truth > 0))[T == 0].mean() > 0.88


def test_a_parameter_that_ends_in_an_underscore_does_not_make_it_fitted():
    with pytest.raises(NotFittedError):
        check_is_fitted(GLOCALClassifier())
    with pytest.raises(NotFittedError):
        GLOCALClassifier().predict(np.zeros((2, 2)))
    X, T = draw_groups_problem(0)
    check_is_fitted(GLOCALClassifier(random_state=0).fit(X, oracle.as_labels(T)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in ("lambda1", "lambda2", "tol") for value in (-1.0, np.nan, "a")),
        *((f"lambda{i}", value) for i in ("_", 3, 4, 5) for value in (0.0, -1.0, np.inf)),
        *((f"n_{what}", value) for what in ("components", "groups") for value in (0, 1.5)),
        ("max_iter", 0),
        ("max_iter", 2.0),
    ],
)
def test_bad_parameters_are_named_with_their_value(name, value):
    X, T = draw_groups_problem(0)
    with pytest.raises(ValueError, match=f"^{name} must .*got {re.escape(repr(value))}"):
        GLOCALClassifier(**{name: value}).fit(X, oracle.as_labels(T))


def test_verbose_prints_one_line_a_round_to_standard_error(capsys):
    X, T = draw_groups_problem(0)
    model = GLOCALClassifier(random_state=0, tol=0.0, max_iter=4, verbose=1)
    model.fit(X, oracle.as_labels(T))
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert len(lines) == model.n_iter_ == 4
    for round_, (line, value) in enumerate(zip(lines, model.objective_history_, strict=True), 1):
        assert re.fullmatch(
            rf"\[GLOCAL\] iteration +{round_}  objective {re.escape(f'{value:.6g}')}", line
        )
    model.set_params(verbose=0).fit(X, oracle.as_labels(T))
    assert capsys.readouterr() == ("", "")


def test_sparse_features_may_have_64_bit_indices():
    X, Y = make_missing_multilabel(60, 10, 6, random_state=0)
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    model = GLOCALClassifier(random_state=0)
    expected = model.fit(sp.csr_array(X), Y).decision_function(X)
    np.testing.assert_array_equal(model.fit(wide, Y).decision_function(X), expected)


@pytest.mark.parametrize("intercept", [False, True])
def test_features_that_are_all_zero_give_constant_scores(intercept):
    Y = make_missing_multilabel(60, 10, 6, random_state=0)[1]
    model = GLOCALClassifier(fit_intercept=intercept, random_state=0).fit(np.zeros((60, 4)), Y)
    scores = model.decision_function(np.ones((3, 4)))
    np.testing.assert_allclose(scores - scores[:1], 0.0, atol=1e-12)


def test_a_model_does_not_grow_with_the_rows_it_was_fitted_to():
    sizes = []
    for n in (100, 1000):
        X, Y = make_missing_multilabel(n, 10, 6, random_state=0)
        sizes.append(len(pickle.dumps(GLOCALClassifier(random_state=0).fit(X, Y))))
    assert abs(sizes[1] - sizes[0]) < 300
