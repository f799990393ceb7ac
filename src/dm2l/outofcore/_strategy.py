"""Where to keep the rows during a fit."""

from __future__ import annotations

from typing import Literal

from dm2l._fitting import Trainer
from dm2l._utils.memory import available_memory
from dm2l.outofcore._sample import MAX_BYTES, MAX_ROWS
from dm2l.outofcore._source import RemoteBlocks, RowBlocks

Strategy = Literal["memory", "statistics", "passes"]

# Evaluations of the objective in a typical fit.
EVALUATIONS = 40
# Share of the rows that the Gram matrices of a label are made of, with shared products.
LABEL_SHARE = 0.2
# Rows at hand stay in memory unless statistics save this factor and this many multiplications.
FACTOR, MULTIPLICATIONS = 3.0, 1e10
# Numbers of a block and of its temporaries.
BLOCK = 6 * 8_000_000
# Free memory if the system does not say how much there is.
UNKNOWN = 4 * 2**30


def choose_strategy(
    n_rows: int | None,
    n_features: int,
    n_labels: int,
    *,
    at_hand: bool = False,
    remote: bool = False,
    max_memory: float | None = None,
) -> Strategy:
    """The cheaper of memory and statistics, of those that fit in memory; else passes.

    ``at_hand``: the rows are in memory already. ``remote``: they have to stay where they are.
    """
    budget = usable_memory() if max_memory is None else max_memory
    n, m, c = 1_000_000 if n_rows is None else n_rows, n_features + 1, n_labels
    block = 0 if at_hand else BLOCK
    sample = min(MAX_ROWS * (n_features + 4 * c), MAX_BYTES / 8)
    # Memory needs all rows, statistics two Gram matrices a label, passes one and those of scores.
    rows = n * ((1 if at_hand else 2) * m + 3 * c) + block
    grams = 2 * c * m**2 + 3 * m * c**2 + block + sample
    scores = 3 * m**2 + 2 * (c + 1) * c**2 + 30 * m * c + block + sample
    # Multiplications: to gather statistics, and to evaluate the objective either way.
    square = n * m**2 / 2
    by_rows = square + EVALUATIONS * n * c * (2 * m + c)
    by_grams = square * (1 + LABEL_SHARE * c) + EVALUATIONS * c**2 * m * (m + 2 * c)
    if at_hand:
        saved = by_rows - by_grams
        pays = by_rows > FACTOR * by_grams and saved > MULTIPLICATIONS
        return "statistics" if pays and 8 * grams <= budget else "memory"
    sizes: dict[Strategy, float] = {"statistics": grams, "passes": scores}
    if n_rows is not None and not remote:
        sizes["memory"] = rows
    fitting = [way for way, size in sizes.items() if 8 * size <= budget]
    if "memory" in fitting and "statistics" in fitting:
        return "memory" if by_rows < by_grams else "statistics"
    if len(fitting) > 1:  # passes read every row twice for each evaluation
        fitting.remove("passes")
    return fitting[0] if fitting else min(sizes, key=lambda way: sizes[way])


def source_strategy(
    config: Trainer,
    source: RowBlocks,
    strategy: str,
    max_memory: float | None,
    needs_rows: str,
) -> str:
    """The strategy for row blocks; ``needs_rows`` is why a model needs all rows, or empty."""
    if strategy == "memory" or (strategy == "auto" and needs_rows):
        return "memory"
    if strategy != "auto":
        refuse(needs_rows)
        return strategy
    d = source.n_features if config.approximation is None else config.n_components
    remote = isinstance(source, RemoteBlocks)
    if isinstance(source, RemoteBlocks) and max_memory is None:
        max_memory = min(source.result_limit(), usable_memory())
    return choose_strategy(source.n_rows, d, source.n_labels, remote=remote, max_memory=max_memory)


def usable_memory() -> float:
    """Half of the free memory, in bytes."""
    return 0.5 * available_memory(UNKNOWN)


def refuse(reason: str) -> None:
    """Raise an error if there is a reason why a model cannot be fitted block by block."""
    if reason:
        raise ValueError(f"This model cannot be fitted block by block: {reason}.")
