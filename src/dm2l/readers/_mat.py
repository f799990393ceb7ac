"""MATLAB files with a feature matrix and a label matrix."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from scipy.io import loadmat
from scipy.io.matlab import MatReadError
from sklearn.utils import Bunch

from dm2l.readers._columns import label_targets, make_bunch, no_labels

# What scipy raises for a file that ends too early or holds something else.
_DAMAGE = (MatReadError, ValueError, TypeError, LookupError, OSError, zlib.error)

# In lower case; a pair is a part for training and one for testing.
_FEATURES: tuple[tuple[str, ...], ...] = (
    ("x",),
    ("data",),
    ("features",),
    ("train_data", "test_data"),
    ("x_train", "x_test"),
    ("xtrain", "xtest"),
)
_LABELS: tuple[tuple[str, ...], ...] = (
    ("y",),
    ("target",),
    ("targets",),
    ("labels",),
    ("label",),
    ("train_target", "test_target"),
    ("y_train", "y_test"),
    ("ytrain", "ytest"),
)


def read_mat(
    path: str | Path,
    X: str | Sequence[str] | None = None,
    Y: str | Sequence[str] | None = None,
    *,
    missing_label: float = np.nan,
    features_only: bool = False,
) -> Bunch:
    """Read features and labels from a MATLAB file of version 4 to 7.

    A label matrix with one row a label, as in the Yahoo files, is turned round; so is a feature
    matrix with one column a sample, when only that fits the labels.

    Parameters
    ----------
    path : str or Path
        The MATLAB file. Version 7.3 is HDF5 and refused.
    X, Y : str or pair of str, default=None
        Variables with the features and the labels (0/1 or -1/+1, dense or sparse). A pair is
        stacked, training rows first. None: guessed from the usual names, in any case: ``X``,
        ``data``, ``features``, ``train_data`` with ``test_data``; ``Y``, ``target``, ``labels``,
        ``train_target`` with ``test_target``.
    missing_label : float, default=nan
        Mark of a label that was not observed, ``0`` in files that hold -1, 0 and +1.
    features_only : bool, default=False
        Whether labels are passed over; ``target`` then has no columns. Features stand as they are,
        one row a sample, unless a label matrix is there that says otherwise.

    Returns
    -------
    Bunch
        ``data`` (float64, dense or CSR), ``target`` (int8 0/1, or float64 with NaN where labels
        are missing), ``train_index`` and ``test_index`` of a stacked pair; ``target_names``,
        ``feature_names`` and ``source`` are None.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from scipy.io import savemat
    >>> from dm2l.readers import read_mat
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "tiny.mat")
    ...     savemat(path, {"data": [[0.5, 2], [1, 0], [0, 3]], "target": [[1, -1, 1], [-1, 1, 1]]})
    ...     tiny = read_mat(path)
    >>> tiny.data.shape, tiny.target.tolist()
    ((3, 2), [[1, 0], [0, 1], [1, 1]])
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            found = _load(file, path)
    except NotImplementedError as error:
        raise ValueError(
            f"{path} is a MATLAB file of version 7.3 (HDF5), which is not read here. In MATLAB, "
            "write it again with save(..., '-v7')."
        ) from error
    found = {key: value for key, value in found.items() if not key.startswith("__")}
    x_keys = _keys(found, X, _FEATURES, "X", path)
    if features_only and Y is None and len(_guesses(found, _LABELS)) != 1:
        y_keys = x_keys  # nothing says that they should be turned
    else:
        y_keys = _keys(found, Y, _LABELS, "Y", path)
    if len(x_keys) != len(y_keys):
        raise ValueError(f"{path}: X={x_keys} and Y={y_keys} do not pair up.")
    pairs = [
        _oriented(_matrix(found, x, path), _matrix(found, y, path), (x, y), path)
        for x, y in zip(x_keys, y_keys, strict=True)
    ]
    if len({x.shape[1] for x, _ in pairs}) > 1 or len({y.shape[1] for _, y in pairs}) > 1:
        shapes = [(x.shape, y.shape) for x, y in pairs]
        raise ValueError(f"{path}: {x_keys} and {y_keys} do not stack, their shapes are {shapes}.")
    if sp.issparse(pairs[0][0]):
        data = sp.csr_array(sp.vstack([x for x, _ in pairs], format="csr"))
        data.sum_duplicates()
    else:
        data = np.vstack([x.toarray() if sp.issparse(x) else x for x, _ in pairs])
    values = np.vstack([y for _, y in pairs])
    if not np.isnan(missing_label):
        values[values == missing_label] = np.nan
    n, cut = len(values), len(pairs[0][1])
    return make_bunch(
        data,
        no_labels(data) if features_only else label_targets(values, None, str(path)),
        train_index=np.arange(cut) if len(pairs) > 1 else None,
        test_index=np.arange(cut, n) if len(pairs) > 1 else None,
    )


def _load(file: IO[bytes], path: Path) -> dict[str, Any]:
    try:
        return dict(loadmat(file))
    except _DAMAGE as error:
        raise ValueError(
            f"{path} is no MATLAB file, or a damaged one: {str(error).rstrip('.')}."
        ) from error


def _keys(
    found: dict[str, Any],
    given: str | Sequence[str] | None,
    usual: tuple[tuple[str, ...], ...],
    argument: str,
    path: Path,
) -> tuple[str, ...]:
    if given is not None:
        keys = (given,) if isinstance(given, str) else tuple(given)
        absent = [key for key in keys if key not in found]
        if absent or len(keys) not in (1, 2):
            raise ValueError(f"{path} has no variable(s) {absent or keys}; it has {sorted(found)}.")
        return keys
    guesses = _guesses(found, usual)
    if len(guesses) != 1:
        what = "several that could be it" if guesses else "no variable of a usual name"
        raise ValueError(
            f"{path}: {what} for {argument}; it has {sorted(found)}. Name it with {argument}=."
        )
    return guesses[0]


def _guesses(found: dict[str, Any], usual: tuple[tuple[str, ...], ...]) -> list[tuple[str, ...]]:
    """Variables of usual names."""
    lower = {key.lower(): key for key in sorted(found)}
    return [tuple(lower[k] for k in keys) for keys in usual if all(k in lower for k in keys)]


def _matrix(found: dict[str, Any], key: str, path: Path) -> Any:
    value = found[key]
    if sp.issparse(value):
        return sp.csr_array(value).astype(np.float64)
    if value.dtype.kind not in "biuf" or value.ndim != 2:
        raise ValueError(
            f"{path}: {key!r} is no matrix of numbers (dtype {value.dtype}, {value.ndim} "
            "dimensions)."
        )
    return np.array(value, dtype=np.float64)


def _oriented(X: Any, Y: Any, keys: tuple[str, str], path: Path) -> tuple[Any, Any]:
    """Both with one row a sample; where several readings fit, the one that turns least."""
    Y = Y.toarray() if sp.issparse(Y) else Y
    for x, y in ((X, Y), (X, Y.T), (X.T, Y), (X.T, Y.T)):
        if x.shape[0] == y.shape[0]:
            return (sp.csr_array(x) if sp.issparse(x) else np.ascontiguousarray(x)), y.copy()
    raise ValueError(
        f"{path}: {keys[0]!r} of shape {X.shape} and {keys[1]!r} of shape {Y.shape} have no "
        "number of samples in common."
    )
