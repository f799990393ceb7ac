"""Fits to row blocks by statistics or by passes, and to arrays in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l._fitting import Trainer
from dm2l._score_model import SolverResult, WarmStart
from dm2l._solvers.features import FeatureMap
from dm2l._utils.arrays import is_non_numpy
from dm2l.labels._entries import EntryWeights, Signs
from dm2l.outofcore._block import Block, block_rows, stacked
from dm2l.outofcore._row_sums import PassSums, sum_over_blocks
from dm2l.outofcore._source import RemoteBlocks, RowBlocks
from dm2l.outofcore._statistics import GramStatistics, RowStatistics
from dm2l.outofcore._strategy import refuse
from dm2l.outofcore._stream import Stream, announce, fit_sums, sample_size, seen_rows

# Candidate rows for each landmark of a Nystroem approximation.
CANDIDATES = 4


def fit_source(
    fitting: Trainer, source: RowBlocks, first: Block, strategy: str, last: WarmStart | None
) -> SolverResult:
    """Fit to row blocks by statistics or by passes."""
    return _fit_blocks(fitting, source, _sample(fitting, source, first), strategy, last, source)


def fit_arrays(
    fitting: Trainer,
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
    sample = X if fitting.kernel == "linear" else seen_rows(X, T)
    return _fit_blocks(fitting, blocks, sample, strategy, last)


def _fit_blocks(
    fitting: Trainer,
    blocks: Iterable[Any],
    sample: Any,
    strategy: str,
    last: WarmStart | None,
    source: RowBlocks | None = None,
) -> SolverResult:
    """Fit to blocks; ``sample`` are rows that the features are made from."""
    feature_map = fitting.fixed_map(sample)
    example = sample[:0]
    kind = GramStatistics if strategy == "statistics" else RowStatistics
    add_block = partial(_add_block, feature_map, kind, sample_size(fitting))
    statistics = _gather(blocks, add_block, source)
    if source is not None:
        announce(replace(source.labels, signs=statistics.seen), stacklevel=7)
    if isinstance(statistics, GramStatistics):
        return Stream(fitting, feature_map, statistics).fit(example, last)
    chosen = _mapped(blocks, feature_map, statistics.learnable)
    intercept = bool(fitting.fit_intercept)
    reducer = sum_over_blocks if isinstance(chosen, _Mapped) else _reduced
    sums = partial(PassSums, chosen, statistics, intercept, reducer)
    return fit_sums(fitting, statistics, sums, feature_map, example, last)


def _sample(fitting: Trainer, source: RowBlocks, first: Block) -> Any:
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


class _Mapped:
    """Blocks that a function changes one by one."""

    def __init__(self, blocks: Iterable[Any], change: Callable[[Any], Any]) -> None:
        self._blocks, self._change = blocks, change

    def __iter__(self) -> Iterator[Block]:
        return map(self._change, self._blocks)


def _mapped(
    blocks: Iterable[Any], feature_map: FeatureMap, labels: NDArray[np.bool_] | None = None
) -> Any:
    """Blocks with features in place of inputs, and with some of the labels."""
    chosen = None if labels is None or labels.all() else labels
    change = partial(_features_of, feature_map, chosen)
    if not isinstance(blocks, RemoteBlocks):
        return _Mapped(blocks, change)
    return blocks if feature_map.plain and chosen is None else blocks.map(change)


def _features_of(feature_map: FeatureMap, labels: NDArray[np.bool_] | None, block: Block) -> Block:
    X, T, weights = block
    T = T if labels is None else T[:, labels]
    if not len(T) and not feature_map.plain:
        return Block(np.empty((0, feature_map.n_coefficients)), T, weights)
    return Block(feature_map.transform(X), T, weights)


def _gather(
    blocks: Any, add_block: Callable[..., tuple[RowStatistics]], source: RowBlocks | None
) -> RowStatistics:
    """Statistics of the rows with a learnable label.

    Remote blocks are counted beforehand, so that every worker knows these labels. Blocks here show
    it one after the other; if too many rows waited for it, a second pass goes through them.
    """
    if isinstance(source, RemoteBlocks):
        positives, negatives, rows = source.counts()
        learnable = (positives > 0) & (negatives > 0)
        (statistics,) = source.reduce(partial(add_block, learnable=learnable, n_rows=rows))
        statistics.positives[:], statistics.negatives[:] = positives, negatives
        return statistics
    counted = _gather_here(blocks, add_block)
    if not counted.has_unlearnable_rows:
        return counted
    statistics = _gather_here(blocks, partial(add_block, learnable=counted.learnable))
    statistics.positives, statistics.negatives = counted.positives, counted.negatives
    return statistics


def _gather_here(blocks: Any, add_block: Callable[..., tuple[RowStatistics]]) -> RowStatistics:
    statistics: RowStatistics | None = None
    for block in blocks:
        (statistics,) = add_block(block, statistics=statistics)
    assert statistics is not None
    return statistics


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


def _reduced(function: Callable[[Any], Any], blocks: Any) -> Any:
    """The reducer of remote blocks."""
    return blocks.reduce(function)
