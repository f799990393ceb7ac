"""How a label column spells yes and no."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dm2l.readers.words import PAIRS


class Spelling(NamedTuple):
    """How a column writes an observed positive and an observed negative."""

    positive: Any
    negative: Any


def find_spelling(cells: Sequence[Any], answers: NDArray[np.float64]) -> Spelling | None:
    """The commonest way in which a column writes yes and no; None if it shows neither."""
    found: list[Any] = []
    for wanted in (1.0, 0.0):
        counts = Counter(cells[i] for i in np.flatnonzero(answers == wanted).tolist())
        found.append(counts.most_common(1)[0][0] if counts else None)
    if found == [None, None]:
        return None
    positive, negative = found
    return Spelling(
        _other(negative, 0) if positive is None else positive,
        _other(positive, 1) if negative is None else negative,
    )


def _other(cell: Any, side: int) -> Any:
    """The other answer, written as this one is: of the same type, in the same quotes and case."""
    if not isinstance(cell, str):
        return type(cell)(side == 0)
    word = cell.strip().strip('"').strip()
    other = next((pair[side] for pair in PAIRS if word.casefold() == pair[1 - side]), None)
    if other is None:
        other = "10"[side]
    if word.isupper():
        other = other.upper()
    elif word.istitle():
        other = other.title()
    return cell.replace(word, other, 1) if word else other
