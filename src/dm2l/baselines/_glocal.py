"""GLOCAL: latent labels with global and local label correlations."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from dm2l.baselines._linear import LinearBaseline, weighted_grams
from dm2l.features import Features, LinearMap
from dm2l.labels import Signs

Array = NDArray[np.float64]


class Glocal:
    r"""The objective of GLOCAL and the exact minimum of each of its blocks.

    .. math:: \tfrac12 \|O \circ (T - VU')\|_F^2 + \tfrac{\lambda}{2} \|V - XW\|_F^2
              + \tfrac{\lambda_3}{2} \|V\|_F^2 + \tfrac{\lambda_4}{2} \|U\|_F^2
              + \tfrac{\lambda_5}{2} \|W\|_F^2 + \tfrac12 \sum_m \mathrm{tr}(Z_m' U B_m U' Z_m),
              \qquad B_m = W' (\lambda_2 \tfrac{n_m}{n} X'X + \lambda_1 X_m'X_m) W

    ``T`` are signs, ``V`` (n, k) latent labels, ``U`` (c, k) what turns them into labels, ``X_m``
    the rows of group ``m``, and ``Z_m`` (c, k) has rows of length one: ``Z_m Z_m'`` stands for the
    Laplacian of the label correlations. Scores are ``X W U'``, and the last term is small where
    they are smooth on the graph of each group and of all groups together. Everywhere below an
    empty list for ``Z`` leaves the last term out.

    Parameters
    ----------
    features : Features
        ``X``, with a column of ones if there is an intercept.
    T : ndarray of shape (n, c), int8
        Signs, 0 where missing.
    groups : ndarray of shape (n,)
        Group of each row.
    weights : sequence of float
        ``lambda`` and ``lambda1`` to ``lambda5``, as they stand in the formula.
    """

    def __init__(
        self, features: Features, T: Signs, groups: NDArray[np.intp], weights: tuple[float, ...]
    ) -> None:
        self.features = features
        self.T = T.astype(np.float64)
        self.observed = (T != 0).astype(np.float64)
        self.lam, self.lam1, self.lam2, self.lam3, self.lam4, self.lam5 = weights
        self.gram = features.gram()
        self.penalty = features.penalty(1.0)
        members = [np.flatnonzero(groups == m) for m in np.unique(groups)]
        # Per group: lambda2 n_m/n X'X + lambda1 X_m'X_m.
        self.metrics = [
            self.lam2 * len(rows) / len(groups) * self.gram + self.lam1 * features.gram(rows)
            for rows in members
        ]
        # A basis in which X'X and the ridge are both diagonal, and their balanced sum is one.
        self._trace = max(float(np.trace(self.gram)), np.finfo(float).tiny)
        self._unit = self._trace / len(self.gram)
        balanced = np.diag(self._unit * self.penalty)
        self._share, self._basis = scipy.linalg.eigh(balanced, self.gram + balanced)

    # -- value and gradients --------------------------------------------------------------------

    def data_terms(self, U: Array, V: Array, W: Array) -> float:
        """The two first terms."""
        missed = self.observed * (V @ U.T) - self.T
        apart = V - self.features.scores(W)
        return 0.5 * float(np.vdot(missed, missed)) + 0.5 * self.lam * float(np.vdot(apart, apart))

    def value(self, U: Array, V: Array, W: Array, Z: list[Array]) -> float:
        """The objective."""
        total = self.data_terms(U, V, W)
        total += 0.5 * self.lam3 * float(np.vdot(V, V)) + 0.5 * self.lam4 * float(np.vdot(U, U))
        total += 0.5 * self.lam5 * float(np.vdot(W, self.penalty[:, None] * W))
        for B, Zm in zip(self._middles(W, Z), Z, strict=True):
            inner = Zm.T @ U
            total += 0.5 * float(np.vdot(inner, inner @ B))
        return total

    def _middles(self, W: Array, Z: list[Array]) -> list[Array]:
        """``B_m`` of the groups that count."""
        return [W.T @ (metric @ W) for metric in self.metrics[: len(Z)]]

    def gradient_U(self, U: Array, V: Array, W: Array, Z: list[Array]) -> Array:
        """Gradient in ``U``."""
        return self._curve_U(U, V, self._middles(W, Z), Z) - self.T.T @ V

    def _curve_U(self, U: Array, V: Array, middles: list[Array], Z: list[Array]) -> Array:
        total = (self.observed * (V @ U.T)).T @ V + self.lam4 * U
        for B, Zm in zip(middles, Z, strict=True):
            total += Zm @ ((Zm.T @ U) @ B)
        return total

    def gradient_V(self, U: Array, V: Array, W: Array) -> Array:
        """Gradient in ``V``."""
        missed = self.observed * (V @ U.T) - self.T
        return missed @ U + self.lam * (V - self.features.scores(W)) + self.lam3 * V

    def gradient_W(self, U: Array, V: Array, W: Array, Z: list[Array]) -> Array:
        """Gradient in ``W``."""
        return self._curve_W(W, self._sides(U, Z)) - self.lam * self.features.adjoint(V)

    def _sides(self, U: Array, Z: list[Array]) -> list[Array]:
        """``U' Z_m Z_m' U``."""
        return [(inner := Zm.T @ U).T @ inner for Zm in Z]

    def _curve_W(self, W: Array, sides: list[Array]) -> Array:
        total = self.lam * (self.gram @ W) + self.lam5 * self.penalty[:, None] * W
        for metric, side in zip(self.metrics, sides, strict=False):
            total += metric @ (W @ side)
        return np.asarray(total)

    def gradient_Z(self, m: int, U: Array, W: Array, Z: list[Array]) -> Array:
        """Riemannian gradient in ``Z_m``: what is left of the gradient along its unit rows."""
        steep = U @ (self._middles(W, Z)[m] @ (U.T @ Z[m]))
        return np.asarray(steep - (steep * Z[m]).sum(axis=1, keepdims=True) * Z[m])

    # -- steps ----------------------------------------------------------------------------------

    def step_U(self, U: Array, V: Array, W: Array, Z: list[Array]) -> Array:
        """Best ``U``: exact where nothing ties the labels, else by conjugate gradients."""
        middles = self._middles(W, Z)
        blocks = weighted_grams(V, self.observed)
        blocks += self.lam4 * np.eye(V.shape[1])
        right = self.T.T @ V
        if not Z:
            return _solve_blocks(blocks, right)
        blocks += sum(middles)  # rows of Z_m have length one
        inverse = np.linalg.inv(blocks)
        return _conjugate_gradients(
            lambda A: self._curve_U(A, V, middles, Z),
            right,
            U,
            lambda R: (inverse @ R[:, :, None])[:, :, 0],
        )

    def step_V(self, U: Array, W: Array) -> Array:
        """Best ``V``, row by row."""
        blocks = weighted_grams(U, self.observed.T)
        blocks += (self.lam + self.lam3) * np.eye(U.shape[1])
        return _solve_blocks(blocks, self.T @ U + self.lam * self.features.scores(W))

    def step_W(self, U: Array, V: Array, W: Array, Z: list[Array]) -> Array:
        """Best ``W``: ridge on ``V`` where no correlations count, else conjugate gradients.

        Preconditioned with the global part of the correlations, ``X'X W N + lambda5 W = R``, which
        is diagonal in the right bases on both sides.
        """
        sides = self._sides(U, Z)
        N = self.lam * np.eye(U.shape[1])
        for side, metric in zip(sides, self.metrics, strict=False):
            N += np.trace(metric) / self._trace * side
        height, turn = np.linalg.eigh(N)
        scale = (
            np.outer(1.0 - self._share, height) + (self.lam5 / self._unit) * self._share[:, None]
        )
        scale = np.maximum(scale, np.finfo(float).tiny)

        def precondition(R: Array) -> Array:
            return np.asarray(self._basis @ ((self._basis.T @ R @ turn) / scale) @ turn.T)

        right = self.lam * self.features.adjoint(V)
        if not Z:
            return precondition(right)
        return _conjugate_gradients(lambda A: self._curve_W(A, sides), right, W, precondition)

    def step_Z(self, m: int, U: Array, W: Array, Z: list[Array], n_steps: int = 60) -> Array:
        """Projected gradient steps for ``Z_m``, each at the minimum of a bound from above.

        With ``C = U B_m U'`` and ``D`` the diagonal of its absolute row sums, ``D - C`` is
        positive semi-definite; so normalising the rows of ``(D - C) Z`` never ascends.
        """
        C = U @ self._middles(W, Z)[m] @ U.T
        bound = np.abs(C).sum(axis=1, keepdims=True)
        now = Z[m]
        for _ in range(n_steps):
            moved = bound * now - C @ now
            length = np.linalg.norm(moved, axis=1, keepdims=True)
            now = np.where(length > 1e-300, moved / np.maximum(length, 1e-300), now)
        return np.asarray(now)


def _solve_blocks(blocks: Array, right: Array) -> Array:
    return np.asarray(np.linalg.solve(blocks, right[:, :, None])[:, :, 0])


def _conjugate_gradients(
    product: Callable[[Array], Array],
    right: Array,
    start: Array,
    precondition: Callable[[Array], Array],
) -> Array:
    """Solve ``product(A) = right`` for a matrix ``A``."""

    def flat(function: Callable[[Array], Array]) -> LinearOperator:
        def apply(a: Array) -> Array:
            return np.ravel(function(a.reshape(right.shape)))

        return LinearOperator((right.size, right.size), matvec=apply, dtype=np.float64)

    found, _ = cg(
        flat(product), right.ravel(), start.ravel(), rtol=1e-8, maxiter=100, M=flat(precondition)
    )
    return np.asarray(found.reshape(right.shape))


class GLOCALClassifier(LinearBaseline):
    r"""Global and local label correlations through latent labels (GLOCAL).

    .. math:: \min_{U,V,W,Z} \tfrac12 \|R_\Omega(VU') - \tilde Y\|_F^2
              + \tfrac{\lambda}{2} \|V - XW\|_F^2
              + \tfrac{\lambda_3}{2} \|V\|_F^2 + \tfrac{\lambda_4}{2} \|U\|_F^2
              + \tfrac{\lambda_5}{2} \|W\|_F^2 + \tfrac12 \sum_m \bigl(
              \lambda_2 \tfrac{n_m}{n} \|Z_m' U W' X'\|_F^2
              + \lambda_1 \|Z_m' U W' X_m'\|_F^2 \bigr)

    Observed labels are ``VU'``: latent labels ``V``, which a linear model predicts from the inputs,
    times label factors ``U``. ``X_m`` are groups of rows found by k-means; the rows of ``Z_m`` have
    length one, and ``Z_m Z_m'`` plays the Laplacian of the label correlations in that group.
    Scores are ``X W U'``. The parameters are relative: with ``o`` observed entries and ``g`` groups
    the weights in the formula are ``lambda_`` and ``lambda3`` times ``o / (kn)``, ``lambda1`` times
    ``o g^2 / n^2``, ``lambda2`` times ``o / n^2``, ``lambda4`` times ``o / (kc)`` and ``lambda5``
    times ``o / (kd)``.

    Every block is brought to its exact minimum in turn where the original takes up to sixty
    steepest-descent steps on a cost that does not belong to its gradient. On Arts both give the
    same figures.

    Parameters
    ----------
    lambda_ : float, default=1
        How closely the inputs have to predict the latent labels.
    lambda1, lambda2 : float, default=1e-5, 1e-3
        Weights of the local and of the global label correlations.
    lambda3, lambda4, lambda5 : float, default=0.125
        Ridge on ``V``, ``U`` and ``W``. ``lambda5`` is the one that matters most.
    n_components : int, default=20
        Number ``k`` of latent labels; at most the number of labels is used.
    n_groups : int, default=3
        Number ``g`` of groups of rows.
    fit_intercept : bool, default=True
        Whether latent labels have an intercept, which is not penalised. The original has none.
    max_iter : int, default=15
        Most rounds, first without and then with label correlations.
    tol : float, default=1e-3
        Relative change of the objective in a round that counts as none.
    random_state : int, RandomState or None, default=None
        For the start and the groups.
    verbose : int, default=0
        Print progress to standard error.
    threshold, calibration, cv, missing_label, absent_label
        As in :class:`dm2l.DM2LClassifier`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Weights ``U W'``.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts.
    objective_history_ : ndarray
        The objective after each round with label correlations; it never rises.
    objective_ : float
        Its last value.
    n_iter_ : int
        Rounds with label correlations.
    classes_, label_names_, thresholds_, n_features_in_
        As in :class:`dm2l.DM2LClassifier`.

    References
    ----------
    Y. Zhu, J. T. Kwok and Z.-H. Zhou, "Multi-Label Learning with Global and Local Label
    Correlation", IEEE Transactions on Knowledge and Data Engineering 30 (6), 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.baselines import GLOCALClassifier
    >>> X = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0], [0.0, 0.2]])
    >>> Y = np.array([[0, 1], [1, np.nan], [1, 0], [np.nan, 0]])
    >>> GLOCALClassifier(lambda5=0.01, n_groups=1, random_state=0).fit(X, Y).predict(X)
    array([[0, 1],
           [1, 1],
           [1, 0],
           [0, 0]])
    """

    def __init__(
        self,
        lambda_: float = 1.0,
        lambda1: float = 1e-5,
        lambda2: float = 1e-3,
        lambda3: float = 0.125,
        lambda4: float = 0.125,
        lambda5: float = 0.125,
        *,
        n_components: int = 20,
        n_groups: int = 3,
        fit_intercept: bool = True,
        max_iter: int = 15,
        tol: float = 1e-3,
        threshold: Any = None,
        calibration: str | None = None,
        cv: Any = 5,
        missing_label: Any = np.nan,
        absent_label: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.lambda_ = lambda_
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.lambda3 = lambda3
        self.lambda4 = lambda4
        self.lambda5 = lambda5
        self.n_components = n_components
        self.n_groups = n_groups
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.threshold = threshold
        self.calibration = calibration
        self.cv = cv
        self.missing_label = missing_label
        self.absent_label = absent_label
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_is_fitted__(self) -> bool:
        """The parameter ``lambda_`` only looks like something that was fitted."""
        return hasattr(self, "coef_")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_numbers("lambda1", "lambda2", "tol")
        self._check_numbers("lambda_", "lambda3", "lambda4", "lambda5", positive=True)
        self._check_counts("n_components", "n_groups", "max_iter")

    def _fit_labels(self, X: Any, T: Signs) -> None:
        intercept = bool(self.fit_intercept)
        random = check_random_state(self.random_state)
        groups = self._groups(X, random)
        feature_map = LinearMap(intercept=intercept)
        features = Features(feature_map.fit(X), intercept).centre()
        k = min(int(self.n_components), T.shape[1])
        problem = Glocal(features, T, groups, self._weights(X, T, k, len(np.unique(groups))))
        U, W, history = self._alternate(problem, k, random)
        self.n_iter_ = len(history)
        self._keep_history(history)
        W = np.asarray(features.to_original(W))
        coef = np.asarray(feature_map.coefficients(W[: features.d])) @ U.T
        b = W[-1] @ U.T if intercept else np.zeros(len(U))
        if feature_map.offset is not None:
            b = b - feature_map.offset @ coef
        self._store(X, coef, b)

    def _groups(self, X: Any, random: np.random.RandomState) -> NDArray[np.intp]:
        n_groups = min(int(self.n_groups), X.shape[0])
        if n_groups == 1 or not (self.lambda1 or self.lambda2):
            return np.zeros(X.shape[0], dtype=np.intp)
        means = KMeans(n_groups, n_init=1, random_state=random)
        with warnings.catch_warnings():
            # Fewer distinct rows than groups: then there are fewer groups, which is fine.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return np.asarray(means.fit_predict(X), dtype=np.intp)

    def _weights(self, X: Any, T: Signs, k: int, g: int) -> tuple[float, ...]:
        """The weights as they stand in the objective."""
        (n, d), c, o = X.shape, T.shape[1], float(np.count_nonzero(T))
        return (
            self.lambda_ * o / (k * n),
            self.lambda1 * o * g**2 / n**2,
            self.lambda2 * o / n**2,
            self.lambda3 * o / (n * k),
            self.lambda4 * o / (c * k),
            self.lambda5 * o / (d * k),
        )

    def _alternate(
        self, problem: Glocal, k: int, random: np.random.RandomState
    ) -> tuple[Array, Array, list[float]]:
        n, c = problem.T.shape
        U, V = random.uniform(size=(c, k)), random.uniform(size=(n, k))
        W = np.zeros((problem.features.size, k))
        Z: list[Array] = []
        value = np.inf
        for _ in range(self.max_iter):
            U = problem.step_U(U, V, W, Z)
            V = problem.step_V(U, W)
            W = problem.step_W(U, V, W, Z)
            before, value = value, problem.value(U, V, W, Z)
            if before - value <= self.tol * value:
                break
        if self.lambda1 or self.lambda2:
            Z = [random.uniform(size=(c, k)) for _ in problem.metrics]
            Z = [Zm / np.linalg.norm(Zm, axis=1, keepdims=True) for Zm in Z]
        history: list[float] = []
        value = np.inf
        for iteration in range(1, self.max_iter + 1):
            for m in range(len(Z)):
                Z[m] = problem.step_Z(m, U, W, Z)
            V = problem.step_V(U, W)
            U = problem.step_U(U, V, W, Z)
            W = problem.step_W(U, V, W, Z)
            before, value = value, problem.value(U, V, W, Z)
            history.append(value)
            self._report(iteration, value)
            if before - value <= self.tol * value:
                break
        return U, W, history

    def _fit_nothing(self, X: Any) -> None:
        super()._fit_nothing(X)
        self.n_iter_ = 1
        self._keep_history([])
