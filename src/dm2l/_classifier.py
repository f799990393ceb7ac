"""DM2L as an estimator: parameters, fits in memory and by blocks, and fitted attributes."""

from __future__ import annotations

import sys
import warnings
from dataclasses import KW_ONLY, dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags

from dm2l._fitting import SolverResult, Trainer, WarmStart
from dm2l._solvers.features import FITTED, Weights
from dm2l._solvers.problem import Solution
from dm2l._streaming import StreamingClassifier
from dm2l._utils.inputs import check_choice, check_count, check_number
from dm2l.labels._matrix import LabelMatrix, LearnableMask
from dm2l.pu import PositiveUnlabelledClassifier

if TYPE_CHECKING:  # loaded by the methods that need it
    from dm2l.outofcore import RowBlocks


_KERNELS = (
    *("linear", "rbf", "poly", "polynomial", "sigmoid", "laplacian", "cosine", "tanimoto"),
    "precomputed",
)


@dataclass(eq=False, repr=False, kw_only=True)
class DM2LParameters(PositiveUnlabelledClassifier):
    """Base of DM2L models and searches: the parameters that they share."""

    kernel: Any = "linear"
    degree: float = 3
    coef0: float = 1
    approximation: str | None = None
    n_components: int = 1000
    fit_intercept: bool = True
    discriminant: bool = True
    max_iter: int = 1000
    tol: float = 1e-5
    threshold: Any = None
    calibration: str | None = None
    coupling: str | None = "residual"
    cv: Any = 5
    missing_label: Any = np.nan
    missing_as: str | None = None
    class_prior: Any = None
    random_state: Any = None
    verbose: int = 0

    _follows_input = True
    _leaves_one_out = True

    def __sklearn_tags__(self) -> Tags:
        """Capabilities that scikit-learn asks about."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = not tags.input_tags.pairwise
        return tags


@dataclass(eq=False, repr=False)
class DM2LClassifier(DM2LParameters, StreamingClassifier):
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
        Ridge. "scale" is a start that follows the spread of the features: ``4 (sum_j s_j)^2 / d``
        with column deviations ``s_j``, or the variance in the feature space of a kernel.
    kernel : {"linear", "rbf", "poly", "sigmoid", "laplacian", "cosine", "tanimoto", \
"precomputed"} or callable, default="linear"
        "tanimoto" suits 0/1 columns. A callable gets two arrays of rows and returns the matrix
        between them, which must be positive semi-definite. "precomputed": ``X`` is that matrix.
    gamma : {"scale", "auto"} or float, default="scale"
        For rbf (``1 / (2 sigma^2)`` of the paper), poly, sigmoid, laplacian: "scale" is
        ``1 / (n_features * X.var())``, "auto" is ``1 / n_features``. For tanimoto both are 3.
    degree : float, default=3
        For poly.
    coef0 : float, default=1
        For poly and sigmoid.
    approximation : {None, "nystroem", "fourier"}, default=None
        Approximation of the kernel matrix by ``n_rows x n_components`` features, for many rows:
        "nystroem" uses kernels with some rows, drawn by randomly pivoted Cholesky, and takes any
        kernel; "fourier" uses random Fourier features, for rbf only.
    n_components : int, default=1000
        Features of the approximation.
    fit_intercept : bool, default=True
        Whether scores have an intercept, which is not penalised.
    local : bool, default=True
        False drops the nuclear norms altogether (masked ridge).
    discriminant : bool, default=True
        False drops the global norm: the paper's DM2L-Lo, which is convex.
    solver : {"lbfgs", "cccp", "published"}, default="lbfgs"
        Preconditioned quasi-Newton; the concave-convex procedure (Algorithm 1); or the few descent
        steps of the published results, see :meth:`published`.
    max_iter : int, default=1000
        Most iterations.
    tol : float, default=1e-5
        How far above its minimum the objective may end, relative and as estimated by the solver;
        for ``solver="cccp"`` the relative change that counts as none.
    threshold : None, float or "f1", default=None
        Where :meth:`predict` draws the line.
    calibration : {None, "sigmoid", "isotonic"}, default=None
        Calibrate :meth:`predict_proba` on cross-fitted scores.
    coupling : {None, "residual", "joint"}, default="residual"
        How :meth:`complete` uses the known labels of a row: not at all; by label correlation,
        learnt after the fit from leave-one-out scores; or learnt jointly with the weights, which
        improves predictions of new rows too and needs all rows in memory. Fits by blocks keep a
        sample of up to 20,000 rows for it. See :doc:`/guide/imputing`.
    cv : int or splitter, default=5
        Folds for ``calibration``, ``threshold="f1"`` and :meth:`find_label_errors`.
    missing_label : scalar, default=nan
        Value that marks a missing label.
    missing_as : {None, "missing", "negative", "unlabelled"}, default=None
        Meaning of an entry that is not stored in a sparse ``Y`` of positives only. "unlabelled",
        for a dense ``Y`` too: positive-unlabelled data, see :doc:`/guide/positive-unlabelled`.
    class_prior : float or array-like of shape (n_labels,), default=None
        Share of positives of the labels, with ``missing_as="unlabelled"``; None: estimated, see
        :func:`dm2l.pu.estimate_class_prior`.
    warm_start : bool, default=False
        Start from the previous solution if it has the right shape.
    strategy : {"auto", "memory", "statistics", "passes"}, default="auto"
        Rows are held in memory, read once for sufficient statistics, or read twice for every
        evaluation. "auto" takes the cheapest that fits into memory. The result is the same, up to
        rounding.
    max_memory : float, default=None
        Bytes that ``strategy="auto"`` may use; None: half of the free memory.
    random_state : int, RandomState or None, default=None
        For ``approximation``; the exact methods draw nothing.
    verbose : int, default=0
        Print progress to standard error.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Weights of the linear model.
    dual_coef_ : ndarray of shape (n_rows, n_labels)
        Weights of the kernel model on the rows ``X_fit_``, or on random Fourier features.
    approximation_error_ : float
        For "nystroem" the share of the trace of the kernel matrix that is left out, for "fourier"
        the root mean square error of its entries.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts.
    classes_ : ndarray of shape (n_labels, 2) or (n_classes,)
        Both classes of every label; the classes of a 1-D ``y``.
    label_names_ : ndarray of object
        Names of the label columns.
    thresholds_ : ndarray of shape (n_labels,)
        Cutoffs of the scores in :meth:`predict`.
    label_covariance_ : LabelCovariance
        Covariance of what the features leave unexplained, with ``coupling``.
    class_prior_, class_prior_error_ : ndarray of shape (n_labels,)
        Share of positives, given or estimated, and its standard error, with
        ``missing_as="unlabelled"``.
    objective_ : float
        The exact objective at the solution.
    objective_history_ : ndarray
        The exact objective at the start and after each iteration.
    n_iter_ : int
        Iterations taken.
    n_evaluations_ : int
        Evaluations of the objective.
    statistics_ : GramStatistics
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
    """

    lambda_d: float = 0.3
    alpha: float | str = "scale"
    _: KW_ONLY
    gamma: float | str = "scale"
    local: bool = True
    solver: str = "lbfgs"
    warm_start: bool = False
    strategy: str = "auto"
    max_memory: float | None = None

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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.coupling == "joint" and self.solver == "published":
            raise ValueError("solver='published' is that of the paper: it has no coupling='joint'.")
        check_choice("strategy", self.strategy, "auto", "memory", "statistics", "passes")
        if self.max_memory is not None:
            check_number("max_memory", self.max_memory, positive=True)
        check_number("lambda_d", self.lambda_d)
        check_number("tol", self.tol)
        check_number("alpha", self.alpha, words=("scale",))
        check_count("max_iter", self.max_iter)
        check_number("gamma", self.gamma, positive=True, words=("scale", "auto"))
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

    # -- fitting --------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        label_mask: Any = None,
        *,
        sample_weight: Any = None,
        label_weight: Any = None,
    ) -> Self:
        """Fit to labels with missing entries.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or RowBlocks
            Inputs; no missing values. Or a source of row blocks with their labels, for more rows
            than memory holds: see :class:`dm2l.outofcore.RowBlocks`.
        y : array-like, data frame or signed CSR of shape (n_samples, n_labels), or 1-D
            The labels ``Y``: ``0/1``, ``bool`` or ``-1/+1`` with NaN (or ``missing_label``) where
            they are missing; or one class per row. None with a source, which has its own.
        label_mask : array-like of bool of the shape of ``y``, default=None
            True where a label may be used. What stands under False is never read.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, >= 0: 2 is the row twice. See :doc:`/guide/weights`.
        label_weight : array-like or sparse matrix of the shape of ``y``, default=None
            Weights of the entries, >= 0, multiplied by those of their rows: 0 is a missing label.

        Returns
        -------
        self
            The fitted estimator.
        """
        blocks = sys.modules.get("dm2l.outofcore")  # loaded if there are any
        if blocks is None or not isinstance(X, blocks.RowBlocks):
            return self._fit_arrays(X, y, label_mask, sample_weight, label_weight)
        if not (y is label_mask is sample_weight is label_weight is None):
            raise ValueError("Row blocks bring their labels: pass no Y, mask or weights.")
        self._check_parameters()
        if self.missing_as == "unlabelled":
            raise ValueError("missing_as='unlabelled' needs X and Y as arrays, not row blocks.")
        return self._fit_source(X)

    def _learn(self, X: Any, labels: LabelMatrix) -> SolverResult:
        trainer, strategy = Trainer.of(self), self.strategy
        last = self._last() if self.warm_start else None
        if self.missing_as == "unlabelled" and strategy not in ("auto", "memory"):
            raise ValueError(f"strategy={strategy!r}: {trainer.needs_rows}.")
        if strategy == "auto":
            # Statistics do not pay for fewer rows than this.
            many = X.shape[0] > X.shape[1] * labels.signs.shape[1]
            strategy = self._strategy_in_memory(X, labels) if many else "memory"
        if strategy == "memory":
            return self._keep_result(trainer.fit(X, labels, last), stacklevel=5)
        from dm2l.outofcore._fits import fit_arrays

        if labels.kind != "multilabel":
            trainer = replace(trainer, coupling=None)
        T, entries = labels.signs, labels.entries
        rows = None if entries is None else entries.rows_only(T, f"strategy={strategy!r}")
        return self._keep_result(fit_arrays(trainer, X, T, strategy, last, rows), stacklevel=5)

    def _strategy_in_memory(self, X: Any, labels: LabelMatrix) -> str:
        """Statistics for dense float64 rows, if there are very many; else memory."""
        plain = isinstance(X, np.ndarray) and X.dtype == np.float64 and labels.entries is None
        if not plain or self.kernel != "linear" or self.solver != "lbfgs" or self.warm_start:
            return "memory"
        from dm2l.outofcore._fits import choose_strategy

        n, d = X.shape
        return choose_strategy(n, d, labels.n_labels, at_hand=True, max_memory=self.max_memory)

    def _for_folds(self) -> Self:
        bare = super()._for_folds()
        bare.strategy = "memory"
        return bare

    def _fit_source(self, source: RowBlocks) -> Self:
        from dm2l.outofcore._fits import collect, fit_source, source_strategy

        source.check_marks(self.missing_label, self.missing_as)
        first = source.first()
        self._check_X(first.X[:1], reset=True)
        if source.feature_names is not None:
            self.feature_names_in_ = source.feature_names
        trainer, last = self._block_trainer(source.labels), self._last()
        strategy = source_strategy(
            trainer, source, self.strategy, self.max_memory, self._needs_rows()
        )
        if strategy != "memory":
            result = fit_source(trainer, source, first, strategy, last)
            self._set_label_attributes(source.labels)
            return self._keep_without_rows(result, stacklevel=4)
        X, T, entries = collect(source)
        labels = replace(source.labels, signs=T, entries=entries)
        self._set_label_attributes(labels)
        result = self._keep_result(Trainer.of(self).fit(X, labels, last), stacklevel=4)
        self._completer = self._fit_completer(X, labels, result)
        return self

    def _last(self) -> WarmStart | None:
        """Weights of the last fit, if a warm start is wanted."""
        name = "coef_" if self.kernel == "linear" else "dual_coef_"
        if not self.warm_start or not hasattr(self, name):
            return None
        return WarmStart(self.coef_.T if name == "coef_" else self.dual_coef_, self.intercept_)

    def _keep_result(self, result: SolverResult, *, stacklevel: int) -> SolverResult:
        """Set fitted attributes, and warn about solutions that are not one."""
        # Also delete what another kernel needed in an earlier fit.
        for name, value in zip(FITTED, result.weights, strict=True):
            if value is not None:
                setattr(self, name, value)
            elif hasattr(self, name):
                delattr(self, name)
        self._statistics: Any = result.statistics
        self._learnable, self._constant, self._keep = result.mask
        if self.missing_as == "unlabelled":
            self._keep_prior(result.prior)
        solution = result.solution
        if solution is None:  # constant labels, and nothing to minimise
            solution = Solution(None, 0.0, n_iter=1, converged=True, history=[0.0])
        if not solution.converged:
            warnings.warn(
                f"{self.solver} stopped after {solution.n_iter} iterations (max_iter="
                f"{self.max_iter}) before the objective settled to tol={self.tol}. Raise max_iter, "
                "or scale the features.",
                ConvergenceWarning,
                stacklevel=stacklevel,
            )
        if not solution.objective >= -1e-6:
            warnings.warn(
                f"The objective fell to {solution.objective:.3g}: over all rows it has no lower "
                "bound. Lower lambda_d, or use solver='lbfgs', whose objective has one.",
                ConvergenceWarning,
                stacklevel=stacklevel,
            )
        self.n_iter_ = solution.n_iter
        self.n_evaluations_ = solution.n_evaluations
        self.objective_ = solution.objective
        self.objective_history_ = np.array(solution.history)
        return result

    # -- predicting -----------------------------------------------------------------------------

    def _score_labels(self, X: Any) -> Any:
        mask = LearnableMask(self._learnable, self._constant, self._keep)
        weights = Weights(*map(getattr, repeat(self), FITTED, repeat(None)))
        scores = weights.scores(X, mask)
        return self._corrected(scores) if self.missing_as == "unlabelled" else scores
