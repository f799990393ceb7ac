"""Training of DM2L models for the classifier, the grid search and fits by blocks of rows."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._base import FitResult
from dm2l._solvers.cccp import solve_cccp, solve_published
from dm2l._solvers.features import (
    FEW_IN_GRAM,
    WORTH_SPARSE,
    FeatureMap,
    Features,
    LinearMap,
    Weights,
    column_variances,
    default_ridge,
    without_zeros,
)
from dm2l._solvers.kernel_problem import KernelOperator, KernelPreconditioner, KernelProblem
from dm2l._solvers.kernels import Kernel
from dm2l._solvers.lbfgs import solve_lbfgs
from dm2l._solvers.maps import FourierMap, KernelColumns, KernelMap, LandmarkMap
from dm2l._solvers.objective import Objective
from dm2l._solvers.problem import (
    ConcaveProblem,
    Preconditioner,
    Problem,
    SmoothProblem,
    Solution,
    conjugate_gradients,
    masked_ridge,
)
from dm2l._utils import arrays
from dm2l.completion._leave_out import learn_jointly, leave_one_out_scores
from dm2l.labels._entries import EntryWeights, Signs
from dm2l.labels._matrix import LabelMatrix, LearnableMask
from dm2l.pu import PUTargets

_JOINT_ROUNDS = 2  # number of fits to imputed targets; more hardly improve predictions for new rows
# Kernels whose matrices are positive semidefinite for any inputs.
SAFE_KERNELS = ("rbf", "laplacian", "cosine", "tanimoto")
_LEAST_RIDGE = 1e-9  # lower limit of alpha relative to the trace of the kernel matrix
_TANIMOTO_GAMMA = 3.0  # value of gamma="scale"; similarities are between 0 and 1 for any X


@dataclass(frozen=True, kw_only=True)
class SolverResult(FitResult):
    """Result of fitting a DM2L model."""

    mask: LearnableMask
    solution: Solution | None  # None if there is no learnable label
    weights: Weights
    prior: Any = None  # ClassPrior of learnable labels, with missing_as="unlabelled"
    statistics: dict[str, Any] | None = None  # state of the Gram statistics, if the fit used them


@dataclass
class Workspace:
    """Features and objective of the training rows, shared by fits with other hyperparameters."""

    feature_map: FeatureMap
    features: Features
    objective: Objective
    pu: PUTargets | None = None
    gram: Any = None  # Gram matrix of the features, cached by a preconditioner

    def problem(self, alpha: float, lambda_d: float | None = None) -> Problem:
        """Return the problem for ``alpha`` and ``lambda_d``; earlier problems become invalid."""
        if self.pu is not None:
            self.objective.fill(self.pu.targets(alpha))
        if lambda_d is not None:
            self.objective.set_weight(lambda_d)
        kind = KernelProblem if isinstance(self.features, KernelOperator) else Problem
        return kind(self.features, self.objective, alpha)

    def preconditioner(self, problem: Problem) -> Preconditioner:
        """Return a problem's preconditioner, and keep the Gram or kernel matrix for later fits."""
        if isinstance(problem, KernelProblem):
            return KernelPreconditioner(problem, keep=True)
        if self.gram is None:
            self.gram = problem.gram()
        return Preconditioner(problem, self.gram)


