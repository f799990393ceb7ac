"""Data sets in ``NAME.npz`` archives."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch

from dm2l.files import whole_file
from dm2l.readers._columns import label_targets, make_bunch, no_labels

# What numpy raises for an archive that is damaged or holds Python objects.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    tokenize.TokenError,
    SyntaxError,
    EOFError,
    NotImplementedError,
    OSError,
    ValueError,
)


def read_npz(path: str | Path, *, features_only: bool = False) -> Bunch:
    """Read a data set from one archive.

    The archive holds ``X`` (dense) or ``X_data, X_indices, X_indptr, X_shape`` (CSR), ``Y``, and
    where known ``label_names``, ``feature_names``, ``train_index``, ``test_index``, ``source``.

    Parameters
    ----------
    path : str or Path
        The archive. Pickled objects in it are refused.
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
    found = _members(Path(path))
    if not ({"X", "X_data"} & set(found)) or ("Y" not in found and not features_only):
        needed = "X (or X_data, ...)" + ("" if features_only else " and Y")
        raise ValueError(f"{path} needs {needed}, has {sorted(found)}.")
    data = _features(found, path)
    names: list[str] | None
    if features_only:
        names, target = [], no_labels(data)
    else:
        names = _strings(found.get("label_names"))
        target = label_targets(found["Y"], names, str(path))
    if data.ndim != 2 or target.ndim != 2 or data.shape[0] != len(target):
        raise ValueError(f"{path}: X of shape {data.shape} and Y of shape {target.shape} differ.")
    source = found.get("source")
    return make_bunch(
        data,
        target,
        target_names=names,
        feature_names=_strings(found.get("feature_names")),
        train_index=found.get("train_index"),
        test_index=found.get("test_index"),
        source=None if source is None else str(source),
    )


def write_npz(path: str | Path, bunch: Bunch) -> None:
    """Write a data set as an archive that :func:`load_dataset` finds by its name.

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


def _members(path: Path) -> dict[str, Any]:
    """Arrays of an archive by their names."""
    with path.open("rb") as file:
        if file.read(4) not in (b"PK\3\4", b"PK\5\6"):  # numpy would take it for a pickle
            raise ValueError(f"{path} is no npz archive, or only a part of one.")
        file.seek(0)
        try:
            with np.load(file, allow_pickle=False) as archive:
                found = {key: archive[key] for key in archive.files}
        except _DAMAGE as error:
            raise ValueError(f"{path} is no readable npz archive: {error}") from error
    strange = [key for key, value in found.items() if not isinstance(value, np.ndarray)]
    if strange:
        raise ValueError(f"{path} is no npz archive: {strange[0]!r} in it is no array.")
    return found


def _small(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Counts and 0/1 in one byte each; anything else as it is."""
    if values.size and not (np.abs(values) <= 127).all():
        return values
    small = values.astype(np.int8)
    return small if np.array_equal(small, values) else values


def _features(found: dict[str, Any], path: str | Path) -> Any:
    if "X" in found:
        return found["X"].astype(np.float64)
    # Stored small (int8, float32); everything downstream computes in float64.
    parts = (found["X_data"].astype(np.float64), found["X_indices"], found["X_indptr"])
    try:
        matrix = sp.csr_array(parts, shape=tuple(int(s) for s in found["X_shape"]))
        matrix.check_format(full_check=True)  # an index out of range would crash compiled code
    except ValueError as error:
        raise ValueError(f"{path}: X_data, X_indices, ... are no CSR matrix: {error}") from error
    return matrix


def _strings(names: Any) -> list[str] | None:
    return None if names is None else [str(name) for name in names]
