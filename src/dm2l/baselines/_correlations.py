"""The baselines LSML and ML-LRC, which complete labels with learned label correlations."""

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.exceptions import ConvergenceWarning

from dm2l._base import FitResult
from dm2l._solvers.features import ridge_value
from dm2l._utils.arrays import check_finite
from dm2l._utils.inputs import check_choice, check_numbers
from dm2l.baselines._linear import Array, ImputedTargets, Inputs, IterativeBaseline, ridge
from dm2l.labels._matrix import LabelMatrix


@dataclass(eq=False, repr=False, kw_only=True)
class CorrelationBaseline(IterativeBaseline):
    """Base class of methods that learn label correlations, starting from a ridge regression."""

    missing: str = "negative"

    _mixes_labels = True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("missing", self.missing, "negative", "neutral")

    def _start(self, X: Any, labels: Any, alpha: Any) -> tuple[ImputedTargets, Any, Any, Any]:
        """Return targets and row weights, and coefficients and intercepts of a ridge regression."""
        T, entries = labels.signs, labels.entries
        rows = None if entries is None else entries.rows_only(T, type(self).__name__)
        targets = ImputedTargets(T, self.missing, entries)
        coef, intercept = ridge(X, targets, ridge_value(alpha, X, rows), bool(self.fit_intercept))
        return targets, rows, coef, intercept


def soft_threshold(A: Array, threshold: float) -> Array:
    """Return the proximal operator of ``threshold ||P||_1`` at ``A``."""
    return np.sign(A) * np.maximum(np.abs(A) - threshold, 0.0)


def label_laplacian(C: Array) -> Array:
    """Return the graph Laplacian ``diag(C 1) - C``."""
    return np.diag(C.sum(axis=1)) - C


def _largest_eigenvalue(A: Array) -> float:
    last = len(A) - 1
    return float(scipy.linalg.eigvalsh(A, subset_by_index=(last, last))[0])


class Lsml:
    """The objective of :class:`LSMLClassifier` in weights ``W`` and correlations ``C >= 0``."""

    def __init__(self, X: Any, Y: Array, intercept: bool, *weights: Any, rows: Any = None) -> None:
        self.inputs = Inputs(X, intercept, rows)
        self._rows = None if rows is None else rows[:, None]
        self.lambda1, self.lambda2, self.lambda3, self.lambda4 = weights
        self.gram = self._weighed(Y).T @ Y
        self.mean = np.average(Y, axis=0, weights=rows)
        centred = Y - self.mean if intercept else Y
        weighed = self._weighed(centred)
        self.centred_gram = weighed.T @ centred
        self.cross = self.inputs.adjoint(weighed.astype(X.dtype, copy=False))
        small = self.inputs.d <= self.inputs.n
        self._input_gram = self.inputs.gram() if small else None

    def _weighed(self, A: Array) -> Array:
        """Multiply rows by their weights."""
        return A if self._rows is None else self._rows * A

    def gram_product(self, W: Array) -> Array:
        """Return ``X'X W``; ``X'X`` is only formed if ``X`` has no more columns than rows."""
        if self._input_gram is not None:
            return np.asarray(self._input_gram @ W)
        return self.inputs.adjoint(self._weighed(self.inputs.scores(W)))

    def gram_norm(self) -> float:
        """Return the largest eigenvalue of ``X'X``."""
        if self._input_gram is not None:
            return _largest_eigenvalue(self._input_gram)
        d = self.inputs.d
        operator = LinearOperator(
            (d, d), matvec=lambda v: self.gram_product(v.reshape(-1, 1)).ravel(), dtype=np.float64
        )
        start = np.random.default_rng(0).standard_normal(d)
        if not operator.matvec(start).any():  # ARPACK fails for X = 0
            return 0.0
        return float(eigsh(operator, k=1, v0=start, return_eigenvectors=False, tol=1e-6)[0])

    def smooth(self, W: Array, C: Array) -> float:
        """Return the objective without the two L1 norms."""
        fit = float(np.vdot(W, self.gram_product(W))) - 2 * float(np.vdot(W, self.cross @ C))
        fit += float(np.vdot(C, self.centred_gram @ C))
        away = C - np.eye(len(C))
        fidelity = float(np.vdot(away, self.gram @ away))
        graph = float(np.vdot(W.T @ W, label_laplacian(C).T))
        return 0.5 * fit + 0.5 * self.lambda1 * fidelity + self.lambda4 * graph

    def value(self, W: Array, C: Array) -> float:
        norms = self.lambda2 * np.abs(W).sum() + self.lambda3 * np.abs(C).sum()
        return self.smooth(W, C) + float(norms)

    def gradient_C(self, W: Array, C: Array) -> Array:
        similar = W.T @ W
        fidelity = self.lambda1 * (self.gram @ C - self.gram)
        graph = self.lambda4 * (np.diagonal(similar)[:, None] - similar)
        return np.asarray(self.centred_gram @ C - self.cross.T @ W + fidelity + graph)

    def gradient_W(self, W: Array, C: Array) -> Array:
        L = label_laplacian(C)
        graph = self.lambda4 * W @ (L + L.T)
        return np.asarray(self.gram_product(W) - self.cross @ C + graph)

    def steepness(self) -> float:
        """Return the squared Lipschitz constant of the gradients, ignoring their graph term."""
        labels = _largest_eigenvalue((self.lambda1 * self.gram) + self.centred_gram)
        cross = _largest_eigenvalue(self.cross.T @ self.cross)
        return 2 * self.gram_norm() ** 2 + 2 * cross + 2 * labels**2

    def solve(
        self, W: Array, *, tol: float, max_iter: int, report: Callable[[int, float], None]
    ) -> tuple[Array, Array, list[float]]:
        """Alternate accelerated proximal steps for ``C`` and ``W``; ``C`` starts at 0."""
        C = np.zeros((W.shape[1], W.shape[1]))
        W_before, C_before = W, C
        steepness = self.steepness()
        momentum, momentum_before = 1.0, 1.0
        history: list[float] = []
        for iteration in range(1, max_iter + 1):
            L = label_laplacian(C)
            graph = self.lambda4 * float(np.linalg.norm(L + L.T, 2))
            step = 1.0 / (steepness + 2 * graph**2) ** 0.5
            push = (momentum_before - 1.0) / momentum
            ahead = C + push * (C - C_before)
            C_before = C
            C = np.maximum(ahead - step * self.gradient_C(W, ahead) - step * self.lambda3, 0.0)
            ahead = W + push * (W - W_before)
            W_before = W
            W = soft_threshold(ahead - step * self.gradient_W(ahead, C), step * self.lambda2)
            momentum_before, momentum = momentum, (1.0 + (4.0 * momentum**2 + 1.0) ** 0.5) / 2.0
            history.append(self.value(W, C))
            report(iteration, history[-1])
            if len(history) > 1 and abs(history[-2] - history[-1]) <= tol * abs(history[-2]):
                break
        return W, C, history


