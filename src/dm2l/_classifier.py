"""The DM2L estimator: parameters, fits in memory or by blocks of rows, and attributes."""

from __future__ import annotations

import sys
import warnings
from dataclasses import KW_ONLY, dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dm2l._base import CompletionClassifier
from dm2l._fitting import SolverResult, Trainer
from dm2l._solvers.features import FITTED, Weights
from dm2l._solvers.problem import Solution
from dm2l._streaming import StreamingClassifier
from dm2l._utils.inputs import check_choice, check_counts, check_numbers
from dm2l.labels._matrix import LabelMatrix, LearnableMask
from dm2l.pu import PositiveUnlabelledClassifier

if TYPE_CHECKING:  # methods import it when they need it
    from dm2l.outofcore import RowBlocks


_KERNELS = (
    *("linear", "rbf", "poly", "polynomial", "sigmoid", "laplacian", "cosine", "tanimoto"),
    "precomputed",
)


@dataclass(eq=False, repr=False, kw_only=True)
class DM2LParameters(PositiveUnlabelledClassifier, CompletionClassifier):
    """Parameters shared by DM2L models and their grid search."""

    kernel: Any = "linear"
    degree: float = 3
    coef0: float = 1
    approximation: str | None = None
    n_components: int = 1000
    fit_intercept: bool = True
    discriminant: bool = True
    max_iter: int = 1000
    tol: float = 1e-5
    calibration: str | None = None
    coupling: str | None = "residual"
    class_prior: Any = None
    random_state: Any = None
    verbose: int = 0

    _follows_input = True
    _leaves_one_out = True


