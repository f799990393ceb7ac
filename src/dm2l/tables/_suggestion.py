r"""Which missing labels a person should answer first (active learning).

The value of an answer to the missing label :math:`k` of row :math:`i` is the number of mistakes
that it is expected to prevent, of three kinds. The entry itself would be filled wrongly with
probability :math:`\min(p_{ik}, 1 - p_{ik})`. The probabilities of the other missing labels of the
row change (``row_gains``), weighted by how well such changes predict known entries (``trust``).
And the model learns: for ridge on the observed rows
:math:`O_k` (DM2L without its nuclear norms), with features :math:`\phi`,
:math:`H_k = \sum_{j \in O_k} \phi_j \phi_j' + \alpha I` and the leverage
:math:`h_{ik} = \phi_i' H_k^{-1} \phi_i`, an answer :math:`t` moves the score of row :math:`j` by

.. math:: \Delta_j = \frac{\phi_j' H_k^{-1} \phi_i}{1 + h_{ik}} (t - f_{ik}).

With the slope :math:`g_j` of the probability of entry :math:`j`, the share :math:`r_k` of the
label's variance that out-of-fold scores explain, and the variance :math:`4p(1-p)` of the answer,

.. math:: 4 p_{ik} (1 - p_{ik}) \cdot \frac{2 r_k}{(1 + h_{ik})^2}
          \sum_{j \ne i} g_j^2 (\phi_j' H_k^{-1} \phi_i)^2

is the expected decrease of :math:`2 p_j (1 - p_j)` over the missing entries of the label, which is
the chance that two draws differ, and near one half that of a mistake.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.utils.extmath import randomized_svd

from dm2l._auto._classifier import AutoClassifier
from dm2l._solvers.features import ridge_value
from dm2l._solvers.nystroem import NystroemMap
from dm2l._utils.arrays import to_numpy
from dm2l.completion._condition import condition
from dm2l.completion._query_gains import row_gains, trust
from dm2l.tables._model import TableModel, impute
from dm2l.tables._reading import Table

# Directions in which features are compared; of more columns the strongest ones.
DIRECTIONS = 500


@dataclass(frozen=True)
class AnswerValues:
    """Mistakes that an answer to each entry is expected to prevent; arrays (n_rows, n_labels).

    ``probability`` of a yes given the known labels of the row, mistakes prevented in the ``row``'s
    other missing labels, and in other rows (``effect``, for an answer that is entirely uncertain).
    """

    probability: NDArray[np.float64]
    row: NDArray[np.float64]
    effect: NDArray[np.float64]
    trust: float

    @property
    def own(self) -> NDArray[np.float64]:
        """The probability that the entry itself would be filled wrongly."""
        return np.minimum(self.probability, 1 - self.probability)

    @property
    def others(self) -> NDArray[np.float64]:
        """Mistakes prevented in other rows."""
        return 4 * self.probability * (1 - self.probability) * self.effect

    @property
    def total(self) -> NDArray[np.float64]:
        """The sum of the three kinds."""
        return self.own + self.row + self.others


@dataclass(frozen=True)
class Suggestions:
    """Missing labels of a table, the most valuable first.

    Row 1 is the first row below the header; ``value`` is the number of mistakes that the answer is
    expected to prevent.
    """

    row: NDArray[np.intp]
    label: list[str]
    probability: NDArray[np.float64]
    value: NDArray[np.float64]
    warnings: list[str]


@dataclass(frozen=True)
class RowSuggestions:
    """Rows of a table with ``n_open`` missing labels each, the most valuable first."""

    row: NDArray[np.intp]
    n_open: NDArray[np.intp]
    value: NDArray[np.float64]
    warnings: list[str]


def suggest_entries(model: TableModel, table: Table, top: int | None = None) -> Suggestions:
    """Rank the missing labels of a table by the expected value of an answer.

    Parameters
    ----------
    model : TableModel
        A fitted model.
    table : Table
        The table it was fitted to, or a later state of it, with the same labels.
    top : int, default=None
        How many; None for all.

    Returns
    -------
    Suggestions
        Arrays ``row`` (1 is the first row below the header), ``label``, ``probability`` of a yes,
        and ``value``, the number of mistakes that the answer is expected to prevent.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import FitOptions, fit_table, suggest_entries, table_from_frame
    >>> frame = pd.DataFrame({"mass": [i % 7 for i in range(60)]})
    >>> frame["tox_a"] = [i % 7 > 3 if i % 3 else None for i in range(60)]
    >>> frame["tox_b"] = [i % 7 < 2 if i % 4 else None for i in range(60)]
    >>> table = table_from_frame(frame, "tox_*")
    >>> model = fit_table(table, FitOptions("linear", 0.1, 1.0), estimate_folds=0)
    >>> found = suggest_entries(model, table, top=3)
    >>> len(found.label), bool(found.value[0] >= found.value[-1] > 0)
    (3, True)
    """
    values, missing, warnings = table_values(model, table)
    rows, labels = np.nonzero(missing)
    found = suggested(values, missing)[rows, labels]
    order = np.argsort(-found, kind="stable")[:top]
    return Suggestions(
        row=rows[order] + 1,
        label=[table.label_names[k] for k in labels[order]],
        probability=values.probability[rows, labels][order],
        value=found[order],
        warnings=warnings,
    )


def suggested(values: AnswerValues, missing: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Values of missing entries that are queried together: ``row`` counts once, for the best."""
    total = np.where(missing, values.total, -1.0)
    best = np.arange(total.shape[1]) == np.argmax(total, axis=1)[:, None]
    return values.total - np.where(best, 0.0, values.row)


