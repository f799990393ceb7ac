"""Arguments of metrics, and means of values over rows, labels or entries."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, Literal, NamedTuple, TypedDict, TypeVar, Unpack

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning, UndefinedMetricWarning

from dm2l._utils.arrays import to_numpy
from dm2l._utils.inputs import check_choice
from dm2l.labels._entries import Signs, checked_weights
from dm2l.labels._matrix import LabelMatrix, parse_labels
from dm2l.labels._parsing import SparseLabelMatrix, refuse_shuffled
from dm2l.metrics._complete import Array, CompleteRows

Convention = Literal["paper", "published", "sklearn"]
Undefined = Literal["skip", "raise"] | float | None
Kind = Literal["complete", "estimate", "observed"]
_Metric = TypeVar("_Metric", bound=Callable[..., Any])


class MetricOptions(TypedDict, total=False):
    """Options of every metric; :func:`dm2l.metrics.ranking_loss` explains them."""

    undefined: Undefined
    return_counts: bool
    estimate: bool
    rates: Any
    sample_weight: Any


class MetricValue(NamedTuple):
    """Value of a metric, with the numbers of entries and rows or labels that it is based on.

    Attributes
    ----------
    value : float
        Value of the metric.
    n_entries : int
        Number of observed entries.
    n_units, n_undefined : int
        Number of units (rows, labels or entries) in the average, and number of units for
        which the metric is undefined. If the value is an estimate, these numbers are estimates.
    kind : {"complete", "estimate", "observed"}
        "complete" if no label is missing. "estimate" if the value that the complete labels would
        give was estimated. "observed" if only the observed labels were evaluated.
    standard_error : float
        Standard error due to the sampling of rows; NaN if ``kind`` is not "estimate".
    """

    value: float
    n_entries: int
    n_units: int
    n_undefined: int
    kind: Kind = "observed"
    standard_error: float = float("nan")


@dataclass(frozen=True)
class Given:
    """Labels, scores and weights of the evaluated rows, and the options of the metric."""

    T: Any  # signs; or a SparseLabelMatrix if scores are a list of the best labels
    S: NDArray[Any]
    weights: Array | None  # None: all rows have weight one
    complete: CompleteRows | None  # None: only observed labels are evaluated
    known: bool  # whether no label is missing
    undefined: Undefined
    return_counts: bool

    def finish(self, value: float, *counts: Any) -> float | MetricValue:
        """Return the value, as a :class:`MetricValue` if ``return_counts`` is set."""
        return MetricValue(value, *counts) if self.return_counts else value

    def average(
        self,
        values: Array,
        n_observed: NDArray[np.int64],
        defined: NDArray[np.bool_],
        *,
        fill: Array | float | None = None,
        unit: str = "rows",
        weights: Array | None = None,
    ) -> float | MetricValue:
        """Return the mean over units; ``fill`` is the convention's value for undefined units."""
        # In every convention, units without observed entries are dropped and count as undefined.
        weights = self.weights if unit == "rows" else weights
        empty = n_observed == 0 if weights is None else (n_observed == 0) | (weights == 0)
        lacking = ~defined | empty
        if self.undefined == "raise" and not len(values):
            what = "The metric is undefined, because no label is observed."
            raise ValueError(f"{what} Pass observed labels, or undefined='skip' to get nan.")
        self._refuse(lacking, unit)
        fill = self._fill(fill)
        used = ~lacking if fill is None else ~empty
        if fill is not None:
            values = np.where(lacking, fill, values)
        if not used.any():
            message = f"The metric is undefined on all {len(values)} {unit}; the result is nan."
            warnings.warn(message, UndefinedMetricWarning, stacklevel=3)
        chosen = None if weights is None else weights[used]
        counts = (int(count) for count in (n_observed[used].sum(), used.sum(), lacking.sum()))
        value = float(np.average(values[used], weights=chosen)) if used.any() else float("nan")
        return self.finish(value, *counts, "complete" if self.known else "observed")

    def estimate(
        self, gained: Array, counted: Array, fill: float | None = None, most: float = 1.0
    ) -> float | MetricValue:
        """Estimate the mean over the rows on which the metric is defined."""
        rows: Any = self.complete
        if self.undefined == "raise":
            raise ValueError(
                "undefined='raise' requires estimate=False, because with missing labels it is "
                "unknown for which rows the metric is undefined."
            )
        fill = self._fill(fill)
        lacking = float((rows.weights * (1 - counted)).sum())
        if fill is not None and np.isnan(fill) and round(lacking) <= 0:
            fill = None
        if fill is not None:
            gained, counted = gained + fill * (1 - counted), np.ones(len(gained))
        total = float((rows.weights * counted).sum())
        if rows.impossible or total <= 0:
            return self._nothing()
        value = float((rows.weights * gained).sum()) / total
        error = standard_error(rows.weights * (gained - value * counted) / total)
        value = float(np.clip(value, min(0.0, fill or 0.0), max(most, fill or 0.0)))
        missed = max(0, round(lacking))
        return self.finish(value, rows.n_entries, round(total), missed, "estimate", error)

    def estimate_by_label(
        self, values: Array, counts: Array, shares: Array, fill: float | None = None
    ) -> float | MetricValue:
        """Estimate the mean over labels; ``shares`` (n, c) determine its standard error."""
        rows: Any = self.complete
        lacking = counts == 0
        self._refuse(lacking, "labels")
        fill = self._fill(fill)
        if fill is not None:
            values, counts = np.where(lacking, fill, values), np.where(lacking, 1.0, counts)
        total = float(counts.sum())
        if rows.impossible or total <= 0:
            return self._nothing()
        value = float((counts * values).sum() / total)
        error = standard_error(shares @ counts / total)
        n = int(lacking.sum())
        return self.finish(value, rows.n_entries, len(values) - n, n, "estimate", error)

    def _fill(self, fill: Any) -> Any:
        if self.undefined is None:
            return fill
        return None if isinstance(self.undefined, str) else float(self.undefined)

    def _refuse(self, lacking: NDArray[np.bool_], unit: str) -> None:
        if self.undefined == "raise" and lacking.any():
            raise ValueError(
                f"The metric is undefined on {lacking.sum()} of {len(lacking)} {unit} (the first "
                f"has index {int(np.flatnonzero(lacking)[0])}), which lack observed positives or "
                "negatives. Use undefined='skip' to leave them out."
            )

    def _nothing(self) -> float | MetricValue:
        rows: Any = self.complete
        alone = [f"label {k} has missing entries, but no observed negative" for k in rows.one_sided]
        warnings.warn(
            "The metric cannot be estimated for the complete labels, because "
            f"{alone[0] if alone else 'too few labels are observed'}. The result is nan. Use "
            "estimate=False to evaluate the observed labels.",
            UndefinedMetricWarning,
            stacklevel=4,
        )
        nan = float("nan")
        return self.finish(nan, rows.n_entries, 0, len(rows.T), "estimate", nan)


