"""Arrays of any library: what the standard lacks, factors of kernel matrices, and kernels."""

from __future__ import annotations

import re

import array_api_compat
import array_api_strict as strict
import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import scipy.sparse as sp
from sklearn.metrics.pairwise import pairwise_kernels

from dm2l._solvers.kernels import Kernel, KernelFactor, kernel_factor
from dm2l._utils import arrays

# Version 2.1 of array_api_strict copies between devices in a way that numpy 1 does not know.
moves = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.0.0",
    reason="array_api_strict moves arrays between its devices on numpy 2 only",
)
FOREIGN = ["strict", pytest.param("strict device", marks=moves), "torch"]
foreign = pytest.mark.parametrize("place", FOREIGN)
anywhere = pytest.mark.parametrize("place", ["numpy", *FOREIGN])


def put(array, place):
    """``array`` where a test wants it."""
    if place == "torch":
        torch = pytest.importorskip("torch", reason="torch is an extra")
        return torch.asarray(np.asarray(array))
    if place == "strict device":
        return strict.asarray(array, device=strict.Device("device1"))
    return strict.asarray(array) if place == "strict" else np.asarray(array)


def back(array):
    """The same as a numpy array, by each library's own means."""
    if type(array).__module__.startswith("torch"):
        return array.numpy()
    if isinstance(array, np.ndarray):
        return array
    return np.asarray(array.to_device(strict.Device("CPU_DEVICE")))


def assert_there(array, place):
    example = put(np.zeros(1), place)
    assert type(array) is type(example)
    assert array_api_compat.device(array) == array_api_compat.device(example)


# ------------------------------------------------------------------------- where arrays live


@foreign
def test_arrays_of_other_libraries_are_foreign(place):
    assert arrays.is_non_numpy(put(np.ones((2, 2)), place))


@pytest.mark.parametrize(
    "array",
    [np.ones(2), np.float64(1.0), sp.csr_array(np.eye(2)), sp.csc_matrix(np.eye(2)), [[1.0]], "x"],
    ids=["ndarray", "scalar", "csr array", "csc matrix", "list", "text"],
)
def test_what_is_numpy_sparse_or_no_array_is_not_foreign(array):
    assert not arrays.is_non_numpy(array)
    assert arrays.device_name(array) == "numpy"


def test_a_data_frame_is_not_foreign():
    assert not arrays.is_non_numpy(pd.DataFrame({"a": [1.0]}))


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("numpy", "numpy"),
        ("torch", "torch on cpu"),
        ("strict", "array_api_strict on .*CPU_DEVICE.*"),
        ("strict device", "array_api_strict on .*device1.*"),
    ],
)
def test_the_home_of_an_array_names_its_library_and_device(place, expected):
    assert re.fullmatch(expected, arrays.device_name(put(np.ones(2), place)))


@anywhere
def test_the_namespace_of_an_array_is_that_of_its_library(place):
    array = put(np.ones((2, 2)), place)
    assert arrays.namespace(array) is array_api_compat.array_namespace(array)


@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_matrix])
def test_the_namespace_of_a_sparse_matrix_is_numpy_s(make):
    assert arrays.namespace(make(np.eye(2))).__name__ == "array_api_compat.numpy"


@anywhere
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8", "bool"])
@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (4,), ()], ids=str)
def test_the_way_to_numpy_and_there_keeps_values_shape_and_dtype(place, dtype, shape):
    expected = (np.random.default_rng(0).standard_normal(shape) * 3).astype(dtype)
    there = put(expected, place)
    found = arrays.to_numpy(there)
    assert type(found) is np.ndarray
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, expected)
    again = arrays.asarray_like(expected, there)
    assert_there(again, place)
    np.testing.assert_array_equal(back(again), expected)
    assert again.dtype == there.dtype


