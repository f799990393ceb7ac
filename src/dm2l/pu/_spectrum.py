"""Smoothing of ticks over features, with covariances of labels that EM finds."""

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
# Ticks that each number of a covariance has to come from. Where labels have fewer, some directions
# among them are learnt, in EARLY rounds: more fit the noise (docs/ticks.md).
TICKS_A_NUMBER, EARLY = 2, 10
# What the largest share of features could tell of a label, over its noise.
LEVELS = 10.0 ** np.arange(0, -3.0, -0.5)
# A share of the trace that keeps covariances away from singular ones: with one tick a row the
# noise of all labels together is zero.
JITTER = 1e-7


class Smooth(NamedTuple):
    """What features say of a tick; what ridge is to be added; and as if the row were not there."""

    fitted: Floats
    pull: Floats
    honest: Floats


@dataclass(frozen=True)
class Spectrum:
    """Principal components ``U`` (n, r) of the features, and what they weigh."""

    U: Floats
    w: Floats
    intercept: bool

    @classmethod
    def of(cls, features: Features) -> Spectrum:
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

    def smooth(self, S: Floats, ticks: Floats) -> Smooth:
        """Fit of ``S``, found with the covariances that EM finds."""
        n, c = S.shape
        mean = S.mean(axis=0) if self.intercept else np.zeros(c)
        R = S - mean
        P, total = self.U.T @ R, R.T @ R
        known = max(int(ticks.sum() / (TICKS_A_NUMBER * c)), 1)
        level = self._level(S, R, P, ticks) if known < c - 1 and len(P) else None
        with blas_threads(float(c) ** 3 + P.size * c):  # of many small steps
            B, noise = self._covariances(P, total, n, known, level)
            d, V = eigh(B, noise)
        back = noise @ V  # of V', the inverse
        d = np.maximum(d, 0.0)
        share = self.w[:, None] * d / (self.w[:, None] * d + 1)
        rotated = R @ V
        fitted = self.U @ (share * (P @ V))
        left = rotated - fitted
        honest = rotated - left / self._without(share)
        return Smooth(mean + fitted @ back.T, (left * d) @ back.T, mean + honest @ back.T)

    def _without(self, share: Floats) -> Floats:
        """What residuals are to be divided by, so that they are those of rows left out."""
        own = (self.U**2) @ share + (1 / len(self.U) if self.intercept else 0.0)
        return np.maximum(1 - own, 1e-3)

    def _level(self, S: Floats, R: Floats, P: Floats, ticks: Floats) -> float:
        """Signal over noise, of all labels alike, by how ticks of rows left out rank in them."""
        loss, place, signal = [], np.empty(R.shape, dtype=np.intp), LEVELS / self.w.mean()
        for one in signal:
            share = (self.w * one / (self.w * one + 1))[:, None]
            scores = S - (R - self.U @ (share * P)) / self._without(share)
            order = np.argsort(-scores, axis=1, kind="stable")
            np.put_along_axis(place, order, np.arange(R.shape[1])[None, :], axis=1)
            loss.append(place[ticks > 0].mean())
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
            if level is not None:  # what probabilistic PCA leaves, with what is left over given
                found, Q = np.linalg.eigh(inner)
                found[:-known] = level
                inner = (Q * np.maximum(found, level)) @ Q.T
            B, noise = back @ inner @ back.T, back @ outer @ back.T / n
            if level is None:
                # Off the diagonal, as many numbers as labels have to come from r directions.
                B = (r * B + c * np.diag(np.diag(B))) / (r + c)
            B, noise = ((A + A.T) / 2 + JITTER * np.trace(A) / c * np.eye(c) for A in (B, noise))
        return B, noise