def suggest_rows(model: TableModel, table: Table, top: int | None = None) -> RowSuggestions:
    """Rank whole rows instead of single entries, by the value of answering all their labels.

    Parameters
    ----------
    model, table, top
        As in :func:`suggest_entries`.

    Returns
    -------
    RowSuggestions
        Arrays ``row``, ``n_open`` (missing labels) and ``value``.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import FitOptions, fit_table, suggest_rows, table_from_frame
    >>> frame = pd.DataFrame({"mass": [i % 7 for i in range(60)]})
    >>> frame["tox_a"] = [i % 7 > 3 if i % 3 else None for i in range(60)]
    >>> frame["tox_b"] = [i % 7 < 2 if i % 4 else None for i in range(60)]
    >>> table = table_from_frame(frame, "tox_*")
    >>> model = fit_table(table, FitOptions("linear", 0.1, 1.0), estimate_folds=0)
    >>> found = suggest_rows(model, table, top=5)
    >>> len(found.row), bool((found.n_open >= 1).all())
    (5, True)
    """
    values, missing, warnings = table_values(model, table)
    # Gains in the row's other missing labels do not count: they are answered too.
    total = np.sum(values.own + values.others, axis=1, where=missing)
    rows = np.flatnonzero(missing.any(axis=1))
    order = rows[np.argsort(-total[rows], kind="stable")][:top]
    return RowSuggestions(order + 1, missing.sum(axis=1)[order], total[order], warnings)


def table_values(
    model: TableModel, table: Table, Y: NDArray[np.float64] | None = None
) -> tuple[AnswerValues, NDArray[np.bool_], list[str]]:
    """Values of answers to the missing labels of a table, these entries, and warnings.

    ``Y`` is a later state of the labels. Rows without a molecule have no value.
    """
    Y = table.Y if Y is None else Y
    X, unread, warnings = model.prepared(table)
    values = answer_values(model.classifier, X, Y)
    values.probability[unread], values.row[unread] = 0.0, 0.0
    return values, np.isnan(Y) & ~unread[:, None], warnings


class Learning(NamedTuple):
    """Features, ridge, slopes of probabilities in scores, and explained variance of each label."""

    directions: NDArray[np.float64]
    alpha: float
    slope: NDArray[np.float64]
    skill: NDArray[np.float64]


def answer_values(classifier: Any, X: Any, Y: NDArray[np.float64]) -> AnswerValues:
    """Values of answers to missing labels."""
    return values_and_learning(classifier, X, Y)[0]