def test_to_numpy_takes_a_tensor_that_records_gradients():
    torch = pytest.importorskip("torch", reason="torch is an extra")
    tensor = torch.ones(3, requires_grad=True)
    np.testing.assert_array_equal(arrays.to_numpy(2 * tensor), 2 * np.ones(3))


@anywhere
def test_like_takes_a_dtype_of_the_library(place):
    example = put(np.zeros(1), place)
    found = arrays.asarray_like(np.arange(3), example, dtype=arrays.namespace(example).float32)
    assert_there(found, place)
    assert found.dtype == arrays.namespace(example).float32
    np.testing.assert_array_equal(back(found), [0, 1, 2])


def test_like_of_a_sparse_matrix_is_numpy():
    assert type(arrays.asarray_like([1, 2], sp.csr_array(np.eye(2)))) is np.ndarray


# ------------------------------------------------------------------------- rows and columns

INDICES = [np.array([2, 0]), np.array([1, 1, 1]), np.array([], dtype=np.intp), np.array([2])]
indices = pytest.mark.parametrize("index", INDICES, ids=str)


@anywhere
@indices
def test_rows_and_columns_are_taken_in_the_order_asked_for(place, index):
    A = np.arange(12.0).reshape(4, 3)
    rows = arrays.take_rows(put(A, place), index)
    columns = arrays.take_columns(put(A, place), index)
    assert_there(rows, place)
    assert_there(columns, place)
    np.testing.assert_array_equal(back(rows), A[index])
    np.testing.assert_array_equal(back(columns), A[:, index])


@pytest.mark.parametrize("place", ["numpy", "strict", "torch"])
def test_a_block_is_rows_and_columns_in_the_order_asked_for(place):
    rng = np.random.default_rng(0)
    A, rows, columns = rng.standard_normal((200, 90)), rng.permutation(200)[:130], [3, 89, 3, 0]
    found = arrays.take_block(put(A, place), rows, np.array(columns))
    assert_there(found, place)
    np.testing.assert_array_equal(back(found), A[np.ix_(rows, columns)])


def test_a_block_counts_negative_numbers_from_the_end():
    A = np.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(
        arrays.take_block(A, np.array([-1, 0]), np.array([-3, -1])), [[9.0, 11.0], [0.0, 2.0]]
    )


@anywhere
def test_entries_of_a_vector_are_rows(place):
    found = arrays.take_rows(put(np.arange(5.0), place), np.array([3, 1]))
    np.testing.assert_array_equal(back(found), [3.0, 1.0])


@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix])
@indices
def test_rows_and_columns_of_a_sparse_matrix_stay_sparse(make, index):
    A = np.arange(12.0).reshape(4, 3)
    for found, expected in (
        (arrays.take_rows(make(A), index), A[index]),
        (arrays.take_columns(make(A), index), A[:, index]),
    ):
        assert sp.issparse(found)
        np.testing.assert_array_equal(found.toarray(), expected)


def test_rows_and_columns_of_a_data_frame_are_taken_by_position():
    frame = pd.DataFrame(np.arange(12.0).reshape(4, 3), index=list("dcba"), columns=list("zyx"))
    assert list(arrays.take_rows(frame, np.array([3, 0])).index) == ["a", "d"]
    assert list(arrays.take_columns(frame, np.array([2, 0])).columns) == ["x", "z"]


# ------------------------------------------------------------------------------ linear algebra


def positive_definite(n, seed=0):
    root = np.random.default_rng(seed).standard_normal((n, n))
    return root @ root.T + np.eye(n)


@anywhere
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_identity_has_the_size_the_place_and_the_dtype(place, dtype):
    example = put(np.ones((3, 3), dtype=dtype), place)
    found = arrays.identity(example)
    assert_there(found, place)
    assert found.dtype == example.dtype
    np.testing.assert_array_equal(back(found), np.eye(3))


