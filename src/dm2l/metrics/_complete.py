r"""Estimates of row-wise metrics for the complete labels.

An entry that is observed with probability :math:`\rho` represents :math:`1 / \rho` entries. Let
:math:`p` be the probability of a positive, from a calibration curve fitted to other rows. Then

.. math:: q_{ij} = p_{ij} + \frac{o_{ij}}{\rho_{ij}} (y_{ij} - p_{ij}), \qquad E[q_{ij}] = y_{ij}

Over random masks, ``q`` is unbiased for any ``p``; accurate ``p`` lower its variance. If the
entries of a row are hidden independently, then products of the ``q`` of different labels, and sums
of such products, are also unbiased. The metrics of a row with ``P`` positives contain the factor
:math:`1 / P`, the integral over ``t`` from 0 to 1 of :math:`t^{P - 1}`. For a positive ``i``, this
is :math:`\prod_{j \ne i} (1 - (1 - t) y_j)`, so the metrics are sums of products (``Inverse``).
"""

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logit

from dm2l._utils.arrays import to_numpy
from dm2l._utils.inputs import check_numbers
from dm2l._utils.logistic import LogisticProblem, padded
from dm2l.labels._entries import Signs
from dm2l.labels._matrix import parse_labels, parse_sparse_labels

Array = NDArray[np.float64]

LOWEST = 0.02  # lower observed rates are raised to LOWEST, so that no weight exceeds 50


def propensities(y_true: Any, a: float = 0.55, b: float = 1.5) -> Array:
    r"""Estimate from each label's frequency the probability that a positive is observed.

    .. math:: p_j = \frac{1}{1 + C (N_j + b)^{-a}}, \qquad C = (\log N - 1) (b + 1)^a

    with ``N`` rows and ``N_j`` observed positives of label ``j``. The commonly used defaults were
    fitted to Wikipedia articles, and the values ``a=0.6, b=2.6`` to shop items (Jain, Prabhu and
    Varma, "Extreme Multi-label Loss Functions", KDD 2016).

    Parameters
    ----------
    y_true : array-like, sparse matrix, LabelMatrix or SparseLabelMatrix of shape (n, c)
        Training labels. Only observed positives are used.
    a, b : float, default=0.55, 1.5
        Constants of the formula.

    Examples
    --------
    >>> import numpy as np
    >>> from dm2l.metrics import propensities
    >>> Y = np.zeros((100, 2))
    >>> Y[:50, 0], Y[:2, 1] = 1, 1
    >>> propensities(Y).round(3)
    array([0.594, 0.25 ])
    """
    check_numbers(a=a, b=b)
    # Only positives are counted, so the meaning of entries that are not stored does not matter.
    labels = parse_sparse_labels(y_true, missing_as="missing" if sp.issparse(y_true) else None)
    n = labels.signed.shape[0]
    if n < 3:
        raise ValueError(f"Propensities need at least 3 rows, got {n}; pass more training rows.")
    scale = (np.log(n) - 1.0) * (b + 1.0) ** a
    return np.asarray(1.0 / (1.0 + scale * (labels.positives() + b) ** -a))


def observation_weights(y_true: Any, rates: Any, *, return_effective: bool = False) -> Any:
    r"""Return inverse probabilities of observation, to pass to ``fit`` as ``label_weight``.

    An entry that is observed with probability :math:`e` represents :math:`1 / e` entries. If the
    rates are correct, a weighted fit estimates the model that complete labels would give. Whether
    an entry is missing may depend on the label, on the features and on the value of the entry.

    Parameters
    ----------
    y_true : array-like, sparse matrix or LabelMatrix of shape (n, c)
        Labels, NaN where missing.
    rates : array-like or tuple of two
        Probabilities that entries are observed, above 0: one number, or one per label, per row (as
        a column) or per entry, such as ``predict_proba`` of a model of the mask. A tuple contains
        the rates of positives and the rates of negatives. Rates below 0.02 are raised to 0.02.
    return_effective : bool, default=False
        Whether to also return the effective sample sizes.

    Returns
    -------
    weights : ndarray of shape (n, c)
        ``1 / e`` for observed entries, 0 for missing entries.
    effective : ndarray of shape (c,)
        Effective sample size :math:`(\sum w)^2 / \sum w^2` of every label. Returned only if
        ``return_effective=True``.

    Examples
    --------
    >>> from dm2l.metrics import observation_weights
    >>> Y = [[1, 0], [float("nan"), 1], [0, 0]]
    >>> observation_weights(Y, (0.5, 1.0))
    array([[2., 1.],
           [0., 2.],
           [1., 1.]])
    """
    T = parse_labels(y_true).signs
    weights = np.where(T != 0, 1 / observation_rates(T, rates)[0], 0.0)
    if not return_effective:
        return weights
    squares = (weights**2).sum(axis=0)
    return weights, weights.sum(axis=0) ** 2 / np.where(squares > 0, squares, 1.0)


