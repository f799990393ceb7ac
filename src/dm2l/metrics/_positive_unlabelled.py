"""Metrics of positive-unlabelled data: estimates from positives and class priors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from dm2l.metrics._reading import check_scores, read_labels
from dm2l.metrics._units import MetricValue


def evaluate_positive_unlabelled(
    y_true: Any,
    y_score: Any,
    class_prior: Any,
    *,
    y_pred: Any = None,
    k: Sequence[int] = (1, 3, 5),
) -> dict[str, MetricValue]:
    r"""Estimate the metrics of complete labels from positive-unlabelled labels and class priors.

    A positive of label :math:`j` is observed with rate :math:`c_j = s_j / \pi_j`, whatever its
    row, where :math:`s_j` is the share of observed positives. Then the share of them that is
    predicted is the recall :math:`r_j`, and with :math:`q_j` the share of rows predicted

    .. math:: \text{precision} = \pi r / q, \quad F_1 = 2 \pi r / (q + \pi), \quad
              \text{Hamming loss} = q + \pi - 2 \pi r, \quad
              \text{AUC} = \frac{A - u / 2}{1 - u}

    with :math:`A` the probability that an observed positive scores higher than an unlabelled row,
    of which the share :math:`u = (\pi - s) / (1 - s)` is positive. Precision at ``k`` counts an
    observed positive :math:`1 / c_j` times. Ranking loss, average precision and coverage compare
    the labels of a row one by one and cannot be estimated: which other labels are positive is
    unknown.

    Parameters
    ----------
    y_true : array-like, sparse matrix or LabelMatrix of shape (n, c)
        Observed positives; every other entry counts as unlabelled.
    y_score : array-like of shape (n, c)
        Scores of rows that the model was not fitted to.
    class_prior : float or array-like of shape (c,)
        Share of positives, for example ``model.class_prior_``.
    y_pred : array-like of shape (n, c), default=None
        Decisions; by default ``y_score > 0``.
    k : sequence of int, default=(1, 3, 5)
        For precision at ``k``; values above the number of labels are left out.

    Returns
    -------
    dict of str to MetricValue
        Estimates, means over labels with observed positives; standard errors take the class
        priors as exact.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.metrics import evaluate_positive_unlabelled
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random((5000, 2)) < 0.3
    >>> scores = truth + rng.normal(size=truth.shape) - 0.5
    >>> observed = np.where(truth & (rng.random(truth.shape) < 0.4), 1.0, np.nan)
    >>> found = evaluate_positive_unlabelled(observed, scores, 0.3)
    >>> right = [np.mean((scores[:, j] > 0)[truth[:, j]]) for j in range(2)]
    >>> bool(abs(found["recall"].value - np.mean(right)) < 0.05)
    True
    """
    labels = read_labels(y_true, missing_as="unlabelled")
    T, S = labels.signs, check_scores(labels, y_score)
    P = S > 0 if y_pred is None else np.asarray(y_pred) > 0
    observed = T > 0
    n, c = T.shape
    prior = np.broadcast_to(np.asarray(class_prior, dtype=np.float64), c)
    share = observed.mean(axis=0)
    use = (share > 0) & (share < 1)
    if not use.any():
        raise ValueError("At least one label needs both observed positives and unlabelled rows.")
    # A test part may hold more observed positives than the prior says, by chance.
    prior = np.clip(prior, share, 1.0)
    n_positive, m = observed.sum(axis=0)[use], n - observed.sum(axis=0)[use]
    pi, s, predicted = prior[use], share[use], P.mean(axis=0)[use]
    recall = (P & observed).sum(axis=0)[use] / n_positive
    ranks = rankdata(S[:, use], axis=0)
    above = ((ranks * observed[:, use]).sum(axis=0) - n_positive * (n_positive + 1) / 2) / (
        n_positive * m
    )
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
    result = {
        name: MetricValue(
            float(value.mean()),
            int(n_positive.sum()),
            int(use.sum()),
            int(c - use.sum()),
            "estimate",
            float(np.sqrt((error**2).sum()) / len(error)),
        )
        for name, (value, error) in per_label.items()
    }
    counted = observed * (prior / np.maximum(share, 1e-12))
    order = np.argsort(-S, axis=1, kind="stable")
    for at in k:
        if at <= c:
            gain = np.take_along_axis(counted, order[:, :at], axis=1).mean(axis=1)
            result[f"precision_at_{at}"] = MetricValue(
                float(gain.mean()),
                int(n_positive.sum()),
                n,
                0,
                "estimate",
                float(gain.std() / n**0.5),
            )
    return result
