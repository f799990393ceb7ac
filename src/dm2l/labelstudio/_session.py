"""A review whose answers come from annotations of whole rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l.review import ReviewSession


class AnnotationSession(ReviewSession):
    """A :class:`dm2l.review.ReviewSession`, with its parameters, that takes annotations."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.measured = False  # Label Studio does not show it
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
        """Rows with labels without a decision, the most valuable first."""
        with self._lock:
            return [i + 1 for i in self._predictions.rank_rows(self.journal.left())]

    def decided_rows(self) -> list[int]:
        """Rows with a decision, in the order of the first one."""
        with self._lock:
            return self.journal.rows()

    def annotate(self, row: int, answers: Mapping[str, str], *, again: bool = True) -> int:
        """Write the new answers of an annotation of a row, and return their number.

        Parameters
        ----------
        row : int
            Row number; 1 is the first row below the header.
        answers : mapping of str to {"yes", "no", "skip"}
            By label: answers to missing labels, and confirmations or corrections of observed ones.
            A skip does not retract an answer.
        again : bool, default=True
            Whether earlier answers are changed.
        """
        with self._lock:
            new = {}
            for label, answer in answers.items():
                observed = self.journal.observed(row, label)
                self.journal.check(row, label, answer, bool(observed))
                made = self.journal.checks if observed else self.journal.decisions
                before = made[row, label].answer if (row, label) in made else observed
                if (row, label) in made and not again:
                    continue
                if answer != before and not (answer == "skip" and before):
                    new[label] = bool(observed)
            for label, check in new.items():
                self._write(row, label, answers[label], check)
            if new:
                self._predictions.condition(row - 1, self.journal.row_labels(row))
            return len(new)

    def row_probabilities(self, row: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Probabilities of a row's labels, 0 or 1 if they are known, and which are known."""
        with self._lock:
            known = self.journal.row_labels(row)
            p = self._predictions.values.probability[row - 1]
            return np.where(np.isnan(known), p, known), ~np.isnan(known)
