"""DM2L for label sets of which an n x c array should never exist."""

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
from dm2l._utils.inputs import check_choice, check_counts, check_number, check_numbers
from dm2l.completion._completer import LabelCompleter
from dm2l.extreme._problem import absent_target, block_length, check_memory, fit_head
from dm2l.labels._entries import checked_weights
from dm2l.labels._matrix import LabelMatrix, LearnableMask, parse_labels, parse_sparse_labels
from dm2l.labels._parsing import SparseLabelMatrix


class TopK(NamedTuple):
    """The best labels of each row, best first; metrics at ``k`` take it as scores."""

    indices: NDArray[np.intp]
    scores: NDArray[np.float64]


def top_k(S: NDArray[np.float64], k: int) -> TopK:
    """The ``k`` highest scores of each row; of equal ones those of earlier labels."""
    c = S.shape[1]
    if k < c:
        found = np.argpartition(S, c - k, axis=1)[:, c - k :]
        last = np.take_along_axis(S, found, axis=1).min(axis=1)
        # A partition takes any of those that tie for the last place.
        for i in np.flatnonzero((last[:, None] <= S).sum(axis=1) > k):
            found[i] = np.argsort(-S[i], kind="stable")[:k]
    else:
        found = np.broadcast_to(np.arange(c), S.shape)
    found = np.sort(found, axis=1)
    values = np.take_along_axis(S, found, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    return TopK(np.take_along_axis(found, order, axis=1), np.take_along_axis(values, order, axis=1))


def _ones(where: Any) -> Any:
    return sp.csr_array(where.astype(np.int64))


@dataclass(eq=False, repr=False)
class ExtremeDM2LClassifier(MissingLabelClassifier):
    r"""DM2L with a low-rank head, for thousands of labels that are mostly absent.

    Scores are :math:`F = t_0 + (\Phi W + 1 b') B'`, where the columns of ``B`` (labels x rank) are
    orthonormal and :math:`t_0` is what it means that a label is absent. Minimises

    .. math:: \tfrac12 \sum_{ij} v_{ij} (F_{ij} - t_{ij})^2 + \tfrac{\alpha}{2} \|W\|_F^2
              + \lambda_d \Bigl(\sum_k \|F_k - t_0\|_* - \|F_C - t_0\|_*\Bigr).

    No array of ``n_samples x n_labels`` exists at any time. ``B`` spans the directions in label
    space that ridge regression predicts best (reduced-rank regression); it holds label correlations
    already, so there is no ``coupling``. See :doc:`/research/many-labels`.

    Parameters
    ----------
    lambda_d : float, default=0.1
        Weight of the nuclear norms; 0 is reduced-rank ridge regression.
    alpha, max_iter, tol, missing_label
        As in :class:`dm2l.DM2LClassifier`.
    rank : int, default=100
        Columns of the head. With as many as there are labels there is no reduction.
    missing_as : {None, "missing", "negative", "unlabelled"}, default=None
        How entries that a sparse ``Y`` does not store are read. "missing": unknown
        (:math:`t_0 = 0`). "negative": observed negatives (:math:`t_0 = -1`). "unlabelled": negative
        or an overlooked positive; such entries weigh ``absent_weight``, and a positive of label
        ``j`` weighs ``1 / propensities[j]``. None: ``Y`` is signed.
    absent_weight : float, default=1.0
        Weight of an unlabelled entry; above 0 and at most 1.
    propensities : array-like of shape (n_labels,), default=None
        Probability that a positive is labelled; None: :func:`dm2l.metrics.propensities` of ``Y``.
        Only for "unlabelled".
    min_rows : int, default=2
        Labels with fewer observed positives have no local norm.
    discriminant, fit_intercept : bool, default=True
        Whether there are the global norm, and the intercept ``b``, which is not penalised.
    max_memory : float, default=2e9
        Bytes that a fit may take besides ``X`` and ``Y``, and a prediction besides the arrays that
        it returns. A fit that needs more is refused before it starts.

    Attributes
    ----------
    label_vectors_ : ndarray of shape (n_labels, rank)
        ``B``; zero for labels that cannot be learnt.
    coef_, intercept_ : ndarray of shape (rank, n_features) and (rank,)
        ``W'`` and ``b``; the weights of the labels are ``label_vectors_ @ coef_``.
    offset_ : ndarray of shape (n_labels,)
        ``t_0``, or the constant score of a label that cannot be learnt.
    label_names_, classes_, thresholds_, objective_, objective_history_, n_iter_, n_features_in_
        As in :class:`dm2l.DM2LClassifier`.

    See Also
    --------
    dm2l.DM2LClassifier : The same without a head, for label matrices that fit in memory.

    Notes
    -----
    :meth:`predict` and :meth:`complete` answer a sparse ``Y`` with sparse arrays. ``label_mask``
    does not go with ``missing_as="unlabelled"``. :meth:`score` says little if positives are few:
    precision at 1 is ``precision_at_k(Y, model.predict_top_k(X, 1), 1)``.

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
        check_number("alpha", self.alpha, words=("scale",))
        check_numbers(self, "lambda_d", "tol")
        check_numbers(self, "absent_weight", "max_memory", positive=True)
        check_counts(self, "rank", "min_rows", "max_iter")
        if self.absent_weight > 1:
            raise ValueError(f"absent_weight must be at most 1, got {self.absent_weight!r}.")
        if self.missing_as is not None:
            check_choice("missing_as", self.missing_as, "missing", "negative", "unlabelled")

    def fit(
        self,
        X: Any,
        y: Any,
        label_mask: Any = None,
        *,
        sample_weight: Any = None,
        label_weight: Any = None,
    ) -> Self:
        """Fit to labels with missing entries.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs; a sparse ``X`` is never made dense.
        y : sparse matrix of shape (n_samples, n_labels), or array-like
            The labels: signed CSR (``+1``, ``-1``, nothing stored = missing), positives only
            together with ``missing_as``, or what other estimators take.
        label_mask : array-like or sparse matrix of bool of the shape of ``y``, default=None
            True where a label may be used. One that is sparse stays sparse.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, >= 0: 2 is the row twice, 0 is no row. See :doc:`/guide/weights`.
        label_weight : None
            Refused: the estimator holds no array of all entries.
        """
        self._check_parameters()
        if y is None:
            parse_labels(y)
        if label_weight is not None:
            raise ValueError(
                "ExtremeDM2LClassifier weighs rows only, because it holds no array of all entries. "
                "Use sample_weight, or propensities for positives."
            )
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
        learnable, constant, _ = LearnableMask.of(seen)
        self.offset_ = np.where(learnable, absent_target(labels), constant)
        # Constant labels have a column of scores like the others.
        self._learnable, self._constant = np.ones(n_labels, dtype=bool), self.offset_
        if learnable.any():
            with checked_numbers(X):
                head = fit_head(self, X, labels, learnable, rows)
        else:
            solution = Solution(None, 0.0, n_iter=1, converged=True, history=[0.0])
            head = solution, np.zeros((1, d)), np.zeros(1), np.zeros((n_labels, 1))
        solution, self.coef_, self.intercept_, self.label_vectors_ = head
        if not solution.converged:
            warnings.warn(
                f"The solver stopped after max_iter={self.max_iter} iterations before the "
                f"objective settled to tol={self.tol}. Raise max_iter, or scale the features.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.n_iter_, self.objective_ = solution.n_iter, solution.objective
        self.objective_history_ = np.array(solution.history)
        return self

    def _read_labels(self, Y: Any, label_mask: Any) -> tuple[LabelMatrix, SparseLabelMatrix]:
        """Form of the labels, and the labels, which stay sparse if they are."""
        if not sp.issparse(Y):
            form = parse_labels(Y, label_mask=label_mask, missing_label=self.missing_label)
            return form, SparseLabelMatrix.of_signs(form.signs)
        marks = {"missing_label": self.missing_label, "missing_as": self.missing_as}
        stored = parse_sparse_labels(Y, label_mask=label_mask, **marks)
        none = np.zeros((0, stored.signed.shape[1]), dtype=np.int8)
        return LabelMatrix.of_signs(none, negative=stored.negative), stored

    def _score_blocks(self, X: Any) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Scores of all labels, by blocks of rows."""
        X = self._check_X(X).astype(np.float64, copy=False)
        G = np.asarray(X @ self.coef_.T + self.intercept_)
        step = block_length(self.max_memory, 4 * len(self.offset_), max(1, len(G)))
        for start in range(0, len(G), step):
            rows = slice(start, min(start + step, len(G)))
            S = G[rows] @ self.label_vectors_.T
            S += self.offset_
            yield rows, S

    def predict_top_k(self, X: Any, k: int = 5) -> TopK:
        """Find the labels with the highest scores, without all scores at once.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        k : int, default=5
            How many labels.

        Returns
        -------
        indices, scores : ndarray of shape (n_samples, k)
            Labels, best first, and their scores; of equal scores the earlier label first.
        """
        check_is_fitted(self)
        c = len(self.offset_)
        if not isinstance(k, Integral) or not 1 <= k <= c:
            raise ValueError(f"k must be an integer from 1 to {c} (the labels), got {k!r}.")
        parts = [top_k(S, int(k)) for _, S in self._score_blocks(X)]
        return TopK(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _all_scores(self, X: Any, learnt: Any = None) -> NDArray[np.float64]:
        """Scores of all labels, constant ones included."""
        n, c = _num_samples(X), len(self.offset_)
        if 8 * n * c > self.max_memory:
            raise ValueError(
                f"Scores of {n} rows and {c} labels take {8 * n * c:.3g} bytes, but "
                f"max_memory={self.max_memory:.3g} allows less. Use predict_top_k, which never "
                f"holds them all; or pass {int(self.max_memory // (8 * c))} rows at a time, or "
                "raise max_memory."
            )
        scores = np.empty((n, c))
        for rows, S in self._score_blocks(X):
            scores[rows] = S
        return scores

    def predict(self, X: Any) -> Any:
        """Predict every label: 1 if its score exceeds 0; sparse if the training labels were.

        If most positives were unlabelled, few scores do; use :meth:`predict_top_k`.
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
        """Impute the missing labels of ``Y``, read as in ``fit``; observed entries stay.

        As in :class:`dm2l.DM2LClassifier`, but without ``max_error_rate`` and ``return_summary``,
        which need ``coupling``. Unlabelled entries are missing. Of a sparse ``Y``, "predict" gives
        a sparse array that stores 1 for every positive, observed or predicted.
        """
        check_is_fitted(self)
        if max_error_rate is not None or return_summary:
            raise ValueError(
                "ExtremeDM2LClassifier has no coupling, and so neither max_error_rate nor "
                "return_summary."
            )
        if not sp.issparse(Y):
            dense = copy(self)  # which reads and answers like the other estimators
            dense._dense, dense.missing_as = True, None
            return super(ExtremeDM2LClassifier, dense).complete(
                X, Y, label_mask=label_mask, method=method
            )
        n, c = _num_samples(X), len(self.offset_)
        if Y.shape != (n, c):
            raise ValueError(f"Y has shape {Y.shape}; {n} rows of X and {c} labels need {(n, c)}.")
        if method not in ("predict", "predict_proba", "decision_function"):
            raise ValueError(
                f"method must be 'predict', 'predict_proba' or 'decision_function', got {method!r}."
            )
        # Positives only are not ambiguous to a model that learnt from signed labels.
        alone = self._labels.negative == -1 and not (Y.tocsr().data < 0).any()
        labels = parse_sparse_labels(
            Y,
            label_mask=label_mask,
            missing_label=self.missing_label,
            missing_as="missing" if alone else self.missing_as,
            allow_empty=True,
        )
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
        """Not available: it would need models of folds."""
        raise ValueError("ExtremeDM2LClassifier fits no folds, so it has no find_label_errors.")

    def score(self, X: Any, y: Any, sample_weight: Any = None, label_mask: Any = None) -> float:
        """Share of the observed labels that are predicted correctly: one minus the Hamming loss.

        For a 1-D ``y`` it is the accuracy; unlabelled entries count as negative.
        """
        check_is_fitted(self)
        if self._labels.kind != "multilabel":
            return super().score(X, y, sample_weight, label_mask)
        labels = self._read_labels(y, label_mask)[1]
        n, predicted, observed = _num_samples(X), self._positives(X), labels.n_observed()
        check_consistent_length(np.empty(n), observed)
        if not observed.any():
            raise ValueError("Y has nothing observed, so there is nothing to score against.")
        weights = np.ones(n)
        if sample_weight is not None:
            weights = checked_weights("sample_weight", sample_weight, (n,))
        total = weights @ observed
        if not total:
            raise ValueError("Weights are zero wherever something was observed.")
        positive = _ones(labels.signed > 0)
        if labels.missing_as == "missing":
            predicted = predicted.multiply(_ones(labels.signed != 0))
        both = predicted.multiply(positive)
        wrong = positive.sum(axis=1) + predicted.sum(axis=1) - 2 * both.sum(axis=1)
        return float(1.0 - weights @ wrong / total)
