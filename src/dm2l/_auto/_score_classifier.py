"""ScoreClassifier: calibration, imputation and error-rate control for the scores of any model."""

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit, ndtri
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from dm2l._auto._stack import Floats, Stack
from dm2l._base import CompletionClassifier, FitResult
from dm2l._solvers.kernels import Kernel
from dm2l._utils.arrays import is_non_numpy, to_numpy
from dm2l._utils.inputs import check_choice, explain_unsuitable
from dm2l._utils.logistic import LogisticProblem
from dm2l.completion._completer import LabelCompleter
from dm2l.labels._entries import Signs
from dm2l.labels._matrix import LabelMatrix, constant_scores

QUANTILES = 1000  # maximum number of stored ranks of a label's scores, with scale="rank"
# Penalty on weights of other labels' scores (benchmarks/foreign_scores.py), and tolerance of
# the log-likelihood of a label.
PENALTY, TOL = 2.0, 1e-9
# fit warns if the uncertainty ratio is at least RATIO and its logarithm exceeds ERRORS standard
# errors. A label needs FEWEST known and FEWEST missing entries (benchmarks/in_sample.py).
RATIO, ERRORS, FEWEST = 1.6, 2.5, 20


@dataclass(eq=False, repr=False)
class ScoreClassifier(CompletionClassifier):
    r"""Classifier whose inputs are the out-of-fold scores of another model.

    The scores of each label are calibrated with a slope that is shrunk to the common slope of all
    labels. A penalized logistic regression then uses the scores of the other labels, too. Label
    correlations for :meth:`complete` and :meth:`find_label_errors` are estimated from residuals.

    Parameters
    ----------
    scale : {"auto", "probability", "logit", "rank"}, default="auto"
        Type of the scores. "logit" accepts any numbers that increase with the probability, and
        "rank" uses only their order. "auto" is "probability" for scores from 0 to 1, else "logit".
    columns : array-like of int, default=None
        Positions of the scores in ``X``, one for each label. None means all columns.
    threshold, coupling, rules, cv, missing_label, missing_as
        As in :class:`dm2l.AutoClassifier`. The calibration is cross-fitted in the folds ``cv``.

    Attributes
    ----------
    scale_ : str
        The parameter ``scale`` or, with "auto", the detected type of the scores.
    stack_ : Stack
        Calibration of the scores.
    classes_, label_names_, thresholds_, n_features_in_, feature_names_in_, label_covariance_
        As in :class:`dm2l.DM2LClassifier`.

    Notes
    -----
    Missing scores are NaN, and are replaced by the label's share of positives. Scores of training
    rows must be out-of-fold, for example from :func:`dm2l.model_selection.cross_val_decision`.
    :meth:`fit` warns if the scores look in-sample. For new rows, pass scores of a model that is
    fitted to all training rows.

    Examples
    --------
    >>> from dm2l import DM2LClassifier, ScoreClassifier
    >>> from dm2l.datasets import make_missing_multilabel
    >>> from dm2l.model_selection import cross_val_decision
    >>> X, Y = make_missing_multilabel(n_samples=200, random_state=0)
    >>> scores = cross_val_decision(DM2LClassifier(kernel="rbf"), X, Y)
    >>> model = ScoreClassifier().fit(scores, Y)
    >>> model.complete(scores, Y, max_error_rate=0.1).shape
    (200, 8)
    """

    _kernel = Kernel("rbf", 1.0)  # kernel for the similarity of rows in active learning
    _takes_scores = True

    scale: str = "auto"
    _: KW_ONLY
    columns: Any = None
    coupling: str | None = "residual"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("scale", self.scale, "auto", "probability", "logit", "rank")

    def _check_X(self, X: Any, *, reset: bool = False) -> Any:
        if not reset:
            self._check_fitted()
        X = to_numpy(X) if is_non_numpy(X) else X
        kinds: Any = {"accept_sparse": "csr", "dtype": np.float64, "ensure_all_finite": "allow-nan"}
        with explain_unsuitable(X, nan_allowed=True):
            return validate_data(self, X, reset=reset, **kinds)

    def _read(self, *data: Any) -> tuple[Any, LabelMatrix]:
        X, labels = super()._read(*data)
        n_scores, n_labels = self._given(X).shape[1], labels.signs.shape[1]
        if n_scores != n_labels:
            what = f"X has {n_scores} columns of scores, but y has {n_labels} labels."
            raise ValueError(f"{what} Pass one column of scores for each column of y, in order.")
        names = list(getattr(self, "feature_names_in_", ()))
        named = [] if labels.names is None else list(map(str, labels.names))
        if names != named and sorted(names) == sorted(named):
            raise ValueError(
                f"X and y have the same columns in different orders: {names[0]!r} is the first "
                f"column of X, but {named[0]!r} is the first column of y. Pass X[y.columns]."
            )
        return X, labels

    def _given(self, X: Any) -> Floats:
        """Return the scores of all labels as they were passed."""
        X = X if self.columns is None else X[:, np.asarray(self.columns, dtype=np.intp)]
        return X.toarray() if sp.issparse(X) else X

    def _linked(self, X: Any) -> Floats:
        """Return scores (1, n, c) of learnable labels: logits, ``2 p - 1`` or normal quantiles."""
        S = self._given(X)[:, self._learnable]
        if self.scale_ == "logit":
            return S[None]
        if self.scale_ == "probability":
            if ((S < 0) | (S > 1)).any():
                i, k = np.argwhere((S < 0) | (S > 1))[0]
                raise ValueError(
                    f"Row {i} of X contains the score {S[i, k]:.6g}, but probabilities must be "
                    "from 0 to 1. Pass probabilities, or fit with scale='logit'."
                )
            return (2 * S - 1)[None]
        # Ranks among the training rows become normal quantiles; equal scores have equal ranks.
        ranks = np.full(S.shape, np.nan)
        for k, (column, knots) in enumerate(zip(S.T, self._quantiles.T, strict=True)):
            here = np.isfinite(column)
            sides = [np.searchsorted(knots, column[here], side) for side in ("left", "right")]
            ranks[here, k] = ndtri((sides[0] + sides[1] + 1) / (2 * len(knots) + 2))
        return ranks[None]

    def _fit_nothing(self, X: Any) -> None:
        self.scale_ = "logit"

    def _fit_labels(self, X: Any, labels: LabelMatrix) -> FitResult:
        S, T = self._given(X), labels.signs
        auto = "probability" if ((S >= 0) & (S <= 1) | np.isnan(S)).all() else "logit"
        self.scale_ = auto if self.scale == "auto" else self.scale
        if self.scale_ == "rank":
            levels = np.linspace(0, 1, min(len(S), QUANTILES))
            scored = np.where(np.isfinite(S).any(axis=0), S, 0.0)[:, self._learnable]
            self._quantiles = np.nanquantile(scored, levels, axis=0, method="nearest")
        weights = None if labels.entries is None else labels.entries.weights
        linked, shares = self._linked(X), np.array([self.scale_ == "probability"])
        self.stack_ = Stack.fit(linked, np.where(np.isfinite(linked[0]), T, 0), shares, weights)
        self._rate = 2 * constant_scores((T > 0).sum(axis=0), (T < 0).sum(axis=0))
        eta = self._own_odds(X)
        F, c = np.tanh(0.5 * eta), T.shape[1]
        self._mean, self._cross = F.mean(axis=0), np.zeros((c, c))
        for k in range(c):
            rows = np.flatnonzero(T[:, k])
            Z, t = (F - self._mean)[rows].T[None], T[None, rows, k].astype(np.float64)
            weight = np.ones_like(t) if weights is None else weights[None, rows, k]
            penalty, zero = np.full(c, PENALTY), np.zeros((1, c))
            problem = LogisticProblem(Z, t, weight, penalty, zero, offset=eta[None, rows, k])
            self._cross[:, k] = problem.minimize(zero, tol=TOL)[0]
        return FitResult()

    def _fit_completer(self, X: Any, labels: LabelMatrix, result: FitResult) -> LabelCompleter:
        learnt = self._learnable
        # Calibrated probabilities should not be much more certain for known labels.
        p = 0.5 + 0.5 * self._all_scores(X)[:, learnt]
        ratio, error = uncertainty_ratio(labels.signs[:, learnt], p)
        if ratio > max(RATIO, np.exp(ERRORS * error)):
            warnings.warn(
                "The scores in X seem to be in-sample, because they are much more certain for "
                "known labels than for missing labels. With in-sample scores, imputed labels and "
                "error rates are wrong. Pass out-of-fold scores, for example from "
                "dm2l.model_selection.cross_val_decision.",
                UserWarning,
                stacklevel=4,
            )
        return super()._fit_completer(X, labels, result)

    def _score_labels(self, X: Any) -> Floats:
        return np.tanh(0.5 * self._log_odds(X))

    def _label_answers(self, X: Any) -> tuple[Floats, NDArray[Any]]:
        eta = self._log_odds(X)
        return np.tanh(0.5 * eta), expit(eta)

    def _own_odds(self, X: Any) -> Floats:
        """Return the log-odds of each label, computed only from the scores of this label."""
        eta = self.stack_.log_odds(self._linked(X))
        return np.where(np.isnan(eta), self._rate, eta)

    def _log_odds(self, X: Any) -> Floats:
        eta = self._own_odds(X)
        return np.clip(eta + (np.tanh(0.5 * eta) - self._mean) @ self._cross, -30.0, 30.0)


def uncertainty_ratio(T: Signs, P: Floats) -> tuple[float, float]:
    """Return the missing/known ratio of mean ``p (1 - p)``, and the standard error of its log."""
    # Out-of-fold probabilities are equally uncertain for missing and known entries. In-sample
    # scores separate the known classes, so calibration makes only known entries certain.
    parts = [(T == 0) & np.isfinite(P), (T != 0) & np.isfinite(P)]
    enough = np.all([part.sum(axis=0) >= FEWEST for part in parts], axis=0)
    if not enough.any():
        return 1.0, np.inf
    values, means, pulls = (P * (1 - P))[:, enough], [], []
    for part in (part[:, enough] for part in parts):
        mean = np.mean(values, axis=0, where=part)
        by_row = np.where(part, values - mean, 0.0) / part.sum(axis=0)
        means.append(float(mean.sum()))
        pulls.append(by_row.sum(axis=1) / mean.sum())
    return means[0] / means[1], float(np.linalg.norm(pulls[0] - pulls[1]))
