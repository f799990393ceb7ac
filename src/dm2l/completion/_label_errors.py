"""Observed labels that everything else about their row contradicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

Floats = NDArray[np.float64]

# Shares of wrong labels that are thought of.
SHARES = np.geomspace(0.001, 0.3, 20)
BINS = 200
# Of all entries, those that are predicted most confidently, and what they tell.
CONFIDENT = 0.2
SUSPECT = 0.5


@dataclass(frozen=True)
class LabelErrors:
    r"""Observed entries, the most doubtful first.

    Predictions that are surer are contradicted less often. If a share e of the labels is wrong,
    whatever the label and the row, there is an end to that: of predictions with the margin
    :math:`m = |\log p / (1 - p)|` the share

    .. math:: k = e + (1 - 2e) u, \qquad u = 1 / (1 + \exp(a + b m))

    is contradicted, u by labels that are odd and yet right. For each e, any from 0.001 to 0.3 being
    as likely as another beforehand, a and b have the greatest likelihood. A label that contradicts
    its prediction is wrong with the probability :math:`e (1 - u) / k`, on average over what e may
    be by the data. Labels that are right, but odd however sure one may be, pass for wrong
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
    >>> from dm2l.completion import LabelErrors
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
        probability = _mistaken(margin, contradicts)
        order = np.lexsort((-against, -probability))
        probability = probability[order]
        false_alarms = np.cumsum(1 - probability) / np.arange(1, len(order) + 1)
        return cls(row[order], label[order], observed[order], probability, false_alarms)


def suspects(T: NDArray[Any], p: NDArray[Any]) -> NDArray[np.bool_]:
    """Labels that may well be wrong, and should not be asked about the others of their row.

    Here every contradiction of the most confident predictions is taken for a mistake. With that
    share e of wrong labels, one that is observed as the opposite with probability r is wrong with
    :math:`e (r - e) / ((1 - 2e)(1 - r))`. Wrong ones among the first hundred without and with the
    suspects' word, all labels known: yeast 81 and 93, Arts 73 and 92, Image 42 and 47, SIDER 83 and
    83, emotions 34 and 35.

    Parameters
    ----------
    T : ndarray of shape (n, c)
        Signs, 0 where missing.
    p : ndarray of shape (n, c)
        Probabilities of a yes that nobody asked them for.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.completion._label_errors import suspects
    >>> p = np.where(np.arange(100) < 50, 0.02, 0.98)[:, None]
    >>> T = np.where(np.arange(100) < 51, -1, 1)[:, None]
    >>> np.flatnonzero(suspects(T, p))
    array([50])
    """
    against = np.where(T > 0, 1 - p, p)
    sure = np.where(T != 0, np.maximum(p, 1 - p), -1.0)
    border = np.quantile(sure[T != 0], 1 - CONFIDENT) if (T != 0).any() else 1.0
    here = against[sure >= border] > 0.5
    e = min((here.sum() + 1) / (len(here) + 2), 0.4)
    likely = e * (against - e) / ((1 - 2 * e) * np.maximum(1 - against, 1e-12))
    return np.asarray((T != 0) & (likely > SUSPECT))


def _mistaken(margin: Floats, contradicts: NDArray[np.bool_]) -> Floats:
    """Probability that labels are wrong which contradict predictions with these margins, or not.

    Where little is known, predictions are as sure as they say (a = 0, b = 1).
    """
    from scipy.optimize import minimize  # when it is needed: it takes long to load

    parts = np.array_split(np.argsort(margin), min(BINS, max(len(margin), 1)))
    n = np.array([len(part) for part in parts])
    x = np.array([contradicts[part].sum() for part in parts])
    middle = np.array([margin[part].mean() if len(part) else 0.0 for part in parts])

    def loss(at: Floats, e: float) -> float:
        k = e + (1 - 2 * e) * expit(-at[0] - np.exp(at[1]) * middle)
        return float(0.5 * at @ at - np.sum(x * np.log(k) + (n - x) * np.log1p(-k)))

    at, losses, found = np.zeros(2), [], []
    for e in SHARES:
        best = minimize(loss, at, (e,), method="L-BFGS-B", bounds=[(-20, 20), (-5, 5)])
        at = best.x
        losses.append(best.fun)
        odd = expit(-at[0] - np.exp(at[1]) * margin)
        share = e + (1 - 2 * e) * odd
        found.append(e * np.where(contradicts, (1 - odd) / share, odd / (1 - share)))
    # The steps between shares grow as these do.
    return np.average(found, axis=0, weights=SHARES * np.exp(min(losses) - np.array(losses)))
