"""Probabilities, decisions, imputed labels and label errors from the scores of any model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from hashlib import blake2b
from numbers import Real
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from array_api_compat import is_torch_array
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from dm2l._utils.arrays import Index, asarray_like, is_non_numpy, namespace, take_rows, to_numpy
from dm2l._utils.inputs import check_choice
from dm2l.completion._correlation import LabelCorrelation
from dm2l.completion._covariance import FOLDS, LabelCovariance
from dm2l.completion._errors import (
    THRESHOLD_RULES,
    Calibrator,
    CompletionSummary,
    LabelErrors,
    best_thresholds,
    check_max_error_rate,
    plain_probability,
    suspects,
)
from dm2l.labels._entries import Floats, Mask, Signs, checked_weights
from dm2l.labels._matrix import (
    _NOTHING,
    _ZERO_WEIGHTS,
    LabelMatrix,
    fill_with_labels,
    frame_like,
    parse_new_rows,
)
from dm2l.labels._parsing import read_values
from dm2l.labels._rules import LabelRules

# Number of values hashed at a time, so that intermediate results stay in the processor's cache.
_BLOCK = 2**18
# Held-out scores are stored if their squared error exceeds, by at least this factor, the squared
# error of the scores that the model gives to its training rows.
OVERFIT = 1.02
FEW = 500  # number of rows used to estimate the ratio of squared errors

Digests = NDArray[np.uint64]


@dataclass(frozen=True)
class TrainingRows:
    """Sorted digests of the training rows, and held-out scores of their known entries (CSR)."""

    digests: Digests
    starts: NDArray[np.int64]  # start of each row's entries
    labels: NDArray[np.int32]
    signs: NDArray[np.int8]
    scores: NDArray[np.float32]

    @classmethod
    def of(
        cls, digests: Digests, T: NDArray[Any], F: Floats | None = None, order: Index | None = None
    ) -> Self:
        """Store rows with signs ``T`` and held-out scores ``F``; equal rows are stored once."""
        order = np.arange(len(T)) if order is None else order
        found, first = np.unique(digests[order], return_index=True)
        T = T[order[first]]
        F = np.full(T.shape, np.nan) if F is None else F[order[first]]
        known = (T != 0) & np.isfinite(F)
        starts = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
        labels = np.nonzero(known)[1].astype(np.int32)
        return cls(found, starts, labels, T[known].astype(np.int8), F[known].astype(np.float32))

    def recognize(self, X: Any) -> NDArray[np.bool_]:
        """Return a mask of the rows of ``X`` that are training rows."""
        return np.isin(row_digests(X, rounded=True), self.digests)

    def hold_out(self, X: Any, T: NDArray[Any], F: Floats) -> Floats:
        """Replace scores ``F`` by held-out scores at entries with the same label as in training."""
        if not len(self.scores):
            return F
        digests = row_digests(X, rounded=True)
        rows = np.flatnonzero(np.isin(digests, self.digests))
        place = np.searchsorted(self.digests, digests[rows])
        shape, F = (len(self.digests), T.shape[1]), F.copy()
        parts = ((values, self.labels, self.starts) for values in (self.signs, self.scores))
        signs, held_out = (sp.csr_array(part, shape=shape)[place].toarray() for part in parts)
        F[rows] = np.where((signs != 0) & (signs == T[rows]), held_out, F[rows])
        return F


def overfits(
    X: Any, T: Signs, scores: Floats, own_scores: Callable[[Any], Any], order: Index | None = None
) -> tuple[Signs, Floats, Floats] | None:
    """Return signs, held-out and model scores of sampled rows; None unless the model overfits."""
    scored = (T != 0) & np.isfinite(scores)
    few = np.arange(len(T)) if order is None else order
    few = few[scored[few].any(axis=1)][:FEW]
    if not len(few):
        return None
    own, used = to_numpy(own_scores(take_rows(X, few))), scored[few]
    errors = np.square(T[few] - np.stack([scores[few], own]))[:, used].mean(axis=1)
    return (T[few], scores[few], own) if errors[0] >= OVERFIT * errors[1] else None


def row_keys(digests: Digests, T: NDArray[Any]) -> Digests:
    """Return a pseudo-random number per row; the order of the labels does not affect it."""
    positive, negative = (T > 0).sum(axis=1, dtype=np.uint64), (T < 0).sum(axis=1, dtype=np.uint64)
    key = digests + positive * np.uint64(2**61 - 1) + negative * np.uint64(2**31 - 1)
    # These are the last steps of splitmix64: each bit of a result depends on all bits of the input.
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))


def row_digests(X: Any, *, rounded: bool = False) -> Digests:
    """Return a hash of each row, which is the same for dense and sparse rows."""
    X = X.tocsr() if sp.issparse(X) else X if is_torch_array(X) else to_numpy(X)
    if getattr(X.dtype, "kind", "f") in "OSU":  # texts, which a pipeline reads
        rows = (repr(row.tolist()).encode() for row in X.reshape(len(X), -1))
        return np.frombuffer(b"".join(blake2b(row, digest_size=8).digest() for row in rows), "u8")
    keys = np.random.default_rng(0).integers(1, 2**63, X.shape[1], dtype=np.uint64) * 2 + 1
    keys = keys.view(np.int64)
    if sp.issparse(X):
        sums = np.concatenate(
            [np.zeros(1, np.int64), np.cumsum(_mixed(X.data, rounded) * keys[X.indices])]
        )
        found = sums[X.indptr[1:]] - sums[X.indptr[:-1]]  # sums overflow on purpose, modulo 2^64
        return found.view(np.uint64)
    # On the device of X: copying a kernel matrix from a GPU would take longer than factoring it.
    step, keys = _BLOCK // X.shape[1] + 1, asarray_like(keys, X)
    found = np.zeros(X.shape[0], np.int64)
    for start in range(0, X.shape[0], step):
        part = _mixed(X[start : start + step], rounded)
        found[start : start + step] = to_numpy((part * keys).sum(-1))
    return found.view(np.uint64)


def _mixed(values: Any, rounded: bool) -> Any:
    """Hash each number to an integer in which all bits vary; 0 is hashed to 0."""
    xp = namespace(values)
    bits = xp.asarray(values + 0.0, dtype=xp.float64, copy=None).view(xp.int64)
    if rounded:  # to 32 bits, because fit_transform and transform of texts differ in the last
        bits = (bits + 2**19) & -(2**20)
    bits = bits ^ ((bits >> 32) & (2**32 - 1))
    return bits ^ ((bits >> 20) & (2**44 - 1))


NO_BOUND = np.full(2, np.nan)


class Imputation(NamedTuple):
    """Predictions for all entries, and the missing entries to fill, including ``implied`` ones."""

    scores: Floats
    probabilities: Floats
    positive: Mask
    chosen: Mask
    expected_wrong: Floats  # expected numbers of entries wrongly filled with no and with yes
    implied: Mask | bool = False  # missing entries that follow from known labels by the rules


def check_threshold(threshold: Any) -> None:
    """Raise an error unless ``threshold`` is None, a number or the name of a decision rule."""
    number = isinstance(threshold, Real) and np.isfinite(float(threshold))
    named = isinstance(threshold, str) and threshold in THRESHOLD_RULES
    if not (threshold is None or number or named):
        rules = ", ".join(map(repr, THRESHOLD_RULES))
        raise ValueError(
            f"threshold must be None, a finite number or one of {rules}, got {threshold!r}."
        )


class _Fitted:
    """A field that may hold a function; the first use replaces the function by its result."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.place = f"_{name}"

    def __get__(self, completer: Any, owner: type) -> Any:
        found = completer and getattr(completer, self.place)  # the default of the field is None
        if callable(found):
            self.__set__(completer, found := found())
        return found

    def __set__(self, completer: Any, value: Any) -> None:
        setattr(completer, self.place, value)


