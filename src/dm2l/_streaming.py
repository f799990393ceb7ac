"""Fits to blocks of rows by sufficient statistics, from which rows can be removed again."""

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
from dm2l.labels._matrix import LabelForm, LabelMatrix
from dm2l.pu import PositiveUnlabelledClassifier

if TYPE_CHECKING:  # methods import it when they need it
    from dm2l.outofcore import GramStatistics
    from dm2l.outofcore._fits import Stream


def _by_blocks(model: StreamingClassifier) -> bool:
    """Return True if a model can be fitted by blocks; otherwise raise an error with the reason."""
    reason = model._needs_rows()
    if reason:
        raise AttributeError(f"This model cannot be fitted by blocks of rows: {reason}. Call fit.")
    return True


class StreamingClassifier(PositiveUnlabelledClassifier):
    """Base of classifiers that can be fitted by blocks of rows."""

    _statistics: Any = None  # state of the statistics of all blocks; None after other fits
    _last: Any
    _keep_result: Any

    def _needs_rows(self) -> str:
        """Reason why a fit needs all rows at once; empty if blocks of rows suffice."""
        reason, chosen = "", isinstance(self.threshold, str)
        if self.calibration is not None or chosen or self.coupling == "joint":
            reason = "calibration, threshold rules and coupling='joint' need all rows"
        return Trainer.of(self).needs_rows or reason

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
        """Add a block of rows to the earlier blocks, and fit the model to all blocks.

        The result equals a :meth:`fit` to all rows in any order; with ``warm_start``, it is equal
        up to ``tol``. Labels with only one class so far get a constant score, without a warning. An
        earlier fit in memory has no effect, because only fits with ``strategy="statistics"`` keep
        statistics. With ``approximation``, the first block determines the features, so it should be
        a representative sample. Exact kernels are not supported.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features of the block.
        y : array-like, data frame or signed CSR of shape (n_samples, n_labels), or 1-D
            Labels of the block, all of which may be missing.
        label_mask : array-like of bool of the shape of ``y``, default=None
            True where a label may be used.
        classes : array-like, default=None
            All classes of a 1-D ``y`` (required in the first call), or names of labels (optional).
        sample_weight : array-like of shape (n_samples,), default=None
            Nonnegative weights of the rows. A weight of 2 has the effect of repeating the row.
        forgetting : float, default=1.0
            Factor that reduces the weights of all earlier rows, for distributions that drift.
        solve : bool, default=True
            Whether to fit the model. If False, only the statistics are updated; a later block or
            :meth:`fit_statistics` fits the model.

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
        """Remove rows of earlier blocks, and fit the model to the remaining rows.

        The result equals a fit without the removed rows, up to rounding.

        Parameters
        ----------
        X, y, label_mask, sample_weight
            Features, labels, mask and weights of the rows, exactly as they were passed to
            :meth:`partial_fit`.

        Examples
        --------
        >>> from dm2l import DM2LClassifier
        >>> from dm2l.datasets import make_missing_multilabel
        >>> X, Y = make_missing_multilabel(n_samples=300, random_state=0)
        >>> model = DM2LClassifier().partial_fit(X, Y).unlearn(X[200:], Y[200:])
        """
        self._check_parameters()
        if self._statistics is None:
            what = "unlearn needs the Gram statistics of earlier rows."
            remedy = "Call partial_fit first, or fit with strategy='statistics'."
            raise NotFittedError(f"{what} {remedy}")
        X, T, _, stream, rows = self._read_block(X, y, label_mask, None, sample_weight)
        stream.remove(X, T, rows)
        return self._keep_without_rows(stream.fit(X, self._last()), stacklevel=3)

    @available_if(_by_blocks)  # type: ignore[untyped-decorator]
    def fit_statistics(self, statistics: GramStatistics) -> Self:
        """Fit the model to sufficient statistics that were gathered before.

        Label names and coding of an earlier fit are kept if the number of labels is unchanged.

        Parameters
        ----------
        statistics : GramStatistics
            Statistics of the training rows. They are copied.

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
            raise TypeError(f"statistics must be GramStatistics, got {type(statistics).__name__}.")
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
        """Copy of the sufficient statistics of all rows; not available after a fit in memory."""
        from dm2l.outofcore import GramStatistics

        if self._statistics is None:
            what = f"{type(self).__name__} has no statistics_."
            raise AttributeError(f"{what} Call partial_fit, or fit with strategy='statistics'.")
        return deepcopy(GramStatistics.from_state(self._statistics))

    def _resumed(self, statistics: GramStatistics | None = None) -> Stream:
        """Return a stream that continues after earlier blocks, or from given ``statistics``."""
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
        """Return a checked block of rows and the stream; the first block creates the stream."""
        from dm2l.outofcore._fits import Stream

        if is_non_numpy(X):
            raise TypeError("Fits by blocks of rows support only numpy arrays. Convert X to numpy.")
        first = self._statistics is None
        X = check_inputs(self, X, reset=first, follows=False)
        check_magnitude(X)
        stream = None if first else self._resumed()
        marks = self.missing_label, self.missing_as
        form = LabelForm(*marks, classes)
        if stream is not None or (classes is None and hasattr(self, "_labels")):
            negatives = 0 if stream is None else int(stream.statistics.negatives.sum())
            form = LabelForm.resumed(self._labels, negatives, marks)
        T = form.read(y, label_mask)
        check_consistent_length(np.empty(X.shape[0]), T)
        labels = LabelMatrix.of_signs(T).apply_weights(sample_weight, None)
        T, entries = labels.signs, labels.entries
        if stream is None:
            stream = Stream.begun(self._block_trainer(form.labels), X, T)
        return X, T, form, stream, None if entries is None else entries.rows

    def _block_trainer(self, labels: LabelMatrix) -> Trainer:
        """Return the trainer for blocks of rows, without label correlation for a 1-D ``y``."""
        trainer = Trainer.of(self)
        return trainer if labels.kind == "multilabel" else replace(trainer, coupling=None)

    def _keep_without_rows(self, result: SolverResult, *, stacklevel: int) -> Self:
        """Store the result of a fit by blocks, with the sample of rows if there is one."""
        self._keep_result(result, stacklevel=stacklevel + 1)
        none = np.empty((0, len(result.mask.learnable)), dtype=np.int8)
        self._completer = self._fit_completer(None, replace(self._labels, signs=none), result)
        return self

    def _check_fitted(self) -> None:
        if self._statistics is not None and not hasattr(self, "_learnable"):
            raise NotFittedError(
                "This model has statistics but is not fitted, because partial_fit was called with "
                "solve=False. Call partial_fit with solve=True, or "
                "fit_statistics(model.statistics_)."
            )
        super()._check_fitted()
