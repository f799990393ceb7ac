"""MaskedOneVsRestClassifier: scikit-learn's estimators on the observed rows of each label."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from dm2l import ConstantLabelWarning
from dm2l.baselines import MaskedOneVsRestClassifier
from dm2l.completion._errors import best_f1_thresholds, plain_probability
from dm2l.datasets import make_missing_multilabel
from dm2l.labels._matrix import parse_labels
from dm2l.model_selection import MultilabelKFold, cross_val_decision, get_scorer
from fussy import Fussy

NAMES = ["rain", "wind", "fog", "snow"]


@pytest.fixture
def data():
    """X, Y with NaN in a third of the entries and in ten whole rows, and the complete labels."""
    X, Y, truth = make_missing_multilabel(
        90, 6, 4, n_implications=2, random_state=3, return_truth=True
    )
    Y[:10] = np.nan
    return X, Y, truth


class Stump(ClassifierMixin, BaseEstimator):
    """A classifier that can do nothing but predict."""

    def fit(self, X, y):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.border_ = np.quantile(X[:, 0], counts[0] / len(y))
        return self

    def predict(self, X):
        return self.classes_[(X[:, 0] > self.border_).astype(int)]


# ---------------------------------------------------------------------------- against a loop


def by_hand(estimator, X, Y, new, score, targets=(0, 1)):
    """Scores of one estimator per column, each fitted where the column is not NaN."""
    columns = []
    for y in Y.T:
        seen = ~np.isnan(y)
        model = clone(estimator).fit(X[seen], np.array(targets)[y[seen].astype(int)])
        columns.append(score(model, new))
    return np.column_stack(columns)


def decision(model, X):
    return model.decision_function(X)


def probability(model, X):
    return 2 * model.predict_proba(X)[:, 1] - 1


LOOPS = {
    "decision_function": (LogisticRegression(C=3.0), decision, (0, 1)),
    "predict_proba": (RandomForestClassifier(7, max_depth=3, random_state=0), probability, (0, 1)),
    "predict": (Stump(), lambda model, X: 2 * model.predict(X) - 1, (0, 1)),
    "regressor": (Ridge(0.5), Ridge.predict, (-1.0, 1.0)),
    "pipeline": (make_pipeline(StandardScaler(), LinearSVC(random_state=0)), decision, (0, 1)),
    "calibrated": (CalibratedClassifierCV(RidgeClassifier(), cv=2), probability, (0, 1)),
    "stacking": (StackingClassifier([("ridge", RidgeClassifier())], cv=2), decision, (0, 1)),
    "search": (GridSearchCV(Ridge(), {"alpha": [1, 99]}, cv=2), GridSearchCV.predict, (-1.0, 1.0)),
}


@pytest.mark.parametrize(("estimator", "score", "targets"), LOOPS.values(), ids=LOOPS)
def test_scores_are_those_of_a_loop_over_labels_on_observed_rows(data, estimator, score, targets):
    X, Y, _ = data
    expected = by_hand(estimator, X, Y, X, score, targets)
    model = MaskedOneVsRestClassifier(estimator).fit(X, Y)
    np.testing.assert_array_equal(model.decision_function(X), expected)
    np.testing.assert_array_equal(model.predict(X), expected > 0)
    assert 0.05 < np.mean(expected > 0) < 0.95


def test_nan_in_X_reaches_an_estimator_that_takes_it(data):
    X, Y, _ = data
    X[np.random.default_rng(0).uniform(size=X.shape) < 0.2] = np.nan
    inner = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5, random_state=0)
    model = MaskedOneVsRestClassifier(inner).fit(X, Y)
    np.testing.assert_array_equal(model.decision_function(X), by_hand(inner, X, Y, X, decision))
    with pytest.raises(ValueError, match="X has NaN in column 0, row ") as error:
        MaskedOneVsRestClassifier(LogisticRegression()).fit(X, Y)
    n = int((~np.isnan(Y[:, 0])).sum())
    assert error.value.__notes__ == [f"while fitting label 'y0' on {n} observed rows"]


@pytest.mark.parametrize(
    "estimator", [RandomForestClassifier(7, random_state=0), Ridge()], ids=["forest", "ridge"]
)
def test_the_number_of_jobs_does_not_change_the_model(data, estimator):
    X, Y, _ = data
    one, two = (MaskedOneVsRestClassifier(estimator, n_jobs=n).fit(X, Y) for n in (1, 2))
    np.testing.assert_array_equal(two.decision_function(X), one.decision_function(X))
    np.testing.assert_array_equal(two.predict_proba(X), one.predict_proba(X))


def test_an_estimator_that_overwrites_its_X_spoils_neither_the_next_label_nor_ours(data):
    X, _, truth = data
    X += 5
    before = X.copy()
    expected = MaskedOneVsRestClassifier(LinearRegression()).fit(X, truth).decision_function(X)
    found = (
        MaskedOneVsRestClassifier(LinearRegression(copy_X=False)).fit(X, truth).decision_function(X)
    )
    np.testing.assert_allclose(found, expected, atol=1e-10)
    np.testing.assert_array_equal(X, before)


def test_the_estimator_passed_in_is_never_fitted(data):
    X, Y, _ = data
    inner = LogisticRegression()
    model = MaskedOneVsRestClassifier(inner).fit(X, Y)
    assert model.estimator is inner
    with pytest.raises(NotFittedError):
        check_is_fitted(inner)
    assert len({id(fitted) for fitted in model.estimators_}) == 4


# ------------------------------------------------------------------------------ kinds of X


WORDS = ["storm", "sun", "rain", "calm", "cold"]


@pytest.fixture
def documents():
    """Texts, and labels with holes that say which of three words a text has."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, 3)) for _ in range(80)]
    truth = np.array([[word in text for word in WORDS[:3]] for text in texts], dtype=float)
    return texts, np.where(rng.uniform(size=truth.shape) < 0.3, np.nan, truth), truth


