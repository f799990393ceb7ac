"""Measures of a table are those of the library's evaluation."""

import numpy as np
import pytest

from dm2l.metrics import evaluate, label_ranking_average_precision
from dm2l.tables._measures import measure


@pytest.mark.parametrize("share", [1.0, 0.6, 0.05])
def test_measures_are_those_of_evaluate(share):
    rng = np.random.default_rng(1)
    Y = np.where(rng.random((60, 5)) < share, rng.random((60, 5)) < 0.3, np.nan)
    p = np.clip(rng.random(Y.shape) + 0.3 * np.nan_to_num(Y), 0, 1)
    found = measure(Y, 2 * p - 1, p, p > 0.6)
    predictions = (p > 0.6).astype(float)
    expected = evaluate(Y, 2 * p - 1, y_pred=predictions, convention="published")
    if share == 0.05:  # a standard error of 0.15
        assert np.isnan(found.pop("label_ranking_average_precision"))
    for key in found.keys() & {"label_auc", "label_ranking_average_precision", "f1_macro"}:
        assert found[key] == pytest.approx(expected[key].value, nan_ok=True)
    assert found["accuracy"] == pytest.approx(1 - expected["hamming_loss"].value)


@pytest.mark.parametrize(("rate", "told"), [(0.01, False), (0.5, True)])
def test_a_ranking_within_rows_is_told_only_if_it_can_be_estimated(rate, told):
    rng = np.random.default_rng(0)
    Y = (rng.random((80, 200)) < 0.1).astype(float)
    F = rng.normal(size=Y.shape) + Y
    p = 1 / (1 + np.exp(-F))
    shown = np.where(rng.random(Y.shape) < rate, Y, np.nan)
    found = measure(shown, F, p, p > 0.5)["label_ranking_average_precision"]
    assert (not np.isnan(found)) == told
    if told:
        assert found == pytest.approx(label_ranking_average_precision(Y, F), abs=0.05)
    assert not np.isnan(measure(shown, F, p, p > 0.5)["label_auc"])
