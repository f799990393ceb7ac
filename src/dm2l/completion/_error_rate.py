"""How many holes can be filled so that at most a given share of them is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Mistakes about holes for one about known entries, which covariances and curves have seen: up to
# 1.1 with 159 labels and 1,000 rows (bibtex, docs/coupling.md).
SEEN = 1.1
# So many of the most confident mistakes are remembered one by one, the others by every hundredth.
FINE = 1000


@dataclass(frozen=True)
class CompletionSummary:
    """What became of the holes under a promise.

    Parameters
    ----------
    n_yes, n_no : int
        Holes filled with either class.
    n_left : int
        Holes that are left.
    expected_wrong : float
        Estimated share of wrong ones among the filled, NaN where nothing was promised.
    """

    n_yes: int
    n_no: int
    n_left: int
    expected_wrong: float


@dataclass(frozen=True)
class ErrorRateBound:
    r"""Conformal selection on mistakes about known entries.

    Every known entry was decided as if it had been a hole. With n such decisions, of which
    :math:`w_j` are wrong and at least as confident as that about hole j, its p-value is

    .. math:: p_j = \frac{1 + 1.1 w_j + \sqrt{w_j}}{n + 1},

    and the procedure of Benjamini and Hochberg at level a chooses the holes that are filled. If
    known entries and holes are exchangeable (which labels are holes has nothing to do with what
    they would say, given the row), at most the share a of the filled is wrong, on average, even
    without root and factor (Jin and Candes, 2023). They are for what is not exchangeable: a hole
    has one more known label beside it, and the covariance and the curves have seen known entries.
    The root, one standard error of the count, is for few mistakes: without it 1.2 % were wrong on
    Tmc2007-500 where 1 % was asked for, with it 1.0 %, and up to 8 % fewer holes are filled. The
    factor is for many: with the root alone 1.1 % of a hundred thousand were wrong on bibtex.

    Parameters
    ----------
    n : ndarray of shape (2,)
        Number of decisions: for no, for yes.
    confidence : ndarray of shape (2, k)
        Of mistakes about no and about yes, falling.
    count : ndarray of shape (2, k)
        Number of mistakes that are at least as confident; rounded up where not all are stored.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.completion import ErrorRateBound
    >>> q = np.linspace(1.0, 0.5, 200)[:, None]
    >>> right = np.arange(200)[:, None] % 50 != 49
    >>> yes = np.ones((200, 1), dtype=bool)
    >>> promise = Promise.fit(q, yes, np.where(right, 1, -1))
    >>> chosen, expected = promise.choose(q, yes, yes, 0.1)
    >>> int(chosen.sum()), round(expected, 3)
    (200, 0.025)
    """

    n: NDArray[np.int64]
    confidence: Floats
    count: NDArray[np.int64]

    @classmethod
    def nothing(cls) -> Self:
        """The promise of who has seen no decision: nothing is filled."""
        return cls(np.zeros(2, dtype=np.int64), np.zeros((2, 0)), np.zeros((2, 0), dtype=np.int64))

    @classmethod
    def fit(cls, confidence: Floats, positive: NDArray[np.bool_], T: NDArray[Any]) -> Self:
        """Learn from decisions about known entries of signs ``T``; all (n, c)."""
        known, wrong = T != 0, (T > 0) != positive
        sides = [known & ~positive, known & positive]
        falling = [np.sort(confidence[side & wrong])[::-1] for side in sides]
        size = max(map(len, falling))
        # Rounded up: the count of the next one stored, so that less is promised, never more.
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
        holes: NDArray[np.bool_],
        max_error_rate: float | tuple[float, float],
    ) -> tuple[NDArray[np.bool_], float]:
        """Which holes to fill, and the share of wrong ones to expect among them.

        Parameters
        ----------
        confidence : ndarray of shape (n, c)
            Probability that the decision is right.
        positive : ndarray of bool, shape (n, c)
            The decisions.
        holes : ndarray of bool, shape (n, c)
            Where they would go.
        max_error_rate : float or tuple of two
            Largest share of wrong ones among the filled; or of those filled with yes, and of those
            filled with no.

        Returns
        -------
        chosen : ndarray of bool, shape (n, c)
        expected_wrong : float
        """
        chosen, expected = np.zeros(holes.shape, dtype=bool), 0.0
        if isinstance(max_error_rate, tuple):
            parts = [
                ([1], holes & positive, max_error_rate[0]),
                ([0], holes & ~positive, max_error_rate[1]),
            ]
        else:
            parts = [([0, 1], holes, max_error_rate)]
        for sides, here, level in parts:
            values, filled, wrong, bound = self._bounds(confidence[here], sides)
            good = np.flatnonzero(bound <= level * filled)
            if len(good) and self.n[sides].sum():
                chosen |= here & (confidence >= values[good[0]])
                expected += float(wrong[good[0]])
        return chosen, expected / max(int(chosen.sum()), 1)

    def least(self, confidence: Floats, holes: NDArray[np.bool_]) -> float:
        """The smallest share ``max_error_rate`` that fills any missing label; 1 if none does.

        Parameters
        ----------
        confidence : ndarray of shape (n, c)
            Probability that the decision is right.
        holes : ndarray of bool, shape (n, c)
            Where decisions would go.

        Returns
        -------
        float
        """
        if not holes.any() or not self.n.sum():
            return 1.0
        _, filled, _, bound = self._bounds(confidence[holes], [0, 1])
        return float(min(1.0, (bound / filled).min()))

    def _bounds(self, confidence: Floats, sides: list[int]) -> tuple[Floats, Any, Floats, Floats]:
        """Confidences from which on holes could be filled: how many, and how many wrong ones.

        These are expected, and with root and factor; the latter is what a share bounds.
        """
        values, times = np.unique(confidence, return_counts=True)
        mistakes = np.sum([self._mistakes(k, values) for k in sides], axis=0)
        filled = np.cumsum(times[::-1])[::-1]
        scale = len(confidence) / (int(self.n[sides].sum()) + 1.0)
        return (
            values,
            filled,
            scale * (1.0 + mistakes),
            scale * (1.0 + SEEN * mistakes + np.sqrt(mistakes)),
        )

    def _mistakes(self, side: int, confidence: Floats) -> Floats:
        """Number of mistakes that are at least so confident."""
        place = np.searchsorted(-self.confidence[side], -confidence, side="right")
        return np.append(0, self.count[side])[place].astype(np.float64)


def check_max_error_rate(value: Any) -> float | tuple[float, float]:
    """A share, or one for yes and one for no."""
    pair = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    good = len(pair) <= 2 and (len(pair) == 2 or not isinstance(value, (tuple, list)))
    for part in pair:
        number = isinstance(part, (int, float, np.number)) and not isinstance(part, bool)
        good = good and number and 0 <= float(part) <= 1
    if not good:
        raise ValueError(
            f"max_error_rate must be from 0 to 1 or a pair of them (yes, no), got {value!r}."
        )
    return float(pair[0]) if len(pair) == 1 else (float(pair[0]), float(pair[1]))