TEXTS = {
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "objects": lambda texts: np.array(texts, dtype=object),
    "series": lambda texts: pd.Series(texts, index=range(100, 100 + len(texts))),
}


@pytest.mark.parametrize("container", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize(
    "options", [{}, {"threshold": "f1", "cv": 3}, {"calibration": "sigmoid", "cv": 3}], ids=str
)
def test_texts_go_through_a_pipeline_whatever_holds_them(documents, container, options):
    texts, Y, truth = documents
    model = MaskedOneVsRestClassifier(
        make_pipeline(TfidfVectorizer(), LogisticRegression(C=100)), **options
    )
    model.fit(container(texts), Y)
    np.testing.assert_array_equal(model.predict(container(texts)), truth)
    np.testing.assert_array_equal(model.complete(container(texts), Y), truth)
    assert model.score(container(texts), Y) == 1
    assert model.predict_proba(container(texts)).shape == truth.shape
    assert not hasattr(model, "n_features_in_")


def test_dicts_go_through_a_pipeline(documents):
    texts, Y, truth = documents
    X = [dict.fromkeys(text.split(), 1) for text in texts]
    inner = make_pipeline(DictVectorizer(), LogisticRegression(C=100))
    np.testing.assert_array_equal(MaskedOneVsRestClassifier(inner).fit(X, Y).predict(X), truth)


def test_a_polars_frame_gives_the_scores_of_an_array(data):
    X, Y, _ = data
    frame = pl.DataFrame(X, schema=list("abcdef"))
    model = MaskedOneVsRestClassifier(Ridge(), threshold="f1", cv=3)
    expected = clone(model).fit(X, Y)
    model.fit(frame, Y)
    np.testing.assert_allclose(model.decision_function(frame), expected.decision_function(X))
    np.testing.assert_allclose(model.thresholds_, expected.thresholds_)
    assert list(model.feature_names_in_) == list("abcdef")


def test_a_frame_of_text_and_numbers_goes_through_a_column_transformer(data):
    X, Y, _ = data
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame["g"] = pd.Series(np.where(X[:, 0] > 0, "high", "low"), dtype=object)
    encode = make_column_transformer((OneHotEncoder(), ["g"]), ("passthrough", ["b", "c"]))
    model = MaskedOneVsRestClassifier(make_pipeline(encode, Ridge()), threshold="f1", cv=3).fit(
        frame, Y
    )
    numbers = np.column_stack([X[:, 0] > 0, X[:, 0] <= 0, X[:, 1:3]])
    expected = by_hand(Ridge(), numbers, Y, numbers, Ridge.predict, (-1.0, 1.0))
    np.testing.assert_allclose(model.decision_function(frame), expected, atol=1e-10)
    assert list(model.feature_names_in_) == list("abcdefg")
    assert model.n_features_in_ == 7
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"g": "h"}))


