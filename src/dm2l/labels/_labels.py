"""The label contract: every container and mark becomes one validated form.

Inside the library labels are *signs*: an ``int8`` matrix ``T`` with ``+1`` for an observed
positive, ``-1`` for an observed negative and ``0`` for an entry nobody has looked at. The paper
writes the same thing as ``Y`` on ``Omega`` and zero elsewhere, its ``R_Omega(Y)``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets

from dm2l.arrays import is_foreign, to_numpy

__all__ = ["ConstantLabelWarning", "Labels", "observed_classes", "parse_labels", "signs"]

Signs = NDArray[np.int8]
Kind = Literal["multilabel", "binary", "multiclass"]

_HINT = (
    "Labels are 0/1, True/False or -1/+1; an entry that was not observed is NaN "
    "(or whatever missing_label= names)."
)


class ConstantLabelWarning(UserWarning):
    """A label cannot be learnt because at most one of its classes was observed."""


@dataclass(frozen=True)
class Labels:
    """Validated labels.

    Attributes
    ----------
    signs : ndarray of shape (n, c), int8
        ``+1`` observed positive, ``-1`` observed negative, ``0`` missing.
    kind : {"multilabel", "binary", "multiclass"}
        What came in: a label matrix, or a 1-D ``y`` with two or with more classes.
    classes : ndarray or None
        The classes of a 1-D ``y``; None for a label matrix.
    names : ndarray of object or None
        Column names, when the container had them.
    negative : {0, -1}
        How the input wrote an observed negative.
    dtype : numpy dtype
        What predictions in the coding of the input are stored as.
    """

    signs: Signs
    kind: Kind
    classes: NDArray[Any] | None
    names: NDArray[np.object_] | None
    negative: int
    dtype: np.dtype[Any]

    @property
    def n_labels(self) -> int:
        """Number of label columns."""
        return int(self.signs.shape[1])

    def learnable(self) -> NDArray[np.bool_]:
        """Labels of which both classes were observed."""
        return np.asarray((self.signs > 0).any(axis=0) & (self.signs < 0).any(axis=0))

    def decode(self, positive: NDArray[np.bool_]) -> NDArray[Any]:
        """Write decisions in the coding the labels came in."""
        unsigned = self.dtype.kind == "u" and self.negative < 0
        dtype = np.dtype(np.int64) if unsigned else self.dtype
        return np.where(positive, 1, self.negative).astype(dtype)

    def warn_constant(self, stacklevel: int = 3) -> None:
        """Warn about labels that have nothing, or only one class, observed."""
        empty = ~(self.signs != 0).any(axis=0)
        single = ~self.learnable() & ~empty
        for which, what in ((empty, "nothing observed"), (single, "only one class observed")):
            if which.any() and self.kind == "multilabel":
                shown = [self.describe(int(j)) for j in np.flatnonzero(which)[:5]]
                more = "" if which.sum() <= 5 else f" and {which.sum() - 5} more"
                warnings.warn(
                    f"{which.sum()} label(s) have {what} and get a constant score: "
                    f"{', '.join(shown)}{more}.",
                    ConstantLabelWarning,
                    stacklevel=stacklevel,
                )

    def describe(self, column: int) -> str:
        """Name of a column for messages."""
        return _column_text(column, self.names)


def _column_text(column: int, names: Sequence[Any] | NDArray[np.object_] | None) -> str:
    return f"column {column}" if names is None else f"column {names[column]!r}"


def signs(
    Y: Any, *, label_mask: Any = None, missing_label: Any = np.nan, absent_label: Any = None
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
    absent_label : {None, "missing", "negative"}, default=None
        What "nothing stored" means in a sparse ``Y`` that holds positives only.

    Returns
    -------
    ndarray of shape (n, c), int8
        ``+1``, ``-1`` or ``0`` (missing).

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.labels import signs
    >>> signs([[1, 0], [np.nan, 1]])
    array([[ 1, -1],
           [ 0,  1]], dtype=int8)
    """
    return parse_labels(
        Y, label_mask=label_mask, missing_label=missing_label, absent_label=absent_label
    ).signs


