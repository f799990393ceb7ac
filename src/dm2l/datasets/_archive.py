"""Data sets in a folder of ``NAME.npz`` archives."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch

_VARIABLE = "DM2L_DATA"


def load_dataset(name: str) -> Bunch:
    """Load a benchmark data set from the folder that ``DM2L_DATA`` names.

    An archive ``NAME.npz`` holds ``X`` (dense) or ``X_data, X_indices, X_indptr, X_shape`` (CSR),
    ``Y`` (0/1), and where known ``label_names``, ``feature_names``, ``train_index``,
    ``test_index``, ``source``.

    Parameters
    ----------
    name : str
        Name of the archive without its ending, for example ``"Arts"``.

    Returns
    -------
    Bunch
        ``data`` (float64, dense or CSR), ``target`` (int8, 0/1), and ``target_names``,
        ``feature_names``, ``train_index``, ``test_index``, ``source``, each None where the
        archive does not say.

    Raises
    ------
    FileNotFoundError
        If ``DM2L_DATA`` is not set, or its folder has no such archive.

    Examples
    --------
    >>> import os, tempfile
    >>> from pathlib import Path
    >>> from unittest import mock
    >>> import numpy as np
    >>> from dm2l.datasets import load_dataset
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "tiny.npz"), X=np.eye(2), Y=np.array([[1, 0], [0, 1]]))
    ...     with mock.patch.dict(os.environ, DM2L_DATA=folder):
    ...         tiny = load_dataset("tiny")
    >>> tiny.data.shape, tiny.target.tolist(), tiny.source
    ((2, 2), [[1, 0], [0, 1]], None)
    """
    if not name or any(part in name for part in ("/", "\\", "..", "\0")):
        raise ValueError(
            f"A data set is named by the stem of its archive, such as 'Arts', not by a path; "
            f"got {name!r}."
        )
    folder = _folder()
    # Looked up among the names that are there: nothing outside the folder can be reached, and a
    # file system that ignores case does not make two names of one set.
    present = {path.stem: path for path in folder.glob("*.npz")}
    if name not in present:
        listing = ", ".join(sorted(present)) or "none"
        raise FileNotFoundError(f"No {name}.npz in {_VARIABLE}={folder}. Present: {listing}.")
    with np.load(present[name], allow_pickle=False) as archive:
        found = {key: archive[key] for key in archive.files}
    if "Y" not in found or not ({"X", "X_data"} & set(found)):
        raise ValueError(f"{present[name]} needs X (or X_data, ...) and Y, has {sorted(found)}.")
    source = found.get("source")
    return Bunch(
        data=_features(found),
        target=found["Y"].astype(np.int8),
        target_names=_strings(found.get("label_names")),
        feature_names=_strings(found.get("feature_names")),
        train_index=found.get("train_index"),
        test_index=found.get("test_index"),
        source=None if source is None else str(source),
    )


def _folder() -> Path:
    value = os.environ.get(_VARIABLE)
    if not value:
        raise FileNotFoundError(
            f"The environment variable {_VARIABLE} is not set. Point it to a folder of NAME.npz "
            f"archives, for example: export {_VARIABLE}=/path/to/datasets"
        )
    folder = Path(value)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{_VARIABLE}={value} is not a folder. Point it to a folder of NAME.npz archives."
        )
    return folder


def _features(found: dict[str, Any]) -> Any:
    if "X" in found:
        return found["X"].astype(np.float64)
    # Stored small (int8, float32); everything downstream computes in float64.
    parts = (found["X_data"].astype(np.float64), found["X_indices"], found["X_indptr"])
    return sp.csr_array(parts, shape=tuple(int(s) for s in found["X_shape"]))


def _strings(names: Any) -> list[str] | None:
    return None if names is None else [str(name) for name in names]
