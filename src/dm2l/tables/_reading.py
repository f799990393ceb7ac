"""Tables with label columns, from files of all common forms."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from dm2l.readers._columns import check_distinct, require
from dm2l.readers._csv_rows import refuse_short_rows
from dm2l.tables._answers import HOLES
from dm2l.tables._cells import plain, records
from dm2l.tables._matrices import MATRIX_FORMATS, read_matrix
from dm2l.tables._memory import CSV_FACTOR, PARQUET_FACTOR, check_size
from dm2l.tables._output import PARQUET, TEXT
from dm2l.tables._table import Table, find_labels, split_columns

# pandas compares letter by letter; columns of text are looked at once more.
_SPELT_HOLES = sorted({form for word in HOLES for form in (word, word.upper(), word.title())})
_SPELT_HOLES.append("NaN")

_SEPARATORS = ",;\t|"
_QUOTED = re.compile(rf'(?:^|(?<=[{_SEPARATORS}]))"[^"]*(?:""[^"]*)*"')


def read_table(
    path: str | Path,
    labels: int | str | Iterable[str] | None = None,
    *,
    missing: Iterable[Any] = (),
    as_text: Collection[str] = (),
    separator: str | None = None,
    decimal: str = ".",
    encoding: str = "utf-8",
    n_features: int | None = None,
    zero_based: bool | None = None,
    features_only: bool = False,
) -> Table:
    r"""Read a table, with its label columns if ``labels`` says which they are.

    Parameters
    ----------
    path : str or Path
        A .csv, .tsv or .parquet file with a header; or .arff, .svm, .npz or .mat, whose features
        are numbers and which mostly say themselves what is a label.
    labels : int, str or list of str, default=None
        Names, patterns such as ``"tox_*"``, prefixes that end in a sign such as ``"tox_"``, lists
        with commas, or the number of last columns. None: no column is a label, or those of which
        the file says so itself.
    missing : iterable, default=()
        Further marks of a label that was not observed; blanks, ``?`` and NA always are.
    as_text : collection of str, default=()
        Columns that are taken as text even if they hold numbers only.
    separator : str, default=None
        The character that separates columns of a text file; None goes by the header.
    decimal : str, default="."
        The decimal point of a text file.
    encoding : str, default="utf-8"
        Encoding of a text file.
    n_features : int, default=None
        Features of a .svm file, where it shows fewer.
    zero_based : bool, default=None
        Whether the first feature of a .svm file has index 0; None: if index 0 occurs.
    features_only : bool, default=False
        Whether the file is read without labels, even where it says itself what is one.

    Returns
    -------
    Table
        Features as they are, labels as 1, 0 and NaN.

    Raises
    ------
    ValueError
        If the file is no table, does not fit into memory, or a label holds something else than
        0/1, -1/+1, yes/no, true/false: value, column and row are named.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dm2l.tables import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "assays.csv")
    ...     _ = path.write_text("phase,mass,tox_liver,tox_skin\ngas,1.5,Yes,\nsolid,2,no,NA\n")
    ...     table = read_table(path, labels="tox_*")
    >>> table.feature_names, table.label_names
    (['phase', 'mass'], ['tox_liver', 'tox_skin'])
    >>> table.Y
    array([[ 1., nan],
           [ 0., nan]])
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if features_only:
        labels = None
    check_encoding(encoding)
    if suffix in MATRIX_FORMATS:
        return read_matrix(
            path,
            labels,
            n_features=n_features,
            zero_based=zero_based,
            features_only=features_only,
            encoding=encoding,
        )
    if suffix in PARQUET:
        return _read_parquet(path, labels, missing)
    if suffix not in TEXT:
        known = ", ".join((*TEXT, *PARQUET, *MATRIX_FORMATS))
        raise ValueError(f"{path}: the suffix {suffix!r} is none of {known}.")
    check_separator(separator)
    check_size(path, path.stat().st_size, CSV_FACTOR)
    names, separator = _header(path, separator, encoding)
    chosen = [] if labels is None else find_labels(names, labels, str(path))
    text = {names[j]: str for j in chosen} | {name: str for name in as_text if name in names}
    frame = _read_text(path, names, text, sep=separator, decimal=decimal, encoding=encoding)
    written = {"separator": separator, "decimal": decimal, "encoding": encoding}
    return split_columns(path, frame, names, chosen, missing, **written)


