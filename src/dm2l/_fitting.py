"""Fitting: from a feature map to a problem, its solution, and the weights that predict.

:class:`SolverConfig` is DM2L without labels, containers and estimators around it: what the
classifier,
the search and fits by blocks of rows have in common.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l._base import LearnableMask
from dm2l._solvers.cccp import solve_cccp, solve_published
from dm2l._solvers.features import (
    FEW_IN_GRAM,
    Features,
    check_ridge,
    column_variances,
    ridge_of_variances,
    without_zeros,
)
from dm2l._solvers.kernel_problem import KernelOperator, KernelPreconditioner, KernelProblem
from dm2l._solvers.kernels._fourier import FourierMap
from dm2l._solvers.kernels._kernel import Kernel
from dm2l._solvers.kernels._linear import LinearMap
from dm2l._solvers.kernels._map import FeatureMap
from dm2l._solvers.kernels._nystroem import NystroemMap
from dm2l._solvers.kernels._rows import KernelColumns, KernelMap, LandmarkMap
from dm2l._solvers.lbfgs import solve_lbfgs
from dm2l._solvers.objective import Objective
from dm2l._solvers.problem import Preconditioner, Problem, SmoothProblem, Solution
from dm2l._solvers.ridge import conjugate_gradients, masked_ridge
from dm2l._utils.arrays import (
    asarray_like,
    device_name,
    float64,
    is_non_numpy,
    namespace,
    take_columns,
    take_rows,
    to_numpy,
)
from dm2l._utils.parameters import check_choice, check_count, check_number, is_number
from dm2l._utils.threads import WORTH_FACTORING, blas_thread_count, blas_threads, one_blas_thread
from dm2l.completion._joint import learn_jointly
from dm2l.completion._leave_out import out_of_fold_scores
from dm2l.labels._entries import EntryWeights, Signs
from dm2l.pu._fit import Ticks

__all__ = ["SAFE_KERNELS", "FitResult", "SolverConfig", "WarmStart", "Workspace"]

# New rows of Arts, Business and emotions gain from a second, and hardly from a third.
_JOINT_ROUNDS = 2
_KERNELS = (
    *("linear", "rbf", "poly", "polynomial", "sigmoid", "laplacian", "cosine", "tanimoto"),
    "precomputed",
)
# Those whose matrices are positive semi-definite without a look at them.
SAFE_KERNELS = ("rbf", "laplacian", "cosine", "tanimoto")
# Least ridge, in units of the trace of the kernel matrix, that leaves its factor enough digits.
_LEAST_RIDGE = 1e-9
# What "scale" means where similarities lie between 0 and 1 whatever the columns.
_TANIMOTO_GAMMA = 3.0


@dataclass
class Workspace:
    """Features and groups of the training rows: what all fits to them share."""

    feature_map: FeatureMap
    features: Features
    objective: Objective
    ticks: Ticks | None = None

    @cached_property
    def gram(self) -> Any:
        """``Phi'Phi`` with the border of the ones column."""
        return self.features.gram(weights=self.objective.rows)

    def problem(self, alpha: float, lambda_d: float) -> Problem:
        """The problem with these settings; one at a time."""
        if self.ticks is not None:
            self.objective.fill(self.ticks.targets(alpha))
        self.objective.set_weight(lambda_d)
        kind = KernelProblem if isinstance(self.features, KernelOperator) else Problem
        return kind(self.features, self.objective, alpha)

    def preconditioner(self, problem: Problem, *, single: bool = False) -> Preconditioner:
        """That of one of the problems; others may follow. ``single`` is of those of kernels."""
        if isinstance(problem, KernelProblem):
            return KernelPreconditioner(problem, keep=True, single=single)
        return Preconditioner(problem, self.gram)


class WarmStart(NamedTuple):
    """Coefficients (m, c) and intercepts (c,) of an earlier fit, where the next may start."""

    coefficients: Any
    intercept: Any


class FitResult(NamedTuple):
    """What a fit leaves behind.

    Attributes
    ----------
    selection : Selection
        Labels that were learnt, and rows that had a say.
    solution : Solution or None
        Weights on the features, and how the solver got there; None where nothing could be learnt.
    attributes : dict
        What predictions need, by the names that a fitted estimator gives it.
    honest : ndarray of shape (n, c) or None
        Scores of all rows and labels, of known entries as if their row had not been there, NaN
        where there are none; for ``coupling``.
    evidence : tuple of (X, T) or None
        The rows that ``honest`` is about, where these are a sample of those fitted to.
    """

    selection: LearnableMask
    solution: Solution | None
    attributes: dict[str, Any]
    honest: NDArray[np.float64] | None = None
    evidence: tuple[Any, Signs] | None = None


