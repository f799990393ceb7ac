"""Labels that are numbers on a scale, and labels of two words, in Python as on the command line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm2l import DM2LClassifier
from dm2l._utils.files import DataFileError
from dm2l.io import read_csv, read_labels
from dm2l.io._columns import ColumnRequestError, Cutoff, cutoffs_of
from dm2l.outofcore import RowBlocks
from dm2l.tables import read_table
from reader_checks import NAN

SIDES = {">=": np.greater_equal, ">": np.greater, "<=": np.less_equal, "<": np.less}
sides = st.sampled_from(sorted(SIDES))
numbers = st.integers(-3, 3)


@given(sides, numbers, numbers)
def test_a_number_lies_on_the_side_on_which_numpy_sees_it(side, value, number):
    assert Cutoff(side, str(value)).parse(f" {number} ") == float(SIDES[side](number, value))


@given(sides, numbers, sides, numbers)
def test_a_bound_counts_if_all_numbers_within_it_agree(side, value, bound, number):
    grid = np.arange(-20, 20.25, 0.25)  # finer than the numbers, and beyond all of them
    said = SIDES[side](grid[SIDES[bound](grid, number)], value)
    expected = float(said[0]) if (said == said[0]).all() else None
    assert Cutoff(side, str(value)).parse(f"{bound}{number}") == expected


@given(sides, numbers)
def test_what_is_written_into_a_hole_is_read_as_it_was_meant(side, value):
    cutoff = Cutoff(side, str(value))
    assert [cutoff.parse(word) for word in cutoff.words] == [1.0, 0.0]


@pytest.mark.parametrize("text", ["", "high", "1_000", "1 2", ">", "=>2", "2,5"])
def test_what_is_no_number_says_nothing(text):
    assert Cutoff(">=", "2").parse(text) is None


def test_every_reader_knows_cutoffs(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x;fold;ki\n1;2,5;<10\n1;0,4;> 1e4\n1;;2,0\n", encoding="utf-8")
    asked = {"cutoffs": ["fold>=2", "ki<=100"]}
    expected = [[1, 1], [0, 0], [NAN, 1]]
    options = {"separator": ";", "decimal": ",", **asked}
    np.testing.assert_array_equal(read_csv(path, 2, **options).target, expected)
    np.testing.assert_array_equal(read_table(path, 2, **options).Y, expected)
    path.write_text(path.read_text().replace(",", "."))
    blocks = RowBlocks.open(path, 2, separator=";", **asked)
    np.testing.assert_array_equal(next(iter(blocks)).T, [[1, 1], [-1, -1], [0, 1]])


def test_a_cell_that_a_cutoff_leaves_open_is_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,fold\n1,2.5\n1,>1\n")
    with pytest.raises(
        DataFileError, match=r"'fold' holds '>1' in row 2.*which may or may not be >=2"
    ):
        read_csv(path, "fold", cutoffs="fold>=2")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["fold=2"], "such as 'fold_"),
        (["x>=2"], "has no column 'x'"),
        (["fold>=2", "f*>3"], "Label .fold. has two cutoffs"),
    ],
)
def test_a_cutoff_that_cannot_be_meant_is_refused(asked, message):
    with pytest.raises(ColumnRequestError, match=message):
        cutoffs_of(["fold"], asked, "t.csv")


@pytest.mark.parametrize(
    ("cells", "options"),
    [
        (["active", "inactive", "Active", None], {}),
        (["+", "-", "+", None], {}),
        (["yes", "no", "YES", NAN], {}),
        ([2, 1, 2, NAN], {"positive": 2}),
        (["hit", "dud", "hit", "?"], {"positive": "hit"}),
        (["hit", "dud", "strong", "?"], {"positive": ["hit", "strong"]}),
        ([3.5, 0.1, 2.0, NAN], {"cutoffs": "y>=2"}),
    ],
)
def test_labels_of_a_frame_are_read_in_the_words_of_the_readers(cells, options):
    frame = pd.DataFrame({"y": cells}, index=[5, 6, 7, 8])
    expected = pd.DataFrame({"y": [1.0, 0.0, 1.0, NAN]}, index=[5, 6, 7, 8])
    pd.testing.assert_frame_equal(read_labels(frame, **options), expected)


@pytest.mark.parametrize(
    ("Y", "remedy"),
    [
        ([[1, 2], [2, 1], [1, 1]], r"read_labels\(Y, positive=2\)"),
        ([["active", "inactive"], ["inactive", "active"], ["active", "active"]], r"read_labels\(Y"),
        ([[3.5, 0.2], [0.1, 7.0], [0.0, 1.0]], r"read_labels\(Y, cutoffs="),
    ],
)
def test_what_an_estimator_refuses_it_names_the_remedy_of(Y, remedy):
    with pytest.raises(ValueError, match=remedy) as refused:
        DM2LClassifier().fit(np.eye(3), Y)
    assert "cross_val_predict" not in str(refused.value)
