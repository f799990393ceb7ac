"""Multi-label files in the svmlight (LIBSVM) format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from sklearn.utils import Bunch

from dm2l.files import DataFileError
from dm2l.memory import check_room
from dm2l.readers._bunch import make_bunch, no_labels
from dm2l.readers.columns import check_distinct
from dm2l.readers.svmlight_rows import Base, open_rows
from dm2l.readers.unpacking import FEWER


def read_svmlight(
    path: str | Path,
    n_features: int | None = None,
    zero_based: Base = "auto",
    *,
    labels: Sequence[float] | None = None,
    absent_label: Literal["negative", "missing"] = "negative",
    features_only: bool = False,
) -> Bunch:
    r"""Read a multi-label svmlight file: lines such as ``2,5 1:0.3 7:1``.

    A line of blanks is a row with neither labels nor features, as scikit-learn writes it. Comments
    (``#``) are no rows, nor are empty lines before the first and after the last row; an empty line
    between rows may be a row that has lost its blank, and is refused.

    Parameters
    ----------
    path : str or Path
        The file; one that ends in ``.gz``, ``.bz2``, ``.xz`` or ``.zip`` is unpacked.
    n_features : int, default=None
        Number of features; None takes the greatest index that occurs. Give it when a training
        and a test file have to agree.
    zero_based : bool or "auto", default="auto"
        Whether the first feature has index 0; "auto" says yes if index 0 occurs. Give it, too,
        when files have to agree.
    labels : sequence of float, default=None
        Numbers of the labels, in the order of the columns; None takes those that occur, in
        ascending order.
    absent_label : {"negative", "missing"}, default="negative"
        The format lists positives only. What it means that a label is not listed.
    features_only : bool, default=False
        Whether labels are passed over, as for rows that are to be predicted; ``target`` then has
        no columns.

    Returns
    -------
    Bunch
        ``data`` (float64, CSR), ``target`` (int8 0/1, or float64 with NaN under
        ``absent_label="missing"``), ``target_names`` (the numbers of the labels as text),
        ``zero_based`` (whether the first feature has index 0); the other keys of
        :func:`~dm2l.datasets.load_dataset` are None.

    Raises
    ------
    ValueError
        If the file is not understood; the message names the line.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dm2l.readers import read_svmlight
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "tiny.svm")
    ...     _ = path.write_text("2,5 1:0.5 3:1\n5 2:2\n")
    ...     tiny = read_svmlight(path)
    >>> tiny.target_names, tiny.target.tolist()
    (['2', '5'], [[1, 1], [0, 1]])
    >>> tiny.data.toarray()
    array([[0.5, 0. , 1. ],
           [0. , 2. , 0. ]])
    """
    if absent_label not in ("negative", "missing"):
        raise ValueError(f"absent_label must be 'negative' or 'missing', got {absent_label!r}.")
    with open_rows(path, n_features, zero_based) as rows:
        data, listed, base = rows.take()
    if not listed:
        raise DataFileError(path, "there are no rows")
    if features_only:
        return make_bunch(data, no_labels(data), target_names=[], zero_based=base)
    numbers = sorted({number for row in listed for number in row})
    if labels is None:
        columns = numbers
    else:
        columns = [float(label) for label in labels]
        unknown = sorted(set(numbers) - set(columns))
        if unknown or len(set(columns)) < len(columns):
            what = f"misses {unknown[:5]} of the file" if unknown else "names a label twice"
            raise ValueError(f"{path}: labels= {what}.")
    if not columns:
        raise DataFileError(path, "no row lists a label; is it a multi-label svmlight file?")
    n, c = len(listed), len(columns)
    check_room(path, 9 * n * c, f"a table of {c} labels for {n} rows", FEWER)
    place = {number: j for j, number in enumerate(columns)}
    positive = np.zeros((n, c), dtype=np.int8)
    for i, row in enumerate(listed):
        positive[i, [place[number] for number in row]] = 1
    target = positive if absent_label == "negative" else np.where(positive == 1, 1.0, np.nan)
    names = [f"{number:.15g}" for number in columns]
    check_distinct(names, str(path), "labels")
    return make_bunch(data, target, target_names=names, zero_based=base)
