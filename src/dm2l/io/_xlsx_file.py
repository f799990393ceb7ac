"""Read, edit and write Excel files with a table in their first sheet."""

import math
import posixpath
import warnings
import zipfile
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn
from xml.parsers import expat

from dm2l._utils import require
from dm2l._utils.files import (
    MEMORY_HINT,
    AnyPath,
    DataFileError,
    available_memory,
    check_memory,
    check_regular,
    translate_errors,
)
from dm2l.io._columns import check_distinct

_PIECE = 2**16
_LONGEST = 2**20  # bytes of one tag or comment, which expat reads as a whole
# Tags and attributes cost time and memory. Sheets that compress well, such as sheets of zeros, have
# up to 3.7 tags and attributes and 24 bytes of XML for each byte of the file.
_MARKS_PER_BYTE = 6
_BYTES, _BYTES_PER_BYTE = 2**25, 100
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class Parts:
    """Reads the XML parts of an Excel file, whose total size is limited."""

    # ``marks`` is the number of tags and attributes that is allowed even in the smallest file.
    # ``factor`` is the number of bytes of memory that one byte of XML takes.
    def __init__(self, path: AnyPath, archive: zipfile.ZipFile, marks: int, factor: float) -> None:
        self.path, self.packed = path, check_regular(path)
        self._archive, self._factor, self._taken = archive, factor, 0.0
        self.members = {info.filename: info for info in archive.infolist()}
        self._marks = self._most_marks = marks + _MARKS_PER_BYTE * self.packed
        self._bytes = _BYTES + _BYTES_PER_BYTE * self.packed

    def refuse(self, reason: str, place: str = "") -> NoReturn:
        """Raise a DataFileError that names this file and suggests a .csv file."""
        hint = "Save the table as .csv and read the .csv file."
        raise DataFileError(self.path, reason, place=place, hint=hint)

    def parse(
        self,
        name: str,
        start: Callable[[str, dict[str, str]], Any],
        end: Callable[[str], Any] | None = None,
        text: Callable[[str], Any] | None = None,
    ) -> None:
        """Parse a part if it exists; callbacks receive the names of tags without prefixes."""
        info = self.members.get(name)
        if info is None:
            return
        self._bytes -= info.file_size  # zipfile never unpacks more than this size
        if self._bytes < 0:
            self.refuse(f"the XML exceeds {_BYTES + _BYTES_PER_BYTE * self.packed} bytes")
        self._taken += info.file_size * self._factor
        check_memory(self.path, self._taken, "a sheet of this size")
        if info.compress_type not in _PACKINGS:
            self.refuse(f"{name} is compressed by a method that Excel does not use")
        parser, reason = expat.ParserCreate(), "the file has a DOCTYPE, which is not allowed"
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = lambda *_: self.refuse(reason)
        parser.StartElementHandler = lambda tag, given: start(tag.rpartition(":")[2], given)
        if end is not None:
            parser.EndElementHandler = lambda tag: end(tag.rpartition(":")[2])
        parser.CharacterDataHandler = text
        fed = 0
        with self._archive.open(info) as file:
            while piece := file.read(_PIECE):
                self._marks -= piece.count(b"<") + piece.count(b"=")
                if self._marks < 0:
                    self.refuse(f"the file has more than {self._most_marks} tags and attributes")
                parser.Parse(piece)
                fed += len(piece)
                if fed - parser.CurrentByteIndex > _LONGEST:
                    self.refuse(f"a tag or a comment has more than {_LONGEST} bytes")
            parser.Parse(b"", True)


# Bytes of memory per byte of unpacked XML (about 40 bytes per cell): for reading, and for editing,
# where every cell is kept with its style.
_FACTOR, _EDITED = 3.0, 8.0
# Numbers of tags and attributes that are allowed in any file: for reading, and for editing, where
# openpyxl takes 10 times as long per tag.
_MARKS, _EDITED_MARKS = 2**20, 2**19
_BLANK = 32  # bytes of memory for a blank cell, including the data frame
# Limits on blank cells: table cells per cell with a value, and cells allowed in any table.
_SPARSE, _SMALL = 10, 2**22
# Limits on the characters in all cells (cells may share texts): in any file, and per byte of file.
_LETTERS, _LETTERS_PER_BYTE = 2**25, 100
# Cells, and tags that become openpyxl objects of about 500 bytes, that are allowed in any file.
_CELLS, _OBJECTS = 2**18, 2**17
_LIGHT = frozenset(("row", "v", "f", "is", "si", "t"))  # tags that do not become objects
# Merged cells, and characters of formulas shared by many cells, that are allowed in any file.
_MERGED, _SHARED = 2**17, 2**20
_UNNAMED = 100  # number of columns without a name that is allowed in any header
_MOST_ROWS, MOST_COLUMNS = 2**20, 2**14  # limits of Excel
_MOST_LETTERS = 2**15 - 1  # in a cell; openpyxl cuts off longer texts
_MOST_LETTERS_OF_A_FORMAT = 255


