"""A label matrix is built once, and every later call takes it without further arguments."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GridSearchCV

from dm2l import DM2LClassifier
from dm2l.labels import LabelMatrix
from dm2l.model_selection import MultilabelKFold, get_scorer

SIGNS = np.array([[1, -1, 0], [0, 1, -1], [-1, 0, 1]], dtype=np.int8)
Y = np.where(SIGNS == 0, np.nan, SIGNS > 0)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (Y, {}),
        (np.where(SIGNS == 0, -9, SIGNS > 0), {"missing_label": -9}),
        (np.where(SIGNS == 0, 1, SIGNS > 0), {"mask": SIGNS != 0}),
        (pd.DataFrame(Y, columns=list("abc")), {}),
        (sp.csr_array(SIGNS), {}),
        (sp.csr_array(SIGNS > 0), {"missing_as": "negative", "mask": SIGNS != 0}),
        (LabelMatrix.from_array(Y), {}),
        (LabelMatrix.from_array((SIGNS > 0).astype(float)), {"mask": SIGNS != 0}),
    ],
)
def test_every_container_gives_the_same_signs(given, options):
    np.testing.assert_array_equal(LabelMatrix.from_array(given, **options).signs, SIGNS)


def test_missing_as_is_kept_for_positive_unlabelled_data():
    assert LabelMatrix.from_array(Y).missing_as == "missing"
    assert LabelMatrix.from_array(Y, missing_as="unlabelled").missing_as == "unlabelled"


def test_weights_of_rows_and_of_entries_multiply_and_zero_means_missing():
    cells = np.arange(9.0).reshape(3, 3)
    labels = LabelMatrix.from_array((SIGNS > 0).astype(int), weights=cells)
    assert labels.signs[0, 0] == 0
    np.testing.assert_array_equal(labels.entries.weights, cells)
    again = labels.apply_weights([2, 1, 0.5], None)
    np.testing.assert_array_equal(again.entries.weights, cells * [[2], [1], [0.5]])
    by_row = LabelMatrix.from_array(Y, weights=[1, 2, 3])
    np.testing.assert_array_equal(by_row.entries.rows, [1, 2, 3])


def test_rows_of_a_matrix_keep_names_and_weights():
    labels = LabelMatrix.from_array(pd.DataFrame(Y, columns=list("abc")), weights=[1, 2, 3])
    part = labels[np.array([2, 0])]
    assert (len(part), part.shape, part.ndim, list(part.names)) == (2, (2, 3), 2, list("abc"))
    np.testing.assert_array_equal(part.signs, SIGNS[[2, 0]])
    np.testing.assert_array_equal(part.entries.rows, [3, 1])


def test_a_1d_y_keeps_its_shape():
    labels = LabelMatrix.from_array(["a", "b", "c"])
    assert (labels.shape, labels.ndim, labels.signs.shape) == ((3,), 1, (3, 3))


@pytest.mark.parametrize("given", [Y, np.where(np.isnan(Y), np.nan, 2 * Y - 1)])
def test_a_matrix_is_an_array_in_the_coding_of_the_input(given):
    np.testing.assert_array_equal(np.asarray(LabelMatrix.from_array(given)), given)


@pytest.mark.parametrize(
    "y", [["a", "b", "a"], ["a", "b", "c"], ["a", None, "c", "b"], ["a", None, "b"]]
)
def test_classes_are_an_array_of_classes_and_score_like_them(y):
    labels = LabelMatrix.from_array(np.array(y, dtype=object))
    assert np.asarray(labels).tolist() == y
    X = np.eye(len(y))
    assert DM2LClassifier().fit(X, labels).score(X, labels) == 1


def test_a_matrix_with_nothing_observed_is_refused_by_fit_only():
    nothing = LabelMatrix.from_array(np.full((3, 2), np.nan))
    with pytest.raises(ValueError, match=r"All labels in . are missing"):
        DM2LClassifier().fit(np.eye(3), nothing)


def test_fits_and_searches_take_a_matrix_in_place_of_marks_and_masks():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    coded = np.where(rng.random((60, 3)) < 0.3, -9, X[:, :3] > 0).astype(int)
    plain, weights = np.where(coded == -9, np.nan, coded), rng.random(60) + 0.5
    labels = LabelMatrix.from_array(coded, missing_label=-9, weights=weights)
    model = DM2LClassifier().fit(X, labels)
    expected = DM2LClassifier().fit(X, plain, sample_weight=weights)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    np.testing.assert_array_equal(model.complete(X, labels), expected.complete(X, plain))
    assert model.score(X, labels) == expected.score(X, plain)
    search = GridSearchCV(
        DM2LClassifier(),
        {"alpha": [1.0, 10.0]},
        cv=MultilabelKFold(2, random_state=0),
        scoring=get_scorer("label_auc"),
        error_score="raise",
    )
    found = search.fit(X, labels).cv_results_["mean_test_score"]
    assert np.isfinite(found).all()
