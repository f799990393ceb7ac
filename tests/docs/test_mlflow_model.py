"""The recipe for MLflow, with MLflow where it is, and else with what it asks of MLflow."""

import importlib.util
import runpy
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dm2l import DM2LClassifier
from dm2l.datasets import make_missing_multilabel
from dm2l.persistence import save_model

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "examples" / "deployment" / "mlflow_model.py"


@pytest.fixture
def fitted(tmp_path):
    """A model, its file, and rows to ask about."""
    X, Y = make_missing_multilabel(n_samples=100, random_state=0)
    X = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    Y = pd.DataFrame(Y, columns=[f"topic {k}" for k in range(Y.shape[1])])
    model = DM2LClassifier(kernel="rbf").fit(X, Y)
    save_model(model, tmp_path / "tags.dm2l")
    return model, tmp_path / "tags.dm2l", X[:7]


def check(model, X, answers):
    assert list(answers.columns) == list(model.label_names_)
    np.testing.assert_array_equal(answers, model.predict_proba(X))


def test_the_class_answers_as_the_model_does(fitted, monkeypatch):
    model, path, X = fitted
    given = []
    stand_in = types.SimpleNamespace(
        pyfunc=types.SimpleNamespace(PythonModel=object),
        models=types.SimpleNamespace(set_model=given.append),
    )
    monkeypatch.setitem(sys.modules, "mlflow", stand_in)
    runpy.run_path(str(RECIPE))
    (served,) = given
    context = types.SimpleNamespace(artifacts={"model": str(path)})
    served.load_context(context)
    check(model, X, served.predict(context, X))
    decided = served.predict(context, X, params={"method": "predict"})
    np.testing.assert_array_equal(decided, model.predict(X))
    with pytest.raises(ValueError, match="but must be predict_proba"):
        served.predict(context, X, params={"method": "fit"})
    with pytest.raises(ValueError, match="feature names"):
        served.predict(context, X.rename(columns={"x0": "y0"}))


@pytest.mark.skipif(
    importlib.util.find_spec("mlflow") is None, reason="mlflow is not installed: pip install mlflow"
)
@pytest.mark.filterwarnings("ignore")  # of MLflow and what it loads
def test_mlflow_itself_serves_a_model_file(fitted, tmp_path):
    import mlflow

    model, path, X = fitted
    mlflow.pyfunc.save_model(
        str(tmp_path / "served"),
        python_model=str(RECIPE),
        artifacts={"model": str(path)},
        pip_requirements=["dm2l"],
    )
    check(model, X, mlflow.pyfunc.load_model(str(tmp_path / "served")).predict(X))


def test_the_page_shows_the_class_as_it_is():
    page = (ROOT / "docs" / "recipes" / "deployment.md").read_text()
    assert f"```python\n{RECIPE.read_text()}```" in page
