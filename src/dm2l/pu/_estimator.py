"""Estimators whose score model learns from positive-unlabelled labels as well."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np

from dm2l._base import MissingLabelClassifier
from dm2l._score_model import FitResult
from dm2l._utils.arrays import float64
from dm2l.completion._completer import LabelCompleter
from dm2l.completion._training_rows import TrainingRows, row_digests
from dm2l.labels._entries import EntryWeights
from dm2l.labels._matrix import LabelMatrix
from dm2l.pu._completer import PUCompleter, correct_scores
from dm2l.pu._prior import ClassPrior, check_class_prior

__all__ = ["PositiveUnlabelledClassifier"]


class PositiveUnlabelledClassifier(MissingLabelClassifier):
    """Base of estimators that take ``missing_as="unlabelled"``, with ``class_prior``.

    The score model then gets complete labels, with unlabelled entries as negatives and the given
    signs as targets. It passes the class prior that it used to
    :meth:`_keep_prior`, and :meth:`_corrected` is applied to its scores.
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
        return pu_labels(labels)

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
        return PUCompleter.fit_pu(
            labels.signs > 0,
            lambda: self._cross_fit(X, labels),
            self._learnable,
            self._label_frequency,
            threshold=self.threshold,
            calibration=self.calibration,
            training_rows=TrainingRows.of(row_digests(X), labels.signs),
        )

    def _cross_fit(self, X: Any, labels: LabelMatrix) -> Any:
        # Labels of a search for label errors still have their unlabelled entries.
        as_read = self.missing_as == "unlabelled" and labels.entries is None
        return super()._cross_fit(X, pu_labels(labels) if as_read else labels)


def pu_labels(labels: LabelMatrix) -> LabelMatrix:
    """Unlabelled entries as negatives, with the signs as given as targets."""
    T = np.where(labels.signs > 0, 1, -1).astype(np.int8)
    return replace(labels, signs=T, entries=EntryWeights.of(T, targets=labels.signs))
