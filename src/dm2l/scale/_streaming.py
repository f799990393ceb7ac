"""Fits to rows that come in blocks: all at once from a source, or one after the other."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_consistent_length

from dm2l.approximation import FourierMap, NystroemMap
from dm2l.arrays import is_foreign
from dm2l.base import MissingLabelClassifier
from dm2l.features import FeatureMap, LandmarkMap, LinearMap, ridge_of_variances
from dm2l.labels import LabelForm, Labels, Signs
from dm2l.scale._block_readers import default_rows
from dm2l.scale._gram_problem import GramProblem
from dm2l.scale._passes import PassSums, sum_over_blocks
from dm2l.scale._source import Block, RemoteBlocks, RowBlocks
from dm2l.scale._statistics import SufficientStatistics
from dm2l.scale._statistics_sums import StatisticsSums
from dm2l.scale._strategy import MEMORY, STRATEGIES, choose, free_memory
from dm2l.scale._tally import Tally
from dm2l.solvers import Minimand, Preconditioner, Solution, conjugate_gradients
from dm2l.solvers._ridge import settled
from dm2l.threads import blas_thread_count, blas_threads

__all__ = ["StreamedFits"]

# Rows that landmarks of a Nystroem approximation are chosen from, for each landmark.
SAMPLE = 4


class _ByBlocks:
    """A method that is there only where the model can be fitted block by block.

    ``hasattr`` is what scikit-learn asks; who calls it all the same is told why it is not there.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, model: Any, owner: Any = None) -> Any:
        reason = model._needs_rows() if model is not None else ""
        if reason:
            raise AttributeError(
                f"{type(model).__name__} has no {self._method.__name__} with these parameters: "
                f"{reason}."
            )
        return self._method.__get__(model, owner)


