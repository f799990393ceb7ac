"""Excel files: the first sheet is a table."""

import zipfile
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest

from dm2l._utils.files import DataFileError
from dm2l.io._xlsx_file import edit_sheet, read_sheet
from dm2l.tables import (
    Completion,
    FitOptions,
    complete_table,
    fit_table,
    read_table,
    write_completion,
)
from dm2l.tables._output import write_columns

openpyxl = pytest.importorskip("openpyxl", reason="Excel files need the extra excel")


@pytest.fixture
def sheet(tmp_path):
    def write(rows, name="table.xlsx"):
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        book.create_sheet("other").append(["nothing"])
        book.save(tmp_path / name)
        return tmp_path / name

    return write


def test_a_sheet_is_the_table_that_its_csv_is(sheet, tmp_path):
    rows = [["id", "mass", "phase", "tox_a", "tox_b"]]
    rows += [[f"c{i}", i % 7 or None, "gas" if i % 2 else "solid", i % 2, "yes"] for i in range(30)]
    rows[5][3], rows[7][4], rows[9][4] = None, "NA", "no"
    rows.insert(4, [None] * 5)
    found = read_table(sheet(rows), "tox_*")
    text = "\n".join(",".join("" if v is None else str(v) for v in row) for row in rows if any(row))
    (tmp_path / "table.csv").write_text(text)
    same = read_table(tmp_path / "table.csv", "tox_*")
    assert found.label_names == same.label_names
    assert np.array_equal(found.Y, same.Y, equal_nan=True)
    pd.testing.assert_frame_equal(found.frame, same.frame, check_dtype=False)
    options = FitOptions("linear", 0.1, 1.0)
    a, b = (fit_table(table, options, estimate_folds=0) for table in (found, same))
    assert a.uses == b.uses
    assert np.array_equal(a.classifier.coef_, b.classifier.coef_)


def test_what_is_no_table_is_refused(sheet, tmp_path):
    with pytest.raises(
        DataFileError, match=r"row 3 of the sheet: there is a cell beyond the 2 columns"
    ):
        read_sheet(sheet([["a", "b"], [1, 2], [1, None, 3]]))
    with pytest.raises(DataFileError, match="first sheet is empty"):
        read_sheet(sheet([]))
    with pytest.raises(ValueError, match="'a'"):
        read_sheet(sheet([["a", "a"], [1, 2]]))
    path = tmp_path / "broken.xlsx"
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(DataFileError, match="not an Excel file, or the file is damaged"):
        read_sheet(path)


def test_a_far_cell_takes_no_room(sheet):
    path = sheet([["a", "b"], [1, 2]])
    book = openpyxl.load_workbook(path)
    book.active["XFD900"] = "far"
    book.save(path)
    with pytest.raises(DataFileError, match="row 900 of the sheet"):
        read_sheet(path)


def test_a_few_bytes_do_not_become_many_cells(sheet, monkeypatch):
    path = sheet([["a"], [1]])
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    first = "xl/worksheets/sheet1.xml"
    far = members[first].replace(b'<row r="2"', b'<row r="999999999999"')
    far = far.replace(b'r="A2"', b'r="A999999999999"')
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (members | {first: far}).items():
            archive.writestr(name, content)
    with pytest.raises(
        DataFileError, match=r"row 999999999999 of the sheet: the file has more rows than Excel"
    ):
        read_sheet(path)
    path = sheet([[None] * 16_383 + ["last"]] + [[1]] * 50)
    with pytest.raises(DataFileError, match=r"16383 of 16384 columns have no name"):
        read_sheet(path)
    path = sheet([[f"n{j}" for j in range(1000)]] + [[1]] * 40)
    monkeypatch.setattr("dm2l.io._xlsx_file.available_memory", lambda: 2**20)
    with pytest.raises(DataFileError, match=r"row 34 of the sheet: the file exceeds the memory"):
        read_sheet(path)


