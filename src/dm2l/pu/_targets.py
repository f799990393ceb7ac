"""Targets of least-squares fits to positive-unlabelled labels, and their class priors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from dm2l._solvers.features import Features
from dm2l._utils.arrays import WORTH_FACTORING, asarray_like, blas_threads, float64, to_numpy
from dm2l.pu._prior import ClassPrior, Floats, check_class_prior, prior_from_signs

ROUNDS = 30
# Positives for each number of a covariance. If labels have fewer, some directions among them are
# learnt, in EARLY rounds: more rounds fit the noise (docs/research/positive-unlabelled.md).
POSITIVES_PER_NUMBER, EARLY = 2, 10
# Candidates for the ratio of signal to noise of a label.
LEVELS = 10.0 ** np.arange(0, -3.0, -0.5)
# Share of the trace added to covariances, which may be singular: with one positive in every row the
# noise of all labels together is zero.
JITTER = 1e-7


@dataclass(frozen=True)
class PrincipalComponents:
    """Principal components ``U`` (n, r) of the features, and their eigenvalues ``w``."""

    U: Floats
    w: Floats
    intercept: bool

    @classmethod
    def of(cls, features: Features) -> PrincipalComponents:
        """Components of the centred features."""
        centred = features.centre()
        gram = to_numpy(float64(centred.gram()))[: centred.d, : centred.d]
        with blas_threads(float(centred.d) ** 3, WORTH_FACTORING):
            w, V = np.linalg.eigh(gram)
        kept = w > max(w[-1], 0.0) * 1e-10
        w, V = w[kept], V[:, kept] / np.sqrt(w[kept])
        if centred.intercept:
            V = np.vstack([V, np.zeros((1, V.shape[1]))])
        U = to_numpy(float64(centred.scores(asarray_like(V, centred.example))))
        return cls(U, w, centred.intercept)

    def smooth(self, S: Floats, labelled: Floats) -> tuple[Floats, Floats, Floats]:
        """Fit of ``S`` with covariances found by EM, its pull, and leave-one-out scores."""
        n, c = S.shape
        mean = S.mean(axis=0) if self.intercept else np.zeros(c)
        R = S - mean
        P, total = self.U.T @ R, R.T @ R
        known = max(int(labelled.sum() / (POSITIVES_PER_NUMBER * c)), 1)
        level = self._level(S, R, P, labelled) if known < c - 1 and len(P) else None
        with blas_threads(float(c) ** 3 + P.size * c):  # of many small steps
            B, noise = self._covariances(P, total, n, known, level)
            d, V = eigh(B, noise)
        back = noise @ V  # of V', the inverse
        d = np.maximum(d, 0.0)
        share = self.w[:, None] * d / (self.w[:, None] * d + 1)
        rotated = R @ V
        fitted = self.U @ (share * (P @ V))
        left = rotated - fitted
        unseen = rotated - left / self._without(share)
        return mean + fitted @ back.T, (left * d) @ back.T, mean + unseen @ back.T

    def _without(self, share: Floats) -> Floats:
        """Divisors that turn residuals into leave-one-out residuals."""
        own = (self.U**2) @ share + (1 / len(self.U) if self.intercept else 0.0)
        return np.maximum(1 - own, 1e-3)

    def _level(self, S: Floats, R: Floats, P: Floats, labelled: Floats) -> float:
        """Ratio of signal to noise, the same for all labels, that ranks held-out positives best."""
        loss, place, signal = [], np.empty(R.shape, dtype=np.intp), LEVELS / self.w.mean()
        for one in signal:
            share = (self.w * one / (self.w * one + 1))[:, None]
            scores = S - (R - self.U @ (share * P)) / self._without(share)
            order = np.argsort(-scores, axis=1, kind="stable")
            np.put_along_axis(place, order, np.arange(R.shape[1])[None, :], axis=1)
            loss.append(place[labelled > 0].mean())
        return float(signal[int(np.argmin(loss))])

    def _covariances(
        self, P: Floats, total: Floats, n: int, known: int, level: float | None
    ) -> tuple[Floats, Floats]:
        r, c = P.shape
        one = np.trace(total) / (n * c) * np.eye(c) + 1e-300 * np.eye(c)
        noise = 0.9 * total / n + JITTER * one
        B = 0.1 * total / n / max(self.w.sum() / n, 1e-300) + JITTER * one
        if level is not None:
            B = level * noise
        w, rest = self.w[:, None], total - P.T @ P
        for _ in range((ROUNDS if level is None else EARLY) if r else 0):
            d, V = eigh(B, noise)
            back = noise @ V
            share = w * np.maximum(d, 0.0) / (w * np.maximum(d, 0.0) + 1)
            rotated = P @ V
            mean = share * rotated
            inner = (mean / w).T @ mean / r + np.diag((share / w).mean(axis=0))
            left = rotated - mean
            outer = left.T @ left + V.T @ rest @ V + np.diag(share.sum(axis=0))
            if level is not None:  # probabilistic PCA with a given noise
                found, Q = np.linalg.eigh(inner)
                found[:-known] = level
                inner = (Q * np.maximum(found, level)) @ Q.T
            B, noise = back @ inner @ back.T, back @ outer @ back.T / n
            if level is None:
                # Off the diagonal, c numbers a label are estimated from r directions: shrink them.
                B = (r * B + c * np.diag(np.diag(B))) / (r + c)
            B, noise = ((A + A.T) / 2 + JITTER * np.trace(A) / c * np.eye(c) for A in (B, noise))
        return B, noise


# Ridges, in positives; and the number of rows, about, on which one is chosen.
RIDGES, CHOOSING_ROWS = (1.0, 10.0, 100.0, 1000.0), 2000


@dataclass(frozen=True)
class PUTargets:
    """Scores of positive-unlabelled labels: the fit of ``2 y - 1``, and that without the row.

    ``pull`` is added to targets for every unit of ridge, so that any ``alpha`` gives ``scores``.
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
        found = components.smooth(labelled, labelled)
        if class_prior is None:
            prior = prior_from_signs(given_other_labels(found[2], labelled), signs)
        else:  # by chance some rows may have a larger share of positives than all have
            prior = check_class_prior(np.maximum(class_prior, labelled.mean(axis=0)), signs)
        scale = 2 / prior.rate
        if not (signs < 0).any():
            fitted, pull, unseen = (scale * part for part in found)
            return cls(fitted - 1, pull, unseen - 1, prior)
        # Positives and negatives are both evidence, weighted by their inverse variances.
        negative = (signs < 0).astype(np.float64)
        no_rate = np.clip(negative.mean(axis=0) / np.maximum(1 - prior.value, 1e-6), 0.0, 1.0)
        noise = (prior.value * (1 / prior.rate - prior.value), 1 - prior.value)
        other = noise[1] * (1 / np.maximum(no_rate, 1e-6) - noise[1])
        trust = np.where(no_rate > 0, noise[0] / np.maximum(noise[0] + other, 1e-12), 0.0)
        back = 2 / np.maximum(no_rate, 1e-6)
        targets = (1 - trust) * (scale * labelled - 1) + trust * (1 - back * negative)
        return cls(*components.smooth(targets, labelled), prior)

    def targets(self, alpha: float) -> Floats:
        """Targets of ridge with this ``alpha``, whose solution is ``scores``."""
        return self.scores + alpha * self.pull


def given_other_labels(scores: Floats, labelled: Floats) -> Floats:
    r"""Scores given features and the other positives of the row, as of a fit without the row.

    Where positives are labelled independently, other positives are as good as features. So the
    residuals of ``labelled`` (1 or 0) are regressed on those of the other labels, with ridge and
    without the row. With :math:`Q = (R'R + \alpha I)^{-1}` residuals are
    :math:`(R Q)_{ij} / Q_{jj}` and leverages :math:`r_i' Q r_i - (R Q)_{ij}^2 / Q_{jj}`.
    """
    if labelled.sum(axis=1).max(initial=0.0) <= 1:
        return scores  # labels compete for the row: the absence of others would make one certain
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
