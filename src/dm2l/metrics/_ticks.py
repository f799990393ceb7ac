"""Measures that ticks can tell: positives are known, and how many there are of each label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from dm2l.metrics._units import MetricValue, signs_and_scores


def evaluate_ticks(
    Y: Any,
    scores: Any,
    class_prior: Any,
    *,
    predictions: Any = None,
    k: Sequence[int] = (1, 3, 5),
    missing_label: Any = np.nan,
) -> dict[str, MetricValue]:
    r"""Estimate what complete labels would give, from ticks and class priors.

    A positive of label :math:`j` is ticked with rate :math:`c_j = s_j / \pi_j`, whatever its row,
    where :math:`s_j` is the share of ticks. Then the share of ticks that are predicted is the
    recall :math:`r_j`, and with :math:`q_j` the share of rows predicted

    .. math:: \text{precision} = \pi r / q, \quad F_1 = 2 \pi r / (q + \pi), \quad
              \text{Hamming loss} = q + \pi - 2 \pi r, \quad
              \text{AUC} = \frac{A - u / 2}{1 - u}

    with :math:`A` the chance that a tick is above an unlabelled row, of which the share
    :math:`u = (\pi - s) / (1 - s)` is positive. Precision at ``k`` counts a tick :math:`1 / c_j`
    times. Measures that compare the labels of a row with each other one by one (ranking loss,
    average precision, coverage) cannot be had: which of the others are positive nobody knows.

    Parameters
    ----------
    Y : array-like, data frame or sparse matrix of shape (n, c)
        Ticks; everything else counts as unlabelled.
    scores : array-like of shape (n, c)
        Scores of rows that the model did not see.
    class_prior : float or array-like of shape (c,)
        Share of positives, for example ``model.class_prior_``.
    predictions : array-like of shape (n, c), default=None
        Decisions; by default ``scores > 0``.
    k : sequence of int, default=(1, 3, 5)
        For precision at ``k``; values above the number of labels are left out.
    missing_label : scalar, default=nan
        Mark of what is unlabelled.

    Returns
    -------
    dict of str to MetricValue
        Estimates, means over labels that have ticks, with standard errors for the class priors as
        they are.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.metrics import evaluate_ticks
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random((5000, 2)) < 0.3
    >>> scores = truth + rng.normal(size=truth.shape) - 0.5
    >>> ticks = np.where(truth & (rng.random(truth.shape) < 0.4), 1.0, np.nan)
    >>> found = evaluate_ticks(ticks, scores, 0.3)
    >>> right = [np.mean((scores[:, j] > 0)[truth[:, j]]) for j in range(2)]
    >>> bool(abs(found["recall"].value - np.mean(right)) < 0.05)
    True
    """
    absent = "missing" if hasattr(Y, "tocsr") else None
    T, S = signs_and_scores(Y, scores, missing_label=missing_label, missing_as=absent)
    P = S > 0 if predictions is None else np.asarray(predictions) > 0
    ticks = T > 0
    n, c = T.shape
    prior = np.broadcast_to(np.asarray(class_prior, dtype=np.float64), c)
    share = ticks.mean(axis=0)
    use = (share > 0) & (share < 1)
    if not use.any():
        raise ValueError("Ticks tell nothing where no label, or every row, is ticked.")
    # No more ticks than positives: a test part may have them by chance.
    prior = np.clip(prior, share, 1.0)
    ticked, m = ticks.sum(axis=0)[use], n - ticks.sum(axis=0)[use]
    pi, s, predicted = prior[use], share[use], P.mean(axis=0)[use]
    recall = (P & ticks).sum(axis=0)[use] / ticked
    ranks = rankdata(S[:, use], axis=0)
    above = ((ranks * ticks[:, use]).sum(axis=0) - ticked * (ticked + 1) / 2) / (ticked * m)
    u = (pi - s) / (1 - s)
    auc = np.clip((above - u / 2) / np.maximum(1 - u, 1e-12), 0.0, 1.0)
    miss = np.sqrt(recall * (1 - recall) / ticked)
    spread = np.sqrt(np.maximum(above * (1 - above), 0.25 / ticked) / ticked)
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
            int(ticked.sum()),
            int(use.sum()),
            int(c - use.sum()),
            "estimate",
            float(np.sqrt((error**2).sum()) / len(error)),
        )
        for name, (value, error) in per_label.items()
    }
    counted = ticks * (prior / np.maximum(share, 1e-12))
    order = np.argsort(-S, axis=1, kind="stable")
    for at in k:
        if at <= c:
            gain = np.take_along_axis(counted, order[:, :at], axis=1).mean(axis=1)
            result[f"precision_at_{at}"] = MetricValue(
                float(gain.mean()), int(ticked.sum()), n, 0, "estimate", float(gain.std() / n**0.5)
            )
    return result
