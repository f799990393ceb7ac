r"""Missing entries that are best queried together.

Greedy: the most valuable entry is taken, and the values of the others are reduced by what they
share with it. Once entry :math:`i` of label :math:`k` is chosen, the chance
:math:`\min(p_j, 1 - p_j)` of a mistake about another missing entry :math:`j` of that label counts
:math:`1 - \rho_{ij}^2` times, where

.. math:: \rho_{ij} = \frac{\phi_i' H_k^{-1} \phi_j}
          {\sqrt{\phi_i' H_k^{-1} \phi_i \cdot \phi_j' H_k^{-1} \phi_j}}

is the posterior correlation of the two scores: 1 for copies of a row. (For ridge itself the label
is noisy, and a second copy informative; that is a waste where copies have the same label.) The row
of :math:`i` then counts as observed, :math:`H_k + \phi_i \phi_i'`, which lowers the values of
similar rows and of other entries of that row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dm2l.tables._suggestion import AnswerValues, Learning, solved_rows

Entries = NDArray[np.float64]


class _Label:
    r"""The missing entries of a label, with :math:`H_k^{-1} \phi_i` updated as rows are chosen."""

    def __init__(self, learning: Learning, missing: NDArray[np.bool_], k: int) -> None:
        self.rows = np.flatnonzero(missing[:, k])
        self.left = np.ones(len(self.rows), dtype=bool)
        self.steep = learning.slope[self.rows, k].copy()
        self.skill = learning.skill[k]
        self.asked, self.solved = solved_rows(learning.directions, missing[:, k], learning.alpha)
        self.leverage = np.einsum("ij,ij->i", self.asked, self.solved)

    def likeness(self, i: int) -> Entries:
        """Squared posterior correlation of the scores of entry ``i`` and the others."""
        reach = self.asked @ self.solved[i]
        return np.minimum(reach**2 / (self.leverage * self.leverage[i]), 1.0)

    def know(self, i: int) -> None:
        """Count row ``i`` as observed (Sherman and Morrison)."""
        u = self.solved[i].copy()
        reach = self.asked @ u / (1 + self.leverage[i])
        self.leverage = self.leverage - reach**2 * (1 + self.leverage[i])
        self.solved = self.solved - reach[:, None] * u
        self.left[i] = False

    def effects(self) -> Entries:
        """Mistakes that each answer, if entirely uncertain, prevents at the entries left."""
        felt = (self.steep * self.left)[:, None] * self.asked
        moved = np.einsum("ij,ij->i", self.solved @ (felt.T @ felt), self.solved)
        own = (self.steep * self.left * self.leverage) ** 2
        return 2 * self.skill * np.maximum(moved - own, 0.0) / (1 + self.leverage) ** 2


def choose_batch(
    values: AnswerValues,
    learning: Learning,
    missing: NDArray[np.bool_],
    asked: NDArray[np.bool_],
    n: int,
) -> tuple[NDArray[np.intp], list[Entries]]:
    """Places of at most ``n`` of the entries ``asked`` to query together, and all values then."""
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
        label = labels.setdefault(int(k), _Label(learning, missing, int(k)))
        at = int(np.searchsorted(label.rows, i))
        uncertain = 4 * p[:, k] * (1 - p[:, k])
        own[label.rows, k] *= 1 - label.likeness(at)
        label.know(at)
        others[label.rows, k] = uncertain[label.rows] * label.effects()
    return np.array(chosen, dtype=np.intp).reshape(-1, 2), steps
