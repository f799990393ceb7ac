"""Labels with holes in what scikit-learn, pandas, polars and joblib offer around an estimator."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dm2l import DM2LClassifier
from dm2l.baselines import MaskedRidgeClassifier
from dm2l.datasets import make_missing_multilabel
from dm2l.metrics import ranking_loss
from dm2l.model_selection import MultilabelKFold, get_scorer


@pytest.fixture
def data():
    X, Y, truth = make_missing_multilabel(90, 6, 4, rho=0.6, random_state=0, return_truth=True)
    assert np.isnan(Y).any()
    return X, Y, truth


@pytest.fixture
def mixed(data):
    """The same rows as a frame of numbers, a category and a text that carry the first features."""
    X, Y, _ = data
    frame = pd.DataFrame(X[:, :4], columns=list("abcd"))
    frame["side"] = np.where(X[:, 4] > 0, "left", "right")
    frame["note"] = np.where(X[:, 5] > 0, "bright and early", "late at night")
    labels = pd.DataFrame(Y, columns=["w", "x", "y", "z"])
    return frame, labels


def preparation():
    return ColumnTransformer(
        [
            ("numbers", StandardScaler(), make_column_selector(dtype_include="number")),
            ("side", OneHotEncoder(sparse_output=False), ["side"]),
            ("note", TfidfVectorizer(), "note"),
        ],
        sparse_threshold=0.0,
    )


def by_hand(Y, estimator, X, folds, scores=ranking_loss):
    """What cross-validation has to find: fitted to what is observed, scored on what is observed."""
    found = []
    for train, test in folds:
        model = clone(estimator).fit(X[train], Y[train])
        found.append(scores(Y[test], model.decision_function(X[test])))
    return found


def test_cross_validate_scores_observed_labels_only(data):
    X, Y, _ = data
    folds = list(MultilabelKFold(3, random_state=0).split(X, Y))
    scoring = get_scorer("neg_ranking_loss")
    found = cross_validate(DM2LClassifier(), X, Y, cv=folds, scoring=scoring)
    np.testing.assert_allclose(-found["test_score"], by_hand(Y, DM2LClassifier(), X, folds))


def test_grid_search_chooses_what_cross_validation_by_hand_chooses(data):
    X, Y, _ = data
    folds = list(MultilabelKFold(3, random_state=0).split(X, Y))
    grid = {"alpha": [0.1, 10.0, 1000.0]}
    search = GridSearchCV(
        MaskedRidgeClassifier(), grid, scoring=get_scorer("neg_ranking_loss"), cv=folds
    ).fit(X, Y)
    means = [
        np.mean(by_hand(Y, MaskedRidgeClassifier(alpha=alpha), X, folds)) for alpha in grid["alpha"]
    ]
    np.testing.assert_allclose(-search.cv_results_["mean_test_score"], means)
    assert search.best_params_["alpha"] == grid["alpha"][int(np.argmin(means))]


def test_a_pipeline_passes_holes_on_to_its_last_step(data):
    X, Y, _ = data
    pipeline = make_pipeline(StandardScaler(), DM2LClassifier()).fit(X, Y)
    alone = DM2LClassifier().fit(StandardScaler().fit_transform(X), Y)
    np.testing.assert_array_equal(
        pipeline.decision_function(X), alone.decision_function(StandardScaler().fit_transform(X))
    )


def test_a_column_transformer_prepares_numbers_categories_and_texts(mixed):
    frame, labels = mixed
    model = Pipeline([("prepare", preparation()), ("learn", DM2LClassifier())]).fit(frame, labels)
    plain = preparation().fit_transform(frame)
    np.testing.assert_array_equal(
        model.decision_function(frame),
        DM2LClassifier().fit(plain, labels).decision_function(plain),
    )
    assert list(model[-1].label_names_) == ["w", "x", "y", "z"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_hands_named_columns_to_the_estimator(mixed, library):
    frame, labels = mixed
    numbers = frame[list("abcd")]
    table = numbers if library == "pandas" else pl.from_pandas(numbers)
    scaler = StandardScaler().set_output(transform=library)
    model = make_pipeline(scaler, DM2LClassifier()).fit(table, labels)
    assert list(model[-1].feature_names_in_) == list("abcd")
    plain = make_pipeline(StandardScaler(), DM2LClassifier()).fit(numbers.to_numpy(), labels)
    np.testing.assert_allclose(
        model.decision_function(table), plain.decision_function(numbers.to_numpy()), atol=1e-12
    )


def test_frames_of_pandas_and_polars_are_read_alike(data):
    X, Y, _ = data
    names = [f"f{i}" for i in range(X.shape[1])]
    labels = [f"label {k}" for k in range(Y.shape[1])]
    nullable = pd.DataFrame(Y, columns=labels).astype("Int8")
    holes = [[None if np.isnan(v) else int(v) for v in row] for row in Y]
    frames = [
        (pd.DataFrame(X, columns=names), nullable),
        (pl.DataFrame(X, schema=names), pl.DataFrame(holes, schema=labels, orient="row")),
    ]
    plain = DM2LClassifier().fit(X, Y).decision_function(X)
    for rows, table in frames:
        model = DM2LClassifier().fit(rows, table)
        np.testing.assert_array_equal(model.decision_function(rows), plain)
        assert list(model.label_names_) == labels


def test_a_clone_of_a_fitted_estimator_is_unfitted_and_fits_alike(data):
    X, Y, _ = data
    model = DM2LClassifier(lambda_d=0.7).fit(X, Y)
    copy = clone(model)
    assert not hasattr(copy, "coef_")
    np.testing.assert_array_equal(copy.fit(X, Y).coef_, model.coef_)


def test_joblib_processes_give_what_one_process_gives(data):
    X, Y, _ = data
    models = [MaskedRidgeClassifier(alpha=alpha) for alpha in (0.1, 1.0, 10.0)]
    fitted = Parallel(n_jobs=2)(delayed(model.fit)(X, Y) for model in models)
    for model, came_back in zip(models, fitted, strict=True):
        assert not hasattr(model, "coef_")  # fitted elsewhere
        np.testing.assert_allclose(came_back.coef_, model.fit(X, Y).coef_, atol=1e-12)
    folds = list(MultilabelKFold(3, random_state=0).split(X, Y))
    scoring = get_scorer("label_ranking_average_precision")
    one, two = (
        cross_validate(DM2LClassifier(), X, Y, cv=folds, scoring=scoring, n_jobs=n)["test_score"]
        for n in (1, 2)
    )
    np.testing.assert_allclose(one, two, atol=1e-12)


def test_a_mask_is_routed_to_fit_and_score_through_cross_validation(data):
    X, Y, truth = data
    observed = ~np.isnan(Y)
    folds = list(MultilabelKFold(3, random_state=0).split(X, Y))

    def scored(labels, mask):
        model = DM2LClassifier().set_fit_request(label_mask=True)
        return cross_validate(
            model,
            X,
            labels,
            cv=folds,
            scoring=get_scorer("neg_ranking_loss").set_score_request(label_mask=True),
            params={"label_mask": mask},
            return_estimator=True,
        )

    with sklearn.config_context(enable_metadata_routing=True):
        routed = scored(truth, observed)
        flipped = scored(np.where(observed, truth, 1 - truth), observed)
    for fold, (train, test) in enumerate(folds):
        plain = DM2LClassifier().fit(X[train], Y[train])
        visible = get_scorer("neg_ranking_loss")(plain, X[test], Y[test])
        for found in (routed, flipped):
            np.testing.assert_array_equal(found["estimator"][fold].coef_, plain.coef_)
            assert found["test_score"][fold] == visible
