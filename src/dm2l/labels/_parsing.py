"""The label contract: every container and every mark becomes one validated form."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets

from dm2l._utils.arrays import is_non_numpy, to_numpy
from dm2l.labels._containers import check_mask, equals, is_nan, null_entries, open_container
from dm2l.labels._entries import Signs
from dm2l.labels._labels import Labels, column_text
from dm2l.labels._sparse import StoredLabels, check_absent, read_sparse

_HINT = (
    "Labels are 0/1, True/False or -1/+1; an entry that was not observed is NaN "
    "(or whatever missing_label= names)."
)


def signs(
    Y: Any, *, label_mask: Any = None, missing_label: Any = np.nan, missing_as: Any = None
) -> Signs:
    """Return the sign matrix of labels in any accepted container.

    Parameters
    ----------
    Y : array-like, data frame or sparse matrix of shape (n, c)
        See :func:`parse_labels`.
    label_mask : array-like of bool of shape (n, c), default=None
        True where the entry may be used.
    missing_label : scalar, default=nan
        Mark of an entry that was not observed.
    missing_as : {None, "missing", "negative"}, default=None
        What "nothing stored" means in a sparse ``Y`` that holds positives only.

    Returns
    -------
    ndarray of shape (n, c), int8
        ``+1``, ``-1`` or ``0`` (missing).

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.labels._parsing import signs
    >>> signs([[1, 0], [np.nan, 1]])
    array([[ 1, -1],
           [ 0,  1]], dtype=int8)
    """
    return parse_labels(
        Y, label_mask=label_mask, missing_label=missing_label, missing_as=missing_as
    ).signs


def parse_labels(
    Y: Any,
    *,
    label_mask: Any = None,
    missing_label: Any = np.nan,
    missing_as: Any = None,
    allow_empty: bool = False,
) -> Labels:
    """Validate labels and bring them into the one internal form.

    Parameters
    ----------
    Y : array-like, data frame or sparse matrix
        A label matrix (``0/1``, ``bool`` or ``-1/+1``; NaN = not observed) as a numpy array,
        masked array, object array with None, nested list, pandas or polars data frame; or
        signed CSR (``+1``/``-1`` stored, nothing stored = missing); or a 1-D ``y`` of classes.
    label_mask : array-like of bool, default=None
        True where the entry may be used; what stands under False is never looked at.
    missing_label : scalar, default=nan
        Mark of an entry that was not observed.
    missing_as : {None, "missing", "negative", "unlabelled"}, default=None
        What "nothing stored" means in a sparse ``Y`` that holds positives only; the sign of what
        is unlabelled is 0.
    allow_empty : bool, default=False
        Whether a label matrix may have nothing observed at all.

    Returns
    -------
    Labels
        Signs, kind, classes and names.

    Examples
    --------
    >>> from dm2l.labels._parsing import parse_labels
    >>> parse_labels([[1, -1], [-1, 1]]).negative
    -1
    >>> parse_labels(["cat", "dog", "cat"]).classes
    array(['cat', 'dog'], dtype='<U3')
    """
    if Y is None:
        raise ValueError(
            "This estimator requires y to be passed, but the target y is None: "
            "labels are needed (expected array-like of labels)."
        )
    check_absent(missing_as, unlabelled=True)
    if missing_as == "unlabelled":
        if label_mask is not None:
            raise ValueError(
                "label_mask does not go with missing_as='unlabelled': what nobody ticked counts "
                "as unlabelled, wherever it is."
            )
        missing_as = "missing"  # signs are 0 there; who learns from them knows what it means
    Y, label_mask = (to_numpy(part) if is_non_numpy(part) else part for part in (Y, label_mask))
    if sp.issparse(Y):
        stored = read_sparse(Y, label_mask, missing_label, missing_as, allow_empty)
        integer = np.dtype(np.int64)
        return Labels(stored.signs(), "multilabel", None, None, stored.negative, integer)
    values, null, names = open_container(Y)
    if values.ndim not in (1, 2) or 0 in values.shape[1:]:
        raise ValueError(
            f"Y must have one or two dimensions and a column, got shape {values.shape}."
        )
    mask = check_mask(label_mask, values.shape, names)
    missing = null | equals(values, missing_label)
    if not is_nan(missing_label):
        _refuse_null(values, null, mask, names, missing_label)
    observed = ~missing & mask
    if values.ndim == 1:
        return _parse_classes(values, observed)
    if values.shape[1] == 1 and _is_class_column(values[:, 0], observed[:, 0]):
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. It holds classes rather "
            "than 0/1 or -1/+1 labels and is read as y.ravel().",
            DataConversionWarning,
            stacklevel=3,
        )
        return _parse_classes(values[:, 0], observed[:, 0])
    if not allow_empty and not observed.any():
        raise ValueError(
            "Y has nothing observed: every entry is missing. At least one label of one row is "
            "needed; check missing_label and label_mask."
        )
    return _parse_matrix(values, observed, names)


def stored_labels(
    Y: Any,
    *,
    label_mask: Any = None,
    missing_label: Any = np.nan,
    missing_as: Any = None,
    allow_empty: bool = False,
) -> StoredLabels:
    """Read labels of the contract without ever making a sparse ``Y`` dense.

    Parameters
    ----------
    Y : sparse matrix, array-like or data frame of shape (n, c)
        Signed CSR, positives only, or a dense matrix with holes.
    label_mask : array-like or sparse matrix of bool of shape (n, c), default=None
        True where the entry may be used.
    missing_label : scalar, default=nan
        Mark of a hole in a dense ``Y``.
    missing_as : {None, "missing", "negative", "unlabelled"}, default=None
        What nothing stored means in a sparse ``Y``; None: it is signed, absence is missing.
    allow_empty : bool, default=False
        Whether nothing at all may be observed.

    Returns
    -------
    StoredLabels
        Signed CSR and the meaning of absence.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from dm2l.labels._parsing import stored_labels
    >>> stored_labels(sp.csr_array([[1, -1, 0], [0, 1, 0]])).n_observed()
    array([2, 1])
    """
    Y, label_mask = (to_numpy(part) if is_non_numpy(part) else part for part in (Y, label_mask))
    if sp.issparse(Y):
        return read_sparse(Y, label_mask, missing_label, missing_as, allow_empty, unlabelled=True)
    check_absent(missing_as, unlabelled=True)
    labels = parse_labels(
        Y, label_mask=label_mask, missing_label=missing_label, allow_empty=allow_empty
    )
    if labels.kind != "multilabel":
        raise ValueError(
            "Y must be a label matrix of shape (n, c), one column per label; got a 1-D y. "
            "sklearn.preprocessing.LabelBinarizer(sparse_output=True) makes one."
        )
    return StoredLabels.of_signs(labels.signs)


def observed_classes(
    y: Any, *, label_mask: Any = None, missing_label: Any = np.nan
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Values of a 1-D ``y`` and which of them were observed.

    Parameters
    ----------
    y : array-like of shape (n,)
        Classes.
    label_mask : array-like of bool of shape (n,), default=None
        True where the entry may be used.
    missing_label : scalar, default=nan
        Mark of an entry that was not observed.

    Returns
    -------
    tuple of ndarray
        Values, and a boolean mask.

    Examples
    --------
    >>> from dm2l.labels._parsing import observed_classes
    >>> observed_classes([2.0, float("nan")])[1]
    array([ True, False])
    """
    y, label_mask = (to_numpy(part) if is_non_numpy(part) else part for part in (y, label_mask))
    values, null, _ = open_container(y)
    mask = check_mask(label_mask, values.shape)
    observed = ~(null | equals(values, missing_label)) & mask
    return values.ravel(), observed.ravel()


