"""How far a review is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dm2l.review._journal import Decision
from dm2l.review._question import Key


class Progress(NamedTuple):
    """How far a review is.

    ``suggested`` entries are asked for in all; ``answered`` of them got a yes or no, ``skipped``
    none. Of the ``believed`` answers to which the model gave a probability when it asked,
    ``foreseen`` lie on its side of one half: it had not learnt from them yet. Of the ``checked``
    labels, which were observed, ``corrected`` are said to be wrong.
    """

    suggested: int
    answered: int
    skipped: int
    foreseen: int
    believed: int
    checked: int = 0
    corrected: int = 0

    @property
    def decided(self) -> int:
        """Entries that were answered or skipped."""
        return self.answered + self.skipped


class Doubting(NamedTuple):
    """Whether doubtful labels are being looked for, how many were found, and why that failed."""

    running: bool = False
    found: int = 0
    error: str = ""
    done: bool = False


def count(decisions: Mapping[Key, Decision], suggested: int) -> Progress:
    """Sum up what was decided."""
    answered = [made for made in decisions.values() if made.answer != "skip"]
    known = [(answer == "yes", p) for answer, p in answered if p is not None]
    return Progress(
        suggested=suggested,
        answered=len(answered),
        skipped=len(decisions) - len(answered),
        foreseen=sum((p > 0.5) == yes for yes, p in known),
        believed=len(known),
    )
