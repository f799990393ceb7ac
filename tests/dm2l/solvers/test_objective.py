"""The objective against loops over entries and singular value decompositions."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import dm2l_oracles as oracle
from dm2l._solvers.features import Features
from dm2l._solvers.nuclear import SmoothNorm, thresholded_nuclear_norm
from dm2l._solvers.objective import Objective
from dm2l._solvers.problem import Problem
from objective_values import objective_at

laws = settings(max_examples=150, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
MU = 0.05


def smoothed(Z):
    return oracle.smooth_nuclear_norm(Z, MU)


def targets(max_rows=9, max_labels=6):
    """Any signs at all: rows and labels with nothing observed, no positives, tail labels."""
    shape = st.tuples(st.integers(1, max_rows), st.integers(1, max_labels))
    entries = st.sampled_from([0, -1, 1])
    return hnp.arrays(np.int8, shape, elements=entries, fill=st.nothing())


def scores_for(T, seed):
    """Scores of random rank and scale."""
    rng = np.random.default_rng(seed)
    n, c = T.shape
    rank = rng.integers(1, min(n, c) + 1)
    F = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, c))
    return F * 10.0 ** rng.integers(-1, 2)


# ------------------------------------------------------------------- the bracket, and Theorem 1


@laws
@given(targets(), seeds)
def test_bracket_is_what_the_loops_say_and_never_negative_whatever_the_mask(T, seed):
    F = scores_for(T, seed)
    bracket = Objective(T, 1.0).bracket(F)
    size = oracle.nuclear_norm(F)
    assert bracket == pytest.approx(oracle.bracket(F, T), abs=1e-10 * (1 + size))
    assert bracket >= -1e-10 * size


@laws
@given(targets(), seeds)
def test_rows_without_observed_positives_do_not_enter_the_bracket(T, seed):
    F = scores_for(T, seed)
    changed = F.copy()
    uncovered = np.setdiff1d(np.arange(len(T)), oracle.covered_rows(T))
    changed[uncovered] += 100.0
    objective = Objective(T, 1.0)
    assert objective.bracket(changed) == objective.bracket(F)


def test_bracket_is_positive_where_groups_overlap_and_zero_where_they_are_orthogonal():
    T = np.array([[1, -1], [-1, 1], [0, 0]], dtype=np.int8)
    assert Objective(T, 1.0).bracket(np.eye(3, 2)) == pytest.approx(0.0, abs=1e-14)
    overlap = np.array([[1, 1], [1, 1]], dtype=np.int8)
    assert Objective(overlap, 1.0).bracket(np.eye(2)) == pytest.approx(2.0, rel=1e-14)


@pytest.mark.parametrize("row", [[0, 0], [-1, 0]])
def test_global_term_over_all_rows_has_no_lower_bound_but_over_covered_rows_it_has(row):
    # As many features as rows, so the last row, which no observed positive covers, moves alone.
    T = np.array([[1, -1], [-1, 1], row], dtype=np.int8)
    Phi = np.eye(3)
    values = {"all": [], "covered": []}
    for size in (0.0, 1e2, 1e4, 1e6):
        W = np.array([[1.0, -1.0], [-1.0, 1.0], [-1.0, size]])
        for rows, found in values.items():
            objective = Objective(T, 0.1, global_rows=rows)
            found.append(Problem(Features(Phi, False), objective, 0.0).exact(W))
            brute = oracle.objective(
                Phi, W, np.zeros(2), T, lambda_d=0.1, alpha=0.0, global_rows=rows
            )
            assert found[-1] == pytest.approx(brute, rel=1e-10)
    assert np.all(np.diff(values["all"]) < 0)
    assert values["all"][-1] < -9e4
    assert min(values["covered"]) >= 0
    assert np.ptp(values["covered"]) <= 0.5 + 1e-9  # the loss of the one observed entry, at most


def test_global_term_over_all_rows_has_no_lower_bound_with_a_gaussian_kernel():
    rng = np.random.default_rng(0)
    X, T = rng.standard_normal((6, 2)), oracle.draw_targets(rng, 6, 3, observed=0.6)
    T[2] = 0
    K = np.exp(-((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2))
    A = np.linalg.solve(K, np.eye(6))[:, [2]] @ np.array([[1.0, -1.0, 2.0]])
    problem = {
        rows: Problem(Features(K, False), Objective(T, 0.1, global_rows=rows), 0.0)
        for rows in ("all", "covered")
    }
    assert problem["all"].exact(1e6 * A) < -1e5
    assert problem["covered"].exact(1e6 * A) >= 0


# ----------------------------------------------------------------------- value and derivative


@laws
@given(targets(), seeds, st.booleans(), st.booleans(), st.sampled_from(["covered", "all"]))
def test_exact_objective_is_what_the_loops_say(T, seed, local, discriminant, rows):
    F = scores_for(T, seed)
    terms = {"local": local, "discriminant": discriminant, "global_rows": rows}
    if not oracle.covered_rows(T):
        terms["global_rows"] = "covered"  # with no group at all there is nothing to weigh against
    found = Objective(T, 0.7, **terms).exact(F)
    expected = oracle.squared_loss(F, T) + 0.7 * oracle.bracket(F, T, **terms)
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-10 * (1 + oracle.nuclear_norm(F)))


@laws
@given(targets(7, 5), seeds, st.booleans(), st.booleans())
def test_evaluation_gives_smoothed_value_exact_value_and_derivative(T, seed, local, discriminant):
    F = scores_for(T, seed)
    terms = {"local": local, "discriminant": discriminant}

    def brute(at, norm):
        return oracle.squared_loss(at, T) + 0.7 * oracle.bracket(at, T, norm=norm, **terms)

    found = objective_at(Objective(T, 0.7, **terms), F, SmoothNorm(MU))
    size = 1 + oracle.nuclear_norm(F)
    assert found.value == pytest.approx(brute(F, smoothed), rel=1e-7, abs=1e-7 * size)
    assert found.exact == pytest.approx(brute(F, oracle.nuclear_norm), rel=1e-7, abs=1e-6 * size)
    expected = oracle.central_differences(lambda at: brute(at, smoothed), F, 1e-5)
    np.testing.assert_allclose(found.gradient, expected, atol=1e-5 * size)


def features_of(kind, X):
    return {
        "dense": X,
        "csr": sp.csr_array(X),
        "csr matrix": sp.csr_matrix(X),
        "wide": X,
    }[kind]


@pytest.mark.parametrize("kind", ["dense", "csr", "csr matrix", "wide"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    ("discriminant", "linearized", "rows"),
    [
        (True, False, "covered"),
        (True, False, "all"),
        (True, True, "covered"),
        (False, False, "covered"),
    ],
)
def test_gradient_in_the_weights_is_the_derivative(kind, intercept, discriminant, linearized, rows):
    n, d, c = (6, 9, 4) if kind == "wide" else (12, 4, 5)
    X, T = oracle.draw_problem(5, n, d, c)
    T[3] = 0
    if kind.startswith("csr"):
        X = X * (np.random.default_rng(1).random(X.shape) < 0.5)
    rng = np.random.default_rng(2)
    W = rng.standard_normal((d + intercept, c))
    G = rng.standard_normal((n, c)) if linearized else None
    lambda_d, alpha = 0.4, 0.3
    objective = Objective(T, lambda_d, discriminant=discriminant, global_rows=rows)
    problem = Problem(Features(features_of(kind, X), intercept), objective, alpha)

    def brute(at, norm=smoothed):
        at = problem.features.to_original(at)
        weights, b = (at[:-1], at[-1]) if intercept else (at, np.zeros(c))
        settings = {"lambda_d": lambda_d, "alpha": alpha, "norm": norm}
        if linearized:
            return oracle.surrogate(X, weights, b, T, G, **settings)
        terms = {"discriminant": discriminant, "global_rows": rows}
        return oracle.objective(X, weights, b, T, **settings, **terms)

    found = problem.evaluate(W, SmoothNorm(MU), G)
    assert found.value == pytest.approx(brute(W), rel=1e-9)
    assert found.exact == pytest.approx(brute(W, oracle.nuclear_norm), rel=1e-6)
    if not linearized:
        assert problem.exact(W) == pytest.approx(brute(W, oracle.nuclear_norm), rel=1e-11)
    expected = oracle.central_differences(brute, W, 1e-6)
    np.testing.assert_allclose(found.gradient, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_weights_carried_to_the_given_features_and_back_give_the_same_scores(kind):
    X, _ = oracle.draw_problem(0, 8, 3, 2)
    features = Features(features_of(kind, X + 5.0), True).centre()
    W = np.random.default_rng(0).standard_normal((4, 2))
    given = features.to_original(W)
    np.testing.assert_allclose(features.scores(W), (X + 5.0) @ given[:-1] + given[-1], atol=1e-12)
    np.testing.assert_allclose(features.from_original(given), W, atol=1e-12)
    assert not np.allclose(features.scores(W), 0)


@pytest.mark.parametrize("kind", ["dense", "csr", "csr matrix"])
@pytest.mark.parametrize("rows", [None, np.array([0, 3, 4])], ids=["all", "some"])
def test_centred_features_have_the_products_of_the_centred_matrix(kind, rows):
    X, _ = oracle.draw_problem(0, 8, 3, 2)
    X = np.where(X > 0, X, 0.0)
    rng = np.random.default_rng(1)
    W, G = rng.standard_normal((4, 2)), rng.standard_normal((8, 2))
    features = Features(features_of(kind, X), True).centre()
    expected = np.column_stack([X - X.mean(axis=0), np.ones(8)])
    np.testing.assert_allclose(features.scores(W), expected @ W, atol=1e-12)
    np.testing.assert_allclose(features.adjoint(G), expected.T @ G, atol=1e-12)
    part = expected if rows is None else expected[rows]
    np.testing.assert_allclose(features.gram(rows), part.T @ part, atol=1e-12)
    assert features.centre() is features


def test_centred_products_of_float32_lose_nothing_to_a_column_far_from_zero():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3)) * (rng.random((50, 3)) < 0.5)
    X[:, 0] = 2000 + rng.integers(0, 30, 50)
    expected = np.column_stack([X - X.mean(axis=0), np.ones(50)])
    for Phi in (X.astype(np.float32), sp.csr_array(X, dtype=np.float32)):
        found = Features(Phi, True).centre().gram()
        np.testing.assert_allclose(found, expected.T @ expected, rtol=2e-4, atol=2e-2)


def test_products_stay_in_the_dtype_of_the_features():
    X, _ = oracle.draw_problem(0, 8, 3, 2)
    features = Features(X.astype(np.float32), True)
    G = np.random.default_rng(1).standard_normal((8, 2))
    np.testing.assert_array_equal(features.adjoint(G)[:3], features.adjoint(G.astype("f"))[:3])


def test_the_intercept_is_not_penalized():
    X, T = oracle.draw_problem(0, 8, 3, 2)
    W = np.zeros((4, 2))
    W[-1] = 5.0
    free, dear = (Problem(Features(X, True), Objective(T, 0.0), a) for a in (0.0, 1e6))
    assert dear.exact(W) == free.exact(W)
    W[0] = 1.0
    assert dear.exact(W) == pytest.approx(free.exact(W) + 1e6, rel=1e-12)


def test_subgradient_solver_norm_gives_the_exact_value_and_the_derivative_where_there_is_one():
    # Groups of at most c rows and scores in general position: every norm is differentiable.
    rng = np.random.default_rng(4)
    T = oracle.draw_targets(rng, 6, 7, observed=0.6, positive=0.4)
    F = rng.standard_normal(T.shape)
    found = objective_at(Objective(T, 0.5), F, partial(thresholded_nuclear_norm, delta=0.0))

    def brute(at):
        return oracle.squared_loss(at, T) + 0.5 * oracle.bracket(at, T)

    assert found.value == found.exact == pytest.approx(brute(F), rel=1e-11)
    np.testing.assert_allclose(found.gradient, oracle.central_differences(brute, F), atol=1e-6)


# ------------------------------------------------------------------------------- tail labels


@pytest.mark.parametrize("sizes", [[1, 1, 2, 3], [1, 5, 2, 9], [2, 2, 2, 2], [9, 1, 1, 1]])
def test_groups_with_fewer_rows_than_labels_give_the_value_and_gradient_of_the_loops(sizes):
    rng = np.random.default_rng(sum(sizes))
    n, c = 10, 7
    T = -np.ones((n, c), dtype=np.int8)
    T[:, len(sizes) :] = 0
    for k, size in enumerate(sizes):
        T[rng.choice(n, size, replace=False), k] = 1
    F = rng.standard_normal((n, c))
    found = objective_at(Objective(T, 0.9), F, SmoothNorm(MU))

    def brute(at):
        return oracle.squared_loss(at, T) + 0.9 * oracle.bracket(at, T, norm=smoothed)

    assert found.value == pytest.approx(brute(F), rel=1e-11)
    expected = oracle.squared_loss(F, T) + 0.9 * oracle.bracket(F, T)
    assert found.exact == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(
        found.gradient, oracle.central_differences(brute, F, 1e-5), atol=1e-6
    )


def test_a_row_that_carries_every_label_collects_the_gradient_of_every_group():
    T = np.ones((3, 6), dtype=np.int8)
    T[1, 1:] = -1
    T[2, :4] = 0
    F = np.random.default_rng(0).standard_normal((3, 6))
    found = objective_at(Objective(T, 1.0), F, SmoothNorm(MU))

    def brute(at):
        return oracle.squared_loss(at, T) + oracle.bracket(at, T, norm=smoothed)

    np.testing.assert_allclose(
        found.gradient, oracle.central_differences(brute, F, 1e-5), atol=1e-6
    )


# --------------------------------------------------------------------- the linearized global term


@laws
@given(targets(), seeds, st.sampled_from([0.0, 0.005]))
def test_global_subgradient_is_algorithm_2_on_the_covered_rows_and_zero_elsewhere(T, seed, delta):
    if not oracle.covered_rows(T):
        T[-1, 0] = 1  # the case without any is the next test
    F = np.random.default_rng(seed).standard_normal(T.shape)
    found = Objective(T, 1.0).global_subgradient(F, delta)
    np.testing.assert_allclose(found, oracle.global_subgradient(F, T, delta), atol=1e-8)


def test_global_subgradient_is_zero_without_any_observed_positive():
    T = np.array([[-1, 0], [0, -1]], dtype=np.int8)
    found = Objective(T, 1.0).global_subgradient(np.ones((2, 2)))
    np.testing.assert_array_equal(found, np.zeros((2, 2)))


@laws
@given(targets(), seeds, seeds)
def test_surrogate_majorises_the_objective_and_touches_it_where_it_was_made(T, seed, other):
    F, elsewhere = scores_for(T, seed), scores_for(T, other)
    if not oracle.covered_rows(T):
        T[0, 0] = 1
    objective = Objective(T, 0.6)
    G = objective.global_subgradient(F)
    norm = partial(thresholded_nuclear_norm, delta=0.0)
    size = 1 + oracle.nuclear_norm(F) + oracle.nuclear_norm(elsewhere)
    for at, equal in ((F, True), (elsewhere, False)):
        surrogate, exact = objective_at(objective, at, norm, G).exact, objective.exact(at)
        assert surrogate >= exact - 1e-9 * size
        if equal:
            assert surrogate == pytest.approx(exact, abs=1e-9 * size)


def test_float32_scores_give_nearly_the_float64_objective_and_gradient():
    rng = np.random.default_rng(6)
    T = oracle.draw_targets(rng, 60, 6)
    F = rng.standard_normal(T.shape)
    norm = SmoothNorm(1e-3)
    double = objective_at(Objective(T, 0.3), F, norm)
    single = objective_at(Objective(T, 0.3, like=np.float32(F)), F.astype(np.float32), norm)
    assert single.gradient.dtype == np.float32
    assert single.value == pytest.approx(double.value, rel=1e-6)
    assert single.exact == pytest.approx(double.exact, rel=1e-6)
    np.testing.assert_allclose(single.gradient, double.gradient, atol=1e-5)
