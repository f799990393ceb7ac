"""Approximate kernel features: randomly pivoted Cholesky, and random Fourier features."""

from __future__ import annotations

import itertools
import tracemalloc

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
from array_api_compat import array_namespace
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from dm2l._solvers import maps
from dm2l._solvers.kernels import Kernel
from dm2l._solvers.maps import FourierMap, KernelMap, pivoted_cholesky
from dm2l._utils.arrays import solve_triangular, take_rows

laws = settings(max_examples=100, deadline=None, derandomize=True)


def kernel_of(name, gamma=0.3):
    return Kernel(name, gamma, 2, 1)


def any_rbf(A, B):
    """The rbf kernel with gamma 0.3 in any namespace."""
    xp = array_namespace(A, B)
    A, B = xp.astype(A, xp.float64), xp.astype(B, xp.float64)
    differences = A[:, None, :] - B[None, :, :]
    return xp.exp(-0.3 * xp.sum(differences * differences, axis=-1))


def square(A, B):
    """A polynomial kernel."""
    return (A @ B.T + 1) ** 2


def draw_rows(seed=0, n=40, d=3):
    return np.random.default_rng(seed).standard_normal((n, d))


# ------------------------------------------------------------------------------------ oracles


def schur(K, pivots):
    """What is left of ``K`` after the steps of Cholesky, one at a time and by the book."""
    for i in pivots:
        K = K - np.outer(K[:, i], K[i, :]) / K[i, i]
    return K


def sequential_pivots(K, r, rng):
    """Randomly pivoted Cholesky (Algorithm 1 of Chen et al.), one pivot at a time."""
    pivots = []
    for _ in range(r):
        left = np.maximum(np.diagonal(K), 0)
        pivots.append(int(rng.choice(len(K), p=left / left.sum())))
        K = schur(K, pivots[-1:])
    return pivots


def law_of_pivots(K, r):
    """Probability of each sequence of ``r`` pivots."""
    law = {}
    for pivots in itertools.permutations(range(len(K)), r):
        probability = 1.0
        for k, i in enumerate(pivots):
            left = np.diagonal(schur(K, pivots[:k]))
            probability *= left[i] / left.sum()
        law[pivots] = probability
    return law


def nystroem(K, pivots):
    # Not pinv: K[p, p] has full rank here, and its small eigenvalues must not be cut.
    return K[:, pivots] @ np.linalg.solve(K[np.ix_(pivots, pivots)], K[pivots, :])


def relative_trace(K, Phi):
    return np.trace(K - Phi @ Phi.T) / np.trace(K)


# ----------------------------------------------------------------- the law of the pivots


def fit_of_law(law, sequences):
    """P-value of Pearson's test; rare outcomes are counted together."""
    total = len(sequences)
    counts = dict.fromkeys(law, 0)
    for sequence in sequences:
        counts[tuple(sequence)] += 1
    common = [s for s in law if total * law[s] >= 5]
    observed = [counts[s] for s in common]
    expected = [total * law[s] for s in common]
    observed.append(total - sum(observed))
    expected.append(total - sum(expected))
    return scipy.stats.chisquare(observed, expected).pvalue


@pytest.fixture(scope="module")
def small_kernel():
    """Five rows, of which three are much alike, and their kernel matrix of unequal diagonal."""
    X = np.array([[0.0, 1.0], [0.1, 1.1], [0.2, 0.9], [2.0, -0.5], [-1.0, 0.3]])
    return X, square(X, X)


@pytest.mark.parametrize("block_size", [1, 3, 256])
def test_pivots_have_the_law_of_the_sequential_algorithm(small_kernel, block_size):
    X, K = small_kernel
    random = np.random.RandomState(0)
    sequences = [
        pivoted_cholesky(square, X, 3, random, block_size=block_size).pivots for _ in range(1500)
    ]
    assert fit_of_law(law_of_pivots(K, 3), sequences) > 1e-3