@pytest.mark.parametrize(
    "make", [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array, sp.coo_array, sp.dia_array]
)
@pytest.mark.parametrize("options", [{}, {"calibration": "sigmoid", "cv": 3}], ids=str)
def test_sparse_X_of_every_format_gives_the_probabilities_of_dense(data, make, options):
    X, Y, _ = data
    X = np.where(np.abs(X) > 0.3, X, 0)
    model = MaskedOneVsRestClassifier(
        DecisionTreeClassifier(max_depth=2, random_state=0), **options
    )
    expected = clone(model).fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(model.fit(make(X), Y).predict_proba(make(X)), expected)


@pytest.mark.parametrize("options", [{}, {"threshold": "f1"}, {"calibration": "isotonic"}], ids=str)
@pytest.mark.parametrize("container", [np.array, pd.DataFrame, np.ndarray.tolist])
def test_a_kernel_matrix_gives_what_its_kernel_gives(data, options, container):
    X, Y, _ = data
    plain = MaskedOneVsRestClassifier(SVC(gamma=0.2), cv=3, **options).fit(X, Y)
    K, new = container(rbf_kernel(X, gamma=0.2)), container(rbf_kernel(X[5:40], X, gamma=0.2))
    model = MaskedOneVsRestClassifier(SVC(kernel="precomputed"), cv=3, **options).fit(K, Y)
    np.testing.assert_allclose(
        model.decision_function(new), plain.decision_function(X[5:40]), atol=1e-8
    )
    np.testing.assert_allclose(model.predict_proba(new), plain.predict_proba(X[5:40]), atol=1e-8)
    np.testing.assert_allclose(model.thresholds_, plain.thresholds_, atol=1e-8)


def test_a_kernel_matrix_that_is_not_square_is_refused(data):
    X, Y, _ = data
    with pytest.raises(ValueError, match=r"must be square, got shape \(90, 6\)"):
        MaskedOneVsRestClassifier(SVC(kernel="precomputed")).fit(X, Y)


def test_tags_follow_the_estimator():
    for inner in (
        LogisticRegression(),
        HistGradientBoostingClassifier(),
        SVC(kernel="precomputed"),
    ):
        tags, own = get_tags(MaskedOneVsRestClassifier(inner)), get_tags(inner)
        assert tags.input_tags == own.input_tags
        assert tags.classifier_tags.multi_label
        assert tags.estimator_type == "classifier"
    assert get_tags(MaskedOneVsRestClassifier(Ridge())).estimator_type == "classifier"
    assert get_tags(MaskedOneVsRestClassifier(MultinomialNB())).classifier_tags.poor_score


def test_number_of_features_is_checked_and_forgotten_by_a_refit_on_texts(data, documents):
    X, Y, _ = data
    texts, Y_texts, _ = documents
    model = MaskedOneVsRestClassifier(LogisticRegression()).fit(X, Y)
    with pytest.raises(
        ValueError, match="X has 5 features, but MaskedOneVsRestClassifier is expecting 6"
    ):
        model.predict(X[:, :5])
    model.set_params(estimator=make_pipeline(TfidfVectorizer(), LogisticRegression()))
    model.fit(texts, Y_texts)
    assert not hasattr(model, "n_features_in_")
    assert model.predict(texts[:2]).shape == (2, 3)


@pytest.mark.parametrize("empty", [[], np.empty((0, 6)), sp.csr_array((0, 6))], ids=type)
def test_no_rows_are_refused(data, empty):
    X, Y, _ = data
    model = MaskedOneVsRestClassifier(LogisticRegression()).fit(X, Y)
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        model.predict(empty)
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        model.fit(empty, Y[:0])


# ------------------------------------------------------------- probabilities and thresholds


@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(C=3.0), KNeighborsClassifier(4), SVC(kernel="linear")],
    ids=["logistic", "neighbours", "no probability"],
)
def test_probabilities_are_the_estimators_own_where_it_has_them(data, estimator):
    X, Y, _ = data
    model = MaskedOneVsRestClassifier(estimator).fit(X, Y)
    if hasattr(estimator, "predict_proba"):
        expected = by_hand(estimator, X, Y, X, lambda m, new: m.predict_proba(new)[:, 1])
        # Without the estimator's own they would be far off, whatever its scores are.
        assert np.abs(expected - plain_probability(model.decision_function(X))).max() > 0.1
    else:
        expected = plain_probability(model.decision_function(X))
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=0, atol=1e-15)


