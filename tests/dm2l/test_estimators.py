"""The interface of every estimator: what goes in, what comes out, what is said when it fails."""

from __future__ import annotations

import dataclasses
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.fixes import parse_version

from dm2l import ConstantLabelWarning, DM2LClassifier
from dm2l.baselines import MaskedRidgeClassifier
from dm2l.completion._errors import best_f1_thresholds, plain_probability
from dm2l.datasets import make_missing_multilabel
from dm2l.labels._matrix import parse_labels
from dm2l.model_selection import MultilabelKFold, cross_val_decision, get_scorer

ESTIMATORS = {
    "linear": DM2LClassifier(),
    "kernel": DM2LClassifier(kernel="rbf"),
    "ridge": MaskedRidgeClassifier(),
}
NAMES = ["rain", "wind", "fog", "snow"]
FEATURES = ["pressure", "humidity", "dew", "heat", "cloud", "sun"]


@pytest.fixture(params=ESTIMATORS)
def coupled(request):
    return clone(ESTIMATORS[request.param])


@pytest.fixture
def estimator(coupled):
    """Without coupling, which changes nothing but complete and takes most of the time."""
    return coupled.set_params(coupling=None)


@pytest.fixture
def data():
    """X, Y with NaN in a third of the entries, and the complete labels."""
    return make_missing_multilabel(90, 6, 4, n_implications=2, random_state=0, return_truth=True)


def label_frame(Y, **options):
    return pd.DataFrame(Y, columns=NAMES, **options)


# ------------------------------------------------------------------------------- predictions


def test_predictions_are_complete_even_where_nothing_was_observed(estimator, data):
    X, Y, _ = data
    Y[:10] = np.nan
    model = estimator.fit(X, Y)
    for method in ("predict", "decision_function", "predict_proba"):
        found = getattr(model, method)(X)
        assert found.shape == Y.shape
        assert np.isfinite(found).all()


CODINGS = {
    "0/1 with NaN": (lambda Y: Y, np.nan, [0, 1], np.int64),
    "-1/+1 with NaN": (lambda Y: 2 * Y - 1, np.nan, [-1, 1], np.int64),
    "int 0/1 with -1": (lambda Y: np.nan_to_num(Y, nan=-1).astype(int), -1, [0, 1], np.int64),
    "int8 0/1 with -1": (lambda Y: np.nan_to_num(Y, nan=-1).astype(np.int8), -1, [0, 1], np.int8),
    "int8 -1/+1 with 0": (lambda Y: parse_labels(Y).signs, 0, [-1, 1], np.int8),
    "uint8 0/1 with 2": (lambda Y: np.nan_to_num(Y, nan=2).astype(np.uint8), 2, [0, 1], np.uint8),
    "bool": (lambda Y: Y == 1, np.nan, [False, True], np.bool_),
    "bool frame": (lambda Y: label_frame(Y == 1), np.nan, [False, True], np.bool_),
    "boolean frame with NA": (
        lambda Y: label_frame(Y).astype("boolean"),
        np.nan,
        [False, True],
        np.bool_,
    ),
    "signed CSR": (lambda Y: sp.csr_array(parse_labels(Y).signs), np.nan, [-1, 1], np.int64),
}


@pytest.mark.parametrize(
    ("recode", "missing_label", "values", "dtype"), CODINGS.values(), ids=CODINGS
)
def test_predictions_are_in_the_coding_of_the_training_labels(
    estimator, data, recode, missing_label, values, dtype
):
    X, Y, _ = data
    found = estimator.set_params(missing_label=missing_label).fit(X, recode(Y)).predict(X)
    assert found.dtype == dtype
    np.testing.assert_array_equal(np.unique(found), values)


@pytest.mark.parametrize("name", [name for name in CODINGS if not name.startswith("bool")])
def test_the_coding_of_the_labels_does_not_change_the_model(estimator, data, name):
    X, Y, _ = data
    recode, missing_label, *_ = CODINGS[name]
    expected = clone(estimator).fit(X, Y).decision_function(X)
    model = estimator.set_params(missing_label=missing_label).fit(X, recode(Y))
    np.testing.assert_allclose(model.decision_function(X), expected)


def test_fitting_and_completing_leave_their_arguments_alone(coupled, data):
    X, Y, _ = data
    mask = np.ones(Y.shape, dtype=bool)
    mask[0] = False
    before = X.copy(), Y.copy(), mask.copy()
    coupled.fit(X, Y, label_mask=mask).complete(X, Y, label_mask=mask)
    for now, then in zip((X, Y, mask), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_rows_with_nothing_observed_do_not_change_the_model(estimator, data):
    X, Y, _ = data
    estimator.set_params(**({"gamma": 0.2} if "gamma" in estimator.get_params() else {}))
    expected = clone(estimator).fit(X[20:], Y[20:]).decision_function(X)
    Y[:20] = np.nan
    np.testing.assert_allclose(estimator.fit(X, Y).decision_function(X), expected, atol=1e-10)


def test_names_come_from_data_frames(estimator, data):
    X, Y, _ = data
    model = estimator.fit(pd.DataFrame(X, columns=FEATURES), label_frame(Y))
    assert list(model.label_names_) == NAMES
    assert list(model.feature_names_in_) == FEATURES
    assert model.n_features_in_ == len(FEATURES)


def test_names_are_invented_for_arrays_and_are_the_classes_of_a_1d_y(estimator, data):
    X, Y, _ = data
    assert list(clone(estimator).fit(X, Y).label_names_) == ["y0", "y1", "y2", "y3"]
    assert not hasattr(clone(estimator).fit(X, Y), "feature_names_in_")
    y = np.where(X[:, 0] > 0, "hot", np.where(X[:, 1] > 0, "cold", "mild"))
    assert list(clone(estimator).fit(X, y).label_names_) == ["cold", "hot", "mild"]


def test_label_mask_equals_writing_nan(estimator, data):
    X, Y, truth = data
    expected = clone(estimator).fit(X, Y).decision_function(X)
    found = estimator.fit(X, truth, label_mask=~np.isnan(Y)).decision_function(X)
    np.testing.assert_array_equal(found, expected)


def test_methods_refuse_to_work_before_fit(coupled, data):
    X, Y, _ = data
    for call in (
        lambda: coupled.predict(X),
        lambda: coupled.predict_proba(X),
        lambda: coupled.complete(X, Y),
        lambda: coupled.score(X, Y),
    ):
        with pytest.raises(NotFittedError):
            call()


# --------------------------------------------------------------------------- constant labels


CONSTANT = {
    "nothing observed": (np.nan, "no observed entry"),
    "positives only": (1, "only one observed class"),
    "negatives only": (0, "only one observed class"),
}


def rate(y):
    """Probability that agrees with the observed entries of one class."""
    return (np.nansum(y) + 0.5) / (np.sum(~np.isnan(y)) + 1)


@pytest.mark.parametrize(("value", "text"), CONSTANT.values(), ids=CONSTANT)
def test_a_label_that_cannot_be_learnt_warns_by_name_and_gets_a_constant_score(
    estimator, data, value, text
):
    X, Y, _ = data
    Y[:, 2] = value
    Y[5:9, 2] = np.nan
    with pytest.warns(ConstantLabelWarning, match=rf"^1 label\(s\) have {text}.*: column 'fog'\.$"):
        model = estimator.fit(X, label_frame(Y))
    scores, p = model.decision_function(X)[:, 2], model.predict_proba(X)[:, 2]
    np.testing.assert_allclose(p, rate(Y[:, 2]), rtol=1e-12)
    np.testing.assert_allclose(plain_probability(scores), p, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X)[:, 2], int(value == 1))