def standard_error(shares: Array) -> float:
    """Return the standard error of a sum over independent rows (linear jackknife)."""
    n = len(shares)
    return float(np.sqrt((shares**2).sum() * n / (n - 1))) if n > 1 else float("nan")


def ratio(a: NDArray[Any], b: NDArray[Any], undefined: float = 0.0) -> Array:
    """Divide ``a`` by ``b``; the result is ``undefined`` where ``b`` is zero."""
    return np.divide(a, b, out=np.full(len(a), undefined), where=b != 0)


def read(
    y_true: Any, y_score: Any, convention: str | None = None, **options: Unpack[MetricOptions]
) -> Given:
    """Read labels, scores and options; return a ``Given`` unchanged."""
    check_choice("convention", convention, None, "paper", "published", "sklearn")
    if isinstance(y_true, Given):
        return y_true
    T, S = signs_and_scores(y_true, y_score)
    return given_rows(T, S, bool(T.all()), **options)


def given_rows(
    T: Any,
    S: NDArray[Any],
    known: bool,
    *,
    undefined: Undefined = None,
    return_counts: bool = False,
    estimate: bool = True,
    rates: Any = None,
    sample_weight: Any = None,
) -> Given:
    """Select rows with positive weight, and prepare the estimate for the complete labels."""
    if isinstance(undefined, str) and undefined not in ("skip", "raise"):
        raise ValueError(f"undefined must be None, 'skip', 'raise' or a number, got {undefined!r}.")
    weights, complete = None, None
    if sample_weight is not None:
        weights = checked_weights("sample_weight", sample_weight, S.shape[:1])
        T, S, weights = T[weights > 0], S[weights > 0], weights[weights > 0]
    if estimate and not known and T.any():
        complete = CompleteRows(T, S, rates, weights)
    return Given(T, S, weights, complete, known, undefined, return_counts)


