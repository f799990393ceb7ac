"""Labels that arrive in blocks, none of which shows all classes or codes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dm2l.labels._entries import Signs
from dm2l.labels._matrix import LabelMatrix, parse_like
from dm2l.labels._parsing import read_values


class LabelForm:
    """Reads labels block by block, and checks that coding, columns and classes stay the same."""

    # A block may have nothing observed, or no negative. A 1-D y needs all classes.
    def __init__(
        self, missing_label: Any = np.nan, missing_as: Any = None, classes: Any = None
    ) -> None:
        self.missing_label = missing_label
        self.missing_as = missing_as
        self._classes = None if classes is None else np.unique(np.asarray(classes))
        self._labels: LabelMatrix | None = None
        self._coding: int | None = None  # of a negative

    @classmethod
    def resumed(
        cls, labels: LabelMatrix, negatives: int, missing_label: Any, missing_as: Any
    ) -> Any:
        """Continue after labels that were read before, of which ``negatives`` were negative."""
        form = cls(missing_label, missing_as, labels.classes)
        form._labels = labels
        if labels.kind == "multilabel" and (labels.negative or negatives):
            form._coding = labels.negative
        return form

    @property
    def labels(self) -> LabelMatrix:
        """Form without any rows."""
        if self._labels is None:
            raise ValueError("No labels have been read yet.")
        return self._labels

    def read(self, Y: Any, label_mask: Any = None) -> Signs:
        """Signs of a block, int8 of shape (n, n_labels)."""
        found = None
        if Y is None or np.ndim(Y) != 1:
            found = parse_like(Y, label_mask, self.missing_label, self.missing_as, self._coding)
        if found is None or found.classes is not None:
            found = self._by_classes(Y, label_mask)
        elif self._classes is not None and len(self._classes) != found.n_labels:
            raise ValueError(
                f"classes= names {len(self._classes)} classes, but Y has {found.n_labels} labels."
            )
        self._take(found, found.negative if (found.signs < 0).any() else None)
        return found.signs

    def join(self, other: LabelForm) -> None:
        """Check further blocks, which a copy of this form has read, against this form."""
        self._take(other.labels, other._coding)

    def _by_classes(self, Y: Any, label_mask: Any) -> LabelMatrix:
        if self._classes is None:
            raise ValueError(
                "A 1-D y needs classes=, all classes there are: a block may not show every one."
            )
        classes = self._classes
        if label_mask is not None:
            label_mask = np.ravel(label_mask)
        values, observed, _ = read_values(np.ravel(Y), label_mask, self.missing_label)
        seen = np.array(values[observed].tolist()) if values.dtype == object else values[observed]
        unknown = np.setdiff1d(seen, classes)
        if len(unknown):
            raise ValueError(
                f"y holds {unknown.tolist()[0]!r}, which is not among classes={classes.tolist()}."
            )
        return LabelMatrix.of_classes(classes, np.searchsorted(classes, seen), observed)

    def _take(self, found: LabelMatrix, coding: int | None) -> None:
        """Check a block, with negatives coded as ``coding``, and remember what it adds."""
        known = found if self._labels is None else self._labels
        if known.kind != found.kind or known.n_labels != found.n_labels:
            raise ValueError(
                f"This block has {found.n_labels} labels ({found.kind}), but earlier ones had "
                f"{known.n_labels} ({known.kind})."
            )
        names = [None if part.names is None else list(part.names) for part in (known, found)]
        if None not in names and names[0] != names[1]:
            raise ValueError(
                f"The labels of this block are {_shown(found.names)}, but earlier ones were "
                f"{_shown(known.names)}."
            )
        dtype = known.dtype
        if known.kind == "multilabel":
            if coding is not None and self._coding not in (None, coding):
                raise ValueError(
                    f"This block writes negatives as {coding}, but earlier ones as "
                    f"{self._coding}. If one of them marks what was not observed, say so with "
                    "missing_label."
                )
            self._coding = self._coding if coding is None else coding
            dtype = known.dtype if known.dtype == found.dtype else np.dtype(np.int64)
        self._labels = replace(
            known,
            signs=known.signs[:0].copy(),
            entries=None,
            negative=self._coding or 0,
            dtype=dtype,
            names=found.names if known.names is None else known.names,
        )


def _shown(names: Any) -> str:
    return ", ".join(map(repr, names[:5]))
