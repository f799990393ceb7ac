"""From scores to probabilities and decisions, by leave-one-out or out-of-fold scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dm2l.labels._entries import Signs

Floats = NDArray[np.float64]


def plain_probability(scores: NDArray[Any]) -> Floats:
    r"""Probability that a least-squares score stands for, without calibration.

    Fitted to ``-1/+1``, a score estimates ``E[t|x] = 2p - 1``. The link

    .. math:: p = \tfrac12 (1 + \tanh f)

    agrees with that to first order, stays inside (0, 1) and keeps the order of scores.
    """
    return 0.5 * (1.0 + np.tanh(np.asarray(scores, dtype=np.float64)))


class Calibrator:
    """One monotone map from score to probability per label."""

    def __init__(self, method: Any) -> None:
        if method not in ("sigmoid", "isotonic"):
            raise ValueError(f"calibration must be None, 'sigmoid' or 'isotonic', got {method!r}.")
        self.method = method

    def fit(
        self, scores: Floats, T: Signs, weights: Floats | None = None, *, flat: bool = True
    ) -> Self:
        """Fit on held-out scores (NaN where there is none) and the observed signs beside them.

        ``weights`` (n, c) are those of the entries. ``flat`` says whether a label that
        has no curve gets its observed rate; else it keeps :func:`plain_probability`.
        """
        weights = np.broadcast_to(1.0, T.shape) if weights is None else weights
        known = (T != 0) & np.isfinite(scores)
        curves = [
            self._fit_label(scores[rows, k], T[rows, k] > 0, weights[rows, k])
            for k, rows in enumerate(known.T)
        ]
        # Curves of all labels in a few arrays: model files hold them as they are.
        self.fitted_labels = np.array([curve is not None for curve in curves], dtype=bool)
        fitted = [curve for curve in curves if curve is not None]
        one, two = (np.concatenate([np.zeros(0), *(curve[k] for curve in fitted)]) for k in (0, 1))
        if self.method == "sigmoid":
            self.slopes, self.offsets = one, two
        else:
            self.lengths = np.array([len(curve[0]) for curve in fitted], dtype=np.int64)
            self.scores, self.probabilities = one, two
        positives, observed = ((part * weights).sum(axis=0) for part in (T > 0, T != 0))
        rate = (positives + 1) / (observed + 2)
        self.rates = np.where((observed > 0) & (flat | self.fitted_labels), rate, np.nan)
        return self

    def _fit_label(
        self, scores: Floats, positive: NDArray[np.bool_], weights: Floats
    ) -> tuple[Floats, Floats] | None:
        """Slope and offset of a label, or corners of its curve; None if it cannot have one."""
        n_positive, n_negative = weights[positive].sum(), weights[~positive].sum()
        if not n_positive or not n_negative:
            return None
        if self.method == "isotonic":
            from sklearn.isotonic import IsotonicRegression

            regression = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
            regression.fit(scores, positive.astype(np.float64), weights)
            return regression.X_thresholds_, regression.y_thresholds_
        # Loaded when it is needed: a third of the time of importing this library.
        from sklearn.linear_model import LogisticRegression

        # Platt's targets keep the curve finite when scores separate the classes; a fractional
        # target is two weighted copies of a row.
        target = np.where(positive, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2))
        column = np.concatenate([scores, scores])[:, None]
        answer = np.repeat([1, 0], len(scores))
        weight = np.concatenate([target * weights, (1 - target) * weights])
        logistic = LogisticRegression(C=1e6, max_iter=1000)
        logistic.fit(column, answer, sample_weight=weight)
        # A falling curve would reverse the model's order on the evidence of noise: no curve then.
        return (logistic.coef_[0], logistic.intercept_) if logistic.coef_[0, 0] > 0 else None

    def predict(self, scores: NDArray[Any]) -> Floats:
        """Probabilities: by its curve, its observed rate, or :func:`plain_probability`."""
        result = np.where(np.isnan(self.rates), plain_probability(scores), self.rates)
        if self.method == "sigmoid":
            labels = self.fitted_labels
            with np.errstate(over="ignore"):
                result[:, labels] = expit(scores[:, labels] * self.slopes + self.offsets)
        else:
            for k, knots, values in self.polygons():
                result[:, k] = np.interp(scores[:, k], knots, values)
        return result

    def polygons(self) -> Iterator[tuple[int, Floats, Floats]]:
        """Labels with isotonic curves, and the scores and probabilities of their corners."""
        ends = np.cumsum(self.lengths)
        labels = np.flatnonzero(self.fitted_labels)
        for k, start, end in zip(labels, ends - self.lengths, ends, strict=True):
            yield int(k), self.scores[start:end], self.probabilities[start:end]


def best_f1_thresholds(
    scores: Floats, T: Signs, min_positives: float = 1, weights: Floats | None = None
) -> Floats:
    """Threshold of each label that maximises F1 on held-out scores of observed entries."""
    thresholds = np.zeros(T.shape[1])
    weights = np.broadcast_to(1.0, T.shape) if weights is None else weights
    for k in range(T.shape[1]):
        use = np.flatnonzero((T[:, k] != 0) & np.isfinite(scores[:, k]))
        order = use[np.argsort(-scores[use, k], kind="stable")]
        sorted_scores, count = scores[order, k], weights[order, k]
        hits = np.cumsum(count * (T[order, k] > 0))
        if not len(hits) or hits[-1] < max(min_positives, 1):
            continue
        f1 = 2 * hits / (np.cumsum(count) + hits[-1])
        # A cut inside a tie cannot be made.
        cuts = np.append(sorted_scores[1:] < sorted_scores[:-1], True)
        best = int(np.argmax(np.where(cuts, f1, -1.0)))
        lowest = float(sorted_scores[best])
        last = best + 1 == len(hits)
        below = lowest - max(1.0, abs(lowest)) if last else float(sorted_scores[best + 1])
        middle = below + 0.5 * (lowest - below)
        # Between neighbouring floats there is no middle: the lower one is the border.
        thresholds[k] = middle if middle < lowest else below
    return thresholds
