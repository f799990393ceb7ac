"""Fits to row blocks by statistics or by passes, and to arrays in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dm2l._fitting import SolverConfig
from dm2l._solvers.kernels._map import FeatureMap
from dm2l._utils.arrays import is_non_numpy
from dm2l._utils.memory import available_memory
from dm2l._weights import SolverResult, WarmStart
from dm2l.labels._entries import EntryWeights, Signs
from dm2l.outofcore._block import Block, block_rows, stacked
from dm2l.outofcore._gram_problem import PassSums, sum_over_blocks
from dm2l.outofcore._sample import MAX_BYTES, MAX_ROWS
from dm2l.outofcore._source import RemoteBlocks, RowBlocks
from dm2l.outofcore._statistics import GramStatistics, RowStatistics
from dm2l.outofcore._stream import Stream, announce, fit_sums, sample_size, seen_rows

Strategy = Literal["memory", "statistics", "passes"]

# Candidate rows for each landmark of a Nystroem approximation.
CANDIDATES = 4
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


def fit_source(
    fitting: SolverConfig, source: RowBlocks, first: Block, strategy: str, last: WarmStart | None
) -> SolverResult:
    """Fit to row blocks by statistics or by passes."""
    return _fit_blocks(fitting, source, _sample(fitting, source, first), strategy, last)


def fit_arrays(
    fitting: SolverConfig,
    X: Any,
    T: Signs,
    strategy: str,
    last: WarmStart | None,
    weights: NDArray[np.float64] | None = None,
) -> SolverResult:
    """Fit to rows in memory by statistics or by passes."""
    if is_non_numpy(X):
        raise TypeError("Statistics are gathered from numpy arrays; move X to the host.")
    refuse(fitting.needs_rows)
    rows = block_rows(None, X.shape[1])
    slices = [slice(i, i + rows) for i in range(0, len(T), rows)]
    blocks = [Block(X[i], T[i], None if weights is None else weights[i]) for i in slices]
    sample = X if fitting.linear else seen_rows(X, T)
    return _fit_blocks(fitting, blocks, sample, strategy, last)


def _fit_blocks(
    fitting: SolverConfig, blocks: Iterable[Any], sample: Any, strategy: str, last: WarmStart | None
) -> SolverResult:
    """Fit to blocks; ``sample`` are rows that the features are made from."""
    feature_map = fitting.fixed_map(sample)
    example = sample[:0]
    kind = GramStatistics if strategy == "statistics" else RowStatistics
    statistics = _gather(blocks, partial(_add_block, feature_map, kind, sample_size(fitting)))
    if isinstance(blocks, RowBlocks):
        announce(replace(blocks.labels, signs=statistics.seen), stacklevel=7)
    if isinstance(statistics, GramStatistics):
        return Stream(fitting, feature_map, statistics).fit(example, last)
    chosen = None if statistics.learnable.all() else statistics.learnable
    change = None
    if chosen is not None or not feature_map.plain:
        change = partial(_features_of, feature_map, chosen)

    def sums() -> PassSums:
        if isinstance(blocks, RemoteBlocks):
            reduce = blocks.reducer(change)
        else:
            reduce = partial(sum_over_blocks, blocks, change)
        return PassSums(reduce, statistics, bool(fitting.fit_intercept))

    return fit_sums(fitting, statistics, sums, feature_map, example, last)


def _sample(fitting: SolverConfig, source: RowBlocks, first: Block) -> Any:
    """Rows that the features are made from: the first block, or more for landmarks."""
    wanted = CANDIDATES * fitting.n_components if fitting.approximation == "nystroem" else 0
    if len(first.T) >= wanted:
        return seen_rows(first.X, first.T)
    found: list[Any] = []
    for X, T, *_ in source:
        if not len(T):
            continue
        found.append(seen_rows(X, T))
        wanted -= found[-1].shape[0]
        if wanted <= 0:
            break
    return stacked(found)


def collect(source: RowBlocks) -> tuple[Any, Signs, EntryWeights | None]:
    """All rows of a source, in memory, and their weights if they have any."""
    blocks = list(source)
    X, T = stacked([block.X for block in blocks]), np.concatenate([block.T for block in blocks])
    announce(replace(source.labels, signs=T), stacklevel=6)
    if all(block.weights is None for block in blocks):
        return X, T, None
    weights = [
        np.ones(len(block.T)) if block.weights is None else block.weights for block in blocks
    ]
    return X, T, EntryWeights.of(T, weights=np.concatenate(weights)[:, None])


def _features_of(feature_map: FeatureMap, labels: NDArray[np.bool_] | None, block: Block) -> Block:
    X, T, weights = block
    T = T if labels is None else T[:, labels]
    if not len(T) and not feature_map.plain:
        return Block(np.empty((0, feature_map.n_coefficients)), T, weights)
    return Block(feature_map.transform(X), T, weights)


def _gather(blocks: Any, add_block: Callable[..., tuple[RowStatistics]]) -> RowStatistics:
    """Statistics of the rows with a learnable label.

    Remote blocks are counted beforehand, so that every worker knows these labels. Blocks here show
    it one after the other; if too many rows waited for it, a second pass goes through them.
    """

    def here(learnable: NDArray[np.bool_] | None = None) -> Any:
        statistics = None
        for block in blocks:
            (statistics,) = add_block(block, statistics=statistics, learnable=learnable)
        return statistics

    if isinstance(blocks, RemoteBlocks):
        positives, negatives, rows = blocks.counts()
        learnable = (positives > 0) & (negatives > 0)
        (found,) = blocks.reducer()(partial(add_block, learnable=learnable, n_rows=rows))
    else:
        counted = here()
        if not counted.has_unlearnable_rows:
            return counted
        positives, negatives, found = counted.positives, counted.negatives, here(counted.learnable)
    found.positives, found.negatives = positives, negatives
    return found


def _add_block(
    feature_map: FeatureMap,
    kind: type[RowStatistics],
    sample: int,
    block: Block,
    *,
    statistics: RowStatistics | None = None,
    learnable: NDArray[np.bool_] | None = None,
    n_rows: int = 0,
) -> tuple[RowStatistics]:
    """Statistics of a block, added to those of others.

    Sampled rows of remote blocks travel; with ``n_rows``, their number, fewer do.
    """
    Phi = _features_of(feature_map, None, block).X
    if statistics is None:
        statistics = kind(Phi.shape[1], block.T.shape[1], sample)
        statistics.sample.expect(n_rows)
    return (statistics.add(Phi, block.T, learnable, inputs=block.X, weights=block.weights),)


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
    budget = 0.5 * available_memory(UNKNOWN) if max_memory is None else max_memory
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
    config: SolverConfig,
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
        max_memory = min(source.result_limit(), 0.5 * available_memory(UNKNOWN))
    return choose_strategy(source.n_rows, d, source.n_labels, remote=remote, max_memory=max_memory)


def refuse(reason: str) -> None:
    """Raise an error if there is a reason why a model cannot be fitted block by block."""
    if reason:
        raise ValueError(f"This model cannot be fitted block by block: {reason}.")