def test_an_estimator_that_says_0_or_1_is_taken_at_its_word(data):
    X, Y, _ = data
    p = MaskedOneVsRestClassifier(DecisionTreeClassifier(random_state=0)).fit(X, Y).predict_proba(X)
    assert set(np.unique(p)) == {0.0, 1.0}


@pytest.mark.parametrize("estimator", [Ridge(), LinearSVC(random_state=0)], ids=["ridge", "svm"])
def test_scores_without_probabilities_go_through_the_plain_link(data, estimator):
    X, Y, _ = data
    model = MaskedOneVsRestClassifier(estimator).fit(X, Y)
    expected = plain_probability(model.decision_function(X))
    np.testing.assert_array_equal(model.predict_proba(X), expected)


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
def test_calibration_replaces_the_estimators_own_probabilities(data, calibration):
    X, Y, _ = data
    inner = LogisticRegression(C=100.0)
    own = MaskedOneVsRestClassifier(inner).fit(X, Y).predict_proba(X)
    model = MaskedOneVsRestClassifier(inner, calibration=calibration, cv=3).fit(X, Y)
    p = model.predict_proba(X)
    assert np.abs(p - own).max() > 0.05
    np.testing.assert_array_equal(model.predict(X) == 1, p > 0.5)
    scores = model.decision_function(X)
    for k in range(4):
        assert (np.diff(p[np.argsort(scores[:, k]), k]) >= -1e-12).all()


def test_the_f1_threshold_is_the_best_on_out_of_fold_scores(data):
    X, Y, _ = data
    inner = LogisticRegression()
    seen = ~np.isnan(Y).all(axis=1)  # rows with nothing observed are in no fold
    scores = cross_val_decision(MaskedOneVsRestClassifier(inner), X[seen], Y[seen], cv=KFold(3))
    expected = best_f1_thresholds(scores, parse_labels(Y[seen]).signs, min_positives=1)
    model = MaskedOneVsRestClassifier(inner, threshold="f1", cv=KFold(3)).fit(X, Y)
    np.testing.assert_allclose(model.thresholds_, expected)
    assert (expected != 0).all()
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X) > expected)


# ------------------------------------------------------------------------------------ labels


SCALES = {
    "logistic": (LogisticRegression(), expit),
    "ridge": (Ridge(), plain_probability),
    "neighbours": (KNeighborsClassifier(), lambda scores: (1 + scores) / 2),
}


@pytest.mark.parametrize("value", [np.nan, 1, 0])
@pytest.mark.parametrize(("estimator", "link"), SCALES.values(), ids=SCALES)
def test_a_constant_label_has_no_estimator_and_leaves_the_others_alone(
    data, estimator, link, value
):
    X, Y, _ = data
    expected = MaskedOneVsRestClassifier(estimator).fit(X, Y)
    Y[:, 2] = value
    with pytest.warns(ConstantLabelWarning, match="column 2"):
        model = MaskedOneVsRestClassifier(estimator).fit(X, Y)
    assert [inner is None for inner in model.estimators_] == [False, False, True, False]
    observed = np.sum(~np.isnan(Y[:, 2]))
    rate = (np.nansum(Y[:, 2]) + 0.5) / (observed + 1)
    np.testing.assert_allclose(model.predict_proba(X)[:, 2], rate)
    np.testing.assert_allclose(link(model.decision_function(X)[:, 2]), rate)
    for method in ("decision_function", "predict_proba"):
        found = getattr(model, method)(X)
        others = getattr(expected, method)(X)
        np.testing.assert_array_equal(np.delete(found, 2, 1), np.delete(others, 2, 1))


def test_a_model_of_constants_fits_no_estimator(data):
    X, Y, _ = data
    with pytest.warns(ConstantLabelWarning):
        model = MaskedOneVsRestClassifier(LogisticRegression()).fit(X, np.ones_like(Y))
    assert model.estimators_ == [None] * 4
    np.testing.assert_array_equal(model.predict(X), np.ones_like(Y))
    np.testing.assert_allclose(model.predict_proba(X), (len(Y) + 0.5) / (len(Y) + 1))


