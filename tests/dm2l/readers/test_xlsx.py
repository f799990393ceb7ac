"""Excel files: the first sheet is a table."""

import zipfile

import numpy as np
import pandas as pd
import pytest

from dm2l.files import DataFileError
from dm2l.readers.xlsx_file import read_sheet
from dm2l.tables import Wishes, complete_table, fit_table, read_table, write_completion

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
    wishes = Wishes("linear", 0.1, 1.0)
    a, b = (fit_table(table, wishes, estimate_folds=0) for table in (found, same))
    assert a.uses == b.uses
    assert np.array_equal(a.classifier.coef_, b.classifier.coef_)
    with pytest.raises(ValueError, match=r"save it as \.csv"):
        write_completion(complete_table(a, found), found, tmp_path / "filled.xlsx")


def test_what_is_no_table_is_refused(sheet, tmp_path):
    with pytest.raises(DataFileError, match=r"row 3 of the sheet: a cell beyond the 2 columns"):
        read_sheet(sheet([["a", "b"], [1, 2], [1, None, 3]]))
    with pytest.raises(DataFileError, match="first sheet is empty"):
        read_sheet(sheet([]))
    with pytest.raises(ValueError, match="'a'"):
        read_sheet(sheet([["a", "a"], [1, 2]]))
    path = tmp_path / "broken.xlsx"
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(DataFileError, match="not an Excel file, or a damaged one"):
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
    monkeypatch.setattr("dm2l.readers.xlsx_file._MOST_ROWS", 1000)
    with pytest.raises(DataFileError, match=r"row 1001 of the sheet: more rows than Excel has"):
        read_sheet(path)
    path = sheet([[None] * 16_383 + ["last"]] + [[1]] * 50)
    monkeypatch.setattr("dm2l.readers.xlsx_file.room", lambda: 2**24)
    with pytest.raises(DataFileError, match=r"row 35 of the sheet: more than fits in memory"):
        read_sheet(path)
