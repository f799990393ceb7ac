"""ML-LRC: labels completed through a low-rank matrix of label correlations."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from dm2l._score_model import FitResult
from dm2l._solvers.features import ridge_value
from dm2l._utils.arrays import check_finite
from dm2l._utils.inputs import check_choice, check_number, check_numbers
from dm2l.baselines._linear import ImputedTargets, IterativeBaseline, ridge
from dm2l.labels._matrix import LabelMatrix

Array = NDArray[np.float64]


def shrink_singular_values(S: Array, threshold: float) -> tuple[Array, float]:
    """``argmin_P 1/2 ||P - S||_F^2 + threshold ||P||_*``, and the nuclear norm of that ``P``."""
    U, values, Vt = np.linalg.svd(S, full_matrices=False)
    values = np.maximum(values - threshold, 0.0)
    return (U * values) @ Vt, float(values.sum())


class Correlations:
    """ML-LRC with its weights eliminated: a convex problem in the correlations ``S`` alone."""

    # For fixed S the best weights are W = A S with A the ridge solution for the targets Y, because
    # ridge is linear in its targets. With M Y the residuals of that ridge,
    #
    #     J(S) = 1/2 tr(S'Y'MYS) + lambda_1/2 ||O*(YS - Y)||_F^2 + lambda_3 ||S||_*
    #
    # where O is all ones, or marks the observed entries if the fidelity is masked.

    def __init__(
        self,
        Y: Array,
        residuals: Array,
        lambda1: float,
        lambda3: float,
        observed: NDArray[np.bool_] | None = None,
        rows: Array | None = None,
    ) -> None:
        self.Y, self.observed = Y, observed
        self.lambda1, self.lambda3 = lambda1, lambda3
        self._weighed = Y if rows is None else rows[:, None] * Y
        self.unexplained = self._weighed.T @ residuals
        self.unexplained = (self.unexplained + self.unexplained.T) / 2
        self.gram = self._weighed.T @ Y
        self._curvature = self.unexplained + lambda1 * self.gram
        check_finite(self._curvature, "Normal equations")
        self.lipschitz = float(scipy.linalg.eigvalsh(self._curvature)[-1])

    def smooth(self, S: Array) -> tuple[float, Array]:
        """Value and gradient without the nuclear norm."""
        # By S - I, so that a large lambda1 does not make them differences of large numbers.
        away = S - np.eye(len(S))
        if self.observed is None:
            product = self._curvature @ away
        else:
            # The fidelity has another curvature for every column of S: no c x c matrix holds it.
            missed = np.where(self.observed, self.Y @ away, 0.0)
            product = self.unexplained @ away + self.lambda1 * (self._weighed.T @ missed)
        value = 0.5 * float(np.vdot(away, product)) + float(np.vdot(away, self.unexplained))
        return value + 0.5 * float(np.trace(self.unexplained)), product + self.unexplained

    def start(self) -> Array:
        """Solution without nuclear norm and mask: ``lambda1 (Y'(M + lambda1 I)Y)^{-1} Y'Y``."""
        right = self.lambda1 * self.gram
        return np.asarray(scipy.linalg.lstsq(self._curvature, right, cond=1e-12)[0])

    def solve(
        self, *, tol: float, max_iter: int, report: Callable[[int, float], None]
    ) -> tuple[Array, list[float], bool]:
        """Accelerated proximal gradient, restarted whenever it would ascend."""
        # With G a subgradient at S, the objective is at most ||G|| ||S - S*|| above its minimum at
        # S*. It has settled when ||G|| times the larger norm of S and the start, which no nuclear
        # norm has shrunk yet, is at most tol times the objective.
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
class MLLRCClassifier(IterativeBaseline):
    r"""Low-rank label correlations learnt together with the classifier (ML-LRC).

    .. math:: \min_{W,b,S} \tfrac12 \|XW + 1b' - YS\|_F^2 + \tfrac{\lambda_1}{2} \|YS - Y\|_F^2
              + \tfrac{\lambda_2}{2} \|W\|_F^2 + \lambda_3 \|S\|_*

    ``S`` (c, c) mixes the labels, and the classifier learns the supplemented labels ``YS``. The
    problem is jointly convex: the weights are eliminated by one ridge solution, and ``S`` is found
    by accelerated proximal gradient.

    A reconstruction, see :doc:`/baselines`: neither code nor full text of the original is public.
    Which parameter is which, factors of one half and the coding of negatives are uncertain; the
    intercept and ``masked`` are additions.

    Parameters
    ----------
    lambda1 : float, default=1
        Faithfulness of ``YS`` to ``Y``; small values let ``S`` shrink the labels towards their
        common directions.
    lambda2 : float or "scale", default="scale"
        Ridge; "scale" is that of :class:`dm2l.DM2LClassifier`.
    lambda3 : float, default=1
        Weight of the nuclear norm, to be seen against the squared singular values of ``Y``.
    missing : {"negative", "neutral"}, default="negative"
        Target of a missing label: 0, with targets 0/1; or 0, with targets -1/+1.
    masked : bool, default=False
        Whether ``YS`` has to be near ``Y`` on observed entries only.
    max_iter : int, default=1000
        Most proximal steps.
    tol : float, default=1e-5
        Distance to the minimum, relative to the objective, that counts as none.
    fit_intercept, threshold, calibration, coupling, cv, missing_label, missing_as, verbose
        As in :class:`dm2l.baselines.LEMLClassifier`.

    Attributes
    ----------
    correlations_ : ndarray of shape (n_labels, n_labels)
        ``S``; zero where a label could not be learnt.
    objective_history_ : ndarray
        The objective at the start and after each step; it never rises.
    coef_, intercept_, objective_, n_iter_, classes_, label_names_, thresholds_, n_features_in_
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
    missing: Literal["negative", "neutral"] = "negative"
    masked: bool = False
    max_iter: int = 1000
    tol: float = 1e-5

    _mixes_labels = True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_numbers(self, "lambda3")
        check_numbers(self, "lambda1", positive=True)
        check_number("lambda2", self.lambda2, words=("scale",))
        check_choice("missing", self.missing, "negative", "neutral")

    def _fit_labels(self, X: Any, labels: LabelMatrix) -> FitResult:
        T, entries = labels.signs, labels.entries
        rows = None if entries is None else entries.rows_only(T, "ML-LRC")
        alpha = ridge_value(self.lambda2, X, rows)
        targets = ImputedTargets(T, self.missing, entries)
        Y = targets.values
        coef, intercept = ridge(X, targets, alpha, bool(self.fit_intercept))
        problem = Correlations(
            Y,
            Y - np.asarray(X @ coef) - intercept,
            float(self.lambda1),
            float(self.lambda3),
            T != 0 if self.masked else None,
            rows,
        )
        S, history, settled = problem.solve(
            tol=self.tol, max_iter=self.max_iter, report=self._report
        )
        if not settled:
            warnings.warn(
                f"ML-LRC stopped after max_iter={self.max_iter} iterations before it was within "
                f"tol={self.tol} of its minimum. Raise max_iter.",
                ConvergenceWarning,
                stacklevel=4,
            )
        weights = targets.scores(coef @ S, intercept @ S)
        return self._finish(X, history, *weights, S, n_starts=1)