TABLE = (
    "<sheetData><row><c t='s'><v>0</v></c><c t='s'><v>1</v></c></row>"
    "<row><c><v>1</v></c><c t='s'><v>2</v></c></row>{rows}</sheetData>{after}"
)
DOCTYPE = "<!DOCTYPE x [<!ENTITY a 'aa'>]>"
LONG = "a" * 2_000_000
HOSTILE = {
    "entities in the sheet": ({"doctype": DOCTYPE}, "DOCTYPE"),
    "entities in the texts": ({"text_doctype": DOCTYPE}, "DOCTYPE"),
    "a text in many cells": (
        {"texts": f"<si><t>{LONG}</t></si>", "rows": "<row><c t='s'><v>3</v></c></row>" * 50},
        "the cells have more than \\d+ characters",
    ),
    "many texts": ({"texts": "<si><t/></si>" * 200_000}, "tags and attributes"),
    "blank cells": ({"rows": f"<row>{'<c/>' * 16_000}</row>" * 30}, "tags and attributes"),
    "a long comment": ({"rows": f"<!--{LONG}-->"}, "a tag or a comment"),
    "a long attribute": ({"rows": f"<row a='{LONG}'/>"}, "a tag or a comment"),
    "many attributes": (
        {"rows": f"<row {' '.join(f'a{i}=' + repr('') for i in range(200_000))}/>"},
        "a tag or a comment",
    ),
    "much of nothing": ({"rows": " " * 40_000_000}, "the XML exceeds"),
    "a late row": (
        {"rows": "<row r='1048577'><c><v>1</v></c></row>"},
        "more rows than Excel supports",
    ),
    "a row that goes back": ({"rows": "<row r='1'/>"}, "row 1 comes after row 2"),
    "many columns": ({"rows": f"<row>{'<c/>' * 16_385}</row>"}, "more columns than Excel supports"),
    "a late column": (
        {"rows": "<row><c r='XFE3'><v>1</v></c></row>"},
        "more columns than Excel supports",
    ),
    "a cell of another row": ({"rows": "<row><c r='A7'><v>1</v></c></row>"}, "A7'? is not a valid"),
    "two cells in a place": (
        {"rows": "<row><c r='A3'><v>1</v></c><c r='A3'><v>1</v></c></row>"},
        "two cells in the same column",
    ),
    "a text that is not there": (
        {"rows": "<row><c t='s'><v>-1</v></c></row>"},
        "shared text -1, which does not exist",
    ),
    "no number": ({"rows": "<row><c><v>1e999</v></c></row>"}, "'1e999' is not a finite number"),
    "a long format": (
        {"styles": f"<numFmts><numFmt numFmtId='200' formatCode='{'[' * 300}'/></numFmts>"},
        "more than 255 characters",
    ),
    "another packing": (
        {"packing": zipfile.ZIP_LZMA},
        "compressed by a method that Excel does not use",
    ),
}
EDITED = {
    "many cells": ({"rows": f"<row>{'<c/>' * 9000}</row>"}, "cells or \\d+ other"),
    "many styles": (
        {"styles": "<cellXfs>" + "<xf/>" * 150_000 + "</cellXfs>"},
        "tags and attributes",
    ),
    "merged cells": (
        {"after": "<mergeCells><mergeCell ref='A5:XFD1048576'/></mergeCells>"},
        "merged cells cover more",
    ),
    "a long formula of many cells": (
        {
            "rows": f"<row><c><f t='shared' si='0'>{'1+' * 5000}1</f><v>1</v></c></row>"
            + "<row><c><f t='shared' si='0'/><v>1</v></c></row>" * 200
        },
        "the shared formulas have more",
    ),
    "a long head of pages": (
        {"after": f"<headerFooter><oddHeader>{'&amp;L' * 200}</oddHeader></headerFooter>"},
        "a page header has more",
    ),
    "entities elsewhere": ({"other": f"{DOCTYPE}<x/>"}, "DOCTYPE"),
}


