"""From a user's table to features."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from dm2l import AutoClassifier
from dm2l._auto._columns import CategoryEncoder, FeatureEncoder
from dm2l.metrics import label_auc
from dm2l.persistence import load_model, save_model

FRAME = pd.DataFrame(
    {
        "mass": [1.0, np.nan, 3.0, 4.0],
        "colour": pd.Categorical(["red", "blue", None, "red"]),
        "text": ["a", "b", "a", None],
        "flag": [True, False, True, True],
        "count": pd.array([1, None, 0, 1], dtype="Int8"),
    }
)


def test_categories_become_codes_and_what_is_missing_or_new_nan():
    columns = CategoryEncoder.of(FRAME)
    assert columns.categories == [None, ["blue", "red"], ["a", "b"], None, None]
    new = FRAME.assign(colour=["green", "blue", "red", "red"])
    coded = columns.encode(new)
    assert coded.dtype == np.float64
    assert np.array_equal(coded[:, 1], [np.nan, 0, 1, 1], equal_nan=True)
    assert np.array_equal(coded[:, 4], [1, np.nan, 0, 1], equal_nan=True)


@pytest.mark.parametrize("chosen", [[1], ["b"], [False, True]])
def test_numbers_can_be_categories_by_place_name_or_mask(chosen):
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [7.0, 5.0, 7.0]})
    assert CategoryEncoder.of(frame, chosen).categories == [None, [5.0, 7.0]]


def test_names_that_are_not_there_and_dates_are_refused_by_name():
    with pytest.raises(ValueError, match="'mass2'"):
        CategoryEncoder.of(FRAME, ["mass2"])
    with pytest.raises(ValueError, match=r"Column 'when' of X has the type datetime64"):
        CategoryEncoder.of(pd.DataFrame({"when": pd.to_datetime(["2020-01-01"])}))


def features(X, levels=None):
    X = np.asarray(X, dtype=np.float64)
    levels = np.zeros(X.shape[1], dtype=np.intp) if levels is None else np.array(levels)
    return FeatureEncoder.of(X, levels), X


def test_numbers_are_standardised_bits_are_not_and_holes_are_marked():
    found, X = features([[1.0, 0, 5], [np.nan, 1, 7], [3.0, np.nan, 9], [8.0, 1, 11]])
    F = found.transform(X)
    assert F.shape == (4, 5)
    assert F[:, 0].mean() == pytest.approx(0)
    assert F[:, 2].std() == pytest.approx(1)
    assert F[:, 1].tolist() == [0, 1, 1, 1]
    assert F[:, 3].tolist() == [0, 1, 0, 0]
    assert F[:, 4].tolist() == [0, 0, 1, 0]
    # A hole in a column that had none is filled all the same.
    assert np.isfinite(found.transform(np.full((1, 3), np.nan))).all()
    assert found.sources().tolist() == [0, 1, 2, 0, 1]


def test_a_category_has_a_column_a_value_and_none_for_others():
    found, X = features([[0.0, 2.5], [1.0, 3.5], [2.0, 4.5]], [3, 0])
    F = found.transform(np.array([[2.0, 3.5], [np.nan, 3.5]]))
    assert F[:, 1:].tolist() == [[0, 0, 1], [0, 0, 0]]
    assert found.sources().tolist() == [1, 0, 0, 0]
    assert found.transform(X).shape == (3, 4)


def test_bits_stay_what_they_are_dense_and_sparse():
    X = (np.random.default_rng(0).random((20, 30)) < 0.3).astype(float)
    found, _ = features(X)
    assert found.bits
    assert found.transform(X) is X
    sparse = FeatureEncoder.of(sp.csr_array(X), np.zeros(30, dtype=np.intp))
    assert sparse.bits
    assert (sparse.transform(sp.csr_array(X)) != sp.csr_array(X)).nnz == 0


def test_large_numbers_of_a_sparse_matrix_are_divided_by_the_largest():
    X = sp.csr_array([[0.0, 40.0, 1.0, 0.3], [0.0, 20.0, 0.0, 0.4]])
    found = FeatureEncoder.of(X, np.zeros(4, dtype=np.intp))
    assert not found.bits
    assert found.transform(X).toarray().tolist() == [[0, 1, 1, 0.3], [0, 0.5, 0, 0.4]]


def test_an_extreme_row_changes_no_feature_of_the_others():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=200), np.where(rng.random(200) < 0.7, 0, rng.random(200))])
    wild = np.vstack([X, [1e6, -1e6]])
    plain, mended = (features(rows)[0].transform(X) for rows in (X, wild))
    assert np.abs(plain - mended).max() < 0.5
    assert np.abs(features(wild)[0].transform(wild)).max() == 10
    np.testing.assert_allclose(features(X)[0].centre, X.mean(axis=0))


def test_an_extreme_row_does_not_decide_predictions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    Y = (X[:, :2] + 0.5 * rng.normal(size=(300, 2)) > 0).astype(float)
    fit = AutoClassifier("quick", cv=2, random_state=0).fit
    plain = label_auc(Y[200:], fit(X[:200], Y[:200]).predict_proba(X[200:]))
    wild = np.vstack([X[:200], np.full((1, 4), 1e5)])
    model = fit(wild, np.vstack([Y[:200], [[0, 0]]]))
    assert label_auc(Y[200:], model.predict_proba(X[200:])) > plain - 0.01


def test_one_slip_of_a_decimal_point_does_not_decide_distances():
    found, _ = features(np.random.default_rng(0).normal(size=(50, 2)))
    assert found.transform(np.array([[1e9, 0.0]])).max() == 10


def test_a_column_of_texts_is_read_as_a_category_with_a_warning_that_names_it():
    rng = np.random.default_rng(0)
    notes = [f"seen on day {day}, {rng.random():.3f}" for day in range(300)]
    frame = pd.DataFrame({"mass": rng.random(300), "notes": notes})
    with pytest.warns(
        UserWarning, match=r"'notes' of X .* 300 different .*'seen on day 0.*make_table_pip"
    ):
        CategoryEncoder.of(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CategoryEncoder.of(frame, ["notes"])  # as asked
        CategoryEncoder.of(frame.assign(notes=[f"ward {day % 250}" for day in range(300)])[::2])


def bits_and_numbers(n=80, bits=300, numbers=25):
    """Sparse bits, and dense numbers of which the first two decide the labels."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(n, numbers))
    X = sp.csr_array(np.hstack([rng.random((n, bits)) < 0.1, Z]).astype(np.float64))
    return X, (Z[:, :2] > 0).astype(np.float64)


def test_dense_numbers_beside_sparse_bits_are_found():
    X, _ = bits_and_numbers()
    found = FeatureEncoder.of(X, np.zeros(325, dtype=np.intp))
    assert found.bits
    assert found.numbers.tolist() == list(range(300, 325))
    few = FeatureEncoder.of(X[:, :310], np.zeros(310, dtype=np.intp))
    assert few.bits  # too few numbers for trees of their own
    assert few.numbers is None
    assert not FeatureEncoder.of(X[:, 290:], np.zeros(35, dtype=np.intp)).bits


def test_trees_use_the_dense_numbers_also_from_a_file(tmp_path):
    X, Y = bits_and_numbers()
    model = AutoClassifier("normal", cv=2, random_state=0).fit(X, Y)
    of_numbers = {name for name, inputs in model._inputs.items() if inputs == "numbers"}
    assert of_numbers
    assert of_numbers <= {"extra trees", "random forest", "boosted trees"}
    assert all(model.models_[name].n_features_in_ == 25 for name in of_numbers)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    model._features = replace(model._features, numbers=np.arange(301, 326))
    with pytest.raises(TypeError, match="do not match its features"):  # as in a file that is read
        save_model(model, tmp_path / "model")
