"""Smoothing of positive labels over features, with covariances of labels found by EM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from dm2l._solvers.features import Features
from dm2l._utils.arrays import asarray_like, float64, to_numpy
from dm2l._utils.threads import WORTH_FACTORING, blas_threads

Floats = NDArray[np.float64]

ROUNDS = 30
# Positives for each number of a covariance. If labels have fewer, some directions among them are
# learnt, in EARLY rounds: more rounds fit the noise (docs/research/positive-unlabelled.md).
POSITIVES_PER_NUMBER, EARLY = 2, 10
# Candidates for the ratio of signal to noise of a label.
LEVELS = 10.0 ** np.arange(0, -3.0, -0.5)
# Share of the trace added to covariances, which may be singular: with one positive in every row the
# noise of all labels together is zero.
JITTER = 1e-7


class Smooth(NamedTuple):
    """Fitted scores, what is added for a unit of ridge, and scores of a fit without the row."""

    fitted: Floats
    pull: Floats
    leave_one_out_scores: Floats


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

    def smooth(self, S: Floats, labelled: Floats) -> Smooth:
        """Fit of ``S``, with covariances found by EM."""
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
        return Smooth(mean + fitted @ back.T, (left * d) @ back.T, mean + unseen @ back.T)

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
