"""Fits to row blocks, arrays and streams by Gram statistics or by passes over the rows."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from dm2l._fitting import SolverResult, Trainer
from dm2l._solvers.features import FeatureMap, Features, Weights
from dm2l._utils.arrays import blas_thread_count, blas_threads, float64, is_non_numpy, take_rows
from dm2l._utils.files import available_memory
from dm2l._utils.inputs import block_rows
from dm2l.labels._entries import EntryWeights, Signs
from dm2l.labels._matrix import LabelMatrix, LearnableMask, constant_scores
from dm2l.outofcore._gram_problem import PassProblem, StatisticsProblem, sum_over_blocks
from dm2l.outofcore._sample import MAX_BYTES, MAX_ROWS
from dm2l.outofcore._source import Block, RemoteBlocks, RowBlocks, stacked
from dm2l.outofcore._statistics import GramStatistics, RowStatistics

Strategy = Literal["memory", "statistics", "passes"]

CANDIDATES = 4  # number of candidate rows per landmark of a Nystroem approximation
EVALUATIONS = 40  # assumed number of evaluations of the objective in a fit
LABEL_SHARE = 0.2  # cost per label of its Gram matrices, relative to a Gram matrix of all rows
# For rows in memory, statistics are used only if they save this factor and this many operations.
FACTOR, MULTIPLICATIONS = 3.0, 1e10
BLOCK = 6 * 8_000_000  # number of values in a block and its intermediate results
UNKNOWN = 4 * 2**30  # assumed free memory in bytes if the system does not report it


def fit_sums(
    fitting: Trainer,
    statistics: RowStatistics,
    make: Callable[..., Any],
    feature_map: FeatureMap,
    X: Any,
    last: Weights | None,
) -> SolverResult:
    """Fit a model of all learnable labels to Gram statistics; it has the dtype of ``X``."""
    constant = constant_scores(*statistics.weights)
    selection = LearnableMask(statistics.learnable, constant, np.ones(0, dtype=bool))
    if not selection.learnable.any():
        return fitting.nothing(X, selection)
    terms = {"intercept": bool(fitting.fit_intercept), "workers": blas_thread_count()}
    terms |= {"local": fitting.local, "discriminant": fitting.discriminant}
    size = statistics.n_features + terms["intercept"]
    with blas_threads(selection.learnable.sum() * size**2):
        alpha = fitting.alpha_value(statistics.variances())
        problem = make(fitting.lambda_d, alpha, **terms)
        start = last and fitting.start(problem, feature_map, last, selection)
        solution = fitting.solve(problem, feature_map, problem.ridge, start)
        W = problem.to_original(solution.W)
        weights = fitting.weights_of(feature_map.inputs(X), W, feature_map, selection)
        fit = SolverResult(mask=selection, solution=solution, weights=weights)
        if fitting.coupling != "residual":
            return fit
        rows = statistics.sample.rows(0 if feature_map.plain else feature_map.n_coefficients)
        return fit if rows is None else _coupled(fitting, problem, feature_map, fit, rows)


def _coupled(
    fitting: Trainer, problem: Any, feature_map: FeatureMap, fit: SolverResult, rows: Any
) -> SolverResult:
    """Return the result of a fit, with leave-one-out scores of a sample of the rows added."""
    X, T = rows
    learnable = fit.mask.learnable
    kept = (T[:, learnable] != 0).any(axis=1)
    X, T = take_rows(X, np.flatnonzero(kept)), T[kept]
    if not len(T) or fit.solution is None:
        return fit
    Phi = float64(feature_map.transform(X))
    features = Features(Phi, bool(fitting.fit_intercept)).centre(problem.offset)
    scores, known = np.full(T.shape, np.nan), T[:, learnable]
    # Approximate leverages would depend on the offset, and therefore on the first block.
    scores[:, learnable] = fitting.leave_one_out(problem, fit.solution, features, known, exact=True)
    return replace(fit, leave_one_out_scores=scores, sample=(X, T))


def sample_size(fitting: Trainer) -> int:
    """Return the number of sampled rows that a fit needs."""
    return MAX_ROWS if fitting.coupling == "residual" else 0


def seen_rows(X: Any, T: Signs) -> Any:
    """Return the rows with an observed label, or all rows if there are none."""
    seen = (T != 0).any(axis=1)
    return X if seen.all() or not seen.any() else X[seen]


def _check_observed(labels: LabelMatrix, *, stacklevel: int) -> None:
    """Raise an error if no label is observed, and warn about constant labels."""
    if not labels.signs.any():
        what = "All labels are missing in all blocks, but at least one must be observed."
        raise ValueError(f"{what} Check missing_label and label_mask.")
    labels.warn_constant(stacklevel=stacklevel)


@dataclass
class Stream:
    """Feature map and Gram statistics of rows that arrive block by block."""

    config: Trainer
    feature_map: FeatureMap
    statistics: GramStatistics

    @classmethod
    def begun(cls, fitting: Trainer, X: Any, T: Signs) -> Self:
        """Return a stream with a feature map fitted to a first block, which is not added yet."""
        feature_map = fitting.fixed_map(seen_rows(X, T))
        size, sample = feature_map.n_coefficients, sample_size(fitting)
        return cls(fitting, feature_map, GramStatistics(size, T.shape[1], sample))

    @classmethod
    def resumed(
        cls, fitting: Trainer, weights: Weights, n_features: int, statistics: GramStatistics
    ) -> Self:
        """Continue the stream of a fitted estimator."""
        feature_map = fitting.stored_map(weights, n_features)
        if feature_map is None:
            what = "The kernel approximation has no features yet."
            raise NotFittedError(f"{what} Call partial_fit with a first block.")
        if feature_map.n_coefficients != statistics.n_features:
            raise ValueError(
                f"The statistics have {statistics.n_features} features, but the kernel "
                f"approximation returns {feature_map.n_coefficients}. Gather statistics with equal "
                "parameters, or let fit gather them."
            )
        return cls(fitting, feature_map, statistics)

    def add(self, X: Any, T: Signs, forgetting: float = 1.0, weights: Any = None) -> None:
        """Add a block; ``forgetting`` multiplies the weights of all earlier rows."""
        Phi = self.feature_map.transform(X)
        self.statistics.scale(forgetting).add(Phi, T, inputs=X, weights=weights)

    def remove(self, X: Any, T: Signs, weights: Any = None) -> None:
        whole = self.statistics
        part = GramStatistics(whole.n_features, whole.n_labels, whole.sample.most)
        whole -= part.add(self.feature_map.transform(X), T, inputs=X, weights=weights)

    def fit(self, X: Any, last: Weights | None = None) -> SolverResult:
        """Fit a model to all rows added so far; the model has the dtype of ``X``."""
        statistics = self.statistics
        make = partial(StatisticsProblem, statistics)
        fit = fit_sums(self.config, statistics, make, self.feature_map, X, last)
        return replace(fit, statistics=statistics.state())


def fit_source(
    fitting: Trainer, source: RowBlocks, first: Block, strategy: str, last: Weights | None
) -> SolverResult:
    """Fit a model to row blocks by Gram statistics or by passes over the rows."""
    # The first block determines the feature map; Nystroem landmarks may need more blocks.
    wanted = CANDIDATES * fitting.n_components if fitting.approximation == "nystroem" else 0
    found: list[Any] = []
    for X, T, *_ in [first] if len(first.T) >= wanted else source:
        if len(T):
            found.append(seen_rows(X, T))
            wanted -= found[-1].shape[0]
        if wanted <= 0:
            break
    return _fit_blocks(fitting, source, stacked(found), strategy, last)


def fit_arrays(
    fitting: Trainer, X: Any, T: Signs, strategy: str, last: Weights | None, weights: Any
) -> SolverResult:
    """Fit a model to rows in memory by Gram statistics or by passes over the rows."""
    if is_non_numpy(X):
        raise TypeError(f"strategy={strategy!r} supports only numpy arrays. Convert X to numpy.")
    refuse(fitting.needs_rows)
    rows = block_rows(None, X.shape[1])
    slices = [slice(i, i + rows) for i in range(0, len(T), rows)]
    blocks = [Block(X[i], T[i], None if weights is None else weights[i]) for i in slices]
    sample = X if fitting.kernel == "linear" else seen_rows(X, T)
    return _fit_blocks(fitting, blocks, sample, strategy, last)


def _fit_blocks(
    fitting: Trainer, blocks: Iterable[Any], sample: Any, strategy: str, last: Weights | None
) -> SolverResult:
    """Fit a model to blocks; the rows in ``sample`` determine the feature map."""
    feature_map = fitting.fixed_map(sample)
    example = sample[:0]
    kind = GramStatistics if strategy == "statistics" else RowStatistics
    statistics = _gather(blocks, partial(_add_block, feature_map, kind, sample_size(fitting)))
    if isinstance(blocks, RowBlocks):
        _check_observed(replace(blocks.labels, signs=statistics.seen), stacklevel=7)
    if isinstance(statistics, GramStatistics):
        return Stream(fitting, feature_map, statistics).fit(example, last)
    chosen = None if statistics.learnable.all() else statistics.learnable
    change = None
    if chosen is not None or not feature_map.plain:
        change = partial(_features_of, feature_map, chosen)

    def make(*parameters: float, **options: Any) -> PassProblem:
        if isinstance(blocks, RemoteBlocks):
            reduce = blocks.reducer(change)
        else:
            reduce = partial(sum_over_blocks, blocks, change)
        return PassProblem(reduce, statistics, *parameters, **options)

    return fit_sums(fitting, statistics, make, feature_map, example, last)


def collect(source: RowBlocks) -> tuple[Any, Signs, EntryWeights | None]:
    """Return all rows, signs and weights of a source, read into memory; weights may be None."""
    rows, signs, weights = zip(*source, strict=True)
    X, T = stacked(list(rows)), np.concatenate(signs)
    _check_observed(replace(source.labels, signs=T), stacklevel=6)
    if all(part is None for part in weights):
        return X, T, None
    parts = [np.ones(len(t)) if w is None else w for t, w in zip(signs, weights, strict=True)]
    return X, T, EntryWeights.of(T, weights=np.concatenate(parts)[:, None])


def _features_of(feature_map: FeatureMap, labels: NDArray[np.bool_] | None, block: Block) -> Block:
    X, T, weights = block
    T = T if labels is None else T[:, labels]
    if not len(T) and not feature_map.plain:
        return Block(np.empty((0, feature_map.n_coefficients)), T, weights)
    return Block(feature_map.transform(X), T, weights)


def _gather(blocks: Any, add_block: Callable[..., tuple[RowStatistics]]) -> RowStatistics:
    """Gather the statistics of all rows with an observed entry of a learnable label."""
    # For remote blocks, labels are counted first, because workers need the learnable labels. Local
    # blocks are read a second time if the statistics include rows without a learnable label.

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
    """Add a block to the statistics; the total number of rows, ``n_rows``, limits the sample."""
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
    at_hand: bool = False,  # whether the rows are already in memory
    remote: bool = False,  # whether the rows cannot be read into memory
    max_memory: float | None = None,
) -> Strategy:
    """Return the cheapest strategy that fits into memory."""
    budget = 0.5 * available_memory(UNKNOWN) if max_memory is None else max_memory
    n, m, c = 1_000_000 if n_rows is None else n_rows, n_features + 1, n_labels
    block = 0 if at_hand else BLOCK
    sample = min(MAX_ROWS * (n_features + 4 * c), MAX_BYTES / 8)
    # Number of values in memory: all rows; two Gram matrices per label; or one Gram matrix of
    # the features and all Gram matrices of the scores.
    rows = n * ((1 if at_hand else 2) * m + 3 * c) + block
    grams = 2 * c * m**2 + 3 * m * c**2 + block + sample
    scores = 3 * m**2 + 2 * (c + 1) * c**2 + 30 * m * c + block + sample
    # Number of multiplications in a fit in memory and in a fit by statistics.
    square = n * m**2 / 2
    by_rows = square + EVALUATIONS * n * c * (2 * m + c)
    by_grams = square * (1 + LABEL_SHARE * c) + EVALUATIONS * c**2 * m * (m + 2 * c)
    if at_hand:
        saved = by_rows - by_grams
        pays = by_rows > FACTOR * by_grams and saved > MULTIPLICATIONS
        return "statistics" if pays and 8 * grams <= budget else "memory"
    # From fast to slow, because passes read every row twice per evaluation.
    sizes: dict[Strategy, float] = {"memory": rows, "statistics": grams, "passes": scores}
    if n_rows is None or remote:
        del sizes["memory"]
    fitting = [way for way, size in sizes.items() if 8 * size <= budget]
    if fitting[:2] == ["memory", "statistics"] and by_grams <= by_rows:
        return "statistics"
    return fitting[0] if fitting else min(sizes, key=lambda way: sizes[way])


def source_strategy(
    config: Trainer, source: RowBlocks, strategy: str, max_memory: float | None, needs_rows: str
) -> str:
    """Return the strategy for row blocks; ``needs_rows`` is a reason to load all rows, or ""."""
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
    """Raise an error if there is a ``reason`` why a model cannot be fitted by blocks."""
    if reason:
        what = f"This model cannot be fitted block by block: {reason}."
        raise ValueError(f"{what} To read all rows into memory, use strategy='memory'.")
