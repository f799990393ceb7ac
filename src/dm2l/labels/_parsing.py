"""Validation of label values: what is accepted as a label, and messages for everything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from dm2l._utils.arrays import is_non_numpy, to_numpy
from dm2l.labels._containers import check_mask, equals, null_entries, open_container
from dm2l.labels._entries import Signs

_HINT = (
    "Labels are 0/1, True/False or -1/+1; an entry that was not observed is NaN "
    "(or whatever missing_label= names)."
)


def observed_classes(
    y: Any, *, label_mask: Any = None, missing_label: Any = np.nan
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Values of a 1-D ``y`` and which of them were observed."""
    y, label_mask = (to_numpy(part) if is_non_numpy(part) else part for part in (y, label_mask))
    values, null, _ = open_container(y)
    mask = check_mask(label_mask, values.shape)
    observed = ~(null | equals(values, missing_label)) & mask
    return values.ravel(), observed.ravel()


def refuse_null(
    values: NDArray[Any],
    null: NDArray[np.bool_],
    mask: NDArray[np.bool_],
    names: NDArray[np.object_] | None,
    missing_label: Any,
) -> None:
    """Refuse a NaN if missing labels are marked by something else."""
    bad = null & mask
    # Masked arrays and nullable columns have nulls of their own: only a bare NaN is ambiguous.
    bad &= null_entries(values) if values.dtype.kind == "f" and names is None else np.False_
    if missing_label is not None and bad.any():
        where = np.argwhere(bad)[0]
        column = column_text(int(where[1]), names) if len(where) == 2 else "y"
        raise ValueError(
            f"Y has nan in row {where[0]}, {column}, but missing_label={missing_label!r}. "
            "Replace one of the two marks by the other, or pass label_mask."
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


def is_class_column(values: NDArray[Any], observed: NDArray[np.bool_]) -> bool:
    """Whether a single column holds classes instead of labels."""
    seen = values[observed]
    return seen.dtype.kind in "iuUS" and not set(np.unique(seen).tolist()) <= {-1, 0, 1}


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