@dataclass(frozen=True)
class SolverConfig:
    """How DM2L is fitted: the parameters of :class:`dm2l.DM2LClassifier` that weights depend on.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l import DM2LClassifier
    >>> from dm2l._fitting import SolverConfig
    >>> fitting = Fitting.of(DM2LClassifier(alpha=0.1, lambda_d=0.01))
    >>> X = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0], [0.0, 0.2]])
    >>> T = np.array([[-1, 1], [1, 0], [1, -1], [0, -1]], dtype=np.int8)
    >>> fit = fitting.fit(X, T)
    >>> np.sign(fitting.scores(X, fit.attributes, fit.selection)).astype(int)
    array([[-1,  1],
           [ 1,  1],
           [ 1, -1],
           [-1, -1]])
    """

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
        """The fitting of an estimator that has these parameters."""
        return cls(**{field.name: getattr(model, field.name) for field in fields(cls)})

    def check(self) -> None:
        """Refuse parameters that make no sense."""
        check_number("lambda_d", self.lambda_d)
        check_number("tol", self.tol)
        check_ridge(self.alpha)
        check_count("max_iter", self.max_iter)
        if not is_number(self.gamma, positive=True) and self.gamma not in ("scale", "auto"):
            raise ValueError(
                f"gamma must be 'scale', 'auto' or a finite number > 0, got {self.gamma!r}."
            )
        if not callable(self.kernel) and self.kernel not in _KERNELS:
            raise ValueError(
                f"kernel must be a callable or one of {', '.join(_KERNELS)}; got {self.kernel!r}."
            )
        check_choice("solver", self.solver, "lbfgs", "cccp", "published")
        check_count("n_components", self.n_components)
        if self.approximation is None:
            return
        check_choice("approximation", self.approximation, "nystroem", "fourier")
        named = self.kernel if isinstance(self.kernel, str) else "callable"
        if named == "linear" or (self.approximation == "fourier" and named != "rbf"):
            wanted = "kernel='rbf'" if self.approximation == "fourier" else "a kernel but 'linear'"
            raise ValueError(
                f"approximation={self.approximation!r} needs {wanted}, got kernel={named!r}."
            )
        if self.solver == "published":
            raise ValueError("solver='published' works on the kernel matrix: no approximation.")

    @property
    def linear(self) -> bool:
        """Whether weights are those of the inputs."""
        return isinstance(self.kernel, str) and self.kernel == "linear"

    @property
    def pairwise(self) -> bool:
        """Whether inputs are a kernel matrix."""
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    @property
    def needs_rows(self) -> str:
        """Why a fit cannot go by blocks of rows; empty where it can."""
        if self.solver == "published":
            return "solver='published' works on all rows"
        if self.missing_as == "unlabelled":
            return "missing_as='unlabelled' learns from all rows at once"
        if self.pairwise:
            return "a precomputed kernel matrix belongs to all rows"
        if not self.linear and self.approximation is None:
            return (
                "an exact kernel model grows with every row; use approximation='nystroem' or "
                "'fourier'"
            )
        return ""

    def blas_threads(self, X: Any) -> AbstractContextManager[Any]:
        """Context of a fit to these rows: one thread of BLAS unless much is factored."""
        n = X.shape[0]
        if self.linear:
            return blas_threads(n * min(X.shape) ** 2)
        columns = n if self.approximation is None else min(n, self.n_components)
        return blas_threads(n * columns**2, WORTH_FACTORING)

    # -- the whole way --------------------------------------------------------------------------

    def fit(
        self, X: Any, T: Signs, last: WarmStart | None = None, entries: EntryWeights | None = None
    ) -> FitResult:
        """Fit to rows that are at hand.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            Inputs.
        T : ndarray of shape (n, c), int8
            Signs of all labels, 0 where missing.
        last : Last, default=None
            Where to start, if its shape fits.
        entries : Entries, default=None
            Real targets and weights; None: signs, each with weight one.

        Returns
        -------
        Fit
            Of the labels of which both classes were observed; the others are constant.
        """
        selection = LearnableMask.of(T)
        if not selection.learnable.any():
            return self.nothing(X, selection)
        X, T = selection.rows(X, pairwise=self.pairwise), selection.signs(T)
        entries = selection.entries(entries)
        with self.blas_threads(X):
            # Rows that were left out made X a copy of what the caller has.
            chosen = replace(self, class_prior=selection.of_labels(self.class_prior))
            prepared = chosen.prepare(X, T, entries, scratch=not selection.keep.all())
            alpha = self._ridge(X, prepared.features, prepared.objective.rows)
            problem = prepared.problem(alpha, self.lambda_d)

            ticks = prepared.ticks
            if ticks is not None:
                entries = EntryWeights.of(T, targets=ticks.targets(alpha))

            def ridge() -> Any:
                W = masked_ridge(problem.features, T, problem.alpha, entries=entries)
                return problem.from_original(asarray_like(W, problem.example))

            start = self._start(problem, prepared.feature_map, last, selection)
            honest = None
            if self.solver == "published":
                solution = self._solve_published(problem, prepared.feature_map, start)
            elif self.coupling == "joint":
                solution, unseen = self._solve_jointly(problem, prepared.feature_map, T, entries)
                honest = selection.spread(unseen)
            else:
                solution = self.solve(problem, prepared.feature_map, ridge, start)
                if self.coupling == "residual" and ticks is None:
                    honest = selection.spread(
                        self.unseen(
                            problem, problem.alpha, solution, prepared.features, T, entries=entries
                        )
                    )
        W = problem.to_original(solution.W)
        attributes = self.attributes(X, W, prepared.feature_map, selection)
        if ticks is not None:
            attributes |= ticks.prior.attributes(*selection[:2])
        return FitResult(selection, solution, attributes, honest)

    @staticmethod
    def unseen(
        problem: SmoothProblem,
        alpha: float,
        solution: Solution,
        features: Features,
        T: Signs,
        *,
        exact: bool = False,
        entries: EntryWeights | None = None,
    ) -> NDArray[np.float64]:
        """Leave-one-out scores of the masked ridge solution that the solver started from.

        ``features`` and signs ``T`` are those of the rows that the problem is about, or of some.
        Those of DM2L itself would need the curvature of its norms, row by row: with that of ridge
        the positives of rare labels fall below the negatives (Arts, 30 % observed: AUC 0.22; by
        folds 0.59, and of these scores 0.64). The level of a label is DM2L's: what it gives the
        holes, which no solution has seen, tells how far the two are apart.
        """
        factor = solution.factor or Preconditioner(problem)
        W = solution.ridge
        if W is None:
            W = factor.to_weights(conjugate_gradients(problem, factor, tol=0.1))
        unseen = out_of_fold_scores(
            problem, factor, T, W, features, alpha, exact=exact, entries=entries
        )
        holes = (T == 0) & np.isfinite(unseen)
        if not holes.any():
            return unseen
        apart = to_numpy(float64(features.scores(solution.W))) - unseen
        level = np.sum(apart, axis=0, where=holes) / np.maximum(holes.sum(axis=0), 1)
        return np.asarray(unseen + level)

    def _solve_jointly(
        self, problem: Problem, feature_map: FeatureMap, T: Signs, entries: EntryWeights | None
    ) -> tuple[Solution, NDArray[np.float64]]:
        """Targets without holes from ridge and coupling; then the norms have their say.

        What the row's known labels say is added to what a hole is without them, by ridge with the
        norms: targets by ridge alone would undo most of what the norms do.
        """
        factor = _preconditioner(problem, keep=True)
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
            moved = to_numpy(float64(problem.features.scores(norms - W)))
            problem.objective.fill(np.where(T != 0, goal, filled + moved))
            solution = self.solve(problem, feature_map, lambda: W, norms, factor)
            norms = solution.W
        return solution, unseen

    def fit_problem(
        self,
        problem: SmoothProblem,
        feature_map: FeatureMap,
        selection: LearnableMask,
        ridge: Callable[[], Any],
        X: Any,
        last: WarmStart | None = None,
    ) -> FitResult:
        """Fit to rows that are elsewhere: the problem knows what of them matters.

        ``ridge`` solves the problem without norms; ``X`` are inputs that the model follows in
        library and dtype.
        """
        start = self._start(problem, feature_map, last, selection)
        solution = self.solve(problem, feature_map, ridge, start)
        W = problem.to_original(solution.W)
        inputs = feature_map.inputs(X)
        return FitResult(selection, solution, self.attributes(inputs, W, feature_map, selection))

    def nothing(self, X: Any, selection: LearnableMask) -> FitResult:
        """What a fit leaves behind where no label can be learnt."""
        xp, n_labels = namespace(X), len(selection.learnable)

        def as_X(array: NDArray[Any]) -> Any:
            return xp.astype(asarray_like(array, X), X.dtype, copy=False)

        attributes = {"intercept_": as_X(selection.constant)}
        if self.linear:
            attributes["coef_"] = as_X(np.zeros((n_labels, X.shape[1])))
        else:
            attributes["dual_coef_"] = as_X(np.zeros((0, n_labels)))
            attributes["X_fit_"] = np.arange(0) if self.pairwise else X[:0, :]
        return FitResult(selection, None, attributes)

    # -- feature map ----------------------------------------------------------------------------

    def feature_map(self, X: Any, weights: NDArray[np.float64] | None = None) -> FeatureMap:
        """The map for these inputs, of rows with these weights, not fitted yet."""
        if self.linear:
            return LinearMap(self.solver != "published", bool(self.fit_intercept))
        kernel = self.kernel_for(X, weights)
        if self.approximation == "fourier":
            return FourierMap(kernel.gamma, self.n_components, self.random_state)
        if self.approximation == "nystroem":
            return NystroemMap(kernel, min(self.n_components, X.shape[0]), self.random_state)
        return KernelColumns(kernel) if self.solver == "published" else KernelMap(kernel)

    def fixed_map(self, X: Any) -> FeatureMap:
        """A map fitted to these inputs that any further rows can go through too."""
        feature_map = LinearMap(reduce=False) if self.linear else self.feature_map(X)
        feature_map.fit(X)
        return feature_map.fixed(X)

    def stored_map(self, attributes: Mapping[str, Any]) -> FeatureMap | None:
        """The fixed map that a fitted estimator keeps; None where there is none."""
        if self.linear:
            return self.fixed_map(np.zeros((1, attributes["n_features_in_"])))
        if self.approximation == "fourier":
            waves: FeatureMap | None = attributes.get("_waves")
            return waves
        if "_landmark_factor" not in attributes:
            return None
        names = ("_kernel", "X_fit_", "_landmark_factor", "approximation_error_")
        return LandmarkMap(*(attributes[name] for name in names))

    def kernel_for(self, X: Any, weights: NDArray[np.float64] | None = None) -> Kernel:
        """The kernel, with what ``gamma`` means for these inputs."""
        return Kernel(self.kernel, self._gamma_value(X, weights), self.degree, self.coef0)

    def _gamma_value(self, X: Any, weights: NDArray[np.float64] | None) -> float:
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        if self.kernel == "tanimoto":
            return _TANIMOTO_GAMMA
        if self.gamma == "auto":
            return 1.0 / X.shape[1]
        if weights is not None:
            # Of all numbers: how far they are from the means of their columns, and these apart.
            share = weights / weights.sum()
            means = to_numpy(asarray_like(share, X) @ float64(X))
            variance = float(column_variances(X, weights).mean() + np.var(means))
        elif sp.issparse(X):
            X = X.astype(np.float64)
            variance = X.multiply(X).mean() - X.mean() ** 2
        elif is_non_numpy(X):
            xp = namespace(X)
            variance = float(xp.var(xp.astype(X, xp.float64, copy=False)))
        else:
            variance = np.var(X, dtype=np.float64)
        return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0

    # -- problem --------------------------------------------------------------------------------

    def prepare(
        self,
        X: Any,
        T: Signs,
        entries: EntryWeights | None = None,
        *,
        scratch: bool = False,
        safe: bool = False,
        alphas: Sequence[float] | None = None,
    ) -> Workspace:
        """Everything about the rows that no setting of alpha and lambda_d changes.

        ``scratch`` says that ``X`` may be overwritten, ``safe`` that it is a kernel matrix that
        needs no check, and ``alphas`` are the ridges where there are several.
        """
        published = self.solver == "published"
        workers = blas_thread_count()
        rows = None if entries is None else entries.rows
        feature_map = self.feature_map(X, rows)
        features: Features | None = None
        if rows is None and self._in_scores and (safe or self.kernel in SAFE_KERNELS):
            columns = KernelColumns(self.kernel_for(X))
            K = columns.fit(X)
            trace = float(namespace(K).linalg.trace(K))
            scores = KernelOperator(K, bool(self.fit_intercept))
            del K
            if min(alphas or [self._ridge(X, scores, None)]) > _LEAST_RIDGE * trace:
                feature_map, features = columns, scores
        if features is None:
            Phi = feature_map.fit(X)
            plain = Phi is X and not published
            Phi = without_zeros(X) if plain else Phi
            square = feature_map.square
            if plain and Phi is not X and X.dtype == np.float64 and Phi.nnz > FEW_IN_GRAM * X.size:
                square = partial(np.matmul, X.T, X)
            features = Features(Phi, bool(self.fit_intercept), square, workers)
            if plain:
                features = features.centre(in_place=scratch)
        ticks = None
        said = None if entries is None else entries.targets
        if self.missing_as == "unlabelled" and said is not None:
            ticks, entries = Ticks.of(features, said, self.class_prior), None
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
        return Workspace(feature_map, features, objective, ticks)

    @property
    def _in_scores(self) -> bool:
        """Whether an exact kernel model is fitted in its scores: what the norms make worth it."""
        plain = self.approximation is None and not self.linear
        ticks = self.missing_as == "unlabelled"  # whose targets come from features
        norms = bool(self.local and self.lambda_d)
        worth = norms or self.coupling == "joint"
        return plain and not ticks and self.solver == "lbfgs" and worth

    def _ridge(self, X: Any, features: Features, weights: NDArray[np.float64] | None) -> float:
        if not isinstance(self.alpha, str):
            return float(self.alpha)
        if self.linear:
            return ridge_of_variances(column_variances(X, weights))
        spread = features.spread(weights)
        return spread if spread > 0 else 1.0

    def ridge_of(self, variances: NDArray[np.float64]) -> float:
        """The ridge, or what "scale" means for features of these variances."""
        if not isinstance(self.alpha, str):
            return float(self.alpha)
        if self.linear:
            return ridge_of_variances(variances)
        total = float(variances.sum())
        return total if total > 0 else 1.0

    # -- solution -------------------------------------------------------------------------------

    def solve(
        self,
        problem: SmoothProblem,
        feature_map: FeatureMap,
        ridge: Callable[[], Any],
        start: Any,
        preconditioner: Preconditioner | None = None,
    ) -> Solution:
        """Minimise, wherever the rows are; ``ridge`` solves the problem without norms."""
        if not problem.lambda_d:
            W = ridge()
            value = problem.exact(W)
            return Solution(W, value, n_iter=1, converged=True, history=[value], ridge=W)
        limits: dict[str, Any] = {"max_iter": self.max_iter, "report": self._reporter}
        if preconditioner is None:
            preconditioner = _preconditioner(problem)
        # From here on the workers of features and objective share the cores; threads of BLAS,
        # which go on spinning for a while after every product, would only be in their way.
        with one_blas_thread():
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

    def _solve_published(self, problem: Problem, feature_map: FeatureMap, start: Any) -> Solution:
        W = self._identity(problem, feature_map) if start is None else start
        return solve_published(
            problem, W, steepest=self.linear, max_iter=self.max_iter, report=self._reporter
        )

    def _identity(self, problem: SmoothProblem, feature_map: FeatureMap) -> Any:
        n_labels = problem.n_labels
        return self._with_intercept(problem, feature_map.identity(n_labels), np.zeros(n_labels))

    def _start(
        self,
        problem: SmoothProblem,
        feature_map: FeatureMap,
        last: WarmStart | None,
        selection: LearnableMask,
    ) -> Any:
        """Weights of the last fit, if they fit this problem."""
        learnable = selection.learnable
        if last is None:
            return None
        A = last.coefficients
        if A.shape != (feature_map.n_coefficients, len(learnable)):
            return None
        if device_name(A) != device_name(problem.example):
            return None
        xp = namespace(A)
        A = xp.astype(
            xp.take(A, asarray_like(np.flatnonzero(learnable), A), axis=1), xp.float64, copy=False
        )
        b = to_numpy(last.intercept)[learnable]
        if feature_map.offset is not None:
            b = b + to_numpy(feature_map.offset @ A)
        return self._with_intercept(problem, feature_map.weights(A), b)

    def _with_intercept(self, problem: SmoothProblem, W: Any, b: NDArray[Any]) -> Any:
        xp = problem.xp
        W = xp.astype(W, xp.float64, copy=False)
        if self.fit_intercept:
            W = xp.concat([W, asarray_like(b.astype(np.float64), W)[None, :]], axis=0)
        return problem.from_original(W)

    @property
    def _reporter(self) -> Callable[[int, float], None] | None:
        return self._report if self.verbose else None

    def _report(self, iteration: int, value: float) -> None:
        if iteration % max(1, 10 // int(self.verbose)) == 0 or iteration == 1:
            sys.stderr.write(f"[DM2L] iteration {iteration:4d}  objective {value:.6g}\n")

    # -- weights --------------------------------------------------------------------------------

    def attributes(
        self, X: Any, W: Any, feature_map: FeatureMap, selection: LearnableMask
    ) -> dict[str, Any]:
        """What predictions need, by the names that a fitted estimator gives it.

        Parameters
        ----------
        X : array or sparse matrix
            Inputs that the feature map was fitted to.
        W : array of shape (size, c)
            Weights on the features as they were given, for the labels that were learnt.
        feature_map : FeatureMap
            The map.
        selection : Selection
            Which labels these are.

        Returns
        -------
        dict
            ``coef_`` or ``dual_coef_``, ``intercept_``, and what the map wants to be stored.
        """
        xp, learnable = namespace(X), selection.learnable
        intercept = selection.constant.copy()
        intercept[learnable] = to_numpy(W[-1, :]) if self.fit_intercept else 0.0
        found = feature_map.coefficients(W[:-1, :] if self.fit_intercept else W)
        # Constant labels have zero weights: they take the column after the last.
        column = np.full(len(learnable), found.shape[1])
        column[learnable] = np.arange(found.shape[1])
        padded = xp.concat([found, xp.zeros_like(found[:, :1])], axis=1)
        weights = xp.take(padded, asarray_like(column, found), axis=1)
        attributes = feature_map.stored(X)
        if self.linear:
            attributes["coef_"] = xp.astype(weights.T, X.dtype, copy=True)
        else:
            # In float64 whatever X is: kernel weights are large and cancel.
            attributes["dual_coef_"] = weights
        if self.approximation is not None:
            attributes["approximation_error_"] = float(feature_map.error)
        if feature_map.offset is not None:
            intercept -= to_numpy(feature_map.offset @ weights)
        attributes["intercept_"] = xp.astype(asarray_like(intercept, weights), X.dtype, copy=False)
        return attributes

    def scores(self, X: Any, attributes: Mapping[str, Any], selection: LearnableMask) -> Any:
        """Scores of rows, for the labels that were learnt, from what a fit left behind."""
        chosen = np.flatnonzero(selection.learnable)
        intercept = take_rows(attributes["intercept_"], chosen)
        if self.linear:
            weights = take_rows(attributes["coef_"], chosen).T
            if is_non_numpy(X):  # not every library multiplies float32 with float64
                xp = namespace(X)
                weights, intercept = (
                    xp.astype(part, X.dtype, copy=False) for part in (weights, intercept)
                )
            return X @ weights + intercept
        if self.approximation == "fourier":
            K = float64(attributes["_waves"].transform(X))
        elif self.pairwise:
            pivots = np.flatnonzero(selection.keep)[attributes["X_fit_"]]
            # All columns of a large matrix need no copy; a small one costs nothing.
            whole = X.shape[1] > 1000 and np.array_equal(pivots, np.arange(X.shape[1]))
            K = float64(X if whole else take_columns(X, pivots))
        else:
            K = attributes["_kernel"](X, attributes["X_fit_"])
        return K @ take_columns(attributes["dual_coef_"], chosen) + intercept


def _preconditioner(problem: SmoothProblem, *, keep: bool = False) -> Preconditioner:
    """``keep`` says that a kernel matrix is needed once more."""
    if isinstance(problem, KernelProblem):
        return KernelPreconditioner(problem, keep=keep)
    return Preconditioner(problem)