def test_constant_labels_have_the_rates_of_weighted_entries_and_rank_by_them(estimator, data):
    X, Y, _ = data
    Y[:, 1:3] = 0
    Y[6:, 1] = np.nan  # five entries, one of which counts twice
    Y[0, 1] = np.nan
    weights = np.where(np.arange(len(X)) == 3, 2.0, 1.0)
    with pytest.warns(ConstantLabelWarning, match="2 label"):
        model = estimator.fit(X, Y, sample_weight=weights)
    p = model.predict_proba(X)[0, 1:3]
    np.testing.assert_allclose(p, [0.5 / 7, 0.5 / (len(X) + 2)])
    assert np.diff(model.decision_function(X)[0, 1:3]) < 0


@pytest.mark.parametrize(("value", "text"), CONSTANT.values(), ids=CONSTANT)
def test_weights_of_a_constant_label_say_the_same_as_its_score(data, value, text):
    X, Y, _ = data
    Y[:, 2] = value
    for model in (DM2LClassifier(), MaskedRidgeClassifier()):
        with pytest.warns(ConstantLabelWarning, match=text):
            model.fit(X, Y)
        np.testing.assert_array_equal(model.coef_[2], 0)
        np.testing.assert_allclose(plain_probability(model.intercept_[2]), rate(Y[:, 2]))
        assert model.coef_.shape == (4, 6)


def test_a_constant_label_does_not_change_the_scores_of_the_others(data):
    X, Y, _ = data
    expected = MaskedRidgeClassifier(alpha=1.0).fit(X, Y).decision_function(X)[:, :2]
    Y[:, 2:] = np.nan
    with pytest.warns(ConstantLabelWarning, match="2 label"):
        found = MaskedRidgeClassifier(alpha=1.0).fit(X, Y).decision_function(X)[:, :2]
    np.testing.assert_allclose(found, expected)


def test_the_warning_points_at_the_line_that_called_fit(estimator, data):
    X, Y, _ = data
    Y[:, 2] = 1
    with pytest.warns(ConstantLabelWarning) as record:
        estimator.fit(X, Y)
    assert record[0].filename == __file__


def test_a_model_without_a_learnable_label_predicts_constants(estimator, data):
    X, _, _ = data
    Y = np.tile([1.0, 0.0], (len(X), 1))
    Y[::2] = np.nan
    with pytest.warns(ConstantLabelWarning, match="2 label"):
        model = estimator.fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), np.tile([1, 0], (len(X), 1)))


def test_a_refit_without_a_learnable_label_leaves_no_old_weights_behind(data):
    X, Y, _ = data
    for model in (DM2LClassifier(), MaskedRidgeClassifier()):
        model.fit(X, Y)
        with pytest.warns(ConstantLabelWarning, match="4 label"):
            model.fit(X, np.ones_like(Y))
        np.testing.assert_array_equal(model.coef_, np.zeros((4, 6)))
        np.testing.assert_allclose(plain_probability(model.intercept_), rate(np.ones(len(X))))


# ---------------------------------------------------------------------------------- complete


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
@pytest.mark.parametrize("negative", [0, -1])
def test_complete_fills_the_holes_and_nothing_else(coupled, data, method, negative):
    X, Y, _ = data
    Y = np.where(Y == 0, negative, Y)
    holes = np.isnan(Y)
    model = coupled.set_params(coupling=None).fit(X, Y)
    filled = model.complete(X, Y, method=method)
    # Observed entries stand on the scale of what fills the holes.
    no = {"predict": negative, "predict_proba": 0, "decision_function": -1}[method]
    np.testing.assert_array_equal(filled[~holes], np.where(Y == 1, 1, no)[~holes])
    np.testing.assert_array_equal(filled[holes], getattr(model, method)(X)[holes])


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_complete_returns_a_frame_with_index_and_columns_for_a_frame(coupled, data, method):
    X, Y, _ = data
    frame = label_frame(Y, index=[f"day {i}" for i in range(len(Y))])
    filled = coupled.fit(X, frame).complete(X, frame, method=method)
    assert isinstance(filled, pd.DataFrame)
    assert filled.index.equals(frame.index)
    assert filled.columns.equals(frame.columns)
    np.testing.assert_array_equal(filled.to_numpy(), coupled.complete(X, Y, method=method))


