"""Features that are no numbers are refused in a line that names column, value and remedy."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from dm2l import DM2LClassifier
from dm2l.baselines import MaskedRidgeClassifier

Y = np.array([[1, 0], [0, 1], [1, np.nan], [0, 1]])


def frame(column):
    return pd.DataFrame({"mass": [1.0, 2.0, 3.0, 5.0], "other": column})


@pytest.mark.parametrize(
    ("X", "parts"),
    [
        (frame([1.0, np.nan, 2.0, np.nan]), ["'other', row 2 (2 such", "NaN", "SimpleImputer"]),
        (frame(["gas", "solid", "gas", "gas"]), ["'other'", "'gas' in row 1", "OneHotEncoder"]),
        (frame(pd.to_datetime(["2024-01-01"] * 4)), ["'other'", "dates", "days since"]),
        (frame([1.0, 2.0, np.inf, 0.0]), ["'other', row 3", "inf"]),
        (frame([None, 2, 3, 4]).astype({"other": "Int64"}), ["'other', row 1", "NaN"]),
        (np.array([[1, 2], [3, np.nan], [0, 1], [1, 0]]), ["column 1, row 2.", "NaN"]),
        (np.array([["a", "b"]] * 4), ["Column 0", "'a' in row 1"]),
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
    with pytest.raises(ValueError, match=r"NaN in column 'other', row 4\."):
        model.predict(frame([1.0, 2.0, 0.0, np.nan]))


def test_other_refusals_stay_as_they_are():
    with pytest.raises(ValueError, match="2D array"):
        DM2LClassifier().fit([1.0, 2.0, 3.0, 4.0], Y)