def parse_labels(
    Y: Any,
    *,
    label_mask: Any = None,
    missing_label: Any = np.nan,
    absent_label: Any = None,
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
    absent_label : {None, "missing", "negative"}, default=None
        What "nothing stored" means in a sparse ``Y`` that holds positives only.
    allow_empty : bool, default=False
        Whether a label matrix may have nothing observed at all.

    Returns
    -------
    Labels
        Signs, kind, classes and names.

    Examples
    --------
    >>> from dm2l.labels import parse_labels
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
    if absent_label not in (None, "missing", "negative"):
        raise ValueError(
            f"absent_label must be None, 'missing' or 'negative', got {absent_label!r}."
        )
    Y, label_mask = (to_numpy(part) if is_foreign(part) else part for part in (Y, label_mask))
    if sp.issparse(Y):
        return _require_observed(
            _parse_sparse(Y, label_mask, missing_label, absent_label), allow_empty
        )
    values, null, names = _open_container(Y)
    if values.ndim not in (1, 2) or 0 in values.shape[1:]:
        raise ValueError(
            f"Y must have one or two dimensions and a column, got shape {values.shape}."
        )
    mask = _check_mask(label_mask, values.shape, names)
    missing = null | _equals(values, missing_label)
    if not _is_nan(missing_label):
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
    return _require_observed(_parse_matrix(values, observed, names), allow_empty)


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
    >>> from dm2l.labels import observed_classes
    >>> observed_classes([2.0, float("nan")])[1]
    array([ True, False])
    """
    y, label_mask = (to_numpy(part) if is_foreign(part) else part for part in (y, label_mask))
    values, null, _ = _open_container(y)
    mask = _check_mask(label_mask, values.shape)
    observed = ~(null | _equals(values, missing_label)) & mask
    return values.ravel(), observed.ravel()


def _open_container(Y: Any) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.object_] | None]:
    """Values, a mask of null-like entries, and column names."""
    if isinstance(Y, np.ma.MaskedArray):  # check_array would drop the mask
        hidden = np.ma.getmaskarray(Y)
        data = np.array(Y.data)
        data[hidden] = 0
        return data, hidden | _null(data), None
    if hasattr(Y, "columns") and hasattr(Y, "shape"):
        return _open_frame(Y)
    if hasattr(Y, "isna") or hasattr(Y, "is_null"):
        return (*_open_series(Y), None)
    data = Y if isinstance(Y, np.ndarray) else _asarray(Y)
    return data, _null(data), None


def _asarray(Y: Any) -> NDArray[Any]:
    if isinstance(Y, str) or not (hasattr(Y, "__len__") or hasattr(Y, "__array__")):
        raise ValueError(f"Y must be array-like, got {type(Y).__name__}.")
    try:
        data = np.asarray(Y)
    except ValueError:
        raise ValueError("Y is ragged: its rows have different lengths.") from None
    if data.dtype.kind in "US":  # numpy has turned None, NaN and numbers into text
        objects = np.asarray(Y, dtype=object)
        if not all(isinstance(v, str) for v in objects.ravel().tolist()):
            return objects
    return data


def _open_frame(Y: Any) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.object_]]:
    names = np.empty(len(Y.columns), dtype=object)
    names[:] = [None if _is_null(name) else name for name in Y.columns]  # NaN differs from itself
    # By position: pandas allows two columns of one name, polars has no iloc.
    columns = (
        [Y.iloc[:, j] for j in range(Y.shape[1])]
        if hasattr(Y, "iloc")
        else [Y[str(name)] for name in names]
    )
    opened = [_open_series(column) for column in columns]
    if not opened:
        return np.empty(Y.shape), np.zeros(Y.shape, dtype=bool), names
    nulls = np.column_stack([null for _, null in opened])
    # A column with nothing observed has no say in how the others are written.
    seen = [j for j in range(len(opened)) if not nulls[:, j].all()] or range(len(opened))
    numeric = _all_numeric([opened[j] for j in seen])
    dtype = np.result_type(*(opened[j][0].dtype for j in seen)) if numeric else object
    values = np.zeros(Y.shape, dtype=dtype)
    for j in seen:
        values[:, j] = opened[j][0]
    return values, nulls, names


def _all_numeric(opened: list[tuple[NDArray[Any], NDArray[np.bool_]]]) -> bool:
    return all(v.dtype.kind in "biuf" for v, _ in opened)


def _open_series(column: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    null = np.asarray(column.isna() if hasattr(column, "isna") else column.is_null(), dtype=bool)
    values = np.asarray(column.to_numpy())
    present = values
    if values.dtype.kind in "Of" and null.any():
        # Nullable columns arrive as objects or floats; their observed part has a plain dtype again.
        drop = getattr(column, "dropna", None) or getattr(column, "drop_nulls", None)
        present = values[~null] if drop is None else np.asarray(drop().to_numpy())
    if present.dtype.kind == "O":
        present = np.array(present.tolist())
    if present.ndim == 1 and present.dtype.kind in "biuf" and present.dtype != values.dtype:
        values = np.zeros(len(null), dtype=present.dtype)
        values[~null] = present
    return values, null | _null(values)


def _null(values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype.kind == "f":
        return cast("NDArray[np.bool_]", np.isnan(values))
    if values.dtype.kind != "O":
        return np.zeros(values.shape, dtype=bool)
    flags = [_is_null(v) for v in values.ravel().tolist()]
    return np.array(flags, dtype=bool).reshape(values.shape)


def _is_nan(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def _is_null(value: Any) -> bool:
    # pandas.NA is recognised by name: pandas is not a dependency.
    return value is None or _is_nan(value) or type(value).__name__ in ("NAType", "NaTType")


def _equals(values: NDArray[Any], mark: Any) -> NDArray[np.bool_]:
    if _is_null(mark):
        return np.zeros(values.shape, dtype=bool)
    if values.dtype.kind == "O":
        flags = [_same(v, mark) for v in values.ravel().tolist()]
        return np.array(flags, dtype=bool).reshape(values.shape)
    if isinstance(mark, str) != (values.dtype.kind in "US"):
        return np.zeros(values.shape, dtype=bool)
    return np.asarray(values == mark)


def _same(value: Any, mark: Any) -> bool:
    return not _is_null(value) and isinstance(value, str) == isinstance(mark, str) and value == mark


def _check_mask(
    label_mask: Any, shape: tuple[int, ...], names: NDArray[np.object_] | None = None
) -> NDArray[np.bool_]:
    if label_mask is None:
        return np.ones(shape, dtype=bool)
    label_mask = label_mask.toarray() if sp.issparse(label_mask) else label_mask
    mask, null, own_names = _open_container(label_mask)
    if mask.dtype != bool or null.any():
        what = "missing values" if null.any() else f"dtype {mask.dtype}"
        raise ValueError(
            f"label_mask must be boolean (True = use this entry), got {what}; "
            "compare it with something first, e.g. label_mask=M == 1."
        )
    if mask.shape != shape:
        raise ValueError(f"label_mask has shape {mask.shape}, but Y has shape {shape}.")
    refuse_shuffled(names, own_names, "label_mask")
    return mask


def refuse_shuffled(names: Any, others: Any, what: str) -> None:
    """Refuse a frame that has a column of ``Y`` in another place: columns go by position.

    Parameters
    ----------
    names, others : sequence or None
        Names of the columns of ``Y`` and of the frame; None for those that have none.
    what : str
        What the frame is, for the message.
    """
    if names is None or others is None or list(others) == list(range(len(others))):
        return  # a frame made without names counts its columns
    known = set(names)
    for j, (name, other) in enumerate(zip(names, others, strict=True)):
        if other != name and other in known:
            raise ValueError(
                f"Column {j} of {what} is {other!r}, that of Y is {name!r}: columns go by their "
                f"place. Take {what}[Y.columns]."
            )


def _refuse_null(
    values: NDArray[Any],
    null: NDArray[np.bool_],
    mask: NDArray[np.bool_],
    names: NDArray[np.object_] | None,
    missing_label: Any,
) -> None:
    bad = null & mask
    # Masked arrays and nullable columns say "missing" by themselves: only a bare NaN is doubtful.
    bad &= _null(values) if values.dtype.kind == "f" and names is None else np.False_
    if missing_label is not None and bad.any():
        where = np.argwhere(bad)[0]
        column = _column_text(int(where[1]), names) if len(where) == 2 else "y"
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
            f"{_column_text(column, names)}, and -1 elsewhere. If one of them marks what was not "
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
        trap = " Convert text first, e.g. Y.replace({'yes': 1, 'no': 0}) or pandas.to_numeric."
    if shown == 2:
        trap = (
            " A 2 often comes from scikit-learn's cross_val_predict, which re-encodes NaN as a "
            "third class: use dm2l.model_selection.cross_val_decision instead."
        )
    raise ValueError(
        f"Input Y contains {text} in row {row}, {_column_text(column, names)} "
        f"({int(bad.sum())} such {'entry' if bad.sum() == 1 else 'entries'}). {_HINT}{trap}"
    )


def _require_observed(labels: Labels, allow_empty: bool) -> Labels:
    if not allow_empty and not labels.signs.any():
        raise ValueError(
            "Y has nothing observed: every entry is missing. At least one label of one row is "
            "needed; check missing_label and label_mask."
        )
    return labels


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
    binary = len(classes) <= 2
    matrix = np.zeros((len(values), 1 if binary else len(classes)), dtype=np.int8)
    if binary:
        matrix[observed, 0] = np.where(codes == len(classes) - 1, 1, -1)
    else:
        matrix[observed] = -1
        matrix[np.flatnonzero(observed), codes] = 1
    return Labels(
        signs=matrix,
        kind="binary" if binary else "multiclass",
        classes=classes,
        names=None,
        negative=0,
        dtype=classes.dtype,
    )


def _parse_sparse(Y: Any, label_mask: Any, missing_label: Any, absent_label: str | None) -> Labels:
    # Through CSR, which adds up duplicates: an entry stored twice is refused whatever the format.
    Y = Y.tocsr(copy=True)
    Y.sum_duplicates()
    Y = Y.tocoo()
    mask = _check_mask(label_mask, Y.shape)
    use = mask[Y.row, Y.col]
    rows, columns, data = Y.row[use], Y.col[use], np.asarray(Y.data)[use]
    at = np.flatnonzero(data == 0)
    if len(at):
        raise ValueError(
            f"Sparse Y stores an explicit 0 in row {rows[at[0]]}, column {columns[at[0]]}. "
            "Ordinary sparse arithmetic drops such zeros silently, so they cannot mean "
            "'negative'. Store -1 for an observed negative and nothing for a missing label; or "
            "call Y.eliminate_zeros() and say what absence means with absent_label='missing' or "
            "absent_label='negative'."
        )
    at = np.flatnonzero((data != 1) & (data != -1))
    if len(at):
        raise ValueError(
            f"Sparse Y stores {data[at[0]].item()!r} in row {rows[at[0]]}, column "
            f"{columns[at[0]]}. A signed sparse Y holds +1 (observed positive) and -1 (observed "
            "negative) only; if entries were added twice, their duplicates were summed."
        )
    if not _is_null(missing_label) and (data == missing_label).any():
        raise ValueError(
            f"Sparse Y stores {missing_label!r}, which missing_label={missing_label!r} calls "
            "missing. In a sparse Y a missing label is one that is not stored: remove those "
            "entries and leave missing_label alone."
        )
    signed = data.dtype.kind in "if" and bool((data == -1).any())
    complete = len(data) == int(mask.sum())
    if len(data) and not signed and absent_label is None and not complete:
        raise ValueError(
            "Sparse Y holds positives only. Say what nothing stored means: "
            "absent_label='missing' (nobody looked) or absent_label='negative' (not there)."
        )
    if signed and absent_label == "negative":
        raise ValueError(
            "Sparse Y stores -1, so nothing stored already means missing; "
            "absent_label='negative' contradicts that."
        )
    matrix = np.full(Y.shape, -1 if absent_label == "negative" else 0, dtype=np.int8)
    matrix[rows, columns] = np.where(data == 1, 1, -1)
    matrix[~mask] = 0
    return Labels(
        signs=matrix,
        kind="multilabel",
        classes=None,
        names=None,
        negative=-1 if signed else 0,
        dtype=np.dtype(np.int64),
    )
