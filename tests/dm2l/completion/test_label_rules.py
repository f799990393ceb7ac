"""Estimators with rules between labels: parameters, coherent answers, and files."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from dm2l import AutoClassifier, DM2LClassifier, DM2LClassifierCV
from dm2l.baselines import LEMLClassifier, MaskedOneVsRestClassifier, MaskedRidgeClassifier
from dm2l.deployment import to_onnx
from dm2l.labels import LabelRules
from dm2l.persistence import load_model, save_model

NAMES = ["animal", "reptile", "snake", "mammal", "small", "large"]
RULES = LabelRules(
    [("snake", "reptile"), ("reptile", "animal"), ("mammal", "animal")],
    [("reptile", "mammal")],
    exactly_one=[("small", "large")],
)


def labelled(n=120, observed=0.6, seed=0):
    """Features, complete labels that obey RULES, and the same with missing entries."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    Z = X[:, :4] + 0.7 * rng.normal(size=(n, 4))
    animal = Z[:, 0] > -0.5
    reptile, mammal = animal & (Z[:, 1] > 0.3), animal & (Z[:, 1] < -0.3)
    parts = [animal, reptile, reptile & (Z[:, 2] > 0), mammal, Z[:, 3] > 0, Z[:, 3] <= 0]
    truth = np.column_stack(parts).astype(float)
    Y = np.where(rng.random(truth.shape) < observed, truth, np.nan)
    return X, pd.DataFrame(truth, columns=NAMES), pd.DataFrame(Y, columns=NAMES)


def test_rules_must_be_label_rules_for_the_labels():
    X, _, Y = labelled()
    with pytest.raises(TypeError, match="rules must be None or LabelRules, got 'a => b'"):
        DM2LClassifier(rules="a => b").fit(X, Y)
    with pytest.raises(ValueError, match=r"unknown label 'snakes'\. Did you mean 'snake'"):
        DM2LClassifier(rules=LabelRules([("snakes", "reptile")])).fit(X, Y)
    with pytest.raises(ValueError, match="Rules need a label matrix"):
        DM2LClassifier(rules=RULES).fit(X, Y["snake"].fillna(0).astype(int).to_numpy())


def test_label_names_of_the_rules_name_plain_arrays():
    X, _, Y = labelled()
    named = LabelRules(RULES.implications, label_names=NAMES)
    assert list(MaskedRidgeClassifier(rules=named).fit(X, Y.to_numpy()).label_names_) == NAMES
    other = MaskedRidgeClassifier(rules=LabelRules([("y2", "y1")])).fit(X, Y.to_numpy())
    assert list(other.label_names_) == [f"y{k}" for k in range(6)]


def test_a_model_with_rules_has_no_onnx_graph():
    X, _, Y = labelled()
    with pytest.raises(ValueError, match="ONNX does not support its rules"):
        to_onnx(DM2LClassifier(rules=RULES).fit(X, Y))


@pytest.mark.parametrize(
    "model",
    [
        DM2LClassifier(rules=RULES),
        DM2LClassifierCV([0.0], [1.0], cv=2, rules=RULES),
        AutoClassifier("quick", cv=2, rules=RULES, random_state=0),
        MaskedRidgeClassifier(rules=RULES, missing_as="unlabelled"),
        MaskedOneVsRestClassifier(LogisticRegression(), rules=RULES),
        LEMLClassifier(rules=RULES),
    ],
    ids=lambda model: type(model).__name__,
)
def test_models_with_rules_are_saved_and_loaded(model, tmp_path):
    X, _, Y = labelled()
    model = clone(model).fit(X, Y.where(Y == 1) if model.missing_as == "unlabelled" else Y)
    save_model(model, tmp_path / "model.dm2l")
    loaded = load_model(tmp_path / "model.dm2l")
    assert loaded.rules == RULES
    assert loaded._completer.rules.label_names == tuple(NAMES)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
