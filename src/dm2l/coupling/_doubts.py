"""Observed labels that everything else about their row contradicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

# What passes for the share of wrong labels is read off this share of the entries, those that are
# predicted most confidently.
CONFIDENT = 0.2
# Probability of being wrong from which on a label is not asked about the others of its row. Wrong
# ones among the first hundred, all labels known, without and with: yeast 78 and 86, Arts 76 and 92,
# Enron 86 and 91, emotions 35 and 38.
SUSPECT = 0.3


@dataclass(frozen=True)
class Doubts:
    r"""Observed entries, the most doubtful first.

    With the share e of observed labels that are wrong, whatever the label and the row, and the
    calibrated probability r that the entry is observed as the opposite, the probability that it is
    wrong is :math:`e (r - e) / ((1 - 2e)(1 - r))`. For e stands the share of contradictions among
    the entries that are predicted most confidently, which is rather too high than too low.

    Parameters
    ----------
    row, label : ndarray of int
        Where.
    observed : ndarray of bool
        What stands there.
    probability : ndarray of float
        That it is wrong.
    false_alarms : ndarray of float
        Expected share of right labels among this entry and all before it.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.coupling import Doubts
    >>> T = np.array([[1, -1], [-1, 1], [1, 1]])
    >>> doubts = Doubts.of(T, np.array([[0.9, 0.2], [0.1, 0.8], [0.9, 0.01]]))
    >>> int(doubts.row[0]), int(doubts.label[0]), bool(doubts.observed[0])
    (2, 1, True)
    """

    row: NDArray[np.intp]
    label: NDArray[np.intp]
    observed: NDArray[np.bool_]
    probability: NDArray[np.float64]
    false_alarms: NDArray[np.float64]

    def __len__(self) -> int:
        """Number of entries."""
        return len(self.row)

    @classmethod
    def of(cls, T: NDArray[Any], p: NDArray[Any]) -> Self:
        """Doubts about signs ``T``, given the probability of a yes that nobody asked them for."""
        row, label = np.nonzero(T)
        observed = T[row, label] > 0
        p = p[row, label]
        against = np.where(observed, 1 - p, p)
        sure = np.sort(np.maximum(p, 1 - p))[::-1]
        border = sure[int(CONFIDENT * len(sure))] if len(sure) else 1.0
        contradicted = against[np.maximum(p, 1 - p) >= border] > 0.5
        wrong = min((contradicted.sum() + 1) / (len(contradicted) + 2), 0.4)
        opposite = np.clip((against - wrong) / (1 - 2 * wrong), 0.0, 1.0)
        right = np.maximum(1 - against, 1e-12)
        probability = np.clip(wrong * opposite / right, 0.0, 1.0)
        order = np.lexsort((-against, -probability))
        probability = probability[order]
        false_alarms = np.cumsum(1 - probability) / np.arange(1, len(order) + 1)
        return cls(row[order], label[order], observed[order], probability, false_alarms)
