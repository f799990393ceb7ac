"""Ridge regression on the observed entries."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from dm2l._score_model import FitResult
from dm2l._solvers.features import Features, LinearMap, ridge_value
from dm2l._solvers.objective import Objective
from dm2l._solvers.problem import Preconditioner, Problem
from dm2l._solvers.ridge import masked_ridge
from dm2l._utils.inputs import check_choice, check_number
from dm2l.baselines._linear import LinearBaseline
from dm2l.completion._joint import learn_jointly
from dm2l.completion._leave_out import leave_one_out_scores
from dm2l.labels._entries import EntryWeights
from dm2l.labels._matrix import LabelMatrix, LearnableMask
from dm2l.pu._estimator import PositiveUnlabelledClassifier
from dm2l.pu._targets import PUTargets


@dataclass(eq=False, repr=False)
class MaskedRidgeClassifier(PositiveUnlabelledClassifier, LinearBaseline):
    r"""Ridge regression of each label on the rows where it was observed.

    .. math:: \min_{W,b} \tfrac12 \|R_\Omega(XW + 1b') - \tilde Y\|_F^2
              + \tfrac{\alpha}{2} \|W\|_F^2

    Labels observed on the same rows share one factorisation; with more columns than rows the
    small side is factorised and a sparse ``X`` stays sparse. Where the masks of many labels
    differ, conjugate gradients on all labels at once take fewer operations.

    Parameters
    ----------
    alpha : float or "scale", default="scale"
        Ridge; 0 gives least squares of least norm, "scale" is that of
        :class:`dm2l.DM2LClassifier`.
    fit_intercept : bool, default=True
        Whether scores have an intercept, which is not penalised.
    solver : {"auto", "direct", "cg"}, default="auto"
        Factorise, iterate (to a relative gradient of 1e-10), or whichever is cheaper.
    threshold, calibration, coupling, cv, missing_label, missing_as, class_prior
        As in :class:`dm2l.DM2LClassifier`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Weights.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts.
    classes_, label_names_, thresholds_, n_features_in_
        As in :class:`dm2l.DM2LClassifier`.

    Examples
    --------
    >>> from dm2l.baselines import MaskedRidgeClassifier
    >>> from dm2l.datasets import make_missing_multilabel
    >>> X, Y = make_missing_multilabel(n_labels=5, random_state=0)
    >>> MaskedRidgeClassifier().fit(X, Y).predict(X[1:2])
    array([[0, 0, 1, 1, 0]])
    """

    alpha: float | str = "scale"
    _: KW_ONLY
    solver: str = "auto"
    coupling: str | None = "residual"
    class_prior: Any = None

    _leaves_one_out = True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("alpha", self.alpha, words=("scale",))
        check_choice("solver", self.solver, "auto", "direct", "cg")

    def _fit_labels(self, X: Any, labels: LabelMatrix) -> FitResult:
        T, entries = labels.signs, labels.entries
        rows = None if entries is None else entries.rows
        alpha, intercept = ridge_value(self.alpha, X, rows), bool(self.fit_intercept)
        feature_map = LinearMap(intercept=intercept)
        features = Features(feature_map.fit(X), intercept).centre()
        if self.missing_as == "unlabelled" and entries is not None and entries.targets is not None:
            mask = LearnableMask(self._learnable, self._constant, self._keep)
            pu = PUTargets.of(features, entries.targets, mask.of_labels(self.class_prior))
            self._keep_prior(pu.prior)
            entries = EntryWeights.of(T, targets=pu.targets(alpha))
        W, unseen = masked_ridge(features, T, alpha, entries=entries, method=self.solver), None
        if self.coupling is not None and self.missing_as != "unlabelled":
            objective = Objective(T, 0.0, like=features.example, entries=entries)
            problem = Problem(features, objective, alpha)
            factor, centred = Preconditioner(problem), features.from_original(W)
            if self.coupling == "joint":
                centred, unseen, _ = learn_jointly(problem, T, centred, factor, entries)
                W = features.to_original(centred)
            else:
                unseen = leave_one_out_scores(
                    problem, factor, T, centred, features, alpha, entries=entries
                )
        self._store(X, *feature_map.on_inputs(W, intercept))
        return FitResult(leave_one_out_scores=unseen)

    def _fit_nothing(self, X: Any) -> None:
        super()._fit_nothing(X)
        if self.missing_as == "unlabelled":
            self._keep_prior()

    def _score_labels(self, X: Any) -> Any:
        scores = super()._score_labels(X)
        return self._corrected(scores) if self.missing_as == "unlabelled" else scores