def check_separator(separator: str | None) -> None:
    """Refuse what cannot separate columns."""
    if separator is not None and (len(separator) != 1 or separator in '"\r\n'):
        raise ValueError(
            f"A separator is one character, such as ',' or ';', and no quote or line end; got "
            f"{separator!r}."
        )


def check_encoding(encoding: str) -> None:
    """Refuse an encoding that is none of text."""
    try:
        "".encode(encoding)
    except LookupError as error:
        raise ValueError(
            f"{encoding!r} is no encoding of text; there are utf-8, latin-1, cp1252 and many more."
        ) from error


def read_source(path: Path, encoding: str) -> tuple[str, str]:
    """The mark before the first character, if there is one, and the text after it."""
    try:
        text = path.read_bytes().decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(_not_encoded(path, encoding, error)) from error
    return ("\ufeff", text[1:]) if text.startswith("\ufeff") else ("", text)


def read_cells(table: Table, names: Sequence[str]) -> dict[str, list[Any]]:
    """Columns that are no labels as the table's file has them, text letter by letter."""
    frame = table.frame[list(names)]
    if table.path.suffix.lower() in TEXT:
        header, separator = _header(table.path, table.separator, table.encoding)
        text, wanted = dict.fromkeys(names, str), list(names)
        options = {"sep": separator, "encoding": table.encoding, "na_filter": False}
        frame = _read_text(table.path, header, text, usecols=wanted, **options)
        frame = frame.where(frame != "")
    cells = frame.astype(object).where(frame.notna(), None)
    return {name: cells[name].tolist() for name in names}


def _not_encoded(path: Path, encoding: str, error: UnicodeDecodeError) -> str:
    return (
        f"{path} is not encoded in {encoding}: byte {error.object[error.start]:#04x} at position "
        f"{error.start}. Name its encoding, for example --encoding latin-1 (encoding= in Python)."
    )


def _header(path: Path, separator: str | None, encoding: str) -> tuple[list[str], str]:
    try:
        with path.open(encoding=encoding, newline="") as file:
            head = next((line for line in file if line.strip("\ufeff \t\r\n")), "")
            while head.count('"') % 2 and (line := file.readline()):
                head += line
    except UnicodeDecodeError as error:
        raise ValueError(_not_encoded(path, encoding, error)) from error
    head = head.removeprefix("\ufeff")
    if not head:
        raise ValueError(f"{path} is empty; a header line is needed.")
    if separator is None:
        usual = "\t" if path.suffix.lower() in (".tsv", ".tab") else ","
        # Spreadsheets of countries with a decimal comma write semicolons.
        bare = _QUOTED.sub("", head)
        separator = usual if usual in bare else max(_SEPARATORS, key=bare.count)
    try:
        first = next(records(head, separator))
    except ValueError as error:
        raise ValueError(f"{path} has no readable header: {error}.") from error
    names = [plain(cell).strip() or f"column {j + 1}" for j, cell in enumerate(first.cells)]
    check_distinct(names, str(path))
    return names, separator


def _read_text(path: Path, names: list[str], text: dict[str, Any], **options: Any) -> Any:
    pandas = require("pandas", "io")
    with warnings.catch_warnings():
        # Rows longer than the header: pandas would cut them off and only warn.
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        try:
            frame = pandas.read_csv(
                path,
                names=names,
                header=0,
                index_col=False,
                dtype=text,
                keep_default_na=False,
                na_values=_SPELT_HOLES,
                low_memory=False,
                **options,
            )
        except UnicodeDecodeError as error:
            raise ValueError(_not_encoded(path, options["encoding"], error)) from error
        except (pandas.errors.ParserError, pandas.errors.ParserWarning) as error:
            raise ValueError(f"{path} is no table: {str(error).strip()}.") from error
    refuse_short_rows(frame, path, options["sep"], encoding=options["encoding"])
    return frame


def _read_parquet(path: Path, labels: Any, missing: Iterable[Any]) -> Table:
    parquet = require("pyarrow.parquet", "io")
    try:
        file = parquet.ParquetFile(path)
    except require("pyarrow", "io").ArrowInvalid as error:
        raise ValueError(f"{path} is no Parquet file: {error}") from error
    with file:
        groups = range(file.metadata.num_row_groups)
        size = sum(file.metadata.row_group(g).total_byte_size for g in groups)
        check_size(path, size, PARQUET_FACTOR)
        names = file.schema_arrow.names
        check_distinct(names, str(path))
        frame = file.read().to_pandas(ignore_metadata=True)
    chosen = [] if labels is None else find_labels(names, labels, str(path))
    return split_columns(path, frame, names, chosen, missing)
