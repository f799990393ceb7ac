"""Tables with texts: n-grams, their models, weights beside other columns, and files."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dm2l.metrics import label_auc
from dm2l.persistence import ModelFileError
from dm2l.tables import (
    FitOptions,
    explain_model,
    fit_table,
    load_bundle,
    make_table_pipeline,
    save_bundle,
    table_from_frame,
)

LABELS = ["printer", "screen", "invoice"]


def tickets(n, seed):
    """Texts in which inflected words decide labels, beside a number of no use."""
    rng = np.random.default_rng(seed)
    words = ("printing printed printers", "screens display displays", "invoices invoiced billing")
    said = rng.random((n, 3)) < 0.4
    filler = [f"{a}{b}" for a in ("mor", "tal", "ven", "quo") for b in ("da", "lis", "rum", "te")]
    texts = []
    for row in said:
        text = list(rng.choice(filler, 8))
        text += [rng.choice(words[k].split()) for k in np.flatnonzero(row)]
        texts.append(" ".join(rng.permutation(text)))
    Y = np.where(rng.random(said.shape) < 0.3, np.nan, said)
    frame = pd.DataFrame({"text": texts, "amount": 1e4 * rng.normal(size=n)})
    return frame, Y, said.astype(float)


@pytest.fixture(scope="module")
def model():
    frame, Y, _ = tickets(120, 0)
    table = table_from_frame(frame.join(pd.DataFrame(Y, columns=LABELS)), LABELS)
    return fit_table(table, FitOptions(effort="quick", cv=3))


def test_texts_become_ngrams_of_words_and_letters(model):
    names = [feature.name for feature in model.features]
    assert "text: printing" in names
    assert any(" " in name.removeprefix("text: ").strip() for name in names)
    assert "text:  prin" in names
    board = model.classifier.leaderboard_["model"]
    assert board == ["linear", "logistic regression", "rbf kernel", "stack"]
    new, _, truth = tickets(200, 1)
    assert label_auc(truth, model.answer(new)[1]) > 0.95
    top = [name for name, _ in explain_model(model, "printer", top=5)[0].features]
    assert all("prin" in name or "ri" in name or "nt" in name for name in top[:2])


def test_a_column_of_no_use_has_the_smallest_weight_beside_a_text(model):
    weights = model.pipeline[0].transformer_weights
    assert weights["text1"] == weights["letters1"]
    assert weights["numeric"] < 0.5 * weights["text1"]


def test_pipelines_prepare_texts_like_tables():
    frame, Y, truth = tickets(60, 0)
    pipeline = make_table_pipeline(frame).set_params(labels__effort="quick")
    pipeline.fit(frame, Y)
    new, _, truth = tickets(100, 1)
    assert label_auc(truth, pipeline.predict_proba(new)) > 0.8


def test_a_model_of_texts_comes_back_from_its_file(model, tmp_path):
    save_bundle(model, tmp_path / "text.dm2l")
    frame = tickets(20, 2)[0]
    again = load_bundle(tmp_path / "text.dm2l")
    assert (again.answer(frame)[1] == model.answer(frame)[1]).all()
    assert again.features == model.features


def test_ngrams_of_a_column_of_another_kind_are_refused(model, tmp_path):
    other = copy.deepcopy(model)
    other.uses[0] = replace(other.uses[0], kind="category")
    save_bundle(other, tmp_path / "part.dm2l")
    with pytest.raises(ModelFileError, match="does not match"):
        load_bundle(tmp_path / "part.dm2l")
