r"""Which holes a person should answer first.

An answer :math:`t \in \{-1, +1\}` to the hole of row :math:`i` in label :math:`k` moves the scores
of that label. For ridge on the observed rows :math:`O_k` (DM2L without its nuclear norms), with
features :math:`\phi`, :math:`H_k = \sum_{j \in O_k} \phi_j \phi_j' + \alpha I` and the leverage
:math:`h_{ik} = \phi_i' H_k^{-1} \phi_i`, the score of row :math:`j` moves by exactly

.. math:: \Delta_j = \frac{\phi_j' H_k^{-1} \phi_i}{1 + h_{ik}} (t - f_{ik}).

The value of asking is the uncertainty of the answer times its effect on the *other* holes
:math:`M_k` of the label, each of which would be decided better:

.. math:: v_{ik} = 4 p_{ik} (1 - p_{ik}) \cdot
          \frac{1}{(1 + h_{ik})^2} \sum_{j \in M_k, j \ne i} (\phi_j' H_k^{-1} \phi_i)^2 .

:math:`4p(1-p)` is the variance of an answer of probability :math:`p`, so that :math:`v` is the
expected squared movement of the label's other holes where scores are what probabilities say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.utils.extmath import randomized_svd

from dm2l.features import ridge_value
from dm2l.kernels import NystroemMap
from dm2l.tables._model import TableModel
from dm2l.tables._table import Table

# Directions in which features are compared; of more columns the strongest ones.
DIRECTIONS = 500


@dataclass(frozen=True)
class Suggestions:
    """Holes of a table, the most valuable first.

    Attributes
    ----------
    row : ndarray of int
        Row numbers; 1 is the first row below the header.
    label : list of str
        Labels.
    probability : ndarray
        That the answer is yes, as the model has it.
    value : ndarray
        Expected squared movement of the scores of the label's other holes.
    warnings : list of str
        What was odd about the table.
    """

    row: NDArray[np.intp]
    label: list[str]
    probability: NDArray[np.float64]
    value: NDArray[np.float64]
    warnings: list[str]


def suggest_entries(model: TableModel, table: Table, top: int | None = None) -> Suggestions:
    """Rank the holes of a table by what an answer to them would bring.

    Parameters
    ----------
    model : TableModel
        A fitted model.
    table : Table
        The table it was fitted to, or a later state of it, with the same labels; its observed
        entries are those that the effect of one more is measured against.
    top : int, default=None
        How many; None for all.

    Returns
    -------
    Suggestions
        Rows, labels, probabilities and values.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import Wishes, fit_table, suggest_entries, table_from_frame
    >>> frame = pd.DataFrame({"mass": [i % 7 for i in range(60)]})
    >>> frame["tox_a"] = [i % 7 > 3 if i % 3 else None for i in range(60)]
    >>> frame["tox_b"] = [i % 7 < 2 if i % 4 else None for i in range(60)]
    >>> table = table_from_frame(frame, "tox_*")
    >>> model = fit_table(table, Wishes("linear", 0.1, 1.0), estimate_folds=0)
    >>> found = suggest_entries(model, table, top=3)
    >>> len(found.label), bool(found.value[0] >= found.value[-1] > 0)
    (3, True)
    """
    model.check_labels(table)
    inputs, warnings = model.inputs(table)
    X, classifier = model.pipeline[:-1].transform(inputs), model.classifier
    p = classifier.predict_proba(X)
    effect = answer_effects(_directions(classifier, X), table.Y, _ridge(classifier, X))
    value = 4 * p * (1 - p) * effect
    rows, labels = np.nonzero(np.isnan(table.Y))
    found = value[rows, labels]
    order = np.argsort(-found, kind="stable")[:top]
    return Suggestions(
        row=rows[order] + 1,
        label=[table.label_names[k] for k in labels[order]],
        probability=p[rows, labels][order],
        value=found[order],
        warnings=warnings,
    )


def answer_effects(
    Phi: NDArray[np.float64], Y: NDArray[np.float64], alpha: float
) -> NDArray[np.float64]:
    """Squared movement of a label's other holes for an answer one off the score; 0 if observed."""
    effect = np.zeros(Y.shape)
    Phi = np.column_stack([Phi, np.ones(len(Phi))])
    # An intercept has no ridge; a touch of one keeps a label without answers solvable.
    penalty = np.append(np.full(Phi.shape[1] - 1, max(alpha, 1e-8)), 1e-8)
    for k in range(Y.shape[1]):
        hole = np.isnan(Y[:, k])
        seen, asked = Phi[~hole], Phi[hole]
        factor = cho_factor(seen.T @ seen + np.diag(penalty))
        solved = cho_solve(factor, asked.T).T
        leverage = np.einsum("ij,ij->i", asked, solved)
        # sum_j (phi_j' H^-1 phi_i)^2 over all holes is a quadratic form: no matrix of n x n.
        moved = np.einsum("ij,ij->i", solved @ (asked.T @ asked), solved) - leverage**2
        effect[hole, k] = np.maximum(moved, 0.0) / (1 + leverage) ** 2
    return effect


def _directions(classifier: Any, X: Any) -> NDArray[np.float64]:
    """Features of the rows, at most as many columns as are worth it."""
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
