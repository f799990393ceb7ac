"""GLOCAL: latent labels with global and local label correlations."""

import warnings
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from dm2l._base import FitResult
from dm2l._solvers.features import Features, LinearMap
from dm2l._solvers.problem import solve_by_cg
from dm2l._utils.arrays import check_finite
from dm2l._utils.inputs import check_counts, check_numbers
from dm2l.baselines._linear import Array, IterativeBaseline, weighted_grams
from dm2l.labels._entries import EntryWeights, Signs
from dm2l.labels._matrix import LabelMatrix

STEPS = 60  # gradient steps per round for the correlations of a group, as in the released code


class Glocal:
    """The objective of :class:`GLOCALClassifier`, and its minimum over each block of variables."""

    # With B_m = W' (lambda2 n_m/n X'X + lambda1 X_m'X_m) W, the last term of the objective is the
    # sum of tr(Z_m' U B_m U' Z_m) / 2. It is omitted if Z is an empty list. ``weights`` are the
    # lambdas of the formula.

    def __init__(
        self,
        features: Features,
        T: Signs,
        groups: NDArray[np.intp],
        weights: tuple[float, ...],
        entries: EntryWeights | None = None,
    ) -> None:
        self.features = features
        self.T = T.astype(np.float64)
        self.observed = (T != 0).astype(np.float64)
        self._complete = bool((T != 0).all()) and entries is None
        # A row of weight w has the same effect as w equal rows.
        rows: Any = None
        self._divisor: Any = 1.0
        if entries is not None:
            self.observed, rows = np.asarray(entries.weights), entries.rows
            self.T = self.observed * self.T
            self._divisor = np.where(self.observed > 0, self.observed, 1.0)
        self._rows = np.ones((len(T), 1)) if rows is None else rows[:, None]
        self.lam, self.lam1, self.lam2, self.lam3, self.lam4, self.lam5 = weights
        self.gram = features.gram(weights=rows)
        self.penalty = features.penalized
        self.metrics = []  # lambda2 n_m/n X'X + lambda1 X_m'X_m of each group
        for m in np.unique(groups):
            members = np.flatnonzero(groups == m)
            share = self.lam2 * float(self._rows[members].sum()) / float(self._rows.sum())
            own = features.gram(members, None if rows is None else rows[members])
            self.metrics.append(share * self.gram + self.lam1 * own)
        # In this basis, X'X and the ridge penalty are diagonal, and their scaled sum is 1.
        self._trace = float(np.trace(self.gram)) or 1.0
        self._unit = self._trace / len(self.gram)
        balanced = np.diag(self._unit * self.penalty)
        self._share, self._basis = scipy.linalg.eigh(balanced, self.gram + balanced)

    def value(self, U: Array, V: Array, W: Array, Z: list[Array]) -> float:
        missed = self.observed * (V @ U.T) - self.T
        apart = V - self.features.scores(W)
        total = 0.5 * float(np.vdot(missed, missed / self._divisor))
        total += 0.5 * self.lam * float(np.vdot(apart, self._rows * apart))
        sizes = float(np.vdot(V, self._rows * V)), float(np.vdot(U, U))
        total += 0.5 * self.lam3 * sizes[0] + 0.5 * self.lam4 * sizes[1]
        total += 0.5 * self.lam5 * float(np.vdot(W, self.penalty[:, None] * W))
        for B, Zm in zip(self._middles(W, Z), Z, strict=True):
            inner = Zm.T @ U
            total += 0.5 * float(np.vdot(inner, inner @ B))
        return total

    def settled(self, before: float, value: float, tol: float) -> bool:
        """Return whether a round reduced the objective by at most ``tol`` times its value."""
        return before - value <= tol * value

    def _middles(self, W: Array, Z: list[Array]) -> list[Array]:
        """Return each group's matrix ``W'MW``, or an empty list if there are no correlations."""
        return [W.T @ (metric @ W) for metric in self.metrics[: len(Z)]]

    def _curve_U(self, U: Array, V: Array, middles: list[Array], Z: list[Array]) -> Array:
        total = (self.observed * (V @ U.T)).T @ V + self.lam4 * U
        for B, Zm in zip(middles, Z, strict=True):
            total += Zm @ ((Zm.T @ U) @ B)
        return total

    def _sides(self, U: Array, Z: list[Array]) -> list[Array]:
        """Return ``U' Z_m Z_m' U`` of each group."""
        return [(inner := Zm.T @ U).T @ inner for Zm in Z]

    def _curve_W(self, W: Array, sides: list[Array]) -> Array:
        total = self.lam * (self.gram @ W) + self.lam5 * self.penalty[:, None] * W
        for metric, side in zip(self.metrics, sides, strict=False):
            total += metric @ (W @ side)
        return np.asarray(total)

    def step_U(self, U: Array, V: Array, W: Array, Z: list[Array]) -> Array:
        """Minimize over ``U``, exactly or, with label correlations, by conjugate gradients."""
        middles = self._middles(W, Z)
        blocks = weighted_grams(V, self.observed[:, :1] if self._complete else self.observed)
        blocks += self.lam4 * np.eye(V.shape[1])
        right = self.T.T @ V
        if not Z:
            return _solve_blocks(blocks, right)
        blocks += sum(middles)  # since rows of Z_m have length one
        inverse = np.linalg.inv(blocks)
        product = partial(self._curve_U, V=V, middles=middles, Z=Z)
        return solve_by_cg(product, right, U, 1e-8, lambda R: (inverse @ R[:, :, None])[:, :, 0])

    def step_V(self, U: Array, V: Array, W: Array) -> Array:
        """Minimize over ``V`` in blocks of rows, because each row has its own k x k matrix."""
        right = self.T @ U + self.lam * (self._rows * self.features.scores(W))
        ridge = (self.lam + self.lam3) * np.eye(U.shape[1])
        if self._complete:
            return _solve_blocks(weighted_grams(U, self.observed.T[:, :1]) + ridge, right)
        found = np.empty_like(right)
        size = max(1, int(4e6 // U.shape[1] ** 2))
        for start in range(0, len(right), size):
            rows = slice(start, start + size)
            blocks = weighted_grams(U, self.observed[rows].T)
            found[rows] = _solve_blocks(blocks + self._rows[rows, :, None] * ridge, right[rows])
        return found

    def step_W(self, U: Array, V: Array, W: Array, Z: list[Array]) -> Array:
        """Minimize over ``W``, by ridge or, with label correlations, by conjugate gradients."""
        sides = self._sides(U, Z)
        N = self.lam * np.eye(U.shape[1])
        for side, metric in zip(sides, self.metrics, strict=False):
            N += np.trace(metric) / self._trace * side
        check_finite(N, "Label correlations")
        height, turn = np.linalg.eigh(N)
        ridge = (self.lam5 / self._unit) * self._share[:, None]
        scale = np.maximum(np.outer(1.0 - self._share, height) + ridge, np.finfo(float).tiny)

        def precondition(R: Array) -> Array:
            return np.asarray(self._basis @ ((self._basis.T @ R @ turn) / scale) @ turn.T)

        right = self.lam * self.features.adjoint(self._rows * V)
        if not Z:
            return precondition(right)
        return solve_by_cg(partial(self._curve_W, sides=sides), right, W, 1e-8, precondition)

    def step_Z(self, m: int, U: Array, W: Array, Z: list[Array], n_steps: int = STEPS) -> Array:
        """Take projected gradient steps for ``Z_m`` that never raise the objective."""
        # With C = U B_m U' and D the diagonal of its absolute row sums, D - C is positive
        # semidefinite. Normalizing the rows of (D - C) Z therefore never raises the objective.
        half = self._middles(W, Z)[m] @ U.T
        rows = range(0, len(U), 1000)
        bound = np.concatenate([np.abs(U[i : i + 1000] @ half).sum(axis=1) for i in rows])[:, None]
        now = Z[m]
        for _ in range(n_steps):
            moved = bound * now - U @ (half @ now)
            length = np.linalg.norm(moved, axis=1, keepdims=True)
            now = np.where(length > 1e-300, moved / np.maximum(length, 1e-300), now)
        return np.asarray(now)


def _solve_blocks(blocks: Array, right: Array) -> Array:
    if len(blocks) == 1:
        return np.asarray(np.linalg.solve(blocks[0], right.T).T)
    return np.asarray(np.linalg.solve(blocks, right[:, :, None])[:, :, 0])


def unit_rows(A: Array) -> Array:
    return np.asarray(A / np.maximum(np.linalg.norm(A, axis=1, keepdims=True), 1e-300))


@dataclass(eq=False, repr=False)
class GLOCALClassifier(IterativeBaseline):
    r"""Linear classifier with latent labels and global and local label correlations (GLOCAL).

    .. math:: \min_{U,V,W,Z} \tfrac12 \|R_\Omega(VU') - \tilde Y\|_F^2
              + \tfrac{\lambda}{2} \|V - XW\|_F^2
              + \tfrac{\lambda_3}{2} \|V\|_F^2 + \tfrac{\lambda_4}{2} \|U\|_F^2
              + \tfrac{\lambda_5}{2} \|W\|_F^2 + \tfrac12 \sum_m \bigl(
              \lambda_2 \tfrac{n_m}{n} \|Z_m' U W' X'\|_F^2
              + \lambda_1 \|Z_m' U W' X_m'\|_F^2 \bigr)

    The product of latent labels ``V`` and label factors ``U`` approximates the observed labels. A
    linear model predicts ``V``, so that scores are ``X W U'``. The groups of rows ``X_m`` are found
    by k-means. ``Z_m Z_m'`` is the Laplacian of the label correlations in a group; the rows of
    ``Z_m`` have length one. With ``o`` observed entries, the parameters are multiplied
    by factors: ``lambda_`` and ``lambda3`` by ``o / (kn)``, ``lambda1`` by ``o g^2 / n^2``,
    ``lambda2`` by ``o / n^2``, ``lambda4`` by ``o / (kc)`` and ``lambda5`` by ``o / (kd)``.

    Parameters
    ----------
    lambda_ : float, default=1
        Weight of the error of predicting the latent labels from the features.
    lambda1, lambda2 : float, default=1e-5, 1e-3
        Weights of the local and of the global label correlations.
    lambda3, lambda4, lambda5 : float, default=0.125, 0.125, 1
        Ridge penalties of ``V``, ``U`` and ``W``; ``lambda5`` has the largest effect.
    n_components, n_groups : int, default=20, 3
        Number ``k`` of latent labels (at most the number of labels), and number ``g`` of groups.
    max_iter : int, default=15
        Maximum number of rounds, first without and then again with label correlations.
    tol : float, default=1e-3
        Iterations stop when a round reduces the objective by at most this share of its value.
    random_state : int, RandomState or None, default=None
        Seed of the random start and of the groups.
    fit_intercept, threshold, calibration, coupling, rules, cv, missing_label, missing_as, verbose
        As in :class:`dm2l.baselines.LEMLClassifier`.

    Attributes
    ----------
    coef_, intercept_, objective_, objective_history_, n_iter_, classes_, label_names_, thresholds_
        As in :class:`dm2l.DM2LClassifier`; an iteration is a round with label correlations.

    References
    ----------
    Y. Zhu, J. T. Kwok and Z.-H. Zhou, "Multi-Label Learning with Global and Local Label
    Correlation", IEEE Transactions on Knowledge and Data Engineering 30 (6), 2018.

    Examples
    --------
    >>> from dm2l.baselines import GLOCALClassifier
    >>> from dm2l.datasets import make_missing_multilabel
    >>> X, Y = make_missing_multilabel(n_labels=5, random_state=0)
    >>> GLOCALClassifier(n_groups=1, random_state=0).fit(X, Y).predict(X[1:2])
    array([[0, 0, 1, 1, 0]])
    """

    lambda_: float = 1.0
    lambda1: float = 1e-5
    lambda2: float = 1e-3
    lambda3: float = 0.125
    lambda4: float = 0.125
    lambda5: float = 1.0
    _: KW_ONLY
    n_components: int = 20
    n_groups: int = 3
    max_iter: int = 15
    tol: float = 1e-3
    random_state: Any = None

    _blocks: ClassVar[type[Glocal]] = Glocal

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether ``fit`` was called; ``lambda_`` is not a fitted attribute."""
        return getattr(self, "coef_", None) is not None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_numbers(lambda1=self.lambda1, lambda2=self.lambda2)
        check_numbers(lambda_=self.lambda_, lambda3=self.lambda3, positive=True)
        check_numbers(lambda4=self.lambda4, lambda5=self.lambda5, positive=True)
        check_counts(n_components=self.n_components, n_groups=self.n_groups)

    def _fit_labels(self, X: Any, labels: LabelMatrix) -> FitResult:
        T, entries = labels.signs, labels.entries
        intercept = bool(self.fit_intercept)
        random = check_random_state(self.random_state)
        rows = None if entries is None else entries.rows
        groups = self._groups(X, random, rows)
        feature_map = LinearMap(intercept=intercept)
        features = Features(feature_map.fit(X), intercept).centre()
        k = min(int(self.n_components), T.shape[1])
        (n, c), d, g = T.shape, X.shape[1], len(np.unique(groups))
        weight: Any = T != 0 if entries is None else entries.weights
        o = float(weight.sum())
        size = float(n if rows is None else rows.sum())
        weights = (
            self.lambda_ * o / (k * size),
            self.lambda1 * o * g**2 / size**2,
            self.lambda2 * o / size**2,
            self.lambda3 * o / (size * k),
            self.lambda4 * o / (c * k),
            self.lambda5 * o / (d * k),
        )
        problem = self._blocks(features, T, groups, weights, entries)
        U, W, history = self._alternate(problem, k, random)
        coef, b = feature_map.on_inputs(features.to_original(W) @ U.T, intercept)
        return self._finish(X, history, coef, b)

    def _groups(self, X: Any, random: Any, rows: Array | None) -> NDArray[np.intp]:
        n_groups = min(int(self.n_groups), X.shape[0])
        if n_groups == 1 or not (self.lambda1 or self.lambda2):
            return np.zeros(X.shape[0], dtype=np.intp)
        if sp.issparse(X) and max(X.shape[1], X.nnz) < np.iinfo(np.int32).max:
            # k-means accepts 32-bit indices only.
            arrays = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
            X = sp.csr_array(arrays, shape=X.shape)
        means = KMeans(n_groups, n_init=1, random_state=random)
        with warnings.catch_warnings():
            # With fewer distinct rows than groups, k-means warns and finds fewer groups.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return np.asarray(means.fit_predict(X, sample_weight=rows), dtype=np.intp)

    def _alternate(self, problem: Glocal, k: int, random: Any) -> tuple[Array, Array, list[float]]:
        n, c = problem.T.shape
        U, V = random.uniform(size=(c, k)), random.uniform(size=(n, k))
        W = np.zeros((problem.features.size, k))
        Z: list[Array] = []
        value = np.inf
        for _ in range(self.max_iter):
            U = problem.step_U(U, V, W, Z)
            V = problem.step_V(U, V, W)
            W = problem.step_W(U, V, W, Z)
            before, value = value, problem.value(U, V, W, Z)
            if problem.settled(before, value, self.tol):
                break
        if self.lambda1 or self.lambda2:
            Z = [unit_rows(random.uniform(size=(c, k))) for _ in problem.metrics]
        history: list[float] = []
        value = np.inf
        for iteration in range(1, self.max_iter + 1):
            for m in range(len(Z)):
                Z[m] = problem.step_Z(m, U, W, Z)
            V = problem.step_V(U, V, W)
            U = problem.step_U(U, V, W, Z)
            W = problem.step_W(U, V, W, Z)
            before, value = value, problem.value(U, V, W, Z)
            history.append(value)
            self._report(iteration, value)
            if problem.settled(before, value, self.tol):
                break
        return U, W, history
