"""Several metrics at once, metrics of each label, and metrics for positive-unlabelled labels."""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning

from dm2l._utils.inputs import check_choice
from dm2l.metrics import _at_k, _decisions, _ranking, _reading
from dm2l.metrics._reading import Convention, MetricOptions, MetricValue

_RANKING = ("ranking_loss", "label_ranking_average_precision", "coverage_error", "instance_auc")
_DECISIONS = ("hamming_loss", "f1_micro", "f1_macro")


@_reading.shows_options
def evaluate(
    y_true: Any,
    y_score: Any,
    *,
    y_pred: Any = None,
    convention: Convention | None = None,
    k: Sequence[int] = (1, 3, 5),
    only: Sequence[str] | None = None,
    **options: Unpack[MetricOptions],
) -> dict[str, MetricValue]:
    """Compute ranking and decision metrics, or the metrics in ``only``, for the same scores.

    ``ndcg_at_k``, the propensity-scored metrics and ``calibrated_log_loss`` are not included.

    Parameters
    ----------
    y_true : array-like or LabelMatrix of shape (n, c)
        Labels 0/1 or -1/+1, NaN where missing.
    y_score : array-like of shape (n, c)
        Scores; a higher score means that the label is more likely positive.
    y_pred : array-like of shape (n, c), default=None
        Predicted labels; by default ``y_score > 0``.
    convention : {None, "paper", "published", "sklearn"}, default=None
        Convention of the ranking metrics; None means the default of each metric.
    k : sequence of int, default=(1, 3, 5)
        Values of ``k`` for ``precision_at_k``. Values above the number of labels are ignored.
    only : sequence of str, default=None
        Names of the metrics to compute; None means all of them.
    **options : dict
        ``undefined``, ``estimate``, ``rates`` and ``sample_weight`` as in :func:`ranking_loss`.

    Returns
    -------
    dict of str to MetricValue
        The value of each metric by name. Undefined metrics are NaN, without a warning.

    Examples
    --------
    >>> from dm2l.metrics import evaluate
    >>> result = evaluate([[1, 0], [float("nan"), 1]], [[0.9, -0.1], [0.8, 0.3]])
    >>> result["hamming_loss"].kind, result["hamming_loss"].n_entries
    ('estimate', 3)
    """
    options["return_counts"] = True
    given = _reading.read(y_true, y_score, **options)
    P = given.S > 0
    if y_pred is not None:
        options["estimate"] = False
        P = _reading.read_decisions(y_true, y_pred, **options).S
    chosen: Any = {} if convention is None else {"convention": convention}
    within = [at for at in k if at <= given.T.shape[1]]
    tasks: dict[str, Callable[[], Any]] = {
        **{name: partial(getattr(_ranking, name), given, None, **chosen) for name in _RANKING},
        "label_auc": partial(_ranking.label_auc, given, None, **chosen),
        "one_error": partial(_ranking.one_error, given, None),
        **{f"precision_at_{at}": partial(_at_k.precision_at_k, given, None, at) for at in within},
        **{name: partial(getattr(_decisions, name), given, P) for name in _DECISIONS},
    }
    names = dict.fromkeys([*tasks, *(f"precision_at_{at}" for at in k)])
    for name in only or ():
        check_choice("each name in only", name, *names)
    with warnings.catch_warnings(action="ignore", category=UndefinedMetricWarning):
        return {name: task() for name, task in tasks.items() if only is None or name in only}


def label_table(y_true: Any, y_score: Any) -> dict[str, NDArray[Any]]:
    """Return counts, AUC and F1 score (of ``y_score > 0``) of each label; NaN where undefined.

    See :func:`evaluate` for parameters. ``pandas.DataFrame`` accepts the result.

    Examples
    --------
    >>> from dm2l.metrics import label_table
    >>> table = label_table(
    ...     [[1, 0], [0, 0], [float("nan"), 0]], [[0.9, 0.1], [-0.8, 0.3], [0.1, -0.2]]
    ... )
    >>> table["n_observed"], table["auc"]
    (array([2, 3]), array([ 1., nan]))
    """
    given = _reading.read(y_true, y_score, estimate=False)
    T, S = given.T, given.S
    o = _ranking._Order(T.T, S.T)
    return {
        "n_observed": o.n_observed,
        "n_positive": o.n_positive,
        "auc": np.where(o.n_pairs > 0, o.auc(0.5), np.nan),
        "f1": _reading.ratio(*_decisions.f1_parts(T, S > 0), undefined=np.nan),
    }


