"""One estimator that tries the library's models and combines them."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from dm2l._auto._columns import Columns
from dm2l._auto._effort import EFFORTS, TimeBudget, bytes_free, to_stderr
from dm2l._auto._features import Features
from dm2l._auto._groups import says
from dm2l._auto._leaderboard import add_gains, try_all
from dm2l._auto._parts import EnsembleContext, Part
from dm2l._auto._quality import brier, cross_fitted, label_auc, label_table, log_loss, on_new_rows
from dm2l._auto._stack import Stack
from dm2l._base import MissingLabelClassifier
from dm2l._utils.arrays import check_magnitude, is_non_numpy, to_numpy
from dm2l._utils.parameters import check_choice
from dm2l.datasets import duplicate_groups
from dm2l.labels._entries import EntryWeights, Signs

Floats = NDArray[np.float64]

# Share of the weights below which a part is left out of the stack.
NEGLIGIBLE = 0.02
# Seconds of one core for an observed entry of the stack, and for labels cubed where they couple
# (benchmarks/wide_table.py: 617 labels).
WEIGHED, COUPLED = 1.6e-5, 2.3e-7
# Rows below which nothing can be held out: the linear model at its usual settings answers alone.
FEWEST_ROWS = 6


@dataclass(eq=False, repr=False)
class AutoClassifier(MissingLabelClassifier):
    r"""The library's models, tried, weighted and combined within a given time.

    Linear and kernel DM2L (rbf, Laplacian; Tanimoto for 0/1 columns; Nystroem where rows are
    many), forests and boosted trees on the observed rows of each label are fitted in folds. Their
    held-out scores are calibrated label by label and added with weights that are not negative
    ; what the stack leaves unexplained is coupled between the labels of a
    row. So :meth:`predict_proba` is calibrated, and :meth:`complete` goes by the known labels.

    Parameters
    ----------
    effort : {"quick", "normal", "best"}, default="normal"
        "quick" has the linear model and one kernel; "normal" adds trees and takes about as long as
        a few forests of 500 trees a label; "best" tries more kernels, rows and trees.
    time_limit : float, default=None
        Seconds. Parts that would not be done in time are left out, the first (the linear model)
        never. Without a limit that binds, the same ``random_state`` gives the same model.
    memory : float, default=None
        Bytes to count on, which decide whether a kernel matrix is exact; None: three quarters of
        what is free.
    categorical_features : array-like of str, int or bool, default=None
        Columns that are categories although they hold numbers. Columns of text and of pandas'
        categories always are.
    coupling : {"residual", None}, default="residual"
        What :meth:`complete` makes of the known labels of a row, see :doc:`/coupling`.
    threshold : None, float or "f1", default=None
        Where :meth:`predict` draws the line; scores are ``2 p - 1``.
    cv : int, splitter or iterable of splits, default=None
        Folds of the held-out scores; None: 3 for "quick", else 5. Rows that belong together stay
        together with ``MultilabelKFold(5, groups="duplicates", random_state=0)``; large groups then
        count for less in the weights and curves of the stack, for new ones are asked about.
    n_jobs : int, default=None
        Processes that fit forests, a label each, as joblib counts them; boosting and BLAS have
        threads of their own.
    missing_label, missing_as
        As in :class:`dm2l.DM2LClassifier`.
    random_state : int, RandomState or None, default=None
        Of trees, samples and landmarks.
    verbose : int, default=0
        Print progress, time and remaining time to standard error.

    Attributes
    ----------
    leaderboard_ : dict of list
        A row for each part and one for the stack, as ``pandas.DataFrame`` takes it: ``model``,
        ``settings``, held-out ``label_auc`` and ``log_loss``, its ``weight``, how much the stack
        gains by it (``auc_gain``, ``log_loss_gain``), ``seconds``, and a ``note``.
    estimate_ : dict of Interval
        ``label_auc``, ``log_loss`` and ``brier`` of the stack on rows that neither its models nor
        its weights and curves have seen, and where the value of as many new rows as a fold has
        lies (95 %). Folds learn from fewer rows than the model that is left, and settings of the
        parts were chosen on a sample of all rows; one makes up for the other, about.
    label_quality_ : dict
        Of each label counts, AUC with an interval for its expectation (95 %), average precision
        and log-loss.
    held_out_ : ndarray of shape (n_rows, n_labels)
        The probabilities that this rests on; NaN where there are none.
    held_out_folds_ : ndarray of shape (n_rows,)
        The fold of each row, -1 for rows that have none.
    models_ : dict
        The fitted parts that have a weight, by name; and the linear one.
    stack_ : Stack
        Their curves and weights.
    classes_, label_names_, thresholds_, n_features_in_, feature_names_in_, label_covariance_
        As in :class:`dm2l.DM2LClassifier`.

    See Also
    --------
    dm2l.DM2LClassifierCV : One kind of model, its settings chosen on a grid.

    Notes
    -----
    NaN in ``X`` is taken as missing: an indicator and the median for the linear and the kernel
    parts, and as it is for trees. Columns of 0 and 1 stay as they are, others are standardised;
    those of a sparse ``X`` are divided by their largest value, so that zeros stay zeros, which
    gives another model than the same ``X`` stored densely.

    Examples
    --------
    >>> from dm2l import AutoClassifier
    >>> from dm2l.datasets import make_missing_multilabel
    >>> X, Y = make_missing_multilabel(n_samples=200, random_state=0)
    >>> model = AutoClassifier(effort="quick", random_state=0).fit(X, Y)
    >>> model.leaderboard_["model"]
    ['linear', 'rbf kernel', 'stack']
    >>> model.predict_proba(X).shape == Y.shape
    True
    """

    # Stays None unless a caller wants lines of progress for itself.
    _tell: Any = field(default=None, init=False)

    effort: str = "normal"
    _: KW_ONLY
    time_limit: float | None = None
    memory: float | None = None
    categorical_features: Any = None
    coupling: str | None = "residual"
    threshold: Any = None
    cv: Any = None
    n_jobs: int | None = None
    missing_label: Any = np.nan
    missing_as: str | None = None
    random_state: Any = None
    verbose: int = 0

    def __sklearn_tags__(self) -> Tags:
        """Capabilities that scikit-learn asks about."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("effort", self.effort, *EFFORTS)
        for name in ("time_limit", "memory"):
            if getattr(self, name) is not None:
                self._check_numbers(name, positive=True)

    # -- inputs ---------------------------------------------------------------------------------

    def _check_X(self, X: Any, *, reset: bool = False) -> Any:
        """Encode columns as numbers; NaN may stay."""
        if not reset:
            check_is_fitted(self)
        X = to_numpy(X) if is_non_numpy(X) else X
        finite = {"ensure_all_finite": "allow-nan"}
        if hasattr(X, "iloc"):
            validate_data(self, X, skip_check_array=True, reset=reset)
        else:
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=reset, **finite)
        if sp.issparse(X) and np.isnan(X.data).any():
            raise ValueError("A sparse X must not hold NaN; what is not stored counts as 0.")
        if sp.issparse(X) and X.indptr.dtype != np.int32 and X.nnz < 2**31:  # trees take no other
            narrow = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
            X = sp.csr_array(narrow, shape=X.shape)
        if reset:
            self._home = "numpy"
            self._columns = Columns.of(X, self.categorical_features)
        coded = self._columns.encode(X)
        if coded is not X:
            coded = check_array(coded, **finite)
        if reset:
            holes = not sp.issparse(coded) and bool(np.isnan(coded).any())
            names = getattr(self, "feature_names_in_", None)
            check_magnitude(np.nan_to_num(coded) if holes else coded, names)
        return coded

    def _groups(self, X: Any) -> Any:
        """One value a row that is learnt from, where ``cv`` keeps groups of them together."""
        groups = getattr(self.cv, "groups", None)
        if isinstance(groups, str):
            return duplicate_groups(X)
        return None if groups is None else np.asarray(groups)[self._keep]  # given for all rows

    def _entry_weights(self, X: Any, T: Signs, entries: EntryWeights | None) -> Floats | None:
        """How much entries count in the stack: as told, and by the groups of their rows."""
        weights = None if entries is None else entries.weights
        groups = self._groups(X) if len(T) >= FEWEST_ROWS else None
        if groups is None:
            return weights
        of_rows = np.broadcast_to(says(groups)[:, None], T.shape)
        return of_rows if weights is None else of_rows * weights

    def _folds(self, X: Any, T: Signs) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        if self.cv is not None:
            chosen = self
            if not isinstance(getattr(self.cv, "groups", None), str | None):
                cv = copy(self.cv)
                cv.groups = self._groups(X)
                chosen = clone_with_cv(self, cv)
            folds = super(AutoClassifier, chosen)._folds(X, T)
            if isinstance(self.cv, Integral) or hasattr(self.cv, "split"):
                return folds
            # Given ones number all rows, those of which nothing is observed too.
            place = np.cumsum(self._keep) - 1
            return [
                (place[train[self._keep[train]]], place[test[self._keep[test]]])
                for train, test in folds
            ]
        usual = clone_with_cv(self, min(EFFORTS[self.effort].folds, len(T)))
        return super(AutoClassifier, usual)._folds(X, T)

    # -- fitting --------------------------------------------------------------------------------

    def _fit_labels(self, X: Any, T: Signs, entries: EntryWeights | None = None) -> None:
        effort = EFFORTS[self.effort]
        levels = np.array([len(v) if v is not None else 0 for v in self._columns.categories])
        self._features = Features.of(X, levels.astype(np.intp))
        tell = self.__dict__.pop("_tell", None) or (to_stderr if self.verbose else None)
        task = EnsembleContext(
            X=X,
            F=self._features.transform(X),
            bits=self._features.bits,
            T=T,
            entries=entries,
            folds=self._folds(X, T) if len(T) >= FEWEST_ROWS else [],
            weights=self._entry_weights(X, T, entries),
            effort=effort,
            clock=TimeBudget(self.time_limit, tell),
            memory=bytes_free(self.memory),
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            n_jobs=self.n_jobs,
        )
        self._clock = task.clock
        weighing, coupling = WEIGHED * np.count_nonzero(T), COUPLED * T.shape[1] ** 3
        task.clock.plan(weighing + coupling)
        task.clock.owed = weighing + coupling
        parts, scores, board = try_all(task)
        shares = np.array([part.shares for part in parts])
        fold = task.fold
        task.clock.say("weighing the parts")
        eta = np.full(T.shape, np.nan)
        if len(task.folds) > 1:
            weights = task.weights
            eta = cross_fitted(scores, T, shares, fold, weights)
            stack = Stack.fit(scores, T, shares, weights)
            add_gains(board, scores, T, shares, fold, eta, weights)
            share = stack.common / max(stack.common.sum(), 1e-300)
            keep = (share >= NEGLIGIBLE) | (share == share.max())
            if not keep.all():
                stack = Stack.fit(scores[keep], T, shares[keep], weights)
            weight = np.zeros(len(share))
            weight[keep] = stack.common / max(stack.common.sum(), 1e-300)
            board["weight"] = [*weight.tolist(), 1.0, *board["weight"][len(weight) + 1 :]]
        else:
            stack, keep = Stack.plain(T.shape[1]), np.ones(1, dtype=bool)
        # The linear model stays whatever its weight: it says which way a column pulls.
        kept = [part for part, stays in zip(parts, keep, strict=True) if stays]
        models = list(dict.fromkeys([parts[0], *kept]))
        task.clock.begin(weighing)
        task.clock.tick()
        task.clock.begin((task.clock.ahead - coupling) / len(models))
        for part in models:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                part.fit(task)
            task.clock.tick()
        self.stack_ = stack
        self._parts = [(part.name, part.inputs) for part in kept]
        self.models_ = {part.name: part.model for part in models}
        self.leaderboard_ = board
        self._report(eta, T, fold)

    def _report(self, eta: Floats, T: Signs, fold: NDArray[np.intp]) -> None:
        selection = self._selection
        names = self.label_names_[selection.learnable]
        folds = int(fold.max()) + 1
        self.estimate_ = {
            "label_auc": on_new_rows(label_auc(eta, T, fold)[0], folds, 1.0),
            "log_loss": on_new_rows(log_loss(eta, T), folds),
            "brier": on_new_rows(brier(eta, T), folds, 1.0),
        }
        self.label_quality_ = label_table(eta, T, names, fold)
        p = expit(eta)
        self.held_out_ = selection.spread(p)
        self.held_out_folds_ = np.full(len(selection.keep), -1)
        self.held_out_folds_[selection.keep] = fold
        self._honest = selection.spread(2 * p - 1)

    def features(self, X: Any) -> Any:
        """Rows as the linear and the kernel parts see them.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray or CSR of shape (n_samples, n_prepared)
            Without holes; see :class:`dm2l._auto.Features`.
        """
        return self._features.transform(self._check_X(X))

    def column_weights(self, X: Any) -> Floats:
        """What a step of one standard deviation in a column is worth to the linear part.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows whose spread is meant; a category counts by its strongest value.

        Returns
        -------
        ndarray of shape (n_labels, n_features)
            Signed, 0 for labels that could not be learnt.
        """
        X = self._check_X(X)
        F = self._features.transform(X)
        F = F.toarray() if sp.issparse(F) else F
        slopes = to_numpy(self.models_["linear"].coef_) * F.std(axis=0)
        source = self._features.sources()
        result = np.zeros((len(self._learnable), X.shape[1]))
        for j in range(X.shape[1]):
            mine = slopes[:, source == j]
            if mine.shape[1]:
                strongest = np.abs(mine).argmax(axis=1)
                result[self._learnable, j] = mine[np.arange(len(mine)), strongest]
        return result

    def _fit_nothing(self, X: Any) -> None:
        self.models_, self._parts, self.leaderboard_ = {}, [], {"model": []}

    def _cross_fit(self, X: Any, T: Signs, entries: EntryWeights | None = None) -> Floats:
        held: Floats | None = self.__dict__.get("_honest_now")
        if held is not None:
            return held
        # Of training rows the coupling remembers what their held-out scores were.
        rows = getattr(self._coupling, "rows", None)
        own = to_numpy(self._all_scores(X))
        return own if rows is None else np.asarray(rows.honest(X, T, own))

    def _fit_decisions(self, X: Any, T: Signs, entries: EntryWeights | None = None) -> None:
        self._honest_now = self.__dict__.get("_honest")
        clock = self.__dict__.pop("_clock", None)
        if clock is not None and self.coupling is not None:
            clock.say("coupling the labels")
        try:
            super()._fit_decisions(X, T, entries)
        finally:
            del self._honest_now

    # -- predicting -----------------------------------------------------------------------------

    def _score_labels(self, X: Any) -> Floats:
        return np.tanh(0.5 * self._log_odds(X))

    def _label_answers(self, X: Any) -> tuple[Floats, Floats]:
        eta = self._log_odds(X)
        return np.tanh(0.5 * eta), np.asarray(expit(eta))

    def _log_odds(self, X: Any) -> Floats:
        F = self._features.transform(X)
        scores = []
        for name, inputs in self._parts:
            part = Part(name, "", self.models_[name], inputs)
            scores.append(to_numpy(part.model._all_scores(part.rows(X, F))))
        return self.stack_.log_odds(np.stack(scores))


def clone_with_cv(model: AutoClassifier, cv: Any) -> AutoClassifier:
    """The same parameters with other folds."""
    return AutoClassifier(**(model.get_params(deep=False) | {"cv": cv}))