@dataclass(eq=False, repr=False)
class LabelCompleter:
    """Computes probabilities, decisions, imputed labels and label errors from scores."""

    thresholds: Floats  # cutoffs of the scores; not used if decisions are based on probabilities
    learnable: Mask  # scores of other labels are constant
    calibrator: Calibrator | None = None
    by_probability: bool = True  # whether decisions follow the probabilities of the calibrator
    training_rows: TrainingRows | None = None
    # Searches and cross-validation do not use the next two, so they are fitted at their first use.
    curves: _Fitted = _Fitted()  # provides probabilities if there is no calibrator
    correlation: _Fitted = _Fitted()  # label correlation, if ``coupling`` is used
    rules: LabelRules | None = None

    @classmethod
    def fit(
        cls,
        X: Any,
        T: Signs,
        scores: Floats | None,
        learnable: Mask,
        *,
        held_out: Callable[[], Floats],
        own_scores: Callable[[Any], Any],
        threshold: Any = None,
        calibration: Any = None,
        weights: Floats | None = None,
        pairwise: bool = False,
        rules: LabelRules | None = None,
        calibrated: bool = False,  # whether scores are 2 p - 1 with calibrated probabilities p
    ) -> Self:
        """Fit the completer to held-out ``scores``; if None, label correlation is not fitted."""
        calibrator = rows = curves = correlation = None
        if calibration is not None:
            calibrator = Calibrator(calibration).fit(held_out(), T, weights)
        if isinstance(threshold, str):
            thresholds = best_thresholds(threshold, held_out(), T, weights)
        else:
            thresholds = np.full(T.shape[1], float(threshold or 0))
        if scores is not None:
            known, digests = np.where(learnable, T, 0), row_digests(X)
            # Rows are ordered by content, so that their order in ``X`` does not matter. Rows of a
            # kernel matrix cannot be ordered, because its columns also depend on the order.
            keys = row_digests(known), row_keys(digests, known)
            order = None if pairwise else np.lexsort(keys)
            overfit = overfits(X, T, scores, own_scores, order)
            held = None if overfit is None else scores
            rows = TrainingRows.of(row_digests(X, rounded=True), T, held, order)
            if calibration is None:
                # With flat=True, labels with few rows would get constant probabilities.
                curves = partial(Calibrator("sigmoid").fit, scores, known, weights, flat=False)
            # Implied entries are not predicted; including them would understate the error rate.
            free = None if rules is None else ~rules._logic.redundant(T)
            # Only in an ensemble can a base model have been fitted to imputed labels.
            overfit = overfit if calibrated else None
            options: Any = {"calibrated": calibrated, "free": free, "overfit": overfit}
            correlation = partial(LabelCorrelation.fit, T, scores, threshold, order, **options)
        return cls(
            *(thresholds, learnable, calibrator, threshold is None, rows, curves, correlation),
            rules=rules,
        )

    def state(self) -> dict[str, Any]:
        """Return the constructor's arguments, with each deferred fit replaced by its result."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and files contain fitted results, not functions that hold the training labels.
        return partial(type(self), **self.state()), ()

    def coherent(self, p: Floats) -> Floats:
        """Return probabilities that obey the rules and are based on the features only."""
        return p if self.rules is None else self.rules._logic.project(p, np.zeros(p.shape, np.int8))

    def decide(self, scores: Floats) -> Mask:
        """Return decisions that obey the rules and are based on the features only."""
        positive = self._decide(scores)
        if self.rules is None:
            return positive
        none = np.zeros(scores.shape, dtype=np.int8)
        return self.rules._logic.decide(positive, self.probabilities(scores), none)

    def _decide(self, scores: Floats) -> Mask:
        """Return whether entries are positive, without using known labels."""
        if self.by_probability and self.calibrator is not None:
            return self.calibrator.predict(scores) > 0.5
        return np.asarray(scores > self.thresholds)

    def probabilities(self, scores: Floats) -> Floats:
        """Return the probability that each entry is positive, without using known labels."""
        calibrator = self.calibrator or self.curves
        return plain_probability(scores) if calibrator is None else calibrator.predict(scores)

    def check_bound(self, max_error_rate: Any, method: str, estimator: str) -> Any:
        """Check ``max_error_rate``, and raise an error if error rates cannot be bounded."""
        bound, need = check_max_error_rate(max_error_rate), "method='predict'"
        if self.correlation is None:
            need = f"coupling='residual'. Pass it to {estimator}, and fit again"
        elif method == "predict":
            return bound
        raise ValueError(f"max_error_rate needs {need}.")

    def impute(
        self,
        X: Any,
        T: Signs,
        scores: Floats,
        probabilities: Floats | None = None,
        max_error_rate: Any = None,
        open_: Mask | bool = True,
    ) -> Imputation:
        """Impute labels from features and, where ``open_`` is true, from known labels."""
        logic: Any = None if self.rules is None else self.rules._logic
        closed, against = (T, np.zeros(len(T), bool)) if logic is None else logic.propagate(T)
        missing, implied = (closed == 0) & open_, (closed != 0) & (T == 0)
        bounded = max_error_rate is not None
        found = self._impute(X, T, np.asarray(open_), scores, probabilities, bounded)
        found = found._replace(chosen=missing)
        correlation: Any = self.correlation
        if bounded and correlation is not None:
            right = implied & (found.positive == (closed > 0))
            confidence = np.where(found.positive, found.probabilities, 1 - found.probabilities)
            entries = confidence, found.positive, found.chosen & self.learnable
            chosen, expected = correlation.error_rates.choose(*entries, max_error_rate, right)
            found = found._replace(chosen=chosen, expected_wrong=expected)
        if logic is None:
            return found
        known = np.where(against[:, None], 0, closed).astype(np.int8)
        fixed, kept = known, found.chosen
        if bounded:  # Entries to fill keep their decisions or stay missing.
            answers = np.where(kept, np.where(found.positive, 1, -1), known).astype(np.int8)
            answers, broken = logic.propagate(answers)
            fixed = np.where(broken[:, None], known, answers)
        positive = logic.decide(found.positive, found.probabilities, fixed)
        if bounded:
            kept = kept & (positive == found.positive)
        return found._replace(
            scores=np.where(implied, closed, found.scores),
            probabilities=logic.project(found.probabilities, known),
            positive=positive,
            chosen=kept | implied,
            implied=implied,
        )

    def _impute(
        self, X: Any, T: Signs, open_: Mask, scores: Floats, probabilities: Any, bounded: bool
    ) -> Imputation:
        """Impute from features and, where ``open_``, known labels; `impute` replaces ``chosen``."""
        learnt, correlation = self.learnable, self.correlation
        if correlation is None or (learnt.sum() < 2 and not bounded):
            p = self.probabilities(scores) if probabilities is None else probabilities
            return Imputation(scores, p, self._decide(scores), open_, NO_BOUND)
        trained = np.zeros(len(T), dtype=bool)
        if self.training_rows is not None:
            if correlation.added < 1:
                trained = self.training_rows.recognize(X)
            scores = self.training_rows.hold_out(X, T, scores)
        mean, p = correlation.impute(np.where(learnt, T, 0), scores, trained)
        own = self.probabilities(scores) if probabilities is None else probabilities
        # Rows without a known label use only the features, because conditional probabilities were
        # fitted to rows with known labels.
        apart = ~learnt | ~(T[:, learnt] != 0).any(axis=1, keepdims=True) | ~open_
        predicted = self._decide(scores)
        positive = np.where(apart, predicted, correlation.decide(mean, p))
        p = np.where(apart, own, p)
        p = np.where(apart & (predicted != (p > 0.5)), 0.5, p)
        return Imputation(np.where(learnt, mean, scores), p, positive, open_, NO_BOUND)

    def find_label_errors(
        self,
        T: Signs,
        scores: Floats,
        *,
        refit: bool,
        together: Sequence[list[int]] = (),
        folds: int = FOLDS,  # of models for the rates of errors, which do not change the ranking
    ) -> LabelErrors:
        """Find suspected label errors; labels in ``together`` are predicted from features only."""
        given, scored = T, np.isfinite(scores)
        T, scores = np.where(self.learnable & scored, T, 0), np.where(scored, scores, 0.0)
        correlation = self.correlation or LabelCorrelation.fit(T, scores)
        # Suspected errors are not used as evidence about the other labels of their row.
        others = np.where(suspects(T, correlation.predict(T, scores)[1]), 0, T)
        fit = partial(LabelCorrelation.fit, calibrated=correlation.combiner.calibrated)
        if refit:
            correlation = fit(others, scores)
        p = correlation.predict(others, scores)[1]
        held_out, place = p.copy(), np.random.default_rng(0).permutation(len(T))
        for k in range(folds if refit else 0):
            here = place % folds == k
            model = fit(others[~here], scores[~here])
            held_out[here] = model.predict(others[here], scores[here])[1]
        for labels in together:
            p[:, labels] = held_out[:, labels] = self.probabilities(scores)[:, labels]
        found = LabelErrors.of(T, p, held_out)
        return found if self.rules is None else found._given(self.rules._logic.conflicts(given))


class CompletionMixin:
    """Methods of an estimator that use its scores and its :class:`LabelCompleter`."""

    def complete(
        self: Any,
        X: Any,
        y: Any,
        *,
        label_mask: Any = None,
        method: Literal["predict", "predict_proba", "decision_function"] = "predict",
        max_error_rate: float | tuple[float, float] | None = None,
        return_summary: bool = False,
    ) -> Any:
        """Impute the missing labels of ``y``; observed entries are not changed.

        With ``coupling``, missing labels are predicted from the features *and* the known labels of
        their row: scores are conditional means, and decisions follow calibrated probabilities.
        If the model overfits, held-out scores replace the scores of known entries of training rows.
        Without ``coupling``, and in rows without a known label, missing labels are predicted only
        from the features.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like or data frame of shape (n_samples, n_labels)
            Labels with missing entries. All entries may be missing.
        label_mask : array-like of bool, default=None
            False for entries that count as missing.
        method : {"predict", "predict_proba", "decision_function"}, default="predict"
            Whether to fill in decisions, probabilities or scores. Observed entries are 0/1 with
            "predict_proba", and -1/+1 with "decision_function".
        max_error_rate : float or (float, float), default=None
            Maximum expected error rate of the labels filled with yes, and of the labels filled with
            no; a pair ``(yes, no)`` sets both maxima. As many labels as possible are filled. Labels
            with at least 500 predictions have their own bounds, and all others share a bound.
            Requires ``coupling`` and ``method="predict"``; see
            :class:`dm2l.completion.ErrorRateBound` for the assumptions.
        return_summary : bool, default=False
            Whether to also return the numbers of labels that were filled.

        Returns
        -------
        filled : ndarray or DataFrame
            Array or data frame like ``y``. If ``y`` has no negatives, the result has the coding of
            the training labels.
        summary : CompletionSummary
            Numbers of filled and of still missing labels. Returned only with ``return_summary``.
        """
        check_is_fitted(self)
        check_choice("method", method, "predict", "predict_proba", "decision_function")
        if max_error_rate is not None:
            name = type(self).__name__
            max_error_rate = self._completer.check_bound(max_error_rate, method, name)
        given = self._parse_like(X, y, label_mask, "complete")
        if self._completer.rules is not None:
            self._completer.rules._warn(given.signs)
        if not (given.signs < 0).any() and given.dtype != bool:
            given = replace(given, negative=self._labels.negative)
        found = self._score_and_impute(self._check_X(X), given.signs, max_error_rate)
        missing = given.signs == 0
        left = missing & ~found.chosen
        if method == "predict":
            filled = fill_with_labels(given, found.positive, left, self.missing_label)
        else:  # observed entries are 0/1 among probabilities, and -1/+1 among scores
            proba = method == "predict_proba"
            answers = found.probabilities if proba else found.scores
            filled = np.where(missing, answers, given.signs > 0 if proba else given.signs)
        framed = self._follow(filled, y) if is_non_numpy(y) else frame_like(filled, y)
        if return_summary:
            counts = found.chosen, found.positive, found.expected_wrong, found.implied
            return framed, CompletionSummary.of(missing, *counts)
        return framed

    def _score_and_impute(
        self: Any, X: Any, T: Any, max_error_rate: Any = None, open_: Mask | bool = True
    ) -> Imputation:
        """Return scores, probabilities and decisions, given the known labels ``T``, in one pass."""
        own = self._label_answers is not None and self._completer.calibrator is None
        scores, p = self._own_answers(X) if own else (to_numpy(self._all_scores(X)), None)
        return self._completer.impute(X, T, scores, p, max_error_rate, open_)

    @property
    def label_covariance_(self: Any) -> LabelCovariance:
        """Residual covariance of the labels; its method ``matrix()`` returns an array."""
        correlation = self._completer.correlation
        if correlation is None:
            raise AttributeError(
                f"This {type(self).__name__} has no label_covariance_. Fit it to a label matrix "
                "with coupling='residual' or coupling='joint'."
            )
        return correlation.covariance

    def find_label_errors(self: Any, X: Any, y: Any, *, label_mask: Any = None) -> LabelErrors:
        """Find observed labels that contradict the features and the other labels of their row.

        Training rows are scored by the models of ``cv`` folds, because the model itself was fitted
        to their wrong labels. With ``coupling=None``, these models score all rows. With
        ``missing_as="unlabelled"``, the result contains unlabelled entries, likely positives first.

        Parameters
        ----------
        X, y, label_mask
            As in :meth:`complete`.

        Returns
        -------
        LabelErrors
            All observed (or unlabelled) entries of learnable labels, the most probable error first.
        """
        T, scores, trained = self._held_out_labels(X, y, label_mask)
        return self._completer.find_label_errors(T, scores, refit=trained)

    def _held_out_labels(self: Any, X: Any, y: Any, label_mask: Any = None) -> Any:
        """Return signs, held-out scores, and whether any row is a training row."""
        check_is_fitted(self)
        labels = self._parse_like(X, y, label_mask, "find_label_errors")
        X = self._check_X(X)
        scores = np.array(to_numpy(self._all_scores(X)))
        rows = self._completer.training_rows
        trained = np.ones(len(scores), dtype=bool) if rows is None else rows.recognize(X)
        if trained.any():
            some = np.flatnonzero(trained)
            inputs = X if trained.all() else take_rows(X, some)
            scores[some] = self._cross_fit(inputs, labels.masked(self._learnable)[some])
        return labels.signs, scores, bool(trained.any())

    def _parse_like(self: Any, X: Any, y: Any, label_mask: Any, method: str) -> LabelMatrix:
        """Read the labels of new rows, which must have the columns of the training labels."""
        if self._labels.kind != "multilabel":
            what = f"{method} needs a label matrix, but the model was fitted to a 1-D y."
            raise ValueError(f"{what} Fit the model to y.reshape(-1, 1).")
        marks = {"missing_label": self.missing_label, "missing_as": self.missing_as}
        n_features = getattr(self, "n_features_in_", None)
        return parse_new_rows(X, y, self._labels, n_features, label_mask=label_mask, **marks)

    def score(
        self: Any, X: Any, y: Any, sample_weight: Any = None, label_mask: Any = None
    ) -> float:
        """Return the share of observed labels that are predicted correctly (1 - Hamming loss).

        See :mod:`dm2l.metrics` for ranking metrics, and :mod:`dm2l.model_selection` for scorers.

        Parameters
        ----------
        X, label_mask
            As in :meth:`complete`.
        y : array-like of shape (n_samples, n_labels) or (n_samples,)
            Labels with missing entries.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
            Accuracy of the observed entries, from 0 to 1.
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
            raise ValueError(_NOTHING)
        if sample_weight is None:
            return float(right[observed].mean())
        weights = checked_weights("sample_weight", sample_weight, right.shape[:1])
        weights = np.broadcast_to(weights, right.T.shape).T[observed]
        if not weights.any():
            raise ValueError(_ZERO_WEIGHTS)
        return float(np.average(right[observed], weights=weights))
