"""Calibration of scores, error-rate control of imputed labels, and errors in observed labels."""

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, fields
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from dm2l._utils.arrays import Index
from dm2l.labels._entries import Floats, Mask, Signs
from dm2l.labels._matrix import observed_rates


def plain_probability(scores: NDArray[Any]) -> Floats:
    """Return the uncalibrated probability for a least-squares score."""
    # A score fitted to -1/+1 estimates E[t|x] = 2 p - 1, which this formula matches to first order.
    return 0.5 * (1.0 + np.tanh(np.asarray(scores, dtype=np.float64)))


@dataclass(eq=False)
class Calibrator:
    """Calibration map for each label, from scores to probabilities."""

    method: str  # "sigmoid" or "isotonic"

    def fit(
        self, scores: Floats, T: Signs, weights: Floats | None = None, *, flat: bool = True
    ) -> Self:
        """Fit maps of labels; if ``flat``, a label without a map gets its share of positives."""
        weights = np.broadcast_to(1.0, T.shape) if weights is None else weights
        known = (T != 0) & np.isfinite(scores)
        curves = [
            self._fit_label(scores[rows, k], T[rows, k] > 0, weights[rows, k])
            for k, rows in enumerate(known.T)
        ]
        # The maps of all labels are stored in a few arrays, because model files contain them.
        self.fitted_labels = np.array([curve is not None for curve in curves], dtype=bool)
        fitted = [curve for curve in curves if curve is not None]
        one, two = (np.concatenate([np.zeros(0), *(curve[k] for curve in fitted)]) for k in (0, 1))
        if self.method == "sigmoid":
            self.slopes, self.offsets = one, two
        else:
            self.lengths = np.array([len(curve[0]) for curve in fitted], dtype=np.int64)
            self.scores, self.probabilities = one, two
        positives, observed = ((part * weights).sum(axis=0) for part in (T > 0, T != 0))
        rate = observed_rates(positives, observed - positives)
        self.rates = np.where((observed > 0) & (flat | self.fitted_labels), rate, np.nan)
        return self

    def _fit_label(
        self, scores: Floats, positive: Mask, weights: Floats
    ) -> tuple[Floats, Floats] | None:
        """Return the slope and offset or the knots of a label's map; None if the fit fails."""
        n_positive, n_negative = weights[positive].sum(), weights[~positive].sum()
        if not n_positive or not n_negative:
            return None
        if self.method == "isotonic":
            from sklearn.isotonic import IsotonicRegression

            regression = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
            regression.fit(scores, positive.astype(np.float64), weights)
            return regression.X_thresholds_, regression.y_thresholds_
        # Imported here, because it takes a third of the time of importing this library.
        from sklearn.linear_model import LogisticRegression

        # Platt's targets keep the slope finite even if scores separate the classes. A fractional
        # target is represented by two weighted copies of the row.
        target = np.where(positive, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2))
        column = np.concatenate([scores, scores])[:, None]
        answer = np.repeat([1, 0], len(scores))
        weight = np.concatenate([target * weights, (1 - target) * weights])
        logistic = LogisticRegression(C=1e6, max_iter=1000)
        logistic.fit(column, answer, sample_weight=weight)
        # A decreasing map would reverse the order of the scores, and is due to noise.
        return (logistic.coef_[0], logistic.intercept_) if logistic.coef_[0, 0] > 0 else None

    def predict(self, scores: NDArray[Any]) -> Floats:
        """Return probabilities from maps, shares of positives or :func:`plain_probability`."""
        result = np.where(np.isnan(self.rates), plain_probability(scores), self.rates)
        if self.method == "sigmoid":
            labels = self.fitted_labels
            with np.errstate(over="ignore"):
                result[:, labels] = expit(scores[:, labels] * self.slopes + self.offsets)
        else:
            for k, knots, values in self.polygons():
                result[:, k] = np.interp(scores[:, k], knots, values)
        return result

    def polygons(self) -> Iterator[tuple[int, Floats, Floats]]:
        """Yield each label with an isotonic map, and the scores and probabilities of its knots."""
        ends = np.cumsum(self.lengths)
        labels = np.flatnonzero(self.fitted_labels)
        for k, start, end in zip(labels, ends - self.lengths, ends, strict=True):
            yield int(k), self.scores[start:end], self.probabilities[start:end]