COMPLETED = {
    "int8 with -1": (lambda Y: np.nan_to_num(Y, nan=-1).astype(np.int8), -1, np.int8),
    "object with None": (lambda Y: np.where(np.isnan(Y), None, Y), np.nan, None),
    "lists with None": (lambda Y: np.where(np.isnan(Y), None, Y).tolist(), np.nan, None),
    "masked": (np.ma.masked_invalid, np.nan, None),
    "Int8 frame": (lambda Y: label_frame(Y).astype("Int8"), np.nan, None),
    "boolean frame": (lambda Y: label_frame(Y).astype("boolean"), np.nan, None),
    "polars": (lambda Y: pl.DataFrame(Y, schema=NAMES), np.nan, None),
    "signed CSR": (lambda Y: sp.csr_array(parse_labels(Y).signs), np.nan, None),
}


@pytest.mark.parametrize(("recode", "missing_label", "dtype"), COMPLETED.values(), ids=COMPLETED)
def test_complete_takes_every_container(data, recode, missing_label, dtype):
    X, Y, _ = data
    expected = MaskedRidgeClassifier().fit(X, Y).complete(X, Y)
    given = recode(Y)
    model = MaskedRidgeClassifier(missing_label=missing_label).fit(X, given)
    filled = model.complete(X, given)
    assert not sp.issparse(filled)
    np.testing.assert_array_equal(np.asarray(filled) == 1, expected == 1)
    if dtype is not None:
        assert filled.dtype == dtype


def test_complete_keeps_booleans_boolean(coupled, data):
    X, Y, truth = data
    model = coupled.fit(X, Y)
    filled = model.complete(X, truth == 1, label_mask=~np.isnan(Y))
    assert filled.dtype == bool
    np.testing.assert_array_equal(filled, model.complete(X, Y) == 1)


def test_complete_counts_entries_under_label_mask_as_holes(coupled, data):
    X, Y, truth = data
    model = coupled.fit(X, Y)
    garbage = np.where(np.isnan(Y), 7, truth).astype(int)
    found = model.complete(X, garbage, label_mask=~np.isnan(Y))
    np.testing.assert_array_equal(found, model.complete(X, Y))


def test_swapped_features_and_labels_are_named(coupled, data):
    X, Y, _ = data
    model = coupled.fit(X, Y)
    with pytest.raises(ValueError, match="X and Y seem to be swapped: pass the features first"):
        model.complete(Y, X)
    with pytest.raises(ValueError, match=r"expected \(n_samples, \d+\)\.$"):
        model.complete(X, Y[:, :2])


ALL_MISSING = {
    "NaN": lambda shape: np.full(shape, np.nan),
    "frame": lambda shape: label_frame(np.full(shape, np.nan)),
    "masked": lambda shape: np.ma.masked_all(shape),
    "CSR": sp.csr_array,
}


@pytest.mark.parametrize("negative", [0, -1])
@pytest.mark.parametrize("make", ALL_MISSING.values(), ids=ALL_MISSING)
def test_complete_of_rows_without_any_label_is_predict(coupled, data, make, negative):
    X, Y, _ = data
    model = coupled.fit(X, np.where(Y == 0, negative, Y))
    found = model.complete(X[:7], make((7, 4)))
    np.testing.assert_array_equal(np.asarray(found), model.predict(X[:7]))


@pytest.mark.parametrize("negative", [0, -1])
def test_complete_of_rows_with_positives_only_uses_the_coding_of_the_model(data, negative):
    X, Y, _ = data
    model = MaskedRidgeClassifier().fit(X, np.where(Y == 0, negative, Y))
    positives = np.where(Y == 1, 1, np.nan)
    assert set(np.unique(model.complete(X, positives))) == {negative, 1}


@pytest.mark.parametrize(
    ("columns", "first", "second"),
    [
        (["wind", "rain", "fog", "snow"], "wind", "rain"),
        (["rain", "wind", "hail", "snow"], "hail", "fog"),
    ],
    ids=["order", "name"],
)
@pytest.mark.parametrize("method", ["complete", "score"])
def test_other_columns_than_those_of_training_are_refused_by_name(
    coupled, data, columns, first, second, method
):
    X, Y, _ = data
    model = coupled.fit(X, label_frame(Y))
    with pytest.raises(ValueError, match=f"'{first}'.*'{second}'.*label_names_"):
        getattr(model, method)(X, pd.DataFrame(Y, columns=columns))


@pytest.mark.parametrize("shape", [(90, 3), (90, 5), (90,)])
@pytest.mark.parametrize("method", ["complete", "score"])
def test_another_number_of_labels_is_refused_with_both(coupled, data, shape, method):
    X, Y, _ = data
    model = coupled.fit(X, Y)
    with pytest.raises(ValueError, match=rf"shape \({shape[0]},.*4 labels"):
        getattr(model, method)(X, np.ones(shape))


