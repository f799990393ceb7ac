"""Row blocks: sources that can be read repeatedly, and checks of each block."""

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing, check_array, gen_batches
from sklearn.utils.validation import _get_feature_names

from dm2l._utils.arrays import is_non_numpy
from dm2l._utils.inputs import block_rows, check_counts
from dm2l.labels._entries import Signs, checked_weights
from dm2l.labels._matrix import LabelForm, LabelMatrix
from dm2l.labels._parsing import read_values

Path = str | os.PathLike[str]
Read = Callable[[], Iterable[Sequence[Any]]]


class Block(NamedTuple):
    """Rows, signs of their labels, and optional row weights."""

    X: Any
    T: Signs
    weights: NDArray[np.float64] | None = None


@contextmanager
def naming_block(place: int) -> Iterator[None]:
    """Add the block number, counted from 0, to error messages."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"Block {place}: {error}") from error


def read_block(parts: Sequence[Any], form: LabelForm, n_features: int | None) -> Block:
    """Check a block ``(X, Y, label_mask, sample_weight)``; the last two are optional."""
    X, Y, mask, sample_weight = [*parts, None, None][:4]
    if is_non_numpy(X):
        raise TypeError("Row blocks support only numpy and sparse matrices. Convert X to numpy.")
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=0)
    T = form.read(Y, mask)
    if X.shape[0] != len(T):
        raise ValueError(f"X has {X.shape[0]} rows, but Y has {len(T)}.")
    if n_features not in (None, X.shape[1]):
        raise ValueError(f"X has {X.shape[1]} features, but earlier blocks have {n_features}.")
    if sample_weight is None:
        return Block(X, T)
    rows = checked_weights("sample_weight", sample_weight, (len(T),), allow_zero=True)
    return Block(X, np.where(rows[:, None] > 0, T, 0).astype(np.int8), rows)


def _indexable(part: Any) -> Any:
    """Convert an array-like to a type whose rows can be sliced."""
    part = part if part is None or hasattr(part, "shape") else np.asarray(part)
    return part.tocsr() if sp.issparse(part) else part


def _first_rows(blocks: Iterable[Sequence[Any]], rows: int) -> Iterator[Sequence[Any]]:
    """Yield blocks with ``rows`` rows in total; the last block may be cut short."""
    for parts in blocks:
        n = parts[0].shape[0]
        if n >= rows:
            yield _cut([_indexable(part) for part in parts], slice(0, rows))
            return
        yield parts
        rows -= n


def _cut(parts: Sequence[Any], rows: slice) -> list[Any]:
    return [part if part is None else _safe_indexing(part, rows) for part in parts]


def stacked(parts: list[Any]) -> Any:
    """Stack dense arrays or sparse matrices vertically."""
    if len(parts) == 1:
        return parts[0]
    if any(sp.issparse(part) for part in parts):
        rows = [part if sp.issparse(part) else sp.csr_matrix(part) for part in parts]
        return sp.vstack(rows, format="csr")
    return np.concatenate(parts)


class RowBlocks:
    """Rows and labels that are read block by block, in as many passes as a fit needs.

    Every pass reads the data again, so that only one or two blocks are in memory. All passes must
    return the same blocks.

    Parameters
    ----------
    read : callable
        Function that is called at the beginning of every pass, and returns an iterable of ``(X,
        Y)``, ``(X, Y, label_mask)`` or ``(X, Y, label_mask, sample_weight)``; the last two may be
        None. A generator function works; a generator does not, because it ends after one pass.
    missing_label, missing_as : scalar and {None, "missing", "negative"}
        Value of a missing label, and meaning of entries that a sparse ``Y`` does not store.
    classes : array-like, default=None
        All classes of a 1-D ``y``.
    n_rows : int, default=None
        Number of rows, if it is known in advance.
    ahead : bool, default=True
        Whether a thread reads the next block while the current block is processed.

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
            what = f"read must be a function that returns blocks, got {type(read).__name__}."
            raise TypeError(f"{what} Wrap an iterable in a function: RowBlocks(lambda: ...).")
        self._read = read
        self.missing_label = missing_label
        self.missing_as = missing_as
        self._form = LabelForm(missing_label, missing_as, classes)
        self._known_rows = n_rows
        self._ahead = ahead
        self._n_features: int | None = None
        self._passed: tuple[int, int] | None = None  # blocks and rows of the first full pass
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
            As for :meth:`dm2l.DM2LClassifier.fit`; a memory-mapped ``X`` is read block by block.
        rows : int, default=None
            Number of rows per block; None puts all rows into one block.
        **options
            Parameters of :class:`dm2l.outofcore.RowBlocks`.
        """
        if np.ndim(Y) == 1 and not sp.issparse(Y) and options.get("classes") is None:
            values, seen, _ = read_values(Y, label_mask, options.get("missing_label", np.nan))
            options["classes"] = np.unique(np.array(values[seen].tolist()))
        parts = [_indexable(part) for part in (X, Y, label_mask, sample_weight)]
        n = parts[0].shape[0]
        for part, name in zip(parts[1:], ("Y", "label_mask", "sample_weight"), strict=True):
            if part is not None and part.shape[0] != n:
                raise ValueError(f"X has {n} rows, but {name} has {part.shape[0]}.")
        slices = list(gen_batches(n, max(1, n if rows is None else block_rows(rows, 1))))
        read = partial(map, partial(_cut, parts), slices)
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
        """Read files block by block, in the format given by their suffix.

        ``.parquet``
            Tables of numbers and booleans, read by row groups; needs the extra ``io``.
        ``.csv``, ``.tsv``, ``.tab``, ``.txt``
            Text tables in UTF-8, also compressed (``.csv.gz``); needs the extra ``io``.
        ``.svm``, ``.svmlight``, ``.libsvm``
            Multi-label svmlight files, with lines such as ``2,5 1:0.3 7:1``; ``X`` is sparse.
        ``.npy``, ``.npz``
            Memory-mapped arrays: two ``.npy`` files, or one ``.npz`` of ``X`` and ``Y``.

        Parameters
        ----------
        path : path-like or list of path-like
            The file, or several tables or svmlight files with the same columns.
        labels : int, str, sequence or path-like, default=None
            For tables, the label columns, as in :func:`dm2l.io.read_csv`. For svmlight files, the
            numbers of the labels in the order of the columns of ``Y``. For ``.npy``, the label
            file.
        rows : int, default=None
            Number of rows per block; None means blocks of about 30 MB, or 10,000 rows for svmlight.
        missing_label, classes, ahead
            Parameters of :class:`dm2l.outofcore.RowBlocks`.
        **options
            For text tables, options of :func:`dm2l.io.read_csv`; for Parquet, ``drop``; for
            svmlight files, options of :func:`dm2l.io.read_svmlight`, where ``n_features`` is
            required.
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

    def head(self, rows: int) -> "RowBlocks":
        """Return row blocks that contain only the first ``rows`` rows."""
        check_counts(rows=rows)
        classes = self._form.labels.classes if self._form.labels is not None else None
        first = RowBlocks(
            lambda: _first_rows(self._read(), int(rows)),
            missing_label=self.missing_label,
            missing_as=self.missing_as,
            classes=self._form._classes if classes is None else classes,
            n_rows=None if self._known_rows is None else min(rows, self._known_rows),
            ahead=self._ahead,
        )
        first.feature_names = self.feature_names
        return first

    def check_marks(self, missing_label: Any, missing_as: Any) -> None:
        """Raise an error if an estimator and the blocks mark missing labels differently."""
        marks = {"missing_label": (missing_label, np.nan), "missing_as": (missing_as, None)}
        for name, (mark, usual) in marks.items():
            mine = getattr(self, name)
            known = ((mark != mark and other != other) or mark == other for other in (mine, usual))
            if not any(known):
                raise ValueError(
                    f"The estimator has {name}={mark!r}, but the row blocks, which read the "
                    f"labels, have {name}={mine!r}. Pass {name} to the row blocks."
                )

    def __iter__(self) -> Iterator[Block]:
        if not self._ahead:
            yield from self._checked()
            return
        # A thread reads only one block ahead, because each block takes memory.
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
        """Check that a pass returned as many blocks and rows as the first pass."""
        before = (count, total) if self._passed is None else self._passed
        if not total:
            raise ValueError(
                "This pass over the row blocks returned no rows. A generator can be used only "
                "once: pass a function that returns a new generator for each pass."
            )
        if (count, total) != before:
            raise ValueError(
                f"This pass returned {total} rows in {count} blocks, but the first pass returned "
                f"{before[1]} rows in {before[0]} blocks. Every pass must return the same blocks."
            )
        self._passed = before

    def first(self) -> Block:
        """Return the first block that contains any rows; later blocks are not read."""
        with closing(self._checked()) as blocks:
            # If there are no rows, the end of the pass raises an error.
            return next(block for block in blocks if len(block.T))

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None if unknown before the first pass."""
        return self._known_rows if self._passed is None else self._passed[1]

    @property
    def n_features(self) -> int:
        """Number of features."""
        if self._n_features is None:
            self._n_features = self.first().X.shape[1]
        return self._n_features

    @property
    def labels(self) -> LabelMatrix:
        """Empty label matrix with the classes, names and coding of the blocks read so far."""
        if self._n_features is None:
            self.first()
        return self._form.labels

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.labels.n_labels


class RemoteBlocks(RowBlocks):
    """Row blocks on other machines; only small results of functions of blocks are returned."""

    reducer: Callable[..., Any]  # returns a function that sums a given function over all blocks
    counts: Callable[[], Any]  # observed positives and negatives per label; observed rows
    result_limit: Callable[[], float]  # maximum size in bytes of the result of a block
