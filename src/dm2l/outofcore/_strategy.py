"""Where to keep the rows during a fit: a model of what each way costs.

Three ways give the same answer:

``"memory"``
    All rows at hand. Memory ``2 n m + 3 n c`` numbers (``m`` features, ones column included; less
    by ``n m`` where they are there anyway); every evaluation multiplies with all rows.
``"statistics"``
    One pass gathers Gram matrices, ``2 c m^2`` numbers; evaluations never see a row again.
``"passes"``
    Two passes over the rows for every evaluation; ``3 m^2`` numbers, and the Gram matrices of the
    scores.

The last two keep a sample of rows for ``coupling``, of at most 128 megabytes.

The cost is counted in multiplications; a number that has to be read from a file counts as
:data:`READING` of them. The cheapest way that fits into memory is taken, and the smallest where
none does. ``benchmarks/blocks.py`` measures what the constants stand for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from dm2l._utils.memory import available_memory
from dm2l.outofcore._sample import MEMORY as SAMPLE
from dm2l.outofcore._sample import MOST

__all__ = ["STRATEGIES", "Cost", "available_memory", "choose", "costs"]

Strategy = Literal["memory", "statistics", "passes"]
STRATEGIES: tuple[Strategy, ...] = ("memory", "statistics", "passes")

# Evaluations of a fit that is neither easy nor hard.
EVALUATIONS = 40
# Multiplications in the time in which a number is read, unpacked and checked.
READING = 200
# Share of the rows that the Gram matrices of a label are made of, the cheaper side taken and
# products shared among labels.
SHARE = 0.2
# Of an eigendecomposition of size c: multiplications over c^3.
EIGH = 10
# Arrays that are at hand stay in memory unless it is this many times cheaper to let go of them,
# and cheaper by so many multiplications.
CLEARLY = 3.0
MATTERS = 1e10
# Share of the free memory that a fit may take.
MEMORY = 0.5
# Numbers of a block, and what is made of it while it is worked on.
BLOCK = 6 * 8_000_000
# Where the system does not say how much memory is free.
MODEST = 4 * 2**30


class Cost(NamedTuple):
    """What a way costs: numbers in memory, and multiplications."""

    numbers: float
    work: float


def costs(n: int | None, d: int, c: int, *, at_hand: bool = False) -> dict[Strategy, Cost]:
    """Cost of each way for ``n`` rows, ``d`` features and ``c`` labels.

    Parameters
    ----------
    n : int or None
        Rows; None where nobody knows yet: the way through memory is left out then.
    d, c : int
        Features and labels.
    at_hand : bool, default=False
        Whether the rows are in memory already.

    Returns
    -------
    dict
        A :class:`Cost` for every way that is possible.

    Examples
    --------
    >>> from dm2l.outofcore._strategy import costs
    >>> found = costs(10_000_000, 200, 20)
    >>> min(found, key=lambda way: found[way].work)
    'statistics'
    """
    m, rows = d + 1, 1_000_000 if n is None else n
    reading = 0.0 if at_hand else READING * rows * (d + c)
    norms = rows * c**2 + EIGH * c**4
    full = rows * m * m / 2
    evaluation = 2.0 * rows * m * c + norms
    block = 0.0 if at_hand else BLOCK
    kept = block + min(MOST * (d + 4.0 * c), SAMPLE / 8)
    found: dict[Strategy, Cost] = {
        "statistics": Cost(
            2.0 * c * m**2 + 3 * m * c**2 + kept,
            reading
            + full * (1 + SHARE * c)
            + EVALUATIONS * (c**2 * m**2 + 2 * m * c**3 + EIGH * c**4),
        ),
        "passes": Cost(
            3.0 * m**2 + 2 * (c + 1) * c**2 + 30 * m * c + kept,
            full + 2 * reading + EVALUATIONS * (2 * reading + 1.5 * evaluation),
        ),
    }
    if n is not None:
        copies = 1 if at_hand else 2
        found["memory"] = Cost(
            rows * (copies * m + 3.0 * c) + block, reading + full + EVALUATIONS * evaluation
        )
    return found


def choose(
    n: int | None,
    d: int,
    c: int,
    *,
    at_hand: bool = False,
    memory: float | None = None,
    ways: Sequence[Strategy] = STRATEGIES,
) -> Strategy:
    """The cheapest way that fits.

    Parameters
    ----------
    n, d, c
        As of :func:`costs`.
    at_hand : bool, default=False
        Whether the rows are in memory already. They then stay there unless statistics are cheaper
        by far: what is gained must be worth another order of rounding.
    memory : float, default=None
        Bytes that may be used; None: half of what is free.
    ways : sequence of str, default=STRATEGIES
        Those to choose from.

    Returns
    -------
    str
        "memory", "statistics" or "passes".

    Examples
    --------
    >>> from dm2l.outofcore._strategy import choose
    >>> choose(10_000_000, 200, 20, memory=2e9)
    'statistics'
    >>> choose(10_000_000, 20_000, 100, memory=16e9)
    'passes'
    >>> choose(2_000, 200, 20, memory=2e9, at_hand=True)
    'memory'
    """
    budget = MEMORY * available_memory(MODEST) if memory is None else float(memory)
    found = costs(n, d, c, at_hand=at_hand)
    if at_hand:
        here, there = found["memory"].work, found["statistics"].work
        fits = 8 * found["statistics"].numbers <= budget
        clearly = here > CLEARLY * there and here - there > MATTERS
        return "statistics" if fits and clearly else "memory"
    found = {way: cost for way, cost in found.items() if way in ways}
    fitting = [way for way, cost in found.items() if 8 * cost.numbers <= budget]
    if fitting:
        return min(fitting, key=lambda way: found[way].work)
    return min(found, key=lambda way: found[way].numbers)
