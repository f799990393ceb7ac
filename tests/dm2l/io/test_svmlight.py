"""svmlight: rows, comments, labels, and which index is the first."""

from __future__ import annotations

import bz2
import gzip

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from dm2l.io import read_svmlight
from reader_checks import NAN, check


@pytest.mark.parametrize("zero_based", [True, False])
def test_svmlight_reads_what_scikit_learn_writes(tmp_path, zero_based):
    rng = np.random.default_rng(0)
    X = sp.random(20, 6, density=0.5, random_state=0, format="csr")
    Y = rng.integers(0, 2, (20, 4))
    Y[3], Y[0] = 0, 1  # a row without labels, and every label somewhere
    path = str(tmp_path / "set.svm")
    dump_svmlight_file(X, Y, path, multilabel=True, zero_based=zero_based)
    bunch = read_svmlight(path, n_features=6, zero_based=zero_based)
    np.testing.assert_allclose(bunch.data.toarray(), X.toarray(), rtol=1e-12)
    assert bunch.data.format == "csr"
    assert bunch.target.dtype == np.int8
    np.testing.assert_array_equal(bunch.target, Y)
    assert bunch.target_names == ["0", "1", "2", "3"]


@pytest.mark.parametrize("comment", [None, "made by hand\nand dumped"])
@pytest.mark.parametrize("ending", ["svm", "svm.gz", "svm.bz2"])
def test_svmlight_keeps_rows_with_neither_labels_nor_features(tmp_path, comment, ending):
    X, Y = np.eye(7, 4), np.eye(7, 2, dtype=int)
    X[[0, 3, 4, 6]] = 0
    Y[0], Y[1] = 0, 1
    path = tmp_path / "set.svm"
    dump_svmlight_file(X, Y, str(path), multilabel=True, zero_based=False, comment=comment)
    packers = {"svm": bytes, "svm.gz": gzip.compress, "svm.bz2": bz2.compress}
    packed = tmp_path / f"packed.{ending}"
    packed.write_bytes(packers[ending](path.read_bytes()))
    bunch = read_svmlight(packed, n_features=4)
    check(bunch, X, Y, sparse=True)
    assert not bunch.zero_based


def test_svmlight_comments_and_empty_lines_at_the_ends_are_no_rows(write):
    text = "\n# head\n\n1 1:2 # first\r\n  # between\n \t\r\n1 2:3\n\n\r\n"
    check(read_svmlight(write(text, "set.svm")), [[2, 0], [0, 0], [0, 3]], [[1], [0], [1]], True)


def test_svmlight_says_which_index_is_the_first_and_keeps_to_what_it_is_told(write):
    path = write("1 0:1 2:1\n2 1:5\n", "zero.svm")
    assert read_svmlight(path).zero_based
    other = write("1 1:5\n2 2:1\n", "other.svm")
    assert not read_svmlight(other).zero_based
    check(read_svmlight(other, 3, zero_based=True), [[0, 5, 0], [0, 0, 1]], np.eye(2), sparse=True)


def test_svmlight_columns_are_the_labels_asked_for(write):
    path = write("10,3 1:1\n1:2\n3 2:4\n", "set.svm")
    assert read_svmlight(path).target_names == ["3", "10"]
    bunch = read_svmlight(path, labels=[10, 7, 3], missing_as="missing")
    assert bunch.target_names == ["10", "7", "3"]
    check(bunch, [[1, 0], [2, 0], [0, 4]], [[1, NAN, 1], [NAN] * 3, [NAN, NAN, 1]], sparse=True)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("1,2 1:1\n", {"labels": [1]}, r"must list all labels of the file, but lacks \[2.0\]"),
        ("1,2 1:1\n", {"labels": [1, 2, 2]}, "labels= must be distinct"),
        ("1,2 1:1\n", {"missing_as": "maybe"}, "got 'maybe'"),
        ("1:1\n2:1\n", {}, "no row has labels"),
        ("hello\n", {}, "line 1: .*could not convert"),
        ("1 1:1\n# note\n2 1:x\n", {}, "line 3: .*could not convert"),
        ("1 1:1\n2 2:1 1:1\n", {}, "line 2: .*sorted"),
        ("1 1:1\n\n\n# note\n2 1:1\n", {}, "line 2: the line is empty"),
        (
            "1 1:1\n \n2 0:1\n",
            {"zero_based": False},
            r"line 3: a feature has the index 0, but indices must be at least 1",
        ),
        (
            "1 1:1\n2 2:1 4:1\n",
            {"n_features": 3},
            "line 2: a feature has the index 4, but indices must be from 1 to 3",
        ),
        (
            "1 1:1\n2 0:1 3:1\n",
            {"n_features": 3},
            "line 2: a feature has the index 3, but indices must be from 0 to 2",
        ),
    ],
)
def test_svmlight_files_that_do_not_fit_are_refused(write, text, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_svmlight(write(text, "set.svm"), **options)
    assert "set.svm" in str(caught.value) or "missing_as" in options
