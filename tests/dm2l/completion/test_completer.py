"""The completer takes scores of any model: it needs no estimator."""

import pickle
from copy import deepcopy

import numpy as np
import pytest

from dm2l.baselines import MaskedRidgeClassifier
from dm2l.completion import CompletionSummary
from dm2l.completion._completer import LabelCompleter
from dm2l.datasets import make_missing_multilabel
from dm2l.model_selection import MultilabelKFold, cross_val_decision


@pytest.fixture(scope="module")
def scored():
    """Rows, labels, and out-of-fold and other scores of a model that knows no correlation."""
    X, Y = make_missing_multilabel(n_samples=400, random_state=0)
    model = MaskedRidgeClassifier(coupling=None).fit(X, Y)
    held_out = cross_val_decision(model, X, Y, cv=MultilabelKFold(5, random_state=0))
    T = np.where(np.isnan(Y), 0, 2 * np.nan_to_num(Y) - 1).astype(np.int8)
    return X, Y, T, model, held_out


def fitted(scored, **options):
    X, _, T, model, held_out = scored
    own, learnable = model.decision_function, np.ones(T.shape[1], dtype=bool)
    return LabelCompleter.fit(
        X, T, held_out, learnable, held_out=lambda: held_out, own_scores=own, **options
    )


def test_it_does_with_scores_what_an_estimator_does_that_has_them(scored):
    X, Y, T, model, held_out = scored
    completer = fitted(scored)

    class WithScores(MaskedRidgeClassifier):
        def _fit_labels(self, X, labels):
            result = super()._fit_labels(X, labels)
            return type(result)(leave_one_out_scores=held_out)

    estimator = WithScores().fit(X, Y)
    found = completer.impute(X, T, model.decision_function(X))
    for method, answers in (
        ("predict", found.positive),
        ("predict_proba", found.probabilities),
        ("decision_function", found.scores),
    ):
        filled = estimator.complete(X, Y, method=method)
        np.testing.assert_array_equal(filled[T == 0], answers[T == 0])
    bounded = completer.impute(X, T, model.decision_function(X), max_error_rate=0.1)
    filled = estimator.complete(X, Y, max_error_rate=0.1)
    np.testing.assert_array_equal(~np.isnan(filled) & (T == 0), bounded.chosen)


def test_training_rows_get_held_out_scores_and_others_their_own(scored):
    X, _, T, model, held_out = scored
    rows = fitted(scored).training_rows
    assert rows.recognize(X[5:9]).all()
    assert not rows.recognize(X[5:9] + 1e-9).any()
    scores = model.decision_function(X)
    if len(rows.scores):
        found = rows.hold_out(X, T, scores)
        known = (T != 0) & np.isfinite(held_out)
        np.testing.assert_allclose(found[known], held_out[known], rtol=1e-6)
        np.testing.assert_array_equal(found[~known], scores[~known])


def test_what_was_not_asked_for_is_learnt_before_it_is_copied(scored):
    held_out = scored[4]
    completer = fitted(scored)
    p = fitted(scored).probabilities(held_out)
    S = completer.correlation.covariance.matrix()
    for copied in (pickle.loads(pickle.dumps(fitted(scored))), deepcopy(fitted(scored))):
        np.testing.assert_array_equal(copied.correlation.covariance.matrix(), S)
        np.testing.assert_array_equal(copied.probabilities(held_out), p)


def test_calibration_decides_and_a_threshold_does_not(scored):
    scores = scored[4]
    calibrated = fitted(scored, calibration="sigmoid")
    np.testing.assert_array_equal(calibrated.decide(scores), calibrated.probabilities(scores) > 0.5)
    strict = fitted(scored, calibration="sigmoid", threshold=0.3)
    np.testing.assert_array_equal(strict.decide(scores), scores > 0.3)


def test_a_summary_is_printed_with_four_digits():
    summary = CompletionSummary(12345, 2, 0, 1 / 3, 0.25, np.nan, 1)
    assert repr(summary) == (
        "CompletionSummary(n_yes=12345, n_no=2, n_left=0, expected_wrong=0.3333, "
        "expected_wrong_yes=0.25, expected_wrong_no=nan, n_implied=1)"
    )
    assert summary.expected_wrong == 1 / 3
