"""The base class of all estimators: labels, predictions, probabilities and completion."""

from collections.abc import Callable
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import _num_samples, check_consistent_length, check_is_fitted

from dm2l._utils import arrays
from dm2l._utils.inputs import check_choice, check_inputs
from dm2l.completion._completer import CompletionMixin, LabelCompleter, check_threshold
from dm2l.completion._errors import plain_probability
from dm2l.labels._entries import Signs
from dm2l.labels._matrix import LabelMatrix, LearnableMask, parse_labels
from dm2l.labels._rules import LabelRules

_ENOUGH_ROWS = 20  # minimum number of rows for folds if leave-one-out scores are undefined


@dataclass(frozen=True, kw_only=True)
class FitResult:
    """Results of a fit that are not needed for predictions."""

    # Leave-one-out or out-of-fold scores (n, c) of known entries; NaN if undefined.
    leave_one_out_scores: NDArray[np.float64] | None = None
    out_of_fold: bool = False  # whether the scores are out of fold, and can be used for calibration
    # Features and signs of a sample of the training rows, if only the sample has scores.
    sample: tuple[Any, Signs] | None = None


def fold_inputs(
    X: Any, train: NDArray[np.intp], test: NDArray[np.intp], pairwise: bool, scratch: Any = None
) -> tuple[Any, Any]:
    """Return training and test features; training features may be stored in ``scratch``."""
    if pairwise:
        return arrays.take_block(X, train, train, scratch), arrays.take_block(X, test, train)
    return arrays.take_rows(X, train), arrays.take_rows(X, test)