class StreamedFits(MissingLabelClassifier):
    """What :class:`dm2l.DM2LClassifier` does with blocks of rows."""

    if TYPE_CHECKING:
        # Of the classifier that these are part of.
        kernel: Any
        approximation: str | None
        n_components: int
        alpha: Any
        lambda_d: float
        fit_intercept: bool
        local: bool
        discriminant: bool
        solver: str
        _kernel: Any

        def _feature_map(self, X: Any) -> FeatureMap: ...
        def _solve(
            self, problem: Minimand, feature_map: FeatureMap, ridge: Callable[[], Any]
        ) -> Solution: ...
        def _set_solution(self, solution: Solution) -> None: ...
        def _store(self, X: Any, W: Any, feature_map: FeatureMap) -> None: ...

    # -- block after block ----------------------------------------------------------------------

    @_ByBlocks
    def partial_fit(
        self,
        X: Any,
        Y: Any,
        label_mask: Any = None,
        classes: Any = None,
        *,
        forgetting: float = 1.0,
        solve: bool = True,
    ) -> Self:
        """Add a block of rows to those seen before and fit to all of them.

        The statistics of the block are added to those of the others (``statistics_``), and the
        model is what :meth:`fit` would make of all these rows at once, in whatever order they
        came; with ``warm_start`` it begins where the last fit ended and agrees to ``tol`` only.
        Labels that have shown one class so far get a constant score, without a warning. A fit in
        memory keeps no statistics: after it a new stream begins, with the classes and label names
        of that fit but without its rows (``fit(X, Y, strategy="statistics")`` keeps them).

        The linear model takes any blocks. With ``approximation`` the features are fixed by the
        first block: waves by its number of columns (and ``gamma="scale"`` by its spread),
        landmarks by its rows, so it should be a fair sample. Exact kernels grow with every row
        and have no statistics.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows of the block.
        Y : array-like, data frame or signed CSR of shape (n_samples, n_labels), or 1-D
            Their labels, with holes; a block may have nothing observed.
        label_mask : array-like of bool of the shape of ``Y``, default=None
            True where a label may be used.
        classes : array-like, default=None
            All classes of a 1-D ``y``, needed at the first call. With a label matrix it may name
            one for each label.
        forgetting : float, default=1.0
            What the rows seen before weigh from now on, for streams that drift: with 0.9 a block
            counts 0.9 after the next one, 0.81 after the second, and so on.
        solve : bool, default=True
            False only adds to the statistics, and leaves the solving to a later block or to
            :meth:`fit_statistics`.

        Returns
        -------
        self
            The estimator, fitted to all rows so far.

        Examples
        --------
        >>> import numpy as np
        >>> from dm2l import DM2LClassifier
        >>> from dm2l.datasets import make_missing_multilabel
        >>> X, Y = make_missing_multilabel(n_samples=300, random_state=0)
        >>> whole = DM2LClassifier().fit(X, Y)
        >>> parts = DM2LClassifier()
        >>> for rows in np.array_split(np.arange(300), 3):
        ...     _ = parts.partial_fit(X[rows], Y[rows])
        >>> np.allclose(parts.decision_function(X), whole.decision_function(X), atol=1e-8)
        True
        """
        self._check_parameters()
        X, T, form, feature_map, statistics = self._begin(X, Y, label_mask, classes)
        Phi = feature_map.transform(X)
        statistics.scale(forgetting).add(Phi, T)
        self._set_label_attributes(form.labels)
        self._keep_statistics(statistics, feature_map)
        if solve:
            self._learn_statistics(statistics, feature_map, X)
        return self

    @_ByBlocks
    def unlearn(self, X: Any, Y: Any, label_mask: Any = None) -> Self:
        """Take a block away from the rows seen so far and fit to what is left.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows that were part of an earlier block, exactly as they were.
        Y : array-like, data frame or signed CSR of shape (n_samples, n_labels), or 1-D
            Their labels, as they were.
        label_mask : array-like of bool of the shape of ``Y``, default=None
            The mask that was used.

        Returns
        -------
        self
            The estimator, as if it had never seen these rows.

        Examples
        --------
        >>> import numpy as np
        >>> from dm2l import DM2LClassifier
        >>> from dm2l.datasets import make_missing_multilabel
        >>> X, Y = make_missing_multilabel(n_samples=300, random_state=0)
        >>> never = DM2LClassifier().partial_fit(X[:200], Y[:200])
        >>> model = DM2LClassifier().partial_fit(X, Y).unlearn(X[200:], Y[200:])
        >>> np.allclose(model.decision_function(X), never.decision_function(X), atol=1e-6)
        True
        """
        self._check_parameters()
        if "_gathered" not in vars(self):
            raise NotFittedError("There are no statistics to take rows away from.")
        X, T, _, feature_map, statistics = self._begin(X, Y, label_mask, None)
        part = SufficientStatistics(statistics.n_features, statistics.n_labels)
        statistics -= part.add(feature_map.transform(X), T)
        self._learn_statistics(statistics, feature_map, X)
        return self

    @_ByBlocks
    def fit_statistics(self, statistics: SufficientStatistics) -> Self:
        """Fit to statistics that were gathered before, here or elsewhere.

        Parameters
        ----------
        statistics : SufficientStatistics
            Of the rows to fit to, for instance the sum of several days less one. They are copied.

        Returns
        -------
        self
            The fitted estimator. Names and coding of labels stay as they were, if the estimator
            was fitted to as many before.

        Examples
        --------
        >>> from dm2l import DM2LClassifier
        >>> from dm2l.scale import RowBlocks
        >>> from dm2l.datasets import make_missing_multilabel
        >>> from dm2l.scale import SufficientStatistics
        >>> X, Y = make_missing_multilabel(n_samples=300, random_state=0)
        >>> gathered = SufficientStatistics.gather(RowBlocks.from_arrays(X, Y, rows=100))
        >>> model = DM2LClassifier().fit_statistics(gathered)
        >>> model.coef_.shape == (Y.shape[1], X.shape[1])
        True
        """
        self._check_parameters()
        if not isinstance(statistics, SufficientStatistics):
            raise TypeError(f"Expected SufficientStatistics, got {type(statistics).__name__}.")
        known = getattr(self, "_labels", None)
        if known is None or known.n_labels != statistics.n_labels:
            signs = np.zeros((0, statistics.n_labels), dtype=np.int8)
            known = Labels(signs, "multilabel", None, None, 0, np.dtype(np.int64))
        if self.kernel == "linear":
            example = np.zeros((1, statistics.n_features))
            if getattr(self, "n_features_in_", None) != statistics.n_features:
                self._check_X(example, reset=True)
            feature_map = self._new_map(example)
        else:
            feature_map = self._known_map()
            if feature_map.n_coefficients != statistics.n_features:
                raise ValueError(
                    f"The statistics are of {statistics.n_features} features, the approximation "
                    f"has {feature_map.n_coefficients}."
                )
            example = np.empty((0, self.n_features_in_))
        self._set_label_attributes(known)
        self._seen_labels(statistics).warn_constant()
        self._learn_statistics(statistics.copy(), feature_map, example)
        return self

    @property
    def statistics_(self) -> SufficientStatistics:
        """Sufficient statistics of all rows seen, a copy; absent after a fit in memory."""
        if "_gathered" not in vars(self):
            raise AttributeError(
                f"{type(self).__name__} has no statistics_: they are gathered by partial_fit and "
                "by fit(..., strategy='statistics')."
            )
        return SufficientStatistics.from_state(self._gathered).copy()

    def _begin(
        self, X: Any, Y: Any, label_mask: Any, classes: Any
    ) -> tuple[Any, Signs, LabelForm, Any, SufficientStatistics]:
        """Read a block; features and statistics to add it to, which the first one founds."""
        if is_foreign(X):
            raise TypeError("Statistics are gathered from numpy arrays; move X to the host.")
        first = "_gathered" not in vars(self)
        X = super()._check_X(X, reset=first)
        marks = self.missing_label, self.absent_label
        negatives = 0
        if not first:
            statistics = SufficientStatistics.from_state(self._gathered)
            negatives = int(statistics.negatives.sum())
        form = LabelForm(*marks, classes)
        if not first or (classes is None and hasattr(self, "_labels")):
            form = LabelForm.resumed(self._labels, negatives, *marks)
        T = form.read(Y, label_mask)
        check_consistent_length(np.empty(X.shape[0]), T)
        if not first:
            return X, T, form, self._known_map(), statistics
        feature_map = self._new_map(_seen(X, T))
        size = self._n_mapped(feature_map, X)
        return X, T, form, feature_map, SufficientStatistics(size, T.shape[1])

    def _check_X(self, X: Any, *, reset: bool = False) -> Any:
        if not reset and "_gathered" in vars(self) and "_learnable" not in vars(self):
            raise NotFittedError(
                "Statistics were gathered with solve=False and nothing was solved yet: add a block "
                "with solve=True, or call fit_statistics(model.statistics_)."
            )
        return super()._check_X(X, reset=reset)

    def _keep_statistics(self, statistics: SufficientStatistics, feature_map: Any) -> None:
        # As plain arrays, which every way of storing a model knows.
        self._gathered = statistics.state()
        if isinstance(feature_map, FourierMap):
            self._waves = feature_map
        elif isinstance(feature_map, LandmarkMap):
            self.X_fit_, self._landmark_factor = feature_map.rows, feature_map.factor.L
            self.approximation_error_ = feature_map.error

    def _forget_statistics(self) -> None:
        self.__dict__.pop("_gathered", None)

    # -- a source -------------------------------------------------------------------------------

    def _fit_source(self, source: RowBlocks, strategy: str, memory: float | None) -> Self:
        self._check_strategy(strategy)
        self._check_parameters()
        for name in ("missing_label", "absent_label"):
            mine, default = getattr(self, name), getattr(type(self)(), name)
            if not _same(mine, getattr(source, name)) and not _same(mine, default):
                raise ValueError(
                    f"{name}={mine!r} here, {getattr(source, name)!r} in the row blocks, which "
                    "read the labels: give it to them."
                )
        first = source.first()
        self._check_X(first.X[:1] if first.X.shape[0] else first.X, reset=True)
        if source.feature_names is not None:
            self.feature_names_in_ = source.feature_names
        self._forget_statistics()
        if strategy == "auto" and self._needs_rows():
            strategy = "memory"
        elif strategy == "auto":
            d = source.n_features if self.approximation is None else self.n_components
            ways = STRATEGIES
            if isinstance(source, RemoteBlocks):
                ways = STRATEGIES[1:]
                memory = min(source.room(), MEMORY * free_memory()) if memory is None else memory
            strategy = choose(source.n_rows, d, source.n_labels, memory=memory, ways=ways)
        if strategy == "memory":
            X, T = _collected(source)
            self._set_source_labels(source, replace(source.labels, signs=T))
            self._learn(X, T)
            self._fit_decisions(X, T)
        else:
            self._refuse_blocks()
            self._learn_blocks(source, self._sample(source, first), strategy, source)
        return self

    def _set_source_labels(self, source: RowBlocks, seen: Labels) -> None:
        if not seen.signs.any():
            raise _nothing_observed()
        seen.warn_constant()
        self._set_label_attributes(source.labels)

    def _learn_blocks(
        self, blocks: Iterable[Any], sample: Any, strategy: str, source: RowBlocks | None = None
    ) -> None:
        """Fit by statistics or by passes; the labels of a source are known after the first.

        ``sample`` is what the features are made from.
        """
        feature_map = self._new_map(sample)
        example = sample[:0]
        kind = SufficientStatistics if strategy == "statistics" else Tally
        tally = _tallied(_mapped(blocks, feature_map), kind, source)
        if source is not None:
            self._set_source_labels(source, self._seen_labels(tally, source.labels))
        if isinstance(tally, SufficientStatistics):
            self._learn_statistics(tally, feature_map, example)
            return
        chosen = _mapped(blocks, feature_map, tally.learnable)
        intercept = bool(self.fit_intercept)
        reducer = sum_over_blocks if isinstance(chosen, _Mapped) else _reduced
        self._learn_sums(
            tally, lambda: PassSums(chosen, tally, intercept, reducer), feature_map, example
        )

    def _learn_at_hand(self, X: Any, T: Signs, strategy: str) -> None:
        """Fit to rows that are in memory, as if they were not."""
        if is_foreign(X):
            raise TypeError("Statistics are gathered from numpy arrays; move X to the host.")
        self._refuse_blocks(at_hand=True)
        rows = default_rows(X.shape[1])
        blocks = [(X[i : i + rows], T[i : i + rows]) for i in range(0, len(T), rows)]
        self._learn_blocks(blocks, X if self.kernel == "linear" else _seen(X, T), strategy)

    def _sample(self, source: RowBlocks, first: Block) -> Any:
        """Rows that the features are made from: of the first block, or of more for landmarks."""
        wanted = SAMPLE * self.n_components if self.approximation == "nystroem" else 0
        if len(first.T) >= wanted:
            return _seen(first.X, first.T)
        found: list[Any] = []
        for X, T in source:
            if not len(T):
                continue
            found.append(_seen(X, T))
            wanted -= found[-1].shape[0]
            if wanted <= 0:
                break
        return _stacked(found)

    # -- solving --------------------------------------------------------------------------------

    def _learn_statistics(
        self, statistics: SufficientStatistics, feature_map: Any, example: Any
    ) -> None:
        self._learn_sums(
            statistics,
            lambda: StatisticsSums(statistics, bool(self.fit_intercept), blas_thread_count()),
            feature_map,
            example,
        )
        self._keep_statistics(statistics, feature_map)

    def _learn_sums(
        self, tally: Tally, sums: Callable[[], Any], feature_map: Any, example: Any
    ) -> None:
        """Fit the labels of which both classes were observed; the others are constant."""
        self._learnable = tally.learnable
        self._constant = (tally.positives > 0) * 1.0 - (tally.negatives > 0) * 1.0
        self._keep = np.ones(0, dtype=bool)
        if self.calibration is None and self.threshold != "f1":
            self._fit_decisions(None, np.empty((0, tally.n_labels), dtype=np.int8))
        if not self._learnable.any():
            self._fit_nothing(example)
            return
        made = sums()
        with blas_threads(made.n_labels * made.size**2):
            problem = GramProblem(
                made,
                self.lambda_d,
                self._ridge_of(tally),
                local=self.local,
                discriminant=self.discriminant,
                workers=blas_thread_count(),
            )
            solution = self._solve(problem, feature_map, lambda: _ridge(problem, made))
        self._set_solution(solution)
        rows = feature_map.rows if isinstance(feature_map, LandmarkMap) else example
        self._store(rows, problem.to_original(solution.W), feature_map)

    def _ridge_of(self, tally: Tally) -> float:
        if not isinstance(self.alpha, str):
            return float(self.alpha)
        variances = tally.variances()
        if self.kernel == "linear":
            return ridge_of_variances(variances)
        return float(variances.sum()) or 1.0

    def _seen_labels(self, tally: Tally, labels: Labels | None = None) -> Labels:
        """Two rows that show of every label the classes that were seen: enough to warn."""
        signs = np.array([tally.positives > 0, -1 * (tally.negatives > 0)], dtype=np.int8)
        return replace(self._labels if labels is None else labels, signs=signs)

    # -- features -------------------------------------------------------------------------------

    def _new_map(self, X: Any) -> Any:
        """Features that any further rows can be given too."""
        if self.kernel == "linear":
            feature_map: Any = LinearMap(False, bool(self.fit_intercept))
            feature_map.fit(X[:1])
            return feature_map
        feature_map = self._feature_map(X)
        feature_map.fit(X)
        return feature_map.landmarks(X) if isinstance(feature_map, NystroemMap) else feature_map

    def _known_map(self) -> Any:
        if self.kernel == "linear":
            feature_map = LinearMap(False, bool(self.fit_intercept))
            feature_map.fit(np.zeros((1, self.n_features_in_)))
            return feature_map
        if self.approximation == "fourier" and hasattr(self, "_waves"):
            return self._waves
        if self.approximation == "nystroem" and hasattr(self, "_landmark_factor"):
            return LandmarkMap(
                self._kernel, self.X_fit_, self._landmark_factor, self.approximation_error_
            )
        raise NotFittedError("The features of the approximation are made by a first block.")

    @staticmethod
    def _n_mapped(feature_map: Any, X: Any) -> int:
        linear = isinstance(feature_map, LinearMap)
        return int(X.shape[1] if linear else feature_map.n_coefficients)

    # -- what cannot be done --------------------------------------------------------------------

    def _check_strategy(self, strategy: str) -> None:
        if strategy not in ("auto", *STRATEGIES):
            listed = ", ".join(map(repr, ("auto", *STRATEGIES)))
            raise ValueError(f"strategy must be one of {listed}; got {strategy!r}.")

    def _needs_rows(self, at_hand: bool = False) -> str:
        """Why a fit cannot go by blocks; empty where it can."""
        if self.solver == "published":
            return "solver='published' works on all rows"
        if self.kernel == "precomputed":
            return "a precomputed kernel matrix belongs to all rows"
        if self.kernel != "linear" and self.approximation is None:
            return (
                "an exact kernel model grows with every row; use approximation='nystroem' or "
                "'fourier'"
            )
        if not at_hand and (self.calibration is not None or self.threshold == "f1"):
            return "calibration and threshold='f1' look at rows again"
        return ""

    def _refuse_blocks(self, at_hand: bool = False) -> None:
        reason = self._needs_rows(at_hand)
        if reason:
            raise ValueError(f"This model cannot be fitted block by block: {reason}.")


