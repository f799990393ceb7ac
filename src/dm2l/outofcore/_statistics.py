"""Sufficient statistics of the objective."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dm2l._utils.files import FAULTS, atomic_write
from dm2l.labels._entries import Signs
from dm2l.outofcore._grams import Array, Cover, add_label_grams
from dm2l.outofcore._sample import MEMBERS, MOST, RowSample
from dm2l.outofcore._tally import Tally

_FORMAT = 1
_COVERS = tuple(
    f"{rows}_{part}"
    for rows in ("rows", "positive_rows")
    for part in ("gram", "counted", "patterns", "pending")
)
_MEMBERS = ("facts", "positives", "negatives", "offset", "peaks", "H", "G", *_COVERS, *MEMBERS)


class SufficientStatistics(Tally):
    """All that the objective needs to know of the rows: ``H_j``, ``G_k`` and ``G_C``.

    They take ``2 n_labels (n_features + 1)^2`` numbers, however many rows there were. A fit to
    them (:meth:`dm2l.DM2LClassifier.fit_statistics`) is the fit to those rows. They add up, and a
    part can be subtracted again: un-learnt.

    Two cautions. Gram matrices square the condition of the features, so of sixteen digits about
    ``log10`` of the condition number of ``Phi'Phi + alpha I`` are lost. And subtracting the rows
    that held the last negatives of a label makes it constant: rows that only this label covers
    cannot then be told from the others any more, and its group stays in the objective.

    Parameters
    ----------
    n_features, n_labels : int
        Columns of ``X`` and of ``T``.
    sample : int, default=20000
        Rows that are kept as they are, for ``coupling``; 0 keeps none, and models fitted to these
        statistics fill holes by features alone.

    Attributes
    ----------
    H : ndarray of shape (n_labels, n_features + 1, n_features + 1)
        Gram matrices of the rows on which each label is observed; the last column is that of ones.
    G : ndarray of shape (n_labels, n_features + 1, n_features + 1)
        Gram matrices of its observed positives.
    positives, negatives, offset, peaks, sample
        As of :class:`Tally`.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.outofcore import SufficientStatistics
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 3))
    >>> T = rng.integers(-1, 2, size=(100, 2)).astype(np.int8)
    >>> whole = SufficientStatistics(3, 2).add(X, T)
    >>> first = SufficientStatistics(3, 2).add(X[:40], T[:40])
    >>> rest = SufficientStatistics(3, 2).add(X[40:], T[40:])
    >>> sum_of_both = first + rest
    >>> sum_of_both.move(whole.offset)
    >>> np.allclose(sum_of_both.H, whole.H)
    True
    >>> np.array_equal((whole - first).positives, rest.positives)
    True
    """

    def __init__(self, n_features: int, n_labels: int, sample: int = MOST) -> None:
        super().__init__(n_features, n_labels, sample)
        size = self.n_features + 1
        self.H = np.zeros((self.n_labels, size, size))
        self.G = np.zeros((self.n_labels, size, size))
        self._positive_rows = Cover(size, self.n_labels)

    @classmethod
    def gather(cls, blocks: Iterable[tuple[Any, ...]], sample: int = MOST) -> Self:
        """Statistics of all rows of a source of blocks, in one pass.

        Parameters
        ----------
        blocks : iterable of (X, T) or (X, T, weights)
            For instance a :class:`dm2l.outofcore.RowBlocks`.
        sample : int, default=20000
            Rows that are kept for ``coupling``.

        Returns
        -------
        SufficientStatistics
            Of these rows.
        """
        statistics: Self | None = None
        for X, T, *weights in blocks:
            if statistics is None:
                statistics = cls(X.shape[1], T.shape[1], sample)
            statistics.add(X, T, weights=weights[0] if weights else None)
        if statistics is None:
            raise ValueError("There are no blocks to gather statistics from.")
        return statistics

    def _add_labels(self, Phi: Any, T: Signs, learnable: NDArray[np.bool_]) -> Array:
        grams = add_label_grams(Phi, T, self.H, self.G, self._workers)
        self._positive_rows.add(Phi, T > 0, learnable, grams.covered)
        return grams.total

    def _combine_grams(self, other: Self, sign: int) -> None:
        super()._combine_grams(other, sign)
        self.H += sign * other.H
        self.G += sign * other.G
        self._positive_rows.combine(other._positive_rows, sign, self.learnable)

    def _grams(self) -> list[Array]:
        return [self.H, self.G, *super()._grams(), *self._positive_rows.each()]

    @property
    def covered(self) -> Array:
        """``G_C``: of the rows that are an observed positive of a label that can be learnt."""
        return self._positive_rows.gram

    @property
    def groups(self) -> NDArray[np.bool_]:
        """Labels whose positives form a group: those that can be learnt, and those that could.

        The latter lost a class to subtraction, or gave up waiting for one; their rows are in
        ``G_C``, which is bounded by the local norms only if theirs are among them.
        """
        left = self._positive_rows.counted & (self.positives > 0)
        return np.asarray(self.learnable | left)

    @property
    def overcounted(self) -> bool:
        """Whether rows were counted in of which no label can be learnt: too many kinds waited."""
        return super().overcounted or bool((self._positive_rows.counted & ~self.learnable).any())

    # -- files ----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Arrays and numbers that say all; the arrays are not copied."""
        names = ("n_features", "n_labels", "positives", "negatives", "offset", "peaks", "H", "G")
        state = {"begun": self._begun} | {name: getattr(self, name) for name in names}
        for name, cover in (("rows", self.rows), ("positive_rows", self._positive_rows)):
            patterns = [np.frombuffer(pattern, dtype=bool) for pattern in cover.pending]
            shape = (len(patterns), self.n_labels)
            state[f"{name}_gram"] = cover.gram
            state[f"{name}_counted"] = cover.counted
            state[f"{name}_patterns"] = np.array(patterns, dtype=bool).reshape(shape)
            pending = np.array(list(cover.pending.values()), dtype=np.float64)
            state[f"{name}_pending"] = pending.reshape(len(patterns), *cover.gram.shape)
        return state | self.sample.state()

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The statistics that :meth:`state` was called on; the arrays are not copied."""
        self = cls.__new__(cls)
        self._room = np.empty((0, 0))
        self.n_features, self.n_labels = int(state["n_features"]), int(state["n_labels"])
        self._begun = bool(state["begun"])
        for name in ("positives", "negatives", "offset", "H", "G"):
            setattr(self, name, state[name])
        self.weights = np.stack([self.G[:, -1, -1], (self.H - self.G)[:, -1, -1]])
        covers = []
        for name in ("rows", "positive_rows"):
            cover = Cover.__new__(Cover)
            cover.gram, cover.counted = state[f"{name}_gram"], state[f"{name}_counted"]
            patterns, pending = state[f"{name}_patterns"], state[f"{name}_pending"]
            cover.pending = {
                np.ascontiguousarray(pattern).tobytes(): gram
                for pattern, gram in zip(patterns, pending, strict=True)
            }
            covers.append(cover)
        self.rows, self._positive_rows = covers
        self.sample = RowSample.from_state(state)
        self.peaks = state.get("peaks", np.zeros(self.n_features + 1))  # not in older files
        self._note_peaks()
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file: an uncompressed npz archive without pickle.

        Of symmetric matrices the upper triangle is written.

        Parameters
        ----------
        path : path-like
            The file; one that is there is replaced when the new one is complete.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from dm2l.outofcore import SufficientStatistics
        >>> statistics = SufficientStatistics(2, 1).add(np.eye(2), np.array([[1], [-1]], np.int8))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "monday.npz")
        ...     statistics.save(path)
        ...     again = SufficientStatistics.load(path)
        >>> np.array_equal(again.H, statistics.H)
        True
        """
        upper = np.triu_indices(self.n_features + 1)
        state = self.state()
        facts = {name: value for name, value in state.items() if not isinstance(value, np.ndarray)}
        arrays: dict[str, Any] = {
            name: value[..., upper[0], upper[1]] if _symmetric(name) else value
            for name, value in state.items()
            if isinstance(value, np.ndarray)
        }
        with atomic_write(Path(path)) as partial, partial.open("wb") as file:
            np.savez(file, facts=np.array(json.dumps({"format": _FORMAT, **facts})), **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote.

        Parameters
        ----------
        path : path-like
            The file.

        Returns
        -------
        SufficientStatistics
            The same numbers, to the last digit.
        """
        from dm2l.io._npz_file import read_members  # no fit in memory needs a reader

        try:
            arrays = read_members(path, _MEMBERS)
            state = json.loads(str(arrays.pop("facts")))
            if state["format"] != _FORMAT:
                raise ValueError(f"its format is {state['format']}, this dm2l reads {_FORMAT}")
            size = int(state["n_features"]) + 1
            for name, value in arrays.items():
                state[name] = _whole(value, size) if _symmetric(name) else value
            return cls.from_state(state)._checked()
        except FAULTS as error:
            raise ValueError(f"{path} holds no statistics of dm2l: {error}.") from error

    def _checked(self) -> Self:
        size, c = self.n_features + 1, self.n_labels
        shapes = {"H": (c, size, size), "G": (c, size, size), "offset": (size - 1,)}
        shapes |= {"positives": (c,), "negatives": (c,), "peaks": (size,)}
        arrays = [(name, getattr(self, name), shape) for name, shape in shapes.items()]
        for cover in (self.rows, self._positive_rows):
            arrays += [("a Gram matrix", gram, (size, size)) for gram in cover.each()]
            arrays += [("counted", cover.counted, (c,))]
            if any(len(pattern) != c for pattern in cover.pending):
                raise ValueError(f"a pattern does not have {c} labels")
        for name, array, shape in arrays:
            if array.shape != shape:
                raise ValueError(f"{name} has shape {array.shape}, not {shape}")
            kind = {"counted": "b", "positives": "i", "negatives": "i"}.get(name, "f")
            if array.dtype.kind != kind or not np.isfinite(array).all():
                raise ValueError(f"{name} does not hold proper numbers")
        return self


def _symmetric(name: str) -> bool:
    return name in ("H", "G") or name.endswith(("_gram", "_pending"))


def _whole(triangle: Array, size: int) -> Array:
    """Symmetric matrices of their upper triangles."""
    if triangle.shape[-1:] != (size * (size + 1) // 2,):  # before anything of this size is made
        raise ValueError(f"a triangle of {size} rows has shape {triangle.shape}")
    upper = np.triu_indices(size)
    whole = np.zeros((*triangle.shape[:-1], size, size))
    whole[..., upper[0], upper[1]] = triangle
    whole[..., upper[1], upper[0]] = triangle
    return whole
