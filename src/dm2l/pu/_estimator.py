"""Estimators whose score model learns from positive-unlabelled labels as well."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np

from dm2l._base import FitResult, MissingLabelClassifier
from dm2l._utils.arrays import float64
from dm2l.completion._calibration import Calibrator, best_f1_thresholds
from dm2l.completion._completer import (
    FEWEST_POSITIVES,
    Imputation,
    LabelCompleter,
    TrainingRows,
    row_digests,
)
from dm2l.completion._errors import LabelErrors
from dm2l.labels._entries import EntryWeights, Signs
from dm2l.labels._matrix import LabelMatrix
from dm2l.pu._prior import (
    ClassPrior,
    Floats,
    check_class_prior,
    correct_scores,
    unlabelled_probability,
)

# Of EM: calibration curves, and probabilities of unlabelled entries by them.
_ROUNDS = 3


class PUCompleter(LabelCompleter):
    """:class:`LabelCompleter` of labels whose zeros may be positive, with label frequencies.

    There is no label correlation: it would need observed negatives.
    """

    def __init__(self, *arguments: Any, rate: Floats, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.rate = rate

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


class PositiveUnlabelledClassifier(MissingLabelClassifier):
    """Base of estimators that take ``missing_as="unlabelled"``, with ``class_prior``.

    The score model then gets complete labels, with unlabelled entries as negatives and the signs
    that were given as targets. It passes the class prior that it used to :meth:`_keep_prior`, and
    :meth:`_corrected` is applied to its scores.
    """

    class_prior: Any = None

    def _prepare_labels(
        self, labels: LabelMatrix, sample_weight: Any, label_weight: Any
    ) -> LabelMatrix:
        if self.missing_as != "unlabelled":
            return super()._prepare_labels(labels, sample_weight, label_weight)
        if labels.kind != "multilabel":
            raise ValueError("missing_as='unlabelled' needs a label matrix, got a 1-D y.")
        if sample_weight is not None or label_weight is not None:
            raise ValueError("missing_as='unlabelled' takes no weights.")
        if self.class_prior is not None:
            check_class_prior(self.class_prior, labels.signs)  # of all rows; some may show less
        return _as_negatives(labels)

    def _keep_prior(self, prior: ClassPrior | None = None) -> None:
        """Keep the class priors of the labels that were learnt, as those of all labels."""
        prior = prior or ClassPrior(*np.zeros((3, 0)))
        found = prior.spread(self._learnable, self._constant)
        self.class_prior_, self.class_prior_error_, self._label_frequency = found

    def _corrected(self, scores: Any) -> Any:
        """Scores of the learnt positive-unlabelled labels."""
        return correct_scores(float64(scores), self.class_prior_[self._learnable])

    def _for_folds(self) -> Self:
        bare = super()._for_folds()
        if self.missing_as == "unlabelled":
            bare.class_prior = self.class_prior_  # or every fold had a scale of its own
        return bare

    def _fit_pu_completer(self, X: Any, labels: LabelMatrix, result: FitResult) -> LabelCompleter:
        signs = labels.entries.targets if labels.entries is not None else None
        if signs is not None and signs.all() and (signs < 0).any():
            warnings.warn(
                "missing_as='unlabelled', but every entry of Y says yes or no, and a no counts as "
                "seen. Write NaN for unlabelled entries, np.where(Y == 1, 1, np.nan), or leave "
                "missing_as out.",
                UserWarning,
                stacklevel=4,
            )
        positive, rate, calibrator = labels.signs > 0, self._label_frequency, None
        number = 0.0 if self.threshold in (None, "f1") else float(self.threshold)
        thresholds = np.full(labels.n_labels, number)
        if self.calibration is not None or self.threshold == "f1":
            # Every entry counts as a positive and as a negative, by its probability.
            n, scores = len(positive), np.vstack([self._cross_fit(X, labels)] * 2)
            both = np.repeat(np.array([[1], [-1]], dtype=np.int8), n, axis=0)
            both = np.where(np.isfinite(scores), both, 0).astype(np.int8)
            p = np.clip((1 + scores[:n]) / 2, 0.01, 0.99)
            for _ in range(_ROUNDS):
                likely = np.where(positive, 1.0, unlabelled_probability(p, rate))
                weights = np.nan_to_num(np.vstack([likely, 1 - likely]))
                if self.calibration is None:
                    break
                calibrator = Calibrator(self.calibration).fit(scores, both, weights)
                p = calibrator.predict(np.nan_to_num(scores[:n]))
            if self.threshold == "f1":
                thresholds = best_f1_thresholds(scores, both, FEWEST_POSITIVES, weights)
        rows = TrainingRows.of(row_digests(X), labels.signs)
        by_probability = self.threshold is None
        return PUCompleter(thresholds, self._learnable, calibrator, by_probability, rows, rate=rate)

    def _cross_fit(self, X: Any, labels: LabelMatrix) -> Any:
        if self.missing_as == "unlabelled" and labels.entries is None:
            labels = _as_negatives(labels)  # as read, for a search for label errors
        return super()._cross_fit(X, labels)


def _as_negatives(labels: LabelMatrix) -> LabelMatrix:
    """Unlabelled entries as negatives, with the signs as given as targets."""
    T = np.where(labels.signs > 0, 1, -1).astype(np.int8)
    return replace(labels, signs=T, entries=EntryWeights.of(T, targets=labels.signs))
