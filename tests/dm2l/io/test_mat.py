"""MATLAB files: matrices found and turned, and a process that dies in place of ours."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import savemat

from dm2l.io import _matrix_files, read_mat
from reader_checks import check
from running_commands import MatlabReader

X_MAT = np.array([[0.5, 0.0], [0.0, 2.0], [1.0, 3.0]])
Y_MAT = np.array([[1, 0, 0, 1], [0, 1, 0, 0], [1, 1, 0, 0]])


@pytest.fixture
def forked(monkeypatch):
    """Fork the process that reads: starting one takes most of the time of a test."""
    monkeypatch.setattr(_matrix_files.subprocess, "Popen", MatlabReader)


@pytest.fixture
def mat(tmp_path):
    def written(**parts):
        savemat(tmp_path / "set.mat", parts)
        return tmp_path / "set.mat"

    return written


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(
    ("X", "Y"),
    [
        (X_MAT, Y_MAT),
        (X_MAT, (2 * Y_MAT - 1).T),  # as the Yahoo files: labels x rows, -1/+1
        (X_MAT, Y_MAT.astype(bool)),
        (X_MAT.T, Y_MAT.T),
        (X_MAT.T, Y_MAT),
        (X_MAT, sp.csc_matrix(Y_MAT.astype(float).T)),
    ],
)
@pytest.mark.parametrize("keys", [("X", "Y"), ("data", "target"), ("Data", "LABELS")])
def test_matrices_are_found_and_turned_until_they_fit(mat, X, Y, keys):
    path = mat(**{keys[0]: X, keys[1]: Y, "readme": "text"})
    check(read_mat(path), X_MAT, Y_MAT, sparse=False)


def test_sparse_features_stay_sparse(mat):
    bunch = read_mat(mat(data=sp.csc_matrix(X_MAT), target=Y_MAT.T))
    check(bunch, X_MAT, Y_MAT, sparse=True)
    assert bunch.data.format == "csr"
    silent = ("target_names", "feature_names", "train_index", "test_index", "source")
    assert [bunch[key] for key in silent] == [None] * 5


@pytest.mark.parametrize("given", [{}, {"X": ("train_data", "test_data"), "Y": ["a", "b"]}])
def test_a_training_and_a_test_part_are_stacked(mat, given):
    targets = ("a", "b") if given else ("train_target", "test_target")
    parts = dict(zip(targets, (Y_MAT[:2].T, Y_MAT[2:].T), strict=True))
    bunch = read_mat(mat(train_data=X_MAT[:2], test_data=X_MAT[2:], **parts), **given)
    check(bunch, X_MAT, Y_MAT, sparse=False)
    assert bunch.train_index.tolist() == [0, 1]
    assert bunch.test_index.tolist() == [2]


def test_holes_in_matlab_labels_are_nan_or_a_given_mark(mat):
    holes = np.where(np.eye(3, 4) == 1, np.nan, Y_MAT)
    check(read_mat(mat(X=X_MAT, Y=holes)), X_MAT, holes, sparse=False)
    path = mat(X=X_MAT, Y=np.where(np.eye(3, 4) == 1, 0, 2 * Y_MAT - 1))
    with pytest.raises(ValueError, match=r"set.mat: the labels mix .*label 1 holds 0 in row 1"):
        read_mat(path)
    check(read_mat(path, missing=0), X_MAT, holes, sparse=False)


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(
    ("parts", "options", "message"),
    [
        ({"A": X_MAT, "Y": Y_MAT}, {}, r"no variable with a usual name for X.*\['A', 'Y'\].*X="),
        ({"X": X_MAT, "data": X_MAT, "Y": Y_MAT}, {}, "several variables with a usual name for X"),
        ({"X": X_MAT, "Y": Y_MAT}, {"Y": "Z"}, r"no variables \['Z'\], but has \['X', 'Y'\]"),
        (
            {"X": X_MAT, "Y": np.ones((5, 7))},
            {},
            r"'X' of shape \(3, 2\) and 'Y' of shape \(5, 7\)",
        ),
        ({"X": "words", "Y": Y_MAT}, {}, "'X' must be a matrix of numbers"),
        ({"X": X_MAT, "Y": 3 * Y_MAT}, {}, "label 1 holds 3 in row 1"),
        (
            {"train_data": X_MAT, "test_data": X_MAT[:, :1], "X": X_MAT, "Y": Y_MAT},
            {"X": ["train_data", "test_data"], "Y": ["Y", "Y"]},
            "differ in their numbers of columns",
        ),
        ({"X": X_MAT, "Y": Y_MAT}, {"X": ["X", "X"]}, "the same number of variables"),
    ],
)
def test_matlab_files_that_do_not_fit_are_explained(mat, parts, options, message):
    with pytest.raises(ValueError, match=message):
        read_mat(mat(**parts), **options)


def test_matlab_version_7_3_is_refused_with_the_way_out(tmp_path):
    head = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + bytes(8) + b"\x00\x02IM"
    (tmp_path / "new.mat").write_bytes(head + bytes(512))
    with pytest.raises(ValueError, match=r"version 7.3 .*save\(..., '-v7'\)"):
        read_mat(tmp_path / "new.mat")


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("options", [{"format": "4"}, {}, {"do_compression": True}])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_matlab_file_that_ends_early_is_refused_by_name(tmp_path, options, sparse):
    X = sp.csc_matrix(X_MAT) if sparse else X_MAT
    savemat(tmp_path / "whole.mat", {"X": X, "Y": Y_MAT}, **options)
    content = (tmp_path / "whole.mat").read_bytes()
    path = tmp_path / "part.mat"
    for size in (5, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"part\.mat"):
            read_mat(path)


def test_what_is_no_matlab_file_is_refused_by_name(tmp_path):
    path = tmp_path / "part.mat"
    path.write_text("hello")
    with pytest.raises(
        ValueError, match=r"part\.mat: this is not a MATLAB file, or the file is damaged"
    ):
        read_mat(path)
    with pytest.raises(FileNotFoundError):
        read_mat(tmp_path / "none.mat")
