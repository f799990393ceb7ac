"""Scorers of metrics with missing labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import make_scorer

from dm2l import metrics
from dm2l.metrics._ranking import label_discrimination, ranking_and_discrimination
from dm2l.metrics._reading import read_labels


class _Recipe(NamedTuple):
    metric: Any
    greater_is_better: bool = True
    response_method: str = "decision_function"


_RECIPES = {
    "f1_macro": _Recipe(metrics.f1_macro, response_method="predict"),
    "f1_micro": _Recipe(metrics.f1_micro, response_method="predict"),
    "instance_auc": _Recipe(metrics.instance_auc),
    "label_auc": _Recipe(metrics.label_auc),
    "label_discrimination": _Recipe(label_discrimination),
    "label_ranking_average_precision": _Recipe(metrics.label_ranking_average_precision),
    "neg_calibrated_log_loss": _Recipe(metrics.calibrated_log_loss, greater_is_better=False),
    "neg_coverage_error": _Recipe(metrics.coverage_error, greater_is_better=False),
    "neg_hamming_loss": _Recipe(metrics.hamming_loss, False, "predict"),
    "neg_one_error": _Recipe(metrics.one_error, greater_is_better=False),
    "neg_ranking_loss": _Recipe(metrics.ranking_loss, greater_is_better=False),
    **{f"ndcg_at_{k}": _Recipe(partial(metrics.ndcg_at_k, k=k)) for k in (1, 3, 5)},
    **{f"precision_at_{k}": _Recipe(partial(metrics.precision_at_k, k=k)) for k in (1, 3, 5)},
    "ranking_and_discrimination": _Recipe(ranking_and_discrimination),
}


def get_scorer_names() -> list[str]:
    """Sorted names of all scorers; ``neg_`` marks a loss with its sign turned.

    Examples
    --------
    >>> from dm2l.model_selection import get_scorer_names
    >>> get_scorer_names()[:3]
    ['f1_macro', 'f1_micro', 'instance_auc']
    """
    return sorted(_RECIPES)


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
    recipe = _recipe(name)
    return make_scorer(
        _metric,
        greater_is_better=recipe.greater_is_better,
        response_method=recipe.response_method,
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
    return float(_RECIPES[name].metric(read_labels(y_true, **marks), y_score, **options))


def check_pu_scoring(name: str) -> None:
    """Refuse a scorer that positive-unlabelled labels give no estimate of."""
    usable = [
        known
        for known in get_scorer_names()
        if known.startswith(("precision_at", "ndcg"))
        or known in ("instance_auc", "label_auc", "neg_ranking_loss")
    ]
    if name not in usable:
        raise ValueError(
            f"{name!r} cannot be estimated from positive-unlabelled labels: it needs observed "
            f"negatives. Usable with missing_as='unlabelled': {', '.join(usable)}."
        )


def get_selection_metric(name: str) -> Callable[..., float]:
    """Metric of labels and scores, larger for better ones; observed if no estimate is possible."""
    # Which of the two depends on the labels alone, so that all candidates are compared alike.
    return partial(_measure, _recipe(name))  # can be pickled


def _recipe(name: str) -> _Recipe:
    if name not in _RECIPES:
        raise ValueError(f"{name!r} is not a scorer. Known scorers: {', '.join(sorted(_RECIPES))}.")
    return _RECIPES[name]


def _measure(recipe: _Recipe, y_true: Any, y_score: Any, sample_weight: Any = None) -> float:
    if recipe.response_method == "predict":
        y_score = (np.asarray(y_score) > 0).astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        value = float(recipe.metric(y_true, y_score, sample_weight=sample_weight))
        if np.isnan(value):
            value = float(
                recipe.metric(y_true, y_score, estimate=False, sample_weight=sample_weight)
            )
    return value if recipe.greater_is_better else -value
