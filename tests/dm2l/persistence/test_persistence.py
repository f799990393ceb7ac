"""Model files: what comes back is what was saved, to the last bit."""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import math
import os
import sys
import tempfile
import types
import zipfile
import zlib
from pathlib import Path

import array_api_strict
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from sklearn.base import clone
from sklearn.cluster import Birch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, VotingClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree._tree import Tree

import dm2l
from all_estimators import ESTIMATORS
from dm2l import AutoClassifier, DM2LClassifier, DM2LClassifierCV, baselines
from dm2l.baselines import MaskedOneVsRestClassifier, MaskedRidgeClassifier
from dm2l.completion._completer import LabelCompleter
from dm2l.datasets import make_missing_multilabel
from dm2l.extreme import ExtremeDM2LClassifier
from dm2l.model_selection import MultilabelKFold, MultilabelShuffleSplit, get_scorer
from dm2l.persistence import (
    ModelFileError,
    _archive,
    _model,
    _objects,
    _sklearn,
    load_model,
    save_model,
)

TREE = "sklearn.tree._tree.Tree"


@pytest.fixture
def data():
    """X and Y with holes, and a label of which one class was observed only."""
    X, Y = make_missing_multilabel(60, 6, 4, n_implications=2, random_state=2)
    return X, Y


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.dm2l"


def again(model, path, **options):
    """The model after a round trip."""
    save_model(model, path)
    return load_model(path, **options)


def same(a, b):
    """Equal in value, type, dtype and, if it has one, memory order of ``a``; NaN equals NaN."""
    if type(a) is not type(b):
        return False
    if sp.issparse(a):
        names = ("data", "indices", "indptr")
        return a.shape == b.shape and all(same(getattr(a, n), getattr(b, n)) for n in names)
    if isinstance(a, np.ndarray) and a.dtype == object:
        return a.shape == b.shape and same(a.tolist(), b.tolist())
    if isinstance(a, np.ndarray) and a.dtype.names:  # not what pads the fields
        return a.dtype == b.dtype and all(same(a[name], b[name]) for name in a.dtype.names)
    if isinstance(a, np.ndarray):
        orders = a.flags.f_contiguous == b.flags.f_contiguous or not a.flags.forc
        return orders and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, LabelCompleter):
        return same(a.state(), b.state())
    if isinstance(a, Tree):
        return same(a.__getstate__(), b.__getstate__())
    if isinstance(a, np.random.RandomState):
        return same(a.get_state(legacy=False), b.get_state(legacy=False))
    if isinstance(a, (float, np.floating)):
        return (math.isnan(a) and math.isnan(b)) or (a == b and np.signbit(a) == np.signbit(b))
    if (hasattr(a, "__dict__") and not callable(a)) or type(a).__name__ == "Kernel":
        # Made anew: the interpolation of a curve; of no use: how its fit went.
        left, right = (
            {key: value for key, value in vars(v).items() if key not in ("f_", "n_iter_")}
            if isinstance(v, LogisticRegression) or hasattr(v, "X_thresholds_")
            else vars(v)
            for v in (a, b)
        )
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return a is b or a == b


def check_equal(model, loaded, X):
    """All that a model does on X, and all that it holds, to the last bit."""
    assert type(loaded) is type(model)
    assert repr(loaded) == repr(model) or " at 0x" in repr(model)
    for method in ("decision_function", "predict", "predict_proba"):
        if hasattr(model, method):
            assert same(getattr(model, method)(X), getattr(loaded, method)(X)), method
    if type(model) in _objects.ESTIMATORS:
        assert same(model.get_params(deep=False), loaded.get_params(deep=False))
        assert same(vars(model), vars(loaded))