def values_and_learning(
    classifier: Any, X: Any, Y: NDArray[np.float64]
) -> tuple[AnswerValues, Learning]:
    """Values of answers, and the ridge model behind their effect on other rows."""
    coupling = classifier._completer.correlation
    part, T, F = 0.0, *_scored(classifier, X, Y)
    if coupling is not None and classifier._learnable.sum() > 1:
        part = trust(coupling, T, F)
    p, gains = row_values(classifier, X, Y, part, (T, F))
    # How far a probability moves with its score, and the variance that scores of unseen rows
    # explain: one more answer does not help a label that cannot be learnt.
    slope = 2 * p * (1 - p)
    if coupling is not None:
        combiner, variance = coupling.combiner, condition(coupling.covariance, T, F)[1]
        steep = combiner.scale_[0] * combiner.weights_[:, 1]
        steep = steep + combiner.scale_[1] * combiner.weights_[:, 2]
        slope = p * (1 - p) * steep / np.sqrt(variance)
    known = T != 0
    count = np.maximum(known.sum(axis=0), 1)
    level = T.sum(axis=0) / count
    left = np.sum((T - F) ** 2, axis=0, where=known)
    spread = np.sum((T - level) ** 2, axis=0, where=known)
    skill = np.clip(1 - left / np.maximum(spread, 1e-12), 0.0, 1.0)
    if isinstance(classifier, AutoClassifier):  # its linear model stands for it
        X, classifier = classifier._features_of(X), classifier.models_["linear"]
    learning = Learning(_directions(classifier, X), _ridge(classifier, X), slope, skill)
    effect = answer_effects(learning.directions, Y, learning.alpha, slope)
    # 2 p (1 - p) decreases by twice the squared movement of the probability.
    return AnswerValues(p, gains, 2 * skill * effect, part), learning


def row_values(
    classifier: Any,
    X: Any,
    Y: NDArray[np.float64],
    part: float,
    scored: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probabilities, and mistakes about other labels of its row that each answer prevents.

    ``scored`` are signs and scores of the rows, where they are known already.
    """
    p = impute(classifier, X, Y).probabilities
    if not part:
        return p, np.zeros(Y.shape)
    scored = _scored(classifier, X, Y) if scored is None else scored
    gains = row_gains(classifier._completer.correlation, *scored, p)
    return p, part * np.where(np.isnan(Y) & classifier._learnable, gains, 0.0)


def _scored(
    classifier: Any, X: Any, Y: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Signs of labels that were learnt, and scores, out-of-fold ones for training rows."""
    T = np.where(np.isnan(Y) | ~classifier._learnable, 0.0, 2 * Y - 1)
    F = np.asarray(to_numpy(classifier.decision_function(X)), dtype=np.float64)
    rows = classifier._completer.training_rows
    if rows is not None:
        F = rows.hold_out(X, T, F)
    return T, F


def answer_effects(
    Phi: NDArray[np.float64],
    Y: NDArray[np.float64],
    alpha: float,
    slope: NDArray[np.float64] | float = 1.0,
) -> NDArray[np.float64]:
    """Squared movement of a label's other missing entries for an answer one off the score.

    Movements of scores count ``slope`` times; 0 for observed entries.
    """
    slope = np.broadcast_to(slope, Y.shape)
    effect = np.zeros(Y.shape)
    for k in range(Y.shape[1]):
        absent = np.isnan(Y[:, k])
        asked, solved = solved_rows(Phi, absent, alpha)
        leverage = np.einsum("ij,ij->i", asked, solved)
        # sum_j (phi_j' H^-1 phi_i)^2 over all entries is a quadratic form: no n x n matrix.
        steep = slope[absent, k]
        felt = steep[:, None] * asked
        moved = np.einsum("ij,ij->i", solved @ (felt.T @ felt), solved) - (steep * leverage) ** 2
        effect[absent, k] = np.maximum(moved, 0.0) / (1 + leverage) ** 2
    return effect


def solved_rows(
    Phi: NDArray[np.float64], absent: NDArray[np.bool_], alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Features ``phi_i`` of missing entries with their intercept, and ``H^-1 phi_i``."""
    Phi = np.column_stack([Phi, np.ones(len(Phi))])
    # An intercept has no ridge; a tiny one keeps a label without answers solvable.
    penalty = np.append(np.full(Phi.shape[1] - 1, max(alpha, 1e-8)), 1e-8)
    seen, asked = Phi[~absent], Phi[absent]
    return asked, cho_solve(cho_factor(seen.T @ seen + np.diag(penalty)), asked.T).T


def _directions(classifier: Any, X: Any) -> NDArray[np.float64]:
    """Features of the rows, at most ``DIRECTIONS`` columns."""
    if classifier.kernel != "linear":
        features = NystroemMap(classifier._kernel, min(DIRECTIONS, X.shape[0]), random_state=0)
        return np.asarray(features.fit(X))
    if X.shape[1] <= DIRECTIONS:
        return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    U, s, _ = randomized_svd(X, min(DIRECTIONS, *X.shape), random_state=0)
    return U * s


def _ridge(classifier: Any, X: Any) -> float:
    if classifier.kernel != "linear" and isinstance(classifier.alpha, str):
        return 1.0  # about the variance of rows in the space of an rbf kernel
    return ridge_value(classifier.alpha, X)
