"""The suite for users' estimators: sound ones pass, and each check stops one that is broken."""

from __future__ import annotations

import itertools
import pickle
import re
import sys
import warnings
from dataclasses import replace
from unittest import SkipTest

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from all_estimators import ESTIMATORS
from dm2l import AutoClassifier
from dm2l._base import FitResult, MissingLabelClassifier
from dm2l.labels._matrix import parse_labels
from dm2l.testing import (
    _CHECKS,
    CheckResult,
    _Trial,
    check_missing_label_estimator,
    parametrize_with_missing_label_checks,
)

FITTED = {}


@pytest.fixture
def fitted_once(monkeypatch):
    """Let checks share the models of their problem, which a later test shows to be repeatable."""
    plain = _Trial.fitted

    def fitted(trial, Y=None, *, X=None, **masks):
        if Y is not None or X is not None or masks:
            return plain(trial, Y, X=X, **masks)
        key = id(trial.estimator), trial.X.tobytes(), trial.Y.tobytes()
        if key not in FITTED:
            FITTED[key] = plain(trial)
        return FITTED[key]

    monkeypatch.setattr(_Trial, "fitted", fitted)


@parametrize_with_missing_label_checks(ESTIMATORS)
def test_label_contract(estimator, check, fitted_once):
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_sparse_features_give_about_the_scores_of_dense_ones(estimator, fitted_once):
    if isinstance(estimator, AutoClassifier):
        pytest.skip("it standardizes dense columns and leaves sparse ones uncentred: other models")
    trial = _Trial(estimator)
    trial.X[np.abs(trial.X) < 0.5] = 0
    sparse = sp.csr_array(trial.X)
    found = trial.fitted(X=sparse).decision_function(sparse)
    # Sparse products are other routines, and iterative solvers amplify that to their tolerance.
    expected = trial.fitted().decision_function(trial.X)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_a_second_fit_and_a_pickled_model_give_the_same_scores_to_the_last_bit(estimator):
    trial = _Trial(estimator)
    model = trial.fitted()
    expected = model.decision_function(trial.X)
    for other in (trial.fitted(), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.decision_function(trial.X), expected)


# ------------------------------------------------------------------------- sound estimators


def with_signs(labels, T):
    return replace(labels, signs=T.astype(np.int8))


class Sound(MissingLabelClassifier):
    """Ridge, label by label; what the mutants below are made from."""

    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def _fit_labels(self, X, labels):
        T = labels.signs
        self.weights_ = np.zeros((X.shape[1], T.shape[1]))
        for j, rows in enumerate(np.asarray(T != 0).T):
            gram = X[rows].T @ X[rows]
            gram = gram.toarray() if sp.issparse(gram) else gram
            target = X[rows].T @ T[rows, j].astype(float)
            self.weights_[:, j] = np.linalg.solve(gram + self.alpha * np.eye(len(gram)), target)
        return FitResult()

    def _score_labels(self, X):
        return X @ self.weights_


class Noisy(Sound):
    """Random, but repeatable through random_state."""

    def __init__(self, alpha=1.0, random_state=None):
        super().__init__(alpha)
        self.random_state = random_state

    def _fit_labels(self, X, labels):
        result = super()._fit_labels(X, labels)
        noise = check_random_state(self.random_state).standard_normal(self.weights_.shape)
        self.weights_ += 1e-3 * noise
        return result


class Centroids:
    """Nearest centroid; shares nothing with the library but the reader of labels."""

    def get_params(self, deep=True):
        return {}

    def set_params(self, **params):
        return self

    def fit(self, X, Y):
        self.labels_ = parse_labels(Y)
        self.labels_.warn_constant()
        T = self.labels_.signs
        self.centres_ = [
            [(t, X[T[:, j] == t].mean(axis=0)) for t in (-1, 1) if (T[:, j] == t).any()]
            for j in range(T.shape[1])
        ]
        return self

    def predict(self, X):
        def nearest(centres):
            distances = [np.linalg.norm(X - centre, axis=1) for _, centre in centres or [(-1, 0)]]
            return np.array([t for t, _ in centres or [(-1, 0)]])[np.argmin(distances, axis=0)]

        return self.labels_.decode(np.column_stack([nearest(c) for c in self.centres_]) > 0)


