"""What every estimator of the library shares: the label contract around a matrix of scores."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from functools import cache, partial
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, is_torch_array
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _num_samples,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from dm2l._utils.arrays import (
    asarray_like,
    check_columns,
    check_finite,
    check_magnitude,
    checked_numbers,
    device_name,
    is_non_numpy,
    namespace,
    take_block,
    take_rows,
    to_numpy,
)
from dm2l._utils.parameters import check_choice, check_count, check_number
from dm2l._utils.unsuitable import unsuitable
from dm2l.completion import CompletionSummary, LabelErrors
from dm2l.completion._calibration import Calibrator, best_f1_thresholds, plain_probability
from dm2l.completion._covariance import LabelCovariance
from dm2l.completion._error_rate import check_max_error_rate
from dm2l.completion._estimator import Coupling
from dm2l.completion._label_errors import suspects
from dm2l.completion._later import Later
from dm2l.completion._rows import TrainingRows, row_order
from dm2l.labels._entries import EntryWeights, Signs, checked_weights
from dm2l.labels._matrix import LabelMatrix, parse_labels
from dm2l.labels._parsing import observed_classes
from dm2l.pu import ClassPrior
from dm2l.pu._prior import class_prior_of
from dm2l.pu._reading import read_ticks
from dm2l.pu._scores import above_zero, unticked

# Of EM: curves, and what is unlabelled by them.
_TICK_ROUNDS = 3

__all__ = ["LearnableMask", "MissingLabelClassifier", "every_label", "fold_inputs", "weighed"]


class LearnableMask(NamedTuple):
    """Labels that can be learnt, scores of those that cannot, and rows that have a say.

    Attributes
    ----------
    learnable : ndarray of shape (n_labels,), bool
        Labels of which both classes were observed.
    constant : ndarray of shape (n_labels,)
        Score of the others: 1 or -1 where one class was observed, 0 where nothing was.
    keep : ndarray of shape (n_rows,), bool
        Rows with something observed of a label that can be learnt; the others cannot matter.
    """

    learnable: NDArray[np.bool_]
    constant: NDArray[np.float64]
    keep: NDArray[np.bool_]

    @classmethod
    def of(cls, T: Signs) -> Self:
        """What can be learnt from these signs."""
        positive, negative = (T > 0).any(axis=0), (T < 0).any(axis=0)
        learnable = np.asarray(positive & negative)
        constant = np.asarray(positive.astype(np.float64) - negative.astype(np.float64))
        return cls(learnable, constant, (T[:, learnable] != 0).any(axis=1))

    def signs(self, T: Signs) -> Signs:
        """Signs of the labels that can be learnt, in the rows that have a say."""
        return np.ascontiguousarray(T[:, self.learnable][self.keep])

    def entries(self, entries: EntryWeights | None) -> EntryWeights | None:
        """Targets and weights of these rows and labels."""
        return None if entries is None else entries.take(self.keep, self.learnable)

    def of_labels(self, value: Any) -> Any:
        """One number for all labels, or those of the labels that can be learnt."""
        return value if np.ndim(value) == 0 else np.asarray(value)[self.learnable]

    def spread(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers of these rows and labels at their places among all, NaN elsewhere."""
        everything = np.full((len(self.keep), len(self.learnable)), np.nan)
        everything[np.ix_(self.keep, self.learnable)] = values
        return everything

    def rows(self, X: Any, *, pairwise: bool = False) -> Any:
        """Inputs of the rows that have a say; ``pairwise``: and columns, of a kernel matrix."""
        if pairwise and X.shape[0] != X.shape[1]:
            raise ValueError(f"A precomputed kernel matrix must be square, got shape {X.shape}.")
        if self.keep.all():
            return X
        kept = np.flatnonzero(self.keep)
        return take_block(X, kept, kept) if pairwise else take_rows(X, kept)


class Imputation(NamedTuple):
    """Scores, probabilities and decisions of all entries, and the missing ones that are filled."""

    scores: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    positive: NDArray[np.bool_]
    chosen: NDArray[np.bool_]
    expected_wrong: float


def weighed(entries: EntryWeights | None) -> tuple[EntryWeights, ...]:
    """Last argument of methods that may take entries: a class without weights is not given any."""
    return () if entries is None else (entries,)


def every_label(
    X: Any,
    learnt: Callable[[Any], Any],
    learnable: NDArray[np.bool_],
    constant: NDArray[np.float64],
) -> Any:
    """A column for every label: what was learnt, or a constant; where X lives."""
    found = None
    if learnable.any():
        with checked_numbers(X):
            found = learnt(X)
            check_finite(found, "Scores")
    if is_non_numpy(X) and learnable.all():
        xp = namespace(found)
        return xp.astype(found, xp.float64, copy=False)
    columns = np.tile(constant, (_num_samples(X), 1))
    if found is not None:
        columns[:, learnable] = to_numpy(found)
    return asarray_like(columns, X)


