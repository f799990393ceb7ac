"""Data sets: the bundled one, the synthetic one, archives in a folder; duplicates in any."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from dm2l.datasets import (
    count_shared,
    duplicate_groups,
    implications,
    load_dataset,
    load_digit_attributes,
    make_missing_multilabel,
)
from dm2l.simulate import (
    simulate_missing_positives,
    simulate_per_label,
    simulate_per_row,
    simulate_uniform,
)

# --------------------------------------------------------------------------------- digit attributes


@pytest.fixture(scope="module")
def digits():
    return load_digit_attributes()


def column(digits, name):
    return digits.target[:, digits.target_names.index(name)]


def test_digit_attributes_have_the_documented_form(digits):
    assert digits.data.shape == (1797, 64)
    assert digits.data.dtype == np.float64
    assert digits.data.min() == 0
    assert digits.data.max() == 1
    assert digits.target.shape == (1797, len(digits.target_names)) == (1797, 19)
    assert digits.target.dtype == np.int8
    assert set(np.unique(digits.target)) == {0, 1}
    assert len(digits.feature_names) == 64
    np.testing.assert_array_equal(digits.images.reshape(1797, -1), digits.data)
    np.testing.assert_array_equal(digits.digit, load_digits().target)
    np.testing.assert_array_equal(digits.data * 16, load_digits().data)
    assert "one-way" in digits.DESCR


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("even", {0, 2, 4, 6, 8}),
        ("prime", {2, 3, 5, 7}),
        ("has a loop", {0, 6, 8, 9}),
        ("greater than 4", {5, 6, 7, 8, 9}),
        ("divisible by 3", {0, 3, 6, 9}),
        ("square number", {0, 1, 4, 9}),
        ("straight strokes only", {1, 4, 7}),
        *((f"is {d}", {d}) for d in range(10)),
    ],
)
def test_an_attribute_holds_for_exactly_its_digits(digits, name, expected):
    label = column(digits, name)
    assert set(digits.digit[label == 1]) == expected
    assert not set(digits.digit[label == 0]) & expected


@pytest.mark.parametrize("name", ["heavy ink", "leans right"])
def test_an_attribute_of_the_writer_varies_within_digits(digits, name):
    label = column(digits, name)
    assert 0.3 < label.mean() < 0.7
    mixed = [0 < label[digits.digit == d].mean() < 1 for d in range(10)]
    assert all(mixed)


def test_heavy_ink_and_leaning_mean_what_they_say(digits):
    heavy = column(digits, "heavy ink") == 1
    assert digits.data[heavy].mean(axis=1).min() > digits.data[~heavy].mean(axis=1).max()
    # A 7 ends at the bottom left of where it began, a 6 bulges at the bottom right.
    leans = column(digits, "leans right")
    assert leans[digits.digit == 7].mean() > 0.9
    assert leans[digits.digit == 6].mean() < 0.1


def test_digit_attributes_as_a_pair(digits):
    assert (len(digits.feature_names), len(digits.target_names)) == (64, 19)
    X, Y = load_digit_attributes(return_X_y=True)
    np.testing.assert_array_equal(X, digits.data)
    np.testing.assert_array_equal(Y, digits.target)


# --------------------------------------------------------------------------------------- synthetic


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n_labels", "n_implications"), [(2, 1), (8, 4), (9, 20), (30, 60)])
def test_implications_hold_one_way(seed, n_labels, n_implications):
    _, _, truth = make_missing_multilabel(
        n_samples=300,
        n_labels=n_labels,
        n_implications=n_implications,
        random_state=seed,
        return_truth=True,
    )
    pairs = implications(n_labels, n_implications)
    assert len(set(pairs)) == n_implications
    for a, b in pairs:
        assert (truth[:, b] >= truth[:, a]).all()
        assert truth[:, b].sum() > truth[:, a].sum() > 0


def test_without_implications_none_holds_by_accident():
    _, _, truth = make_missing_multilabel(
        n_samples=500, n_labels=8, n_implications=0, random_state=0, return_truth=True
    )
    implied = [(truth[:, b] >= truth[:, a]).all() for a, b in implications(8, 16)]
    assert not any(implied)


@pytest.mark.parametrize(
    ("mask", "hide"),
    [
        ("uniform", simulate_uniform),
        ("per_row", simulate_per_row),
        ("per_label", simulate_per_label),
        ("positives", simulate_missing_positives),
    ],
)
def test_labels_are_the_truth_with_the_mask_that_was_asked_for(mask, hide):
    X, Y, truth = make_missing_multilabel(
        n_samples=100, n_features=5, mask=mask, rho=0.4, random_state=1, return_truth=True
    )
    assert X.shape == (100, 5)
    assert np.isfinite(X).all()
    assert set(np.unique(truth)) == {0.0, 1.0}
    known = ~np.isnan(Y)
    np.testing.assert_array_equal(Y[known], truth[known])
    # The same rule on the same truth keeps as many of each class in each row and label.
    again = hide(truth, 0.4, random_state=2)
    if mask == "uniform":
        assert known.sum() == (~np.isnan(again)).sum()
    else:
        axis = 1 if mask == "per_row" else 0
        np.testing.assert_array_equal((Y == 0).sum(axis), (again == 0).sum(axis))
        np.testing.assert_array_equal((Y == 1).sum(axis), (again == 1).sum(axis))


def test_rho_one_hides_nothing_and_two_are_returned_without_truth():
    X, Y = make_missing_multilabel(rho=1, random_state=0)
    assert X.shape == (200, 20)
    assert not np.isnan(Y).any()


def test_features_have_low_rank_plus_noise_and_carry_the_labels():
    options = {"n_samples": 400, "n_features": 30, "n_labels": 6, "random_state": 0, "rho": 1}
    X, Y = make_missing_multilabel(noise=0, **options)
    assert np.linalg.matrix_rank(X) == 6
    noisy, same = make_missing_multilabel(noise=0.5, **options)
    assert np.linalg.matrix_rank(noisy) == 30
    np.testing.assert_array_equal(Y, same)
    assert np.std(noisy - X) == pytest.approx(0.5, rel=0.05)
    # A specific label is a threshold of a linear function of the rows, so least squares ranks it
    # nearly perfectly; a label that had nothing to do with X would stay far below.
    w = np.linalg.lstsq(X, Y[:, 0] - Y[:, 0].mean(), rcond=None)[0]
    assert roc_auc_score(Y[:, 0], X @ w) > 0.95


def test_one_seed_one_data_set():
    first = make_missing_multilabel(random_state=7)
    again = make_missing_multilabel(random_state=7)
    other = make_missing_multilabel(random_state=8)
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert not np.array_equal(first[0], other[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_samples": 0}, "n_samples must be an integer >= 1, got 0"),
        ({"n_features": 2.5}, "n_features must be an integer >= 1, got 2.5"),
        ({"n_labels": 1}, "n_labels must be an integer >= 2, got 1"),
        ({"n_labels": 4, "n_implications": 5}, "n_implications must be at most 4 .*got 5"),
        ({"noise": -1}, "noise .* got -1"),
        ({"mask": "random"}, "mask must be one of .*got 'random'"),
        ({"rho": 2}, "got 2"),
    ],
)
def test_impossible_synthetic_data_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make_missing_multilabel(**options)


# ---------------------------------------------------------------------------------------- archives


X_SMALL = np.array([[0, 2, 0], [1, 0, 0]], dtype=np.int8)
Y_SMALL = np.array([[1, 0], [0, 1]], dtype=np.int8)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    inside = tmp_path / "sets"
    inside.mkdir()
    csr = sp.csr_array(X_SMALL)
    np.savez(
        inside / "sparse.npz",
        X_data=csr.data,
        X_indices=csr.indices,
        X_indptr=csr.indptr,
        X_shape=np.array(csr.shape),
        Y=Y_SMALL,
        label_names=np.array(["a", "b"]),
        feature_names=np.array(["x", "y", "z"]),
        train_index=np.array([0]),
        test_index=np.array([1]),
        source=np.array("somewhere"),
    )
    np.savez(inside / "dense.npz", X=X_SMALL, Y=Y_SMALL)
    np.savez(inside / "half.npz", X=X_SMALL)
    np.savez(tmp_path / "outside.npz", X=X_SMALL, Y=Y_SMALL)
    np.savez(inside / "pickled.npz", X=np.array([[1, None]], dtype=object), Y=Y_SMALL)
    monkeypatch.setenv("DM2L_DATA", str(inside))
    return inside


@pytest.mark.usefixtures("folder")
def test_a_sparse_archive_is_read_with_all_it_says():
    bunch = load_dataset("sparse")
    assert sp.issparse(bunch.data)
    assert bunch.data.format == "csr"
    assert bunch.data.dtype == np.float64
    np.testing.assert_array_equal(bunch.data.toarray(), X_SMALL)
    np.testing.assert_array_equal(bunch.target, Y_SMALL)
    assert bunch.target_names == ["a", "b"]
    assert bunch.feature_names == ["x", "y", "z"]
    assert bunch.train_index.tolist() == [0]
    assert bunch.test_index.tolist() == [1]
    assert bunch.source == "somewhere"


@pytest.mark.usefixtures("folder")
def test_a_dense_archive_has_none_where_it_does_not_say():
    bunch = load_dataset("dense")
    assert isinstance(bunch.data, np.ndarray)
    assert bunch.data.dtype == np.float64
    np.testing.assert_array_equal(bunch.data, X_SMALL)
    silent = ("target_names", "feature_names", "train_index", "test_index", "source")
    assert [bunch[key] for key in silent] == [None] * 5


@pytest.mark.usefixtures("folder")
def test_a_name_that_is_not_there_lists_those_that_are():
    with pytest.raises(
        FileNotFoundError, match=r"DM2L_DATA=.* has no data set Arts.*dense, half, .*sparse"
    ):
        load_dataset("Arts")


@pytest.mark.parametrize("value", [None, ""])
def test_without_the_variable_the_error_says_what_to_set(monkeypatch, value):
    monkeypatch.delenv("DM2L_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("DM2L_DATA", value)
    with pytest.raises(FileNotFoundError, match="export DM2L_DATA="):
        load_dataset("Arts")


def test_a_variable_that_names_no_folder_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("DM2L_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="nowhere is not a folder"):
        load_dataset("Arts")


@pytest.mark.parametrize("form", ["../outside", "{parent}/outside", "..\\outside", "..", ""])
def test_a_path_is_not_a_name(folder, form):
    assert (folder.parent / "outside.npz").exists()
    with pytest.raises(ValueError, match="not a path"):
        load_dataset(form.format(parent=folder.parent))


@pytest.mark.usefixtures("folder")
def test_an_archive_without_labels_or_with_pickles_is_refused():
    with pytest.raises(ValueError, match=r"no array Y among \['X'\]"):
        load_dataset("half")
    with pytest.raises(ValueError, match="Python objects"):
        load_dataset("pickled")


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("DM2L_DATA"), reason="DM2L_DATA is not set: no real data")
@pytest.mark.parametrize(
    ("name", "n", "d", "c", "cardinality"),
    [
        ("Arts", 5000, 462, 26, 1.64),
        ("Enron", 1702, 1001, 53, 3.38),
        ("Image", 2000, 294, 5, 1.24),
        ("yeast", 2417, 103, 14, 4.24),
        ("rcv1subset1", 6000, 47236, 101, 2.9),
    ],
)
def test_real_sets_have_the_sizes_of_the_paper(name, n, d, c, cardinality):
    bunch = load_dataset(name)
    assert bunch.data.shape == (n, d)
    assert bunch.data.dtype == np.float64
    assert bunch.target.shape == (n, c)
    assert set(np.unique(bunch.target)) == {0, 1}
    assert bunch.target.sum(axis=1).mean() == pytest.approx(cardinality, abs=0.05)
    if bunch.train_index is not None:
        together = np.concatenate([bunch.train_index, bunch.test_index])
        assert len(np.unique(together)) == len(together) <= n


# --------------------------------------------------------------------------------------- duplicates

entries = st.sampled_from([0.0, -0.0, 1.0, 2.0, float("nan")])
matrices = st.integers(1, 4).flatmap(
    lambda d: st.tuples(
        *(arrays(np.float64, st.tuples(st.integers(1, 7), st.just(d)), elements=entries),) * 2
    )
)


def same(x, y):
    return all(a == b or (a != a and b != b) for a, b in zip(x, y, strict=True))


def first_copies(X):
    """Number of the first row that is the same, row by row against all before it."""
    firsts = [min(j for j in range(i + 1) if same(X[i], X[j])) for i in range(len(X))]
    return [sorted(set(firsts)).index(first) for first in firsts]


@settings(max_examples=100, deadline=None)
@given(matrices)
def test_rows_share_a_group_exactly_if_they_are_the_same(pair):
    train, test = pair
    expected = first_copies(train.tolist())
    stored = sp.coo_array((train.ravel(), np.indices(train.shape).reshape(2, -1)), train.shape)
    for X in (train, train.tolist(), pd.DataFrame(train), sp.csc_array(train), stored.tocsr()):
        assert duplicate_groups(X).tolist() == expected
    shared = sum(any(same(x, y) for y in train) for x in test)
    assert count_shared(train, test) == shared
    assert count_shared(sp.csr_array(train), test) == shared
    assert count_shared(train, sp.csc_array(test)) == shared


def test_the_type_of_the_numbers_makes_no_difference_and_many_rows_are_no_matter():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (100_000, 12)).astype(np.int8)
    _, expected = np.unique(X @ (1 << np.arange(12)), return_inverse=True)
    groups = duplicate_groups(X)
    assert groups.dtype.kind == "i"
    assert len(np.unique(groups)) == len(np.unique(expected))
    assert len(np.unique(np.column_stack([groups, expected]), axis=0)) == len(np.unique(groups))
    np.testing.assert_array_equal(duplicate_groups(X[:3000].astype(np.float32)), groups[:3000])


def test_rows_of_different_length_are_not_compared():
    with pytest.raises(ValueError, match="X_train has 2 columns, but X_test has 3"):
        count_shared(np.eye(2), np.eye(3))


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("DM2L_DATA"), reason="DM2L_DATA is not set: no real data")
@pytest.mark.parametrize(
    ("name", "distinct", "rate"),
    [("Tmc2007-500-old", 21172, 0.313), ("Tmc2007-500", 26770, 0.076)],
)
def test_the_two_editions_of_tmc_differ_in_their_duplicates(name, distinct, rate):
    X = load_dataset(name).data
    groups = duplicate_groups(X)
    assert groups.max() + 1 == distinct
    order = np.random.default_rng(0).permutation(X.shape[0])
    train, test = order[:17157], order[17157:]
    leaked = np.isin(groups[test], groups[train]).sum()
    assert count_shared(X[train], X[test]) == leaked
    assert leaked / len(test) == pytest.approx(rate, abs=0.01)
