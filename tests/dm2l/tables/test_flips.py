"""What shuffled 0/1 columns do to a kernel model, against flips made one by one."""

import numpy as np
import pandas as pd
import pytest

from dm2l.tables import FitOptions, explain_model, fit_table, table_from_frame
from dm2l.tables._explanation import by_flipping, two_valued


@pytest.fixture(scope="module", params=["rbf", "tanimoto"])
def model(request):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame((rng.random((90, 6)) < 0.4).astype(int)).add_prefix("bit_")
    frame.loc[3] = 0
    frame.loc[4] = [1, 0, 0, 0, 0, 0]
    if request.param == "rbf":
        frame["mass"] = rng.normal(size=90)
        frame["phase"] = rng.choice(["gas", "solid", "liquid"], 90)
    frame["tox_a"] = (frame["bit_0"] | frame["bit_1"]).astype(float)
    frame["tox_b"] = (frame["bit_2"] > frame["bit_0"]).astype(float)
    frame.loc[::5, "tox_a"] = np.nan
    table = table_from_frame(frame, "tox_*")
    return fit_table(table, FitOptions(request.param, 0.0, 0.5), estimate_folds=0)


def test_flips_of_all_columns_at_once_are_those_one_by_one(model):
    classifier = model.classifier
    X, sources = classifier.X_fit_[:40], [feature.column for feature in model.features]
    bits = two_valued(classifier, sources)
    assert [sources[i] for i in bits] == [f"bit_{j}" for j in range(6)]
    found = by_flipping(classifier, X, bits, [0, 1], None)
    scores = classifier.decision_function(X)
    for j, place in enumerate(bits):
        low, high = np.unique(classifier.X_fit_[:, place])
        assert (low, high) == (0, 1)  # not of unit variance
        # A shuffle gives a row the value of any of them.
        squares = np.zeros(2)
        for value in X[:, place]:
            other = X.copy()
            other[:, place] = value
            squares += ((classifier.decision_function(other) - scores) ** 2).mean(axis=0)
        np.testing.assert_allclose(found[:, j], np.sqrt(squares / len(X)), rtol=1e-9)


def test_an_explanation_names_the_columns_that_made_the_label(model):
    lines = []
    first, second = explain_model(model, tell=lines.append)
    assert {name for name, _ in first.features[:2]} == {"bit_0", "bit_1"}
    assert {name for name, _ in second.features[:2]} == {"bit_0", "bit_2"}
    assert lines[0].startswith("flipping the 0/1 columns for label 1 of 2")
    if model.settings.kernel == "rbf":
        assert {"mass", "phase"} <= {name for name, _ in first.features}
        assert lines[-1] == "shuffling column 1 of 2"
    only = explain_model(model, "tox_b")
    assert only[0].features[:3] == second.features[:3]
