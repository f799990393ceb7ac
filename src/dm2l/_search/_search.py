"""DM2LClassifierCV: selection of hyperparameters by cross-validation."""

import itertools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import partial, wraps
from numbers import Integral
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.parallel import Parallel, delayed

from dm2l._base import fold_inputs
from dm2l._classifier import DM2LClassifier, DM2LParameters
from dm2l._fitting import SAFE_KERNELS, Trainer
from dm2l._search._path import score_paths
from dm2l._solvers.features import ridge_value
from dm2l._utils.arrays import checked_numbers, is_non_numpy
from dm2l._utils.inputs import check_counts, check_numbers
from dm2l.labels._entries import Mask, Signs
from dm2l.labels._matrix import LabelMatrix
from dm2l.model_selection import check_pu_scoring, get_scorer_names, label_folds, selection_score

LAMBDAS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
RIDGES = (1 / 30, 0.1, 1 / 3, 1.0, 3.0)  # for the linear model, these are multiplied by ridge_value

Folds = list[tuple[NDArray[np.intp], NDArray[np.intp]]]
Scores = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class DM2LClassifierCV(DM2LParameters):
    """DM2L with ``lambda_d``, ``alpha`` and ``gamma`` chosen by cross-validation.

    Fits on the same rows share features and factorizations, and start from the solution for the
    previous ``lambda_d``. Folds and scores use observed labels only.

    Parameters
    ----------
    lambda_ds : sequence of float, default=None
        Weights of the nuclear norms to try. By default, 0 (masked ridge) and ten values from 0.01
        to 10.
    alphas : sequence of float, default=None
        Ridge penalties to try. By default, 1/30, 1/10, 1/3, 1 and 3. For the linear model, the
        defaults are multiplied by the number that ``alpha="scale"`` stands for.
    gammas : sequence of float or "scale", default=None
        Kernel parameters to try. By default, "scale". Ignored for linear and precomputed kernels.
    kernel, degree, coef0, approximation, n_components, fit_intercept, discriminant, max_iter, tol
        As in :class:`DM2LClassifier`; ``max_iter`` and ``tol`` apply to the final fit.
    search_tol : float, default=1e-3
        Relative tolerance of the objective for fits during the search.
    search_iter : int, default=5
        Maximum number of iterations per increase of ``lambda_d`` by a factor of 10 in the search.
    scoring : str or callable, default=None
        One of :func:`dm2l.model_selection.get_scorer_names`, or a function of labels (NaN where
        missing) and scores that returns larger values for better scores. The default is
        "ranking_and_discrimination", or "label_discrimination" if rows without missing labels would
        have on average less than one positive or less than one negative. The default is
        "neg_ranking_loss" with ``missing_as="unlabelled"``.
    cv : int, splitter or iterable of splits, default=5
        Folds. An integer is the number of folds of :class:`dm2l.model_selection.MultilabelKFold`.
    n_jobs : int, default=None
        Number of processes for folds and gammas, as in joblib. Ignored for torch or cupy arrays.
    refit : bool, default=True
        Whether to fit a model with the best hyperparameters to all rows.
    threshold, calibration, coupling, rules, missing_label, missing_as, class_prior, random_state, \
verbose
        As in :class:`DM2LClassifier`.

    Attributes
    ----------
    lambda_d_, alpha_, gamma_ : float
        The best hyperparameters. ``gamma_`` is None for kernels without this parameter.
    best_params_, best_index_, best_score_, best_estimator_, cv_results_, n_splits_
        As in :class:`sklearn.model_selection.GridSearchCV`, but ``mean_fit_time`` excludes
        computations that are shared by several fits.

    See Also
    --------
    DM2LClassifier : The model with fixed hyperparameters.

    Examples
    --------
    >>> from dm2l import DM2LClassifierCV
    >>> from dm2l.datasets import make_missing_multilabel
    >>> X, Y = make_missing_multilabel(n_samples=200, random_state=0)[:2]
    >>> search = DM2LClassifierCV(lambda_ds=[0.0, 0.1, 1.0], alphas=[1.0, 10.0], cv=3).fit(X, Y)
    >>> len(search.cv_results_["params"])
    6
    """

    lambda_ds: Sequence[float] | None = None
    alphas: Sequence[float] | None = None
    gammas: Sequence[float | str] | None = None
    _: KW_ONLY
    search_tol: float = 1e-3
    search_iter: int = 5
    scoring: Any = None
    n_jobs: int | None = None
    refit: bool = True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_numbers(search_tol=self.search_tol)
        check_counts(search_iter=self.search_iter)
        self._model({})._check_parameters()
        for name in ("lambda_ds", "alphas", "gammas"):
            values = getattr(self, name)
            if values is not None and (np.ndim(values) != 1 or not len(values)):
                raise ValueError(
                    f"{name} must be None or a 1-D sequence with at least one value, got "
                    f"{values!r}."
                )
            for value in () if values is None else values:
                words = ("scale", "auto") if name == "gammas" else ()
                check_numbers(**{f"each of {name}": value}, words=words)
        if not callable(self.scoring) and self.scoring not in (None, *get_scorer_names()):
            raise ValueError(
                f"scoring must be None, a function or one of {', '.join(get_scorer_names())}, "
                f"got {self.scoring!r}."
            )
        if self.missing_as == "unlabelled" and isinstance(self.scoring, str):
            check_pu_scoring(self.scoring)
        if self.n_jobs is not None and (not isinstance(self.n_jobs, Integral) or not self.n_jobs):
            raise ValueError(f"n_jobs must be None or a non-zero integer, got {self.n_jobs!r}.")

    def _model(self, params: dict[str, Any], **others: Any) -> DM2LClassifier:
        """Return a DM2LClassifier with ``params`` and the parameters of the search."""
        shared = {field.name: getattr(self, field.name) for field in fields(DM2LParameters)}
        return DM2LClassifier(**(shared | {"verbose": 0} | params | others))

    def _fit_arrays(
        self, X: Any, y: Any, label_mask: Any = None, weights: Any = (None, None), **learning: Any
    ) -> Self:
        self._check_parameters()
        if hasattr(self, "best_estimator_"):
            del self.best_estimator_
        checked, given = self._read(X, y, label_mask, *weights)
        unlabelled = self.missing_as == "unlabelled"
        labels = self._without_unlabelled(given) if unlabelled else given
        with checked_numbers(checked):
            folds = self._search(checked, labels)
        if self.refit:
            # An iterable of splits may be a generator, which is now exhausted.
            once = not (isinstance(self.cv, Integral) or hasattr(self.cv, "split"))
            again = {"cv": folds} if once else {}
            self.best_estimator_: Any = self._model(self.best_params_, **again).fit(X, given)
        else:
            labels.warn_constant(stacklevel=4)
        return self

    def _search(self, X: Any, labels: LabelMatrix) -> Folds:
        """Score the whole grid and return the folds."""
        T = labels.signs
        n_rows = int((T != 0).any(axis=1).sum())
        if n_rows < 2:
            what = f"A search needs at least 2 rows with observed labels, got n_samples={n_rows}."
            raise ValueError(f"{what} Use DM2LClassifier to fit without a search.")
        folds = label_folds(self.cv, X, T)
        lambdas = [float(v) for v in (LAMBDAS if self.lambda_ds is None else self.lambda_ds)]
        if self.alphas is not None:
            alphas = [float(alpha) for alpha in self.alphas]
        else:
            weights = None if labels.entries is None else labels.entries.rows
            scale = ridge_value("scale", X, weights) if self.kernel == "linear" else 1.0
            alphas = [scale * share for share in RIDGES]
        gammas: list[Any] = [None]
        if not (self.kernel in ("linear", "precomputed", "cosine") or callable(self.kernel)):
            gammas = ["scale"] if self.gammas is None else list(self.gammas)
        found = []  # scores and seconds
        start, total = time.perf_counter(), len(gammas) * len(folds)
        for done, path in enumerate(self._paths(X, labels, folds, gammas, alphas, lambdas), 1):
            found.append(path)
            if self.verbose:
                passed = time.perf_counter() - start
                left = passed / done * (total - done)
                progress = f"{done} of {total} folds, {passed:.1f} s, about {left:.0f} s left"
                sys.stderr.write(f"[DM2L search] {progress}\n")
        self.n_splits_ = len(folds)
        grid = []
        for gamma, alpha, lambda_d in itertools.product(gammas, alphas, lambdas):
            chosen = {"lambda_d": lambda_d, "alpha": alpha}
            grid.append(chosen if gamma is None else chosen | {"gamma": gamma})
        values = np.reshape(found, (len(gammas), len(folds), 2, -1))
        table, times = (values[:, :, k].swapaxes(1, 2).reshape(len(grid), -1) for k in range(2))
        learnable = bool(((T > 0).any(axis=0) & (T < 0).any(axis=0)).any())
        self._report_results(grid, table, times.mean(axis=1), learnable)
        return folds

    def _metric(self, T: Signs) -> Callable[..., float]:
        """Return the metric as a function of a LabelMatrix and scores; larger values are better."""
        scoring = self.scoring
        if callable(scoring):

            @wraps(scoring)
            def on_arrays(labels: LabelMatrix, *given: Any, **options: Any) -> Any:
                return scoring(np.asarray(labels), *given, **options)

            return on_arrays
        if scoring is None:
            scoring = usual_scoring(T > 0, T < 0, unlabelled=self.missing_as == "unlabelled")
        return partial(selection_score, scoring)

    def _paths(
        self, X: Any, labels: LabelMatrix, folds: Folds, gammas: list[Any], *grid: list[float]
    ) -> Iterator[tuple[Scores, Scores]]:
        """Yield per gamma and fold the scores and fitting times of all alphas and lambda_ds."""
        metric = self._metric(labels.signs)
        jobs = 1 if is_non_numpy(X) else self.n_jobs
        scratch: NDArray[Any] | None = None
        for gamma in gammas:
            limits = {"tol": self.search_tol, "max_iter": self.search_iter}
            fitting = Trainer.of(self._model({} if gamma is None else {"gamma": gamma}, **limits))
            inputs, safe = X, fitting.kernel in SAFE_KERNELS
            direct = fitting.kernel in ("linear", "precomputed")
            if not direct and self.approximation is None:
                # All folds share one kernel matrix.
                weights = None if labels.entries is None else labels.entries.rows
                inputs = fitting.kernel_for(X, weights)(X, X)
                fitting = replace(fitting, kernel="precomputed")
            pairwise = fitting.kernel == "precomputed"
            if pairwise and type(inputs) is np.ndarray and effective_n_jobs(jobs) == 1:
                # Folds reuse one block of memory, because allocating memory is slower than copying.
                most = max(len(train) for train, _ in folds)
                scratch = np.empty(most**2, inputs.dtype) if scratch is None else scratch
            tasks = (
                delayed(score_paths)(
                    fitting,
                    fold_inputs(inputs, *fold, pairwise, scratch),
                    [labels[rows] for rows in fold],
                    metric,
                    *grid,
                    safe=safe,
                )
                for fold in folds
            )
            yield from Parallel(n_jobs=jobs, return_as="generator", pre_dispatch="n_jobs")(tasks)

    def _report_results(
        self, grid: list[dict[str, Any]], table: Scores, seconds: Scores, learnable: bool
    ) -> None:
        """Store the results of the grid, with one column per fold, and the best candidate."""
        defined = table[:, ~np.isnan(table).all(axis=0)]
        if not defined.size:
            if learnable:
                raise ValueError(
                    f"scoring={self.scoring!r} is undefined on every fold, because too few labels "
                    "are observed in the test rows. Use fewer folds or another metric."
                )
            defined = np.zeros_like(table)  # with constant labels, all candidates are equally good
        if np.isnan(defined).any(axis=1).all():
            what = f"scoring={self.scoring!r} is NaN on some folds for every candidate."
            raise ValueError(f"{what} Use a metric that is defined on every fold.")
        mean = defined.mean(axis=1)  # a candidate with NaN on a fold ranks last
        losses = np.where(np.isnan(mean), np.inf, -mean)
        results: dict[str, Any] = {"params": grid}
        for name in grid[0]:
            values = [s[name] for s in grid]
            mixed = len({type(value) for value in values}) > 1  # "scale" and numbers
            results[f"param_{name}"] = np.array(values, dtype=object if mixed else None)
        results |= {f"split{i}_test_score": column for i, column in enumerate(table.T)}
        results |= {
            "mean_test_score": mean,
            "std_test_score": defined.std(axis=1),
            "rank_test_score": rankdata(losses, method="min").astype(np.int32),
            "mean_fit_time": seconds,
        }
        self.cv_results_ = results
        self.best_index_ = int(np.argmin(losses))
        self.best_score_ = float(mean[self.best_index_])
        self.best_params_ = grid[self.best_index_]
        self.lambda_d_ = self.best_params_["lambda_d"]
        self.alpha_ = self.best_params_["alpha"]
        self.gamma_ = self.best_params_.get("gamma")

    def _check_fitted(self) -> None:
        if hasattr(self, "cv_results_") and not hasattr(self, "best_estimator_"):
            raise NotFittedError(
                "This search has no fitted model, because refit=False. Pass refit=True, or fit "
                "DM2LClassifier(**search.best_params_)."
            )
        super()._check_fitted()

    def __getattr__(self, name: str) -> Any:
        """Return a fitted attribute of the best estimator."""
        fitted = "_" in (name[0], name[-1]) and not name.startswith("__")
        if fitted and name != "best_estimator_" and hasattr(self, "best_estimator_"):
            return getattr(self.best_estimator_, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _cross_fit(self, X: Any, labels: LabelMatrix) -> NDArray[np.float64]:
        return self.best_estimator_._cross_fit(X, labels)

    def _score_labels(self, X: Any) -> Any:
        return self.best_estimator_._score_labels(X)


def search_stage(
    search: DM2LClassifierCV,
    ridge: DM2LClassifierCV | None = None,
    alphas: Sequence[float] | None = None,
) -> DM2LClassifierCV:
    """Return a ridge search (``lambda_d=0``) or, given its result, a search over ``lambda_d``."""
    if ridge is None:
        stage: dict[str, Any] = {"lambda_ds": (0.0,), "refit": False}
    else:
        gammas = None if ridge.gamma_ is None else (ridge.gamma_,)
        stage = {"kernel": ridge.kernel, "gammas": gammas, "alphas": alphas}
    return clone(search).set_params(**stage)


def usual_scoring(positive: Mask, negative: Mask, *, unlabelled: bool = False) -> str:
    """Return the default metric; it depends on how many positives and negatives rows have."""
    if unlabelled:
        return "neg_ranking_loss" if positive.shape[1] > 1 else "label_auc"
    yes, no = positive.sum(axis=0), negative.sum(axis=0)
    share = yes / np.maximum(yes + no, 1)
    in_rows = share.sum() >= 1 and (1 - share[yes + no > 0]).sum() >= 1
    return "ranking_and_discrimination" if in_rows else "label_discrimination"
