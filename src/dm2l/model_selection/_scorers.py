"""Scorers of metrics with missing labels."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import make_scorer

from dm2l import metrics
from dm2l.metrics._ranking import label_discrimination, ranking_and_discrimination
from dm2l.metrics._reading import read_labels

# "neg_" marks a loss, whose sign is turned.
_METRICS: dict[str, Any] = {
    "f1_macro": metrics.f1_macro,
    "f1_micro": metrics.f1_micro,
    "instance_auc": metrics.instance_auc,
    "label_auc": metrics.label_auc,
    "label_discrimination": label_discrimination,
    "label_ranking_average_precision": metrics.label_ranking_average_precision,
    "neg_calibrated_log_loss": metrics.calibrated_log_loss,
    "neg_coverage_error": metrics.coverage_error,
    "neg_hamming_loss": metrics.hamming_loss,
    "neg_one_error": metrics.one_error,
    "neg_ranking_loss": metrics.ranking_loss,
    **{f"ndcg_at_{k}": partial(metrics.ndcg_at_k, k=k) for k in (1, 3, 5)},
    **{f"precision_at_{k}": partial(metrics.precision_at_k, k=k) for k in (1, 3, 5)},
    "ranking_and_discrimination": ranking_and_discrimination,
}
_OF_DECISIONS = ("f1_macro", "f1_micro", "neg_hamming_loss")


def get_scorer_names() -> list[str]:
    """Sorted names of all scorers; ``neg_`` marks a loss with its sign turned.

    Examples
    --------
    >>> from dm2l.model_selection import get_scorer_names
    >>> get_scorer_names()[:3]
    ['f1_macro', 'f1_micro', 'instance_auc']
    """
    return sorted(_METRICS)


def get_scorer(name: str, **options: Any) -> Any:
    """Make a scorer of a metric of :mod:`dm2l.metrics`, for ``scoring=`` of ``GridSearchCV``.

    A scorer, made by :func:`sklearn.metrics.make_scorer`, is called as ``scorer(estimator, X, Y)``
    and is larger for a better estimator. If labels are missing it estimates what the complete
    labels would give; ``estimate=False`` evaluates the observed labels alone. Where scikit-learn's
    metadata routing passes a ``label_mask`` to ``fit``, the scorer needs it too:
    ``get_scorer(name).set_score_request(label_mask=True)``; likewise a ``sample_weight``.

    Parameters
    ----------
    name : str
        One of :func:`get_scorer_names`.
    **options : object
        Options of the metric, for example ``convention="published"``; and ``missing_label`` and
        ``missing_as``, as in :meth:`dm2l.labels.LabelMatrix.from_array`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from dm2l.model_selection import get_scorer
    >>> X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([[0, 1], [0, 1], [1, 0]])
    >>> model = RidgeClassifier().fit(X, Y)
    >>> get_scorer("neg_ranking_loss")(model, X, [[0, 1], [np.nan, 1], [1, np.nan]])
    -0.0
    """
    _check_name(name)
    return make_scorer(
        _metric,
        greater_is_better=not name.startswith("neg_"),
        response_method="predict" if name in _OF_DECISIONS else "decision_function",
        name=name,
        **options,
    )


def _metric(
    y_true: Any,
    y_score: Any,
    *,
    name: str,
    label_mask: Any = None,
    missing_label: Any = np.nan,
    missing_as: Any = None,
    **options: Any,
) -> float:
    """Metric of a scorer, of labels as scikit-learn hands them over."""
    marks = {"label_mask": label_mask, "missing_label": missing_label, "missing_as": missing_as}
    return float(_METRICS[name](read_labels(y_true, **marks), y_score, **options))


def check_pu_scoring(name: str) -> None:
    """Refuse a scorer that positive-unlabelled labels give no estimate of."""
    kinds = ("precision_at", "ndcg", "instance_auc", "label_auc", "neg_ranking_loss")
    usable = [known for known in get_scorer_names() if known.startswith(kinds)]
    if name not in usable:
        raise ValueError(
            f"{name!r} cannot be estimated from positive-unlabelled labels: it needs observed "
            f"negatives. Usable with missing_as='unlabelled': {', '.join(usable)}."
        )


def get_selection_metric(name: str) -> Callable[..., float]:
    """Metric of labels and scores, larger for better ones; observed if no estimate is possible."""
    # Which of the two depends on the labels alone, so that all candidates are compared alike.
    _check_name(name)
    return partial(_measure, name)  # can be pickled


def _check_name(name: str) -> None:
    if name not in _METRICS:
        raise ValueError(f"{name!r} is not a scorer. Known scorers: {', '.join(sorted(_METRICS))}.")


def _measure(name: str, y_true: Any, y_score: Any, sample_weight: Any = None) -> float:
    if name in _OF_DECISIONS:
        y_score = (np.asarray(y_score) > 0).astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        value = float(_METRICS[name](y_true, y_score, sample_weight=sample_weight))
        if np.isnan(value):
            marks: Any = {"estimate": False, "sample_weight": sample_weight}
            value = float(_METRICS[name](y_true, y_score, **marks))
    return -value if name.startswith("neg_") else value
