"""Parquet: nulls, types, and columns that are no numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dm2l.io import read_parquet
from reader_checks import NAN, check

FRAME = pd.DataFrame(
    {
        "mass": [1.5, 2.5, None],
        "count": pd.array([3, None, 4], dtype="Int16"),
        "polar": [True, None, False],
        "wet": pd.array([True, False, None], dtype="boolean"),
        "liver": pd.array([1, 0, None], dtype="Int8"),
        "skin": [True, None, False],
        "eye": ["1", "?", "0"],
        "lung": pd.Categorical(["no", "yes", None]),
        "heart": [0, 1, 1],
    }
)


def test_a_parquet_file_is_read_with_its_nulls(tmp_path):
    FRAME.to_parquet(tmp_path / "set.parquet")
    bunch = read_parquet(tmp_path / "set.parquet", labels=5)
    X = [[1.5, 3, 1, 1], [2.5, NAN, NAN, 0], [NAN, 4, 0, NAN]]
    Y = [[1, 1, 1, 0, 0], [0, NAN, NAN, 1, 1], [NAN, 0, 0, NAN, 1]]
    check(bunch, X, Y, sparse=False)
    assert bunch.target_names == ["liver", "skin", "eye", "lung", "heart"]
    again = read_parquet(tmp_path / "set.parquet", labels="heart", drop=["eye", "lung", "skin"])
    check(again, np.column_stack([X, [1, 0, NAN]]), [[0], [1], [1]], sparse=False)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.to_datetime(["2020-01-01"] * 3), "'new' is of type datetime64"),
        (["CCO", None, "CN"], r"'new' holds text \('CCO' in row 1\)"),
        ([[1], [2], [3]], "'new' is of type object"),
        (pd.Categorical(["1", "2", "3"]), "'new' is of type category"),
    ],
)
def test_a_parquet_column_without_numbers_is_no_feature(tmp_path, column, message):
    FRAME[["mass", "heart"]].assign(new=column).to_parquet(tmp_path / "set.parquet")
    with pytest.raises(ValueError, match=message):
        read_parquet(tmp_path / "set.parquet", labels=["heart"])


def test_a_parquet_column_of_lists_holds_tags(tmp_path):
    FRAME[["mass"]].assign(y=[["b", "a"], [], ["b"]]).to_parquet(tmp_path / "set.parquet")
    found = read_parquet(tmp_path / "set.parquet", labels=1)
    assert found.target_names == ["y=a", "y=b"]
    np.testing.assert_array_equal(found.target, [[1, 1], [np.nan, np.nan], [np.nan, 1]])