def test_the_enumerated_law_is_that_of_the_literal_algorithm(small_kernel):
    _, K = small_kernel
    law = law_of_pivots(K, 3)
    assert sum(law.values()) == pytest.approx(1.0)
    rng = np.random.default_rng(0)
    assert fit_of_law(law, [sequential_pivots(K, 3, rng) for _ in range(1500)]) > 1e-3


def test_block_sizes_give_the_same_errors_in_the_mean():
    X = draw_rows(n=200, d=2)
    means = []
    for block_size in (1, 7, 256):
        errors = [
            pivoted_cholesky(any_rbf, X, 15, seed, block_size=block_size).error
            for seed in range(60)
        ]
        means.append(np.mean(errors))
    assert max(means) < 1.1 * min(means)


class Counted:
    """A kernel that counts its entries, and the times it was asked for columns."""

    def __init__(self):
        self.entries = self.columns = 0

    def __call__(self, A, B):
        self.entries += len(A) * len(B)
        self.columns += len(A) == 2000
        return any_rbf(A, B)


@pytest.mark.parametrize(("block_size", "blocks"), [(256, 4), (1, 100)])
def test_the_work_is_done_in_blocks_and_each_column_evaluated_once(block_size, blocks):
    kernel = Counted()
    X = draw_rows(n=2000, d=5)
    pivoted_cholesky(kernel, X, 100, 0, block_size=block_size)
    assert blocks / 4 <= kernel.columns <= blocks
    candidates, diagonal = kernel.columns * block_size**2, 2000 * 64
    assert 2000 * 100 <= kernel.entries <= 2000 * 100 + candidates + diagonal


# ----------------------------------------------------------------- the Nystrom approximation


layouts = [np.asarray, sp.csr_array, sp.csc_matrix, sp.coo_array]


@pytest.mark.parametrize(
    ("name", "layout"),
    [*itertools.product(["rbf", "laplacian", "cosine", "poly"], layouts), (any_rbf, np.asarray)],
)
def test_the_factor_is_the_nystroem_formula(name, layout):
    X = draw_rows()
    kernel = kernel_of(name)
    K = kernel(X, X)
    r = 3 if name == "cosine" else 8
    factor = pivoted_cholesky(kernel, layout(X), r, 0, block_size=5)
    assert factor.Phi.shape == (40, r)
    assert factor.pivots.shape == np.unique(factor.pivots).shape == (r,)
    np.testing.assert_allclose(factor.Phi @ factor.Phi.T, nystroem(K, factor.pivots), atol=1e-10)
    assert factor.error == pytest.approx(relative_trace(K, factor.Phi), abs=1e-12)
    np.testing.assert_array_equal(factor.L, factor.Phi[factor.pivots])
    np.testing.assert_array_equal(factor.L, np.tril(factor.L))


@laws
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 25),
    rank=st.integers(1, 25),
    r=st.integers(1, 30),
    block_size=st.integers(1, 40),
    scale=st.sampled_from([1e-8, 1.0, 1e6]),
)
def test_what_is_left_is_positive_semi_definite(seed, n, rank, r, block_size, scale):
    B = scale * np.random.default_rng(seed).standard_normal((n, rank))
    K = B @ B.T
    factor = pivoted_cholesky(kernel_of("linear"), B, r, seed, block_size=block_size)
    assert len(factor.pivots) <= min(n, r)
    assert len(set(factor.pivots.tolist())) == len(factor.pivots)
    largest = np.diagonal(K).max()
    left = K - factor.Phi @ factor.Phi.T
    assert np.linalg.eigvalsh(left).min() > -1e-9 * largest
    assert np.all(np.diagonal(factor.L) > 0)
    assert 0 <= factor.error <= 1
    assert factor.error == pytest.approx(relative_trace(K, factor.Phi), abs=1e-9)
    if r >= min(n, rank):
        np.testing.assert_allclose(left, 0, atol=1e-9 * largest)


