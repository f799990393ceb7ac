"""The preparation of the command line in scikit-learn's pipelines."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from dm2l import AutoClassifier, DM2LClassifier
from dm2l.chemistry import MorganFingerprints
from dm2l.model_selection import MultilabelKFold, get_scorer
from dm2l.persistence import load_model, save_model
from dm2l.tables import FitOptions, fit_table, make_table_pipeline, table_from_frame
from dm2l.tables._preparation import TableColumns

OPTIONS = FitOptions("linear", 0.1, 1.0, cv=3)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 90
    mass = rng.normal(size=n)
    return pd.DataFrame(
        {
            "id": [f"c{i}" for i in range(n)],
            "mass": np.where(rng.random(n) < 0.2, np.nan, mass),
            "phase": np.where(mass > 0, "gas", "solid"),
            "acid": rng.choice(["yes", "no", ""], n),
            "tox_a": np.where(rng.random(n) < 0.3, np.nan, mass > 0),
            "tox_b": np.where(rng.random(n) < 0.3, np.nan, mass < 0.3),
        }
    )


@pytest.fixture(scope="module")
def parts(frame):
    labels = ["tox_a", "tox_b"]
    return frame.drop(columns=labels), frame[labels].to_numpy()


def test_it_learns_what_the_command_line_learns(frame, parts):
    X, Y = parts
    table = table_from_frame(frame, "tox_*")
    told = fit_table(table, OPTIONS, estimate_folds=0)
    classifier = clone(told.classifier)
    model = make_table_pipeline(X, classifier).fit(X, Y)
    expected = told.answer(told.inputs(table)[0]).scores
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-12)
    names = [feature.name for feature in told.features]
    assert model[0].get_feature_names_out().tolist() == names
    kinds = [use.kind for use in model[0].uses_]
    assert kinds == ["dropped", "numeric", "category", "boolean"]


def test_columns_may_come_in_another_order_and_with_others(parts):
    X, Y = parts
    model = make_table_pipeline(X, DM2LClassifier()).fit(X, Y)
    turned = X.iloc[:, ::-1].assign(more=1)
    assert np.array_equal(model.decision_function(turned), model.decision_function(X))
    with pytest.raises(ValueError, match=r"lacks 1 of the 3 columns.*'mass'"):
        model.predict(X.drop(columns="mass"))


def test_the_automatic_estimator_gets_gaps_and_codes(parts):
    X, Y = parts
    pipeline = make_table_pipeline(X, kinds={"phase": "category"}, drop=["acid"])
    assert isinstance(pipeline[-1], AutoClassifier)
    coded = pipeline[0].fit_transform(X)
    assert coded.shape[1] == 2
    assert np.isnan(coded[:, 0]).sum() == X["mass"].isna().sum()
    assert pipeline[-1].categorical_features == [1]
    pipeline.set_params(labels__effort="quick").fit(X, Y)
    assert pipeline.predict_proba(X).shape == Y.shape


def test_it_is_searched_cloned_and_saved(parts, tmp_path):
    X, Y = parts
    search = GridSearchCV(
        make_table_pipeline(X, DM2LClassifier()),
        {"labels__lambda_d": [0.0, 0.3]},
        cv=MultilabelKFold(3, random_state=0),
        scoring=get_scorer("label_auc"),
    ).fit(X, Y)
    save_model(search.best_estimator_, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert np.array_equal(again.decision_function(X), search.decision_function(X))


def test_what_is_lost_is_said_and_what_is_no_table_refused(parts):
    X, _ = parts
    columns = TableColumns(kinds={"mass": "numeric"}, drop=["acid"]).fit(X)
    odd = X.assign(mass=X["mass"].astype(object))
    odd.loc[4, "mass"] = "n.d."
    with pytest.warns(UserWarning, match="'n.d.' in row 4 is not a number"):
        columns.transform(odd)
    with pytest.raises(TypeError, match=r"pandas\.DataFrame, got ndarray"):
        columns.fit(X.to_numpy())
    with pytest.raises(ValueError, match="no column can be used as a feature"):
        make_table_pipeline(X[["id"]])


def test_rows_without_a_molecule_are_named_for_they_cannot_be_left_out():
    pytest.importorskip("rdkit", reason="molecules need the extra chem (RDKit)")
    X = pd.DataFrame({"smiles": ["CCO", "c1ccccc1", "CC=O", "C1CC"]})
    pipeline = make_table_pipeline(X, DM2LClassifier(kernel="tanimoto"))
    with pytest.raises(ValueError, match=r"'smiles'.*row 3.*chemistry\.is_valid_smiles"):
        pipeline.fit(X, [[0], [1], [0], [1]])
    pipeline.fit(X[:3], [[0], [1], [0]])
    bits = pipeline[:-1].transform(X[:3]).toarray()[:, :2048]
    assert np.array_equal(bits, MorganFingerprints().fit_transform(X[:3]).toarray())