# Minimum number of positives; with fewer, the best threshold is mostly noise.
FEWEST_POSITIVES = 5


def best_f1_thresholds(
    scores: Floats, T: Signs, weights: Floats | None = None, min_positives: int = FEWEST_POSITIVES
) -> Floats:
    """Return each label's threshold of maximum F1 on held-out scores, or 0 for rare labels."""
    thresholds = np.zeros(T.shape[1])
    weights = np.broadcast_to(1.0, T.shape) if weights is None else weights
    for k in range(T.shape[1]):
        use = np.flatnonzero((T[:, k] != 0) & np.isfinite(scores[:, k]))
        order = use[np.argsort(-scores[use, k], kind="stable")]
        sorted_scores, count = scores[order, k], weights[order, k]
        hits = np.cumsum(count * (T[order, k] > 0))
        if not len(hits) or hits[-1] < min_positives:
            continue
        f1 = 2 * hits / (np.cumsum(count) + hits[-1])
        # A threshold cannot separate equal scores.
        cuts = np.append(sorted_scores[1:] < sorted_scores[:-1], True)
        best = int(np.argmax(np.where(cuts, f1, -1.0)))
        lowest = float(sorted_scores[best])
        last = best + 1 == len(hits)
        below = lowest - max(1.0, abs(lowest)) if last else float(sorted_scores[best + 1])
        middle = below + 0.5 * (lowest - below)
        # If no float lies between the two scores, the lower score is the threshold.
        thresholds[k] = middle if middle < lowest else below
    return thresholds


# Decision rules: the best F1 by label, F1 by row, or share of rows without an error.
THRESHOLD_RULES = ("f1", "f1_samples", "subset_accuracy")
CUTS = 200  # number of candidates for a threshold shared by all labels


def best_thresholds(rule: str, scores: Floats, T: Signs, weights: Floats | None = None) -> Floats:
    """Return the best thresholds for a rule; row-wise rules share one threshold for all labels."""
    if rule == "f1":
        return best_f1_thresholds(scores, T, weights)
    known = (T != 0) & np.isfinite(scores)
    rows = known.any(axis=1)
    known, scores, truth = known[rows], scores[rows], known[rows] & (T[rows] > 0)
    if not len(known):
        return np.zeros(T.shape[1])
    weight = None if weights is None else np.where(known, weights[rows], 0.0).max(axis=1)
    cuts = np.unique(np.append(np.quantile(scores[known], np.linspace(0.0, 1.0, CUTS)), 0.0))
    value = []
    for cut in cuts:
        chosen = known & (scores > cut)
        if rule == "subset_accuracy":
            right = (chosen == truth).all(axis=1).astype(np.float64)
        else:
            size = chosen.sum(axis=1) + truth.sum(axis=1)
            right = np.where(size, 2 * (chosen & truth).sum(axis=1) / np.maximum(size, 1), 1.0)
        value.append(np.average(right, weights=weight))
    return np.full(T.shape[1], cuts[int(np.argmax(value))])


# Assumed ratio of the error rates of missing and known entries. It is above one because calibration
# was fitted to the known entries (docs/research/imputing.md).
SEEN = 1.1
ENOUGH = 500  # minimum number of predictions for a bound of a single label
# Candidates for the share of wrong labels, and number of confidence bins.
SHARES, BINS = np.geomspace(0.001, 0.3, 20), 200
# Rate of natural contradictions at every prediction, relative to their mean rate at most.
NATURAL = 0.5
# Share of entries that are called most confident, and the probability of an error from which an
# observed label is a suspected error.
CONFIDENT, SUSPECT = 0.2, 0.5


