"""Words of label columns: the same in every reader, in Python and on the command line."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dm2l._utils.files import DataFileError
from dm2l.cli._learn import inspect_command
from dm2l.io import read_csv, read_parquet
from dm2l.io._columns import ColumnRequestError, choose_labels, match_columns
from dm2l.io._label_columns import LabelReader
from dm2l.outofcore import RowBlocks
from dm2l.tables import (
    FitOptions,
    complete_table,
    fit_table,
    read_table,
    table_from_frame,
    write_completion,
)
from reader_checks import NAN
from terminal import command_runner


def readings(path, **options):
    """The one label of a file as every reader reads it."""
    yield read_csv(path, "y", **options).target[:, 0]
    yield read_table(path, "y", **options).Y[:, 0]
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    yield table_from_frame(frame, "y", **options).Y[:, 0]
    frame.assign(x=1.0).to_parquet(path.with_suffix(".parquet"))
    yield read_parquet(path.with_suffix(".parquet"), "y", **options).target[:, 0]
    blocks = RowBlocks.open(path, "y", rows=3, **options)
    signs = np.concatenate([np.asarray(block.T)[:, 0] for block in blocks]).astype(float)
    yield np.where(signs == 0, NAN, signs > 0)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("1 0 1  0", {}),
        ("1 -1 +1 NA -1.0", {}),
        ("Yes no YES ? No", {}),
        ("true False TRUE null false", {}),
        ("active Inactive ACTIVE #N/A inactive", {}),
        ("Positive negative positive none Negative", {}),
        ("+ - +  -", {}),
        ("1 0 1 unknown 0", {"missing": "Unknown"}),
        ("1 0 1 -1 0", {"missing": -1}),
        ("2 1 2.0  1", {"positive": 2}),
        ("hit dud HIT ? dud", {"positive": "Hit"}),
        ("hit dud hit 9 dud", {"positive": "hit", "missing": [9]}),
        ("hit dud HIT ? dud", {"positive": {"y": "hit"}}),
        ("2 1 2.0  1", {"positive": {"*": [3], "y*": "hit", "y": 2}}),
    ],
)
def test_every_reader_reads_the_same_words(tmp_path, words, options):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"1,{word}\n" for word in words.split(" ")))
    for found in readings(path, **options):
        np.testing.assert_array_equal(found, [1, 0, 1, NAN, 0])


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        ("1 0 maybe 1", {}, "'y' holds 'maybe' in row 3"),
        ("1 0 - 1", {}, "'y' holds '-' in row 3"),  # no, or that nobody looked
        ("1 2 1 2", {}, "'y' holds '2' in row 2.*positive="),
        (
            "1 2 2 3",
            {"positive": 2},
            "'y' holds '3' in row 4, besides the values '2' and '1'",
        ),
        ("1 0 x 1", {}, "'y' holds 'x' in row 3.*positive="),
        ("x x 0 0", {}, "'y' holds '(x' in row 1|0' in row 3).*--positive x .*--missing x "),
        ("✓ ✓ 0 0", {}, "--positive ✓ .*--missing ✓ "),
        ("x x maybe no", {}, "'y' holds '(x' in row 1|maybe' in row 3).*--positive LABEL=VALUE"),
        ("yes no x no", {}, "'y' holds 'x' in row 3.*--positive LABEL=VALUE"),
        ("1 0 0 -1", {}, "'y' holds 0 in row 2, label 'y' holds -1 in row 4"),
    ],
)
def test_every_reader_counts_rows_from_1_below_the_header(tmp_path, words, options, message):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"1,{word}\n" for word in words.split(" ")))
    makers = readings(path, **options)
    for read in (read_csv, read_table, lambda *a, **o: list(RowBlocks.open(*a, rows=2, **o))):
        with pytest.raises(DataFileError, match=rf"t\.csv: .*{message}"):
            read(path, "y", **options)
    with pytest.raises(DataFileError, match=message):
        next(makers)


@pytest.mark.parametrize("words", ["x  X ", "* ? * NA", "✓  ✔ none"])
def test_ticks_and_nothing_else_say_yes(tmp_path, words):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"1,{word}\n" for word in words.split(" ")), "utf-8")
    for found in readings(path):
        np.testing.assert_array_equal(found, [1, NAN, 1, NAN])


def test_a_positive_value_of_a_label_that_is_not_there_is_refused():
    with pytest.raises(ColumnRequestError, match="among its labels, has no column 'z'"):
        LabelReader(["y"], "t.csv", positive={"z": "x"})


def test_rows_go_on_counting_from_block_to_block():
    reader = LabelReader(["y"], "t.csv")
    for _ in range(3):
        reader.read([pd.Series(["1", "0"])])
    with pytest.raises(DataFileError, match="'y' holds 'x' in row 8"):
        reader.read([pd.Series(["1", "x"])])


NAMES = ["NR-a", "NR-b", "SR-a", "x", "a, b", "7"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("NR-*,SR-*", [0, 1, 2]),
        ("NR-", [0, 1]),
        ("SR-a, x", [2, 3]),
        ("a, b", [4]),
        ("7", [5]),
        ("2", [4, 5]),
        (2, [4, 5]),
        (["x", "NR-*"], [3, 0, 1]),
        (["2", "x"], [4, 5, 3]),
    ],
)
def test_columns_are_asked_for_in_one_syntax(asked, expected):
    assert choose_labels(NAMES, asked, "t.csv") == expected
    if asked != 2 and "2" not in asked:
        assert match_columns(NAMES, asked, "t.csv") == expected


def test_read_csv_takes_lists_with_commas(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,x,NR-a,SR-b\n1,2,1,0\n")
    bunch = read_csv(path, labels="NR-*,SR-*", drop="id")
    assert (bunch.target_names, bunch.feature_names) == (["NR-a", "SR-b"], ["x"])


@pytest.mark.parametrize("suffix", [".csv.gz", ".tsv.gz"])
def test_packed_tables_are_read_inspected_and_completed(tmp_path, suffix):
    mark = "\t" if "tsv" in suffix else ","
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    cells = [[f"{v:.3f}", "" if i % 9 == 0 else f"{v > 0:d}"] for i, v in enumerate(x)]
    text = "\n".join(mark.join(row) for row in [["x", "y"], *cells]) + "\n"
    path = tmp_path / f"t{suffix}"
    path.write_bytes(gzip.compress(text.encode()))
    found = CliRunner().invoke(inspect_command, [str(path), "--labels", "y"])
    assert found.exit_code == 0, found.output
    output = tmp_path / f"out{suffix[:4]}"
    table = read_table(path, "y")
    options = FitOptions(kernel="linear", lambda_d=0.1, alpha=0.3, cv=2)
    model = fit_table(table, options, estimate_folds=0)
    write_completion(complete_table(model, table), table, output)
    assert len(output.read_text().splitlines()) == 61


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.npz", b"PK\3\4hello", "not an npz archive, or the file is damaged"),
        ("t.svm", b"1 1:1 99999999999:1\n", "line 1: this is not an svmlight file"),
        ("t.mat", b"hello", "not a MATLAB file"),
        ("t.parquet", b"PAR1", "not a Parquet file"),
        ("t.csv", b'x,y\n1,"0\n', "not a table"),
        ("t.csv", b"\xff\xfex,y\n1,0\n", "is not valid utf-8"),
    ],
)
def test_the_command_line_says_in_one_line_what_is_wrong_with_a_file(
    tmp_path, name, content, message
):
    (tmp_path / name).write_bytes(content)
    runner = command_runner()
    found = runner.invoke(inspect_command, [str(tmp_path / name), "--labels", "y"])
    assert found.exit_code == 1
    assert isinstance(found.exception, SystemExit)
    (line,) = found.stderr.strip().splitlines()
    assert line.startswith(f"Error: {tmp_path / name}")
    assert message in line


def test_what_dm2l_has_said_is_no_feature_of_a_plain_reader(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y,y__probability,y__score\n1,1,0.9,0.8\n2,0,0.1,-0.7\n")
    found = read_csv(path, labels="y*")
    assert (found.target_names, found.feature_names) == (["y"], ["x"])