def arrays_of(value):
    """All arrays in what a model holds."""
    if isinstance(value, np.ndarray):
        yield value
    elif sp.issparse(value):
        yield from (value.data, value.indices, value.indptr)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from arrays_of(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from arrays_of(item)
    elif isinstance(value, LabelCompleter):
        yield from arrays_of(value.state())
    elif hasattr(value, "__dict__") and not isinstance(value, type):
        yield from arrays_of(vars(value))


# ---------------------------------------------------------------------------------- round trips

MODELS = [
    *ESTIMATORS,
    DM2LClassifier(kernel="poly", degree=2, gamma=np.float32(0.5)),
    DM2LClassifier(kernel="laplacian", calibration="sigmoid", threshold="f1", cv=3),
    DM2LClassifier(calibration="isotonic", threshold=0.25, cv=MultilabelKFold(3, random_state=1)),
    DM2LClassifier(random_state=np.random.RandomState(5), missing_label=None),
    DM2LClassifierCV([0.0, 0.5], [0.1], ["scale", 0.3], kernel="rbf", cv=2, calibration="sigmoid"),
    DM2LClassifierCV(np.array([0.0, 0.5]), (0.1, 1.0), cv=2, refit=False),
    MaskedOneVsRestClassifier(MaskedRidgeClassifier(), calibration="sigmoid", cv=2),
    MaskedOneVsRestClassifier(make_pipeline(StandardScaler(), DM2LClassifier())),
    ExtremeDM2LClassifier(rank=3, propensities=None),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: repr(m)[:70].replace("\n", ""))
def test_every_estimator_comes_back_to_the_last_bit(model, data, path):
    if "sklearn" in type(getattr(model, "estimator", None)).__module__:
        pytest.importorskip("skops", reason="skops is an extra")
    X, Y = data
    model = clone(model).fit(X, Y)
    loaded = again(model, path)
    if getattr(model, "refit", True):
        check_equal(model, loaded, X)
    assert same(vars(model).get("cv_results_"), vars(loaded).get("cv_results_"))
    held = list(arrays_of(loaded))
    assert held
    assert all(array.flags.writeable and array.flags.aligned for array in held)
    first, second = model.fit(X, Y), loaded.fit(X, Y)
    if getattr(model, "refit", True) and getattr(model, "random_state", 0) is not None:
        assert same(first.decision_function(X), second.decision_function(X))


@pytest.mark.parametrize(
    "model",
    [
        DM2LClassifier(),
        DM2LClassifier(kernel="rbf"),
        DM2LClassifier(kernel="rbf", approximation="nystroem", n_components=9, random_state=0),
        DM2LClassifier(kernel="rbf", approximation="fourier", n_components=9, random_state=0),
        MaskedRidgeClassifier(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix, sp.csc_array, np.float32])
def test_inputs_of_all_kinds(model, container, data, path):
    X, Y = data
    X = container(np.where(np.abs(X) > 0.5, X, 0))
    model = clone(model).fit(X, Y)
    loaded = again(model, path)
    check_equal(model, loaded, X)
    if hasattr(model, "X_fit_"):
        assert type(loaded.X_fit_) is type(model.X_fit_)


@pytest.mark.parametrize("approximation", [None, "nystroem"])
def test_precomputed_kernels(approximation, data, path):
    X, Y = data
    Y[:7] = np.nan
    model = DM2LClassifier(
        kernel="precomputed", approximation=approximation, n_components=10, random_state=0
    )
    K = rbf_kernel(X)
    model.fit(K, Y)
    check_equal(model, again(model, path), K[:5])


def one_class_only(Y):
    Y[:, 1] = np.where(np.isnan(Y[:, 1]), np.nan, 1)
    Y[:, 2] = np.nan
    return Y


@pytest.mark.parametrize(
    "labels",
    [
        lambda Y: Y * 2 - 1,
        lambda Y: np.where(np.isnan(Y), None, Y == 1),
        lambda Y: np.ma.masked_invalid(Y),
        lambda Y: sp.csr_array(np.nan_to_num(Y * 2 - 1)),
        lambda Y: pd.DataFrame(Y, columns=["rain", "wind", "fög", "\U0001f600"]),
        lambda Y: pd.DataFrame(Y, columns=pd.MultiIndex.from_product([["a", "b"], [1, 2]])),
        lambda Y: pd.DataFrame(Y, columns=[1, 2.5, "x", True]),
        lambda Y: np.nan_to_num(Y[:, 0]).astype(int),
        lambda Y: np.array(["dog", "cat", "ant"])[np.nan_to_num(Y[:, :2]).sum(axis=1).astype(int)],
        lambda Y: np.nan_to_num(Y[:, :3]).sum(axis=1).astype(object),
        lambda Y: np.array(["no", "yes"], dtype=object)[np.nan_to_num(Y[:, 0]).astype(int)],
    ],
)
def test_labels_of_all_kinds(labels, data, path):
    X, Y = data
    Y = labels(Y)
    model = DM2LClassifier(calibration="sigmoid", cv=2).fit(X, Y)
    loaded = again(model, path)
    check_equal(model, loaded, X)
    if np.ndim(Y) == 2 and not sp.issparse(Y):
        assert np.array_equal(loaded.complete(X, Y), model.complete(X, Y))
    assert same(model.classes_, loaded.classes_)
    assert same(model.label_names_, loaded.label_names_)


def test_constant_labels(data, path):
    X, Y = data
    with pytest.warns(dm2l.ConstantLabelWarning):
        model = DM2LClassifier(kernel="rbf", calibration="isotonic").fit(X, one_class_only(Y))
    check_equal(model, again(model, path), X)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_model_that_could_learn_nothing(kernel, data, path):
    X, Y = data
    with pytest.warns(dm2l.ConstantLabelWarning):
        model = DM2LClassifier(kernel=kernel).fit(X, np.ones_like(Y))
    check_equal(model, again(model, path), X)


def test_frames_keep_the_names_of_their_columns(data, path):
    X, Y = data
    X = pd.DataFrame(X, columns=list("abcdef"))
    model = DM2LClassifier(kernel="rbf").fit(X, Y)
    loaded = again(model, path)
    check_equal(model, loaded, X)
    assert loaded.feature_names_in_.tolist() == list("abcdef")
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(X[list("bacdef")])


def test_a_model_that_was_not_fitted(path):
    model = DM2LClassifier(lambda_d=0.7, cv=MultilabelShuffleSplit(2, random_state=3))
    loaded = again(model, path)
    assert repr(loaded) == repr(model)
    assert not hasattr(loaded, "coef_")


def test_what_metadata_was_asked_for_is_kept(data, path):
    with sklearn.config_context(enable_metadata_routing=True):
        model = DM2LClassifier().set_fit_request(label_mask=True)
        model.set_score_request(sample_weight="weights", label_mask=False)
        loaded = again(model, path)
        assert str(loaded.get_metadata_routing()) == str(model.get_metadata_routing())
        assert "'weights'" in str(loaded.get_metadata_routing())
    assert str(again(model, path).get_metadata_routing()) == str(model.get_metadata_routing())


def test_pandas_marks_of_a_missing_label(path):
    for mark in (pd.NA, pd.NaT):
        assert again(MaskedRidgeClassifier(missing_label=mark), path).missing_label is mark


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.floats(width=32).map(np.float32)
    | st.integers(-128, 127).map(np.int8)
    | st.booleans().map(np.bool_)
    | st.text(st.characters(exclude_characters="\0"), min_size=1).map(np.str_)
    | npst.arrays(
        npst.scalar_dtypes().filter(lambda dtype: dtype.itemsize > 0),
        npst.array_shapes(min_dims=0, min_side=0),
    )
    | npst.arrays(np.float64, npst.array_shapes(min_dims=2, max_dims=3)).map(np.asfortranarray),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(VALUES)
def test_any_plain_value_comes_back_as_it_was(value):
    with tempfile.TemporaryDirectory() as folder:
        loaded = again(MaskedRidgeClassifier(cv=value), Path(folder, "model"))
    assert same(value, loaded.cv)


# ------------------------------------------------------------------------- other array libraries


def torch_array(X):
    return pytest.importorskip("torch", reason="torch is an extra").asarray(X)


@pytest.mark.parametrize(
    "foreign", [array_api_strict.asarray, torch_array], ids=["strict", "torch"]
)
@pytest.mark.parametrize(
    "options",
    [{}, {"kernel": "rbf"}, {"kernel": "rbf", "approximation": "fourier", "n_components": 20}],
    ids=str,
)
def test_arrays_of_other_libraries_are_numpy_unless_asked_for(foreign, options, data, path):
    X, Y = data
    there = foreign(X)
    model = DM2LClassifier(random_state=0, calibration="sigmoid", **options).fit(there, Y)
    loaded = again(model, path)
    assert isinstance(loaded.intercept_, np.ndarray)
    expected = np.asarray(model.decision_function(there))
    np.testing.assert_allclose(loaded.decision_function(X), expected, rtol=1e-10, atol=1e-12)
    with pytest.raises(ValueError, match="fitted to arrays of numpy"):
        loaded.predict(there)
    back = load_model(path, like=there)
    assert type(back.intercept_) is type(there)
    assert np.array_equal(np.asarray(back.decision_function(there)), expected)
    assert np.array_equal(
        np.asarray(back.predict_proba(there)), np.asarray(model.predict_proba(there))
    )
    # A model of numpy arrays stays where it was.
    assert isinstance(again(loaded, path, like=there).intercept_, np.ndarray)


# ------------------------------------------------------------------------------------ the file


def test_numpy_json_and_zipfile_can_read_the_file(data, path):
    X, Y = data
    model = DM2LClassifier(kernel="rbf", gamma=0.2).fit(sp.csr_array(X), Y)
    save_model(model, path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        contents = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(contents["manifest.json"])
    digest = hashlib.sha256(contents.pop("manifest.json")).hexdigest()
    assert contents.pop("manifest.sha256").decode() == digest
    assert (manifest["format"], manifest["version"]) == ("dm2l model", 1)
    assert manifest["dm2l"] == dm2l.__version__
    assert manifest["libraries"]["numpy"] == np.__version__
    node = manifest["model"]
    assert (node["class"], node["parameters"]["gamma"]) == ("DM2LClassifier", 0.2)
    assert contents.keys() == manifest["members"].keys()
    arrays = {}
    for name, record in manifest["members"].items():
        assert record["sha256"] == hashlib.sha256(contents[name]).hexdigest()
        assert record["size"] == len(contents[name])
        (path.parent / "array.npy").write_bytes(contents[name])
        arrays[name] = np.load(path.parent / "array.npy", allow_pickle=False)
        assert (record["dtype"], record["shape"]) == (
            arrays[name].dtype.str,
            list(arrays[name].shape),
        )
    stored = node["attributes"]
    assert np.array_equal(arrays[stored["dual_coef_"]["member"]], model.dual_coef_)
    assert np.array_equal(arrays[stored["X_fit_"]["data"]["member"]], model.X_fit_.data)


def test_the_same_model_gives_the_same_bytes(data, path):
    X, Y = data
    model = DM2LClassifier(calibration="isotonic").fit(X, Y)
    save_model(model, path)
    first = path.read_bytes()
    save_model(load_model(path), path)
    assert path.read_bytes() == first


def test_an_array_that_is_held_twice_is_stored_once(data, path):
    X, Y = data
    model = DM2LClassifierCV([0.0, 0.3], [1.0], kernel="rbf", cv=2, coupling=None).fit(X, Y)
    loaded = again(model, path)
    assert loaded.X_fit_ is loaded.best_estimator_.X_fit_
    assert loaded.classes_ is loaded.best_estimator_.classes_
    assert path.stat().st_size < 2 * model.X_fit_.nbytes + 20_000


def test_files_larger_than_the_first_zip_format_allows(data, path, monkeypatch):
    X, Y = data
    model = DM2LClassifier().fit(X, Y)
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 3)
    monkeypatch.setattr(_archive, "_LARGE", -1)
    save_model(model, path)
    monkeypatch.undo()
    assert b"PK\6\6" in path.read_bytes()
    check_equal(model, load_model(path), X)


def test_more_arrays_than_a_file_may_have(data, path, monkeypatch):
    monkeypatch.setattr(_model, "MAX_MEMBERS", 8)
    with pytest.raises(ValueError, match="arrays; a file has at most 8 members"):
        save_model(DM2LClassifier().fit(*data), path)
    assert not path.exists()


def test_thousands_of_labels_are_a_few_members(path):
    rng = np.random.default_rng(0)
    Y = sp.csr_array(rng.random((60, 3000)) < 0.3)
    X = rng.standard_normal((60, 5))
    model = ExtremeDM2LClassifier(rank=4, missing_as="unlabelled").fit(X, Y)
    save_model(model, path)
    with zipfile.ZipFile(path) as archive:
        assert len(archive.namelist()) < 30
    loaded = load_model(path)
    for found, expected in zip(loaded.predict_top_k(X, 5), model.predict_top_k(X, 5), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert loaded.classes_[17].tolist() == model.classes_[17].tolist()


def test_every_estimator_of_the_library_is_known():
    ours = {DM2LClassifier, DM2LClassifierCV, ExtremeDM2LClassifier, AutoClassifier}
    ours |= {getattr(baselines, name) for name in baselines.__all__}
    ours.remove(baselines.ZeroFillClassifier)
    assert ours == set(_objects.ESTIMATORS)
    for name in _sklearn._OWN:
        module, _, cls = name.rpartition(".")
        if cls != "_RemainderColsList":  # which only older ones of scikit-learn have
            assert isinstance(getattr(importlib.import_module(module), cls), type)


# --------------------------------------------------------------------- what cannot be saved


def waves(A, B):
    return np.cos(A @ B.T)


@pytest.mark.parametrize(
    ("model", "where"),
    [
        (DM2LClassifier(kernel=waves), r"DM2LClassifier\.kernel is <function waves"),
        (DM2LClassifier(kernel=RBF()), r"DM2LClassifier\.kernel is RBF\(.*a function cannot be"),
        (DM2LClassifierCV(scoring=lambda Y, F: 0.0), r"DM2LClassifierCV\.scoring is <function"),
        (DM2LClassifier(cv=(x for x in ())), r"DM2LClassifier\.cv is of type builtins\.generator"),
        (
            MaskedOneVsRestClassifier(DM2LClassifier(kernel=len)),
            r"MaskedOneVsRestClassifier\.estimator\.kernel",
        ),
        (DM2LClassifier(missing_label=1j), r"DM2LClassifier\.missing_label is of type builtins\.c"),
        (DM2LClassifier(missing_label={1: 2}), r"missing_label has the key 1"),
        (DM2LClassifier(missing_label=np.datetime64("2024")), r"missing_label .*datetime64"),
        (DM2LClassifier(cv=[np.array([0, waves])]), r"DM2LClassifier\.cv\[0\]\[1\] is <function"),
        (DM2LClassifier(cv=np.zeros(1, dtype="i4,f8")), r"DM2LClassifier\.cv .*dtype \["),
        (DM2LClassifier(cv=sp.coo_array(np.eye(2))), r"DM2LClassifier\.cv .*coo_array"),
        (
            DM2LClassifier(random_state=np.random.RandomState(np.random.PCG64())),
            r"random_state: a RandomState on PCG64",
        ),
        (KFold(), "model must be an estimator"),
        (DM2LClassifier, "model must be an estimator"),
    ],
    ids=[*map(str, range(14))],  # functions have another address in every process
)
def test_what_cannot_be_saved_is_named_before_anything_is_written(model, where, path):
    path.write_text("an older file")
    with pytest.raises(TypeError, match=where):
        save_model(model, path)
    assert path.read_text() == "an older file"
    assert list(path.parent.iterdir()) == [path]


def test_a_list_that_contains_itself(path):
    endless = []
    endless.append(endless)
    with pytest.raises(TypeError, match="contains itself"):
        save_model(MaskedRidgeClassifier(cv=endless), path)


def test_a_fitted_attribute_that_cannot_be_saved_is_named(data, path):
    model = MaskedRidgeClassifier().fit(*data)
    model.hook_ = print
    with pytest.raises(TypeError, match=r"MaskedRidgeClassifier\.hook_ is <built-in"):
        save_model(model, path)


@pytest.mark.parametrize("moment", ["in the middle", "at the end", "while renaming"])
def test_a_failed_write_leaves_the_old_file(moment, data, path, monkeypatch):
    save_model(MaskedRidgeClassifier(alpha=3.0), path)
    before = path.read_bytes()

    def fail(*args, **options):
        raise OSError("No space left on device")

    target, name = {
        "in the middle": (np.lib.format, "write_array"),
        "at the end": (os, "fsync"),
        "while renaming": (Path, "replace"),
    }[moment]
    monkeypatch.setattr(target, name, fail)
    with pytest.raises(OSError, match="No space left"):
        save_model(MaskedRidgeClassifier().fit(*data), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_file_is_on_the_disk_before_it_takes_its_name(path, monkeypatch):
    calls = []
    for target, name in ((os, "fsync"), (Path, "replace")):
        done = getattr(target, name)
        monkeypatch.setattr(
            target, name, lambda *args, done=done, name=name: (calls.append(name), done(*args))[1]
        )
    save_model(MaskedRidgeClassifier(), path)
    assert calls[:2] == ["fsync", "replace"]


# -------------------------------------------------------------------------------- scikit-learn


@pytest.fixture
def skops():
    return pytest.importorskip("skops.io", reason="skops is an extra")


@pytest.mark.usefixtures("skops")
class TestScikitLearn:
    @pytest.mark.parametrize(
        "model",
        [
            make_pipeline(StandardScaler(), DM2LClassifier(kernel="rbf", calibration="sigmoid")),
            make_pipeline(StandardScaler(), MaskedOneVsRestClassifier(LogisticRegression(C=3.0))),
            make_pipeline(FunctionTransformer(np.arctan), DM2LClassifierCV([0.1], [1.0], cv=2)),
            MaskedOneVsRestClassifier(
                MaskedOneVsRestClassifier(make_pipeline(MaskedRidgeClassifier()))
            ),
        ],
        ids=repr,
    )
    def test_pipelines_come_back(self, model, data, path):
        X, Y = data
        model = clone(model).fit(X, Y)
        loaded = again(model, path)
        check_equal(model, loaded, X)
        loaded.fit(X, Y)

    def test_columns_of_a_frame(self, data, path):
        X, Y = data
        table = pd.DataFrame(X[:, :2], columns=["a", "b"])
        table["c"] = np.where(X[:, 2] > 0, "left", "right")
        columns = make_column_transformer((StandardScaler(), ["a", "b"]), (OneHotEncoder(), ["c"]))
        model = make_pipeline(columns, DM2LClassifier()).fit(table, Y)
        # A list of scikit-learn 1.6, which skops does not know.
        trusted = ["sklearn.compose._column_transformer._RemainderColsList"]
        check_equal(model, again(model, path, trusted=trusted), table)

    def test_models_in_containers_of_scikit_learn(self, data, path):
        X, Y = data
        model = VotingClassifier([("a", DM2LClassifier()), ("b", MaskedRidgeClassifier())])
        model.fit(X, np.nan_to_num(Y[:, 0]))
        loaded = again(model, path, trusted=["sklearn.utils._bunch.Bunch"])
        check_equal(model, loaded, X)
        assert loaded.named_estimators_["a"] is loaded.estimators_[0]

    def test_the_saved_model_itself_is_not_touched(self, data, path):
        X, Y = data
        model = make_pipeline(StandardScaler(), DM2LClassifier()).fit(X, Y)
        steps, last = list(model.steps), model[-1]
        save_model(model, path)
        assert model[-1] is last
        assert all(a is b for a, b in zip(model.steps, steps, strict=True))

    def test_a_search_with_everything_that_has_to_be_trusted(self, data, path):
        X, Y = data
        model = GridSearchCV(
            Pipeline([("model", DM2LClassifier())]),
            {"model": [DM2LClassifier(0.1), MaskedRidgeClassifier()]},
            cv=MultilabelKFold(2, random_state=0),
            scoring=get_scorer("label_ranking_average_precision"),
        ).fit(X, Y)
        save_model(model, path)
        with pytest.raises(ModelFileError, match="not trusted") as caught:
            load_model(path)
        names = ["dm2l.metrics._ranking.average_precision", "sklearn.metrics._scorer._Scorer"]
        assert all(name in str(caught.value) for name in names)
        loaded = load_model(path, trusted=names)
        check_equal(model, loaded, X)
        assert isinstance(loaded.cv, MultilabelKFold)
        assert repr(loaded.cv_results_["param_model"]) == repr(model.cv_results_["param_model"])

    def test_a_type_that_is_not_trusted_is_listed(self, data, path):
        X, Y = data
        model = MaskedOneVsRestClassifier(GradientBoostingClassifier(n_estimators=2)).fit(X, Y)
        with pytest.raises(ModelFileError, match=f"not trusted: .'{TREE}'.*trusted="):
            again(model, path)
        with pytest.raises(ModelFileError, match="not trusted"):
            load_model(path, trusted=["sklearn.tree._tree.Other"])
        loaded = load_model(path, trusted=(TREE,))
        # All that it holds cannot be compared: its loss is an object that equals itself alone.
        assert same(model.predict_proba(X), loaded.predict_proba(X))

    def test_splitters_of_scikit_learn(self, path):
        model = DM2LClassifier(cv=KFold(3, shuffle=True, random_state=1))
        with pytest.raises(ModelFileError, match="KFold"):
            again(model, path)
        loaded = load_model(path, trusted=["sklearn.model_selection._split.KFold"])
        assert repr(loaded) == repr(model)

    def test_a_subclass_is_a_type_to_be_trusted(self, data, path):
        X, Y = data
        model = Ours(kernel="rbf").fit(X, Y)
        save_model(model, path)
        name = f"{Ours.__module__}.Ours"
        with pytest.raises(ModelFileError, match="not trusted") as caught:
            load_model(path)
        assert name in str(caught.value)

    def test_sparse_matrices_inside(self, data, path):
        X, Y = data
        model = MaskedOneVsRestClassifier(KNeighborsClassifier(3)).fit(
            sp.csr_array(X * (X > 0.5)), Y
        )
        check_equal(model, again(model, path), sp.csr_array(X[:9]))

    @pytest.mark.parametrize(
        ("model", "what"),
        [
            (make_pipeline(FunctionTransformer(lambda X: X), DM2LClassifier()), "<lambda>"),
            (make_pipeline(StandardScaler(), DM2LClassifier(kernel=waves)), "kernel is <function"),
            (make_pipeline(Birch(), DM2LClassifier()), "skops cannot save .*Birch"),
        ],
        ids=["lambda", "kernel", "birch"],
    )
    def test_functions_inside_cannot_be_saved(self, model, what, path):
        with pytest.raises(TypeError, match=what):
            save_model(model, path)
        assert not path.exists()

    def test_names_of_types_are_a_list(self, path):
        save_model(MaskedRidgeClassifier(), path)
        for trusted in ("a.b", [int]):
            with pytest.raises(TypeError, match="trusted must be a list of names"):
                load_model(path, trusted=trusted)


class Ours(DM2LClassifier):
    """What somebody made of it."""


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (None, r"needs skops: pip install 'dm2l\[io\]'"),
        (types.SimpleNamespace(__version__="0.9.0"), r"skops 0\.9\.0 is not safe.*skops>=0\.16"),
    ],
)
def test_skops_is_asked_for_when_it_is_needed(module, message, data, path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops", module)
    monkeypatch.setitem(sys.modules, "skops.io", module)
    again(DM2LClassifier(calibration="isotonic").fit(*data), path)  # not for this
    before = path.read_bytes()
    with pytest.raises(ImportError, match=message):
        save_model(make_pipeline(StandardScaler(), DM2LClassifier()), path)
    assert path.read_bytes() == before


# ----------------------------------------------------------------------------------- version 1

# A file that dm2l 0.1.0 wrote, with numpy 2.4 and scikit-learn 1.9. It has to load for ever: when
# the library changes what its models hold, loading has to translate.
VERSION_1_SHA256 = "a940cbb315e447f4b8ef641335bd9f5bdbaf32c15353e33ae1df2f2f609b1420"
VERSION_1 = """
eNrNWg2MHFUdvyvlgKMoSpFiAjlXTQGP833NvJlGsiQomFxrDiKfTVnf19xNuzu77swdXMuB1pA0qJHEDwolBAW1MbYgEkKM
cUlJFNHGIlCjiB4iFS20aGog0aL/N3t3uzO3PZYeITfNZN+8937zfu//+Xr/GRk+YfnKnub1oZ6TD+zY/wVo2XsF3KJeF5Px
x9FQVJv8+meuXDdybW/PRM+W1drEqr56zcDqm0K8enBgdVCtJ3URlap1bWz/paIcG+iPx0TNwPN5aHCAnD84MDVw3Ff/SIbp
zRv/88vboXV7lik+JtNPhF5XTMng4ngC0xmSPb0zv1nmN57/0wu2Qmtrljk5towlfreY9/ZmuUZ3PnReBynTY0s5eNel3NNR
ysMPf3XPdmhtzzJni5cyWyz1/p7ezld2B1c0Hr3nXmjdm92Bs2jZs8XL3vvUWeXG+1ddvP/ouievX77q4k37f7LjA/B7250v
rzwTfrM7+fvrH9w+Da3p7E7cRe/EXXxUuY3sOPuOM/9XLJ31m7se/OZTxT9d9+9719RebKBnDj10ZPk/Gm9+efSys7ceaeD3
PfXYrtrDjXP+7HzH8e5pPFK9/IrDr/+xeHPfkf+u33uguO2FF1+7f/Phxvc/oo7uefKlxvWlJx7YO/XPYlYS207tvXYftPZl
JcEXLQmMFm2VL2xeufuyF/5Q3Ptre/21+Oi5tx68/NFDDZpeBxufbk5oXNT/u/tqF7XmQR8MHJ6b39zra7mdv5zcVdoJrZ3Z
nXsLxGv2bu28PVbnf2fbvfMizHe3PjJ9N7Tuzu7IX/SO+DsTG5fBvRzuPrhPgvsUuPvn7WLTwz+7ejbCn9aWR9FSCPHe5zds
vmVsW3H0s3fgH+57upGlvvbw/u2dqOOlQB2veByteHy62CQ7XTz2GaCd+pI8BHyp/4HbO8mZLoWzVt8Mzb6Op4BG34M7ZzNP
O3W2+IC7aO79B5/91cbfP3aosWbLTX9hz/yi8cZ9I8+temp3o9C4ozH98uPF6ScKHz796PPFW44eePPHW18pXrN716nB0UON
/gnx/K4j041bV6wa2vLzPY3L++TwgZV7GgPnnPutp6/+UXHvb6d2v3HVqzmTO3jkgo92EoWzFESRP8tdmV4vFWd/Z3NK9jd/
tbwtPz8riolXtjc6GbS7JGLe/SNnb9nWaHxs8m87137v2VzM+1q449Vnz+jpsbelXhFRGJg4GdoYV6MtBSBYEUlhzUBBV0h5
oFLVplwYHChMmHocViMYwIPNMTsHDeEhZIfLoayLemhi6N1SqE0mY+ncAh2CYMrtjGi8Upu0XWSIDbm2J1ZhswcPYT6EZ7o2
hcmFZSPqUXPEh4EpGGkSsS/fFEbajlXlRqMSi1JlEduFC59cR9ZeYh/CIDR1O1QTdVExCZBPsWVRkVqULB4NERgX5dqYsNBY
ibKxiE2mHqUrFeoysB2jolIRKcCxOzejdWPgkdqFqyZAMyIRtVq9emMIwmuKqRBNxkm9airp5kuqWqlVIxMllgicOgtBmJTC
CJgpU7PyTurjxgqyCkRajzoE+wkrYSSitklxtQz6sIuUZTAa2xUq4sZSmKSdGCH4z3Ihqdr3YHMhsryTsbqJx6rlVHRBKmxY
yGptlm8YV5NqFKp0aOKtRL1uvJyEZSFNefhS+9b5so5Kca0cpvu1ko7HxoOgbFqbADfQ1UopTkRiey3lSgiqi0ZL6XszDIJy
VaQEJkR53KTiFVFqGELGINU5SDReLk9NvXPvgt4bRD2lWbcaCJoO24k9qERW4/QpfVmS1EM5nphZcQRGJOOgBVB7aUYopbFq
pckg9Q7bky4ev5X41zZnzZd6HI5GWXQam1ITMRXZtJr2P8qkG5+dW5nT6txqKf0ZSUSwUidqKZE0hEHferIBnsAWK3bqepBU
GNnxGyxkg10tMqNgdROzctPJZApsvbXZM7Og7YDjQGEqVesMJyvA9d3sEc/u8W1MtvxTIZTSDZcWv+NSGtGELJsuVUPmVAOR
IwIrS92/GyRtITcZU+sSxdpRMwFwQQMcbs6ab4DHFT9T1UZpACvNjEUlY/0zDU+pCtjgLBEwHdvhDiFEfc91OSKIeX5mfCyM
k2p9stTl/p25/etxUS5ZYt1C3TloJgWUTL1eTXeDgKdHKRBlGDHCPI49mH1NyaaAzCIxyDJODb+VhlWcJjKwggTMqm3ljAXa
v2NYI9QiEV3y5nO8YWqoTLdRw2vH1ZJ6lzC/CWviZtJetyLGqM0dZrJWtf5WJnpJa+Z8M4XmWFVn8l6HoA3oruWC50KNze2J
0d3iWr5eNtFoMtb1gi1Xj1W13j3RlrODvUohQ0jTYffwGV9JVTl3rIi71qXbBo/L1fSAsH7D3NQmjUyGSvPamCCOm6ZvaYyH
ufYdRznECQJMCKbac30WBJRJqpjyGPe48RRhrvYQwh5XDuLUSGGaR89ws3UbTLy2/FO4KcQZp7IlhzR8Z9JDlo3RgcMlNVwp
pj3KteSCSoaQ8YCOIEohLl2hFWXcaBP4cAqQUmGsHOxRJdvZMNbOxua8bJJpo0I6UBHKodzAxh2fM+QiR0hXYaowB0mJwNUO
SA37knHJJEEqcLlvnMBon3tGu7ydCkUZwUh8bCq0AxUq4LXI1UIqBK93GccOg9hHGXOY0cQwrJgh2nJTOCAO6Mdwl0JohMk+
XkAqwQJSYZ3MhTg4EIog3wVrcZXkIH1KfYmQG0jPAd0EHsJIaaM1l5wTLLknRUA4VlxmqDhkQamwdi5OBy5EBwRWcjTGAafK
J4p4yEHK9xxjDHGBIjOgM0d52jiUBkRzuDUVTCBFM8biooXEkqHidtKQcTiCdbVPDSUaB55RFBPfp7CQUYga4RFXKQoCAXbK
BFQGEnvMDbBvcLsXEbKghtycF/EObBwfXNPxEUiE2bWw1JQ4UjrE81wjfEXBpjFywYl96WvigZtz6hvNFZPCVe1skLcQG4za
uXid3AgLj0PQ8DjoACKLko5HfBdTY6SEBtU2kSslpSZgsgS5glh31sIorqiXUVKWS8gW4OJ34MIC3wSGw+shqEgD0pDgHg7h
jBkg6YmABy6oB3RDqZa+kJgAPS/wQKKBwzLG6y7EhWcCXae4C9ECGy4M1YoQorD2A4r9gCvfMPjngIsrFSjsioC6EiItBjun
EFmQUhzM9Th9GneKutj3FRbMIQJCOFgumArsnBjqCEIDTRzqUESJDX8cM2KsI/sYUa0RYxp7x8tlCYVd3Cnuaq1AS0xo4SKB
jKMMdwiBo6f0FUNgRFgzcG1wYjAnTzkBNAIHfM/T1ECUPs5shDsFXkZ8CCPwhA3G4D3SRjTOIQE6nsMdF+INVcJ1JccSOxAW
eeCBDQuSnpEZ6z7C4CyZTpFXCw/O3T7EORA/cyloAZKP5D6iGNTjaoI5HB445cTn1AG6LgJNepDIwae0Pm4ynWKvxwMRwPlE
Uzio0ABiCEVEKseDowRxIUv6LhBCHgb/cT0Mju9AyAN1UYI9oenbst6pqezf/74xunLsYmjZ+73tf/9r8nMC8CyjrZUiiCsY
GGmswTwcxrhrcIBsAlUQDrUAZUE+AE0iJCFAQv5UamS4d9nKE479Pcjsdf8Xe3Jfh+SR+e8zWsgf5L7WyCPz30e0kLo3+7VE
Hpn/WqGFPH1Z9tuFPDL/tUAL+eSy7LcDeWS+St9CfuWEbM0+j8xXxVvIq5Zna+R5ZL6K3EJ+7sRsTTmPzFdhW8jr+rI12Twy
X+1sIQdPytY+88h8hbGF/NdJuXpjHpqv8LWgu07O1fsWsqIsdOyUXL0tD83Xu1rQM/tz1a88NF9vakH39eeqT3lovj7Tgj53
aq5ak4fm6xkt6IEVuepGHpqvJ7Sg3z4tV13IQ/OhqA36oXmBaWT4xLRCdwb8uxbM+z0F+/R/gB/v/g==
"""


def test_a_file_of_version_1_loads_for_ever(path):
    content = zlib.decompress(base64.b64decode(VERSION_1))
    assert hashlib.sha256(content).hexdigest() == VERSION_1_SHA256
    path.write_bytes(content)
    model = load_model(path)
    assert type(model) is DM2LClassifier
    parameters = model.get_params()
    folds = parameters.pop("cv")
    assert isinstance(folds, MultilabelKFold)
    assert (folds.n_splits, folds.random_state) == (2, 0)
    assert math.isnan(parameters.pop("missing_label"))
    assert (
        parameters.items()
        >= {
            "lambda_d": 0.2,
            "kernel": "rbf",
            "gamma": 0.5,
            "approximation": "nystroem",
            "n_components": 6,
            "calibration": "isotonic",
            "threshold": "f1",
        }.items()
    )
    assert model.label_names_.tolist() == ["rain", "wind"]
    assert isinstance(model.X_fit_, sp.csr_array)
    assert model.X_fit_.shape == (6, 2)
    rows = sp.csr_array([[0.5, -0.5], [-1.0, 0.0], [0.0, 0.9]])
    scores = [
        [0.6691170065875054, -0.5390573316804248],
        [-1.0932973239428616, -0.42807948208573493],
        [0.054406848343860885, 0.9873993045184044],
    ]
    probabilities = [[1.0, 0.0], [0.0, 0.13281879657878792], [0.6666666666666666, 1.0]]
    np.testing.assert_allclose(model.decision_function(rows), scores, rtol=1e-12)
    np.testing.assert_allclose(model.predict_proba(rows), probabilities, rtol=1e-9, atol=1e-12)
    assert model.predict(rows).tolist() == [[1, 0], [0, 0], [1, 1]]
    model.fit(rows, [[1, 0], [0, 1], [np.nan, 1]])
