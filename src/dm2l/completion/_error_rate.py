"""Error-rate control: how many missing labels can be filled at a given expected error rate."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Assumed ratio of error rates, missing to known entries: calibration has seen the known ones
# (docs/research/imputing.md).
SEEN = 1.1
# So many of the most confident errors are stored one by one, the others by every hundredth.
FINE = 1000


@dataclass(frozen=True)
class CompletionSummary:
    """Numbers of missing labels that were filled and left.

    Parameters
    ----------
    n_yes, n_no : int
        Missing labels filled with either class.
    n_left : int
        Missing labels that are left.
    expected_wrong : float
        Expected error rate of the filled labels, NaN without ``max_error_rate``.
    """

    n_yes: int
    n_no: int
    n_left: int
    expected_wrong: float


@dataclass(frozen=True)
class ErrorRateBound:
    r"""Conformal selection based on errors at known entries.

    Every known entry was predicted as if it were missing. With n such predictions, of which
    :math:`w_j` are wrong and at least as confident as that of the missing entry j, its p-value is

    .. math:: p_j = \frac{1 + 1.1 w_j + \sqrt{w_j}}{n + 1},

    and the procedure of Benjamini and Hochberg at level a chooses the entries to fill. If known and
    missing entries are exchangeable (given the row, missingness does not depend on the label), the
    expected error rate is at most a even without root and factor (Jin and Candes, 2023). These
    allow for covariance and curves that have seen the known entries (docs/research/imputing.md).

    Parameters
    ----------
    n : ndarray of shape (2,)
        Number of predictions: negative, positive.
    confidence : ndarray of shape (2, k)
        Of wrong predictions, falling.
    count : ndarray of shape (2, k)
        Number of errors that are at least as confident; rounded up where not all are stored.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.completion import ErrorRateBound
    >>> q = np.linspace(1.0, 0.5, 200)[:, None]
    >>> right = np.arange(200)[:, None] % 50 != 49
    >>> yes = np.ones((200, 1), dtype=bool)
    >>> bound = ErrorRateBound.fit(q, yes, np.where(right, 1, -1))
    >>> chosen, expected = bound.choose(q, yes, yes, 0.1)
    >>> int(chosen.sum()), round(expected, 3)
    (200, 0.025)
    """

    n: NDArray[np.int64]
    confidence: Floats
    count: NDArray[np.int64]

    @classmethod
    def fit(cls, confidence: Floats, positive: NDArray[np.bool_], T: NDArray[Any]) -> Self:
        """Learn from predictions of known entries with signs ``T``; all (n, c)."""
        known, wrong = T != 0, (T > 0) != positive
        sides = [known & ~positive, known & positive]
        falling = [np.sort(confidence[side & wrong])[::-1] for side in sides]
        size = max(map(len, falling))
        # Rounded up to the count of the next one stored, which is conservative.
        at = np.unique(np.append(np.arange(min(size, FINE)), np.arange(FINE, size, 100)))
        stored, count = np.full((2, len(at)), -1.0), np.zeros((2, len(at)), dtype=np.int64)
        for k, values in enumerate(falling):
            here = at[at < len(values)]
            stored[k, : len(here)] = values[here]
            count[k, : len(here)] = np.append(here[1:], len(values))[: len(here)]
        return cls(np.array([int(side.sum()) for side in sides]), stored, count)

    def choose(
        self,
        confidence: Floats,
        positive: NDArray[np.bool_],
        missing: NDArray[np.bool_],
        max_error_rate: float | tuple[float, float],
    ) -> tuple[NDArray[np.bool_], float]:
        """Which of the ``missing`` entries to fill, and their expected error rate.

        ``confidence`` is the probability that a prediction is right; ``max_error_rate`` is for all
        filled entries, or a pair for those filled with yes and with no.
        """
        chosen, expected = np.zeros(missing.shape, dtype=bool), 0.0
        if isinstance(max_error_rate, tuple):
            parts = [
                ([1], missing & positive, max_error_rate[0]),
                ([0], missing & ~positive, max_error_rate[1]),
            ]
        else:
            parts = [([0, 1], missing, max_error_rate)]
        for sides, here, level in parts:
            values, filled, wrong, bound = self._bounds(confidence[here], sides)
            good = np.flatnonzero(bound <= level * filled)
            if len(good) and self.n[sides].sum():
                chosen |= here & (confidence >= values[good[0]])
                expected += float(wrong[good[0]])
        return chosen, expected / max(int(chosen.sum()), 1)

    def least(self, confidence: Floats, missing: NDArray[np.bool_]) -> float:
        """The smallest ``max_error_rate`` that fills any missing entry; 1 if none does."""
        if not missing.any() or not self.n.sum():
            return 1.0
        _, filled, _, bound = self._bounds(confidence[missing], [0, 1])
        return float(min(1.0, (bound / filled).min()))

    def _bounds(self, confidence: Floats, sides: list[int]) -> tuple[Floats, Any, Floats, Floats]:
        """For each cutoff of confidence: entries filled, errors expected, and their bound."""
        values, times = np.unique(confidence, return_counts=True)
        mistakes = np.zeros(len(values))
        for k in sides:
            place = np.searchsorted(-self.confidence[k], -values, side="right")
            mistakes += np.append(0, self.count[k])[place]
        filled = np.cumsum(times[::-1])[::-1]
        scale = len(confidence) / (int(self.n[sides].sum()) + 1.0)
        bound = scale * (1.0 + SEEN * mistakes + np.sqrt(mistakes))
        return values, filled, scale * (1.0 + mistakes), bound


def check_max_error_rate(value: Any) -> float | tuple[float, float]:
    """A share, or one for yes and one for no."""
    several = isinstance(value, (tuple, list))
    parts = list(value) if several else [value]
    numbers = all(isinstance(part, Real) and not isinstance(part, bool) for part in parts)
    good = numbers and len(parts) == 1 + several and all(0 <= part <= 1 for part in parts)
    if not good:
        raise ValueError(
            f"max_error_rate must be from 0 to 1 or a pair of them (yes, no), got {value!r}."
        )
    return (float(parts[0]), float(parts[1])) if several else float(parts[0])
