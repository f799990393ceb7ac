"""Labels of an estimator: its classes and names, and labels of new rows, read and written."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples, check_consistent_length

from dm2l.labels._matrix import LabelMatrix, parse_labels


def parse_new_rows(
    X: Any,
    y: Any,
    known: LabelMatrix,
    *,
    n_features: int | None,
    label_mask: Any,
    missing_label: Any,
    missing_as: Any,
) -> LabelMatrix:
    """Labels of new rows, which may be all missing but need the columns of the ``known`` labels."""
    shape = np.shape(y) if not hasattr(y, "shape") else y.shape
    n_labels = known.n_labels
    if len(shape) != 2 or shape[1] != n_labels:
        swapped = np.shape(X)[1:] == (n_labels,) and tuple(shape[1:]) == (n_features,)
        raise ValueError(
            f"Y has shape {tuple(shape)}; this model has {n_labels} labels, "
            f"so (n_samples, {n_labels}) is expected."
            + (" X and Y seem to be swapped: features come first." if swapped else "")
        )
    check_consistent_length(np.empty(_num_samples(X)), np.empty(shape))
    # Positives only are not ambiguous to a model that learnt from signed labels.
    if sp.issparse(y) and known.negative == -1 and not (y.tocsr().data < 0).any():
        missing_as = "missing"
    labels = parse_labels(
        y,
        label_mask=label_mask,
        missing_label=missing_label,
        missing_as=missing_as,
        allow_empty=True,
    )
    names = known.names
    if labels.names is not None and names is not None and list(labels.names) != list(names):
        off = next(j for j in range(len(names)) if labels.names[j] != names[j])
        same = sorted(map(str, labels.names)) == sorted(map(str, names))
        fix = "Reorder" if same else "Rename or choose"
        raise ValueError(
            f"Column {off} of Y is {labels.names[off]!r}, but the model was fitted with "
            f"{names[off]!r} there. {fix} the columns to match model.label_names_."
        )
    return labels


def fill_with_labels(
    given: LabelMatrix, positive: Any, left: NDArray[np.bool_], missing_label: Any
) -> NDArray[Any]:
    """Labels in their coding, with decisions for missing entries but those that are left."""
    filled = given.decode(np.where(given.signs == 0, positive, given.signs > 0))
    if left.any():
        if not isinstance(missing_label, Real):  # or numbers would become texts
            filled = filled.astype(object)
        filled = np.where(left, missing_label, filled)
    return filled


def frame_like(filled: NDArray[Any], y: Any) -> Any:
    """A data frame if ``y`` is one, else the array."""
    if hasattr(y, "iloc") and hasattr(y, "columns"):
        return type(y)(filled, index=y.index, columns=y.columns)
    if hasattr(y, "columns"):  # polars
        return type(y)(filled, schema=list(y.columns))
    return filled
