"""Files of models that earlier code has written load, and the models say what they said then."""

import csv
import json
import sys
import zipfile

import numpy as np
import pytest
import sklearn

from dm2l.cli import main
from dm2l.persistence import ModelFileError, load_model
from dm2l.tables import load_bundle
from stored_models import FOLDER, MODELS, answers

# Scalers and encoders in a file are of the scikit-learn that wrote it, which warns where it is
# another one; whether they still work is what is tested.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")

# Absolute. Weights come from the file, so that only the products of one prediction are rounded.
ROUNDING = 1e-10
# Of the numbers that `dm2l predict` writes, with six digits.
WRITTEN = 1.5e-6
# Files that are refused, and what the message says: these had a parameter that is gone.
REFUSED = {"glocal": "the attribute 'published', which is not allowed. .* fit the model again"}


@pytest.fixture(scope="module")
def stored():
    with np.load(FOLDER / "answers.npz") as file:
        return dict(file)


def test_every_model_is_stored(stored):
    assert {path.stem for path in FOLDER.glob("*.dm2l")} == {*MODELS, "table"}
    assert {key.partition(".")[0] for key in stored} == {*MODELS, "X"}


@pytest.mark.parametrize("name", MODELS)
def test_a_stored_model_loads_and_answers_as_it_did(name, stored):
    path = FOLDER / f"{name}.dm2l"
    if name == "one_vs_rest" and _release(sklearn.__version__) < _release(_written_by(path)):
        pytest.skip("a LogisticRegression lacks attributes that older ones of scikit-learn want")
    if name in REFUSED:
        with pytest.raises(ModelFileError, match=REFUSED[name]):
            load_model(path)
        return
    model = load_model(path)
    found = answers(model, stored["X"])
    expected = {key: value for key, value in stored.items() if key.startswith(f"{name}.")}
    assert expected
    for key, array in expected.items():
        value = found[key.removeprefix(f"{name}.")]
        if array.dtype.kind == "f":
            np.testing.assert_allclose(value, array, rtol=0, atol=ROUNDING, err_msg=key)
        else:
            np.testing.assert_array_equal(value, array, err_msg=key)


def test_predictions_of_a_stored_model_of_a_table_are_those_stored(tmp_path, monkeypatch):
    path = tmp_path / "predicted.csv"
    arguments = ["predict", FOLDER / "table.dm2l", FOLDER / "table.csv", "-o", path]
    monkeypatch.setattr(sys, "argv", ["dm2l", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    (header, *rows), (names, *expected) = (_cells(p) for p in (path, FOLDER / "predicted.csv"))
    assert header == names
    np.testing.assert_allclose(
        np.array(rows, float), np.array(expected, float), rtol=0, atol=WRITTEN
    )


def test_a_stored_model_of_a_table_knows_what_it_was_fitted_to():
    model = load_bundle(FOLDER / "table.dm2l")
    kinds = {use.name: use.kind for use in model.uses if use.used}
    assert kinds["text"] == "text"
    assert kinds["channel"] == "category"
    assert kinds["amount"] == "numeric"
    assert model.settings.kernel == "linear"
    assert model.estimate.repetitions == 2
    assert model.label_names[:2] == ["topic_billing", "topic_refund"]


def _release(version):
    return tuple(map(int, version.split(".")[:2]))


def _written_by(path):
    with zipfile.ZipFile(path) as file:
        return json.loads(file.read("manifest.json"))["libraries"]["scikit-learn"]


def _cells(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))
