r"""Holes that are best asked for together: what one answer will have told, another need not.

Greedy: the most valuable hole is taken, and the values of the others are what is left to be told.
Once hole :math:`i` of label :math:`k` is chosen, the chance :math:`\min(p_j, 1 - p_j)` of a mistake
about another hole :math:`j` of that label counts :math:`1 - \rho_{ij}^2` times, where

.. math:: \rho_{ij} = \frac{\phi_i' H_k^{-1} \phi_j}
          {\sqrt{\phi_i' H_k^{-1} \phi_i \cdot \phi_j' H_k^{-1} \phi_j}}

is the correlation of what ridge does not know about the two scores: 1 for copies of a row. (Ridge
itself would take the label for noise, of which a second copy tells more; asking for it first is a
waste where copies have the same label.) The row of :math:`i` is then known,
:math:`H_k + \phi_i \phi_i'`, so that similar rows teach less about others, and other holes of that
row lose what they would tell about it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dm2l.tables._suggestion import AnswerValues, Learning, solved_rows

Entries = NDArray[np.float64]


class _Label:
    r"""The holes of a label, with :math:`H_k^{-1} \phi_i` kept up as rows become known."""

    def __init__(self, learning: Learning, holes: NDArray[np.bool_], k: int) -> None:
        self.rows = np.flatnonzero(holes[:, k])
        self.left = np.ones(len(self.rows), dtype=bool)
        self.steep = learning.slope[self.rows, k].copy()
        self.skill = learning.skill[k]
        self.asked, self.solved = solved_rows(learning.directions, holes[:, k], learning.alpha)
        self.leverage = np.einsum("ij,ij->i", self.asked, self.solved)

    def likeness(self, i: int) -> Entries:
        """Squared correlation of what is not known about the scores of hole ``i`` and others."""
        reach = self.asked @ self.solved[i]
        return np.minimum(reach**2 / (self.leverage * self.leverage[i]), 1.0)

    def know(self, i: int) -> None:
        """Row ``i`` is known from now on (Sherman and Morrison)."""
        u = self.solved[i].copy()
        reach = self.asked @ u / (1 + self.leverage[i])
        self.leverage = self.leverage - reach**2 * (1 + self.leverage[i])
        self.solved = self.solved - reach[:, None] * u
        self.left[i] = False

    def effects(self) -> Entries:
        """Mistakes that each hole, if its answer is entirely uncertain, spares at those left."""
        felt = (self.steep * self.left)[:, None] * self.asked
        moved = np.einsum("ij,ij->i", self.solved @ (felt.T @ felt), self.solved)
        own = (self.steep * self.left * self.leverage) ** 2
        return 2 * self.skill * np.maximum(moved - own, 0.0) / (1 + self.leverage) ** 2


def choose_batch(
    values: AnswerValues,
    learning: Learning,
    holes: NDArray[np.bool_],
    asked: NDArray[np.bool_],
    n: int,
) -> tuple[NDArray[np.intp], list[Entries]]:
    """Places of ``n`` holes to ask for together, and the values of all at each step.

    Parameters
    ----------
    values : AnswerValues
        Of each hole by itself.
    learning : Learning
        What answers teach.
    holes, asked : ndarray of bool of shape (n_rows, n_labels)
        What is not known, and what of it may be asked for.
    n : int
        How many, at most.
    """
    own, row, p = values.own.copy(), values.row.copy(), values.probability
    others, left = values.others.copy(), asked.copy()
    labels: dict[int, _Label] = {}
    chosen, steps = [], []
    for _ in range(min(n, int(asked.sum()))):
        total = np.where(left, own + row + others, np.nan)
        i, k = np.unravel_index(np.nanargmax(total), total.shape)
        chosen.append((i, k))
        steps.append(total)
        left[i, k] = False
        row[i] = 0.0
        label = labels.setdefault(int(k), _Label(learning, holes, int(k)))
        at = int(np.searchsorted(label.rows, i))
        uncertain = 4 * p[:, k] * (1 - p[:, k])
        own[label.rows, k] *= 1 - label.likeness(at)
        label.know(at)
        others[label.rows, k] = uncertain[label.rows] * label.effects()
    return np.array(chosen, dtype=np.intp).reshape(-1, 2), steps