# One row too few would be a shape error anyway; a single row is what numpy would broadcast.
@pytest.mark.parametrize(("n_X", "n_Y"), [(1, 90), (90, 1), (89, 90)])
@pytest.mark.parametrize("method", ["complete", "score"])
def test_another_number_of_rows_in_X_and_Y_is_refused(coupled, data, n_X, n_Y, method):
    X, Y, truth = data
    model = coupled.fit(X, Y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        getattr(model, method)(X[:n_X], truth[:n_Y])


def test_complete_refuses_an_unknown_method_and_a_1d_model(coupled, data):
    X, Y, _ = data
    with pytest.raises(ValueError, match="'decision_function'; got 'vote'"):
        clone(coupled).fit(X, Y).complete(X, Y, method="vote")
    y = (X[:, 0] > 0).astype(int)
    with pytest.raises(ValueError, match="1-D y"):
        clone(coupled).fit(X, y).complete(X, y)


# ------------------------------------------------------------------------------------- score


def test_score_is_the_share_of_observed_entries_predicted_right(estimator, data):
    X, Y, _ = data
    model = estimator.fit(X, Y)
    predicted = model.predict(X)
    right = [
        predicted[i, j] == Y[i, j]
        for i in range(Y.shape[0])
        for j in range(Y.shape[1])
        if not np.isnan(Y[i, j])
    ]
    assert 0 < np.mean(right) < 1
    assert model.score(X, Y) == pytest.approx(np.mean(right))
    assert model.score(X, 2 * Y - 1) == model.score(X, Y)


def test_score_looks_only_where_label_mask_is_true(estimator, data):
    X, Y, truth = data
    model = estimator.fit(X, Y)
    right = model.predict(X) == truth
    assert model.score(X, truth, label_mask=right) == 1
    assert model.score(X, truth, label_mask=~right) == 0
    assert model.score(X, truth, label_mask=~np.isnan(Y)) == model.score(X, Y)


def test_score_against_nothing_is_an_error(estimator, data):
    X, Y, _ = data
    model = estimator.fit(X, Y)
    with pytest.raises(ValueError, match=r"All labels in . are missing"):
        model.score(X, np.full(Y.shape, np.nan))
    with pytest.raises(ValueError, match=r"All labels in . are missing"):
        model.score(X, Y, label_mask=np.zeros(Y.shape, dtype=bool))


@pytest.mark.parametrize("classes", [[0.0, 1.0], [0.0, 1.0, 2.0]], ids=["two", "three"])
def test_score_of_a_1d_y_is_accuracy_over_what_was_observed(estimator, data, classes):
    X, _, _ = data
    noisy = X[:, 0] + 0.5 * np.random.default_rng(0).standard_normal(len(X))
    y = np.array(classes)[np.digitize(noisy, [-0.3, 0.4][: len(classes) - 1])]
    y[::4] = np.nan
    model = estimator.fit(X, y)
    observed = ~np.isnan(y)
    expected = np.mean(model.predict(X)[observed] == y[observed])
    assert 0.5 < expected < 1
    assert model.score(X, y) == pytest.approx(expected)
    wrong = np.where(observed, y, 99.0)
    assert model.score(X, wrong) == pytest.approx(expected * observed.mean())
    assert model.score(X, wrong, label_mask=observed) == pytest.approx(expected)


@pytest.mark.parametrize("n", [1, 89])
def test_score_of_a_1d_y_refuses_another_number_of_rows(estimator, data, n):
    X, _, _ = data
    y = (X[:, 0] > 0).astype(int)
    model = estimator.fit(X, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.score(X, y[:n])


def test_score_of_text_classes_with_holes(estimator, data):
    X, _, _ = data
    y = np.where(X[:, 0] > 0, "hot", "cold").astype(object)
    y[::3] = None
    model = estimator.fit(X, y)
    observed = y != None  # noqa: E711  elementwise
    expected = np.mean(model.predict(X)[observed] == y[observed])
    assert model.score(X, y) == pytest.approx(expected)
    assert set(model.predict(X)) == {"hot", "cold"}


# ------------------------------------------------------------------ thresholds and probabilities


@pytest.mark.parametrize(("threshold", "border"), [(None, 0.0), (-0.4, -0.4), (0.3, 0.3), (1, 1)])
def test_a_label_is_predicted_where_its_score_exceeds_the_threshold(
    estimator, data, threshold, border
):
    X, Y, _ = data
    model = estimator.set_params(threshold=threshold).fit(X, Y)
    np.testing.assert_array_equal(model.thresholds_, np.full(4, border))
    np.testing.assert_array_equal(model.predict(X) == 1, model.decision_function(X) > border)


def test_the_f1_threshold_is_the_best_on_out_of_fold_scores(estimator, data):
    X, Y, _ = data
    cv = KFold(3)
    model = clone(estimator).set_params(threshold="f1", cv=cv).fit(X, Y)
    seen = ~np.isnan(Y).all(axis=1)  # rows with nothing observed are in no fold
    X, Y = X[seen], Y[seen]
    scores = cross_val_decision(estimator, X, Y, cv=cv)
    enough = (parse_labels(Y).signs > 0).sum(axis=0) >= 5
    best = np.where(enough, best_f1_thresholds(scores, parse_labels(Y).signs, min_positives=1), 0.0)
    np.testing.assert_allclose(model.thresholds_, best)
    expected = model.decision_function(X) > model.thresholds_
    np.testing.assert_array_equal(model.predict(X) == 1, expected)
    assert (model.thresholds_[enough] != 0).all()
    assert enough.sum() >= 2


@pytest.mark.parametrize("threshold", ["f2", "", "0.5", np.nan, [0.1, 0.2]], ids=repr)
def test_another_threshold_is_refused_with_its_value(estimator, data, threshold):
    X, Y, _ = data
    with pytest.raises(ValueError, match="threshold must be") as error:
        estimator.set_params(threshold=threshold).fit(X, Y)
    assert repr(threshold) in str(error.value)


@pytest.mark.parametrize("calibration", ["platt", True])
def test_another_calibration_is_refused_with_its_value(estimator, data, calibration):
    X, Y, _ = data
    with pytest.raises(ValueError, match=f"'isotonic'; got {calibration!r}"):
        estimator.set_params(calibration=calibration).fit(X, Y)


@pytest.mark.parametrize(
    "cv",
    [3, np.int64(3), MultilabelKFold(3, random_state=0), KFold(3)],
    ids=["int", "numpy int", "MultilabelKFold", "KFold"],
)
@pytest.mark.parametrize("options", [{"calibration": "sigmoid"}, {"threshold": "f1"}], ids=str)
def test_cv_is_a_number_of_folds_or_a_splitter(data, cv, options):
    X, Y, _ = data
    model = MaskedRidgeClassifier(cv=cv, **options).fit(X, Y)
    plain = MaskedRidgeClassifier().fit(X, Y)
    if "threshold" in options:
        assert (model.thresholds_ != plain.thresholds_).any()
    else:
        assert (model.predict_proba(X) != plain.predict_proba(X)).any()


@pytest.mark.parametrize("calibration", [None, "sigmoid", "isotonic"])
def test_probabilities_lie_in_the_unit_interval_and_follow_the_scores(estimator, data, calibration):
    X, Y, _ = data
    model = estimator.set_params(calibration=calibration, cv=3).fit(X, Y)
    scores, p = model.decision_function(X), model.predict_proba(X)
    assert ((p >= 0) & (p <= 1)).all()
    for k in range(Y.shape[1]):
        steps = np.diff(p[np.argsort(scores[:, k]), k])
        assert (steps >= -1e-12).all()
        assert steps.max() > 0


@pytest.mark.parametrize("calibration", [None, "sigmoid", "isotonic"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_of_a_1d_y_sum_to_one(estimator, calibration, n_classes):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < n_classes], y[y < n_classes].astype(float)
    y[::7] = np.nan
    model = estimator.set_params(calibration=calibration, cv=3).fit(X, y)
    p = model.predict_proba(X)
    assert p.shape == (len(X), n_classes)
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert model.score(X, y) > 0.75


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
def test_calibrated_predictions_are_those_with_probability_above_one_half(
    estimator, data, calibration
):
    X, Y, _ = data
    model = estimator.set_params(calibration=calibration, cv=3).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X) == 1, model.predict_proba(X) > 0.5)
    # A border for the scores overrides the probabilities.
    model.set_params(threshold=0.2).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X) == 1, model.decision_function(X) > 0.2)


