"""Containers of labels: arrays, masked arrays, lists and data frames of any library."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


def open_container(Y: Any) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.object_] | None]:
    """Values, a mask of null-like entries, and column names."""
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


def is_nan(value: Any) -> bool:
    """Whether a scalar is NaN."""
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def is_null(value: Any) -> bool:
    """Whether a scalar is None, NaN or pandas.NA."""
    # pandas.NA is recognised by name: pandas is not a dependency.
    return value is None or is_nan(value) or type(value).__name__ in ("NAType", "NaTType")


def equals(values: NDArray[Any], mark: Any) -> NDArray[np.bool_]:
    """Entries equal to a value; text equals text only."""
    if is_null(mark):
        return np.zeros(values.shape, dtype=bool)
    if values.dtype.kind == "O":
        flags = [_same(v, mark) for v in values.ravel().tolist()]
        return np.array(flags, dtype=bool).reshape(values.shape)
    if isinstance(mark, str) != (values.dtype.kind in "US"):
        return np.zeros(values.shape, dtype=bool)
    return np.asarray(values == mark)


def _same(value: Any, mark: Any) -> bool:
    return not is_null(value) and isinstance(value, str) == isinstance(mark, str) and value == mark


def check_mask(
    label_mask: Any,
    shape: tuple[int, ...],
    names: NDArray[np.object_] | None = None,
    *,
    sparse: bool = False,
) -> Any:
    """Boolean mask of the shape of ``Y``; a sparse one stays sparse if ``sparse``."""
    if label_mask is None:
        return np.ones(shape, dtype=bool)
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
