"""LEML: a low-rank weight matrix fitted to the observed entries."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.utils import check_random_state

from dm2l._base import FitResult
from dm2l._utils.inputs import check_choice, check_counts, check_numbers
from dm2l.baselines._linear import Array, ImputedTargets, Inputs, IterativeBaseline, weighted_grams
from dm2l.labels._entries import Signs
from dm2l.labels._matrix import LabelMatrix

MOST_PRODUCTS = 20  # maximum number of products with the Hessian in a Newton step for W


class Loss(NamedTuple):
    """Loss of each entry for scores ``F`` and targets ``Y``, and its two derivatives in ``F``."""

    value: Callable[[Array, Array], Array]
    slope: Callable[[Array, Array], Array]
    curvature: Callable[[Array, Array], Array]


LOSSES = {
    "squared": Loss(
        lambda F, Y: (F - Y) ** 2, lambda F, Y: 2.0 * (F - Y), lambda F, Y: np.full_like(F, 2.0)
    ),
    "logistic": Loss(
        lambda F, Y: np.logaddexp(0.0, -Y * F),
        lambda F, Y: -Y * expit(-Y * F),
        lambda F, Y: (p := expit(Y * F)) * (1.0 - p),
    ),
    "squared_hinge": Loss(
        lambda F, Y: np.maximum(1.0 - Y * F, 0.0) ** 2,
        lambda F, Y: -2.0 * Y * np.maximum(1.0 - Y * F, 0.0),
        lambda F, Y: np.where(Y * F < 1.0, 2.0, 0.0),
    ),
}


class InputFactor:
    """Objective ``1/2 ||W||^2 + C sum_Omega loss(X W H' + b)`` as a function of ``W``."""

    def __init__(
        self, inputs: Inputs, targets: ImputedTargets, loss: Loss, C: float, H: Array, b: Array
    ) -> None:
        self.inputs, self.loss, self.C = inputs, loss, C
        self.Y, self._mask = targets.values, targets.counted
        self.H, self.b = H, b

    def value(self, W: Array) -> float:
        """Return the objective at ``W``, and store ``W`` for :meth:`gradient`."""
        self._W, self._F = W, self.inputs.scores(W) @ self.H.T + self.b
        losses = self._mask(self.loss.value(self._F, self.Y))
        return 0.5 * float(np.vdot(W, W)) + self.C * float(losses.sum())

    def gradient(self) -> Array:
        slope = self._mask(self.loss.slope(self._F, self.Y))
        self._curvature = self._mask(self.loss.curvature(self._F, self.Y))
        return np.asarray(self._W + self.C * self.inputs.adjoint(slope @ self.H))

    def product(self, S: Array) -> Array:
        """Return the product of ``S`` with the Hessian at the point of the last gradient."""
        image = self.inputs.scores(S) @ self.H.T
        return np.asarray(S + self.C * self.inputs.adjoint((self._curvature * image) @ self.H))


def trust_region_newton(function: InputFactor, W: Array, *, tol: float, max_iter: int) -> Array:
    """Take Newton steps until the gradient's norm is at most ``tol`` times its initial value."""
    # This is the variant of LIBLINEAR (Lin, Weng and Keerthi 2008). As LEML stops it early, results
    # depend on its loose inner tolerance (a tenth of the gradient) and on its trust region, which
    # differ in scipy's trust-ncg. Rejected steps count as iterations.
    value = function.value(W)
    gradient = function.gradient()
    first = radius = float(np.linalg.norm(gradient))
    for iteration in range(max_iter):
        if not np.linalg.norm(gradient) > tol * first:
            break
        step, residual = _truncated_newton(function, gradient, radius)
        slope = float(np.vdot(gradient, step))
        predicted = -0.5 * (slope - float(np.vdot(step, residual)))
        trial = function.value(W + step)
        length = float(np.linalg.norm(step))
        if iteration == 0:
            radius = min(radius, length)
        radius = _new_radius(radius, length, value - trial, predicted, slope)
        if value - trial > 1e-4 * predicted:
            W, value = W + step, trial
            gradient = function.gradient()
        elif predicted <= 0 or radius <= 1e-14 * max(float(np.linalg.norm(W)), 1.0):
            break  # further differences are rounding errors
    return W


def _new_radius(radius: float, length: float, gain: float, predicted: float, slope: float) -> float:
    """Return the next trust-region radius, given how well the decrease was predicted."""
    bend = -gain - slope
    scale = 4.0 if bend <= 0 else max(0.25, -0.5 * slope / bend)
    if gain < 1e-4 * predicted:
        return min(max(scale, 0.25) * length, 0.5 * radius)
    if gain < 0.25 * predicted:
        return max(0.25 * radius, min(scale * length, 0.5 * radius))
    if gain < 0.75 * predicted:
        return max(0.25 * radius, min(scale * length, 4.0 * radius))
    return max(radius, min(scale * length, 4.0 * radius))


def _truncated_newton(function: InputFactor, gradient: Array, radius: float) -> tuple[Array, Array]:
    """Solve ``H s = -g`` by conjugate gradients for ``|s| <= radius``; also return the residual."""
    step = np.zeros_like(gradient)
    residual = -gradient
    direction = residual.copy()
    size = float(np.vdot(residual, residual))
    goal = 0.1 * float(np.linalg.norm(gradient))
    for _ in range(MOST_PRODUCTS):
        if size**0.5 <= goal:
            break
        image = function.product(direction)
        length = size / float(np.vdot(direction, image))
        longer = step + length * direction
        if float(np.linalg.norm(longer)) > radius:
            # The step ends on the boundary: ||step + t direction|| = radius with a positive t.
            along, square = float(np.vdot(step, direction)), float(np.vdot(direction, direction))
            rest = radius**2 - float(np.vdot(step, step))
            root = (along**2 + square * max(rest, 0.0)) ** 0.5
            length = rest / (along + root) if along >= 0 else (root - along) / square
            return step + length * direction, residual - length * image
        step = longer
        residual = residual - length * image
        fresh = float(np.vdot(residual, residual))
        direction = residual + (fresh / size) * direction
        size = fresh
    return step, residual


class LabelFactor:
    """Objective ``1/2 ||H||^2 + C sum_Omega loss(Z H' + b)`` of ``H`` and intercepts ``b``."""

    def __init__(self, Z: Array, targets: Any, loss: Loss, C: float, intercept: bool) -> None:
        self.Z = np.column_stack([Z, np.ones(len(Z))]) if intercept else Z
        self.Y, self._mask = targets.values, targets.counted
        self.loss, self.C = loss, C
        self.penalty = np.ones(self.Z.shape[1])
        if intercept:
            self.penalty[-1] = 0.0

    def values(self, H: Array) -> Array:
        """Return each label's objective at its row of ``H``, whose last column is ``b``."""
        losses = self._mask(self.loss.value(self.Z @ H.T, self.Y))
        return np.asarray(0.5 * (H**2) @ self.penalty + self.C * losses.sum(axis=0))

    def gradients(self, H: Array) -> Array:
        slope = self._mask(self.loss.slope(self.Z @ H.T, self.Y))
        return np.asarray(H * self.penalty + self.C * slope.T @ self.Z)

    def hessians(self, H: Array) -> Array:
        """Return the Hessians of all labels as an array of shape (c, k, k)."""
        curvature = self._mask(self.loss.curvature(self.Z @ H.T, self.Y))
        found = self.C * weighted_grams(self.Z, curvature)
        found[:, range(H.shape[1]), range(H.shape[1])] += self.penalty
        return found

    def minimize(self, H: Array) -> Array:
        """Minimize the objective of each label by Newton steps with step halving."""
        zero = np.zeros_like(H)
        goal = 1e-10 * np.maximum(np.linalg.norm(self.gradients(zero), axis=1), 1e-300)
        # Newton steps fail where a loss is flat, so a label starts at zero if its value is lower.
        values, at_zero = self.values(H), self.values(zero)
        H, values = np.where((at_zero < values)[:, None], zero, H), np.minimum(values, at_zero)
        for _ in range(1 if self.loss is LOSSES["squared"] else 100):
            gradients = self.gradients(H)
            active = np.linalg.norm(gradients, axis=1) > goal
            if not active.any():
                break
            steps = -_solve_scaled(self.hessians(H), gradients)
            slopes = (gradients * steps).sum(axis=1)
            lengths = np.where(active, 1.0, 0.0)
            for _ in range(30):
                trial = H + lengths[:, None] * steps
                fresh = self.values(trial)
                worse = fresh > values + 1e-4 * lengths * slopes + 1e-12 * np.abs(values)
                if not worse.any():
                    break
                lengths[worse] /= 2
            H = H + np.where(worse, 0.0, lengths)[:, None] * steps
            values = np.where(worse, values, fresh)
        return H


def _solve_scaled(A: Array, B: Array) -> Array:
    """Solve ``A_j x_j = b_j`` for all j, with each ``A_j`` scaled to a unit diagonal."""
    # Scaling preserves the digits of an intercept if features are large. On the flat side of a
    # hinge, variables have no curvature and no slope, so they do not change.
    diagonal = np.diagonal(A, axis1=1, axis2=2)
    flat = diagonal <= 0
    scale = 1.0 / np.sqrt(np.where(flat, 1.0, diagonal))
    A = scale[:, :, None] * A * scale[:, None, :] + flat[:, :, None] * np.eye(A.shape[1])
    return np.asarray(scale * np.linalg.solve(A, (scale * B)[:, :, None])[:, :, 0])


@dataclass(eq=False, repr=False)
class LEMLClassifier(IterativeBaseline):
    r"""Low-rank empirical risk minimization over the observed entries (LEML).

    .. math:: \min_{W,H,b} \sum_{(i,j) \in \Omega} \ell(x_i' W h_j + b_j, y_{ij})
              + \tfrac{\alpha}{2} \bigl(\|W\|_F^2 + \|H\|_F^2\bigr)

    From a random start, the solver alternates a fixed number of times between trust-region Newton
    steps for ``W`` and exact solutions for ``H``. Early stopping is part of the method.

    Parameters
    ----------
    rank : int, default=20
        Rank of the weight matrix, at most the number of labels.
    alpha : float, default=30
        Ridge penalty, called ``lambda`` in the paper, which affects results more than ``rank``.
    loss : {"squared", "logistic", "squared_hinge"}, default="squared"
        Loss of score ``f``: ``(f - y)^2``, ``log(1 + exp(-y f))`` or ``max(0, 1 - y f)^2``.
    missing : {"ignore", "neutral", "negative"}, default="ignore"
        With "ignore", missing labels have no target; otherwise, their target is 0. Observed
        negatives have the target 0 with "negative", else -1. Only "ignore" supports every ``loss``.
    fit_intercept : bool, default=True
        Whether scores have an unpenalized intercept. The original LEML has no intercept.
    max_iter : int, default=10
        Number of alternations.
    tol : float, default=0.1
        Newton steps for ``W`` end when the gradient has shrunk by this factor, or after five.
    random_state : int, RandomState or None, default=None
        Seed of the random start, which is uniformly distributed.
    threshold, calibration, coupling, rules, cv, missing_label, missing_as, verbose
        As in :class:`dm2l.DM2LClassifier`, but ``coupling`` is None by default, and "residual" fits
        ``cv`` additional models.

    Attributes
    ----------
    coef_, intercept_, objective_, objective_history_, n_iter_, classes_, label_names_, thresholds_
        As in :class:`dm2l.DM2LClassifier`; an iteration is one alternation.

    References
    ----------
    H.-F. Yu, P. Jain, P. Kar and I. Dhillon, "Large-scale Multi-label Learning with Missing
    Labels", ICML 2014.

    Examples
    --------
    >>> from dm2l.baselines import LEMLClassifier
    >>> from dm2l.datasets import make_missing_multilabel
    >>> X, Y = make_missing_multilabel(n_labels=5, random_state=0)
    >>> LEMLClassifier(random_state=0).fit(X, Y).predict(X[1:2])
    array([[0, 0, 1, 1, 0]])
    """

    rank: int = 20
    alpha: float = 30.0
    _: KW_ONLY
    loss: str = "squared"
    missing: str = "ignore"
    max_iter: int = 10
    tol: float = 0.1
    random_state: Any = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_numbers(alpha=self.alpha, positive=True)
        check_counts(rank=self.rank)
        check_choice("loss", self.loss, *LOSSES)
        check_choice("missing", self.missing, "ignore", "neutral", "negative")
        if self.loss != "squared" and self.missing != "ignore":
            what = f"missing={self.missing!r} requires loss='squared', got loss={self.loss!r}."
            raise ValueError(f"{what} Pass loss='squared', or missing='ignore'.")

    def _fit_labels(self, X: Any, labels: LabelMatrix) -> FitResult:
        T, entries = labels.signs, labels.entries
        intercept = bool(self.fit_intercept)
        inputs = Inputs(X, intercept, None if entries is None else entries.rows)
        targets = ImputedTargets(T, self.missing, entries)
        share = self.tol * self._share(T, targets)
        loss, C = LOSSES[self.loss], 1.0 / float(self.alpha)
        k = min(int(self.rank), T.shape[1])
        random = check_random_state(self.random_state)
        W, H = random.uniform(size=(X.shape[1], k)), random.uniform(size=(T.shape[1], k))
        b = np.zeros(T.shape[1])
        history = []
        for iteration in range(1, self.max_iter + 1):
            inner = InputFactor(inputs, targets, loss, C, H, b)
            W = trust_region_newton(inner, W, tol=share, max_iter=5)
            outputs = LabelFactor(inputs.scores(W), targets, loss, C, intercept)
            found = outputs.minimize(np.column_stack([H, b]) if intercept else H)
            H, b = (found[:, :-1], found[:, -1]) if intercept else (found, b)
            total = 0.5 * float(np.vdot(W, W)) + float(outputs.values(found).sum())
            history.append(self.alpha * total)
            self._report(iteration, history[-1])
        coef = W @ H.T
        return self._finish(X, history, *targets.scores(coef, inputs.intercept(coef, b)))

    def _share(self, T: Signs, targets: ImputedTargets) -> float:
        """Return a factor for ``tol``, which is small if a class or observed labels are rare."""
        weights = np.ones(T.shape) if targets.weights is None else targets.weights
        if self.missing != "ignore":
            counted = T > 0 if self.missing == "negative" else T != 0
            return float(weights[counted].sum() / weights.sum())
        if self.loss == "squared":
            return 1.0
        rarer = min(weights[T > 0].sum(), weights[T < 0].sum())
        return float(max(rarer, 1) / weights[T != 0].sum())
