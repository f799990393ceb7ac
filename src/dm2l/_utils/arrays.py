"""Array operations that the array API standard lacks, checks of numbers, and BLAS threads."""

import functools
import operator
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from operator import call
from threading import Lock
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from array_api_compat import (
    array_namespace,
    device,
    is_array_api_obj,
    is_numpy_array,
    is_torch_array,
    to_device,
)
from array_api_compat import numpy as numpy_namespace
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from threadpoolctl import ThreadpoolController

from dm2l._utils.files import available_memory

Index = NDArray[np.intp]
# Memory is checked if a sparse X has more columns than this; a column with 3 labels takes 200 B.
WIDE, BYTES_PER_COLUMN = 2**22, 200
# Sums of squares of smaller values do not overflow, in float64 even products of two such sums.
LARGEST = {"float64": 1e75, "float32": 1e15}


def is_non_numpy(array: Any) -> bool:
    """Return whether an array belongs to a library other than numpy, such as torch or cupy."""
    if type(array) is np.ndarray:  # fast path: a small fit calls this thousands of times
        return False
    return not sp.issparse(array) and is_array_api_obj(array) and not is_numpy_array(array)


def device_name(array: Any) -> str:
    """Return the library and the device of an array as text."""
    if not is_non_numpy(array):
        return "numpy"
    library = array_namespace(array).__name__.removeprefix("array_api_compat.")
    return f"{library} on {device(array)}"


def namespace(array: Any) -> Any:
    """Return the array namespace of a dense array, or numpy's namespace for a sparse matrix."""
    plain = type(array) is np.ndarray or sp.issparse(array)
    return numpy_namespace if plain else array_namespace(array)


def to_numpy(array: Any) -> NDArray[Any]:
    """Return an array of any library and device as a numpy array."""
    if is_torch_array(array):
        return np.asarray(array.detach().cpu())
    if is_non_numpy(array):
        if hasattr(array, "get"):  # cupy
            return np.asarray(array.get())
        if str(device(array)) != "cpu":  # array_api_strict simulates devices
            return np.asarray(to_device(array, array_namespace(array).Device("CPU_DEVICE")))
    return np.asarray(array)


def asarray_like(array: Any, other: Any, dtype: Any = None) -> Any:
    """Return a numpy array in the namespace and on the device of ``other``."""
    if not is_non_numpy(other):
        return np.asarray(array, dtype=dtype)
    return array_namespace(other).asarray(array, dtype=dtype, device=device(other))


def float64(X: Any) -> Any:
    """Return a dense or sparse matrix of any library in float64."""
    if is_non_numpy(X):
        xp = array_namespace(X)
        return xp.astype(X, xp.float64, copy=False)
    return X.astype(np.float64, copy=False)


def scale_rows(X: Any, factors: NDArray[np.float64]) -> Any:
    """Multiply each row of a dense or sparse matrix of any library by a separate factor."""
    if sp.issparse(X):
        return sp.csr_array(sp.diags_array(factors.astype(X.dtype)) @ X)
    return namespace(X).astype(asarray_like(factors, X), X.dtype, copy=False)[:, None] * X


def take_rows(array: Any, rows: Index) -> Any:
    """Return the given rows of an array, sparse matrix or data frame."""
    if type(array) is np.ndarray:
        return array[rows, ...]
    if is_non_numpy(array):
        return array_namespace(array).take(array, asarray_like(rows, array), axis=0)
    return _safe_indexing(array, rows)


def take_columns(array: Any, columns: Index) -> Any:
    """Return the given columns of an array, sparse matrix or data frame."""
    if is_non_numpy(array):
        return array_namespace(array).take(array, asarray_like(columns, array), axis=1)
    return _safe_indexing(array, columns, axis=1)


def take_block(array: Any, rows: Index, columns: Index, scratch: Any = None) -> Any:
    """Return a submatrix; a numpy result may be stored in the flat array ``scratch``."""
    if type(array) is not np.ndarray:
        return take_columns(take_rows(array, rows), columns)
    scratch = np.empty(len(rows) * len(columns), array.dtype) if scratch is None else scratch
    block = scratch[: len(rows) * len(columns)].reshape(len(rows), len(columns))
    for start in range(0, len(rows), 64):
        some = slice(start, start + 64)
        np.take(array[rows[some]], columns, axis=1, out=block[some], mode="wrap")
    return block


