"""Readers: what a file says, in any of its spellings, and errors that name the place."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import os
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import savemat
from scipy.io.arff import loadarff
from sklearn.datasets import dump_svmlight_file

from dm2l import DM2LClassifier
from dm2l.datasets import content_hash, load_dataset, load_digit_attributes
from dm2l.readers import (
    read_arff,
    read_csv,
    read_mat,
    read_npz,
    read_parquet,
    read_svmlight,
    write_npz,
)
from dm2l.readers._csv_rows import CsvRows
from dm2l.tables._cells import records

NAN = float("nan")


@pytest.fixture
def write(tmp_path):
    def written(text, name="set.arff", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return written


def check(bunch, data, target, sparse):
    assert sp.issparse(bunch.data) == sparse
    dense = bunch.data.toarray() if sparse else bunch.data
    assert dense.dtype == np.float64
    np.testing.assert_array_equal(dense, np.array(data, dtype=float))
    holes = np.isnan(np.array(target, dtype=float)).any()
    assert bunch.target.dtype == (np.float64 if holes else np.int8)
    np.testing.assert_array_equal(bunch.target, np.array(target, dtype=float))


def _refusal(read, path):
    """What a reader says against a file; None if it takes it."""
    try:
        read(path)
    except ValueError as error:
        return str(error)
    return None


# --------------------------------------------------------------------------------------------- ARFF

HEAD = """@relation weather
@attribute pressure numeric
@attribute sky {clear,grey,dark}
@attribute season {summer,winter}
@attribute rain {0,1}
@attribute wind {0,1}
@data
"""
DENSE = HEAD + "0.5,grey,winter,1,0\n-2e-1,clear,summer,?,1\n"
SPARSE = HEAD + "{0 0.5,1 grey,2 winter,3 1}\n{0 -2e-1,3 ?,4 1}\n"
X_WEATHER = [[0.5, 0, 1, 0, 1], [-0.2, 1, 0, 0, 0]]
Y_WEATHER = [[1, 0], [NAN, 1]]


@pytest.mark.parametrize(("text", "sparse"), [(DENSE, False), (SPARSE, True)])
def test_dense_and_sparse_rows_say_the_same(write, text, sparse):
    bunch = read_arff(write(text), labels=2)
    check(bunch, X_WEATHER, Y_WEATHER, sparse)
    assert bunch.target_names == ["rain", "wind"]
    names = ["pressure", "sky=clear", "sky=grey", "sky=dark", "season=winter"]
    assert bunch.feature_names == names
    assert bunch.relation == "weather"
    assert [bunch[key] for key in ("train_index", "test_index", "source")] == [None] * 3


def test_an_unlisted_entry_of_a_sparse_row_is_the_first_declared_value(write):
    head = "@relation r\n@attribute f {1,0}\n@attribute g {b,a}\n@attribute y {1,0}\n@data\n"
    bunch = read_arff(write(head + "{}\n{0 0,1 a,2 0}\n{2 1}\n"), labels=1)
    check(bunch, [[1, 1], [0, 0], [1, 1]], [[1], [0], [1]], sparse=True)
    assert bunch.feature_names == ["f", "g=b"]


@pytest.mark.parametrize(
    ("values", "name", "number"),
    [
        (("red", "blue"), "f=red", (1, 0)),
        (("NO", "YES"), "f=YES", (0, 1)),
        (("-1", "1"), "f=1", (0, 1)),
        (("0", "1"), "f", (0, 1)),
    ],
)
@pytest.mark.parametrize("row", ["{},1", "{{0 {},1 1}}"])
def test_two_values_have_the_same_numbers_in_any_order_of_declaration(
    write, values, name, number, row
):
    for declared in (values, values[::-1]):
        head = f"@relation r\n@attribute f {{{','.join(declared)}}}\n@attribute y {{0,1}}\n@data\n"
        bunch = read_arff(write(head + "\n".join(row.format(value) for value in values)), labels=1)
        check(bunch, [[number[0]], [number[1]]], [[1], [1]], sparse=row.startswith("{{"))
        assert bunch.feature_names == [name]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("CRLF", DENSE.replace("\n", "\r\n")),
        ("byte order mark", "\ufeff" + DENSE),
        ("capitals", DENSE.replace("@attribute", "@ATTRIBUTE").replace("numeric", "REAL")),
        ("tabs", DENSE.replace("@attribute ", "@attribute\t").replace(" numeric", "\tnumeric")),
        ("no blank before {", DENSE.replace(" {", "{")),
        ("blanks in a row", DENSE.replace(",grey,", " ,  grey\t, ")),
        ("blanks for commas", DENSE.replace("0.5,grey,winter,1,0", "0.5 grey winter 1 0")),
        ("comments", "% head\n" + DENSE.replace("1,0\n", "1,0 % why\n% no row\n\n   \n")),
        ("comment in head", DENSE.replace("numeric", "numeric % in bar")),
        ("quotes", DENSE.replace("grey", "'grey'").replace("winter", '"winter"')),
        ("no line end", DENSE.rstrip()),
        ("blank lines", DENSE.replace("@data", "\n  @data  ")),
        (
            "a dense row among sparse",
            SPARSE.replace("{0 0.5,1 grey,2 winter,3 1}", "0.5,grey,winter,1,0"),
        ),
        ("blanks in a sparse row", SPARSE.replace("{0 0.5,", "{ 0   0.5 ,\t")),
        ("quotes in a sparse row", SPARSE.replace("1 grey", "1 'grey'")),
        ("a comment after a sparse row", SPARSE.replace("3 1}", "3 1} % so")),
    ],
)
def test_spellings_of_the_same_file_read_the_same(write, change, text):
    check(read_arff(write(text), labels=2), X_WEATHER, Y_WEATHER, sparse="sparse" in change)


def test_quoted_names_keep_blanks_escapes_and_odd_signs(write):
    text = (
        "@relation 'a b'\n"
        r"@attribute 'it\'s 100\% {odd}, or \\ not' numeric" + "\n"
        '@attribute "tab\\there \\"q\\"" {\'a, b\',"}",\'?\'}\n'
        "@attribute can't numeric\n"
        r"@attribute '\u00e9t\u00E9' {0,1}" + "\n"
        "@data\n1,'a, b',2,1\n3,\"}\",4,0\n5,'?',6,1\n{1 '}',3 1}\n"
    )
    bunch = read_arff(write(text), labels=["été"])
    name = 'tab\there "q"'
    assert bunch.feature_names == [
        "it's 100% {odd}, or \\ not",
        f"{name}=a, b",
        f"{name}=}}",
        f"{name}=?",
        "can't",
    ]
    X = [[1, 1, 0, 0, 2], [3, 0, 1, 0, 4], [5, 0, 0, 1, 6], [0, 0, 1, 0, 0]]
    check(bunch, X, [[1], [0], [1], [1]], sparse=True)


def test_a_missing_feature_is_nan_in_all_its_columns(write):
    bunch = read_arff(write(HEAD + "?,?,?,0,1\n"), labels=2)
    check(bunch, [[NAN] * 5], [[0, 1]], sparse=False)


@pytest.mark.parametrize(
    ("declared", "row", "expected"),
    [
        ("{0,1}", "1", 1),
        ("{1,0}", "0", 0),
        ("{-1,1}", "-1", 0),
        ("{TRUE,FALSE}", "TRUE", 1),
        ("{no,yes}", "yes", 1),
        ("{0}", "0", 0),
        ("numeric", "1.0", 1),
        ("integer [0,1]", "0", 0),
    ],
)
def test_labels_may_be_written_in_several_codings(write, declared, row, expected):
    text = f"@relation r\n@attribute f numeric\n@attribute y {declared}\n@data\n2,{row}\n"
    assert read_arff(write(text), labels=1).target.tolist() == [[expected]]


@pytest.mark.parametrize(
    ("option", "names"),
    [("-C 2", ["pressure", "sky"]), ("-C -2", ["rain", "wind"]), ("-split 9 -C -1 -c 3", ["wind"])],
)
def test_meka_says_in_the_relation_which_are_labels(write, option, names):
    text = DENSE.replace("@relation weather", f"@relation 'weather: {option}'")
    text = text.replace("sky {clear,grey,dark}", "sky {0,1}").replace("grey", "1")
    text = text.replace("clear", "0").replace("0.5,", "1,").replace("-2e-1", "0")
    bunch = read_arff(write(text))
    assert bunch.target_names == names
    assert bunch.relation == f"weather: {option}"


MULAN = """<?xml version="1.0" encoding="utf-8"?>
<!-- comments are fine -->
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="wind"><label name="rain"></label></label>
</labels>
"""


def test_labels_of_an_xml_file_come_in_the_order_of_the_arff_file(write):
    path, xml = write(DENSE), write(MULAN, "other.xml")
    assert read_arff(path, xml=xml).target_names == ["rain", "wind"]
    write(MULAN, "set.xml")
    assert read_arff(path).target_names == ["rain", "wind"]


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["wind", "rain"], ["wind", "rain"]),
        ("[rw]*in*", ["rain", "wind"]),
        (["w*", "r*n"], ["wind", "rain"]),
        (1, ["wind"]),
        (np.int64(2), ["rain", "wind"]),
    ],
)
def test_labels_are_named_matched_or_counted(write, labels, names):
    drop = [] if len(names) == 2 else ["rain"]
    bunch = read_arff(write(DENSE), labels=labels, drop=drop)
    assert bunch.target_names == names
    expected = [Y_WEATHER[0][["rain", "wind"].index(name)] for name in names]
    assert bunch.target[0].tolist() == expected


BOMB = """<?xml version="1.0"?>
<!DOCTYPE labels [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<labels><label name="&b;"/></labels>
"""


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        (BOMB, "DOCTYPE or ENTITY"),
        ('<!DOCTYPE l SYSTEM "file:///etc/passwd"><labels/>', "DOCTYPE or ENTITY"),
        ("<labels><label name='rain'></labels>", "not well-formed XML.*line 1"),
        ("<labels><label/></labels>", "line 1: a <label> without name="),
        ("<labels/>", "names no labels"),
        ("<labels><label name='snow'/></labels>", r"1 label\(s\) that .* not declare: \['snow'\]"),
        ("", "not well-formed XML"),
    ],
)
def test_xml_that_is_hostile_or_wrong_is_refused(write, xml, message):
    with pytest.raises(ValueError, match=message):
        read_arff(write(DENSE), xml=write(xml, "labels.xml"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (DENSE.replace("-2e-1", "much"), "line 9: 'pressure' is numeric, found 'much'"),
        (DENSE.replace("-2e-1", "1_0"), "line 9: 'pressure' is numeric, found '1_0'"),
        (DENSE.replace("0.5,", ","), "line 8: 'pressure' is numeric, found ''"),
        (DENSE.replace("grey,winter", "pink,winter"), "line 8: 'sky' declares .*found 'pink'"),
        (DENSE + "1,2\n", "line 10: expected 5 values, found 2"),
        (DENSE + "1,grey,winter,1,0,{3}\n", "line 10: .*weights of rows are not supported"),
        (DENSE + "1,'grey,winter,1,0\n", "line 10: a quote is not closed"),
        (SPARSE + "{5 1}\n", "line 10: index '5' is none of the 5 attributes"),
        (SPARSE + "{-1 1}\n", "line 10: index '-1' is none"),
        (SPARSE + "{x 1}\n", "line 10: index 'x' is none"),
        (SPARSE + "{1}\n", "line 10: a sparse row lists pairs"),
        (SPARSE + "{0 1,0 2}\n", "line 10: an attribute is listed twice"),
        (SPARSE + "{0 1\n", "line 10: a sparse row is one"),
        (SPARSE + "{0 1}, {2}\n", "line 10: .*weights of rows are not supported"),
        (HEAD, "has no rows after @data"),
        (HEAD.replace("@data", ""), "ends before @data"),
        ("a,b,c\n1,2,3\n", "line 1: expected @relation.*is this ARFF"),
        (DENSE.replace("season {summer,winter}", "season"), "line 4: .*a name and a type"),
        (DENSE.replace("summer,winter}", "summer"), "line 4: .*'season' are not closed"),
        (DENSE.replace("{summer,winter}", "{}"), "line 4: attribute 'season' declares no values"),
        (DENSE.replace("pressure numeric", "pressure string"), r"type string.*drop=\['pressure'\]"),
        (DENSE.replace("wind {0,1}", "wind {a,b}"), "label 'wind' declares .*two values"),
        (DENSE.replace("wind {0,1}", "wind {-1,0,1}"), "label 'wind' declares .*two values"),
        (
            DENSE.replace("wind {0,1}", "wind numeric").replace(",?,1", ",?,3"),
            "'wind' holds 3 in row 1",
        ),
    ],
)
def test_arff_errors_name_the_place(write, text, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_arff(write(text), labels=2)
    assert "set.arff" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no set.xml beside it. Pass xml="),
        ({"labels": 1, "xml": "labels.xml"}, "pass one"),
        ({"labels": 5}, "labels=5 .* has 5 columns, of which 1 to 4"),
        ({"labels": 0}, "labels=0"),
        ({"labels": True}, "got True"),
        ({"labels": []}, r"got \[\]"),
        ({"labels": ["snow"]}, "no column 'snow'.*Columns: pressure, sky"),
        ({"labels": 2, "drop": "wind"}, "'wind' is a label and in drop="),
        ({"labels": 2, "drop": ["p*", "s*"]}, "no features are left"),
    ],
)
def test_a_question_that_the_file_cannot_answer_is_refused(write, options, message):
    with pytest.raises(ValueError, match=message):
        read_arff(write(DENSE), **options)


def test_a_relation_with_an_impossible_count_of_labels_is_refused(write):
    text = DENSE.replace("weather", "'weather: -C 5'")
    with pytest.raises(ValueError, match="-C 5 in the relation does not fit 5 attributes"):
        read_arff(write(text))


def test_another_encoding_is_named_not_guessed(write):
    path = write(DENSE.replace("wind", "föhn"), encoding="latin-1")
    with pytest.raises(ValueError, match=r"not encoded in utf-8.*encoding='latin-1'"):
        read_arff(path, labels=2)
    assert read_arff(path, labels=2, encoding="latin-1").target_names == ["rain", "föhn"]


def test_a_name_that_two_attributes_share_is_no_label(write):
    with pytest.raises(ValueError, match="2 columns named 'rain'"):
        read_arff(write(DENSE.replace("wind", "rain")), labels=["rain"])
    check(read_arff(write(DENSE.replace("wind", "rain")), labels=2), X_WEATHER, Y_WEATHER, False)


def quoted(name):
    for sign in "\\'":
        name = name.replace(sign, "\\" + sign)
    return f"'{name}'"


names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8)
cells = st.one_of(st.just(0.0), st.floats(allow_nan=False, allow_infinity=False), st.just(NAN))


@settings(max_examples=60, deadline=None)
@given(data=st.data(), sparse=st.booleans())
def test_what_is_written_is_read_back(tmp_path_factory, data, sparse):
    head = data.draw(st.lists(names, min_size=3, max_size=5, unique=True))
    d = len(head) - 2
    X = data.draw(st.lists(st.lists(cells, min_size=d, max_size=d), min_size=1, max_size=5))
    label = st.sampled_from([0.0, 1.0, NAN])
    Y = [[data.draw(label), data.draw(label)] for _ in X]
    lines = ["@relation r", *(f"@attribute {quoted(name)} numeric" for name in head[:d])]
    lines += [f"@attribute {quoted(name)} {{0,1}}" for name in head[d:]] + ["@data"]
    for x, y in zip(X, Y, strict=True):
        row = [*(repr(v) for v in x), *(f"{v:g}" for v in y)]
        row = ["?" if cell == "nan" else cell for cell in row]
        pairs = [f"{j} {cell}" for j, cell in enumerate(row) if cell not in ("0.0", "0")]
        lines.append("{" + ", ".join(pairs) + "}" if sparse else ",".join(row))
    path = tmp_path_factory.mktemp("arff") / "set.arff"
    path.write_text("\n".join(lines), encoding="utf-8")
    bunch = read_arff(path, labels=2)
    check(bunch, X, Y, sparse)
    assert bunch.feature_names + bunch.target_names == head


def test_dense_files_read_as_scipy_reads_them(write):
    rng = np.random.default_rng(0)
    words = np.array(["clear", "grey", "dark"])
    rows = [
        f"{rng.normal():.6g},{words[rng.integers(3)]},{['summer', 'winter'][rng.integers(2)]},"
        f"{rng.integers(2)},{rng.integers(2)}"
        for _ in range(50)
    ]
    path = write(HEAD + "\n".join(rows))
    table = pd.DataFrame(loadarff(path)[0]).map(lambda v: v.decode() if isinstance(v, bytes) else v)
    bunch = read_arff(path, labels=2)
    np.testing.assert_array_equal(bunch.data[:, 0], table["pressure"])
    np.testing.assert_array_equal(bunch.data[:, 1:4], pd.get_dummies(table["sky"])[list(words)])
    np.testing.assert_array_equal(bunch.data[:, 4], table["season"] == "winter")
    np.testing.assert_array_equal(bunch.target, table[["rain", "wind"]].astype(int))


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("DM2L_DATA"), reason="DM2L_DATA is not set: no real data")
@pytest.mark.parametrize("name", ["bibtex", "scene"])
def test_a_real_set_survives_the_way_through_arff_and_xml(tmp_path, name):
    known = load_dataset(name)
    together = sp.csr_array(sp.hstack([sp.csr_array(known.data), known.target]))
    head = [f"@attribute {quoted(f)} numeric" for f in known.feature_names]
    head += [f"@attribute {quoted(f)} {{0,1}}" for f in known.target_names]
    rows = []
    for i in range(together.shape[0]):
        part = slice(together.indptr[i], together.indptr[i + 1])
        pairs = zip(together.indices[part], together.data[part], strict=True)
        rows.append("{" + ",".join(f"{j} {v:.17g}" for j, v in pairs) + "}")
    (tmp_path / "set.arff").write_text("\n".join(["@relation r", *head, "@data", *rows]))
    labels = "".join(f'<label name="{label}"></label>' for label in known.target_names)
    (tmp_path / "set.xml").write_text(f"<labels>{labels}</labels>")
    bunch = read_arff(tmp_path / "set.arff")
    assert bunch.target_names == known.target_names
    assert bunch.feature_names == known.feature_names
    assert content_hash(bunch.data, bunch.target) == content_hash(known.data, known.target)


# ------------------------------------------------------------------------------------------- MATLAB

X_MAT = np.array([[0.5, 0.0], [0.0, 2.0], [1.0, 3.0]])
Y_MAT = np.array([[1, 0, 0, 1], [0, 1, 0, 0], [1, 1, 0, 0]])


@pytest.fixture
def mat(tmp_path):
    def written(**parts):
        savemat(tmp_path / "set.mat", parts)
        return tmp_path / "set.mat"

    return written


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
    with pytest.raises(ValueError, match=r"set.mat: the labels mix .*label 0 holds 0 in row 0"):
        read_mat(path)
    check(read_mat(path, missing_label=0), X_MAT, holes, sparse=False)


@pytest.mark.parametrize(
    ("parts", "options", "message"),
    [
        ({"A": X_MAT, "Y": Y_MAT}, {}, r"no variable of a usual name for X.*\['A', 'Y'\].*X="),
        ({"X": X_MAT, "data": X_MAT, "Y": Y_MAT}, {}, "several that could be it for X"),
        ({"X": X_MAT, "Y": Y_MAT}, {"Y": "Z"}, r"no variable\(s\) \['Z'\]; it has \['X', 'Y'\]"),
        (
            {"X": X_MAT, "Y": np.ones((5, 7))},
            {},
            r"'X' of shape \(3, 2\) and 'Y' of shape \(5, 7\)",
        ),
        ({"X": "words", "Y": Y_MAT}, {}, "'X' is no matrix of numbers"),
        ({"X": X_MAT, "Y": 3 * Y_MAT}, {}, "label 0 holds 3 in row 0"),
        (
            {"train_data": X_MAT, "test_data": X_MAT[:, :1], "X": X_MAT, "Y": Y_MAT},
            {"X": ["train_data", "test_data"], "Y": ["Y", "Y"]},
            "do not stack",
        ),
        ({"X": X_MAT, "Y": Y_MAT}, {"X": ["X", "X"]}, "do not pair up"),
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


@pytest.mark.parametrize("options", [{"format": "4"}, {}, {"do_compression": True}])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_matlab_file_that_ends_early_is_refused_by_name(tmp_path, options, sparse):
    X = sp.csc_matrix(X_MAT) if sparse else X_MAT
    savemat(tmp_path / "whole.mat", {"X": X, "Y": Y_MAT}, **options)
    content = (tmp_path / "whole.mat").read_bytes()
    path = tmp_path / "part.mat"
    for size in (0, 5, *(len(content) * k // 20 for k in range(1, 20)), len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"part\.mat"):
            read_mat(path)
    path.write_text("hello")
    with pytest.raises(ValueError, match=r"part\.mat is no MATLAB file, or a damaged one"):
        read_mat(path)
    with pytest.raises(FileNotFoundError):
        read_mat(tmp_path / "none.mat")


# ----------------------------------------------------------------------------------------- svmlight


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
    bunch = read_svmlight(path, labels=[10, 7, 3], absent_label="missing")
    assert bunch.target_names == ["10", "7", "3"]
    check(bunch, [[1, 0], [2, 0], [0, 4]], [[1, NAN, 1], [NAN] * 3, [NAN, NAN, 1]], sparse=True)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("1,2 1:1\n", {"labels": [1]}, r"labels= misses \[2.0\]"),
        ("1,2 1:1\n", {"labels": [1, 2, 2]}, "names a label twice"),
        ("1,2 1:1\n", {"absent_label": "maybe"}, "got 'maybe'"),
        ("1:1\n2:1\n", {}, "lists no label at all"),
        ("hello\n", {}, "line 1: could not convert"),
        ("1 1:1\n# note\n2 1:x\n", {}, "line 3: could not convert"),
        ("1 1:1\n2 2:1 1:1\n", {}, "line 2: .*sorted"),
        ("1 1:1\n\n\n# note\n2 1:1\n", {}, "line 2: empty, between rows"),
        (
            "1 1:1\n \n2 0:1\n",
            {"zero_based": False},
            r"line 3: a feature has the index 0, but they go from 1 on \(zero_based=False\)",
        ),
        (
            "1 1:1\n2 2:1 4:1\n",
            {"n_features": 3},
            "line 2: a feature has the index 4, but they go from 1 to 3",
        ),
        (
            "1 1:1\n2 0:1 3:1\n",
            {"n_features": 3},
            "line 2: a feature has the index 3, but they go from 0 to 2",
        ),
    ],
)
def test_svmlight_files_that_do_not_fit_are_refused(write, text, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_svmlight(write(text, "set.svm"), **options)
    assert "set.svm" in str(caught.value) or "absent_label" in options


# ------------------------------------------------------------------------------------------- tables

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
    bunch = read_csv(write("f;y;z\n3;0;yes\n4;1;no\n", "set.csv"), 2, sep=";")
    check(bunch, [[3], [4]], [[0, 1], [1, 0]], sparse=False)


@pytest.mark.parametrize(
    ("mark", "word"), [(-1, "-1"), (-1, "-1.0"), ("unknown", "Unknown "), ([9, "x"], "9")]
)
def test_a_given_mark_is_missing_too(write, mark, word):
    text = f"f,y\n1,1\n2,{word}\n3,0\n4,\n"
    bunch = read_csv(write(text, "set.csv"), "y", missing_label=mark)
    check(bunch, [[1], [2], [3], [4]], [[1], [NAN], [0], [NAN]], sparse=False)


def test_a_signed_column_is_a_label_and_a_mixed_one_is_not(write):
    check(read_csv(write("f,y\n1,-1\n2,1\n", "a.csv"), 1), [[1], [2]], [[0], [1]], sparse=False)
    with pytest.raises(ValueError, match=r"mix the codings .*'y' holds 0 in row 1"):
        read_csv(write("f,y\n1,-1\n2,0\n", "a.csv"), 1)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (TABLE, {"labels": "tox_*"}, r"but 'name' holds text \('a' in row 0\).*drop="),
        (
            TABLE.replace("2.5", "n.d."),
            {"labels": "tox_*", "drop": "name"},
            r"'mass' .*'n.d.' in row 1",
        ),
        ("f,g,y\n1,,1\n2,,0\n", {"labels": 1}, "'g' is empty"),
        ("f,y\n1,maybe\n", {"labels": 1}, "label 'y' holds 'maybe' in row 0.*missing_label="),
        ("f,y\n1,0\n2,7\n", {"labels": 1}, "label 'y' holds '7' in row 1"),
        ("f,y\n1,0\n2,1,3\n", {"labels": 1}, "is no table"),
        ("f,y\n1,0,9\n2,1,3\n", {"labels": 1}, "is no table"),
        (
            "f,g,y\n\n1,2,1\n3,4\n5\n",
            {"labels": 1},
            r"row 2 \(line 4\) has 2 cells, the header has 3",
        ),
        ('f,g,y\n1,2,1\n""\n', {"labels": 1}, r"row 2 \(line 3\) has 1 cells"),
        ("f,y,y\n1,0,0\n", {"labels": ["y"]}, "several columns named 'y'"),
        ("", {"labels": 1}, "is empty; a header line is needed"),
        ("f,y\n", {"labels": 1}, "has a header and no rows"),
        (TABLE, {"labels": "skin_*"}, "no column 'skin_\\*'.*Columns: name, mass"),
        (TABLE, {"labels": "tox_*", "drop": ["tox_skin"]}, "'tox_skin' is a label and in drop="),
        ("f,y\n1,0\n", {"labels": "y", "drop": "f"}, "no features are left"),
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
    with pytest.raises(ValueError, match=r"row 2 \(line 3\) has 1 cells, the header has 2"):
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
    rows = CsvRows(io.StringIO("\ufeff" * mark + text, newline=""), "t.csv", sep)
    assert len(rows.header) == (sizes[0] if sizes else 0)
    if wrong:
        with pytest.raises(ValueError, match=rf"row {wrong[0]} .* has {sizes[wrong[0]]} cells"):
            rows.check()
    else:
        rows.check(1)
        rows.check()


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
        (["CCO", None, "CN"], r"'new' holds text \('CCO' in row 0\)"),
        ([[1], [2], [3]], "'new' is of type object"),
        (pd.Categorical(["1", "2", "3"]), "'new' is of type category"),
    ],
)
def test_a_parquet_column_without_numbers_is_no_feature(tmp_path, column, message):
    FRAME[["mass", "heart"]].assign(new=column).to_parquet(tmp_path / "set.parquet")
    with pytest.raises(ValueError, match=message):
        read_parquet(tmp_path / "set.parquet", labels=["heart"])


def test_a_parquet_column_of_lists_is_no_label(tmp_path):
    FRAME[["mass"]].assign(y=[[1], [2], [3]]).to_parquet(tmp_path / "set.parquet")
    with pytest.raises(ValueError, match=r"label 'y' holds '\[1\]' in row 0"):
        read_parquet(tmp_path / "set.parquet", labels=1)


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


# ----------------------------------------------------------------------------------------- archives


def test_an_archive_holds_what_was_written(tmp_path, write):
    for bunch in (
        load_digit_attributes(),
        read_arff(write(SPARSE), labels=2),
        read_svmlight(write("1,2 1:0.25 900:3\n2 1:5\n", "set.svm")),
    ):
        write_npz(tmp_path / "again.npz", bunch)
        again = read_npz(tmp_path / "again.npz")
        assert sp.issparse(again.data) == sp.issparse(bunch.data)
        assert again.data.dtype == np.float64
        assert again.target.dtype == bunch.target.dtype
        assert content_hash(again.data, again.target) == content_hash(bunch.data, bunch.target)
        assert again.target_names == bunch.target_names
        assert again.feature_names == bunch.feature_names


def test_a_failed_write_leaves_the_old_archive_and_nothing_else(tmp_path, write, monkeypatch):
    path = tmp_path / "set.npz"
    write_npz(path, read_arff(write(DENSE), labels=2))
    before = path.read_bytes()

    def fail(file, **_):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        write_npz(path, load_digit_attributes())
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["set.arff", "set.npz"]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"X": np.eye(3), "Y": np.eye(2)}, r"X of shape \(3, 3\) and Y of shape \(2, 2\) differ"),
        ({"X": np.eye(2), "Y": 2 * np.eye(2)}, "label 0 holds 2 in row 0"),
        (
            {
                "X_data": np.ones(2),
                "X_indices": np.array([0, 7]),
                "X_indptr": np.array([0, 1, 2]),
                "X_shape": np.array([2, 2]),
                "Y": np.eye(2),
            },
            "are no CSR matrix",
        ),
    ],
)
def test_an_archive_that_does_not_fit_together_is_refused(tmp_path, parts, message):
    np.savez(tmp_path / "set.npz", **parts)
    with pytest.raises(ValueError, match=message):
        read_npz(tmp_path / "set.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_archive_is_refused_by_name_and_without_advice_to_trust_it(tmp_path, save):
    save(tmp_path / "whole.npz", X=np.eye(30), Y=np.eye(30))
    content = (tmp_path / "whole.npz").read_bytes()
    path = tmp_path / "part.npz"
    flipped = [bytearray(content) for _ in range(0, 300, 4)]
    for i, one in enumerate(flipped):
        one[4 * i] ^= 255
    np.save(tmp_path / "array.npy", np.eye(2))
    array = (tmp_path / "array.npy").read_bytes()
    refused = 0
    for broken in (b"", b"hello", array, content[:100], content[:-5], *flipped):
        path.write_bytes(broken)
        message = _refusal(read_npz, path)
        if message is not None:
            refused += 1
            assert "part.npz is no " in message
            assert "unsafely" not in message
    assert refused > 50
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X", "hello")
    with pytest.raises(ValueError, match=r"part\.npz is no npz archive: 'X' in it is no array"):
        read_npz(path)
    with pytest.raises(FileNotFoundError):
        read_npz(tmp_path / "none.npz")


def test_an_archive_may_have_holes(tmp_path):
    np.savez(tmp_path / "set.npz", X=np.eye(2), Y=np.array([[1, NAN], [-1, 1]]))
    check(read_npz(tmp_path / "set.npz"), np.eye(2), [[1, NAN], [0, 1]], sparse=False)
