"""A source of row blocks that can be gone through again and again."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import _get_feature_names

from dm2l._utils.parameters import check_count
from dm2l.labels._form import LabelForm
from dm2l.labels._matrix import LabelMatrix
from dm2l.labels._parsing import observed_classes
from dm2l.outofcore._block import (
    AnyBlock,
    block_rows,
    first_rows,
    indexable,
    naming_block,
    read_block,
    slices,
)

Path = str | os.PathLike[str]
Read = Callable[[], Iterable[Sequence[Any]]]


class RowBlocks:
    """Rows with their labels, a block at a time, as often as they are wanted.

    Every pass reads the data anew, so that only a block or two are in memory. Labels are checked
    block by block under the one label contract, and every pass has to give what the first gave.

    Parameters
    ----------
    read : callable
        Called at the beginning of every pass; gives ``(X, Y)`` or ``(X, Y, label_mask)`` for each
        block, in the same order every time.
    missing_label : scalar, default=nan
        Mark of a label that was not observed.
    missing_as : {None, "missing", "negative"}, default=None
        What nothing stored means in a sparse ``Y`` of positives only.
    classes : array-like, default=None
        All classes, for a 1-D ``y``.
    n_rows : int, default=None
        Number of rows, where it is known beforehand.
    ahead : bool, default=True
        Whether a thread reads and checks the next block while the last one is worked on.

    See Also
    --------
    dm2l.DM2LClassifier.fit : Takes one in place of ``X`` and ``Y``.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.outofcore import RowBlocks
    >>> def days():
    ...     for seed in range(3):
    ...         rng = np.random.default_rng(seed)
    ...         yield rng.standard_normal((4, 2)), rng.choice([0, 1, np.nan], size=(4, 5))
    >>> blocks = RowBlocks.from_callable(days)
    >>> [block.T.shape for block in blocks]
    [(4, 5), (4, 5), (4, 5)]
    >>> blocks.n_rows, blocks.n_features, blocks.n_labels
    (12, 2, 5)
    """

    def __init__(
        self,
        read: Read,
        *,
        missing_label: Any = np.nan,
        missing_as: Any = None,
        classes: Any = None,
        n_rows: int | None = None,
        ahead: bool = True,
    ) -> None:
        self._read = read
        self.missing_label = missing_label
        self.missing_as = missing_as
        self._form = LabelForm(missing_label, missing_as, classes)
        self._known_rows = n_rows
        self._ahead = ahead
        self._first: tuple[int, np.dtype[Any], bool] | None = None
        self._passed: tuple[int, int] | None = None  # blocks and rows of a whole pass
        self.feature_names: NDArray[np.object_] | None = None

    # -- where rows come from -------------------------------------------------------------------

    @classmethod
    def from_callable(cls, read: Read, **options: Any) -> Self:
        """Blocks from a function that begins a new iteration every time it is called.

        Parameters
        ----------
        read : callable
            Gives an iterable of ``(X, Y)``, ``(X, Y, label_mask)`` or ``(X, Y, label_mask,
            sample_weight)``, the last two of which may be None; a generator function will do. A
            generator itself will not: it ends after one pass.
        **options
            Of :class:`dm2l.outofcore.RowBlocks`.

        Returns
        -------
        RowBlocks
            The source.
        """
        if not callable(read):
            raise TypeError(
                f"A function that begins a new iteration is needed, got {type(read).__name__}; "
                "wrap what you have: from_callable(lambda: ...)."
            )
        return cls(read, **options)

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        Y: Any,
        *,
        label_mask: Any = None,
        sample_weight: Any = None,
        rows: int | None = None,
        **options: Any,
    ) -> Self:
        """Blocks of arrays or sparse matrices.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Rows; a memory-mapped array is read a block at a time.
        Y : array-like or sparse matrix of shape (n, c) or (n,)
            Labels.
        label_mask : array-like of bool of the shape of ``Y``, default=None
            True where a label may be used.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.
        rows : int, default=None
            Rows of a block; None makes one block of all.
        **options
            Of :class:`dm2l.outofcore.RowBlocks`.

        Returns
        -------
        RowBlocks
            The source.

        Examples
        --------
        >>> import numpy as np
        >>> from dm2l.outofcore import RowBlocks
        >>> blocks = RowBlocks.from_arrays(np.eye(5), np.eye(5, 2), rows=2)
        >>> [len(block.T) for block in blocks]
        [2, 2, 1]
        """
        missing = options.get("missing_label", np.nan)
        if np.ndim(Y) == 1 and not sp.issparse(Y) and options.get("classes") is None:
            values, seen = observed_classes(Y, label_mask=label_mask, missing_label=missing)
            options["classes"] = np.unique(np.array(values[seen].tolist()))
        parts = [indexable(part) for part in (X, Y, label_mask, sample_weight)]
        n = parts[0].shape[0]
        for part, name in zip(parts[1:], ("Y", "label_mask", "sample_weight"), strict=True):
            if part is not None and part.shape[0] != n:
                raise ValueError(f"X has {n} rows, {name} has {part.shape[0]}.")
        read = slices(*parts, rows=n if rows is None else block_rows(rows, 1))
        return cls(read, **({"n_rows": n, "ahead": False} | options))

    @classmethod
    def from_npy(
        cls, x_path: Path, y_path: Path, *, rows: int | None = None, **options: Any
    ) -> Self:
        """Blocks of two ``.npy`` files, which are mapped into memory.

        Parameters
        ----------
        x_path, y_path : path-like
            Files of arrays of shape (n, d) and (n, c).
        rows : int, default=None
            Rows of a block; None: as many as make some 30 megabytes.
        **options
            Of :class:`dm2l.outofcore.RowBlocks`.

        Returns
        -------
        RowBlocks
            The source.
        """
        from dm2l.io._npz_file import map_array

        X, Y = (map_array(path) for path in (x_path, y_path))
        return cls._mapped(X, Y, rows, options)

    @classmethod
    def from_npz(
        cls, path: Path, x: str = "X", y: str = "Y", *, rows: int | None = None, **options: Any
    ) -> Self:
        """Blocks of two arrays of an uncompressed ``.npz`` file, which are mapped into memory.

        Parameters
        ----------
        path : path-like
            A file of :func:`numpy.savez`; what :func:`numpy.savez_compressed` wrote cannot be
            mapped.
        x, y : str, default="X", "Y"
            Names of the arrays.
        rows : int, default=None
            Rows of a block; None: as many as make some 30 megabytes.
        **options
            Of :class:`dm2l.outofcore.RowBlocks`.

        Returns
        -------
        RowBlocks
            The source.
        """
        from dm2l.io._npz_file import map_member

        X, Y = (map_member(path, name) for name in (x, y))
        return cls._mapped(X, Y, rows, options)

    @classmethod
    def _mapped(cls, X: Any, Y: Any, rows: int | None, options: dict[str, Any]) -> Self:
        if X.ndim != 2:
            raise ValueError(f"The rows must be an array of two dimensions, got {X.ndim}.")
        rows = block_rows(rows, X.shape[1])
        return cls.from_arrays(X, Y, rows=rows, **({"ahead": True} | options))

    @classmethod
    def from_parquet(
        cls,
        path: Path | Sequence[Path],
        labels: int | str | Sequence[str],
        *,
        drop: str | Sequence[str] = (),
        rows: int | None = None,
        **options: Any,
    ) -> Self:
        """Blocks of Parquet files of the same columns, one file after the other.

        Parameters
        ----------
        path : path-like or list of path-like
            The files.
        labels, drop
            As of :func:`dm2l.io.read_csv`, but columns that are not dropped hold numbers or
            booleans; null and NaN mean that a label was not observed.
        rows : int, default=None
            About how many rows a block has; None: as many as make some 30 megabytes. Row groups of
            the file should not be much larger, for one is kept in memory as a whole.
        **options
            Of :class:`dm2l.outofcore.RowBlocks`.

        Returns
        -------
        RowBlocks
            The source; needs pyarrow (the extra ``io``).
        """
        from dm2l.outofcore._block_readers import ParquetReader, paths

        reader = ParquetReader(paths(path), labels, drop, rows)
        source = cls(reader, **({"n_rows": reader.n_rows} | options))
        source.feature_names = np.array(reader.feature_names, dtype=object)
        return source

    @classmethod
    def from_csv(
        cls,
        path: Path | Sequence[Path],
        labels: int | str | Sequence[str],
        *,
        drop: str | Sequence[str] = (),
        missing: Any = None,
        positive: Any = None,
        cutoffs: str | Sequence[str] = (),
        rows: int | None = None,
        separator: str | None = None,
        **options: Any,
    ) -> Self:
        """Blocks of CSV files with the same header, one file after the other.

        Rows with more or fewer cells than the header are refused. The first pass counts them, which
        takes half as long as reading does, and twice as long for rows with quotes.

        Parameters
        ----------
        path : path-like or list of path-like
            The files, in UTF-8; packed ones, as in ``.csv.gz``, are unpacked on the way.
        labels, drop, missing, positive, cutoffs, separator
            As of :func:`dm2l.io.read_csv`.
        rows : int, default=None
            Rows of a block; None: as many as make some 30 megabytes.
        **options
            Of :class:`dm2l.outofcore.RowBlocks`.

        Returns
        -------
        RowBlocks
            The source; needs pandas (the extra ``io``).
        """
        from dm2l.outofcore._block_readers import CsvReader, paths

        reader = CsvReader(paths(path), labels, drop, rows, separator, missing, positive, cutoffs)
        source = cls(reader, **options)
        source.feature_names = np.array(reader.feature_names, dtype=object)
        return source

    @classmethod
    def from_svmlight(
        cls,
        path: Path | Sequence[Path],
        n_features: int,
        labels: Sequence[float],
        *,
        rows: int = 10_000,
        zero_based: bool = False,
        missing_as: str = "negative",
        **options: Any,
    ) -> Self:
        """Blocks of multi-label svmlight files: lines such as ``2,5 1:0.3 7:1``.

        Parameters
        ----------
        path : path-like or list of path-like
            The files.
        n_features : int
            Number of features: a block need not show the last.
        labels : sequence of float
            Numbers of the labels, in the order of the columns.
        rows : int, default=10000
            Rows of a block.
        zero_based : bool, default=False
            Whether the first feature has the index 0.
        missing_as : {"negative", "missing"}, default="negative"
            What it means that a label is not listed: the format lists positives only.
        **options
            Of :class:`dm2l.outofcore.RowBlocks`.

        Returns
        -------
        RowBlocks
            The source, with rows in CSR.
        """
        from dm2l.outofcore._block_readers import SvmlightReader, paths

        reader = SvmlightReader(paths(path), n_features, labels, rows, zero_based, missing_as)
        return cls(reader, **options)

    def head(self, rows: int) -> RowBlocks:
        """The first rows only.

        Parameters
        ----------
        rows : int
            How many.

        Returns
        -------
        RowBlocks
            A source of its own.
        """
        check_count("rows", rows)
        classes = self._form.labels.classes if self._form._labels is not None else None
        known = None if self._known_rows is None else min(rows, self._known_rows)
        first = RowBlocks(
            lambda: first_rows(self._read(), int(rows)),
            missing_label=self.missing_label,
            missing_as=self.missing_as,
            classes=self._form._classes if classes is None else classes,
            n_rows=known,
            ahead=self._ahead,
        )
        first.feature_names = self.feature_names
        return first

    def check_marks(self, missing_label: Any, missing_as: Any) -> None:
        """Refuse marks that were given elsewhere and that the blocks, which read labels, lack."""
        marks = {"missing_label": (missing_label, np.nan), "missing_as": (missing_as, None)}
        for name, (mark, usual) in marks.items():
            mine = getattr(self, name)
            if not _same(mark, mine) and not _same(mark, usual):
                raise ValueError(
                    f"{name}={mark!r} here, {mine!r} in the row blocks, which read the labels: "
                    "give it to them."
                )

    # -- passes ---------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[AnyBlock]:
        if not self._ahead:
            yield from self._checked()
            return
        # One thread, one block: what is read ahead is in memory too.
        with closing(self._checked()) as blocks, ThreadPoolExecutor(1, "dm2l-blocks") as thread:
            following = thread.submit(next, blocks, None)
            while (block := following.result()) is not None:
                following = thread.submit(next, blocks, None)
                yield block
                del block

    def _checked(self) -> Generator[AnyBlock]:
        count = total = 0
        for parts in self._read():
            block = self._check(parts, count)
            count += 1
            total += len(block.T)
            yield block
        self._finish_pass(count, total)

    def _finish_pass(self, count: int, total: int) -> None:
        """Hold a whole pass, of so many blocks and rows, to those before."""
        if not total:
            again = (
                " An earlier pass had some: a generator that was used up cannot be gone through "
                "again; give a function that makes a new one."
            )
            again = again if self._passed is not None else ""
            raise ValueError(f"This pass over the row blocks gave no rows.{again}")
        before = (count, total) if self._passed is None else self._passed
        if (count, total) != before:
            raise ValueError(
                f"This pass gave {total} rows in {count} blocks, an earlier one {before[1]} in "
                f"{before[0]}: every pass has to give the same."
            )
        self._passed = before

    def _check(self, parts: Sequence[Any], place: int) -> AnyBlock:
        names = _get_feature_names(parts[0])
        with naming_block(place):
            block = read_block(parts, self._form, self._first[0] if self._first else None)
        if self._first is None:
            self._first = block.X.shape[1], block.X.dtype, sp.issparse(block.X)
            if names is not None:
                self.feature_names = names
        return block

    # -- what they are like ---------------------------------------------------------------------

    def first(self) -> AnyBlock:
        """The first block that has rows, without reading the others."""
        with closing(self._checked()) as blocks:
            for block in blocks:
                if len(block.T):
                    return block
        raise AssertionError("an empty pass raises")

    def _peek(self) -> tuple[int, np.dtype[Any], bool]:
        if self._first is None:
            self.first()
        assert self._first is not None
        return self._first

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where no pass has told yet."""
        return self._known_rows if self._passed is None else self._passed[1]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self._peek()[0]

    @property
    def sparse(self) -> bool:
        """Whether rows come as sparse matrices."""
        return self._peek()[2]

    @property
    def labels(self) -> LabelMatrix:
        """Form of the labels, without rows; complete after the first pass."""
        self._peek()
        return self._form.labels

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.labels.n_labels


def _same(one: Any, other: Any) -> bool:
    both_nan = one != one and other != other
    return bool(both_nan or one is other or one == other)
