"""GLOCAL: latent labels with global and local label correlations."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from dm2l._solvers.features import Features
from dm2l._solvers.kernels._linear import LinearMap
from dm2l.baselines._glocal_blocks import Glocal, ReleasedGlocal, unit_rows
from dm2l.baselines._linear import IterativeBaseline
from dm2l.labels._entries import EntryWeights, Signs

Array = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class GLOCALClassifier(IterativeBaseline):
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

    Every block is brought to its exact minimum in turn. The released code takes up to sixty
    steepest-descent steps instead, on a cost that does not belong to its gradient;
    ``published=True`` does so too, in several times the time. On Arts the two give about the same
    figures.

    Parameters
    ----------
    lambda_ : float, default=1
        How closely the inputs have to predict the latent labels.
    lambda1, lambda2 : float, default=1e-5, 1e-3
        Weights of the local and of the global label correlations.
    lambda3, lambda4 : float, default=0.125
        Ridge on ``V`` and on ``U``.
    lambda5 : float, default=1
        Ridge on ``W``, which matters most. The authors' setting for Arts is 0.125; 1 ranks better
        there and on most other sets.
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
    published : bool, default=False
        Whether to step as the released code does. All rounds are then taken, the objective may
        rise, and rounding shows: another order of summation, as for a sparse ``X``, moves scores in
        the second digit.
    random_state : int, RandomState or None, default=None
        For the start and the groups.
    coupling : {None, "residual"}, default=None
        What :meth:`complete` makes of the known labels of a row, see :doc:`/coupling`;
        "residual" fits ``cv`` more models.
    threshold, calibration, cv, missing_label, missing_as, verbose
        As in :class:`dm2l.DM2LClassifier`.

    Attributes
    ----------
    objective_history_ : ndarray
        The objective after each round with label correlations; it never rises unless
        ``published``.
    coef_, intercept_, objective_, n_iter_, classes_, label_names_, thresholds_, n_features_in_
        As in :class:`dm2l.DM2LClassifier`; iterations are rounds with label correlations.

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

    lambda_: float = 1.0
    lambda1: float = 1e-5
    lambda2: float = 1e-3
    lambda3: float = 0.125
    lambda4: float = 0.125
    lambda5: float = 1.0
    _: KW_ONLY
    n_components: int = 20
    n_groups: int = 3
    fit_intercept: bool = True
    max_iter: int = 15
    tol: float = 1e-3
    published: bool = False
    random_state: Any = None

    def __sklearn_is_fitted__(self) -> bool:
        """The parameter ``lambda_`` only looks like something that was fitted."""
        return hasattr(self, "coef_")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_numbers("lambda1", "lambda2", "tol")
        self._check_numbers("lambda_", "lambda3", "lambda4", "lambda5", positive=True)
        self._check_counts("n_components", "n_groups", "max_iter")

    def _fit_labels(self, X: Any, T: Signs, entries: EntryWeights | None = None) -> None:
        if entries is not None and self.published:
            raise ValueError("published=True is the released code, which knows no weights.")
        intercept = bool(self.fit_intercept)
        random = check_random_state(self.random_state)
        rows = None if entries is None else entries.rows
        groups = self._groups(X, random, rows)
        feature_map = LinearMap(intercept=intercept)
        features = Features(feature_map.fit(X), intercept).centre()
        k = min(int(self.n_components), T.shape[1])
        M = (T != 0).astype(np.float64) if entries is None else entries.weights
        size = float(len(T)) if rows is None else float(rows.sum())
        weights = self._weights(X.shape[1], M, size, k, len(np.unique(groups)))
        blocks = ReleasedGlocal if self.published else Glocal
        problem = blocks(features, T, groups, weights, entries)
        U, W, history = self._alternate(problem, k, random)
        self._keep_history(history)
        self._store(X, *feature_map.on_inputs(features.to_original(W) @ U.T, intercept))

    def _groups(
        self, X: Any, random: np.random.RandomState, rows: Array | None
    ) -> NDArray[np.intp]:
        n_groups = min(int(self.n_groups), X.shape[0])
        if n_groups == 1 or not (self.lambda1 or self.lambda2):
            return np.zeros(X.shape[0], dtype=np.intp)
        if sp.issparse(X) and max(X.shape[1], X.nnz) < np.iinfo(np.int32).max:
            # k-means takes 32-bit indices only.
            parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
            X = sp.csr_array(parts, shape=X.shape)
        means = KMeans(n_groups, n_init=1, random_state=random)
        with warnings.catch_warnings():
            # Fewer distinct rows than groups: then there are fewer groups, which is fine.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return np.asarray(means.fit_predict(X, sample_weight=rows), dtype=np.intp)

    def _weights(self, d: int, M: Any, n: float, k: int, g: int) -> tuple[float, ...]:
        """The weights of terms as they stand in the objective, for entries that weigh ``M``."""
        c, o = M.shape[1], float(M.sum())
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
            V = problem.step_V(U, V, W)
            W = problem.step_W(U, V, W, Z)
            before, value = value, problem.value(U, V, W, Z)
            if before - value <= self.tol * value and not self.published:
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
            if before - value <= self.tol * value and not self.published:
                break
        return U, W, history
