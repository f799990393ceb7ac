"""How many bytes a fit takes, so that a limit can be kept instead of met."""

from __future__ import annotations

from typing import Any

__all__ = ["memory_needed"]

# Pairs of steps and gradients that the solver remembers, and what else it holds of that size.
REMEMBERED = 2 * 20 + 10
# Arrays of n x r numbers alive at the peak of an evaluation, and of d x d numbers before.
SCORES = 8
SQUARES = 4
# Bytes of a stored label: twice as CSR with index and value, its row, weights and score.
STORED = 120
# Share of the limit that blocks of temporaries may take.
SHARE = 1 / 4


def memory_needed(
    n_rows: int, n_features: int, n_labels: int, n_stored: int, rank: int, *, dense: bool = True
) -> float:
    """Bytes that a fit of :class:`ExtremeDM2LClassifier` needs besides ``X``, about.

    No term has ``n_rows`` times ``n_labels`` in it. ``m = min(n_rows, n_features)`` is the side on
    which the features are squared.

    Parameters
    ----------
    n_rows, n_features, n_labels : int
        Shapes of ``X`` and ``Y``.
    n_stored : int
        Stored entries of ``Y``.
    rank : int
        Columns of the head.
    dense : bool, default=True
        Whether ``X`` is dense.

    Returns
    -------
    float
        Bytes, blocks of temporaries not counted.

    Examples
    --------
    >>> from dm2l.extreme import memory_needed
    >>> round(memory_needed(10_000, 500, 100_000, 50_000, 100) / 1e6)
    302
    """
    m = min(n_rows, n_features)
    rank = min(rank, m + 1, n_labels)
    numbers = (
        SQUARES * m**2
        + (n_rows * m if dense or n_features > n_rows else 0)
        + SCORES * n_rows * rank
        + REMEMBERED * m * rank
        + 2 * n_features * rank
        + 2 * n_labels * rank
        + 4 * n_labels
    )
    return 8.0 * numbers + STORED * n_stored


def check_memory(rank: int, memory: float, **sizes: Any) -> None:
    """Refuse a fit of such ``sizes`` that does not fit, and say which rank would."""
    room = (1 - SHARE) * memory
    needed = memory_needed(rank=rank, **sizes)
    if needed <= room:
        return
    low, high = 0, rank
    while high - low > 1:
        middle = (low + high) // 2
        fits = memory_needed(rank=middle, **sizes) <= room
        low, high = (middle, high) if fits else (low, middle)
    advice = f"rank={low} would fit" if low else "no rank fits: take fewer rows or features"
    raise ValueError(
        f"This fit needs about {needed / (1 - SHARE):.3g} bytes, but memory={memory:.3g} allows "
        f"less: {sizes['n_rows']} rows, {sizes['n_features']} features, {sizes['n_labels']} "
        f"labels, {sizes['n_stored']} stored, rank={rank}. Raise memory, or lower rank; {advice}."
    )


def block_length(memory: float, width: int, most: int) -> int:
    """Rows of a temporary with ``width`` numbers each, so that it stays within its share."""
    return int(min(most, max(1, SHARE * memory / (8 * max(width, 1)))))
