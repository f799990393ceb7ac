"""Tables with label columns, from files of all common forms."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch

from dm2l._utils.extras import require
from dm2l._utils.files import damaged_file_error
from dm2l.io import read_arff, read_mat, read_npz, read_svmlight
from dm2l.io._columns import check_distinct, choose_labels, labels_without, matches_pattern
from dm2l.io._csv_file import TEXT, CsvFile
from dm2l.io._parquet_file import PARQUET, read_frame
from dm2l.io._unpacking import open_unpacked, suffix_of
from dm2l.io._words import as_list
from dm2l.io._xlsx_file import EXCEL, read_sheet
from dm2l.tables._table import Table, made_up_names, split_columns

MATRIX_FORMATS = (".arff", ".svm", ".svmlight", ".libsvm", ".npz", ".mat")


def read_table(
    path: str | Path,
    labels: int | str | Iterable[str] | None = None,
    *,
    missing: Any = (),
    positive: Any = None,
    cutoffs: str | Iterable[str] = (),
    written: Mapping[str, tuple[str, str]] | None = None,
    as_text: Collection[str] = (),
    drop: str | Iterable[str] = (),
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str = "utf-8",
    n_features: int | None = None,
    zero_based: bool | None = None,
    features_only: bool = False,
) -> Table:
    r"""Read a table, with its label columns if ``labels`` says which they are.

    Parameters
    ----------
    path : str or Path
        A .csv, .tsv, .parquet or .xlsx file (its first sheet) with a header; or .arff, .svm, .npz
        or .mat, whose features are numbers and which mostly say themselves what is a label. Text
        may be packed, as in .csv.gz.
    labels : int, str or list of str, default=None
        Names, patterns such as ``"tox_*"``, prefixes that end in a sign such as ``"tox_"``, lists
        with commas, or the number of last columns. None: no column is a label, or those of which
        the file says so itself.
    missing : scalar or iterable, default=()
        Further marks of a label that was not observed; blanks, ``?`` and NA always are.
    positive : scalar, list or mapping, default=None
        What a positive label is called, as in :func:`dm2l.io.read_csv`.
    cutoffs : str or list of str, default=()
        Numbers from which on a label is a yes, as in :func:`dm2l.io.read_csv`.
    written : mapping of str to tuple of str, default=None
        Yes and no of labels with a positive value, as another table has written them.
    as_text : collection of str, default=()
        Columns, or patterns of columns, that are taken as text even if they hold numbers only.
    drop : str or list of str, default=()
        Columns of a .csv, .tsv, .parquet or .xlsx file that are no labels even if a pattern in
        ``labels`` means them; :func:`fit_table` takes the same, so that they are no features
        either.
    separator : str, default=None
        The character that separates columns of a text file; None goes by the header.
    decimal : str, default=None
        The decimal point of numbers that are text; None: a comma where the first rows of a text
        file have it and something else separates columns, else a point.
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
    DataFileError
        If the file is not a table, does not fit into memory, or a label holds anything other than
        0/1, -1/+1, yes/no and the like: value, column and row are named.

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
    suffix = suffix_of(path)
    if features_only:
        labels, positive, cutoffs = None, None, ()
    if suffix in MATRIX_FORMATS:
        if as_list(positive) or cutoffs:
            raise ValueError(
                f"{path}: its labels are 0 and 1, of which 1 is the positive one; --positive and "
                "--cutoff (positive=, cutoffs=) are for columns of a .csv or .parquet table."
            )
        if suffix == ".arff":
            bunch = read_arff(path, labels, encoding=encoding, features_only=features_only)
            labels = None
        elif suffix == ".npz":
            bunch = read_npz(path, features_only=features_only)
        elif suffix == ".mat":
            bunch = read_mat(path, features_only=features_only)
        else:
            bunch = read_svmlight(
                path,
                n_features,
                "auto" if zero_based is None else zero_based,
                features_only=features_only,
            )
        return _matrix_table(path, bunch, labels)
    answers = {"missing": missing, "positive": positive, "cutoffs": cutoffs, "written": written}
    if suffix in (*PARQUET, *EXCEL):
        frame = read_sheet(path) if suffix in EXCEL else read_frame(path, ignore_metadata=True)
        names = list(frame.columns)
        chosen = [] if labels is None else labels_without(names, labels, drop, str(path))
        return split_columns(path, frame, names, chosen, answers, decimal=decimal or ".")
    if suffix not in TEXT:
        known = ", ".join((*TEXT, *PARQUET, *EXCEL, *MATRIX_FORMATS))
        raise ValueError(f"{path}: the suffix {suffix!r} is none of {known}.")
    file = CsvFile(path, separator=separator, decimal=decimal, encoding=encoding)
    names = file.names
    chosen = [] if labels is None else labels_without(names, labels, drop, str(path))
    text = {names[j]: str for j in chosen}
    text |= {name: str for name in names if any(matches_pattern(name, part) for part in as_text)}
    text_form = {"separator": file.separator, "decimal": file.decimal, "encoding": encoding}
    frame = file.frame(text, keep_codes=True)
    return split_columns(path, frame, names, chosen, answers, **text_form)


def read_source(path: Path, encoding: str) -> tuple[str, str]:
    """The mark before the first character, if there is one, and the text after it."""
    try:
        with open_unpacked(path) as file:
            text = file.read().decode(encoding)
    except UnicodeDecodeError as error:
        raise damaged_file_error(path, "a table", error) from error
    return ("\ufeff", text[1:]) if text.startswith("\ufeff") else ("", text)


def read_cells(table: Table, names: Sequence[str]) -> dict[str, list[Any]]:
    """Columns that are not labels, as the table's file has them, text letter by letter."""
    frame = table.frame[list(names)]
    if suffix_of(table.path) in TEXT:
        file = CsvFile(table.path, separator=table.separator, encoding=table.encoding)
        frame = file.frame(dict.fromkeys(names, str), usecols=list(names), na_filter=False)
        frame = frame.where(frame != "")
    cells = frame.astype(object).where(frame.notna(), None)
    return {name: cells[name].tolist() for name in names}


def _matrix_table(path: Path, bunch: Bunch, labels: Any) -> Table:
    """A file of numbers, with those of its labels that are asked for."""
    X, Y = bunch.data, np.asarray(bunch.target, dtype=np.float64)
    names = list(bunch.feature_names or [])
    check_distinct(names, str(path))
    names = names or made_up_names(X.shape[1])  # of millions of columns, perhaps
    label_names = list(bunch.target_names or [f"y{k + 1}" for k in range(Y.shape[1])])
    if labels is not None:
        chosen = choose_labels(label_names, labels, f"the labels of {path}")
        label_names, Y = [label_names[k] for k in chosen], Y[:, chosen]
    frame = None
    if not sp.issparse(X):
        frame = require("pandas", "io").DataFrame(X, columns=names)
    return Table(
        path=path,
        frame=frame,
        matrix=X if frame is None else None,
        feature_names=names,
        label_names=label_names,
        Y=Y,
        bunch=bunch,
    )
