"""Nuclear norms by matrix products alone, as CUDA gets them, against singular values."""

from __future__ import annotations

import array_api_strict as strict
import numpy as np
import pytest
import scipy.linalg

import dm2l_oracles as oracle
from dm2l._solvers.nuclear import SmoothNorm, norm_by_products

SHAPES = [(9, 4), (4, 9), (60, 25), (25, 60), (7, 7), (1, 5), (5, 1)]


def check(found, Z, mu):
    size = float(np.linalg.norm(Z)) + mu
    assert found.value == pytest.approx(oracle.smooth_nuclear_norm(Z, mu), abs=1e-9 * size)
    assert found.exact == pytest.approx(oracle.nuclear_norm(Z), abs=1e-8 * size)
    np.testing.assert_allclose(found.gradient, oracle.smooth_nuclear_gradient(Z, mu), atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rank", [0, 1, 3, 100])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e3])
@pytest.mark.parametrize("mu", [1e-5, 1.5e-2, 3.0])
def test_matrices_of_all_ranks_and_scales(shape, rank, scale, mu):
    rng = np.random.default_rng(rank)
    Z = scale * rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    check(norm_by_products(Z, mu), Z, mu)


@pytest.mark.parametrize("mu", [1e-5, 1.5e-2])
@pytest.mark.parametrize("decades", [3, 8, 14])
def test_singular_values_of_all_sizes(decades, mu):
    rng = np.random.default_rng(decades)
    U, V = (np.linalg.qr(rng.standard_normal((n, 30)))[0] for n in (80, 30))
    Z = 50 * U * 10.0 ** -np.linspace(0, decades, 30) @ V.T
    check(norm_by_products(Z, mu), Z, mu)


def test_stacks_are_summed_and_zero_rows_change_nothing():
    rng = np.random.default_rng(0)
    stack = rng.standard_normal((4, 12, 20))
    heights = np.array([12, 7, 1, 0])
    for Z, height in zip(stack, heights, strict=True):
        Z[height:] = 0.0
    found = norm_by_products(stack, 0.02, curvature=True, heights=heights)
    parts = [norm_by_products(Z[:h], 0.02) for Z, h in zip(stack, heights, strict=True) if h]
    assert found.value == pytest.approx(sum(part.value for part in parts))
    assert found.exact == pytest.approx(sum(part.exact for part in parts))
    for place, part in enumerate(parts):
        np.testing.assert_allclose(
            found.gradient[place, : heights[place]], part.gradient, atol=1e-8
        )
    assert not found.gradient[3].any()


@pytest.mark.parametrize("shape", [(5, 40, 12), (5, 12, 40), (1, 30, 8), (1, 8, 8)])
@pytest.mark.parametrize("rank", [1, 3, 100])
@pytest.mark.parametrize("filled", [False, True])
def test_curvature_is_near_that_of_the_singular_values(shape, rank, filled):
    rng = np.random.default_rng(rank)
    Z = rng.standard_normal((*shape[:2], rank)) @ rng.standard_normal((rank, shape[2]))
    heights = np.full(shape[0], shape[1])
    if filled:
        heights = rng.integers(1, shape[1], size=shape[0])
        for matrix, height in zip(Z, heights, strict=True):
            matrix[height:] = 0.0
    expected = SmoothNorm(0.015)(Z, curvature=True, heights=heights).curvature
    found = norm_by_products(Z, 0.015, curvature=True, heights=heights).curvature
    np.testing.assert_array_equal(found, found.T)
    ratios = scipy.linalg.eigh(found, expected, eigvals_only=True)
    assert 0.9 < ratios.min() <= ratios.max() < 2.0


@pytest.mark.parametrize("shape", [(3, 9, 4), (4, 9)])
def test_other_libraries_and_float32(shape):
    Z = np.random.default_rng(0).standard_normal(shape)
    expected = norm_by_products(Z, 0.1, curvature=True)
    found = norm_by_products(strict.asarray(Z), 0.1, curvature=True)
    for part, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(part), other, rtol=1e-9, atol=1e-11)
    single = norm_by_products(Z.astype(np.float32), 0.1)
    assert single.gradient.dtype == np.float32
    np.testing.assert_allclose(single.gradient, expected.gradient, atol=1e-5)


def test_few_rows_or_columns_stay_with_eigh(monkeypatch):
    monkeypatch.setattr("dm2l._solvers.nuclear.is_on_cuda", lambda array: True)
    monkeypatch.setattr("dm2l._solvers.nuclear.norm_by_products", lambda *given: "by products")
    assert SmoothNorm(0.1)(np.ones((50, 32))).exact == pytest.approx(40.0)
    assert SmoothNorm(0.1)(np.ones((50, 33))) == "by products"