@dataclass(frozen=True)
class CompletionSummary:
    """Counts of filled and unfilled missing labels, and the expected error rates of filled labels.

    Parameters
    ----------
    n_yes, n_no : int
        How many missing labels the model filled with yes, and how many it filled with no.
    n_left : int
        Number of missing labels that were not filled.
    expected_wrong, expected_wrong_yes, expected_wrong_no : float
        Expected error rates of all filled labels, of labels filled with yes, and of labels filled
        with no, including implied labels. NaN if no label was filled or no bound was set.
    n_implied : int
        Number of missing labels that follow from known labels by the ``rules`` of the estimator.
    """

    n_yes: int
    n_no: int
    n_left: int
    expected_wrong: float
    expected_wrong_yes: float
    expected_wrong_no: float
    n_implied: int = 0

    def __repr__(self) -> str:
        values = zip(fields(self), astuple(self), strict=True)
        return f"CompletionSummary({', '.join(f'{at.name}={round(x, 4)}' for at, x in values)})"

    @classmethod
    def of(
        cls, missing: Mask, chosen: Mask, positive: Mask, expected: Floats, implied: Any = False
    ) -> Self:
        """Summarize chosen entries; ``expected`` holds the expected numbers of errors."""
        implied, chosen = missing & implied, missing & chosen
        filled = np.array([(chosen & ~positive).sum(), (chosen & positive).sum()])
        sums = zip([expected.sum(), *expected[::-1]], [filled.sum(), *filled[::-1]], strict=True)
        rates = [float(count / n) if n else np.nan for count, n in sums]
        n_yes, n_no = (int((chosen & ~implied & side).sum()) for side in (positive, ~positive))
        n_left, n_implied = int((missing & ~chosen).sum()), int(implied.sum())
        return cls(n_yes, n_no, n_left, rates[0], rates[1], rates[2], n_implied)


