"""Stacks of matrices give what the matrices give one by one: norms, curvature, objective."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import dm2l_oracles as oracle
from dm2l._solvers.nuclear import SmoothNorm, thresholded_nuclear_norm
from dm2l._solvers.objective import Groups, Objective
from dm2l._utils.arrays import run_all
from objective_values import objective_at

laws = settings(max_examples=100, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
MU = 0.05
NORMS = {
    "smooth": SmoothNorm(MU),
    "thresholded": partial(thresholded_nuclear_norm, delta=0.1),
}
norms = pytest.mark.parametrize("name", NORMS)
# Rows, columns and rank: tall, square and wide, of full rank, deficient and zero.
SHAPES = [(9, 4, 4), (9, 4, 2), (5, 5, 5), (5, 5, 3), (4, 9, 4), (4, 9, 2), (1, 3, 1), (6, 1, 1)]
SHAPES += [(3, 1, 0), (1, 4, 0), (4, 4, 0)]
shapes = pytest.mark.parametrize(("n", "c", "rank"), SHAPES)


def draw(rng, n, c, rank):
    """A matrix whose singular values that are not zero are of the size of one."""
    U, _ = np.linalg.qr(rng.standard_normal((n, max(rank, 1))))
    V, _ = np.linalg.qr(rng.standard_normal((c, max(rank, 1))))
    return (U[:, :rank] * rng.uniform(0.3, 3.0, rank)) @ V[:, :rank].T


def curvature(Z, mu):
    """``V diag_j(sum_i 1/(s_i' + s_j')) V'`` over all rows i and columns j, by a full SVD."""
    n, c = Z.shape
    _, s, Vt = np.linalg.svd(Z, full_matrices=True)
    left, right = np.zeros(n), np.zeros(c)
    left[: len(s)], right[: len(s)] = s, s
    left, right = np.sqrt(left**2 + mu**2), np.sqrt(right**2 + mu**2)
    weights = [sum(1.0 / (left[i] + right[j]) for i in range(n)) for j in range(c)]
    return Vt.T @ np.diag(weights) @ Vt


def stack_of(matrices, height):
    """The matrices one above the other, filled with zero rows to a common height."""
    filled = np.zeros((len(matrices), height, matrices[0].shape[1]))
    for k, Z in enumerate(matrices):
        filled[k, : len(Z)] = Z
    return filled


# -------------------------------------------------------------------------------------- norms


@norms
@shapes
def test_a_stack_has_the_summed_norm_and_the_gradient_of_each_matrix(name, n, c, rank):
    rng = np.random.default_rng(0)
    matrices = [draw(rng, n, c, rank) for _ in range(3)] + [np.zeros((n, c))]
    whole = NORMS[name](np.stack(matrices))
    parts = [NORMS[name](Z) for Z in matrices]
    assert whole.value == pytest.approx(sum(part.value for part in parts), rel=1e-12)
    assert whole.exact == pytest.approx(sum(part.exact for part in parts), rel=1e-12)
    assert whole.exact == pytest.approx(sum(map(oracle.nuclear_norm, matrices)), abs=1e-6)
    for k, part in enumerate(parts):
        np.testing.assert_allclose(whole.gradient[k], part.gradient, rtol=0, atol=1e-12)


def test_each_matrix_of_a_stack_is_thresholded_by_its_own_largest_singular_value():
    # 1e-14 is nothing beside 1, but all there is in a matrix of its own.
    whole = thresholded_nuclear_norm(np.stack([np.diag([1.0, 1e-14]), 1e-14 * np.eye(2)]), 0.0)
    np.testing.assert_allclose(whole.gradient, [np.diag([1.0, 0.0]), np.eye(2)], rtol=0, atol=1e-12)


@norms
@pytest.mark.parametrize("height", [7, 8, 20])
@shapes
def test_filling_with_zero_rows_changes_nothing(name, n, c, rank, height):
    rng = np.random.default_rng(1)
    Z = draw(rng, min(n, 7), c, min(rank, 7))
    filled = NORMS[name](stack_of([Z], height))
    plain = NORMS[name](Z)
    # Near zero an eigenvalue of the Gram matrix gives half the digits of a singular value.
    assert filled.value == pytest.approx(plain.value, abs=1e-12)
    assert filled.exact == pytest.approx(plain.exact, abs=1e-6)
    np.testing.assert_allclose(filled.gradient[0, : len(Z)], plain.gradient, rtol=0, atol=1e-11)
    np.testing.assert_allclose(filled.gradient[0, len(Z) :], 0.0, rtol=0, atol=1e-12)


