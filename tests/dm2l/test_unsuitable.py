"""Features that are no numbers are refused in a line that names column, value and remedy."""

from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from dm2l import AutoClassifier, DM2LClassifier, DM2LClassifierCV
from dm2l.baselines import (
    LEMLClassifier,
    MaskedOneVsRestClassifier,
    MaskedRidgeClassifier,
    ZeroFillClassifier,
)
from dm2l.extreme import ExtremeDM2LClassifier

Y = np.array([[1, 0], [0, 1], [1, np.nan], [0, 1]])


def frame(column):
    return pd.DataFrame({"mass": [1.0, 2.0, 3.0, 5.0], "other": column})


@pytest.mark.parametrize(
    ("X", "parts"),
    [
        (frame([1.0, np.nan, 2.0, np.nan]), ["'other', row 1 (2 such", "NaN", "SimpleImputer"]),
        (frame(["gas", "solid", "gas", "gas"]), ["'other'", "'gas' in row 0", "OneHotEncoder"]),
        (frame(pd.to_datetime(["2024-01-01"] * 4)), ["'other'", "dates", "days since"]),
        (frame([1.0, 2.0, np.inf, 0.0]), ["'other', row 2", "inf"]),
        (frame([None, 2, 3, 4]).astype({"other": "Int64"}), ["'other', row 0", "NaN"]),
        (np.array([[1, 2], [3, np.nan], [0, 1], [1, 0]]), ["column 1, row 1.", "NaN"]),
        (np.array([["a", "b"]] * 4), ["Column 0", "'a' in row 0"]),
        (sp.csr_array(np.array([[1, 2], [3, np.nan], [0, 1], [1, 0]])), ["NaN", "SimpleImputer"]),
    ],
)
@pytest.mark.parametrize("model", [DM2LClassifier(), MaskedRidgeClassifier()])
def test_the_message_names_column_value_and_remedy(model, X, parts):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the parts below are the match
        model.fit(X, Y)
    for part in parts:
        assert part in str(caught.value)
    assert "HistGradientBoosting" not in str(caught.value)


def test_new_rows_are_looked_at_in_the_same_way():
    model = DM2LClassifier().fit(frame([1.0, 2.0, 0.0, 1.0]), Y)
    with pytest.raises(ValueError, match=r"NaN in column 'other', row 3\."):
        model.predict(frame([1.0, 2.0, 0.0, np.nan]))


def test_other_refusals_stay_as_they_are():
    with pytest.raises(ValueError, match="2D array"):
        DM2LClassifier().fit([1.0, 2.0, 3.0, 4.0], Y)


@cache
def fitted(model):
    """A clone that was fitted to twenty rows."""
    rows = np.random.default_rng(0).standard_normal((20, 2))
    return clone(model).fit(rows, np.tile(np.nan_to_num(Y), (5, 1)))


RECORDS = np.zeros(4, dtype=[("mass", float), ("width", float)])
RAGGED = np.empty(4, dtype=object)
RAGGED[:] = [np.ones(2), np.ones(1), np.ones(2), np.ones(2)]


