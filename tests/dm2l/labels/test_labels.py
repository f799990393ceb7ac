"""The label contract: every container and mark gives the same signs; anything else is refused."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import DataConversionWarning
from sklearn.model_selection import KFold, cross_val_predict

from dm2l import ConstantLabelWarning, DM2LClassifier
from dm2l.baselines import MaskedRidgeClassifier
from dm2l.labels._matrix import LearnableMask, parse_labels
from dm2l.labels._parsing import column_text, read_values
from dm2l.model_selection import MultilabelKFold, cross_val_decision

# All nine ways in which two neighbours can be positive, negative or missing are in here.
SIGNS = np.array([[1, -1, 0], [0, 1, -1], [-1, 0, 1], [1, 1, -1], [0, 0, 1]], dtype=np.int8)
NAMES = ["rain", "wind", "fog"]

sign_matrices = arrays(
    np.int8, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.sampled_from([-1, 0, 1])
).filter(np.any)


def coded(T, *, negative=0, missing=np.nan, positive=1, dtype=float):
    Y = np.empty(T.shape, dtype=dtype)
    Y[T > 0], Y[T < 0], Y[T == 0] = positive, negative, missing
    return Y


def boolean(T):
    return coded(T, positive=True, negative=False, missing=None, dtype=object)


def frame(columns):
    """A pandas frame from (dtype, values) pairs, one column each."""
    series = [pd.Series(list(values), dtype=dtype) for dtype, values in columns]
    result = pd.concat(series, axis=1)
    result.columns = [f"label {k}" for k in range(len(series))]
    return result


def uniform_frame(T, dtype, **coding):
    return frame([(dtype, column) for column in coded(T, dtype=object, **coding).T])


def mixed_frame(T):
    dtypes = ["float64", "Int8", "boolean", "object", "Float64"]
    columns = []
    for k, t in enumerate(T.T):
        dtype = dtypes[k % len(dtypes)]
        none = np.nan if dtype == "float64" else None
        columns.append((dtype, coded(t, missing=none, dtype=object)))
    return frame(columns)


def duplicate_names(T):
    result = uniform_frame(T, "float64")
    result.columns = ["same"] * T.shape[1]
    return result


def polars(T, dtype, missing=None):
    bits = coded(T, missing=missing, dtype=object)
    if dtype == pl.Boolean:
        bits = boolean(T)
    return pl.DataFrame(
        [pl.Series(f"label {k}", column.tolist(), dtype=dtype) for k, column in enumerate(bits.T)]
    )


def masked(T, dtype, hidden):
    return np.ma.masked_array(coded(T, missing=hidden, dtype=dtype), mask=T == 0)


def half_masked(T):
    """Some holes under the mask, the others NaN."""
    Y = np.ma.masked_array(coded(T), mask=T == 0)
    Y.mask[::2] = False
    return Y


def signed(T, make, dtype=np.int8):
    # A matrix without a stored -1 has to say what absence means, signed or not.
    absent = None if (T < 0).any() else "missing"
    return make(T.astype(dtype)), {"missing_as": absent}


ENCODINGS = {
    "float": lambda T: (coded(T), {}),
    "float, -1/+1": lambda T: (coded(T, negative=-1), {}),
    "float32": lambda T: (coded(T, dtype=np.float32), {}),
    "Fortran order": lambda T: (np.asfortranarray(coded(T)), {}),
    "int, -1 missing": lambda T: (coded(T, missing=-1, dtype=int), {"missing_label": -1}),
    "int8, 0 missing": lambda T: (T, {"missing_label": 0}),
    "int, 2 missing": lambda T: (coded(T, missing=2, dtype=int), {"missing_label": 2}),
    "uint8, 255 missing": lambda T: (
        coded(T, missing=255, dtype=np.uint8),
        {"missing_label": 255},
    ),
    "float, -1 missing": lambda T: (coded(T, missing=-1), {"missing_label": -1}),
    "object, None": lambda T: (coded(T, missing=None, dtype=object), {}),
    "object, NaN": lambda T: (coded(T, dtype=object), {}),
    "object, True/False/None": lambda T: (boolean(T), {}),
    "object, None named": lambda T: (
        coded(T, missing=None, dtype=object),
        {"missing_label": None},
    ),
    "object, '?'": lambda T: (coded(T, missing="?", dtype=object), {"missing_label": "?"}),
    "lists, None": lambda T: (coded(T, missing=None, dtype=object).tolist(), {}),
    "lists, NaN": lambda T: (coded(T, dtype=object).tolist(), {}),
    "lists, -1/+1 and NaN": lambda T: (coded(T, negative=-1).tolist(), {}),
    "lists, '?'": lambda T: (
        coded(T, missing="?", dtype=object).tolist(),
        {"missing_label": "?"},
    ),
    "tuples": lambda T: (tuple(map(tuple, coded(T).tolist())), {}),
    "int, label_mask": lambda T: (coded(T, missing=0, dtype=int), {"label_mask": T != 0}),
    "bool, label_mask": lambda T: (T > 0, {"label_mask": T != 0}),
    "NaN and label_mask": lambda T: (coded(T), {"label_mask": T != 0}),
    "masked int": lambda T: (masked(T, int, 7), {}),
    "masked bool": lambda T: (masked(T, bool, True), {}),
    "masked float, inf below": lambda T: (masked(T, float, np.inf), {}),
    "masked object": lambda T: (masked(T, object, "x"), {}),
    "masked float and NaN": lambda T: (half_masked(T), {}),
    "pandas float64": lambda T: (uniform_frame(T, "float64"), {}),
    "pandas float64, -1/+1": lambda T: (uniform_frame(T, "float64", negative=-1), {}),
    "pandas int8, 0 missing": lambda T: (pd.DataFrame(T), {"missing_label": 0}),
    "pandas bool, label_mask": lambda T: (pd.DataFrame(T > 0), {"label_mask": T != 0}),
    "pandas object": lambda T: (uniform_frame(T, "object", missing=None), {}),
    "pandas object, NaN": lambda T: (uniform_frame(T, "object"), {}),
    "pandas object, '?'": lambda T: (
        uniform_frame(T, "object", missing="?"),
        {"missing_label": "?"},
    ),
    "pandas Int8": lambda T: (uniform_frame(T, "Int8", missing=pd.NA), {}),
    "pandas Int8, -1/+1": lambda T: (uniform_frame(T, "Int8", missing=pd.NA, negative=-1), {}),
    "pandas Int8, NA and -1": lambda T: (
        uniform_frame(T, "Int8", missing=pd.NA),
        {"missing_label": -1},
    ),
    "pandas boolean": lambda T: (
        frame([("boolean", column) for column in boolean(T).T]),
        {},
    ),
    "pandas Float64": lambda T: (uniform_frame(T, "Float64", missing=pd.NA), {}),
    "pandas mixed": lambda T: (mixed_frame(T), {}),
    "pandas duplicate names": lambda T: (duplicate_names(T), {}),
    "polars Int8": lambda T: (polars(T, pl.Int8), {}),
    "polars Boolean": lambda T: (polars(T, pl.Boolean), {}),
    "polars Float64, null": lambda T: (polars(T, pl.Float64), {}),
    "polars Float64, NaN": lambda T: (polars(T, pl.Float64, missing=np.nan), {}),
    "polars, -1 missing": lambda T: (polars(T, pl.Int8, missing=-1), {"missing_label": -1}),
    "CSR matrix": lambda T: signed(T, sp.csr_matrix),
    "CSC matrix": lambda T: signed(T, sp.csc_matrix),
    "COO matrix": lambda T: signed(T, sp.coo_matrix),
    "CSR array": lambda T: signed(T, sp.csr_array),
    "CSC array": lambda T: signed(T, sp.csc_array),
    "COO array": lambda T: signed(T, sp.coo_array),
    "CSR float": lambda T: signed(T, sp.csr_array, float),
    "CSR positives, label_mask": lambda T: (
        sp.csr_array((T > 0).astype(int)),
        {"missing_as": "negative", "label_mask": T != 0},
    ),
    "CSR bool, label_mask": lambda T: (
        sp.csr_array(T > 0),
        {"missing_as": "negative", "label_mask": T != 0},
    ),
}

every_encoding = pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)


# ------------------------------------------------------------------------------ what is accepted


@settings(deadline=None, max_examples=25)
@given(T=sign_matrices)
def test_every_encoding_of_a_sign_matrix_gives_it_back(T):
    for name, encode in ENCODINGS.items():  # drawing a matrix takes longer than reading it
        Y, options = encode(T)
        found = parse_labels(Y, **options).signs
        assert found.dtype == np.int8, name
        np.testing.assert_array_equal(found, T, err_msg=name)


@every_encoding
def test_reading_labels_leaves_them_unchanged(encode):
    (Y, options), (before, _) = encode(SIGNS), encode(SIGNS)
    parse_labels(Y, **options)
    if sp.issparse(Y):
        Y, before = Y.toarray(), before.toarray()
    assert repr(Y) == repr(before)


@pytest.mark.parametrize("name", ENCODINGS)
def test_decoding_the_signs_gives_back_the_observed_values(name):
    Y, options = ENCODINGS[name](SIGNS)
    signed = sp.issparse(Y) and options["missing_as"] is None
    negative = -1 if signed or "-1/+1" in name or "0 missing" in name else 0
    labels = parse_labels(Y, **options)
    decoded = labels.decode(labels.signs > 0)
    np.testing.assert_array_equal(decoded.astype(int), np.where(SIGNS > 0, 1, negative))


@pytest.mark.parametrize(
    ("Y", "negative", "dtype"),
    [
        (coded(SIGNS), 0, np.int64),
        (coded(SIGNS, negative=-1), -1, np.int64),
        (SIGNS > 0, 0, np.bool_),
        ((SIGNS > 0).astype(np.int8), 0, np.int8),
        ((SIGNS > 0).astype(np.uint8), 0, np.uint8),
        (np.where(SIGNS > 0, 1, -1).astype(np.int8), -1, np.int8),
        (pd.DataFrame(SIGNS > 0), 0, np.bool_),
        (uniform_frame(SIGNS, "Int8", missing=pd.NA), 0, np.int8),
        (polars(SIGNS, pl.Int8), 0, np.int8),
        (pd.DataFrame(SIGNS > 0).astype("boolean").assign(none=pd.NA), 0, np.bool_),
        (pd.DataFrame(SIGNS > 0).astype("boolean").assign(none=np.nan), 0, np.bool_),
        (pl.DataFrame(SIGNS > 0).with_columns(none=pl.lit(None, pl.Boolean)), 0, np.bool_),
        (sp.csr_array(SIGNS), -1, np.int64),
    ],
    ids=[
        *("float", "signs", "bool", "int8", "uint8", "int8 signs", "frame", "Int8", "polars Int8"),
        *("boolean, one of NA", "boolean, one of NaN", "polars, one of null", "CSR"),
    ],
)
def test_coding_and_dtype_of_the_input_are_remembered(Y, negative, dtype):
    labels = parse_labels(Y)
    assert (labels.negative, labels.dtype, labels.kind) == (negative, dtype, "multilabel")


@pytest.mark.parametrize(
    ("Y", "names"),
    [
        (pd.DataFrame(coded(SIGNS), columns=NAMES), NAMES),
        (pl.DataFrame(coded(SIGNS), schema=NAMES), NAMES),
        (pd.DataFrame(coded(SIGNS), columns=["a", "a", 3]), ["a", "a", 3]),
        (
            pd.DataFrame(
                coded(SIGNS), columns=pd.MultiIndex.from_tuples([("sky", n) for n in NAMES])
            ),
            [("sky", n) for n in NAMES],
        ),
    ],
    ids=["pandas", "polars", "repeated and integer", "MultiIndex"],
)
def test_names_of_columns_are_kept(Y, names):
    labels = parse_labels(Y)
    assert list(labels.names) == names
    assert repr(names[1]) in column_text(1, labels.names)


def test_columns_without_a_name_are_the_same_to_a_model():
    X = np.random.RandomState(0).normal(size=(40, 3))
    Y = pd.DataFrame(np.where(X > -1, X > 0, np.nan), columns=[1.0, 2.0, np.nan])
    model = DM2LClassifier().fit(X, Y)
    completed = model.complete(X, Y)
    assert not completed.isna().any(axis=None)
    assert list(model.label_names_) == [1.0, 2.0, None]


def test_arrays_have_no_names_and_columns_are_told_by_number():
    labels = parse_labels(coded(SIGNS))
    assert labels.names is None
    assert column_text(2, labels.names) == "column 2"


def test_one_column_is_still_a_label_matrix():
    labels = parse_labels([[1.0], [0.0], [np.nan]])
    assert labels.kind == "multilabel"
    np.testing.assert_array_equal(labels.signs, [[1], [-1], [0]])


def test_numpy_scalars_and_python_numbers_may_stand_together_in_an_object_array():
    Y = np.array([[np.int8(1), True], [np.bool_(False), 0.0], [np.float32(1), None]], dtype=object)
    np.testing.assert_array_equal(parse_labels(Y).signs, [[1, 1], [-1, -1], [1, 0]])


def test_learnable_labels_have_both_classes_observed():
    labels = parse_labels([[1, 1, 0, np.nan], [0, np.nan, 0, np.nan]])
    np.testing.assert_array_equal(
        LearnableMask.of(labels.signs).learnable, [True, False, False, False]
    )
    assert labels.n_labels == 4


def test_more_than_five_constant_labels_are_counted_not_listed():
    with pytest.warns(ConstantLabelWarning, match=r"^7 label\(s\).*'l4' and 2 more\.$"):
        parse_labels(
            pd.DataFrame(np.ones((2, 7)), columns=[f"l{k}" for k in range(7)])
        ).warn_constant()


# ---------------------------------------------------------------------------------- label_mask

GARBAGE = {
    "7 in ints": coded(SIGNS, missing=7, dtype=int),
    "-1 among 0/1": coded(SIGNS, missing=-1, dtype=int),
    "0 among -1/+1": coded(SIGNS, missing=0, negative=-1, dtype=int),
    "inf": coded(SIGNS, missing=np.inf),
    "0.5": coded(SIGNS, missing=0.5),
    "text in objects": coded(SIGNS, missing="x", dtype=object),
    "lists of text": coded(SIGNS, missing="x", dtype=object).tolist(),
    "a list in objects": coded(SIGNS, missing={"x"}, dtype=object),
    "frame of ints": pd.DataFrame(coded(SIGNS, missing=7, dtype=int), columns=NAMES),
    "frame of objects": pd.DataFrame(coded(SIGNS, missing="x", dtype=object), columns=NAMES),
    "polars": pl.DataFrame(coded(SIGNS, missing=7, dtype=np.int8), schema=NAMES),
    "signed CSR with a 7": sp.csr_array(coded(SIGNS, missing=7, negative=-1, dtype=int)),
    "signed CSR with a 0": sp.csr_array(
        (SIGNS.ravel(), (np.repeat(np.arange(5), 3), np.tile(np.arange(3), 5))), shape=(5, 3)
    ),
}


@pytest.mark.parametrize("Y", GARBAGE.values(), ids=GARBAGE)
def test_what_stands_under_a_false_in_label_mask_is_never_read(Y):
    np.testing.assert_array_equal(parse_labels(Y, label_mask=SIGNS != 0).signs, SIGNS)


@pytest.mark.parametrize("missing_label", [-1, "?", 0])
def test_nan_under_a_false_in_label_mask_is_not_read_either(missing_label):
    Y = coded(SIGNS, negative=-1 if missing_label == 0 else 0)
    found = parse_labels(Y, label_mask=SIGNS != 0, missing_label=missing_label).signs
    np.testing.assert_array_equal(found, SIGNS)


MASKS = {
    "array": np.asarray,
    "lists": lambda M: M.tolist(),
    "pandas": pd.DataFrame,
    "pandas boolean": lambda M: pd.DataFrame(M).astype("boolean"),
    "polars": lambda M: pl.DataFrame(M, schema=NAMES),
    "CSR": sp.csr_array,
}


@pytest.mark.parametrize("container", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("labels", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_label_mask_may_come_in_any_container(container, labels):
    complete = np.where(SIGNS == 0, 1, SIGNS)
    found = parse_labels(labels(complete), label_mask=container(SIGNS != 0)).signs
    np.testing.assert_array_equal(found, SIGNS)


@pytest.mark.parametrize("labels", [coded(SIGNS), sp.csr_array(SIGNS)], ids=["dense", "sparse"])
@pytest.mark.parametrize("shape", [(5, 2), (4, 3), (5,), (3, 5), (1, 3)])
def test_label_mask_of_another_shape_is_refused_with_both_shapes(labels, shape):
    text = rf"label_mask has shape {re.escape(str(shape))}.*{re.escape(str((5, 3)))}"
    with pytest.raises(ValueError, match=text):
        parse_labels(labels, label_mask=np.ones(shape, dtype=bool))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_label_mask_with_columns_of_y_in_other_places_is_refused(frame):
    Y = frame(dict(zip(NAMES, coded(SIGNS).T, strict=True)))
    mask = dict(zip(NAMES, (SIGNS > 0).T, strict=True))
    expected = np.where(SIGNS > 0, 1, 0)
    np.testing.assert_array_equal(parse_labels(Y, label_mask=frame(mask)).signs, expected)
    for order in (["wind", "rain", "fog"], ["rain", "fog", "sun"]):
        shuffled = frame({name: mask.get(name, mask["fog"]) for name in order})
        with pytest.raises(
            ValueError, match=r"is '(wind|fog)' in label_mask, but '(rain|wind)' in Y"
        ):
            parse_labels(Y, label_mask=shuffled)
    for names in ("abc", [0, 1, 2]):  # names of its own, or none
        other = pd.DataFrame(SIGNS > 0, columns=list(names))
        np.testing.assert_array_equal(parse_labels(Y, label_mask=other).signs, expected)


@pytest.mark.parametrize("dtype", [int, float, np.int8, object, str])
def test_label_mask_that_is_not_boolean_is_refused_with_its_dtype_and_the_fix(dtype):
    mask = (SIGNS != 0).astype(dtype)
    with pytest.raises(ValueError, match=rf"boolean.*{mask.dtype}.*label_mask=M == 1"):
        parse_labels(coded(SIGNS), label_mask=mask)


def test_label_mask_can_only_hide_never_reveal():
    found = parse_labels(coded(SIGNS), label_mask=np.ones(SIGNS.shape, dtype=bool)).signs
    np.testing.assert_array_equal(found, SIGNS)


# ------------------------------------------------------------------------------------- sparse


def with_explicit_zero(make):
    data, rows, cols = np.array([1, -1, 0, 1]), [0, 0, 1, 2], [0, 1, 2, 0]
    Y = make(sp.coo_array((data, (rows, cols)), shape=(3, 3)))
    assert (Y.data == 0).sum() == 1
    return Y


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_matrix, sp.csr_array, sp.coo_array])
@pytest.mark.parametrize("missing_as", [None, "missing", "negative"])
def test_explicit_zeros_are_refused_with_place_reason_and_ways_out(make, missing_as):
    with pytest.raises(ValueError, match="explicit 0 in row 1, column 2") as error:
        parse_labels(with_explicit_zero(make), missing_as=missing_as)
    for hint in ("drops such zeros", "Store -1", "eliminate_zeros", "missing_as"):
        assert hint in str(error.value)


@pytest.mark.parametrize(("missing_as", "meaning"), [("missing", 0), ("negative", -1)])
@pytest.mark.parametrize("dtype", [bool, int, np.uint8, float])
def test_absent_label_says_what_nothing_stored_means_in_positives_only(missing_as, meaning, dtype):
    Y = sp.csr_array((SIGNS > 0).astype(dtype))
    found = parse_labels(Y, missing_as=missing_as).signs
    np.testing.assert_array_equal(found, np.where(SIGNS > 0, 1, meaning))


@pytest.mark.parametrize("dtype", [bool, int, np.uint8, float])
def test_positives_only_without_absent_label_is_refused_with_both_meanings(dtype):
    with pytest.raises(ValueError, match=r"positives only.*'missing'.*'negative'"):
        parse_labels(sp.csr_array((SIGNS > 0).astype(dtype)))


def test_a_full_matrix_of_positives_needs_no_absent_label():
    np.testing.assert_array_equal(
        parse_labels(sp.csr_array(np.ones((2, 2)))).signs, np.ones((2, 2))
    )


def test_stored_negatives_contradict_absent_label_negative():
    with pytest.raises(ValueError, match=r"stores -1.*Do not pass missing_as='negative'"):
        parse_labels(sp.csr_array(SIGNS), missing_as="negative")


def test_stored_negatives_agree_with_absent_label_missing():
    np.testing.assert_array_equal(
        parse_labels(sp.csr_array(SIGNS), missing_as="missing").signs, SIGNS
    )


@pytest.mark.parametrize("missing_as", ["absent", 0, np.nan, True])
def test_unknown_absent_label_is_refused_with_its_value(missing_as):
    with pytest.raises(ValueError, match=f"missing_as.*got {missing_as!r}"):
        parse_labels(sp.csr_array(SIGNS), missing_as=missing_as)


@pytest.mark.parametrize(("value", "text"), [(7, "7"), (-2, "-2"), (0.5, "0.5"), (np.nan, "nan")])
def test_other_stored_values_are_refused_with_value_place_and_fix(value, text):
    Y = sp.csr_array(SIGNS.astype(float if isinstance(value, float) else int))
    Y[1, 2] = value
    with pytest.raises(ValueError, match=r"\+1.*-1") as error:
        parse_labels(Y)
    assert re.search(rf"stores {re.escape(text)}(\.0)? in row 1, column 2", str(error.value))


@pytest.mark.parametrize("make", [sp.coo_matrix, sp.coo_array])
@pytest.mark.parametrize("values", [(1, -1), (-1, 1), (1, 1), (-1, -1)])
def test_an_entry_stored_twice_is_refused_as_its_csr_form_is(make, values):
    # Sparse formats add duplicates up: the first two are a 0 to everybody else, the others +-2.
    Y = make(([1, -1, *values], ([0, 1, 2, 2], [0, 1, 0, 0])), shape=(3, 2))
    for form in (Y.tocsr(), Y):
        with pytest.raises(ValueError, match="row 2, column 0"):
            parse_labels(form)


def test_missing_label_minus_one_is_never_read_as_an_observed_negative_of_a_sparse_matrix():
    # -1 cannot be both the mark of what is missing and the sign of an observed negative.
    with pytest.raises(ValueError, match="missing_label"):
        parse_labels(sp.csr_array(SIGNS), missing_label=-1)


def test_a_sparse_matrix_with_nothing_stored_has_nothing_observed():
    with pytest.raises(ValueError, match=r"All labels in . are missing"):
        parse_labels(sp.csr_array((3, 2)))


# -------------------------------------------------------------------------- what is refused


def spoilt(value, dtype=None):
    Y = coded(SIGNS, dtype=object)
    Y[1, 2] = value
    return Y if dtype is None else Y.astype(dtype)


BAD_VALUES = {
    "fraction": (0.5, float, "0.5"),
    "7": (7, float, "7.0"),
    "negative number": (-2, float, "-2.0"),
    "infinity": (np.inf, float, "infinity"),
    "minus infinity": (-np.inf, float, "infinity"),
    "text": ("x", object, "'x'"),
    "number as text": ("1", object, "'1'"),
    "empty text": ("", object, "''"),
    "numpy scalar": (np.float32(0.5), object, "0.5"),
    "list": ([1], object, "[1]"),
}
FIX = ("0/1", "-1/+1", "NaN", "missing_label")


@pytest.mark.parametrize(("value", "dtype", "shown"), BAD_VALUES.values(), ids=BAD_VALUES)
def test_any_other_value_is_refused_with_value_row_column_and_fix(value, dtype, shown):
    Y = spoilt(value, None if dtype is object else dtype)
    with pytest.raises(ValueError, match="row 1, column 2 ") as error:
        parse_labels(Y)
    assert f"contains {shown} in" in str(error.value)
    assert all(hint in str(error.value) for hint in FIX)


@pytest.mark.parametrize("value", [7, 0.5, "x"])
@pytest.mark.parametrize("container", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_any_other_value_in_a_frame_is_refused_with_the_name_of_its_column(container, value):
    columns = {"rain": [1, 0, 1], "wind": [0, 1, value], "fog": [1, 0, 0]}
    if container is pl.DataFrame:
        columns["wind"] = pl.Series("wind", columns["wind"], dtype=pl.Object)
    with pytest.raises(ValueError, match="row 2, column 'wind'") as error:
        parse_labels(container(columns))
    assert repr(value) in str(error.value)
    assert all(hint in str(error.value) for hint in FIX)


@pytest.mark.parametrize("dtype", ["Int8", "Float64"])
def test_any_other_value_in_a_nullable_column_is_refused_with_value_and_place(dtype):
    Y = pd.DataFrame({"rain": [1, 0, 1], "wind": pd.array([1, None, 3], dtype=dtype)})
    with pytest.raises(ValueError, match=r"contains 3(\.0)? in row 2, column 'wind'"):
        parse_labels(Y)


def test_the_refusal_counts_the_entries():
    with pytest.raises(ValueError, match="3 such entries"):
        parse_labels([[1, 5], [5, 0], [5, 1]])


@pytest.mark.parametrize(
    ("Y", "where"),
    [
        (np.array([[1, -1], [1, 1], [0, 1]]), "row 2, column 0"),
        (np.array([[1.0, -1], [np.nan, 1], [0, 1]]), "row 2, column 0"),
        (pd.DataFrame({"rain": [1, -1], "wind": [1, 0]}), "row 1, column 'wind'"),
        ([[1, False], [-1, None]], "row 0, column 1"),
    ],
    ids=["int", "float", "frame", "objects"],
)
def test_mixing_minus_one_and_zero_is_refused_with_place_and_fix(Y, where):
    with pytest.raises(ValueError, match="mixes the codings") as error:
        parse_labels(Y)
    for text in (where, "missing_label=0", "missing_label=-1"):
        assert text in str(error.value)


@pytest.mark.parametrize("missing_label", [-1, 2, "?"])
def test_nan_beside_another_missing_label_is_refused_with_both(missing_label):
    with pytest.raises(ValueError, match=rf"nan in row 1, column 0.*{missing_label!r}"):
        parse_labels(np.array([[1, 0], [np.nan, 1]]), missing_label=missing_label)


def test_a_masked_nan_is_masked_whatever_missing_label_says():
    Y = np.ma.masked_invalid(coded(SIGNS))
    np.testing.assert_array_equal(parse_labels(Y, missing_label=-1).signs, SIGNS)


@pytest.mark.parametrize(
    ("Y", "options"),
    [
        (np.full((3, 2), np.nan), {}),
        (np.ma.masked_all((3, 2), dtype=int), {}),
        ([[None, None]], {}),
        (np.full((3, 2), -1), {"missing_label": -1}),
        (pd.DataFrame({"a": pd.array([None, None], dtype="Int8")}), {}),
        (pl.DataFrame({"a": pl.Series([None, None], dtype=pl.Boolean)}), {}),
        (np.ones((3, 2)), {"label_mask": np.zeros((3, 2), dtype=bool)}),
        (np.full(3, np.nan), {}),
        (np.empty((0, 3)), {}),
        ([], {}),
    ],
    ids=["NaN", "masked", "None", "-1", "pandas", "polars", "label_mask", "1-D", "no rows", "[]"],
)
def test_nothing_observed_is_refused(Y, options):
    with pytest.raises(ValueError, match=r"All labels in . are missing"):
        parse_labels(Y, **options)


def test_nothing_observed_can_be_allowed():
    labels = parse_labels(np.full((3, 2), np.nan), allow_empty=True)
    np.testing.assert_array_equal(labels.signs, np.zeros((3, 2)))


@pytest.mark.parametrize(
    ("Y", "text"),
    [
        (None, "y is None"),
        ([[1, 0], [1]], "ragged"),
        ([[1, 0], 1], "ragged"),
        (np.zeros((2, 2, 2)), r"\(2, 2, 2\)"),
        (np.empty((3, 0)), r"\(3, 0\)"),
        (pd.DataFrame(index=range(3)), r"\(3, 0\)"),
        ([[]], r"\(1, 0\)"),
        (np.array(1), r"\(\)"),
        (1, "array-like, got int"),
        ("01", "array-like, got str"),
        (iter([[1, 0]]), "array-like, got list_iterator"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_is_no_label_matrix_is_refused_with_the_reason(Y, text):
    with pytest.raises(ValueError, match=text):
        parse_labels(Y)


# ------------------------------------------------------------------- scikit-learn's third class


def third_class_data(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 3))
    Y = (X @ rng.standard_normal((3, 2)) > 0).astype(float)
    Y[rng.uniform(size=Y.shape) < 0.2] = np.nan
    return X, Y


@pytest.mark.parametrize("method", ["decision_function", "predict_proba"])
@pytest.mark.parametrize("negative", [0, -1])
@pytest.mark.parametrize("estimator", [DM2LClassifier(), MaskedRidgeClassifier()], ids=repr)
def test_the_2_that_cross_val_predict_makes_of_nan_is_refused_by_name(estimator, negative, method):
    X, Y = third_class_data()
    Y[Y == 0] = negative
    with pytest.raises(ValueError, match="contains 2 in row") as error:
        cross_val_predict(estimator, X, Y, method=method, cv=MultilabelKFold(3, random_state=0))
    for text in ("cross_val_predict", "NaN", "third class", "cross_val_decision"):
        assert text in str(error.value)


@pytest.mark.parametrize("method", ["decision_function", "predict_proba"])
@pytest.mark.parametrize("negative", [0, -1])
def test_cross_val_predict_works_where_no_label_is_missing(method, negative):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    Y = np.where(X[:, :3] > 0, 1, negative)
    found = cross_val_predict(DM2LClassifier(), X, Y, cv=3, method=method)
    folds = list(KFold(3).split(X))
    alone = cross_val_decision(DM2LClassifier(), X, Y, cv=folds, method=method)
    np.testing.assert_allclose(found, alone)


def test_cross_val_predict_of_predictions_does_not_touch_nan():
    X, Y = third_class_data()
    found = cross_val_predict(
        MaskedRidgeClassifier(), X, Y, method="predict", cv=MultilabelKFold(3, random_state=0)
    )
    assert found.shape == Y.shape
    assert set(np.unique(found)) == {0, 1}


# ------------------------------------------------------------------------------------ 1-D labels

ONE_DIMENSION = {
    "0/1": ([0, 1, 1], {}, [0, 1], [-1, 1, 1]),
    "0/1 and NaN": ([0.0, np.nan, 1.0], {}, [0, 1], [-1, 0, 1]),
    "-1/+1": ([-1, 1, 1], {}, [-1, 1], [-1, 1, 1]),
    "bool": (np.array([False, True]), {}, [False, True], [-1, 1]),
    "two numbers": ([3, 5, 3], {}, [3, 5], [-1, 1, -1]),
    "text": (["dog", "cat", "dog"], {}, ["cat", "dog"], [1, -1, 1]),
    "text and None": (["dog", None, "cat"], {}, ["cat", "dog"], [1, 0, -1]),
    "text and NaN": (["dog", np.nan, "cat"], {}, ["cat", "dog"], [1, 0, -1]),
    "text and '?'": (["dog", "?", "cat"], {"missing_label": "?"}, ["cat", "dog"], [1, 0, -1]),
    "object text": (np.array(["dog", None, "cat"], dtype=object), {}, ["cat", "dog"], [1, 0, -1]),
    "text, a number missing": (["dog", "cat"], {"missing_label": -1}, ["cat", "dog"], [1, -1]),
    "-1 missing": ([0, -1, 1], {"missing_label": -1}, [0, 1], [-1, 0, 1]),
    "label_mask": ([0, 9, 1], {"label_mask": [True, False, True]}, [0, 1], [-1, 0, 1]),
    "masked": (np.ma.masked_equal([0, 9, 1], 9), {}, [0, 1], [-1, 0, 1]),
    "pandas Int8": (pd.Series([0, None, 1], dtype="Int8"), {}, [0, 1], [-1, 0, 1]),
    "pandas text": (pd.Series(["dog", None, "cat"]), {}, ["cat", "dog"], [1, 0, -1]),
    "pandas category": (pd.Series(["b", "a"], dtype="category"), {}, ["a", "b"], [1, -1]),
    "polars": (pl.Series([0, None, 1]), {}, [0, 1], [-1, 0, 1]),
    "polars text": (pl.Series(["dog", None, "cat"]), {}, ["cat", "dog"], [1, 0, -1]),
    "one class": ([4, 4], {}, [4], [1, 1]),
}


@pytest.mark.parametrize(
    ("y", "options", "classes", "expected"), ONE_DIMENSION.values(), ids=ONE_DIMENSION
)
def test_one_dimension_with_two_classes_is_one_column(y, options, classes, expected):
    labels = parse_labels(y, **options)
    assert labels.kind == "binary"
    assert list(labels.classes) == classes
    np.testing.assert_array_equal(labels.signs, np.array(expected)[:, None])


@pytest.mark.parametrize(
    "y",
    [[2, 5, np.nan, 9], ["a", "b", None, "c"], pd.Series([2, 5, None, 9], dtype="Int64")],
    ids=["numbers", "text", "pandas"],
)
def test_one_dimension_with_k_classes_is_k_columns(y):
    labels = parse_labels(y)
    assert labels.kind == "multiclass"
    assert len(labels.classes) == 3
    expected = [[1, -1, -1], [-1, 1, -1], [0, 0, 0], [-1, -1, 1]]
    np.testing.assert_array_equal(labels.signs, expected)


@settings(deadline=None, max_examples=50)
@given(
    y=st.lists(st.one_of(st.none(), st.integers(0, 4)), min_size=1, max_size=20).filter(
        lambda y: any(v is not None for v in y)
    )
)
def test_the_classes_of_a_one_dimensional_y_can_be_read_off_its_signs(y):
    labels = parse_labels(y)
    T = labels.signs if labels.kind == "multiclass" else np.hstack([-labels.signs, labels.signs])
    classes = labels.classes if len(labels.classes) > 1 else np.repeat(labels.classes, 2)
    assert [None if not t.any() else classes[t.argmax()] for t in T] == y


@pytest.mark.parametrize(
    ("column", "classes"),
    [
        (np.array([[1], [2], [1]]), [1, 2]),
        (np.array([[0], [1], [2]]), [0, 1, 2]),
        (np.array([["a"], ["b"], ["a"]]), ["a", "b"]),
    ],
    ids=["two numbers", "three numbers", "text"],
)
def test_a_column_vector_of_classes_is_flattened_with_a_warning(column, classes):
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        labels = parse_labels(column)
    assert list(labels.classes) == classes
    np.testing.assert_array_equal(labels.signs, parse_labels(column.ravel()).signs)


@pytest.mark.parametrize(
    ("y", "text"),
    [([0.5, 1.25, 3.0], "Unknown label type"), ([0.0, np.inf], "infinity")],
    ids=["continuous", "infinite"],
)
def test_a_one_dimensional_y_that_holds_no_classes_is_refused(y, text):
    with pytest.raises(ValueError, match=text):
        parse_labels(y)


def test_infinity_under_label_mask_does_not_matter_in_one_dimension():
    labels = parse_labels([0.0, np.inf, 1.0], label_mask=[True, False, True])
    np.testing.assert_array_equal(labels.signs[:, 0], [-1, 0, 1])


def test_nan_beside_another_missing_label_is_refused_in_one_dimension_too():
    with pytest.raises(ValueError, match=r"nan in row 1, y.*-1"):
        parse_labels([0.0, np.nan, 1.0], missing_label=-1)


@pytest.mark.parametrize(
    "y", [pd.Series([3, 5, None], dtype="Int64"), pl.Series([3, 5, None])], ids=["pandas", "polars"]
)
def test_whole_numbers_with_holes_stay_whole_numbers(y):
    labels = parse_labels(y)
    assert labels.classes.dtype == np.int64
    np.testing.assert_array_equal(labels.signs, [[-1], [1], [0]])


def test_values_of_classes_are_separated_from_holes():
    values, observed, _ = read_values(["a", None, "?"], missing_label="?")
    np.testing.assert_array_equal(observed, [True, False, False])
    assert values[0] == "a"
    _, observed, _ = read_values([3, 4], [False, True])
    np.testing.assert_array_equal(observed, [False, True])


def test_decisions_are_decoded_to_the_type_of_numbers_that_a_model_file_may_hold():
    labels = parse_labels(np.array([[1, 0], [0, 1]], dtype=np.uint8))
    decoded = dataclasses.replace(labels, dtype=np.uint8).decode(np.array([[True, False]]))
    assert decoded.dtype == np.uint8
    assert decoded.tolist() == [[1, 0]]