@dataclass(frozen=True)
class ErrorRateBound:
    r"""Conformal selection of the missing entries to fill, with a bounded error rate.

    All known entries are predicted as if they were missing. The error rates of positive and of
    negative predictions are bounded separately. For each sign, a label with at least 500
    predictions is a separate group, and all other labels form one group. Of n predictions of known
    entries in a group, let :math:`w_j` be the number of wrong predictions that are at least as
    confident as the prediction of the missing entry j. The p-value of entry j is

    .. math:: p_j = \frac{1 + 1.1 w_j + \sqrt{w_j}}{n + 1},

    and the procedure of Benjamini and Hochberg at level a selects the entries to fill. Known and
    missing entries must be exchangeable: given the row, missingness does not depend on the label.
    Without the root and the factor 1.1, the expected error rate is then at most a (Jin and Candes,
    2023). The root and the factor are added because covariance and calibration curves were fitted
    to the known entries (docs/research/imputing.md). Each label with fewer predictions must
    also meet the bound on its own, with the numerator :math:`1.1 w_j`.

    Parameters
    ----------
    n : ndarray of shape (2,)
        Numbers of negative and of positive predictions.
    confidence : ndarray of shape (2, k)
        Confidence of the wrong predictions, in descending order.
    count : ndarray of shape (2, k)
        Number of wrong predictions whose confidence is at least ``confidence``.
    label : ndarray of shape (2, k) or None
        Label of each wrong prediction; None, as in files of earlier versions, pools all labels.
    n_by_label : ndarray of shape (2, n_labels) or None
        Numbers of negative and of positive predictions of each label.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.completion import ErrorRateBound
    >>> q = np.linspace(1.0, 0.5, 200)[:, None]
    >>> right = np.arange(200)[:, None] % 50 != 49
    >>> yes = np.ones((200, 1), dtype=bool)
    >>> bound = ErrorRateBound.fit(q, yes, np.where(right, 1, -1))
    >>> chosen, (wrong_no, wrong_yes) = bound.choose(q, yes, yes, 0.1)
    >>> int(chosen.sum()), round(float(wrong_yes), 1)
    (200, 5.0)
    """

    n: NDArray[np.int64]
    confidence: Floats
    count: NDArray[np.int64]
    label: NDArray[np.int32] | None = None
    n_by_label: NDArray[np.int64] | None = None

    @classmethod
    def fit(cls, confidence: Floats, positive: Mask, T: NDArray[Any]) -> Self:
        """Fit a bound to predictions of known entries with signs ``T``; all have shape (n, c)."""
        known, wrong = T != 0, (T > 0) != positive
        sides = [known & ~positive, known & positive]
        size = max(int((side & wrong).sum()) for side in sides)
        stored, label = np.full((2, size), -1.0), np.full((2, size), -1, dtype=np.int32)
        for k, side in enumerate(sides):
            at = np.nonzero(side & wrong)
            order = np.argsort(-confidence[at], kind="stable")
            stored[k, : len(order)], label[k, : len(order)] = confidence[at][order], at[1][order]
        count, n = (label >= 0).cumsum(axis=1), np.array([side.sum(axis=0) for side in sides])
        return cls(n.sum(axis=1), stored, count, label, n)

    def choose(
        self,
        confidence: Floats,
        positive: Mask,
        missing: Mask,
        max_error_rate: float | tuple[float, float],
        right: Mask | bool = False,
    ) -> tuple[Mask, Floats]:
        """Return the entries to fill, and the expected numbers of wrong negatives and positives.

        ``max_error_rate`` bounds the error rates of yes and of no; a pair sets separate bounds.
        Correct predictions of other entries (``right``) also count as filled.
        """
        yes, no = np.broadcast_to(max_error_rate, 2).tolist()
        lowest, errors = self._bounds(confidence, positive, missing, (no, yes), right)
        chosen = lowest <= np.where(positive, yes, no)
        return chosen, np.array([errors[chosen & side].sum() for side in (~positive, positive)])

    def _bounds(
        self, confidence: Floats, positive: Mask, missing: Mask, levels: Any, right: Any = False
    ) -> tuple[Floats, Floats]:
        """Return the lowest bound that fills each entry (inf if known), and its expected error."""
        right = np.broadcast_to(right, missing.shape)
        lowest = np.where(missing, 0.0, np.inf)
        errors = np.zeros(missing.shape)
        for side, level in enumerate(levels):
            for labels, n, wrong, pooled in self._groups(side, np.asarray(missing.any(axis=0))):
                sided = positive[:, labels] == bool(side)
                part = missing[:, labels] & sided
                if not part.any():
                    continue
                at = np.nonzero(part)[0], labels[np.nonzero(part)[1]]
                values, place, times = np.unique(
                    confidence[at], return_inverse=True, return_counts=True
                )
                mistakes = np.searchsorted(-wrong, -values, side="right")
                filled = np.cumsum(times[::-1])[::-1]
                sure = np.sort(confidence[:, labels][sided & right[:, labels]])
                expected = len(place) / (n + 1.0)
                share = expected / (filled + len(sure) - np.searchsorted(sure, values))
                bound = SEEN * mistakes + (0.0 if pooled else 1.0 + np.sqrt(mistakes))
                rates = np.minimum.accumulate(np.minimum(share * bound, 1.0))
                lowest[at] = np.maximum(lowest[at], rates[place])
                if not pooled:
                    first = int(np.argmax(rates <= level))
                    errors[at] = min(expected / filled[first] * (1.0 + mistakes[first]), 1.0)
        return lowest, errors

    def _groups(self, side: int, used: Mask) -> Iterator[tuple[Index, int, Floats, bool]]:
        """Yield groups: labels, number of predictions, errors, and whether the label is pooled."""
        confidence, labels = self.confidence[side], np.arange(len(used))
        if self.label is None or self.n_by_label is None:
            yield labels, int(self.n[side]), confidence, False
            return
        n, of_error = self.n_by_label[side], self.label[side]
        scarce = used & (n < ENOUGH)
        pool = confidence[(of_error >= 0) & scarce[of_error]]
        yield labels[scarce], int(n[scarce].sum()), pool, False
        for k in np.flatnonzero(used):
            yield labels[k : k + 1], int(n[k]), confidence[of_error == k], bool(scarce[k])