class _Mapped:
    """Blocks that are changed as they come."""

    def __init__(self, blocks: Iterable[Any], change: Callable[[Any], Any]) -> None:
        self._blocks, self._change = blocks, change

    def __iter__(self) -> Iterator[tuple[Any, Signs]]:
        return map(self._change, self._blocks)


def _mapped(
    blocks: Iterable[Any], feature_map: Any, labels: NDArray[np.bool_] | None = None
) -> Any:
    """Blocks with their features in place of the inputs, and some of the labels."""
    chosen = None if labels is None or labels.all() else labels
    change = partial(_features_of, feature_map, chosen)
    if not isinstance(blocks, RemoteBlocks):
        return _Mapped(blocks, change)
    same = isinstance(feature_map, LinearMap) and chosen is None
    return blocks if same else blocks.map(change)


def _features_of(
    feature_map: Any, labels: NDArray[np.bool_] | None, block: tuple[Any, Signs]
) -> tuple[Any, Signs]:
    X, T = block
    T = T if labels is None else T[:, labels]
    if not len(T) and not isinstance(feature_map, LinearMap):
        return np.empty((0, feature_map.n_coefficients)), T
    return feature_map.transform(X), T


def _tallied(blocks: Any, kind: type[Tally], source: RowBlocks | None) -> Tally:
    """Counts or statistics of all blocks, with the rows of labels that can be learnt.

    Which labels these are, blocks that are elsewhere are told beforehand. One after the other they
    find out, and where a pass could not wait for it there is another.
    """
    if isinstance(source, RemoteBlocks):
        positives, negatives = source.counts()
        (tally,) = blocks.reduce(partial(_tally_of, kind, (positives > 0) & (negatives > 0)))
        tally.positives[:], tally.negatives[:] = positives, negatives
        return tally
    tally = _gathered(blocks, kind)
    return _gathered(blocks, kind, tally) if tally.overcounted else tally