@dataclass(eq=False, repr=False)
class LSMLClassifier(CorrelationBaseline):
    r"""Linear classifier with label-specific features and label correlations (LSML).

    .. math:: \min_{W, b, C \ge 0} \tfrac12 \|XW + 1b' - YC\|_F^2
              + \tfrac{\lambda_1}{2} \|YC - Y\|_F^2 + \lambda_4 \mathrm{tr}(W L W')
              + \lambda_2 \|W\|_1 + \lambda_3 \|C\|_1,
              \qquad L = \mathrm{diag}(C1) - C

    The model fits sparse weights to the completed labels ``YC``, where ``C`` is a sparse matrix of
    label correlations. The solver takes accelerated proximal gradient steps from the ridge
    solution. Because there are few steps, the ridge penalty ``rho`` of the starting point also
    regularizes the result. The default values are those of the authors.

    Parameters
    ----------
    lambda1 : float, default=100
        Penalty of the difference between ``YC`` and ``Y``.
    lambda2, lambda3 : float, default=1e-5, 1e-3
        L1 penalties of the weights and of the correlations.
    lambda4 : float, default=1e-5
        Penalty of differences between the weights of correlated labels.
    rho : float or "scale", default="scale"
        Ridge penalty of the starting point. "scale" is explained in :class:`dm2l.DM2LClassifier`.
    missing : {"negative", "neutral"}, default="negative"
        Target of observed negatives: 0 ("negative", as in the paper) or -1. Missing labels get 0.
    max_iter : int, default=30
        Maximum number of iterations.
    tol : float, default=0.01
        Iterations stop when the relative change of the objective is at most this value.
    fit_intercept, threshold, calibration, coupling, rules, cv, missing_label, missing_as, verbose
        As in :class:`dm2l.baselines.LEMLClassifier`.

    Attributes
    ----------
    correlations_ : ndarray of shape (n_labels, n_labels)
        The matrix ``C``, with zeros for labels that could not be learned.
    coef_, intercept_, objective_, objective_history_, n_iter_, classes_, label_names_, thresholds_
        As in :class:`dm2l.DM2LClassifier`.

    References
    ----------
    J. Huang et al., "Improving multi-label classification with missing labels by learning
    label-specific features", Information Sciences 492, 2019.

    Examples
    --------
    >>> from dm2l.baselines import LSMLClassifier
    >>> from dm2l.datasets import make_missing_multilabel
    >>> X, Y = make_missing_multilabel(n_labels=5, random_state=0)
    >>> LSMLClassifier().fit(X, Y).predict(X[1:2])
    array([[0, 0, 0, 1, 0]])
    """

    lambda1: float = 100.0
    lambda2: float = 1e-5
    lambda3: float = 1e-3
    lambda4: float = 1e-5
    rho: float | str = "scale"
    _: KW_ONLY
    max_iter: int = 30
    tol: float = 0.01

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_numbers(lambda1=self.lambda1, lambda2=self.lambda2)
        check_numbers(lambda3=self.lambda3, lambda4=self.lambda4)
        check_numbers(rho=self.rho, words=("scale",))

    def _fit_labels(self, X: Any, labels: LabelMatrix) -> FitResult:
        intercept = bool(self.fit_intercept)
        targets, rows, start, _ = self._start(X, labels, self.rho)
        weights = (self.lambda1, self.lambda2, self.lambda3, self.lambda4)
        problem = Lsml(X, targets.values, intercept, *map(float, weights), rows=rows)
        limits: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter}
        W, C, history = problem.solve(start, **limits, report=self._report)
        b = problem.mean @ C if intercept else np.zeros(W.shape[1])
        return self._finish(X, history, *targets.scores(W, problem.inputs.intercept(W, b)), C)