@anywhere
@pytest.mark.parametrize("n", [1, 2, 17])
def test_the_cholesky_factor_is_lower_and_its_square_is_the_matrix(place, n):
    A = positive_definite(n)
    L = arrays.cholesky(put(A, place))
    assert_there(L, place)
    np.testing.assert_array_equal(back(L), np.tril(back(L)))
    np.testing.assert_allclose(back(L) @ back(L).T, A, rtol=0, atol=1e-12 * A.max())


indefinite = {
    "negative": -np.eye(3),
    "indefinite": np.array([[1.0, 2.0], [2.0, 1.0]]),
    "zero": np.zeros((2, 2)),
    "singular": np.ones((3, 3)),
}


@anywhere
@pytest.mark.parametrize("name", indefinite)
def test_there_is_no_cholesky_factor_of_a_matrix_that_is_not_positive_definite(place, name):
    A = put(indefinite[name], place)
    before = back(A).copy()
    assert arrays.cholesky(A) is None
    np.testing.assert_array_equal(back(A), before)


@anywhere
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("columns", [0, 1, 4])
def test_triangular_systems_are_solved(place, transpose, columns):
    L = np.linalg.cholesky(positive_definite(6))
    B = np.random.default_rng(1).standard_normal((6, columns))
    found = arrays.solve_triangular(put(L, place), put(B, place), transpose=transpose)
    assert_there(found, place)
    expected = scipy.linalg.solve(L.T if transpose else L, B)
    np.testing.assert_allclose(back(found), expected, rtol=0, atol=1e-12)


@anywhere
@pytest.mark.parametrize("n", [1, 2, 40])
def test_the_inverse_of_a_triangular_matrix_is_triangular(place, n):
    L = np.linalg.cholesky(positive_definite(n))
    found = arrays.invert_triangular(put(L, place))
    assert_there(found, place)
    np.testing.assert_array_equal(back(found), np.tril(back(found)))
    np.testing.assert_allclose(back(found) @ L, np.eye(n), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [1024, 1025, 1101])
def test_the_inverse_of_a_large_triangular_matrix_comes_by_halves(n):
    L = np.tril(np.random.default_rng(n).standard_normal((n, n)) / n) + np.eye(n)
    found = arrays.invert_triangular(L)
    np.testing.assert_array_equal(found, np.tril(found))
    np.testing.assert_allclose(found @ L, np.eye(n), rtol=0, atol=1e-12)


# ------------------------------------------------------------------- factors of kernel matrices


def gaussian(X, Z=None, gamma=0.2):
    Z = X if Z is None else Z
    return np.exp(-gamma * ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2))


def rows_with_copies(name):
    """Rows, and for each the first row that equals it."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((12, 4))
    order = {
        "all distinct": np.arange(12),
        "one copy": np.array([*range(12), 4]),
        "many copies": rng.integers(0, 12, 60),
        "all equal": np.zeros(9, dtype=int),
        "copies first": np.array([0, 0, 0, 1, 2, 3]),
        "one row": np.zeros(1, dtype=int),
    }[name]
    first = np.array([int(np.flatnonzero(order == k)[0]) for k in order])
    return X[order], first


copies = pytest.mark.parametrize(
    "name",
    ["all distinct", "one copy", "many copies", "all equal", "copies first", "one row"],
)


def assert_factor(factor, K, place, tol=1e-11):
    """Every promise of a factor, in numpy's terms."""
    Phi, L, pivots = back(factor.Phi), back(factor.L), factor.pivots
    size = np.abs(K).max()
    np.testing.assert_allclose(Phi @ Phi.T, K, rtol=0, atol=tol * size)
    np.testing.assert_array_equal(L, np.tril(L))
    np.testing.assert_array_equal(Phi[pivots], L)
    assert len(set(pivots.tolist())) == len(pivots) == Phi.shape[1]
    square = factor.square()
    for part in (factor.Phi, factor.L, square):
        assert_there(part, place)
    np.testing.assert_allclose(back(square), Phi.T @ Phi, rtol=0, atol=1e-13 * len(K) * size)


