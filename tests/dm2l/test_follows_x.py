"""A model fitted to arrays of another library lives there and equals the one fitted to numpy."""

from __future__ import annotations

import functools
import pickle
import re

import array_api_compat
import array_api_strict as strict
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import dm2l_oracles as oracle
from dm2l import ConstantLabelWarning, DM2LClassifier, metrics
from dm2l.baselines import LEMLClassifier, MaskedOneVsRestClassifier, MaskedRidgeClassifier
from dm2l.labels import LabelMatrix

# Version 2.1 of array_api_strict copies between devices in a way that numpy 1 does not know.
ONE_DEVICE = np.lib.NumpyVersion(np.__version__) < "2.0.0"
moves = pytest.mark.skipif(
    ONE_DEVICE, reason="array_api_strict moves arrays between its devices on numpy 2 only"
)
anywhere = pytest.mark.parametrize(
    "place", ["strict", pytest.param("strict device", marks=moves), "torch"]
)
# Of the two devices of array_api_strict the one that allows less.
each_library = pytest.mark.parametrize(
    "place", ["strict" if ONE_DEVICE else "strict device", "torch"]
)


METHODS = ("decision_function", "predict", "predict_proba")


def get_torch():
    return pytest.importorskip("torch", reason="torch is an extra")


def put(array, place):
    """``array`` where a test wants it."""
    if place == "torch":
        return get_torch().asarray(np.asarray(array))
    if place == "numpy":
        return np.asarray(array)
    where = strict.Device("device1" if place == "strict device" else "CPU_DEVICE")
    return strict.asarray(np.asarray(array), device=where)


def back(array):
    """The same as a numpy array, by each library's own means."""
    if type(array).__module__.startswith("torch"):
        return array.numpy()
    if isinstance(array, np.ndarray):
        return array
    return np.asarray(array.to_device(strict.Device("CPU_DEVICE")))


def lives(array, place):
    """Whether an array lives in that library and on that device."""
    example = put(np.zeros(1), place)
    there = array_api_compat.device(example)
    return type(array) is type(example) and array_api_compat.device(array) == there


def assert_close(found, expected, tol=1e-8):
    np.testing.assert_allclose(back(found), back(expected), rtol=0, atol=tol)


# ----------------------------------------------------------------------------------- instances


def tall(seed=0):
    X, T = oracle.draw_problem(seed, 40, 5, 4)
    return X, oracle.as_labels(T)


def wide():
    X, T = oracle.draw_problem(1, 14, 20, 4)
    return X, oracle.as_labels(T)


def far():
    X, Y = wide()
    return X + 1e3, Y


def copied():
    X, Y = tall()
    return np.vstack([X, X[:15]]), np.vstack([Y, Y[20:35]])


def squared():
    X, Y = tall()
    return X @ X.T + 1.0, Y


def holes():
    X, Y = tall()
    Y[[0, 7, 39]] = np.nan
    return X, Y


def squared_holes():
    X, Y = holes()
    return X @ X.T + 1.0, Y


def constant():
    X, Y = tall()
    Y[Y[:, 1] == 0, 1] = 1.0
    Y[:, 3] = np.nan
    return X, Y


def signed():
    X, Y = tall()
    return X, np.where(np.isnan(Y), 0, 2 * Y - 1).astype(np.int8)


def complete():
    X, Y = tall()
    return X, np.nan_to_num(Y) > 0


def large():
    X, T = oracle.draw_problem(2, 120, 5, 4, observed=0.8)
    return X, oracle.as_labels(T)


