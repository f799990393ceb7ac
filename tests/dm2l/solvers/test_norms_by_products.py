"""Nuclear norms by matrix products alone, as CUDA gets them, against singular values."""

from __future__ import annotations

import array_api_strict as strict
import numpy as np
import pytest
import scipy.linalg

import dm2l_oracles as oracle
from dm2l import DM2LClassifier
from dm2l._solvers.nuclear import SmoothNorm
from dm2l._solvers.objective import Objective
from dm2l.datasets import make_missing_multilabel

SHAPES = [(9, 4), (4, 9), (60, 25), (25, 60), (7, 7), (1, 5), (5, 1)]


@pytest.fixture
def by_products(monkeypatch):
    """The norm of a matrix or stack, as if it were on CUDA."""
    monkeypatch.setattr("dm2l._solvers.nuclear.is_on_cuda", lambda array: True)
    return lambda Z, mu, **options: SmoothNorm(np.asarray(mu))(Z, **options)


def check(found, Z, mu):
    size = float(np.linalg.norm(Z)) + mu
    assert found.value == pytest.approx(oracle.smooth_nuclear_norm(Z, mu), abs=1e-9 * size)
    assert found.exact == pytest.approx(oracle.nuclear_norm(Z), abs=1e-8 * size)
    np.testing.assert_allclose(found.gradient, oracle.smooth_nuclear_gradient(Z, mu), atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rank", [0, 1, 3, 100])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e3])
@pytest.mark.parametrize("mu", [1e-5, 1.5e-2, 3.0])
def test_matrices_of_all_ranks_and_scales(by_products, shape, rank, scale, mu):
    rng = np.random.default_rng(rank)
    Z = scale * rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    check(by_products(Z, mu), Z, mu)


@pytest.mark.parametrize("mu", [1e-5, 1.5e-2])
@pytest.mark.parametrize("decades", [3, 8, 14])
def test_singular_values_of_all_sizes(by_products, decades, mu):
    rng = np.random.default_rng(decades)
    U, V = (np.linalg.qr(rng.standard_normal((n, 30)))[0] for n in (80, 30))
    Z = 50 * U * 10.0 ** -np.linspace(0, decades, 30) @ V.T
    check(by_products(Z, mu), Z, mu)


def test_stacks_are_summed_and_zero_rows_change_nothing(by_products):
    rng = np.random.default_rng(0)
    stack = rng.standard_normal((4, 12, 20))
    heights = np.array([12, 7, 1, 0])
    for Z, height in zip(stack, heights, strict=True):
        Z[height:] = 0.0
    found = by_products(stack, 0.02, curvature=True, heights=heights)
    parts = [by_products(Z[:h], 0.02) for Z, h in zip(stack, heights, strict=True) if h]
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
def test_curvature_is_near_that_of_the_singular_values(by_products, shape, rank, filled):
    rng = np.random.default_rng(rank)
    Z = rng.standard_normal((*shape[:2], rank)) @ rng.standard_normal((rank, shape[2]))
    heights = np.full(shape[0], shape[1])
    if filled:
        heights = rng.integers(1, shape[1], size=shape[0])
        for matrix, height in zip(Z, heights, strict=True):
            matrix[height:] = 0.0
    expected = SmoothNorm(0.015)(Z, curvature=True, heights=heights).curvature
    found = by_products(Z, 0.015, curvature=True, heights=heights).curvature
    np.testing.assert_array_equal(found, found.T)
    ratios = scipy.linalg.eigh(found, expected, eigvals_only=True)
    assert 0.9 < ratios.min() <= ratios.max() < 2.0


@pytest.mark.parametrize("shape", [(3, 9, 4), (4, 9)])
def test_other_libraries_and_float32(by_products, shape):
    Z = np.random.default_rng(0).standard_normal(shape)
    expected = by_products(Z, 0.1, curvature=True)
    found = SmoothNorm(strict.asarray(0.1))(strict.asarray(Z), curvature=True)
    for part, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(part), other, rtol=1e-9, atol=1e-11)
    single = by_products(Z.astype(np.float32), 0.1)
    assert single.gradient.dtype == np.float32
    np.testing.assert_allclose(single.gradient, expected.gradient, atol=1e-5)


def test_few_rows_or_columns_stay_with_eigh_outside_of_graphs(by_products, monkeypatch):
    monkeypatch.setattr("dm2l._solvers.nuclear.norm_by_products", lambda *given: "by products")
    assert SmoothNorm(0.1)(np.ones((50, 32))).exact == pytest.approx(40.0)
    assert SmoothNorm(0.1)(np.ones((50, 33))) == "by products"
    assert by_products(np.ones((50, 32)), 0.1) == "by products"


# ------------------------------------------------------------------------ evaluations as graphs


class Replayed:
    """Stands in for a graph of CUDA: keeps the function and its tensors of no dimension."""

    made = 0

    def __init__(self, function, *inputs):
        self._function = function
        Replayed.made += 1

    def __call__(self, *inputs):
        return self._function(*map(np.asarray, inputs))


@pytest.fixture
def graphs(monkeypatch):
    monkeypatch.setattr("dm2l._solvers.nuclear.is_on_cuda", lambda array: True)
    monkeypatch.setattr("dm2l._solvers.objective.is_on_cuda", lambda array: True)
    monkeypatch.setattr("dm2l._solvers.objective.CudaGraph", Replayed)


def test_an_evaluation_as_a_graph_follows_weight_smoothing_and_targets(graphs, monkeypatch):
    rng = np.random.default_rng(0)
    T = rng.choice([-1, 0, 1], size=(30, 5)).astype(np.int8)
    recorded, plain = Objective(T, 0.3), Objective(T, 0.3)
    Replayed.made = 0

    def check_both():
        F = rng.standard_normal(T.shape)
        for mu in (0.1, 1e-3):
            found = recorded.evaluate(F, SmoothNorm(mu))
            with monkeypatch.context() as patch:
                patch.setattr("dm2l._solvers.objective.is_on_cuda", lambda array: False)
                expected = plain.evaluate(F, SmoothNorm(mu))
            assert isinstance(found.value, float)
            assert found.value == pytest.approx(expected.value)
            assert found.exact == pytest.approx(expected.exact)
            np.testing.assert_allclose(found.gradient, expected.gradient, atol=1e-8)

    check_both()
    for objective in (recorded, plain):
        objective.set_weight(2.0)
    check_both()
    assert Replayed.made == 1
    targets = rng.standard_normal(T.shape)
    for objective in (recorded, plain):
        objective.fill(targets)
    check_both()
    assert Replayed.made == 2
    curved = recorded.evaluate(rng.standard_normal(T.shape), SmoothNorm(0.1), curvature=True)
    assert curved.curvature.shape == (5, 5)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_fit_by_graphs_ends_where_the_plain_one_does(request, kernel):
    X, Y = make_missing_multilabel(n_samples=150, random_state=0)[:2]
    settings = {"kernel": kernel, "tol": 1e-8, "max_iter": 5000, "coupling": None}
    plain = DM2LClassifier(0.1, **settings).fit(X, Y)
    request.getfixturevalue("graphs")
    found = DM2LClassifier(0.1, **settings).fit(X, Y)
    assert found.objective_ == pytest.approx(plain.objective_, rel=1e-7)
    np.testing.assert_allclose(found.decision_function(X), plain.decision_function(X), atol=1e-3)
