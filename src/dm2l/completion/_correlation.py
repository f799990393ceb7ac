"""Label correlation: probabilities, error rates and expected gains of queries."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logit

from dm2l._utils.arrays import Index
from dm2l._utils.logistic import LogisticProblem
from dm2l.completion import _covariance
from dm2l.completion._errors import ErrorRateBound, best_thresholds
from dm2l.labels._entries import Floats, Mask, Signs
from dm2l.labels._matrix import constant_scores

# Number of rows to which the probability model is fitted, because it has few weights per label;
# with many labels, fewer rows are used.
MOST_ROWS, FEWEST_ROWS = 2000, 500
# From this number of rows per label, probabilities and covariance share their rows. With fewer,
# the covariance overfits, and probabilities are fitted by folds (benchmarks/completion.py).
PLENTY = 50
# Minimum number of examples of each class for decisions by the probabilities of a label.
ENOUGH = 5
# Penalty on the difference between the weights of a label and the weights that all labels share.
OWN_PENALTY = 10.0
# Penalty on the weights that a label's model gives to other labels (benchmarks/completion.py).
# With more than PAIRS labels, it is proportional to the number of labels.
LABEL_PENALTY, PAIRS = 30.0, 64
# Penalties on changes of a calibrated label's intercept, and on changes of the final weights.
LEVEL_PENALTY, FINAL_PENALTY = 3.0, 30.0
ROUNDS = 30
# Tolerances of the log-likelihood in the fits of each label and of the final weights.
TOL, FINAL_TOL = 1e-2, 1e-6
# Conjugate gradients stop at this number of steps or at this squared error.
STEPS, EXACT = 60, 1e-4
# With more labels, their signs are not used, because weights of all pairs would exceed memory.
MAX_LABELS = 2000
SCORES = 4  # number of weights of the scores, including the intercept
# Limit of the standardized 1 / s. The standard deviation s of a label almost without errors is
# nearly constant, but differs between the folds and all rows by much more than between rows.
FAR = 5.0


@dataclass(frozen=True)
class LabelCorrelation:
    """Covariance of the residuals of all labels, with probabilities and error rates based on it."""

    covariance: _covariance.LabelCovariance
    combiner: Combiner
    error_rates: ErrorRateBound
    threshold: float | None  # cutoffs of conditional means; None bases decisions on probabilities
    # NaN for labels with too few examples of a class. Infinite for labels without any, whose
    # probabilities do not use other labels.
    cutoffs: Floats
    added: float = 1.0  # factor for the effect of known labels in training rows

    @classmethod
    def fit(
        cls,
        T: Signs,
        F: Floats,
        threshold: Any = None,
        order: Index | None = None,
        calibrated: bool = False,  # whether scores are 2 p - 1 with calibrated probabilities p
        free: Mask | None = None,  # entries for estimating error rates, without implied entries
        overfit: tuple[Signs, Floats, Floats] | None = None,  # see overfits
    ) -> Self:
        """Fit label correlation to signs and held-out scores; ``order`` is used to sample rows."""
        scored = np.isfinite(F)
        T, F = np.where(scored, T, 0), np.where(scored, F, 0.0)
        kept = (T != 0).any(axis=1)
        chosen = np.random.default_rng(0).permutation(np.flatnonzero(kept))
        if order is not None:
            chosen = order[kept[order]]
        T, F = T[chosen], F[chosen]
        free = np.ones(T.shape, dtype=bool) if free is None else free[chosen]
        number = None if threshold is None or isinstance(threshold, str) else float(threshold)
        rarer = np.minimum((T > 0).sum(axis=0), (T < 0).sum(axis=0))
        cutoffs = np.where(rarer < ENOUGH, np.nan, 0.5)
        cutoffs[rarer == 0] = np.inf
        covariance, combiner = _covariance.quick_covariance(T, F), Combiner()
        combiner.calibrated = calibrated
        most = int(np.clip(_covariance.WORK / T.shape[1] ** 3, FEWEST_ROWS, MOST_ROWS))
        if len(T) > max(1.5 * most, PLENTY * T.shape[1]):
            first, second = slice(0, most), slice(most, 2 * most)
            moments = _covariance.conditional_moments(covariance, T[first], F[first])
            combiner.fit(T[first], F[first], *moments)
            T, F, free = T[second], F[second], free[second]
            mean, variance = _covariance.conditional_moments(covariance, T, F)
            eta, alone = combiner.margins(T, F, mean, variance), combiner.alone(T, F)
        else:
            folds = np.arange(len(T)) % _covariance.FOLDS
            mean, variance = _covariance.out_of_fold_moments(T, F, folds)
            few = slice(0, _covariance.FOLDS * most // (_covariance.FOLDS - 1))
            T, F, mean, variance, free = T[few], F[few], mean[few], variance[few], free[few]
            eta, alone = combiner.cross_fit(T, F, mean, variance, folds=folds[few])
        p = combiner.combine(T, eta, alone)
        if isinstance(threshold, str):
            cutoffs = cutoffs + best_thresholds(threshold, p - 0.5, T)
        unbounded = ErrorRateBound.fit(p, p > 0.5, np.zeros_like(T))
        found = cls(covariance, combiner, unbounded, number, cutoffs)
        positive = found.decide(mean, p)
        tested = np.where(free, T, 0)
        bound = ErrorRateBound.fit(np.where(positive, p, 1 - p), positive, tested)
        found = replace(found, error_rates=bound)
        return found if overfit is None else found.for_training_rows(*overfit)

    def predict(self, T: NDArray[Any], F: Floats) -> tuple[Floats, Floats]:
        """Return mean and probability of every entry, given the *other* known labels of its row."""
        mean, variance = _covariance.conditional_moments(self.covariance, T, F)
        p, apart = self.combiner.predict(T, F, mean, variance), np.isinf(self.cutoffs)
        return mean, np.where(apart, expit(self.combiner.alone(T, F)), p) if apart.any() else p

    def for_training_rows(self, T: Signs, F: Floats, own: Floats) -> Self:
        """Return a copy with the factor ``added`` estimated from held-out and model scores."""
        # The model was fitted to these rows and to more rows than the models of the folds. At
        # missing entries, its scores therefore contain part of the effect of known labels. This
        # part is the slope of score differences on these effects, and needs no labels.
        T, use = np.where(np.isfinite(F), T, 0), (T == 0) & np.isfinite(F) & np.isfinite(own)
        F = np.where(np.isfinite(F), F, own)
        alone = self.combiner.alone(T, F)
        gain = (log_odds(2 * self.predict(T, F)[1] - 1) - alone)[use]
        known = (self.combiner.alone(T, own) - alone)[use] @ gain / max(gain @ gain, 1e-300)
        return replace(self, added=float(np.clip(1 - known, 0.0, 1.0)))

    def impute(self, T: Signs, F: Floats, trained: Mask) -> tuple[Floats, Floats]:
        """Return mean and probability of every missing entry; ``trained`` marks training rows."""
        mean, p = self.predict(T, F)
        if self.added < 1 and trained.any():
            alone = self.combiner.alone(T, F)
            fewer = expit(alone + self.added * (log_odds(2 * p - 1) - alone))
            p = np.where(trained[:, None], fewer, p)
        return mean, p

    def decide(self, mean: Floats, p: Floats) -> Mask:
        """Return whether each entry is positive, from conditional means or probabilities."""
        if self.threshold is not None:
            return np.asarray(mean > self.threshold)
        return np.where(np.isnan(self.cutoffs), mean > 0, p > self.cutoffs)


class Combiner:
    """Logistic model of each label on its scores and the signs of the row's other labels."""

    # The weights of scores are shrunk to the weights of one model for all labels. Signs are not
    # used if labels=False or with more than 2,000 labels. All methods take three ``inputs`` (n, c):
    # scores from features, conditional means and conditional variances (docs/research/imputing.md).

    weights_: Floats
    with_labels_: bool
    alone_: Combiner | None = None  # model of the features only; None if the scores are calibrated
    # Weights of 1, of log-odds with labels, of log-odds without, of positive log-odds with labels.
    final_: Floats | None = None
    calibrated = False  # whether scores are 2 p - 1 with calibrated probabilities p

    def __init__(self, labels: bool = True) -> None:
        self.labels = labels

    def fit(self, T: Signs, *inputs: Floats) -> Self:
        """Fit the weights of the logistic models to known entries."""
        self._scale(T, *inputs)
        self._learn(T, *inputs)
        if self.labels and not self.calibrated:
            self.alone_ = Combiner(labels=False).fit(T, *_bare(inputs[0]))
        return self

    def cross_fit(self, T: Signs, *inputs: Floats, folds: Index) -> tuple[Floats, Floats]:
        """Return out-of-fold log-odds with and without labels; store the mean weights."""
        self._scale(T, *inputs)
        eta, weights = np.empty(T.shape), []
        for k in range(int(folds.max(initial=0)) + 1):
            rest, here, part = folds != k, folds == k, copy(self)
            part._learn(T[rest], *(values[rest] for values in inputs))
            eta[here] = part.margins(T[here], *(values[here] for values in inputs))
            weights.append(part.weights_)
        self.with_labels_, self.weights_ = part.with_labels_, np.mean(weights, axis=0)
        if self.calibrated or not self.labels:
            return eta, self.alone(T, inputs[0])
        self.alone_ = Combiner(labels=False)
        return eta, self.alone_.cross_fit(T, *_bare(inputs[0]), folds=folds)[0]

    def combine(self, T: Signs, eta: Floats, alone: Floats) -> Floats:
        """Fit the final weights to held-out log-odds, and return probabilities."""
        # If log loss is lower with only the features, the labels of a row are not used. The
        # probabilities of calibrated scores are recalibrated by four weights that all labels
        # share, with a penalty on changes (benchmarks/imputation.py).
        known = T != 0
        t, Z = T[known].astype(np.float64), np.stack(_parts(eta, alone))[:, known]
        final = plain = np.array([0.0, 1.0, 0.0, 0.0])
        if self.calibrated:
            one, penalty = np.ones((1, len(t))), np.full(4, FINAL_PENALTY)
            problem = LogisticProblem(Z[None], t[None], one, penalty, plain)
            final = problem.minimize(plain[None], tol=FINAL_TOL)[0]
        choices = np.array([final, plain, [0.0, 0.0, 1.0, 0.0]])
        losses = -log_expit(t * (choices @ Z)).sum(axis=1)
        self.final_ = choices[int(np.argmin(losses))]
        return self.final(eta, alone)

    def final(self, eta: Floats, alone: Floats) -> Floats:
        """Return probabilities from log-odds with (``eta``) and without (``alone``) labels."""
        if self.final_ is None:
            return np.asarray(expit(eta))
        parts = zip(self.final_, _parts(eta, alone), strict=True)
        return np.asarray(expit(sum(weight * part for weight, part in parts)))

    def predict(self, T: Signs, *inputs: Floats) -> Floats:
        """Return the probability of every entry; each known entry is treated as if missing."""
        if self.final_ is None:
            return np.asarray(expit(self.margins(T, *inputs)))
        # Log-odds whose weights are zero are not computed.
        _, linear, apart, positive = self.final_ != 0
        eta = self.margins(T, *inputs) if linear or positive else inputs[0]
        return self.final(eta, self.alone(T, inputs[0]) if apart else inputs[0])

    def slopes(self, F: Floats, variance: Floats) -> Floats:
        """Return the derivatives of the log-odds with respect to the scores."""
        steep = self.scale_[0] * self.weights_[:, 1]
        if self.calibrated:
            return np.asarray(steep * 2 / np.maximum(1 - F * F, 1e-3))
        return np.asarray((steep + self.scale_[1] * self.weights_[:, 2]) / np.sqrt(variance))

    def margins(self, T: Signs, *inputs: Floats) -> Floats:
        """Return log-odds of every entry, before the final weights are applied."""
        W, Z = self.weights_, self._standardized(*inputs)
        eta = W[:, 0] + Z[0] * W[:, 1] + Z[1] * W[:, 2] + Z[2] * W[:, 3]
        # The weight of a label's sign in its own model is zero.
        return eta + T.astype(np.float64) @ W[:, SCORES:].T if self.with_labels_ else eta

    def alone(self, T: Signs, F: Floats) -> Floats:
        """Return log-odds computed from the features only."""
        if self.alone_ is not None:
            return self.alone_.margins(T, *_bare(F))
        return log_odds(F)

    def _scale(self, T: Signs, *inputs: Floats) -> None:
        known = T != 0
        weight = known / np.maximum(known.sum(axis=0), 1)
        self.middle_ = np.sum(weight * inputs[0], axis=0)
        scores = self._scores(*inputs)
        self.centre_ = np.sum(weight * scores, axis=1)
        square = np.sum(weight * scores * scores, axis=1)
        spread = np.maximum(square - self.centre_**2, 0.0)
        self.scale_ = np.where(spread > 1e-12, 1 / np.sqrt(spread + 1e-300), 0.0)
        if self.calibrated:  # no recalibration
            self.centre_[0], self.scale_[0] = 0.0, 1.0

    def _learn(self, T: Signs, *inputs: Floats) -> None:
        Z, c = self._standardized(*inputs), T.shape[1]
        inputs_ = np.stack([np.ones(Z.shape[1:]), *Z]).transpose(2, 0, 1).copy()
        data = inputs_, T.T.astype(np.float64), (T != 0).T.astype(np.float64)
        # First fit one model for all labels with an intercept per label, then a model per label.
        penalty, goal = np.array([1e-3, 1.0, 1.0, 1.0]), np.zeros((c, SCORES))
        if self.calibrated:
            goal[:, 1], penalty[0] = 1.0, LEVEL_PENALTY
        W = goal.copy()
        if not self.calibrated:
            W[:, 0] = 2 * constant_scores((T > 0).sum(axis=0), (T < 0).sum(axis=0))
        W = LogisticProblem(*data, penalty, goal, shared=True).minimize(W, tol=TOL, steps=ROUNDS)
        self.with_labels_ = self.labels and 1 < c <= MAX_LABELS
        goal, penalty = W.copy(), np.array([penalty[0], *[OWN_PENALTY] * (SCORES - 1)])
        goal[:, 0] = 0.0
        problem = LogisticProblem(*data, penalty, goal)
        if self.with_labels_:
            W, goal = (np.pad(each, ((0, 0), (0, c))) for each in (W, goal))
            penalty = np.append(penalty, np.full(c, LABEL_PENALTY * max(1.0, c / PAIRS)))
            problem = _WithSigns(*data, penalty, goal)
        self.weights_ = problem.minimize(W, tol=TOL, steps=ROUNDS)

    def _scores(self, F: Floats, mean: Floats, variance: Floats) -> Floats:
        return np.stack(self.inputs(F, mean, 1.0 / np.sqrt(variance), self.middle_))

    def inputs(
        self, F: Floats, mean: Floats, inverse: Floats, middle: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Return the inputs that are computed from scores, before standardization."""
        if self.calibrated:
            return log_odds(F), (mean - F) * inverse, inverse
        # Scores are centred, because all scores of a rare label are near -1. Divided by s without
        # centring, they would be almost proportional to 1/s.
        return (F - middle) * inverse, (mean - middle) * inverse, inverse

    def _standardized(self, *inputs: Floats) -> Floats:
        scores = self._scores(*inputs)
        Z = (scores - self.centre_[:, None]) * self.scale_[:, None]
        Z[2] = np.clip(Z[2], -FAR, FAR)
        return Z


class _WithSigns(LogisticProblem):
    """Logistic models with the signs of the other labels as further inputs."""

    def scores(self, W: Floats) -> Floats:
        return super().scores(W[:, :SCORES]) + W[:, SCORES:] @ self.t

    def products(self, U: Floats) -> Floats:
        signs = U @ self.t.T
        np.fill_diagonal(signs, 0.0)
        return np.hstack([super().products(U), signs])

    def step(self, gradient: Floats, bend: Floats, fixed: Any) -> Floats:
        """Solve the Newton equations of all labels by conjugate gradients."""
        # A product costs n c^2. Few products suffice, because the penalty on the signs is large.
        blocks = np.linalg.inv(self.hessian(bend))
        diagonal = bend @ np.abs(self.t).T + self.penalty[-1]

        def conditioned(r: Floats) -> Floats:
            first = (blocks @ r[:, :SCORES, None])[:, :, 0]
            return np.hstack([first, r[:, SCORES:] / diagonal])

        x, r = np.zeros_like(gradient), -gradient
        d = conditioned(r)
        left = start = np.sum(r * d, axis=1)
        for _ in range(STEPS):
            if np.all(left <= EXACT * start):
                break
            along = self.products(bend * self.scores(d)) + self.penalty * d
            size = (left / np.maximum(np.sum(d * along, axis=1), 1e-300))[:, None]
            x, r = x + size * d, r - size * along
            z, last = conditioned(r), left
            left = np.sum(r * z, axis=1)
            d = z + (left / np.maximum(last, 1e-300))[:, None] * d
        return x


def log_odds(F: Floats) -> Floats:
    """Return the log-odds that correspond to scores ``2 p - 1``."""
    return np.asarray(logit(np.clip((1 + F) / 2, 1e-6, 1 - 1e-6)))


def _bare(F: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the inputs of a :class:`Combiner` that uses only scores and no known labels."""
    return F, F, np.ones(F.shape)


def _parts(eta: Floats, alone: Floats) -> tuple[Floats, ...]:
    return np.ones(eta.shape), eta, alone, np.maximum(eta, 0.0)


# In rows with more missing entries, only the most uncertain ones are used.
MOST_MISSING = 100
# Number of known entries per row with which expected gains are compared to observed gains.
DRAWS = 8


def row_gains(
    correlation: LabelCorrelation, T: NDArray[Any], F: Floats, p: Floats, moved: Any = True
) -> Floats:
    """Return the expected number of errors that annotating an entry avoids in its row."""
    # Errors at *other* labels in ``moved`` are counted (docs/research/imputing.md); known labels
    # give 0.
    gains, moving = np.zeros(T.shape), np.broadcast_to(moved, T.shape[1])
    mean = _covariance.conditional_moments(correlation.covariance, T, F)[0]
    others = correlation.combiner.weights_[:, SCORES:].T  # weights of signs
    signs = T @ others if others.size else np.zeros(T.shape)
    alone = correlation.combiner.alone(T, F)
    error = np.where(T == 0, np.minimum(p, 1 - p), -1.0)
    count = np.minimum((T == 0).sum(axis=1), MOST_MISSING)
    order = np.argsort(count, kind="stable")
    order = order[count[order] > 1]
    for block in _covariance.row_blocks(len(order), 8.0 * 24 * MOST_MISSING**2):
        rows = order[block]
        width = count[rows[-1]]
        # Missing entries of each row, the most uncertain first, and then known ones.
        at = np.argsort(-error[rows], axis=1, kind="stable")[:, :width]
        here = np.arange(width) < count[rows][:, None]
        V = _joint(correlation.covariance, T[rows] != 0, at)
        every = F, mean, signs, alone, p
        *parts, q = (np.take_along_axis(part[rows], at, axis=1) for part in every)
        yes, no = (_moved(correlation.combiner, at, V, parts, sign) for sign in (1.0, -1.0))
        spared = _spared(q[:, :, None], q[:, None, :], yes, no)
        spared *= (here & moving[at])[:, :, None] & here[:, None, :] & ~np.eye(width, dtype=bool)
        gains[rows[:, None], at] += spared.sum(axis=1)
    return gains


def _joint(covariance: _covariance.LabelCovariance, known: Mask, at: Index) -> Floats:
    """Return the covariance (b, w, w) of some labels of each row, given its known labels."""
    if isinstance(covariance, _covariance.FactorCovariance):
        L, psi = covariance.L, covariance.psi
        r = L.shape[1]
        _, P = covariance.posterior(np.zeros(known.shape), known.astype(np.float64))
        V = L[at] @ P.reshape(-1, r, r) @ L[at].transpose(0, 2, 1)
        V[:, np.arange(at.shape[1]), np.arange(at.shape[1])] += psi[at]
        return np.asarray(V)
    # Given the known labels, the covariance of missing labels is the inverse of their block of the
    # precision matrix. Known labels are treated as uncorrelated with all others.
    both = ~known[:, :, None] & ~known[:, None, :]
    V = np.linalg.inv(np.where(both, covariance.precision(), np.eye(known.shape[1])))
    b = np.arange(len(at))[:, None, None]
    return np.asarray(V[b, at[:, :, None], at[:, None, :]])


def _moved(combiner: Combiner, at: Index, V: Floats, parts: list[Floats], answer: float) -> Floats:
    """Return the probabilities (b, j, k) of label j in each row after label k is annotated."""
    f, mean, signs, alone = parts
    own = np.einsum("bkk->bk", V)[:, None, :]
    left = np.einsum("bjj->bj", V)[:, :, None] - V**2 / own
    # An annotated entry has no variance; its own result is not used.
    inverse = 1.0 / np.sqrt(np.maximum(left, 1e-3 * own))
    means = mean[:, :, None] + V / own * (answer - mean[:, None, :])
    eta = combiner.weights_[at, 0][:, :, None] + signs[:, :, None]
    middle, f = combiner.middle_[at][:, :, None], f[:, :, None]
    scores = combiner.inputs(f, means, inverse, middle)
    for a, z in enumerate(scores):
        z = (z - combiner.centre_[a][at][:, :, None]) * combiner.scale_[a][at][:, :, None]
        z = np.clip(z, -FAR, FAR) if a == 2 else z
        eta = eta + combiner.weights_[at, a + 1][:, :, None] * z
    if combiner.with_labels_:
        eta = eta + answer * combiner.weights_[at[:, :, None], SCORES + at[:, None, :]]
    return combiner.final(eta, alone[:, :, None])


def _spared(p: Floats, chance: Floats, yes: Floats, no: Floats) -> Floats:
    """Return the expected errors that an annotation avoids at entries of probability ``p``."""
    between = _error(chance * yes + (1 - chance) * no)
    spared = between - chance * _error(yes) - (1 - chance) * _error(no)
    return np.asarray(spared * np.minimum(1.0, _error(p) / np.maximum(between, 1e-12)))


def _error(p: Floats) -> Floats:
    return np.minimum(p, 1 - p)


def trust(T: NDArray[Any], F: Floats, calibrated: bool = False) -> float:
    """Return the ratio of observed to expected gains of annotations, clipped to [0, 1]."""
    # Label correlation is fitted to half of the rows. Known entries of the other half are treated
    # as missing and then revealed. Only the 5 % highest expected gains are compared, because they
    # are overestimated most.
    rng = np.random.default_rng(0)
    rows = rng.permutation(np.flatnonzero((T != 0).sum(axis=1) > 1))[:MOST_ROWS]
    found = []
    for here, there in ((rows[::2], rows[1::2]), (rows[1::2], rows[::2])):
        if len(here) and len(there):
            half = LabelCorrelation.fit(T[here], F[here], calibrated=calibrated)
            found += [_asked_again(half, T[there], F[there], rng) for _ in range(DRAWS)]
    if not found:
        return 0.0
    error, expected, spared = np.concatenate(found, axis=1)
    first = np.argsort(-(error + expected), kind="stable")[: -(-len(error) // 20)]
    # The gain is reduced by its standard error.
    sure = spared[first].mean() - spared[first].std() / np.sqrt(len(first))
    return float(np.clip(sure / max(expected[first].mean(), 1e-12), 0.0, 1.0))


def _asked_again(
    correlation: LabelCorrelation, T: NDArray[Any], F: Floats, rng: np.random.Generator
) -> Floats:
    """Reveal one entry per row; return its error probability, and expected and actual gain."""
    others = T != 0
    one = np.arange(len(T)), np.argmax(np.where(others, rng.random(T.shape), -1.0), axis=1)
    others[one] = False
    beliefs = []
    for sign in (0, 1, -1):
        supposed = T.copy()
        supposed[one] = sign
        beliefs.append(correlation.predict(supposed, F)[1])
    without, yes, no = beliefs
    given = np.where((T[one] > 0)[:, None], yes, no)
    wrong = [((p > 0.5) != (T > 0)).astype(np.float64) for p in (without, given)]
    both = _spared(without, without[one][:, None], yes, no), wrong[0] - wrong[1]
    expected, spared = (np.sum(values, axis=1, where=others) for values in both)
    return np.stack([_error(without[one]), expected, spared])
