"""Graphs say what their models say; a model without one says why."""

import json
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from dm2l import AutoClassifier, DM2LClassifier, DM2LClassifierCV, deployment
from dm2l.baselines import (
    GLOCALClassifier,
    LEMLClassifier,
    LSMLClassifier,
    MaskedOneVsRestClassifier,
    MaskedRidgeClassifier,
    MLLRCClassifier,
)
from dm2l.datasets import make_missing_multilabel
from dm2l.deployment import to_onnx
from dm2l.extreme import ExtremeDM2LClassifier
from dm2l.labels import ConstantLabelWarning
from dm2l.persistence import load_model, save_model

onnx = pytest.importorskip("onnx", reason="onnx is an extra: pip install '.[onnx]'")
runtime = pytest.importorskip("onnxruntime", reason="runs graphs: pip install onnxruntime")


@pytest.fixture(scope="module")
def data():
    """Training rows and new ones, all of them numbers that float32 has."""
    X, Y = make_missing_multilabel(n_samples=260, n_features=12, random_state=0)
    X = X.astype(np.float32).astype(np.float64)
    return X[:160], Y[:160], X[160:]


def run(graph, X):
    onnx.checker.check_model(graph, full_check=True)
    session = runtime.InferenceSession(graph.SerializeToString())
    return session.run(["scores", "probabilities", "labels"], {"X": X.astype(np.float32)})


def agree(model, X):
    """Scores and probabilities to 1e-5 of their size, labels exactly."""
    scores, probabilities, labels = run(to_onnx(model), X)
    assert {scores.dtype, probabilities.dtype} == {np.dtype(np.float32)}
    expected = model.decision_function(X)
    np.testing.assert_allclose(scores, expected, atol=1e-5 * max(1, np.abs(expected).max()), rtol=0)
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-5, rtol=0)
    np.testing.assert_array_equal(labels, model.predict(X))


def kernel(name="rbf", **settings):
    return DM2LClassifier(kernel=name, random_state=0, **settings)


def far(model):
    """Inputs that lie far from zero, which the scaler has to see as they are."""
    return make_pipeline(StandardScaler(), model)


MODELS = {
    "linear": DM2LClassifier(),
    "linear without intercept": DM2LClassifier(fit_intercept=False),
    "linear, calibrated": DM2LClassifier(calibration="sigmoid", cv=3),
    "linear, isotonic": DM2LClassifier(calibration="isotonic", cv=3),
    "linear, best F1": DM2LClassifier(threshold="f1", cv=3),
    "linear, calibrated, with a threshold": DM2LClassifier(
        calibration="isotonic", threshold=-0.2, cv=3
    ),
    "published": DM2LClassifier.published(),
    "search": DM2LClassifierCV(lambda_ds=[0.0, 0.3], alphas=[1.0], cv=2),
    "kernel search": DM2LClassifierCV(
        kernel="rbf", gammas=[0.1, 1.0], alphas=[1.0], lambda_ds=[0.3], calibration="sigmoid", cv=2
    ),
    "rbf": kernel(),
    "rbf, isotonic": kernel(calibration="isotonic", cv=3),
    "rbf of little ridge": kernel(alpha=1e-8, gamma=0.01),
    "polynomial": kernel("poly", degree=2, gamma=0.1),
    "sigmoid kernel": kernel("sigmoid", gamma=0.01, solver="published", fit_intercept=False),
    "cosine": kernel("cosine", threshold=0.1),
    "tanimoto": kernel("tanimoto", gamma=3.0),
    "nystroem": kernel(approximation="nystroem", n_components=50, threshold="f1", cv=3),
    "nystroem, calibrated": kernel(approximation="nystroem", calibration="sigmoid", cv=3),
    "fourier": kernel(approximation="fourier", n_components=60),
    "fourier of an odd number": kernel(approximation="fourier", n_components=41),
    "fourier, isotonic": kernel(approximation="fourier", calibration="isotonic", cv=3),
    "ridge": MaskedRidgeClassifier(),
    "LEML": LEMLClassifier(),
    "ML-LRC": MLLRCClassifier(),
    "GLOCAL": GLOCALClassifier(),
    "LSML": LSMLClassifier(),
    "pipeline": far(kernel(calibration="sigmoid", cv=3)),
    "two scalers": make_pipeline(
        MaxAbsScaler(), StandardScaler(with_mean=False), "passthrough", DM2LClassifier()
    ),
    "no scale": make_pipeline(StandardScaler(with_std=False), DM2LClassifier()),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_graph_gives_scores_probabilities_and_labels_of_its_model(data, name):
    X, Y, new = data
    if name in ("pipeline", "no scale"):  # that float32 keeps, far from zero
        X, new = (np.round(M * 8) / 8 + 1000 for M in (X, new))
    if name == "tanimoto":
        X, new = ((M > 0.5).astype(float) for M in (X, new))
        new[0] = 0.0
    agree(MODELS[name].fit(X, Y), new)


@pytest.mark.filterwarnings("ignore::dm2l.ConstantLabelWarning")
@pytest.mark.parametrize("calibration", [None, "sigmoid", "isotonic"])
def test_constant_labels_and_labels_of_which_nothing_is_known(data, calibration):
    X, Y, new = data
    Y = Y.copy()
    Y[:, 0], Y[:, 1] = np.where(np.isnan(Y[:, 0]), np.nan, 1), np.nan
    agree(DM2LClassifier(calibration=calibration, cv=3).fit(X, Y), new)
    agree(kernel(calibration=calibration, cv=3).fit(X, 2 * Y - 1), new)


@pytest.mark.parametrize("calibration", [None, "sigmoid"])
def test_what_ticks_say_is_corrected_in_the_graph_too(data, calibration):
    X, Y, new = data
    ticks = np.where(Y == 1, 1.0, np.nan)
    ticks[:, 2] = np.nan
    model = DM2LClassifier(missing_as="unlabelled", calibration=calibration)
    with pytest.warns(ConstantLabelWarning):
        model.fit(X, ticks)
    agree(model, new)


def test_sparse_rows_float32_and_files_make_no_difference(data, tmp_path):
    X, Y, new = data
    rows = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0))
    agree(kernel().fit(rows, Y), new)
    agree(DM2LClassifier().fit(X.astype(np.float32), Y), new)
    save_model(kernel(calibration="isotonic", cv=3).fit(X, Y), tmp_path / "m.dm2l")
    agree(load_model(tmp_path / "m.dm2l"), new)


