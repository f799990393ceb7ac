"""A table in memory: features as they are, labels as 1, 0 and NaN."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l._utils.files import DataFileError
from dm2l.io._columns import check_distinct, choose_labels
from dm2l.io._label_reader import LabelReader, LabelVocabulary


@dataclass
class Table:
    """A table with features and labels, as read from a file.

    Attributes
    ----------
    path : Path
        The file.
    frame : pandas.DataFrame or None
        The columns that are not labels, raw; None if the features are a matrix.
    matrix : sparse matrix or None
        Sparse features of numbers.
    feature_names : list of str
        Columns that are not labels.
    label_names : list of str
        Label columns, in the order asked for.
    Y : ndarray of shape (n_rows, n_labels)
        1, 0 and NaN where nobody looked.
    separator, decimal, encoding : str
        How the text of a CSV file is written.
    bunch : Bunch or None
        What the reader of a file of numbers has returned.
    words : Words
        Positive values and cutoffs with which labels were read.
    """

    path: Path
    frame: Any
    matrix: Any
    feature_names: list[str]
    label_names: list[str]
    Y: NDArray[np.float64]
    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    bunch: Any = None
    words: LabelVocabulary = field(default_factory=LabelVocabulary)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.Y)

    @property
    def features(self) -> Any:
        """The features in the one container they are in."""
        return self.matrix if self.frame is None else self.frame

    @property
    def unnamed(self) -> bool:
        """Whether the file has no names of its features, so that their places have to tell."""
        return self.bunch is not None and self.bunch.feature_names is None


def table_from_frame(
    frame: Any,
    labels: int | str | Iterable[str] | None = None,
    *,
    missing: Any = (),
    positive: Any = None,
    cutoffs: str | Iterable[str] = (),
) -> Table:
    """Make a table of a data frame.

    Parameters
    ----------
    frame : pandas.DataFrame, or one that has ``to_pandas`` such as that of polars
        Features and labels.
    labels, missing, positive, cutoffs
        As in :func:`read_table`; a name in a list may be whatever the frame has for names.

    Returns
    -------
    Table
        Without a file: it can be learnt from and completed, but not written again.

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
                f"A table is made of a pandas or polars data frame, got {type(frame).__name__}; "
                "pandas.DataFrame(...) makes one."
            )
        frame = frame.to_pandas()
    names = [str(name) for name in frame.columns]
    check_distinct(names, "The data frame")
    chosen = [] if labels is None else choose_labels(names, labels, "the data frame")
    named = frame.set_axis(names, axis=1).reset_index(drop=True)
    answers = {"missing": missing, "positive": positive, "cutoffs": cutoffs}
    return split_columns(Path("data frame"), named, names, chosen, answers)


def made_up_names(size: int) -> list[str]:
    """Names of the features of a file that has none."""
    return [f"x{j + 1}" for j in range(size)]


def split_columns(
    path: Path,
    frame: Any,
    names: list[str],
    chosen: list[int],
    answers: Mapping[str, Any],
    **text: Any,
) -> Table:
    """Part the columns of a data frame into features and labels."""
    if len(frame) == 0:
        raise DataFileError(path, "there is a header, but there are no rows")
    taken = set(chosen)
    features = [j for j in range(len(names)) if j not in taken]
    if not features:
        raise DataFileError(path, "every column is a label; no features are left")
    label_names = [names[j] for j in chosen]
    Y, words = np.empty((len(frame), 0)), LabelVocabulary()
    if chosen:
        decimal = text.get("decimal", ".")
        reader = LabelReader(label_names, str(path), decimal=decimal, **answers)
        Y = reader.read([frame.iloc[:, j] for j in chosen])
        words = reader.words
    return Table(
        path=path,
        frame=frame.iloc[:, features],
        matrix=None,
        feature_names=[names[j] for j in features],
        label_names=label_names,
        Y=Y,
        words=words,
        **text,
    )
