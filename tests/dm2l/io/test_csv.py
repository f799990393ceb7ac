"""CSV: columns by their names, words of labels, rows as long as the header."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm2l import DM2LClassifier
from dm2l.io import read_csv, read_parquet
from dm2l.io._table import LineReader, check_rows, records
from reader_checks import NAN, check

TABLE = """name,mass,polar,tox_liver,charge,tox_skin
a,1.5,True,1,0,?
b,2.5,False,,-1,0
c,,True,NA,2, 1
"""
X_TABLE = [[1.5, 1, 0], [2.5, 0, -1], [NAN, 1, 2]]
Y_TABLE = [[1, NAN], [NAN, 0], [NAN, 1]]


@pytest.mark.parametrize("labels", ["tox_*", ["tox_liver", "tox_skin"], ["tox_[l]*", "*skin"]])
def test_a_csv_file_is_split_by_the_names_of_its_columns(write, labels):
    bunch = read_csv(write(TABLE, "set.csv"), labels, drop="name")
    check(bunch, X_TABLE, Y_TABLE, sparse=False)
    assert bunch.feature_names == ["mass", "polar", "charge"]
    assert bunch.target_names == ["tox_liver", "tox_skin"]


def test_the_last_columns_of_a_csv_file_are_labels_and_complete_ones_are_int8(write):
    bunch = read_csv(write("f;y;z\n3;0;yes\n4;1;no\n", "set.csv"), 2, separator=";")
    check(bunch, [[3], [4]], [[0, 1], [1, 0]], sparse=False)


@pytest.mark.parametrize(
    ("mark", "word"), [(-1, "-1"), (-1, "-1.0"), ("unknown", "Unknown "), ([9, "x"], "9")]
)
def test_a_given_mark_is_missing_too(write, mark, word):
    text = f"f,y\n1,1\n2,{word}\n3,0\n4,\n"
    bunch = read_csv(write(text, "set.csv"), "y", missing=mark)
    check(bunch, [[1], [2], [3], [4]], [[1], [NAN], [0], [NAN]], sparse=False)


def test_a_signed_column_is_a_label_and_a_mixed_one_is_not(write):
    check(read_csv(write("f,y\n1,-1\n2,1\n", "a.csv"), 1), [[1], [2]], [[0], [1]], sparse=False)
    with pytest.raises(
        ValueError, match=r"mix 0/1 and .*'y' holds 0 in row 2, label 'y' holds -1 in row 1"
    ):
        read_csv(write("f,y\n1,-1\n2,0\n", "a.csv"), 1)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (TABLE, {"labels": "tox_*"}, r"but 'name' holds text \('a' in row 1\).*drop="),
        (
            TABLE.replace("2.5", "n.d."),
            {"labels": "tox_*", "drop": "name"},
            r"'mass' .*'n.d.' in row 2",
        ),
        ("f,g,y\n1,,1\n2,,0\n", {"labels": 1}, "'g' is empty"),
        ("f,y\n1,maybe\n", {"labels": 1}, "label 'y' holds 'maybe' in row 1.*missing="),
        ("f,y\n1,0\n2,7\n", {"labels": 1}, "label 'y' holds '7' in row 2"),
        ("f,y\n1,0\n2,1,3\n", {"labels": 1}, "line 3: row 2 has 3 cells, but the header has 2"),
        ("f,y\n1,0,9\n2,1,3\n", {"labels": 1}, "line 2: row 1 has 3 cells"),
        (
            "f,g,y\n\n1,2,1\n3,4\n5\n",
            {"labels": 1},
            "line 4: row 2 has 2 cells, but the header has 3",
        ),
        ('f,g,y\n1,2,1\n""\n', {"labels": 1}, "line 3: row 2 has 1 cells"),
        ("f,y,y\n1,0,0\n", {"labels": ["y"]}, "several columns named 'y'"),
        ("", {"labels": 1}, "is empty. Add a header line"),
        ("f,y\n", {"labels": 1}, "no rows below the header"),
        (TABLE, {"labels": "skin_*"}, "no column 'skin_\\*'.*Columns: name, mass"),
        (
            TABLE,
            {"labels": "tox_*", "drop": ["tox_skin"]},
            "'tox_skin' is a label, but dropped. Remove it from drop=",
        ),
        ("f,y\n1,0\n", {"labels": "y", "drop": "f"}, "Keep at least one feature"),
    ],
)
def test_a_table_that_cannot_be_used_is_explained(write, text, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_csv(write(text, "set.csv"), **options)
    assert "set.csv" in str(caught.value)


@pytest.mark.parametrize("ending", ["", ".gz", ".bz2", ".xz", ".zip"])
def test_short_rows_are_found_in_packed_tables_too(tmp_path, ending):
    path = tmp_path / f"set.csv{ending}"

    def write(text):
        if ending == ".zip":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("set.csv", text)
        else:
            packers = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
            path.write_bytes(packers.get(ending, bytes)(text.encode()))

    write("f,y\n1,1\n2,\n")
    check(read_csv(path, 1), [[1], [2]], [[1], [NAN]], sparse=False)
    write("f,y\n1,1\n2\n")
    with pytest.raises(ValueError, match="line 3: row 2 has 1 cells, but the header has 2"):
        read_csv(path, 1)


def test_long_texts_quotes_and_blank_lines_are_no_wrong_rows(write):
    text = "x" * 200_000
    rows = f'f,note,y\n\n1,"{text}, ""so""\n1,2,3,4",1\n  \n2, "a,b" ,\n3,5" pipe,0\n\n'
    limit = csv.field_size_limit()
    bunch = read_csv(write(rows, "set.csv"), "y", drop="note")
    check(bunch, [[1], [2], [3]], [[1], [NAN], [0]], sparse=False)
    assert csv.field_size_limit() == limit


@settings(max_examples=300, deadline=None)
@given(
    st.text(st.sampled_from('ab"",,,;\t \n\n\r'), min_size=1, max_size=40),
    st.sampled_from(",;\t"),
    st.booleans(),
)
def test_rows_are_counted_as_the_cells_of_the_text_are(text, sep, mark):
    try:
        found = [record for record in records(text, sep) if not record.blank]
    except ValueError:  # a quote is not closed
        return
    sizes = [len(record.cells) for record in found]
    wrong = [i for i, size in enumerate(sizes) if size != sizes[0]]
    whole = "\ufeff" * mark + text
    lines = io.StringIO(whole, newline="")
    rows = LineReader(check_rows(lines, "t.csv", sep, sizes[0] if sizes else 1))
    if wrong:
        with pytest.raises(ValueError, match=f"row {wrong[0]} has {sizes[wrong[0]]} cells"):
            rows.read()
    else:
        assert rows.read(1) + rows.read() == whole


@pytest.mark.parametrize(
    ("reader", "module"),
    [(read_csv, "pandas"), (read_parquet, "pandas"), (read_parquet, "pyarrow")],
)
def test_without_the_package_the_extra_is_named(monkeypatch, write, reader, module):
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"needs {module}.*pip install 'dm2l\[io\]'"):
        reader(write(TABLE, "set.csv"), "tox_*")


def test_what_is_read_can_be_learnt(write):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Y = (X @ rng.normal(size=(3, 2)) > 0).astype(object)
    Y[rng.random(Y.shape) < 0.3] = ""
    rows = [",".join(map(str, [*x, *(str(v) for v in y)])) for x, y in zip(X, Y, strict=True)]
    bunch = read_csv(write("a,b,c,y1,y2\n" + "\n".join(rows), "set.csv"), "y*")
    observed = ~np.isnan(bunch.target)
    assert 0.5 < observed.mean() < 0.9
    predicted = DM2LClassifier().fit(bunch.data, bunch.target).predict(bunch.data)
    assert (predicted == bunch.target)[observed].mean() > 0.9
