"""Nuclear norms: the exact one, Algorithm 2, the smoothed one, and Theorem 1 of the paper."""

from __future__ import annotations

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import ThreadpoolController

import dm2l_oracles as oracle
from dm2l._solvers.nuclear import (
    SmoothNorm,
    nuclear_norm,
    thresholded_nuclear_norm,
)
from dm2l._utils.arrays import blas_thread_count, one_blas_thread

laws = settings(max_examples=150, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


def subgradient(Z, delta=0.005):
    return thresholded_nuclear_norm(Z, delta).gradient


@st.composite
def matrices(draw, rows=None, columns=None):
    """A matrix of any shape up to 8 x 8, any rank including 0, and any of six scales."""
    n = draw(st.integers(1, 8)) if rows is None else rows
    c = draw(st.integers(1, 8)) if columns is None else columns
    rank = draw(st.integers(0, min(n, c)))
    scale = 10.0 ** draw(st.integers(-3, 2))
    rng = np.random.default_rng(draw(seeds))
    return scale * rng.standard_normal((n, rank)) @ rng.standard_normal((rank, c))


@st.composite
def pairs(draw):
    """Two matrices of one shape, of unrelated ranks and scales."""
    n, c = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    return draw(matrices(n, c)), draw(matrices(n, c))


def size_of(*arrays):
    return sum(float(np.linalg.norm(A)) for A in arrays)


# ------------------------------------------------------------------------------- exact values


@laws
@given(matrices())
def test_the_nuclear_norm_is_the_sum_of_all_singular_values(Z):
    assert nuclear_norm(Z) == pytest.approx(oracle.nuclear_norm(Z), rel=1e-12, abs=1e-300)


def test_known_nuclear_norms():
    assert nuclear_norm(np.diag([3.0, -4.0, 0.0])) == pytest.approx(7.0, rel=1e-14)
    assert nuclear_norm(np.ones((4, 9))) == pytest.approx(6.0, rel=1e-14)
    assert nuclear_norm(np.zeros((5, 2))) == 0.0


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_a_matrix_without_entries_has_norm_zero_and_a_gradient_of_its_shape(shape):
    Z = np.zeros(shape)
    assert nuclear_norm(Z) == 0.0
    for norm in (SmoothNorm(0.1)(Z), thresholded_nuclear_norm(Z)):
        assert norm.value == norm.exact == 0.0
        assert norm.gradient.shape == shape


@laws
@given(st.integers(1, 6), st.integers(0, 5), st.integers(0, 5), st.integers(0, 5), seeds)
def test_theorem_1_bounds_the_norm_of_three_blocks_by_two_overlapping_pairs(n, a, b, c, seed):
    rng = np.random.default_rng(seed)
    A, B, C = (10.0 ** rng.integers(-2, 3) * rng.standard_normal((n, width)) for width in (a, b, c))
    whole = nuclear_norm(np.hstack([A, B, C]))
    parts = nuclear_norm(np.hstack([A, C])) + nuclear_norm(np.hstack([B, C]))
    assert whole <= parts * (1 + 1e-12)
    assert nuclear_norm(np.vstack([A.T, B.T, C.T])) == pytest.approx(whole, rel=1e-10)


def test_theorem_1_is_tight_for_orthogonal_blocks_and_no_overlap():
    A, B, C = np.eye(4)[:, :2], np.eye(4)[:, 2:], np.zeros((4, 0))
    whole = nuclear_norm(np.hstack([A, B, C]))
    assert whole == pytest.approx(nuclear_norm(A) + nuclear_norm(B), rel=1e-14)


# -------------------------------------------------------------------------------- Algorithm 2


@laws
@given(matrices(), st.sampled_from([0.0, 0.005, 0.5, 10.0]))
def test_subgradient_is_the_one_of_algorithm_2(Z, delta):
    values = oracle.singular_values(Z)
    tiny = 1e-11 * max(values[0], 1e-300)
    # A value at rounding level, or at the threshold, may be taken either way.
    clear = all(abs(v - delta) > tiny and (v > tiny or delta > tiny) for v in values)
    if clear:
        # A relative gap between kept and dropped values keeps the product well determined.
        expected = oracle.subgradient(Z, delta)
        np.testing.assert_allclose(subgradient(Z, delta), expected, atol=1e-7)
    norm = thresholded_nuclear_norm(Z, delta)
    assert norm.value == norm.exact == pytest.approx(oracle.nuclear_norm(Z), rel=1e-12, abs=1e-300)


@laws
@given(pairs())
def test_subgradient_inequality_holds_at_every_matrix_of_any_rank(pair):
    A, Z = pair
    G = subgradient(Z, 0.0)
    right = nuclear_norm(Z) + float(np.sum(G * (A - Z)))
    assert nuclear_norm(A) >= right - 1e-9 * size_of(A, Z)


@laws
@given(matrices(), st.sampled_from([0.0, 0.005, 1.0]))
def test_subgradient_has_spectral_norm_at_most_one(Z, delta):
    values = oracle.singular_values(subgradient(Z, delta))
    assert values[0] <= 1 + 1e-10


@laws
@given(pairs(), st.floats(0, 10))
def test_subgradient_gives_a_lower_bound_of_the_norm_for_any_threshold(pair, delta):
    A, Z = pair
    assert nuclear_norm(A) >= float(np.sum(subgradient(Z, delta) * A)) - 1e-9 * size_of(A)


@laws
@given(matrices())
def test_subgradient_without_threshold_reaches_the_norm_at_its_own_point(Z):
    inner = float(np.sum(subgradient(Z, 0.0) * Z))
    assert inner == pytest.approx(nuclear_norm(Z), rel=1e-10, abs=1e-300)


def test_subgradient_of_rank_deficient_matrix_ignores_directions_at_rounding_level():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 6))
    values = oracle.singular_values(subgradient(Z, 0.0))
    np.testing.assert_allclose(values, [1, 1, 0, 0, 0, 0], atol=1e-10)


