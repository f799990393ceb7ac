"""Measures of a table are those of the library's evaluation."""

import numpy as np
import pytest

from dm2l.metrics import evaluate
from dm2l.tables._measures import measure


@pytest.mark.parametrize("share", [1.0, 0.6, 0.05])
def test_measures_are_those_of_evaluate(share):
    rng = np.random.default_rng(1)
    Y = np.where(rng.random((60, 5)) < share, rng.random((60, 5)) < 0.3, np.nan)
    p = np.clip(rng.random(Y.shape) + 0.3 * np.nan_to_num(Y), 0, 1)
    found = measure(Y, 2 * p - 1, p, p > 0.6)
    predictions = (p > 0.6).astype(float)
    expected = evaluate(Y, 2 * p - 1, y_pred=predictions, convention="published")
    for key in ("label_auc", "label_ranking_average_precision", "f1_macro"):
        assert found[key] == pytest.approx(expected[key].value, nan_ok=True)
    assert found["accuracy"] == pytest.approx(1 - expected["hamming_loss"].value)
