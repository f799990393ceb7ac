"""Rows of a multi-label svmlight file, all or some at a time."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file

from dm2l.files import DataFileError, reading
from dm2l.memory import check_width
from dm2l.readers.unpacking import open_unpacked

__all__ = ["Base", "SvmlightRows", "open_rows"]

Base = bool | Literal["auto"]


@contextmanager
def open_rows(
    path: str | os.PathLike[str], n_features: int | None, zero_based: Base, *, whole: bool = True
) -> Iterator[SvmlightRows]:
    """The rows of a file, unpacked."""
    with open_unpacked(path, whole=whole) as file:
        yield SvmlightRows(file, path, n_features, zero_based)


class SvmlightRows(io.RawIOBase):
    """The rows of an open file.

    scikit-learn's reader gets its lines from here, without the rows that it would pass over
    because they have neither labels nor features; those are put in again.
    """

    def __init__(
        self,
        file: IO[bytes],
        path: str | os.PathLike[str],
        n_features: int | None,
        zero_based: Base,
    ) -> None:
        self._lines = enumerate(file, start=1)
        self._path, self._n_features, self._zero_based = path, n_features, zero_based
        self._line = 0  # the one being read
        self._started = False
        self._empty: int | None = None  # an empty line after the last row

    def take(self, rows: int | None = None) -> tuple[sp.csr_array, list[tuple[float, ...]], bool]:
        """The next rows, the labels that they list, and whether the first feature has index 0."""
        self._rows = rows
        self._places: list[int] = []  # lines of the rows
        self._blank: list[bool] = []  # whether nothing stands there
        try:
            with reading(self._path, "an svmlight file"):
                read, found = load_svmlight_file(self, multilabel=True, zero_based=True)
        except DataFileError as error:
            place = error.place or f"line {self._line}"
            raise DataFileError(self._path, error.reason, place=place) from error
        blank = np.array(self._blank, dtype=bool)
        lengths = np.zeros(len(blank), dtype=np.int64)
        lengths[~blank] = np.diff(read.indptr)
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        labels = iter(found)
        listed = [() if nothing else next(labels) for nothing in self._blank]
        for i, numbers in enumerate(listed):
            if not all(map(math.isfinite, numbers)):
                raise self._wrong(i, f"a label is no number: {numbers[:5]}")
        indices, zero_based = self._from_zero(read.indices, indptr)
        width = 1 + int(indices.max(initial=0)) if self._n_features is None else self._n_features
        check_width(self._path, width)
        data = sp.csr_array((read.data, indices, indptr), shape=(len(blank), width))
        return data, listed, zero_based

    def _wrong(self, row: int, reason: str) -> DataFileError:
        return DataFileError(self._path, reason, place=f"line {self._places[row]}")

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
                    raise DataFileError(
                        self._path,
                        "empty, between rows. If it is a row without labels and features, write a "
                        "blank there; else remove it",
                        place=f"line {self._empty}",
                    )
                self._started, self._empty = True, None
                self._places.append(self._line)
                self._blank.append(not text)
                if text:
                    yield line

    def _from_zero(self, indices: NDArray[Any], indptr: NDArray[Any]) -> tuple[NDArray[Any], bool]:
        """Indices that begin at 0, and whether those of the file do."""
        zero_based = self._zero_based
        if zero_based == "auto":
            zero_based = len(indices) > 0 and bool(indices.min() == 0)
        base = 0 if zero_based else 1
        last = np.inf if self._n_features is None else self._n_features - 1 + base
        wrong = np.flatnonzero((indices < base) | (indices > last))
        if len(wrong):
            row = int(np.searchsorted(indptr, wrong[0], side="right")) - 1
            end = "on" if self._n_features is None else f"to {last}"
            raise self._wrong(
                row,
                f"a feature has the index {indices[wrong[0]]}, but they go from {base} {end} "
                f"(zero_based={zero_based})",
            )
        return indices - base, bool(zero_based)