class DenseCentroids(Centroids, BaseEstimator):
    """The same with scikit-learn's tags, which declare no sparse input."""


NAMES = [check.name for check in _CHECKS]


def named(name):
    return _CHECKS[NAMES.index(name)]


def outcome(estimator):
    """Names of failed checks, and the reasons of the skipped ones."""
    results = check_missing_label_estimator(estimator, on_fail="return")
    assert [r.name for r in results] == NAMES
    failed = {r.name: r.reason for r in results if r.status == "failed"}
    return failed, {r.name: r.reason for r in results if r.status == "skipped"}


def test_a_small_subclass_of_the_base_passes_every_check_and_skips_none():
    assert outcome(Sound()) == ({}, {})


def test_random_state_is_set_on_clones_also_inside_a_composite():
    noisy = Noisy()
    assert outcome(noisy) == ({}, {})
    assert noisy.random_state is None
    assert not hasattr(noisy, "weights_")
    composite = Pipeline([("nothing", "passthrough"), ("model", noisy)])
    failed, skipped = outcome(composite)
    assert not failed
    assert skipped["check_hidden_labels_are_not_read"] == "fit takes no label_mask"


@pytest.mark.parametrize("make", [Centroids, DenseCentroids])
def test_what_an_estimator_lacks_is_skipped_with_the_reason(make):
    failed, skipped = outcome(make())
    assert not failed
    assert skipped == {
        "check_decision_function": "the estimator has no decision_function",
        "check_predict_proba": "the estimator has no predict_proba",
        "check_coding_bool_with_label_mask": "fit takes no label_mask",
        "check_hidden_labels_are_not_read": "fit takes no label_mask",
        "check_complete": "the estimator has no complete",
        "check_complete_keeps_its_arguments": "the estimator has no complete",
        "check_complete_reads_label_mask": "the estimator has no complete",
        "check_complete_of_frame": "the estimator has no complete",
    }


@pytest.mark.parametrize("name", ["check_coding_nullable_frame", "check_complete_of_frame"])
def test_checks_of_frames_are_skipped_without_pandas(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SkipTest, match="pandas is not installed"):
        named(name)(Sound())


# ------------------------------------------------------------------------- broken estimators


class ReturnsNothing(Sound):
    def fit(self, X, Y, label_mask=None):
        super().fit(X, Y, label_mask)


class RefusesNaN(Sound):
    def fit(self, X, Y, label_mask=None):
        if label_mask is None and np.isnan(np.asarray(Y, dtype=float)).any():
            raise ValueError("Input Y contains NaN.")
        return super().fit(X, Y, label_mask)


class Abstains(Sound):
    def predict(self, X):
        found = super().predict(X)
        found[79:, -1] = 2  # the last row of the problem, so that other checks do not see it
        return found


class MissingScore(Sound):
    def decision_function(self, X):
        found = super().decision_function(X)
        found[79:, -1] = np.nan
        return found


class OneScorePerRow(Sound):
    def decision_function(self, X):
        return super().decision_function(X)[:, :1]


class MoreThanCertain(Sound):
    def predict_proba(self, X):
        found = super().predict_proba(X)
        found[79:, -1] = 1.5
        return found


class Contrary(Sound):
    def _score_labels(self, X):
        return -super()._score_labels(X)


class Transductive(Sound):
    def fit(self, X, Y, label_mask=None):
        super().fit(X, Y, label_mask)
        self.unlabelled_ = X[(parse_labels(Y, label_mask=label_mask).signs == 0).all(axis=1)]
        return self

    def decision_function(self, X):
        found = super().decision_function(X)
        for row in self.unlabelled_ if isinstance(X, np.ndarray) else ():
            found[(row == X).all(axis=1)] = np.nan
        return found