def _refuse_null(
    values: NDArray[Any],
    null: NDArray[np.bool_],
    mask: NDArray[np.bool_],
    names: NDArray[np.object_] | None,
    missing_label: Any,
) -> None:
    bad = null & mask
    # Masked arrays and nullable columns say "missing" by themselves: only a bare NaN is doubtful.
    bad &= null_entries(values) if values.dtype.kind == "f" and names is None else np.False_
    if missing_label is not None and bad.any():
        where = np.argwhere(bad)[0]
        column = column_text(int(where[1]), names) if len(where) == 2 else "y"
        raise ValueError(
            f"Y has nan in row {where[0]}, {column}, but missing_label={missing_label!r}. "
            "Replace one of the two marks by the other, or pass label_mask."
        )


def _parse_matrix(
    values: NDArray[Any], observed: NDArray[np.bool_], names: NDArray[np.object_] | None
) -> Labels:
    numbers = values if values.dtype.kind in "biuf" else _numbers(values, observed, names)
    positive = (numbers == 1) & observed
    zero = (numbers == 0) & observed
    minus = (numbers == -1) & observed
    bad = observed & ~(positive | zero | minus)
    if bad.any():
        _refuse_value(values, bad, names)
    if minus.any() and zero.any():
        row, column = np.argwhere(zero)[0]
        raise ValueError(
            f"Y mixes the codings 0/1 and -1/+1: it has 0 in row {row}, "
            f"{column_text(column, names)}, and -1 elsewhere. If one of them marks what was not "
            "observed, say so: missing_label=0 or missing_label=-1."
        )
    matrix = positive.astype(np.int8) - (zero | minus).astype(np.int8)
    integral = values.dtype.kind in "iub"
    return Labels(
        signs=matrix,
        kind="multilabel",
        classes=None,
        names=names,
        negative=-1 if minus.any() else 0,
        dtype=values.dtype if integral else np.dtype(np.int64),
    )