CASES = {
    "linear": (tall, {}),
    "linear, more columns than rows": (wide, {}),
    "linear, rows far from zero": (far, {}),
    "rbf": (tall, {"kernel": "rbf"}),
    "rbf, copies of rows": (copied, {"kernel": "rbf", "gamma": 0.5}),
    "poly": (tall, {"kernel": "poly", "degree": 2}),
    "cosine": (tall, {"kernel": "cosine"}),
    "function": (tall, {"kernel": lambda A, B: A @ B.T + 1.0}),
    "precomputed": (squared, {"kernel": "precomputed"}),
    "precomputed, empty rows": (squared_holes, {"kernel": "precomputed"}),
    "no norms": (tall, {"lambda_d": 0.0}),
    "no norms, rbf": (tall, {"lambda_d": 0.0, "kernel": "rbf"}),
    "no global norm": (tall, {"discriminant": False}),
    "cccp": (tall, {"solver": "cccp"}),
    "no intercept": (tall, {"fit_intercept": False}),
    "no intercept, wide": (wide, {"fit_intercept": False}),
    "ridge": (tall, {"alpha": 0.1, "lambda_d": 1.0}),
    "constant labels": (constant, {}),
    "constant labels, rbf": (constant, {"kernel": "rbf"}),
    "empty rows": (holes, {}),
    "empty rows, rbf": (holes, {"kernel": "rbf"}),
    "signed labels": (signed, {"missing_label": 0}),
    "complete labels": (complete, {}),
    "number as threshold": (tall, {"threshold": 0.2}),
    "f1": (large, {"threshold": "f1", "cv": 3}),
    "f1, empty rows": (holes, {"threshold": "f1", "cv": 3}),
    "sigmoid calibration": (large, {"calibration": "sigmoid", "cv": 3}),
    "isotonic calibration": (large, {"calibration": "isotonic", "cv": 3}),
    "calibration, precomputed": (
        squared,
        {"calibration": "sigmoid", "cv": 3, "kernel": "precomputed"},
    ),
}
cases = pytest.mark.parametrize("name", CASES)
silent = pytest.mark.filterwarnings("ignore::dm2l.ConstantLabelWarning")


@functools.cache
def fitted(name, place):
    """Model, inputs and labels of a case; whoever takes them leaves them as they are."""
    data, settings = CASES[name]
    X, Y = (put(part, place) for part in data())
    return DM2LClassifier(**settings).fit(X, Y), X, Y


# ---------------------------------------------------------------- the same answers, in X's place


@silent
@each_library
@cases
def test_answers_live_where_the_inputs_live_and_are_numpy_s(name, place):
    expected, X, Y = fitted(name, "numpy")
    model, there, labels = fitted(name, place)
    calls = [(method, (X,), (there,), {}) for method in METHODS]
    calls += [("complete", (X, Y), (there, labels), {"method": method}) for method in METHODS]
    for method, here, over_there, options in calls:
        found = getattr(model, method)(*over_there, **options)
        assert lives(found, place), method
        reference = getattr(expected, method)(*here, **options)
        assert back(found).dtype == reference.dtype
        assert_close(found, reference)
    assert model.score(there, labels) == expected.score(X, Y)
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    np.testing.assert_allclose(model.thresholds_, expected.thresholds_, rtol=0, atol=1e-8)


@silent
@each_library
@cases
def test_fitted_weights_live_where_the_inputs_live_and_are_numpy_s(name, place):
    expected, model = fitted(name, "numpy")[0], fitted(name, place)[0]
    names = {"coef_", "dual_coef_", "intercept_", "X_fit_"} & set(vars(expected))
    assert names == {"coef_", "dual_coef_", "intercept_", "X_fit_"} & set(vars(model))
    for attribute in names:
        found, reference = getattr(model, attribute), getattr(expected, attribute)
        assert back(found).dtype == reference.dtype
        assert found.shape == reference.shape
        if attribute == "X_fit_" and expected.kernel == "precomputed":
            np.testing.assert_array_equal(found, reference)  # rows of the matrix, not inputs
            continue
        assert lives(found, place), attribute
        # Which rows are pivots is a matter of rounding where all rows are of one length. Kernel
        # weights are large and cancel in the scores.
        if attribute == "intercept_" or expected.kernel != "cosine":
            assert_close(found, reference, tol=1e-5 if attribute == "dual_coef_" else 1e-8)


@silent
@each_library
@cases
def test_neither_inputs_nor_labels_are_changed(name, place):
    model, there, labels = fitted(name, place)
    for method in METHODS:
        getattr(model, method)(there)
        model.complete(there, labels, method=method)
    X, Y = CASES[name][0]()
    np.testing.assert_array_equal(back(there), X)
    np.testing.assert_array_equal(back(labels), Y)