@pytest.fixture
def crafted(sheet):
    """A small workbook, parts of which are something else."""

    def make(
        *, rows="", after="", texts="", styles="", other="", doctype="", text_doctype="", packing=8
    ):
        path = sheet([["a"], [1]])
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        main = "xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main'"
        table = TABLE.format(rows=rows, after=after)
        members["xl/worksheets/sheet1.xml"] = (
            f"{doctype}<worksheet {main}>{table}</worksheet>".encode()
        )
        hint = "<rPh sb='0' eb='1'><t>hint</t></rPh>"
        first = f"<si><t>a</t></si><si><t>b</t></si><si><r><t>c</t></r>{hint}</si>"
        members["xl/sharedStrings.xml"] = f"{text_doctype}<sst {main}>{first}{texts}</sst>".encode()
        if styles:
            members["xl/styles.xml"] = f"<styleSheet {main}>{styles}</styleSheet>".encode()
        members["xl/other.xml"] = other.encode()
        links, office = "xl/_rels/workbook.xml.rels", "openxmlformats.org/officeDocument/2006"
        named = f"<Relationship Id='t' Type='http://schemas.{office}/relationships/sharedStrings'"
        members[links] = members[links].replace(
            b"</Relationships>", f"{named} Target='sharedStrings.xml'/></Relationships>".encode()
        )
        kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
        members["[Content_Types].xml"] = members["[Content_Types].xml"].replace(
            b"</Types>",
            f"<Override PartName='/xl/sharedStrings.xml' ContentType='{kind}'/></Types>".encode(),
        )
        with zipfile.ZipFile(path, "w", packing) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return path

    return make


@pytest.mark.parametrize(("parts", "words"), HOSTILE.values(), ids=HOSTILE)
def test_a_small_file_that_costs_much_is_refused(crafted, monkeypatch, parts, words):
    monkeypatch.setattr("dm2l.io._xlsx_file._MARKS", 2**18)  # to make less of it here
    with pytest.raises(DataFileError, match=words):
        read_sheet(crafted(**parts))


@pytest.mark.parametrize(("parts", "words"), EDITED.values(), ids=EDITED)
def test_what_the_writer_would_make_much_of_is_refused_before(crafted, monkeypatch, parts, words):
    monkeypatch.setattr("dm2l.io._xlsx_file._EDITED_MARKS", 2**15)
    monkeypatch.setattr("dm2l.io._xlsx_file._CELLS", 2**10)
    path = crafted(**parts)
    read_sheet(path)
    with pytest.raises(DataFileError, match=words):
        edit_sheet(path)


@pytest.mark.filterwarnings("ignore:Workbook contains no default style")
def test_cells_say_what_they_say_in_openpyxl(crafted):
    cells = "".join(
        f"<row><c {more}>{value}</c></row>"
        for more, value in (
            ("s='1'", "<v>45000.5</v>"),
            ("s='2'", "<v>1.5</v>"),
            ("s='1'", "<v>-5</v>"),
            ("t='b'", "<v>1</v>"),
            ("t='e'", "<v>#N/A</v>"),
            ("t='d'", "<v>2020-02-01T00:00:00</v>"),
            ("t='str'", "<f>A1</f><v>=x</v>"),
            ("t='inlineStr'", "<is><r><t>one</t></r><r><t xml:space='preserve'> two</t></r></is>"),
            ("", "<v>-3</v>"),
            ("", "<v>2.50</v>"),
            ("", "<v>1E3</v>"),
        )
    )
    styles = (
        "<numFmts><numFmt numFmtId='170' formatCode='[h]:mm'/></numFmts>"
        "<cellXfs><xf/><xf numFmtId='14'/><xf numFmtId='170'/></cellXfs>"
    )
    path = crafted(rows=cells, styles=styles)
    found = read_sheet(path)
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    header, *rows = book.worksheets[0].iter_rows(values_only=True)
    assert list(found.columns) == ["a", "b"] == list(header)
    expected = [row[0] for row in rows]
    expected[2] = timedelta(days=1.5)  # openpyxl 3.1.0 reads durations as dates
    assert found["a"].tolist() == expected
    assert found["b"].dropna().tolist() == ["c"]
    assert [type(v) for v in found["a"]] == [type(value) for value in expected]


