"""Half-labelled tables: what is read, what is learnt, and that nothing else of a file changes."""

import csv
import io
import itertools
import re
import tempfile
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.io import savemat
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dm2l import DM2LClassifier, LabelRules
from dm2l._search._search import usual_scoring
from dm2l._utils import files
from dm2l.io import read_npz
from dm2l.io._columns import ColumnRequestError, choose_labels
from dm2l.io._label_columns import LabelReader
from dm2l.io._table import quote, records, unquote
from dm2l.persistence import save_model
from dm2l.review._export import export_name
from dm2l.tables import (
    Completion,
    FitOptions,
    _kinds,
    complete_table,
    evaluate_table,
    explain_model,
    fit_table,
    inspect_table,
    load_bundle,
    read_table,
    save_bundle,
    suggest_entries,
    suggest_rows,
    table_from_frame,
    write_completion,
)
from dm2l.tables import _options as chosen
from dm2l.tables._filled import check_form, find_spelling
from dm2l.tables._inspection import _label_counts, _positive_warnings
from dm2l.tables._kinds import ColumnUse, column_kinds
from dm2l.tables._measures import interval, measure
from dm2l.tables._model import read_for
from dm2l.tables._options import choose_hyperparameters
from dm2l.tables._preparation import MAX_CATEGORIES, features_of, preparation, typed_frame
from dm2l.tables._suggestion import answer_effects, table_values
from half_labelled import LABELS, as_csv, make_table, spell

patient = settings(deadline=None, max_examples=60)  # the machine may be busy with other tests
QUICK = FitOptions(kernel="linear", lambda_d=0.1, alpha=0.3, cv=3)


@pytest.fixture(scope="module")
def tickets(tmp_path_factory):
    """A table with blanks in a file, what is true, and what was observed."""
    columns, truth, observed = make_table(n_rows=300)
    path = tmp_path_factory.mktemp("tickets") / "tickets.csv"
    path.write_text(as_csv(columns, spell(truth, observed)), encoding="utf-8")
    return path, truth, observed


@pytest.fixture(scope="module")
def table(tickets):
    return read_table(tickets[0], "topic_*")


@pytest.fixture(scope="module")
def model(table):
    return fit_table(table, QUICK, estimate_folds=2)


@pytest.fixture
def write(tmp_path):
    def write(text, name="table.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write


# ----------------------------------------------------------------------------------------- cells

CELLS = st.text(st.sampled_from("ab \"',;\t\r\né0?"), max_size=6)
ROWS = st.integers(2, 4).flatmap(
    lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=1, max_size=5)
)


@patient
@given(
    ROWS,
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_records_hold_what_the_csv_module_reads_and_join_to_the_same_text(rows, mark, end, quoting):
    file = io.StringIO()
    csv.writer(file, delimiter=mark, lineterminator=end, quoting=quoting).writerows(rows)
    text = file.getvalue()
    found = list(records(text, mark))
    assert "".join(mark.join(record.cells) + record.end for record in found) == text
    expected = list(csv.reader(io.StringIO(text, newline=""), delimiter=mark))
    # The csv module writes "\r" without quotes and then reads a line without cells.
    assert [
        [unquote(cell) for cell in r.cells] if r.cells != [""] else [] for r in found
    ] == expected


@patient
@given(CELLS)
def test_a_quoted_cell_says_what_it_was_made_of(value):
    assert unquote(quote(value, ",")) == value
    assert unquote(quote(value, ",", always=True)) == value
    assert len(list(records(f"{quote(value, ',')},x", ","))) == 1


def test_the_last_record_needs_no_line_end_and_may_end_in_a_blank_cell():
    assert [record.cells for record in records("a,b\n1,", ",")] == [["a", "b"], ["1", ""]]
    assert [record.cells for record in records("a,b\n", ",")] == [["a", "b"]]


def test_an_open_quote_is_refused_with_its_line():
    with pytest.raises(ValueError, match="line 2"):
        list(records('a,b\n1,"x\ny', ","))


# --------------------------------------------------------------------------------------- answers


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "0", "", "NA"], [1, 0, np.nan, np.nan]),
        ([" Yes", "NO ", "?", "yes"], [1, 0, np.nan, 1]),
        (["TRUE", "false", "n/a", "#N/A"], [1, 0, np.nan, np.nan]),
        (["+1", "-1", "null", "1.0"], [1, 0, np.nan, 1]),
        (["1", "no", "None", "True"], [1, 0, np.nan, 1]),
    ],
)
def test_answers_are_read_in_any_unambiguous_spelling(cells, expected):
    found = LabelReader(["a"], "table").read([pd.Series(cells, dtype=object)])
    np.testing.assert_array_equal(found[:, 0], expected)


@pytest.mark.parametrize("value", ["maybe", "2", "0.5", "yess", "1_0", "+-1", "-nan"])
def test_other_answers_are_refused_with_value_column_and_row(write, value):
    path = write(f"x,tox_a,tox_b\n1,1,0\n2,0,\n3,1,{value}\n")
    with pytest.raises(ValueError, match=r"table\.csv: label 'tox_b' holds .* in row 3") as error:
        read_table(path, "tox_*")
    assert repr(value) in str(error.value)


def test_minus_one_beside_zero_is_ambiguous_until_one_is_named_missing(write):
    path = write("x,a,b\n1,1,-1\n2,0,1\n3,-1,0\n")
    with pytest.raises(ValueError, match=r"mix.*'a' holds 0 in row 2.*-1 in row 3"):
        read_table(path, ["a", "b"])
    nan = np.nan
    found = read_table(path, ["a", "b"], missing=["0"]).Y
    np.testing.assert_array_equal(found, [[1, 0], [nan, 1], [0, nan]])
    found = read_table(path, ["a", "b"], missing=[-1]).Y
    np.testing.assert_array_equal(found, [[1, nan], [0, 1], [nan, 0]])


def test_a_mark_of_missing_answers_is_a_word_or_a_number(write):
    path = write("x,a\n1,1\n2,Unknown\n3,9.0\n4,0\n")
    found = read_table(path, "a", missing=["unknown", 9]).Y[:, 0]
    np.testing.assert_array_equal(found, [1, np.nan, np.nan, 0])


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["Yes", "", "No", "Yes", "yes"], ("Yes", "No")),
        (["TRUE", "", "TRUE"], ("TRUE", "FALSE")),
        (['"no"', "", '"no"'], ('"yes"', '"no"')),
        ([" 0", ""], (" 1", " 0")),
        (["-1", ""], ("+1", "-1")),
        (["1.0", None], ("1.0", "0.0")),
        ([True, None], (True, False)),
        ([0.0, None], (1.0, 0.0)),
    ],
)
def test_an_unseen_answer_is_spelt_like_the_other_one(cells, expected):
    column = pd.Series([unquote(c) if isinstance(c, str) else c for c in cells], dtype=object)
    answers = LabelReader(["a"], "table").read([column])[:, 0]
    found = find_spelling(cells, answers)
    assert found == expected
    assert [type(part) for part in found] == [type(part) for part in expected]


def test_a_column_without_answers_has_no_spelling():
    assert find_spelling(["", "NA"], np.array([np.nan, np.nan])) is None


# ----------------------------------------------------------------------------------------- kinds

N = 60
_RNG = np.random.RandomState(0)
_WORDS = ["red", "apple", "runs", "over", "green", "hills", "while", "rain", "falls", "down"]
_TEXTS = [" ".join(_RNG.choice(_WORDS, size=6)) + f" end{i}" for i in range(N)]