def shrink_singular_values(S: Array, threshold: float) -> tuple[Array, float]:
    """Return the proximal operator of the nuclear norm, and the nuclear norm of the result."""
    U, values, Vt = np.linalg.svd(S, full_matrices=False)
    values = np.maximum(values - threshold, 0.0)
    return (U * values) @ Vt, float(values.sum())


class Correlations:
    """The objective of :class:`MLLRCClassifier` in correlations ``S``; ``W`` is eliminated."""

    # Ridge regression is linear in its targets. For fixed S, the optimal weights are W = A S, where
    # A is the ridge solution for the targets Y. With the residuals M Y of this ridge regression,
    #
    #     J(S) = 1/2 tr(S'Y'MYS) + lambda_1/2 ||YS - Y||_F^2 + lambda_3 ||S||_*.

    def __init__(
        self, Y: Array, residuals: Array, lambda1: float, lambda3: float, rows: Array | None = None
    ) -> None:
        self.lambda1, self.lambda3 = lambda1, lambda3
        weighed = Y if rows is None else rows[:, None] * Y
        self.unexplained = weighed.T @ residuals
        self.unexplained = (self.unexplained + self.unexplained.T) / 2
        self.gram = weighed.T @ Y
        self._curvature = self.unexplained + lambda1 * self.gram
        check_finite(self._curvature, "Normal equations")
        curvatures = scipy.linalg.eigvalsh(self._curvature)
        self.lipschitz = float(curvatures[-1])
        if curvatures[0] < -1e-8 * self.lipschitz:  # exact curvatures are not negative
            raise ValueError(
                "Rounding errors in the ridge residuals are too large, because the mean of a "
                "column of X is large compared with its spread. Standardize the columns of X."
            )

    def smooth(self, S: Array) -> tuple[float, Array]:
        """Return value and gradient of the objective without the nuclear norm."""
        # S - I is used instead of S, because a large lambda1 would cancel digits.
        away = S - np.eye(len(S))
        product = self._curvature @ away
        value = 0.5 * float(np.vdot(away, product)) + float(np.vdot(away, self.unexplained))
        return value + 0.5 * float(np.trace(self.unexplained)), product + self.unexplained

    def start(self) -> Array:
        """Return the minimizer without nuclear norm, ``lambda1 (Y'(M + lambda1 I)Y)^{-1} Y'Y``."""
        right = self.lambda1 * self.gram
        return np.asarray(scipy.linalg.lstsq(self._curvature, right, cond=1e-12)[0])

    def solve(
        self, *, tol: float, max_iter: int, report: Callable[[int, float], None]
    ) -> tuple[Array, list[float], bool]:
        """Minimize by accelerated proximal gradient, restarted if the objective would rise."""
        # With a subgradient G at S, the objective exceeds its minimum at S* by at most
        # ||G|| ||S - S*||. This distance is bounded by the larger norm of S and of the start, which
        # no nuclear norm has shrunk. Iterations stop when the bound is at most tol x objective.
        step = 1.0 / self.lipschitz
        S = self.start()
        value = self.smooth(S)[0] + self.lambda3 * float(np.linalg.norm(S, "nuc"))
        history = [value]
        ahead, momentum = S, 1.0
        size = float(np.linalg.norm(S))
        for iteration in range(1, max_iter + 1):
            slope = self.smooth(ahead)[1]
            fresh, norm = shrink_singular_values(ahead - step * slope, step * self.lambda3)
            loss, gradient = self.smooth(fresh)
            if loss + self.lambda3 * norm > value and momentum > 1.0:
                ahead, momentum = S, 1.0
                continue
            subgradient = (ahead - fresh) / step + gradient - slope
            value = loss + self.lambda3 * norm
            growth = (1.0 + (1.0 + 4.0 * momentum**2) ** 0.5) / 2.0
            ahead = fresh + ((momentum - 1.0) / growth) * (fresh - S)
            S, momentum = fresh, growth
            history.append(value)
            report(iteration, value)
            size_now = max(float(np.linalg.norm(S)), size)
            if float(np.linalg.norm(subgradient)) * size_now <= tol * value:
                return S, history, True
        return S, history, False


