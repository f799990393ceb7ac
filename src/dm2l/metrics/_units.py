"""Averages over rows or labels, with an explicit rule for undefined ones."""

from __future__ import annotations

import warnings
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning

Convention = Literal["paper", "published", "sklearn"]
Undefined = Literal["skip", "raise"] | float | None
Kind = Literal["complete", "estimate", "observed"]


class MetricValue(NamedTuple):
    """Value of a metric, with the counts behind it.

    Attributes
    ----------
    value : float
        Value of the metric.
    n_entries, n_units, n_undefined : int
        Observed entries, units (rows, labels or entries) and undefined units behind the value; if
        it is an estimate, so are the last two.
    kind : {"complete", "estimate", "observed"}
        "complete" if no label is missing; otherwise an estimate of the value that the complete
        labels would give, or the value of the observed labels alone.
    standard_error : float
        Standard error of an estimate, by rows; nan for the other kinds.
    """

    value: float
    n_entries: int
    n_units: int
    n_undefined: int
    kind: Kind = "observed"
    standard_error: float = float("nan")


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

    Units with nothing observed are dropped and counted, whatever the convention.
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
    """First and last place of equal keys, in sorted rows."""
    n, c = keys.shape
    place = np.arange(c)
    ends, starts = np.ones((n, c), dtype=bool), np.ones((n, c), dtype=bool)
    ends[:, :-1] = break_ties | (keys[:, 1:] != keys[:, :-1])
    starts[:, 1:] = ends[:, :-1]
    end = np.minimum.accumulate(np.where(ends, place, c - 1)[:, ::-1], axis=1)[:, ::-1]
    return np.maximum.accumulate(np.where(starts, place, 0), axis=1), end


def _mean(values: NDArray[np.float64], weights: NDArray[np.float64] | None) -> float:
    return float(np.average(values, weights=weights)) if len(values) else float("nan")


def ratio(a: NDArray[Any], b: NDArray[Any], undefined: float = 0.0) -> NDArray[np.float64]:
    """``a / b``, and ``undefined`` where ``b`` is zero."""
    return np.divide(a, b, out=np.full(len(a), undefined), where=b != 0)


def finish(
    result: MetricValue, return_counts: bool, known: NDArray[Any] | None = None
) -> float | MetricValue:
    """The value, or with its counts; ``known`` is 0 or False where a label is missing."""
    if known is not None and known.all():
        result = result._replace(kind="complete")
    return result if return_counts else result.value
