"""Values of labels in arrays, lists and data frames: what is accepted, and errors for the rest."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from dm2l._utils.arrays import is_non_numpy, to_numpy
from dm2l.labels._entries import Signs

_HINT = (
    "Labels are 0/1, True/False or -1/+1; an entry that was not observed is NaN "
    "(or whatever missing_label= names)."
)


def read_values(
    Y: Any, label_mask: Any = None, missing_label: Any = np.nan
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.object_] | None]:
    """Values of labels, which of them are observed, and column names."""
    values, null, names = open_container(Y)
    if values.ndim not in (1, 2) or 0 in values.shape[1:]:
        raise ValueError(
            f"Y must have one or two dimensions and a column, got shape {values.shape}."
        )
    observed = ~null
    if label_mask is not None:
        mask = check_mask(label_mask, values.shape, names)
        observed &= mask
        null = null & mask
    if not (isinstance(missing_label, float) and np.isnan(missing_label)):
        # Masked arrays and nullable columns have nulls of their own: only a bare NaN is ambiguous.
        bare = values.dtype.kind == "f" and names is None and missing_label is not None
        bad = null & null_entries(values) & bare
        if bad.any():
            where = np.argwhere(bad)[0]
            column = column_text(int(where[1]), names) if len(where) == 2 else "y"
            raise ValueError(
                f"Y has nan in row {where[0]}, {column}, but missing_label={missing_label!r}. "
                "Replace one of the two marks by the other, or pass label_mask."
            )
        observed &= ~equals(values, missing_label)
    return values, observed, names


def open_container(Y: Any) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.object_] | None]:
    """Values, a mask of null-like entries, and column names."""
    if is_non_numpy(Y):
        Y = to_numpy(Y)
    if isinstance(Y, np.ma.MaskedArray):  # check_array would drop the mask
        hidden = np.ma.getmaskarray(Y)
        data = np.array(Y.data)
        data[hidden] = 0
        return data, hidden | null_entries(data), None
    if hasattr(Y, "columns") and hasattr(Y, "shape"):
        return _open_frame(Y)
    if hasattr(Y, "isna") or hasattr(Y, "is_null"):
        return (*_open_series(Y), None)
    data = Y if isinstance(Y, np.ndarray) else _asarray(Y)
    return data, null_entries(data), None


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
    names[:] = [None if is_null(name) else name for name in Y.columns]  # NaN differs from itself
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
    # A column with nothing observed does not decide the data type.
    seen = [j for j in range(len(opened)) if not nulls[:, j].all()] or range(len(opened))
    numeric = all(opened[j][0].dtype.kind in "biuf" for j in seen)
    dtype = np.result_type(*(opened[j][0].dtype for j in seen)) if numeric else object
    values = np.zeros(Y.shape, dtype=dtype)
    for j in seen:
        values[:, j] = opened[j][0]
    return values, nulls, names


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
    return values, null | null_entries(values)


def null_entries(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Entries that are NaN, None or NA."""
    if values.dtype.kind == "f":
        return cast("NDArray[np.bool_]", np.isnan(values))
    if values.dtype.kind != "O":
        return np.zeros(values.shape, dtype=bool)
    flags = [is_null(v) for v in values.ravel().tolist()]
    return np.array(flags, dtype=bool).reshape(values.shape)


def is_null(value: Any) -> bool:
    """Whether a scalar is None, NaN or pandas.NA."""
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    # pandas.NA is recognised by name: pandas is not a dependency.
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def equals(values: NDArray[Any], mark: Any) -> NDArray[np.bool_]:
    """Entries equal to a value; text equals text only."""
    text = isinstance(mark, str)
    if values.dtype.kind == "O":
        found = [
            not is_null(v) and isinstance(v, str) == text and v == mark
            for v in values.ravel().tolist()
        ]
        return np.array(found, dtype=bool).reshape(values.shape)
    if is_null(mark) or text != (values.dtype.kind in "US"):
        return np.zeros(values.shape, dtype=bool)
    return np.asarray(values == mark)


def check_mask(
    label_mask: Any,
    shape: tuple[int, ...],
    names: NDArray[np.object_] | None = None,
    *,
    sparse: bool = False,
) -> Any:
    """Boolean mask of the shape of ``Y``; a sparse one stays sparse if ``sparse``."""
    null: Any = np.False_
    mask, own_names = label_mask, None
    if not sp.issparse(label_mask):
        mask, null, own_names = open_container(label_mask)
    elif not sparse:
        mask = label_mask.toarray()
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
    """Refuse a frame with a column of ``Y`` at another position; ``what`` names it."""
    if names is None or others is None or list(others) == list(range(len(others))):
        return  # default column names are numbers
    known = set(names)
    for j, (name, other) in enumerate(zip(names, others, strict=True)):
        if other != name and other in known:
            raise ValueError(
                f"Column {j} of {what} is {other!r}, but that of Y is {name!r}: columns are "
                f"matched by position. Use {what}[Y.columns]."
            )


def parse_matrix(
    values: NDArray[Any], observed: NDArray[np.bool_], names: NDArray[np.object_] | None
) -> tuple[Signs, int]:
    """Signs of a label matrix, and its code of a negative."""
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
    signs = positive.astype(np.int8) - (zero | minus).astype(np.int8)
    return signs, -1 if minus.any() else 0


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


def parse_classes(
    values: NDArray[Any], observed: NDArray[np.bool_]
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Classes of a 1-D ``y``, and the index of each observed entry in them."""
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
    return classes, codes


def column_text(column: int, names: Sequence[Any] | NDArray[np.object_] | None) -> str:
    """Name of a column for messages."""
    return f"column {column}" if names is None else f"column {names[column]!r}"