def observation_rates(T: Signs, rates: Any = None) -> tuple[Array, Array]:
    """Return the rate at which each entry is observed, given or estimated, and row weights."""
    if rates is None:
        return _from_mask(T != 0)
    if isinstance(rates, tuple):
        if len(rates) != 2:
            raise ValueError(
                f"If rates is a tuple, it must be a pair (positives, negatives), got {len(rates)} "
                "elements."
            )
        positive, negative = (_given(part, T) for part in rates)
        return np.where(T > 0, positive, negative), np.ones(len(T))
    return _given(rates, T), np.ones(len(T))


def _given(rates: Any, T: Signs) -> Array:
    R = np.asarray(to_numpy(rates), dtype=np.float64)
    if R.ndim not in (0, 1, 2) or any(
        have not in (1, want) for have, want in zip(R.shape[::-1], T.shape[::-1], strict=False)
    ):
        raise ValueError(
            f"rates must be one number, one per label, one per row (shape {(len(T), 1)}) or one "
            f"per entry (shape {T.shape}); got shape {R.shape}."
        )
    if not ((R > 0) & (R <= 1)).all():
        bad = R[~((R > 0) & (R <= 1))][0]
        raise ValueError(f"rates must be above 0 and at most 1, got {bad}.")
    return np.maximum(np.broadcast_to(R, T.shape), LOWEST)