@norms
@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 0, 3), (2, 3, 0)])
def test_a_stack_without_entries_has_norm_zero(name, shape):
    norm = NORMS[name](np.zeros(shape))
    assert norm.value == norm.exact == 0.0
    assert norm.gradient.shape == shape


def test_a_float32_stack_keeps_its_dtype_and_nearly_its_digits():
    Z = np.random.default_rng(0).standard_normal((3, 6, 4))
    single = SmoothNorm(1e-3)(Z.astype(np.float32))
    assert single.gradient.dtype == np.float32
    double = SmoothNorm(1e-3)(Z)
    assert single.value == pytest.approx(double.value, rel=1e-6)
    np.testing.assert_allclose(single.gradient, double.gradient, rtol=0, atol=1e-5)


# ---------------------------------------------------------------------------------- curvature


@pytest.mark.parametrize("mu", [1.0, 0.05, 1e-3])
@shapes
def test_curvature_is_the_hessian_averaged_over_the_left_singular_vectors(n, c, rank, mu):
    Z = draw(np.random.default_rng(n * c), n, c, rank)
    found = SmoothNorm(mu)(Z, curvature=True)
    expected = curvature(Z, mu)
    np.testing.assert_allclose(
        found.curvature, expected, rtol=0, atol=1e-8 * np.abs(expected).max()
    )
    plain = SmoothNorm(mu)(Z)
    assert plain.curvature is None
    assert found.value == plain.value
    np.testing.assert_array_equal(found.gradient, plain.gradient)


def test_curvature_of_many_labels_has_the_digits_of_single_precision():
    Z = draw(np.random.default_rng(0), 40, 120, 30)
    expected = curvature(Z, 0.05)
    found = SmoothNorm(0.05)(Z, curvature=True).curvature
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    assert found.dtype == np.float64


@pytest.mark.parametrize("mu", [0.5, 0.1])
@pytest.mark.parametrize(("n", "c", "rank"), [(5, 4, 2), (3, 4, 3), (6, 3, 3)])
def test_curvature_is_within_a_factor_of_two_of_second_differences(n, c, rank, mu):
    # Along u_i v_j' the second derivative is (1 + mu^2 / (s_i' s_j')) / (s_i' + s_j') for i != j
    # and mu^2 / s_j'^3 for i = j. The model leaves out the second term of the one and puts
    # 1 / (2 s_j') for the other.
    rng = np.random.default_rng(n)
    Z, h = draw(rng, n, c, rank), 1e-4
    H = SmoothNorm(mu)(Z, curvature=True).curvature
    _, s, Vt = np.linalg.svd(Z)
    s = np.concatenate([s, np.zeros(c - len(s))])
    own = Vt.T @ np.diag(0.5 / np.sqrt(s**2 + mu**2)) @ Vt
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))  # any basis of the rows will do
    for direction in (*np.eye(c), rng.standard_normal(c)):
        steps = [h * np.outer(q, direction) for q in Q.T]
        up, at, down = (
            sum(oracle.smooth_nuclear_norm(Z + sign * step, mu) for step in steps)
            for sign in (1, 0, -1)
        )
        second = (up - 2 * at + down) / h**2
        assert second <= 2 * direction @ H @ direction + 1e-5
        assert second >= direction @ (H - own) @ direction - 1e-5


@pytest.mark.parametrize("c", [2, 5, 8, 12])
@pytest.mark.parametrize("heights", [[6, 6, 6], [5, 7, 6, 8], [1, 8], [3]], ids=str)
@pytest.mark.parametrize("height", [8, 13])
def test_with_heights_a_filled_stack_has_the_summed_curvature_of_the_unfilled(c, heights, height):
    rng = np.random.default_rng(c)
    matrices = [draw(rng, n, c, max(1, min(n, c) - k)) for k, n in enumerate(heights)]
    found = SmoothNorm(MU)(stack_of(matrices, height), curvature=True, heights=np.array(heights))
    expected = sum(curvature(Z, MU) for Z in matrices)
    np.testing.assert_allclose(
        found.curvature, expected, rtol=0, atol=1e-8 * np.abs(expected).max()
    )
    unfilled = [SmoothNorm(MU)(Z, curvature=True).curvature for Z in matrices]
    np.testing.assert_allclose(
        found.curvature, sum(unfilled), rtol=0, atol=1e-8 * np.abs(expected).max()
    )
    if min(heights) < height:
        blind = SmoothNorm(MU)(stack_of(matrices, height), curvature=True).curvature
        assert not np.allclose(blind, expected, rtol=1e-3)