def rare_labels(n, rng):
    """Rows, and labels of known probability, mostly below one half and steep in X."""
    X = rng.standard_normal((n, 4))
    logits = 4 * X @ np.array([[1, 0.5, 0], [0, 1, 0.5], [0.5, 0, 1], [0, 0, 0.5]]) - 4
    p = 1 / (1 + np.exp(-logits))
    return X, (rng.uniform(size=p.shape) < p).astype(float)


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
def test_calibration_lowers_the_brier_score_on_held_out_rows(estimator, calibration):
    rng = np.random.default_rng(0)
    X, Y = rare_labels(300, rng)
    X_test, Y_test = rare_labels(2000, rng)
    Y[rng.uniform(size=Y.shape) < 0.3] = np.nan

    def brier(model):
        return np.mean((model.fit(X, Y).predict_proba(X_test) - Y_test) ** 2)

    estimator.set_params(alpha=1.0)
    plain = brier(clone(estimator))
    calibrated = brier(estimator.set_params(calibration=calibration))
    # Measured with seeds 0 to 2: 0.095 to 0.099 plain and 0.063 to 0.068 calibrated for the linear
    # models, 0.086 to 0.089 and 0.072 to 0.078 for the kernel.
    assert calibrated < (0.95 if "kernel" in estimator.get_params() else 0.8) * plain


# --------------------------------------------------------------------- inside scikit-learn


def poisoned(Y, truth):
    """Labels that nobody can fit or score unless the mask arrives too."""
    return np.where(np.isnan(Y), 7, truth), ~np.isnan(Y)


def test_label_mask_reaches_the_last_step_of_a_pipeline_without_routing(estimator, data):
    X, Y, truth = data
    bad, mask = poisoned(Y, truth)
    pipe = Pipeline([("scale", StandardScaler()), ("clf", estimator)])
    found = pipe.fit(X, bad, clf__label_mask=mask).decision_function(X)
    np.testing.assert_array_equal(found, pipe.fit(X, Y).decision_function(X))
    with pytest.raises(ValueError, match="contains 7"):
        pipe.fit(X, bad)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_label_mask_is_routed_through_a_pipeline(estimator, data):
    X, Y, truth = data
    bad, mask = poisoned(Y, truth)
    estimator.set_fit_request(label_mask=True).set_score_request(label_mask=True)
    pipe = Pipeline([("scale", StandardScaler()), ("clf", estimator)])
    pipe.fit(X, bad, label_mask=mask)
    score = pipe.score(X, bad, label_mask=mask)
    assert score == pipe.fit(X, Y, label_mask=mask).score(X, Y, label_mask=mask)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("scoring", [None, "label_ranking_average_precision"])
@pytest.mark.parametrize("in_pipeline", [False, True])
def test_label_mask_is_routed_through_a_grid_search(estimator, data, scoring, in_pipeline):
    if (
        in_pipeline
        and scoring is None
        and parse_version(sklearn.__version__) < parse_version("1.7")
    ):
        pytest.skip("scikit-learn 1.6 does not hand metadata to the default score of a pipeline")
    X, Y, truth = data
    bad, mask = poisoned(Y, truth)
    estimator.set_fit_request(label_mask=True)
    if scoring is None:
        estimator.set_score_request(label_mask=True)
    else:
        scoring = get_scorer(scoring).set_score_request(label_mask=True)
    model, name = estimator, "alpha"
    if in_pipeline:
        model, name = Pipeline([("scale", StandardScaler()), ("clf", estimator)]), "clf__alpha"
    search = GridSearchCV(
        model,
        {name: [0.1, 10.0]},
        scoring=scoring,
        cv=MultilabelKFold(3, random_state=0),
        error_score="raise",
    )
    routed = search.fit(X, bad, label_mask=mask).cv_results_["mean_test_score"]
    plain = search.fit(X, Y, label_mask=mask).cv_results_["mean_test_score"]
    np.testing.assert_array_equal(routed, plain)
    assert np.isfinite(routed).all()


def test_grid_search_takes_nan_with_our_splitter_and_scorer(estimator, data):
    X, Y, _ = data
    search = GridSearchCV(
        estimator,
        {"alpha": [0.1, 100.0]},
        scoring=get_scorer("label_ranking_average_precision"),
        cv=MultilabelKFold(3, random_state=0),
        error_score="raise",
    ).fit(X, Y)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert scores[0] != scores[1]
    assert search.predict(X).shape == Y.shape


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
def test_grid_search_with_an_integer_cv_fails_in_scikit_learn_itself(estimator, data):
    # cv=5 makes check_cv ask type_of_target whether to stratify, and that refuses NaN before an
    # estimator is seen: nothing here can help, so the documentation says cv=MultilabelKFold(5), or
    # Y.astype(object), of which it asks nothing.
    X, Y, _ = data
    with pytest.raises(ValueError, match="contains NaN"):
        GridSearchCV(estimator, {"alpha": [1.0]}, cv=5).fit(X, Y)


def test_scikit_learns_own_folds_take_labels_as_objects(estimator, data):
    X, Y, _ = data
    values = {"alpha": [0.1, 100.0]}
    plain = GridSearchCV(estimator, values, cv=KFold(3), error_score="raise").fit(X, Y)
    loose = GridSearchCV(estimator, values, cv=3, error_score="raise").fit(X, Y.astype(object))
    np.testing.assert_array_equal(
        loose.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"]
    )
    np.testing.assert_array_equal(loose.decision_function(X), plain.decision_function(X))
    scores = cross_val_score(estimator, X, Y.astype(object), cv=3)
    np.testing.assert_array_equal(scores, cross_val_score(estimator, X, Y, cv=KFold(3)))