@pytest.mark.parametrize(
    ("values", "kind", "part"),
    [
        (_RNG.normal(size=N), "numeric", ""),
        (_RNG.randint(5, size=N), "numeric", ""),
        ([f"{v:.2f}" for v in _RNG.normal(size=N - 2)] + ["<0.5", "n.d."], "numeric", "'<0.5'"),
        ([True, False] * (N // 2), "boolean", ""),
        (["Yes", "no", None] * (N // 3), "boolean", ""),
        (["a", "b", "c"] * (N // 3), "category", ""),
        (["new york", "los angeles"] * (N // 2), "category", ""),
        (_TEXTS, "text", ""),
        ([f"CHEMBL{i}" for i in range(N)], "identifier", "every row"),
        (range(1, N + 1), "identifier", "every row"),
        (pd.date_range("2024-01-01", periods=N), "date", ""),
        ([f"2024-{1 + i % 12:02d}-07" for i in range(N)], "date", ""),
        ([f"{1 + i % 28}.3.2024 08:15" for i in range(N)], "date-dmy", ""),
        ([f"3/{1 + i % 28}/2024" for i in range(N)], "date-mdy", ""),
        (["3/4/2024", "5/6/2023"] * (N // 2), "unusable", "=date-dmy or column=date-mdy"),
        (["13/4/2024", "4/13/2024"] * (N // 2), "unusable", "mixed"),
        (["13/4/24", "4/1/24"] * (N // 2), "unusable", "two-digit years"),
        (["08:15", "9:20"] * (N // 2), "unusable", "times of day"),
        ([3.5] * N, "constant", "always 3.5"),
        (["x"] * N, "constant", "always 'x'"),
        (["x"] * (N - 2) + [None] * 2, "constant", "always 'x'"),
        (["x", None] * (N // 2), "boolean", "always 'x' or blank"),
        (["yes", ""] * (N // 2), "boolean", "always 'yes' or blank"),
        (["seen", None] * (N // 2), "category", "always 'seen' or blank"),
        ([1.0, None] * (N // 2), "numeric", "always 1.0 or blank"),
        ([None] * N, "empty", "no values"),
        (["", "NA", "?"] * (N // 3), "empty", "no values"),
        ([[1, 2]] * N, "unusable", "list"),
        ([f"code{i // 2 if i < 40 else i}" for i in range(N)], "unusable", "too many"),
        ([*_TEXTS[:5], *[None] * (N - 5)], "unusable", "only 5 rows"),
    ],
)
def test_kinds_of_columns(values, kind, part):
    use = column_kinds(pd.DataFrame({"column": pd.Series(list(values))}))[0]
    assert use.kind == kind, use
    assert part in use.reason + use.note
    assert bool(use.reason) == (not use.used)


@given(
    days=st.lists(st.none() | st.dates(date(1700, 1, 1), date(2200, 1, 1)), min_size=2),
    kind=st.sampled_from(
        [("date", "%Y/%m/%d"), ("date-dmy", "%d.%m.%Y"), ("date-mdy", "%m/%d/%Y")]
    ),
)
def test_dates_become_the_features_of_the_calendar(days, kind):
    texts = [None if day is None else day.strftime(kind[1]) for day in days]
    frame = pd.DataFrame({"when": pd.Series(texts, dtype=object)})
    use = column_kinds(frame, {"when": kind[0]})
    found, notes = typed_frame(frame, use, "frame")
    wanted = [
        [np.nan] * 4
        if day is None
        else [day.year, day.month, day.weekday(), (day - date(1970, 1, 1)).days]
        for day in days
    ]
    assert list(found.columns) == [f"when: {part}" for part in ("year", "month", "weekday", "days")]
    np.testing.assert_array_equal(found, wanted)
    assert not notes


def test_whole_numbers_named_id_are_no_feature_and_others_are():
    numbers = np.random.RandomState(0).permutation(1000)[:N]
    frame = pd.DataFrame({"customer_id": numbers, "height": numbers, "paid": numbers})
    assert [use.kind for use in column_kinds(frame)] == ["identifier", "numeric", "numeric"]


def test_kinds_can_be_told():
    frame = pd.DataFrame({"zip": range(N), "name": [f"n{i}" for i in range(N)], "x": range(N)})
    uses = column_kinds(frame, {"zip": "numeric", "name": "category"}, drop=["x"])
    assert [use.kind for use in uses] == ["numeric", "category", "dropped"]
    with pytest.raises(ValueError, match=r"'numeric', 'boolean', 'category', 'text'.*got 'size'"):
        column_kinds(frame, {"zip": "size"})
    with pytest.raises(ValueError, match=r"no column 'size\*'"):
        column_kinds(frame, drop=["size*"])
    with pytest.raises(ValueError, match="no column 'zop'"):
        column_kinds(frame, {"zop": "numeric"})


# ----------------------------------------------------------------------------------- preparation


def test_features_are_named_in_the_order_of_the_transformed_columns(table):
    uses = column_kinds(table.frame)
    frame, warnings = typed_frame(table.frame, uses, "table")
    transformer = preparation(uses)
    X = transformer.fit_transform(frame)
    X = X.toarray() if sp.issparse(X) else X
    features = features_of(transformer, ())
    assert warnings == []
    assert X.shape[1] == len(features)
    names = [feature.name for feature in features]
    # By hand, one of each form.
    channel = (frame["channel"] == "Büro").to_numpy(dtype=float)
    np.testing.assert_array_equal(X[:, names.index("channel=Büro")], channel)
    said = frame["text"].str.contains(r"\brefund\b").to_numpy()
    np.testing.assert_array_equal(X[:, names.index("text: refund")] > 0, said)
    hole = table.frame["hours"].isna().to_numpy()
    np.testing.assert_array_equal(X[:, names.index("hours is missing")] > 0, hole)
    amount = X[:, names.index("amount")]
    np.testing.assert_allclose(amount, StandardScaler().fit_transform(frame[["amount"]])[:, 0])
    assert {feature.column for feature in features} == {
        name for use in uses if use.used for name in use.inputs
    }


def test_rare_categories_share_one_feature():
    values = [f"v{i}" for i in range(MAX_CATEGORIES + 50)] * 2
    frame = pd.DataFrame({"c": values})
    uses = column_kinds(frame, {"c": "category"})
    transformer = preparation(uses).fit(typed_frame(frame, uses, "table")[0])
    names = [feature.name for feature in features_of(transformer, ())]
    assert len(names) == MAX_CATEGORIES == transformer.transform(frame).shape[1]
    assert names[-1] == "c is rare"


def test_values_that_fit_no_kind_are_missing_and_named():
    frame = pd.DataFrame({"x": ["1", "2", "many", "inf"], "b": ["yes", "no", "", "perhaps"]})
    uses = column_kinds(
        pd.DataFrame({"x": [1.0, 2, 3, 9], "b": [True, False, True, True]}),
    )
    typed, warnings = typed_frame(frame, uses, "table")
    np.testing.assert_array_equal(typed["x"], [1, 2, np.nan, np.nan])
    np.testing.assert_array_equal(typed["b"], [1, 0, np.nan, np.nan])
    assert "'x': 'many' in row 3" in warnings[0]
    assert "'b': 'perhaps' in row 4" in warnings[1]


def test_numbers_that_are_text_have_the_decimal_point_of_their_file(write):
    rows = [f"{i / 7 - 4:.4f};{i % 5 > 1:d}" for i in range(60)]
    rows[3] = "n.d.;1"
    tables = [
        read_table(write("\n".join(["mass;a", *lines]), name), "a", decimal=decimal)
        for name, decimal, lines in (
            ("point.csv", ".", rows),
            ("comma.csv", ",", [row if "n" in row else row.replace(".", ",") for row in rows]),
        )
    ]
    for table in tables:
        (use,) = inspect_table(table).uses
        noted = "'n.d.' in row 4 is not a number and is read as missing"
        assert (use.kind, use.note) == ("numeric", noted)
        evaluate_table(table, QUICK, repetitions=1)
    models = [fit_table(table, QUICK, estimate_folds=0) for table in tables]
    answers = [one.answer(one.inputs(table)[0]) for one, table in zip(models, tables, strict=True)]
    np.testing.assert_array_equal(*(answer.scores for answer in answers))


@pytest.mark.parametrize(
    ("text", "decimal"),
    [
        ("mass;day;a\n1,5;29.05.2023;1\n-2,25;1.6.2023;0\n", ","),
        ('"mass";"a"\n"1,5";1\n"3";0\n', ","),
        ("mass;other;a\n1,5;2.5;1\n2,5;1;0\n", "."),  # who knows
        ("mass;codes;a\n1.5;1,2,3;1\n2;4,5;0\n", "."),
        ("mass;codes;a\n1;1,2,3;1\n2;7,5,1;0\n", "."),
        ('mass,a\n"1,500",1\n"2,500",0\n', "."),
        ("mass;a\n1;1\n2;0\n", "."),
        ("mass;count;a\n1,5;1.500;1\n2;12.000;0\n", ","),  # thousands
        ("mass;count;a\n1.5;1,500;1\n2;12,000;0\n", "."),
        ("mass;a\n1,500;1\n2,250;0\n", "."),  # who knows
        ("mass;a\n0,500;1\n0,250;0\n", ","),
    ],
)
def test_a_decimal_comma_is_recognised_where_it_separates_no_columns(write, text, decimal):
    assert read_table(write(text), "a").decimal == decimal
    assert read_table(write(text, "again.csv"), "a", decimal=".").decimal == "."


def test_commas_in_numbers_are_no_categories(write):
    rows = [f'"{i % 9},{i % 7}",{i % 2}' for i in range(60)]
    table = read_table(write("\n".join(["mass,a", *rows])), "a")
    use = column_kinds(table.frame)[0]
    assert not use.used
    assert "pass --decimal=," in use.reason
    assert column_kinds(table.frame, decimal=",")[0].kind == "numeric"
    assert column_kinds(table.frame, {"mass": "category"})[0].kind == "category"
    frame = pd.DataFrame({"mass": ["1,5", 2.5, 3, "n.d.", None]})
    found, warned = typed_frame(frame, [ColumnUse("mass", "numeric")], "table", ",")
    np.testing.assert_array_equal(found["mass"], [1.5, 2.5, 3, np.nan, np.nan])
    assert "decimal" not in warned[0]
    _, warned = typed_frame(frame, [ColumnUse("mass", "numeric")], "table")
    assert warned[0].endswith(
        "(2 such values) and is read as missing; pass --decimal=, to read decimal commas"
    )


def test_a_point_is_no_decimal_point_where_a_comma_is():
    frame = pd.DataFrame({"x": ["1,5", "-2,5e3", "1.500", "1.234,5", "3"]})
    (use,) = column_kinds(frame, {"x": "numeric"})
    typed, warnings = typed_frame(frame, [use], "table", ",")
    np.testing.assert_array_equal(typed["x"], [1.5, -2500, np.nan, np.nan, 3])
    assert "'1.500' in row 3 is not a number (2 such values)" in warnings[0]


# --------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("tox_*", ["tox_a", "tox_b"]),
        ("tox_", ["tox_a", "tox_b"]),
        ("tox_b,tox_a", ["tox_b", "tox_a"]),
        (["tox_b", "x*"], ["tox_b", "x"]),
        (2, ["tox_a", "tox_b"]),
        ("2", ["tox_a", "tox_b"]),
        ("y, z", ["y, z"]),
    ],
)
def test_labels_are_named_in_many_ways(write, labels, expected):
    path = write('"y, z",x,id,tox_a,tox_b\n1,0,5,1,0\n0,1,7,0,1\n')
    assert read_table(path, labels).label_names == expected


@pytest.mark.parametrize("name", ["2", "b_", "b?", "b,c"])
def test_labels_of_a_model_are_found_by_their_very_names(write, tmp_path, name):
    rows = [[str(i / 7), i % 5 > 1, i % 3 > 1] for i in range(60)]
    frame = pd.DataFrame(rows, columns=["mass", "1", name])
    model = fit_table(table_from_frame(frame, ["1", name]), QUICK, estimate_folds=0)
    assert model.label_names == ["1", name]
    other = frame.rename(columns={name: "b_c"}).assign(b=0, c=1, bc=0, flag=1)
    paths = [tmp_path / "table.csv", tmp_path / "table.parquet"]
    other.to_csv(paths[0], index=False)
    other.to_parquet(paths[1])
    for path in paths:
        with pytest.raises(
            ValueError,
            match=rf"the file lacks 1 of the 2 labels of the model: {re.escape(repr(name))}",
        ):
            read_for(model, path)
    other[name] = 1
    other.to_csv(paths[0], index=False)
    assert read_for(model, paths[0]).label_names == ["1", name]


def test_a_label_that_is_not_there_is_named_and_a_word_is_no_prefix(write):
    path = write("x,tox_a,tox_b\n1,1,0\n")
    with pytest.raises(ValueError, match=r"no column 'tox'.*x, tox_a, tox_b"):
        read_table(path, "tox")


def test_separators_decimal_commas_marks_and_encodings(write):
    text = "größe;art;a\r\n1,5;süß;ja\r\n2,5;sauer;\r\n"
    path = write("\ufeff" + text.replace("ja", "yes"))
    found = read_table(path, "a", decimal=",")
    assert found.file.separator == ";"
    assert found.feature_names == ["größe", "art"]
    np.testing.assert_array_equal(found.frame["größe"], [1.5, 2.5])
    assert list(found.frame["art"]) == ["süß", "sauer"]
    latin = write(text.replace("ja", "1"), "latin.csv", "latin-1")
    with pytest.raises(ValueError, match=r"byte 0xf6 at .* not valid utf-8.*--encoding latin-1"):
        read_table(latin, "a")
    assert read_table(latin, "a", encoding="latin-1").feature_names == ["größe", "art"]
    tabs = write("x\ta\n1,5\t1\n", "table.tsv")
    assert read_table(tabs, "a").feature_names == ["x"]


@pytest.mark.parametrize(
    ("header", "separator"),
    [
        ('"a, mm";b;y', ";"),
        ('"a, mm, ""p"", q";b;y', ";"),
        ('b;"a, mm\n, q";y', ";"),
        ("b|a;c|y", "|"),
        ('"a;b";"c;d",e,y', ","),
        ('5" pipe, 6" pipe, y', ","),
        ('a\t"b,c"\ty', "\t"),
    ],
)
def test_separators_inside_quotes_do_not_count(write, header, separator):
    path = write(f"{header}\n" + separator.join("111"))
    assert read_table(path).file.separator == separator


@pytest.mark.parametrize("separator", ["", ";;", '"', "\n"])
def test_a_separator_is_one_character(write, separator):
    with pytest.raises(ValueError, match="A separator must be one character"):
        read_table(write("x,a\n1,0\n"), "a", separator=separator)


@pytest.mark.parametrize("encoding", ["foo", "hex"])
def test_an_encoding_is_one_of_text(write, encoding):
    for name in ("t.csv", "t.arff"):
        with pytest.raises(ValueError, match=f"'{encoding}' is not a text encoding"):
            read_table(write("x,a\n1,0\n", name), "a", encoding=encoding)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "is empty"),
        ("x,a\n", "no rows"),
        ("x,a,x\n1,1,2\n", "several columns named 'x'"),
        ("x,a\n1,0\n1,0,5\n", "line 3: row 2 has 3 cells, but the header has 2"),
        ("x,y,a\n1,2,1\n3,4\n5\n6,7,0\n", "line 3: row 2 has 2 cells, but the header has 3"),
        ("x;y;a\n\n1;2;1\n5\n6;7;0\n", "line 4: row 2 has 1 cells, but the header has 3"),
        ('x,y,a\n1,"p\nq",1\n6,"p,q"\n', "line 4: row 2 has 2 cells, but the header has 3"),
        ('x,a\n1,0\n"1,0\n', "not a table"),
        ("a\n1\n", "no features"),
    ],
)
def test_what_is_no_table_is_refused(write, text, match):
    with pytest.raises(ValueError, match=match):
        read_table(write(text), ["a"])


def test_blanks_at_the_end_of_a_row_are_cells(write):
    path = write('größe,y,a\n1,2,\n3,,\n\n6,"",0\n', encoding="utf-16")
    np.testing.assert_array_equal(
        read_table(path, "a", encoding="utf-16").Y.ravel(), [np.nan, np.nan, 0]
    )


def test_names_are_distinct_in_every_form(tmp_path):
    head = "@relation r\n@attribute x numeric\n@attribute x numeric\n@attribute a {0,1}\n@data\n"
    (tmp_path / "t.arff").write_text(head + "1,2,1\n3,4,0\n")
    twice = pa.table([[1.0, 2.0], [3.0, 4.0], [0, 1]], names=["x", "x", "a"])
    pq.write_table(twice, tmp_path / "t.parquet")
    for name in ("t.arff", "t.parquet"):
        with pytest.raises(ValueError, match=f"{name}: there are several columns named 'x'"):
            read_table(tmp_path / name, "a")


def test_unknown_suffix_is_refused_with_those_that_are_known(write):
    with pytest.raises(ValueError, match=r"type '\.doc' cannot be read\. Use one of \.csv"):
        read_table(write("x", "table.doc"))


def _frame(**columns):
    return pd.DataFrame(columns | {"y": [True, False, None] * 20})


@pytest.mark.parametrize(
    "frame",
    [
        _frame(a=range(60), b=range(60)).set_axis([1, "1", "y"], axis=1),
        _frame(a=range(60), b=range(60)).set_axis(["1", "1", "y"], axis=1),
    ],
    ids=["1 and '1'", "'1' twice"],
)
def test_columns_of_one_name_are_refused_with_it(frame):
    with pytest.raises(ValueError, match=r"several columns named '1'; rename"):
        table_from_frame(frame, ["y"])
    with pytest.raises(ValueError, match=r"several columns named '1'; rename"):
        column_kinds(frame.drop(columns="y"))


def test_names_of_a_frame_need_not_be_text():
    frame = pd.DataFrame({0: np.arange(60) % 7, 5: [True, False, None] * 20, 7: [0, 1, 1] * 20})
    table = table_from_frame(frame, [5, "7"])
    assert (table.feature_names, table.label_names) == (["0"], ["5", "7"])
    assert [use.name for use in column_kinds(frame, {"0": "category"}, drop=["7"])] == list("057")
    with pytest.raises(ValueError, match="no column '2'"):
        table_from_frame(frame, [2])
    with pytest.raises(ValueError, match=r"labels= must be names .* got 2\.5"):
        table_from_frame(frame, 2.5)


def test_a_polars_frame_is_a_table_too():
    frame = _frame(mass=np.arange(60) % 7 / 2, phase=["gas", "solid", None] * 20)
    found, expected = (table_from_frame(one, "y") for one in (pl.from_pandas(frame), frame.copy()))
    np.testing.assert_array_equal(found.Y, expected.Y)
    kinds = [use.kind for use in column_kinds(found.frame)]
    assert kinds == [use.kind for use in column_kinds(expected.frame)] == ["numeric", "category"]
    for other in ([[1, 0]], pl.LazyFrame({"a": [1]})):
        with pytest.raises(TypeError, match=f"data frame, got {type(other).__name__}"):
            table_from_frame(other, "y")


def test_a_table_without_a_file_cannot_be_written_and_that_is_said(tmp_path):
    table = table_from_frame(_frame(mass=np.arange(60) % 7), "y")
    for name in ("o.csv", "o.parquet"):
        with pytest.raises(ValueError, match=r"made from a data frame .* completion\.positive"):
            write_completion(_completion(table.Y, ["y"]), table, tmp_path / name)


def test_a_format_without_a_writer_is_named_and_not_called_a_data_frame():
    table = replace(table_from_frame(_frame(mass=np.arange(60) % 7), "y"), path=Path("in.orc"))
    with pytest.raises(ValueError, match=r"in\.orc: tables of type '\.orc' cannot be completed"):
        check_form(table, Path("out.orc"))
    assert export_name(table) == "in-reviewed.orc"


def test_files_larger_than_memory_are_refused_with_advice(write, monkeypatch):
    path = write("x,a\n" + "1,0\n" * 5000)
    free = files.available_memory()
    assert free is None or free > 2**20
    monkeypatch.setattr(files, "_probe", lambda: 30_000)
    with pytest.raises(ValueError, match="sample of the rows"):
        read_table(path, "a")
    frame = pd.DataFrame({"x": np.random.RandomState(0).normal(size=5000), "a": 1})
    frame.to_parquet(path.with_suffix(".parquet"))
    with pytest.raises(ValueError, match="sample of the rows"):
        read_table(path.with_suffix(".parquet"), "a")
    monkeypatch.setattr(files, "_probe", lambda: None)
    assert read_table(path, "a").n_rows == 5000


def test_parquet_labels_of_every_type_are_read(tmp_path):
    frame = pd.DataFrame(
        {
            "x": [1.0, 2.0, 3.0],
            "a": pd.array([1, None, 0], dtype="Int8"),
            "b": pd.array([True, False, None], dtype="boolean"),
            "c": [1.0, np.nan, 0.0],
            "d": ["yes", None, "No"],
            "e": pd.Categorical(["1", None, "0"]),
        }
    )
    path = tmp_path / "t.parquet"
    frame.to_parquet(path)
    nan = np.nan
    expected = [[1, 1, 1, 1, 1], [nan, 0, nan, nan, nan], [0, nan, 0, 0, 0]]
    np.testing.assert_array_equal(read_table(path, list("abcde")).Y, expected)


def test_files_of_numbers_say_themselves_what_is_a_label(tmp_path):
    rng = np.random.RandomState(0)
    X, Y = rng.normal(size=(30, 4)).round(2), rng.randint(2, size=(30, 2))
    np.savez(tmp_path / "t.npz", X=X, Y=np.where(rng.uniform(size=Y.shape) < 0.3, np.nan, Y))
    savemat(tmp_path / "t.mat", {"X": X, "Y": Y})
    dump_svmlight_file(X, Y, str(tmp_path / "t.svm"), multilabel=True)
    rows = [",".join(map(str, [*x, *y])) for x, y in zip(X, Y, strict=True)]
    names = [*(f"@attribute x{j} numeric" for j in range(4)), "@attribute a {0,1}"]
    head = ["@relation t", *names, "@attribute b {0,1}", "@data"]
    (tmp_path / "t.arff").write_text("\n".join([*head, *rows]))
    for name, labels in (("t.npz", None), ("t.mat", None), ("t.svm", None), ("t.arff", "2")):
        found = read_table(tmp_path / name, labels)
        assert found.Y.shape == (30, 2), name
        model = fit_table(found, QUICK, estimate_folds=0)
        answer = model.answer(model.inputs(found)[0])
        assert answer.scores.shape == (30, 2), name
    with pytest.raises(ValueError, match="fitted to a table with columns"):
        model.inputs(read_table(tmp_path / "t.svm"))


def _answers(model, table):
    return model.answer(model.inputs(table)[0])


def test_a_model_counts_features_as_the_svmlight_file_it_was_fitted_to(tmp_path):
    rng = np.random.RandomState(0)
    X = (rng.uniform(size=(40, 5)) < 0.5) * rng.normal(size=(40, 5)).round(2)
    X[1:, 0], X[0, 0] = 0, 1
    Y = (X[:, 1:3] > 0) * 1
    zero, rest, one = (tmp_path / f"{name}.svm" for name in ("zero", "rest", "one"))
    dump_svmlight_file(X, Y, str(zero), multilabel=True)
    dump_svmlight_file(X[1:], Y[1:], str(rest), multilabel=True)  # shows no index 0
    dump_svmlight_file(X, Y, str(one), multilabel=True, zero_based=False)
    model = fit_table(read_table(zero), QUICK, estimate_folds=0)
    save_bundle(model, tmp_path / "m.dm2l")
    model = load_bundle(tmp_path / "m.dm2l")
    expected = _answers(model, read_for(model, zero)).scores
    for labels in (True, False):
        found = _answers(model, read_for(model, rest, labels=labels)).scores
        np.testing.assert_array_equal(found, expected[1:])
    with pytest.raises(ValueError, match=r"one\.svm, line \d+: .* index 5, .*from 0 to 4"):
        read_for(model, one)
    other = fit_table(read_table(one), QUICK, estimate_folds=0)
    np.testing.assert_allclose(_answers(other, read_for(other, one)).scores, expected)
    with pytest.raises(ValueError, match=r"zero\.svm, line 1: .* index 0, .*from 1 to 5"):
        read_for(other, zero)


def _matrix_files(folder, X, Y):
    """The same numbers in every form that holds matrices, with labels and without."""
    np.savez(folder / "with.npz", X=X, Y=Y)
    np.savez(folder / "without.npz", X=X)
    savemat(folder / "with.mat", {"X": X.T, "Y": Y})
    savemat(folder / "without.mat", {"X": X})
    dump_svmlight_file(X, Y, str(folder / "with.svm"), multilabel=True)
    dump_svmlight_file(X, np.zeros_like(Y), str(folder / "without.svm"), multilabel=True)
    head = [f"@attribute f{j} numeric" for j in range(X.shape[1])]
    labels = ["@attribute l1 {0,1}", "@attribute l2 {no,yes}"]
    words = np.column_stack([Y[:, 0].astype(str), np.where(Y[:, 1] == 1, "yes", "no")])
    for name, columns, cells in (
        ("with.arff", [*labels, *head], np.column_stack([words, X.astype(str)])),
        ("without.arff", head[::-1], X[:, ::-1].astype(str)),
    ):
        rows = [",".join(row) for row in cells]
        (folder / name).write_text("\n".join(["@relation r", *columns, "@data", *rows]))
        rows = ["{" + ",".join(f"{j} {v}" for j, v in enumerate(row)) + "}" for row in cells]
        sparse = folder / name.replace(".", "_sparse.")
        sparse.write_text("\n".join(["@relation r", *columns, "@data", *rows]))


@pytest.mark.parametrize("form", [".npz", ".mat", ".svm", ".arff", "_sparse.arff"])
def test_rows_to_be_predicted_need_no_labels(tmp_path, form):
    rng = np.random.RandomState(0)
    X, Y = rng.normal(size=(30, 4)).round(3), rng.randint(2, size=(30, 2))
    _matrix_files(tmp_path, X, Y)
    table = read_table(tmp_path / f"with{form}", "l?" if "arff" in form else None)
    model = fit_table(table, QUICK, estimate_folds=0)
    expected = _answers(model, table).scores
    for name in ("with", "without"):
        found = read_for(model, tmp_path / f"{name}{form}", labels=False)
        assert (found.label_names, found.Y.shape) == ([], (30, 0))
        np.testing.assert_allclose(_answers(model, found).scores, expected)


def test_matrices_of_another_width_or_with_other_names_are_refused(tmp_path):
    rng = np.random.RandomState(0)
    X, Y = rng.normal(size=(30, 4)).round(3), rng.randint(2, size=(30, 2))
    _matrix_files(tmp_path, X, Y)
    np.savez(tmp_path / "wide.npz", X=np.column_stack([X, X]))
    model = fit_table(read_table(tmp_path / "with.npz"), QUICK, estimate_folds=0)
    with pytest.raises(ValueError, match=r"wide\.npz has 8 features, but the model needs 4"):
        model.inputs(read_for(model, tmp_path / "wide.npz", labels=False))
    path = tmp_path / "without_sparse.arff"
    model = fit_table(read_table(tmp_path / "with_sparse.arff", "l?"), QUICK, estimate_folds=0)
    path.write_text(path.read_text().replace("f2", "f9"))
    with pytest.raises(ValueError, match="lacks 1 of the 4 columns that the model needs: 'f2'"):
        model.inputs(read_for(model, path, labels=False))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["l1,l2"], ["l1", "l2"]),
        ("l2,l1", ["l2", "l1"]),
        (["2"], ["f2", "f3"]),
        (["l?"], ["l1", "l2"]),
        (["l1", "l2"], ["l1", "l2"]),
    ],
)
def test_labels_of_arff_files_are_named_as_those_of_tables(tmp_path, labels, expected):
    X, Y = np.eye(4), np.eye(4, 2, dtype=int)
    _matrix_files(tmp_path, X.astype(int), Y)
    assert read_table(tmp_path / "with.arff", labels).label_names == expected


@pytest.mark.parametrize("row", ["{},{},{}", "{{0 {},1 {},2 {}}}"])
def test_a_model_knows_values_in_any_order_of_declaration(write, row):
    rng = np.random.RandomState(0)
    colours, sizes = np.array(["red", "blue"]), np.array(["s", "m", "l"])
    cells = [(colours[rng.randint(2)], sizes[rng.randint(3)]) for _ in range(40)]
    rows = [row.format(*pair, int(pair == ("red", "m") or pair[1] == "l")) for pair in cells]

    def file(name, colour, size):
        head = f"@attribute colour {{{colour}}}\n@attribute size {{{size}}}\n@attribute y {{0,1}}"
        return write("\n".join(["@relation r", head, "@data", *rows]), name)

    first, second = file("a.arff", "red,blue", "s,m,l"), file("b.arff", "blue,red", "l,s,m")
    model = fit_table(read_table(first, "y"), QUICK, estimate_folds=0)
    expected = _answers(model, read_for(model, first)).scores
    np.testing.assert_allclose(_answers(model, read_for(model, second)).scores, expected)
    third = file("c.arff", "red,white", "s,m,l")
    third.write_text(third.read_text().replace(" blue", " white").replace("\nblue", "\nwhite"))
    with pytest.raises(ValueError, match=r"lacks 1 of the 4 columns .*'colour=red'"):
        model.inputs(read_for(model, third))


def test_an_arff_file_has_an_encoding_too(write):
    text = "@relation r\n@attribute größe numeric\n@attribute l {0,1}\n@data\n1,0\n2,1\n"
    path = write(text, "t.arff", "latin-1")
    assert read_table(path, "l", encoding="latin-1").feature_names == ["größe"]


# ------------------------------------------------------------------------------- fitting, measures


def test_the_kernel_that_suits_the_labels_is_chosen():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(150, 2))
    straight = (X @ [[1.0, -1.0], [1.0, 1.0]] > 0).astype(float)
    round_ = ((X**2).sum(axis=1)[:, None] > [1.0, 2.0]).astype(float)
    options = FitOptions(cv=3, scoring="label_auc")
    assert choose_hyperparameters(X, round_, options).kernel == "rbf"
    assert choose_hyperparameters(X, straight, replace(options, kernel="linear")).kernel == "linear"
    fixed = choose_hyperparameters(X, straight, FitOptions(kernel="rbf", lambda_d=0.5, alpha=2.0))
    assert (fixed.kernel, fixed.lambda_d, fixed.alpha, fixed.score) == ("rbf", 0.5, 2.0, None)


@pytest.mark.parametrize("form", ["SN{}1191", "INC{}039", "CO-{}0039", "C1CC{}"])
@pytest.mark.parametrize("installed", [True, False])
def test_serial_numbers_are_no_molecules(form, installed, monkeypatch):
    if not installed:
        monkeypatch.setattr(_kinds, "has_rdkit", lambda: False)
    column = [form.format(1000 + 37 * i) for i in range(60)]
    assert column_kinds(pd.DataFrame({"serial": column}))[0].kind == "identifier"


def test_more_yes_than_no_among_blanks_is_told():
    rng = np.random.default_rng(0)
    noted = np.where(rng.random(300) < 0.2, 1.0, np.where(rng.random(300) < 0.1, 0.0, np.nan))
    looked = np.where(rng.random(300) < 0.2, rng.random(300) < 0.3, np.nan)
    frame = pd.DataFrame({"x": rng.normal(size=300), "y_noted": noted, "y_looked": looked})
    told = [w for w in inspect_table(table_from_frame(frame, "y_*")).warnings if "blank" in w]
    assert len(told) == 1
    assert "1 of 2 labels are mostly blank and have more positive" in told[0]
    assert "'y_noted'" in told[0]
    frame["y_noted"] = noted[~np.isnan(noted)][rng.integers(0, 50, 300)]  # nothing is blank
    assert _positive_warnings(_label_counts(table_from_frame(frame, "y_*"))) == []


def test_what_complete_has_added_is_neither_label_nor_feature():
    names = ["x", "y", "y__probability", "y__look", "z__score"]
    assert choose_labels(names, "y*", "t.csv") == [1]
    assert choose_labels(names, "y*,y__look", "t.csv") == [1, 3]
    frame = pd.DataFrame({name: [0.1, 0.7, 0.2, 0.9] for name in names if name != "y"})
    uses = {use.name: use for use in column_kinds(frame)}
    assert "an output of dm2l" in uses["y__look"].reason
    assert [name for name, use in uses.items() if use.used] == ["x", "z__score"]
    assert column_kinds(frame, {"y__look": "numeric"})[2].used


def test_rows_have_a_say_where_they_have_two_answers_to_rank(table):
    positive, negative = table.Y == 1, table.Y == 0
    assert usual_scoring(positive, negative) == "ranking_and_discrimination"
    assert usual_scoring(positive[:, :1], negative[:, :1]) == "label_discrimination"
    frame = table.frame.assign(a=table.Y[:, 0])
    model = fit_table(table_from_frame(frame, "a"), FitOptions(cv=3), estimate_folds=2)
    assert model.estimate.values["label_auc"].mean > 0.8
    assert np.isnan(model.estimate.values["label_ranking_average_precision"].mean)


def test_many_rows_of_a_kernel_model_are_approximated(table, monkeypatch, tmp_path):
    monkeypatch.setattr(chosen, "EXACT_ROWS", 100)
    options = FitOptions(kernel="rbf", lambda_d=0.1, alpha=0.1, cv=3)
    rough = fit_table(table, options, estimate_folds=0)
    assert (rough.classifier.approximation, rough.classifier.n_components) == ("nystroem", 2000)
    monkeypatch.setattr(chosen, "EXACT_ROWS", 300)
    exact = fit_table(table, options, estimate_folds=0)
    assert exact.classifier.approximation is None
    # As many components as rows: nothing is left out.
    a, b = (one.answer(one.inputs(table)[0]).scores for one in (rough, exact))
    np.testing.assert_allclose(a, b, atol=0.02)
    save_bundle(rough, tmp_path / "m")
    assert explain_model(load_bundle(tmp_path / "m"))[0].features


@pytest.mark.parametrize(
    ("fill", "what"), [("1", "Add negative entries"), ("0", "Add positive entries")]
)
def test_labels_that_always_say_the_same_are_refused_with_advice(write, fill, what):
    path = write("x,a,b\n" + "\n".join(f"{i},{fill},{fill if i % 2 else ''}" for i in range(9)))
    with pytest.raises(ValueError, match=what):
        fit_table(read_table(path, ["a", "b"]), QUICK)


def test_a_table_without_usable_columns_is_refused(write):
    path = write("key,a\n" + "\n".join(f"k{i},{i % 2}" for i in range(9)))
    with pytest.raises(ValueError, match="'key': a different single word"):
        fit_table(read_table(path, "a"), QUICK)


def test_measures_agree_with_other_libraries():
    rng = np.random.RandomState(1)
    Y = (rng.uniform(size=(80, 3)) < 0.4).astype(float)
    scores = Y + rng.normal(size=Y.shape)
    p = 1 / (1 + np.exp(-scores))
    found = measure(Y, scores, p, scores > 0)
    auc = roc_auc_score(Y, scores, average="macro")
    assert found["label_auc"] == pytest.approx(auc)
    assert found["brier"] == pytest.approx(((p - Y) ** 2).mean())
    assert found["accuracy"] == pytest.approx(((scores > 0) == Y).mean())
    ranked = [Y[np.argsort(-scores[:, k]), k] for k in range(3)]
    brute = [np.mean([y[: i + 1].mean() for i in range(len(y)) if y[i]]) for y in ranked]
    assert found["label_average_precision"] == pytest.approx(np.mean(brute))
    by_row = [y for y in zip(Y, scores, strict=True) if 0 < y[0].sum() < 3]
    brute = [average_precision_score(*row) for row in by_row]
    assert found["label_ranking_average_precision"] == pytest.approx(np.mean(brute))
    hidden = np.where(rng.uniform(size=Y.shape) < 0.5, np.nan, Y)
    known = ~np.isnan(hidden)
    found = measure(hidden, scores, p, scores > 0)
    assert found["brier"] == pytest.approx(((p - Y) ** 2)[known].mean())


def test_intervals_allow_for_shared_training_labels():
    values, share = [0.7, 0.75, 0.8, 0.85], 0.25
    found = interval(values, share)
    half = 3.182446 * np.std(values, ddof=1) * np.sqrt(1 / 4 + 1 / 3)
    assert found.mean == pytest.approx(0.775)
    assert found.low == pytest.approx(0.775 - half, abs=1e-6)
    assert found.high == pytest.approx(0.775 + half, abs=1e-6)
    assert interval([0.6, 0.999], share).high == 1.0
    assert interval([0.5, np.nan], share)[0] == 0.5
    assert np.isnan(interval([np.nan], share)[0])


def test_the_estimate_of_labels_that_nothing_explains_is_chance(write):
    rng = np.random.RandomState(0)
    rows = [
        f"{rng.normal():.3f},{rng.choice(list('abcdefgh'))},{' '.join(rng.choice(_WORDS, 9))},"
        + ",".join(str(rng.randint(2)) for _ in range(4))
        for _ in range(120)
    ]
    table = read_table(write("\n".join(["x,c,t,y1,y2,y3,y4", *rows])), 4)
    options = FitOptions(kernel="linear", cv=3)
    model = fit_table(table, options, estimate_folds=3)
    assert abs(model.estimate.values["label_auc"].mean - 0.5) < 0.12
    evaluation = evaluate_table(table, options, repetitions=3, hide=0.3)
    assert abs(evaluation.methods["DM2L"]["label_auc"].mean - 0.5) < 0.12


def test_the_estimate_is_near_what_new_rows_show(table, model):
    columns, truth, _ = make_table(n_rows=300, seed=9)
    frame = pd.read_csv(io.StringIO(as_csv(columns)))
    inputs, _ = typed_frame(frame, model.uses, "new")
    answer = model.answer(inputs)
    auc = roc_auc_score(truth, answer.scores, average="macro")
    assert model.estimate.values["label_auc"].mean == pytest.approx(auc, abs=0.06)
    assert auc > 0.85


def test_completion_beats_holes_as_negatives(table, tickets):
    _, truth, observed = tickets
    hidden = np.where(observed, np.nan, truth)
    found = []
    # Ridge is the stronger of the two on wrong negatives.
    for Y, lambda_d in ((table.Y, None), (np.nan_to_num(table.Y), 0.0)):
        options = FitOptions(kernel="linear", lambda_d=lambda_d, cv=3)
        model = fit_table(replace(table, Y=Y), options, estimate_folds=0)
        answer = model.answer(model.inputs(table)[0])
        found.append(measure(hidden, *answer)["label_average_precision"])
    assert found[0] > found[1] + 0.1, found


def test_a_bundle_comes_back_as_it_was(table, model, tmp_path):
    path = tmp_path / "model.dm2l"
    save_bundle(model, path)
    again = load_bundle(path)
    for name in ("uses", "feature_names", "label_names", "settings", "estimate", "missing"):
        assert getattr(again, name) == getattr(model, name), name
    np.testing.assert_array_equal(again.correlation, model.correlation)
    a, b = (one.answer(one.inputs(table)[0]) for one in (model, again))
    np.testing.assert_array_equal(a.scores, b.scores)
    np.testing.assert_array_equal(a.probabilities, b.probabilities)


def test_a_model_of_no_table_is_refused(tmp_path):
    X, Y = np.random.RandomState(0).normal(size=(20, 2)), np.eye(20)[:, :2]
    path = tmp_path / "plain.dm2l"
    save_model(make_pipeline(StandardScaler(), DM2LClassifier()).fit(X, Y), path)
    with pytest.raises(ValueError, match="was not fitted to a table"):
        load_bundle(path)


def test_missing_columns_are_all_named(model, write):
    path = write("text,vip\nrefund please,yes\n")
    with pytest.raises(ValueError, match=r"lacks 4 of the 6 .*'opened', 'channel', 'amount', 'ho"):
        model.inputs(read_for(model, path, labels=False))


def test_numbers_in_a_category_are_the_same_with_and_without_blanks(write):
    rows = [f"{c},{x},{int(c == '1')}" for c, x in itertools.product("12x", range(20))]
    table = read_table(write("\n".join(["c,x,a", *rows])), "a")
    model = fit_table(table, QUICK, estimate_folds=0)
    both = [
        model.answer(model.inputs(read_for(model, write(text), labels=False))[0]).scores[0]
        for text in ("c,x\n1,3\n2,3\n", "c,x\n1,3\n,3\n")
    ]
    np.testing.assert_array_equal(*both)


# ------------------------------------------------------------------------------------ completion


def _completion(Y, label_names, seed=0):
    rng = np.random.RandomState(seed)
    holes, p = np.isnan(Y), rng.uniform(size=Y.shape)
    look = holes & (np.abs(p - 0.5) < 0.2)
    return Completion(label_names, holes, holes & (p > 0.5), look, p, [])


@st.composite
def half_tables(draw):
    """Rows of any text with two labels in some spelling, some of them missing."""
    n_rows = draw(st.integers(1, 6))
    safe = st.text(st.sampled_from("ab \"',;é\n"), max_size=5)
    yes, no = draw(st.sampled_from([("1", "0"), ("Yes", "No"), ("+1", "-1"), (" true", "false ")]))
    answer = st.sampled_from([yes, no, "", "NA", "?"])
    return [[draw(safe), draw(answer), draw(safe), draw(answer)] for _ in range(n_rows)]


@patient
@given(half_tables(), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_only_holes_change_and_everything_else_keeps_its_bytes(body, end, quote, inline):
    file = io.StringIO()
    quoting = csv.QUOTE_ALL if quote else csv.QUOTE_MINIMAL
    writer = csv.writer(file, lineterminator=end, quoting=quoting)
    writer.writerows([["x", "a", "naïve, y", "b"], *body])
    text = file.getvalue().removesuffix(end if len(body) % 2 else "")
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder, "in.csv"), Path(folder, "out.csv")
        details = None if inline else Path(folder, "details.csv")
        path.write_bytes(b"\xef\xbb\xbf" + text.encode())
        table = read_table(path, ["a", "b"])
        completion = _completion(table.Y, ["a", "b"])
        write_completion(completion, table, output, details=details)
        filled = output.read_bytes()
    assert filled.startswith(b"\xef\xbb\xbf")
    before = [r for r in records(text, ",") if not r.blank]
    after = [r for r in records(filled.decode()[1:], ",") if not r.blank]
    assert [r.end for r in before] == [r.end for r in after]
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        kept = new.cells[: len(old.cells)]
        for j, (was, now) in enumerate(zip(old.cells, kept, strict=True)):
            hole = i > 0 and j in (1, 3) and completion.missing[i - 1, j // 2]
            if not hole:
                assert was == now
            else:
                expected = completion.positive[i - 1, j // 2]
                assert unquote(now).strip().casefold() in (
                    {"1", "yes", "+1", "true"} if expected else {"0", "no", "-1", "false"}
                )
        added = [unquote(cell) for cell in new.cells[len(old.cells) :]]
        if not inline:
            assert added == []
        elif i == 0:
            assert added == ["a__probability", "a__look", "b__probability", "b__look"]
        else:
            blank = np.repeat(~completion.missing[i - 1], 2)
            assert [cell == "" for cell in added] == blank.tolist()


def test_holes_are_filled_in_the_spelling_of_their_column(write, tmp_path):
    path = write("x,a,b,c,d\n1,TRUE,,0,\n2,,no,,\n3,TRUE,,0,\n")
    table = read_table(path, list("abcd"))
    holes = np.isnan(table.Y)
    positive = holes & (np.arange(3)[:, None] == 1)
    p = np.where(positive, 0.9, 0.1)
    completion = Completion(list("abcd"), holes, positive, np.zeros_like(holes), p, [])
    write_completion(completion, table, tmp_path / "o.csv", details=tmp_path / "d.csv")
    filled = (tmp_path / "o.csv").read_text()
    # b shows only no, d shows nothing and takes what the first column writes.
    expected = "x,a,b,c,d\n1,TRUE,no,0,FALSE\n2,TRUE,no,1,TRUE\n3,TRUE,no,0,FALSE\n"
    assert filled == expected
    details = pd.read_csv(tmp_path / "d.csv", keep_default_na=False, dtype=str)
    assert list(details.columns) == ["row", "label", "answer", "probability", "look"]
    assert len(details) == holes.sum()
    assert details.iloc[0].tolist() == ["1", "b", "no", "0.1", "no"]


def _read_as_a_large_file(path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dm2l.io._table._KEPT", 0)  # bytes that are kept for writing
        return read_table(path, "a")


def test_columns_in_the_way_and_ragged_rows_are_refused(write, tmp_path):
    path = write("x,a,a__look\n1,1,0\n2,,0\n")
    table = read_table(path, "a")
    with pytest.raises(ValueError, match=r"already has a column 'a__look'.*--details"):
        write_completion(_completion(table.Y, ["a"]), table, tmp_path / "o.csv")
    path = write("x,a,b\n1,1,0\n2,,\n")
    table = _read_as_a_large_file(path)
    write("x,a,b\n1,1,0\n2\n")
    with pytest.raises(ValueError, match="row 2 has 1 cells, but the header has 3"):
        write_completion(_completion(table.Y, ["a"]), table, tmp_path / "o.csv")
    with pytest.raises(ValueError, match=r"must end in \.csv"):
        write_completion(_completion(table.Y, ["a"]), table, tmp_path / "o.parquet")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["table.csv"]


def test_a_file_that_changed_after_reading_is_not_overwritten_with_guesses(write, tmp_path):
    path = write("x,a\n1,1\n2,\n3,0\n")
    kept = read_table(path, "a")
    table = _read_as_a_large_file(path)
    write("x,a\n1,1\n2,0\n3,0\n")
    write_completion(_completion(kept.Y, ["a"]), kept, tmp_path / "kept.csv")
    assert "\n2,," not in (tmp_path / "kept.csv").read_text()
    with pytest.raises(ValueError, match="in row 2 was read as missing, but the file holds"):
        write_completion(_completion(table.Y, ["a"]), table, tmp_path / "o.csv")
    write("x,a\n1,1\n2,\n")
    with pytest.raises(ValueError, match="read as 3 rows, but its text has 2"):
        write_completion(_completion(table.Y, ["a"]), table, tmp_path / "o.csv")
    assert not (tmp_path / "o.csv").exists()


def test_parquet_keeps_types_and_observed_entries(tmp_path):
    frame = pd.DataFrame(
        {
            "x": [0.1, 0.2, 0.3],
            "when": pd.date_range("2024-01-01", periods=3),
            "a": pd.array([1, None, 0], dtype="Int8"),
            "b": pd.array([True, None, None], dtype="boolean"),
            "c": np.array([0.0, np.nan, 1.0], dtype=np.float32),
            "d": ["Yes", None, ""],
            "e": [None, None, None],
        }
    )
    path, output = tmp_path / "t.parquet", tmp_path / "o.parquet"
    frame.to_parquet(path)
    table = read_table(path, list("abcde"))
    completion = _completion(table.Y, list("abcde"))
    write_completion(completion, table, output)
    before, after = pq.read_table(path), pq.read_table(output)
    for name in ("x", "when", "a", "b", "c", "d"):
        assert before.schema.field(name) == after.schema.field(name)
    values = {name: after.column(name).to_pylist() for name in after.column_names}
    assert values["x"] == before.column("x").to_pylist()
    assert values["when"] == before.column("when").to_pylist()
    spelt = {"a": (0, 1), "b": (False, True), "c": (0, 1), "d": ("No", "Yes"), "e": (0, 1)}
    for k, name in enumerate("abcde"):
        old = before.column(name).to_pylist()
        for i in range(3):
            if completion.missing[i, k]:
                assert values[name][i] == spelt[name][int(completion.positive[i, k])]
                assert values[f"{name}__probability"][i] is not None
            else:
                assert values[name][i] == old[i]
                assert values[f"{name}__look"][i] is None


def test_parquet_keeps_minus_one(tmp_path):
    frame = pd.DataFrame({"x": [1, 2, 3], "a": [-1, 1, 9], "b": [-1, 9, 9]}, dtype="int16")
    path, output = tmp_path / "t.parquet", tmp_path / "o.parquet"
    frame.to_parquet(path)
    table = read_table(path, ["a", "b"], missing=[9])
    holes = np.isnan(table.Y)
    positive = holes & np.array([[0, 0], [0, 1], [0, 0]], dtype=bool)
    completion = Completion(["a", "b"], holes, positive, holes, 0.5 * holes, [])
    write_completion(completion, table, output, details=tmp_path / "d.parquet")
    expected = pd.DataFrame({"x": [1, 2, 3], "a": [-1, 1, -1], "b": [-1, 1, -1]}, dtype="int16")
    pd.testing.assert_frame_equal(pd.read_parquet(output), expected)
    details = pd.read_parquet(tmp_path / "d.parquet")
    assert details["row"].tolist() == [2, 3, 3]
    assert details["answer"].tolist() == ["1", "-1", "-1"]


def test_matrices_are_completed_as_archives(tmp_path):
    rng = np.random.RandomState(0)
    X, Y = sp.csr_array(rng.normal(size=(8, 3))), rng.randint(2, size=(8, 2)).astype(float)
    Y[2, 1] = Y[3, 0] = np.nan
    path = tmp_path / "t.npz"
    names = {"X_data": X.data, "X_indices": X.indices, "X_indptr": X.indptr, "X_shape": X.shape}
    np.savez(path, Y=Y, label_names=["a", "b"], **names)
    table = read_table(path, ["b"])
    completion = _completion(table.Y, ["b"])
    write_completion(completion, table, tmp_path / "o.npz")
    again = read_npz(tmp_path / "o.npz")
    expected = Y.copy()
    expected[2, 1] = completion.positive[2, 0]
    np.testing.assert_array_equal(again.target, expected)
    np.testing.assert_array_equal(again.data.toarray(), X.toarray())
    with pytest.raises(ValueError, match=r"\.npz"):
        write_completion(completion, table, tmp_path / "o.csv")


def test_entries_worth_a_look_are_those_near_one_half(table, model):
    completion = complete_table(model, table, margin=0.1)
    p = completion.probabilities
    np.testing.assert_array_equal(completion.missing, np.isnan(table.Y))
    near = (p >= 0.4) & (p <= 0.6)
    np.testing.assert_array_equal(completion.look, near & completion.missing)
    np.testing.assert_array_equal(completion.positive, (p > 0.5) & completion.missing)
    assert completion.look.any()


# ------------------------------------------------------------------------------------ suggestions


def _small(seed=0, n=36, c=3):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 4))
    truth = (X @ rng.normal(size=(4, c)) + 0.5 * rng.normal(size=(n, c)) > 0).astype(float)
    return X, np.where(rng.uniform(size=truth.shape) < 0.4, np.nan, truth)


def _moved(X, Y, i, k, lambda_d, alpha):
    """Squared movement of the label's other holes for both answers, by fitting again."""

    def scores(labels):
        return DM2LClassifier(lambda_d, alpha, tol=1e-9).fit(X, labels).decision_function(X)

    before = scores(Y)
    others = np.isnan(Y[:, k])
    others[i] = False
    found = []
    for answer in (0.0, 1.0):
        labels = Y.copy()
        labels[i, k] = answer
        found.append(((scores(labels) - before)[others, k] ** 2).sum())
    return before[i, k], found


def test_the_effect_of_an_answer_is_that_of_a_ridge_fitted_again():
    X, Y = _small()
    effect = answer_effects(X, Y, alpha=2.0)
    assert (effect[~np.isnan(Y)] == 0).all()
    np.testing.assert_allclose(answer_effects(X, Y, 2.0, np.full(Y.shape, 3.0)), 9 * effect)
    for i, k in np.argwhere(np.isnan(Y))[::5]:
        score, moved = _moved(X, Y, i, k, 0.0, 2.0)
        np.testing.assert_allclose(
            moved, effect[i, k] * np.array([(-1 - score) ** 2, (1 - score) ** 2]), rtol=1e-5
        )


def test_values_rank_holes_as_refits_of_dm2l_do():
    X, Y = _small(seed=1)
    model = DM2LClassifier(0.3, 2.0, calibration="sigmoid", cv=3).fit(X, Y)
    p = model.predict_proba(X)
    effect = answer_effects(X, Y, alpha=2.0)
    value, brute = [], []
    for i, k in np.argwhere(np.isnan(Y)):
        _, (no, yes) = _moved(X, Y, i, k, 0.3, 2.0)
        value.append(4 * p[i, k] * (1 - p[i, k]) * effect[i, k])
        brute.append((1 - p[i, k]) * no + p[i, k] * yes)
    assert stats.spearmanr(value, brute)[0] > 0.6


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_suggestions_are_the_holes_of_a_table_most_valuable_first(table, kernel):
    model = fit_table(table, replace(QUICK, kernel=kernel), estimate_folds=0)
    found = suggest_entries(model, table)
    assert (np.diff(found.value) <= 0).all()
    assert (found.value > 0).all()
    places = {
        (row - 1, table.label_names.index(label))
        for row, label in zip(found.row, found.label, strict=True)
    }
    assert places == set(map(tuple, np.argwhere(np.isnan(table.Y))))
    p = complete_table(model, table).probabilities
    first = found.row[0] - 1, table.label_names.index(found.label[0])
    assert found.probability[0] == p[first]
    assert len(suggest_entries(model, table, top=7).label) == 7
    # Of a row whose holes are all answered, what they say about each other counts for nothing.
    values, _, _ = table_values(model, table)
    rows = suggest_rows(model, table)
    for row, n_open, value in zip(rows.row[:5], rows.n_open[:5], rows.value[:5], strict=True):
        holes = np.flatnonzero(np.isnan(table.Y[row - 1]))
        doubts = [min(p[row - 1, k], 1 - p[row - 1, k]) for k in holes]
        taught = values.others[row - 1, holes]
        assert n_open == len(holes)
        assert value == pytest.approx(sum(doubts) + taught.sum())


def test_a_table_with_the_labels_in_another_order_is_refused(table, model):
    order = [1, 0, *range(2, len(LABELS))]
    names = [table.label_names[k] for k in order]
    swapped = replace(table, label_names=names, Y=table.Y[:, order])
    for use in (suggest_entries, complete_table):
        with pytest.raises(ValueError, match=r"was read with the labels .*, but the model has"):
            use(model, swapped)


# ------------------------------------------------------------------------ inspection, explanation


def test_inspection_counts_and_finds_one_way_implications(table, tickets):
    _, truth, observed = tickets
    found = inspect_table(table)
    for k, count in enumerate(found.labels):
        assert count.positive == (truth[:, k] & observed[:, k]).sum()
        assert count.negative == (~truth[:, k] & observed[:, k]).sum()
        assert count.positive + count.negative + count.missing == found.n_rows == 300
    rules = [rule.rule for rule in found.rules]
    assert "topic_refund => topic_billing" in rules
    assert "topic_billing => topic_refund" not in rules
    assert found.n_columns == 17


@pytest.mark.parametrize("seed", range(5))
def test_implications_are_those_that_counting_finds(write, seed):
    rng = np.random.RandomState(seed)
    Y = (rng.rand(80, 6) < 0.5).astype(float)
    Y[:, 1] = np.maximum(Y[:, 0], Y[:, 1])
    Y[:, 2] = Y[:, 0]
    Y[rng.rand(80, 6) < 0.2] = np.nan
    Y[:, 5] = np.nan
    Y[:, 4] = np.where(np.isnan(Y[:, 4]), np.nan, np.nan_to_num(Y[:, 3]) == 0)  # never together
    rows = [
        f"{i},{','.join('' if y != y else str(int(y)) for y in row)}" for i, row in enumerate(Y)
    ]
    path = write("\n".join(["x,a,b,c,d,e,f", *rows]))
    found = inspect_table(read_table(path, 6)).rules
    counted = {}
    bases = [np.mean([y for y in column if y == y] or [np.nan]) for column in Y.T]
    for a, b in itertools.permutations(range(6), 2):
        seen = [y for y in Y if y[b] == y[b]]
        together = [y[b] for y in seen if y[a] == 1]
        later = bases[a] < bases[b] or (bases[a] == bases[b] and a < b)
        if len(together) >= 10 and later:
            share, base = np.mean(together), bases[b]
            if share >= 0.9 and share >= base + 0.2:
                pair = f"{'abcdef'[a]} => {'abcdef'[b]}"
                counted[pair] = (len(together), int(sum(together)))
        either = [y for y in seen if y[a] == y[a] and (y[a] == 1 or y[b] == 1)]
        clash = sum(y[a] == 1 and y[b] == 1 for y in either)
        most = [sum(y[i] == 1 for y in either) * bases[j] for i, j in ((a, b), (b, a))]
        if a < b and either and clash <= 0.02 * len(either) and min(most) >= 5:
            pair = f"not both: {'abcdef'[a]}, {'abcdef'[b]}"
            counted[pair] = (len(either), len(either) - clash)
    assert {"not both: d, e"} <= counted.keys() & {rule.rule for rule in found}
    assert {rule.rule: (rule.rows, rule.holds) for rule in found} == counted
    for rule in found:  # with a share of at_least, so many rows hold with a probability of 5 %
        assert stats.binom.sf(rule.holds - 1, rule.rows, rule.at_least) == pytest.approx(0.05)
    (path.parent / "rules.txt").write_text("\n".join(map(str, found)))
    assert LabelRules.read(path.parent / "rules.txt").implications


def test_inspection_names_sparse_columns_and_cells_that_look_like_lists():
    cells = ["economy,health", "sport,health", "art", "economy,sport"] * 10
    frame = pd.DataFrame({"x": range(40), "size": [2.5, *[None] * 39], "topics": cells})
    frame.loc[39, "size"] = 1.5
    said = inspect_table(table_from_frame(frame, "topics")).warnings
    assert not any("blank" in line for line in said)  # 95%
    frame.loc[39, "size"] = None
    frame["size"] = frame["size"].astype(str).where(frame["size"].notna())
    said = inspect_table(
        table_from_frame(frame, "topics", values="topics"), kinds={"size": "text"}
    ).warnings
    assert "column 'size' is 98% blank" in said
    assert any("'economy,health'; to read each tag, pass --split \",\"" in line for line in said)


def test_the_kernels_of_fits_are_those_of_model_files():
    with pytest.raises(ValueError, match=r"kernel must be one of \('auto', 'linear', 'rbf', 'ta"):
        FitOptions("laplacian", 0.1, 1.0)


def test_inspection_warns_of_what_looks_wrong(write):
    rng = np.random.RandomState(0)
    lines = []
    for i in range(60):
        a, b = rng.randint(2), rng.randint(2)
        lines.append(
            f"{i // 2},{'ill' if a else 'well'},7,{a if i % 3 else ''},1,,{b},{int(i == 5)}"
        )
    path = write("\n".join(["x,copy,seven,a,always,never,b,rare", *lines]))
    found = inspect_table(read_table(path, ["a", "always", "never", "b", "rare"]))
    warnings = "\n".join(found.warnings)
    for part in (
        "1 of 5 labels ('always') have only positive entries",
        "1 of 5 labels ('never') have no observed entries",
        "1 of 5 labels ('rare') have fewer than 5 entries of a class",
        "column 'seven' is left out: always 7",
        "column 'copy' equals label 'a'",
        "rows have the same features",
    ):
        assert part in warnings
    assert "'b'" not in warnings
    copies = pd.read_csv(path)[["x", "copy"]].duplicated().sum()
    assert found.n_duplicates == copies > 0


def test_a_category_of_the_automatic_model_pulls_no_one_way():
    rng = np.random.default_rng(0)
    kind = rng.choice(["gas", "solid", "liquid"], 120)
    frame = pd.DataFrame({"kind": kind, "mass": rng.normal(size=120)})
    says = 1.5 * (kind == "gas") - 1.5 * (kind == "solid") - 2 * frame["mass"]
    frame["tox_a"], frame["tox_b"] = says > 0.0, says < 0.5
    model = fit_table(table_from_frame(frame, "tox_*"), FitOptions(effort="quick"))
    first, second = (dict(item.features) for item in explain_model(model))
    assert first["mass"] < 0 < second["mass"]
    assert min(first["kind"], second["kind"]) > 0


def test_a_linear_model_is_explained_by_its_coefficients(table, model):
    found = {item.label: item for item in explain_model(model, top=500)}
    assert list(found) == LABELS
    refund = found["topic_refund"].features
    strongest = [name for name, _ in refund[:3]]
    words = ("refund", "money", "back", "return", "reimburse")
    assert set(strongest) <= {f"text: {word}" for word in words}
    # All coefficients, weighted with the features, give back the scores.
    X = model.pipeline[:-1].transform(model.inputs(table)[0])
    names = [feature.name for feature in model.features]
    weights = np.zeros(len(names))
    for name, value in refund:
        weights[names.index(name)] = value
    k = LABELS.index("topic_refund")
    scores = X @ weights + model.classifier.intercept_[k]
    np.testing.assert_allclose(scores, model.classifier.decision_function(X)[:, k])
    together = dict(found["topic_security"].together)
    correlation = np.corrcoef(model.classifier.decision_function(X).T)
    a, b = LABELS.index("topic_security"), LABELS.index("topic_login")
    assert together["topic_login"] == pytest.approx(correlation[a, b])
    with pytest.raises(ValueError, match="no label 'topic_x'"):
        explain_model(model, "topic_x")


def test_a_kernel_model_is_explained_by_shuffling(write):
    rng = np.random.RandomState(0)
    x, noise = rng.normal(size=(2, 150))
    group = rng.choice(["a", "b", "c"], size=150)
    rows = [
        f"{x[i]:.3f},{noise[i]:.3f},{group[i]},{int(abs(x[i]) > 0.7)},{int(group[i] == 'b')}"
        for i in range(150)
    ]
    table = read_table(write("\n".join(["x,noise,group,big,b", *rows])), ["big", "b"])
    options = FitOptions(kernel="rbf", lambda_d=0.0, alpha=0.5, cv=3)
    model = fit_table(table, options, estimate_folds=0)
    big, b = explain_model(model)
    assert big.features[0][0] == "x"
    assert b.features[0][0] == "group"
    assert dict(big.features)["x"] > 2 * dict(big.features)["noise"]


# ------------------------------------------------------------------------------------ evaluation


ROW_WISE = ("label_ranking_average_precision", "instance_auc", "ranking_loss")


def test_evaluation_compares_on_the_same_hidden_labels(table):
    options = replace(QUICK, lambda_d=None)
    found = evaluate_table(table, options, repetitions=2)
    again = evaluate_table(table, options, repetitions=2)
    assert found == again
    assert list(found.methods) == ["DM2L", "features alone", "masked ridge", "missing = negative"]
    for name, gains in found.gains.items():
        for key, gain in gains.items():
            difference = found.methods["DM2L"][key].mean - found.methods[name][key].mean
            # Repetitions without an estimate of the rows of both methods have no gain.
            assert gain.mean == pytest.approx(difference) or key in ROW_WISE, key
    assert found.gains["missing = negative"]["label_average_precision"].mean > 0.05
    seen = ~np.isnan(table.Y)
    for k, quality in enumerate(found.labels):
        kept = sum(
            np.ceil(0.8 * ((table.Y[:, k] == answer) & seen[:, k]).sum() - 1e-9)
            for answer in (0, 1)
        )
        assert quality.n_hidden == 2 * (seen[:, k].sum() - kept)
    with pytest.raises(ValueError, match="between 0 and 1"):
        evaluate_table(table, options, hide=1.0)


@pytest.mark.parametrize("name", ["SeqID", "rowNr", "sampleId", "patient_id", "Key"])
def test_a_name_that_says_so_makes_different_whole_numbers_an_identifier(name):
    frame = pd.DataFrame({name: [7, 12, 40, 3, 99], "acid": [7, 12, 40, 3, 99]})
    assert [use.kind for use in column_kinds(frame)] == ["identifier", "numeric"]


def test_words_of_few_letters_are_no_molecules():
    words = pd.DataFrame({"name": ["COPPER", "IRON", "SILICON", "CARBON", "BISON", "ZINC"]})
    assert column_kinds(words)[0].kind == "identifier"


def test_columns_that_look_like_labels_which_nobody_named_are_pointed_out(write):
    lines = [f"{i * i},{i % 2},{i % 2 if i % 3 else ''},{i % 3 == 0}" for i in range(20)]
    path = write("\n".join(["mass,bit,SR-ARE,NR-AR", *lines]))
    found = "\n".join(inspect_table(read_table(path, "NR-*")).warnings)
    assert "1 feature column has values like a label ('SR-ARE')" in found
    assert "SR-ARE" in found
    assert "'bit'" not in found
    assert "values like" not in "\n".join(inspect_table(read_table(path, "*R-*")).warnings)


def test_copies_of_labels_are_found_as_by_comparing_pair_by_pair(write):
    rng = np.random.default_rng(3)
    Y = rng.integers(0, 2, (40, 3)).astype(float)
    Y[rng.random(Y.shape) < 0.4] = np.nan
    frame = pd.DataFrame(np.column_stack([Y[:, 0], 1 - Y[:, 1], rng.integers(0, 2, (40, 2))]))
    frame.columns = ["same", "opposite", "a", "b"]
    frame["words"] = np.where(Y[:, 2] == 1, "ill", "well")
    labels = [f"y{k}" for k in range(3)]
    table = table_from_frame(frame.assign(**dict(zip(labels, Y.T, strict=True))), labels)
    found = {
        tuple(line.split("'")[1:4:2])
        for line in inspect_table(table).warnings
        if " equals label " in line
    }
    assert found == {("same", "y0"), ("opposite", "y1"), ("words", "y2")}


def test_kinds_may_be_said_of_a_pattern_and_a_name_counts_more():
    frame = pd.DataFrame({"fp_1": [0, 1, 1], "fp_2": [1, 0, 1], "mass": [1.5, 2.5, 3.0]})
    uses = column_kinds(frame, {"fp_2": "category", "fp_*": "boolean"})
    assert [use.kind for use in uses] == ["boolean", "category", "numeric"]
    with pytest.raises(ColumnRequestError, match="no column 'fp2'"):
        column_kinds(frame, {"fp2": "boolean"})
