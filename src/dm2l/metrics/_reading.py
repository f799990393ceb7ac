"""Reading labels and scores, once for each call, as every metric does."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning

from dm2l._utils.arrays import to_numpy
from dm2l.labels._containers import refuse_shuffled
from dm2l.labels._entries import Signs, checked_weights
from dm2l.labels._matrix import LabelMatrix, parse_labels
from dm2l.labels._sparse import SparseLabelMatrix
from dm2l.metrics._complete import CompleteRows

Array = NDArray[np.float64]


class Given(NamedTuple):
    """Signs and scores of the rows that count, and their weights; None: one each.

    ``complete`` is what the measure of the complete labels is estimated from; it is None if the
    observed labels are evaluated alone.
    """

    T: Signs
    S: NDArray[Any]
    weights: Array | None
    complete: CompleteRows | None


def read(
    y_true: Any, y_score: Any, sample_weight: Any = None, estimate: bool = True, rates: Any = None
) -> Given:
    """Labels, scores and weights; what has been read before comes back as it is."""
    if isinstance(y_true, Given):
        return y_true
    T, S = signs_and_scores(y_true, y_score)
    return given_rows(T, S, sample_weight, estimate, rates)


def read_decisions(
    y_true: Any, y_pred: Any, sample_weight: Any = None, estimate: bool = True, rates: Any = None
) -> Given:
    """As :func:`read`, of decisions: ``S`` is True where a label is predicted."""
    if isinstance(y_true, Given):
        return y_true._replace(S=y_pred)
    T, P = signs_and_scores(y_true, y_pred, "y_pred")
    bad = (P != 0) & (P != 1) & (P != -1)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"y_pred has {P[row, column]} in row {row}, column {column}; decisions are 0/1 "
            "or -1/+1. Pass predict(X), or scores > threshold."
        )
    given = given_rows(T, (P > 0).astype(np.float64), sample_weight, estimate, rates)
    return given._replace(S=given.S > 0)


def given_rows(T: Signs, S: Array, sample_weight: Any, estimate: bool, rates: Any) -> Given:
    """Rows of positive weight, and what the complete labels are estimated from."""
    T, S, w = weighted_rows(T, S, sample_weight)
    if not estimate or T.all() or not T.any():
        return Given(T, S, w, None)
    return Given(T, S, w, CompleteRows(T, S, rates, w))


def read_labels(y_true: Any, **marks: Any) -> LabelMatrix:
    """Labels as metrics read them: a 1-D array is one label, not classes."""
    if isinstance(y_true, SparseLabelMatrix):
        return LabelMatrix.of_signs(y_true.signs(), negative=y_true.negative)
    if not sp.issparse(y_true) and np.ndim(y_true) == 1 and not isinstance(y_true, LabelMatrix):
        # A test fold may well hold a single class of one label.
        y_true = _column(y_true)
        if marks.get("label_mask") is not None:
            marks["label_mask"] = to_numpy(marks["label_mask"])[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataConversionWarning)  # refused below
        read = isinstance(y_true, LabelMatrix) and not marks
        labels = y_true if read else parse_labels(y_true, allow_empty=True, **marks)
    if labels.kind != "multilabel":
        raise ValueError(
            "A 1-D y of classes has no labels to score: metrics take 0/1 or -1/+1 labels, one "
            "column each. For classes use sklearn.metrics."
        )
    return labels


def _column(y: Any) -> Any:
    """A 1-D container as a table with one column."""
    if hasattr(y, "to_frame"):  # pandas and polars
        return y.to_frame()
    return y[:, None] if hasattr(y, "shape") else [[value] for value in y]


def signs_and_scores(y_true: Any, y_score: Any, what: str = "y_score") -> tuple[Signs, Array]:
    """Signs of the labels, and one finite number for each entry; ``what`` names it in messages."""
    labels = read_labels(y_true)
    if labels.missing_as == "unlabelled":
        raise ValueError(
            "This metric needs observed negatives, which positive-unlabelled labels do not have. "
            "dm2l.metrics.evaluate_positive_unlabelled estimates what they allow."
        )
    return labels.signs, check_scores(labels, y_score, what)


def check_scores(labels: LabelMatrix, y_score: Any, what: str = "y_score") -> Array:
    """One finite number for each label of each row."""
    S = np.asarray(to_numpy(y_score), dtype=np.float64)
    if S.ndim == 1 and labels.n_labels == 1:
        S = S[:, None]
    if S.shape != labels.signs.shape:
        raise ValueError(f"Labels have shape {labels.signs.shape}, but {what} has shape {S.shape}.")
    refuse_shuffled(labels.names, getattr(y_score, "columns", None), what)
    if not np.isfinite(S).all():
        row, column = np.argwhere(~np.isfinite(S))[0]
        raise ValueError(
            f"{what} has {S[row, column]} in row {row}, column {column}: every entry needs a "
            "finite number."
        )
    return S


def checked_rows(sample_weight: Any, n: int) -> Array | None:
    """Weights of rows, or None where they are all one."""
    return None if sample_weight is None else checked_weights("sample_weight", sample_weight, (n,))


def weighted_rows(T: Signs, S: Array, sample_weight: Any) -> tuple[Signs, Array, Array | None]:
    """Rows of positive weight, and their weights; None where they are one each."""
    weights = checked_rows(sample_weight, len(T))
    if weights is None:
        return T, S, None
    kept = weights > 0
    return T[kept], S[kept], weights[kept]
