"""Validation of the features that an estimator gets."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_torch_array
from sklearn.utils.validation import _check_feature_names, _check_n_features, validate_data

from dm2l._utils.arrays import check_columns, check_magnitude, device_name, is_non_numpy, to_numpy
from dm2l._utils.unsuitable import explain_unsuitable


def check_inputs(model: Any, X: Any, *, reset: bool, follows: bool) -> Any:
    """``X`` as the estimator takes it; ``follows``: arrays of other libraries stay there."""
    if is_non_numpy(X):
        X = _check_non_numpy(model, X, reset=reset) if follows else to_numpy(X)
    if not is_non_numpy(X):
        sparse = "csr" if model.__sklearn_tags__().input_tags.sparse else False
        dtype = [np.float64, np.float32]
        # Sums that look for NaN may overflow.
        with np.errstate(over="ignore", invalid="ignore"), explain_unsuitable(X):
            X = validate_data(model, X, accept_sparse=sparse, dtype=dtype, reset=reset)
    if reset:
        check_columns(X)
        check_magnitude(X, getattr(model, "feature_names_in_", None))
        model._home = device_name(X)
    elif device_name(X) != model._home:
        raise ValueError(
            f"This model was fitted to arrays of {model._home}, X is one of {device_name(X)}. "
            "Move X there, or fit a model here."
        )
    return X


def _check_non_numpy(model: Any, X: Any, *, reset: bool) -> Any:
    """An array of another library, checked as scikit-learn checks those of numpy."""
    if is_torch_array(X):
        X = X.detach()
    xp = array_namespace(X)
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: shape {X.shape}.")
    if 0 in X.shape:
        raise ValueError(f"Found array with shape {tuple(X.shape)}: X needs rows and columns.")
    if X.dtype not in (xp.float64, xp.float32):
        if xp.isdtype(X.dtype, "complex floating"):
            raise ValueError("Complex data not supported.")
        X = xp.astype(X, xp.float64)
    if not bool(xp.all(xp.isfinite(X))):
        raise ValueError("Input X contains NaN or infinity; impute or drop such values.")
    _check_feature_names(model, X, reset=reset)
    _check_n_features(model, X, reset=reset)
    return X