def check_magnitude(X: Any, names: Any = None) -> None:
    """Raise a ValueError if values are so large that their products overflow."""
    xp = namespace(X)
    values = X.data if sp.issparse(X) else X
    if sp.issparse(X) and X.shape[1] > WIDE:  # the weights of all columns must fit into memory
        _check_columns(X)
    limit = LARGEST.get(str(values.dtype).rpartition(".")[2])
    if limit is None:  # other types are converted or refused by the estimator
        return
    with np.errstate(over="ignore"):
        # Reading in memory order avoids a copy. If the sum of squares is small, no value
        # exceeds the limit.
        flat = values.ravel("K") if is_numpy_array(values) else xp.reshape(values, (-1,))
        if float(xp.vecdot(flat, flat)) <= limit**2:
            return
    dense = to_numpy(values).ravel()
    place = int(np.abs(dense).argmax())
    value = float(dense[place])
    if not abs(value) > limit:
        return
    column = int(X.indices[place]) if sp.issparse(X) else place % X.shape[1]
    name = f"{column}" if names is None else f"{column} ({names[column]!r})"
    what = f"Column {name} of X holds {value:g}; products of values beyond {limit:g} overflow."
    remedy = "Scale the column, for instance with StandardScaler, or take its logarithm."
    raise ValueError(f"{what} {remedy}")


def _check_columns(X: Any) -> None:
    n_columns, free = X.shape[1], available_memory()
    needed = BYTES_PER_COLUMN * n_columns
    if needed > free:
        used = len(np.unique(X.indices))
        raise ValueError(
            f"Only {used} of the {n_columns} columns of X have entries. The weights of all columns "
            f"take about {needed / 2**30:.3g} GiB of memory, but {free / 2**30:.3g} GiB are free. "
            "Drop the columns without entries: X[:, numpy.unique(X.indices)]."
        )


def check_finite(A: Any, what: str) -> None:
    """Raise an error if values are not finite, because some LAPACK routines would not end."""
    xp = namespace(A)
    if not bool(xp.all(xp.isfinite(A))):
        raise np.linalg.LinAlgError(f"{what} contain NaN or infinity")


@contextmanager
def checked_numbers(X: Any) -> Iterator[None]:
    """Suppress overflow warnings, and turn numerical failures into errors about X's scale."""
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            yield
    except (np.linalg.LinAlgError, ArithmeticError) as error:
        raise ValueError(
            f"The computation failed numerically ({str(error).rstrip('.')}). {_scales(X)} Scale "
            "the columns, for instance with StandardScaler, or raise the ridge penalty alpha."
        ) from error


def _scales(X: Any) -> str:
    """Return a sentence on the columns of X with the largest and the smallest values."""
    if len(getattr(X, "shape", ())) != 2 or not (sp.issparse(X) or is_array_api_obj(X)):
        return "The columns of X are too large or have very different scales."
    largest = abs(X).max(axis=0).toarray() if sp.issparse(X) else np.abs(to_numpy(X)).max(axis=0)
    largest = largest.ravel()
    least = np.where(largest > 0, largest, np.inf).argmin()
    most = f"{largest.max():.3g} in column {largest.argmax()}"
    return f"Absolute values of X reach {most}, but {largest[least]:.3g} in column {least}."


def identity(square: Any) -> Any:
    """Return the identity matrix of the size, dtype and device of a square matrix."""
    xp = array_namespace(square)
    return xp.eye(square.shape[0], dtype=square.dtype, device=device(square))


def add_diagonal(A: Any, values: Any) -> Any:
    """Add values to the diagonal of ``A``; a numpy array is changed in place."""
    if is_numpy_array(A):
        np.einsum("ii->i", A)[...] += values
        return A
    xp = array_namespace(A)
    index = xp.arange(A.shape[0], device=device(A))
    return xp.where(index[:, None] == index[None, :], A + values[:, None], A)


def cholesky(A: Any, *, overwrite: bool = False) -> Any:
    """Return the lower Cholesky factor, or None if ``A`` is not positive definite."""
    if is_torch_array(A):
        L, failed = array_namespace(A).linalg.cholesky_ex(A)
        return None if int(failed) else L
    try:
        if is_numpy_array(A):
            # The transpose of a symmetric matrix equals it, and has the order that LAPACK expects.
            A = A.T if overwrite and A.flags.c_contiguous else A
            return scipy.linalg.cholesky(A, lower=True, overwrite_a=overwrite, check_finite=False)
        return array_namespace(A).linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return None


def solve_triangular(L: Any, B: Any, *, transpose: bool = False) -> Any:
    """Solve ``L Z = B``, or ``L'Z = B``, with a lower triangular ``L``."""
    if is_numpy_array(L):
        trans = int(transpose)
        return scipy.linalg.solve_triangular(L, B, lower=True, trans=trans, check_finite=False)
    xp = array_namespace(L)
    A = L.T if transpose else L
    if is_torch_array(L):
        return xp.linalg.solve_triangular(A, B, upper=transpose)
    return xp.linalg.solve(A, B)


def invert_triangular(L: Any) -> Any:
    """Return the inverse of a lower triangular matrix by recursion on its halves."""
    n = L.shape[0]
    if n <= 1024:
        return solve_triangular(L, identity(L))
    xp, half = array_namespace(L), n // 2
    first, last = invert_triangular(L[:half, :half]), invert_triangular(L[half:, half:])
    inverse = xp.zeros_like(L)
    inverse[:half, :half] = first
    inverse[half:, half:] = last
    inverse[half:, :half] = -(last @ (L[half:, :half] @ first))
    return inverse


