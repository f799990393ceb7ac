"""Fits by blocks of rows: statistics that grow and shrink, and a model of all rows so far."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length

from dm2l._fitting import SolverResult, Trainer
from dm2l._solvers.features import FITTED, Weights
from dm2l._utils.arrays import check_magnitude, is_non_numpy
from dm2l._utils.inputs import check_inputs
from dm2l.labels._matrix import LabelMatrix
from dm2l.pu import PositiveUnlabelledClassifier

if TYPE_CHECKING:  # loaded by the methods that need it
    from dm2l.labels._matrix import LabelForm
    from dm2l.outofcore import GramStatistics
    from dm2l.outofcore._fits import Stream


def _by_blocks(model: StreamingClassifier) -> bool:
    """Whether a model can be fitted block by block; raises an error that says why not."""
    reason = model._needs_rows()
    if reason:
        raise AttributeError(f"With these parameters it needs all rows at once: {reason}.")
    return True


class StreamingClassifier(PositiveUnlabelledClassifier):
    """Base of a classifier that can be fitted block by block: its methods for that."""

    kernel: Any
    _statistics: Any  # state of the statistics of all blocks; None after other fits
    _last: Any
    _keep_result: Any

    def _needs_rows(self) -> str:
        """Why a fit cannot go by blocks; empty where it can."""
        looking = ""
        if self.calibration is not None or self.threshold == "f1" or self.coupling == "joint":
            looking = "calibration, threshold='f1' and coupling='joint' look at rows again"
        return Trainer.of(self).needs_rows or looking

    @available_if(_by_blocks)  # type: ignore[untyped-decorator]
    def partial_fit(
        self,
        X: Any,
        y: Any,
        label_mask: Any = None,
        classes: Any = None,
        *,
        sample_weight: Any = None,
        forgetting: float = 1.0,
        solve: bool = True,
    ) -> Self:
        """Add a block of rows to those seen before and fit to all of them.

        The model is what :meth:`fit` would make of all these rows at once, in any order; with
        ``warm_start`` it agrees to ``tol`` only. Labels that have shown one class so far get a
        constant score, without a warning. After a fit in memory, which keeps no statistics, a new
        stream begins (``strategy="statistics"`` keeps them). With ``approximation`` the first block
        fixes the features, so it should be a fair sample. Exact kernels have no statistics.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows of the block.
        y : array-like, data frame or signed CSR of shape (n_samples, n_labels), or 1-D
            Their labels; a block may have nothing observed.
        label_mask : array-like of bool of the shape of ``y``, default=None
            True where a label may be used.
        classes : array-like, default=None
            All classes of a 1-D ``y``, needed at the first call. With a label matrix it may name
            one for each label.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, >= 0: 2 is the row twice.
        forgetting : float, default=1.0
            Factor of the weights of all rows seen before, for streams that drift.
        solve : bool, default=True
            False only adds to the statistics; a later block or :meth:`fit_statistics` solves.

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
        X, T, form, stream, rows = self._read_block(X, y, label_mask, classes, sample_weight)
        stream.add(X, T, forgetting, rows)
        self._set_label_attributes(form.labels)
        if solve:
            return self._keep_without_rows(stream.fit(X, self._last()), stacklevel=3)
        self._statistics = stream.statistics.state()
        weights = stream.config.map_weights(stream.feature_map)
        for name, value in zip(FITTED, weights, strict=True):
            if value is not None:
                setattr(self, name, value)
        return self

    @available_if(_by_blocks)  # type: ignore[untyped-decorator]
    def unlearn(self, X: Any, y: Any, label_mask: Any = None, *, sample_weight: Any = None) -> Self:
        """Take a block away from the rows seen so far and fit to what is left.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows that were part of an earlier block, exactly as they were.
        y : array-like, data frame or signed CSR of shape (n_samples, n_labels), or 1-D
            Their labels, as they were.
        label_mask : array-like of bool of the shape of ``y``, default=None
            The mask that was used.
        sample_weight : array-like of shape (n_samples,), default=None
            The weights that they had.

        Returns
        -------
        self
            The estimator, as if it had never seen these rows, up to rounding.

        Examples
        --------
        >>> from dm2l import DM2LClassifier
        >>> from dm2l.datasets import make_missing_multilabel
        >>> X, Y = make_missing_multilabel(n_samples=300, random_state=0)
        >>> model = DM2LClassifier().partial_fit(X, Y).unlearn(X[200:], Y[200:])
        """
        self._check_parameters()
        if not self._has_statistics:
            raise NotFittedError("There are no statistics to take rows away from.")
        X, T, _, stream, rows = self._read_block(X, y, label_mask, None, sample_weight)
        stream.remove(X, T, rows)
        return self._keep_without_rows(stream.fit(X, self._last()), stacklevel=3)

    @available_if(_by_blocks)  # type: ignore[untyped-decorator]
    def fit_statistics(self, statistics: GramStatistics) -> Self:
        """Fit to statistics that were gathered before, here or elsewhere.

        Parameters
        ----------
        statistics : GramStatistics
            Of the rows to fit to. They are copied.

        Returns
        -------
        self
            The fitted estimator; it keeps names and coding of labels if it had as many before.

        Examples
        --------
        >>> from dm2l import DM2LClassifier
        >>> from dm2l.datasets import make_missing_multilabel
        >>> from dm2l.outofcore import GramStatistics, RowBlocks
        >>> X, Y = make_missing_multilabel(n_samples=300, random_state=0)
        >>> gathered = GramStatistics.gather(RowBlocks.from_arrays(X, Y, rows=100))
        >>> model = DM2LClassifier().fit_statistics(gathered)
        >>> model.coef_.shape == (Y.shape[1], X.shape[1])
        True
        """
        from dm2l.outofcore import GramStatistics

        self._check_parameters()
        if not isinstance(statistics, GramStatistics):
            raise TypeError(f"Expected GramStatistics, got {type(statistics).__name__}.")
        known = getattr(self, "_labels", None)
        if known is None or known.n_labels != statistics.n_labels:
            known = LabelMatrix.of_signs(np.zeros((0, statistics.n_labels), dtype=np.int8))
        d = statistics.n_features
        if self.kernel == "linear" and getattr(self, "n_features_in_", None) != d:
            self._check_X(np.zeros((1, d)), reset=True)
        stream = self._resumed(deepcopy(statistics))
        self._set_label_attributes(known)
        replace(known, signs=statistics.seen).warn_constant()
        result = stream.fit(np.empty((0, self.n_features_in_)), self._last())
        return self._keep_without_rows(result, stacklevel=3)

    @property
    def statistics_(self) -> GramStatistics:
        """Sufficient statistics of all rows seen, a copy; absent after a fit in memory."""
        from dm2l.outofcore import GramStatistics

        if not self._has_statistics:
            raise AttributeError(
                f"{type(self).__name__} has no statistics_: they are gathered by partial_fit and "
                "by a fit with strategy='statistics'."
            )
        return deepcopy(GramStatistics.from_state(self._statistics))

    @property
    def _has_statistics(self) -> bool:
        return getattr(self, "_statistics", None) is not None

    def _resumed(self, statistics: GramStatistics | None = None) -> Stream:
        """The stream of the blocks so far, with its own statistics or others."""
        from dm2l.outofcore import GramStatistics
        from dm2l.outofcore._fits import Stream

        if statistics is None:
            statistics = GramStatistics.from_state(self._statistics)
        n_features = getattr(self, "n_features_in_", 0)
        weights = Weights(*map(getattr, repeat(self), FITTED, repeat(None)))
        return Stream.resumed(Trainer.of(self), weights, n_features, statistics)

    def _read_block(
        self, X: Any, y: Any, label_mask: Any, classes: Any, sample_weight: Any
    ) -> tuple[Any, Any, LabelForm, Stream, Any]:
        """A block of rows, and the stream that it belongs to, which the first one founds."""
        from dm2l.labels._matrix import LabelForm
        from dm2l.outofcore._fits import Stream

        if is_non_numpy(X):
            raise TypeError("Statistics are gathered from numpy arrays; move X to the host.")
        first = not self._has_statistics
        X = check_inputs(self, X, reset=first, follows=False)
        check_magnitude(X)
        stream = None if first else self._resumed()
        marks = self.missing_label, self.missing_as
        form = LabelForm(*marks, classes)
        if stream is not None or (classes is None and hasattr(self, "_labels")):
            negatives = 0 if stream is None else int(stream.statistics.negatives.sum())
            form = LabelForm.resumed(self._labels, negatives, *marks)
        T = form.read(y, label_mask)
        check_consistent_length(np.empty(X.shape[0]), T)
        labels = LabelMatrix.of_signs(T).apply_weights(sample_weight, None)
        T, entries = labels.signs, labels.entries
        if stream is None:
            stream = Stream.begun(self._block_trainer(form.labels), X, T)
        return X, T, form, stream, None if entries is None else entries.rows

    def _block_trainer(self, labels: LabelMatrix) -> Trainer:
        """How blocks are fitted: a 1-D ``y`` has no label correlation, so that no rows are kept."""
        trainer = Trainer.of(self)
        return trainer if labels.kind == "multilabel" else replace(trainer, coupling=None)

    def _keep_without_rows(self, result: SolverResult, *, stacklevel: int) -> Self:
        """Keep a fit whose rows are gone, but for a sample that it may have."""
        self._keep_result(result, stacklevel=stacklevel + 1)
        none = np.empty((0, len(result.mask.learnable)), dtype=np.int8)
        self._completer = self._fit_completer(None, replace(self._labels, signs=none), result)
        return self

    def _check_fitted(self) -> None:
        if self._has_statistics and not hasattr(self, "_learnable"):
            raise NotFittedError(
                "Statistics were gathered with solve=False and nothing was solved yet: add a block "
                "with solve=True, or call fit_statistics(model.statistics_)."
            )
        super()._check_fitted()
