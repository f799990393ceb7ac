"""Sufficient statistics against loops over rows, and fits to them against fits in memory."""

from __future__ import annotations

import pickle
import tracemalloc
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import dm2l_oracles as oracle
from dm2l import ConstantLabelWarning, DM2LClassifier
from dm2l._solvers.features import Features
from dm2l._solvers.nuclear import SmoothNorm
from dm2l._solvers.objective import Objective
from dm2l._solvers.problem import Problem
from dm2l.outofcore import GramStatistics, RowBlocks, _label_grams, _statistics
from dm2l.outofcore import _fits as strategy_module
from dm2l.outofcore._fits import choose_strategy
from dm2l.outofcore._gram_problem import (
    PassProblem,
    StatisticsProblem,
    gradient_sums,
    score_sums,
    sum_over_blocks,
)
from dm2l.outofcore._source import Block
from dm2l.outofcore._statistics import RowStatistics
from dm2l.persistence import load_model, save_model

# Coupling, which takes longer than the rest on so few rows, has tests of its own.
uncoupled = partial(DM2LClassifier, coupling=None)


def make_data(seed=0, n=600, d=12, c=6, observed=0.5, far=2.0):
    """Correlated features away from zero, and labels of falling frequency with holes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ (np.eye(d) + 0.3 * rng.standard_normal((d, d)))
    scores = X @ rng.standard_normal((d, 3)) @ rng.standard_normal((3, c)) / d
    scores += 0.3 * rng.standard_normal((n, c))
    Y = (scores > np.linspace(-0.3, 0.8, c)).astype(float)
    Y[rng.random((n, c)) >= observed] = np.nan
    return X + far * rng.random(d), Y


def gather(X, T, rows=None, kind=GramStatistics):
    found = kind(X.shape[1], T.shape[1])
    rows = rows or max(1, len(T))
    for start in range(0, len(T), rows):
        found.add(X[start : start + rows], T[start : start + rows])
    return found


def signs_of(Y):
    return np.where(np.isnan(Y), 0, 2 * Y - 1).astype(np.int8)


def brute_force(X, T, offset, weights=None):
    """All sums, row by row."""
    n, d = X.shape
    c = T.shape[1]
    weights = np.ones(n) if weights is None else weights
    H, G = np.zeros((2, c, d + 1, d + 1))
    total, covered = np.zeros((2, d + 1, d + 1))
    _, _, learnt = oracle.reduce_targets(T)
    for i in range(n):
        phi = np.append(X[i] - offset, 1.0)
        outer = weights[i] * np.outer(phi, phi)
        for j in range(c):
            if T[i, j] != 0:
                H[j] += outer
            if T[i, j] == 1:
                G[j] += outer
        if any(T[i, j] != 0 for j in learnt):
            total += outer
        if any(T[i, j] == 1 for j in learnt):
            covered += outer
    return H, G, total, covered


def check_against_brute_force(found, X, T, weights=None, tol=1e-11):
    H, G, total, covered = brute_force(X, T, found.offset, weights)
    scale = max(1.0, np.abs(H).max(), np.abs(total).max())
    for one, other in ((found.H, H), (found.G, G), (found.rows.gram, total)):
        np.testing.assert_allclose(one, other, rtol=0, atol=tol * scale)
    np.testing.assert_allclose(found.positive_rows.gram, covered, rtol=0, atol=tol * scale)
    np.testing.assert_array_equal(found.positives, (T == 1).sum(axis=0))
    np.testing.assert_array_equal(found.negatives, (T == -1).sum(axis=0))


# ---------------------------------------------------------------------------------- the sums


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("observed", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("workers", [1, 3])
def test_shared_products_are_the_sums_over_rows(width, observed, workers, monkeypatch):
    monkeypatch.setattr(_label_grams, "SHARING", ((0, width),))
    monkeypatch.setattr(_statistics, "blas_thread_count", lambda: workers)
    X, Y = make_data(1, n=80, d=3, c=7, observed=observed)
    T = signs_of(Y)
    check_against_brute_force(gather(X, T), X, T)
    check_against_brute_force(gather(X, T, rows=11), X, T)


@pytest.mark.parametrize("kind", [np.asarray, np.float32, sp.csr_array, sp.csr_matrix])
def test_rows_of_any_kind_are_summed_in_double_precision(kind):
    X, Y = make_data(2, n=60, d=4, c=3)
    X, T = X.astype(np.float32).astype(np.float64), signs_of(Y)
    check_against_brute_force(gather(kind(X), T, rows=20), X, T)


def test_dense_and_sparse_blocks_mix():
    X, Y = make_data(2, n=60, d=4, c=3)
    T = signs_of(Y)
    for first, second in ((np.asarray, sp.csr_array), (sp.csr_array, np.asarray)):
        found = gather(first(X[:30]), T[:30]).add(second(X[30:]), T[30:])
        check_against_brute_force(found, X, T)


def test_columns_far_from_zero_cost_no_digits():
    X, Y = make_data(3, n=400)
    near = gather(X, signs_of(Y), 50)
    far = gather(X + 1e7, signs_of(Y), 50)
    far.move(near.offset + 1e7)
    np.testing.assert_allclose(far.rows.gram, near.rows.gram, rtol=1e-6, atol=1e-5)
    seen = ~np.isnan(Y).all(axis=1)
    np.testing.assert_allclose(far.variances(), X[seen].var(axis=0), rtol=1e-6)
    means = far.offset + far.rows.gram[-1, :-1] / far.weight
    np.testing.assert_allclose(means, 1e7 + X[seen].mean(axis=0), rtol=1e-14)


def test_rows_without_labels_and_hidden_labels_leave_no_trace():
    X, Y = make_data(4, observed=0.4)
    mask = ~np.isnan(Y)
    rng = np.random.default_rng(0)
    garbage = np.where(mask, Y, rng.integers(0, 2, size=Y.shape))
    plain = uncoupled().partial_fit(X[:300], Y[:300]).partial_fit(X[300:], Y[300:])
    masked = uncoupled()
    for part in (slice(0, 300), slice(300, None)):
        masked.partial_fit(X[part], garbage[part], label_mask=mask[part])
    for name in plain.statistics_.state():
        np.testing.assert_array_equal(
            plain.statistics_.state()[name], masked.statistics_.state()[name]
        )
    np.testing.assert_array_equal(plain.coef_, masked.coef_)
    seen = mask.any(axis=1)
    X[~seen] = 1e9
    np.testing.assert_array_equal(uncoupled().partial_fit(X, Y).coef_, masked_once(X, Y, seen))


def masked_once(X, Y, seen):
    return uncoupled().partial_fit(X[seen], Y[seen]).coef_


problems = st.integers(0, 2**32 - 1).map(
    lambda seed: (np.random.default_rng(seed), *_draw(np.random.default_rng(seed)))
)


def _draw(rng):
    n, d, c = rng.integers(2, 40), rng.integers(1, 5), rng.integers(1, 6)
    X = rng.standard_normal((n, d)) + rng.normal(scale=3, size=d)
    # Some labels with one class only, some without any.
    chances = rng.dirichlet(np.full(3, 0.7), size=c)
    T = np.stack([rng.choice([-1, 0, 1], size=n, p=p) for p in chances], axis=1)
    return X, T.astype(np.int8)


def cut(rng, n):
    borders = np.sort(rng.integers(0, n + 1, size=rng.integers(1, 6)))
    return np.split(rng.permutation(n), borders)


@given(problems)
@settings(deadline=None, max_examples=80)
def test_blocks_in_any_order_add_up_to_the_whole(problem):
    rng, X, T = problem
    parts = cut(rng, len(T))
    one_by_one = GramStatistics(X.shape[1], T.shape[1])
    for rows in parts:
        one_by_one.add(X[rows], T[rows])
    check_against_brute_force(one_by_one, X, T)
    summed = GramStatistics(X.shape[1], T.shape[1])
    for rows in parts:
        summed = summed + gather(X[rows], T[rows])
    check_against_brute_force(summed, X, T)


@given(problems)
@settings(deadline=None, max_examples=80)
def test_addition_commutes_and_subtraction_undoes_it(problem):
    rng, X, T = problem
    first, second = np.array_split(rng.permutation(len(T)), 2)
    A, B = gather(X[first], T[first]), gather(X[second], T[second])
    check_against_brute_force(A + B, X, T)
    check_against_brute_force(B + A, X, T)
    back = (A + B) - B
    np.testing.assert_array_equal(back.positives, A.positives)
    np.testing.assert_array_equal(back.negatives, A.negatives)
    back.move(A.offset)
    scale = 1e-10 * max(1.0, np.abs((A + B).H).max())
    for one, other in ((back.H, A.H), (back.G, A.G)):
        np.testing.assert_allclose(one, other, rtol=0, atol=scale)
    # What lost its last negative, or positive, cannot be told from the rest any more.
    if (A.learnable == (A + B).learnable).all():
        np.testing.assert_allclose(
            back.positive_rows.gram, A.positive_rows.gram, rtol=0, atol=scale
        )
        np.testing.assert_allclose(back.rows.gram, A.rows.gram, rtol=0, atol=scale)


@given(problems, st.floats(0.05, 1.0))
@settings(deadline=None, max_examples=40)
def test_forgetting_weighs_rows(problem, forgetting):
    rng, X, T = problem
    parts = np.array_split(rng.permutation(len(T)), 3)
    found = GramStatistics(X.shape[1], T.shape[1])
    weights = np.zeros(len(T))
    for age, rows in zip((2, 1, 0), parts, strict=True):
        found.scale(forgetting).add(X[rows], T[rows])
        weights[rows] = forgetting**age
    check_against_brute_force(found, X, T, weights)


@given(problems)
@settings(deadline=None, max_examples=20)
def test_files_give_back_every_digit(tmp_path_factory, problem):
    _, X, T = problem
    path = tmp_path_factory.mktemp("statistics") / "s.npz"
    found = gather(X, T)
    found.save(path)
    again = GramStatistics.load(path)
    for name, value in found.state().items():
        np.testing.assert_array_equal(again.state()[name], value)
    again.add(X, T)
    check_against_brute_force(again, np.tile(X, (2, 1)), np.tile(T, (2, 1)))


def test_statistics_that_announce_more_features_than_they_have_are_refused(tmp_path):
    path = tmp_path / "x.npz"
    gather(np.eye(2), np.array([[1], [-1]], dtype=np.int8)).save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(path, **arrays | {"n_features": 2**16})
    tracemalloc.start()
    with pytest.raises(ValueError, match="valid file of GramStatistics: a triangle of 65537 rows"):
        GramStatistics.load(path)
    assert tracemalloc.get_traced_memory()[1] < 2**22  # and not 32 GiB
    tracemalloc.stop()


def test_what_is_no_file_of_statistics_is_refused(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, a=np.arange(3))
    with pytest.raises(ValueError, match="not a valid file of GramStatistics"):
        GramStatistics.load(path)
    path.write_bytes(b"PK, more or less")
    with pytest.raises(ValueError, match="not a valid file of GramStatistics"):
        GramStatistics.load(path)
    found = gather(np.eye(2), np.array([[1], [-1]], dtype=np.int8))
    found.H = found.H[:, :1]
    with pytest.raises(IndexError):
        found.save(path)
    assert path.read_bytes() == b"PK, more or less"  # the file is replaced whole or not at all


def test_more_patterns_than_can_wait_are_counted_in():
    rng = np.random.default_rng(0)
    c = 12
    T = np.where(rng.random((200, c)) < 0.3, 1, 0).astype(np.int8)  # positives only
    X = rng.standard_normal((200, 3))
    found = gather(X, T, rows=20)
    assert not found.learnable.any()
    assert found.groups.any()
    check = np.einsum("i,ij,ik->jk", (T > 0).any(axis=1) * 1.0, *[_ones(X, found.offset)] * 2)
    waiting = sum(found.positive_rows.pending.values(), np.zeros_like(check))
    np.testing.assert_allclose(found.positive_rows.gram + waiting, check, atol=1e-10)


def _ones(X, offset):
    return np.column_stack([X - offset, np.ones(len(X))])


def test_what_can_be_learnt_may_be_told_before_it_is_seen():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    T = rng.choice([-1, 0, 1], size=(40, 3)).astype(np.int8)
    T[:20, 0], T[:, 2] = np.abs(T[:20, 0]), np.abs(T[:, 2])
    learnable = np.array([True, True, False])
    told = GramStatistics(3, 3)
    for rows in (slice(0, 20), slice(20, 40)):
        told.add(X[rows], T[rows], learnable)
        assert len(told.rows.each()) == 1  # nothing waits
    seen = gather(X, T * learnable)
    seen.move(told.offset)
    np.testing.assert_allclose(told.positive_rows.gram, seen.positive_rows.gram)
    np.testing.assert_allclose(told.H, seen.H)
    np.testing.assert_array_equal(told.positives, seen.positives)
    assert told.weight == seen.weight == ((T[:, :2] != 0).any(axis=1)).sum()


def test_statistics_refuse_what_does_not_belong():
    X, Y = make_data(5, n=50)
    T = signs_of(Y)
    found = gather(X, T)
    with pytest.raises(ValueError, match="12 features and 6 labels"):
        found.add(X[:, 1:], T)
    with pytest.raises(ValueError, match="T must hold signs"):
        found.add(X, T.astype(float))
    with pytest.raises(ValueError, match="T must hold signs"):
        found.add(X, 2 * T)
    for wrong in (np.nan, np.inf):
        with pytest.raises(ValueError, match="NaN or infinity"):
            found.add(np.where(X > 1, wrong, X), T)
    check_against_brute_force(found, X, T)  # as it was
    with pytest.raises(ValueError, match="must have equal n_labels, got 6 and 5"):
        found + GramStatistics(12, 5)
    with pytest.raises(TypeError, match="GramStatistics can only be combined"):
        found + gather(X, T, kind=RowStatistics)
    with pytest.raises(ValueError, match=r"statistics do not contain the block"):
        found - (found + found)
    with pytest.raises(ValueError, match="no blocks"):
        GramStatistics.gather([])
    for wrong in (0, -1, 1.5, "half", np.nan):
        with pytest.raises(ValueError, match="forgetting must be"):
            found.scale(wrong)


# ------------------------------------------------------------------------------- the objective


def three_problems(X, T, intercept, lambda_d=0.4, alpha=0.7, **terms):
    """The same problem in memory, from statistics, and by passes."""
    blocks = [Block(X[i : i + 17], T[i : i + 17]) for i in range(0, len(T), 17)]
    tally = gather(X, T, 13, RowStatistics)
    statistics = gather(X, T, 29)
    objective = Objective(T, lambda_d, **terms)
    parameters, terms = (lambda_d, alpha), terms | {"intercept": intercept}
    return (
        Problem(Features(X, intercept), objective, alpha),
        StatisticsProblem(statistics, *parameters, **terms),
        PassProblem(partial(sum_over_blocks, blocks, None), tally, *parameters, **terms),
    )


TERMS = ({}, {"discriminant": False}, {"local": False})


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("terms", TERMS, ids=str)
@pytest.mark.parametrize("shape", [(60, 5, 4), (20, 3, 9), (12, 15, 3)], ids=str)
def test_sums_give_the_objective_of_the_rows(intercept, terms, shape):
    X, T = oracle.draw_problem(0, *shape)
    X = X + 1.5
    rng = np.random.default_rng(1)
    W = 0.3 * rng.standard_normal((shape[1] + intercept, shape[2]))
    parts = (W[:-1], W[-1]) if intercept else (W, np.zeros(shape[2]))
    expected = oracle.objective(X, *parts, T, lambda_d=0.4, alpha=0.7, **terms)
    step = rng.standard_normal(W.shape)
    memory, *others = three_problems(X, T, intercept, **terms)
    at = memory.evaluate(W, SmoothNorm(1e-2), curvature=True)
    for problem in others:
        w = problem.from_original(W)
        np.testing.assert_allclose(problem.to_original(w), W, atol=1e-14)
        assert problem.exact(w) == pytest.approx(expected, rel=1e-7)
        found = problem.evaluate(w, SmoothNorm(1e-2), curvature=True)
        assert found.value == pytest.approx(at.value, rel=1e-12)
        assert found.exact == pytest.approx(expected, rel=1e-7)
        if at.curvature is not None:
            np.testing.assert_allclose(found.curvature, at.curvature, rtol=1e-8, atol=1e-10)
        # Gradients live in the variables of each problem: what they say along a step is the same.
        along = problem.from_original(W + step) - w
        slope = np.sum(found.gradient * along)
        assert slope == pytest.approx(np.sum(at.gradient * step), rel=1e-9)
        assert problem.n == len(T)
        assert problem.rho == pytest.approx((T != 0).mean(), rel=1e-14)
        assert problem.at_zero == 0.5 * np.count_nonzero(T)


@pytest.mark.parametrize("intercept", [False, True])
def test_gradients_of_sums_are_slopes(intercept):
    X, T = oracle.draw_problem(2, 30, 4, 3)
    rng = np.random.default_rng(0)
    W, step = 0.3 * rng.standard_normal((2, 4 + intercept, 3))
    for problem in three_problems(X, T, intercept)[1:]:
        for linear in (None, rng.standard_normal(W.shape)):
            values = [
                problem.evaluate(W + t * step, SmoothNorm(0.05), linear).value
                for t in (1e-5, -1e-5)
            ]
            slope = np.sum(problem.evaluate(W, SmoothNorm(0.05), linear).gradient * step)
            assert (values[0] - values[1]) / 2e-5 == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("intercept", [False, True])
def test_products_and_right_sides_are_those_of_the_rows(intercept):
    X, T = oracle.draw_problem(3, 40, 4, 3)
    X = X + 2.0
    W = np.random.default_rng(0).standard_normal((4 + intercept, 3))
    for problem in three_problems(X, T, intercept)[1:]:
        Phi = np.column_stack([X - problem.offset, np.ones(40)]) if intercept else X
        np.testing.assert_allclose(problem.gram(), Phi.T @ Phi, atol=1e-10)
        np.testing.assert_allclose(problem.right(), Phi.T @ T, atol=1e-11)
        expected = Phi.T @ ((T != 0) * (Phi @ W))
        np.testing.assert_allclose(problem.product(W), expected, atol=1e-10)


def test_a_norm_from_its_gram_matrix_is_the_norm():
    rng = np.random.default_rng(0)
    for rows, columns, rank in ((9, 4, 4), (3, 6, 3), (9, 5, 2)):
        Z = rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, columns))
        expected = SmoothNorm(1e-2)(Z, curvature=True)
        heights = np.array([rows])
        found = SmoothNorm(1e-2).of_gram(
            (Z.T @ Z)[None], heights=heights, ranks=np.minimum(heights, columns), curvature=True
        )
        assert found.value == pytest.approx(expected.value, rel=1e-12)
        np.testing.assert_allclose(Z @ found.gradient[0], expected.gradient, atol=1e-12)
        np.testing.assert_allclose(found.curvature, expected.curvature, rtol=1e-9)
        if rank == min(rows, columns):
            assert found.exact == pytest.approx(oracle.nuclear_norm(Z), rel=1e-13)


# -------------------------------------------------------------------------------- map and reduce


def test_passes_are_two_pure_functions_and_a_sum():
    X, T = oracle.draw_problem(4, 50, 4, 3)
    W = np.random.default_rng(0).standard_normal((5, 3))
    blocks = [Block(X[i : i + 9], T[i : i + 9]) for i in range(0, 50, 9)]
    before = [(x.copy(), t.copy()) for x, t, _ in blocks]
    whole = score_sums(Block(X, T), W, intercept=True)
    function = partial(score_sums, W=W, intercept=True)
    for one, other in zip(sum_over_blocks(blocks, None, function), whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    factors = np.random.default_rng(1).standard_normal((4, 3, 3))
    function = pickle.loads(
        pickle.dumps(partial(gradient_sums, W=W, factors=factors, intercept=True))
    )
    (whole,) = gradient_sums(Block(X, T), W, factors, intercept=True)
    np.testing.assert_allclose(sum_over_blocks(blocks, None, function)[0], whole, rtol=1e-11)
    for (x, t, _), (x0, t0) in zip(blocks, before, strict=True):
        np.testing.assert_array_equal(x, x0)
        np.testing.assert_array_equal(t, t0)
    # Loss and Gram matrices entry by entry.
    loss, grams = score_sums(Block(X, T), W, intercept=True)
    F = X @ W[:-1] + W[-1]
    assert loss == pytest.approx(oracle.squared_loss(F, T), rel=1e-13)
    for k in range(3):
        rows = oracle.group_rows(T, k)
        np.testing.assert_allclose(grams[k], F[rows].T @ F[rows], atol=1e-12)
    rows = oracle.covered_rows(T)
    np.testing.assert_allclose(grams[3], F[rows].T @ F[rows], atol=1e-12)


def test_any_reducer_will_do_and_traffic_does_not_grow_with_rows():
    moved = []

    def tree(blocks, _, function):
        """Pairs are added first, and what goes over the wire is counted."""
        parts = [pickle.loads(pickle.dumps(function))(block) for block in blocks]
        moved.append(sum(np.size(value) for value in parts[0]))
        while len(parts) > 1:
            parts = [
                tuple(a + b for a, b in zip(*parts[i : i + 2], strict=True))
                if i + 1 < len(parts)
                else parts[i]
                for i in range(0, len(parts), 2)
            ]
        return parts[0]

    X, T = oracle.draw_problem(5, 60, 4, 3)
    tally = gather(X, T, kind=RowStatistics)
    W = np.random.default_rng(0).standard_normal((5, 3))
    found = []
    for reducer in (sum_over_blocks, tree):
        blocks = [Block(X[i : i + 7], T[i : i + 7]) for i in range(0, 60, 7)]
        problem = PassProblem(partial(reducer, blocks, None), tally, 0.3, 0.5)
        found.append(problem.evaluate(W, SmoothNorm(1e-2)))
    np.testing.assert_allclose(found[0].gradient, found[1].gradient, rtol=1e-11)
    d, c = 5, 3
    assert moved == [1 + (c + 1) * c**2, d * c]


# ------------------------------------------------------------------------------------ the fits


def apart(one, other, X):
    return np.abs(one.decision_function(X) - other.decision_function(X)).max()


SETTINGS = (
    {},
    {"lambda_d": 1.5},
    {"lambda_d": 0.0},
    {"local": False},
    {"discriminant": False},
    {"fit_intercept": False},
    {"alpha": 0.5},
    {"solver": "cccp"},
    {"kernel": "rbf", "approximation": "fourier", "n_components": 30, "random_state": 0},
    {"kernel": "poly", "approximation": "nystroem", "n_components": 20, "random_state": 0},
)


@pytest.mark.parametrize("parameters", SETTINGS, ids=str)
@pytest.mark.parametrize("strategy", ["statistics", "passes"])
def test_every_strategy_finds_the_fit_in_memory(parameters, strategy):
    X, Y = make_data(6)
    model = uncoupled(**parameters)
    memory = clone(model).set_params(strategy="memory").fit(X, Y)
    other = clone(model).set_params(strategy=strategy).fit(X, Y)
    assert apart(memory, other, X) < 1e-8
    assert other.objective_ == pytest.approx(memory.objective_, rel=1e-9)
    assert hasattr(other, "statistics_") == (strategy == "statistics")


@pytest.mark.parametrize("seed", range(5))
def test_partial_fit_over_twenty_random_blocks_in_any_order_is_one_fit(seed):
    X, Y = make_data(7, n=1500, d=20, c=8)
    whole = uncoupled().fit(X, Y)
    rng = np.random.default_rng(seed)
    borders = np.sort(rng.choice(np.arange(1, 1500), size=19, replace=False))
    blocks = np.split(rng.permutation(1500), borders)
    assert len(blocks) == 20
    model = uncoupled()
    for rows in blocks:
        model.partial_fit(X[rows], Y[rows])
    assert apart(model, whole, X) < 1e-8
    # ... and without the last block it is as if that had never been there.
    never = uncoupled()
    for rows in blocks[:-1]:
        never.partial_fit(X[rows], Y[rows], solve=rows is blocks[-2])
    model.unlearn(X[blocks[-1]], Y[blocks[-1]])
    assert apart(model, never, X) < 1e-6
    rest = np.concatenate(blocks[:-1])
    assert apart(model, uncoupled().fit(X[rest], Y[rest]), X) < 1e-6


@pytest.mark.parametrize("strategy", ["auto", "memory", "statistics", "passes"])
def test_a_source_is_fitted_like_its_rows(strategy, tmp_path):
    X, Y = make_data(8)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    labels = pd.DataFrame(Y, columns=[f"y{j}" for j in range(Y.shape[1])]).astype("Int8")
    pd.concat([frame, labels], axis=1).to_parquet(tmp_path / "t.parquet", row_group_size=100)
    source = RowBlocks.open(tmp_path / "t.parquet", labels="y*", rows=90)
    whole = uncoupled().fit(frame, labels)
    model = uncoupled(strategy=strategy).fit(source)
    assert apart(model, whole, frame) < 1e-8
    assert list(model.feature_names_in_) == list(frame.columns)
    assert list(model.label_names_) == list(labels.columns)
    np.testing.assert_array_equal(model.predict(frame), whole.predict(frame))
    prefix = uncoupled(strategy=strategy).fit(source.head(250))
    assert apart(prefix, uncoupled().fit(frame[:250], labels[:250]), frame) < 1e-8


@pytest.mark.parametrize("strategy", ["statistics", "passes"])
def test_sparse_rows_are_fitted_like_dense_ones(strategy):
    X, Y = make_data(9, far=0.0)
    X[np.abs(X) < 1.0] = 0.0
    whole = uncoupled().fit(X, Y)
    source = RowBlocks.from_arrays(sp.csr_array(X), Y, rows=100)
    assert apart(uncoupled(strategy=strategy).fit(source), whole, X) < 1e-8


@pytest.mark.parametrize("strategy", ["statistics", "passes"])
@pytest.mark.parametrize("missing_class", [0.0, 1.0])
def test_labels_that_cannot_be_learnt_take_their_rows_with_them(strategy, missing_class):
    X, Y = make_data(10, observed=0.3)
    Y[:, 0] = np.where(Y[:, 0] == missing_class, np.nan, Y[:, 0])
    Y[:, 4] = np.nan
    with pytest.warns(ConstantLabelWarning):
        whole = uncoupled(strategy="memory").fit(X, Y)
    source = RowBlocks.from_arrays(X, Y, rows=70)
    with pytest.warns(ConstantLabelWarning):
        model = uncoupled(strategy=strategy).fit(source)
    assert apart(model, whole, X) < 1e-8
    np.testing.assert_allclose(model.intercept_, whole.intercept_, atol=1e-8)
    streamed = uncoupled()
    for i in np.random.default_rng(0).permutation(6):
        streamed.partial_fit(X[100 * i :][:100], Y[100 * i :][:100])
    assert apart(streamed, whole, X) < 1e-8


def test_a_label_that_lost_a_class_keeps_its_group_and_the_objective_its_bound():
    X, Y = make_data(11, n=200)
    Y[:, 2] = np.where(Y[:, 2] == 0, np.nan, Y[:, 2])
    X2, Y2 = make_data(12, n=200)
    model = uncoupled(lambda_d=5.0, alpha=1e-3).partial_fit(X, Y).partial_fit(X2, Y2)
    model.unlearn(X2, Y2)
    assert model.statistics_.groups[2]
    assert not model.statistics_.learnable[2]
    assert model.objective_ > 0
    positives = (Y[:, 2] == 1).sum()
    constant = 0.5 * np.log((positives + 0.5) / 0.5)
    np.testing.assert_allclose(model.decision_function(X)[:, 2], constant, rtol=1e-12)


def test_more_columns_than_rows():
    X, Y = make_data(13, n=40, d=60, c=3, observed=0.8)
    whole = uncoupled().fit(X, Y)
    for strategy in ("statistics", "passes"):
        assert apart(uncoupled(strategy=strategy).fit(X, Y), whole, X) < 1e-7


def test_single_precision_rows_are_fitted_in_double():
    X, Y = make_data(14)
    X = X.astype(np.float32)
    exact = uncoupled().fit(X.astype(np.float64), Y)
    found = uncoupled(strategy="statistics").fit(X, Y)
    assert found.coef_.dtype == np.float32
    again = uncoupled().fit_statistics(found.statistics_)
    assert apart(again, exact, X.astype(np.float64)) < 1e-8


def test_forgetting_follows_a_stream_that_turns_around():
    X, Y = make_data(15)
    turned = 1 - Y
    model, patient = uncoupled(), uncoupled()
    for labels in (Y, turned):
        model.partial_fit(X, labels, forgetting=1e-3)
        patient.partial_fit(X, labels)
    fresh = uncoupled().fit(X, turned)
    assert apart(model, fresh, X) < 0.05
    assert apart(patient, fresh, X) > 0.3
    with pytest.raises(ValueError, match="forgetting"):
        model.partial_fit(X, Y, forgetting=0.0)


def test_a_stream_of_classes():
    X, _ = make_data(16, n=300)
    y = np.array(["low", "mid", "top"])[np.digitize(X[:, 0] - X[:, 0].mean(), [-0.5, 0.5])]
    whole = uncoupled().fit(X, y)
    model = uncoupled()
    with pytest.raises(ValueError, match="classes="):
        clone(model).partial_fit(X[:10], y[:10])
    for i, rows in enumerate(np.array_split(np.argsort(y), 6)):  # class after class
        model.partial_fit(X[rows], y[rows], classes=["low", "mid", "top"] if i == 0 else None)
    assert apart(model, whole, X) < 1e-8
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    np.testing.assert_array_equal(model.classes_, whole.classes_)
    with pytest.raises(ValueError, match="'none', which is not among"):
        model.partial_fit(X[:1], ["none"])


def test_blocks_may_show_nothing():
    X, Y = make_data(17)
    model = uncoupled()
    model.partial_fit(X[:50], np.full((50, 6), np.nan))
    np.testing.assert_array_equal(model.decision_function(X), np.zeros(Y.shape))
    model.partial_fit(X, Y)
    assert apart(model, uncoupled().fit(X, Y), X) < 1e-8
    empty = RowBlocks.from_arrays(X, np.full(Y.shape, np.nan), rows=100)
    for strategy in ("memory", "statistics", "passes"):
        with pytest.raises(ValueError, match="missing in all blocks"):
            uncoupled(strategy=strategy).fit(empty)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"kernel": "rbf", "approximation": "fourier", "n_components": 20, "random_state": 0},
        {"kernel": "rbf", "approximation": "nystroem", "n_components": 20, "random_state": 0},
    ],
    ids=str,
)
def test_a_stream_goes_on_after_a_pause(parameters, tmp_path):
    X, Y = make_data(18)
    straight = uncoupled(**parameters)
    paused = {
        "pickle": lambda model: pickle.loads(pickle.dumps(model)),
        "file": lambda model: (save_model(model, tmp_path / "m"), load_model(tmp_path / "m"))[1],
    }
    models = {name: clone(straight) for name in paused}
    for rows in np.array_split(np.arange(600), 3):
        straight.partial_fit(X[rows], Y[rows])
        for name, pause in paused.items():
            models[name] = pause(models[name]).partial_fit(X[rows], Y[rows])
    for model in models.values():
        np.testing.assert_array_equal(model.decision_function(X), straight.decision_function(X))
    part = clone(straight).partial_fit(X[:200], Y[:200]).partial_fit(X[200:400], Y[200:400])
    straight.unlearn(X[400:], Y[400:])
    assert apart(part, straight, X) < 1e-6


def test_statistics_from_elsewhere_are_solved_here(tmp_path):
    X, Y = make_data(19)
    days = [
        GramStatistics.gather(RowBlocks.from_arrays(X[i : i + 200], Y[i : i + 200], rows=64))
        for i in range(0, 600, 200)
    ]
    days[1].save(tmp_path / "day.npz")
    days[1] = GramStatistics.load(tmp_path / "day.npz")
    total = days[0] + days[1] + days[2]
    model = uncoupled().fit_statistics(total)
    assert apart(model, uncoupled().fit(X, Y), X) < 1e-8
    model.fit_statistics(model.statistics_ - days[1])
    rest = np.r_[0:200, 400:600]
    assert apart(model, uncoupled().fit(X[rest], Y[rest]), X) < 1e-6
    # They were copied: what happens to them later is none of the model's business.
    total.add(X, signs_of(Y))
    assert model.statistics_.weight < total.weight


def test_statistics_handed_out_are_a_copy():
    X, Y = make_data(20)
    model = uncoupled().partial_fit(X[:300], Y[:300])
    model.statistics_.add(X, signs_of(Y))
    model.partial_fit(X[300:], Y[300:])
    assert apart(model, uncoupled().fit(X, Y), X) < 1e-8


def test_gathering_without_solving():
    X, Y = make_data(21)
    model = uncoupled().partial_fit(X[:300], Y[:300], solve=False)
    with pytest.raises(NotFittedError, match="solve"):
        model.predict(X)
    halfway = uncoupled().fit(X[:300], Y[:300])
    assert apart(clone(model).fit_statistics(model.statistics_), halfway, X) < 1e-8
    assert apart(model.fit_statistics(model.statistics_), halfway, X) < 1e-8
    model.partial_fit(X[300:], Y[300:], solve=False)
    assert apart(model, halfway, X) < 1e-8  # still the old one
    model.fit_statistics(model.statistics_)
    assert apart(model, uncoupled().fit(X, Y), X) < 1e-8


def test_names_outlive_a_solution_from_statistics():
    X, Y = make_data(29)
    frame = pd.DataFrame(X).add_prefix("x")
    labels = pd.DataFrame(Y).add_prefix("y")
    model = uncoupled().partial_fit(frame, labels)
    model.fit_statistics(model.statistics_)
    assert list(model.label_names_) == list(labels.columns)
    assert list(model.feature_names_in_) == list(frame.columns)
    assert apart(model, uncoupled().fit(frame, labels), frame) < 1e-8


def test_a_warm_start_goes_on_from_the_last_block():
    X, Y = make_data(22)
    cold, warm = uncoupled(2.0), uncoupled(2.0, warm_start=True)
    for model in (cold, warm):
        model.partial_fit(X[:590], Y[:590]).partial_fit(X[590:], Y[590:])
    assert warm.n_evaluations_ < cold.n_evaluations_
    assert warm.objective_ == pytest.approx(cold.objective_, rel=1e-4)


def test_after_a_fit_in_memory_a_new_stream_begins():
    X, Y = make_data(23)
    model = uncoupled(strategy="memory").fit(X, Y)
    with pytest.raises(AttributeError, match="strategy='statistics'"):
        _ = model.statistics_
    model.partial_fit(X[:300], Y[:300])
    assert apart(model, uncoupled().fit(X[:300], Y[:300]), X) < 1e-8
    kept = uncoupled(strategy="statistics").fit(X[:300], Y[:300])
    kept.partial_fit(X[300:], Y[300:])
    assert apart(kept, uncoupled().fit(X, Y), X) < 1e-8
    kept.set_params(strategy="memory").fit(X, Y)
    assert not hasattr(kept, "statistics_")


IMPOSSIBLE = {
    "an exact kernel": {"kernel": "rbf"},
    "precomputed": {"kernel": "precomputed"},
    "published": {"solver": "published"},
    "need all rows": {"calibration": "sigmoid"},
    "calibration, threshold rules": {"threshold": "f1"},
}


@pytest.mark.parametrize("reason", IMPOSSIBLE)
def test_models_that_need_all_rows_say_so(reason):
    X, Y = make_data(24, n=100)
    model = uncoupled(**IMPOSSIBLE[reason])
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="partial_fit") as error:
        model.partial_fit(X, Y)
    assert reason in str(error.value.__cause__)
    with pytest.raises(ValueError, match=reason):
        model.set_params(strategy="statistics").fit(RowBlocks.from_arrays(X, Y, rows=30))


def test_a_source_can_still_be_calibrated_in_memory():
    X, Y = make_data(25, n=200)
    whole = uncoupled(calibration="sigmoid", cv=3).fit(X, Y)
    model = uncoupled(calibration="sigmoid", cv=3).fit(RowBlocks.from_arrays(X, Y, rows=30))
    np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X), atol=1e-8)
    # Arrays are at hand, so their statistics do not stand in the way.
    model = uncoupled(calibration="sigmoid", cv=3, strategy="statistics").fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X), atol=1e-7)


def test_arguments_that_contradict_each_other_are_refused():
    X, Y = make_data(26, n=60)
    source = RowBlocks.from_arrays(X, Y, rows=20)
    with pytest.raises(ValueError, match="contain labels, masks and weights"):
        uncoupled().fit(source, Y)
    with pytest.raises(ValueError, match="strategy must be one of 'auto', 'memory'"):
        uncoupled(strategy="magic").fit(X, Y)
    with pytest.raises(ValueError, match=r"missing_label=-1, but the row blocks"):
        uncoupled(missing_label=-1).fit(source)
    with pytest.raises(NotFittedError, match="needs the Gram statistics"):
        uncoupled().unlearn(X, Y)
    with pytest.raises(TypeError, match="must be GramStatistics"):
        uncoupled().fit_statistics({})
    model = uncoupled().partial_fit(X[:30], Y[:30])
    with pytest.raises(ValueError, match="12 features"):
        model.partial_fit(X[:, 1:], Y)
    with pytest.raises(ValueError, match="earlier blocks had 6"):
        model.partial_fit(X, Y[:, 1:])
    with pytest.raises(ValueError, match="statistics do not contain the block"):
        model.unlearn(X, Y)
    assert apart(model, uncoupled().fit(X[:30], Y[:30]), X) < 1e-8


def test_too_few_iterations_warn_where_the_fit_was_asked_for():
    X, Y = make_data(27)
    with pytest.warns(ConvergenceWarning, match="max_iter=1") as record:
        uncoupled(3.0, max_iter=1, tol=1e-9).partial_fit(X, Y)
    assert record[0].filename == __file__


# --------------------------------------------------------------------------- choice and memory


def test_the_strategy_follows_shapes_and_memory():
    assert choose_strategy(10**6, 50, 10, max_memory=1e12) == "statistics"
    assert choose_strategy(None, 50, 10, max_memory=1e12) == "statistics"
    # Statistics of d^2 c numbers do not fit, the rows neither: the source is gone through.
    assert choose_strategy(10**7, 5_000, 100, max_memory=4e9) == "passes"
    assert choose_strategy(None, 5_000, 100, max_memory=4e9) == "passes"
    # A few rows of many columns are best kept, unless they are elsewhere.
    assert choose_strategy(500, 5_000, 100, max_memory=4e9) == "memory"
    assert choose_strategy(500, 5_000, 100, max_memory=4e9, remote=True) == "passes"
    # Nothing fits: the smallest is tried.
    assert choose_strategy(10**9, 100_000, 10, max_memory=1.0) == "passes"
    for n, d, c in ((100, 10, 5), (3_000, 462, 26), (100_000, 500, 25)):
        assert choose_strategy(n, d, c, at_hand=True, max_memory=1e12) == "memory"
    assert choose_strategy(2_000_000, 30, 10, at_hand=True, max_memory=1e12) == "statistics"
    assert choose_strategy(2_000_000, 30, 10, at_hand=True, max_memory=1e3) == "memory"


def test_very_many_rows_at_hand_are_fitted_by_their_statistics(monkeypatch):
    monkeypatch.setattr(strategy_module, "MULTIPLICATIONS", 1e8)
    X, Y = make_data(28, n=20_000, d=8, c=6)
    model = uncoupled().fit(X, Y)
    assert hasattr(model, "statistics_")
    assert apart(model, uncoupled(strategy="memory").fit(X, Y), X) < 1e-8
    few = uncoupled().fit(X[:500], Y[:500])
    assert not hasattr(few, "statistics_")


def stream(n, rows=500, d=20, c=5):
    """Rows that exist while they are looked at."""

    def read():
        for start in range(0, n, rows):
            rng = np.random.default_rng(start)
            X = rng.standard_normal((rows, d))
            T = X[:, :c] + 0.5 * rng.standard_normal((rows, c)) > 0.5
            yield X, np.where(rng.random((rows, c)) < 0.5, np.nan, T)

    return RowBlocks(read)


@pytest.mark.parametrize("strategy", ["statistics", "passes"])
def test_memory_does_not_grow_with_rows(strategy):
    peaks = []
    model = uncoupled(max_iter=2, tol=1.0, coupling=None)
    model.set_params(strategy=strategy).fit(stream(1_000))  # imports and caches
    for n in (4_000, 40_000):
        tracemalloc.start()
        model.set_params(strategy=strategy).fit(stream(n))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # Threads may hold a block more or less; 72 more blocks went by.
    block = 500 * 20 * 8
    assert peaks[1] < peaks[0] + 4 * block
    assert peaks[1] < 0.25 * 40_000 * 20 * 8


def test_small_statistics_of_a_stream_are_those_of_its_rows():
    source = stream(3_000)
    X = np.concatenate([block.X for block in source])
    T = np.concatenate([block.T for block in source])
    whole = uncoupled().fit(X, oracle.as_labels(T))
    assert apart(uncoupled().fit(source), whole, X) < 1e-8
