"""Targets of least-squares fits to positive-unlabelled labels, and their class priors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l._solvers.features import Features
from dm2l.pu._prior import ClassPrior, check_class_prior, prior_from_signs
from dm2l.pu._smoothing import PrincipalComponents

Floats = NDArray[np.float64]

# Ridges, in positives; and the number of rows, about, on which one is chosen.
RIDGES, CHOOSING_ROWS = (1.0, 10.0, 100.0, 1000.0), 2000


@dataclass(frozen=True)
class PUTargets:
    """Scores of positive-unlabelled labels, and targets to which any ridge gives them.

    Attributes
    ----------
    scores : ndarray of shape (n, c)
        Fit of ``2 y - 1``.
    pull : ndarray of shape (n, c)
        Added to the targets for every unit of ridge, so that ridge with any ``alpha`` gives
        ``scores``.
    leave_one_out_scores : ndarray of shape (n, c)
        Scores of a fit without the row.
    prior : ClassPrior
        Given or estimated.
    """

    scores: Floats
    pull: Floats
    leave_one_out_scores: Floats
    prior: ClassPrior

    @classmethod
    def of(cls, features: Features, signs: NDArray[Any], class_prior: Any = None) -> PUTargets:
        """Learn from positives (+1), observed negatives (-1) and unlabelled entries (0)."""
        signs = np.sign(signs).astype(np.int8)
        labelled = (signs > 0).astype(np.float64)
        components = PrincipalComponents.of(features)
        smooth = components.smooth(labelled, labelled)
        if class_prior is None:
            scores = given_other_labels(smooth.leave_one_out_scores, labelled)
            prior = prior_from_signs(scores, signs)
        else:  # by chance some rows may have a larger share of positives than all have
            least = np.maximum(class_prior, labelled.mean(axis=0))
            prior = check_class_prior(least, signs)
        scale = 2 / prior.rate
        if (signs < 0).any():
            # Positives and negatives are both evidence, weighted by their inverse variances.
            negative = (signs < 0).astype(np.float64)
            no_rate = np.clip(negative.mean(axis=0) / np.maximum(1 - prior.value, 1e-6), 0.0, 1.0)
            noise = (prior.value * (1 / prior.rate - prior.value), 1 - prior.value)
            other = noise[1] * (1 / np.maximum(no_rate, 1e-6) - noise[1])
            trust = np.where(no_rate > 0, noise[0] / np.maximum(noise[0] + other, 1e-12), 0.0)
            back = 2 / np.maximum(no_rate, 1e-6)
            targets = (1 - trust) * (scale * labelled - 1) + trust * (1 - back * negative)
            smooth = components.smooth(targets, labelled)
            return cls(smooth.fitted, smooth.pull, smooth.leave_one_out_scores, prior)
        return cls(
            scale * smooth.fitted - 1,
            scale * smooth.pull,
            scale * smooth.leave_one_out_scores - 1,
            prior,
        )

    def targets(self, alpha: float) -> Floats:
        """Targets of ridge with this ``alpha``, whose solution is ``scores``."""
        return self.scores + alpha * self.pull


def given_other_labels(scores: Floats, labelled: Floats) -> Floats:
    r"""Scores given features and the other positives of the row, as of a fit without the row.

    Where positives are labelled independently of each other, other positives are as good as
    features, :math:`P(s_j | x, s_{-j}) = c_j P(y_j | x, s_{-j})`. So the residuals of ``labelled``
    (1 or 0) are regressed on those of the other labels, with ridge and without the row. All of
    these regressions are in one inverse: with :math:`Q = (R'R + \alpha I)^{-1}` residuals are
    :math:`(R Q)_{ij} / Q_{jj}` and leverages :math:`r_i' Q r_i - (R Q)_{ij}^2 / Q_{jj}`.

    If no row has two positives ``scores`` are returned: its labels compete for one, so that the
    absence of the others would make each label certain.
    """
    if labelled.sum(axis=1).max(initial=0.0) <= 1:
        return scores
    R = labelled - scores
    w, V = np.linalg.eigh(R.T @ R)
    inverses = [(V / (np.maximum(w, 0.0) + alpha)) @ V.T for alpha in RIDGES]
    some = R[:: max(len(R) // CHOOSING_ROWS, 1)]
    loss = [float((_leave_one_out(some, Q) ** 2).sum()) for Q in inverses]
    return labelled - _leave_one_out(R, inverses[int(np.argmin(loss))])


def _leave_one_out(R: Floats, Q: Floats) -> Floats:
    """Leave-one-out residuals of every column of ``R`` regressed on the others."""
    RQ, own = R @ Q, np.diag(Q)
    leverage = (RQ * R).sum(axis=1)[:, None] - RQ**2 / own
    return RQ / own / (1 - leverage)