@dataclass(eq=False, repr=False)
class MLLRCClassifier(CorrelationBaseline):
    r"""Linear classifier that learns low-rank label correlations (ML-LRC).

    .. math:: \min_{W,b,S} \tfrac12 \|XW + 1b' - YS\|_F^2 + \tfrac{\lambda_1}{2} \|YS - Y\|_F^2
              + \tfrac{\lambda_2}{2} \|W\|_F^2 + \lambda_3 \|S\|_*

    The model is fitted to the completed labels ``YS``. The problem is jointly convex. For each
    ``S``, ridge regression gives the weights, and proximal gradient steps find ``S``. Neither code
    nor the full text of the paper is public. The roles of the parameters, factors of one half and
    the coding of negatives are therefore uncertain; see :doc:`/guide/baselines`.

    Parameters
    ----------
    lambda1 : float, default=1
        Penalty of the difference between ``YS`` and ``Y``.
    lambda2 : float or "scale", default="scale"
        Ridge penalty. "scale" is explained in :class:`dm2l.DM2LClassifier`.
    lambda3 : float, default=1
        Weight of the nuclear norm, on the scale of the squared singular values of ``Y``.
    missing : {"negative", "neutral"}, default="negative"
        Target of observed negatives: 0 ("negative") or -1 ("neutral"). Missing labels get 0.
    max_iter : int, default=1000
        Maximum number of proximal steps.
    tol : float, default=1e-5
        Tolerance of the relative difference between the objective and its minimum.
    fit_intercept, threshold, calibration, coupling, rules, cv, missing_label, missing_as, verbose
        As in :class:`dm2l.baselines.LEMLClassifier`.

    Attributes
    ----------
    correlations_ : ndarray of shape (n_labels, n_labels)
        The matrix ``S``, with zeros for labels that could not be learned.
    coef_, intercept_, objective_, objective_history_, n_iter_, classes_, label_names_, thresholds_
        As in :class:`dm2l.DM2LClassifier`.

    References
    ----------
    L. Xu, Z. Wang, Z. Shen, Y. Wang and E. Chen, "Learning Low-Rank Label Correlations for
    Multi-label Classification with Missing Labels", ICDM 2014.

    Examples
    --------
    >>> from dm2l.baselines import MLLRCClassifier
    >>> from dm2l.datasets import make_missing_multilabel
    >>> X, Y = make_missing_multilabel(n_labels=5, random_state=0)
    >>> MLLRCClassifier(missing="neutral").fit(X, Y).predict(X[1:2])
    array([[0, 0, 0, 1, 0]])
    """

    lambda1: float = 1.0
    lambda2: float | str = "scale"
    lambda3: float = 1.0
    _: KW_ONLY
    max_iter: int = 1000
    tol: float = 1e-5

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_numbers(lambda3=self.lambda3)
        check_numbers(lambda1=self.lambda1, positive=True)
        check_numbers(lambda2=self.lambda2, words=("scale",))

    def _fit_labels(self, X: Any, labels: LabelMatrix) -> FitResult:
        targets, rows, coef, intercept = self._start(X, labels, self.lambda2)
        Y = targets.values
        problem = Correlations(
            Y, Y - np.asarray(X @ coef) - intercept, float(self.lambda1), float(self.lambda3), rows
        )
        limits: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter}
        S, history, settled = problem.solve(**limits, report=self._report)
        if not settled:
            what = f"ML-LRC stopped after max_iter={self.max_iter} iterations without converging"
            what += f" to tol={self.tol}. Increase max_iter or tol."
            warnings.warn(what, ConvergenceWarning, stacklevel=4)
        weights = targets.scores(coef @ S, intercept @ S)
        return self._finish(X, history, *weights, S, n_starts=1)