SETTINGS = {
    "scores": {},
    "f1": {"threshold": "f1", "cv": 3},
    "calibrated": {"calibration": "sigmoid", "cv": 3},
}


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(), RandomForestClassifier(5, random_state=0), Ridge()],
    ids=["logistic", "forest", "ridge"],
)
def test_labels_under_the_mask_are_never_read(data, estimator, options):
    X, Y, truth = data
    mask = ~np.isnan(Y)
    model = MaskedOneVsRestClassifier(estimator, **options).fit(X, truth, label_mask=mask)
    for hidden in (np.where(mask, truth, 1 - truth), np.where(mask, truth, 7), Y):
        other = clone(model).fit(X, hidden, label_mask=mask)
        np.testing.assert_array_equal(other.thresholds_, model.thresholds_)
        for method in ("predict", "decision_function", "predict_proba"):
            np.testing.assert_array_equal(getattr(other, method)(X), getattr(model, method)(X))


@pytest.mark.parametrize("calibration", [None, "sigmoid"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "estimator", [LogisticRegression(max_iter=1000), Ridge()], ids=["logistic", "ridge"]
)
def test_a_1d_y_with_holes_is_classes(estimator, n_classes, calibration):
    X, y = load_iris(return_X_y=True)
    use = y < n_classes
    names = np.array(["setosa", "versicolor", "virginica"], dtype=object)
    X, truth = X[use], names[y[use]]
    holes = truth.copy()
    holes[::4] = None
    model = MaskedOneVsRestClassifier(estimator, calibration=calibration, cv=3).fit(X, holes)
    assert list(model.classes_) == list(names[:n_classes])
    assert len(model.estimators_) == (1 if n_classes == 2 else 3)
    assert np.mean(model.predict(X) == truth) > 0.8
    p = model.predict_proba(X)
    assert p.shape == (len(X), n_classes)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert np.mean(model.classes_[p.argmax(axis=1)] == model.predict(X)) > 0.95


def test_classes_of_a_1d_y_are_compared_by_one_estimator_each():
    X, y = load_iris(return_X_y=True)
    inner = LogisticRegression(max_iter=1000)
    scores = by_hand(inner, X, np.eye(3)[y], X, decision)
    model = MaskedOneVsRestClassifier(inner).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), scores)
    np.testing.assert_array_equal(model.predict(X), scores.argmax(axis=1))


# ------------------------------------------------------------------------------------ errors


class NoPredict(BaseEstimator):
    def fit(self, X, y):
        return self


@pytest.mark.parametrize(
    ("estimator", "text"),
    [
        (LogisticRegression, r"instance, got the class LogisticRegression. .*LogisticRegression\("),
        (None, "classifier or regressor .* got None"),
        ("logistic", "classifier or regressor .* got 'logistic'"),
        (NoPredict(), r"got NoPredict\(\)"),
        (StandardScaler(), r"got StandardScaler\(\)"),
        (make_pipeline(StandardScaler()), r"got Pipeline\("),
        (KMeans(), r"got KMeans\(\)"),
        (IsolationForest(), r"got IsolationForest\(\)"),
    ],
    ids=str,
)
def test_what_is_no_classifier_or_regressor_is_refused_by_name(data, estimator, text):
    X, Y, _ = data
    with pytest.raises(TypeError, match=text):
        MaskedOneVsRestClassifier(estimator).fit(X, Y)


def test_an_estimator_outside_scikit_learns_classes_is_taken_as_a_classifier(data):
    class Duck:
        def get_params(self, deep=True):
            return {}

        def fit(self, X, y):
            self.seen_ = set(y.tolist())
            return self

        def predict(self, X):
            return (X[:, 0] > 0).astype(int)

    X, Y, _ = data
    model = MaskedOneVsRestClassifier(Duck()).fit(X, Y)
    assert all(duck.seen_ == {0, 1} for duck in model.estimators_)
    np.testing.assert_array_equal(model.decision_function(X)[:, 3], np.where(X[:, 0] > 0, 1, -1))