def test_a_part_may_be_anywhere_and_tags_may_have_a_prefix(sheet):
    path = sheet([["a", "b"], [1, 0.5], ["x", True]])
    expected = read_sheet(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    text = members.pop("xl/worksheets/sheet1.xml").decode()
    for tag in ("worksheet", "sheetData", "row", "c", "v"):
        text = text.replace(f"<{tag} ", f"<x:{tag} ").replace(f"<{tag}>", f"<x:{tag}>")
        text = text.replace(f"</{tag}>", f"</x:{tag}>")
    members["elsewhere.xml"] = text.replace("xmlns=", "xmlns:x=").encode("utf-16")
    links = members["xl/_rels/workbook.xml.rels"]
    members["xl/_rels/workbook.xml.rels"] = links.replace(
        b"/xl/worksheets/sheet1.xml", b"../elsewhere.xml"
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    pd.testing.assert_frame_equal(read_sheet(path), expected)


def test_formulas_that_cells_share_may_stand_beside_long_texts(crafted):
    rows = "".join(
        f"<row><c r='A{i}'><f t='shared' si='0'>{'1+1' if i == 3 else ''}</f><v>1</v></c>"
        "<c t='s'><v>3</v></c></row>"
        for i in range(3, 204)
    )
    path = crafted(rows=rows, texts=f"<si><t>{LONG[:30_000]}</t></si>")
    assert len(edit_sheet(path)[2]) == 203


def test_a_cell_far_below_makes_no_cells_between(sheet):
    path = sheet([["a", "b"], [1, 2]])
    book = openpyxl.load_workbook(path)
    book.active["A1048576"] = 5
    book.save(path)
    assert read_sheet(path)["a"].tolist() == [1, 5]
    assert edit_sheet(path)[2] == [1, 2, 1048576]


def _half_filled(n=40):
    """A header and rows with a formula, a text that looks like one, and two labels with holes."""
    rows = [["id", "mass", "double", "said", "tox_a", "tox_b"]]
    for i in range(n):
        a = None if i % 4 == 0 else ("Yes" if i % 7 > 3 else "No")
        b = None if i % 3 == 0 else i % 7 > 1
        rows.append([f"c{i}", i % 7, f"=2*B{i + 2}", "text", a, b])
    return rows


def _complete(path, output, drop=("double",)):
    table = read_table(path, "tox_*")
    model = fit_table(table, FitOptions("linear", 0.1, 1.0), drop=drop, estimate_folds=0)
    completion = complete_table(model, table)
    write_completion(completion, table, output)
    return table, completion


def test_a_sheet_is_filled_and_the_rest_of_the_book_stays(sheet, tmp_path):
    rows = _half_filled()
    rows.insert(3, [None] * 6)
    path, output = sheet(rows), tmp_path / "filled.xlsx"
    book = openpyxl.load_workbook(path)
    book.active["D2"].value = "=1+1"
    book.active["D2"].data_type = "s"  # a text
    book.active["A2"].font = openpyxl.styles.Font(bold=True)
    book.active.column_dimensions["A"].width = 33
    book.save(path)
    table, completion = _complete(path, output)
    before, after = openpyxl.load_workbook(path), openpyxl.load_workbook(output)
    assert after.sheetnames == before.sheetnames
    old, new = before.active, after.active
    for place, value in (("D2", "s"), ("C2", "f")):
        assert new[place].value == old[place].value
        assert new[place].data_type == value
    assert new["A2"].font.bold
    assert new.column_dimensions["A"].width == 33
    numbers = [number for number in range(2, old.max_row + 1) if old.cell(number, 1).value]
    assert len(numbers) == table.n_rows
    for i, number in enumerate(numbers):
        for k, words in enumerate((("Yes", "No"), (True, False))):
            cell, was = new.cell(number, 5 + k).value, old.cell(number, 5 + k).value
            assert cell == (words[1 - completion.positive[i, k]] if was is None else was)
            p, look = (new.cell(number, 7 + 2 * k + j).value for j in (0, 1))
            assert (p is None) == (look is None) == (was is not None)
            assert p is None or p == round(float(completion.probabilities[i, k]), 4)
    assert [new.cell(1, 7 + j).value for j in range(2)] == ["tox_a__probability", "tox_a__look"]
    assert np.isfinite(read_table(output, ["tox_a", "tox_b"], as_text=["double"]).Y).all()
    with pytest.raises(ValueError, match=r"must end in \.xlsx"):
        _complete(path, tmp_path / "filled.csv")


def test_an_answer_that_begins_like_a_formula_is_text(sheet, tmp_path):
    rows = _half_filled()
    for row in rows[1:]:
        row[5] = None if row[5] is None else "=cmd" if row[5] else "other"
    path, output = sheet(rows), tmp_path / "filled.xlsx"
    book = openpyxl.load_workbook(path)
    for cell in book.active["F"]:
        cell.data_type = "s" if cell.value is not None else cell.data_type
    book.save(path)
    table = read_table(path, "tox_*", positive=["=cmd", "yes"])
    model = fit_table(table, FitOptions("linear", 0.1, 1.0), drop=["double"], estimate_folds=0)
    completion = complete_table(model, table)
    assert completion.positive[:, 1].any()
    write_completion(completion, table, output)
    cells = [cell for cell in openpyxl.load_workbook(output).active["F"] if cell.value == "=cmd"]
    assert len(cells) > sum(row[5] == "=cmd" for row in rows)
    assert {cell.data_type for cell in cells} == {"s"}


def test_an_observed_label_of_a_sheet_is_corrected(sheet, tmp_path):
    path, output = sheet(_half_filled()), tmp_path / "corrected.xlsx"
    table = read_table(path, "tox_*")
    wrong = np.zeros(table.Y.shape, dtype=bool)
    wrong[1, 0] = True
    corrected = Completion(
        table.label_names, wrong, wrong & (table.Y == 0), wrong, wrong.astype(float), []
    )
    write_completion(corrected, table, output, details=tmp_path / "details.csv")
    again = read_table(output, "tox_*").Y
    assert again[1, 0] == 1 - table.Y[1, 0]
    np.testing.assert_array_equal(again[~wrong], table.Y[~wrong])


def test_a_sheet_that_cannot_be_filled_is_left_alone(sheet, tmp_path):
    path, output = sheet(_half_filled()), tmp_path / "filled.xlsx"
    output.write_text("precious")
    book = openpyxl.load_workbook(path)
    book.active["E2"] = '=IF(B2>3,"Yes","No")'
    book.save(path)
    with pytest.raises(ValueError, match=r"label 'tox_a' in row 1 was read as missing"):
        _complete(path, output)
    book.active["E2"] = None
    book.active.merge_cells("D2:E2")
    book.save(path)
    with pytest.raises(ValueError, match="E2 is part of a merged cell"):
        _complete(path, output)
    book.active.unmerge_cells("D2:E2")
    book.active.append([None, None, "=1+1"])
    book.save(path)
    with pytest.raises(ValueError, match="read as 40 rows, but its sheet has 41"):
        _complete(path, output)
    assert output.read_text() == "precious"


def test_a_text_file_is_completed_as_a_sheet(tmp_path):
    rows = [f"=c{i};{i % 7},5;00{i};1.500;{['', 'Yes', 'No'][i % 3]};{i % 2}" for i in range(40)]
    path, output = tmp_path / "in.csv", tmp_path / "filled.xlsx"
    path.write_text("\n".join(["id;mass;key;odd;tox_a;tox_b", "", *rows, ""]))
    table, completion = _complete(path, output, drop=["key"])
    assert table.decimal == ","
    header, *found = openpyxl.load_workbook(output).active.iter_rows()
    names = ["id", "mass", "key", "odd", "tox_a", "tox_b", "tox_a__probability"]
    assert [cell.value for cell in header[:7]] == names
    assert len(found) == 40
    for i, cells in enumerate(found):
        values = [cell.value for cell in cells]
        assert values[:4] == [f"=c{i}", i % 7 + 0.5, f"00{i}", "1.500"]
        assert cells[0].data_type == "s"
        assert values[5] == i % 2
        assert values[4] == ("Yes" if completion.positive[i, 0] or i % 3 == 1 else "No")
        p = round(float(completion.probabilities[i, 0]), 4)
        assert values[6] == (None if i % 3 else p)


def test_what_excel_does_not_take_is_refused(tmp_path):
    for value, words in (("x" * 40_000, "32767 characters"), ("a\x01b", "control character")):
        with pytest.raises(ValueError, match=words):
            write_columns(tmp_path / "o.xlsx", {"a": [1], "b": [value]})
    with pytest.raises(ValueError, match="16384 columns"):
        write_columns(tmp_path / "o.xlsx", {str(j): [1] for j in range(2**14 + 1)})
    assert not list(tmp_path.iterdir())
    write_columns(tmp_path / "o.xlsx", {"a": [1, None], "b": ["=1+1", "yes"], "c": [True, 0.5]})
    found = read_sheet(tmp_path / "o.xlsx")
    assert found["b"].tolist() == ["=1+1", "yes"]
    assert found["c"].tolist() == [True, 0.5]