@pytest.mark.parametrize("approximation", ["nystroem", "fourier"])
@anywhere
def test_approximations_live_there_too(approximation, place):
    X, Y = tall()
    there = put(X, place)
    model = DM2LClassifier(
        kernel="rbf", approximation=approximation, n_components=20, random_state=0
    )
    expected = clone(model).fit(X, Y)
    model.fit(there, Y)
    for method in METHODS:
        found = getattr(model, method)(there)
        assert lives(found, place)
        assert_close(found, getattr(expected, method)(X))


@anywhere
@pytest.mark.parametrize("name", ["linear", "linear, more columns than rows", "rbf"])
def test_new_rows_are_scored_as_numpy_scores_them(name, place):
    (model, X, _), expected = fitted(name, place), fitted(name, "numpy")[0]
    new = np.random.default_rng(8).standard_normal((7, X.shape[1]))
    for method in METHODS:
        found = getattr(model, method)(put(new, place))
        assert lives(found, place)
        assert_close(found, getattr(expected, method)(new))


@anywhere
@pytest.mark.parametrize("name", ["linear", "linear, more columns than rows", "rbf"])
def test_float32_inputs_give_nearly_the_same(name, place):
    expected, X, Y = fitted(name, "numpy")
    there = put(X.astype(np.float32), place)
    model = clone(expected).fit(there, Y)
    scores = model.decision_function(there)
    assert lives(scores, place)
    assert back(scores).dtype == np.float64
    assert_close(scores, expected.decision_function(X), tol=2e-3)
    assert back(model.intercept_).dtype == np.float32


def test_a_float32_tensor_as_kernel_matrix():
    torch = get_torch()
    X, Y = squared()
    model = DM2LClassifier(kernel="precomputed")
    scores = model.fit(X, Y).decision_function(X)
    tensor = torch.asarray(X, dtype=torch.float32)
    assert_close(model.fit(tensor, Y).decision_function(tensor), scores, tol=2e-3)