def rare_fog(X, n_positive):
    """Frequent labels beside fog, which has few positives and ten holes at the end."""
    Y = pd.DataFrame(X[:, :4] > 0, columns=NAMES).astype(float)
    Y["fog"] = np.isin(np.arange(90), np.arange(n_positive) * 80 // n_positive).astype(float)
    Y.loc[80:, "fog"] = np.nan
    return Y


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_inside_fit_keeps_its_type_and_says_which_label_failed(data, n_jobs):
    X, _, _ = data
    with pytest.raises(ArithmeticError, match="too few") as error:
        MaskedOneVsRestClassifier(Fussy(), n_jobs=n_jobs).fit(X, rare_fog(X, 8))
    assert error.value.__notes__ == ["while fitting label 'fog' on 80 observed rows"]


def test_an_error_inside_a_fold_says_which_label_failed(data):
    X, _, _ = data
    Y = rare_fog(X, 10)
    MaskedOneVsRestClassifier(Fussy()).fit(X, Y)
    with pytest.raises(ArithmeticError) as error:
        MaskedOneVsRestClassifier(
            Fussy(), threshold="f1", cv=[(np.arange(60), np.arange(60, 90))]
        ).fit(X, Y)
    assert error.value.__notes__ == ["while fitting label 'fog' on 60 observed rows"]


def test_methods_refuse_to_work_before_fit(data):
    X, _, _ = data
    for method in ("predict", "decision_function", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(MaskedOneVsRestClassifier(LogisticRegression()), method)(X)


# ---------------------------------------------------------------------- inside scikit-learn


def test_grid_search_over_a_parameter_of_the_estimator(data):
    X, Y, _ = data
    cv = MultilabelKFold(3, random_state=0)
    search = GridSearchCV(
        MaskedOneVsRestClassifier(LogisticRegression()),
        {"estimator__C": [1e-4, 1.0]},
        scoring=get_scorer("label_auc"),
        cv=cv,
        error_score="raise",
    ).fit(X, Y)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert scores[0] != scores[1]
    best = search.best_params_["estimator__C"]
    assert [inner.C for inner in search.best_estimator_.estimators_] == [best] * 4


def test_label_mask_is_routed_through_a_pipeline(data):
    X, Y, truth = data
    mask = ~np.isnan(Y)
    expected = MaskedOneVsRestClassifier(Ridge()).fit(StandardScaler().fit_transform(X), Y)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = MaskedOneVsRestClassifier(Ridge()).set_fit_request(label_mask=True)
        pipe = make_pipeline(StandardScaler(), inner)
        pipe.fit(X, np.where(mask, truth, 7), label_mask=mask)
    scaled = StandardScaler().fit_transform(X)
    np.testing.assert_array_equal(pipe.decision_function(X), expected.decision_function(scaled))


def test_a_clone_has_the_parameters_and_nothing_learnt(data):
    X, Y, _ = data
    model = MaskedOneVsRestClassifier(LogisticRegression(C=7), threshold=0.1, n_jobs=2).fit(X, Y)
    copy = clone(model)
    assert copy.get_params()["estimator__C"] == 7
    assert (copy.threshold, copy.n_jobs) == (0.1, 2)
    assert copy.estimator is not model.estimator
    assert not hasattr(copy, "estimators_")
    assert (
        " ".join(repr(model).split())
        == "MaskedOneVsRestClassifier(estimator=LogisticRegression(C=7), n_jobs=2, threshold=0.1)"
    )


@pytest.mark.parametrize(
    "model",
    [
        MaskedOneVsRestClassifier(
            RandomForestClassifier(5, random_state=0), calibration="sigmoid", cv=3
        ),
        MaskedOneVsRestClassifier(Ridge(), threshold="f1", cv=3),
        MaskedOneVsRestClassifier(make_pipeline(StandardScaler(), LogisticRegression())),
    ],
    ids=["forest", "ridge", "pipeline"],
)
def test_a_pickled_model_predicts_the_same(data, model):
    X, Y, _ = data
    model = clone(model).fit(X, Y)
    back = pickle.loads(pickle.dumps(model))
    for method in ("predict", "decision_function", "predict_proba"):
        np.testing.assert_array_equal(getattr(back, method)(X), getattr(model, method)(X))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_progress_and_number_of_jobs_reach_joblib(data, capfd, n_jobs):
    X, Y, _ = data
    MaskedOneVsRestClassifier(Ridge(), n_jobs=n_jobs).fit(X, Y)
    assert capfd.readouterr() == ("", "")
    MaskedOneVsRestClassifier(Ridge(), n_jobs=n_jobs, verbose=10).fit(X, Y)
    out, err = capfd.readouterr()
    assert out == ""
    assert f"[Parallel(n_jobs={n_jobs})]" in err


def test_no_more_jobs_than_labels_are_started(data, capfd):
    X, Y, _ = data
    MaskedOneVsRestClassifier(Ridge(), n_jobs=5, verbose=10).fit(X, Y[:, :1])
    assert "[Parallel(n_jobs=1)]" in capfd.readouterr().err
