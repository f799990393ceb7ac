"""Validated labels: the one form in which the library holds them.

Inside the library labels are *signs*: an ``int8`` matrix ``T`` with ``+1`` for an observed
positive, ``-1`` for an observed negative and ``0`` for an entry nobody has looked at. The paper
writes the same thing as ``Y`` on ``Omega`` and zero elsewhere, its ``R_Omega(Y)``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dm2l.labels._entries import EntryWeights, Signs, apply_weights

Kind = Literal["multilabel", "binary", "multiclass"]


class ConstantLabelWarning(UserWarning):
    """A label cannot be learnt because at most one of its classes was observed."""


@dataclass(frozen=True)
class Labels:
    """Validated labels.

    Attributes
    ----------
    signs : ndarray of shape (n, c), int8
        ``+1`` observed positive, ``-1`` observed negative, ``0`` missing.
    kind : {"multilabel", "binary", "multiclass"}
        What came in: a label matrix, or a 1-D ``y`` with two or with more classes.
    classes : ndarray or None
        The classes of a 1-D ``y``; None for a label matrix.
    names : ndarray of object or None
        Column names, when the container had them.
    negative : {0, -1}
        How the input wrote an observed negative.
    dtype : numpy dtype
        What predictions in the coding of the input are stored as.
    """

    signs: Signs
    kind: Kind
    classes: NDArray[Any] | None
    names: NDArray[np.object_] | None
    negative: int
    dtype: np.dtype[Any]

    @classmethod
    def of_classes(
        cls, classes: NDArray[Any], codes: NDArray[np.intp], observed: NDArray[np.bool_]
    ) -> Labels:
        """Signs of a 1-D ``y``: ``codes`` are the places in ``classes`` of what was observed."""
        binary = len(classes) <= 2
        matrix = np.zeros((len(observed), 1 if binary else len(classes)), dtype=np.int8)
        if binary:
            matrix[observed, 0] = np.where(codes == len(classes) - 1, 1, -1)
        else:
            matrix[observed] = -1
            matrix[np.flatnonzero(observed), codes] = 1
        kind: Kind = "binary" if binary else "multiclass"
        return cls(matrix, kind, classes, names=None, negative=0, dtype=classes.dtype)

    @property
    def n_labels(self) -> int:
        """Number of label columns."""
        return int(self.signs.shape[1])

    def learnable(self) -> NDArray[np.bool_]:
        """Labels of which both classes were observed."""
        return np.asarray((self.signs > 0).any(axis=0) & (self.signs < 0).any(axis=0))

    def apply_weights(
        self, sample_weight: Any, label_weight: Any
    ) -> tuple[Labels, EntryWeights | None]:
        """These without entries of weight zero, and the weights of the others."""
        one_dimensional = self.kind != "multilabel"
        T, entries = apply_weights(
            self.signs, sample_weight, label_weight, one_dimensional=one_dimensional
        )
        return self if T is self.signs else replace(self, signs=T), entries

    def decode(self, positive: NDArray[np.bool_]) -> NDArray[Any]:
        """Write decisions in the coding the labels came in."""
        unsigned = self.dtype.kind == "u" and self.negative < 0
        dtype = np.dtype(np.int64) if unsigned else self.dtype
        return np.where(positive, 1, self.negative).astype(dtype)

    def warn_constant(self, stacklevel: int = 3) -> None:
        """Warn about labels that have nothing, or only one class, observed."""
        empty = ~(self.signs != 0).any(axis=0)
        single = ~self.learnable() & ~empty
        for which, what in ((empty, "nothing observed"), (single, "only one class observed")):
            if which.any() and self.kind == "multilabel":
                shown = [self.describe(int(j)) for j in np.flatnonzero(which)[:5]]
                more = "" if which.sum() <= 5 else f" and {which.sum() - 5} more"
                warnings.warn(
                    f"{which.sum()} label(s) have {what} and get a constant score: "
                    f"{', '.join(shown)}{more}.",
                    ConstantLabelWarning,
                    stacklevel=stacklevel,
                )

    def describe(self, column: int) -> str:
        """Name of a column for messages."""
        return column_text(column, self.names)


def column_text(column: int, names: Sequence[Any] | NDArray[np.object_] | None) -> str:
    """Name of a column for messages."""
    return f"column {column}" if names is None else f"column {names[column]!r}"