def fold_inputs(
    X: Any,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    pairwise: bool,
    scratch: NDArray[Any] | None = None,
) -> tuple[Any, Any]:
    """Inputs of the training and of the test rows of a fold; the former may be in ``scratch``."""
    if pairwise:
        return take_block(X, train, train, scratch), take_block(X, test, train)
    return take_rows(X, train), take_rows(X, test)


class MissingLabelClassifier(ClassifierMixin, BaseEstimator):
    """Base of estimators that learn from labels with holes.

    A subclass stores its parameters and implements two methods: ``_fit_labels(X, T, entries)``
    learns from the rows that have something observed and the labels of which both classes were
    observed, with real targets and weights where ``entries`` is not None;
    ``_score_labels(X)`` returns one score column for each of those labels. Everything else
    (containers, constant labels, decisions, probabilities, completion, scores) is here.

    Parameters it understands, if the subclass has them: ``missing_label``, ``missing_as``,
    ``threshold``, ``calibration``, ``coupling``, ``cv``.
    """

    # Whether arrays of other libraries stay where they are, and the results with them.
    _follows_input = False
    # Whether a fit that numbers break down is this class's own to explain.
    _explains_numbers = True
    # Whether a fit leaves honest scores behind, and weights and covariance can be learnt together.
    _couples_itself = False
    # Whether it can learn from labels of which only positives are known.
    _learns_ticks = False

    missing_label: Any = np.nan
    missing_as: Any = None
    class_prior: Any = None
    threshold: Any = None
    calibration: Any = None
    coupling: Any = None
    cv: Any = 5

    def __sklearn_tags__(self) -> Tags:
        """Capabilities that scikit-learn asks about."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    # -- what a subclass provides ---------------------------------------------------------------

    def _fit_labels(self, X: Any, T: Signs, entries: EntryWeights | None = None) -> None:
        raise NotImplementedError

    def _score_labels(self, X: Any) -> NDArray[Any]:
        raise NotImplementedError

    def _label_answers(self, X: Any) -> tuple[Any, NDArray[Any]]:
        """Scores and uncalibrated probabilities of the learnable labels, in one pass over ``X``."""
        scores, curves = self._score_labels(X), self._curves
        numbers = to_numpy(scores)
        return scores, plain_probability(numbers) if curves is None else curves.predict(numbers)

    def _label_probabilities(self, X: Any) -> NDArray[Any]:
        """Probabilities, not calibrated, of the labels that ``_score_labels`` scores."""
        return self._label_answers(X)[1]

    def _fit_nothing(self, X: Any) -> None:
        """Set fitted attributes when no label can be learnt."""

    def _check_parameters(self) -> None:
        """Refuse parameters that make no sense, before any data is touched."""
        named = self.threshold is None or (
            isinstance(self.threshold, str) and self.threshold == "f1"
        )
        number = isinstance(self.threshold, Real) and np.isfinite(float(self.threshold))
        if not (number or named):
            raise ValueError(
                f"threshold must be None, a finite number or 'f1', got {self.threshold!r}."
            )
        if self.calibration is not None:
            Calibrator(self.calibration)
        if self.coupling is not None:
            check_choice("coupling", self.coupling, "residual", "joint")
        if self._unlabelled and self.coupling == "joint":
            raise ValueError(
                "coupling='joint' goes by labels that are known to be negative; "
                "missing_as='unlabelled' knows none. Its fit shares between labels as it is."
            )
        if self.coupling == "joint" and not self._couples_itself:
            raise ValueError(
                f"{type(self).__name__} has no coupling='joint', which DM2LClassifier and "
                "MaskedRidgeClassifier have; use coupling='residual'."
            )

    def _check_numbers(self, *names: str, positive: bool = False) -> None:
        """Refuse parameters that are not finite numbers >= 0, or > 0."""
        for name in names:
            check_number(name, getattr(self, name), positive=positive)

    def _check_counts(self, *names: str) -> None:
        """Refuse parameters that are not integers of at least 1."""
        for name in names:
            check_count(name, getattr(self, name))

    def _check_choice(self, name: str, *choices: str) -> None:
        """Refuse a parameter that is none of the choices."""
        check_choice(name, getattr(self, name), *choices)

    # -- fitting --------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        label_mask: Any = None,
        *,
        sample_weight: Any = None,
        label_weight: Any = None,
    ) -> Self:
        """Fit to labels with holes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs; no missing values.
        y : array-like, data frame or signed CSR of shape (n_samples, n_labels), or 1-D
            The labels ``Y``: ``0/1``, ``bool`` or ``-1/+1`` with NaN (or ``missing_label``) where
            nobody looked; or one class per row.
        label_mask : array-like of bool of the shape of ``y``, default=None
            True where a label may be used. What stands under False is never read.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, >= 0: 2 is the row twice, 0 is no row. See :doc:`/weights`.
        label_weight : array-like or sparse matrix of the shape of ``y``, default=None
            Weights of the entries, >= 0, which those of their rows multiply: 0 is a hole.

        Returns
        -------
        self
            The fitted estimator.
        """
        return self._fit(X, y, label_mask, self._learn, sample_weight, label_weight)

    def _fit(
        self,
        X: Any,
        Y: Any,
        label_mask: Any,
        learn: Callable[..., None],
        sample_weight: Any = None,
        label_weight: Any = None,
    ) -> Self:
        """Read, learn and decide; ``learn`` sees all rows and all labels."""
        self._check_parameters()
        X, labels = self._read(X, Y, label_mask)
        if self._unlabelled and labels.signs.all() and (labels.signs < 0).any():
            warnings.warn(
                "missing_as='unlabelled', but every entry of Y says yes or no, and a no counts "
                "as seen. Write NaN where nothing was ticked, np.where(Y == 1, 1, np.nan), or "
                "leave missing_as out.",
                UserWarning,
                stacklevel=3,
            )
        labels = self._weigh(labels, sample_weight, label_weight)
        labels.warn_constant(stacklevel=4)
        self._set_label_attributes(labels)
        with checked_numbers(X) if self._explains_numbers else nullcontext():
            learn(X, labels.signs, *weighed(labels.entries))
            if self._unlabelled and not self._learnable.any():
                nothing = ClassPrior(*np.zeros((3, 0)))
                self.__dict__ |= nothing.attributes(self._learnable, self._constant)
            if self._explains_numbers:
                self._all_scores(X[:1, :])  # weights that are not finite show in any row
            self._fit_decisions(X, labels.signs, *weighed(labels.entries))
        return self

    @property
    def _unlabelled(self) -> bool:
        """Whether what is not ticked may be positive."""
        return self._learns_ticks and self.missing_as == "unlabelled"

    def _weigh(self, labels: LabelMatrix, *weights: Any) -> LabelMatrix:
        """Labels that count; unlabelled ones as negatives, with what was said as targets."""
        if not self._unlabelled:
            return labels.apply_weights(*weights)
        if labels.kind != "multilabel":
            raise ValueError("missing_as='unlabelled' needs a label matrix, got a 1-D y.")
        if any(weight is not None for weight in weights):
            raise ValueError("missing_as='unlabelled' takes no weights.")
        if self.class_prior is not None:
            class_prior_of(self.class_prior, labels.signs)  # of all rows; of some it may be less
        T, entries = read_ticks(labels.signs)
        return replace(labels, signs=T, entries=entries)

    def _learn(self, X: Any, T: Signs, entries: EntryWeights | None = None) -> None:
        """Fit the labels of which both classes were observed; the others are constant."""
        selection = LearnableMask.of(T)
        self._keep_selection(selection)
        if selection.learnable.any():
            chosen = selection.entries(entries)
            self._fit_labels(self._rows(X, selection), selection.signs(T), *weighed(chosen))
        else:
            self._fit_nothing(X)

    def _rows(self, X: Any, selection: LearnableMask) -> Any:
        """Inputs of the rows that :meth:`_fit_labels` has the signs of."""
        return selection.rows(X)

    def _keep_selection(self, selection: LearnableMask) -> None:
        self._learnable, self._constant, self._keep = selection

    @property
    def _selection(self) -> LearnableMask:
        return LearnableMask(self._learnable, self._constant, self._keep)

    def _read(self, X: Any, Y: Any, label_mask: Any) -> tuple[Any, LabelMatrix]:
        if Y is None:
            parse_labels(Y)
        if self.missing_as == "unlabelled" and not self._learns_ticks:
            raise ValueError(
                f"{type(self).__name__} has no missing_as='unlabelled', which DM2LClassifier, "
                "DM2LClassifierCV and MaskedRidgeClassifier have."
            )
        X = self._check_X(X, reset=True)
        labels = parse_labels(
            Y,
            label_mask=label_mask,
            missing_label=self.missing_label,
            missing_as=self.missing_as,
        )
        check_consistent_length(np.empty(_num_samples(X)), labels.signs)
        return X, labels

    def _set_label_attributes(self, labels: LabelMatrix) -> None:
        # A fitted model carries the form of its training labels, not the labels.
        self._labels = labels.without_rows()
        self.classes_: Any = labels.classes
        names: Any = labels.names
        if labels.classes is None:
            # An array, not the list of scikit-learn's trees: their scores are lists too.
            self.classes_ = np.tile([labels.negative, 1], (labels.n_labels, 1))
        else:
            names = labels.classes if labels.n_labels > 1 else labels.classes[-1:]
        if names is None:
            names = [f"y{k}" for k in range(labels.n_labels)]
        self.label_names_ = np.asarray(names, dtype=object)

    def _fit_decisions(self, X: Any, T: Signs, entries: EntryWeights | None = None) -> None:
        """Calibration and thresholds from scores of rows the model had not seen."""
        self._calibrator = self._coupled = self._curved = None
        self.thresholds_ = np.zeros(T.shape[1])
        if self.threshold is not None and self.threshold != "f1":
            self.thresholds_ = np.full(T.shape[1], float(self.threshold))
        held_out = cache(lambda: self._cross_fit(X, T, *weighed(entries)))
        if self._unlabelled:
            self._decide_by_ticks(held_out, T)
            return
        weights = None if entries is None else entries.weights
        if self.calibration is not None:
            self._calibrator = Calibrator(self.calibration).fit(held_out(), T, weights)
        if self.threshold == "f1":
            # On a handful of positives the best cut is noise, often "predict them all".
            self.thresholds_ = best_f1_thresholds(held_out(), T, 5, weights)
        honest = self.__dict__.pop("_honest", None)
        evidence = self.__dict__.pop("_evidence", None)
        X, T = evidence or (X, T)
        if self._labels.kind != "multilabel" or self.coupling is None:
            return
        if honest is None and not self._couples_itself and self._learnable.any():
            honest = held_out()
        if honest is not None:
            known = np.where(self._learnable, T, 0)
            # A model that interpolates leaves no residuals to correct: folds have to tell, if
            # there are rows for them, and these are not numbered among others.
            n_rows = (known != 0).any(axis=1).sum()
            numbered = evidence is not None and not (
                isinstance(self.cv, Integral) or hasattr(self.cv, "split")
            )
            if n_rows >= 20 and not numbered and np.isnan(honest[known != 0]).mean() > 0.5:
                honest = held_out()
            if self.calibration is None:
                learnt = self._learnable
                own = None if weights is None or evidence is not None else weights[:, learnt]
                # Where a few rows bear no curve, a rate would be silent about what scores say.
                curves = Calibrator("sigmoid")
                seen = honest[:, learnt], T[:, learnt], own
                self._curved = Later.by(partial(curves.fit, *seen, flat=False))
            # A kernel matrix says of a row what it has to do with all others, in their order.
            pairwise = self.__sklearn_tags__().input_tags.pairwise
            order = None if pairwise else row_order(X, known)
            rows = TrainingRows.if_bent(X, T, honest, self._all_scores, order)
            couple = partial(Coupling.fit, T, honest, self.threshold, order, rows)
            self._coupled = Later.by(couple)

    def _decide_by_ticks(self, held_out: Callable[[], NDArray[np.float64]], T: Signs) -> None:
        """Curves and thresholds, with what is unlabelled in part positive."""
        self.__dict__.pop("_honest", None)
        if self.calibration is None and self.threshold != "f1":
            return
        scores, rate = np.vstack([held_out()] * 2), self._tick_rate
        both = np.repeat(np.array([[1], [-1]], dtype=np.int8), len(T), axis=0)
        both = np.where(np.isfinite(scores), both, 0).astype(np.int8)
        p = np.clip((1 + scores[: len(T)]) / 2, 0.01, 0.99)
        for _ in range(_TICK_ROUNDS):
            positive = np.where(T > 0, 1.0, unticked(p, rate))
            weights = np.nan_to_num(np.vstack([positive, 1 - positive]))
            if self.calibration is None:
                break
            self._calibrator = Calibrator(self.calibration).fit(scores, both, weights)
            p = self._calibrator.predict(np.nan_to_num(scores[: len(T)]))
        if self.threshold == "f1":
            self.thresholds_ = best_f1_thresholds(scores, both, 5, weights)

    def _folds(self, X: Any, T: Signs) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Training and test rows of each fold of ``cv``, which sees observed labels only."""
        visible = np.where(T == 0, np.nan, T > 0)
        splits: Any = self.cv
        if isinstance(splits, Integral):
            from dm2l.model_selection import MultilabelKFold

            splits = MultilabelKFold(int(splits), random_state=0)
        if hasattr(splits, "split"):
            splitter = copy(splits)
            if hasattr(splitter, "missing_label"):  # labels are NaN-coded by now
                splitter.missing_label, splitter.missing_as = np.nan, None
            # Rows with nothing observed cannot matter, so they must not move the folds either.
            seen = np.flatnonzero((T != 0).any(axis=1))
            all_seen = len(seen) == len(T)
            if not isinstance(getattr(splitter, "groups", ""), str | None):
                splitter.groups = np.asarray(splitter.groups)[seen]
            folds = splitter.split(X if all_seen else take_rows(X, seen), visible[seen])
            return [(seen[train], seen[test]) for train, test in folds]
        given = list(splits)
        if not given:
            raise ValueError("cv has no folds. A generator has them once: give list(...) of it.")
        return given

    def _cross_fit(
        self, X: Any, T: Signs, entries: EntryWeights | None = None
    ) -> NDArray[np.float64]:
        scores = np.full(T.shape, np.nan)
        bare = copy(self)
        bare.cv = None  # a generator cannot be cloned, and folds have none of their own
        if self.coupling != "joint":
            bare.coupling = None
        if self._unlabelled:
            bare.class_prior = self.class_prior_  # or every fold had a scale of its own
        pairwise = self.__sklearn_tags__().input_tags.pairwise
        for train, test in self._folds(X, T):
            fold = clone(bare)
            fold.label_names_ = self.label_names_  # for messages
            X_train, X_test = fold_inputs(X, train, test, pairwise)
            part = None if entries is None else entries.take(train)
            fold._learn(X_train, T[train], *weighed(part))
            unseen = to_numpy(fold._all_scores(X_test))
            # The constant score of a label that this fold could not learn is no evidence.
            scores[test] = np.where(fold._learnable, unseen, np.nan)
        return scores

    # -- predicting -----------------------------------------------------------------------------

    def _check_X(self, X: Any, *, reset: bool = False) -> Any:
        if not reset:
            check_is_fitted(self)
        sparse = "csr" if self.__sklearn_tags__().input_tags.sparse else False
        dtype = [np.float64, np.float32]
        if is_non_numpy(X):
            X = self._check_foreign(X, reset=reset) if self._follows_input else to_numpy(X)
        if not is_non_numpy(X):
            with np.errstate(over="ignore", invalid="ignore"):  # of a sum that looks for NaN
                try:
                    X = validate_data(self, X, accept_sparse=sparse, dtype=dtype, reset=reset)
                except (TypeError, ValueError) as error:
                    found = unsuitable(X)
                    if found is None:
                        raise
                    raise ValueError(found) from error
        if reset:
            check_columns(X)
            check_magnitude(X, getattr(self, "feature_names_in_", None))
            self._home = device_name(X)
        elif device_name(X) != self._home:
            raise ValueError(
                f"This model was fitted to arrays of {self._home}, X is one of {device_name(X)}. "
                "Move X "
                "there, or fit a model here."
            )
        return X

    def _check_foreign(self, X: Any, *, reset: bool) -> Any:
        """An array of another library stays where it is; the same is asked of it as of numpy."""
        if is_torch_array(X):
            X = X.detach()
        xp = array_namespace(X)
        if X.ndim != 2:
            raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: shape {X.shape}.")
        if 0 in X.shape:
            raise ValueError(f"Found array with shape {tuple(X.shape)}: X needs rows and columns.")
        if X.dtype not in (xp.float64, xp.float32):
            if xp.isdtype(X.dtype, "complex floating"):
                raise ValueError("Complex data not supported.")
            X = xp.astype(X, xp.float64)
        if not bool(xp.all(xp.isfinite(X))):
            raise ValueError("Input X contains NaN or infinity; impute or drop such values.")
        _check_feature_names(self, X, reset=reset)
        _check_n_features(self, X, reset=reset)
        return X

    def _all_scores(self, X: Any) -> Any:
        scores = every_label(X, self._score_labels, self._learnable, self._constant)
        corrected = self._unlabelled and self._learnable.any()
        return above_zero(scores, self.class_prior_) if corrected else scores

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Score every label; 0 is the border between the classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Scores on the scale of ``-1/+1``; one column per class for a 1-D ``y`` with more than
            two classes, and shape (n_samples,) for two.
        """
        scores = self._all_scores(self._check_X(X))
        return scores[:, 0] if self._labels.kind == "binary" else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict every label; nothing is ever missing.

        With ``threshold=None`` a label is predicted when its probability exceeds one half: its
        score is above 0, or above the calibrated border if ``calibration`` is set. A number is
        a border for the scores; ``"f1"`` takes the border of each label that was best on
        cross-fitted scores (0 for labels with fewer than five positives there). A 1-D ``y`` with
        more than two classes takes the highest score.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray
            Labels in the coding of the training labels, or classes.
        """
        X = self._check_X(X)
        return self._follow(self._decide(to_numpy(self._all_scores(X))), X)

    def _follow(self, result: NDArray[Any], X: Any) -> Any:
        """Numbers go where X lives; the names of classes cannot."""
        return (
            asarray_like(result, X) if is_non_numpy(X) and result.dtype.kind in "biuf" else result
        )

    def _decide(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        labels = self._labels
        border: Any = self.thresholds_
        if self._calibrator is not None and self.threshold is None:
            scores, border = self._calibrator.predict(scores), 0.5
        if labels.kind == "multiclass":
            return self.classes_[np.argmax(scores, axis=1)]
        positive = scores > border
        if labels.kind == "binary":
            index = positive[:, 0].astype(int) if len(self.classes_) == 2 else 0 * positive[:, 0]
            return self.classes_[index.astype(int)]
        return labels.decode(positive)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of every label.

        With ``calibration`` set, from a curve per label fitted on cross-fitted scores of observed
        labels, by which :meth:`predict` goes as well. Else with ``coupling`` from a sigmoid per
        label, fitted on the scores that entries have without themselves, which costs next to
        nothing; :meth:`predict` goes by the scores. Without either, and for a 1-D ``y``,
        ``(1 + tanh(score)) / 2``, which keeps the order but is not calibrated.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Probability that the label is positive; for a 1-D ``y`` one column per class, rows
            summing to one.
        """
        X = self._check_X(X)
        p = self._probabilities(X)
        if self._labels.kind == "binary":
            p = np.ones_like(p) if len(self.classes_) == 1 else np.hstack([1 - p, p])
        elif self._labels.kind == "multiclass":
            total = p.sum(axis=1, keepdims=True)
            p = np.where(total > 0, p / np.where(total > 0, total, 1), 1 / p.shape[1])
        return self._follow(p, X)

    def _probabilities(self, X: Any) -> NDArray[np.float64]:
        """By features alone."""
        if self._calibrator is not None:
            return self._calibrator.predict(to_numpy(self._all_scores(X)))
        if self._unlabelled:
            return plain_probability(to_numpy(self._all_scores(X)))
        constant = plain_probability(self._constant)
        return to_numpy(every_label(X, self._label_probabilities, self._learnable, constant))

    def _answers(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scores and probabilities of all labels by features alone, in one pass over ``X``."""
        if self._calibrator is not None or self._unlabelled:
            scores = to_numpy(self._all_scores(X))
            curves = self._calibrator
            return scores, plain_probability(scores) if curves is None else curves.predict(scores)
        p = np.tile(plain_probability(self._constant), (_num_samples(X), 1))

        def learnt(X: Any) -> Any:
            scores, p[:, self._learnable] = self._label_answers(X)
            check_finite(p, "Scores")
            return scores

        return to_numpy(every_label(X, learnt, self._learnable, self._constant)), p

    def complete(
        self,
        X: Any,
        Y: Any,
        *,
        label_mask: Any = None,
        method: Literal["predict", "predict_proba", "decision_function"] = "predict",
        max_error_rate: float | tuple[float, float] | None = None,
        return_summary: bool = False,
    ) -> Any:
        """Fill the holes of ``Y``; an observed entry is never touched.

        With ``coupling`` a hole is filled by what the features *and* the known labels of its row
        say: scores are conditional means, probabilities are calibrated on known entries that were
        scored as if they had been holes, and decisions follow them. Without, by features alone.
        A row of which nothing is known is filled with what :meth:`predict` says.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs of the rows of ``Y``.
        Y : array-like or data frame of shape (n_samples, n_labels)
            Labels with holes. May be entirely missing.
        label_mask : array-like of bool, default=None
            Entries under False count as holes.
        method : {"predict", "predict_proba", "decision_function"}, default="predict"
            What goes into the holes. With the last two the result is floats, and observed
            entries are 0/1 among probabilities and -1/+1 among scores.
        max_error_rate : float or (float, float), default=None
            Fill only as many holes as keep the expected share of wrong ones among the filled at or
            below this; or among those filled with yes, and among those filled with no. The others
            stay holes: ``missing_label`` in an array of a dtype that has room for it. Needs
            ``coupling``; see :class:`dm2l.completion.Promise` for what it rests on.
        return_summary : bool, default=False
            Whether to return how many holes were filled as well.

        Returns
        -------
        filled : ndarray or DataFrame
            A data frame if ``Y`` is one (pandas keeps its index), else an array; in the coding of
            ``Y``, or of the training labels where ``Y`` shows no negative.
        filling : Filling
            Only with ``return_summary``: numbers of holes filled with yes and no, and left.
        """
        check_is_fitted(self)
        if self._labels.kind != "multilabel":
            raise ValueError("complete needs a label matrix; this model was fitted to a 1-D y.")
        if method not in ("predict", "predict_proba", "decision_function"):
            raise ValueError(
                f"method must be 'predict', 'predict_proba' or 'decision_function', got {method!r}."
            )
        coupling = self._coupling
        if max_error_rate is not None:
            max_error_rate = check_max_error_rate(max_error_rate)
            if coupling is None or method != "predict":
                need = "method='predict'" if coupling is not None else "a fit with coupling"
                if self._unlabelled:
                    need = "known labels that are like the holes; ticks are known for being a yes"
                raise ValueError(f"max_error_rate needs {need}.")
        given = self._parse_like(X, Y, label_mask)
        if not (given.signs < 0).any() and given.dtype != bool:
            given = replace(given, negative=self._labels.negative)
        found = self._impute(self._check_X(X), given.signs, max_error_rate)
        holes, chosen, positive = given.signs == 0, found.chosen, found.positive
        answers = found.probabilities if method == "predict_proba" else found.scores
        # Observed entries on the scale of what fills the holes: -1/+1 for scores, 0/1 else.
        observed = given.signs if method == "decision_function" else given.signs > 0
        if method == "predict":
            filled = given.decode(np.where(holes, positive, observed))
            if (holes & ~chosen).any():
                if not isinstance(self.missing_label, Real):  # or numbers would become texts
                    filled = filled.astype(object)
                filled = np.where(holes & ~chosen, self.missing_label, filled)
        else:
            filled = np.where(holes, answers, observed)
        framed = self._frame_like(filled, Y)
        if not return_summary:
            return framed
        n_yes, n_filled = int((chosen & positive).sum()), int(chosen.sum())
        return framed, CompletionSummary(
            n_yes, n_filled - n_yes, int(holes.sum()) - n_filled, found.expected_wrong
        )

    def _impute(self, X: Any, T: Signs, max_error_rate: Any = None) -> Imputation:
        """Scores, probabilities and decisions given the known labels ``T``, in one pass over X."""
        coupling, missing = self._coupling, T == 0
        if coupling is None or (self._learnable.sum() < 2 and max_error_rate is None):
            scores, p = self._answers(X)
            positive = np.asarray(self._decide(scores) == 1)
            if self._unlabelled:
                p = unticked(p, self._tick_rate)
                positive = p > 0.5 if self.threshold is None else positive
            return Imputation(scores, p, positive, missing, np.nan)
        mean, p, positive = self._believe(coupling, X, T)
        if max_error_rate is None:
            return Imputation(mean, p, positive, missing, np.nan)
        chosen, expected = coupling.promise.choose(
            np.where(positive, p, 1 - p), positive, missing & self._learnable, max_error_rate
        )
        return Imputation(mean, p, positive, chosen, expected)

    def _frame_like(self, filled: NDArray[Any], Y: Any) -> Any:
        """A data frame if ``Y`` is one, else an array where it lives."""
        if hasattr(Y, "iloc") and hasattr(Y, "columns"):
            return type(Y)(filled, index=Y.index, columns=Y.columns)
        if hasattr(Y, "columns"):  # polars
            return type(Y)(filled, schema=list(Y.columns))
        return self._follow(filled, Y)

    def _believe(
        self, coupling: Coupling, X: Any, T: Signs
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Conditional scores, probabilities and decisions of all entries."""
        learnt = self._learnable
        bare = ~(T[:, learnt] != 0).any(axis=1)
        scores, own = self._answers(X) if bare.any() else (to_numpy(self._all_scores(X)), None)
        if coupling.rows is not None:
            scores = coupling.rows.honest(X, T, scores)
        mean, p = coupling.believe(np.where(learnt, T, 0), scores)
        alone = coupling.rates
        if self._calibrator is not None:
            alone = self._calibrator.predict(scores)
        p = np.where(learnt, p, alone)
        positive = coupling.decide(mean, p)
        # Where no label of the row has a say, what features say is said already. Known entries,
        # which coupled probabilities are fitted to, seldom stand in such rows.
        if own is not None:
            p[bare] = np.where(learnt, own[bare], p[bare])
        apart = ~learnt | bare[:, None]
        predicted = self._decide(scores) == 1
        p = np.where(apart & (predicted != (p > 0.5)), 0.5, p)
        return np.where(learnt, mean, scores), p, np.where(apart, predicted, positive)

    @property
    def _coupling(self) -> Coupling | None:
        late: Later | None = getattr(self, "_coupled", None)
        return None if late is None else late.value

    @property
    def _curves(self) -> Calibrator | None:
        late: Later | None = getattr(self, "_curved", None)
        return None if late is None else late.value

    @property
    def label_covariance_(self) -> LabelCovariance:
        """Covariance of what the features leave unexplained; absent without ``coupling``.

        ``label_covariance_.matrix()`` is an array of shape (n_labels, n_labels).
        """
        coupling = self._coupling
        if coupling is None:
            raise AttributeError(
                f"{type(self).__name__} has no label_covariance_: it takes a fit to a label matrix "
                "with coupling='residual' or 'joint'."
            )
        return coupling.covariance

    def find_label_errors(
        self, X: Any, Y: Any, *, label_mask: Any = None, training: bool = True
    ) -> LabelErrors:
        """Observed labels that the features and the other labels of their row contradict.

        With ``missing_as="unlabelled"`` a tick is not doubted; what was not ticked is, as if
        somebody had said no to it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs of the rows of ``Y``.
        Y : array-like or data frame of shape (n_samples, n_labels)
            Labels with holes.
        label_mask : array-like of bool, default=None
            Entries under False count as holes.
        training : bool, default=True
            Whether the model was fitted to these rows. It has then bent to the wrong labels among
            them, so that scores of models of ``cv`` folds take the place of its own.

        Returns
        -------
        Doubts
            All observed (of ticks: unlabelled) entries of labels that were learnt, the most
            doubtful first.
        """
        check_is_fitted(self)
        if self._labels.kind != "multilabel":
            raise ValueError("doubtful needs a label matrix; this model was fitted to a 1-D y.")
        if self._unlabelled:
            return self._overlooked(X, self._parse_like(X, Y, label_mask).signs, training)
        T = self._parse_like(X, Y, label_mask).signs * self._learnable.astype(np.int8)
        X = self._check_X(X)
        scores = self._cross_fit(X, T) if training else to_numpy(self._all_scores(X))
        coupling = self._coupling
        T = np.where(np.isfinite(scores), T, 0)
        scores = np.where(np.isfinite(scores), scores, 0.0)
        if coupling is None:
            coupling = Coupling.fit(T, scores)
        # What is doubtful itself is no witness against the others.
        others = np.where(suspects(T, coupling.believe(T, scores)[1]), 0, T)
        if training:
            coupling = Coupling.fit(others, scores)
        return LabelErrors.of(T, coupling.believe(others, scores)[1])

    def _overlooked(self, X: Any, signs: Signs, training: bool) -> LabelErrors:
        """Entries that nobody ticked, by how likely they are positive."""
        X = self._check_X(X)
        scores = to_numpy(self._all_scores(X))
        if training:
            scores = self._cross_fit(X, *read_ticks(signs))
        row, label = np.nonzero((signs == 0) & self._learnable & np.isfinite(scores))
        scores = np.nan_to_num(scores)
        p = np.clip((1 + scores) / 2, 0.0, 1.0)
        if self._calibrator is not None:
            p = self._calibrator.predict(scores)
        p = unticked(p, self._tick_rate)[row, label]
        order = np.argsort(-p, kind="stable")
        false_alarms = np.cumsum(1 - p[order]) / np.arange(1, len(p) + 1)
        no = np.zeros(len(p), dtype=bool)
        return LabelErrors(row[order], label[order], no, p[order], false_alarms)

    def _parse_like(self, X: Any, Y: Any, label_mask: Any) -> LabelMatrix:
        """Labels of new rows, which may be all missing but must have the model's columns."""
        shape = np.shape(Y) if not hasattr(Y, "shape") else Y.shape
        if len(shape) != 2 or shape[1] != len(self.label_names_):
            n_labels, n_features = len(self.label_names_), getattr(self, "n_features_in_", None)
            swapped = np.shape(X)[1:] == (n_labels,) and tuple(shape[1:]) == (n_features,)
            raise ValueError(
                f"Y has shape {tuple(shape)}; this model has {n_labels} labels, "
                f"so (n_samples, {n_labels}) is expected."
                + (" X and Y seem to be swapped: features come first." if swapped else "")
            )
        check_consistent_length(np.empty(_num_samples(X)), np.empty(shape))
        # Positives only are not ambiguous to a model that learnt from signed labels.
        signed = sp.issparse(Y) and self._labels.negative == -1
        positives = signed and not (Y.tocsr().data < 0).any()
        missing_as = "missing" if positives else self.missing_as
        labels = parse_labels(
            Y,
            label_mask=label_mask,
            missing_label=self.missing_label,
            missing_as=missing_as,
            allow_empty=True,
        )
        known = self._labels.names
        if labels.names is not None and known is not None and list(labels.names) != list(known):
            off = next(j for j in range(len(known)) if labels.names[j] != known[j])
            same = sorted(map(str, labels.names)) == sorted(map(str, known))
            fix = "Reorder" if same else "Rename or choose"
            raise ValueError(
                f"Column {off} of Y is {labels.names[off]!r}, but the model was fitted with "
                f"{known[off]!r} there. {fix} the columns to match model.label_names_."
            )
        return labels

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
            Labels with holes.
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
            T = self._parse_like(X, y, label_mask).signs
            observed, right = T != 0, (T > 0) == (predicted == 1)
        else:
            values, observed = observed_classes(
                y, label_mask=label_mask, missing_label=self.missing_label
            )
            check_consistent_length(values, predicted)
            right = values == predicted
        if not observed.any():
            raise ValueError("Y has nothing observed, so there is nothing to score against.")
        if sample_weight is None:
            return float(right[observed].mean())
        weights = checked_weights("sample_weight", sample_weight, right.shape[:1])
        weights = np.broadcast_to(weights.reshape(-1, *[1] * (right.ndim - 1)), right.shape)
        if not weights[observed].any():
            raise ValueError("Weights are zero wherever something was observed.")
        return float(np.average(right[observed], weights=weights[observed]))
