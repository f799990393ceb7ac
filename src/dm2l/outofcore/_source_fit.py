"""Fits to a source of row blocks, or to arrays as if they were one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._fitting import SolverConfig
from dm2l._solvers.kernels._map import FeatureMap
from dm2l._utils.arrays import is_non_numpy
from dm2l._utils.memory import available_memory
from dm2l._weights import SolverResult, WarmStart
from dm2l.labels._entries import EntryWeights, Signs
from dm2l.outofcore._block import AnyBlock, WeightedBlock, default_rows
from dm2l.outofcore._remote import RemoteBlocks
from dm2l.outofcore._source import RowBlocks
from dm2l.outofcore._statistics import SufficientStatistics
from dm2l.outofcore._strategy import MEMORY, MODEST, STRATEGIES, choose
from dm2l.outofcore._stream import Stream, announce, fit_sums, sample_size, seen_rows
from dm2l.outofcore._sums import PassSums, sum_over_blocks
from dm2l.outofcore._tally import Tally

# Rows that landmarks of a Nystroem approximation are chosen from, for each landmark.
SAMPLE = 4


def fit_source(
    fitting: SolverConfig, source: RowBlocks, first: AnyBlock, strategy: str, last: WarmStart | None
) -> SolverResult:
    """Fit by statistics or by passes; the labels of a source are known after the first."""
    return _fit_blocks(fitting, source, _sample(fitting, source, first), strategy, last, source)


def fit_arrays(
    fitting: SolverConfig,
    X: Any,
    T: Signs,
    strategy: str,
    last: WarmStart | None,
    weights: NDArray[np.float64] | None = None,
) -> SolverResult:
    """Fit to rows that are in memory, of these weights, as if they were not."""
    if is_non_numpy(X):
        raise TypeError("Statistics are gathered from numpy arrays; move X to the host.")
    _refuse(fitting.needs_rows)
    rows = default_rows(X.shape[1])
    parts = (X, T) if weights is None else (X, T, weights)
    blocks = [tuple(part[i : i + rows] for part in parts) for i in range(0, len(T), rows)]
    sample = X if fitting.linear else seen_rows(X, T)
    return _fit_blocks(fitting, blocks, sample, strategy, last)


def _fit_blocks(
    fitting: SolverConfig,
    blocks: Iterable[Any],
    sample: Any,
    strategy: str,
    last: WarmStart | None,
    source: RowBlocks | None = None,
) -> SolverResult:
    """``sample`` is what the features are made from."""
    feature_map = fitting.fixed_map(sample)
    example = sample[:0]
    kind = SufficientStatistics if strategy == "statistics" else Tally
    most = sample_size(fitting)
    tally = _tallied(blocks, partial(_tally_of, feature_map, kind, most), source)
    if source is not None:
        announce(replace(source.labels, signs=tally.seen), stacklevel=7)
    if isinstance(tally, SufficientStatistics):
        return Stream(fitting, feature_map, tally).fit(example, last)
    chosen = _mapped(blocks, feature_map, tally.learnable)
    intercept = bool(fitting.fit_intercept)
    reducer = sum_over_blocks if isinstance(chosen, _Mapped) else _reduced
    sums = partial(PassSums, chosen, tally, intercept, reducer)
    return fit_sums(fitting, tally, sums, feature_map, example, last)


def way_for(
    fitting: SolverConfig, source: RowBlocks, strategy: str, memory: float | None, reason: str
) -> str:
    """The strategy, or the cheapest that fits; ``reason`` says why it has to be memory."""
    if strategy == "memory" or (strategy == "auto" and reason):
        return "memory"
    if strategy != "auto":
        _refuse(reason)
        return strategy
    d = source.n_features if fitting.approximation is None else fitting.n_components
    ways = STRATEGIES
    if isinstance(source, RemoteBlocks):  # they stay where they are
        ways = STRATEGIES[1:]
        memory = (
            min(source.result_memory(), MEMORY * available_memory(MODEST))
            if memory is None
            else memory
        )
    return choose(source.n_rows, d, source.n_labels, memory=memory, ways=ways)


def _refuse(reason: str) -> None:
    if reason:
        raise ValueError(f"This model cannot be fitted block by block: {reason}.")


def _sample(fitting: SolverConfig, source: RowBlocks, first: AnyBlock) -> Any:
    """Rows that the features are made from: of the first block, or of more for landmarks."""
    wanted = SAMPLE * fitting.n_components if fitting.approximation == "nystroem" else 0
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
    return _stacked(found)


def collect(source: RowBlocks) -> tuple[Any, Signs, EntryWeights | None]:
    """All rows of a source, in memory, and their weights if they have any."""
    blocks = list(source)
    T = np.concatenate([block.T for block in blocks])
    announce(replace(source.labels, signs=T), stacklevel=6)
    weights = [
        block.weights if isinstance(block, WeightedBlock) else np.ones(len(block.T))
        for block in blocks
    ]
    some = any(isinstance(block, WeightedBlock) for block in blocks)
    entries = EntryWeights.of(T, weights=np.concatenate(weights)[:, None]) if some else None
    return _stacked([block.X for block in blocks]), T, entries


def _stacked(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)


class _Mapped:
    """Blocks that are changed as they come."""

    def __init__(self, blocks: Iterable[Any], change: Callable[[Any], Any]) -> None:
        self._blocks, self._change = blocks, change

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return map(self._change, self._blocks)


def _mapped(
    blocks: Iterable[Any], feature_map: FeatureMap, labels: NDArray[np.bool_] | None = None
) -> Any:
    """Blocks with their features in place of the inputs, and some of the labels."""
    chosen = None if labels is None or labels.all() else labels
    change = partial(_features_of, feature_map, chosen)
    if not isinstance(blocks, RemoteBlocks):
        return _Mapped(blocks, change)
    return blocks if feature_map.plain and chosen is None else blocks.map(change)


def _features_of(
    feature_map: FeatureMap, labels: NDArray[np.bool_] | None, block: tuple[Any, ...]
) -> tuple[Any, ...]:
    X, T, *weights = block
    T = T if labels is None else T[:, labels]
    if not len(T) and not feature_map.plain:
        return np.empty((0, feature_map.n_coefficients)), T, *weights
    return feature_map.transform(X), T, *weights


def _tallied(blocks: Any, tally_of: Callable[..., tuple[Tally]], source: RowBlocks | None) -> Tally:
    """Counts or statistics of all blocks, with the rows of labels that can be learnt.

    Which labels these are, blocks that are elsewhere are told beforehand. One after the other they
    find out, and where a pass could not wait for it there is another.
    """
    if isinstance(source, RemoteBlocks):
        positives, negatives, rows = source.counts()
        learnable = (positives > 0) & (negatives > 0)
        (tally,) = source.reduce(partial(tally_of, learnable=learnable, of_rows=rows))
        tally.positives[:], tally.negatives[:] = positives, negatives
        return tally
    counted = _gathered(blocks, tally_of)
    if not counted.overcounted:
        return counted
    tally = _gathered(blocks, partial(tally_of, learnable=counted.learnable))
    tally.positives, tally.negatives = counted.positives, counted.negatives
    return tally


def _gathered(blocks: Any, tally_of: Callable[..., tuple[Tally]]) -> Tally:
    """Counts or statistics of blocks, one after the other."""
    tally: Tally | None = None
    for block in blocks:
        (tally,) = tally_of(block, tally=tally)
    assert tally is not None
    return tally


def _tally_of(
    feature_map: FeatureMap,
    kind: type[Tally],
    most: int,
    block: tuple[Any, ...],
    *,
    tally: Tally | None = None,
    learnable: NDArray[np.bool_] | None = None,
    of_rows: int = 0,
) -> tuple[Tally]:
    """Counts or statistics of a block, added to those of others.

    Rows that are sampled from blocks elsewhere travel, so these get to know how many there are.
    """
    X, T, *weights = block
    Phi = _features_of(feature_map, None, block)[0]
    if tally is None:
        tally = kind(Phi.shape[1], T.shape[1], most)
        tally.sample.expect(of_rows)
    says = weights[0] if weights else None
    return (tally.add(Phi, T, learnable, inputs=X, weights=says),)


def _reduced(function: Callable[[Any], Any], blocks: Any) -> Any:
    """The reducer of blocks that are elsewhere."""
    return blocks.reduce(function)
