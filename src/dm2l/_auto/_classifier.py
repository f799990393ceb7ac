"""AutoClassifier: an ensemble of the library's models."""

import sys
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from dm2l._auto._base_models import EFFORTS, EnsembleContext, TimeBudget, rows_for, user_candidates
from dm2l._auto._columns import CategoryEncoder, FeatureEncoder
from dm2l._auto._leaderboard import cross_fitted, estimates, rate_log_odds, try_all, weigh
from dm2l._auto._stack import Bools, Floats, Stack, row_weights
from dm2l._base import CompletionClassifier, FitResult
from dm2l._solvers.features import column_variances
from dm2l._utils.arrays import check_magnitude, is_non_numpy, to_numpy
from dm2l._utils.files import available_memory
from dm2l._utils.html import YES, Bar, Cell, block, grid
from dm2l._utils.inputs import check_choice, check_numbers, explain_unsuitable
from dm2l.completion._errors import plain_probability
from dm2l.datasets import duplicate_groups
from dm2l.labels._matrix import LabelMatrix, LearnableMask
from dm2l.model_selection import label_folds

# Base models whose share of the total effect is below this value are left out of the stack.
NEGLIGIBLE = 0.02
# Seconds on one core for fitting the stack, per observed entry, and for learning label
# correlations, per cube of the number of labels (benchmarks/wide_table.py).
STACKING, CORRELATING = 1.6e-5, 2.3e-7
# Minimum number of rows for folds. With fewer rows, only a linear model is fitted.
FEWEST_ROWS = 6


