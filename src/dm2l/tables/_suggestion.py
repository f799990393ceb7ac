r"""Active learning: rank missing labels by the value of an answer.

The value of an answer to the missing label :math:`k` of row :math:`i` is the expected number of
wrong imputations that it prevents, a sum of three terms. The entry itself would be imputed wrongly
with probability :math:`\min(p_{ik}, 1 - p_{ik})`. The answer changes the probabilities of other
missing labels of the row (``row_gains``, multiplied by ``trust``, the ratio of observed to expected
gains at known entries). The answer also improves scores of other rows. For ridge on observed rows
:math:`O_k` (DM2L without its nuclear norms) with features :math:`\phi`, let :math:`H_k = \sum_{j
\in O_k} \phi_j \phi_j' + \alpha I`; the leverage is :math:`h_{ik} = \phi_i' H_k^{-1} \phi_i`. An
answer :math:`t` to an entry with score :math:`f_{ik}` changes the score of row :math:`j` by

.. math:: \Delta_j = \frac{\phi_j' H_k^{-1} \phi_i}{1 + h_{ik}} (t - f_{ik}).

With the slope :math:`g_j` of the probability of entry :math:`j`, the share :math:`r_k` of the
label's variance that out-of-fold scores explain, and the variance :math:`4p(1-p)` of the answer,

.. math:: 4 p_{ik} (1 - p_{ik}) \cdot \frac{2 r_k}{(1 + h_{ik})^2}
          \sum_{j \ne i} g_j^2 (\phi_j' H_k^{-1} \phi_i)^2

is the expected decrease of the sum of :math:`2 p_j (1 - p_j)` over the missing entries of the
label. Each summand is the probability that two random draws of the entry differ. For :math:`p_j`
near one half, this is close to the error probability.

A batch is chosen greedily: after each choice of the most valuable entry, the values of correlated
entries are reduced. Once entry :math:`i` of label :math:`k` is chosen, the error probability
:math:`\min(p_j, 1 - p_j)` of another missing entry :math:`j` of that label is multiplied by
:math:`1 - \rho_{ij}^2`, where

.. math:: \rho_{ij} = \frac{\phi_i' H_k^{-1} \phi_j}
          {\sqrt{\phi_i' H_k^{-1} \phi_i \cdot \phi_j' H_k^{-1} \phi_j}}

is the posterior correlation of the two scores, which is 1 for copies of a row. The row of :math:`i`
then counts as observed, which updates :math:`H_k` to :math:`H_k + \phi_i \phi_i'`.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.utils.extmath import randomized_svd

from dm2l._auto._classifier import AutoClassifier
from dm2l._auto._score_classifier import ScoreClassifier
from dm2l._solvers.features import ridge_value
from dm2l._solvers.maps import KernelMap
from dm2l._utils.arrays import to_numpy
from dm2l.completion._correlation import row_gains, trust
from dm2l.completion._covariance import conditional_moments
from dm2l.labels._entries import Floats, Mask
from dm2l.tables._measures import impute
from dm2l.tables._model import TableModel
from dm2l.tables._reading import Cells, Table

# Maximum number of columns for comparing rows; more are replaced by principal components.
DIRECTIONS = 500


@dataclass(frozen=True)
class AnswerValues:
    """Expected numbers of errors that answers prevent, in arrays of shape (n_rows, n_labels)."""

    probability: Floats  # probability of a positive label, given the known labels of the row
    row: Floats  # errors prevented in other labels of the row
    effect: Floats  # errors prevented in other rows if the probability is 0.5
    trust: float
    directions: Floats  # the features of the ridge model, whose penalty is alpha
    alpha: float
    slope: Floats  # derivatives of the probabilities by the scores
    skill: Floats  # the explained variance of each label

    @property
    def own(self) -> Floats:
        """Probability that the entry itself would be imputed wrongly."""
        return np.minimum(self.probability, 1 - self.probability)

    @property
    def others(self) -> Floats:
        """Expected number of errors that each answer prevents in other rows."""
        return 4 * self.probability * (1 - self.probability) * self.effect

    @property
    def total(self) -> Floats:
        """Expected number of errors that each answer prevents in all entries."""
        return self.own + self.row + self.others

    def rank_rows(self, missing: Mask) -> tuple[NDArray[np.intp], Floats]:
        """Return the rows with missing labels, most valuable first, and the value of each row."""
        # Gains in other labels of the row do not count, because these labels are answered as well.
        total = np.sum(self.own + self.others, axis=1, where=missing)
        rows = np.flatnonzero(missing.any(axis=1))
        return rows[np.argsort(-total[rows], kind="stable")], total


@dataclass(frozen=True)
class Suggestions:
    """Missing labels, or rows with ``n_open`` missing labels, most valuable first."""

    row: NDArray[np.intp]  # 1 is the first row below the header
    value: Floats
    warnings: list[str]
    label: list[str] = field(default_factory=list)
    probability: Floats | None = None
    n_open: NDArray[np.intp] | None = None


def suggest_entries(model: TableModel, table: Table, top: int | None = None) -> Suggestions:
    """Rank the missing labels of a table by how many errors an answer prevents.

    Parameters
    ----------
    model : TableModel
        A fitted model.
    table : Table
        The training table of the model, or a later version with the same labels.
    top : int, default=None
        Maximum number of entries to return; None returns all entries.

    Returns
    -------
    Suggestions
        Arrays ``row`` (1 is the first row below the header), ``label`` (or column with several
        values), ``probability`` of a positive label (or of the most probable value), and ``value``,
        the expected number of wrong imputations that the answer prevents.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import FitOptions, fit_table, suggest_entries, table_from_frame
    >>> frame = pd.DataFrame({"mass": [0, 1, 2, 3] * 20, "toxic": [0, None, 1, 1] * 20})
    >>> table = table_from_frame(frame, "toxic")
    >>> model = fit_table(table, FitOptions("linear", 0.1, 1.0), estimate_folds=0)
    >>> found = suggest_entries(model, table, top=3)
    >>> len(found.label), bool(found.value[0] >= found.value[-1] > 0)
    (3, True)
    """
    values, missing, warnings = table_values(model, table)
    total, p, names = suggested(values, missing), values.probability.copy(), list(table.label_names)
    for labels, group in table.exclusive:
        p[:, labels] = group.probability(p[:, labels], p[:, labels] > 0.5)[:, None]
        for k in labels:
            names[k] = group.column
    rows, columns = np.nonzero(one_per_cell(total, missing, table.exclusive))
    order = np.argsort(-total[rows, columns], kind="stable")[:top]
    rows, columns = best = rows[order], columns[order]
    return Suggestions(rows + 1, total[best], warnings, [names[k] for k in columns], p[best])


def one_per_cell(total: Floats, missing: Mask, exclusive: Cells) -> Mask:
    """Return a mask of missing entries that keeps the most valuable entry of each cell."""
    found = missing.copy()
    for labels, _ in exclusive:
        best = np.argmax(np.where(missing, total, -1.0)[:, labels], axis=1)
        found[:, labels] &= np.arange(len(labels)) == best[:, None]
    return found


def suggested(values: AnswerValues, missing: Mask) -> Floats:
    """Return values that rank entries; gains in a row count only for the best entry of the row."""
    total = np.where(missing, values.total, -1.0)
    best = np.arange(total.shape[1]) == np.argmax(total, axis=1)[:, None]
    return values.total - np.where(best, 0.0, values.row)


def suggest_rows(model: TableModel, table: Table, top: int | None = None) -> Suggestions:
    """Rank the rows of a table by the value of answering all their missing labels.

    Parameters
    ----------
    model, table, top
        As in :func:`suggest_entries`.

    Returns
    -------
    Suggestions
        Arrays ``row``, ``n_open`` (number of missing labels) and ``value``.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import FitOptions, fit_table, suggest_rows, table_from_frame
    >>> frame = pd.DataFrame({"mass": [0, 1, 2, 3] * 20, "toxic": [0, None, 1, 1] * 20})
    >>> table = table_from_frame(frame, "toxic")
    >>> model = fit_table(table, FitOptions("linear", 0.1, 1.0), estimate_folds=0)
    >>> found = suggest_rows(model, table, top=5)
    >>> len(found.row), bool((found.n_open >= 1).all())
    (5, True)
    """
    values, missing, warnings = table_values(model, table)
    rows, total = values.rank_rows(missing)
    order = rows[:top]
    open_ = one_per_cell(values.total, missing, table.exclusive)
    return Suggestions(order + 1, total[order], warnings, n_open=open_.sum(axis=1)[order])


def table_values(
    model: TableModel, table: Table, Y: Floats | None = None
) -> tuple[AnswerValues, Mask, list[str]]:
    """Return the values of answers, a mask of entries that can be answered, and warnings."""
    Y = table.Y if Y is None else Y
    X, unread, warnings = model.prepared(table)
    values = answer_values(model.classifier, X, Y, table.exclusive)
    values.probability[unread], values.row[unread] = 0.0, 0.0
    return values, np.isnan(Y) & ~unread[:, None], warnings


def answer_values(classifier: Any, X: Any, Y: Floats, together: Cells = ()) -> AnswerValues:
    """Compute the values of answers to missing labels."""
    coupling = classifier._completer.correlation
    part, T, F = 0.0, *_scored(classifier, X, Y)
    if coupling is not None and classifier._learnable.sum() > 1:
        part = trust(T, F, coupling.combiner.calibrated)
    p, gains = row_values(classifier, X, Y, part, together, (T, F))
    # The derivative of each probability by its score, and the variance that out-of-fold scores
    # explain. More answers do not help a label that the features do not predict.
    slope = 2 * p * (1 - p)
    if coupling is not None:
        mean, variance = conditional_moments(coupling.covariance, T, F)
        free = coupling.combiner.predict(T, F, mean, variance)  # before rules
        slope = free * (1 - free) * coupling.combiner.slopes(F, variance)
    known = T != 0
    level = T.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    left = np.sum((T - F) ** 2, axis=0, where=known)
    spread = np.sum((T - level) ** 2, axis=0, where=known)
    skill = np.clip(1 - left / np.maximum(spread, 1e-12), 0.0, 1.0)
    if isinstance(classifier, AutoClassifier):  # approximated by its linear model
        X = classifier._features.transform(classifier._check_X(X))
        classifier = classifier.models_["linear"]
    elif isinstance(classifier, ScoreClassifier):
        X = F  # without missing scores, and on one scale
    directions = _directions(classifier, X)
    alpha = 1.0  # the squared norm of a row in the space of an rbf kernel
    given = getattr(classifier, "alpha", "")  # text names a rule that computes alpha
    if not isinstance(given, str) or (given and classifier.kernel == "linear"):
        alpha = ridge_value(given, X)
    # 2 p (1 - p) decreases by twice the squared change of the probability.
    effect = 2 * skill * answer_effects(directions, Y, alpha, slope)
    return AnswerValues(p, gains, effect, part, directions, alpha, slope, skill)


def row_values(
    classifier: Any, X: Any, Y: Floats, part: float, together: Cells, scored: Any = None
) -> tuple[Floats, Floats]:
    """Return probabilities, and expected errors in the rest of a row that an answer prevents."""
    p = impute(classifier, X, Y, together=together).probabilities
    gains, rules = np.zeros(Y.shape), classifier._completer.rules
    if part:
        T, F = scored or _scored(classifier, X, Y)
        moved = ~np.isin(np.arange(Y.shape[1]), [k for labels, _ in together for k in labels])
        gains = row_gains(classifier._completer.correlation, T, F, p, moved)
        gains = part * np.where(np.isnan(Y) & classifier._learnable, gains, 0.0)
    return p, gains if rules is None else np.maximum(gains, _implied_gains(rules._logic, p))


def _implied_gains(logic: Any, p: Floats) -> Floats:
    """Return how many errors each answer is expected to prevent in labels implied by rules."""
    part, m = p[:, logic.columns], len(logic.columns)
    error, gains = np.minimum(part, 1 - part), np.zeros(p.shape)
    decided = logic.closure[:, :m] + logic.closure[:, m:]
    yes, no = (error @ decided[half].T - error for half in (slice(m), slice(m, None)))
    gains[:, logic.columns] = part * yes + (1 - part) * no
    return gains


def _scored(classifier: Any, X: Any, Y: Floats) -> tuple[Floats, Floats]:
    """Return the signs of learnable labels, and scores (out-of-fold for training rows)."""
    T = np.where(np.isnan(Y) | ~classifier._learnable, 0.0, 2 * Y - 1)
    F = np.asarray(to_numpy(classifier.decision_function(X)), dtype=np.float64)
    rows = classifier._completer.training_rows
    if rows is not None:
        F = rows.hold_out(X, T, F)
    return T, F


class MissingEntries:
    r"""Missing entries of a label and their :math:`H_k^{-1} \phi_i`, updated after each choice."""

    def __init__(self, Phi: Floats, missing: Mask, alpha: float, slope: Floats) -> None:
        Phi = np.column_stack([Phi, np.ones(len(Phi))])
        # The intercept is not penalized, except for a tiny term that keeps the matrix invertible.
        penalty = np.append(np.full(Phi.shape[1] - 1, max(alpha, 1e-8)), 1e-8)
        seen = Phi[~missing]
        self.rows, self.slope, self.features = np.flatnonzero(missing), slope[missing], Phi[missing]
        factor = cho_factor(seen.T @ seen + np.diag(penalty))
        self.solved = cho_solve(factor, self.features.T).T
        self.leverage = np.einsum("ij,ij->i", self.features, self.solved)

    def effects(self) -> Floats:
        """Sum squared changes of other probabilities, if each answer is 1 away from the score."""
        # sum_j (phi_j' H^-1 phi_i)^2 is a quadratic form, which needs no n x n matrix.
        steep = self.slope[:, None] * self.features
        moved = np.einsum("ij,ij->i", self.solved @ (steep.T @ steep), self.solved)
        moved -= (self.slope * self.leverage) ** 2
        return np.maximum(moved, 0.0) / (1 + self.leverage) ** 2

    def observe(self, i: int) -> Floats:
        """Count entry ``i`` as observed; return its squared correlations with all entries."""
        u = self.solved[i].copy()
        reach = self.features @ u
        likeness = np.minimum(reach**2 / (self.leverage * self.leverage[i]), 1.0)
        # The Sherman-Morrison formula.
        reach = reach / (1 + self.leverage[i])
        self.leverage = self.leverage - reach**2 * (1 + self.leverage[i])
        self.solved = self.solved - reach[:, None] * u
        self.slope[i] = 0.0
        return likeness


def answer_effects(Phi: Floats, Y: Floats, alpha: float, slope: Floats | float = 1.0) -> Floats:
    """Return effects of answers on other missing entries of a label; 0 for observed entries."""
    slope, effect = np.broadcast_to(slope, Y.shape), np.zeros(Y.shape)
    for k, missing in enumerate(np.isnan(Y).T):
        effect[missing, k] = MissingEntries(Phi, missing, alpha, slope[:, k]).effects()
    return effect


def choose_batch(
    values: AnswerValues, missing: Mask, asked: Mask, n: int
) -> tuple[NDArray[np.intp], list[Floats]]:
    """Choose up to ``n`` ``asked`` entries; also return all entry values at each choice."""
    own, row, p = values.own.copy(), values.row.copy(), values.probability
    others, left = values.others.copy(), asked.copy()
    labels: dict[int, MissingEntries] = {}
    chosen, steps = [], []
    for _ in range(min(n, int(asked.sum()))):
        total = np.where(left, own + row + others, np.nan)
        i, k = (int(place) for place in np.unravel_index(np.nanargmax(total), total.shape))
        chosen.append((i, k))
        steps.append(total)
        left[i, k] = False
        row[i] = 0.0
        if k not in labels:
            slope = values.slope[:, k]
            labels[k] = MissingEntries(values.directions, missing[:, k], values.alpha, slope)
        rows = labels[k].rows
        own[rows, k] *= 1 - labels[k].observe(int(np.searchsorted(rows, i)))
        uncertain = 4 * p[rows, k] * (1 - p[rows, k])
        others[rows, k] = uncertain * 2 * values.skill[k] * labels[k].effects()
    return np.array(chosen, dtype=np.intp).reshape(-1, 2), steps


def _directions(classifier: Any, X: Any) -> Floats:
    """Return features of the rows, reduced to at most ``DIRECTIONS`` columns."""
    if classifier.kernel not in ("linear", None):  # None for masked ridge
        features = KernelMap(classifier._kernel, min(DIRECTIONS, X.shape[0]), random_state=0)
        return np.asarray(features.fit(X))
    if X.shape[1] <= DIRECTIONS:
        return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    U, s, _ = randomized_svd(X, min(DIRECTIONS, *X.shape), random_state=0)
    return U * s
