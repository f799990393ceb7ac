"""Probabilities, decisions and label errors where unlabelled entries may be positive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dm2l._utils.arrays import asarray_like, namespace
from dm2l.completion._calibration import Calibrator, best_f1_thresholds
from dm2l.completion._completer import FEWEST_POSITIVES, Imputation, LabelCompleter, TrainingRows
from dm2l.completion._label_errors import LabelErrors
from dm2l.labels._entries import Signs

Floats = NDArray[np.float64]

# Of EM: calibration curves, and probabilities of unlabelled entries by them.
_ROUNDS = 3


def unlabelled_probability(p: Floats, rate: Floats) -> Floats:
    r"""Probability that an unlabelled entry is positive, :math:`p (1 - c) / (1 - c p)`."""
    return p * (1 - rate) / np.maximum(1 - rate * p, 1e-12)


def correct_scores(scores: Any, prior: Any) -> Any:
    r"""Replace scores ``2 p - 1`` with p below the class prior, which may be negative.

    They become those of :math:`\pi e^{p / \pi - 1}`, which is positive and keeps the order of rows.
    A prior of zero leaves them as they are.
    """
    xp = namespace(scores)
    known = np.asarray(prior) > 0
    pi = asarray_like(np.where(known, prior, 1.0), scores)
    ratio = (1 + scores) / (2 * pi)
    small = 2 * pi * xp.exp(xp.where(ratio < 1, ratio, 1.0 + 0 * ratio) - 1) - 1
    return xp.where((ratio < 1) & asarray_like(known, scores), small, scores)


class PUCompleter(LabelCompleter):
    """:class:`LabelCompleter` of positive-unlabelled labels, of which zeros may be positive.

    There is no label correlation: it would need observed negatives. ``rate`` is the label
    frequency.
    """

    def __init__(self, *arguments: Any, rate: Floats, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.rate = rate

    @classmethod
    def fit_pu(
        cls,
        positive: NDArray[np.bool_],
        held_out: Callable[[], Floats],
        learnable: NDArray[np.bool_],
        rate: Floats,
        *,
        threshold: Any = None,
        calibration: Any = None,
        training_rows: TrainingRows | None = None,
    ) -> Self:
        """Learn from held-out scores; ``positive`` says where a positive is labelled."""
        thresholds, calibrator = np.zeros(positive.shape[1]), None
        if threshold is not None and threshold != "f1":
            thresholds = np.full(positive.shape[1], float(threshold))
        if calibration is not None or threshold == "f1":
            # Every entry counts as a positive and as a negative, by its probability.
            n, scores = len(positive), np.vstack([held_out()] * 2)
            both = np.repeat(np.array([[1], [-1]], dtype=np.int8), n, axis=0)
            both = np.where(np.isfinite(scores), both, 0).astype(np.int8)
            p = np.clip((1 + scores[:n]) / 2, 0.01, 0.99)
            for _ in range(_ROUNDS):
                likely = np.where(positive, 1.0, unlabelled_probability(p, rate))
                weights = np.nan_to_num(np.vstack([likely, 1 - likely]))
                if calibration is None:
                    break
                calibrator = Calibrator(calibration).fit(scores, both, weights)
                p = calibrator.predict(np.nan_to_num(scores[:n]))
            if threshold == "f1":
                thresholds = best_f1_thresholds(scores, both, FEWEST_POSITIVES, weights)
        return cls(thresholds, learnable, calibrator, threshold is None, training_rows, rate=rate)

    def state(self) -> dict[str, Any]:
        """Arguments of the constructor."""
        return super().state() | {"rate": self.rate}

    def check_bound(self, max_error_rate: Any, method: str) -> Any:
        """Refuse a bound: the error rate is estimated from observed entries of both classes."""
        raise ValueError(
            "max_error_rate requires observed negatives; with missing_as='unlabelled' the error "
            "rate cannot be estimated."
        )

    def impute(
        self,
        X: Any,
        T: Signs,
        scores: Floats,
        probabilities: Floats | None = None,
        max_error_rate: Any = None,
    ) -> Imputation:
        """Scores, probabilities and decisions, given that missing entries are unlabelled."""
        p = self.probabilities(scores) if probabilities is None else probabilities
        p = unlabelled_probability(p, self.rate)
        positive = p > 0.5 if self.by_probability else self.decide(scores)
        return Imputation(scores, p, positive, T == 0, np.nan)

    def find_label_errors(self, T: Signs, scores: Floats, *, refit: bool) -> LabelErrors:
        """Unlabelled entries, by the probability that they are positive."""
        row, label = np.nonzero((T == 0) & self.learnable & np.isfinite(scores))
        scores = np.nan_to_num(scores)
        p = np.clip((1 + scores) / 2, 0.0, 1.0)
        if self.calibrator is not None:
            p = self.calibrator.predict(scores)
        p = unlabelled_probability(p, self.rate)[row, label]
        order = np.argsort(-p, kind="stable")
        false_alarms = np.cumsum(1 - p[order]) / np.arange(1, len(p) + 1)
        negative = np.zeros(len(p), dtype=bool)
        return LabelErrors(row[order], label[order], negative, p[order], false_alarms)
