"""DM2L as an estimator: labels, features, objective and solver put together."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags

from dm2l.approximation import FourierMap, NystroemMap
from dm2l.arrays import home, is_foreign, like, namespace, take_columns, take_rows, to_numpy
from dm2l.base import MissingLabelClassifier
from dm2l.features import (
    FeatureMap,
    Features,
    Kernel,
    KernelColumns,
    KernelMap,
    LandmarkMap,
    LinearMap,
    check_ridge,
    column_variances,
    default_ridge,
    float64,
)
from dm2l.labels import Signs
from dm2l.objective import Objective
from dm2l.scale import RowBlocks
from dm2l.scale._strategy import choose
from dm2l.scale._streaming import StreamedFits
from dm2l.solvers import (
    Minimand,
    Preconditioner,
    Problem,
    Solution,
    conjugate_gradients,
    masked_ridge,
    solve_cccp,
    solve_lbfgs,
    solve_published,
)
from dm2l.threads import blas_thread_count, blas_threads, one_blas_thread

__all__ = ["DM2LClassifier", "Prepared"]

_KERNELS = ("linear", "rbf", "poly", "polynomial", "sigmoid", "laplacian", "cosine", "precomputed")


@dataclass
class Prepared:
    """Features and groups of the training rows: what all fits to them share."""

    feature_map: FeatureMap
    features: Features
    objective: Objective

    @cached_property
    def gram(self) -> Any:
        """``Phi'Phi`` with the border of the ones column."""
        return self.features.gram()

    def problem(self, alpha: float, lambda_d: float) -> Problem:
        """The problem with these settings; one at a time."""
        self.objective.set_weight(lambda_d)
        return Problem(self.features, self.objective, alpha)