@pytest.mark.parametrize(
    ("make", "error", "parts"),
    [
        (lambda: [[1, 2], [3, 10**400], [0, 1], [1, 0]], ValueError, ["Column 1", "row 1"]),
        (lambda: [[1, 2], [3, -(10**5000)], [0, 1], [1, 0]], ValueError, ["float64", "logarithm"]),
        (lambda: [[Fraction(10**400), 1]] * 4, ValueError, ["Column 0", "row 0", "float64"]),
        (lambda: [[1, 2], [3], [1, 2], [1, 2]], ValueError, ["row 0 has 2, row 1 has 1", "Each"]),
        (lambda: [[1, 2], 3, [1, 2], [1, 2]], ValueError, ["row 1 is not a list"]),
        (lambda: RAGGED, ValueError, ["row 0 has 2, row 1 has 1"]),
        (lambda: [[[1, 2], 3]] * 4, TypeError, ["Column 0", "type list", "must be a number"]),
        (lambda: {"a": [1, 2, 3, 4]}, TypeError, ["X is a dict", "pandas.DataFrame(X)"]),
        (lambda: {"a": [1, 2]}.values(), TypeError, ["X is a dict_values"]),
        (lambda: {1, 2, 3, 4}, TypeError, ["X is a set"]),
        (lambda: [{"a": 1}] * 4, TypeError, ["Row 0 of X is a dict", "pandas.DataFrame(X)"]),
        (lambda: iter([[1, 2]] * 4), TypeError, ["X is a list_iterator", "list(X)"]),
        (lambda: ([i, 2] for i in range(4)), TypeError, ["X is a generator", "list(X)"]),
        (lambda: RECORDS, TypeError, ["'mass', 'width'", "structured_to_unstructured"]),
        (lambda: RECORDS.view(np.recarray), TypeError, ["'mass', 'width'"]),
        (lambda: [[object(), 1]] * 4, TypeError, ["Column 0", "type object", "row 0"]),
        (lambda: pd.Series([1.0, 2.0, 3.0, 4.0]), ValueError, ["2-dimensional container"]),
        (lambda: pd.Series([{}] * 4), ValueError, ["2-dimensional container", "to_frame()"]),
    ],
)
@pytest.mark.parametrize(
    "model",
    [
        DM2LClassifier(),
        DM2LClassifierCV(),
        AutoClassifier(effort="quick"),
        MaskedRidgeClassifier(),
        LEMLClassifier(),
        ExtremeDM2LClassifier(),
        MaskedOneVsRestClassifier(LogisticRegression()),
        MaskedOneVsRestClassifier(RandomForestClassifier(2)),
        ZeroFillClassifier(MaskedRidgeClassifier()),
        ZeroFillClassifier(RandomForestClassifier(2)),
    ],
)
def test_what_is_no_table_of_numbers_is_refused_with_a_remedy(model, make, error, parts):
    with pytest.raises(error) as caught:
        model.fit(make(), Y)
    for part in parts:
        assert part in str(caught.value)
    with pytest.raises(error) as caught:
        fitted(model).predict(make())
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("column", "error", "parts"),
    [
        ([1, 10**400, 2, 3], ValueError, ["Column 'other'", "row 1", "float64"]),
        ([1.0, {}, 2.0, 3.0], TypeError, ["Column 'other'", "type dict", "row 1"]),
        ([[1, 2], [1, 2], [3], 1], TypeError, ["Column 'other'", "type list", "must be a number"]),
        (["gas", 1, 2, 3], ValueError, ["Column 'other'", "'gas' in row 0"]),
    ],
)
@pytest.mark.parametrize(
    "model",
    [
        DM2LClassifier(),
        AutoClassifier(effort="quick"),
        MaskedOneVsRestClassifier(LogisticRegression()),
        ZeroFillClassifier(RandomForestClassifier(2)),
    ],
)
def test_a_column_of_objects_where_numbers_were_is_refused(model, column, error, parts):
    new = clone(model).fit(frame([1.0, 2.0, 0.0, 1.0]), Y)
    with pytest.raises(error) as caught:
        new.predict(frame(pd.Series(column, dtype=object)))
    for part in parts:
        assert part in str(caught.value)


def test_columns_of_any_objects_are_categories_of_the_automatic_classifier():
    column = np.empty(4, dtype=object)
    column[:] = [np.ones(2), {}, 10**400, {1}]
    rows = frame(column)
    assert AutoClassifier(effort="quick").fit(rows, Y).predict(rows).shape == Y.shape


def test_an_estimator_that_takes_texts_or_dictionaries_gets_them():
    rows = [{"mass": 1.0}, {"mass": 2.0}, {"mass": 0.0}, {"other": 3.0}]
    texts = ["some words", "words", "other", "some"]
    for step, X in ((DictVectorizer(), rows), (CountVectorizer(), texts)):
        model = MaskedOneVsRestClassifier(make_pipeline(step, LogisticRegression()))
        assert model.fit(X, Y).predict(X).shape == Y.shape
