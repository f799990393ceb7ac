"""A review whose answers come from annotations of whole rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l.review import ReviewSession


class AnnotationSession(ReviewSession):
    """A :class:`dm2l.review.ReviewSession` that takes annotations and tells what is believed.

    Parameters
    ----------
    *args, **options
        As of :class:`dm2l.review.ReviewSession`.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.measured = False  # nobody sees it
        self._named: tuple[Any, str] = None, ""

    @property
    def version(self) -> str:
        """A name of the model as it was fitted last, the same after a restart."""
        with self._lock:
            if self._named[0] is not self.model:
                content = self.learnt.tobytes() + self.model.correlation.round(6).tobytes()
                new = ~np.isnan(self.learnt) & (self.learnt != self.table.Y)
                digest = hashlib.sha256(content).hexdigest()[:8]
                self._named = self.model, f"dm2l-{int(new.sum())}-{digest}"
            return self._named[1]

    def open_rows(self) -> list[int]:
        """Rows with labels that nobody has decided, those most worth reading first."""
        with self._lock:
            left, values = self._answers.left(), self._beliefs.values
            value = np.sum(values.own + values.others, axis=1, where=left)
            rows = np.flatnonzero(left.any(axis=1))
            found: list[int] = (rows[np.argsort(-value[rows], kind="stable")] + 1).tolist()
            return found

    def decided_rows(self) -> list[int]:
        """Rows of which something was decided, in that order."""
        with self._lock:
            return self._answers.rows()

    def annotate(self, row: int, answers: Mapping[str, str], *, again: bool = True) -> int:
        """Take what an annotation says of a row; what is known already is not written again.

        Parameters
        ----------
        row : int
            Row number; 1 is the first row below the header.
        answers : mapping of str to {"yes", "no", "skip"}
            By label: answers to holes, and confirmations or corrections of observed labels. A skip
            takes nothing back.
        again : bool, default=True
            Whether what was decided already is changed.

        Returns
        -------
        int
            How many answers were new; they are on disk when this returns.
        """
        with self._lock:
            new = {}
            for label, answer in answers.items():
                observed = self._answers.observed(row, label)
                self.journal.check(row, label, answer, bool(observed))
                made = self.journal.checks if observed else self.journal.decisions
                said = made[row, label].answer if (row, label) in made else observed
                if (row, label) in made and not again:
                    continue
                if answer != said and not (answer == "skip" and said):
                    new[label] = bool(observed)
            for label, check in new.items():
                k = self.table.label_names.index(label)
                p = float(self._beliefs.values.probability[row - 1, k])
                self.journal.add(
                    row, label, answers[label], None if check else round(p, 6), check=check
                )
            if new:
                self._beliefs.learn(row - 1, self._answers.row(row))
            return len(new)

    def believed(self, row: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Probabilities of a row's labels, 0 or 1 where they are known, and which those are."""
        with self._lock:
            known = self._answers.row(row)
            p = self._beliefs.values.probability[row - 1]
            return np.where(np.isnan(known), p, known), ~np.isnan(known)