def read_sheet(path: AnyPath) -> Any:
    """Read the first sheet as a data frame, with column names from its first row."""
    # Formulas are read as their stored values. openpyxl may need gigabytes for a hostile file.
    pandas = require("pandas", "io")
    require("openpyxl", "excel")
    check_regular(path)
    with (
        translate_errors(path, "an Excel file", expat.ExpatError),
        zipfile.ZipFile(path) as archive,
    ):
        sheet = _Sheet(Parts(path, archive, marks=_MARKS, factor=_FACTOR))
    if not sheet.names:
        raise DataFileError(path, "the first sheet is empty. Put the table into the first sheet")
    check_distinct(sheet.names, str(path))
    return pandas.DataFrame(dict(zip(sheet.names, sheet.columns, strict=True)))


class _Sheet:
    """The column names in the first row of a sheet, and the values below them."""

    def __init__(self, parts: Parts) -> None:
        self.names: list[str] = []
        self.columns: list[list[Any]] = []
        self._parts = parts
        self._times = require("openpyxl.utils.datetime", "excel")
        name, kinds, self._epoch = _workbook(parts, self._times)
        self._strings = _strings(parts, kinds.get("sharedStrings", ""))
        self._dates = _date_styles(parts, kinds.get("styles", ""))
        self._letters = _LETTERS + _LETTERS_PER_BYTE * parts.packed
        self._held = 0  # cells with a value
        self._most = available_memory() / _BLANK
        self._read(name)

    def _read(self, sheet: str) -> None:
        column_index = require("openpyxl.utils", "excel").column_index_from_string
        number, digits = 0, ""
        row: list[Any] = []
        kind, style, place = "n", "", -1
        pieces, open_tags, text = _collector()

        def start(tag: str, given: dict[str, str]) -> None:
            nonlocal number, digits, kind, style, place
            open_tags.add(tag)
            if tag == "c":
                kind, style = given.get("t", "n"), given.get("s", "0")
                pieces.clear()
                reference = given.get("r")
                letters = "" if reference is None else reference.removesuffix(digits)
                place = place + 1 if reference is None else column_index(letters) - 1
                if place >= MOST_COLUMNS:
                    raise ValueError(f"row {number} has more columns than Excel supports")
            elif tag == "row":
                said = given.get("r")
                if said is not None and not (said.isdecimal() and number < int(said)):
                    raise ValueError(f"row {said} comes after row {number}")
                number = number + 1 if said is None else int(said)
                if number > _MOST_ROWS:
                    where = f"row {number} of the sheet"
                    self._parts.refuse("the file has more rows than Excel supports", where)
                digits, place = str(number), -1

        def end(tag: str) -> None:
            open_tags.discard(tag)
            if tag == "c":
                content = "".join(pieces)
                if content and (value := self._value(content, kind, style)) is not None:
                    if place < len(row):
                        raise ValueError(f"row {number} has two cells in the same column")
                    row.extend([None] * (place - len(row)))
                    row.append(value)
            elif tag == "row" and row:
                self._add(f"row {number} of the sheet", row)
                row.clear()

        self._parts.parse(sheet, start, end, text)

    def _add(self, place: str, row: list[Any]) -> None:
        path, size, blank = self._parts.path, len(row), row.count(None)
        if not self.names:
            if blank > max(_UNNAMED, size // 2):
                reason = f"{blank} of {size} columns have no name in the header"
                raise DataFileError(path, reason, hint="Name all columns, or clear unused cells.")
            texts = ("" if cell is None else str(cell).strip() for cell in row)
            self.names = [text or f"column {j}" for j, text in enumerate(texts, 1)]
            self.columns = [[] for _ in row]
            return
        if size > len(self.names):
            reason = f"there is a cell beyond the {len(self.names)} columns of the header"
            hint = "Name the column of the cell, or clear the cell."
            raise DataFileError(path, reason, place=place, hint=hint)
        self._held += size - blank
        made = len(self.columns) * (len(self.columns[0]) + 1)
        if made > self._most:
            raise DataFileError(path, "the file exceeds the memory", place=place, hint=MEMORY_HINT)
        if made > _SMALL + _SPARSE * self._held:
            self._parts.refuse(f"too many cells are blank: {made - self._held} of {made}", place)
        row += [None] * (len(self.names) - size)
        for column, value in zip(self.columns, row, strict=True):
            column.append(value)

    def _value(self, text: str, kind: str, style: str) -> Any:
        if kind == "n":
            if style in self._dates:
                lasts = self._dates[style]
                try:
                    return self._times.from_excel(float(text), self._epoch, timedelta=lasts)
                except (ValueError, OverflowError):
                    return "#VALUE!"
            if len(text) < 19 and text.isdecimal():
                return int(text)
            number = float(text)
            if not math.isfinite(number):
                raise ValueError(f"{text[:40]!r} is not a finite number")
            return int(number) if number.is_integer() and text.lstrip("-").isdecimal() else number
        if kind == "b":
            return bool(int(text))
        if kind == "d":
            return self._times.from_ISO8601(text)
        if kind == "s":
            if not text.isdecimal() or int(text) >= len(self._strings):
                raise ValueError(f"a cell refers to shared text {text[:40]}, which does not exist")
            text = self._strings[int(text)]
        self._letters -= len(text)
        if self._letters < 0:
            most = _LETTERS + _LETTERS_PER_BYTE * self._parts.packed
            self._parts.refuse(f"the cells have more than {most} characters in total")
        return text or None


def _workbook(parts: Parts, times: Any) -> tuple[str, dict[str, str], Any]:
    """Return the XML part of the first sheet, other parts by kind, and the epoch of dates."""
    book = _relations(parts, "")[1].get("officeDocument", "")
    by_id, by_kind = _relations(parts, book)
    sheets: list[str] = []
    epoch = times.WINDOWS_EPOCH

    def start(tag: str, given: dict[str, str]) -> None:
        nonlocal epoch
        if tag == "sheet":
            key = next((value for name, value in given.items() if name.endswith(":id")), "")
            kind, target = by_id.get(key, ("", ""))
            if kind == "worksheet" and target in parts.members:
                sheets.append(target)
        elif tag == "workbookPr" and given.get("date1904") in ("1", "true"):
            epoch = times.MAC_EPOCH

    parts.parse(book, start)
    if not sheets:
        raise ValueError("the file has no worksheet")
    return sheets[0], by_kind, epoch


def _relations(parts: Parts, name: str) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """Return the relations of an XML part: kinds and names of parts by id, and names by kind."""
    folder, file = posixpath.split(name)
    found: dict[str, tuple[str, str]] = {}

    def start(tag: str, given: dict[str, str]) -> None:
        if "Id" in given and "Target" in given and given.get("TargetMode") != "External":
            kind = given.get("Type", "").rpartition("/")[2]
            target = posixpath.normpath(posixpath.join("/", folder, given["Target"]))
            found[given["Id"]] = kind, target.lstrip("/")

    parts.parse(posixpath.join(folder, "_rels", f"{file}.rels"), start)
    return found, dict(reversed(found.values()))


def _strings(parts: Parts, name: str) -> list[str]:
    """Return the shared texts of a workbook, to which its cells refer by number."""
    found: list[str] = []
    pieces, open_tags, text = _collector()

    def end(tag: str) -> None:
        open_tags.discard(tag)
        if tag == "si":
            found.append("".join(pieces).replace("x005F_", ""))
            pieces.clear()

    parts.parse(name, lambda tag, _: open_tags.add(tag), end, text)
    return found


def _collector() -> tuple[list[str], set[str], Callable[[str], None]]:
    """Return a list of text pieces, the set of open tags, and a callback that fills the list."""
    pieces: list[str] = []
    open_tags: set[str] = set()

    def text(data: str) -> None:
        if ("v" in open_tags or "t" in open_tags) and "rPh" not in open_tags:  # a phonetic hint
            pieces.append(data)

    return pieces, open_tags, text


def _date_styles(parts: Parts, name: str) -> dict[str, bool]:
    """Map each style of dates and durations to True if it is a style of durations."""
    numbers = require("openpyxl.styles.numbers", "excel")
    formats = {str(key): code for key, code in numbers.BUILTIN_FORMATS.items()}
    styles: list[str] = []
    section = ""

    def start(tag: str, given: dict[str, str]) -> None:
        nonlocal section
        if tag == "numFmt":
            _check_format(parts, given)
            formats[given.get("numFmtId", "")] = given.get("formatCode", "")
        elif tag.endswith("Xfs"):
            section = tag
        elif tag == "xf" and section == "cellXfs":
            styles.append(given.get("numFmtId", "0"))

    parts.parse(name, start)
    dates = {
        key: numbers.is_timedelta_format(formats[key])
        for key in set(styles) & set(formats)
        if numbers.is_date_format(formats[key])
    }
    return {str(j): dates[key] for j, key in enumerate(styles) if key in dates}


def _check_format(parts: Parts, given: dict[str, str]) -> None:
    """Reject long number formats, for which openpyxl's regular expressions are very slow."""
    if len(given.get("formatCode", "")) > _MOST_LETTERS_OF_A_FORMAT:
        parts.refuse(f"a number format has more than {_MOST_LETTERS_OF_A_FORMAT} characters")


def edit_sheet(path: AnyPath) -> tuple[Any, Any, list[int]]:
    """Return a workbook for editing, its first sheet, and the row numbers of nonblank rows."""
    openpyxl = require("openpyxl", "excel")
    check_regular(path)
    with (
        translate_errors(path, "an Excel file", expat.ExpatError),
        Path(path).open("rb") as file,
        warnings.catch_warnings(),
    ):
        with zipfile.ZipFile(file) as archive:
            _EditCheck(Parts(path, archive, marks=_EDITED_MARKS, factor=_EDITED)).check()
        # openpyxl warns about styles and rules that it does not support.
        warnings.simplefilter("ignore")
        book = openpyxl.load_workbook(file)
        sheet = book.worksheets[0]
    # iter_rows would create all cells up to the last one.
    cells = sheet._cells.items()
    return book, sheet, sorted({row for (row, _), cell in cells if cell.value not in (None, "")})


class _EditCheck:
    """Rejects files for which openpyxl, which keeps every cell, would need too much memory."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._boundaries = require("openpyxl.utils", "excel").range_boundaries
        self._cells = self._objects = self._merged = 0
        # the last opened tag, and the number of characters after it
        self._tag, self._length = "", 0
        # number of cells with shared formulas, and the length of the longest formula
        self._sharing = self._longest = 0

    def check(self) -> None:
        """Raise an error if editing a part of the file would take too much memory."""
        for name in self._parts.members:
            self._sharing = self._longest = 0
            # openpyxl does not parse parts that are not XML, such as pictures.
            with suppress(expat.ExpatError):
                self._parts.parse(name, self._start, None, self._text)
            if self._sharing * self._longest > (most := _SHARED + self._parts.packed):
                self._parts.refuse(f"the shared formulas have more than {most} characters")

    def _start(self, tag: str, given: dict[str, str]) -> None:
        packed = self._parts.packed
        self._tag, self._length = tag, 0
        self._cells += tag == "c"
        self._objects += tag != "c" and tag not in _LIGHT
        if self._cells > _CELLS + packed or self._objects > _OBJECTS + packed // 2:
            most = f"{_CELLS + packed} cells or {_OBJECTS + packed // 2} other objects"
            self._parts.refuse(f"the file has more than {most}")
        if tag == "mergeCell":
            first, top, last, bottom = self._boundaries(given.get("ref", ""))
            self._merged += (last - first + 1) * (bottom - top + 1)
            if self._merged > _MERGED + packed:
                self._parts.refuse(f"the merged cells cover more than {_MERGED + packed} cells")
        elif tag == "f":
            self._sharing += given.get("t") == "shared"
        elif len(given.get("sqref", "")) > _MOST_LETTERS:
            self._parts.refuse(f"the ranges of a rule have more than {_MOST_LETTERS} characters")
        _check_format(self._parts, given)

    def _text(self, data: str) -> None:
        self._length += len(data)
        if self._tag == "f":
            self._longest = max(self._longest, self._length)
        elif self._length > _MOST_LETTERS_OF_A_FORMAT and self._tag.endswith(("Header", "Footer")):
            reason = f"a page header has more than {_MOST_LETTERS_OF_A_FORMAT} characters"
            self._parts.refuse(reason)


def mark_filled(cell: Any) -> None:
    """Give a cell the background colour of an imputed label."""
    styles = require("openpyxl.styles", "excel")
    cell.fill = styles.PatternFill("solid", fgColor="FFF2CC")


def write_sheet(
    path: AnyPath, rows: Iterable[Sequence[Any]], filled: Set[tuple[int, int]] = frozenset()
) -> None:
    """Write rows as the only sheet, without formulas; ``filled`` cells get a background colour."""
    openpyxl = require("openpyxl", "excel")
    make, fault = openpyxl.cell.WriteOnlyCell, openpyxl.utils.exceptions.IllegalCharacterError
    book = openpyxl.Workbook(write_only=True)
    sheet, instead = book.create_sheet(), ". Write a .csv file instead."
    try:
        for number, row in enumerate(rows, 1):
            longest = max((len(value) for value in row if isinstance(value, str)), default=0)
            if number > _MOST_ROWS or len(row) > MOST_COLUMNS or longest > _MOST_LETTERS:
                most = f"{_MOST_ROWS} rows, {MOST_COLUMNS} columns, {_MOST_LETTERS} characters"
                raise ValueError(f"Row {number} exceeds the limits of Excel ({most}){instead}")
            cells = [make(sheet, value) for value in row]
            for j, (cell, value) in enumerate(zip(cells, row, strict=True)):
                if isinstance(value, str):
                    cell.data_type = "s"
                if (number, j) in filled:
                    mark_filled(cell)
            sheet.append(cells)
    except fault as error:
        reason = f"Row {number} has a control character, which Excel rejects{instead}"
        raise ValueError(reason) from error
    finally:
        sheet.close()
    book.save(path)