def _from_mask(seen: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Estimate from the mask the rate at which each entry is observed; also return row weights."""
    # The rate of an entry is conditional on the entries of earlier labels in its row: it is
    # rho_j (kappa + s) / (kappa + e) if s of them are observed and e were expected. With such
    # rates, products over a row stay unbiased. Rows without observed entries get lower weights,
    # whose sum is the expected number of these rows.
    counts, per_label = seen.sum(axis=1), seen.sum(axis=0)
    empty = counts == 0
    n_empty = int(empty.sum())
    n_some, some = len(seen) - n_empty, counts[~empty]
    weight = 0.0
    for _ in range(20 if n_empty else 1):
        label = per_label / (n_some + weight * n_empty)
        strength = _strength(some, weight * n_empty, label)
        before = np.concatenate([[0.0], np.cumsum(label)[:-1]])
        never = np.prod(1 - np.minimum(label / (1 + before * strength), 1))
        expected = n_some * never / max(1 - never, 1e-12)
        weight = min(1.0, expected / max(n_empty, 1))
    past: NDArray[np.int64] = np.cumsum(seen, axis=1) - seen
    factor = (1 + past * strength) / (1 + before * strength)
    entries = np.clip(label * factor, LOWEST, 1.0)
    return entries, np.where(empty, weight, 1.0)


def _strength(counts: NDArray[np.int64], n_empty: float, label: Array) -> float:
    """Return ``1 / kappa``, the variation of observed rates between rows; 0 if due to chance."""
    total, mean = len(counts) + n_empty, label.sum()
    spread = (((counts - mean) ** 2).sum() + n_empty * mean**2) / total
    chance, pairs = (label * (1 - label)).sum(), mean**2 - (label**2).sum()
    error = chance * np.sqrt(2 / total)
    if pairs <= 0 or spread <= chance + 2 * error:
        return 0.0
    variance = (spread - chance) / pairs
    rate = mean / len(label)
    return float(1 / max((1 - rate) / variance - rate, 1e-2))


def check_propensities(propensities: Any, n_labels: int) -> Array:
    """Check that there is one propensity per label, above 0 and at most 1."""
    p = np.asarray(to_numpy(propensities), dtype=np.float64)
    if p.shape != (n_labels,):
        raise ValueError(
            f"propensities must have shape ({n_labels},), one per label, got {p.shape}."
        )
    bad = np.flatnonzero(~((p > 0) & (p <= 1)))
    if len(bad):
        raise ValueError(
            f"propensities must be above 0 and at most 1, got {p[bad[0]]} for label {bad[0]}."
        )
    return p


ONLY_POSITIVES = 5  # with so many positives, the lack of observed negatives is not by chance
TINY = 1e-9  # smaller divisors are replaced by TINY
FOLDS = 5
SPREAD = np.array([2.0, 1.0])  # prior standard deviations of a label's intercept and slope
_gauss = lru_cache(maxsize=100)(np.polynomial.legendre.leggauss)
# Nodes t with weights w such that sum(w * t ** (P - 1)) approximates 1 / P for all P >= 1.
Inverse = list[tuple[float, float]]


class CompleteRows:
    """Unbiased estimates of the complete labels; each row is sorted by descending score."""

    # Labels without observed entries are omitted. With break_ties, the later of two labels with
    # equal scores comes first.

    def __init__(
        self,
        T: Signs,
        S: Array,
        rates: Any = None,
        weights: Array | None = None,
        *,
        break_ties: bool = False,
    ) -> None:
        self._given = T, S, rates, weights
        of_entries, of_rows = observation_rates(T, rates)
        seen = (T != 0).any(axis=0)
        self.seen = np.flatnonzero(seen)
        self.T, self.S, self.rates = T[:, seen], S[:, seen], of_entries[:, seen]
        self.sample = np.ones(len(T)) if weights is None else weights
        self.weights = self.sample * of_rows
        self.break_ties = break_ties
        self.n_entries = int(np.count_nonzero(T))
        positive, negative = (self.T > 0).sum(axis=0), (self.T < 0).sum(axis=0)
        missing = (self.T == 0).any(axis=0)
        self.one_sided = self.seen[missing & (positive >= ONLY_POSITIVES) & (negative == 0)]
        self.impossible = bool(len(self.one_sided) or not negative.any())

    @cached_property
    def _probabilities(self) -> Array:
        return cross_fitted_probabilities(self.T, self.S, self.sample[:, None] / self.rates)

    @cached_property
    def plain(self) -> Array:
        """Labels as 0 and 1, with probabilities in place of missing labels."""
        return np.where(self.T != 0, self.T > 0, self._probabilities)

    @cached_property
    def labels(self) -> Array:
        """Estimates ``q`` of the complete labels, which are unbiased over random masks."""
        P = self._probabilities
        return np.where(self.T != 0, P + ((self.T > 0) - P) / self.rates, P)

    def reordered(self, *, break_ties: bool) -> "CompleteRows":
        """Return these rows with their labels sorted again if ``break_ties`` differs."""
        if break_ties == self.break_ties:
            return self
        other = CompleteRows(*self._given, break_ties=break_ties)
        other._probabilities = self._probabilities
        return other

    @cached_property
    def order(self) -> NDArray[np.intp]:
        S = self.S[:, ::-1] if self.break_ties else self.S
        order = np.argsort(-S, axis=1, kind="stable")
        return S.shape[1] - 1 - order if self.break_ties else order

    @cached_property
    def q(self) -> Array:
        """Estimated labels sorted by score, stored by columns for fast sums along rows."""
        return np.asfortranarray(np.take_along_axis(self.labels, self.order, axis=1))

    @cached_property
    def ties(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """For each place, the first and last place of labels with an equal score."""
        return tie_runs(np.take_along_axis(self.S, self.order, axis=1), self.break_ties)

    @cached_property
    def _tied(self) -> bool:
        return bool((self.ties[0] != self.ties[1]).any())

    def from_(self, values: Array) -> Array:
        """Return for each label the sum of ``values`` over labels with an equal or higher score."""
        sums = _running(values)
        return np.take_along_axis(sums, self.ties[1], axis=1) if self._tied else sums

    def above(self, values: Array) -> Array:
        """Return for each label the sum of ``values`` over labels with a higher score."""
        sums = _running(values) - values
        return np.take_along_axis(sums, self.ties[0], axis=1) if self._tied else sums

    @cached_property
    def positives(self) -> Inverse:
        """Quadrature nodes and weights that approximate 1 / (number of positives of a row)."""
        return self._one_over(self.T > 0, positive=True)

    @cached_property
    def negatives(self) -> Inverse:
        """Quadrature nodes and weights that approximate 1 / (number of negatives of a row)."""
        return self._one_over(self.T < 0, positive=False)

    def _one_over(self, side: NDArray[np.bool_], *, positive: bool) -> Inverse:
        c = self.q.shape[1]
        if self.rates[side].min(initial=1.0) >= 0.5:
            # Gauss-Legendre nodes are unbiased, but their variance is high if rates are low.
            x, w = _gauss((c + 2) // 2)
            return list(zip((x + 1) / 2, w / 2, strict=True))
        return self._inverse(positive, 1 / np.arange(1, c + 1), _one_of)

    def _inverse(self, positive: bool, target: Array, added: Callable[..., Array]) -> Inverse:
        """Return quadrature nodes and weights that balance bias and variance for these rows."""
        q, plain, side = self.q, self.plain, self.T > 0
        if not positive:
            q, plain, side = 1 - q, 1 - plain, self.T < 0
        # A factor 1 - (1 - t) / rho has at most size 1 if t >= 1 - 2 rho. For smaller t, products
        # over many positives have a high variance. Only larger t are therefore used, with weights
        # from a least-squares fit to the target over the numbers of positives that occur.
        n, c = q.shape
        low = max(0.0, 1 - 2 * float(self.rates[side].mean())) if side.any() else 0.0
        x = _gauss(min(10 + c // 10, 24))[0]
        t = np.append(low + (1 - low) * (x + 1) / 2, 1.0)
        # Numbers of positives in whole rows, and in the part of a row from each place on.
        drawn = np.random.default_rng(0).random(plain.shape) < plain
        counts = np.cumsum(np.take_along_axis(drawn, self.order, axis=1)[:, ::-1], axis=1)
        share = np.full(c + 1, 0.01 / c)
        for part in (counts, counts[:, -1]):
            share += np.bincount(part.ravel(), minlength=c + 1) / (2 * part.size)
        number = np.arange(c)[:, None]
        wanted = t**number / target[:, None]  # its product with the weights should be 1
        sums = np.stack([added(q, node) for node in t], axis=1)
        sums -= np.average(sums, axis=0, weights=self.weights + TINY)
        noise = (self.weights[:, None] * sums).T @ sums / n**2
        bias = 4 * (wanted * share[1:, None]).T
        matrix = bias @ wanted + noise
        matrix += 1e-10 * np.trace(matrix) / len(t) * np.eye(len(t))
        return list(zip(t, np.linalg.solve(matrix, bias.sum(axis=1)), strict=True))

    @cached_property
    def some_positive(self) -> Any:
        """Return for each row an estimate of whether it has a positive (1) or not (0)."""
        return sum(w * _one_of(self.q, t) for t, w in self.positives)

    def precision(self) -> Array:
        """Return the average precision of each row; 0 for rows without positives."""
        total = np.zeros(len(self.q))
        share = np.asfortranarray(1.0 / (self.ties[1] + 1))
        for t, w in self.positives:
            product, u = _factors(self.q, t)
            others = self.from_(u) - u
            others *= t
            others += 1.0
            total += w * product * np.einsum("ij,ij,ij->i", u, share, others)
        return total

    def pairs(self, ties: float) -> tuple[Array, Array]:
        """Return for each row the share of misranked pairs, and 1 if it has pairs, otherwise 0."""
        # For P positives and N negatives, 1 / (P N) = (1 / P + 1 / N) / c.
        wrong, both = np.zeros(len(self.q)), np.zeros(len(self.q))
        for inverse, labels in ((self.positives, self.q), (self.negatives, 1 - self.q)):
            for t, w in inverse:
                product, mine = _factors(labels, t)
                others = (1 - labels) / _nonzero(1 - (1 - t) * labels)
                u, v = (mine, others) if labels is self.q else (others, mine)
                higher = ties * self.above(v) + (1 - ties) * (self.from_(v) - v)
                scale = w * product / self.q.shape[1]
                wrong += scale * (u * higher).sum(axis=1)
                both += scale * (u.sum(axis=1) * v.sum(axis=1) - (u * v).sum(axis=1))
        return wrong, both

    def depth(self) -> Array:
        """Return the rank of the lowest positive in each row; 0 for rows without positives."""
        total = np.zeros(len(self.q))
        for t, w in self.positives:
            f = _nonzero(1 - (1 - t) * self.q)
            product = np.cumprod(f[:, ::-1], axis=1)[:, ::-1]
            found = product * np.cumsum((self.q / f)[:, ::-1], axis=1)[:, ::-1]
            total += w * np.take_along_axis(found, self.ties[0], axis=1).sum(axis=1)
        return total

    def gains(self, discounts: Array) -> Any:
        """Return the nDCG at ``len(discounts)`` of each row; 0 for rows without positives."""
        c, k = self.q.shape[1], len(discounts)

        def gained(q: Array, t: float) -> Array:
            product, u = _factors(q, t)
            return product * (u[:, :k] @ discounts)

        most = np.cumsum(discounts)[np.minimum(np.arange(c), k - 1)]
        inverse = self._inverse(True, 1 / most, gained)
        return sum(w * gained(self.q, t) for t, w in inverse)


def _running(values: Array) -> Array:
    """Return cumulative sums along rows, computed column by column for speed."""
    sums = np.array(values, order="F")
    for place in range(1, sums.shape[1]):
        sums[:, place] += sums[:, place - 1]
    return sums


def _nonzero(f: Array) -> Array:
    """Replace values near zero in place by a small positive value, and return the array."""
    tiny = np.abs(f) < TINY
    if tiny.any():
        f[tiny] = TINY
    return f


def _factors(q: Array, t: float) -> tuple[Array, Array]:
    """Return the product of ``f = 1 - (1 - t) q`` over each row, and the quotients ``q / f``."""
    f = _nonzero(1 - (1 - t) * q)
    return np.prod(f, axis=1), q / f


def _one_of(q: Array, t: float) -> Array:
    product, u = _factors(q, t)
    return product * u.sum(axis=1)


def tie_runs(keys: NDArray[Any], break_ties: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return, for each place in sorted rows, the first and last place with the same key."""
    n, c = keys.shape
    place = np.arange(c)
    ends, starts = np.ones((n, c), dtype=bool), np.ones((n, c), dtype=bool)
    ends[:, :-1] = break_ties | (keys[:, 1:] != keys[:, :-1])
    starts[:, 1:] = ends[:, :-1]
    end = np.minimum.accumulate(np.where(ends, place, c - 1)[:, ::-1], axis=1)[:, ::-1]
    return np.maximum.accumulate(np.where(starts, place, 0), axis=1), end


def cross_fitted_probabilities(T: Signs, S: Array, weights: Array) -> Array:
    """Return cross-fitted probabilities from logistic curves, which are shrunk to their mean."""
    # The curves for each fifth of the rows are fitted to the other rows only.
    largest = np.abs(S).max(initial=0.0)
    S = S / largest if largest > 0 else S  # avoids overflow of squares
    spread = S.std()
    Z = (S - S.mean(axis=0)) / (spread if spread > 0 else 1.0)
    W = np.where(T != 0, weights, 0.0)
    W *= np.count_nonzero(T) / max(W.sum(), 1e-300)
    overall = (W * (T > 0)).sum() / max(W.sum(), 1e-300)
    share = ((W * (T > 0)).sum(axis=0) + overall + 1e-3) / (W.sum(axis=0) + 1.0 + 2e-3)
    # Only the observed entries of each label are used.
    rows = padded(W > 0)[0]
    near, W, signs = (np.take_along_axis(part.T, rows, axis=1) for part in (Z, W, T))
    inputs, signs = np.stack([np.ones_like(near), near], axis=1), signs.astype(np.float64)
    curves = np.column_stack([logit(share), np.ones(T.shape[1])])
    curves = _newton(curves, inputs, signs, W, steps=10)
    result = np.empty_like(Z)
    for fold in range(FOLDS):
        others = W * (fold != rows % FOLDS)
        own = _newton(curves, inputs, signs, others, steps=3)
        half = 0.5 * (own[:, 0] + own[:, 1] * Z[fold::FOLDS])
        result[fold::FOLDS] = 0.5 + 0.5 * np.tanh(half)  # three times as fast as scipy's expit
    return np.clip(result, 1e-4, 1 - 1e-4)


def _newton(curves: Array, inputs: Array, signs: Array, W: Array, steps: int) -> Array:
    """Return logistic curves (c, 2), fitted by Newton steps and shrunk towards their mean."""
    total, free = W.sum(axis=1) + 1e-9, np.zeros(curves.shape, dtype=bool)
    problem = LogisticProblem(inputs, signs, W, 1 / SPREAD**2, curves)
    for _ in range(steps):
        problem.goal = total @ curves / total.sum()
        gradient, bend = problem.derivatives(curves, signs * problem.scores(curves))
        # Steps are bounded, because they would diverge if scores separate the classes.
        curves = curves + np.clip(problem.step(gradient, bend, free), -1.0, 1.0)
    return curves
