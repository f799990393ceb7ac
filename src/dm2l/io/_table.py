"""Read tables with a header from CSV and Parquet files."""

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from sklearn.utils import Bunch

from dm2l._utils import require
from dm2l._utils.files import (
    AnyPath,
    DataFileError,
    check_memory,
    check_regular,
    open_text,
    open_unpacked,
    suffix_of,
    translate_errors,
)
from dm2l.io import _columns
from dm2l.io._label_columns import LabelReader

# pandas only recognizes these exact spellings. Others are recognized when text columns are read.
_MISSING_SPELLINGS = ["NaN", *_columns.MISSING_WORDS]
_MISSING_SPELLINGS += [
    change(word) for word in _columns.MISSING_WORDS for change in (str.upper, str.title)
]

_SEPARATORS = ",;\t|"
_KEPT = 2**26  # bytes; unpacked files up to this size stay in memory for further passes
_PIECE = 2**20  # bytes that are read at once
_BEGINNING = 2**20  # characters from which the decimal point is guessed
_QUOTED = re.compile(rf'(?:^|(?<=[{_SEPARATORS}]))"[^"]*+(?:""[^"]*+)*+"')


def check_separator(separator: str | None) -> None:
    """Raise a ValueError if a text cannot be the separator between columns."""
    if separator is not None and (len(separator) != 1 or separator in '"\r\n'):
        wanted = "one character, such as ',' or ';', but no quote or line end"
        raise ValueError(f"A separator must be {wanted}; got {separator!r}.")


def check_encoding(encoding: str) -> None:
    """Raise a ValueError if a text encoding is unknown."""
    try:
        "".encode(encoding)
    except (LookupError, ValueError) as error:
        known = "for example utf-8, latin-1 or cp1252"
        raise ValueError(f"{encoding!r} is not a text encoding; use {known}.") from error


class Record(NamedTuple):
    """One record of a CSV file: its raw cells, including quotes, and its line end."""

    cells: list[str]
    end: str

    @property
    def blank(self) -> bool:
        """Whether the record is an empty line, which is not a row of the table."""
        return len(self.cells) == 1 and not self.cells[0].strip()


class _RecordCutter:
    """Splits lines into records by the rules of pandas and the csv module."""

    # A cell that begins with a quote ends at the closing quote and may contain line ends. Other
    # quotes are ordinary characters. With ``skip_blanks``, spaces before a quote are ignored.

    def __init__(self, separator: str, *, skip_blanks: bool = False) -> None:
        self._separator = separator
        rest = rf"[^{re.escape(separator)}\r\n]*+"
        self._quote = re.compile(' *"' if skip_blanks else '"')
        self._closed = re.compile(rf'[^"]*+(?:""[^"]*+)*+"{rest}')
        self._bare = re.compile(rest)
        self._cells: list[str] = []
        self.open: list[str] = []  # lines of a cell whose quote is not closed yet

    def cut(self, line: str) -> Record | None:
        """Return the record that ends with this line, or None if the record continues."""
        if not self.open and '"' not in line:
            text = line.rstrip("\r\n")
            return Record(text.split(self._separator), line[len(text) :])
        position = 0
        while True:
            start = position
            if not self.open and (quote := self._quote.match(line, position)) is not None:
                position = quote.end()
            quoted = self.open or position > start
            cell = (self._closed if quoted else self._bare).match(line, position)
            if cell is None:
                self.open.append(line[start:])
                return None
            self._cells.append("".join([*self.open, line[start : cell.end()]]))
            self.open = []
            position = cell.end()
            if line[position : position + 1] != self._separator:
                cells, self._cells = self._cells, []
                return Record(cells, line[position:])
            position += 1