def shows_options(metric: _Metric) -> _Metric:
    """Decorator that adds the shared options to the signature of a metric."""
    own, shared = signature(metric), signature(given_rows).parameters.values()
    parts = [part for part in own.parameters.values() if part.kind is not part.VAR_KEYWORD]
    parts += [part for part in shared if part.kind is part.KEYWORD_ONLY]
    metric.__signature__ = own.replace(parameters=parts)  # type: ignore[attr-defined]
    return metric


def read_decisions(y_true: Any, y_pred: Any, **options: Any) -> Given:
    """Read labels, decisions and options; ``S`` is True where a label is predicted positive."""
    if isinstance(y_true, Given):
        return replace(y_true, S=y_pred)
    T, P = signs_and_scores(y_true, y_pred, "y_pred")
    bad = (P != 0) & (P != 1) & (P != -1)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"y_pred has {P[row, column]} in row {row}, column {column}; decisions must be 0/1 "
            "or -1/+1. Pass predict(X), or scores > threshold."
        )
    given = given_rows(T, (P > 0).astype(np.float64), bool(T.all()), **options)
    return replace(given, S=given.S > 0)


def read_labels(y_true: Any, **marks: Any) -> LabelMatrix:
    """Read labels for a metric; a 1-D array is read as a single label, not as classes."""
    if isinstance(y_true, SparseLabelMatrix):
        return LabelMatrix.of_signs(y_true.signs(), negative=y_true.negative)
    if isinstance(y_true, LabelMatrix) and y_true.kind == "multilabel" and not marks:
        return y_true
    if not sp.issparse(y_true) and np.ndim(y_true) == 1 and not isinstance(y_true, LabelMatrix):
        # As classes, the labels of a test fold with a single class would raise an error.
        if hasattr(y_true, "to_frame"):  # pandas and polars
            y_true = y_true.to_frame()
        else:
            y_true = y_true[:, None] if hasattr(y_true, "shape") else [[value] for value in y_true]
        if marks.get("label_mask") is not None:
            marks["label_mask"] = to_numpy(marks["label_mask"])[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataConversionWarning)  # classes are an error below
        labels = parse_labels(y_true, allow_empty=True, **marks)
    if labels.kind != "multilabel":
        raise ValueError(
            "y_true holds classes, but metrics expect 0/1 or -1/+1 labels with one column per "
            "label. Use sklearn.metrics for classes."
        )
    return labels


def signs_and_scores(y_true: Any, y_score: Any, what: str = "y_score") -> tuple[Signs, Array]:
    """Return the signs of labels and checked scores; ``what`` names the scores in messages."""
    labels = read_labels(y_true)
    if labels.missing_as == "unlabelled":
        what = "This metric needs observed negatives, which positive-unlabelled labels do not have."
        raise ValueError(f"{what} Use dm2l.metrics.evaluate_positive_unlabelled.")
    return labels.signs, check_scores(labels, y_score, what)


def check_scores(labels: LabelMatrix, y_score: Any, what: str = "y_score") -> Array:
    """Return scores as float64, after checking their shape and that they are finite."""
    S = np.asarray(to_numpy(y_score), dtype=np.float64)
    if S.ndim == 1 and labels.n_labels == 1:
        S = S[:, None]
    if S.shape != labels.signs.shape:
        shape = labels.signs.shape
        raise ValueError(f"{what} must have the shape of the labels, {shape}, got {S.shape}.")
    refuse_shuffled(labels.names, getattr(y_score, "columns", None), what)
    if not np.isfinite(S).all():
        row, column = np.argwhere(~np.isfinite(S))[0]
        raise ValueError(
            f"{what} has {S[row, column]} in row {row}, column {column}; all entries must be "
            "finite numbers."
        )
    return S