class MissingLabelClassifier(CompletionMixin, ClassifierMixin, BaseEstimator):
    """Base class of estimators that learn from labels with missing entries."""

    # Subclasses are score models. `_fit_labels` receives the labels with both classes observed, and
    # rows with known entries of these labels. `_score_labels` returns a column of scores for each
    # of these labels. A subclass may override `_learn` instead, which receives all rows and labels.

    _follows_input = False  # whether arrays of other libraries stay on their device
    _explains_numbers = True  # whether this class, not the score model, explains overflows
    _leaves_one_out = False  # whether leave-one-out scores and coupling="joint" are supported
    _calibrated = False  # whether scores are 2 p - 1 with calibrated probabilities p
    _fit_pu_completer: Any = None  # must be set if positive-unlabelled labels are supported
    # If the score model has its own probabilities, this method returns scores and probabilities of
    # the learnable labels in one pass.
    _label_answers: Callable[[Any], tuple[Any, NDArray[Any]]] | None = None

    kernel: Any = None
    missing_label: Any = np.nan
    missing_as: Any = None
    threshold: Any = None
    calibration: Any = None
    coupling: Any = None
    rules: Any = None
    cv: Any = 5

    def __sklearn_tags__(self) -> Tags:
        """Return the estimator tags of scikit-learn."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = not tags.input_tags.pairwise
        tags.classifier_tags.multi_label = True
        return tags

    def _fit_labels(self, X: Any, labels: LabelMatrix) -> FitResult:
        raise NotImplementedError

    def _score_labels(self, X: Any) -> NDArray[Any]:
        raise NotImplementedError

    def _on_own_scale(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert scores with ``p = (1 + tanh(score)) / 2`` to the scale of the model's scores."""
        return scores

    def _fit_nothing(self, X: Any) -> None:
        """Set the fitted attributes of a model without any learnable label."""

    def _check_parameters(self) -> None:
        """Raise an error if parameters are invalid, before any data is read."""
        if self.threshold is not None:
            check_threshold(self.threshold)
        check_choice("calibration", self.calibration, None, "sigmoid", "isotonic")
        if not isinstance(self.rules, LabelRules | None):
            raise TypeError(f"rules must be None or LabelRules, got {self.rules!r}.")
        if self.coupling == "joint" and not self._leaves_one_out:
            raise ValueError(
                f"{type(self).__name__} does not support coupling='joint'. Use "
                "coupling='residual', or fit a DM2LClassifier or a MaskedRidgeClassifier."
            )
        joint = ("joint",) if self._leaves_one_out else ()
        check_choice("coupling", self.coupling, None, "residual", *joint)
        if self.coupling == "joint" and self.missing_as == "unlabelled":
            raise ValueError(
                "coupling='joint' needs observed negatives, so it does not support "
                "missing_as='unlabelled'. Use coupling='residual'."
            )

    def fit(
        self,
        X: Any,
        y: Any,
        label_mask: Any = None,
        *,
        sample_weight: Any = None,
        label_weight: Any = None,
    ) -> Self:
        """Fit the model to labels with missing entries.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features without missing values.
        y : array-like, data frame or signed CSR of shape (n_samples, n_labels), or 1-D
            Labels ``0/1``, ``bool`` or ``-1/+1``, with NaN (or ``missing_label``) where a label is
            missing. A 1-D ``y`` contains the class of each row.
        label_mask, sample_weight, label_weight
            As in :meth:`dm2l.DM2LClassifier.fit`.

        Returns
        -------
        self
            The fitted estimator.
        """
        return self._fit_arrays(X, y, label_mask, (sample_weight, label_weight))

    def _fit_arrays(
        self, X: Any, y: Any, label_mask: Any = None, weights: Any = (None, None), **learning: Any
    ) -> Self:
        """Fit the model with row and entry weights; ``learning`` is passed to :meth:`_learn`."""
        self._check_parameters()
        X, labels = self._read(X, y, label_mask, *weights)
        if self.rules is not None:
            self.rules._named(labels)._warn(labels.signs)
        if self.missing_as == "unlabelled":
            labels = self._without_unlabelled(labels)
        labels.warn_constant(stacklevel=4)
        self._set_label_attributes(labels)
        with arrays.checked_numbers(X) if self._explains_numbers else nullcontext():
            result = self._learn(X, labels, **learning)
            if self._explains_numbers:
                self._all_scores(X[:1, :])  # raises an error if weights are not finite
            unlabelled = self.missing_as == "unlabelled"
            fit_completer = self._fit_pu_completer if unlabelled else self._fit_completer
            self._completer = fit_completer(X, labels, result)
        return self

    def _read(
        self, X: Any, y: Any, label_mask: Any, sample_weight: Any, label_weight: Any
    ) -> tuple[Any, LabelMatrix]:
        """Return checked features, and the label matrix with its row and entry weights."""
        X = self._check_X(X, reset=True)
        marks = {"missing_label": self.missing_label, "missing_as": self.missing_as}
        labels = parse_labels(y, label_mask=label_mask, **marks)
        check_consistent_length(np.empty(_num_samples(X)), labels.signs)
        if sample_weight is not None or label_weight is not None:
            if self.missing_as == "unlabelled":
                what = "missing_as='unlabelled' does not support sample_weight and label_weight."
                raise ValueError(f"{what} Fit without weights.")
            labels = labels.apply_weights(sample_weight, label_weight)
        return X, labels

    def _without_unlabelled(self, labels: LabelMatrix) -> LabelMatrix:
        """Return labels with unlabelled entries as negatives; raise an error if not supported."""
        what = f"{type(self).__name__} does not support missing_as='unlabelled'."
        raise ValueError(f"{what} Use DM2LClassifier, DM2LClassifierCV or MaskedRidgeClassifier.")

    def _set_label_attributes(self, labels: LabelMatrix) -> None:
        self._labels = replace(labels, signs=labels.signs[:0].copy(), entries=None)
        n_labels, names = labels.signs.shape[1], labels.names
        rules = self.rules and self.rules._named(self._labels)
        if rules is not None and names is None:
            names = np.asarray(rules.label_names, dtype=object)
        self.classes_: Any = labels.classes
        if labels.classes is None:
            # Classes are stored in one array, unlike the lists of scikit-learn's trees.
            self.classes_ = np.tile([labels.negative, 1], (n_labels, 1))
        else:
            names = labels.classes if n_labels > 1 else labels.classes[-1:]
        if names is None:
            names = np.asarray(list(map("y{}".format, range(n_labels))))
        self.label_names_ = np.asarray(names, dtype=object)

    def _learn(self, X: Any, labels: LabelMatrix) -> FitResult:
        """Fit the model to labels with both classes observed; other labels get constant scores."""
        mask = LearnableMask.of(labels.signs, labels.entries)
        self._learnable, self._constant, self._keep = mask
        if not mask.learnable.any():
            self._fit_nothing(X)
            return FitResult()
        result = self._fit_labels(*mask.apply(X, labels))
        if (scores := result.leave_one_out_scores) is not None:
            result = replace(result, leave_one_out_scores=mask.spread(scores))
        return result

    def _fit_completer(self, X: Any, labels: LabelMatrix, result: FitResult) -> LabelCompleter:
        """Fit calibration, thresholds and label correlation to held-out scores."""
        scores = result.leave_one_out_scores
        folds = scores if result.out_of_fold else None
        if result.sample is not None:
            X, labels = result.sample[0], LabelMatrix.of_signs(result.sample[1])
        T, entries = labels.signs, labels.entries

        @cache
        def held_out() -> Any:
            return self._cross_fit(X, labels) if folds is None else folds

        if self.coupling is None or labels.kind != "multilabel":
            scores = None
        elif scores is None:
            scores = None if self._leaves_one_out or not self._learnable.any() else held_out()
        else:
            # If most leave-one-out scores are undefined, as in models that interpolate, out-of-fold
            # scores replace them. Splits given as row numbers do not apply to a sample of rows.
            known = (T != 0) & self._learnable
            numbered = not (isinstance(self.cv, Integral) or hasattr(self.cv, "split"))
            enough = known.any(axis=1).sum() >= _ENOUGH_ROWS
            if enough and not (result.sample and numbered) and np.isnan(scores[known]).mean() > 0.5:
                scores = held_out()
        return LabelCompleter.fit(
            X,
            T,
            scores,
            self._learnable,
            held_out=held_out,
            own_scores=self._all_scores,
            threshold=self.threshold,
            calibration=self.calibration,
            weights=None if entries is None else entries.weights,
            pairwise=self.__sklearn_tags__().input_tags.pairwise,
            calibrated=self._calibrated,
            rules=self.rules and self.rules._named(self._labels),
        )

    def _for_folds(self) -> Self:
        """Return the estimator that is cloned for each fold."""
        bare = copy(self)
        bare.cv = None  # a generator cannot be cloned, and folds need no inner folds
        if self.coupling != "joint":
            bare.coupling = None
        return bare

    def _cross_fit(self, X: Any, labels: LabelMatrix) -> NDArray[np.float64]:
        """Return out-of-fold scores of all rows; NaN for labels that a fold cannot learn."""
        from dm2l.model_selection import label_folds

        scores, bare = np.full(labels.signs.shape, np.nan), self._for_folds()
        for train, test in label_folds(self.cv, X, labels.signs):
            scores[test] = bare._score_fold(X, labels, (train, test))
        return scores

    def _score_fold(self, X: Any, labels: LabelMatrix, fold: Any, **learning: Any) -> Any:
        """Return the scores of the test rows by a clone fitted to the training rows."""
        model = clone(self)
        model.label_names_ = self.label_names_  # lets messages name the labels
        train, test = fold
        X_train, X_test = fold_inputs(X, train, test, self.__sklearn_tags__().input_tags.pairwise)
        model._learn(X_train, labels[train], **learning)
        return np.where(model._learnable, arrays.to_numpy(model._all_scores(X_test)), np.nan)

    def _check_X(self, X: Any, *, reset: bool = False) -> Any:
        if not reset:
            self._check_fitted()
        return check_inputs(self, X, reset=reset, follows=self._follows_input)

    _check_fitted = check_is_fitted

    def _all_scores(self, X: Any, learnt: Callable[[Any], Any] | None = None) -> Any:
        """Return scores in the array library of ``X``; unlearnable labels have constant scores."""
        found, learnable = None, self._learnable
        if learnable.any():
            with arrays.checked_numbers(X):
                found = (learnt or self._score_labels)(X)
                arrays.check_finite(found, "Scores")
        if learnable.all():
            xp = arrays.namespace(found)
            return xp.astype(found, xp.float64, copy=False)
        columns = np.tile(self._on_own_scale(self._constant), (_num_samples(X), 1))
        if found is not None:
            columns[:, learnable] = arrays.to_numpy(found)
        return arrays.asarray_like(columns, X)

    @property
    def thresholds_(self) -> NDArray[np.float64]:
        """Decision thresholds of the scores, one for each label."""
        return self._completer.thresholds

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Score every label; a higher score means that the label is more likely positive.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Scores on the scale of ``-1/+1``. For a 1-D ``y``, the shape is (n_samples, n_classes),
            or (n_samples,) with two classes.
        """
        scores = self._all_scores(self._check_X(X))
        return scores[:, 0] if self._labels.kind == "binary" else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict every label.

        With ``threshold=None``, a label is predicted as positive if its score is above 0 or, with
        ``calibration``, if its probability exceeds one half, which suits the Hamming loss. A number
        is a cutoff for all scores. ``"f1"`` selects for each label the cutoff that maximizes F1 on
        out-of-fold scores, or 0 for labels with fewer than five positives. ``"f1_samples"`` and
        ``"subset_accuracy"`` select one cutoff for all labels: it maximizes the mean F1 of the rows
        or the number of rows without errors. For a multiclass ``y``, the class with the highest
        score is predicted.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray
            Labels in the coding of the training labels, or classes.
        """
        X = self._check_X(X)
        return self._follow(self._decide(arrays.to_numpy(self._all_scores(X))), X)

    def _follow(self, result: NDArray[Any], X: Any) -> Any:
        """Convert numbers to the array library of ``X``; class names remain numpy arrays."""
        follows = arrays.is_non_numpy(X) and result.dtype.kind in "biuf"
        return arrays.asarray_like(result, X) if follows else result

    def _decide(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        if self._labels.kind == "multiclass":
            if self._completer.calibrator is not None and self.threshold is None:
                scores = self._completer.probabilities(scores)
            return self.classes_[np.argmax(scores, axis=1)]
        positive = self._completer.decide(scores)
        if self._labels.kind == "multilabel":
            return self._labels.decode(positive)
        return self.classes_[positive[:, 0] * (len(self.classes_) - 1)]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict the probability of every label.

        With ``calibration``, each label has a calibration map that is fitted to out-of-fold scores.
        :meth:`predict` also uses this map. With ``coupling`` alone, each label has a sigmoid that
        is fitted to leave-one-out scores. Without either parameter, and for a 1-D ``y``,
        probabilities are ``(1 + tanh(score)) / 2`` and are not calibrated.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Probability that the label is positive. For a 1-D ``y``, there is one column per class,
            and rows sum to one.
        """
        X = self._check_X(X)
        p = self._answers(X)[1]
        if self._labels.kind == "binary":
            p = np.ones_like(p) if len(self.classes_) == 1 else np.hstack([1 - p, p])
        elif self._labels.kind == "multiclass":
            total = p.sum(axis=1, keepdims=True)
            p = np.where(total > 0, p / np.where(total > 0, total, 1), 1 / p.shape[1])
        return self._follow(p, X)

    def _answers(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return scores and probabilities of all labels in one pass over ``X``."""
        scores, p = self._own_answers(X)
        return scores, self._completer.coherent(p)

    def _own_answers(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return scores and probabilities of all labels, without applying rules."""
        answers = self._label_answers
        if answers is None or self._completer.calibrator is not None:
            scores = arrays.to_numpy(self._all_scores(X))
            return scores, self._completer.probabilities(scores)
        p = np.tile(plain_probability(self._constant), (_num_samples(X), 1))

        def learnt(X: Any) -> Any:
            scores, p[:, self._learnable] = answers(X)
            arrays.check_finite(p, "Scores")
            return scores

        return arrays.to_numpy(self._all_scores(X, learnt)), p


@dataclass(eq=False, repr=False, kw_only=True)
class CompletionClassifier(MissingLabelClassifier):
    """Base class with the parameters of decisions, label correlation, folds and missing labels."""

    threshold: Any = None
    coupling: str | None = None
    rules: Any = None
    cv: Any = 5
    missing_label: Any = np.nan
    missing_as: str | None = None