@pytest.mark.parametrize("shape", [(0, 3), (4, 0, 3), (0, 2, 3)])
def test_curvature_of_no_rows_is_zero(shape):
    norm = SmoothNorm(MU)(np.zeros(shape), curvature=True)
    np.testing.assert_array_equal(norm.curvature, np.zeros((3, 3)))


# ------------------------------------------------------------------------------------- groups


def signs(max_rows=12, max_labels=8):
    """Any signs at all, labels without positives and rows without any included."""
    shape = st.tuples(st.integers(1, max_rows), st.integers(1, max_labels))
    return hnp.arrays(np.int8, shape, elements=st.sampled_from([0, -1, 1]), fill=st.nothing())


paddings = st.sampled_from([1.0, 1.1, 2.0, 100.0])


@laws
@given(signs(), paddings)
def test_every_group_is_in_one_stack_once_and_fillers_point_past_the_end(T, padding):
    groups = Groups(T, padding)
    end = len(groups.covered)
    assert sorted(groups.covered) == oracle.covered_rows(T)
    found = []
    for stack in groups.stacks:
        assert stack.shape[1] >= 1
        sizes = [int((rows < end).sum()) for rows in stack]
        for rows, size in zip(stack, sizes, strict=True):
            assert (rows[size:] == end).all()
            found.append(sorted(groups.covered[rows[:size]].tolist()))
        assert max(sizes) == stack.shape[1]
        # Tiny groups, and those whose eigh is that of the labels, may be filled up more.
        labels, least = T.shape[1], min(sizes)
        most = max(padding, 2.0) if labels <= least <= 10 * labels else padding
        assert max(sizes) <= max(most * least, min(16, labels))
    expected = [oracle.group_rows(T, k) for k in range(T.shape[1])]
    assert sorted(found) == sorted(rows for rows in expected if rows)


@laws
@given(signs())
def test_uncovered_rows_point_past_the_end_and_covered_ones_to_themselves(T):
    groups = Groups(T)
    for row, place in enumerate(groups.place):
        covered = (T[row] == 1).any()
        assert groups.covered[place] == row if covered else place == len(groups.covered)


