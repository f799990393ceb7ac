"""Explanations of kernel models name the columns that determine a label."""

import numpy as np
import pandas as pd
import pytest

from dm2l.tables import FitOptions, explain_model, fit_table, table_from_frame


@pytest.mark.parametrize(("kernel", "n_bits"), [("rbf", 6), ("tanimoto", 6), ("tanimoto", 60)])
def test_an_explanation_names_the_columns_that_made_the_label(kernel, n_bits):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame((rng.random((200, n_bits)) < 0.4).astype(int)).add_prefix("bit_")
    if kernel == "rbf":
        frame["mass"] = rng.normal(size=200)
        frame["phase"] = rng.choice(["gas", "solid", "liquid"], 200)
    frame["tox_a"] = (frame["bit_0"] | frame["bit_1"]).astype(float)
    frame["tox_b"] = (frame["bit_2"] > frame["bit_0"]).astype(float)
    frame.loc[::5, "tox_a"] = np.nan
    table = table_from_frame(frame, "tox_*")
    model = fit_table(table, FitOptions(kernel, 0.0, 0.5), estimate_folds=0)
    lines: list[str] = []
    first, second = explain_model(model, top=100, tell=lines.append)
    assert {name for name, _ in first.features[:2]} == {"bit_0", "bit_1"}
    assert {name for name, _ in second.features[:2]} == {"bit_0", "bit_2"}
    if kernel == "rbf":
        assert {"mass", "phase"} <= {name for name, _ in first.features}
    assert lines == [f"shuffling column 1 of {min(len(frame.columns) - 2, 40)}"]
    only = explain_model(model, "tox_b")
    assert [name for name, _ in only[0].features[:2]] == [name for name, _ in second.features[:2]]