def check_max_error_rate(value: Any) -> tuple[float, float]:
    """Check ``max_error_rate``, and return the rates for yes and for no."""
    parts = value if isinstance(value, (tuple, list)) else (value, value)
    numbers = all(isinstance(part, Real) and not isinstance(part, bool) for part in parts)
    if len(parts) != 2 or not numbers or not all(0 <= part <= 1 for part in parts):
        raise ValueError(
            "max_error_rate must be a number from 0 to 1, or a pair of such numbers for yes and "
            f"for no, got {value!r}."
        )
    return float(parts[0]), float(parts[1])


@dataclass(frozen=True)
class LabelErrors:
    r"""Observed entries, sorted by the probability that their label is wrong.

    Even confident predictions are contradicted at the rate e at which observed labels are wrong. If
    the predicted probability p has the margin :math:`m = |\log p / (1 - p)|`, observed labels
    contradict the prediction at the rate

    .. math:: k = e + (1 - 2e) u, \qquad u = 1 / (1 + \exp(a + b m)),

    where u is the rate at which correct labels contradict predictions. The prior of e is uniform
    from 0.001 to 0.3. For each e, a and b maximize a penalized likelihood. A label that contradicts
    its prediction is wrong with probability :math:`e (1 - u) / k`, averaged over the posterior.

    Contradictions at the rate e may also come from correct labels that are noisy by nature. No
    estimate can tell these from wrong labels. Let c be the mean rate of contradictions.
    ``lowest`` assumes that correct labels contradict predictions at the rate :math:`(c - e) / 2`.

    Parameters
    ----------
    row, label : ndarray of int
        Row and column of each entry.
    observed : ndarray of bool
        Observed label of each entry.
    probability : ndarray of float
        Probability that the observed label is wrong.
    false_alarms : ndarray of float
        Expected share of correct labels among this entry and all entries before it.
    contradicted : ndarray of bool or None
        Whether the prediction, or a rule, contradicts each label; None for unlabelled entries.
    deviation : ndarray of float or None
        Standard deviation of ``probability`` over the posterior of e.
    lowest : ndarray of float or None
        Probability that the label is wrong if correct labels are noisy by nature.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.completion import LabelErrors
    >>> T = np.array([[1, -1], [-1, 1], [1, 1]])
    >>> found = LabelErrors.of(T, np.array([[0.9, 0.2], [0.1, 0.8], [0.9, 0.01]]))
    >>> int(found.row[0]), int(found.label[0]), bool(found.observed[0])
    (2, 1, True)
    """

    row: Index
    label: Index
    observed: Mask
    probability: NDArray[np.float64]
    false_alarms: NDArray[np.float64]
    contradicted: NDArray[np.bool_] | None = None
    deviation: NDArray[np.float64] | None = None
    lowest: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def of(cls, T: NDArray[Any], p: NDArray[Any], held_out: NDArray[Any] | None = None) -> Self:
        """Find label errors in ``T``; no probability may depend on its own entry.

        Entries are ranked by ``p``. If the model of ``p`` was fitted to the entries, the rates of
        errors are estimated from ``held_out``: the probabilities of models fitted to other rows.
        """
        row, label = np.nonzero(T)
        observed = T[row, label] > 0
        both = (values[row, label] for values in (p, p if held_out is None else held_out))
        against, unseen = (np.where(observed, 1 - values, values) for values in both)
        order, place = (np.argsort(-values, kind="stable") for values in (against, unseen))
        probability, deviation, lowest = np.empty((3, len(row)))
        probability[order], deviation[order], lowest[order] = _mistaken(unseen[place])
        columns = row, label, observed, probability, against > 0.5, deviation, lowest
        return cls._sorted(np.lexsort((-against, -probability)), *columns)

    @classmethod
    def _sorted(cls, order: NDArray[np.intp], *columns: NDArray[Any]) -> Self:
        row, label, observed, probability, *others = (values[order] for values in columns)
        false_alarms = np.cumsum(1 - probability) / np.arange(1, len(order) + 1)
        return cls(row, label, observed, probability, false_alarms, *others)

    def _given(self, conflicts: Iterable[tuple[int, Index]]) -> Self:
        """Return label errors, given that each conflict (row, labels) has at least one error."""
        order = np.argsort(self.row, kind="stable")
        rows, ranges = self.row[order], np.stack([self.probability, np.asarray(self.lowest)])
        for row, labels in conflicts:
            at = order[slice(*np.searchsorted(rows, [row, row + 1]))]
            at = at[np.isin(self.label[at], labels)]
            none = np.log1p(-np.minimum(ranges[:, at], 1 - 1e-16)).sum(axis=1, keepdims=True)
            ranges[:, at] = np.minimum(ranges[:, at] / np.maximum(-np.expm1(none), 1e-300), 1.0)
        p, lowest = ranges[0], ranges.min(axis=0)
        contradicted = np.asarray(self.contradicted, dtype=bool) | (p > self.probability)
        parts = p, contradicted, np.asarray(self.deviation), lowest
        order = np.argsort(-p, kind="stable")
        return self._sorted(order, self.row, self.label, self.observed, *parts)


