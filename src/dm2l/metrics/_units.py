"""From values per row (or per label) to one number, with an explicit rule for undefined units."""

from __future__ import annotations

import warnings
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning, UndefinedMetricWarning

from dm2l._utils.arrays import to_numpy
from dm2l.labels._containers import refuse_shuffled
from dm2l.labels._entries import Signs, checked_weights
from dm2l.labels._matrix import parse_labels

Convention = Literal["paper", "published", "sklearn"]
Undefined = Literal["skip", "raise"] | float | None
Missing = Literal["ignore", "error"]
Kind = Literal["complete", "estimate", "observed"]


class MetricValue(NamedTuple):
    """A metric with what is behind it.

    Attributes
    ----------
    value : float
        The number.
    n_entries, n_units, n_undefined : int
        Observed entries behind it, units (rows, labels or entries), and units that it is undefined
        on; those of an estimate are estimates.
    kind : {"complete", "estimate", "observed"}
        Whether nothing was missing; or the value of the complete labels was estimated; or it is
        that of the observed labels alone.
    standard_error : float
        Of an estimate: how far it would be from the value of all rows of this kind, for rows drawn
        like these and holes like these. nan for the other kinds.
    """

    value: float
    n_entries: int
    n_units: int
    n_undefined: int
    kind: Kind = "observed"
    standard_error: float = float("nan")


def signs_and_scores(
    Y: Any,
    scores: Any,
    missing: Missing = "ignore",
    label_mask: Any = None,
    missing_label: Any = np.nan,
    missing_as: Any = None,
    *,
    what: str = "scores",
) -> tuple[Signs, NDArray[np.float64]]:
    """Read labels and what is said about them, as every metric does.

    Parameters
    ----------
    Y : array-like, data frame or sparse matrix of shape (n, c)
        Labels of the contract; a 1-D ``Y`` is one label.
    scores : array-like of shape (n, c)
        A finite number for every entry.
    missing : {"ignore", "error"}, default="ignore"
        Whether an entry that was not observed is left out, or refused.
    label_mask, missing_label, missing_as
        As in :func:`dm2l.labels.parse_labels`.
    what : str, default="scores"
        What the scores are called in messages.

    Returns
    -------
    tuple of ndarray of shape (n, c)
        Signs of ``Y``, 0 where missing, and the scores.

    Examples
    --------
    >>> from dm2l.metrics._units import signs_and_scores
    >>> signs_and_scores([[1, float("nan")]], [[0.9, 0.1]])[0]
    array([[1, 0]], dtype=int8)
    """
    if not sp.issparse(Y) and np.ndim(Y) == 1:
        # One label, not classes: a test fold may well hold a single class of it.
        Y = _column(Y)
        label_mask = None if label_mask is None else to_numpy(label_mask)[:, None]
    if missing_as == "unlabelled":
        raise ValueError(
            "Where what is not ticked may be positive, this measure needs negatives that nobody "
            "wrote down. dm2l.metrics.evaluate_ticks gives what ticks alone can tell."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataConversionWarning)  # refused below
        labels = parse_labels(
            Y,
            label_mask=label_mask,
            missing_label=missing_label,
            missing_as=missing_as,
            allow_empty=True,
        )
    if labels.kind != "multilabel":
        raise ValueError(
            "A 1-D y of classes has no labels to score: metrics take 0/1 or -1/+1 labels, one "
            "column each. For classes use sklearn.metrics."
        )
    T = labels.signs
    S = np.asarray(to_numpy(scores), dtype=np.float64)
    if S.ndim == 1 and T.shape[1] == 1:
        S = S[:, None]
    if S.shape != T.shape:
        raise ValueError(f"Y has shape {T.shape}, but {what} has shape {S.shape}.")
    refuse_shuffled(labels.names, getattr(scores, "columns", None), what)
    if not np.isfinite(S).all():
        row, column = np.argwhere(~np.isfinite(S))[0]
        raise ValueError(
            f"{what} has {S[row, column]} in row {row}, column {column}: every entry needs a "
            "finite number."
        )
    check_missing(missing)
    if missing == "error" and (T == 0).any():
        row, column = np.argwhere(T == 0)[0]
        raise ValueError(
            f"Y has {(T == 0).sum()} missing entries, the first in row {row}, column {column}, "
            "and missing='error' allows none."
        )
    return T, S


def _column(y: Any) -> Any:
    """A 1-D container as a table with one column."""
    if hasattr(y, "to_frame"):  # pandas and polars
        return y.to_frame()
    return y[:, None] if hasattr(y, "shape") else [[value] for value in y]


