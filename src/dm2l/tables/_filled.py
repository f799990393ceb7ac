"""Writing a completed table in the format of its file, without changing other cells."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

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
    added_columns,
    as_number,
    commonest_pair,
    cutoffs_of,
    parse_boolean,
    with_point,
)
from dm2l.io._label_columns import as_cell, json_list, label_columns, value_of
from dm2l.io._table import Record, quote, records, unquote
from dm2l.io._xlsx_file import MOST_COLUMNS, edit_sheet, mark_filled, write_sheet
from dm2l.tables._completion import Completion
from dm2l.tables._output import check_suffix, harmless, write_columns
from dm2l.tables._reading import Table

# Numbers without leading zeros and with at most the 15 digits that Excel keeps.
_NUMBER = re.compile(r"-?(?=(?:\d\.?){1,15}$)(?:0|[1-9]\d*)(\.\d+)?")


class ColumnAnswers(NamedTuple):
    """Masks, values and probabilities with which the cells of a label column are filled."""

    name: str
    missing: NDArray[np.bool_]  # cells that lack a label
    filled: NDArray[np.bool_]
    values: NDArray[Any]
    probability: NDArray[np.float64]
    look: NDArray[np.bool_]


def write_completion(
    completion: Completion,
    table: Table,
    output: str | Path,
    *,
    missing: Sequence[str] = (),
    details: str | Path | None = None,
    safe_csv: bool = False,
) -> None:
    """Write a table in which missing labels are filled with each column's texts for yes and no.

    In a text file, all other cells and line ends stay unchanged. For each label, the columns
    ``<label>__probability`` and ``<label>__look`` are added after the last column; their cells are
    blank for observed labels. With ``details``, no columns are added. Instead, the file ``details``
    has one line for each missing label and for each tag that is added to a column of tags.

    Parameters
    ----------
    completion : Completion
        The result of :func:`complete_table`.
    table : Table
        The table that was completed.
    output : str or Path
        A file in the format of the table; text may become ``.xlsx``, and matrices ``.npz``.
    missing : sequence of str, default=()
        Values that mark missing labels, as passed when the table was read.
    details : str or Path, default=None
        A .csv, .tsv, .parquet or .xlsx file for columns row, label, answer, probability and look.
    safe_csv : bool, default=False
        Whether to write ``'`` before text that a spreadsheet would run as a formula.
    """
    output, marks, inline = Path(output), MissingMarkers(missing), details is None
    check_form(table, output)
    if details is not None:
        check_suffix(Path(details))
    if table.bunch is not None:
        bunch = Bunch(**table.bunch)
        names = list(bunch.target_names or [f"y{k + 1}" for k in range(bunch.target.shape[1])])
        target = np.array(bunch.target, dtype=np.float64)
        for k, name in enumerate(table.label_names):
            filled = completion.filled[:, k]
            target[filled, names.index(name)] = completion.positive[filled, k]
        bunch["target"] = target if np.isnan(target).any() else target.astype(np.int8)
        bunch["target_names"] = names
        write_npz(output, bunch)
        answers = _answers(completion, table, np.where(table.Y == 1, "1", "0").T.tolist())
    elif suffix_of(table.path) in PARQUET:
        answers = _write_parquet(completion, table, inline, output)
    elif suffix_of(table.path) in EXCEL:
        answers = _write_sheet(completion, table, marks, inline, output)
    else:
        answers = _write_text(completion, table, marks, inline, output, safe_csv)
    if details is not None:
        write_columns(Path(details), _details(completion, table, answers), safe=safe_csv)


def check_form(table: Table, output: Path) -> None:
    """Reject an output whose suffix does not belong to the format of the table."""
    suffix = suffix_of(table.path)
    if table.bunch is not None:
        wanted: tuple[str, ...] = (".npz",)
    elif suffix in TEXT:
        wanted = (*TEXT, *EXCEL)
    elif suffix in (*PARQUET, *EXCEL):
        wanted = PARQUET if suffix in PARQUET else EXCEL
    elif suffix:
        raise ValueError(f"{table.path}: tables of type {suffix!r} cannot be completed as a file.")
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


def _details(done: Completion, table: Table, answers: Sequence[ColumnAnswers]) -> dict[str, Any]:
    lines: list[tuple[Any, ...]] = []
    for (name, (labels, group)), a in zip(label_columns(table).items(), answers, strict=True):
        if group is not None and group.kind == "tags":
            yes, look = (mask[:, labels] for mask in (done.filled & done.positive, done.look))
            p = done.probabilities[:, labels]
            cells: Any = ((i, group.values[k], p[i, k], look[i, k]) for i, k in np.argwhere(yes))
        else:
            rows = np.flatnonzero(a.missing)
            texts = [unquote(str(a.values[i])) if a.filled[i] else None for i in rows]
            cells = zip(rows, texts, a.probability[rows], a.look[rows], strict=True)
        lines += [(int(i) + 1, name, x, _shown(p), "yes" if n else "no") for i, x, p, n in cells]
    lines.sort(key=itemgetter(0))
    names = ("row", "label", "answer", "probability", "look")
    return {name: [line[j] for line in lines] for j, name in enumerate(names)}


def _shown(probability: float) -> float | None:
    return None if np.isnan(probability) else round(float(probability), 4)


def _added_places(table: Table, present: Sequence[str]) -> dict[str, int]:
    """Return the positions of added columns by name; columns that dm2l added before are reused."""
    names = [name + end for name in label_columns(table) for end in (PROBABILITY, LOOK)]
    places = {name: j for j, name in enumerate(present)}
    both = [name for name in names if name in places.keys() - added_columns(present)]
    if both:
        raise ValueError(
            f"{table.path} already has a column {both[0]!r}. Write probabilities to a second file "
            "with --details, or rename the column."
        )
    for name in names:
        places.setdefault(name, len(places))
    return {name: places[name] for name in names}


def _answers(
    done: Completion, table: Table, cells: Sequence[Any], write: Callable[[str], Any] = str
) -> list[ColumnAnswers]:
    """Return the imputed values of each label column, in the spelling of its ``cells``."""
    columns, found = label_columns(table), []
    # With a cutoff, the most common positive value would be an arbitrary number.
    numbers = cutoffs_of(list(columns), table.words.cutoffs, str(table.path))
    pairs = {name: table.words.written.get(name) for name in columns}
    for j, (name, (labels, group)) in enumerate(columns.items()):
        if group is None and j not in numbers:
            spelling = find_spelling(cells[j], table.Y[:, labels[0]])
            both = {0.0, 1.0} <= set(table.Y[:, labels[0]].tolist())
            # The opposite of a chosen positive value cannot be found in the cells.
            if both or not (pairs[name] and table.words.positive):
                pairs[name] = spelling or pairs[name]
    usual = next(filter(None, pairs.values()), ("1", "0"))
    for (name, (labels, group)), given in zip(columns.items(), cells, strict=True):
        arrays = (done.missing, done.filled, done.filled & done.positive, done.look)
        missing, filled, yes, look = (array[:, labels] for array in arrays)
        chance = done.probabilities[:, labels]
        if group is None:
            values = np.array(pairs[name] or usual, dtype=object)[np.where(yes[:, 0], 0, 1)]
        else:
            positive = yes
            if group.kind == "tags":  # new tags are added to the tags of the cell
                filled, look = yes, look & yes
            else:
                kept = (table.Y[:, labels] == 1) & ~yes.any(axis=1, keepdims=True)
                positive = np.where(filled, yes, kept)
            spelled = {value_of(unquote(str(cell))): cell for cell in given if cell is not None}
            values = np.full(len(yes), None, dtype=object)
            for i in np.flatnonzero(filled.any(axis=1)).tolist():
                before = "" if given[i] is None else unquote(as_cell(given[i]))
                value = group.cell(positive[i], chance[i], before)
                values[i] = spelled[value] if value in spelled else write(value)
                chance[i] = group.probability(chance[i], positive[i])
            open_ = ~filled.any(axis=1)  # these cells get the probability of the best value
            p = chance[open_]
            chance[open_, 0] = np.nan if group.kind == "tags" else group.probability(p, p > 0.5)
        there, given, near = (np.any(mask, axis=1) for mask in (missing, filled, look))
        found.append(ColumnAnswers(name, there, given, values, chance[:, 0], near))
    return found


def find_spelling(cells: Sequence[Any], answers: NDArray[np.float64]) -> tuple[Any, Any] | None:
    """Return the most common values of positive and negative cells; None if none is observed."""
    sides = (np.flatnonzero(answers == wanted).tolist() for wanted in (1.0, 0.0))
    return commonest_pair(*(Counter(cells[i] for i in rows) for rows in sides))


def _write_text(
    done: Completion, table: Table, marks: MissingMarkers, inline: bool, path: Path, safe: bool
) -> list[ColumnAnswers]:
    file: Any = table.file
    text, separator = file.text(), file.separator
    byte_order_mark = "\ufeff" if text.startswith("\ufeff") else ""
    lines = list(records(text.removeprefix("\ufeff"), separator))
    header = next(i for i, record in enumerate(lines) if not record.blank)
    names = file.names
    places = [names.index(name) for name in label_columns(table)]
    rows = [i for i in range(header + 1, len(lines)) if not lines[i].blank]
    _check_rows(table, names, [lines[i] for i in rows], inline)
    columns = [[lines[i].cells[place] for i in rows] for place in places]
    answers = _answers(done, table, columns, lambda value: quote(value, separator))
    added = _added_places(table, names) if inline else {}
    new = [name for name, place in added.items() if place >= len(names)]
    quoted = all(cell.startswith('"') for cell in lines[header].cells)
    lines[header].cells.extend(quote(name, separator, always=quoted) for name in new)
    for i in rows:
        lines[i].cells.extend([""] * len(new))
    filled: set[tuple[int, int]] = set()
    for place, answer in zip(places, answers, strict=True):
        for row in np.flatnonzero(answer.missing).tolist():
            cells = lines[rows[row]].cells
            _check_blank(table, row, answer.name, unquote(cells[place]), marks)
            if answer.filled[row]:
                cells[place] = answer.values[row]
                filled.add((row + 2, place))
            p = float(answer.probability[row])
            if inline and p == p:
                number = f"{p:.4f}".replace(".", table.decimal)
                cells[added[answer.name + PROBABILITY]] = quote(number, separator)
                cells[added[answer.name + LOOK]] = "yes" if answer.look[row] else "no"
    with atomic_write(path) as partial:
        if path.suffix.lower() in EXCEL:
            typed = (_typed(lines[i].cells, table.decimal) for i in (header, *rows))
            write_sheet(partial, typed, filled)
            return answers
        if safe:
            for record in lines:
                for j, text in enumerate(map(unquote, record.cells)):
                    if harmless(text) != text:
                        record.cells[j] = quote(harmless(text), separator)
        # Encode all lines at once, because some encodings begin each text with a byte order mark.
        text = "".join(separator.join(record.cells) + record.end for record in lines)
        partial.write_bytes((byte_order_mark + text).encode(file.encoding))
    return answers


def _typed(cells: list[str], decimal: str) -> list[Any]:
    """Convert the cells of a text file to numbers or text, and blank cells to None."""
    values: list[Any] = []
    for cell in map(unquote, cells):
        point = with_point(cell, decimal)
        number = _NUMBER.fullmatch(point)
        values.append(cell or None if number is None else float(point) if number[1] else int(point))
    return values


def _check_blank(table: Table, row: int, name: str, cell: Any, marks: MissingMarkers) -> None:
    """Raise an error if a cell was read as missing, but its text does not mark a missing value."""
    labels, group = label_columns(table)[name]
    tags = group is not None and group.kind == "tags"
    if tags or not np.isnan(table.Y[row, labels[0]]) or cell is None or str(cell) in marks:
        return
    hint = "save the file in a spreadsheet program" if table.file is None else "pass --separator"
    raise ValueError(
        f"{table.path}: label {name!r} in row {row + 1} was read as missing, but the file holds "
        f"{cell!r}. If the file has changed, read it again; otherwise, {hint}."
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
                + (", or pass --details to add no columns." if size > len(names) else ".")
            )


def _write_sheet(
    completion: Completion, table: Table, marks: MissingMarkers, inline: bool, path: Path
) -> list[ColumnAnswers]:
    # The texts for yes and no are read from the values of formulas. The workbook keeps formulas.
    columns = [table.cells[name].tolist() for name in label_columns(table)]
    answers = _answers(completion, table, columns)
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

    for answer in answers:
        place = names.index(answer.name) + 1
        for i in np.flatnonzero(answer.missing).tolist():
            _check_blank(table, i, answer.name, sheet.cell(rows[i], place).value, marks)
            if answer.filled[i]:
                put(rows[i], place, answer.values[i])
                mark_filled(sheet.cell(rows[i], place))
    added = _added_places(table, names) if inline else {}
    if max(added.values(), default=0) >= MOST_COLUMNS:
        raise ValueError(
            f"{table.path} has no room for {len(added)} more columns. Pass --details to write them "
            "to a second file."
        )
    for j, (name, place) in enumerate(added.items()):
        answer = answers[j // 2]
        put(header, place + 1, name)
        for i in np.flatnonzero(answer.missing & ~np.isnan(answer.probability)).tolist():
            look = "yes" if answer.look[i] else "no"
            put(rows[i], place + 1, look if j % 2 else _shown(answer.probability[i]))
    with atomic_write(path) as partial:
        book.save(partial)
    return answers


def _write_parquet(
    completion: Completion, table: Table, inline: bool, path: Path
) -> list[ColumnAnswers]:
    arrow, parquet = require("pyarrow", "io"), require("pyarrow.parquet", "io")
    content = parquet.read_table(table.path)
    names = list(content.column_names)
    places = [names.index(name) for name in label_columns(table)]
    columns = [content.column(place).to_pylist() for place in places]
    answers = _answers(completion, table, columns)
    for place, values, answer in zip(places, columns, answers, strict=True):
        field = content.schema.field(place)
        if arrow.types.is_null(field.type):  # a column of nulls has no type of its own
            field = field.with_type(arrow.int64())
        for i in np.flatnonzero(answer.filled).tolist():
            values[i] = _of_type(answer.values[i], field.type, arrow)
        content = content.set_column(place, field, arrow.array(values, type=field.type))
    added = _added_places(table, names) if inline else {}
    for j, (name, place) in enumerate(added.items()):
        answer, old = answers[j // 2], place < len(names)
        known = answer.missing & ~np.isnan(answer.probability)
        values = content.column(place).to_pylist() if old else [None] * table.n_rows
        for i in np.flatnonzero(known).tolist():
            values[i] = bool(answer.look[i]) if j % 2 else _shown(answer.probability[i])
        column = arrow.array(values, type=arrow.bool_() if j % 2 else arrow.float64())
        put = content.set_column if old else content.add_column
        content = put(place, name, column)
    with atomic_write(path) as partial:
        parquet.write_table(content, partial)
    return answers


def _of_type(value: Any, kind: Any, arrow: Any) -> Any:
    """Convert an imputed value to a value that a column of type ``kind`` can hold."""
    types = arrow.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_boolean(kind):
        return parse_boolean(str(value)) == 1
    if types.is_list(kind) or types.is_large_list(kind):
        return json_list(value)
    if not (types.is_integer(kind) or types.is_floating(kind)):
        return str(value)
    number = as_number(str(value))
    if number is None:
        raise ValueError(
            f"A column of numbers cannot be filled with {value!r}, which is not a number. Convert "
            "the table to .csv, where a column can hold numbers and text."
        )
    return number
