"""Training rows are known again, and their known entries scored as if never seen."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dm2l import DM2LClassifier
from dm2l.baselines import MaskedOneVsRestClassifier
from dm2l.completion._completer import TrainingRows, row_digests
from dm2l.datasets import load_digit_attributes
from dm2l.persistence import load_model, save_model
from dm2l.simulate import simulate_uniform


@given(st.integers(0, 1000), st.sampled_from([np.float64, np.float32]))
def test_digests_tell_rows_apart_whatever_holds_them(seed, dtype):
    rng = np.random.default_rng(seed)
    X = (rng.integers(0, 2, (40, 9)) * rng.choice([1.0, -0.0, 0.5], (40, 9))).astype(dtype)
    found = row_digests(X)
    np.testing.assert_array_equal(found, row_digests(sp.csr_array(X)))
    np.testing.assert_array_equal(found, row_digests(X.tolist()))
    np.testing.assert_array_equal(found[3:7], row_digests(X[3:7]))
    assert len(np.unique(found)) == len(np.unique(X + 0.0, axis=0))


def test_digests_of_tensors_are_those_of_arrays():
    torch = pytest.importorskip("torch", reason="torch is an extra")
    X = np.random.default_rng(0).normal(size=(50, 7)).round(1)
    np.testing.assert_array_equal(row_digests(torch.asarray(X)), row_digests(X))


def test_rows_of_texts_are_recognized_although_transform_rounds_them_differently():
    rng, words = np.random.default_rng(0), np.array([f"word{i}" for i in range(300)])
    texts = [" ".join(rng.choice(words, 12)) for _ in range(200)]
    vectorizer = TfidfVectorizer(sublinear_tf=True)
    fitted = vectorizer.fit_transform(texts)
    later = vectorizer.transform(texts)
    assert len(np.unique((fitted - later).tocoo().row)) > 10  # by one unit in the last place
    assert (row_digests(fitted) != row_digests(later)).sum() > 10
    T, held_out = np.ones((200, 1)), rng.normal(size=(200, 1))
    rows = TrainingRows.of(row_digests(fitted, rounded=True), T, held_out)
    assert len(rows.digests) == 200
    assert rows.recognize(later).all()
    found = rows.hold_out(later, T, np.zeros((200, 1)))
    np.testing.assert_allclose(found, held_out, rtol=1e-6)


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, pd.DataFrame])
def test_texts_for_a_pipeline_inside_of_the_estimator_are_recognized(kind):
    rng = np.random.default_rng(0)
    texts = ["yes " * int(n) + f"word{n}" for n in rng.integers(0, 4, 60)]
    Y = np.where(rng.random((60, 2)) < 0.7, [[float(len(text) > 9)] * 2 for text in texts], np.nan)
    reader = make_pipeline(FunctionTransformer(np.ravel), TfidfVectorizer(), LogisticRegression())
    model = MaskedOneVsRestClassifier(reader, coupling="residual")
    X = kind(texts)
    assert not np.isnan(model.fit(X, Y).complete(X, Y)).any()
    rows = model._completer.training_rows
    assert rows.recognize(X).all()
    assert not rows.recognize(kind([f"{text}?" for text in texts])).any()


def test_entries_that_are_as_they_were_get_their_held_out_scores():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(30, 4)), rng.integers(-1, 2, (30, 5))
    held_out = np.where(rng.random(T.shape) < 0.1, np.nan, rng.normal(size=T.shape))
    rows = TrainingRows.of(row_digests(X, rounded=True), T, held_out)
    order = np.concatenate([rng.permutation(30), [4]])
    inputs, now, scores = X[order], T[order], rng.normal(size=(31, 5))
    inputs[2] += 1.0  # a new row
    now[5, 0] = 1 - 2 * (now[5, 0] > 0)  # another answer than in training
    changed = rows.hold_out(inputs, now, scores)
    for i, j in np.ndindex(scores.shape):
        known = T[order[i], j] != 0 and np.isfinite(held_out[order[i], j])
        same = i != 2 and known and now[i, j] == T[order[i], j]
        expected = held_out[order[i], j] if same else scores[i, j]
        assert changed[i, j] == pytest.approx(expected, rel=1e-6)


@pytest.fixture(scope="module", params=[0.1, 0.01])
def bent(request):
    """A kernel model that follows its training labels closely, or meets them all."""
    data = load_digit_attributes()
    # Pictures that hardly show anything: labels know more of each other than features do.
    X = data.data[:400] + np.random.default_rng(0).normal(scale=15, size=(400, 64))
    truth = data.target[:400]
    Y = simulate_uniform(truth, 0.6, random_state=0)
    return X, Y, truth, DM2LClassifier(0.0, request.param, kernel="rbf").fit(X, Y)


def quality(model, X, Y, truth):
    holes = np.isnan(Y)
    p = model.complete(X, Y, method="predict_proba")
    holes &= (truth * holes).any(axis=0) & ((1 - truth) * holes).any(axis=0)
    return np.mean([roc_auc_score(truth[h, k], p[h, k]) for k, h in enumerate(holes.T)])


def test_holes_of_training_rows_are_filled_by_what_the_row_knows(bent):
    X, Y, truth, model = bent
    with_rows = quality(model, X, Y, truth)
    alone = clone(model).set_params(coupling=None).fit(X, Y)
    assert with_rows > quality(alone, X, Y, truth) + 0.3
    # Other numbers are other rows: the model's own scores of known entries say too little.
    assert with_rows > quality(model, X * (1 + 1e-6), Y, truth) + 0.05


def test_a_saved_model_knows_its_rows_and_a_stiff_one_keeps_no_scores(bent, tmp_path):
    X, Y, _, model = bent
    save_model(model, tmp_path / "model.dm2l")
    loaded = load_model(tmp_path / "model.dm2l")
    np.testing.assert_array_equal(
        loaded.complete(X, Y, method="predict_proba"),
        model.complete(X, Y, method="predict_proba"),
    )
    stiff = DM2LClassifier(0.0, 1e9).fit(X, Y)._completer.training_rows
    assert not len(stiff.scores)
    assert stiff.recognize(X).all()
    assert not stiff.recognize(X + 1.0).any()