def factorize(values: Iterable[Hashable]) -> NDArray[np.intp]:
    """Return an integer code for each value, numbered from 0 in the order of first occurrence."""
    known: dict[Hashable, int] = {}
    return np.fromiter((known.setdefault(value, len(known)) for value in values), dtype=np.intp)


def sparse_from_parts(
    data: Any, indices: Any, indptr: Any, shape: Any, *, layout: str = "csr"
) -> Any:
    """Build a sparse matrix from arrays in a file, after checking that they are consistent."""
    # scipy's check does not suffice: it checks nothing if indptr ends in 0, and it compares by
    # differences, which may overflow. Invalid indices would make compiled code read other memory.
    try:
        sizes = [operator.index(size) for size in shape]
    except TypeError:
        sizes = []
    if len(sizes) != 2 or not all(0 <= size < 2**63 - 1 for size in sizes):
        raise ValueError(f"the shape must be two integers >= 0, not {str(shape)[:60]}")
    for name, part in {"data": data, "indices": indices, "indptr": indptr}.items():
        array, kinds = isinstance(part, np.ndarray), "biuf" if name == "data" else "iu"
        if not array or part.ndim != 1 or part.dtype.kind not in kinds:
            what = f"{part.ndim}-D {part.dtype}" if array else type(part).__name__
            wanted = "integers" if kinds == "iu" else "real numbers"
            raise ValueError(f"{name} must be a 1-D array of {wanted}, not {what}")
    major, minor = sizes if layout == "csr" else reversed(sizes)
    if len(data) != len(indices):
        raise ValueError(f"there are {len(data)} values, but {len(indices)} indices")
    if len(indptr) != major + 1:
        raise ValueError(f"indptr must have {major + 1} entries, not {len(indptr)}")
    # Entries are compared, not subtracted, because a difference of two integers may overflow.
    first, last = int(indptr[0]), int(indptr[-1])
    if first != 0 or last != len(data) or bool((indptr[1:] < indptr[:-1]).any()):
        raise ValueError(f"indptr must not decrease, and must go from 0 to {len(data)}")
    # As unsigned integers, negative indices are large, so a single pass finds both errors.
    unsigned = indices.view(indices.dtype.str.replace("i", "u"))
    if len(indices) and int(unsigned.max()) >= minor:
        found = f"{indices.min()} to {indices.max()}"
        raise ValueError(f"indices go from {found}, but must be from 0 to {minor - 1}")
    integers = np.int32 if max(minor, len(data)) < 2**31 else np.int64
    parts = (data, indices.astype(integers, copy=False), indptr.astype(integers, copy=False))
    return (sp.csr_array if layout == "csr" else sp.csc_array)(parts, shape=tuple(sizes))


WORTH_SHARING = 1e8  # minimum number of multiplications for which several threads are faster
# The same limit for factorizing kernel matrices, which fits do often. On a busy machine, threads
# for smaller matrices can make a fit many times slower.
WORTH_FACTORING = 1e10


_controller = functools.cache(ThreadpoolController)
# Thread pools by number of workers, reused by later calls.
pool = functools.cache(functools.partial(ThreadPoolExecutor, thread_name_prefix="dm2l"))
if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=pool.cache_clear)


# The limit of BLAS threads, and the number of threads that need it.
blas_limit: Any = SimpleNamespace(lock=Lock(), users=0, threads=None)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread in a ``with`` block; ``benchmarks/blas.py`` shows the effect."""
    # The limit is per process: the first thread to enter sets it, and the last to leave removes it.
    with blas_limit.lock:
        if not blas_limit.users:
            blas_limit.threads = _controller().limit(limits=1, user_api="blas")
        blas_limit.users += 1
    try:
        yield
    finally:
        with blas_limit.lock:
            blas_limit.users -= 1
            if not blas_limit.users:
                blas_limit.threads.restore_original_limits()


def blas_threads(size: float, worth: float = WORTH_SHARING) -> AbstractContextManager[Any]:
    """Limit BLAS to one thread in a ``with`` block if ``size`` is less than ``worth``."""
    return one_blas_thread() if size < worth else nullcontext()


def run_all(tasks: Sequence[Callable[[], Any]], workers: int) -> list[Any]:
    """Run tasks in several threads and return their results in order."""
    if workers == 1 or len(tasks) == 1:
        return list(map(call, tasks))
    return list(pool(workers).map(call, tasks))


def blas_thread_count() -> int:
    """Return the number of threads that BLAS may use."""
    found = (one["num_threads"] for one in _controller().info() if one["user_api"] == "blas")
    return max(found, default=1)