def assert_carries_weights(factor, K, place, tol=1e-9):
    """``dual`` and ``primal`` undo each other through the scores."""
    rank = factor.L.shape[0]
    W = np.random.default_rng(5).standard_normal((rank, 3))
    A = arrays.solve_triangular(factor.L, put(W, place), transpose=True)
    assert_there(A, place)
    np.testing.assert_allclose(back(factor.L).T @ back(A), W, rtol=0, atol=tol)
    F = back(factor.Phi) @ W
    np.testing.assert_allclose(K[:, factor.pivots] @ back(A), F, rtol=0, atol=tol * np.abs(F).max())
    there = arrays.solve_triangular(factor.L, arrays.take_rows(put(F, place), factor.pivots))
    assert_there(there, place)
    np.testing.assert_allclose(back(there), W, rtol=0, atol=tol)


@anywhere
@copies
def test_copies_of_rows_cost_rank_not_accuracy_and_the_first_ones_are_the_pivots(place, name):
    X, first = rows_with_copies(name)
    K = gaussian(X)
    factor = kernel_factor(put(K, place))
    assert_factor(factor, K, place)
    assert_carries_weights(factor, K, place)
    np.testing.assert_array_equal(factor.pivots, np.unique(first))
    Phi = back(factor.Phi)
    np.testing.assert_array_equal(Phi, Phi[first])


@anywhere
@copies
def test_copies_of_rows_in_a_kernel_matrix_of_low_rank(place, name):
    X, _ = rows_with_copies(name)
    K = X[:, :2] @ X[:, :2].T
    factor = kernel_factor(put(K, place))
    assert_factor(factor, K, place)
    assert factor.Phi.shape == (len(K), np.linalg.matrix_rank(K))
    assert_carries_weights(factor, K, place, tol=1e-7)


@anywhere
@pytest.mark.parametrize("n", [255, 257, 600])
@pytest.mark.parametrize("copied", [False, True])
def test_the_square_of_a_factor_is_right_in_blocks(place, n, copied):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 4))
    order = rng.integers(0, n, n + 40) if copied else np.arange(n)
    K = (gaussian(X, gamma=1.0) + np.eye(n))[np.ix_(order, order)]
    factor = kernel_factor(put(K, place))
    assert factor.Phi.shape == (len(order), len(set(order.tolist())))
    assert_factor(factor, K, place)


def test_blocks_of_the_square_grow_with_the_matrix():
    n = 2100  # eight blocks of 263, the last one shorter
    L = np.tril(np.random.default_rng(0).standard_normal((n, n)))
    counts = np.ones(n, dtype=np.intp)
    square = KernelFactor(L, np.arange(n), L, counts).square()
    np.testing.assert_allclose(square, L.T @ L, rtol=0, atol=1e-9)


@anywhere
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_rows_that_differ_by_rounding_are_one(place, kernel):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((8, 12))
    X = np.vstack([X, X[:5] * (1 + 1e-13), X[:2] + 1e-13 * rng.standard_normal((2, 12))])
    K = X @ X.T if kernel == "linear" else gaussian(X)
    factor = kernel_factor(put(K, place))
    assert_factor(factor, K, place)
    np.testing.assert_array_equal(factor.pivots, np.arange(8))


@pytest.mark.parametrize("apart", [1e-9, 1e-7, 3e-7])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_near_copies_cost_no_accuracy(kernel, apart):
    X = np.random.default_rng(4).standard_normal((8, 12))
    X = np.vstack([X, X[:3] * (1 + apart)])
    K = X @ X.T if kernel == "linear" else gaussian(X)
    assert_factor(kernel_factor(K), K, "numpy")


def test_a_chain_of_near_copies_costs_no_accuracy():
    x = 1 + 0.9e-6 * np.arange(1000.0)
    K = np.outer(x, x)
    factor = kernel_factor(K)
    # What the merging of neighbours alone would cost is granted here.
    np.testing.assert_allclose(factor.Phi @ factor.Phi.T, K, rtol=0, atol=3e-6)


