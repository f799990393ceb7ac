"""MATLAB files with a feature matrix and a label matrix."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch

from dm2l.files import DataFileError
from dm2l.memory import check_room
from dm2l.readers._bunch import make_bunch, no_labels
from dm2l.readers._mat_process import Other, read_variables
from dm2l.readers.unpacking import FEWER
from dm2l.readers.words import label_targets

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
    missing: float = np.nan,
    features_only: bool = False,
) -> Bunch:
    """Read features and labels from a MATLAB file of version 4 to 7.

    scipy reads it in a process of its own, with limits on memory and time: at damaged bytes its
    compiled code may die, and with it the process that it runs in. That costs about a third of a
    second.

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
    missing : float, default=nan
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
    usual = {name for names in (*_FEATURES, *_LABELS) for name in names}
    given = {name for one in (X, Y) if one is not None for name in _several(one)}
    found = read_variables(path, given, usual)
    x_keys = _keys(found, X, _FEATURES, "X", path)
    if features_only and Y is None and len(_guesses(found, _LABELS)) != 1:
        y_keys = x_keys  # nothing says that they should be turned
    else:
        y_keys = _keys(found, Y, _LABELS, "Y", path)
    if len(x_keys) != len(y_keys):
        raise DataFileError(path, f"X={x_keys} and Y={y_keys} do not pair up")
    pairs = [
        _oriented(_matrix(found, x, path), _matrix(found, y, path), (x, y), path)
        for x, y in zip(x_keys, y_keys, strict=True)
    ]
    if len({x.shape[1] for x, _ in pairs}) > 1 or len({y.shape[1] for _, y in pairs}) > 1:
        shapes = [(x.shape, y.shape) for x, y in pairs]
        raise DataFileError(path, f"{x_keys} and {y_keys} do not stack; their shapes are {shapes}")
    if sp.issparse(pairs[0][0]):
        data = sp.csr_array(sp.vstack([x for x, _ in pairs], format="csr"))
        data.sum_duplicates()
    else:
        data = np.vstack([x.toarray() if sp.issparse(x) else x for x, _ in pairs])
    values = np.vstack([y for _, y in pairs])
    if not np.isnan(missing):
        values[values == missing] = np.nan
    n, cut = len(values), len(pairs[0][1])
    return make_bunch(
        data,
        no_labels(data) if features_only else label_targets(values, None, str(path)),
        train_index=np.arange(cut) if len(pairs) > 1 else None,
        test_index=np.arange(cut, n) if len(pairs) > 1 else None,
    )


def _several(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _keys(
    found: dict[str, Any],
    given: str | Sequence[str] | None,
    usual: tuple[tuple[str, ...], ...],
    argument: str,
    path: str | Path,
) -> tuple[str, ...]:
    if given is not None:
        keys = _several(given)
        absent = [key for key in keys if key not in found]
        if absent or len(keys) not in (1, 2):
            raise DataFileError(
                path, f"there are no variable(s) {absent or keys}; there are {sorted(found)}"
            )
        return keys
    guesses = _guesses(found, usual)
    if len(guesses) != 1:
        what = "several that could be it" if guesses else "no variable of a usual name"
        raise DataFileError(
            path,
            f"{what} for {argument}; there are {sorted(found)}",
            way_out=f"Name it with {argument}=.",
        )
    return guesses[0]


def _guesses(found: dict[str, Any], usual: tuple[tuple[str, ...], ...]) -> list[tuple[str, ...]]:
    """Variables of usual names."""
    lower = {key.lower(): key for key in sorted(found)}
    return [tuple(lower[k] for k in keys) for keys in usual if all(k in lower for k in keys)]


def _matrix(found: dict[str, Any], key: str, path: str | Path) -> Any:
    value = found[key]
    if isinstance(value, Other):
        raise DataFileError(path, f"{key!r} is no matrix of numbers ({value.said})")
    if sp.issparse(value):
        return sp.csr_array(value).astype(np.float64, copy=False)
    return value.astype(np.float64, copy=False)


def _oriented(X: Any, Y: Any, keys: tuple[str, str], path: str | Path) -> tuple[Any, Any]:
    """Both with one row a sample; where several readings fit, the one that turns least."""
    if sp.issparse(Y):
        rows, columns = Y.shape
        check_room(path, 9 * rows * columns, f"a matrix of {rows} x {columns} labels", FEWER)
        Y = Y.toarray()
    for x, y in ((X, Y), (X, Y.T), (X.T, Y), (X.T, Y.T)):
        if x.shape[0] == y.shape[0]:
            return (sp.csr_array(x) if sp.issparse(x) else np.ascontiguousarray(x)), y.copy()
    raise DataFileError(
        path,
        f"{keys[0]!r} of shape {X.shape} and {keys[1]!r} of shape {Y.shape} have no number of "
        "samples in common",
    )