@pytest.mark.parametrize("name", ["linear", "rbf"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_tensor_of_the_other_precision_is_scored(name, precision):
    torch = get_torch()
    X, Y = tall()
    other = {"float32": "float64", "float64": "float32"}[precision]
    model = clone(fitted(name, "numpy")[0])
    model.fit(torch.asarray(X, dtype=getattr(torch, precision)), Y)
    scores = model.decision_function(torch.asarray(X, dtype=getattr(torch, other)))
    expected = fitted(name, "numpy")[0].decision_function(X)
    assert_close(scores, expected, tol=2e-3)


@anywhere
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_labels_that_are_all_constant_give_constant_scores_there(kernel, place):
    X, _ = tall()
    Y = np.column_stack([np.ones(40), np.zeros(40)])
    there = put(X, place)
    with pytest.warns(ConstantLabelWarning):
        model = DM2LClassifier(kernel=kernel).fit(there, Y)
    assert lives(model.intercept_, place)
    for method in METHODS:
        assert lives(getattr(model, method)(there), place)
    score = 0.5 * np.log(40.5 / 0.5)  # of the observed rate
    assert_close(model.decision_function(there), np.tile([score, -score], (40, 1)))
    assert_close(model.predict(there), Y)


# ------------------------------------------------------------------------------------- labels


@anywhere
@pytest.mark.parametrize("where", ["numpy", "there"])
def test_labels_and_mask_may_be_of_either_library(where, place):
    X, Y = tall()
    mask = ~np.isnan(Y) & (np.random.default_rng(3).random(Y.shape) < 0.9)
    there = put(X, place)
    given = [put(part, place) if where == "there" else part for part in (Y, mask)]
    model = DM2LClassifier().fit(there, given[0], label_mask=given[1])
    expected = DM2LClassifier().fit(X, np.where(mask, Y, np.nan))
    assert_close(model.decision_function(there), expected.decision_function(X))
    assert model.score(there, given[0], label_mask=given[1]) == expected.score(
        X, Y, label_mask=mask
    )
    filled = model.complete(there, given[0], label_mask=given[1])
    assert lives(filled, place) if where == "there" else isinstance(filled, np.ndarray)
    assert_close(filled, expected.complete(X, Y, label_mask=mask))


@anywhere
def test_a_numpy_model_takes_labels_of_another_library(place):
    X, Y = tall()
    model = DM2LClassifier().fit(X, put(Y, place))
    np.testing.assert_array_equal(
        model.decision_function(X), DM2LClassifier().fit(X, Y).decision_function(X)
    )


@anywhere
def test_a_completed_data_frame_stays_one(place):
    X, Y = tall()
    frame = pd.DataFrame(Y, index=np.arange(40) * 2, columns=list("abcd"))
    there = put(X, place)
    filled = DM2LClassifier().fit(there, frame).complete(there, frame)
    expected = DM2LClassifier().fit(X, frame).complete(X, frame)
    pd.testing.assert_frame_equal(filled, expected)


CLASSES = {
    "two numbers": np.array([3, 8]),
    "two words": np.array(["no", "yes"]),
    "numbers": np.array([1, 5, 7]),
    "words": np.array(["ash", "elm", "oak"]),
}


def classes(name):
    X, _ = tall()
    values = CLASSES[name]
    which = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5 if len(values) == 3 else 0)
    return X, values[which]


@each_library
@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("calibration", [None, "sigmoid"])
def test_classes_are_predicted_there_if_they_are_numbers(name, calibration, place):
    X, y = classes(name)
    there = put(X, place)
    model = DM2LClassifier(calibration=calibration, cv=3).fit(there, y)
    expected = DM2LClassifier(calibration=calibration, cv=3).fit(X, y)
    np.testing.assert_array_equal(model.classes_, expected.classes_)
    found = model.predict(there)
    if "words" in name:
        assert isinstance(found, np.ndarray)
    else:
        assert lives(found, place)
    np.testing.assert_array_equal(back(found), expected.predict(X))
    for method in ("decision_function", "predict_proba"):
        found = getattr(model, method)(there)
        assert lives(found, place)
        assert_close(found, getattr(expected, method)(X))
    assert model.score(there, y) == expected.score(X, y)


@anywhere
@pytest.mark.parametrize("name", ["two numbers", "numbers"])
def test_classes_of_another_library_are_read(name, place):
    X, y = classes(name)
    there, labels = put(X, place), put(y, place)
    mask = np.arange(40) % 5 > 0
    model = DM2LClassifier().fit(there, labels, label_mask=put(mask, place))
    expected = DM2LClassifier().fit(X, y, label_mask=mask)
    np.testing.assert_array_equal(back(model.predict(there)), expected.predict(X))


@anywhere
@pytest.mark.parametrize("name", ["two numbers", "numbers"])
def test_classes_of_another_library_are_scored(name, place):
    X, y = classes(name)
    there, labels = put(X, place), put(y, place)
    mask = np.arange(40) % 5 > 0
    model, expected = DM2LClassifier().fit(there, y), DM2LClassifier().fit(X, y)
    assert model.score(there, labels) == expected.score(X, y)
    found = model.score(there, labels, label_mask=put(mask, place))
    assert found == expected.score(X, y, label_mask=mask)


@anywhere
def test_weights_of_another_library_are_taken(place):
    (model, there, labels), (expected, X, Y) = fitted("linear", place), fitted("linear", "numpy")
    weights = 1.0 + np.arange(40)
    found = model.score(there, labels, put(weights, place))
    assert found == pytest.approx(expected.score(X, Y, weights), rel=1e-12)


# ---------------------------------------------------------------------------------- what leaks


@each_library
@pytest.mark.parametrize(
    "name", ["linear", "linear, more columns than rows", "rbf", "no norms", "f1, empty rows"]
)
def test_hidden_truth_leaves_the_fit_as_it_is_to_the_last_bit(name, place):
    data, settings = CASES[name]
    X, Y = data()
    mask = ~np.isnan(Y)
    truth, other = np.where(mask, Y, 1.0), np.where(mask, Y, 0.0)
    there = put(X, place)
    fits = [
        DM2LClassifier(**settings).fit(there, put(labels, place), label_mask=put(mask, place))
        for labels in (truth, other)
    ]
    fits.append(fitted(name, place)[0])
    for model in fits[1:]:
        for method in METHODS:
            first, second = (back(getattr(m, method)(there)) for m in (fits[0], model))
            np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(fits[0].objective_history_, model.objective_history_)


@anywhere
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_rows_with_nothing_observed_leave_the_fit_as_it_is(kernel, place):
    X, Y = tall()
    more = np.random.default_rng(0).standard_normal((6, 5))
    there = put(X, place)
    plain = fitted(kernel, place)[0]
    longer = DM2LClassifier(kernel=kernel).fit(
        put(np.vstack([X, more]), place), np.vstack([Y, np.full((6, 4), np.nan)])
    )
    found = back(longer.decision_function(there))
    np.testing.assert_array_equal(found, back(plain.decision_function(there)))


# --------------------------------------------------------------------------------- warm starts


@each_library
@pytest.mark.parametrize(
    "name",
    ["linear", "linear, more columns than rows", "linear, rows far from zero", "rbf", "cccp"],
)
def test_a_warm_start_begins_where_the_last_fit_ended(name, place):
    data, settings = CASES[name]
    X, Y = data()
    there = put(X, place)
    model = DM2LClassifier(warm_start=True, **settings).fit(there, Y)
    before, history = back(model.decision_function(there)), model.objective_history_
    model.fit(there, Y)
    assert model.objective_history_[0] == pytest.approx(history[-1], rel=1e-6)
    assert model.objective_ <= history[-1] * (1 + 1e-8)
    assert lives(model.decision_function(there), place)
    assert_close(model.decision_function(there), before, tol=0.05)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("places", [("numpy", "torch"), ("torch", "numpy")], ids="-".join)
def test_a_warm_start_on_another_library_fits_all_the_same(kernel, places):
    X, Y = tall()
    model = DM2LClassifier(kernel=kernel, warm_start=True)
    for place in places:
        model.fit(put(X, place), Y)
    expected = fitted(kernel, "numpy")[0].decision_function(X)
    assert_close(model.decision_function(put(X, places[1])), expected, tol=0.05)


# ------------------------------------------------------------------------------- what is refused


@anywhere
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_inputs_that_live_elsewhere_are_refused_with_both_homes_named(kernel, method, place):
    (model, there, _), (numpy_model, X, Y) = fitted(kernel, place), fitted(kernel, "numpy")
    library = {"torch": "torch on cpu"}.get(place, "array_api_strict on ")
    with pytest.raises(ValueError, match=f"fitted to arrays of {library}.*X is from numpy"):
        getattr(model, method)(X)
    message = f"fitted to arrays of numpy, but X is from {library}"
    with pytest.raises(ValueError, match=message):
        getattr(numpy_model, method)(there)
    with pytest.raises(ValueError, match=message):
        numpy_model.complete(there, Y, method=method)
    with pytest.raises(ValueError, match=message):
        numpy_model.score(there, Y)


@moves
def test_inputs_on_another_device_are_refused_with_both_devices_named():
    X, _ = tall()
    model = fitted("linear", "strict")[0]
    with pytest.raises(ValueError, match=r"CPU_DEVICE.*device1"):
        model.predict(put(X, "strict device"))


@anywhere
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_inputs_that_are_not_finite_are_refused(value, place):
    (X, Y), model = tall(), fitted("linear", place)[0]
    X[3, 2] = value
    for call in (lambda there: DM2LClassifier().fit(there, Y), model.predict):
        with pytest.raises(ValueError, match="X contains NaN or infinity"):
            call(put(X, place))


@anywhere
@pytest.mark.parametrize("shape", [(40,), (4, 10, 5), ()], ids=str)
def test_inputs_without_two_dimensions_are_refused(shape, place):
    (_, Y), model = tall(), fitted("linear", place)[0]
    wrong = np.ones(shape)
    message = f"Expected 2D array, got {len(shape)}D array"
    with pytest.raises(ValueError, match=message):
        DM2LClassifier().fit(put(wrong, place), Y)
    with pytest.raises(ValueError, match=message):
        model.decision_function(put(wrong, place))


@anywhere
@pytest.mark.parametrize("shape", [(0, 5), (40, 0)], ids=str)
def test_inputs_without_rows_or_columns_are_refused(shape, place):
    _, Y = tall()
    with pytest.raises(ValueError, match=re.escape(str(shape))):
        DM2LClassifier().fit(put(np.ones(shape), place), Y[: shape[0]])


@anywhere
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("columns", [4, 6])
def test_inputs_with_another_number_of_features_are_refused(kernel, columns, place):
    model = fitted(kernel, place)[0]
    assert model.n_features_in_ == 5
    with pytest.raises(ValueError, match=f"X has {columns} features.* expecting 5 features"):
        model.predict(put(np.ones((3, columns)), place))


@anywhere
def test_other_shapes_that_do_not_fit_are_refused(place):
    X, Y = tall()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        DM2LClassifier().fit(put(X[:10], place), put(Y, place))
    with pytest.raises(ValueError, match="must be square"):
        DM2LClassifier(kernel="precomputed").fit(put(X, place), put(Y, place))


@anywhere
def test_complex_inputs_are_refused(place):
    X, Y = tall()
    with pytest.raises(ValueError, match="Complex data not supported"):
        DM2LClassifier().fit(put(X.astype(np.complex128), place), Y)


@anywhere
def test_a_kernel_that_needs_numpy_is_refused_with_a_way_out(place):
    X, Y = tall()
    with pytest.raises(ValueError, match="kernel='laplacian' supports only numpy arrays"):
        DM2LClassifier(kernel="laplacian").fit(put(X, place), Y)


# ------------------------------------------------------------------------------ what is converted


@anywhere
@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8", "bool"])
def test_numbers_that_are_not_floats_become_float64(dtype, place):
    X, Y = tall()
    X = np.abs(np.round(3 * X)).astype(dtype)
    there = put(X, place)
    model = DM2LClassifier().fit(there, Y)
    assert back(model.coef_).dtype == np.float64
    expected = DM2LClassifier().fit(X.astype(np.float64), Y)
    assert_close(model.decision_function(there), expected.decision_function(X.astype(np.float64)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_becomes_float64(dtype):
    torch = get_torch()
    X, Y = tall()
    half = torch.asarray(X).to(getattr(torch, dtype))
    model = DM2LClassifier().fit(half, Y)
    assert model.coef_.dtype == torch.float64
    exact = half.to(torch.float64).numpy()
    expected = DM2LClassifier().fit(exact, Y)
    assert_close(model.decision_function(half), expected.decision_function(exact))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_tensor_that_records_gradients_leaves_no_graph_behind(kernel):
    torch = get_torch()
    X, Y = tall()
    recording = torch.asarray(X).requires_grad_(True)
    model = DM2LClassifier(kernel=kernel).fit(recording, Y)
    expected = DM2LClassifier(kernel=kernel).fit(X, Y).decision_function(X)
    assert_close(model.decision_function(recording).detach(), expected)
    for name in {"coef_", "dual_coef_", "intercept_", "X_fit_"} & set(vars(model)):
        assert not getattr(model, name).requires_grad, name


@anywhere
def test_names_of_columns_of_an_earlier_fit_are_forgotten(place):
    X, Y = tall()
    model = DM2LClassifier().fit(pd.DataFrame(X, columns=list("abcde")), Y)
    assert hasattr(model, "feature_names_in_")
    model.fit(put(X, place), Y)
    assert not hasattr(model, "feature_names_in_")


# -------------------------------------------------------------------------- around the estimator


@pytest.mark.parametrize("name", ["linear", "rbf", "precomputed", "sigmoid calibration"])
def test_a_pickled_model_gives_the_same_answers(name):
    get_torch()
    model, there, _ = fitted(name, "torch")
    again = pickle.loads(pickle.dumps(model))
    for method in METHODS:
        found = getattr(again, method)(there)
        assert lives(found, "torch")
        np.testing.assert_array_equal(back(found), back(getattr(model, method)(there)))


@anywhere
def test_a_clone_of_a_fitted_model_fits_wherever_it_is_asked_to(place):
    X, Y = tall()
    model = DM2LClassifier().fit(put(X, place), Y)
    assert isinstance(clone(model).fit(X, Y).predict(X), np.ndarray)
    model.fit(X, Y)  # and so does the model itself
    assert isinstance(model.predict(X), np.ndarray)
    assert isinstance(model.coef_, np.ndarray)


@anywhere
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("discriminant", [True, False])
def test_the_published_models_follow_x(place, kernel, discriminant, monkeypatch):
    # Conjugate gradients without an end magnify rounding: X times 1 + 1e-13 moves scores of the
    # kernel model by 0.5. A few steps tell as much.
    monkeypatch.setattr("dm2l._solvers.cccp.MOST_EVALUATIONS", 5)
    monkeypatch.setattr("dm2l._solvers.cccp.RESTART", 4)
    X, Y = tall()
    options = {"sigma": 2.0, "discriminant": discriminant, "lambda_d": 1e-5, "max_iter": 3}
    expected = DM2LClassifier.published(kernel, **options).fit(X, Y)
    model = DM2LClassifier.published(kernel, **options).fit(put(X, place), put(Y, place))
    scores = model.decision_function(put(X, place))
    assert lives(scores, place)
    assert model.n_evaluations_ == expected.n_evaluations_
    assert_close(scores, expected.decision_function(X), tol=1e-6)
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-6)


@each_library
@pytest.mark.parametrize(
    "baseline",
    [
        pytest.param(MaskedRidgeClassifier(), id="ridge"),
        pytest.param(MaskedRidgeClassifier(threshold="f1", cv=3), id="ridge, f1"),
        pytest.param(LEMLClassifier(random_state=0), id="leml"),
        pytest.param(
            MaskedOneVsRestClassifier(LogisticRegression()),
            id="one vs rest",
        ),
    ],
)
def test_baselines_take_other_arrays_and_answer_in_numpy(baseline, place):
    X, Y = tall()
    there, labels = put(X, place), put(Y, place)
    model, expected = clone(baseline).fit(there, labels), clone(baseline).fit(X, Y)
    for method in METHODS:
        found = getattr(model, method)(there)
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, getattr(expected, method)(X))
        np.testing.assert_array_equal(getattr(model, method)(X), found)  # of either library
    assert model.score(there, labels) == expected.score(X, Y)


METRICS = [
    "label_ranking_average_precision",
    "coverage_error",
    "f1_macro",
    "f1_micro",
    "hamming_loss",
    "instance_auc",
]
METRICS += ["label_auc", "one_error", "ranking_loss", "precision_at_k"]


@anywhere
@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("labels", ["numpy", "there"])
def test_metrics_take_scores_and_labels_of_other_libraries(name, labels, place):
    model, X, Y = fitted("linear", "numpy")
    decided = name in ("f1_macro", "f1_micro", "hamming_loss")
    scores = model.predict(X) if decided else model.decision_function(X)
    options = {"k": 2} if name == "precision_at_k" else {}
    metric = getattr(metrics, name)
    given = put(Y, place) if labels == "there" else Y
    assert metric(given, put(scores, place), **options) == metric(Y, scores, **options)


@anywhere
def test_metrics_of_one_label_take_vectors_of_other_libraries(place):
    X, Y = tall()
    scores, y, mask = X[:, 0], np.nan_to_num(Y[:, 0]), np.arange(40) % 4 > 0
    expected = metrics.label_auc(np.where(mask, y, np.nan), scores)
    assert metrics.label_auc(put(np.where(mask, y, np.nan), place), put(scores, place)) == expected
    there = LabelMatrix.from_array(put(y[:, None], place), mask=put(mask[:, None], place))
    assert metrics.label_auc(there, put(scores, place)) == expected
