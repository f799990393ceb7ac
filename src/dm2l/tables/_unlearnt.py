"""Labels of which one answer alone was ever seen: nothing tells their yes from their no."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

NAMED = 5  # labels that are named, at most

_TICKS = "--blank unlabelled (if a blank is what nobody ticked) or a few entries that say no"
# By the constant score of such a label: what it lacks, and what would help.
_LACKS = {
    1.0: ("no entry says no", _TICKS),
    -1.0: ("no entry says yes", "a few entries that say yes"),
    0.0: ("nothing is observed", "a few entries of either answer"),
}


class Unlearnt(NamedTuple):
    """Labels that lack the same."""

    labels: list[int]
    lack: str
    help: str

    def called(self, names: Sequence[str]) -> str:
        """The labels by name."""
        shown = ", ".join(repr(names[k]) for k in self.labels[:NAMED])
        more = f" and {len(self.labels) - NAMED} more" if len(self.labels) > NAMED else ""
        return f"{'label' if len(self.labels) == 1 else 'labels'} {shown}{more}"


def learnt(classifier: Any) -> NDArray[np.bool_]:
    """Labels of a fitted classifier that are no constants."""
    return np.asarray(classifier._learnable, dtype=bool)


def unlearnt(classifier: Any, among: Any = True) -> Iterator[Unlearnt]:
    """Labels of a fitted classifier, and of ``among``, that are constants."""
    constant = ~learnt(classifier) & among
    for score, (lack, help) in _LACKS.items():
        labels = np.flatnonzero(constant & (np.asarray(classifier._constant) == score)).tolist()
        if labels:
            yield Unlearnt(labels, lack, help)


def fit_warnings(classifier: Any, names: Sequence[str]) -> list[str]:
    """What to say of them when a model was fitted."""
    return [
        f"{found.called(names)} cannot be learnt, since {found.lack}: `complete` leaves blanks "
        f"there blank. What would help: {found.help}"
        for found in unlearnt(classifier)
    ]


def completion_warnings(
    classifier: Any, names: Sequence[str], holes: NDArray[np.bool_]
) -> list[str]:
    """What to say of their holes, which are left."""
    return [
        f"{found.called(names)}: {int(holes[:, found.labels].sum())} blanks stay blank, since "
        f"{found.lack} where the model was fitted. What would help there: {found.help}"
        for found in unlearnt(classifier, holes.any(axis=0))
    ]


def prediction_warnings(classifier: Any, names: Sequence[str]) -> list[str]:
    """What to say of predictions of them, which are all the same."""
    return [
        f"{found.called(names)}: the same in every row, since {found.lack} where the model was "
        f"fitted. What would help there: {found.help}"
        for found in unlearnt(classifier)
    ]
