"""Positive-unlabelled learning: some positives are labelled, all other entries are unlabelled.

Positives are labelled at the rate ``c``; negatives are never labelled. For the squared loss, the
unbiased risk is the risk of the targets ``2 s / c - 1``, where ``s`` is 1 for labelled positives
and 0 for other entries. The targets are very noisy, so the labels are first smoothed over the
features (docs/research/positive-unlabelled.md).
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from dm2l._base import FitResult, MissingLabelClassifier
from dm2l._solvers.features import Features
from dm2l._utils import arrays
from dm2l.completion import _completer
from dm2l.completion._completer import LabelCompleter
from dm2l.completion._errors import Calibrator, LabelErrors, best_f1_thresholds
from dm2l.labels._entries import EntryWeights, Floats, Signs
from dm2l.labels._matrix import LabelMatrix

__all__ = ["ClassPrior", "estimate_class_prior"]

ENOUGH = 10  # minimum number of labelled positives for a separate frequency of a label
# Minimum number of rows with the best scores from which a frequency is estimated: an absolute
# number, and a share of the labelled positives.
FEWEST, SHARE = 10, 0.2


class ClassPrior(NamedTuple):
    """Share of positives of every label, with its standard error.

    Attributes
    ----------
    value : ndarray of shape (c,)
        Class priors.
    standard_error : ndarray of shape (c,)
        Standard errors of the class priors; zero if the priors were given.
    rate : ndarray of shape (c,)
        Label frequencies: for each label, the share of its positives that are labelled.
    """

    value: Floats
    standard_error: Floats
    rate: Floats

    def spread(self, learnable: NDArray[np.bool_], constant: Floats) -> Self:
        """Return priors of all labels; the prior of a label that cannot be learned is 1 or 0."""
        whole = np.zeros((3, len(learnable)))
        whole[0], whole[2] = constant > 0, 1.0
        whole[:, learnable] = self
        return type(self)(*whole)


def estimate_class_prior(scores: Any, Y: Any) -> ClassPrior:
    r"""Estimate the share of positives of every label from positive-unlabelled labels.

    Among rows that are certainly positive, the share of labelled rows is the label frequency
    :math:`c_j`. This share is estimated from the :math:`k` rows with the best scores, where
    :math:`k` maximizes the lower confidence limit of the share. With :math:`n_j` labelled
    positives, the class prior is :math:`\pi_j = n_j / (n c_j)`. Frequencies are shrunk towards, and
    are at least, their mean over all positives, because a label may have no certainly positive
    rows. If no row has two positives, all labels have the same frequency. If negatives are
    observed, let s and z be 1 for labelled positives and negatives. Their label frequencies 1/u and
    1/v solve :math:`E[(u s + v z - 1) g] = 0` for :math:`g = 1` and for scores :math:`g`.

    Parameters
    ----------
    scores : array-like of shape (n, c)
        Held-out scores; entries with larger scores are more likely to be positive.
    Y : array-like of shape (n, c)
        1 for a positive, 0 for an observed negative, NaN for an unlabelled entry.

    Returns
    -------
    ClassPrior
        Class priors, standard errors and label frequencies.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.pu import estimate_class_prior
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=(4000, 1))
    >>> Y = np.where((scores > 0) & (rng.random((4000, 1)) < 0.4), 1.0, np.nan)
    >>> estimate_class_prior(scores, Y).value.round(1)
    array([0.5])
    """
    Y = np.asarray(Y, dtype=np.float64)
    signs = np.where(np.isnan(Y), 0, np.where(Y > 0, 1, -1)).astype(np.int8)
    scores = np.asarray(scores, dtype=np.float64)
    n, c = signs.shape
    labelled, share = signs > 0, (signs > 0).mean(axis=0)
    found = np.array([where_certain(labelled[:, j], scores[:, j]) for j in range(c)]).reshape(c, 2)
    log_rate, error = np.log(found[:, 0]), found[:, 1]
    bound = np.ones(c, dtype=bool)
    for j in np.flatnonzero((signs < 0).sum(axis=0) >= ENOUGH):
        moments = two_sided(signs[:, j], scores[:, j])
        if moments is not None:
            (log_rate[j], error[j]), bound[j] = moments, False
    known = np.isfinite(error) & (labelled.sum(axis=0) >= ENOUGH)
    if not known.any():
        known = np.isfinite(error)
    one_each = bool((labelled.sum(axis=1) <= 1).all())
    count = np.where(known, labelled.sum(axis=0), 0.0)
    if known.any():
        log_rate, error = shrink(log_rate, error, count, bound, alike=one_each)
    else:
        log_rate, error = np.zeros(c), np.ones(c)
    rate = np.clip(np.exp(log_rate), np.maximum(share, 1e-6), 1.0)
    value = np.where(share > 0, share / rate, 0.0)
    counted = np.sqrt((1 - share) / np.maximum(n * share, 1.0))
    return ClassPrior(value, value * np.hypot(error, counted), rate)


def check_class_prior(given: Any, signs: Signs) -> ClassPrior:
    """Check a class prior, which is one number or one per label, and return it for all labels."""
    share = (signs > 0).mean(axis=0)
    value = np.asarray(given, dtype=np.float64)
    if value.shape not in ((), share.shape):
        raise ValueError(
            f"class_prior must be one number or {len(share)} numbers, one for each label, got "
            f"shape {value.shape}."
        )
    value = np.broadcast_to(value, share.shape)
    seen = np.maximum(share, 1e-12)
    if not np.all((value > 0) & (value <= 1) | (share == 0)):
        raise ValueError(f"class_prior must be greater than 0 and at most 1, got {given!r}.")
    if (value < share - 1e-9).any():
        j = int(np.argmax(share - value))
        raise ValueError(
            f"class_prior of column {j} is {value[j]:.3g}, but must be at least {share[j]:.3g}, "
            "the share of rows that are labelled as positives. Pass a larger prior."
        )
    value = np.maximum(value, seen)
    return ClassPrior(value, np.zeros_like(value), np.minimum(seen / value, 1.0))


def where_certain(labelled: NDArray[np.bool_], scores: Floats) -> tuple[float, float]:
    """Return the labelled share of the best-scored rows, and the standard error of its log."""
    ok = np.isfinite(scores)
    labelled, scores = labelled[ok], scores[ok]
    if not labelled.any():
        return 1.0, np.inf
    k = np.arange(1, len(labelled) + 1)
    share = np.cumsum(labelled[np.argsort(-scores, kind="stable")]) / k
    least = min(max(FEWEST, int(SHARE * labelled.sum())), len(labelled)) - 1
    limit = share - np.sqrt(np.maximum(share * (1 - share), 1 / k) / k)
    best = least + int(np.argmax(limit[least:]))
    rate = max(float(share[best]), 0.5 / (best + 1))
    return rate, float(np.sqrt((1 - rate + 1 / (best + 1)) / (rate * (best + 1))))


def two_sided(signs: Signs, scores: Floats) -> tuple[float, float] | None:
    """Return the log-frequency and its standard error; None if two moments do not determine it."""
    ok = np.isfinite(scores)
    s, z, g = (signs[ok] > 0) * 1.0, (signs[ok] < 0) * 1.0, scores[ok] - scores[ok].mean()
    moments = np.array([[s.mean(), z.mean()], [(s * g).mean(), (z * g).mean()]])
    if abs(np.linalg.det(moments)) < 1e-10:
        return None
    inverse = np.linalg.inv(moments)
    u, v = inverse @ np.array([1.0, 0.0])
    if min(u, v) < 1 - 1e-9:  # if every entry is labelled, both are 1 up to rounding
        return None
    off = u * s + v * z - 1
    scatter = np.cov(np.stack([off, off * g])) / len(s)
    error = float(np.sqrt((inverse @ scatter @ inverse.T)[0, 0])) / u
    return (-float(np.log(u)), error) if error < 0.5 else None


def shrink(
    value: Floats, error: Floats, count: Floats, bound: NDArray[np.bool_], *, alike: bool
) -> tuple[Floats, Floats]:
    """Shrink log-frequencies to the mean (DerSimonian and Laird); raise lower ones to it."""
    # Labels are weighted by their positives, because labels with many positives are more likely to
    # have rows that are certainly positive. The mean is over frequencies, not over logarithms.
    error = np.clip(error, 1e-6, 1e6)  # zero if all positives are labelled, infinite if unknown
    known, share = count > 0, count / count.sum()
    rate = np.where(known, np.exp(value), 0.0)
    mean = float(np.log(share @ rate))
    if known.sum() == 1:
        return np.where(known, value, mean), np.where(known, error, error[known].max())
    weight = np.where(known, 1 / error**2, 0.0)
    q = float(weight @ (value - mean) ** 2)
    total = weight.sum() - (weight @ weight) / weight.sum()
    between = max((q - known.sum() + 1) / total, 0.0) if total > 0 else 0.0
    spread = float(np.sqrt(share**2 @ (rate / np.exp(mean) - 1) ** 2))
    common = alike | ~known | (bound & (value < mean))
    own = np.where(common, 0.0, between / (between + error**2))
    left = np.where(common, between, own * error**2)
    return own * value + (1 - own) * mean, np.sqrt(left + ((1 - own) * spread) ** 2)


def unlabelled_probability(p: Floats, rate: Floats) -> Floats:
    r"""Return the probability that an unlabelled entry is positive, :math:`p(1 - c) / (1 - cp)`."""
    return p * (1 - rate) / np.maximum(1 - rate * p, 1e-12)


def correct_scores(scores: Any, prior: Any) -> Any:
    """Correct scores ``2 p - 1``: a p below the prior pi becomes ``pi exp(p / pi - 1)`` > 0."""
    xp = arrays.namespace(scores)
    known = np.asarray(prior) > 0
    pi = arrays.asarray_like(np.where(known, prior, 1.0), scores)
    ratio = (1 + scores) / (2 * pi)
    small = 2 * pi * xp.exp(xp.where(ratio < 1, ratio, 1.0 + 0 * ratio) - 1) - 1
    return xp.where((ratio < 1) & arrays.asarray_like(known, scores), small, scores)


ROUNDS = 30
# Required positives for each parameter of a covariance. With fewer positives, only some directions
# are estimated, in EARLY rounds, as more would overfit (docs/research/positive-unlabelled.md).
POSITIVES_PER_NUMBER, EARLY = 2, 10
LEVELS = 10.0 ** np.arange(0, -3.0, -0.5)  # candidates for the signal-to-noise ratio
# Share of the trace that is added to covariances, which may be singular. With one positive in every
# row, for example, the sum of all labels has no noise.
JITTER = 1e-7


@dataclass(frozen=True)
class PrincipalComponents:
    """Principal components ``U`` (n, r) of the features, and their eigenvalues ``w``."""

    U: Floats
    w: Floats
    intercept: bool

    @classmethod
    def of(cls, features: Features) -> Self:
        """Compute the principal components of the centred features."""
        centred = features.centre()
        gram = arrays.to_numpy(arrays.float64(centred.gram()))[: centred.d, : centred.d]
        with arrays.blas_threads(float(centred.d) ** 3, arrays.WORTH_FACTORING):
            w, V = np.linalg.eigh(gram)
        kept = w > max(w[-1], 0.0) * 1e-10
        w, V = w[kept], V[:, kept] / np.sqrt(w[kept])
        if centred.intercept:
            V = np.vstack([V, np.zeros((1, V.shape[1]))])
        U = arrays.to_numpy(arrays.float64(centred.scores(arrays.asarray_like(V, centred.example))))
        return cls(U, w, centred.intercept)

    def smooth(self, S: Floats, labelled: Floats) -> tuple[Floats, Floats, Floats]:
        """Smooth ``S`` by EM; return scores, :attr:`PUTargets.pull` and leave-one-out scores."""
        n, c = S.shape
        mean = S.mean(axis=0) if self.intercept else np.zeros(c)
        R = S - mean
        P, total = self.U.T @ R, R.T @ R
        known = max(int(labelled.sum() / (POSITIVES_PER_NUMBER * c)), 1)
        level = self._level(S, R, P, labelled) if known < c - 1 and len(P) else None
        with arrays.blas_threads(float(c) ** 3 + P.size * c):
            B, noise = self._covariances(P, total, n, known, level)
            d, V = eigh(B, noise)
        back = noise @ V  # the inverse of V'
        d = np.maximum(d, 0.0)
        share = self.w[:, None] * d / (self.w[:, None] * d + 1)
        rotated = R @ V
        fitted = self.U @ (share * (P @ V))
        left = rotated - fitted
        unseen = rotated - left / self._without(share)
        return mean + fitted @ back.T, (left * d) @ back.T, mean + unseen @ back.T

    def _without(self, share: Floats) -> Floats:
        """Return the divisors that convert residuals to leave-one-out residuals."""
        own = (self.U**2) @ share + (1 / len(self.U) if self.intercept else 0.0)
        return np.maximum(1 - own, 1e-3)

    def _level(self, S: Floats, R: Floats, P: Floats, labelled: Floats) -> float:
        """Return the signal-to-noise ratio of all labels that gives the best held-out ranking."""
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
            if level is not None:  # probabilistic PCA with given noise
                found, Q = np.linalg.eigh(inner)
                found[:-known] = level
                inner = (Q * np.maximum(found, level)) @ Q.T
            B, noise = back @ inner @ back.T, back @ outer @ back.T / n
            if level is None:
                # Entries off the diagonal are shrunk: c per label are estimated from r directions.
                B = (r * B + c * np.diag(np.diag(B))) / (r + c)
            B, noise = ((A + A.T) / 2 + JITTER * np.trace(A) / c * np.eye(c) for A in (B, noise))
        return B, noise


RIDGES, CHOOSING_ROWS = (1.0, 10.0, 100.0, 1000.0), 2000  # alphas, and rows for their selection


@dataclass(frozen=True)
class PUTargets:
    """Scores that estimate ``2 y - 1`` from positive-unlabelled labels, and held-out scores."""

    scores: Floats
    pull: Floats  # change of the targets per unit of alpha
    leave_one_out_scores: Floats
    prior: ClassPrior

    @classmethod
    def of(
        cls, features: Features, signs: NDArray[Any], class_prior: Any = None, learnable: Any = ...
    ) -> Self:
        """Estimate targets from signs: 1 for positives, -1 for negatives, 0 for unlabelled."""
        signs = np.sign(signs).astype(np.int8)
        labelled = (signs > 0).astype(np.float64)
        components = PrincipalComponents.of(features)
        found = components.smooth(labelled, labelled)
        if class_prior is None:
            Y = np.where(signs == 0, np.nan, signs)
            prior = estimate_class_prior(given_other_labels(found[2], labelled), Y)
        else:  # in a fold, the share of positives may exceed the given prior
            given = class_prior if np.ndim(class_prior) == 0 else np.asarray(class_prior)[learnable]
            prior = check_class_prior(np.maximum(given, labelled.mean(axis=0)), signs)
        scale = 2 / prior.rate
        if not (signs < 0).any():
            fitted, pull, unseen = (scale * part for part in found)
            return cls(fitted - 1, pull, unseen - 1, prior)
        # Estimates from positives and from negatives are averaged with inverse variances.
        negative = (signs < 0).astype(np.float64)
        no_rate = np.clip(negative.mean(axis=0) / np.maximum(1 - prior.value, 1e-6), 0.0, 1.0)
        noise = (prior.value * (1 / prior.rate - prior.value), 1 - prior.value)
        other = noise[1] * (1 / np.maximum(no_rate, 1e-6) - noise[1])
        trust = np.where(no_rate > 0, noise[0] / np.maximum(noise[0] + other, 1e-12), 0.0)
        back = 2 / np.maximum(no_rate, 1e-6)
        targets = (1 - trust) * (scale * labelled - 1) + trust * (1 - back * negative)
        return cls(*components.smooth(targets, labelled), prior)

    def targets(self, alpha: float) -> Floats:
        """Return the targets for which ridge with penalty ``alpha`` predicts ``scores``."""
        return self.scores + alpha * self.pull


def given_other_labels(scores: Floats, labelled: Floats) -> Floats:
    """Return leave-one-out scores given the features and the other positives of the row."""
    # If positives are labelled independently, other positives of a row can be used like features.
    # Ridge regresses the residuals of ``labelled`` (1 or 0) on the residuals of the other labels.
    if labelled.sum(axis=1).max(initial=0.0) <= 1:
        # with at most one positive per row, the other labels would determine this label
        return scores
    R = labelled - scores
    w, V = np.linalg.eigh(R.T @ R)
    inverses = [(V / (np.maximum(w, 0.0) + alpha)) @ V.T for alpha in RIDGES]
    some = R[:: max(len(R) // CHOOSING_ROWS, 1)]
    loss = [float((_leave_one_out(some, Q) ** 2).sum()) for Q in inverses]
    return labelled - _leave_one_out(R, inverses[int(np.argmin(loss))])


def _leave_one_out(R: Floats, Q: Floats) -> Floats:
    """Return leave-one-out residuals of ridge for each column of R; ``Q`` is inv(R'R + alpha I)."""
    RQ, own = R @ Q, np.diag(Q)
    leverage = (RQ * R).sum(axis=1)[:, None] - RQ**2 / own
    return RQ / own / (1 - leverage)


_ROUNDS = 3  # rounds of EM for calibration curves and probabilities of unlabelled entries


class PUCompleter(LabelCompleter):
    """:class:`LabelCompleter` for positive-unlabelled labels, without label correlation."""

    def __init__(self, *arguments: Any, rate: Floats, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.rate = rate

    def state(self) -> dict[str, Any]:
        """Return the constructor's arguments, with fitted results in place of functions."""
        return super().state() | {"rate": self.rate}

    def check_bound(self, max_error_rate: Any, method: str, estimator: str) -> Any:
        """Raise an error, because a bound on error rates requires observed negatives."""
        raise ValueError(
            "max_error_rate requires observed negatives. With missing_as='unlabelled', the error "
            "rate cannot be estimated."
        )

    def _impute(
        self, X: Any, T: Signs, missing: Any, scores: Floats, probabilities: Any, _: Any
    ) -> _completer.Imputation:
        """Impute missing labels, which are treated as unlabelled entries, without rules."""
        if self.training_rows is not None and len(self.training_rows.scores):
            scores = self.training_rows.hold_out(X, np.where(T > 0, 1, -1), scores)
            probabilities = None
        p = self.probabilities(scores) if probabilities is None else probabilities
        p = unlabelled_probability(p, self.rate)
        positive = p > 0.5 if self.by_probability else self._decide(scores)
        return _completer.Imputation(scores, p, positive, missing, _completer.NO_BOUND)

    def find_label_errors(self, T: Signs, scores: Floats, **_: Any) -> LabelErrors:
        """Return the unlabelled entries, sorted by the probability that they are positive."""
        row, label = np.nonzero((T == 0) & self.learnable & np.isfinite(scores))
        scores = np.nan_to_num(scores)
        p = np.clip((1 + scores) / 2, 0.0, 1.0)
        if self.calibrator is not None:
            p = self.calibrator.predict(scores)
        p = unlabelled_probability(p, self.rate)
        if self.rules is not None:
            closed, against = self.rules._logic.propagate(T)
            p = self.rules._logic.project(p, np.where(against[:, None], 0, closed).astype(np.int8))
        p = p[row, label]
        order = np.argsort(-p, kind="stable")
        false_alarms = np.cumsum(1 - p[order]) / np.arange(1, len(p) + 1)
        negative = np.zeros(len(p), dtype=bool)
        return LabelErrors(row[order], label[order], negative, p[order], false_alarms)


class PositiveUnlabelledClassifier(MissingLabelClassifier):
    """Base of estimators that support ``missing_as="unlabelled"`` and ``class_prior``."""

    # With "unlabelled", the score model gets complete labels, in which unlabelled entries are
    # negatives, and the original signs as targets. It passes its class prior to _keep_prior.
    class_prior: Any = None

    def _without_unlabelled(self, labels: LabelMatrix) -> LabelMatrix:
        if self.threshold in ("f1_samples", "subset_accuracy"):
            raise ValueError(
                f"missing_as='unlabelled' does not support threshold={self.threshold!r}. Use 'f1'."
            )
        if labels.kind != "multilabel":
            raise ValueError("missing_as='unlabelled' needs a 2-D y. Use y.reshape(-1, 1).")
        if self.class_prior is not None:
            check_class_prior(self.class_prior, labels.signs)
        return _as_negatives(labels)

    def _keep_prior(self, prior: ClassPrior | None = None) -> None:
        """Store the class priors of all labels, given the priors of the learnable labels."""
        prior = prior or ClassPrior(*np.zeros((3, 0)))
        found = prior.spread(self._learnable, self._constant)
        self.class_prior_, self.class_prior_error_, self._label_frequency = found

    def _corrected(self, scores: Any) -> Any:
        """Return scores of the learnable labels after :func:`correct_scores`."""
        return correct_scores(arrays.float64(scores), self.class_prior_[self._learnable])

    def _for_folds(self) -> Self:
        bare = super()._for_folds()
        if self.missing_as == "unlabelled":
            bare.class_prior = self.class_prior_  # all folds then have the same scale
        return bare

    def _fit_pu_completer(self, X: Any, labels: LabelMatrix, result: FitResult) -> LabelCompleter:
        signs = labels.entries.targets if labels.entries is not None else None
        if signs is not None and signs.all() and (signs < 0).any():
            warnings.warn(
                "missing_as='unlabelled', but no entry of Y is missing, and 0 counts as an "
                "observed negative. Mark unlabelled entries by NaN, as in np.where(Y == 1, 1, "
                "np.nan), or do not pass missing_as.",
                UserWarning,
                stacklevel=4,
            )
        positive, rate, calibrator, held_out = labels.signs > 0, self._label_frequency, None, None
        chosen = isinstance(self.threshold, str)
        thresholds = np.full(labels.n_labels, 0.0 if chosen else float(self.threshold or 0))
        if self.calibration is not None or chosen:
            # Every entry is used twice: as a positive and as a negative, weighted by probability.
            n, held_out = len(positive), self._cross_fit(X, labels)
            scores = np.vstack([held_out] * 2)
            both = np.repeat(np.array([[1], [-1]], dtype=np.int8), n, axis=0)
            both = np.where(np.isfinite(scores), both, 0).astype(np.int8)
            p = np.clip((1 + scores[:n]) / 2, 0.01, 0.99)
            for _ in range(_ROUNDS):
                likely = np.where(positive, 1.0, unlabelled_probability(p, rate))
                weights = np.nan_to_num(np.vstack([likely, 1 - likely]))
                if self.calibration is None:
                    break
                calibrator = Calibrator(self.calibration).fit(scores, both, weights)
                p = calibrator.predict(np.nan_to_num(scores[:n]))
            if chosen:
                thresholds = best_f1_thresholds(scores, both, weights)
        known = np.where(positive, 1, -1)
        if (
            held_out is not None
            and _completer.overfits(X, known, held_out, self._all_scores) is None
        ):
            held_out = None
        rows = _completer.TrainingRows.of(_completer.row_digests(X, rounded=True), known, held_out)
        by_probability = self.threshold is None
        options = {"rate": rate, "rules": self.rules and self.rules._named(self._labels)}
        return PUCompleter(thresholds, self._learnable, calibrator, by_probability, rows, **options)

    def _cross_fit(self, X: Any, labels: LabelMatrix) -> Any:
        if self.missing_as == "unlabelled" and labels.entries is None:
            labels = _as_negatives(labels)  # labels that were passed to find_label_errors
        return super()._cross_fit(X, labels)


def _as_negatives(labels: LabelMatrix) -> LabelMatrix:
    """Return labels in which unlabelled entries are negatives, with original signs as targets."""
    T = np.where(labels.signs > 0, 1, -1).astype(np.int8)
    return replace(labels, signs=T, entries=EntryWeights.of(T, targets=labels.signs))