@laws
@given(signs(), paddings, seeds)
def test_sum_back_adds_each_row_of_each_stack_where_it_came_from(T, padding, seed):
    groups = Groups(T, padding)
    if not groups.stacks:
        assert not len(groups.covered)
        return
    rng = np.random.default_rng(seed)
    end = len(groups.covered)
    # Fillers hold something too: their rows of the gradient are zero only up to rounding.
    rows = np.concatenate([stack.ravel() for stack in groups.stacks])
    stacked = rng.standard_normal((len(rows), 3))
    expected = np.zeros((end + 1, 3))
    np.add.at(expected, rows, stacked)
    before = stacked.copy()
    np.testing.assert_allclose(groups.sum_back(stacked), expected[:end], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(stacked, before)


def test_many_groups_of_one_size_share_stacks_and_no_stack_holds_most_of_the_work():
    rng = np.random.default_rng(0)
    T = -np.ones((300, 160), dtype=np.int8)
    for k in range(160):
        T[rng.choice(300, 60, replace=False), k] = 1
    stacks = Groups(T).stacks
    assert 16 <= len(stacks) <= 24
    assert max(len(stack) for stack in stacks) == 10
    assert len(Groups(T, padding=2.0).stacks) == 1  # an accelerator takes them all at once
    assert len(Groups(T[:, :8]).stacks) == 1  # too little work to share out


def test_the_costliest_stack_comes_first():
    T = -np.ones((100, 5), dtype=np.int8)
    for k, size in enumerate([3, 90, 10, 40, 11]):
        T[:size, k] = 1
    assert [stack.shape[1] for stack in Groups(T, 1.0).stacks] == [90, 40, 11, 3]


# ---------------------------------------------------------------------------------- objective


def scored(seed, n, c, observed=0.8):
    rng = np.random.default_rng(seed)
    T = oracle.draw_targets(rng, n, c, observed, positive=rng.uniform(0.05, 0.6))
    T[rng.choice(n, n // 5, replace=False)] = 0
    T[0, 0], T[1, 0] = 1, -1
    return T, rng.standard_normal((n, c))


problems = pytest.mark.parametrize(
    ("seed", "n", "c"), [(0, 40, 5), (1, 12, 20), (3, 9, 9), (4, 60, 70), (5, 90, 40)]
)


@problems
@pytest.mark.parametrize("discriminant", [True, False])
def test_several_workers_give_bitwise_what_one_gives(seed, n, c, discriminant):
    T, F = scored(seed, n, c)
    one, two = (
        objective_at(
            Objective(T, 0.4, discriminant=discriminant, workers=workers),
            F,
            NORMS["smooth"],
            curvature=True,
        )
        for workers in (1, 2)
    )
    assert (one.value, one.exact) == (two.value, two.exact)
    np.testing.assert_array_equal(one.gradient, two.gradient)
    np.testing.assert_array_equal(one.curvature, two.curvature)


def test_tasks_come_back_in_their_order_and_errors_come_through():
    tasks = [partial(pow, k, 2) for k in range(20)]
    assert run_all(tasks, 1) == run_all(tasks, 3) == [k**2 for k in range(20)]
    with pytest.raises(ZeroDivisionError):
        run_all([partial(divmod, 1, 1), partial(divmod, 1, 0)], 2)


@problems
def test_curvature_of_the_objective_is_the_sum_over_the_groups(seed, n, c):
    T, F = scored(seed, n, c)
    found = objective_at(Objective(T, 0.4), F, NORMS["smooth"], curvature=True)
    expected = np.zeros((c, c))
    for k in range(c):
        rows = oracle.group_rows(T, k)
        if rows:
            expected += curvature(F[rows], MU)
    np.testing.assert_allclose(
        found.curvature, expected, rtol=0, atol=1e-8 * np.abs(expected).max()
    )
    plain = objective_at(Objective(T, 0.4), F, NORMS["smooth"])
    assert plain.curvature is None
    assert (plain.value, plain.exact) == (found.value, found.exact)
    np.testing.assert_array_equal(plain.gradient, found.gradient)


@problems
@pytest.mark.parametrize("padding", [1.0, 1.1, 2.0, 100.0])
@pytest.mark.parametrize("global_rows", ["covered", "all"])
def test_the_objective_does_not_depend_on_how_groups_are_stacked(
    seed, n, c, padding, global_rows, monkeypatch
):
    T, F = scored(seed, n, c)
    monkeypatch.setattr("dm2l._solvers.objective.Groups", lambda T, **_: Groups(T, padding))
    objective = Objective(T, 0.4, global_rows=global_rows)
    sizes = [len(rows) for rows in objective.groups.members]
    filled = sum(stack.size for stack in objective.groups.stacks) - sum(sizes)
    assert filled > 0 if padding == 100.0 and len(set(sizes)) > 1 else filled >= 0
    found = objective_at(objective, F, NORMS["smooth"])

    smoothed = partial(oracle.smooth_nuclear_norm, mu=MU)
    terms = {"norm": smoothed, "global_rows": global_rows}
    value = oracle.squared_loss(F, T) + 0.4 * oracle.bracket(F, T, **terms)
    assert found.value == pytest.approx(value, rel=1e-10)
    gradient = np.where(T != 0, F - T, 0.0)
    for k in range(c):
        rows = oracle.group_rows(T, k)
        if rows:
            gradient[rows] += 0.4 * oracle.smooth_nuclear_gradient(F[rows], MU)
    everyone = list(range(n)) if global_rows == "all" else oracle.covered_rows(T)
    gradient[everyone] -= 0.4 * oracle.smooth_nuclear_gradient(F[everyone], MU)
    np.testing.assert_allclose(found.gradient, gradient, rtol=0, atol=1e-10)