@anywhere
@pytest.mark.parametrize("apart", [1e-5, 1e-3])
def test_rows_that_are_only_close_are_kept_apart(place, apart):
    X = np.random.default_rng(4).standard_normal((8, 12))
    K = gaussian(np.vstack([X, X[:3] + apart]), gamma=1.0)
    factor = kernel_factor(put(K, place))
    assert_factor(factor, K, place)
    assert factor.Phi.shape == (11, 11)


@anywhere
@pytest.mark.parametrize("scale", [1e-100, 1e-8, 1.0, 1e100])
def test_the_unit_of_the_kernel_does_not_matter(place, scale):
    X, first = rows_with_copies("many copies")
    K = scale * gaussian(X)
    factor = kernel_factor(put(K, place))
    np.testing.assert_array_equal(factor.pivots, np.unique(first))
    Phi = back(factor.Phi)
    np.testing.assert_allclose(Phi @ Phi.T, K, rtol=0, atol=1e-11 * scale)


@anywhere
def test_a_float32_matrix_is_factored_in_float64_to_its_own_precision(place):
    X, first = rows_with_copies("many copies")
    K = gaussian(X).astype(np.float32)
    factor = kernel_factor(put(K, place))
    assert back(factor.Phi).dtype == np.float64
    assert_factor(factor, K.astype(np.float64), place, tol=1e-5)
    assert len(factor.pivots) == len(np.unique(first))


@anywhere
def test_the_rank_of_a_float32_matrix_is_not_that_of_its_noise(place):
    X = np.random.default_rng(2).standard_normal((60, 4)).astype(np.float32)
    assert kernel_factor(put(X @ X.T, place)).Phi.shape == (60, 4)


def test_an_integer_matrix_is_factored_as_it_stands():
    K = np.array([[2, 1, 2], [1, 2, 1], [2, 1, 2]])
    factor = kernel_factor(K)
    assert_factor(factor, K.astype(float), "numpy")
    np.testing.assert_array_equal(factor.pivots, [0, 1])


@anywhere
def test_a_factor_leaves_the_matrix_as_it_was(place):
    for name in ("all distinct", "many copies", "all equal"):
        K = put(gaussian(rows_with_copies(name)[0]), place)
        before = back(K).copy()
        kernel_factor(K).square()
        np.testing.assert_array_equal(back(K), before)


def corrupted(kind, n=10):
    K = gaussian(np.random.default_rng(6).standard_normal((n, 3)))
    if kind == "one entry":
        K[2, 7] += 1e-3
    elif kind == "triangle":
        K = np.tril(K)
    elif kind == "not a number":
        K[1, 4] = np.nan
    else:
        K = K @ np.diag(np.arange(1.0, n + 1))
    return K


@anywhere
@pytest.mark.parametrize("kind", ["one entry", "triangle", "columns scaled", "not a number"])
def test_a_matrix_that_is_not_symmetric_is_refused(place, kind):
    with pytest.raises(ValueError, match="not symmetric"):
        kernel_factor(put(corrupted(kind), place))


@anywhere
def test_asymmetry_of_rounding_is_no_asymmetry(place):
    K = gaussian(np.random.default_rng(6).standard_normal((10, 3)))
    K[2, 7] *= 1 + 1e-9
    assert_factor(kernel_factor(put(K, place)), K, place, tol=1e-8)


no_kernel = {
    "negative eigenvalue": np.array([[1.0, 2.0], [2.0, 1.0]]),
    "negative diagonal entry": np.diag([1.0, 1.0, -1.0]),
    "negative": -np.eye(3),
    "zero": np.zeros((3, 3)),
    "zero diagonal": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]),
    "three by three": np.array([[1.0, 0.9, 0.9], [0.9, 1.0, 0.0], [0.9, 0.0, 1.0]]),
    "copies of an indefinite one": np.kron(
        np.array([[1.0, 0.9, 0.9], [0.9, 1.0, 0.0], [0.9, 0.0, 1.0]]), np.ones((2, 2))
    ),
}


