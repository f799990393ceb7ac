"""Model files: what comes back is what was saved, to the last bit."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import zipfile
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
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, VotingClassifier
from sklearn.exceptions import InconsistentVersionWarning
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
    load_model,
    save_model,
)
from dm2l.persistence._building import SPECIAL, class_of
from dm2l.persistence._schema import ENTRIES


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
        # Measured times are not stored.
        times = a.keys() & {"seconds", "mean_fit_time"}
        assert all(len(a[key]) == len(b[key]) and np.isnan(b[key]).all() for key in times)
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a.keys() - times)
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
    if type(model).__module__.startswith("dm2l."):
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


def test_an_ensemble_whose_linear_model_has_no_weight(path):
    X = np.random.default_rng(0).normal(size=(200, 2))
    radius = np.hypot(*X.T)
    Y = np.column_stack([radius + 0.5 * X[:, 0] > 1.2, radius - 0.5 * X[:, 1] > 1])
    model = AutoClassifier("quick", random_state=0).fit(X, Y)
    assert list(model.models_) == ["linear", "rbf kernel"]
    save_model(model, path)
    found = load_model(path).predict_proba(X)
    np.testing.assert_array_equal(found, model.predict_proba(X))


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
    assert (manifest["format"], manifest["version"]) == ("dm2l model", 2)
    assert manifest["dm2l"] == dm2l.__version__
    assert manifest["libraries"]["numpy"] == np.__version__
    node = manifest["model"]
    assert (node["class"], node["state"]["gamma"]) == ("DM2LClassifier", 0.2)
    assert contents.keys() == manifest["members"].keys()
    arrays = {}
    for name, record in manifest["members"].items():
        assert record["sha256"] == hashlib.sha256(contents[name]).hexdigest()
        (path.parent / "array.npy").write_bytes(contents[name])
        arrays[name] = np.load(path.parent / "array.npy", allow_pickle=False)
    stored = node["state"]
    assert np.array_equal(arrays[stored["dual_coef_"]["member"]], model.dual_coef_)
    assert np.array_equal(arrays[stored["X_fit_"]["data"]["member"]], model.X_fit_.data)


def test_the_same_model_gives_the_same_bytes(data, path):
    X, Y = data
    model = DM2LClassifier(calibration="isotonic").fit(X, Y)
    save_model(model, path)
    first = path.read_bytes()
    save_model(load_model(path), path)
    assert path.read_bytes() == first


@pytest.mark.parametrize(
    "model", [AutoClassifier("quick", random_state=0), DM2LClassifierCV([0.0, 0.3], [1.0], cv=2)]
)
def test_measured_times_are_not_stored(model, data, path):
    X, Y = data
    files = []
    for _ in range(2):
        save_model(model.fit(X, Y), path)
        files.append(path.read_bytes())
    assert files[0] == files[1]
    loaded = load_model(path)
    if isinstance(model, AutoClassifier):
        times, measured = loaded.leaderboard_["seconds"], model.leaderboard_["seconds"]
    else:
        times, measured = (m.cv_results_["mean_fit_time"] for m in (loaded, model))
    assert np.isnan(times).all()
    assert len(times) == len(measured)
    assert np.nanmin(measured) > 0


KILLED = """
import os, signal, sys
from dm2l import DM2LClassifier
from dm2l.persistence import _archive, save_model
_archive.np.lib.format.write_array = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
save_model(DM2LClassifier(cv=[__import__("numpy").zeros(3)]), sys.argv[1])
"""


@pytest.mark.skipif(os.name != "posix", reason="the system has no SIGKILL")
def test_what_a_kill_amid_a_file_leaves_is_removed_by_the_next_save(path):
    ended = subprocess.run([sys.executable, "-c", KILLED, path], check=False).returncode
    assert ended == -signal.SIGKILL
    (left,) = path.parent.iterdir()
    assert ".part." in left.name
    save_model(DM2LClassifier(), path)
    assert list(path.parent.iterdir()) == [path]


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
    with pytest.raises(ValueError, match="arrays, but a model file can have at most 8"):
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
    ours.add(dm2l.ScoreClassifier)
    ours |= {getattr(baselines, name) for name in baselines.__all__}
    ours.remove(baselines.ZeroFillClassifier)
    assert ours == {class_of(entry) for entry in ENTRIES.values() if "Classifier" in entry.groups}


OURS = [entry for entry in ENTRIES.values() if entry.module.startswith("dm2l.")]


@pytest.mark.parametrize("entry", OURS, ids=lambda entry: entry.name)
def test_the_table_lists_the_parameters_of_every_class(entry):
    if entry.name not in SPECIAL:
        parameters = set(inspect.signature(class_of(entry)).parameters)
        listed = entry.parameters.keys() | entry.fitted.keys()
        assert parameters <= listed, f"add to {entry.name} in dm2l/persistence/_allowed.py"
        assert entry.parameters.keys() - entry.optional <= parameters, f"of {entry.name}"


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=lambda entry: entry.name)
def test_what_the_table_allows_hides_nothing_of_a_class(entry):
    """An attribute of a file must not take the place of a method or a property."""
    cls = class_of(entry)
    assert (cls.__module__, cls.__name__) == (entry.module, entry.name)
    parameters = inspect.signature(cls).parameters if entry.groups else {}
    for name in entry.fitted.keys() | (entry.parameters.keys() - parameters):
        assert not name.startswith("__")
        found = inspect.getattr_static(cls, name, None)
        assert not callable(found), name
        assert not (isinstance(found, property) and entry.groups), name


# --------------------------------------------------------------------- what cannot be saved


def waves(A, B):
    return np.cos(A @ B.T)


@pytest.mark.parametrize(
    ("model", "where"),
    [
        (DM2LClassifier(kernel=waves), r"DM2LClassifier\.kernel is <function waves"),
        (DM2LClassifier(kernel=RBF()), r"DM2LClassifier\.kernel is RBF\(.*cannot contain func"),
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
            r"random_state: its random generator must be MT19937, got PCG64",
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
        check_equal(model, again(model, path), table)

    def test_models_in_containers_of_scikit_learn(self, data, path):
        X, Y = data
        model = VotingClassifier([("a", DM2LClassifier()), ("b", MaskedRidgeClassifier())])
        model.fit(X, np.nan_to_num(Y[:, 0]))
        voting = "sklearn.ensemble._voting.VotingClassifier"
        loaded = again(model, path, trusted=[voting, "sklearn.utils._bunch.Bunch"])
        check_equal(model, loaded, X)
        assert loaded.named_estimators_["a"] is loaded.estimators_[0]

    def test_another_version_of_scikit_learn_is_warned_of(self, data, path, monkeypatch):
        model = make_pipeline(StandardScaler(), DM2LClassifier()).fit(*data)
        monkeypatch.setattr(_model.sklearn, "__version__", "1.2.3")
        save_model(model, path)
        monkeypatch.undo()
        with pytest.warns(InconsistentVersionWarning, match=r"Pipeline from version 1\.2\.3"):
            check_equal(model, load_model(path), data[0])

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
        names = re.findall(r"'([\w.]+)'", str(caught.value))
        assert {"GridSearchCV", "_Scorer", "_metric"} <= {name.rpartition(".")[2] for name in names}
        for number in range(len(names)):
            with pytest.raises(ModelFileError, match="not trusted"):
                load_model(path, trusted=names[:number] + names[number + 1 :])
        loaded = load_model(path, trusted=names)
        check_equal(model, loaded, X)
        assert isinstance(loaded.cv, MultilabelKFold)
        assert repr(loaded.cv_results_["param_model"]) == repr(model.cv_results_["param_model"])

    def test_a_type_that_is_not_trusted_is_listed(self, data, path):
        X, Y = data
        model = MaskedOneVsRestClassifier(GradientBoostingClassifier(n_estimators=2)).fit(X, Y)
        with pytest.raises(ModelFileError, match=r"not trusted: .*GradientBoosting") as caught:
            again(model, path)
        with pytest.raises(ModelFileError, match="not trusted"):
            load_model(path, trusted=["sklearn.tree._tree.Other"])
        loaded = load_model(path, trusted=re.findall(r"'([\w.]+)'", str(caught.value)))
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
        names = re.findall(r"'([\w.]+)'", str(caught.value))
        check_equal(model, load_model(path, trusted=names), X)

    def test_an_estimator_of_a_user_loads_where_it_is_trusted(self, data, path):
        X, Y = data
        model = MaskedOneVsRestClassifier(Prior(2.0)).fit(X, Y)
        save_model(model, path)
        name = f"{Prior.__module__}.Prior"
        with pytest.raises(ModelFileError, match=rf"not trusted: \['{re.escape(name)}'\]\. If you"):
            load_model(path)
        loaded = load_model(path, trusted=[name])
        assert type(loaded.estimators_[0]) is Prior
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))

    def test_sparse_matrices_inside(self, data, path):
        X, Y = data
        model = MaskedOneVsRestClassifier(KNeighborsClassifier(3)).fit(
            sp.csr_array(X * (X > 0.5)), Y
        )
        trusted = ["sklearn.neighbors._classification.KNeighborsClassifier"]
        check_equal(model, again(model, path, trusted=trusted), sp.csr_array(X[:9]))

    @pytest.mark.parametrize(
        ("model", "what"),
        [
            (make_pipeline(FunctionTransformer(lambda X: X), DM2LClassifier()), "<lambda>"),
            (make_pipeline(StandardScaler(), DM2LClassifier(kernel=waves)), "kernel is <function"),
        ],
        ids=["lambda", "kernel"],
    )
    def test_functions_inside_cannot_be_saved(self, model, what, path):
        with pytest.raises(TypeError, match=what):
            save_model(model, path)
        assert not path.exists()

    def test_names_of_types_are_a_list(self, path):
        save_model(MaskedRidgeClassifier(), path)
        for trusted in ("a.b", [int]):
            with pytest.raises(TypeError, match="trusted must list names"):
                load_model(path, trusted=trusted)


class Prior(ClassifierMixin, BaseEstimator):
    """An estimator that somebody wrote."""

    def __init__(self, weight=1.0):
        self.weight = weight

    def fit(self, X, y):
        self.classes_, self.rate_ = np.unique(y), float(np.mean(y)) ** self.weight
        return self

    def predict(self, X):
        return np.full(len(X), int(self.rate_ > 0.5))

    def predict_proba(self, X):
        return np.tile([1 - self.rate_, self.rate_], (len(X), 1))


class Ours(DM2LClassifier):
    """What somebody made of it."""


# -------------------------------------------------------------------------- earlier versions


def test_a_file_of_an_earlier_development_version_says_what_to_do(path):
    text = b'{"format": "dm2l model", "version": 1, "members": {}, "slots": [], "model": 1}'
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", text)
        archive.writestr("manifest.sha256", hashlib.sha256(text).hexdigest())
    with pytest.raises(ModelFileError, match=r"earlier development version .*Fit the model again"):
        load_model(path)