def _numbers(
    values: NDArray[Any], observed: NDArray[np.bool_], names: NDArray[np.object_] | None
) -> NDArray[np.float64]:
    flat = values.ravel().tolist()
    use = observed.ravel().tolist()
    numeric = (bool, int, float, np.bool_, np.number)
    wrong = [u and not isinstance(v, numeric) for v, u in zip(flat, use, strict=True)]
    if any(wrong):
        _refuse_value(values, np.array(wrong).reshape(values.shape), names)
    numbers = [float(v) if u else np.nan for v, u in zip(flat, use, strict=True)]
    return np.array(numbers, dtype=np.float64).reshape(values.shape)


def _refuse_value(
    values: NDArray[Any], bad: NDArray[np.bool_], names: NDArray[np.object_] | None
) -> None:
    row, column = np.argwhere(bad)[0]
    value = values[row, column]
    shown = value.item() if isinstance(value, np.generic) else value
    infinite = isinstance(shown, float) and np.isinf(shown)
    text = "infinity" if infinite else repr(shown)
    trap = ""
    if isinstance(shown, str):
        trap = (
            " dm2l.io.read_labels(Y) makes 0/1 of yes/no, true/false, active/inactive, "
            "positive/negative and +/-, and with positive= of any other two words."
        )
    elif shown == 2 and not ((values == 0) | (values == -1)).any():
        trap = " If 2 stands for yes and 1 for no, pass dm2l.io.read_labels(Y, positive=2)."
    elif shown != 2 and not infinite:
        trap = " Of numbers on a scale dm2l.io.read_labels(Y, cutoffs='COLUMN>=2') makes labels."
    elif shown == 2:
        trap = (
            " A 2 often comes from scikit-learn's cross_val_predict, which re-encodes NaN as a "
            "third class: use dm2l.model_selection.cross_val_decision instead."
        )
    raise ValueError(
        f"Input Y contains {text} in row {row}, {column_text(column, names)} "
        f"({int(bad.sum())} such {'entry' if bad.sum() == 1 else 'entries'}). {_HINT}{trap}"
    )


def _is_class_column(values: NDArray[Any], observed: NDArray[np.bool_]) -> bool:
    seen = values[observed]
    return seen.dtype.kind in "iuUS" and not set(np.unique(seen).tolist()) <= {-1, 0, 1}


def _parse_classes(values: NDArray[Any], observed: NDArray[np.bool_]) -> Labels:
    seen = values[observed]
    if not len(seen):
        raise ValueError("y has nothing observed: every entry is missing.")
    if seen.dtype.kind == "f" and np.isinf(seen).any():
        raise ValueError(
            "Input y contains infinity or a value too large for dtype('float64'). " + _HINT
        )
    if seen.dtype.kind == "O":
        seen = np.array(seen.tolist())
    check_classification_targets(seen)
    classes, codes = np.unique(seen, return_inverse=True)
    return Labels.of_classes(classes, codes, observed)
