"""Methods of estimators that need labels beside the features: completion, label errors, score."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from dm2l._utils.arrays import is_non_numpy, take_rows, to_numpy
from dm2l.completion._completer import Imputation, LabelCompleter
from dm2l.completion._covariance import LabelCovariance
from dm2l.completion._error_rate import CompletionSummary
from dm2l.completion._label_errors import LabelErrors
from dm2l.labels._entries import checked_weights
from dm2l.labels._matrix import LabelMatrix, fill_with_labels, frame_like, parse_new_rows
from dm2l.labels._parsing import read_values


class CompletionMixin:
    """Methods around the :class:`LabelCompleter` of a fitted estimator.

    The estimator gives scores (``_all_scores``, ``_answers``), scores of training rows that their
    labels did not influence (``_cross_fit``), and checks inputs (``_check_X``).
    """

    missing_label: Any
    missing_as: Any
    _completer: LabelCompleter
    _labels: LabelMatrix  # without rows
    _learnable: NDArray[np.bool_]
    _label_answers: Any
    _check_X: Any  # noqa: N815
    _all_scores: Any
    _answers: Any
    _cross_fit: Any
    _follow: Any
    predict: Any

    def complete(
        self,
        X: Any,
        y: Any,
        *,
        label_mask: Any = None,
        method: Literal["predict", "predict_proba", "decision_function"] = "predict",
        max_error_rate: float | tuple[float, float] | None = None,
        return_summary: bool = False,
    ) -> Any:
        """Fill in the missing labels of ``y``; observed entries stay as they are.

        With ``coupling`` missing labels are filled given the features *and* the known labels of
        their row: scores are conditional means, probabilities are calibrated on known entries that
        were scored as if missing, and decisions follow them. Rows of the fit are recognised by
        their content, and scored as if they had not been in it. Without ``coupling``, and in rows
        without a known label, features alone decide.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like or data frame of shape (n_samples, n_labels)
            Labels with missing entries; all may be missing.
        label_mask : array-like of bool, default=None
            Entries under False count as missing.
        method : {"predict", "predict_proba", "decision_function"}, default="predict"
            What missing labels are filled with. Observed entries are 0/1 among probabilities, and
            -1/+1 among scores.
        max_error_rate : float or (float, float), default=None
            Fill as many missing labels as keep the expected error rate among them at or below
            this; or the rates among those filled with yes, and with no. The others stay missing.
            Needs ``coupling``; :class:`dm2l.completion.ErrorRateBound` has the assumptions.
        return_summary : bool, default=False
            Whether to return how many labels were filled as well.

        Returns
        -------
        filled : ndarray or DataFrame
            Like ``y``; in the coding of the training labels where ``y`` has no negative.
        summary : CompletionSummary
            Only with ``return_summary``: numbers of labels filled with yes and no, and left.
        """
        check_is_fitted(self)
        if method not in ("predict", "predict_proba", "decision_function"):
            raise ValueError(
                f"method must be 'predict', 'predict_proba' or 'decision_function', got {method!r}."
            )
        if max_error_rate is not None:
            max_error_rate = self._completer.check_bound(max_error_rate, method)
        given = self._parse_like(X, y, label_mask, "complete")
        if not (given.signs < 0).any() and given.dtype != bool:
            given = replace(given, negative=self._labels.negative)
        found = self._score_and_impute(self._check_X(X), given.signs, max_error_rate)
        missing = given.signs == 0
        left = missing & ~found.chosen
        if method == "predict":
            filled = fill_with_labels(given, found.positive, left, self.missing_label)
        else:  # observed entries on the scale of the answers: 0/1, or -1/+1 for scores
            proba = method == "predict_proba"
            answers = found.probabilities if proba else found.scores
            filled = np.where(missing, answers, given.signs > 0 if proba else given.signs)
        framed = self._follow(filled, y) if is_non_numpy(y) else frame_like(filled, y)
        if not return_summary:
            return framed
        n_yes, n_filled = int((found.chosen & found.positive).sum()), int(found.chosen.sum())
        summary = CompletionSummary(n_yes, n_filled - n_yes, int(left.sum()), found.expected_wrong)
        return framed, summary

    def _score_and_impute(self, X: Any, T: Any, max_error_rate: Any = None) -> Imputation:
        """Scores, probabilities and decisions given the known labels ``T``, in one pass."""
        own = self._label_answers is not None and self._completer.calibrator is None
        scores, p = self._answers(X) if own else (to_numpy(self._all_scores(X)), None)
        return self._completer.impute(X, T, scores, p, max_error_rate)

    @property
    def label_covariance_(self) -> LabelCovariance:
        """Residual covariance between labels; absent without ``coupling``.

        ``label_covariance_.matrix()`` is an array of shape (n_labels, n_labels).
        """
        correlation = self._completer.correlation
        if correlation is None:
            raise AttributeError(
                f"{type(self).__name__} has no label_covariance_: it takes a fit to a label matrix "
                "with coupling='residual' or 'joint'."
            )
        return correlation.covariance

    def find_label_errors(self, X: Any, y: Any, *, label_mask: Any = None) -> LabelErrors:
        """Find observed labels that the features and the other labels of their row contradict.

        Rows of the fit are recognised by their content, and scored by models of ``cv`` folds, as
        the model itself has fitted their errors; with ``coupling=None``, which keeps no record of
        them, all rows are. With ``missing_as="unlabelled"`` the result is about unlabelled entries
        that are probably positive.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like or data frame of shape (n_samples, n_labels)
            Labels with missing entries.
        label_mask : array-like of bool, default=None
            Entries under False count as missing.

        Returns
        -------
        LabelErrors
            All observed (or unlabelled) entries of labels that were learnt, the most probable
            error first.
        """
        check_is_fitted(self)
        labels = self._parse_like(X, y, label_mask, "find_label_errors")
        X = self._check_X(X)
        scores = np.array(to_numpy(self._all_scores(X)))
        rows = self._completer.training_rows
        trained = np.ones(len(scores), dtype=bool) if rows is None else rows.recognise(X)
        if trained.any():
            known = labels.masked(self._learnable)
            some = np.flatnonzero(trained)
            inputs = X if trained.all() else take_rows(X, some)
            scores[some] = self._cross_fit(inputs, known[some])
        return self._completer.find_label_errors(labels.signs, scores, refit=bool(trained.any()))

    def _parse_like(self, X: Any, y: Any, label_mask: Any, method: str) -> LabelMatrix:
        """Labels of new rows, coded like those of the fit."""
        if self._labels.kind != "multilabel":
            raise ValueError(f"{method} needs a label matrix; this model was fitted to a 1-D y.")
        return parse_new_rows(
            X,
            y,
            self._labels,
            n_features=getattr(self, "n_features_in_", None),
            label_mask=label_mask,
            missing_label=self.missing_label,
            missing_as=self.missing_as,
        )

    def score(self, X: Any, y: Any, sample_weight: Any = None, label_mask: Any = None) -> float:
        """Share of the observed labels that are predicted correctly.

        For a 1-D ``y`` this is the accuracy; for a label matrix it is one minus the Hamming loss
        over the observed entries. Ranking metrics are in :mod:`dm2l.metrics`, and as scorers for
        a grid search in :mod:`dm2l.model_selection`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples, n_labels) or (n_samples,)
            Labels with missing entries.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        label_mask : array-like of bool, default=None
            True where a label may be used.

        Returns
        -------
        float
            Between 0 and 1.
        """
        predicted = to_numpy(self.predict(X))
        if self._labels.kind == "multilabel":
            T = self._parse_like(X, y, label_mask, "score").signs
            observed, right = T != 0, (T > 0) == (predicted == 1)
        else:
            values, observed, _ = read_values(y, label_mask, self.missing_label)
            values, observed = values.ravel(), observed.ravel()
            check_consistent_length(values, predicted)
            right = values == predicted
        if not observed.any():
            raise ValueError("Y has nothing observed, so there is nothing to score against.")
        if sample_weight is None:
            return float(right[observed].mean())
        weights = checked_weights("sample_weight", sample_weight, right.shape[:1])
        weights = np.broadcast_to(weights, right.T.shape).T[observed]  # of the row of each entry
        if not weights.any():
            raise ValueError("Weights are zero wherever something was observed.")
        return float(np.average(right[observed], weights=weights))
