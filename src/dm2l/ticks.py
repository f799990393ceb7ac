r"""Ticks: labels of which positives are known and the rest is not.

A label is ticked in a positive row with rate :math:`c_j` and never in a negative one, so that
:math:`P(s_{ij} = 1 | x_i) = c_j P(y_{ij} = 1 | x_i)`. For the squared loss the unbiased
positive-unlabelled risk is that of ordinary targets, by completing the square:

.. math:: t_{ij} = 2 s_{ij} / c_j - 1, \qquad c_j = n_j / (n \pi_j)

with :math:`n_j` ticks and class prior :math:`\pi_j`. These targets are right on average and very
noisy. What is known of their noise goes into them: ticks are modelled as

.. math:: S = 1 m' + \Phi G + E, \qquad G_{i\cdot} \sim N(0, B), \quad E_{i\cdot} \sim N(0, \Sigma)

with a covariance of labels in what features tell (:math:`B`) and one in what they do not
(:math:`\Sigma`, in which the labels of a row compete for its ticks), both found by EM. Every
direction among labels gets the ridge that it deserves; a tick speaks for labels that depend on
features as its own does. Where ticks are too few for that, :math:`B` is :math:`\tau \Sigma`, with
the :math:`\tau` that ranks held-out ticks best, and a few directions beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from dm2l.arrays import float64, like, namespace, to_numpy
from dm2l.features import Features
from dm2l.labels import Entries, Signs

__all__ = [
    "ClassPrior",
    "Ticks",
    "above_zero",
    "class_prior_of",
    "estimate_class_prior",
    "read_ticks",
    "unticked",
]

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
# Fewest ticks that a label's own rate is read off; and fewest rows that it is read off, which
# have the best scores, and are this share of its ticks or more.
ENOUGH, FEWEST, SHARE = 10, 10, 0.2


class ClassPrior(NamedTuple):
    """Share of positives of every label, and how well it is known.

    Attributes
    ----------
    value : ndarray of shape (c,)
        Class priors.
    standard_error : ndarray of shape (c,)
        Of the value, as far as counts go; zero where it was given.
    rate : ndarray of shape (c,)
        Share of the positives that is ticked.
    """

    value: Floats
    standard_error: Floats
    rate: Floats

    def attributes(self, learnable: NDArray[np.bool_], constant: Floats) -> dict[str, Floats]:
        """What a fitted estimator keeps, for all labels: no prior where nothing was ticked."""
        whole = np.zeros((3, len(learnable)))
        whole[0], whole[2] = constant > 0, 1.0
        whole[:, learnable] = self
        return dict(zip(("class_prior_", "class_prior_error_", "_tick_rate"), whole, strict=True))


def read_ticks(signs: Signs) -> tuple[Signs, Entries]:
    """Signs in which what is not ticked counts as negative, and as targets what was said.

    Parameters
    ----------
    signs : ndarray of shape (n, c), int8
        +1 ticks, -1 negatives that somebody saw, 0 unlabelled.

    Returns
    -------
    T : ndarray of shape (n, c), int8
        Without zeros.
    entries : Entries
        Whose targets are the signs.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.ticks import read_ticks
    >>> read_ticks(np.array([[1, 0, -1]], dtype=np.int8))[0]
    array([[ 1, -1, -1]], dtype=int8)
    """
    T = np.where(signs > 0, 1, -1).astype(np.int8)
    return T, Entries.of(T, targets=signs)


def unticked(p: Floats, rate: Floats) -> Floats:
    r"""Probability of a positive that was not ticked: :math:`p (1 - c) / (1 - c p)`.

    Parameters
    ----------
    p : ndarray of shape (n, c)
        Probabilities of positives.
    rate : ndarray of shape (c,)
        Share of the positives that is ticked.

    Returns
    -------
    ndarray of shape (n, c)

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.ticks import unticked
    >>> unticked(np.array([[0.5, 0.5]]), np.array([0.0, 0.5])).round(3)
    array([[0.5  , 0.333]])
    """
    return p * (1 - rate) / np.maximum(1 - rate * p, 1e-12)


def above_zero(scores: Any, prior: Any) -> Any:
    r"""Correct scores of which the probability would be next to nothing, or less than that.

    A score of :math:`2 p - 1` with :math:`p < \pi`, the class prior, goes to that of
    :math:`\pi e^{p / \pi - 1}`, which is above zero and keeps the order of rows. In a row it sets
    a rare label that features speak against a little back, and a frequent one a lot.

    Parameters
    ----------
    scores : array of shape (n, c)
        Estimates of ``2 p - 1``, of any library.
    prior : ndarray of shape (c,)
        Class priors; zero: leave it.

    Returns
    -------
    array of shape (n, c)

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.ticks import above_zero
    >>> above_zero(np.array([[-1.5, 0.5]]), np.array([0.2, 0.2])).round(3)
    array([[-0.958,  0.5  ]])
    """
    xp = namespace(scores)
    known = np.asarray(prior) > 0
    pi = like(np.where(known, prior, 1.0), scores)
    ratio = (1 + scores) / (2 * pi)
    small = 2 * pi * xp.exp(xp.where(ratio < 1, ratio, 1.0 + 0 * ratio) - 1) - 1
    return xp.where((ratio < 1) & like(known, scores), small, scores)


def estimate_class_prior(scores: Any, Y: Any) -> ClassPrior:
    r"""Estimate the share of positives of every label from ticks and honest scores.

    Where a label is certain the share of ticks is its rate :math:`c_j`. So among the :math:`k` best
    scores the share of ticks is taken, with the :math:`k` whose lower confidence limit is highest,
    and :math:`\pi_j = n_j / (n c_j)`. Rates of labels are shrunk towards their common median by how
    well each is known (empirical Bayes on the logarithm), and lifted to it from below, because
    features may never be certain of a label; rows with one tick at most have one rate for all,
    because their labels compete for it. Where negatives were seen as well, two moments
    tell the rates :math:`1/u` of ticks and :math:`1/v` of negatives without any row being certain:
    :math:`E[(u s + v z - 1) g] = 0` for :math:`g = 1` and for the scores.

    Parameters
    ----------
    scores : array-like of shape (n, c)
        Scores of rows that the model did not see, larger where a tick is more likely.
    Y : array-like of shape (n, c)
        1 for a tick, 0 for a negative that somebody saw, NaN for what is unlabelled.

    Returns
    -------
    ClassPrior
        Values, standard errors and rates.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.ticks import estimate_class_prior
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=(4000, 1))
    >>> ticks = np.where((scores > 0) & (rng.random((4000, 1)) < 0.4), 1.0, np.nan)
    >>> bool(abs(estimate_class_prior(scores, ticks).value[0] - 0.5) < 0.05)
    True
    """
    Y = np.asarray(Y, dtype=np.float64)
    signs = np.where(np.isnan(Y), 0, np.where(Y > 0, 1, -1)).astype(np.int8)
    return _prior(np.asarray(scores, dtype=np.float64), signs)


def class_prior_of(given: Any, signs: Signs) -> ClassPrior:
    """A class prior that is known: one number, or one for every label."""
    share = (signs > 0).mean(axis=0)
    value = np.asarray(given, dtype=np.float64)
    if value.ndim > 1 or (value.ndim == 1 and value.shape != share.shape):
        raise ValueError(
            f"class_prior must be a number or one for each of {len(share)} labels, got shape "
            f"{value.shape}."
        )
    value = np.broadcast_to(value, share.shape).astype(np.float64)
    seen = np.maximum(share, 1e-12)
    if not np.all((value > 0) & (value <= 1) | (share == 0)):
        raise ValueError(f"class_prior must lie above 0 and at most at 1, got {given!r}.")
    if (value < share - 1e-9).any():
        j = int(np.argmax(share - value))
        raise ValueError(
            f"class_prior[{j}] is {value[j]:.3g}, but {share[j]:.3g} of the rows have that label "
            "ticked already."
        )
    value = np.maximum(value, seen)
    return ClassPrior(value, np.zeros_like(value), np.minimum(seen / value, 1.0))


def _prior(honest: Floats, signs: Signs) -> ClassPrior:
    n, c = signs.shape
    ticks, share = signs > 0, (signs > 0).mean(axis=0)
    found = np.array([_certain(ticks[:, j], honest[:, j]) for j in range(c)]).reshape(c, 2)
    log_rate, error = np.log(found[:, 0]), found[:, 1]
    bound = np.ones(c, dtype=bool)
    for j in np.flatnonzero((signs < 0).sum(axis=0) >= ENOUGH):
        moments = _two_sided(signs[:, j], honest[:, j])
        if moments is not None:
            (log_rate[j], error[j]), bound[j] = moments, False
    known = np.isfinite(error) & (ticks.sum(axis=0) >= ENOUGH)
    if not known.any():
        known = np.isfinite(error)
    if known.any():
        one_each = bool((ticks.sum(axis=1) <= 1).all())
        log_rate, error = _shrink(log_rate, error, known, bound, alike=one_each)
    else:
        log_rate, error = np.zeros(c), np.ones(c)
    rate = np.clip(np.exp(log_rate), np.maximum(share, 1e-6), 1.0)
    value = np.where(share > 0, share / rate, 0.0)
    counted = np.sqrt((1 - share) / np.maximum(n * share, 1.0))
    return ClassPrior(value, value * np.hypot(error, counted), rate)


def _certain(ticks: NDArray[np.bool_], scores: Floats) -> tuple[float, float]:
    """Share of ticks where the label is most certain, and the error of its logarithm."""
    ok = np.isfinite(scores)
    ticks, scores = ticks[ok], scores[ok]
    if not ticks.any():
        return 1.0, np.inf
    k = np.arange(1, len(ticks) + 1)
    share = np.cumsum(ticks[np.argsort(-scores, kind="stable")]) / k
    least = min(max(FEWEST, int(SHARE * ticks.sum())), len(ticks)) - 1
    limit = share - np.sqrt(np.maximum(share * (1 - share), 1 / k) / k)
    best = least + int(np.argmax(limit[least:]))
    rate = max(float(share[best]), 0.5 / (best + 1))
    return rate, float(np.sqrt((1 - rate + 1 / (best + 1)) / (rate * (best + 1))))


def _shrink(
    value: Floats,
    error: Floats,
    known: NDArray[np.bool_],
    bound: NDArray[np.bool_],
    *,
    alike: bool,
) -> tuple[Floats, Floats]:
    """Towards the common median, by DerSimonian and Laird's spread; a lower bound is lifted to it.

    Where no row is certain of a label its own rate comes out too low, and nothing tells that from
    a rate that is low.
    """
    mean = float(np.median(value[known]))
    if known.sum() == 1:
        return np.where(known, value, mean), np.where(known, error, error[known].max())
    weight = np.where(known, 1 / np.maximum(error, 1e-6) ** 2, 0.0)
    q = float(weight @ (value - mean) ** 2)
    total = weight.sum() - (weight @ weight) / weight.sum()
    between = max((q - known.sum() + 1) / total, 0.0) if total > 0 and not alike else 0.0
    spread = float(np.std(value[known])) / np.sqrt(known.sum())
    lifted = ~known | (bound & (value < mean))
    own = np.where(lifted, 0.0, between / (between + error**2))
    left = np.where(lifted, between, own * error**2)
    return own * value + (1 - own) * mean, np.sqrt(left + ((1 - own) * spread) ** 2)


def _two_sided(signs: Signs, scores: Floats) -> tuple[float, float] | None:
    """Logarithm of the rate of ticks, and its error, from two moments; None if they do not."""
    ok = np.isfinite(scores)
    s, z, g = (signs[ok] > 0) * 1.0, (signs[ok] < 0) * 1.0, scores[ok] - scores[ok].mean()
    moments = np.array([[s.mean(), z.mean()], [(s * g).mean(), (z * g).mean()]])
    if abs(np.linalg.det(moments)) < 1e-10:
        return None
    inverse = np.linalg.inv(moments)
    u, v = inverse @ np.array([1.0, 0.0])
    if not (u >= 1 and v >= 1):
        return None
    off = u * s + v * z - 1
    scatter = np.cov(np.stack([off, off * g])) / len(s)
    error = float(np.sqrt((inverse @ scatter @ inverse.T)[0, 0])) / u
    return (-float(np.log(u)), error) if error < 0.5 else None


@dataclass(frozen=True)
class Ticks:
    """What ticks say about features, on the scale of targets.

    Attributes
    ----------
    scores : ndarray of shape (n, c)
        Fit of ``2 y - 1``.
    pull : ndarray of shape (n, c)
        What is added for every unit of ridge, so that ridge with any ``alpha`` gives ``scores``.
    honest : ndarray of shape (n, c)
        Scores as if the row had not been there.
    prior : ClassPrior
        Given or estimated.
    """

    scores: Floats
    pull: Floats
    honest: Floats
    prior: ClassPrior

    @classmethod
    def of(cls, features: Features, said: NDArray[Any], class_prior: Any = None) -> Ticks:
        """Learn from ticks (+1), negatives that were seen (-1) and unlabelled entries (0)."""
        signs = np.sign(said).astype(np.int8)
        ticks = (signs > 0).astype(np.float64)
        spectrum = _Spectrum.of(features)
        smooth = spectrum.smooth(ticks, ticks)
        if class_prior is None:
            prior = _prior(smooth.honest, signs)
        else:  # chance may tick a larger share of some rows than all have
            prior = class_prior_of(np.maximum(class_prior, ticks.mean(axis=0)), signs)
        scale = 2 / prior.rate
        if (signs < 0).any():
            # Both kinds of answers, weighted by how little they vary.
            seen = (signs < 0).astype(np.float64)
            no_rate = np.clip(seen.mean(axis=0) / np.maximum(1 - prior.value, 1e-6), 0.0, 1.0)
            noise = (prior.value * (1 / prior.rate - prior.value), 1 - prior.value)
            other = noise[1] * (1 / np.maximum(no_rate, 1e-6) - noise[1])
            trust = np.where(no_rate > 0, noise[0] / np.maximum(noise[0] + other, 1e-12), 0.0)
            back = 2 / np.maximum(no_rate, 1e-6)
            said = (1 - trust) * (scale * ticks - 1) + trust * (1 - back * seen)
            smooth = spectrum.smooth(said, ticks)
            return cls(smooth.fitted, smooth.pull, smooth.honest, prior)
        return cls(scale * smooth.fitted - 1, scale * smooth.pull, scale * smooth.honest - 1, prior)

    def targets(self, alpha: float) -> Floats:
        """Targets of ridge with this ``alpha``, to which its solution is ``scores``."""
        return self.scores + alpha * self.pull


class _Smooth(NamedTuple):
    fitted: Floats
    pull: Floats
    honest: Floats


@dataclass(frozen=True)
class _Spectrum:
    """Principal components ``U`` (n, r) of the features, and what they weigh."""

    U: Floats
    w: Floats
    intercept: bool

    @classmethod
    def of(cls, features: Features) -> _Spectrum:
        centred = features.centre()
        gram = to_numpy(float64(centred.gram()))[: centred.d, : centred.d]
        w, V = np.linalg.eigh(gram)
        kept = w > max(w[-1], 0.0) * 1e-10
        w, V = w[kept], V[:, kept] / np.sqrt(w[kept])
        if centred.intercept:
            V = np.vstack([V, np.zeros((1, V.shape[1]))])
        U = to_numpy(float64(centred.scores(like(V, centred.example))))
        return cls(U, w, centred.intercept)

    def smooth(self, S: Floats, ticks: Floats) -> _Smooth:
        """Fit of ``S``, found with the covariances that EM finds."""
        n, c = S.shape
        mean = S.mean(axis=0) if self.intercept else np.zeros(c)
        R = S - mean
        P, total = self.U.T @ R, R.T @ R
        known = max(int(ticks.sum() / (TICKS_A_NUMBER * c)), 1)
        level = self._level(S, R, P, ticks) if known < c - 1 and len(P) else None
        B, noise = self._covariances(P, total, n, known, level)
        d, V = eigh(B, noise)
        back = noise @ V  # of V', the inverse
        d = np.maximum(d, 0.0)
        share = self.w[:, None] * d / (self.w[:, None] * d + 1)
        rotated = R @ V
        fitted = self.U @ (share * (P @ V))
        left = rotated - fitted
        honest = rotated - left / self._without(share)
        return _Smooth(mean + fitted @ back.T, (left * d) @ back.T, mean + honest @ back.T)

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