@dataclass(eq=False, repr=False)
class AutoClassifier(CompletionClassifier):
    r"""Ensemble of the library's models, selected and weighted by cross-validation.

    Linear and kernel DM2L models, forests and boosted trees are cross-fitted. Model scores are
    calibrated and added with non-negative weights, which are fitted to out-of-fold scores. Label
    correlations for :meth:`complete` are estimated from residuals of out-of-fold probabilities.

    Parameters
    ----------
    effort : {"quick", "normal", "best"}, default="normal"
        "quick" fits the linear model and one kernel model. "normal" adds forests and boosted trees,
        and takes about 5 minutes on two cores for 10,000 rows and 30 labels. "best" fits more trees
        and uses more rows for hyperparameters and kernels. For wide sparse data, such as TF-IDF of
        texts, logistic regression replaces trees.
    time_limit : float, default=None
        Time limit in seconds. Models that would take longer are skipped, except the linear model.
    max_memory : float, default=None
        Memory limit in bytes; larger kernels are approximated. The default is 3/4 of free memory.
    categorical_features : array-like of str, int or bool, default=None
        Numeric columns to treat as categories. Columns of text are always categories.
    models : list of (str, estimator), default=None
        Further base models, which are cross-fitted on ``X``; see :doc:`/guide/own-models`. An
        estimator of another library is fitted once per label, to the rows where the label is
        observed. A :class:`dm2l.ScoreClassifier` uses out-of-fold scores of another model in
        ``columns`` of ``X``.
    coupling : {"residual", None}, default="residual"
        "residual": :meth:`complete` uses the known labels of a row, see :doc:`/guide/imputing`.
    rules : LabelRules, default=None
        Rules that the labels obey, as in :class:`dm2l.DM2LClassifier`.
    threshold : None, float, "f1", "f1_samples" or "subset_accuracy", default=None
        Decision threshold of :meth:`predict` for scores ``2 p - 1``.
    cv : int, splitter or iterable of splits, default=None
        Folds for out-of-fold scores; None means 3 for "quick", else 5. With ``groups`` of a
        :class:`dm2l.model_selection.MultilabelKFold`, rows of large groups have smaller weights.
    n_jobs : int, default=None
        Number of processes that fit the labels of forests, as in joblib.
    missing_label, missing_as, random_state
        As in :class:`dm2l.DM2LClassifier`.
    verbose : int, default=0
        If positive, print progress and the estimated remaining time to standard error.

    Attributes
    ----------
    leaderboard_ : dict of list
        Table of the models and their stack, with a list for each column: out-of-fold quality,
        weight, gain of the stack due to the model, seconds to fit, and a note.
    estimate_ : dict of Interval
        Out-of-fold ``label_auc``, ``log_loss`` and ``brier`` of the stack, with a 95 % prediction
        interval for as many new rows as a fold has.
    label_quality_ : dict
        Counts, AUC with a 95 % confidence interval, average precision and log loss of each label.
    held_out_, held_out_folds_ : ndarray
        Out-of-fold probabilities (n_rows, n_labels), and the fold of each row. Rows without a fold
        have NaN and -1.
    models_ : dict
        Fitted models by name: the linear model, and all other models with a positive weight.
    stack_ : Stack
        Calibration and weights of the models.
    classes_, label_names_, thresholds_, n_features_in_, feature_names_in_, label_covariance_
        As in :class:`dm2l.DM2LClassifier`.

    See Also
    --------
    dm2l.DM2LClassifierCV : Grid search over the hyperparameters of one model.

    Notes
    -----
    For linear and kernel models, NaN in ``X`` is imputed by the median, and indicator columns are
    added. Columns of 0 and 1 are not scaled. Other columns are standardized, and clipped at 10
    robust standard deviations. Sparse columns with values above 10 are divided by their largest
    value. If a sparse ``X`` of mostly 0 and 1 has 20 or more dense columns, trees use only these
    columns.

    Examples
    --------
    >>> from dm2l import AutoClassifier
    >>> from dm2l.datasets import make_missing_multilabel
    >>> X, Y = make_missing_multilabel(n_samples=200, random_state=0)
    >>> model = AutoClassifier(effort="quick", random_state=0).fit(X, Y)
    >>> model.leaderboard_["model"]
    ['linear', 'rbf kernel', 'stack']
    """

    _calibrated = True

    effort: str = "normal"
    _: KW_ONLY
    time_limit: float | None = None
    max_memory: float | None = None
    categorical_features: Any = None
    models: Any = None
    coupling: str | None = "residual"
    cv: Any = None
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("effort", self.effort, *EFFORTS)
        for name in ("time_limit", "max_memory"):
            if getattr(self, name) is not None:
                check_numbers(**{name: getattr(self, name)}, positive=True)

    def _check_X(self, X: Any, *, reset: bool = False) -> Any:
        """Check ``X`` and encode its columns as numbers, with NaN for missing values."""
        if not reset:
            check_is_fitted(self)
        X = to_numpy(X) if is_non_numpy(X) else X
        finite: Any = {"ensure_all_finite": "allow-nan"}
        kinds = finite | {"accept_sparse": "csr", "dtype": np.float64}
        if hasattr(X, "iloc") and hasattr(X, "columns"):
            validate_data(self, X, skip_check_array=True, reset=reset)
        else:
            with explain_unsuitable(X, nan_allowed=True):
                X = validate_data(self, X, reset=reset, **kinds)
        if sp.issparse(X) and np.isnan(X.data).any():
            raise ValueError(
                "A sparse X must not contain NaN. Impute missing values, or pass a dense X."
            )
        if sp.issparse(X) and X.indptr.dtype != np.int32 and X.nnz < 2**31:  # trees require int32
            narrow = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
            X = sp.csr_array(narrow, shape=X.shape)
        if sp.issparse(X) and not X.has_sorted_indices:  # sorted once, instead of once per label
            X = X.sorted_indices()
        if reset:
            if sp.issparse(X):  # before arrays with a value for each column
                check_magnitude(X, getattr(self, "feature_names_in_", None))
            self._home = "numpy"
            self._columns = CategoryEncoder.of(X, self.categorical_features)
        coded = self._columns.encode(X)
        if coded is not X:
            with explain_unsuitable(coded, nan_allowed=True):
                coded = check_array(coded, **finite)
        if reset and not sp.issparse(X):
            coded_or_zero = np.nan_to_num(coded) if np.isnan(coded).any() else coded
            check_magnitude(coded_or_zero, getattr(self, "feature_names_in_", None))
        return coded

    def _learn(self, X: Any, labels: LabelMatrix, budget: TimeBudget | None = None) -> FitResult:
        mask = LearnableMask.of(labels.signs, labels.entries)
        self._learnable, self._constant, self._keep = mask
        if not mask.learnable.any():
            self.models_: dict[str, Any] = {}
            self._inputs: dict[str, str] = {}
            self.leaderboard_: dict[str, list[Any]] = {"model": []}
            return FitResult()
        keep, folds = mask.keep, []
        if keep.sum() >= FEWEST_ROWS:
            cv = min(EFFORTS[self.effort].folds, keep.sum()) if self.cv is None else self.cv
            place = np.cumsum(keep) - 1
            folds = [
                (place[train[keep[train]]], place[test[keep[test]]])
                for train, test in label_folds(cv, X, labels.signs[:, mask.learnable])
            ]
        signs, (X, labels) = labels.signs[keep], mask.apply(X, labels)
        T, entries = labels.signs, labels.entries
        levels = np.array([len(v) if v is not None else 0 for v in self._columns.categories])
        self._features = FeatureEncoder.of(X, levels.astype(np.intp))
        report = partial(print, "[DM2L auto]", file=sys.stderr)
        weights = None if entries is None else entries.weights
        groups = getattr(self.cv, "groups", None) if folds else None
        if groups is not None:
            groups = duplicate_groups(X) if isinstance(groups, str) else np.asarray(groups)[keep]
            of_rows = np.broadcast_to(row_weights(groups)[:, None], T.shape)
            weights = of_rows if weights is None else of_rows * weights
        context = EnsembleContext(
            X=X,
            F=self._features.transform(X),
            bits=self._features.bits,
            numbers=self._features.numbers,
            T=T,
            entries=entries,
            folds=folds,
            weights=weights,
            effort=EFFORTS[self.effort],
            budget=budget or TimeBudget(self.time_limit, report if self.verbose else None),
            max_memory=float(self.max_memory or 0.75 * available_memory(2**31)),
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            n_jobs=self.n_jobs,
            models=user_candidates(self.models, mask.learnable, self.n_jobs),
        )
        eta, scored = self._fit_ensemble(context)
        unseen = np.where(scored, 2 * expit(eta) - 1, np.nan)
        # Estimates include all labels, because new rows may contain both classes of any label.
        found = rate_log_odds(signs, context.fold)
        found[:, mask.learnable] = eta
        measured = estimates(found, signs, context.fold, self.label_names_, mask.learnable)
        self.estimate_, self.label_quality_ = measured
        self.held_out_ = np.full((len(keep), len(mask.learnable)), np.nan)
        self.held_out_[keep] = expit(found)
        self.held_out_folds_ = np.full(len(keep), -1)
        self.held_out_folds_[keep] = context.fold
        return FitResult(leave_one_out_scores=mask.spread(unseen), out_of_fold=True)

    def _fit_ensemble(self, context: EnsembleContext) -> tuple[Floats, Bools]:
        """Fit models and a stack; return out-of-fold log-odds, and a mask of scored entries."""
        T, budget, fold, weights = context.T, context.budget, context.fold, context.weights
        stacking, correlating = STACKING * np.count_nonzero(T), CORRELATING * T.shape[1] ** 3
        budget.planned += stacking + correlating
        budget.reserved = stacking + correlating
        tried, scores, board = try_all(context)
        shares = np.array([model.shares for model in tried])
        budget.report("weighting the models")
        eta = np.full(T.shape, np.nan)
        if len(context.folds) > 1:
            eta, prior = weigh(board, context, scores, shares)
            stack = Stack.fit(scores, T, shares, weights, prior)
            share = stack.effects / max(stack.effects.sum(), 1e-300)
            keep = (share >= NEGLIGIBLE) | (share == share.max())
        else:
            stack, keep, prior = Stack.plain(T.shape[1]), np.ones(1, dtype=bool), None
        budget.step = stacking
        budget.advance()
        budget.step = (budget.ahead - correlating) / max(keep.sum(), 1)
        failed = context.fit_to_all_rows(tried, keep)
        if failed:
            keep[list(failed)] = False
            if not keep.any():
                raise next(iter(failed.values()))
        if not keep.all():
            prior = prior[keep] if prior is not None and prior[keep].any() else None
            stack = Stack.fit(scores[keep], T, shares[keep], weights, prior)
        if failed:
            eta = cross_fitted(scores[keep], T, shares[keep], fold, weights, prior)
        if len(context.folds) > 1:
            weight = np.zeros(len(keep))
            weight[keep] = stack.common / max(stack.common.sum(), 1e-300)
            board["weight"][: len(weight)] = weight.tolist()
        for place, error in failed.items():
            board["note"][place] = f"failed when fitted to all rows: {error}"
        stacked = [model for model, stays in zip(tried, keep, strict=True) if stays]
        # The linear model is always kept, since explanations of predictions use it.
        kept = list(dict.fromkeys([tried[0], *stacked]))
        levels = [np.broadcast_to(model.level, T.shape[1]) for model in stacked]
        self.stack_ = replace(stack, centre=stack.centre + np.stack(levels))
        self._inputs = {model.name: model.inputs for model in stacked}
        self.models_ = {model.name: model.model for model in kept}
        self.leaderboard_ = board
        if self.coupling is not None:
            budget.report("learning label correlations")
        return eta, np.asarray(np.isfinite(scores).all(axis=0))

    def _column_weights(self, X: Any) -> Floats:
        """Return the change (c, d) of the linear score per standard deviation of each column."""
        # A categorical column has the effect of the category with the largest effect. Labels that
        # could not be learned have the effect 0.
        X = self._check_X(X)
        F = self._features.transform(X)
        slopes = to_numpy(self.models_["linear"].coef_) * np.sqrt(column_variances(F))
        if slopes.shape[1] == X.shape[1]:
            return slopes
        source = self._features.sources()
        result = np.zeros((len(self._learnable), X.shape[1]))
        for j in range(X.shape[1]):
            mine = slopes[:, source == j]
            if mine.shape[1]:
                strongest = np.abs(mine).argmax(axis=1)
                result[self._learnable, j] = mine[np.arange(len(mine)), strongest]
        return result

    def _cross_fit(self, X: Any, labels: LabelMatrix) -> Floats:
        # For training rows, the out-of-fold scores from the fit are used.
        rows, own = self._completer.training_rows, to_numpy(self._all_scores(X))
        return own if rows is None else rows.hold_out(X, labels.signs, own)

    def _repr_html_inner(self) -> str:
        """Return scikit-learn's diagram and, after a fit, the leaderboard and the label quality."""
        diagram = super()._repr_html_inner()
        board = getattr(self, "leaderboard_", {})
        if "weight" not in board:
            return diagram
        of_models = ("model", "CV AUC", "log-loss", "weight", "seconds", "share")
        of_labels = ("label", "yes", "no", "CV AUC", "average precision", "AUC above chance")
        rows: list[list[Cell]] = []
        columns = ("model", "label_auc", "log_loss", "weight", "seconds", "note")
        for *cells, note in zip(*(board[name] for name in columns), strict=True):
            share = 0.0 if note or cells[0] == "stack" else cells[3]
            rows.append([*cells, note or Bar(((share, YES),), f"{share:.0%}")])
        quality = self.label_quality_
        names = ("label", "positives", "negatives", "auc", "average_precision")
        labels: list[list[Cell]] = []
        for name, yes, no, auc, precision in zip(*(quality[key] for key in names), strict=True):
            above = max(2 * auc - 1, 0.0)  # a bar of length zero means chance level
            bar = Bar(((above, YES),), "AUC from 0.5 (chance) to 1")
            labels.append([name, int(yes), int(no), float(auc), float(precision), bar])
        return diagram + block("Cross-validation", grid(of_models, rows), grid(of_labels, labels))

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        found: dict[str, str] = super()._repr_mimebundle_(**options)
        return found | ({"text/html": self._repr_html_inner()} if "text/html" in found else {})

    def _on_own_scale(self, scores: Floats) -> Floats:
        return 2 * plain_probability(scores) - 1

    def _score_labels(self, X: Any) -> Floats:
        return np.tanh(0.5 * self._log_odds(X))

    def _label_answers(self, X: Any) -> tuple[Floats, Floats]:
        eta = self._log_odds(X)
        return np.tanh(0.5 * eta), np.asarray(expit(eta))

    def _log_odds(self, X: Any) -> Floats:
        F = self._features.transform(X)
        scores = []
        for name, inputs in self._inputs.items():
            rows = rows_for(inputs, X, F, self._features.numbers)
            scores.append(to_numpy(self.models_[name]._all_scores(rows)))
        return self.stack_.log_odds(np.stack(scores))