@pytest.mark.parametrize("n_components", [40, 10**12])
def test_as_many_components_as_rows_give_the_kernel_matrix(n_components):
    X = draw_rows()
    factor = pivoted_cholesky(kernel_of("laplacian"), X, n_components, 0)
    assert factor.Phi.shape == (40, 40)
    np.testing.assert_allclose(factor.Phi @ factor.Phi.T, kernel_of("laplacian")(X, X), atol=1e-10)
    assert factor.error < 1e-12


def test_duplicate_rows_cost_no_components():
    X = np.repeat(draw_rows(n=6), 20, axis=0)
    factor = pivoted_cholesky(kernel_of("rbf"), X, 50, 0)
    assert factor.Phi.shape == (120, 6)
    assert sorted(factor.pivots // 20) == [0, 1, 2, 3, 4, 5]
    assert factor.error < 1e-12
    assert factor.Phi.base is None, "44 columns that nobody needs are still held"


@pytest.mark.parametrize(("name", "rank"), [("linear", 3), ("cosine", 3), ("poly", 10)])
def test_a_kernel_of_low_rank_stops_at_its_rank(name, rank):
    X = draw_rows(n=300)
    X[::7] = 0.0
    kernel = kernel_of(name)
    factor = pivoted_cholesky(kernel, X, 100, 0)
    assert len(factor.pivots) == rank
    np.testing.assert_allclose(factor.Phi @ factor.Phi.T, kernel(X, X), atol=1e-9)


def test_float32_kernels_stop_at_their_own_rounding():
    X = draw_rows(n=200)

    def kernel(A, B):
        return (A @ B.T).astype(np.float32)

    factor = pivoted_cholesky(kernel, X, 100, 0)
    assert len(factor.pivots) == 3
    assert factor.Phi.dtype == np.float64
    np.testing.assert_allclose(factor.Phi @ factor.Phi.T, X @ X.T, atol=1e-5)


def test_no_row_is_a_pivot_twice_though_the_kernel_is_inexact():
    def kernel(A, B):  # as of rows far from zero: k(x, x) = 1 - 1e-7 off the diagonal blocks
        return any_rbf(A, B) - 1e-7 * (len(A) != len(B))

    for seed in range(5):
        X = np.repeat(draw_rows(n=10), 4, axis=0)
        pivots = pivoted_cholesky(kernel, X, 40, seed, block_size=3).pivots
        assert len(pivots) > 10
        assert len(np.unique(pivots)) == len(pivots)


def test_tol_leaves_small_rows_alone():
    X = np.diag([1.0, 1.0, 1e-3, 1e-5])
    assert sorted(pivoted_cholesky(kernel_of("linear"), X, 4, 0).pivots) == [0, 1, 2, 3]
    factor = pivoted_cholesky(kernel_of("linear"), X, 4, 0, tol=1e-8)
    assert sorted(factor.pivots) == [0, 1, 2]
    assert factor.error == pytest.approx(1e-10 / 2.000001, rel=1e-6)


def test_a_precomputed_kernel_gives_what_its_rows_give():
    X = draw_rows()
    found = pivoted_cholesky(kernel_of("precomputed"), any_rbf(X, X), 12, 3)
    expected = pivoted_cholesky(any_rbf, X, 12, 3)
    np.testing.assert_array_equal(found.pivots, expected.pivots)
    np.testing.assert_allclose(found.Phi, expected.Phi, atol=1e-12)


def test_a_kernel_may_return_a_sparse_matrix():
    X = sp.csr_array(draw_rows())
    found = pivoted_cholesky(lambda A, B: A @ B.T, X, 3, 0)
    expected = pivoted_cholesky(kernel_of("linear"), X, 3, 0)
    np.testing.assert_allclose(found.Phi, expected.Phi, atol=1e-12)


# ------------------------------------------------------------------------------------ accuracy


def test_the_error_is_near_that_of_the_best_approximation():
    X = load_digits().data[:500] / 16
    kernel = kernel_of("rbf", 0.02)
    values = np.linalg.eigvalsh(kernel(X, X))[::-1]
    for r in (10, 40, 120):
        best = values[r:].sum() / values.sum()
        errors = [pivoted_cholesky(kernel, X, r, seed).error for seed in range(10)]
        assert best <= min(errors)
        assert np.mean(errors) < 3.5 * best  # 1.9, 2.6 and 2.6 times


def test_clusters_of_unequal_size_are_found_better_than_by_uniform_pivots():
    rng = np.random.default_rng(0)
    centres = 10 * rng.standard_normal((20, 4))
    sizes = [400] + 19 * [5]
    X = np.repeat(centres, sizes, axis=0)
    X = X + 0.05 * rng.standard_normal(X.shape)
    K = any_rbf(X, X)
    uniform = []
    for _ in range(10):
        pivots = rng.choice(len(X), size=25, replace=False)
        uniform.append(np.trace(K - nystroem(K + 1e-12 * np.eye(len(K)), pivots)) / len(K))
    found = [pivoted_cholesky(any_rbf, X, 25, seed).error for seed in range(10)]
    assert max(found) < 0.1 * np.mean(uniform)


@pytest.mark.parametrize("kernel", [kernel_of("rbf"), square, FourierMap])
def test_no_square_matrix_is_made(kernel):
    n = 6000
    X = draw_rows(n=n, d=10)
    tracemalloc.start()
    if kernel is FourierMap:
        Phi = FourierMap(0.3, 50, 0).fit(X)
    else:
        Phi = KernelMap(kernel, 50, 0).fit(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert Phi.shape == (n, 50)
    assert peak < 8 * n * 300  # a square matrix takes 8 * n * 6000


# ------------------------------------------------------------------------------------- the map


def test_nystroem_map_predicts_through_its_pivots():
    X, new = draw_rows(), draw_rows(1, n=7)
    kernel = kernel_of("rbf")
    nystroem_map = KernelMap(kernel, 12, 0)
    Phi = nystroem_map.fit(X)
    assert Phi.shape == (40, nystroem_map.n_coefficients) == (40, 12)
    W = np.random.default_rng(0).standard_normal((12, 2))
    A = nystroem_map.coefficients(W)
    pivots = nystroem_map.pivots
    np.testing.assert_allclose(kernel(X, X[pivots]) @ A, Phi @ W, atol=1e-8)
    np.testing.assert_allclose(nystroem_map.weights(A), W, atol=1e-10)
    np.testing.assert_allclose(
        nystroem_map.coefficients(nystroem_map.identity(2)), np.eye(12, 2), atol=1e-10
    )
    # ||W||^2 = tr(A'KA), on the pivots.
    K = kernel(X[pivots], X[pivots])
    assert np.trace(A.T @ K @ A) == pytest.approx(np.sum(W**2))
    # The features of a new row are k(x, pivots) L^-T: inner products of the Nystrom kernel.
    L = Phi[pivots]
    features = np.linalg.solve(L, kernel(X[pivots], new)).T
    expected = kernel(new, X[pivots]) @ np.linalg.solve(K, kernel(X[pivots], X))
    np.testing.assert_allclose(features @ Phi.T, expected, atol=1e-8)
    np.testing.assert_allclose(kernel(new, X[pivots]) @ A, features @ W, atol=1e-8)


def test_nystroem_map_reports_the_trace_error():
    X = draw_rows()
    nystroem_map = KernelMap(kernel_of("rbf"), 12, 0)
    Phi = nystroem_map.fit(X)
    assert nystroem_map.error == pytest.approx(relative_trace(any_rbf(X, X), Phi))


def test_the_primal_weights_give_scores_back():
    factor = pivoted_cholesky(any_rbf, draw_rows(), 12, 0)
    W = np.random.default_rng(0).standard_normal((12, 2))
    np.testing.assert_allclose(
        solve_triangular(factor.L, take_rows(factor.Phi @ W, factor.pivots)), W, atol=1e-10
    )


@pytest.mark.parametrize("make", [KernelMap, FourierMap])
def test_random_state_decides(make):
    X = draw_rows()
    first = kernel_of("rbf") if make is KernelMap else 0.3
    Phi = make(first, 10, 0).fit(X)
    np.testing.assert_array_equal(make(first, 10, 0).fit(X), Phi)
    assert not np.allclose(make(first, 10, 1).fit(X), Phi)


# ------------------------------------------------------------------------------------- Fourier


def root_mean_square(A):
    return float(np.sqrt(np.mean(np.square(A))))


@pytest.mark.parametrize(
    ("d", "n_components"),
    [(3, 2), (3, 6), (3, 16), (20, 8)],
    ids=["one wave", "one basis", "several bases", "more columns than waves"],
)
def test_fourier_features_are_unbiased(d, n_components):
    X = 0.7 * draw_rows(n=3, d=d) / np.sqrt(d / 3)
    random = np.random.RandomState(0)
    products = []
    for _ in range(2000):
        Phi = FourierMap(0.3, n_components, random).fit(X)
        products.append(Phi @ Phi.T)
    mean = np.mean(products, axis=0)
    deviation = np.std(products, axis=0) / np.sqrt(len(products))
    np.testing.assert_array_less(np.abs(mean - any_rbf(X, X)), 4.5 * deviation + 1e-12)


def test_the_fourier_error_falls_like_the_square_root():
    X = draw_rows(n=100, d=4)
    K = any_rbf(X, X)
    errors = []
    for n_components in (50, 200, 800, 3200):
        found = []
        for seed in range(8):
            Phi = FourierMap(0.3, n_components, seed).fit(X)
            found.append(root_mean_square(Phi @ Phi.T - K))
        errors.append(np.mean(found))
    slope = np.polyfit(np.log([50, 200, 800, 3200]), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.05)
    assert errors[-1] < 0.02


def test_orthogonal_frequencies_have_the_smaller_error():
    X = load_digits().data[:200] / 16
    K = any_rbf(X, X)
    plain, found = [], []
    for seed in range(8):
        W = np.sqrt(0.6) * np.random.default_rng(seed).standard_normal((64, 128))
        waves = np.hstack([np.cos(X @ W), np.sin(X @ W)]) / np.sqrt(128)
        plain.append(root_mean_square(waves @ waves.T - K))
        Phi = FourierMap(0.3, 256, seed).fit(X)
        found.append(root_mean_square(Phi @ Phi.T - K))
    assert np.mean(found) < 0.9 * np.mean(plain)


def test_frequencies_are_orthogonal_in_bases_with_the_lengths_of_normal_ones():
    fourier = FourierMap(0.3, 4001, 0)
    fourier.fit(draw_rows(d=5))
    W = fourier.frequencies
    assert W.shape == (5, 2001)
    for start in range(0, 2001, 5):
        gram = W[:, start : start + 5].T @ W[:, start : start + 5]
        np.testing.assert_allclose(gram, np.diag(np.diagonal(gram)), atol=1e-12)
    squares = np.sum(W**2, axis=0) / (2 * 0.3)
    assert scipy.stats.kstest(squares, "chi2", args=(5,)).pvalue > 1e-3


def test_the_fourier_error_is_the_root_mean_square_over_pairs():
    X = draw_rows(n=150, d=4)
    fourier = FourierMap(0.3, 60, 0)
    Phi = fourier.fit(X)
    off = ~np.eye(150, dtype=bool)
    expected = root_mean_square((any_rbf(X, X) - Phi @ Phi.T)[off])
    assert fourier.error == pytest.approx(expected, rel=0.1)


def test_the_fourier_error_compares_different_rows():
    X = draw_rows(n=2)
    fourier = FourierMap(0.3, 6, 0)
    Phi = fourier.fit(X)
    assert fourier.error == pytest.approx(abs(any_rbf(X, X)[0, 1] - Phi[0] @ Phi[1]))


@pytest.mark.parametrize("n_components", [1, 7, 99])
def test_odd_numbers_of_components(n_components):
    X = draw_rows(n=60)
    odd, even = FourierMap(0.3, n_components, 0), FourierMap(0.3, n_components + 1, 0)
    Phi = odd.fit(X)
    assert Phi.shape == (60, n_components)
    assert odd.n_coefficients == n_components
    np.testing.assert_array_equal(Phi, even.fit(X)[:, :-1])
    # One sine is missing: an entry is off by at most one part in the number of frequencies.
    assert np.max(np.abs(Phi @ Phi.T - even.fit(X) @ even.fit(X).T)) <= 2 / (n_components + 1)


@pytest.mark.parametrize("layout", [sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix])
def test_sparse_rows_have_the_fourier_features_of_dense_ones(layout):
    X = draw_rows(d=6)
    X[np.abs(X) < 1] = 0
    dense, sparse = FourierMap(0.3, 50, 0), FourierMap(0.3, 50, 0)
    np.testing.assert_allclose(sparse.fit(layout(X)), dense.fit(X), atol=1e-12)
    np.testing.assert_allclose(sparse.transform(X), dense.transform(layout(X)), atol=1e-12)
    assert sparse.error == pytest.approx(dense.error)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_float32_rows_have_float32_features_as_good(layout):
    X = (1000 + draw_rows()).astype(np.float32)
    found = FourierMap(0.3, 50, 0).fit(layout(X))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, FourierMap(0.3, 50, 0).fit(X.astype(np.float64)), atol=1e-6)


def test_integer_rows_have_float64_features():
    X = np.arange(12).reshape(4, 3)
    found = FourierMap(0.01, 50, 0).fit(X)
    np.testing.assert_array_equal(found, FourierMap(0.01, 50, 0).fit(X.astype(np.float64)))


def test_new_rows_are_transformed_alike_in_blocks_or_not(monkeypatch):
    X = draw_rows()
    fourier = FourierMap(0.3, 50, 0)
    Phi = fourier.fit(X)
    np.testing.assert_allclose(fourier.transform(X[7:9]), Phi[7:9], atol=1e-12)
    monkeypatch.setattr(maps, "_ANGLES", 80)
    np.testing.assert_allclose(fourier.transform(X), Phi, atol=1e-12)
    monkeypatch.setattr(maps, "_ANGLES", 1)
    np.testing.assert_allclose(fourier.transform(X), Phi, atol=1e-12)


def test_fourier_weights_are_their_own_coefficients():
    fourier = FourierMap(0.3, 10, 0)
    fourier.fit(draw_rows())
    W = np.ones((10, 2))
    assert fourier.coefficients(W) is W
    assert fourier.weights(W) is W
    np.testing.assert_array_equal(fourier.identity(3), np.eye(10, 3))


def test_a_fourier_map_keeps_the_frequencies_alone():
    X = draw_rows(n=5000)
    fourier = FourierMap(0.3, 20, 0)
    fourier.fit(X)
    arrays = {name for name, value in vars(fourier).items() if isinstance(value, np.ndarray)}
    assert arrays == {"frequencies"}
    assert fourier.frequencies.nbytes == 3 * 10 * 8
    assert fourier.frequencies.base is None


def test_one_row_is_enough():
    fourier = FourierMap(0.3, 10, 0)
    assert fourier.fit(draw_rows(n=1)).shape == (1, 10)
    assert fourier.error < 1e-12
    assert pivoted_cholesky(any_rbf, draw_rows(n=1), 10, 0).error == 0.0


# ------------------------------------------------------------------------ other array libraries


def strict_array(X):
    return strict.asarray(X)


def torch_array(X):
    torch = pytest.importorskip("torch", reason="torch is an extra")
    return torch.asarray(X)


others = pytest.mark.parametrize("convert", [strict_array, torch_array])


@others
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("block_size", [4, 256])
def test_nystroem_factors_are_those_of_numpy(convert, dtype, block_size):
    X = draw_rows().astype(dtype)
    found = pivoted_cholesky(any_rbf, convert(X), 15, 0, block_size=block_size)
    expected = pivoted_cholesky(any_rbf, X, 15, 0, block_size=block_size)
    assert type(found.Phi) is type(found.L) is type(convert(X))
    np.testing.assert_array_equal(found.pivots, expected.pivots)
    np.testing.assert_allclose(np.asarray(found.Phi), expected.Phi, atol=1e-9)
    assert found.error == pytest.approx(expected.error)


@others
def test_nystroem_maps_are_those_of_numpy(convert):
    X = draw_rows()
    found, expected = KernelMap(any_rbf, 15, 0), KernelMap(any_rbf, 15, 0)
    found.fit(convert(X))
    expected.fit(X)
    np.testing.assert_array_equal(found.pivots, expected.pivots)
    np.testing.assert_allclose(np.asarray(found.identity(2)), expected.identity(2), atol=1e-9)


@others
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fourier_maps_are_those_of_numpy(convert, dtype):
    X = draw_rows().astype(dtype)
    found, expected = FourierMap(0.3, 31, 0), FourierMap(0.3, 31, 0)
    Phi = found.fit(convert(X))
    assert Phi.dtype == convert(X).dtype
    np.testing.assert_allclose(
        np.asarray(Phi), expected.fit(X), atol=1e-6 if dtype == np.float32 else 1e-12
    )
    assert found.error == pytest.approx(expected.error, rel=1e-5)
    assert type(found.frequencies) is type(found.identity(2)) is type(convert(X))
    np.testing.assert_allclose(found.transform(X), expected.transform(X), atol=1e-12)


# -------------------------------------------------------------------------------- bad arguments


def test_other_columns_than_fitted_are_refused():
    fourier = FourierMap(0.3, 10, 0)
    fourier.fit(draw_rows(d=3))
    with pytest.raises(ValueError, match="X has 4 columns, but the model was fitted to 3"):
        fourier.transform(draw_rows(d=4))


def no_matrix(A, B):
    return np.zeros(len(A))


def flipped_shape(A, B):
    return any_rbf(A, B)[:, :-1]


def not_definite(A, B):
    return 3 * any_rbf(A, B) - 2 * np.all(A[:, None] == B[None], axis=-1)


def negative(A, B):
    return np.where(A[:, :1] > 0, 1, -1) * any_rbf(A, B)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (flipped_shape, r"returned shape \(40, 39\), but must return shape .*per row of B"),
        (no_matrix, r"returned shape \(40,\), but must return shape"),
        (lambda A, B: 0 * any_rbf(A, B), r"no positive diagonal entry \(largest: 0.0\)"),
        (lambda A, B: any_rbf(A, B) + np.nan, "contains NaN or infinity"),
        (lambda A, B: any_rbf(A, B) + np.inf, "contains NaN or infinity"),
        (not_definite, "not positive semidefinite: .* an error of .* after [1-9][0-9]* pivots"),
        (negative, "not positive semidefinite: .* an error of 1 after 0 pivots"),
        (lambda A, B: any_rbf(A, B) + A[:, :1] - B[:, :1].T, "not symmetric"),
    ],
)
def test_what_is_no_kernel_is_refused(kernel, message):
    with pytest.raises(ValueError, match=message):
        pivoted_cholesky(kernel, draw_rows(), 20, 0)


def test_a_precomputed_kernel_must_be_square():
    with pytest.raises(ValueError, match=r"must be square, got shape \(40, 3\)"):
        pivoted_cholesky(kernel_of("precomputed"), draw_rows(), 5)