class UnlabelledAreNegative(Sound):
    def _learn(self, X, labels):
        T = labels.signs
        return super()._learn(X, with_signs(labels, np.where(~T.any(axis=1, keepdims=True), -1, T)))


class HolesAreNegative(Sound):
    def _learn(self, X, labels):
        T = labels.signs
        return super()._learn(X, with_signs(labels, np.where(T == 0, -1, T)))


class Quiet(Sound):
    """Tells of something else than the constant label."""

    def __init__(self, message=""):
        super().__init__()
        self.message = message

    def fit(self, X, Y, label_mask=None):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=f".*{self.message}")
            super().fit(X, Y, label_mask)
        if not self._learnable.all():
            warnings.warn("not there yet", ConvergenceWarning, stacklevel=2)
        return self


class GuessesTheUnseen(Sound):
    def decision_function(self, X):
        found = super().decision_function(X)
        unseen = (self._constant == 0) & ~self._learnable
        if unseen.any():
            found[:, unseen] = X[:, :1]
        return found


class OneClassMeansNo(Sound):
    def _learn(self, X, labels):
        result = super()._learn(X, labels)
        self._constant[:] = np.minimum(self._constant, 0)
        return result


class GivesUp(Sound):
    def _learn(self, X, labels):
        T = labels.signs
        one_class = (T != 0).any(axis=0) & (np.abs(T.sum(axis=0)) == (T != 0).sum(axis=0))
        return super()._learn(X, with_signs(labels, np.abs(T) if one_class.any() else T))


class TakesNothing(Sound):
    def fit(self, X, Y, label_mask=None):
        empty = isinstance(Y, np.ndarray) and Y.dtype == float and np.isnan(Y).all()
        return self if empty else super().fit(X, Y, label_mask)


class Rounds(Sound):
    def fit(self, X, Y, label_mask=None):
        plain = type(Y) is np.ndarray and Y.dtype == float and label_mask is None
        return super().fit(X, np.clip(Y, -1, 1) if plain else Y, label_mask)


class Mumbles(Sound):
    def fit(self, X, Y, label_mask=None):
        try:
            return super().fit(X, Y, label_mask)
        except ValueError:
            raise ValueError("Bad labels.") from None


class WrongType(Sound):
    def fit(self, X, Y, label_mask=None):
        try:
            return super().fit(X, Y, label_mask)
        except ValueError as error:
            raise TypeError(str(error)) from None


class ForgetsSigns(Sound):
    def predict(self, X):
        found = super().predict(X)
        found[found < 0] = 0
        return found


class ForgetsBool(Sound):
    def predict(self, X):
        return super().predict(X).astype(int)


class Misreads(Sound):
    """Takes the holes of one container for labels."""

    def __init__(self, container=None):
        super().__init__()
        self.container = container

    def fit(self, X, Y, label_mask=None):
        if self.container == "object" and getattr(Y, "dtype", None) == np.object_:
            Y = np.where(Y == None, 0, Y)  # noqa: E711
        elif self.container == "frame" and hasattr(Y, "fillna"):
            Y = Y.fillna(0)
        elif self.container == "masked" and isinstance(Y, np.ma.MaskedArray):
            Y = np.asarray(Y)
        elif self.container == "csr" and sp.issparse(Y):
            Y = Y.toarray()
        return super().fit(X, Y, label_mask)


class IgnoresTheMask(Sound):
    def fit(self, X, Y, label_mask=None):
        return super().fit(X, Y)


class BorderFromHiddenLabels(Sound):
    def _fit_completer(self, X, labels, result):
        completer = super()._fit_completer(X, labels, result)
        completer.thresholds = completer.thresholds + self._shift
        return completer

    def fit(self, X, Y, label_mask=None):
        leaks = label_mask is not None and Y.dtype == float
        self._shift = 0.3 * np.mean(Y[~label_mask] == 1) if leaks else 0.0
        return super().fit(X, Y, label_mask)