@dataclass(frozen=True)
class Trainer:
    """The parameters of :class:`dm2l.DM2LClassifier` that determine its weights."""

    lambda_d: float
    alpha: float | str
    kernel: Any
    gamma: float | str
    degree: float
    coef0: float
    approximation: str | None
    n_components: int
    fit_intercept: bool
    local: bool
    discriminant: bool
    solver: str
    max_iter: int
    tol: float
    coupling: str | None
    missing_as: str | None
    class_prior: Any
    random_state: Any
    verbose: int

    @classmethod
    def of(cls, model: Any) -> Self:
        """Return the trainer with the parameters of an estimator."""
        return cls(*attrgetter(*cls.__match_args__)(model))

    @property
    def needs_rows(self) -> str:
        """Return the reason why a fit needs all rows at once; "" if blocks of rows suffice."""
        if self.solver == "published":
            return "solver='published' needs all rows"
        if self.missing_as == "unlabelled":
            return "missing_as='unlabelled' needs all rows"
        if self.kernel == "precomputed":
            return "kernel='precomputed' needs all rows"
        if self.kernel != "linear" and self.approximation is None:
            return "an exact kernel needs all rows; use approximation='nystroem' or 'fourier'"
        return ""

    def blas_threads(self, X: Any) -> AbstractContextManager[Any]:
        """Return a context that limits BLAS to one thread, unless the matrix to factor is large."""
        n = X.shape[0]
        if self.kernel == "linear":
            size, worth = n * min(X.shape) ** 2, arrays.WORTH_SHARING
        else:
            columns = n if self.approximation is None else min(n, self.n_components)
            size, worth = n * columns**2, arrays.WORTH_FACTORING
        return arrays.one_blas_thread() if size < worth else nullcontext()

    def fit(self, X: Any, labels: LabelMatrix, last: Weights | None = None) -> SolverResult:
        """Fit a model to labels with both classes, starting from ``last`` if its shape is valid."""
        mask = LearnableMask.of(labels.signs, labels.entries)
        if not mask.learnable.any():
            return self.nothing(X, mask)
        X, labels = mask.apply(X, labels, pairwise=self.kernel == "precomputed")
        T, entries = labels.signs, labels.entries
        with self.blas_threads(X):
            # If rows were excluded, X is a copy and may be overwritten.
            scratch = not mask.keep.all()
            work = self.prepare(X, T, entries, mask.learnable, scratch=scratch)
            rows, alpha = work.objective.rows, self.alpha
            if isinstance(alpha, str) and self.kernel == "linear":
                variances = column_variances(X, rows)
                work.features.variance = float(variances.sum())
                alpha = default_ridge(variances)
            elif isinstance(alpha, str):
                alpha = self.alpha_value(work.features.spread(rows))
            problem = work.problem(alpha)
            if work.pu is not None:
                entries = EntryWeights.of(T, targets=work.pu.targets(alpha))

            def ridge() -> Any:
                W = masked_ridge(problem.features, T, problem.alpha, entries=entries)
                return problem.from_original(arrays.asarray_like(W, problem.example))

            start = last and self.start(problem, work.feature_map, last, mask)
            unseen = None
            if self.solver == "published":
                W = self._identity(problem, work.feature_map) if start is None else start
                steepest, report = self.kernel == "linear", self._report if self.verbose else None
                limits: dict[str, Any] = {"max_iter": self.max_iter, "report": report}
                solution = solve_published(problem, W, steepest=steepest, **limits)
            elif self.coupling == "joint":
                solution, unseen = self._solve_jointly(problem, work, T, entries)
            else:
                solution = self.solve(problem, work.feature_map, ridge, start)
                if self.coupling == "residual" and work.pu is None:
                    unseen = self.leave_one_out(problem, solution, work.features, T, entries)
        W = problem.to_original(solution.W)
        return SolverResult(
            mask=mask,
            solution=solution,
            weights=self.weights_of(X, W, work.feature_map, mask),
            leave_one_out_scores=None if unseen is None else mask.spread(unseen),
            prior=None if work.pu is None else work.pu.prior,
        )

    @staticmethod
    def leave_one_out(
        problem: Any,
        solution: Solution,
        features: Features,
        T: Signs,
        entries: EntryWeights | None = None,
        *,
        exact: bool = False,
    ) -> NDArray[np.float64]:
        """Return leave-one-out scores, computed from the masked ridge solution."""
        # The curvature of the norms is ignored. Instead, scores of each label are shifted by the
        # mean difference between DM2L and ridge at missing entries.
        factor = solution.factor or Preconditioner(problem)
        W = solution.ridge
        if W is None:
            W = factor.to_weights(conjugate_gradients(problem, factor, tol=0.1))
        unseen = leave_one_out_scores(problem, factor, T, W, features, exact=exact, entries=entries)
        missing = (T == 0) & np.isfinite(unseen)
        if not missing.any():
            return unseen
        apart = np.asarray(arrays.to_numpy(features.scores(solution.W)), np.float64) - unseen
        level = np.sum(apart, axis=0, where=missing) / np.maximum(missing.sum(axis=0), 1)
        return np.asarray(unseen + level)

    def _solve_jointly(
        self, problem: Problem, work: Workspace, T: Signs, entries: EntryWeights | None
    ) -> tuple[Solution, NDArray[np.float64]]:
        """Impute missing targets by ridge and label correlation, then fit with nuclear norms."""
        factor, feature_map = work.preconditioner(problem), work.feature_map
        start = factor.to_weights(conjugate_gradients(problem, factor, tol=0.1))
        norms = None
        if problem.lambda_d:
            norms = self.solve(problem, feature_map, lambda: start, None, factor).W
        W, unseen, factor = learn_jointly(problem, T, start, factor, entries)
        if norms is None:
            return self.solve(problem, feature_map, lambda: W, W, factor), unseen
        filled = problem.objective.filled
        goal = T if entries is None or entries.targets is None else entries.targets
        for _ in range(_JOINT_ROUNDS):
            # Targets imputed by ridge would cancel the effect of the norms, so it is added.
            moved = arrays.to_numpy(arrays.float64(problem.features.scores(norms - W)))
            problem.objective.fill(np.where(T != 0, goal, filled + moved))
            solution = self.solve(problem, feature_map, lambda: W, norms, factor)
            norms = solution.W
        return solution, unseen

    def nothing(self, X: Any, mask: LearnableMask) -> SolverResult:
        """Return the result of a fit without any learnable label."""
        xp, n_labels = arrays.namespace(X), len(mask.learnable)

        def as_X(array: NDArray[Any]) -> Any:
            return xp.astype(arrays.asarray_like(array, X), X.dtype, copy=False)

        weights = Weights(as_X(mask.constant))
        if self.kernel == "linear":
            weights = weights._replace(coef=as_X(np.zeros((n_labels, X.shape[1]))))
        else:
            rows = np.arange(0) if self.kernel == "precomputed" else X[:0, :]
            weights = weights._replace(dual_coef=as_X(np.zeros((0, n_labels))), X_fit=rows)
        return SolverResult(mask=mask, solution=None, weights=weights)

    def kernel_map(self, X: Any, weights: NDArray[np.float64] | None = None) -> FeatureMap:
        """Return an unfitted feature map of the kernel for inputs like ``X``."""
        kernel = self.kernel_for(X, weights)
        if self.approximation == "fourier":
            return FourierMap(kernel.gamma, self.n_components, self.random_state)
        if self.approximation == "nystroem":
            return KernelMap(kernel, min(self.n_components, X.shape[0]), self.random_state)
        return KernelColumns(kernel) if self.solver == "published" else KernelMap(kernel)

    def fixed_map(self, X: Any) -> FeatureMap:
        """Return a feature map that is fitted to ``X`` and can transform any rows."""
        feature_map = LinearMap(reduce=False) if self.kernel == "linear" else self.kernel_map(X)
        feature_map.fit(X)
        return feature_map.fixed(X)

    def stored_map(self, weights: Weights, n_features: int) -> FeatureMap | None:
        """Return the fixed feature map of a fitted estimator; None for an exact kernel."""
        if self.kernel == "linear":
            return self.fixed_map(np.zeros((1, n_features)))
        if self.approximation == "fourier":
            return weights.fourier
        if weights.landmark_factor is None or weights.kernel is None:
            return None
        error = weights.approximation_error or 0.0
        return LandmarkMap(weights.kernel, weights.X_fit, weights.landmark_factor, error)

    def kernel_for(self, X: Any, weights: NDArray[np.float64] | None = None) -> Kernel:
        """Return the kernel with the numeric value of ``gamma`` for ``X``."""
        return Kernel(self.kernel, self._gamma_value(X, weights), self.degree, self.coef0)

    def _gamma_value(self, X: Any, weights: NDArray[np.float64] | None) -> float:
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        if self.kernel == "tanimoto":
            return _TANIMOTO_GAMMA
        if self.gamma == "auto":
            return 1.0 / X.shape[1]
        if weights is not None:
            # The variance of all entries is the mean column variance plus the variance of means.
            share = weights / weights.sum()
            means = arrays.to_numpy(arrays.asarray_like(share, X) @ arrays.float64(X))
            variance = float(column_variances(X, weights).mean() + np.var(means))
        elif sp.issparse(X):
            X = X.astype(np.float64)
            variance = X.multiply(X).mean() - X.mean() ** 2
        else:
            variance = float(arrays.namespace(X).var(arrays.float64(X)))
        return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0

    def prepare(
        self,
        X: Any,
        T: Signs,
        entries: EntryWeights | None = None,
        learnable: Any = ...,  # a mask of the labels, or all
        *,
        scratch: bool = False,
        safe: bool = False,
        alphas: Sequence[float] | None = None,
    ) -> Workspace:
        """Return features and objective; with exact kernels, ``alphas`` are those of later fits."""
        # If `scratch`, X may be overwritten. If `safe`, the kernel matrix is not checked.
        published = self.solver == "published"
        workers = 1 if arrays.blas_limit.users else arrays.blas_thread_count()
        rows = None if entries is None else entries.rows
        feature_map: FeatureMap
        if self.kernel == "linear":
            feature_map = LinearMap(not published, bool(self.fit_intercept))
        else:
            feature_map = self.kernel_map(X, rows)
        features: Features | None = None
        safe = safe or self.kernel in SAFE_KERNELS
        # With norms, exact kernel models are faster with scores as variables instead of weights.
        exact = self.kernel != "linear" and self.approximation is None and self.solver == "lbfgs"
        norms = (self.local and self.lambda_d) or self.coupling == "joint"
        # Targets of positive-unlabelled labels require features.
        if safe and rows is None and exact and norms and self.missing_as != "unlabelled":
            columns = KernelColumns(self.kernel_for(X))
            K = columns.fit(X)
            trace = float(arrays.namespace(K).linalg.trace(K))
            scores = KernelOperator(K, bool(self.fit_intercept))
            del K
            if min(alphas or [self.alpha_value(scores.spread())]) > _LEAST_RIDGE * trace:
                feature_map, features = columns, scores
        if features is None:
            Phi = feature_map.fit(X)
            plain = Phi is X and not published
            if plain and X.shape[0] * X.shape[1] >= WORTH_SPARSE:
                Phi = without_zeros(X)
            square = feature_map.square
            if plain and Phi is not X and X.dtype == np.float64 and Phi.nnz > FEW_IN_GRAM * X.size:
                square = partial(np.matmul, X.T, X)
            features = Features(Phi, bool(self.fit_intercept), square, workers)
            if plain:
                features = features.centre(in_place=scratch)
        pu = None
        if self.missing_as == "unlabelled" and entries is not None and entries.targets is not None:
            pu = PUTargets.of(features, entries.targets, self.class_prior, learnable)
            entries = None
        objective = Objective(
            T,
            self.lambda_d,
            local=self.local,
            discriminant=self.discriminant,
            global_rows="all" if published else "covered",
            like=features.example,
            workers=workers,
            entries=entries,
        )
        return Workspace(feature_map, features, objective, pu)

    def alpha_value(self, variances: Any) -> float:
        """Return alpha as a number; "scale" is computed from the ``variances`` of the features."""
        if not isinstance(self.alpha, str):
            return float(self.alpha)
        if self.kernel == "linear":
            return default_ridge(variances)
        total = float(np.sum(variances))
        return total if total > 0 else 1.0

    def solve(
        self,
        problem: ConcaveProblem,
        feature_map: FeatureMap,
        ridge: Callable[[], Any],
        start: Any,
        preconditioner: Preconditioner | None = None,
    ) -> Solution:
        """Minimize the objective; the function ``ridge`` returns the solution without norms."""
        if not problem.lambda_d:
            W = ridge()
            value = problem.exact(W)
            return Solution(W, value, [value], ridge=W)
        report = self._report if self.verbose else None
        limits: dict[str, Any] = {"max_iter": self.max_iter, "report": report}
        if preconditioner is None:
            if isinstance(problem, KernelProblem):
                preconditioner = KernelPreconditioner(problem)  # overwrites the kernel matrix
            else:
                preconditioner = Preconditioner(problem)
        # BLAS threads would compete with the threads of features and objective.
        with arrays.one_blas_thread():
            first = None
            if self.solver == "cccp":
                W = self._identity(problem, feature_map) if start is None else start
                solution = solve_cccp(problem, preconditioner, W, tol=self.tol, **limits)
            else:
                if start is None:
                    V = conjugate_gradients(problem, preconditioner, tol=0.1)
                    first = preconditioner.to_weights(V)
                else:
                    V = preconditioner.to_variables(start)
                solution = solve_lbfgs(problem, preconditioner, V, tol=self.tol, **limits)
        return replace(solution, factor=preconditioner, ridge=first)

    def _identity(self, problem: SmoothProblem, feature_map: FeatureMap) -> Any:
        n_labels = problem.n_labels
        return self._with_intercept(problem, feature_map.identity(n_labels), np.zeros(n_labels))

    def start(
        self, problem: SmoothProblem, feature_map: FeatureMap, last: Weights, mask: LearnableMask
    ) -> Any:
        """Return the weights of the last fit if they have the shape of the problem, else None."""
        learnable, A = mask.learnable, last.dual_coef if last.coef is None else last.coef.T
        if A.shape != (feature_map.n_coefficients, len(learnable)):
            return None
        if arrays.device_name(A) != arrays.device_name(problem.example):
            return None
        columns = arrays.asarray_like(np.flatnonzero(learnable), A)
        A = arrays.float64(arrays.namespace(A).take(A, columns, axis=1))
        b = arrays.to_numpy(last.intercept)[learnable]
        if feature_map.offset is not None:
            b = b + arrays.to_numpy(feature_map.offset @ A)
        return self._with_intercept(problem, feature_map.weights(A), b)

    def _with_intercept(self, problem: SmoothProblem, W: Any, b: NDArray[Any]) -> Any:
        W = arrays.float64(W)
        if self.fit_intercept:
            row = arrays.asarray_like(b.astype(np.float64), W)[None, :]
            W = problem.xp.concat([W, row], axis=0)
        return problem.from_original(W)

    def _report(self, iteration: int, value: float) -> None:
        if iteration % max(1, 10 // int(self.verbose)) == 0 or iteration == 1:
            sys.stderr.write(f"[DM2L] iteration {iteration:4d}  objective {value:.6g}\n")

    def weights_of(self, X: Any, W: Any, feature_map: FeatureMap, mask: LearnableMask) -> Weights:
        """Return weights for predictions from the weights ``W`` (size, c) of a training problem."""
        xp, learnable = arrays.namespace(X), mask.learnable
        intercept = mask.constant.copy()
        intercept[learnable] = arrays.to_numpy(W[-1, :]) if self.fit_intercept else 0.0
        found = W[:-1, :] if self.fit_intercept else W
        found = found if feature_map.plain else feature_map.coefficients(found)
        # Constant labels take their zero weights from an extra last column.
        column = np.full(len(learnable), found.shape[1])
        column[learnable] = np.arange(found.shape[1])
        padded = xp.concat([found, xp.zeros_like(found[:, :1])], axis=1)
        coef = xp.take(padded, arrays.asarray_like(column, found), axis=1)
        if feature_map.offset is not None:
            intercept -= arrays.to_numpy(feature_map.offset @ coef)
        b = xp.astype(arrays.asarray_like(intercept, coef), X.dtype, copy=False)
        if self.kernel == "linear":
            return Weights(b, coef=xp.astype(coef.T, X.dtype, copy=True))
        # Weights are in float64 for any X, because large kernel weights cancel.
        return self.map_weights(feature_map, X)._replace(intercept=b, dual_coef=coef)

    def map_weights(self, feature_map: FeatureMap, X: Any = None) -> Weights:
        """Return the fields of :class:`Weights` for a feature map fitted to ``X``."""
        error = None if self.approximation is None else float(feature_map.error)
        return Weights(None, **feature_map.stored(X), approximation_error=error)