def test_singular_values_up_to_delta_are_left_out_of_the_subgradient():
    Z = np.diag([2.0, 0.006, 0.005, 0.004])
    np.testing.assert_allclose(subgradient(Z), np.diag([1.0, 1.0, 0.0, 0.0]), atol=1e-14)


# ------------------------------------------------------------------------------ smoothed norm

smoothings = st.sampled_from([1e-6, 1e-3, 0.1, 3.0])


def gram_error(Z):
    """What the square root of a Gram matrix's rounding may add, in all."""
    return 1e-7 * (min(Z.shape) * float(np.linalg.norm(Z)) + 1e-9)


@laws
@given(matrices(), smoothings)
def test_smoothed_norm_lies_below_the_exact_one_by_at_most_mu_a_singular_value(Z, mu):
    exact, slack = oracle.nuclear_norm(Z), gram_error(Z)
    value = SmoothNorm(mu)(Z).value
    assert exact - mu * min(Z.shape) - slack <= value <= exact + slack


@laws
@given(matrices(), smoothings)
def test_smoothed_norm_is_its_formula_in_singular_values(Z, mu):
    norm = SmoothNorm(mu)(Z)
    assert norm.value == pytest.approx(oracle.smooth_nuclear_norm(Z, mu), abs=gram_error(Z))
    assert norm.exact == pytest.approx(oracle.nuclear_norm(Z), abs=gram_error(Z))
    if mu >= 1e-3:
        expected = oracle.smooth_nuclear_gradient(Z, mu)
        np.testing.assert_allclose(norm.gradient, expected, atol=1e-7)


@laws
@given(matrices(), smoothings)
def test_smoothed_norm_does_not_care_which_side_is_longer(Z, mu):
    there, back = SmoothNorm(mu)(Z), SmoothNorm(mu)(Z.T)
    assert there.value == pytest.approx(back.value, abs=gram_error(Z))
    assert there.exact == pytest.approx(back.exact, abs=gram_error(Z))
    if mu >= 1e-3:
        np.testing.assert_allclose(there.gradient, back.gradient.T, atol=1e-7)


@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (4, 4), (1, 5), (5, 1)])
@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("mu", [0.01, 0.5])
def test_smoothed_gradient_is_the_derivative_of_the_smoothed_value(shape, rank, mu):
    rng = np.random.default_rng(sum(shape) + rank)
    Z = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    gradient = SmoothNorm(mu)(Z).gradient
    own = oracle.central_differences(lambda A: SmoothNorm(mu)(A).value, Z, 1e-5)
    formula = oracle.central_differences(lambda A: oracle.smooth_nuclear_norm(A, mu), Z, 1e-5)
    # The third derivative grows as 1 / mu^2: 1e-10 / 1e-4.
    np.testing.assert_allclose(gradient, own, atol=3e-6)
    np.testing.assert_allclose(gradient, formula, atol=3e-6)


@pytest.mark.parametrize("shape", [(40, 6), (6, 40)])
def test_smoothed_gradient_has_spectral_norm_below_one(shape):
    Z = np.random.default_rng(1).standard_normal(shape)
    assert oracle.singular_values(SmoothNorm(0.3)(Z).gradient)[0] < 1


@pytest.mark.parametrize("shape", [(50, 8), (8, 50)])
@pytest.mark.parametrize("mu", [1e-4, 1e-2, 1.0])
def test_float32_matrix_gives_nearly_the_float64_norm_and_a_float32_gradient(shape, mu):
    Z = np.random.default_rng(2).standard_normal(shape)
    single, double = SmoothNorm(mu)(Z.astype(np.float32)), SmoothNorm(mu)(Z)
    assert single.gradient.dtype == np.float32
    assert single.value == pytest.approx(double.value, rel=1e-6)
    assert single.exact == pytest.approx(double.exact, rel=1e-6)
    np.testing.assert_allclose(single.gradient, double.gradient, atol=1e-5)


def test_float32_rank_deficient_matrix_keeps_a_finite_norm_near_the_float64_one():
    rng = np.random.default_rng(3)
    Z = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 9))
    single, double = SmoothNorm(1e-4)(Z.astype(np.float32)), SmoothNorm(1e-4)(Z)
    assert single.exact == pytest.approx(double.exact, rel=1e-4)
    assert np.all(np.isfinite(single.gradient))


@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (3, 6, 4), (3, 4, 6), (5, 5)])
@pytest.mark.parametrize("delta", [0.005, 0.5])
def test_the_thresholded_norm_of_other_libraries_is_that_of_numpy(shape, delta):
    Z = np.random.default_rng(0).normal(size=shape)
    Z[..., :, -1] = Z[..., :, 0]  # of less than full rank
    here, there = (thresholded_nuclear_norm(z, delta) for z in (Z, strict.asarray(Z)))
    np.testing.assert_allclose(there.value, here.value, rtol=1e-7)
    np.testing.assert_allclose(np.asarray(there.gradient), here.gradient, atol=1e-6)


def test_one_blas_thread_ends_with_the_last_of_those_who_asked():
    """As where threads overlap: the first to come is the first to go."""
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        assert blas_thread_count() == 2
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_thread_count() == 1
        second.__exit__(None, None, None)
        assert blas_thread_count() == 2