class CodingOfHiddenLabels(Sound):
    def _read(self, X, Y, label_mask, *weights):
        X, labels = super()._read(X, Y, label_mask, *weights)
        signed = label_mask is not None and (np.asarray(Y) == -1).any()
        return X, labels.__class__(**{**vars(labels), "negative": -1}) if signed else labels


class ReadsUnderTheMask(Sound):
    def fit(self, X, Y, label_mask=None):
        if type(Y) is np.ndarray and (Y == 7).any():
            raise ValueError("7 is not a label.")
        return super().fit(X, Y, label_mask)


class IgnoresOneLabel(Sound):
    def _score_labels(self, X):
        found = super()._score_labels(X)
        found[:, 0] = X[:, :1].toarray()[:, 0] if sp.issparse(X) else X[:, 0]
        return found


class WritesLabels(Sound):
    def fit(self, X, Y, label_mask=None):
        super().fit(X, Y, label_mask)
        if type(Y) is np.ndarray and Y.dtype == float:
            Y[np.isnan(Y)] = 0
        return self


class WritesFeatures(Sound):
    def fit(self, X, Y, label_mask=None):
        super().fit(X, Y, label_mask)
        X -= 1 if isinstance(X, np.ndarray) else 0 * X
        return self


class WritesMask(Sound):
    def fit(self, X, Y, label_mask=None):
        super().fit(X, Y, None if label_mask is None else label_mask.copy())
        if label_mask is not None:
            label_mask[0] = True
        return self


class IgnoresTheMaskOfIntegers(Sound):
    def fit(self, X, Y, label_mask=None):
        whole = getattr(Y, "dtype", None) == np.int64
        return super().fit(X, Y, None if whole else label_mask)


class CompletesUnderTheMask(Sound):
    def complete(self, X, Y, *, label_mask=None, method="predict"):
        return super().complete(X, Y, method=method)


class Corrects(Sound):
    """Overwrites observed labels by predictions."""

    def complete(self, X, Y, **options):
        filled = super().complete(X, Y, **options)
        if isinstance(filled, np.ndarray):
            filled[:] = self.predict(X)
        return filled


class LeavesHoles(Sound):
    def complete(self, X, Y, **options):
        filled = super().complete(X, Y, **options)
        return np.where(np.isnan(Y), np.nan, filled) if isinstance(Y, np.ndarray) else filled


class CompletesInPlace(Sound):
    def complete(self, X, Y, **options):
        filled = super().complete(X, Y, **options)
        if isinstance(Y, np.ndarray):
            Y[:] = filled
        return filled


class Unframes(Sound):
    def complete(self, X, Y, **options):
        return np.asarray(super().complete(X, Y, **options))


class LosesIndex(Sound):
    def complete(self, X, Y, **options):
        filled = super().complete(X, Y, **options)
        return filled.reset_index(drop=True) if hasattr(filled, "columns") else filled


class Drifts(Sound):
    ticks = itertools.count()

    def _fit_labels(self, X, labels):
        result = super()._fit_labels(X, labels)
        self.weights_ += 1e-13 * next(self.ticks)
        return result


class Remembers(Sound):
    def _fit_labels(self, X, labels):
        before = getattr(self, "weights_", np.zeros(1)).sum()
        result = super()._fit_labels(X, labels)
        self.weights_ += 0.01 * before
        return result


