"""Observed labels that everything else about their row contradicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

Floats = NDArray[np.float64]

# Of wrong labels there are no more than this.
MOST = 0.4
BINS = 200
# Probability of being wrong from which on a label is not asked about the others of its row.
SUSPECT = 0.3


@dataclass(frozen=True)
class Doubts:
    r"""Observed entries, the most doubtful first.

    Predictions that are surer are contradicted less often. If a share e of the labels is wrong,
    whatever the label and the row, there is an end to that: of predictions with the margin
    :math:`m = |\log p / (1 - p)|` the share

    .. math:: k = e + (1 - 2e) u, \qquad u = 1 / (1 + \exp(a + b m))

    is contradicted, u of them by labels that are odd and yet right; e, a and b have the greatest
    likelihood. A label that contradicts its prediction is wrong with the probability
    :math:`e (1 - u) / k`. Labels that are right, but odd however sure one may be, pass for wrong
    ones: nothing in the data tells them apart.

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
        contradicts, margin = against > 0.5, np.abs(logit(np.clip(p, 1e-9, 1 - 1e-9)))
        wrong, odd = _mistakes(margin, contradicts)
        share = wrong + (1 - 2 * wrong) * odd
        probability = wrong * np.where(contradicts, (1 - odd) / share, odd / (1 - share))
        order = np.lexsort((-against, -probability))
        probability = probability[order]
        false_alarms = np.cumsum(1 - probability) / np.arange(1, len(order) + 1)
        return cls(row[order], label[order], observed[order], probability, false_alarms)


def _mistakes(margin: Floats, contradicts: NDArray[np.bool_]) -> tuple[float, Floats]:
    """Share of wrong labels, and of right ones that contradict predictions with these margins.

    Where little is known, probabilities are what they say (a = 0, b = 1), and labels right.
    """
    from scipy.optimize import minimize  # when it is needed: it takes long to load

    parts = np.array_split(np.argsort(margin), min(BINS, max(len(margin), 1)))
    n = np.array([len(part) for part in parts])
    x = np.array([contradicts[part].sum() for part in parts])
    middle = np.array([margin[part].mean() if len(part) else 0.0 for part in parts])

    def loss(at: Floats) -> float:
        e, u = MOST * expit(at[0]), expit(-at[1] - np.exp(at[2]) * middle)
        k = np.clip(e + (1 - 2 * e) * u, 1e-12, 1 - 1e-12)
        likelihood = np.sum(x * np.log(k) + (n - x) * np.log1p(-k))
        return float(20 * e + 0.5 * (at[1] ** 2 + at[2] ** 2) - likelihood)

    starts = [np.array([logit(e / MOST), 0.0, 0.0]) for e in (0.002, 0.02)]
    tries = [minimize(loss, at, method="L-BFGS-B", bounds=[(-30, 30)] * 3) for at in starts]
    e, a, b = min(tries, key=lambda found: float(found.fun)).x
    return MOST * float(expit(e)), expit(-a - np.exp(b) * margin)
