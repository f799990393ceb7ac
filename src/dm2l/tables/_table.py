"""A table in memory: features as they are, labels as 1, 0 and NaN."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l.readers._columns import check_distinct, choose_labels
from dm2l.tables._answers import Marks, read_answers


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
    frame: Any, labels: int | str | Iterable[str] | None = None, *, missing: Iterable[Any] = ()
) -> Table:
    """Make a table of a data frame.

    Parameters
    ----------
    frame : pandas.DataFrame, or one that has ``to_pandas`` such as that of polars
        Features and labels.
    labels, missing
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
    chosen = [] if labels is None else find_labels(names, labels, "the data frame")
    named = frame.set_axis(names, axis=1).reset_index(drop=True)
    return split_columns(Path("data frame"), named, names, chosen, missing)


class LabelNames(tuple[str, ...]):
    """Label columns by their very names: nothing is a number of columns, a prefix or a pattern."""


def find_labels(names: Sequence[str], labels: Any, where: str) -> list[int]:
    """Positions of the label columns that names, patterns, prefixes or a number ask for."""
    if isinstance(labels, (int, np.integer)) or not np.iterable(labels):
        return choose_labels(names, labels, where)
    if isinstance(labels, LabelNames):
        missing = [name for name in labels if name not in names]
        if missing:
            raise ValueError(
                f"{where} lacks {len(missing)} of the {len(labels)} labels of the model: "
                f"{', '.join(map(repr, missing))}. Add the columns, blank where nobody looked."
            )
        return choose_labels(names, labels, where)
    wanted: list[str] = []
    for asked in [labels] if isinstance(labels, str) else labels:
        if not isinstance(asked, str) or asked in names:
            wanted.append(str(asked))
        elif asked.isdecimal():
            last = choose_labels(names, int(asked), where)
            wanted += [names[j] for j in last]
        else:
            for part in [part.strip() for part in asked.split(",") if part.strip()]:
                # "tox_" is a prefix; without the sign at its end it may as well be a typing error.
                prefix = part not in names and not (part[-1].isalnum() or part[-1] in "*?]")
                wanted.append(f"{part}*" if prefix else part)
    return choose_labels(names, wanted, where)


def made_up_names(size: int) -> list[str]:
    """Names of the features of a file that has none."""
    return [f"x{j + 1}" for j in range(size)]


def split_columns(
    path: Path, frame: Any, names: list[str], chosen: list[int], missing: Iterable[Any], **text: Any
) -> Table:
    """Part the columns of a data frame into features and labels."""
    if len(frame) == 0:
        raise ValueError(f"{path} has a header but no rows.")
    features = [j for j in range(len(names)) if j not in set(chosen)]
    if not features:
        raise ValueError(f"{path}: every column is a label; no features are left.")
    label_names = [names[j] for j in chosen]
    columns = [frame.iloc[:, j] for j in chosen]
    Y = np.empty((len(frame), 0))
    if chosen:
        Y = read_answers(columns, label_names, Marks(missing), str(path))
    return Table(
        path=path,
        frame=frame.iloc[:, features],
        matrix=None,
        feature_names=[names[j] for j in features],
        label_names=label_names,
        Y=Y,
        **text,
    )
