"""Base classes of the linear baselines, and masked ridge regression."""

import sys
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l._base import CompletionClassifier, FitResult
from dm2l._solvers.dual import dual_ridge
from dm2l._solvers.features import Features, LinearMap, ridge_value
from dm2l._solvers.objective import Objective
from dm2l._solvers.problem import Preconditioner, Problem, masked_ridge
from dm2l._utils.arrays import blas_threads
from dm2l._utils.inputs import check_choice, check_counts, check_numbers
from dm2l.completion._leave_out import learn_jointly, leave_one_out_scores
from dm2l.labels._entries import EntryWeights, Signs
from dm2l.labels._matrix import LabelMatrix
from dm2l.pu import PositiveUnlabelledClassifier, PUTargets

Array = NDArray[np.float64]


class ImputedTargets:
    """Regression targets for labels: values (n, c), a mask of used entries, and weights."""

    # Missing labels have no target ("ignore"), the target 0 between -1 and +1 ("neutral"), or the
    # target 0 as in 0/1 labels ("negative"). The target of a missing label has its row's weight.

    def __init__(self, T: Signs, missing: str, entries: EntryWeights | None = None) -> None:
        self.missing = missing
        self.values: NDArray[Any] = (T > 0 if missing == "negative" else T).astype(np.float64)
        self.observed = T != 0 if missing == "ignore" else np.ones(T.shape, dtype=bool)
        self.weights: Any = None if entries is None else entries.weights
        if self.weights is not None and missing != "ignore":
            of_rows = self.weights.max(axis=1, keepdims=True)
            self.weights = np.where(T != 0, self.weights, of_rows)
        self._complete = bool(self.observed.all())

    def counted(self, A: NDArray[Any]) -> NDArray[Any]:
        """Multiply entries by their weights; the weight of an unused entry is zero."""
        if self.weights is not None:
            return self.weights * A
        return A if self._complete else np.where(self.observed, A, 0.0)

    def scores(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Convert coefficients and intercepts for targets 0/1 to targets -1/+1."""
        return (2 * coef, 2 * intercept - 1) if self.missing == "negative" else (coef, intercept)


def ridge(X: Any, targets: ImputedTargets, alpha: float, intercept: bool) -> tuple[Array, Array]:
    """Fit a ridge regression for each target; return coefficients (d, c) and intercepts (c,)."""
    feature_map = LinearMap(intercept=intercept)
    features = Features(feature_map.fit(X), intercept)
    entries = None if targets.weights is None else EntryWeights(weights=targets.weights)
    W = masked_ridge(features, targets.values, alpha, observed=targets.observed, entries=entries)
    return feature_map.on_inputs(W, intercept)


class Inputs:
    """Products with a dense or sparse ``X``, which is centred if there is an intercept."""

    def __init__(self, X: Any, intercept: bool, weights: Array | None = None) -> None:
        mean = None if weights is None else (weights / weights.sum()) @ X
        self._features = Features(X, intercept).centre(mean)
        self._weights = weights
        self.n, self.d = X.shape

    def scores(self, W: NDArray[Any]) -> NDArray[Any]:
        """Return ``X W``."""
        if self._features.intercept:
            W = np.vstack([W, np.zeros((1, W.shape[1]))])
        return np.asarray(self._features.scores(W))

    def adjoint(self, G: NDArray[Any]) -> Array:
        """Return ``X' G``."""
        return np.asarray(self._features.adjoint(G)[: self.d])

    def gram(self) -> Array:
        """Return ``X'X`` with weighted rows."""
        return np.asarray(self._features.gram(weights=self._weights)[: self.d, : self.d])

    def intercept(self, coef: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        """Convert intercepts for the centred ``X`` to intercepts for the original ``X``."""
        mean = self._features.mean
        return b if mean is None else b - mean @ coef


def weighted_grams(Z: NDArray[Any], weights: NDArray[Any]) -> Array:
    """Return ``Z' diag(w_j) Z`` for each column ``w_j`` of ``weights``, as one array (c, k, k)."""
    size, c = Z.shape[1], weights.shape[1]
    first, second = np.triu_indices(size)
    total = np.zeros((c, len(first)))
    block = max(1, int(4e6 // len(first)))
    for start in range(0, len(Z), block):
        rows = slice(start, start + block)
        total += weights[rows].T @ (Z[rows][:, first] * Z[rows][:, second])
    grams = np.empty((c, size, size))
    grams[:, first, second] = grams[:, second, first] = total
    return grams


@dataclass(eq=False, repr=False, kw_only=True)
class LinearBaseline(CompletionClassifier):
    """Base class of linear classifiers, whose scores are ``X coef_' + intercept_``."""

    calibration: str | None = None
    fit_intercept: bool = True

    def _learn(self, X: Any, labels: LabelMatrix) -> FitResult:
        with blas_threads(labels.signs.size * X.shape[1]):
            result = super()._learn(X, labels)
        del self._keep  # its size is the number of training rows
        return result

    def _store(self, X: Any, coef: NDArray[Any], intercept: NDArray[Any]) -> None:
        """Store coefficients (d, c) of the learnable labels; other labels get constant scores."""
        self.coef_: NDArray[Any] = np.zeros((len(self._learnable), X.shape[1]), dtype=X.dtype)
        self.intercept_: NDArray[Any] = self._constant.astype(X.dtype)
        self.coef_[self._learnable] = coef.T
        self.intercept_[self._learnable] = intercept

    def _fit_nothing(self, X: Any) -> None:
        self._store(X, np.zeros((X.shape[1], 0)), np.zeros(0))

    def _score_labels(self, X: Any) -> NDArray[Any]:
        chosen = self._learnable
        return np.asarray(X @ self.coef_.T[:, chosen] + self.intercept_[chosen])


@dataclass(eq=False, repr=False, kw_only=True)
class IterativeBaseline(LinearBaseline):
    """Base class of linear baselines with an iterative solver."""

    max_iter: int
    tol: float
    verbose: int = 0

    _mixes_labels = False  # whether fitted models have label correlations

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_numbers(tol=self.tol)
        check_counts(max_iter=self.max_iter)

    def _fit_nothing(self, X: Any) -> None:
        nothing = np.zeros((0, 0)) if self._mixes_labels else None
        self._finish(X, [], np.zeros((X.shape[1], 0)), np.zeros(0), nothing)

    def _report(self, iteration: int, value: float) -> None:
        """Print the objective of an iteration to standard error if ``verbose`` is set."""
        if self.verbose:
            name = type(self).__name__.removesuffix("Classifier")
            sys.stderr.write(f"[{name}] iteration {iteration:4d}  objective {value:.6g}\n")

    def _finish(
        self, X: Any, history: Any, coef: Any, intercept: Any, C: Any = None, n_starts: int = 0
    ) -> FitResult:
        """Store coefficients and objectives; the first ``n_starts`` precede all iterations."""
        self._store(X, coef, intercept)
        self.n_iter_ = max(1, len(history) - n_starts)
        self.objective_history_ = np.array(history)
        self.objective_ = history[-1] if history else 0.0
        if C is not None:
            self.correlations_ = np.zeros((len(self._learnable), len(self._learnable)))
            self.correlations_[np.ix_(self._learnable, self._learnable)] = C
        return FitResult()


@dataclass(eq=False, repr=False)
class MaskedRidgeClassifier(PositiveUnlabelledClassifier, LinearBaseline):
    r"""Ridge regression of each label on the rows where it was observed.

    .. math:: \min_{W,b} \tfrac12 \|R_\Omega(XW + 1b') - \tilde Y\|_F^2
              + \tfrac{\alpha}{2} \|W\|_F^2

    Labels that are observed on the same rows share one matrix factorization.

    Parameters
    ----------
    alpha : float or "scale", default="scale"
        Ridge penalty. 0 gives the least-squares solution of minimum norm. "scale" is explained in
        :class:`dm2l.DM2LClassifier`.
    fit_intercept : bool, default=True
        Whether scores have an intercept, which is not penalized.
    solver : {"auto", "direct", "cg", "dual"}, default="auto"
        "direct" factorizes a matrix. "cg" uses conjugate gradients up to a relative gradient of
        1e-10. "auto" selects the faster one of "direct" and "cg". "dual" is for a sparse ``X`` with
        many columns, and solves for one unknown per row and label up to a relative error of 1e-3.
    threshold, calibration, coupling, rules, cv, missing_label, missing_as, class_prior
        As in :class:`dm2l.DM2LClassifier`.

    Attributes
    ----------
    coef_, intercept_, classes_, label_names_, thresholds_, n_features_in_
        As in :class:`dm2l.DM2LClassifier`.

    Examples
    --------
    >>> from dm2l.baselines import MaskedRidgeClassifier
    >>> from dm2l.datasets import make_missing_multilabel
    >>> X, Y = make_missing_multilabel(n_labels=5, random_state=0)
    >>> MaskedRidgeClassifier().fit(X, Y).predict(X[1:2])
    array([[0, 0, 1, 1, 0]])
    """

    alpha: float | str = "scale"
    _: KW_ONLY
    solver: str = "auto"
    coupling: str | None = "residual"
    class_prior: Any = None

    _leaves_one_out = True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_numbers(alpha=self.alpha, words=("scale",))
        check_choice("solver", self.solver, "auto", "direct", "cg", "dual")
        if self.solver == "dual" and (
            not self.fit_intercept or self.missing_as == "unlabelled" or self.coupling == "joint"
        ):
            raise ValueError(
                "solver='dual' supports neither fit_intercept=False, nor missing_as='unlabelled', "
                "nor coupling='joint'. Use solver='auto'."
            )

    def _fit_labels(self, X: Any, labels: LabelMatrix) -> FitResult:
        T, entries = labels.signs, labels.entries
        rows = None if entries is None else entries.rows
        alpha, intercept = ridge_value(self.alpha, X, rows), bool(self.fit_intercept)
        if self.solver == "dual":
            weights = None if entries is None else entries.weights
            self._store(X, *dual_ridge(X, T, alpha, weights))
            return FitResult()
        feature_map = LinearMap(intercept=intercept)
        features = Features(feature_map.fit(X), intercept).centre()
        if self.missing_as == "unlabelled" and entries is not None and entries.targets is not None:
            pu = PUTargets.of(features, entries.targets, self.class_prior, self._learnable)
            self._keep_prior(pu.prior)
            entries = EntryWeights.of(T, targets=pu.targets(alpha))
        W, unseen = masked_ridge(features, T, alpha, entries=entries, method=self.solver), None
        if self.coupling is not None and self.missing_as != "unlabelled":
            objective = Objective(T, 0.0, like=features.example, entries=entries)
            problem = Problem(features, objective, alpha)
            factor, start = Preconditioner(problem), features.from_original(W)
            if self.coupling == "joint":
                start, unseen, _ = learn_jointly(problem, T, start, factor, entries)
                W = features.to_original(start)
            else:
                unseen = leave_one_out_scores(problem, factor, T, start, features, entries=entries)
        self._store(X, *feature_map.on_inputs(W, intercept))
        return FitResult(leave_one_out_scores=unseen)

    def _fit_nothing(self, X: Any) -> None:
        super()._fit_nothing(X)
        if self.missing_as == "unlabelled":
            self._keep_prior()

    def _score_labels(self, X: Any) -> Any:
        scores = super()._score_labels(X)
        return self._corrected(scores) if self.missing_as == "unlabelled" else scores
