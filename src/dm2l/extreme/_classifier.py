"""DM2L for thousands of labels, without arrays of size ``n_samples x n_labels``."""

import warnings
from collections.abc import Iterator
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _num_samples, check_consistent_length, check_is_fitted

from dm2l._base import MissingLabelClassifier
from dm2l._solvers.problem import Solution
from dm2l._utils.arrays import checked_numbers
from dm2l._utils.inputs import check_choice, check_counts, check_numbers
from dm2l.completion._completer import LabelCompleter
from dm2l.extreme._problem import absent_target, block_length, check_memory, fit_head
from dm2l.labels._entries import checked_weights
from dm2l.labels._matrix import LabelMatrix, constant_scores, parse_labels, parse_sparse_labels
from dm2l.labels._parsing import SparseLabelMatrix


class TopK(NamedTuple):
    """The labels with the highest scores in each row, in the format for metrics at ``k``."""

    indices: NDArray[np.intp]
    scores: NDArray[np.float64]


def top_k(S: NDArray[np.float64], k: int) -> TopK:
    """Return the ``k`` highest scores of each row; ties are broken by the order of labels."""
    c = S.shape[1]
    found = np.argpartition(S, c - k, axis=1)[:, c - k :]
    last = np.take_along_axis(S, found, axis=1).min(axis=1)
    # A partition selects arbitrary labels among ties for the last place.
    for i in np.flatnonzero((last[:, None] <= S).sum(axis=1) > k):
        found[i] = np.argsort(-S[i], kind="stable")[:k]
    found = np.sort(found, axis=1)
    values = np.take_along_axis(S, found, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    return TopK(np.take_along_axis(found, order, axis=1), np.take_along_axis(values, order, axis=1))


def _ones(where: Any) -> Any:
    return sp.csr_array(where.astype(np.int64))


@dataclass(eq=False, repr=False)
class ExtremeDM2LClassifier(MissingLabelClassifier):
    r"""DM2L with a low-rank head, for thousands of labels with few positives per row.

    Scores are :math:`F = t_0 + (\Phi W + 1 b') B'`, where the columns of ``B`` (labels x rank) are
    orthonormal and :math:`t_0` is the target of an entry that is not stored. The estimator
    minimizes

    .. math:: \tfrac12 \sum_{ij} v_{ij} (F_{ij} - t_{ij})^2 + \tfrac{\alpha}{2} \|W\|_F^2
              + \lambda_d \Bigl(\sum_k \|F_k - t_0\|_* - \|F_C - t_0\|_*\Bigr).

    A fit never creates an array of ``n_samples x n_labels``. ``B`` spans the directions in label
    space that ridge regression predicts best (reduced-rank regression). Because ``B`` models label
    correlations, there is no parameter ``coupling``. See :doc:`/research/many-labels`.

    Parameters
    ----------
    lambda_d : float, default=0.1
        Weight of the nuclear norms. 0 gives reduced-rank ridge regression.
    alpha, max_iter, tol, missing_label
        As in :class:`dm2l.DM2LClassifier`.
    rank : int, default=100
        Number of columns of ``B``. With one column per label, the rank is not reduced.
    missing_as : {None, "missing", "negative", "unlabelled"}, default=None
        Meaning of an entry that a sparse ``Y`` does not store. "missing" means unknown
        (:math:`t_0 = 0`). "negative" means an observed negative (:math:`t_0 = -1`). "unlabelled"
        means a negative or an overlooked positive. Unlabelled entries have the weight
        ``absent_weight``, and positives of label ``j`` have the weight ``1 / propensities[j]``.
        None also means missing, but requires that ``Y`` stores negatives as -1.
    absent_weight : float, default=1.0
        Weight of an unlabelled entry, above 0 and at most 1.
    propensities : array-like of shape (n_labels,), default=None
        For ``missing_as="unlabelled"``, the probability that a positive of each label is labelled.
        The default is estimated by :func:`dm2l.metrics.propensities`.
    min_rows : int, default=2
        Minimum number of observed positives that a label needs for a local norm.
    discriminant, fit_intercept : bool, default=True
        Whether to use the global norm, and whether to use the unpenalized intercept ``b``.
    max_memory : float, default=2e9
        Maximum memory in bytes of a fit, in addition to ``X`` and ``Y``, and of a prediction, in
        addition to its result. A fit that needs more memory raises an error before it starts.

    Attributes
    ----------
    label_vectors_ : ndarray of shape (n_labels, rank)
        ``B``, with zeros for labels with at most one observed class.
    coef_, intercept_ : ndarray of shape (rank, n_features) and (rank,)
        ``W'`` and ``b``. The coefficients of the labels are ``label_vectors_ @ coef_``.
    offset_ : ndarray of shape (n_labels,)
        ``t_0``, or the constant score of a label with at most one observed class.
    label_names_, classes_, thresholds_, objective_, objective_history_, n_iter_, n_features_in_
        As in :class:`dm2l.DM2LClassifier`.

    See Also
    --------
    dm2l.DM2LClassifier : DM2L without a low-rank head, for label matrices that fit in memory.

    Notes
    -----
    For a sparse ``Y``, :meth:`predict` and :meth:`complete` return sparse arrays. ``label_mask``
    cannot be combined with ``missing_as="unlabelled"``. If positives are rare, evaluate
    :func:`dm2l.metrics.precision_at_k` of :meth:`predict_top_k` rather than :meth:`score`.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from dm2l.extreme import ExtremeDM2LClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 5))
    >>> Y = sp.csr_array((X @ rng.normal(size=(5, 20)) > 1).astype(int))
    >>> model = ExtremeDM2LClassifier(rank=5, missing_as="negative").fit(X, Y)
    >>> model.predict_top_k(X, k=3).indices.shape
    (200, 3)
    """

    lambda_d: float = 0.1
    alpha: float | str = "scale"
    _: KW_ONLY
    rank: int = 100
    missing_as: str | None = None
    absent_weight: float = 1.0
    propensities: Any = None
    min_rows: int = 2
    discriminant: bool = True
    fit_intercept: bool = True
    max_memory: float = 2e9
    max_iter: int = 200
    tol: float = 1e-4
    missing_label: Any = np.nan

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_numbers(alpha=self.alpha, words=("scale",))
        check_numbers(lambda_d=self.lambda_d, tol=self.tol)
        check_numbers(absent_weight=self.absent_weight, max_memory=self.max_memory, positive=True)
        check_counts(rank=self.rank, min_rows=self.min_rows, max_iter=self.max_iter)
        if self.absent_weight > 1:
            raise ValueError(f"absent_weight must be at most 1, got {self.absent_weight!r}.")
        check_choice("missing_as", self.missing_as, None, "missing", "negative", "unlabelled")

    def fit(
        self,
        X: Any,
        y: Any,
        label_mask: Any = None,
        *,
        sample_weight: Any = None,
        label_weight: Any = None,
    ) -> Self:
        """Fit the model to labels with missing entries.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs. A sparse ``X`` stays sparse.
        y : sparse matrix of shape (n_samples, n_labels), or array-like
            The labels: a sparse matrix of ``+1`` and ``-1``, a sparse matrix of positives together
            with ``missing_as``, or an array as for other estimators.
        label_mask : array-like or sparse matrix of bool of the shape of ``y``, default=None
            True where the label may be used. A sparse mask stays sparse.
        sample_weight : array-like of shape (n_samples,), default=None
            Nonnegative weights of rows. A row of weight 2 counts twice. See :doc:`/guide/weights`.
        label_weight : None
            Not supported, because it would be a dense array of all entries.
        """
        self._check_parameters()
        if label_weight is not None:
            what = "ExtremeDM2LClassifier does not support label_weight."
            raise ValueError(f"{what} Use sample_weight, or propensities for positives.")
        X = self._check_X(X, reset=True).astype(np.float64, copy=False)
        form, labels = self._read_labels(y, label_mask)
        check_consistent_length(X, labels.signed)
        rows = None
        if sample_weight is not None:
            rows = checked_weights("sample_weight", sample_weight, (X.shape[0],))
            kept = np.flatnonzero(rows)
            X, rows = X[kept], None if (rows[kept] == 1).all() else rows[kept]
            labels = replace(labels, signed=sp.csr_array(labels.signed[kept]))
        self._dense = labels.dense
        self._set_label_attributes(form)
        n_labels = labels.signed.shape[1]
        self._completer = LabelCompleter(np.zeros(n_labels), np.ones(n_labels, dtype=bool))
        n, d = X.shape
        sizes = {"n_rows": n, "n_features": d, "n_labels": n_labels, "n_stored": labels.signed.nnz}
        check_memory(int(self.rank), float(self.max_memory), dense=not sp.issparse(X), **sizes)
        seen = np.stack([labels.positives() > 0, -1 * (labels.negatives() > 0)]).astype(np.int8)
        replace(form, signs=seen).warn_constant()
        learnable = seen.any(axis=0) & (seen.sum(axis=0) == 0)
        constant = constant_scores(labels.positives(), labels.negatives())
        self.offset_ = np.where(learnable, absent_target(labels), constant)
        # Scores of constant labels are computed like all other scores.
        self._learnable, self._constant = np.ones(n_labels, dtype=bool), self.offset_
        if learnable.any():
            with checked_numbers(X):
                head = fit_head(self, X, labels, learnable, rows)
        else:
            solution = Solution(None, 0.0, [0.0])
            head = solution, np.zeros((1, d)), np.zeros(1), np.zeros((n_labels, 1))
        solution, self.coef_, self.intercept_, self.label_vectors_ = head
        if not solution.converged:
            what = f"The solver stopped after max_iter={self.max_iter} iterations before the "
            what += f"objective converged to tol={self.tol}. Raise max_iter, or scale the features."
            warnings.warn(what, ConvergenceWarning, stacklevel=2)
        self.n_iter_, self.objective_ = solution.n_iter, solution.objective
        self.objective_history_ = np.array(solution.history)
        return self

    def _read_labels(self, Y: Any, label_mask: Any) -> tuple[LabelMatrix, SparseLabelMatrix]:
        """Return names and coding of the labels, and their entries; sparse labels stay sparse."""
        if not sp.issparse(Y):
            form = parse_labels(Y, label_mask=label_mask, missing_label=self.missing_label)
            return form, SparseLabelMatrix.of_signs(form.signs)
        marks = {"missing_label": self.missing_label, "missing_as": self.missing_as}
        stored = parse_sparse_labels(Y, label_mask=label_mask, **marks)
        none = np.zeros((0, stored.signed.shape[1]), dtype=np.int8)
        return LabelMatrix.of_signs(none, negative=stored.negative), stored

    def _score_blocks(self, X: Any) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield the scores of all labels in blocks of rows."""
        X = self._check_X(X).astype(np.float64, copy=False)
        G = np.asarray(X @ self.coef_.T + self.intercept_)
        step = block_length(self.max_memory, 4 * len(self.offset_), max(1, len(G)))
        for start in range(0, len(G), step):
            rows = slice(start, min(start + step, len(G)))
            S = G[rows] @ self.label_vectors_.T
            S += self.offset_
            yield rows, S

    def predict_top_k(self, X: Any, k: int = 5) -> TopK:
        """Find the labels with the highest scores in each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        k : int, default=5
            Number of labels per row.

        Returns
        -------
        indices, scores : ndarray of shape (n_samples, k)
            Column numbers of the labels, best first, and their scores. Among equal scores, the
            earlier label comes first.
        """
        check_is_fitted(self)
        c = len(self.offset_)
        if not isinstance(k, Integral) or not 1 <= k <= c:
            what = f"k must be an integer from 1 to {c}, the number of labels,"
            raise ValueError(f"{what} got {k!r}.")
        parts = [top_k(S, int(k)) for _, S in self._score_blocks(X)]
        return TopK(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _all_scores(self, X: Any, learnt: Any = None) -> NDArray[np.float64]:
        """Return the scores of all labels, including constant labels."""
        n, c = _num_samples(X), len(self.offset_)
        if 8 * n * c > self.max_memory:
            raise ValueError(
                f"Scores of {n} rows and {c} labels take {8 * n * c:.3g} bytes, but max_memory is "
                f"{self.max_memory:.3g}. Use predict_top_k, pass at most "
                f"{int(self.max_memory // (8 * c))} rows at a time, or raise max_memory."
            )
        scores = np.empty((n, c))
        for rows, S in self._score_blocks(X):
            scores[rows] = S
        return scores

    def predict(self, X: Any) -> Any:
        """Predict labels with scores above 0, as a sparse array if training labels were sparse.

        If most positives were unlabelled, few scores exceed 0. Use :meth:`predict_top_k` instead.
        """
        X = self._check_X(X)
        if self._dense:
            blocks = [self._decide(S) for _, S in self._score_blocks(X)]
            return self._follow(np.concatenate(blocks), X)
        return self._positives(X)

    def _positives(self, X: Any) -> Any:
        blocks = [_ones(S > 0) for _, S in self._score_blocks(X)]
        return sp.csr_array(sp.vstack(blocks, format="csr"))

    def complete(
        self,
        X: Any,
        Y: Any,
        *,
        label_mask: Any = None,
        method: Literal["predict", "predict_proba", "decision_function"] = "predict",
        max_error_rate: Any = None,
        return_summary: bool = False,
    ) -> Any:
        """Impute the missing labels of ``Y``, which has the same format as in ``fit``.

        The method works as in :class:`dm2l.DM2LClassifier`, but ``max_error_rate`` and
        ``return_summary`` are not supported. Unlabelled entries count as missing. For a sparse
        ``Y``, ``method="predict"`` returns a sparse array of all observed and predicted positives.
        """
        check_is_fitted(self)
        if max_error_rate is not None or return_summary:
            what = "ExtremeDM2LClassifier does not support max_error_rate and return_summary."
            raise ValueError(f"{what} Use DM2LClassifier.")
        if not sp.issparse(Y):
            dense = copy(self)  # read and return arrays like the other estimators
            dense._dense, dense.missing_as = True, None
            complete = super(ExtremeDM2LClassifier, dense).complete
            return complete(X, Y, label_mask=label_mask, method=method)
        n, c = _num_samples(X), len(self.offset_)
        if Y.shape != (n, c):
            raise ValueError(f"Y must have shape {(n, c)} (rows of X, labels), got {Y.shape}.")
        check_choice("method", method, "predict", "predict_proba", "decision_function")
        # If the training labels were stored as +1 and -1, entries that are not stored are missing.
        alone = self._labels.negative == -1 and not (Y.tocsr().data < 0).any()
        meaning = "missing" if alone else self.missing_as
        marks = {"missing_label": self.missing_label, "missing_as": meaning}
        labels = parse_sparse_labels(Y, label_mask=label_mask, allow_empty=True, **marks)
        signed, certain = labels.signed, labels.missing_as == "negative"  # nothing is missing
        if method == "predict":
            positive, predicted = _ones(signed > 0), self._positives(X)
            if certain:
                return positive
            filled = sp.csr_array(predicted - predicted.multiply(_ones(signed != 0)) + positive)
            filled.eliminate_zeros()
            return filled
        negative = -1.0 if method == "decision_function" else 0.0
        values = getattr(self, method)(X)
        if certain:
            values = np.full(values.shape, negative)
        rows = np.repeat(np.arange(n), np.diff(signed.indptr))
        values[rows, signed.indices] = np.where(signed.data > 0, 1.0, negative)
        return values

    def find_label_errors(self, X: Any, y: Any, *, label_mask: Any = None) -> Any:
        """Raise an error, because finding label errors is not supported."""
        what = "ExtremeDM2LClassifier does not support find_label_errors."
        raise ValueError(f"{what} Use DM2LClassifier.")

    def score(self, X: Any, y: Any, sample_weight: Any = None, label_mask: Any = None) -> float:
        """Return one minus the Hamming loss of the observed labels; for a 1-D ``y``, the accuracy.

        Unlabelled entries count as negative.
        """
        check_is_fitted(self)
        if self._labels.kind != "multilabel":
            return super().score(X, y, sample_weight, label_mask)
        labels = self._read_labels(y, label_mask)[1]
        n = _num_samples(X)
        check_consistent_length(np.empty(n), labels.signed)
        weights = np.ones(n)
        if sample_weight is not None:
            weights = checked_weights("sample_weight", sample_weight, (n,))
        wrong = total = 0.0
        for rows, S in self._score_blocks(X):
            T = labels[rows].signs()
            wrong += weights[rows] @ ((T != 0) & ((S > 0) != (T > 0))).sum(axis=1)
            total += weights[rows] @ (T != 0).sum(axis=1)
        if not total:
            what = "All labels in y are missing,"
            raise ValueError(f"{what} but score needs at least one observed label.")
        return float(1.0 - wrong / total)
