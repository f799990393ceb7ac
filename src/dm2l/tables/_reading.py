"""Reading tables from files and data frames: raw features, and labels as 1, 0 and NaN."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._utils import require
from dm2l._utils.files import EXCEL, PARQUET, TABLES, TEXT, DataFileError, suffix_of
from dm2l.io import read_arff, read_mat, read_npz, read_svmlight
from dm2l.io._columns import as_list, check_distinct, choose_labels, labels_without, matches_pattern
from dm2l.io._label_columns import ColumnGroup, LabelReader, LabelVocabulary, label_columns
from dm2l.io._table import CsvFile, read_frame
from dm2l.io._xlsx_file import read_sheet

MATRIX_FORMATS = (".arff", ".svm", ".svmlight", ".libsvm", ".npz", ".mat")

# For each column with several values (except tags): the positions of its labels, and its group.
Cells = Sequence[tuple[list[int], ColumnGroup]]


@dataclass
class Table:
    """A table with features and labels.

    Attributes
    ----------
    frame : pandas.DataFrame or None
        Raw feature columns; None if the features are a sparse matrix.
    matrix : sparse matrix or None
        Sparse numeric features.
    feature_names, label_names : list of str
        Names of the feature columns, and of the labels in the requested order.
    Y : ndarray of shape (n_rows, n_labels)
        Labels as 1 and 0, and NaN where a label is missing.
    words : LabelVocabulary
        Positive values and cutoffs with which labels were read; ``groups`` contains the ``column``,
        ``kind``, ``values`` and ``labels`` of each column with several labels.
    path, decimal, file, bunch, columns, cells
        The file, its decimal point, the reader of a text file, the content of a file of numbers,
        the names of all columns, and the raw label columns.
    """

    path: Path
    frame: Any
    matrix: Any
    feature_names: list[str]
    label_names: list[str]
    Y: NDArray[np.float64]
    decimal: str = "."
    file: CsvFile | None = field(default=None, repr=False)
    bunch: Any = None
    words: LabelVocabulary = field(default_factory=LabelVocabulary)
    columns: list[str] = field(default_factory=list, repr=False)
    cells: Any = field(default=None, repr=False)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.Y)

    @property
    def exclusive(self) -> list[tuple[list[int], ColumnGroup]]:
        """Label positions and group of each column with several values, except columns of tags."""
        columns = label_columns(self).values()
        return [(labels, group) for labels, group in columns if group and group.kind != "tags"]


def read_table(
    path: str | Path,
    labels: int | str | Iterable[str] | None = None,
    *,
    missing: Any = (),
    positive: Any = None,
    cutoffs: str | Iterable[str] = (),
    values: str | Iterable[str] = (),
    split: Any = None,
    drop: str | Iterable[str] = (),
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str = "utf-8",
    as_text: Iterable[str] = (),
    written: Mapping[str, tuple[str, str]] | None = None,
    groups: Sequence[ColumnGroup] = (),
    **numbers: Any,
) -> Table:
    r"""Read a table and its label columns.

    Parameters
    ----------
    path : str or Path
        A .csv, .tsv, .parquet or .xlsx file with a header, or a file of numbers: .arff, .svm, .npz
        or .mat. Text may be compressed, as in .csv.gz. Only the first sheet of .xlsx is read.
    labels : int, str or list of str, default=None
        The label columns, as in :func:`dm2l.io.read_csv`. None reads the labels that the file
        names.
    missing, positive, cutoffs, separator, decimal, encoding
        As in :func:`dm2l.io.read_csv`.
    values, split
        As in :func:`dm2l.io.read_labels`.
    drop : str or list of str, default=()
        Columns that are not labels, even if they match a pattern in ``labels``. To leave these
        columns out of the features as well, also pass ``drop`` to :func:`fit_table`.
    as_text : iterable of str, default=()
        Names or patterns of columns to read as text, even if they contain only numbers.
    written : mapping of str to tuple of str, default=None
        The texts for positive and negative entries of labels without observed entries.
    groups : sequence of ColumnGroup, default=()
        Columns with several labels, taken from another table (``table.words.groups``).
    **numbers
        ``n_features`` and ``zero_based`` of a .svm file, as in :func:`dm2l.io.read_svmlight`;
        ``features_only=True`` reads no labels, even if the file names some;
        ``labels_only=True`` accepts a table without features.

    Returns
    -------
    Table
        Raw features, and labels as 1, 0 and NaN.

    Raises
    ------
    DataFileError
        If the file is not a table, does not fit into memory, or has a label with a value other than
        0/1, -1/+1, yes/no and the like. The message names the value, column and row.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dm2l.tables import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "assays.csv")
    ...     _ = path.write_text("phase,mass,tox_liver,tox_skin\ngas,1.5,Yes,\nsolid,2,no,NA\n")
    ...     table = read_table(path, labels="tox_*")
    >>> table.feature_names, table.Y[0]
    (['phase', 'mass'], array([ 1., nan]))
    """
    path = Path(path)
    suffix = suffix_of(path)
    answers: dict[str, Any] = {"labels_only": numbers.pop("labels_only", False)}
    if numbers.get("features_only"):
        labels, positive, cutoffs, values, split = None, None, (), (), None
    if suffix in MATRIX_FORMATS:
        if as_list(positive) or cutoffs or values or split:
            raise ValueError(
                f"{path}: --positive, --cutoff, --values and --split (positive=, cutoffs=, "
                f"values=, split=) are not allowed for {suffix} files, whose labels must be 0 and "
                "1. Omit these options."
            )
        return _read_numbers(path, suffix, labels, encoding, **numbers)
    answers |= {"missing": missing, "positive": positive, "cutoffs": cutoffs}
    answers |= {"written": written, "values": values, "split": split, "groups": groups}
    file = None
    if suffix in EXCEL:
        frame = read_sheet(path)
    elif suffix in PARQUET:
        frame = read_frame(path, ignore_metadata=True)
    elif suffix in TEXT:
        file = CsvFile(path, separator=separator, decimal=decimal, encoding=encoding)
        decimal = file.decimal
    else:
        known = ", ".join((*TABLES, *MATRIX_FORMATS))
        raise ValueError(f"{path}: files of type {suffix!r} cannot be read. Use one of {known}.")
    names = list(frame.columns) if file is None else file.names
    chosen = [] if labels is None else labels_without(names, labels, drop, str(path))
    if file is not None:
        text = {names[j]: str for j in chosen}
        text |= {name: str for name in names if any(matches_pattern(name, p) for p in as_text)}
        frame = file.frame(text, keep_codes=True)
    return _split_columns(path, frame, names, chosen, answers, decimal=decimal or ".", file=file)


def table_from_frame(
    frame: Any,
    labels: int | str | Iterable[str] | None = None,
    *,
    missing: Any = (),
    positive: Any = None,
    cutoffs: str | Iterable[str] = (),
    values: str | Iterable[str] = (),
    split: Any = None,
) -> Table:
    """Make a table from a data frame.

    Parameters
    ----------
    frame : pandas.DataFrame, or another data frame with ``to_pandas`` such as that of polars
        Features and labels.
    labels, missing, positive, cutoffs, values, split
        As in :func:`read_table`. A list of labels may contain names that are not strings.

    Returns
    -------
    Table
        A table without a file; :func:`write_completion` cannot write such a table.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import table_from_frame
    >>> frame = pd.DataFrame({"mass": [1.5, 2.0], "tox_a": ["yes", None], "tox_b": [0, 1]})
    >>> table_from_frame(frame, "tox_*").Y
    array([[ 1.,  0.],
           [nan,  1.]])
    """
    if not hasattr(frame, "set_axis"):
        if not hasattr(frame, "to_pandas"):
            raise TypeError(
                f"frame must be a pandas or polars data frame, got {type(frame).__name__}. Convert "
                "it with pandas.DataFrame(frame)."
            )
        frame = frame.to_pandas()
    names = [str(name) for name in frame.columns]
    check_distinct(names, "The data frame")
    chosen = [] if labels is None else choose_labels(names, labels, "the data frame")
    named = frame.set_axis(names, axis=1).reset_index(drop=True)
    answers = {"missing": missing, "positive": positive, "cutoffs": cutoffs}
    answers |= {"values": values, "split": split}
    return _split_columns(Path("data frame"), named, names, chosen, answers)


def count_cells(entries: NDArray[np.bool_], exclusive: Cells) -> int:
    """Count label entries; several entries in a cell of exclusive labels count as one."""
    twice = (np.sum(entries[:, labels].sum(axis=1).clip(1) - 1) for labels, _ in exclusive)
    return int(entries.sum() - sum(twice))


def read_cells(table: Table, names: Sequence[str]) -> dict[str, list[Any]]:
    """Read feature columns again, with the same text as in the file."""
    frame = table.frame[list(names)]
    if table.file is not None:
        frame = table.file.frame(dict.fromkeys(names, str), usecols=list(names), na_filter=False)
        frame = frame.where(frame != "")
    cells = frame.astype(object).where(frame.notna(), None)
    return {name: cells[name].tolist() for name in names}


def made_up_names(size: int) -> list[str]:
    """Return names for the features of a file that has no feature names."""
    return [f"x{j + 1}" for j in range(size)]


def _split_columns(
    path: Path, frame: Any, names: list[str], chosen: list[int], answers: dict[str, Any], **csv: Any
) -> Table:
    """Split the columns of a data frame into features and labels."""
    if len(frame) == 0:
        raise DataFileError(path, "the table has a header but no rows", hint="Add rows.")
    features = np.setdiff1d(np.arange(len(names)), chosen).tolist()
    if not answers.pop("labels_only", False) and not features:
        raise DataFileError(path, "there are no features, only labels. Name fewer labels")
    label_names, cells = [names[j] for j in chosen], frame.iloc[:, chosen]
    Y, words = np.empty((len(frame), 0)), LabelVocabulary()
    if chosen:
        decimal = csv.get("decimal", ".")
        reader = LabelReader(label_names, str(path), decimal=decimal, **answers)
        Y, words = reader.read([cells.iloc[:, k] for k in range(len(chosen))]), reader.words
        label_names = reader.names
    return Table(
        path=path,
        frame=frame.iloc[:, features],
        matrix=None,
        feature_names=[names[j] for j in features],
        label_names=label_names,
        Y=Y,
        words=words,
        columns=names,
        cells=cells,
        **csv,
    )


def _read_numbers(
    path: Path,
    suffix: str,
    labels: Any,
    encoding: str,
    *,
    features_only: bool = False,
    n_features: int | None = None,
    zero_based: bool | None = None,
) -> Table:
    """Read a file of numbers with the requested labels."""
    if suffix == ".arff":
        bunch = read_arff(path, labels, encoding=encoding, features_only=features_only)
        labels = None
    elif suffix in (".npz", ".mat"):
        bunch = (read_npz if suffix == ".npz" else read_mat)(path, features_only=features_only)
    else:
        base: Any = "auto" if zero_based is None else zero_based
        bunch = read_svmlight(path, n_features, base, features_only=features_only)
    X, Y = bunch.data, np.asarray(bunch.target, dtype=np.float64)
    names = list(bunch.feature_names or [])
    check_distinct(names, str(path))
    names = names or made_up_names(X.shape[1])
    label_names = list(bunch.target_names or [f"y{k + 1}" for k in range(Y.shape[1])])
    if labels is not None:
        chosen = choose_labels(label_names, labels, f"the labels of {path}")
        label_names, Y = [label_names[k] for k in chosen], Y[:, chosen]
    sparse = sp.issparse(X)
    return Table(
        path=path,
        frame=None if sparse else require("pandas", "io").DataFrame(X, columns=names),
        matrix=X if sparse else None,
        feature_names=names,
        label_names=label_names,
        Y=Y,
        bunch=bunch,
    )
