"""DM2L for label sets of which an n x c array should never exist."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _num_samples, check_consistent_length, check_is_fitted

from dm2l._base import MissingLabelClassifier
from dm2l._solvers.features import Features, check_ridge, default_ridge
from dm2l._solvers.kernels._linear import LinearMap
from dm2l._solvers.lbfgs import solve_lbfgs
from dm2l._solvers.problem import Preconditioner, Solution
from dm2l._utils.arrays import check_finite, checked_numbers
from dm2l._utils.parameters import check_choice, check_counts, check_numbers
from dm2l._utils.threads import blas_thread_count, one_blas_thread
from dm2l.completion._calibration import plain_probability
from dm2l.completion._completer import LabelCompleter
from dm2l.extreme._answers import TopK, fill_positives, fill_values, top_k
from dm2l.extreme._groups import STACK, SharedRows
from dm2l.extreme._memory import block_length, check_memory
from dm2l.extreme._problem import (
    LowRankProblem,
    StoredTargets,
    entry_scores,
    label_basis,
    ridge_start,
)
from dm2l.labels import ConstantLabelWarning
from dm2l.labels._entries import checked_weights
from dm2l.labels._matrix import LabelMatrix, parse_labels, parse_sparse_labels
from dm2l.labels._sparse import SparseLabelMatrix
from dm2l.metrics import propensities
from dm2l.metrics._propensities import check_propensities

Array = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class ExtremeDM2LClassifier(MissingLabelClassifier):
    r"""DM2L with a low-rank head, for thousands of labels that are mostly absent.

    Scores are :math:`F = t_0 + (\Phi W + 1 b') B'`, where the columns of ``B`` (labels x rank) are
    orthonormal and :math:`t_0` is what it means that a label is absent. Minimises

    .. math:: \tfrac12 \sum_{ij} v_{ij} (F_{ij} - t_{ij})^2 + \tfrac{\alpha}{2} \|W\|_F^2
              + \lambda_d \Bigl(\sum_k \|F_k - t_0\|_* - \|F_C - t_0\|_*\Bigr).

    Because ``B`` is orthonormal, all nuclear norms are those of matrices with ``rank`` columns, and
    the loss over all entries is a sum over the stored ones plus :math:`\|\Phi W + 1 b'\|^2`: no
    array of ``n_samples x n_labels`` exists at any time. ``B`` spans the directions in label space
    that ridge regression predicts best (reduced-rank regression). See :doc:`/extreme`.

    There is no ``coupling``. It learns from the yes and the no of known labels; where labels are
    this many, positives alone are known or nothing is a hole, nearly always, and what labels have
    in common is in ``B`` already. Signed labels with holes, up to some thousands, are coupled by
    :class:`dm2l.baselines.MaskedRidgeClassifier`.

    Parameters
    ----------
    lambda_d : float, default=0.1
        Weight of the nuclear norms; 0 is reduced-rank ridge regression.
    alpha : float or "scale", default="scale"
        Ridge; "scale" as in :class:`dm2l.DM2LClassifier`.
    rank : int, default=100
        Columns of the head. With as many as there are labels there is no reduction.
    missing_as : {None, "missing", "negative", "unlabelled"}, default=None
        What nothing stored means in a sparse ``Y``. "missing": nobody looked; the entry does not
        count (:math:`t_0 = 0`). "negative": somebody looked; it is a no (:math:`t_0 = -1`).
        "unlabelled": a no with doubts, because positives were forgotten, those of rare labels more
        often: absent entries weigh ``absent_weight``, and a positive of label ``j`` weighs
        ``1 / propensities[j]``. None: ``Y`` is signed, and absence is "missing".
    absent_weight : float, default=1.0
        Weight of an absent entry where absence means "unlabelled"; above 0 and at most 1.
    propensities : array-like of shape (n_labels,), default=None
        Chance that a positive was marked; None: :func:`dm2l.metrics.propensities` of ``Y``. Only
        for "unlabelled".
    min_rows : int, default=2
        Labels with fewer observed positives have no local term: they have no rows to share.
    discriminant : bool, default=True
        False drops the global norm.
    fit_intercept : bool, default=True
        Whether there is an intercept ``b``, which is not penalised.
    memory : float, default=2e9
        Bytes that a fit may take besides ``X`` and ``Y``, and an answer besides the arrays that it
        returns. A fit that needs more is refused before it starts; blocks of rows and labels are
        cut accordingly.
    max_iter : int, default=200
        Most iterations.
    tol : float, default=1e-4
        How far above its minimum the objective may end, relative and estimated.
    missing_label : scalar, default=nan
        Mark of a hole in a dense ``Y``.

    Attributes
    ----------
    label_vectors_ : ndarray of shape (n_labels, rank)
        ``B``; zero for labels that cannot be learnt.
    coef_ : ndarray of shape (rank, n_features)
        ``W'``: weights of the columns of the head. Those of the labels are
        ``label_vectors_ @ coef_``.
    intercept_ : ndarray of shape (rank,)
        ``b``.
    offset_ : ndarray of shape (n_labels,)
        ``t_0``, or the constant score of a label that cannot be learnt.
    label_names_, classes_, thresholds_
    objective_, objective_history_, n_iter_, n_features_in_, feature_names_in_
        As in :class:`dm2l.DM2LClassifier`.

    See Also
    --------
    dm2l.DM2LClassifier : The same without a head, for label matrices that fit in memory.

    Notes
    -----
    The label contract is that of the other estimators, except that answers to a sparse ``Y`` are
    sparse (:meth:`predict`, :meth:`complete`), that :meth:`score` is precision at 1, that
    ``label_mask`` does not go with ``missing_as="unlabelled"``, and that there is neither
    ``calibration`` nor ``threshold``.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from dm2l.extreme import ExtremeDM2LClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 5))
    >>> Y = sp.csr_array((X @ rng.normal(size=(5, 20)) > 1).astype(int))
    >>> model = ExtremeDM2LClassifier(rank=5, missing_as="negative").fit(X, Y)
    >>> best = model.predict_top_k(X, k=3)
    >>> best.indices.shape
    (200, 3)
    >>> model.score(X, Y) > 0.8  # precision at 1
    True
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
    memory: float = 2e9
    max_iter: int = 200
    tol: float = 1e-4
    missing_label: Any = np.nan

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_ridge(self.alpha)
        check_numbers(self, "lambda_d", "tol")
        check_numbers(self, "absent_weight", "memory", positive=True)
        check_counts(self, "rank", "min_rows", "max_iter")
        if self.absent_weight > 1:
            raise ValueError(f"absent_weight must be at most 1, got {self.absent_weight!r}.")
        if self.missing_as is not None:
            check_choice("missing_as", self.missing_as, "missing", "negative", "unlabelled")

    # -- fitting --------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        label_mask: Any = None,
        *,
        sample_weight: Any = None,
        label_weight: Any = None,
    ) -> Self:
        """Fit to labels with holes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs; no missing values. A sparse ``X`` is never made dense.
        y : sparse matrix of shape (n_samples, n_labels), or array-like
            The labels ``Y``: signed CSR (``+1``, ``-1``, nothing stored = missing), or positives
            only together with ``missing_as``. What other estimators of the library take is taken
            as well.
        label_mask : array-like or sparse matrix of bool of the shape of ``y``, default=None
            True where a label may be used. One that is sparse stays sparse.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, >= 0: 2 is the row twice, 0 is no row. See :doc:`/weights`.
        label_weight : None
            Refused: a number for every entry is what this estimator does without. Positives have
            weights through ``propensities``.

        Returns
        -------
        self
            The fitted estimator.
        """
        self._check_parameters()
        if y is None:
            parse_labels(y)
        if label_weight is not None:
            raise ValueError(
                "ExtremeDM2LClassifier weighs rows only: a weight for every entry is an array that "
                "it does without. Use sample_weight, or propensities for positives."
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
        check_memory(int(self.rank), float(self.memory), dense=not sp.issparse(X), **sizes)
        learnable = self._set_constants(labels)
        if learnable.any():
            with checked_numbers(X):
                self._learn_labels(X, labels, learnable, rows)
        else:
            self.coef_, self.intercept_ = np.zeros((1, X.shape[1])), np.zeros(1)
            self.label_vectors_ = np.zeros((n_labels, 1))
            self._set_solution(Solution(None, 0.0, n_iter=1, converged=True, history=[0.0]))
        return self

    def _read_labels(self, Y: Any, label_mask: Any) -> tuple[LabelMatrix, SparseLabelMatrix]:
        """The form of the labels, and the labels, which stay sparse if they are."""
        if not sp.issparse(Y):
            form = parse_labels(Y, label_mask=label_mask, missing_label=self.missing_label)
            return form, SparseLabelMatrix.of_signs(form.signs)
        stored = self._read_sparse(Y, label_mask)
        none = np.zeros((0, stored.signed.shape[1]), dtype=np.int8)
        return LabelMatrix.of_signs(none, negative=stored.negative), stored

    def _read_sparse(self, Y: Any, label_mask: Any = None, **options: Any) -> SparseLabelMatrix:
        chosen = {"missing_as": self.missing_as} | options
        return parse_sparse_labels(
            Y, label_mask=label_mask, missing_label=self.missing_label, **chosen
        )

    def _set_constants(self, labels: SparseLabelMatrix) -> NDArray[np.bool_]:
        """Offsets, and which labels have both classes."""
        positive, negative = labels.positives() > 0, labels.negatives() > 0
        learnable = np.asarray(positive & negative)
        self._absent_target = 0.0 if labels.missing_as == "missing" else -1.0
        constant = positive.astype(np.float64) - negative.astype(np.float64)
        self.offset_ = np.where(learnable, self._absent_target, constant)
        # Labels that cannot be learnt have a column of scores like the others.
        self._learnable, self._constant = np.ones(len(learnable), dtype=bool), self.offset_
        if not learnable.all() and self._labels.kind == "multilabel":
            shown = ", ".join(map(str, self.label_names_[~learnable][:5]))
            more = "" if (~learnable).sum() <= 5 else ", ..."
            warnings.warn(
                f"{(~learnable).sum()} label(s) have at most one class observed and get a constant "
                f"score: {shown}{more}.",
                ConstantLabelWarning,
                stacklevel=3,
            )
        return learnable

    def _learn_labels(
        self, X: Any, labels: SparseLabelMatrix, learnable: NDArray[np.bool_], rows: Array | None
    ) -> None:
        chosen = np.flatnonzero(learnable)
        signed = labels.signed if learnable.all() else sp.csr_array(labels.signed[:, chosen])
        targets = self._targets(labels, signed, chosen)
        if labels.missing_as == "missing":  # rows with nothing observed cannot matter
            kept = np.flatnonzero(np.diff(signed.indptr))
            if len(kept) < signed.shape[0]:
                X, signed = X[kept], sp.csr_array(signed[kept])
                rows = rows if rows is None else rows[kept]
                targets = StoredTargets(sp.csr_array(targets.stored[kept]), targets.weights, 0.0)
        targets = replace(targets, rows=rows)
        intercept = bool(self.fit_intercept)
        feature_map = LinearMap(True, intercept)
        Phi = feature_map.fit(X)
        features = Features(Phi, intercept, feature_map.square, blas_thread_count())
        features = features.centre() if Phi is X else features
        alpha = default_ridge(X, rows) if isinstance(self.alpha, str) else float(self.alpha)
        problem = LowRankProblem(features, targets, alpha)
        preconditioner = Preconditioner(problem)
        block = block_length(self.memory, 2 * features.size, 4096)
        B = label_basis(features, targets.pulls, preconditioner, int(self.rank), block=block)
        size = block_length(self.memory, 4, STACK)
        groups = SharedRows.gather(signed > 0, B.shape[1], int(self.min_rows), size=size, rows=rows)
        problem.attach(B, groups, self.lambda_d, discriminant=bool(self.discriminant))
        solution = self._solve(problem, preconditioner)
        self._set_solution(solution)
        W = problem.to_original(solution.W)
        coef, self.intercept_ = feature_map.on_inputs(W, intercept)
        check_finite(coef, "Weights")
        self.coef_ = np.ascontiguousarray(np.asarray(coef).T)
        self.label_vectors_ = np.zeros((len(learnable), B.shape[1]))
        self.label_vectors_[chosen] = B

    def _targets(
        self, labels: SparseLabelMatrix, signed: Any, chosen: NDArray[np.intp]
    ) -> StoredTargets:
        stored = signed.copy()
        stored.data = signed.data - self._absent_target
        weights, absent = np.ones(signed.nnz), float(labels.missing_as != "missing")
        if labels.missing_as == "unlabelled":
            absent = float(self.absent_weight)
            positive = signed.data > 0
            given, c = self.propensities, labels.signed.shape[1]
            p = propensities(labels.signed) if given is None else check_propensities(given, c)
            weights[positive] = 1.0 / p[chosen][signed.indices[positive]]
        # An observed no among doubtful ones has a target of 0 like them, and its full weight.
        return StoredTargets(stored, weights, absent)

    def _solve(self, problem: LowRankProblem, preconditioner: Preconditioner) -> Solution:
        with one_blas_thread():
            if not problem.lambda_d:
                V = ridge_start(problem, preconditioner, 1e-8)
                W = preconditioner.to_weights(V)
                value = problem.exact(W)
                return Solution(W, value, n_iter=1, converged=True, history=[value])
            V = ridge_start(problem, preconditioner, 0.1)
            return solve_lbfgs(
                problem, preconditioner, V, tol=float(self.tol), max_iter=int(self.max_iter)
            )

    def _set_solution(self, solution: Solution) -> None:
        if not solution.converged:
            warnings.warn(
                f"The solver stopped after max_iter={self.max_iter} iterations before the "
                f"objective settled to tol={self.tol}. Raise max_iter, or scale the features.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.n_iter_ = solution.n_iter
        self.objective_ = solution.objective
        self.objective_history_ = np.array(solution.history)

    # -- predicting -----------------------------------------------------------------------------

    def _head(self, X: Any) -> Array:
        X = self._check_X(X).astype(np.float64, copy=False)
        return np.asarray(X @ self.coef_.T + self.intercept_)

    def _score_blocks(self, X: Any) -> Iterator[tuple[slice, Array]]:
        """Scores of all labels, a block of rows at a time."""
        G = self._head(X)
        step = block_length(self.memory, 4 * len(self.offset_), max(1, len(G)))
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
        indices : ndarray of int of shape (n_samples, k)
            Labels, best first; of equal scores the earlier label first.
        scores : ndarray of shape (n_samples, k)
            Their scores.
        """
        check_is_fitted(self)
        c = len(self.offset_)
        if not isinstance(k, Integral) or not 1 <= k <= c:
            raise ValueError(f"k must be an integer from 1 to {c} (the labels), got {k!r}.")
        parts = [top_k(S, int(k)) for _, S in self._score_blocks(X)]
        return TopK(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _score_labels(self, X: Any) -> Array:
        """Scores of all labels, those that could not be learnt among them."""
        n, c = _num_samples(X), len(self.offset_)
        if 8 * n * c > self.memory:
            raise ValueError(
                f"Scores of {n} rows and {c} labels take {8 * n * c:.3g} bytes, but "
                f"memory={self.memory:.3g} allows less. Use predict_top_k, which never holds them "
                f"all; or pass {int(self.memory // (8 * c))} rows at a time, or raise memory."
            )
        scores = np.empty((n, c))
        for rows, S in self._score_blocks(X):
            scores[rows] = S
        return scores

    def _all_scores(self, X: Any) -> Array:
        return self._score_labels(X)

    def predict_proba(self, X: Any) -> Array:
        """Probability of every label, ``(1 + tanh(score)) / 2``, which is not calibrated.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs; few enough rows that all probabilities stay within ``memory``.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            As in :class:`dm2l.DM2LClassifier`.
        """
        X = self._check_X(X)
        if self._labels.kind != "multilabel":
            return super().predict_proba(X)
        return self._follow(plain_probability(self._score_labels(X)), X)

    def predict(self, X: Any) -> Any:
        """Predict every label; nothing is ever missing.

        A label is predicted when its score exceeds 0. Where most positives were hidden few do:
        :meth:`predict_top_k` is then the question to ask.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        csr_array or ndarray of shape (n_samples, n_labels)
            1 where a label is predicted; sparse, unless the training labels were dense.
        """
        X = self._check_X(X)
        if self._dense:
            blocks = [self._decide(S) for _, S in self._score_blocks(X)]
            return self._follow(np.concatenate(blocks), X)
        return self._positives(X)

    def _positives(self, X: Any) -> Any:
        blocks = [sp.csr_array((S > 0).astype(np.int64)) for _, S in self._score_blocks(X)]
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
        """Fill the holes of ``Y``; an observed entry is never touched.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs of the rows of ``Y``.
        Y : sparse matrix, array-like or data frame of shape (n_samples, n_labels)
            Labels with holes, read like those of ``fit``. An "unlabelled" absence is a hole.
        label_mask, method
            As in :class:`dm2l.DM2LClassifier`; a sparse mask stays sparse.
        max_error_rate, return_summary
            Refused: promises rest on ``coupling``, which this estimator does not have.

        Returns
        -------
        csr_array, ndarray or DataFrame
            As in :class:`dm2l.DM2LClassifier`, but of a sparse ``Y`` and with "predict" a sparse
            array that stores 1 for every positive, observed or predicted, and nothing else.
        """
        check_is_fitted(self)
        if max_error_rate is not None or return_summary:
            raise ValueError(
                "ExtremeDM2LClassifier couples no labels, so that it has no max_error_rate and no "
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
        # Positives only are not ambiguous to a model that learnt from signed labels.
        alone = self._labels.negative == -1 and not (Y.tocsr().data < 0).any()
        options = {"missing_as": "missing"} if alone else {}
        labels = self._read_sparse(Y, label_mask, allow_empty=True, **options)
        if method == "predict":
            return fill_positives(labels, self._positives(X))
        if method not in ("predict_proba", "decision_function"):
            raise ValueError(
                f"method must be 'predict', 'predict_proba' or 'decision_function', got {method!r}."
            )
        return fill_values(
            labels, getattr(self, method)(X), -1.0 if method == "decision_function" else 0.0
        )

    def find_label_errors(self, X: Any, y: Any, *, label_mask: Any = None) -> Any:
        """Not available: it would need models of folds."""
        raise ValueError("ExtremeDM2LClassifier fits no folds, so it has no find_label_errors.")

    def score(self, X: Any, y: Any, sample_weight: Any = None, label_mask: Any = None) -> float:
        """Precision at 1: the share of rows whose best label is right.

        Hamming loss, which other estimators of the library have here, is that of predicting
        nothing once labels are thousands. Other metrics are in :mod:`dm2l.metrics` and take what
        :meth:`predict_top_k` returns. For a 1-D ``y`` this is the accuracy.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : sparse matrix or array-like of shape (n_samples, n_labels)
            Labels; read like those of ``fit``, with "unlabelled" counted as negative.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        label_mask : array-like or sparse matrix of bool, default=None
            True where a label may be used.

        Returns
        -------
        float
            Between 0 and 1.
        """
        check_is_fitted(self)
        if self._labels.kind != "multilabel":
            return super().score(X, y, sample_weight, label_mask)
        labels = self._read_labels(y, label_mask)[1]
        signed = labels.signed
        check_consistent_length(np.empty(_num_samples(X)), signed)
        if labels.missing_as != "missing":
            rows = np.arange(signed.shape[0])
            right = labels.at(self.predict_top_k(X, 1).indices)[:, 0] > 0
        else:
            # Of the judged labels alone, which are the stored ones.
            counts = np.diff(signed.indptr)
            at = np.repeat(np.arange(len(counts)), counts)
            values = entry_scores(self._head(X), self.label_vectors_, at, signed.indices)
            values += self.offset_[signed.indices]
            order = np.lexsort((signed.indices, -values, at))
            rows = np.flatnonzero(counts)
            right = signed.data[order][signed.indptr[rows]] > 0
        weights = None if sample_weight is None else np.asarray(sample_weight)[rows]
        return float(np.average(right, weights=weights))
