"""Writing a completed table in the format of its file, without changing other cells."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from dm2l._utils import require
from dm2l._utils.files import EXCEL, PARQUET, TEXT, atomic_write, suffix_of
from dm2l.io import write_npz
from dm2l.io._columns import (
    LOOK,
    PROBABILITY,
    MissingMarkers,
    as_number,
    commonest_pair,
    cutoffs_of,
    with_point,
)
from dm2l.io._table import Record, quote, records, unquote
from dm2l.io._xlsx_file import MOST_COLUMNS, edit_sheet, write_sheet
from dm2l.tables._completion import Completion
from dm2l.tables._output import check_suffix, harmless, write_columns
from dm2l.tables._reading import Table

# Numbers without leading zeros and with at most the 15 digits that Excel keeps.
_NUMBER = re.compile(r"-?(?=(?:\d\.?){1,15}$)(?:0|[1-9]\d*)(\.\d+)?")

Spelling = tuple[Any, Any]  # the values with which a column writes positive and negative labels


def write_completion(
    completion: Completion,
    table: Table,
    output: str | Path,
    *,
    missing: Sequence[str] = (),
    details: str | Path | None = None,
    safe_csv: bool = False,
) -> None:
    """Write a table with its missing labels filled, in the spelling of each column.

    In a text file, all other cells and line ends stay as they are. For each label, the columns
    ``<label>__probability`` and ``<label>__look`` are added after the last column, blank where the
    label was observed. With ``details``, no columns are added, and that file has a line for every
    missing label instead.

    Parameters
    ----------
    completion : Completion
        The result of :func:`complete_table`.
    table : Table
        The table that was completed.
    output : str or Path
        A file in the same format, or ``.xlsx`` for a text file; ``.npz`` for matrices of numbers.
    missing : sequence of str, default=()
        Marks of missing labels with which the table was read.
    details : str or Path, default=None
        A .csv, .tsv, .parquet or .xlsx file for row, label, answer, probability and look.
    safe_csv : bool, default=False
        Whether to write ``'`` before text that a spreadsheet would run as a formula.
    """
    output, marks, inline = Path(output), MissingMarkers(missing), details is None
    check_form(table, output)
    if details is not None:
        check_suffix(Path(details))
    if table.bunch is not None:
        _write_matrix(completion, table, output)
        spellings: list[Spelling] = [("1", "0")] * len(table.label_names)
    elif suffix_of(table.path) in PARQUET:
        spellings = _write_parquet(completion, table, inline, output)
    elif suffix_of(table.path) in EXCEL:
        spellings = _write_sheet(completion, table, marks, inline, output)
    else:
        spellings = _write_text(completion, table, marks, inline, output, safe_csv)
    if details is not None:
        write_columns(Path(details), _details(completion, spellings), safe=safe_csv)


def check_form(table: Table, output: Path) -> None:
    """Refuse an output whose suffix names another format than the table has."""
    suffix = suffix_of(table.path)
    if table.bunch is not None:
        wanted: tuple[str, ...] = (".npz",)
    elif suffix in TEXT:
        wanted = (*TEXT, *EXCEL)
    elif suffix in (*PARQUET, *EXCEL):
        wanted = PARQUET if suffix in PARQUET else EXCEL
    else:
        raise ValueError(
            "A table that was made from a data frame cannot be completed as a file. Assign "
            "completion.positive to the data frame where completion.missing is True, and write the "
            "data frame."
        )
    if output.suffix.lower() not in wanted:
        raise ValueError(
            f"{output} must end in {', '.join(wanted)}, because {table.path.name} is completed "
            "in its own format. Choose another name."
        )


def _details(completion: Completion, spellings: Sequence[Spelling]) -> dict[str, Any]:
    rows, labels = np.nonzero(completion.missing)
    filled, positive = completion.filled, completion.positive
    return {
        "row": (rows + 1).tolist(),
        "label": [completion.label_names[k] for k in labels],
        "answer": [
            unquote(str(spellings[k][0 if positive[i, k] else 1])) if filled[i, k] else None
            for i, k in zip(rows.tolist(), labels.tolist(), strict=True)
        ],
        "probability": [_shown(p) for p in completion.probabilities[rows, labels]],
        "look": np.where(completion.look[rows, labels], "yes", "no").tolist(),
    }


def _shown(probability: float) -> float | None:
    return None if np.isnan(probability) else round(float(probability), 4)


def _new_names(label_names: Sequence[str], present: Sequence[str], where: str) -> list[str]:
    names = [name + end for name in label_names for end in (PROBABILITY, LOOK)]
    known = set(present)
    both = [name for name in names if name in known]
    if both:
        raise ValueError(
            f"{where} already has a column {both[0]!r}. Write probabilities to a second file with "
            "--details, or rename the column."
        )
    return names


def _spellings(columns: Sequence[Sequence[Any]], table: Table) -> list[Spelling]:
    """Find the spelling of each column, or take the one of another column, or 1 and 0."""
    # With a cutoff, the most common positive value would be an arbitrary number.
    numbers = cutoffs_of(table.label_names, table.words.cutoffs, str(table.path))
    found = [
        (None if k in numbers else find_spelling(cells, table.Y[:, k]))
        or table.words.written.get(name)
        for k, (name, cells) in enumerate(zip(table.label_names, columns, strict=True))
    ]
    usual = next(filter(None, found), ("1", "0"))
    return [spelling or usual for spelling in found]


def find_spelling(cells: Sequence[Any], answers: NDArray[np.float64]) -> Spelling | None:
    """Find the most common values of positives and negatives; None without observed entries."""
    sides = (np.flatnonzero(answers == wanted).tolist() for wanted in (1.0, 0.0))
    return commonest_pair(*(Counter(cells[i] for i in rows) for rows in sides))


def _write_text(
    completion: Completion,
    table: Table,
    marks: MissingMarkers,
    inline: bool,
    path: Path,
    safe: bool,
) -> list[Spelling]:
    file: Any = table.file
    text, separator = file.text(), file.separator
    byte_order_mark = "\ufeff" if text.startswith("\ufeff") else ""
    text = text.removeprefix("\ufeff")
    lines = list(records(text, separator))
    header = next(i for i, record in enumerate(lines) if not record.blank)
    names = file.names
    places = [names.index(name) for name in table.label_names]
    rows = [i for i in range(header + 1, len(lines)) if not lines[i].blank]
    _check_rows(table, names, [lines[i] for i in rows], inline)
    columns = [[lines[i].cells[place] for i in rows] for place in places]
    spellings, filled = _spellings(columns, table), completion.filled
    for row, i in enumerate(rows):
        cells, added = lines[i].cells, [""] * (2 * len(places) if inline else 0)
        for k in np.flatnonzero(completion.missing[row]).tolist():
            if np.isnan(table.Y[row, k]) and unquote(cells[places[k]]) not in marks:
                raise _misread(table, row, k, cells[places[k]])
            if filled[row, k]:
                cells[places[k]] = spellings[k][0 if completion.positive[row, k] else 1]
            p = float(completion.probabilities[row, k])
            if inline and p == p:
                number = f"{p:.4f}".replace(".", table.decimal)
                look = "yes" if completion.look[row, k] else "no"
                added[2 * k : 2 * k + 2] = quote(number, separator), look
        cells += added
    if inline:
        quoted = all(cell.startswith('"') for cell in lines[header].cells)
        new = _new_names(table.label_names, names, str(table.path))
        lines[header].cells.extend(quote(name, separator, always=quoted) for name in new)
    with atomic_write(path) as partial:
        if path.suffix.lower() in EXCEL:
            write_sheet(partial, (_typed(lines[i].cells, table.decimal) for i in (header, *rows)))
            return spellings
        if safe:
            for record in lines:
                for j, text in enumerate(map(unquote, record.cells)):
                    if harmless(text) != text:
                        record.cells[j] = quote(harmless(text), separator)
        # Encoded at once, because some encodings begin each text with a byte order mark.
        text = "".join(separator.join(record.cells) + record.end for record in lines)
        partial.write_bytes((byte_order_mark + text).encode(file.encoding))
    return spellings


def _typed(cells: list[str], decimal: str) -> list[Any]:
    """Convert the cells of a text file to numbers, text, and None for blanks."""
    values: list[Any] = []
    for cell in map(unquote, cells):
        point = with_point(cell, decimal)
        number = _NUMBER.fullmatch(point)
        values.append(cell or None if number is None else float(point) if number[1] else int(point))
    return values


def _misread(table: Table, row: int, k: int, cell: Any) -> ValueError:
    hint = "Save the file in a spreadsheet program" if table.file is None else "Pass --separator"
    return ValueError(
        f"{table.path}: label {table.label_names[k]!r} in row {row + 1} was read as missing, but "
        f"the file holds {cell!r}. {hint} if the file has not changed."
    )


def _check_rows(table: Table, names: list[str], rows: list[Record], inline: bool) -> None:
    if len(rows) != table.n_rows:
        raise ValueError(
            f"{table.path} was read as {table.n_rows} rows, but its text has {len(rows)} rows. "
            "Check the quotes in the file, and pass its separator with --separator."
        )
    for number, record in enumerate(rows, 1):
        size = len(record.cells)
        if size < len(names) or (inline and size > len(names)):
            raise ValueError(
                f"{table.path}: row {number} has {size} cells, but the header has {len(names)}. "
                "Correct the row"
                + (", or pass --details, which adds no columns." if size > len(names) else ".")
            )


def _write_sheet(
    completion: Completion, table: Table, marks: MissingMarkers, inline: bool, path: Path
) -> list[Spelling]:
    # The spelling is found in the values of formulas; the workbook itself holds the formulas.
    spellings = _spellings([table.cells[name].tolist() for name in table.label_names], table)
    book, sheet, (header, *rows) = edit_sheet(table.path)
    names = table.columns
    merged = require("openpyxl.cell.cell", "excel").MergedCell
    if len(rows) != table.n_rows:
        raise ValueError(
            f"{table.path} was read as {table.n_rows} rows, but its sheet has {len(rows)} rows. "
            "Some formulas may have no stored values: open and save the file in a spreadsheet "
            "program."
        )

    def put(row: int, column: int, value: Any) -> None:
        cell = sheet.cell(row, column)
        if isinstance(cell, merged):
            raise ValueError(
                f"{table.path}: {cell.coordinate} is part of a merged cell and cannot be filled. "
                "Split the merged cell."
            )
        cell.value = value
        if isinstance(value, str):
            cell.data_type = "s"  # text that begins with = must not become a formula

    for k, name in enumerate(table.label_names):
        place = names.index(name) + 1
        for i in np.flatnonzero(completion.missing[:, k]).tolist():
            held = sheet.cell(rows[i], place).value
            if np.isnan(table.Y[i, k]) and held is not None and str(held) not in marks:
                raise _misread(table, i, k, held)
            if completion.filled[i, k]:
                put(rows[i], place, spellings[k][0 if completion.positive[i, k] else 1])
    added = _new_names(table.label_names, names, str(table.path)) if inline else []
    if len(names) + len(added) > MOST_COLUMNS:
        raise ValueError(
            f"{table.path} has no room for {len(added)} more columns. Pass --details, which adds "
            "no columns."
        )
    for j, name in enumerate(added):
        k, last = j // 2, len(names) + j + 1
        put(header, last, name)
        p = completion.probabilities[:, k]
        for i in np.flatnonzero(completion.missing[:, k] & ~np.isnan(p)).tolist():
            look = "yes" if completion.look[i, k] else "no"
            put(rows[i], last, look if j % 2 else _shown(p[i]))
    with atomic_write(path) as partial:
        book.save(partial)
    return spellings


def _write_parquet(
    completion: Completion, table: Table, inline: bool, path: Path
) -> list[Spelling]:
    arrow, parquet = require("pyarrow", "io"), require("pyarrow.parquet", "io")
    content = parquet.read_table(table.path)
    names = list(content.column_names)
    places = [names.index(name) for name in table.label_names]
    columns = [content.column(place).to_pylist() for place in places]
    spellings = _spellings(columns, table)
    for k, place in enumerate(places):
        field = content.schema.field(place)
        if arrow.types.is_null(field.type):  # a column of nulls has no type of its own
            field = field.with_type(arrow.int64())
        spelling = _of_type(spellings[k], field.type, arrow)
        values = columns[k]
        for i in np.flatnonzero(completion.filled[:, k]):
            values[i] = spelling[0 if completion.positive[i, k] else 1]
        content = content.set_column(place, field, arrow.array(values, type=field.type))
    if inline:
        added = iter(_new_names(table.label_names, names, str(table.path)))
        for k in range(len(places)):
            known = completion.missing[:, k] & ~np.isnan(completion.probabilities[:, k])
            p = np.where(known, np.round(completion.probabilities[:, k], 4), 0.0)
            probability = arrow.array(p, mask=~known)
            look = arrow.array(completion.look[:, k], mask=~known)
            content = content.append_column(next(added), probability)
            content = content.append_column(next(added), look)
    with atomic_write(path) as partial:
        parquet.write_table(content, partial)
    return spellings


def _of_type(spelling: Spelling, kind: Any, arrow: Any) -> Spelling:
    """Convert a spelling to values that a column of this type can hold."""
    types = arrow.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_boolean(kind):
        return True, False
    words = str(spelling[0]), str(spelling[1])
    if not (types.is_integer(kind) or types.is_floating(kind)):
        return words
    if words[0].startswith(("<", ">")):
        raise ValueError(
            f"A column of numbers cannot be filled with {words[0]} or {words[1]}, which are not "
            "numbers. Convert the table to .csv, where a column can hold numbers and text."
        )
    yes, no = map(as_number, words)
    return (1, 0) if yes is None or no is None else (yes, no)


def _write_matrix(completion: Completion, table: Table, path: Path) -> None:
    bunch = Bunch(**table.bunch)
    names = list(bunch.target_names or [f"y{k + 1}" for k in range(bunch.target.shape[1])])
    target = np.array(bunch.target, dtype=np.float64)
    for k, name in enumerate(table.label_names):
        filled, column = completion.filled[:, k], names.index(name)
        target[filled, column] = completion.positive[filled, k]
    bunch["target"] = target if np.isnan(target).any() else target.astype(np.int8)
    bunch["target_names"] = names
    write_npz(path, bunch)