def check_missing(missing: str) -> None:
    """Refuse a way with missing entries that does not exist."""
    if missing not in ("ignore", "error"):
        raise ValueError(f"missing must be 'ignore' or 'error', got {missing!r}.")


def check_convention(convention: str | None) -> None:
    """Refuse a convention that does not exist."""
    if convention not in (None, "paper", "published", "sklearn"):
        raise ValueError(
            f"convention must be 'paper', 'published' or 'sklearn', got {convention!r}."
        )


def average(
    values: NDArray[np.float64],
    n_observed: NDArray[np.int64],
    defined: NDArray[np.bool_],
    undefined: Undefined = None,
    *,
    fill: NDArray[np.float64] | float | None = None,
    unit: str = "rows",
    weights: NDArray[np.float64] | None = None,
) -> MetricValue:
    """Mean of ``values`` over units; ``fill`` is the convention's value for undefined ones.

    Units with nothing observed say nothing under any convention: they are dropped and counted.
    """
    empty = n_observed == 0 if weights is None else (n_observed == 0) | (weights == 0)
    lacking = ~defined | empty
    if isinstance(undefined, str) and undefined not in ("skip", "raise"):
        raise ValueError(f"undefined must be None, 'skip', 'raise' or a number, got {undefined!r}.")
    if undefined == "raise" and not len(values):
        raise ValueError("The metric is undefined: nothing is observed.")
    if undefined == "raise" and lacking.any():
        raise ValueError(
            f"The metric is undefined on {lacking.sum()} of {len(values)} {unit} (the first is "
            f"number {int(np.flatnonzero(lacking)[0])}): they lack the observed positives or "
            "negatives it needs. undefined='skip' leaves them out."
        )
    if undefined is not None and not isinstance(undefined, str):
        fill = float(undefined)
    elif undefined == "skip":
        fill = None
    used = ~lacking if fill is None else ~empty
    if fill is not None:
        values = np.where(lacking, fill, values)
    if not used.any():
        warnings.warn(
            f"The metric is undefined on all {len(values)} {unit}; the result is nan.",
            UndefinedMetricWarning,
            stacklevel=4,
        )
    return MetricValue(
        value=_mean(values[used], weights if weights is None else weights[used]),
        n_entries=int(n_observed[used].sum()),
        n_units=int(used.sum()),
        n_undefined=int(lacking.sum()),
    )


def tie_runs(keys: NDArray[Any], break_ties: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First and last place of those with the same key, in rows that are sorted."""
    n, c = keys.shape
    place = np.arange(c)
    ends, starts = np.ones((n, c), dtype=bool), np.ones((n, c), dtype=bool)
    ends[:, :-1] = break_ties | (keys[:, 1:] != keys[:, :-1])
    starts[:, 1:] = ends[:, :-1]
    end = np.minimum.accumulate(np.where(ends, place, c - 1)[:, ::-1], axis=1)[:, ::-1]
    return np.maximum.accumulate(np.where(starts, place, 0), axis=1), end


def _mean(values: NDArray[np.float64], weights: NDArray[np.float64] | None) -> float:
    return float(np.average(values, weights=weights)) if len(values) else float("nan")


def checked_rows(sample_weight: Any, n: int) -> NDArray[np.float64] | None:
    """Weights of rows, or None where they are all one."""
    return None if sample_weight is None else checked_weights("sample_weight", sample_weight, (n,))


def weighted_rows(
    T: Signs, S: NDArray[Any], sample_weight: Any
) -> tuple[Signs, NDArray[Any], NDArray[np.float64] | None]:
    """Rows that count, and how much; None where it is one each."""
    weights = checked_rows(sample_weight, len(T))
    if weights is None:
        return T, S, None
    kept = weights > 0
    return T[kept], S[kept], weights[kept]


def ratio(a: NDArray[Any], b: NDArray[Any], undefined: float = 0.0) -> NDArray[np.float64]:
    """``a / b``, and ``undefined`` where ``b`` is zero."""
    return np.divide(a, b, out=np.full(len(a), undefined), where=b != 0)


def finish(
    result: MetricValue, return_counts: bool, known: NDArray[Any] | None = None
) -> float | MetricValue:
    """The number alone, or with its counts; ``known`` is 0 or False where something is missing."""
    if known is not None and known.all():
        result = result._replace(kind="complete")
    return result if return_counts else result.value
