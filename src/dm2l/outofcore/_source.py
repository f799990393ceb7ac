"""Sources of row blocks that can be gone through again and again, here or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import _get_feature_names

from dm2l._utils.inputs import check_count
from dm2l.labels._matrix import LabelForm, LabelMatrix
from dm2l.labels._parsing import read_values
from dm2l.outofcore._block import (
    Block,
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
    """Rows with their labels, read a block at a time in as many passes as a fit needs.

    Every pass reads the data anew, so that only one or two blocks are in memory, and has to give as
    many blocks and rows as the first one.

    Parameters
    ----------
    read : callable
        Called at the beginning of every pass. Returns an iterable of ``(X, Y)``, ``(X, Y,
        label_mask)`` or ``(X, Y, label_mask, sample_weight)``, the last two of which may be None.
        A generator function will do, but not a generator, which ends after one pass.
    missing_label, missing_as : scalar and {None, "missing", "negative"}
        As of :class:`dm2l.DM2LClassifier`.
    classes : array-like, default=None
        All classes, for a 1-D ``y``.
    n_rows : int, default=None
        Number of rows, if it is known beforehand.
    ahead : bool, default=True
        Whether a thread reads and checks the next block while the last one is processed.

    See Also
    --------
    dm2l.DM2LClassifier.fit : Takes row blocks in place of ``X`` and ``Y``.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.outofcore import RowBlocks
    >>> def days():
    ...     for seed in range(3):
    ...         rng = np.random.default_rng(seed)
    ...         yield rng.standard_normal((4, 2)), rng.choice([0, 1, np.nan], size=(4, 5))
    >>> [block.T.shape for block in RowBlocks(days)]
    [(4, 5), (4, 5), (4, 5)]
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
        if not callable(read):
            raise TypeError(
                f"A function that begins a new iteration is needed, got {type(read).__name__}; "
                "wrap it: RowBlocks(lambda: ...)."
            )
        self._read = read
        self.missing_label = missing_label
        self.missing_as = missing_as
        self._form = LabelForm(missing_label, missing_as, classes)
        self._known_rows = n_rows
        self._ahead = ahead
        self._n_features: int | None = None
        self._passed: tuple[int, int] | None = None  # blocks and rows of a whole pass
        self.feature_names: NDArray[np.object_] | None = None

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
        """Cut arrays, data frames or sparse matrices into blocks.

        Parameters
        ----------
        X, Y, label_mask, sample_weight
            As for :meth:`dm2l.DM2LClassifier.fit`; a memory-mapped ``X`` is read a block at a time.
        rows : int, default=None
            Rows of a block; None makes one block of all.
        **options
            Parameters of :class:`dm2l.outofcore.RowBlocks`.
        """
        if np.ndim(Y) == 1 and not sp.issparse(Y) and options.get("classes") is None:
            values, seen, _ = read_values(Y, label_mask, options.get("missing_label", np.nan))
            options["classes"] = np.unique(np.array(values[seen].tolist()))
        parts = [indexable(part) for part in (X, Y, label_mask, sample_weight)]
        n = parts[0].shape[0]
        for part, name in zip(parts[1:], ("Y", "label_mask", "sample_weight"), strict=True):
            if part is not None and part.shape[0] != n:
                raise ValueError(f"X has {n} rows, {name} has {part.shape[0]}.")
        read = partial(slices, parts, n if rows is None else block_rows(rows, 1))
        return cls(read, **({"n_rows": n, "ahead": False} | options))

    @classmethod
    def open(
        cls,
        path: Path | Sequence[Path],
        labels: Any = None,
        *,
        rows: int | None = None,
        missing_label: Any = np.nan,
        classes: Any = None,
        ahead: bool = True,
        **options: Any,
    ) -> Self:
        """Read files block by block, in the format of their suffix.

        ``.parquet``
            Tables of numbers and booleans, a row group at a time; needs the extra ``io``.
        ``.csv``, ``.tsv``, ``.tab``, ``.txt``
            Tables in UTF-8, unpacked on the way (``.csv.gz``); needs the extra ``io``.
        ``.svm``, ``.svmlight``, ``.libsvm``
            Multi-label svmlight files, with lines such as ``2,5 1:0.3 7:1``; rows are CSR.
        ``.npy``, ``.npz``
            Rows and ``labels`` in two files, or ``X`` and ``Y`` of an uncompressed one; mapped.

        Parameters
        ----------
        path : path-like or list of path-like
            The file; of tables and svmlight also several, with the same columns.
        labels : int, str, sequence or path-like, default=None
            Label columns of tables, as in :func:`dm2l.io.read_csv`; the numbers of the labels in
            svmlight files, in the order of the columns of ``Y``; the second ``.npy`` file.
        rows : int, default=None
            Rows of a block; None: some 30 megabytes, and 10,000 rows of svmlight files.
        missing_label, classes, ahead
            Parameters of :class:`dm2l.outofcore.RowBlocks`.
        **options
            Of tables those of :func:`dm2l.io.read_csv` (Parquet: ``drop`` only); ``n_features``,
            which is required, and others of :func:`dm2l.io.read_svmlight`.
        """
        from dm2l.outofcore._block_readers import mapped_arrays, table_reader

        settings = {"missing_label": missing_label, "classes": classes, "ahead": ahead}
        if arrays := mapped_arrays(path, labels, **options):
            chunk = block_rows(rows, arrays[0].shape[1])
            return cls.from_arrays(*arrays, rows=chunk, **settings)
        read, n_rows, names = table_reader(path, labels, rows=rows, **options)
        source = cls(read, n_rows=n_rows, **settings)
        source.feature_names = np.array(names, dtype=object) if names else None
        return source

    def head(self, rows: int) -> RowBlocks:
        """A source of the first rows."""
        check_count("rows", rows)
        classes = self._form.labels.classes if self._form.labels is not None else None
        first = RowBlocks(
            lambda: first_rows(self._read(), int(rows)),
            missing_label=self.missing_label,
            missing_as=self.missing_as,
            classes=self._form._classes if classes is None else classes,
            n_rows=None if self._known_rows is None else min(rows, self._known_rows),
            ahead=self._ahead,
        )
        first.feature_names = self.feature_names
        return first

    def check_marks(self, missing_label: Any, missing_as: Any) -> None:
        """Refuse an estimator's marks of missing labels that differ from those of the blocks."""
        marks = {"missing_label": (missing_label, np.nan), "missing_as": (missing_as, None)}
        for name, (mark, usual) in marks.items():
            mine = getattr(self, name)
            known = ((mark != mark and other != other) or mark == other for other in (mine, usual))
            if not any(known):
                raise ValueError(
                    f"{name}={mark!r} here, {mine!r} in the row blocks, which read the labels: "
                    "give it to them."
                )

    def __iter__(self) -> Iterator[Block]:
        if not self._ahead:
            yield from self._checked()
            return
        # One thread reads one block ahead, which is in memory too.
        with closing(self._checked()) as blocks, ThreadPoolExecutor(1, "dm2l-blocks") as thread:
            following = thread.submit(next, blocks, None)
            while (block := following.result()) is not None:
                following = thread.submit(next, blocks, None)
                yield block
                del block

    def _checked(self) -> Generator[Block]:
        count = total = 0
        for parts in self._read():
            names = _get_feature_names(parts[0])
            with naming_block(count):
                block = read_block(parts, self._form, self._n_features)
            if self._n_features is None:
                self._n_features = block.X.shape[1]
                self.feature_names = self.feature_names if names is None else names
            count += 1
            total += len(block.T)
            yield block
        self._finish_pass(count, total)

    def _finish_pass(self, count: int, total: int) -> None:
        """Check that a pass gave as many blocks and rows as those before."""
        before = (count, total) if self._passed is None else self._passed
        if not total:
            raise ValueError(
                "This pass over the row blocks gave no rows. If an earlier one did, a generator is "
                "used up, which cannot be gone through again: give a function that makes a new one."
            )
        if (count, total) != before:
            raise ValueError(
                f"This pass gave {total} rows in {count} blocks, an earlier one {before[1]} in "
                f"{before[0]}: every pass has to give the same."
            )
        self._passed = before

    def first(self) -> Block:
        """The first block that has rows, without reading the others."""
        with closing(self._checked()) as blocks:
            return next(block for block in blocks if len(block.T))  # an empty pass raises

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None if it is unknown before the first pass."""
        return self._known_rows if self._passed is None else self._passed[1]

    @property
    def n_features(self) -> int:
        """Number of features."""
        if self._n_features is None:
            self._n_features = self.first().X.shape[1]
        return self._n_features

    @property
    def labels(self) -> LabelMatrix:
        """Classes, names and coding of the labels, without rows; complete after the first pass."""
        if self._n_features is None:
            self.first()
        return self._form.labels

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.labels.n_labels


class RemoteBlocks(RowBlocks):
    """Row blocks that are elsewhere: functions go to them, and small results come back."""

    reducer: Callable[..., Any]  # how to sum a function over all blocks, each changed before
    counts: Callable[[], Any]  # observed positives and negatives of labels, and observed rows
    result_limit: Callable[[], float]  # bytes of the result of a block, infinite if unknown