def records(text: str, separator: str) -> Iterator[Record]:
    """Yield the records of a text; the joined records are equal to the text."""
    cutter, begin = _RecordCutter(separator), 1
    for number, line in enumerate(io.StringIO(text, newline=""), 1):
        begin = begin if cutter.open else number
        record = cutter.cut(line)
        if record is not None:
            yield record
    if cutter.open:
        raise ValueError(f"a quote that opens in line {begin} is never closed")


def unquote(cell: str) -> str:
    """Return the value of a cell without its quotes."""
    close = re.match(r'"[^"]*+(?:""[^"]*+)*+"', cell)
    if close is None:
        return cell
    return close[0][1:-1].replace('""', '"') + cell[close.end() :]


def quote(value: str, separator: str, *, always: bool = False) -> str:
    """Return the cell for a value, in quotes if necessary or if ``always`` is true."""
    needs = value != value.strip() or any(mark in value for mark in (separator, '"', "\r", "\n"))
    return '"' + value.replace('"', '""') + '"' if needs or always else value


class CsvFile:
    """A text file; ``names`` are the column names in the header line."""

    # With ``skip_blanks``, spaces before a cell are ignored. With ``whole``, all rows must fit into
    # memory, and files of moderate size are opened only once.
    def __init__(
        self,
        path: AnyPath,
        *,
        separator: str | None = None,
        decimal: str | None = ".",
        encoding: str = "utf-8",
        skip_blanks: bool = False,
        whole: bool = True,
    ) -> None:
        check_separator(separator)
        check_encoding(encoding)
        self.path, self.encoding, self._skip_blanks = Path(path), encoding, skip_blanks
        content = None
        if whole and self.path.stat().st_size <= _KEPT:
            with open_unpacked(self.path) as file:
                # The file is read in pieces, as one large read would allocate all memory at once.
                pieces = takewhile(len, (file.read(_PIECE) for _ in range(_KEPT // _PIECE + 1)))
                content = b"".join(pieces)
            content = content if len(content) <= _KEPT else None
        self._text = partial(open_text, path, encoding, "a table", whole=whole, content=content)
        with self._text() as lines:
            beginning = (lines.read(_BEGINNING) + lines.readline()).removeprefix("\ufeff")
        # The first line that is not blank, and all lines over which its quoted cells extend.
        rest = io.StringIO(beginning, newline="")
        parts = [next((line for line in rest if line.strip("\ufeff \t\r\n")), "")]
        quotes = parts[0].count('"')
        while quotes % 2 and (line := rest.readline()):
            parts.append(line)
            quotes += line.count('"')
        head = "".join(parts)
        if not head:
            raise DataFileError(self.path, "the file is empty", hint="Add a header line.")
        if separator is None:
            usual = "\t" if suffix_of(path) in (".tsv", ".tab") else ","
            # Spreadsheet programs separate columns by semicolons if the decimal point is a comma.
            bare = _QUOTED.sub("", head)
            separator = usual if usual in bare else max(_SEPARATORS, key=bare.count)
        self.separator = separator
        self.decimal = _decimal_sign(beginning, separator) if decimal is None else decimal
        with translate_errors(path, "a table with a header"):
            first = next(records(head, separator))
        cells = [unquote(cell.lstrip() if skip_blanks else cell).strip() for cell in first.cells]
        self.names = [name or f"column {j + 1}" for j, name in enumerate(cells)]
        _columns.check_distinct(self.names, str(path))
        self._checked = False  # whether all rows are known to have as many cells as the header

    def text(self) -> str:
        """Return the whole file as text."""
        with self._text() as lines:
            return lines.read()

    def frame(self, text: Mapping[str, Any], *, keep_codes: bool = False, **options: Any) -> Any:
        """Return the rows as a data frame; ``keep_codes`` keeps codes such as 007 as text."""
        mark = re.escape(self.separator)
        # Patterns that begin with a literal character are much faster. The pattern therefore begins
        # with the zero, and a look-behind checks the character before it.
        zeros = re.compile(rf'0(?<![^"\s{mark}]0)\d++(?=["\s{mark}]|$)')
        with self._rows(zeros if keep_codes else None) as rows:
            frame = self._parse(rows, text, **options)
        if keep_codes and rows.found:
            numbers = [
                name
                for name in self.names
                if name not in text and frame[name].dtype.kind in "iuf"
                if (frame[name].dropna() % 1 == 0).all()
            ]
            texts = self.frame(dict.fromkeys(numbers, str), usecols=numbers)
            codes = [name for name in numbers if _columns.are_codes(texts[name].dropna().unique())]
            frame[codes] = texts[codes]
        return frame

    def frames(self, rows: int, text: Mapping[str, Any], columns: list[str]) -> Iterator[Any]:
        """Yield data frames of at most ``rows`` rows each."""
        with self._rows() as source:
            chunks = self._parse(source, text, usecols=columns, chunksize=rows, low_memory=True)
            while True:
                with self._problems():
                    frame = next(chunks, None)
                if frame is None:
                    break
                yield frame

    def _parse(self, rows: Any, text: Mapping[str, Any], **options: Any) -> Any:
        settings = {
            "names": self.names,
            "header": 0,
            "index_col": False,
            "sep": self.separator,
            "decimal": self.decimal,
            "dtype": dict(text),
            "keep_default_na": False,
            "na_values": _MISSING_SPELLINGS,
            "low_memory": False,
            "skipinitialspace": self._skip_blanks,
        }
        with self._problems():
            return require("pandas", "io").read_csv(rows, **settings | options)

    @contextmanager
    def _problems(self) -> Iterator[None]:
        with translate_errors(self.path, "a table"), warnings.catch_warnings():
            # pandas truncates rows that are longer than the header and only warns about it.
            warnings.simplefilter("error", require("pandas", "io").errors.ParserWarning)
            yield

    @contextmanager
    def _rows(self, wanted: re.Pattern[str] | None = None) -> Iterator[Any]:
        """Open the file for pandas; the first pass checks the number of cells of every row."""
        with self._text() as lines:
            checked = check_rows(
                lines, self.path, self.separator, len(self.names), skip_blanks=self._skip_blanks
            )
            skip_check = self._checked and wanted is None
            yield lines if skip_check else LineReader(checked, wanted)
            self._checked = True


def _decimal_sign(beginning: str, separator: str) -> str:
    """Guess the decimal point, "." or ",", from the cells that hold numbers."""
    if separator == ",":
        return "."
    edge = rf'["\r\n{re.escape(separator)}]'
    thousands = rf"[1-9]\d{{0,2}}[.,]\d{{3}}{edge}"  # ignored, may be thousands
    number = re.compile(rf"(?<={edge})[+-]?(?!{thousands})\d+([.,])\d+(?={edge})")
    return "," if set(number.findall(beginning)) == {","} else "."


class LineReader:
    """File object that gives lines to pandas; ``found`` is True once a line matched ``wanted``."""

    def __init__(self, lines: Iterator[str], wanted: re.Pattern[str] | None = None) -> None:
        self._lines, self._wanted = lines, wanted
        self.found = False

    def read(self, size: int = -1) -> str:
        """Return the next lines, with about ``size`` characters in total."""
        found, length = [], 0
        for line in self._lines:
            found.append(line)
            length += len(line)
            if 0 <= size <= length:
                break
        text = "".join(found)
        if self._wanted is not None and not self.found:
            self.found = self._wanted.search(text) is not None
        return text


def check_rows(
    lines: TextIO, path: AnyPath, separator: str, width: int, *, skip_blanks: bool = False
) -> Iterator[str]:
    """Yield the lines unchanged; raise an error if a row has more or fewer cells than columns."""
    # pandas would fill short rows with missing values.
    cutter = _RecordCutter(separator, skip_blanks=skip_blanks)
    blanks = " \t\r\n\ufeff".replace(separator, "")
    row, begin = 0, 1
    for number, line in enumerate(lines, 1):
        # A line without quotes is one row, whose cells are counted by its separators.
        if not cutter.open and '"' not in line:
            begin, count = number, 1 + line.count(separator)
            cells = count if count == width > 1 or line.strip(blanks) else 0
        else:
            begin = begin if cutter.open else number
            record = cutter.cut(line.removeprefix("\ufeff") if number == 1 else line)
            cells = 0 if record is None else len(record.cells)
        if cells and cells != width:
            reason = f"row {row} has {cells} cells, but the header has {width}"
            hint = "Write one cell per column in every row."
            raise DataFileError(path, reason, place=f"line {begin}", hint=hint)
        row += cells > 0
        yield line


_FACTOR = 4.0  # bytes of memory per byte of an unpacked Parquet table


def read_csv(
    path: str | Path,
    labels: int | str | Iterable[str],
    *,
    missing: Any = None,
    positive: Any = None,
    cutoffs: str | Iterable[str] = (),
    drop: str | Iterable[str] = (),
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str = "utf-8",
) -> Bunch:
    r"""Read features and labels from a CSV file with a header line.

    Label columns hold 0/1, -1/+1, yes/no, true/false, active/inactive, positive/negative or +/-,
    in upper or lower case, or only check marks (``x``, ``*``, ``✓``) and blanks. A column with 3 to
    50 other values becomes one label per value, such as ``"stage=II"``.

    Parameters
    ----------
    path : str or Path
        The file. Files that end in ``.gz``, ``.bz2``, ``.xz`` or ``.zip`` are unpacked.
    labels : int, str or list of str
        The label columns: names, patterns such as ``"tox_*"``, prefixes such as ``"tox_"`` (which
        must end in a punctuation mark), or the number of label columns at the end of the table.
        Commas separate several names or patterns: ``"NR-*,SR-*"``.
    missing : scalar or list, default=None
        Additional values that mark missing labels, such as ``-1`` or ``"unknown"``. Blanks, ``?``,
        NA, NaN, null and none always mark missing labels.
    positive : scalar, list or mapping, default=None
        The positive value of labels with two other values, such as ``2`` if these are 1 and 2. A
        mapping gives positive values by the name or pattern of labels: ``{"dx_*": "found"}``.
    cutoffs : str or list of str, default=()
        Conditions under which numeric labels are positive, such as ``"fold_*>=2"``. Operators are
        ``>=``, ``>``, ``<=`` and ``<``. Instead of a number, a cell may hold a bound, such as
        ``>10``, if every number within the bound gives the same label.
    drop : str or list of str, default=()
        Columns to ignore, in the same syntax as ``labels``.
    separator, decimal : str, default=None
        The column separator and the decimal point. If None, they are guessed from the first rows.
    encoding : str, default="utf-8"
        The text encoding of the file.

    Returns
    -------
    Bunch
        ``data`` (dense float64, with NaN for missing values), ``target`` (int8 0/1, or float64
        with NaN for missing labels), ``target_names`` and ``feature_names``. Other keys, such as
        ``train_index``, are None.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dm2l.io import read_csv
    >>> text = "id,mass,charge,tox_liver,tox_skin\na,1.5,0,1,?\nb,2.5,-1,,0\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "assays.csv")
    ...     _ = path.write_text(text)
    ...     assays = read_csv(path, labels="tox_*", drop="id")
    >>> assays.feature_names, assays.target_names, assays.target.tolist()
    (['mass', 'charge'], ['tox_liver', 'tox_skin'], [[1.0, nan], [nan, 0.0]])
    """
    file = CsvFile(path, separator=separator, decimal=decimal, encoding=encoding, skip_blanks=True)
    # Labels are read as text, so that pandas does not change them.
    text = {file.names[j]: str for j in _columns.choose_labels(file.names, labels, str(path))}
    words = {"missing": missing, "positive": positive, "cutoffs": cutoffs, "decimal": file.decimal}
    return _bunch(path, file.frame(text), labels, drop, words)


def read_parquet(
    path: str | Path,
    labels: int | str | Iterable[str],
    *,
    missing: Any = None,
    positive: Any = None,
    cutoffs: str | Iterable[str] = (),
    drop: str | Iterable[str] = (),
) -> Bunch:
    """Read features and labels from a Parquet file.

    Parameters
    ----------
    path : str or Path
        The file. Parquet files require pandas and pyarrow (the extra ``io``).
    labels, missing, positive, cutoffs, drop
        As in :func:`read_csv`. Nulls are missing labels, too.

    Returns
    -------
    Bunch
        The same keys as in :func:`read_csv`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from dm2l.io import read_parquet
    >>> frame = pd.DataFrame({"mass": [1.5, 2.5], "liver": [True, None], "skin": [0, 1]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     frame.to_parquet(Path(folder, "assays.parquet"))
    ...     read_parquet(Path(folder, "assays.parquet"), labels=2).target.tolist()
    [[1.0, 0.0], [nan, 1.0]]
    """
    words = {"missing": missing, "positive": positive, "cutoffs": cutoffs}
    return _bunch(path, read_frame(path), labels, drop, words)


def read_labels(
    Y: Any,
    *,
    missing: Any = None,
    positive: Any = None,
    cutoffs: str | Iterable[str] = (),
    values: str | Iterable[str] = (),
    split: Any = None,
) -> Any:
    """Convert labels that are words or numbers to 1, 0 and NaN.

    Parameters
    ----------
    Y : data frame, or array-like of shape (n, c)
        The labels. Columns of an array are named ``"0"``, ``"1"`` and so on.
    missing, positive, cutoffs
        As in :func:`read_csv`.
    values : str or list of str, default=()
        Names or patterns of label columns in which each value becomes a label, even if dm2l would
        otherwise read the column as one label. ``"pain=low<mid<high"`` declares an order and gives
        the labels ``"pain>=mid"`` and ``"pain>=high"``.
    split : str or mapping, default=None
        The text between two tags, such as ``","``; or a mapping from names or patterns of columns
        to such texts. Each tag becomes a label, which is missing in cells without this tag. Columns
        of JSON lists are recognized automatically.

    Returns
    -------
    pandas.DataFrame or ndarray, float64
        Labels as 1, 0 and NaN (missing). If ``Y`` is a data frame, the result is a data frame
        with the same index, in which some columns may be replaced by several labels.

    Examples
    --------
    >>> from dm2l.io import read_labels
    >>> read_labels([["active", "+"], [None, "-"]]).tolist()
    [[1.0, 1.0], [nan, 0.0]]
    >>> read_labels([[1, 2.5], [2, None]], positive=2, cutoffs="1>=2").tolist()
    [[0.0, 1.0], [1.0, nan]]
    >>> import pandas as pd
    >>> read_labels(pd.DataFrame({"stage": ["I", "II", "III", "II"]})).columns.tolist()
    ['stage=I', 'stage=II', 'stage=III']
    """
    if hasattr(Y, "to_pandas"):  # polars
        Y = Y.to_pandas()
    frame = Y if hasattr(Y, "iloc") else require("pandas", "io").DataFrame(Y)
    names = [str(name) for name in frame.columns]
    words = {"missing": missing, "positive": positive, "cutoffs": cutoffs}
    reader = LabelReader(names, "Y", values=values, split=split, first_row=0, **words)
    target = reader.read([frame.iloc[:, j] for j in range(len(names))])
    if frame is not Y:
        return target
    columns = frame.columns if reader.names == names else reader.names
    return frame.__class__(target, index=frame.index, columns=columns)


def _bunch(
    path: str | Path, frame: Any, labels: Any, drop: str | Iterable[str], words: Mapping[str, Any]
) -> Bunch:
    names = [str(name) for name in frame.columns]
    chosen = _columns.choose_labels(names, labels, str(path))
    features = _columns.split_columns(names, chosen, drop, str(path))
    if len(frame) == 0:
        raise DataFileError(path, "there are no rows below the header. Add data rows")
    label_names = [names[j] for j in chosen]
    reader = LabelReader(label_names, str(path), **words)
    target = reader.read([frame.iloc[:, j] for j in chosen])
    what = f"a matrix of {len(frame)} rows and {len(features)} columns"
    check_memory(path, 8 * len(frame) * len(features), what)
    reasons = ((names[j], _no_numbers(frame.iloc[:, j])) for j in features)
    unusable = [f"{name!r} {reason}" for name, reason in reasons if reason]
    if unusable:
        more = f", and {len(unusable) - 5} more" if len(unusable) > 5 else ""
        hint = "Convert the columns to numbers, or list them in labels= (if labels) or drop=."
        reason = f"features must be numbers, but {'; '.join(unusable[:5])}{more}"
        raise DataFileError(path, reason, hint=hint)
    data = np.empty((len(frame), len(features)))
    for position, j in enumerate(features):
        data[:, position] = frame.iloc[:, j].to_numpy(dtype=np.float64, na_value=np.nan)
    return _columns.make_bunch(
        data,
        target if np.isnan(target).any() else target.astype(np.int8),
        target_names=reader.names,
        feature_names=[names[j] for j in features],
    )


def _no_numbers(column: Any) -> str:
    """Return why a column cannot be a feature, or an empty text if it can."""
    dtype, types = column.dtype, require("pandas", "io").api.types
    present = column.dropna()
    if len(present) == 0:
        return "is empty"
    booleans = types.is_object_dtype(dtype) and all(isinstance(value, bool) for value in present)
    if booleans or (types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype)):
        return ""
    for row, value in enumerate(column, 1):
        if isinstance(value, str) and _columns.as_number(value) is None:
            return f"holds text ({value[:40]!r} in row {row})"
    return f"is of type {dtype}"


def translate_arrow_errors(path: AnyPath) -> Any:
    """Return a context manager that turns errors of pyarrow into :class:`DataFileError`."""
    arrow = require("pyarrow", "io")
    return translate_errors(path, "a Parquet file", arrow.lib.ArrowException)


@contextmanager
def open_parquet(path: AnyPath, **options: Any) -> Iterator[Any]:
    """Open a ``pyarrow.parquet.ParquetFile`` and check that its column names are distinct."""
    parquet = require("pyarrow.parquet", "io")
    check_regular(path)
    with translate_arrow_errors(path):
        file = parquet.ParquetFile(path, **options)
        names = list(file.schema_arrow.names)
    with file:
        _columns.check_distinct(names, str(path))
        yield file


def read_frame(path: AnyPath, *, ignore_metadata: bool = False) -> Any:
    """Read a Parquet file as a data frame; raise an error if it does not fit into memory."""
    require("pandas", "io")
    types = require("pyarrow", "io").types
    with open_parquet(path) as file, translate_arrow_errors(path):
        metadata, schema = file.metadata, file.schema_arrow
        rows, columns = metadata.num_rows, len(schema.names)
        groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
        # Parquet stores repeated values once, so the number of cells is a second estimate.
        size = max(sum(group.total_byte_size for group in groups), 8 * rows * columns)
        texts = [f.name for f in schema if types.is_string(f.type) or types.is_large_string(f.type)]
    check_memory(path, _FACTOR * size, f"a table of {rows} rows and {columns} columns")
    # Repeated texts are read as dictionaries. Otherwise, a file of 3 KB could take 4 GB of memory.
    with open_parquet(path, read_dictionary=texts) as file, translate_arrow_errors(path):
        frame = file.read().to_pandas(ignore_metadata=ignore_metadata)
        for name in texts:
            if name in frame:  # it may be the index
                frame[name] = frame[name].astype(object)
    return frame
