"""DM2L for label sets of which an n x c array should never exist."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from dm2l.extreme._basis import label_basis
from dm2l.extreme._groups import STACK, SharedRows
from dm2l.extreme._memory import Sizes, block_length, check_memory
from dm2l.extreme._problem import LowRankProblem, Targets, entry_scores, ridge_start
from dm2l.extreme._top_k import TopK, top_k
from dm2l.features import Features, check_ridge, default_ridge
from dm2l.kernels import LinearMap
from dm2l.labels import ConstantLabelWarning, StoredLabels, stored_labels
from dm2l.metrics._at_k import _propensities
from dm2l.solvers import Preconditioner, Solution, solve_lbfgs
from dm2l.threads import blas_thread_count, one_blas_thread

Array = NDArray[np.float64]


class ExtremeDM2LClassifier(ClassifierMixin, BaseEstimator):
    r"""DM2L with a low-rank head, for thousands of labels that are mostly absent.

    Scores are :math:`F = t_0 + (\Phi W + 1 b') B'`, where the columns of ``B`` (labels x rank) are
    orthonormal and :math:`t_0` is what it means that a label is absent. Minimises

    .. math:: \tfrac12 \sum_{ij} v_{ij} (F_{ij} - t_{ij})^2 + \tfrac{\alpha}{2} \|W\|_F^2
              + \lambda_d \Bigl(\sum_k \|F_k - t_0\|_* - \|F_C - t_0\|_*\Bigr).

    Because ``B`` is orthonormal, all nuclear norms are those of matrices with ``rank`` columns, and
    the loss over all entries is a sum over the stored ones plus :math:`\|\Phi W + 1 b'\|^2`: no
    array of ``n_samples x n_labels`` exists at any time. ``B`` spans the directions in label space
    that ridge regression predicts best (reduced-rank regression). See :doc:`/extreme`.

    Parameters
    ----------
    lambda_d : float, default=0.1
        Weight of the nuclear norms; 0 is reduced-rank ridge regression.
    alpha : float or "scale", default="scale"
        Ridge; "scale" as in :class:`dm2l.DM2LClassifier`.
    rank : int, default=100
        Columns of the head. From the number of labels on there is no reduction.
    absent_label : {None, "missing", "negative", "unlabelled"}, default=None
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
    label_names_ : ndarray of object
        Names of the label columns.
    classes_ : ndarray of shape (n_labels, 2)
        ``[0, 1]`` for every label.
    objective_, objective_history_, n_iter_, n_features_in_, feature_names_in_
        As in :class:`dm2l.DM2LClassifier`.

    See Also
    --------
    dm2l.DM2LClassifier : The same without a head, for label matrices that fit in memory.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from dm2l.extreme import ExtremeDM2LClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 5))
    >>> Y = sp.csr_array((X @ rng.normal(size=(5, 20)) > 1).astype(int))
    >>> model = ExtremeDM2LClassifier(rank=5, absent_label="negative").fit(X, Y)
    >>> best = model.predict_top_k(X, k=3)
    >>> best.indices.shape
    (200, 3)
    >>> model.score(X, Y) > 0.8  # precision at 1
    True
    """

    def __init__(
        self,
        lambda_d: float = 0.1,
        alpha: float | str = "scale",
        *,
        rank: int = 100,
        absent_label: str | None = None,
        absent_weight: float = 1.0,
        propensities: Any = None,
        min_rows: int = 2,
        discriminant: bool = True,
        fit_intercept: bool = True,
        memory: float = 2e9,
        max_iter: int = 200,
        tol: float = 1e-4,
        missing_label: Any = np.nan,
    ) -> None:
        self.lambda_d = lambda_d
        self.alpha = alpha
        self.rank = rank
        self.absent_label = absent_label
        self.absent_weight = absent_weight
        self.propensities = propensities
        self.min_rows = min_rows
        self.discriminant = discriminant
        self.fit_intercept = fit_intercept
        self.memory = memory
        self.max_iter = max_iter
        self.tol = tol
        self.missing_label = missing_label

    def __sklearn_tags__(self) -> Tags:
        """Capabilities that scikit-learn asks about."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        tags.target_tags.two_d_labels = True
        return tags

    def _check_parameters(self) -> None:
        check_ridge(self.alpha)
        for name, low, high in (
            ("lambda_d", 0.0, np.inf),
            ("tol", 0.0, np.inf),
            ("absent_weight", 0.0, 1.0),
            ("memory", 0.0, np.inf),
        ):
            value = getattr(self, name)
            positive = name in ("absent_weight", "memory")
            number = isinstance(value, Real) and low <= float(value) <= high
            if not number or value == np.inf or (positive and value == 0):
                border = f"{'>' if positive else '>='} 0"
                border += f" and <= {high:g}" if high < np.inf else ""
                raise ValueError(f"{name} must be a finite number {border}, got {value!r}.")
        for name in ("rank", "min_rows", "max_iter"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name} must be an integer >= 1, got {value!r}.")

    # -- fitting --------------------------------------------------------------------------------

    def fit(self, X: Any, Y: Any) -> Self:
        """Fit to labels with holes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs; no missing values. A sparse ``X`` is never made dense.
        Y : sparse matrix of shape (n_samples, n_labels), or array-like
            Signed CSR (``+1``, ``-1``, nothing stored = missing), or positives only together with
            ``absent_label``. A dense ``Y`` with NaN for holes is taken as well.

        Returns
        -------
        self
            The fitted estimator.
        """
        self._check_parameters()
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        labels = stored_labels(Y, missing_label=self.missing_label, absent_label=self.absent_label)
        check_consistent_length(X, labels.signed)
        self._dense = labels.dense
        n_labels = labels.signed.shape[1]
        names = [f"y{k}" for k in range(n_labels)] if labels.names is None else labels.names
        self.label_names_ = np.asarray(names, dtype=object)
        self.classes_ = np.tile([0, 1], (n_labels, 1))
        n, d = X.shape
        sizes = Sizes(n, d, n_labels, labels.signed.nnz, not sp.issparse(X))
        check_memory(sizes, int(self.rank), float(self.memory))
        learnable = self._set_constants(labels)
        if learnable.any():
            self._learn(X, labels, learnable)
        else:
            self.coef_, self.intercept_ = np.zeros((1, X.shape[1])), np.zeros(1)
            self.label_vectors_ = np.zeros((n_labels, 1))
            self._set_solution(Solution(None, 0.0, n_iter=1, converged=True, history=[0.0]))
        return self

    def _set_constants(self, labels: StoredLabels) -> NDArray[np.bool_]:
        """Offsets, and which labels have both classes."""
        positive, negative = labels.positives() > 0, labels.negatives() > 0
        learnable = np.asarray(positive & negative)
        self._absent_target = 0.0 if labels.absent == "missing" else -1.0
        constant = positive.astype(np.float64) - negative.astype(np.float64)
        self.offset_ = np.where(learnable, self._absent_target, constant)
        if not learnable.all():
            shown = ", ".join(map(str, self.label_names_[~learnable][:5]))
            more = "" if (~learnable).sum() <= 5 else ", ..."
            warnings.warn(
                f"{(~learnable).sum()} label(s) have at most one class observed and get a constant "
                f"score: {shown}{more}.",
                ConstantLabelWarning,
                stacklevel=3,
            )
        return learnable

    def _learn(self, X: Any, labels: StoredLabels, learnable: NDArray[np.bool_]) -> None:
        chosen = np.flatnonzero(learnable)
        signed = labels.signed if learnable.all() else sp.csr_array(labels.signed[:, chosen])
        targets = self._targets(labels, signed, chosen)
        if labels.absent == "missing":  # rows with nothing observed cannot matter
            kept = np.flatnonzero(np.diff(signed.indptr))
            if len(kept) < signed.shape[0]:
                X, signed = X[kept], sp.csr_array(signed[kept])
                targets = Targets(sp.csr_array(targets.stored[kept]), targets.weights, 0.0)
        intercept = bool(self.fit_intercept)
        feature_map = LinearMap(True, intercept)
        Phi = feature_map.fit(X)
        features = Features(Phi, intercept, feature_map.square, blas_thread_count())
        features = features.centre() if Phi is X else features
        alpha = default_ridge(X) if isinstance(self.alpha, str) else float(self.alpha)
        problem = LowRankProblem(features, targets, alpha)
        preconditioner = Preconditioner(problem)
        block = block_length(self.memory, 2 * features.size, 4096)
        B = label_basis(features, targets.pulls, preconditioner, int(self.rank), block=block)
        size = block_length(self.memory, 4, STACK)
        groups = SharedRows.gather(signed > 0, B.shape[1], int(self.min_rows), size=size)
        problem.attach(B, groups, self.lambda_d, discriminant=bool(self.discriminant))
        self._set_solution(self._solve(problem, preconditioner))
        W = problem.to_original(self._weights)
        del self._weights
        coef, self.intercept_ = feature_map.on_inputs(W, intercept)
        self.coef_ = np.ascontiguousarray(np.asarray(coef).T)
        self.label_vectors_ = np.zeros((len(learnable), B.shape[1]))
        self.label_vectors_[chosen] = B

    def _targets(self, labels: StoredLabels, signed: Any, chosen: NDArray[np.intp]) -> Targets:
        stored = signed.copy()
        stored.data = signed.data - self._absent_target
        weights, absent = np.ones(signed.nnz), float(labels.absent != "missing")
        if labels.absent == "unlabelled":
            absent = float(self.absent_weight)
            positive = signed.data > 0
            p = self._chances(labels)[chosen]
            weights[positive] = 1.0 / p[signed.indices[positive]]
        # An observed no among doubtful ones has a target of 0 like them, and its full weight.
        return Targets(stored, weights, absent)

    def _chances(self, labels: StoredLabels) -> Array:
        if self.propensities is None:
            return _propensities(labels)
        p = np.asarray(self.propensities, dtype=np.float64)
        c = labels.signed.shape[1]
        if p.shape != (c,):
            raise ValueError(f"propensities must have shape ({c},), one a label; got {p.shape}.")
        bad = np.flatnonzero(~((p > 0) & (p <= 1)))
        if len(bad):
            raise ValueError(
                f"propensities has {p[bad[0]]} for label {bad[0]}; a chance lies above 0 and is "
                "at most 1."
            )
        return p

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
        self._weights = solution.W
        self.n_iter_ = solution.n_iter
        self.objective_ = solution.objective
        self.objective_history_ = np.array(solution.history)

    # -- predicting -----------------------------------------------------------------------------

    def _head(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
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

    def decision_function(self, X: Any) -> Array:
        """Score every label; 0 is the border between the classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs; so few rows that all scores stay within ``memory``.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Scores on the scale of ``-1/+1``.
        """
        check_is_fitted(self)
        n, c = X.shape[0] if hasattr(X, "shape") else len(X), len(self.offset_)
        if 8 * n * c > self.memory:
            fitting = int(self.memory // (8 * c))
            raise ValueError(
                f"Scores of {n} rows and {c} labels take {8 * n * c:.3g} bytes, memory="
                f"{self.memory:.3g} allows less. Use predict_top_k, which never holds them all; or "
                f"pass {fitting} rows at a time, or set_params(memory=...)."
            )
        scores = np.empty((n, c))
        for rows, S in self._score_blocks(X):
            scores[rows] = S
        return scores

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
        blocks = [sp.csr_array((S > 0).astype(np.int64)) for _, S in self._score_blocks(X)]
        stacked = sp.csr_array(sp.vstack(blocks, format="csr"))
        return stacked.toarray() if self._dense else stacked

    def score(self, X: Any, y: Any) -> float:
        """Precision at 1: the share of rows whose best label is right.

        Hamming loss, which other estimators of the library have here, is that of predicting
        nothing once labels are thousands. Other metrics are in :mod:`dm2l.metrics` and take what
        :meth:`predict_top_k` returns.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : sparse matrix or array-like of shape (n_samples, n_labels)
            Labels; read like those of ``fit``, with "unlabelled" counted as negative.

        Returns
        -------
        float
            Between 0 and 1.
        """
        absent = self.absent_label if sp.issparse(y) else None
        labels = stored_labels(y, missing_label=self.missing_label, absent_label=absent)
        if labels.absent != "missing":
            best = self.predict_top_k(X, 1).indices
            check_consistent_length(best, labels.signed)
            return float((labels.at(best) > 0).mean())
        # Of the judged labels alone, which are the stored ones.
        G, signed = self._head(X), labels.signed
        check_consistent_length(G, signed)
        counts = np.diff(signed.indptr)
        rows = np.repeat(np.arange(len(counts)), counts)
        values = entry_scores(G, self.label_vectors_, rows, signed.indices)
        values += self.offset_[signed.indices]
        order = np.lexsort((signed.indices, -values, rows))
        first = signed.indptr[:-1][counts > 0]
        return float((signed.data[order][first] > 0).mean())
