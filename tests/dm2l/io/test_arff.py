"""ARFF: dense and sparse rows, labels from XML and MEKA, errors that name the place."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io.arff import loadarff

from dm2l.datasets import content_hash, load_dataset
from dm2l.io import read_arff
from reader_checks import NAN, check

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
        (BOMB, "the file has a DOCTYPE declaration"),
        ('<!DOCTYPE l SYSTEM "file:///etc/passwd"><labels/>', "the file has a DOCTYPE declaration"),
        ("<labels><label name='rain'></labels>", "not well-formed XML.*line 1"),
        ("<labels><label/></labels>", "line 1: a <label> element has no name="),
        ("<labels/>", "the file lists no labels"),
        ("<labels><label name='snow'/></labels>", r"1 label\(s\) not declared in .*: \['snow'\]"),
        ("", "not well-formed XML"),
    ],
)
def test_xml_that_is_hostile_or_wrong_is_refused(write, xml, message):
    with pytest.raises(ValueError, match=message):
        read_arff(write(DENSE), xml=write(xml, "labels.xml"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            DENSE.replace("-2e-1", "much"),
            "line 9: attribute 'pressure' must be numeric, found 'much'",
        ),
        (
            DENSE.replace("-2e-1", "1_0"),
            "line 9: attribute 'pressure' must be numeric, found '1_0'",
        ),
        (DENSE.replace("0.5,", ","), "line 8: attribute 'pressure' must be numeric, found ''"),
        (
            DENSE.replace("grey,winter", "pink,winter"),
            "line 8: .sky. must be one of .*found 'pink'",
        ),
        (DENSE + "1,2\n", "line 10: expected 5 values, found 2"),
        (DENSE + "1,grey,winter,1,0,{3}\n", "line 10: .*row weights are not supported"),
        (DENSE + "1,'grey,winter,1,0\n", "line 10: a quote is not closed"),
        (SPARSE + "{5 1}\n", "line 10: attribute index '5' is not in the range 0 to 4"),
        (SPARSE + "{-1 1}\n", "line 10: attribute index '-1' is not in"),
        (SPARSE + "{x 1}\n", "line 10: attribute index 'x' is not in"),
        (SPARSE + "{1}\n", "line 10: the last index of a sparse row has no value"),
        (SPARSE + "{0 1,0 2}\n", "line 10: a sparse row lists an attribute twice"),
        (SPARSE + "{0 1\n", "line 10: a sparse row must end at its only"),
        (SPARSE + "{0 1}, {2}\n", "line 10: .*row weights are not supported"),
        (HEAD, "there are no rows after @data"),
        (HEAD.replace("@data", ""), "no @data line"),
        ("a,b,c\n1,2,3\n", "line 1: expected @relation"),
        (DENSE.replace("season {summer,winter}", "season"), "line 4: .*a name and a type"),
        (DENSE.replace("summer,winter}", "summer"), "line 4: .*'season' has no closing"),
        (DENSE.replace("{summer,winter}", "{}"), "line 4: attribute 'season' declares no values"),
        (DENSE.replace("pressure numeric", "pressure string"), r"type string.*drop=\['pressure'\]"),
        (DENSE.replace("wind {0,1}", "wind {a,b}"), "label 'wind' declares .*must be 0/1"),
        (DENSE.replace("wind {0,1}", "wind {-1,0,1}"), "label 'wind' declares .*must be 0/1"),
        (
            DENSE.replace("wind {0,1}", "wind numeric").replace(",?,1", ",?,3"),
            "'wind' holds 3 in row 2",
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
        ({}, "set.xml does not exist. Pass the XML file as xml="),
        ({"labels": 1, "xml": "labels.xml"}, "Pass only one"),
        ({"labels": 5}, "labels=5 .* has 5 columns. Pass a number from 1 to 4"),
        ({"labels": 0}, "labels=0"),
        ({"labels": True}, "got True"),
        ({"labels": []}, r"got \[\]"),
        ({"labels": ["snow"]}, "no column 'snow'.*Columns: pressure, sky"),
        ({"labels": 2, "drop": "wind"}, "'wind' is a label, but dropped. Remove it from drop="),
        ({"labels": 2, "drop": ["p*", "s*"]}, "Keep at least one feature"),
    ],
)
def test_a_question_that_the_file_cannot_answer_is_refused(write, options, message):
    with pytest.raises(ValueError, match=message):
        read_arff(write(DENSE), **options)


def test_a_relation_with_an_impossible_count_of_labels_is_refused(write):
    text = DENSE.replace("weather", "'weather: -C 5'")
    with pytest.raises(ValueError, match="-C 5 is too large for a file with 5 attributes"):
        read_arff(write(text))


def test_another_encoding_is_named_not_guessed(write):
    path = write(DENSE.replace("wind", "föhn"), encoding="latin-1")
    with pytest.raises(ValueError, match=r"byte 0xf6 at .* not valid utf-8.*encoding latin-1"):
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
