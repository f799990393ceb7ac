r"""Scores of ticks that the other ticks of a row have a say in.

Where positives are ticked independently of each other, other ticks are as good as features:

.. math:: P(s_j | x, s_{-j}) = c_j P(y_j | x, s_{-j})

and a row may be certain of a label by the company that it keeps. So what features leave of ticks,
:math:`R = S - F`, is regressed on that of the other labels, with ridge and without the row. All of
these regressions are in one inverse: with :math:`Q = (R'R + \alpha I)^{-1}` residuals are
:math:`(R Q)_{ij} / Q_{jj}` and leverages :math:`r_i' Q r_i - (R Q)_{ij}^2 / Q_{jj}`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Ridges, in ticks; and the rows, about as many, by which one is chosen.
RIDGES, JUDGES = (1.0, 10.0, 100.0, 1000.0), 2000


def given_others(honest: Floats, ticks: Floats) -> Floats:
    """Scores of ticks, given features and the other ticks of the row, as if it had not been there.

    Parameters
    ----------
    honest : ndarray of shape (n, c)
        Scores by features alone, of rows that were left out.
    ticks : ndarray of shape (n, c)
        1 or 0.

    Returns
    -------
    ndarray of shape (n, c)
        ``honest`` where no row has two ticks: its labels compete for one, and that none of the
        others has it makes any label certain.
    """
    if ticks.sum(axis=1).max(initial=0.0) <= 1:
        return honest
    R = ticks - honest
    w, V = np.linalg.eigh(R.T @ R)
    inverses = [(V / (np.maximum(w, 0.0) + alpha)) @ V.T for alpha in RIDGES]
    some = R[:: max(len(R) // JUDGES, 1)]
    loss = [float((_left_out(some, Q) ** 2).sum()) for Q in inverses]
    return ticks - _left_out(R, inverses[int(np.argmin(loss))])


def _left_out(R: Floats, Q: Floats) -> Floats:
    """Residuals of every column of ``R`` regressed on the others, of rows that were left out."""
    RQ, own = R @ Q, np.diag(Q)
    leverage = (RQ * R).sum(axis=1)[:, None] - RQ**2 / own
    return RQ / own / (1 - leverage)
