"""Tables from files of numbers, which mostly say themselves what is a label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch

from dm2l.extras import require
from dm2l.readers import read_arff, read_mat, read_npz, read_svmlight
from dm2l.readers.columns import check_distinct, choose_labels
from dm2l.readers.unpacking import form
from dm2l.tables._table import Table, made_up_names

MATRIX_FORMATS = (".arff", ".svm", ".svmlight", ".libsvm", ".npz", ".mat")


def read_matrix(
    path: Path,
    labels: Any,
    *,
    n_features: int | None,
    zero_based: bool | None,
    features_only: bool,
    encoding: str,
) -> Table:
    """Read a file of one of the :data:`MATRIX_FORMATS`; parameters as of ``read_table``."""
    bunch = _read(path, labels, n_features, zero_based, features_only, encoding)
    X, Y = bunch.data, np.asarray(bunch.target, dtype=np.float64)
    names = list(bunch.feature_names or made_up_names(X.shape[1]))
    check_distinct(names, str(path))
    label_names = list(bunch.target_names or [f"y{k + 1}" for k in range(Y.shape[1])])
    if labels is not None and form(path) != ".arff":
        chosen = choose_labels(label_names, labels, f"the labels of {path}")
        label_names, Y = [label_names[k] for k in chosen], Y[:, chosen]
    frame = None
    if not sp.issparse(X):
        frame = require("pandas", "io").DataFrame(X, columns=names)
    return Table(
        path=path,
        frame=frame,
        matrix=X if frame is None else None,
        feature_names=names,
        label_names=label_names,
        Y=Y,
        bunch=bunch,
    )


def _read(
    path: Path,
    labels: Any,
    n_features: int | None,
    zero_based: bool | None,
    features_only: bool,
    encoding: str,
) -> Bunch:
    suffix = form(path)
    if suffix == ".arff":
        return read_arff(path, labels, encoding=encoding, features_only=features_only)
    if suffix == ".npz":
        return read_npz(path, features_only=features_only)
    if suffix == ".mat":
        return read_mat(path, features_only=features_only)
    return read_svmlight(
        path, n_features, "auto" if zero_based is None else zero_based, features_only=features_only
    )
