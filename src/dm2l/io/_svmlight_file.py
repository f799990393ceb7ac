"""Read multi-label files in the svmlight (LIBSVM) format, as a whole or in blocks of rows."""

import io
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.utils import Bunch

from dm2l._utils.files import (
    AnyPath,
    DataFileError,
    check_memory,
    check_width,
    open_unpacked,
    translate_errors,
)
from dm2l._utils.inputs import check_choice
from dm2l.io._columns import check_distinct, make_bunch

Base = bool | Literal["auto"]


def read_svmlight(
    path: str | Path,
    n_features: int | None = None,
    zero_based: Base = "auto",
    *,
    labels: Sequence[float] | None = None,
    missing_as: Literal["negative", "missing"] = "negative",
    features_only: bool = False,
) -> Bunch:
    r"""Read a multi-label svmlight file, which has lines such as ``2,5 1:0.3 7:1``.

    A line that holds only spaces is a row without labels and features; scikit-learn writes such
    lines. Comments (``#``) are ignored, and so are empty lines before the first and after the last
    row. Empty lines between rows are rejected.

    Parameters
    ----------
    path : str or Path
        The file, which may be compressed as in :func:`read_csv`.
    n_features : int, default=None
        Number of features. If None, the largest index in the file determines the number. Pass
        ``n_features`` and ``zero_based`` to read several files with the same columns.
    zero_based : bool or "auto", default="auto"
        Whether the first feature has index 0; "auto" means True if the file contains index 0.
    labels : sequence of float, default=None
        Label numbers in column order. The default is all label numbers in the file, sorted.
    missing_as : {"negative", "missing"}, default="negative"
        Whether the labels that a row does not list are negative or missing.
    features_only : bool, default=False
        If True, labels are ignored, and ``target`` has no columns.

    Returns
    -------
    Bunch
        The same keys as in :func:`read_csv`, and ``zero_based`` (whether the first feature has
        index 0). ``data`` is CSR, and ``target_names`` are the label numbers as text.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dm2l.io import read_svmlight
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "tiny.svm")
    ...     _ = path.write_text("2,5 1:0.5 3:1\n5 2:2\n")
    ...     tiny = read_svmlight(path)
    >>> tiny.target_names, tiny.target.tolist(), tiny.data.toarray().tolist()
    (['2', '5'], [[1, 1], [0, 1]], [[0.5, 0.0, 1.0], [0.0, 2.0, 0.0]])
    """
    check_choice("missing_as", missing_as, "negative", "missing")
    with open_unpacked(path) as file:
        data, listed, base = SvmlightRows(file, path, n_features, zero_based).take()
    if not listed:
        raise DataFileError(path, "there are no rows. Add data rows")
    if features_only:
        return make_bunch(data, None, target_names=[], zero_based=base)
    numbers = sorted({number for row in listed for number in row})
    columns = numbers if labels is None else [float(label) for label in labels]
    unknown = sorted(set(numbers) - set(columns))
    if unknown or len(set(columns)) < len(columns):
        what = f"list all labels of the file, but lacks {unknown[:5]}" if unknown else "be distinct"
        raise ValueError(f"{path}: labels= must {what}.")
    if not columns:
        raise DataFileError(path, "no row has labels. Begin rows with labels, as in '2,5 1:0.3'")
    n, c = len(listed), len(columns)
    check_memory(path, 9 * n * c, f"a table of {c} labels for {n} rows")
    positive = MultiLabelBinarizer(classes=columns).fit_transform(listed).astype(np.int8)
    target = positive if missing_as == "negative" else np.where(positive == 1, 1.0, np.nan)
    names = [f"{number:.15g}" for number in columns]
    check_distinct(names, str(path), "labels")
    return make_bunch(data, target, target_names=names, zero_based=base)


class SvmlightRows(io.RawIOBase):
    """Reads rows of an svmlight file with scikit-learn, including rows without any entry."""

    def __init__(
        self, file: IO[bytes], path: AnyPath, n_features: int | None, zero_based: Base
    ) -> None:
        self._lines = enumerate(file, start=1)
        self._path, self._n_features, self._zero_based = path, n_features, zero_based
        self._line, self._started = 0, False  # the current line, and whether a row precedes it
        self._empty = 0  # the first empty line after the last row

    def take(self, rows: int | None = None) -> tuple[sp.csr_array, list[tuple[float, ...]], bool]:
        """Return the next rows, their labels, and whether the first feature has index 0."""
        self._rows = rows
        self._places: list[int] = []  # line numbers of the rows
        self._blank: list[bool] = []  # whether a row is blank
        try:
            with translate_errors(self._path, "an svmlight file"):
                read, found = load_svmlight_file(self, multilabel=True, zero_based=True)
        except DataFileError as error:
            place = error.place or f"line {self._line}"
            raise DataFileError(self._path, error.reason, place=place, hint=error.hint) from error
        blank = np.array(self._blank, dtype=bool)
        lengths = np.zeros(len(blank), dtype=np.int64)
        lengths[~blank] = np.diff(read.indptr)
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        labels = iter(found)
        listed = [() if nothing else next(labels) for nothing in self._blank]
        for row, numbers in enumerate(listed):
            if not all(map(math.isfinite, numbers)):
                reason = f"a label is not a finite number: {numbers[:5]}"
                raise DataFileError(self._path, reason, place=f"line {self._places[row]}")
        indices, zero_based = self._from_zero(read.indices, indptr)
        width = 1 + int(indices.max(initial=0)) if self._n_features is None else self._n_features
        check_width(self._path, width)
        data = sp.csr_array((read.data, indices, indptr), shape=(len(blank), width))
        return data, listed, zero_based

    def __iter__(self) -> Iterator[bytes]:
        while self._rows is None or len(self._places) < self._rows:
            self._line, line = next(self._lines, (self._line, b""))
            if not line:
                return
            text = line.strip()
            if not line.rstrip(b"\r\n"):
                self._empty = self._empty or self._line
            elif not text.startswith(b"#"):
                if self._started and self._empty:
                    hint = "Remove it, or write a space for a row without labels and features"
                    reason = f"the line is empty. {hint}"
                    raise DataFileError(self._path, reason, place=f"line {self._empty}")
                self._started, self._empty = True, 0
                self._places.append(self._line)
                self._blank.append(not text)
                if text:
                    yield line

    def _from_zero(self, indices: NDArray[Any], indptr: NDArray[Any]) -> tuple[NDArray[Any], bool]:
        """Return feature indices counted from 0, and whether the indices in the file start at 0."""
        zero_based = self._zero_based
        if zero_based == "auto":
            zero_based = len(indices) > 0 and bool(indices.min() == 0)
        base = 0 if zero_based else 1
        last = np.inf if self._n_features is None else self._n_features - 1 + base
        wrong = np.flatnonzero((indices < base) | (indices > last))
        if len(wrong):
            row = int(np.searchsorted(indptr, wrong[0], side="right")) - 1
            span = f"at least {base}" if self._n_features is None else f"from {base} to {last}"
            known = f"indices must be {span} (zero_based={zero_based})"
            reason = f"a feature has the index {indices[wrong[0]]}, but {known}"
            raise DataFileError(self._path, reason, place=f"line {self._places[row]}")
        return indices - base, bool(zero_based)