CODINGS = [name for name in NAMES if name.startswith("check_coding_")]
# Mutant, all the checks that it fails, and what the message of the first of them says.
MUTANTS = [
    (ReturnsNothing(), ["check_fit"], "Expected the estimator itself, got NoneType"),
    (
        Abstains(),
        ["check_predict", "check_hidden_labels_are_not_read", *CODINGS],
        r"expected 0 or 1 at \[79, 4\], got 2",
    ),
    (MissingScore(), ["check_decision_function"], r"a finite number at \[79, 4\], got nan"),
    (MoreThanCertain(), ["check_predict_proba"], r"in \[0, 1\] at \[79, 4\], got 1.5"),
    (Contrary(), ["check_better_than_chance"], r"accuracy above 0\.\d+, got 0\.\d+"),
    (
        Transductive(),
        # A row of the problem has no label but the one that the second check takes away.
        ["check_unlabelled_rows_are_predicted", "check_label_with_nothing_observed"],
        r"a finite number at \[0, 0\], got nan",
    ),
    (
        UnlabelledAreNegative(),
        ["check_unlabelled_rows_change_nothing"],
        "three unlabelled rows added",
    ),
    (
        HolesAreNegative(),
        ["check_unlabelled_rows_change_nothing", "check_label_with_one_class_observed"],
        r"expected -?0\.\d+ at \[0, 0\], got -?0\.\d+",
    ),
    (
        Quiet("no observed entry"),
        ["check_label_with_nothing_observed"],
        "expected a UserWarning such as ConstantLabelWarning from fit, got none",
    ),
    (
        Quiet("only one observed class"),
        ["check_label_with_one_class_observed"],
        "only positives observed",
    ),
    (GuessesTheUnseen(), ["check_label_with_nothing_observed"], "as in the first row"),
    (OneClassMeansNo(), ["check_label_with_one_class_observed"], r"expected 1.0 at \[0\], got 0.0"),
    (
        GivesUp(),
        ["check_label_with_one_class_observed"],
        r"predictions of both classes for label 0",
    ),
    (
        TakesNothing(),
        ["check_nothing_observed_is_refused"],
        "fit must raise a ValueError, but raised no error",
    ),
    (
        Rounds(),
        ["check_other_values_are_refused"],
        "ValueError that contains 3.25, but raised no error",
    ),
    (Mumbles(), ["check_other_values_are_refused"], "contains 3.25, got: Bad labels"),
    (
        WrongType(),
        ["check_nothing_observed_is_refused", "check_other_values_are_refused"],
        "Unexpected TypeError: All labels in Y are missing",
    ),
    (
        ForgetsSigns(),
        ["check_coding_signs", "check_coding_signed_csr"],
        r"expected -1.0 at \[\d+, \d+\], got 0.0",
    ),
    (ForgetsBool(), ["check_coding_bool_with_label_mask"], "Expected bool from predict, got int"),
    (Misreads("object"), ["check_coding_object_with_none"], "instead of 0/1 with NaN: expected"),
    (Misreads("frame"), ["check_coding_nullable_frame"], "instead of 0/1 with NaN: expected"),
    (Misreads("masked"), ["check_coding_masked_array"], "instead of 0/1 with NaN: expected"),
    (Misreads("csr"), ["check_coding_signed_csr"], "Unexpected ValueError: Y mixes"),
    (
        IgnoresTheMask(),
        ["check_hidden_labels_are_not_read", "check_coding_bool_with_label_mask"],
        "with the truth under the mask",
    ),
    (
        BorderFromHiddenLabels(),
        ["check_hidden_labels_are_not_read"],
        "predict of float64 labels with",
    ),
    (CodingOfHiddenLabels(), ["check_hidden_labels_are_not_read"], "-1 .another coding."),
    (ReadsUnderTheMask(), ["check_hidden_labels_are_not_read"], "ValueError: 7 is not a label"),
    (IgnoresTheMaskOfIntegers(), ["check_hidden_labels_are_not_read"], "of int64 labels with the"),
    (CompletesUnderTheMask(), ["check_complete_reads_label_mask"], "label_mask instead of NaN"),
    (IgnoresOneLabel(), ["check_observed_labels_are_read"], r"got none for labels \[0\]"),
    (WritesLabels(), ["check_fit_keeps_its_arguments"], r"Y after the call: expected nan at"),
    (WritesFeatures(), ["check_fit_keeps_its_arguments"], r"X after the call: expected"),
    (WritesMask(), ["check_fit_keeps_its_arguments"], r"label_mask after the call: expected 0.0"),
    (Corrects(), ["check_complete"], r"Observed labels after complete: expected \d.0 at"),
    (
        LeavesHoles(),
        ["check_complete", "check_complete_reads_label_mask"],
        r"expected 0 or 1 at \[\d+, \d+\], got nan",
    ),
    (CompletesInPlace(), ["check_complete_keeps_its_arguments"], "Y after the call: expected nan"),
    (Unframes(), ["check_complete_of_frame"], "Expected DataFrame, got ndarray"),
    (LosesIndex(), ["check_complete_of_frame"], r"Expected index \['row 0', .* got \[0, "),
    (
        Drifts(),
        ["check_hidden_labels_are_not_read"],
        "of float64 labels with the truth",
    ),
    (Remembers(), ["check_refit_forgets"], "of a refitted model: expected"),
]