def evaluate_positive_unlabelled(
    y_true: Any, y_score: Any, class_prior: Any, *, y_pred: Any = None, k: Sequence[int] = (1, 3, 5)
) -> dict[str, MetricValue]:
    r"""Estimate the metrics of complete labels from positive-unlabelled labels and class priors.

    The estimates assume that a positive of label :math:`j` is observed with rate
    :math:`c_j = s_j / \pi_j`. Here, :math:`s_j` is the share of rows with an observed
    positive, and :math:`\pi_j` the class prior. Let :math:`r_j` be the recall of the observed
    positives, and :math:`q_j` the share of rows that are predicted positive. Then

    .. math:: \text{precision} = \pi r / q, \quad F_1 = 2 \pi r / (q + \pi), \quad
              \text{Hamming loss} = q + \pi - 2 \pi r, \quad
              \text{AUC} = \frac{A - u / 2}{1 - u}

    where :math:`A` is the probability that an observed positive scores higher than an unlabelled
    row, and :math:`u = (\pi - s) / (1 - s)` is the share of positives among unlabelled rows.
    Precision at ``k`` counts an observed positive :math:`1 / c_j` times. Metrics that compare the
    labels of a row, such as the ranking loss, cannot be estimated.

    Parameters
    ----------
    y_true : array-like, sparse matrix or LabelMatrix of shape (n, c)
        Observed positives. All other entries count as unlabelled.
    class_prior : float or array-like of shape (c,)
        Share of rows in which each label is positive, such as ``model.class_prior_``.
    y_score, y_pred, k
        As in :func:`evaluate`, for rows that were not used to train the model.

    Returns
    -------
    dict of str to MetricValue
        Means over labels with observed positives. Standard errors assume exact class priors.

    Examples
    --------
    >>> from dm2l.metrics import evaluate_positive_unlabelled
    >>> evaluate_positive_unlabelled([[1], [None]], [[2], [-1]], 0.5)["recall"].value
    1.0
    """
    labels = _reading.read_labels(y_true, missing_as="unlabelled")
    T, S = labels.signs, _reading.check_scores(labels, y_score)
    P = S > 0 if y_pred is None else np.asarray(y_pred) > 0
    observed = T > 0
    n, c = T.shape
    prior = np.broadcast_to(np.asarray(class_prior, dtype=np.float64), c)
    share = observed.mean(axis=0)
    use = (share > 0) & (share < 1)
    if not use.any():
        what = "No label of y_true has both observed positives and unlabelled rows."
        raise ValueError(f"{what} Pass more rows.")
    # In test rows, the share of observed positives may exceed the prior by chance.
    prior = np.clip(prior, share, 1.0)
    n_positive = observed.sum(axis=0)[use]
    pi, s, predicted = prior[use], share[use], P.mean(axis=0)[use]
    recall = (P & observed).sum(axis=0)[use] / n_positive
    signs = np.where(observed, 1, -1).T[use]
    above = _ranking._Order(signs, S.T[use]).auc(0.5)
    u = (pi - s) / (1 - s)
    auc = np.clip((above - u / 2) / np.maximum(1 - u, 1e-12), 0.0, 1.0)
    miss = np.sqrt(recall * (1 - recall) / n_positive)
    spread = np.sqrt(np.maximum(above * (1 - above), 0.25 / n_positive) / n_positive)
    per_label = {
        "label_auc": (auc, spread / np.maximum(1 - u, 1e-12)),
        "recall": (recall, miss),
        "precision": (
            np.minimum(pi * recall / np.maximum(predicted, 1 / n), 1.0),
            pi * miss / np.maximum(predicted, 1 / n),
        ),
        "f1_macro": (2 * pi * recall / (predicted + pi), 2 * pi * miss / (predicted + pi)),
        "hamming_loss": (np.maximum(predicted + pi - 2 * pi * recall, 0.0), 2 * pi * miss),
    }
    n_entries, n_labels = int(n_positive.sum()), int(use.sum())
    result = {}
    for name, (values, errors) in per_label.items():
        value, error = float(values.mean()), float(np.sqrt((errors**2).sum())) / n_labels
        counts = n_entries, n_labels, c - n_labels
        result[name] = MetricValue(value, *counts, "estimate", error)
    counted = observed * (prior / np.maximum(share, 1e-12))
    order = np.argsort(-S, axis=1, kind="stable")
    for at in k:
        if at <= c:
            gain = np.take_along_axis(counted, order[:, :at], axis=1).mean(axis=1)
            value, error = float(gain.mean()), float(gain.std() / n**0.5)
            result[f"precision_at_{at}"] = MetricValue(value, n_entries, n, 0, "estimate", error)
    return result