def _gathered(blocks: Any, kind: type[Tally], counted: Tally | None = None) -> Tally:
    """Counts or statistics of blocks, one after the other; ``counted`` has seen them all before."""
    learnable = None if counted is None else counted.learnable
    tally: Tally | None = None
    for Phi, T in blocks:
        if tally is None:
            tally = kind(Phi.shape[1], T.shape[1])
        tally.add(Phi, T, learnable)
    assert tally is not None
    if counted is not None:
        tally.positives, tally.negatives = counted.positives, counted.negatives
    return tally


def _tally_of(
    kind: type[Tally], learnable: NDArray[np.bool_], block: tuple[Any, Signs]
) -> tuple[Tally]:
    Phi, T = block
    return (kind(Phi.shape[1], T.shape[1]).add(Phi, T, learnable),)


def _reduced(function: Callable[[Any], Any], blocks: Any) -> Any:
    """The reducer of blocks that are elsewhere."""
    return blocks.reduce(function)


def _seen(X: Any, T: Signs) -> Any:
    """Rows with something observed, or all where there are none."""
    seen = (T != 0).any(axis=1)
    return X if seen.all() or not seen.any() else X[seen]


def _nothing_observed() -> ValueError:
    return ValueError(
        "Y has nothing observed in any block. At least one label of one row is needed; check "
        "missing_label and label_mask."
    )


def _collected(source: RowBlocks) -> tuple[Any, Signs]:
    """All rows of a source."""
    blocks = list(source)
    T = np.concatenate([block.T for block in blocks])
    return _stacked([block.X for block in blocks]), T


def _stacked(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def _ridge(problem: GramProblem, sums: Any) -> Any:
    """The problem without norms: direct where there are statistics, else by passes."""
    if isinstance(sums, StatisticsSums):
        return sums.ridge(problem.alpha)
    preconditioner = Preconditioner(problem)
    V = conjugate_gradients(problem, preconditioner, tol=1e-10, max_iter=1000)
    W = preconditioner.to_weights(V)
    if not settled(problem, preconditioner, W):
        warnings.warn(
            "Conjugate gradients did not reach a relative gradient of 1e-8: the ridge is small for "
            "features of such different scales. Scale the features, or use strategy='statistics'.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return W


def _same(one: Any, other: Any) -> bool:
    both_nan = one != one and other != other
    return bool(both_nan or one is other or one == other)
