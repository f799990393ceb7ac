"""Data sets in ``NAME.npz`` archives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import Bunch

from dm2l.files import DataFileError, whole_file
from dm2l.memory import check_width
from dm2l.readers._bunch import make_bunch, no_labels
from dm2l.readers.columns import check_distinct
from dm2l.readers.npz_file import read_members
from dm2l.readers.words import label_targets
from dm2l.sparse_input import sparse_from_parts

_SPARSE = ("X_data", "X_indices", "X_indptr", "X_shape")
_PARTS = (*_SPARSE, "X", "Y", "label_names", "feature_names", "train_index", "test_index", "source")


def read_npz(path: str | Path, *, features_only: bool = False) -> Bunch:
    """Read a data set from one archive.

    The archive holds ``X`` (dense) or ``X_data, X_indices, X_indptr, X_shape`` (CSR), ``Y``, and
    where known ``label_names``, ``feature_names``, ``train_index``, ``test_index``, ``source``.

    Parameters
    ----------
    path : str or Path
        The archive. Pickled objects in it are refused, and what does not fit into memory.
    features_only : bool, default=False
        Whether labels are passed over, so that ``Y`` need not be there; ``target`` then has no
        columns.

    Returns
    -------
    Bunch
        ``data`` (float64, dense or CSR), ``target`` (int8 0/1, or float64 with NaN where labels
        are missing), and ``target_names``, ``feature_names``, ``train_index``, ``test_index``,
        ``source``, each None where the archive does not say.

    See Also
    --------
    write_npz : Write such an archive.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from dm2l.readers import read_npz
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "tiny.npz")
    ...     np.savez(path, X=np.eye(2), Y=np.array([[1, 0], [0, 1]]))
    ...     tiny = read_npz(path)
    >>> tiny.data.shape, tiny.target.tolist(), tiny.source
    ((2, 2), [[1, 0], [0, 1]], None)
    """
    found = read_members(path, _PARTS)
    data = _features(found, path)
    n, d = data.shape
    names: list[str] | None = []
    check_width(path, d)
    if features_only:
        target = no_labels(data)
    elif "Y" not in found:
        raise DataFileError(path, f"there is no Y; there are {sorted(found)}")
    else:
        target = _labels(found["Y"], path)
        names = _names(found, "label_names", target.shape[1], path)
    if len(target) != n:
        raise DataFileError(path, f"X of shape {data.shape} and Y of shape {target.shape} differ")
    if names:
        check_distinct(names, str(path), "labels")
    source = found.get("source")
    return make_bunch(
        data,
        target,
        target_names=names,
        feature_names=_names(found, "feature_names", d, path),
        train_index=_rows(found, "train_index", n, path),
        test_index=_rows(found, "test_index", n, path),
        source=None if source is None else str(source),
    )


def write_npz(path: str | Path, bunch: Bunch) -> None:
    """Write a data set as an archive that :func:`~dm2l.datasets.load_dataset` finds by its name.

    The file appears under its name only when it is complete.

    Parameters
    ----------
    path : str or Path
        Where to, such as ``NAME.npz`` in the folder that ``DM2L_DATA`` names.
    bunch : Bunch
        What a reader has returned.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dm2l.datasets import load_digit_attributes
    >>> from dm2l.readers import read_npz, write_npz
    >>> digits = load_digit_attributes()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_npz(Path(folder, "digits.npz"), digits)
    ...     again = read_npz(Path(folder, "digits.npz"))
    >>> bool((again.data == digits.data).all()), again.target_names == digits.target_names
    (True, True)
    """
    path, parts = Path(path), {}
    if sp.issparse(bunch.data):
        X = sp.csr_array(bunch.data)
        parts = {"X_data": _small(X.data), "X_indices": X.indices, "X_indptr": X.indptr}
        parts["X_shape"] = np.array(X.shape)
    else:
        parts["X"] = _small(np.asarray(bunch.data))
    parts["Y"] = np.asarray(bunch.target)
    keys = {"target_names": "label_names"}
    for key in ("target_names", "feature_names", "train_index", "test_index", "source"):
        if bunch.get(key) is not None:
            parts[keys.get(key, key)] = np.asarray(bunch[key])
    with whole_file(path) as partial, partial.open("xb") as file:
        np.savez_compressed(file, **parts)


def _small(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Counts and 0/1 in one byte each; anything else as it is."""
    if values.size and not (np.abs(values) <= 127).all():
        return values
    small = values.astype(np.int8)
    return small if np.array_equal(small, values) else values


def _features(found: dict[str, NDArray[Any]], path: str | Path) -> Any:
    """X as float64: stored small (int8, float32), it is computed with in full."""
    if "X" in found:
        return _numbers(found["X"], "X", path)
    if not all(part in found for part in _SPARSE):
        raise DataFileError(
            path, f"there is neither X nor all of {', '.join(_SPARSE)}; there are {sorted(found)}"
        )
    data, indices, indptr, shape = (found[part] for part in _SPARSE)
    try:
        matrix = sparse_from_parts(data, indices, indptr, shape)
    except ValueError as error:
        raise DataFileError(path, f"X_data, X_indices, ... are no CSR matrix: {error}") from error
    return matrix.astype(np.float64, copy=False)


def _labels(Y: NDArray[Any], path: str | Path) -> NDArray[Any]:
    if Y.dtype == np.int8 and Y.ndim == 2 and ((Y == 0) | (Y == 1)).all():
        return Y  # as it is written here, without the way through float64
    return label_targets(_numbers(Y, "Y", path), None, str(path))


def _numbers(values: NDArray[Any], part: str, path: str | Path) -> NDArray[np.float64]:
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        what = f"of type {values.dtype} with {values.ndim} dimensions"
        raise DataFileError(path, f"{part} is {what}, not a matrix of real numbers")
    return values.astype(np.float64, copy=False)


def _names(
    found: dict[str, NDArray[Any]], part: str, size: int, path: str | Path
) -> list[str] | None:
    names = found.get(part)
    if names is None:
        return None
    if names.shape != (size,):
        raise DataFileError(path, f"{part} is of shape {names.shape} for {size} columns")
    return [str(name) for name in names]


def _rows(
    found: dict[str, NDArray[Any]], part: str, n: int, path: str | Path
) -> NDArray[Any] | None:
    rows = found.get(part)
    if rows is None:
        return None
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or not ((rows >= 0) & (rows < n)).all():
        raise DataFileError(path, f"{part} does not name some of the rows 0 to {n - 1}")
    return rows