def suspects(T: NDArray[Any], p: NDArray[Any]) -> Mask:
    """Return a mask of probable label errors, which must not be used to predict other labels."""
    # With the share e of contradictions among the most confident predictions, a label whose
    # opposite has probability r is wrong with probability e (r - e) / ((1 - 2 e)(1 - r)).
    against = np.where(T > 0, 1 - p, p)
    sure = np.where(T != 0, np.maximum(p, 1 - p), -1.0)
    border = np.quantile(sure[T != 0], 1 - CONFIDENT) if (T != 0).any() else 1.0
    here = against[sure >= border] > 0.5
    e = min((here.sum() + 1) / (len(here) + 2), 0.4)
    likely = e * (against - e) / ((1 - 2 * e) * np.maximum(1 - against, 1e-12))
    return np.asarray((T != 0) & (likely > SUSPECT))


def _mistaken(against: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean, standard deviation and lowest plausible value of error probabilities."""
    from scipy.optimize import minimize  # imported here, because loading it is slow

    contradicts, margin = against > 0.5, np.abs(logit(np.clip(against, 1e-9, 1 - 1e-9)))
    parts = np.array_split(np.argsort(margin), min(BINS, max(len(margin), 1)))
    n = np.array([len(part) for part in parts])
    x = np.array([contradicts[part].sum() for part in parts])
    middle = np.array([margin[part].mean() if len(part) else 0.0 for part in parts])

    def loss(at: Floats, e: float) -> float:
        k = e + (1 - 2 * e) * expit(-at[0] - np.exp(at[1]) * middle)
        # With few labels, the penalty keeps a near 0 and b near 1, as for calibrated predictions.
        return float(0.5 * at @ at - np.sum(x * np.log(k) + (n - x) * np.log1p(-k)))

    at, losses, found = np.zeros(2), [], []
    for e in SHARES:
        best = minimize(loss, at, (e,), method="L-BFGS-B", bounds=[(-20, 20), (-5, 5)])
        at = best.x
        losses.append(best.fun)
        odd = expit(-at[0] - np.exp(at[1]) * margin)
        share = e + (1 - 2 * e) * odd
        found.append(e * np.where(contradicts, (1 - odd) / share, odd / (1 - share)))
    # Shares are spaced geometrically, so a uniform prior needs weights in proportion to them.
    weights = SHARES * np.exp(min(losses) - np.array(losses))
    mean = np.average(found, axis=0, weights=weights)
    natural = NATURAL * (x.sum() / max(n.sum(), 1) - SHARES) / SHARES
    lowest = np.clip(1 - natural, 0.0, 1.0) * weights / weights.sum() @ np.array(found)
    return mean, np.sqrt(np.average((found - mean) ** 2, axis=0, weights=weights)), lowest