def test_cross_val_score_uses_the_estimators_own_score(estimator, data):
    X, Y, _ = data
    folds = list(MultilabelKFold(3, random_state=0).split(X, Y))
    expected = [clone(estimator).fit(X[a], Y[a]).score(X[b], Y[b]) for a, b in folds]
    np.testing.assert_allclose(cross_val_score(estimator, X, Y, cv=folds), expected)


def test_parameters_can_be_read_set_and_cloned(estimator, data):
    X, Y, _ = data
    changed = estimator.set_params(alpha=0.5, threshold="f1", missing_label=-1)
    assert changed is estimator
    assert estimator.get_params()["alpha"] == 0.5
    copy = clone(estimator.set_params(missing_label=np.nan).fit(X, Y))
    assert copy.get_params().keys() == estimator.get_params().keys()
    assert copy.alpha == 0.5
    assert not hasattr(copy, "classes_")
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        estimator.set_params(depth=3)


def test_fit_does_not_change_parameters(estimator, data):
    X, Y, _ = data
    before = repr(estimator.get_params())
    assert estimator.fit(X, Y) is estimator
    assert repr(estimator.get_params()) == before


def cauchy(A, B):
    return 1 / (1 + np.sum((A[:, None] - B[None]) ** 2, axis=2))


@pytest.mark.parametrize(
    "model",
    [
        *ESTIMATORS.values(),
        DM2LClassifier(kernel=cauchy),
        MaskedRidgeClassifier(calibration="isotonic", threshold="f1", cv=3),
        MaskedRidgeClassifier(calibration="sigmoid", cv=3),
    ],
    ids=[*ESTIMATORS, "callable kernel", "isotonic f1", "sigmoid"],
)
def test_a_pickled_model_predicts_the_same(model, data):
    X, Y, _ = data
    model = clone(model).fit(X, label_frame(Y))
    back = pickle.loads(pickle.dumps(model))
    for method in ("predict", "decision_function", "predict_proba"):
        np.testing.assert_array_equal(getattr(back, method)(X), getattr(model, method)(X))
    assert list(back.label_names_) == NAMES
    assert back.complete(X, label_frame(Y)).equals(model.complete(X, label_frame(Y)))


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (DM2LClassifier(), "DM2LClassifier()"),
        (DM2LClassifier(0.5, kernel="rbf"), "DM2LClassifier(kernel='rbf', lambda_d=0.5)"),
        (MaskedRidgeClassifier(2.0), "MaskedRidgeClassifier(alpha=2.0)"),
        (MaskedRidgeClassifier(missing_label=-1), "MaskedRidgeClassifier(missing_label=-1)"),
    ],
    ids=str,
)
def test_repr_shows_what_differs_from_the_defaults(model, text):
    assert repr(model) == text


# ------------------------------------------------------------------------------------ inputs


@pytest.mark.parametrize(
    "make", [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array, sp.csc_array, sp.coo_array]
)
@pytest.mark.parametrize("wide", [False, True], ids=["tall", "wide"])
def test_sparse_X_gives_the_same_scores_as_dense(estimator, data, make, wide):
    X, Y, _ = data
    X = np.where(np.abs(X) > 0.3, X, 0)
    if wide:
        X, Y = np.hstack([X, X**2, np.sin(X)])[:40], Y[:40, [0, 2, 3]]
        X = np.hstack([X, np.cos(X), X**3])
        assert X.shape[1] > X.shape[0]
    expected = clone(estimator).fit(X, Y).decision_function(X)
    model = estimator.fit(make(X), Y)
    np.testing.assert_allclose(model.decision_function(make(X)), expected, atol=1e-4)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-4)


def test_float32_X_gives_nearly_the_same_scores(estimator, data):
    X, Y, _ = data
    expected = clone(estimator).fit(X, Y).decision_function(X)
    found = estimator.fit(X.astype(np.float32), Y).decision_function(X.astype(np.float32))
    np.testing.assert_allclose(found, expected, atol=2e-3)
    assert (found != expected).any()


@pytest.mark.parametrize("value", [np.nan, np.inf], ids=["NaN", "infinity"])
@pytest.mark.parametrize("method", ["fit", "predict", "complete"])
def test_X_that_is_not_finite_is_refused_by_place(coupled, data, value, method):
    X, Y, _ = data
    bad = X.copy()
    bad[3, 2] = value
    coupled.fit(X, Y)
    what = "NaN" if value != value else "infinity"
    with pytest.raises(ValueError, match=rf"X has {what}.* in column 2, row 3\."):
        coupled.predict(bad) if method == "predict" else getattr(coupled, method)(bad, Y)


def test_another_number_of_rows_in_fit_is_refused_with_both(estimator, data):
    X, Y, _ = data
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples.*90.*80"):
        estimator.fit(X, Y[:80])


def test_another_number_of_features_is_refused_with_both(estimator, data):
    X, Y, _ = data
    with pytest.raises(ValueError, match=r"4 features.*expecting 6"):
        estimator.fit(X, Y).predict(X[:, :4])


@pytest.mark.parametrize("Y", [None, np.full((90, 2), np.nan)], ids=["None", "all missing"])
def test_fit_needs_labels(estimator, data, Y):
    with pytest.raises(ValueError, match=r"y is None|All labels in . are missing"):
        estimator.fit(data[0], Y)


BAD_PARAMETERS = [
    ("lambda_d", -1),
    ("lambda_d", "x"),
    ("lambda_d", np.nan),
    ("lambda_d", np.inf),
    ("alpha", "x"),
    ("alpha", -0.5),
    ("alpha", None),
    ("alpha", np.nan),
    ("kernel", "foo"),
    ("kernel", None),
    ("solver", "foo"),
    ("solver", None),
    ("gamma", "foo"),
    ("gamma", -1.0),
    ("max_iter", 0),
    ("max_iter", "many"),
    ("tol", -1),
    ("tol", None),
    ("missing_as", "foo"),
]


