"""Label errors: observed labels that features and other labels of their row contradict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

Floats = NDArray[np.float64]

# Shares of wrong labels that are considered.
SHARES = np.geomspace(0.001, 0.3, 20)
BINS = 200
# Share of the entries that counts as most confident; probability from which one is suspected.
CONFIDENT = 0.2
SUSPECT = 0.5


@dataclass(frozen=True)
class LabelErrors:
    r"""Observed entries, the most probable label error first.

    Confident predictions are contradicted less often, but not below the share e of wrong labels:
    those with the margin :math:`m = |\log p / (1 - p)|` at the rate

    .. math:: k = e + (1 - 2e) u, \qquad u = 1 / (1 + \exp(a + b m))

    with u the rate of labels that are unexpected and yet right. For each e from 0.001 to 0.3,
    equally likely a priori, a and b maximise the likelihood. A label that contradicts its
    prediction is wrong with probability :math:`e (1 - u) / k`, averaged over the posterior of e.

    Parameters
    ----------
    row, label : ndarray of int
        Row and column of the entry.
    observed : ndarray of bool
        Its label.
    probability : ndarray of float
        Probability that it is wrong.
    false_alarms : ndarray of float
        Expected share of right labels among this entry and all before it.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.completion import LabelErrors
    >>> T = np.array([[1, -1], [-1, 1], [1, 1]])
    >>> found = LabelErrors.of(T, np.array([[0.9, 0.2], [0.1, 0.8], [0.9, 0.01]]))
    >>> int(found.row[0]), int(found.label[0]), bool(found.observed[0])
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
        """Errors among signs ``T``, given probabilities that do not depend on the entry itself."""
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
    """Labels that are probably wrong, and should be no evidence about others of their row.

    Every contradiction of the most confident predictions counts as an error here. With that share e
    of wrong labels, one that is observed as the opposite with probability r is wrong with
    :math:`e (r - e) / ((1 - 2e)(1 - r))`. Ranking without them finds more of the wrong labels
    (docs/research/imputing.md).
    """
    against = np.where(T > 0, 1 - p, p)
    sure = np.where(T != 0, np.maximum(p, 1 - p), -1.0)
    border = np.quantile(sure[T != 0], 1 - CONFIDENT) if (T != 0).any() else 1.0
    here = against[sure >= border] > 0.5
    e = min((here.sum() + 1) / (len(here) + 2), 0.4)
    likely = e * (against - e) / ((1 - 2 * e) * np.maximum(1 - against, 1e-12))
    return np.asarray((T != 0) & (likely > SUSPECT))


def _mistaken(margin: Floats, contradicts: NDArray[np.bool_]) -> Floats:
    """Probability that labels are wrong, which contradict predictions with these margins or not.

    With little data predictions are taken to be calibrated (a = 0, b = 1).
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