class DM2LClassifier(StreamedFits, MissingLabelClassifier):
    r"""Discriminant multi-label learning with missing labels.

    Minimises, over weights ``W`` and intercept ``b`` of the scores ``F = Phi W + 1 b'``,

    .. math:: \tfrac12 \|R_\Omega(F) - \tilde Y\|_F^2 + \tfrac{\alpha}{2} \|W\|_F^2
              + \lambda_d \Bigl(\sum_k \|F_k\|_* - \|F_C\|_*\Bigr)

    where ``R_Omega`` keeps the observed entries, ``F_k`` are the scores of the rows whose label
    ``k`` is an observed positive and ``F_C`` those of all rows with an observed positive. The
    first norms push the scores of rows that share a label to low rank (local shrinking), the last
    one keeps all scores together at high rank (global expanding).

    Parameters
    ----------
    lambda_d : float, default=0.3
        Weight of the nuclear norms; 0 is masked ridge.
    alpha : float or "scale", default="scale"
        Ridge. "scale" follows the spread of the features: ``4 (s_1 + ... + s_d)^2 / d`` with
        ``s_j`` the standard deviation of column ``j`` for the linear model, the variance in
        feature space for a kernel model (about 1 for rbf). It is a start, not an optimum.
    kernel : {"linear", "rbf", "poly", "sigmoid", "laplacian", "cosine", "precomputed"} or \
callable, default="linear"
        A callable gets two arrays of rows and returns the matrix between them. "precomputed"
        takes the kernel matrix as ``X``. It must be positive semi-definite, which "sigmoid" is
        for some parameters only.
    gamma : {"scale", "auto"} or float, default="scale"
        For rbf (``1 / (2 sigma^2)`` of the paper), poly, sigmoid, laplacian: "scale" is
        ``1 / (n_features * X.var())``, "auto" is ``1 / n_features``.
    degree : float, default=3
        For poly.
    coef0 : float, default=1
        For poly and sigmoid.
    approximation : {None, "nystroem", "fourier"}, default=None
        Stand-in for the kernel matrix, for more rows than its square leaves room for:
        ``n_rows x n_components`` numbers instead of ``n_rows^2``. "nystroem" explains all rows
        by some of them, drawn by randomly pivoted Cholesky, and takes any kernel; "fourier"
        averages random waves, for rbf only. See :mod:`dm2l.approximation`.
    n_components : int, default=1000
        Features of the approximation.
    fit_intercept : bool, default=True
        Whether scores have an intercept, which is not penalised.
    local : bool, default=True
        False drops the nuclear norms altogether (masked ridge).
    discriminant : bool, default=True
        False drops the global norm: the paper's DM2L-Lo, which is convex.
    solver : {"lbfgs", "cccp", "published"}, default="lbfgs"
        Preconditioned quasi-Newton from the masked ridge solution; the concave-convex procedure
        (Algorithm 1) from the identity, run to convergence; or the few descent steps that the
        published results rest on, see :meth:`published`.
    max_iter : int, default=1000
        Most iterations.
    tol : float, default=1e-5
        How far above its minimum the objective may end, relative and as estimated by the solver;
        for ``solver="cccp"`` the relative change that counts as none.
    threshold : None, float or "f1", default=None
        Where :meth:`predict` draws the line.
    calibration : {None, "sigmoid", "isotonic"}, default=None
        Calibrate :meth:`predict_proba` on cross-fitted scores.
    cv : int or splitter, default=5
        Folds for ``calibration`` and ``threshold="f1"``.
    missing_label : scalar, default=nan
        Mark of a label that was not observed.
    absent_label : {None, "missing", "negative"}, default=None
        What nothing stored means in a sparse ``Y`` of positives only.
    warm_start : bool, default=False
        Start from the previous solution if it has the right shape.
    random_state : int, RandomState or None, default=None
        For ``approximation``; the exact methods draw nothing.
    verbose : int, default=0
        Print progress to standard error.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Weights of the linear model.
    dual_coef_ : ndarray of shape (n_rows, n_labels)
        Weights of the kernel model on the rows ``X_fit_``, or on the waves of
        ``approximation="fourier"``.
    approximation_error_ : float
        With ``approximation``: for "nystroem" the share of the trace of the kernel matrix that is
        left out, for "fourier" the root mean square error of its entries on random pairs.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts.
    classes_ : ndarray of shape (n_labels, 2) or (n_classes,)
        Both classes of every label; the classes of a 1-D ``y``.
    label_names_ : ndarray of object
        Names of the label columns.
    thresholds_ : ndarray of shape (n_labels,)
        Borders for the scores used by :meth:`predict`; with ``calibration`` and
        ``threshold=None`` it draws the line at a probability of one half instead.
    objective_ : float
        The exact objective at the solution.
    objective_history_ : ndarray
        The exact objective at the start and after each iteration.
    n_iter_ : int
        Iterations taken.
    n_evaluations_ : int
        Evaluations of the objective.
    statistics_ : SufficientStatistics
        What :meth:`partial_fit`, or a fit with ``strategy="statistics"``, knows of all rows seen.
    n_features_in_ : int
        Number of features seen.
    feature_names_in_ : ndarray
        Names of features, if ``X`` had any.

    See Also
    --------
    dm2l.baselines.MaskedRidgeClassifier : The same model without the nuclear norms.

    References
    ----------
    Z. Ma and S. Chen, "Expand Globally, Shrink Locally: Discriminant Multi-label Learning with
    Missing Labels", Pattern Recognition 111, 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l import DM2LClassifier
    >>> X = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0], [0.0, 0.2]])
    >>> Y = np.array([[0, 1], [1, np.nan], [1, 0], [np.nan, 0]])
    >>> model = DM2LClassifier(alpha=0.1, lambda_d=0.01).fit(X, Y)
    >>> model.predict(X)
    array([[0, 1],
           [1, 1],
           [1, 0],
           [0, 0]])
    >>> model.complete(X, Y)
    array([[0, 1],
           [1, 1],
           [1, 0],
           [0, 0]])
    """

    def __init__(
        self,
        lambda_d: float = 0.3,
        alpha: float | str = "scale",
        *,
        kernel: Any = "linear",
        gamma: float | str = "scale",
        degree: float = 3,
        coef0: float = 1,
        approximation: str | None = None,
        n_components: int = 1000,
        fit_intercept: bool = True,
        local: bool = True,
        discriminant: bool = True,
        solver: str = "lbfgs",
        max_iter: int = 1000,
        tol: float = 1e-5,
        threshold: Any = None,
        calibration: str | None = None,
        cv: Any = 5,
        missing_label: Any = np.nan,
        absent_label: str | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.lambda_d = lambda_d
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.approximation = approximation
        self.n_components = n_components
        self.fit_intercept = fit_intercept
        self.local = local
        self.discriminant = discriminant
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.threshold = threshold
        self.calibration = calibration
        self.cv = cv
        self.missing_label = missing_label
        self.absent_label = absent_label
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def published(
        cls, kernel: str = "linear", *, lambda_d: float = 1e-5, sigma: float = 1.0, **others: Any
    ) -> Self:
        """Return the paper's DM2L-l or DM2L-nl as it was run.

        No ridge, no intercept, identity start, global term over all rows, subgradients of
        Algorithm 2; 24 steepest-descent steps (linear) or at most 9 rounds of conjugate gradients
        (kernel). Unlike the released code it never sees hidden labels.

        Parameters
        ----------
        kernel : {"linear", "rbf"}, default="linear"
            DM2L-l or DM2L-nl.
        lambda_d : float, default=1e-5
            The paper's only hyper-parameter.
        sigma : float, default=1.0
            Width of the Gaussian kernel, ``gamma = 1 / (2 sigma^2)``.
        **others
            Further parameters of the estimator.

        Returns
        -------
        DM2LClassifier
            Not fitted yet.

        Examples
        --------
        >>> from dm2l import DM2LClassifier
        >>> DM2LClassifier.published().max_iter
        24
        """
        settings: dict[str, Any] = {
            "lambda_d": lambda_d,
            "alpha": 0.0,
            "kernel": kernel,
            "gamma": 1 / (2 * sigma**2),
            "fit_intercept": False,
            "solver": "published",
            "max_iter": 24 if kernel == "linear" else 9,
        }
        return cls(**(settings | others))

    def __sklearn_tags__(self) -> Tags:
        """Capabilities that scikit-learn asks about."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = not tags.input_tags.pairwise
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_numbers("lambda_d", "tol")
        check_ridge(self.alpha)
        self._check_counts("max_iter")
        number = isinstance(self.gamma, Real) and 0 < float(self.gamma) < np.inf
        if not number and self.gamma not in ("scale", "auto"):
            raise ValueError(
                f"gamma must be 'scale', 'auto' or a finite number > 0, got {self.gamma!r}."
            )
        if not callable(self.kernel) and self.kernel not in _KERNELS:
            raise ValueError(
                f"kernel must be a callable or one of {', '.join(_KERNELS)}; got {self.kernel!r}."
            )
        self._check_choice("solver", "lbfgs", "cccp", "published")
        self._check_counts("n_components")
        if self.approximation is None:
            return
        self._check_choice("approximation", "nystroem", "fourier")
        named = self.kernel if isinstance(self.kernel, str) else "callable"
        if named == "linear" or (self.approximation == "fourier" and named != "rbf"):
            wanted = "kernel='rbf'" if self.approximation == "fourier" else "a kernel but 'linear'"
            raise ValueError(
                f"approximation={self.approximation!r} needs {wanted}, got kernel={named!r}."
            )
        if self.solver == "published":
            raise ValueError("solver='published' works on the kernel matrix: no approximation.")

    _follows_input = True

    # -- fitting --------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        Y: Any = None,
        label_mask: Any = None,
        *,
        strategy: str = "auto",
        memory: float | None = None,
    ) -> Self:
        """Fit to labels with holes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or RowBlocks
            Inputs; no missing values. Or a source of row blocks with their labels, for more rows
            than memory holds: see :class:`dm2l.scale.RowBlocks`.
        Y : array-like, data frame or signed CSR of shape (n_samples, n_labels), or 1-D
            Labels ``0/1``, ``bool`` or ``-1/+1`` with NaN (or ``missing_label``) where nobody
            looked; or one class per row. None with a source, which has its own.
        label_mask : array-like of bool of the shape of ``Y``, default=None
            True where a label may be used. What stands under False is never read.
        strategy : {"auto", "memory", "statistics", "passes"}, default="auto"
            Where rows are during the fit: all in memory; nowhere, after one pass that gathers
            sufficient statistics; or in the source, which every evaluation goes through twice.
            "auto" goes by the cost model of :func:`dm2l.scale.choose`. The result is the same, up to
            the rounding of products in another order.
        memory : float, default=None
            Bytes that "auto" may count on; None: half of what is free.

        Returns
        -------
        self
            The fitted estimator.
        """
        if isinstance(X, RowBlocks):
            if Y is not None or label_mask is not None:
                raise ValueError("Row blocks bring their labels: pass no Y and no label_mask.")
            return self._fit_source(X, strategy, memory)
        self._check_strategy(strategy)
        self._check_parameters()
        X, labels = self._read(X, Y, label_mask)
        labels.warn_constant()
        self._set_label_attributes(labels)
        self._forget_statistics()
        if strategy == "auto":
            strategy = self._strategy_at_hand(X, labels.n_labels, memory)
        if strategy == "memory":
            self._learn(X, labels.signs)
        else:
            self._learn_at_hand(X, labels.signs, strategy)
        self._fit_decisions(X, labels.signs)
        return self

    def _strategy_at_hand(self, X: Any, n_labels: int, memory: float | None) -> str:
        """Statistics for dense float64 rows, of which there are very many; else memory."""
        plain = isinstance(X, np.ndarray) and X.dtype == np.float64
        if not plain or self.kernel != "linear" or self.solver != "lbfgs" or self.warm_start:
            return "memory"
        return choose(X.shape[0], X.shape[1], n_labels, at_hand=True, memory=memory)

    def _fit_labels(self, X: Any, T: Signs) -> None:
        with blas_threads(X.shape[0] * min(X.shape) ** 2):
            prepared = self._prepare(X, T)
            problem = prepared.problem(self._ridge(X, prepared.features), self.lambda_d)
            if self.solver == "published":
                solution = self._solve_published(problem, prepared.feature_map)
            else:

                def ridge() -> Any:
                    W = masked_ridge(problem.features, T, problem.alpha)
                    return problem.from_original(like(W, problem.example))

                solution = self._solve(problem, prepared.feature_map, ridge)
        self._set_solution(solution)
        self._store(X, problem.to_original(solution.W), prepared.feature_map)

    def _set_solution(self, solution: Solution) -> None:
        if not solution.converged:
            warnings.warn(
                f"{self.solver} stopped after {solution.n_iter} iterations (max_iter="
                f"{self.max_iter}) before the objective settled to tol={self.tol}. Raise max_iter, "
                "or scale the features.",
                ConvergenceWarning,
                stacklevel=5,
            )
        if not solution.objective >= -1e-6:
            warnings.warn(
                f"The objective fell to {solution.objective:.3g}: over all rows it has no lower "
                "bound. Lower lambda_d, or use solver='lbfgs', whose objective has one.",
                ConvergenceWarning,
                stacklevel=5,
            )
        self.n_iter_ = solution.n_iter
        self.n_evaluations_ = solution.n_evaluations
        self.objective_ = solution.objective
        self.objective_history_ = np.array(solution.history)

    def _prepare(self, X: Any, T: Signs) -> Prepared:
        """Everything about the rows that no setting of alpha and lambda_d changes."""
        published = self.solver == "published"
        feature_map = self._feature_map(X)
        Phi = feature_map.fit(X)
        workers = blas_thread_count()
        square = getattr(feature_map, "square", None)
        features = Features(Phi, bool(self.fit_intercept), square, workers)
        if Phi is X and not published:
            # Rows that were left out made X a copy of what the caller has.
            features = features.centre(in_place=not self._keep.all())
        objective = Objective(
            T,
            self.lambda_d,
            local=self.local,
            discriminant=self.discriminant,
            global_rows="all" if published else "covered",
            like=features.example,
            workers=workers,
        )
        return Prepared(feature_map, features, objective)

    def _feature_map(self, X: Any) -> FeatureMap:
        if self.kernel == "linear":
            return LinearMap(self.solver != "published", bool(self.fit_intercept))
        gamma = self._gamma_value(X)
        self._kernel = Kernel(self.kernel, gamma, self.degree, self.coef0)
        if self.approximation == "fourier":
            return FourierMap(gamma, self.n_components, self.random_state)
        if self.approximation == "nystroem":
            n_components = min(self.n_components, X.shape[0])
            return NystroemMap(self._kernel, n_components, self.random_state)
        columns = KernelColumns if self.solver == "published" else KernelMap
        return columns(self._kernel)

    def _gamma_value(self, X: Any) -> float:
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        if self.gamma == "auto":
            return 1.0 / X.shape[1]
        if sp.issparse(X):
            X = X.astype(np.float64)
            variance = X.multiply(X).mean() - X.mean() ** 2
        elif is_foreign(X):
            xp = namespace(X)
            variance = float(xp.var(xp.astype(X, xp.float64, copy=False)))
        else:
            variance = np.var(X, dtype=np.float64)
        return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0

    def _ridge(self, X: Any, features: Features) -> float:
        if not isinstance(self.alpha, str):
            return float(self.alpha)
        if self.kernel == "linear":
            return default_ridge(X)
        variance = float(column_variances(features.Phi).sum())
        return variance if variance > 0 else 1.0

    def _solve_published(self, problem: Problem, feature_map: FeatureMap) -> Solution:
        start = self._previous(problem, feature_map)
        W = self._identity(problem, feature_map) if start is None else start
        steepest = self.kernel == "linear"
        report = self._report if self.verbose else None
        return solve_published(problem, W, steepest=steepest, max_iter=self.max_iter, report=report)

    def _solve(
        self, problem: Minimand, feature_map: FeatureMap, ridge: Callable[[], Any]
    ) -> Solution:
        """Minimise, wherever the rows are; ``ridge`` solves the problem without norms."""
        if not problem.lambda_d:
            W = ridge()
            value = problem.exact(W)
            return Solution(W, value, n_iter=1, converged=True, history=[value])
        limits: dict[str, Any] = {
            "max_iter": self.max_iter,
            "report": self._report if self.verbose else None,
        }
        start = self._previous(problem, feature_map)
        preconditioner = Preconditioner(problem)
        # From here on the workers of features and objective share the cores; threads of BLAS,
        # which go on spinning for a while after every product, would only be in their way.
        with one_blas_thread():
            if self.solver == "cccp":
                W = self._identity(problem, feature_map) if start is None else start
                return solve_cccp(problem, preconditioner, W, tol=self.tol, **limits)
            if start is None:
                V = conjugate_gradients(problem, preconditioner, tol=0.1)
            else:
                V = preconditioner.to_variables(start)
            return solve_lbfgs(problem, preconditioner, V, tol=self.tol, **limits)

    def _identity(self, problem: Minimand, feature_map: FeatureMap) -> Any:
        n_labels = problem.n_labels
        return self._with_intercept(problem, feature_map.identity(n_labels), np.zeros(n_labels))

    def _previous(self, problem: Minimand, feature_map: FeatureMap) -> Any:
        """Weights of the last fit, if a warm start is wanted and possible."""
        name = "coef_" if self.kernel == "linear" else "dual_coef_"
        if not self.warm_start or not hasattr(self, name):
            return None
        last = self.coef_.T if self.kernel == "linear" else self.dual_coef_
        if last.shape != (feature_map.n_coefficients, len(self._learnable)):
            return None
        if home(last) != home(problem.example):
            return None
        chosen = like(np.flatnonzero(self._learnable), last)
        xp = namespace(last)
        last = xp.astype(xp.take(last, chosen, axis=1), xp.float64, copy=False)
        b = to_numpy(self.intercept_)[self._learnable]
        offset = getattr(feature_map, "offset", None)
        if offset is not None:
            b = b + to_numpy(offset @ last)
        return self._with_intercept(problem, feature_map.weights(last), b)

    def _with_intercept(self, problem: Minimand, W: Any, b: NDArray[Any]) -> Any:
        xp = problem.xp
        W = xp.astype(W, xp.float64, copy=False)
        if self.fit_intercept:
            W = xp.concat([W, like(b.astype(np.float64), W)[None, :]], axis=0)
        return problem.from_original(W)

    def _store(self, X: Any, W: Any, feature_map: FeatureMap) -> None:
        xp = namespace(X)
        self._forget_weights()
        intercept = self._constant.copy()
        intercept[self._learnable] = to_numpy(W[-1, :]) if self.fit_intercept else 0.0
        found = feature_map.coefficients(W[:-1, :] if self.fit_intercept else W)
        # Constant labels have zero weights: they take the column after the last.
        column = np.full(len(self._learnable), found.shape[1])
        column[self._learnable] = np.arange(found.shape[1])
        padded = xp.concat([found, xp.zeros_like(found[:, :1])], axis=1)
        weights = xp.take(padded, like(column, found), axis=1)
        if self.kernel == "linear":
            self.coef_ = xp.astype(weights.T, X.dtype, copy=True)
            offset = feature_map.offset  # type: ignore[attr-defined]
            if offset is not None:
                intercept -= to_numpy(offset @ weights)
        else:
            # In float64 whatever X is: kernel weights are large and cancel.
            self.dual_coef_ = weights
            if self.approximation is not None:
                self.approximation_error_ = float(feature_map.error)  # type: ignore[attr-defined]
            if isinstance(feature_map, FourierMap):
                self._waves = feature_map
            else:
                pivots = feature_map.pivots  # type: ignore[attr-defined]
                self.X_fit_ = pivots if self.kernel == "precomputed" else take_rows(X, pivots)
            if isinstance(feature_map, LandmarkMap):
                self._landmark_factor = feature_map.factor.L
        self.intercept_ = xp.astype(like(intercept, weights), X.dtype, copy=False)

    def _forget_weights(self) -> None:
        """Drop what an earlier fit, perhaps with another kernel, left behind."""
        names = ("coef_", "dual_coef_", "X_fit_", "approximation_error_", "_waves")
        for name in (*names, "_landmark_factor"):
            self.__dict__.pop(name, None)

    def _fit_nothing(self, X: Any) -> None:
        self._forget_weights()
        self.n_iter_ = 1
        self.n_evaluations_ = 0
        self.objective_ = 0.0
        self.objective_history_ = np.zeros(1)
        xp, n_labels = namespace(X), len(self._learnable)

        def as_X(array: NDArray[Any]) -> Any:
            return xp.astype(like(array, X), X.dtype, copy=False)

        self.intercept_ = as_X(self._constant)
        if self.kernel == "linear":
            self.coef_ = as_X(np.zeros((n_labels, X.shape[1])))
        else:
            self.dual_coef_ = as_X(np.zeros((0, n_labels)))
            self.X_fit_ = np.arange(0) if self.kernel == "precomputed" else X[:0, :]

    def _rows(self, X: Any) -> Any:
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(f"A precomputed kernel matrix must be square, got shape {X.shape}.")
        kept = super()._rows(X)
        if self.kernel == "precomputed" and not self._keep.all():
            return take_columns(kept, np.flatnonzero(self._keep))
        return kept

    def _report(self, iteration: int, value: float) -> None:
        if iteration % max(1, 10 // int(self.verbose)) == 0 or iteration == 1:
            sys.stderr.write(f"[DM2L] iteration {iteration:4d}  objective {value:.6g}\n")

    # -- predicting -----------------------------------------------------------------------------

    def _score_labels(self, X: Any) -> Any:
        chosen = np.flatnonzero(self._learnable)
        weights = take_rows(self.coef_, chosen).T if self.kernel == "linear" else None
        intercept = take_rows(self.intercept_, chosen)
        if weights is not None:
            if is_foreign(X):  # not every library multiplies float32 with float64
                xp = namespace(X)
                weights, intercept = (
                    xp.astype(part, X.dtype, copy=False) for part in (weights, intercept)
                )
            return X @ weights + intercept
        weights = take_columns(self.dual_coef_, chosen)
        if self.approximation == "fourier":
            K = float64(self._waves.transform(X))
        elif self.kernel == "precomputed":
            K = float64(take_columns(X, np.flatnonzero(self._keep)[self.X_fit_]))
        else:
            K = self._kernel(X, self.X_fit_)
        return K @ weights + intercept
