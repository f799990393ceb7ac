"""Estimators of the user, and out-of-fold scores, as base models of AutoClassifier."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from dm2l import AutoClassifier, ScoreClassifier
from dm2l.baselines import MaskedRidgeClassifier
from dm2l.labels import ConstantLabelWarning
from dm2l.persistence import ModelFileError, load_model, save_model

SEEN = []


class Product(ClassifierMixin, BaseEstimator):
    """Knows that labels depend on the product of two columns, which no built-in model sees."""

    def fit(self, X, y):
        assert not np.isnan(y).any()
        SEEN.append((len(X), tuple(np.unique(y))))
        self.inner_ = LogisticRegression().fit((X[:, 0] * X[:, 1])[:, None], y)
        self.classes_ = self.inner_.classes_
        return self

    def predict(self, X):
        return self.inner_.predict((X[:, 0] * X[:, 1])[:, None])

    def predict_proba(self, X):
        return self.inner_.predict_proba((X[:, 0] * X[:, 1])[:, None])


def products(n=240, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    signal = 2 * X[:, [0]] * X[:, [1]] + X[:, 2:5]
    truth = (signal + 0.5 * rng.normal(size=signal.shape) > 0).astype(float)
    return X, np.where(rng.random(truth.shape) < 0.7, truth, np.nan), truth


@pytest.fixture(scope="module")
def fitted():
    X, Y, truth = products()
    SEEN.clear()
    Z = np.column_stack([np.ones(len(Y)), Y])
    models = [("product", Product()), ("bayes", GaussianNB()), ("ridge", MaskedRidgeClassifier())]
    with pytest.warns(ConstantLabelWarning):
        model = AutoClassifier("quick", models=models, random_state=0).fit(X, Z)
    return X, Z, truth, model, models


def test_a_model_of_the_user_is_cross_fitted_on_known_labels_and_weighted(fitted):
    X, _, truth, model, _ = fitted
    board = model.leaderboard_
    weight = dict(zip(board["model"], board["weight"], strict=True))
    assert {"product", "bayes"} <= set(board["model"])
    assert weight["product"] > 0.3
    assert (model.predict(X)[:, 1:] == truth).mean() > 0.8
    # Three folds and all rows, for three labels, of which some are missing everywhere.
    assert len(SEEN) == 12
    assert all(size < len(X) and classes == (0, 1) for size, classes in SEEN)


def test_a_file_with_a_class_of_the_user_loads_only_if_it_is_trusted(fitted, tmp_path):
    X, _, _, model, _ = fitted
    path = tmp_path / "model.dm2l"
    save_model(model, path)
    with pytest.raises(ModelFileError, match=r"not trusted: .*Product"):
        load_model(path)
    names = [f"{each.__module__}.{each.__name__}" for each in (Product, GaussianNB)]
    again = load_model(path, trusted=names)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_out_of_fold_scores_in_columns_of_x_join_the_stack():
    rng = np.random.default_rng(1)
    X, Y, truth = products(seed=1)
    scores = 2 * (2 * truth - 1) + rng.normal(size=truth.shape)
    Y[:, 1] = np.where(np.isnan(Y[:, 1]), np.nan, 0)  # cannot be learnt: its column is left out
    model = AutoClassifier(
        "quick", models=[("net", ScoreClassifier(columns=[6, 7, 8]))], random_state=0
    )
    both = np.hstack([X, scores])
    with pytest.warns(ConstantLabelWarning):
        model.fit(both, Y)
    board = model.leaderboard_
    auc = dict(zip(board["model"], board["label_auc"], strict=True))
    assert auc["net"] > 0.95
    # It is the calibration of the scores alone.
    alone = model.models_["net"]
    assert alone.columns == [6, 8]
    assert list(alone.stack_.scale.shape) == [1, 2]


def test_in_sample_scores_are_reported_by_the_ensemble_too():
    X, Y, _ = products()
    forest = RandomForestClassifier(15, random_state=0)
    scores = np.column_stack(
        [forest.fit(X[~np.isnan(y)], y[~np.isnan(y)]).predict_proba(X)[:, 1] for y in Y.T]
    )
    model = AutoClassifier("quick", models=[("net", ScoreClassifier(columns=[6, 7, 8]))])
    with pytest.warns(UserWarning, match="in-sample"):
        model.fit(np.hstack([X, scores]), Y)


def test_unsuitable_models_are_refused():
    X, Y, _ = products()
    with pytest.raises(TypeError, match="pairs"):
        AutoClassifier(models=[GaussianNB()]).fit(X, Y)
    with pytest.raises(ValueError, match="name 'random forest' is taken"):
        AutoClassifier(models=[("random forest", GaussianNB())]).fit(X, Y)
    with pytest.raises(ValueError, match="name 'a' is taken"):
        AutoClassifier(models=[("a", GaussianNB()), ("a", GaussianNB())]).fit(X, Y)