@pytest.mark.parametrize(("name", "value"), BAD_PARAMETERS, ids=str)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_bad_parameter_of_dm2l_is_refused_by_name_and_value(data, name, value, kernel):
    X, Y, _ = data
    model = DM2LClassifier(**({"kernel": kernel} | {name: value}))
    with pytest.raises(ValueError, match=name) as error:
        model.fit(X, Y)
    assert repr(value) in str(error.value)


@pytest.mark.parametrize("alpha", ["x", -1, None, np.inf])
def test_a_bad_ridge_is_refused_with_its_value(data, alpha):
    X, Y, _ = data
    with pytest.raises(ValueError, match=f"alpha.*got {alpha!r}"):
        MaskedRidgeClassifier(alpha=alpha).fit(X, Y)


# ---------------------------------------------------------------------------- how DM2L solves


def exact_objective(model, X, Y):
    """J of the design, section 3, from singular values; the model has a linear kernel or rbf."""
    T = parse_labels(Y).signs
    F = model.decision_function(X)
    penalty = (
        np.sum(model.coef_**2)
        if model.kernel == "linear"
        else np.sum(
            model.dual_coef_ * (rbf_kernel(model.X_fit_, gamma=model.gamma) @ model.dual_coef_)
        )
    )
    local = sum(np.linalg.norm(F[T[:, k] > 0], "nuc") for k in range(T.shape[1]))
    covered = np.linalg.norm(F[(T > 0).any(axis=1)], "nuc")
    loss = np.sum(np.where(T != 0, F - T, 0) ** 2)
    return 0.5 * loss + 0.5 * model.alpha * penalty + model.lambda_d * (local - covered)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize(
    "options",
    [{}, {"solver": "cccp"}, {"max_iter": 2}, {"lambda_d": 0.0}, {"tol": 1e-3}, {"tol": 1e-10}],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_objective_is_that_of_the_weights_that_are_kept(data, kernel, options):
    X, Y, _ = data
    settings = {"lambda_d": 1.0, "alpha": 1.0, "kernel": kernel, "gamma": 0.2} | options
    model = DM2LClassifier(**settings).fit(X, Y)
    assert model.objective_ == pytest.approx(exact_objective(model, X, Y), rel=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("tol", [1e-4, 1e-6, 1e-8])
def test_a_warm_start_at_the_solution_keeps_it(data, kernel, tol):
    X, Y, _ = data
    settings = {"kernel": kernel, "gamma": 0.2, "tol": tol, "warm_start": True}
    model = DM2LClassifier(1.0, 1.0, **settings).fit(X, Y)
    solution = exact_objective(model, X, Y)
    again = exact_objective(model.fit(X, Y), X, Y)
    assert model.objective_ == pytest.approx(again, rel=1e-6)
    assert again <= solution * (1 + 1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("solver", ["lbfgs", "cccp", "published"])
def test_the_objective_ends_no_higher_than_it_starts(data, kernel, solver):
    X, Y, _ = data
    model = DM2LClassifier(1.0, 1.0, kernel=kernel, solver=solver, max_iter=50)
    history = model.fit(X, Y).objective_history_
    assert len(history) >= 2
    assert history[-1] < history[0]
    assert model.n_iter_ == len(history) - 1
    assert model.objective_ <= history[0]


WARM = {"linear": {}, "kernel": {"kernel": "rbf", "gamma": 0.2}}


@pytest.mark.parametrize("options", WARM.values(), ids=WARM)
@pytest.mark.parametrize("lambda_d", [1.0, 1.05])
def test_a_warm_start_takes_fewer_iterations_to_the_same_objective(data, options, lambda_d):
    X, Y, _ = data
    warm = DM2LClassifier(1.0, 1.0, tol=1e-8, warm_start=True, **options).fit(X, Y)
    warm.set_params(lambda_d=lambda_d).fit(X, Y)
    cold = clone(warm).fit(X, Y)
    assert warm.n_iter_ < cold.n_iter_
    assert warm.objective_ == pytest.approx(cold.objective_, rel=1e-4)
    assert exact_objective(warm.set_params(gamma=0.2), X, Y) == pytest.approx(
        cold.objective_, rel=1e-4
    )


SHAPES = {
    "fewer rows": lambda X, Y: (X[:70], Y[:70]),
    "fewer labels": lambda X, Y: (X, Y[:, [0, 2]]),
    "fewer features": lambda X, Y: (X[:, :4], Y),
    "more features": lambda X, Y: (np.hstack([X, X**2]), Y),
    "more features than rows": lambda X, Y: (np.hstack([X**k for k in range(1, 20)]), Y),
}


@pytest.mark.parametrize("change", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("options", WARM.values(), ids=WARM)
def test_a_warm_start_after_other_shapes_is_a_cold_start(data, options, change):
    X, Y, _ = data
    model = DM2LClassifier(alpha=1.0, warm_start=True, **options).fit(X, Y)
    X, Y = change(X, Y)
    model.fit(X, Y)
    assert model.objective_ == pytest.approx(clone(model).fit(X, Y).objective_, rel=1e-4)


def test_without_warm_start_the_past_does_not_matter(data):
    X, Y, _ = data
    model = DM2LClassifier(lambda_d=5.0).fit(X, Y).set_params(lambda_d=0.3).fit(X, Y)
    np.testing.assert_array_equal(model.coef_, DM2LClassifier(lambda_d=0.3).fit(X, Y).coef_)


@pytest.mark.parametrize("solver", ["lbfgs", "cccp"])
def test_too_few_iterations_warn_and_say_what_to_do(data, solver):
    X, Y, _ = data
    with pytest.warns(
        ConvergenceWarning, match=rf"{solver}.*max_iter=1\b.*Raise max_iter"
    ) as record:
        model = DM2LClassifier(1.0, solver=solver, max_iter=1, tol=1e-9).fit(X, Y)
    assert record[0].filename == __file__
    assert model.n_iter_ == 1


def test_enough_iterations_do_not_warn(data):
    X, Y, _ = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = DM2LClassifier().fit(X, Y)
    assert model.n_iter_ < model.max_iter


@pytest.mark.parametrize("solver", ["lbfgs", "cccp", "published"])
def test_verbose_reports_the_objective_on_standard_error_only(data, solver, capsys):
    X, Y, _ = data
    model = DM2LClassifier(solver=solver, max_iter=50, verbose=10).fit(X, Y)
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == model.n_iter_
    assert f"{model.objective_history_[-1]:.6g}" in lines[-1]


def test_nothing_is_printed_by_default(estimator, data, capsys):
    X, Y, _ = data
    estimator.fit(X, Y).score(X, Y)
    assert capsys.readouterr() == ("", "")


# ------------------------------------------------------------------------------------ kernels


@pytest.fixture
def split(data):
    X, Y, _ = data
    return X[:70], Y[:70], X[70:], Y[70:]


@pytest.mark.parametrize("unobserved", [0, 15])
def test_a_precomputed_kernel_gives_the_same_model(split, unobserved):
    X, Y, X_test, Y_test = split
    Y[:unobserved] = np.nan
    named = DM2LClassifier(kernel="rbf", gamma=0.2).fit(X, Y)
    model = DM2LClassifier(kernel="precomputed").fit(rbf_kernel(X, gamma=0.2), Y)
    K = rbf_kernel(X_test, X, gamma=0.2)
    np.testing.assert_allclose(
        model.decision_function(K), named.decision_function(X_test), atol=1e-8
    )
    np.testing.assert_array_equal(model.complete(K, Y_test), named.complete(X_test, Y_test))


def test_a_precomputed_kernel_is_cut_on_both_sides_by_calibration_and_grid_search(split):
    X, Y, X_test, _ = split
    named = DM2LClassifier(kernel="rbf", gamma=0.2, calibration="sigmoid", cv=3)
    model = clone(named).set_params(kernel="precomputed")
    K, K_test = rbf_kernel(X, gamma=0.2), rbf_kernel(X_test, X, gamma=0.2)
    expected = clone(named).fit(X, Y).predict_proba(X_test)
    np.testing.assert_allclose(clone(model).fit(K, Y).predict_proba(K_test), expected, atol=1e-6)

    def search(estimator, inputs):
        grid = GridSearchCV(
            estimator.set_params(calibration=None),
            {"alpha": [0.1, 10.0]},
            cv=MultilabelKFold(3, random_state=0),
            error_score="raise",
        )
        return grid.fit(inputs, Y).cv_results_["mean_test_score"]

    np.testing.assert_allclose(search(model, K), search(named, X))


@pytest.mark.parametrize("unobserved", [0, 5])
def test_a_precomputed_kernel_that_is_not_square_is_refused_with_its_shape(split, unobserved):
    X, Y, _, _ = split
    Y = np.nan_to_num(Y)
    Y[:unobserved] = np.nan
    with pytest.raises(ValueError, match=r"square, got shape \(70, 60\)"):
        DM2LClassifier(kernel="precomputed").fit(rbf_kernel(X, X[:60]), Y)


def test_a_precomputed_kernel_of_other_training_rows_is_refused(split):
    X, Y, X_test, _ = split
    model = DM2LClassifier(kernel="precomputed").fit(rbf_kernel(X), Y)
    with pytest.raises(ValueError, match=r"20 features.*expecting 70"):
        model.predict(rbf_kernel(X_test))


def test_a_matrix_that_is_no_kernel_is_refused_with_the_reason(split):
    _, Y, _, _ = split
    with pytest.raises(ValueError, match="positive semidefinite"):
        DM2LClassifier(kernel="precomputed").fit(np.ones((70, 70)) - 2 * np.eye(70), Y)


def test_a_callable_kernel_is_used_for_fit_and_predict(split):
    X, Y, X_test, Y_test = split

    def laplace(A, B):
        return laplacian_kernel(A, B, gamma=0.1)

    named = DM2LClassifier(kernel="laplacian", gamma=0.1).fit(X, Y)
    model = DM2LClassifier(kernel=laplace).fit(X, Y)
    np.testing.assert_allclose(
        model.decision_function(X_test), named.decision_function(X_test), atol=1e-8
    )
    np.testing.assert_array_equal(model.complete(X_test, Y_test), named.complete(X_test, Y_test))


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("gamma", "value"),
    [("scale", lambda X: 1 / (X.shape[1] * X.var())), ("auto", lambda X: 1 / X.shape[1])],
    ids=["scale", "auto"],
)
def test_gamma_by_name_is_what_scikit_learn_means_by_it(split, gamma, value, sparse):
    X, Y, X_test, _ = split
    Y[np.isnan(Y).all(axis=1)] = 0  # rows that count for the model and for the variance
    expected = DM2LClassifier(kernel="rbf", gamma=value(X)).fit(X, Y).decision_function(X_test)
    model = DM2LClassifier(kernel="rbf", gamma=gamma).fit(sp.csr_array(X) if sparse else X, Y)
    np.testing.assert_allclose(model.decision_function(X_test), expected, atol=1e-5)


# -------------------------------------------------------------------------- what a model keeps


def arrays_within(value, seen=None):
    """Every array that ``value`` keeps alive, views' bases included."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield value
        yield from arrays_within(value.base, seen)
        children = value.ravel().tolist() if value.dtype == object else []
    elif sp.issparse(value):
        children = [value.data]
    elif isinstance(value, dict):
        children = list(value.values())
    elif isinstance(value, (list, tuple, set)):
        children = list(value)
    elif dataclasses.is_dataclass(value) or hasattr(value, "__dict__"):
        children = list(vars(value).values()) if not isinstance(value, type) else []
    else:
        children = []
    for child in children:
        yield from arrays_within(child, seen)


@pytest.mark.parametrize("options", [{}, {"calibration": "sigmoid", "cv": 3}], ids=str)
def test_a_fitted_model_does_not_keep_the_training_labels(estimator, data, options):
    X, Y, _ = data
    model = estimator.set_params(**options).fit(X, Y)
    found = list(arrays_within(model))
    assert any(a.ndim == 2 for a in found)  # the walk sees the weights at least
    kept = [a.shape for a in found if a.dtype == np.int8 and len(Y) in a.shape]
    assert kept == []