@anywhere
@pytest.mark.parametrize("name", no_kernel)
def test_a_matrix_that_is_not_positive_semi_definite_is_refused(place, name):
    with pytest.raises(ValueError, match="positive semidefinite"):
        kernel_factor(put(no_kernel[name], place))


# ------------------------------------------------------------------------------------- kernels


def kernel_of(name, gamma=0.3, degree=3, coef0=0.7):
    return Kernel(name, gamma, degree, coef0)


PARAMETERS = {"gamma": 0.3, "degree": 3, "coef0": 0.7}


@anywhere
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "polynomial", "sigmoid", "cosine"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_kernels_are_scikit_learn_s(place, kernel, dtype):
    rng = np.random.default_rng(7)
    A, B = rng.standard_normal((9, 4)).astype(dtype), rng.standard_normal((5, 4)).astype(dtype)
    A[3] = 0.0
    A[4] *= 1e-8
    for left, right in ((A, B), (A, A)):
        found = kernel_of(kernel)(put(left, place), put(right, place))
        assert_there(found, place)
        expected = pairwise_kernels(
            left.astype(np.float64),
            right.astype(np.float64),
            metric=kernel,
            filter_params=True,
            **PARAMETERS,
        )
        assert back(found).dtype == np.float64
        np.testing.assert_allclose(back(found), expected, rtol=1e-12, atol=1e-14)


@foreign
@pytest.mark.parametrize("kernel", ["rbf", "poly", "sigmoid", "cosine"])
def test_a_kernel_leaves_its_rows_as_they_were(place, kernel):
    A = np.random.default_rng(7).standard_normal((9, 4))
    there = put(A, place)
    kernel_of(kernel)(there, there)
    np.testing.assert_array_equal(back(there), A)


@foreign
@pytest.mark.parametrize("kernel", ["laplacian", "chi2"])
def test_a_kernel_that_needs_numpy_says_so_and_what_to_do(place, kernel):
    A = put(np.ones((3, 2)), place)
    with pytest.raises(ValueError, match=rf"kernel='{kernel}' supports only numpy arrays.*precomp"):
        kernel_of(kernel)(A, A)


def test_the_laplacian_kernel_is_there_for_numpy():
    A = np.random.default_rng(7).standard_normal((4, 2))
    expected = np.exp(-0.3 * np.abs(A[:, None] - A[None]).sum(axis=2))
    np.testing.assert_allclose(kernel_of("laplacian")(A, A), expected, rtol=1e-12)


@anywhere
def test_a_function_gets_the_rows_in_float64_and_a_matrix_of_kernels_is_itself(place):
    A = put(np.random.default_rng(7).standard_normal((4, 2)).astype(np.float32), place)
    seen = []

    def function(left, right):
        seen.append(left.dtype)
        return left @ right.T

    found = kernel_of(function)(A, A)
    assert_there(found, place)
    assert seen == [arrays.namespace(A).float64]
    expected = back(A).astype(np.float64) @ back(A).T.astype(np.float64)
    np.testing.assert_allclose(back(found), expected, rtol=1e-12)
    assert kernel_of("precomputed")(A, None) is A


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "cosine"])
def test_kernels_of_sparse_rows_are_those_of_dense_ones(kernel):
    A = np.random.default_rng(7).standard_normal((6, 4)) * (np.arange(24).reshape(6, 4) % 3 > 0)
    found = kernel_of(kernel)(sp.csr_array(A), sp.csr_array(A))
    found = found.toarray() if sp.issparse(found) else found
    np.testing.assert_allclose(found, kernel_of(kernel)(A, A), rtol=1e-12, atol=1e-14)