@pytest.mark.parametrize(("mutant", "names", "text"), MUTANTS, ids=[repr(m[0]) for m in MUTANTS])
def test_a_broken_estimator_fails_the_check_of_what_it_breaks_and_no_other(mutant, names, text):
    failed, skipped = outcome(mutant)
    assert set(failed) == set(names), failed
    assert not skipped
    assert re.search(text, failed[names[0]])
    assert failed[names[0]].startswith(f"{names[0]}: ")


def test_every_check_stops_some_mutant():
    assert {name for _, names, _ in MUTANTS for name in names} == set(NAMES)


# ------------------------------------------------------------------------------------ reports


def test_the_first_failure_is_raised_by_name_and_chained_from_the_original():
    with pytest.raises(
        AssertionError, match=r"^check_fit: .* Unexpected ValueError: .* NaN\.$"
    ) as e:
        check_missing_label_estimator(RefusesNaN())
    assert isinstance(e.value.__cause__, ValueError)


def test_a_wrong_shape_is_named_with_the_right_one():
    with pytest.raises(AssertionError, match=r"expected shape \(80, 5\), got \(80, 1\)\."):
        named("check_decision_function")(OneScorePerRow())


def test_a_check_that_does_not_apply_raises_what_pytest_reports_as_a_skip():
    with pytest.raises(SkipTest, match="no complete"):
        named("check_complete")(Centroids())


def test_without_a_failure_the_results_are_returned_either_way():
    results = check_missing_label_estimator(Sound())
    assert results == check_missing_label_estimator(Sound(), on_fail="return")
    assert results[0] == CheckResult("check_fit", "passed", "")


@pytest.mark.parametrize("thing", [Sound, None, "ridge"])
def test_what_is_no_estimator_is_refused_at_once(thing):
    with pytest.raises(TypeError, match="estimator must be an instance with fit, got "):
        check_missing_label_estimator(thing, on_fail="return")


def test_predictions_that_are_strings_are_quoted():
    class Words(Sound):
        def predict(self, X):
            return super().predict(X).astype(str)

    with pytest.raises(AssertionError, match=r"expected 0 or 1 at \[0, 0\], got '[01]'"):
        named("check_predict")(Words())


def test_an_unknown_way_to_fail_is_refused():
    with pytest.raises(ValueError, match="on_fail must be 'raise' or 'return', got 'warn'"):
        check_missing_label_estimator(Sound(), on_fail="warn")


def test_names_are_unique_and_requirements_are_sentences():
    assert len(set(NAMES)) == len(NAMES)
    assert all(re.fullmatch(r"[A-Z].*\.", check.requirement) for check in _CHECKS)


def case_ids(estimators):
    return [case.id for case in parametrize_with_missing_label_checks(estimators).mark.args[1]]


def test_ids_are_estimator_and_check():
    ids = case_ids([Sound(alpha=2.0), Sound()])
    assert ids == [f"{e}-{name}" for e in ("Sound(alpha=2.0)", "Sound()") for name in NAMES]


def test_ids_hold_no_address_that_would_differ_between_processes():
    state = np.random.RandomState(0)
    estimators = [
        Sound(alpha=case_ids),
        Sound(alpha=object()),
        Noisy(random_state=state),
        Centroids(),
    ]
    assert not [name for name in case_ids(estimators) if "0x" in name]
    assert case_ids([Sound(alpha=object())]) == case_ids([Sound(alpha=object())])
