"""The questions name errors as users meet them."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from dm2l import DM2LClassifier
from dm2l.model_selection import MultilabelKFold

FAQ = Path(__file__).parents[2] / "docs" / "help" / "faq.md"


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
def test_the_error_of_an_integer_cv_stands_beside_its_remedy():
    X = np.random.default_rng(0).normal(size=(60, 3))
    Y = (X > 0).astype(float)
    Y[::4, 0] = np.nan
    with pytest.raises(ValueError, match="NaN") as error:
        cross_val_score(DM2LClassifier(), X, Y, cv=3)
    (section,) = [part for part in FAQ.read_text().split("###") if str(error.value) in part]
    assert "MultilabelKFold(5" in section
    assert (cross_val_score(DM2LClassifier(), X, Y, cv=MultilabelKFold(3)) > 0.8).all()