@dataclass(eq=False, repr=False)
class DM2LClassifier(DM2LParameters, StreamingClassifier):
    r"""Discriminant multi-label learning with missing labels.

    The model minimizes the following objective over the weights ``W`` and the intercepts ``b`` of
    the scores ``F = Phi W + 1 b'``:

    .. math:: \tfrac12 \|R_\Omega(F) - \tilde Y\|_F^2 + \tfrac{\alpha}{2} \|W\|_F^2
              + \lambda_d \Bigl(\sum_k \|F_k\|_* - \|F_C\|_*\Bigr)

    Here ``R_Omega`` keeps the observed entries, ``F_k`` are the scores of the rows whose label
    ``k`` is an observed positive, and ``F_C`` are the scores of all rows with an observed positive.
    The norms of ``F_k`` lower the rank of the scores of rows that share a label (local shrinking).
    The norm of ``F_C`` keeps the rank of the scores ``F_C`` high (global expanding).

    Parameters
    ----------
    lambda_d : float, default=0.3
        Weight of the nuclear norms. 0 gives masked ridge.
    alpha : float or "scale", default="scale"
        Weight of the ridge penalty. For linear models, "scale" means ``4 (sum_j s_j)^2 / d`` with
        the standard deviations ``s_j`` of the ``d`` columns. For kernels, "scale" means the total
        variance in the feature space.
    kernel : {"linear", "rbf", "poly", "sigmoid", "laplacian", "cosine", "tanimoto", \
"precomputed"} or callable, default="linear"
        Kernel function. "tanimoto" is for columns of 0 and 1. With "precomputed", ``X`` is the
        kernel matrix. A callable gets two arrays of rows and returns their kernel matrix, which
        must be positive semidefinite.
    gamma : {"scale", "auto"} or float, default="scale"
        Parameter of the rbf kernel (``1 / (2 sigma^2)`` of the paper), and of poly, sigmoid,
        laplacian and tanimoto. "scale" is ``1 / (n_features * X.var())`` and "auto" is
        ``1 / n_features``; for tanimoto both are 3.
    degree : float, default=3
        Degree of the poly kernel.
    coef0 : float, default=1
        Constant of the poly and sigmoid kernels.
    approximation : {None, "nystroem", "fourier"}, default=None
        Approximation of the kernel by ``n_components`` features, for many rows. "nystroem" supports
        any kernel and uses training rows drawn by randomly pivoted Cholesky. "fourier" uses random
        Fourier features and only supports rbf.
    n_components : int, default=1000
        Number of features of the approximation.
    fit_intercept : bool, default=True
        Whether scores have an intercept, which is not penalized.
    local : bool, default=True
        False removes all nuclear norms, which gives masked ridge.
    discriminant : bool, default=True
        False removes the global norm, which gives the convex DM2L-Lo of the paper.
    solver : {"lbfgs", "cccp", "published"}, default="lbfgs"
        "lbfgs" is a preconditioned quasi-Newton method. "cccp" is the concave-convex procedure of
        the paper. "published" is the solver of the published results, see :meth:`published`.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-5
        Tolerance of the relative difference between the objective and its minimum, as estimated by
        the solver. With ``solver="cccp"``, limit of the objective's relative change per iteration.
    threshold : None, float, "f1", "f1_samples" or "subset_accuracy", default=None
        Cutoff of the scores in :meth:`predict`.
    calibration : {None, "sigmoid", "isotonic"}, default=None
        Calibration of :meth:`predict_proba` on out-of-fold scores.
    coupling : {None, "residual", "joint"}, default="residual"
        How :meth:`complete` uses the known labels of a row. With None, known labels are not used.
        "residual" estimates label correlations from leave-one-out scores after the fit. Fits by
        blocks use a sample of up to 20,000 rows. "joint" estimates label correlations together with
        the weights, needs all rows in memory, and also improves predictions for new rows. See
        :doc:`/guide/imputing`.
    rules : LabelRules, default=None
        Rules that the labels obey, such as "snake implies reptile". Probabilities and predictions
        then obey the rules, and :meth:`complete` fills in labels that follow from known labels.
        Rules contain column names of a data frame; for arrays, pass ``label_names`` to
        :class:`dm2l.LabelRules`. See :doc:`/guide/rules`.
    cv : int or splitter, default=5
        Folds for ``calibration``, ``threshold="f1"`` and :meth:`find_label_errors`.
    missing_label : scalar, default=nan
        Value that marks a missing label.
    missing_as : {None, "missing", "negative", "unlabelled"}, default=None
        Meaning of the entries that are not stored in a sparse ``Y`` of positives. "unlabelled"
        means positive-unlabelled data and can also be used for a dense ``Y``; see
        :doc:`/guide/positive-unlabelled`.
    class_prior : float or array-like of shape (n_labels,), default=None
        For ``missing_as="unlabelled"``, the share of rows in which each label is positive. If None,
        it is estimated by :func:`dm2l.pu.estimate_class_prior`.
    warm_start : bool, default=False
        Whether to start from the previous solution if it has the right shape.
    strategy : {"auto", "memory", "statistics", "passes"}, default="auto"
        "memory" keeps all rows in memory. "statistics" reads rows once for sufficient statistics.
        "passes" reads rows twice for every evaluation of the objective. "auto" selects the fastest
        strategy that fits into memory; for arrays, it is "memory", unless "statistics" is much
        faster. All strategies give the same results up to rounding.
    max_memory : float, default=None
        Memory in bytes that ``strategy="auto"`` may use. The default is half of the free memory.
    random_state : int, RandomState or None, default=None
        Seed of ``approximation``. Exact models use no random numbers.
    verbose : int, default=0
        Whether to print progress to standard error.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Weights of the linear model.
    dual_coef_ : ndarray of shape (n_rows, n_labels)
        Weights of the kernel model on the rows ``X_fit_``, or on random Fourier features.
    approximation_error_ : float
        For "nystroem", the share of the trace of the kernel matrix that is lost. For "fourier", the
        root mean square error of the entries of the kernel matrix.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts.
    classes_ : ndarray of shape (n_labels, 2) or (n_classes,)
        Both classes of every label, or the classes of a 1-D ``y``.
    label_names_ : ndarray of object
        Names of the label columns.
    thresholds_ : ndarray of shape (n_labels,)
        Cutoffs of the scores in :meth:`predict`.
    label_covariance_ : LabelCovariance
        Covariance of the labels given the features, with ``coupling``.
    class_prior_, class_prior_error_ : ndarray of shape (n_labels,)
        Given or estimated share of positives of each label, and its standard error, with
        ``missing_as="unlabelled"``.
    objective_ : float
        The exact objective at the solution.
    objective_history_ : ndarray
        The exact objective at the start and after each iteration.
    n_iter_ : int
        Number of iterations.
    n_evaluations_ : int
        Number of evaluations of the objective.
    statistics_ : GramStatistics
        Sufficient statistics of all rows, after :meth:`partial_fit` or a fit with
        ``strategy="statistics"``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, if ``X`` had names.

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
        """Return DM2L-l or DM2L-nl with the hyperparameters of the published experiments.

        The model has no ridge and no intercept, starts at the identity matrix, and has a global
        term over all rows. The linear model takes 24 steepest-descent steps, the kernel model at
        most 9 rounds of conjugate gradients, with the subgradients of Algorithm 2. Unlike the
        released code, neither of the two models reads hidden labels.

        Parameters
        ----------
        kernel : {"linear", "rbf"}, default="linear"
            "linear" gives DM2L-l and "rbf" gives DM2L-nl.
        lambda_d : float, default=1e-5
            Weight of the nuclear norms, the only hyperparameter in the paper.
        sigma : float, default=1.0
            Width of the Gaussian kernel, ``gamma = 1 / (2 sigma^2)``.
        **others
            Further parameters of the estimator.

        Returns
        -------
        DM2LClassifier
            An estimator that is not fitted.

        Examples
        --------
        >>> from dm2l import DM2LClassifier
        >>> DM2LClassifier.published().max_iter
        24
        """
        settings: dict[str, Any] = {
            "alpha": 0.0,
            "gamma": 1 / (2 * sigma**2),
            "fit_intercept": False,
            "solver": "published",
            "max_iter": 24 if kernel == "linear" else 9,
        }
        return cls(lambda_d, kernel=kernel, **(settings | others))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.coupling == "joint" and self.solver == "published":
            what = "solver='published' does not support coupling='joint'."
            raise ValueError(f"{what} Use coupling='residual', or another solver.")
        check_choice("strategy", self.strategy, "auto", "memory", "statistics", "passes")
        if self.max_memory is not None:
            check_numbers(max_memory=self.max_memory, positive=True)
        check_numbers(lambda_d=self.lambda_d, tol=self.tol)
        check_counts(max_iter=self.max_iter, n_components=self.n_components)
        check_numbers(alpha=self.alpha, words=("scale",))
        check_numbers(gamma=self.gamma, positive=True, words=("scale", "auto"))
        if not callable(self.kernel) and self.kernel not in _KERNELS:
            raise ValueError(
                f"kernel must be a callable or one of {', '.join(_KERNELS)}, got {self.kernel!r}."
            )
        check_choice("solver", self.solver, "lbfgs", "cccp", "published")
        if self.approximation is None:
            return
        check_choice("approximation", self.approximation, "nystroem", "fourier")
        named = self.kernel if isinstance(self.kernel, str) else "callable"
        if named == "linear" or (self.approximation == "fourier" and named != "rbf"):
            wanted = "kernel='rbf'" if self.approximation == "fourier" else "a nonlinear kernel"
            raise ValueError(
                f"approximation={self.approximation!r} needs {wanted}, got kernel={named!r}."
            )
        if self.solver == "published":
            what = "solver='published' does not support approximation."
            raise ValueError(f"{what} Use approximation=None, or another solver.")

    def fit(
        self,
        X: Any,
        y: Any = None,
        label_mask: Any = None,
        *,
        sample_weight: Any = None,
        label_weight: Any = None,
    ) -> Self:
        """Fit the model to labels with missing entries.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or RowBlocks
            Features without missing values. For data that do not fit into memory, pass blocks of
            rows with labels, see :class:`dm2l.outofcore.RowBlocks`.
        y : array-like, data frame or signed CSR of shape (n_samples, n_labels), or 1-D
            Labels ``0/1``, ``bool`` or ``-1/+1``, with NaN (or ``missing_label``) where a label is
            missing. A 1-D ``y`` contains the class of each row. None if ``X`` is RowBlocks.
        label_mask : array-like of bool of the shape of ``y``, default=None
            True where a label may be used. Other entries are never read.
        sample_weight : array-like of shape (n_samples,), default=None
            Nonnegative weights of the rows. A weight of 2 has the effect of repeating the row. See
            :doc:`/guide/weights`.
        label_weight : array-like or sparse matrix of the shape of ``y``, default=None
            Nonnegative weights of the entries, which are multiplied by the weights of the rows. An
            entry of weight 0 counts as missing.

        Returns
        -------
        self
            The fitted estimator.
        """
        blocks = sys.modules.get("dm2l.outofcore")  # None if X cannot be RowBlocks
        if blocks is None or not isinstance(X, blocks.RowBlocks):
            return self._fit_arrays(X, y, label_mask, (sample_weight, label_weight))
        if not (y is label_mask is sample_weight is label_weight is None):
            raise ValueError(
                "X is RowBlocks, which contain labels, masks and weights. Pass only X to fit."
            )
        self._check_parameters()
        if self.missing_as == "unlabelled":
            raise ValueError(
                "missing_as='unlabelled' does not support RowBlocks. Pass X and y as arrays."
            )
        return self._fit_source(X)

    def _learn(self, X: Any, labels: LabelMatrix) -> SolverResult:
        trainer, strategy = Trainer.of(self), self.strategy
        last = self._last() if self.warm_start else None
        if self.missing_as == "unlabelled" and strategy not in ("auto", "memory"):
            raise ValueError(f"strategy={strategy!r}: {trainer.needs_rows}.")
        if strategy == "auto":
            # Sufficient statistics are faster only with very many dense float64 rows.
            strategy, (n, d), c = "memory", X.shape, labels.signs.shape[1]
            plain = isinstance(X, np.ndarray) and X.dtype == np.float64 and labels.entries is None
            linear = self.kernel == "linear" and self.solver == "lbfgs" and not self.warm_start
            if plain and linear and n > d * c:
                from dm2l.outofcore._fits import choose_strategy

                strategy = choose_strategy(n, d, c, at_hand=True, max_memory=self.max_memory)
        if strategy == "memory":
            return self._keep_result(trainer.fit(X, labels, last), stacklevel=5)
        from dm2l.outofcore._fits import fit_arrays

        if labels.kind != "multilabel":
            trainer = replace(trainer, coupling=None)
        T, entries = labels.signs, labels.entries
        rows = None if entries is None else entries.rows_only(T, f"strategy={strategy!r}")
        return self._keep_result(fit_arrays(trainer, X, T, strategy, last, rows), stacklevel=5)

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
        limits = self.strategy, self.max_memory, self._needs_rows()
        strategy = source_strategy(trainer, source, *limits)
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

    def _last(self) -> Weights | None:
        """Return the weights of the previous fit for a warm start, or None."""
        fitted = hasattr(self, "coef_" if self.kernel == "linear" else "dual_coef_")
        weights = Weights(*map(getattr, repeat(self), FITTED, repeat(None)))
        return weights if self.warm_start and fitted else None

    def _keep_result(self, result: SolverResult, *, stacklevel: int) -> SolverResult:
        """Set fitted attributes, and warn if the solver did not converge."""
        # Attributes of an earlier fit with another kernel are deleted.
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
        if solution is None:  # no label is learnable
            solution = Solution(None, 0.0, [0.0])
        if not solution.converged:
            warnings.warn(
                f"{self.solver} did not converge to tol={self.tol} in {solution.n_iter} iterations "
                f"(max_iter={self.max_iter}). Raise max_iter, or scale the features.",
                ConvergenceWarning,
                stacklevel=stacklevel,
            )
        if not solution.objective >= -1e-6:
            warnings.warn(
                f"With solver={self.solver!r}, the objective has no lower bound, and its value is "
                f"{solution.objective:.3g}. Lower lambda_d, or use solver='lbfgs'.",
                ConvergenceWarning,
                stacklevel=stacklevel,
            )
        self.n_iter_ = solution.n_iter
        self.n_evaluations_ = solution.n_evaluations
        self.objective_ = solution.objective
        self.objective_history_ = np.array(solution.history)
        return result

    def _score_labels(self, X: Any) -> Any:
        mask = LearnableMask(self._learnable, self._constant, self._keep)
        weights = Weights(*map(getattr, repeat(self), FITTED, repeat(None)))
        scores = weights.scores(X, mask)
        return self._corrected(scores) if self.missing_as == "unlabelled" else scores