def test_outputs_of_one_row_and_of_rows_far_away_are_finite(data):
    X, Y, _ = data
    graph = to_onnx(kernel(calibration="isotonic", cv=3).fit(X, Y))
    for rows in (X[:1], np.full((2, X.shape[1]), 1e15)):
        assert all(np.isfinite(part).all() for part in run(graph, rows))


def test_names_travel_with_the_graph(data):
    pd = pytest.importorskip("pandas")
    X, Y, _ = data
    X = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    Y = pd.DataFrame(Y, columns=[f"topic {k}" for k in range(Y.shape[1])])
    for model in (DM2LClassifier(), far(DM2LClassifier())):
        kept = {one.key: json.loads(one.value) for one in to_onnx(model.fit(X, Y)).metadata_props}
        assert kept == {"label_names": list(Y.columns), "feature_names": list(X.columns)}


REFUSED = {
    "combinations of estimators": AutoClassifier("quick", cv=2, random_state=0),
    "combinations of estimators are not supported": MaskedOneVsRestClassifier(LogisticRegression()),
    "does not support sparse predictions": ExtremeDM2LClassifier(),
    "kernel=<function .* is not one of": kernel(lambda A, B: A @ B.T),
    "kernel='laplacian' is not one of rbf, poly": kernel("laplacian"),
    "PCA is neither StandardScaler nor MaxAbsScaler": make_pipeline(PCA(4), DM2LClassifier()),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_model_without_a_graph_says_why(data, why):
    X, Y, _ = data
    with pytest.raises(ValueError, match=f"cannot be exported: .*{why}"):
        to_onnx(REFUSED[why].fit(X, Y))


def test_a_kernel_without_a_formula_is_not_exported_as_another_kernel(data, monkeypatch):
    X, Y, _ = data
    monkeypatch.setattr(deployment, "_KERNELS", (*deployment._KERNELS, "laplacian"))
    with pytest.raises(NotImplementedError, match="'laplacian'"):
        to_onnx(kernel("laplacian").fit(X, Y))


def test_further_models_without_a_graph_say_why(data):
    X, Y, _ = data
    with pytest.raises(ValueError, match="kernel='precomputed' is not one of"):
        to_onnx(kernel("precomputed").fit(X @ X.T, Y))
    with pytest.raises(ValueError, match="fitted to a 1-D y"):
        to_onnx(DM2LClassifier().fit(X, np.arange(len(X)) % 3))
    with pytest.raises(ValueError, match="LogisticRegression cannot be exported: only linear"):
        to_onnx(LogisticRegression())
    with pytest.raises(NotFittedError):
        to_onnx(DM2LClassifier())
    exact = kernel().fit(X, Y)
    size = 8 * (exact.X_fit_.size + exact.dual_coef_.size)
    assert to_onnx(exact, max_bytes=2 * size)
    with pytest.raises(ValueError, match=rf"more than max_bytes={size}\. .*'nystroem'"):
        to_onnx(exact, max_bytes=size)


def test_without_onnx_the_extra_is_named(data, monkeypatch):
    X, Y, _ = data
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'dm2l\[onnx\]'"):
        to_onnx(DM2LClassifier().fit(X, Y))
