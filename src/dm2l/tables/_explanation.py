"""What carries a label: features, and the labels it moves with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l.arrays import to_numpy
from dm2l.readers.columns import ColumnRequestError
from dm2l.tables._model import TableModel

SAMPLE, SHUFFLES = 300, 5
# Of the rows that say what each column of a row does to a kernel model.
MOST_NUMBERS = 4_000_000


@dataclass(frozen=True)
class Explanation:
    """What the scores of one label rest on.

    Attributes
    ----------
    label : str
        The label.
    features : list of (str, float)
        The strongest first: coefficients on the transformed columns of a linear model, else how
        far (root mean square) a score moves when the raw column is shuffled.
    together : list of (str, float)
        Other labels and the correlation of their scores on training rows, the strongest first.
    """

    label: str
    features: list[tuple[str, float]]
    together: list[tuple[str, float]]


def explain_model(
    model: TableModel, label: str | None = None, *, top: int = 10, seed: int = 0
) -> list[Explanation]:
    """Say for each label which features carry it and which labels move with it.

    Parameters
    ----------
    model : TableModel
        A fitted model.
    label : str, default=None
        The only label to explain.
    top : int, default=10
        Features and labels named for each.
    seed : int, default=0
        Seed of sample and shuffles, which kernel models need.

    Returns
    -------
    list of Explanation
        One for each label.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import Wishes, explain_model, fit_table, table_from_frame
    >>> frame = pd.DataFrame({"mass": [i % 7 for i in range(60)]})
    >>> frame["tox_a"] = [i % 7 > 3 if i % 3 else None for i in range(60)]
    >>> frame["tox_b"] = [i % 7 < 2 if i % 4 else None for i in range(60)]
    >>> table = table_from_frame(frame, "tox_*")
    >>> model = fit_table(table, Wishes("linear", 0.1, 1.0), estimate_folds=0)
    >>> item = explain_model(model, "tox_a")[0]
    >>> item.features[0][0], item.features[0][1] > 0
    ('mass', True)
    >>> item.together[0][0], item.together[0][1] < 0
    ('tox_b', True)
    """
    names = model.label_names
    if label is not None and label not in names:
        raise ColumnRequestError(f"The model has no label {label!r}; it has {', '.join(names)}.")
    if model.classifier.kernel == "linear":
        weights = to_numpy(model.classifier.coef_)
        columns = [feature.name for feature in model.features]
    else:
        columns, weights = _by_shuffling(model, seed)
    chosen = range(len(names)) if label is None else [names.index(label)]
    return [
        Explanation(
            names[k],
            _strongest(columns, weights[k], top),
            _strongest(np.delete(names, k).tolist(), np.delete(model.correlation[k], k), top),
        )
        for k in chosen
    ]


def _by_shuffling(model: TableModel, seed: int) -> tuple[list[str], NDArray[np.float64]]:
    """Raw columns, and how far each moves every label."""
    rng = np.random.RandomState(seed)
    classifier: Any = model.classifier
    rows = classifier.X_fit_
    X = rows[rng.permutation(rows.shape[0])[:SAMPLE]]
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    scores = classifier.decision_function(X)
    sources = [feature.column for feature in model.features]
    columns = list(dict.fromkeys(sources))
    moved = np.zeros((len(model.label_names), len(columns)))
    for j, column in enumerate(columns):
        places = [i for i, source in enumerate(sources) if source == column]
        for _ in range(SHUFFLES):
            shuffled = X.copy()
            # All features of a raw column together: a category is one thing, not many.
            shuffled[:, places] = X[rng.permutation(len(X))][:, places]
            moved[:, j] += ((classifier.decision_function(shuffled) - scores) ** 2).mean(axis=0)
    return columns, np.sqrt(moved / SHUFFLES)


def column_weights(
    model: TableModel, sources: Sequence[str], X: Any, row: int, labels: Sequence[int]
) -> tuple[list[str], NDArray[np.float64]] | None:
    """How far the columns of a row move scores, against a row with their means, (n_columns, k).

    Parameters
    ----------
    model : TableModel
        A fitted model.
    sources : sequence of str
        The raw column of each feature.
    X : array or sparse matrix of shape (n_rows, n_features)
        Prepared features.
    row : int
        Which row.
    labels : sequence of int
        Which labels.

    Returns
    -------
    tuple or None
        Names of raw columns, and weights; None for a kernel model with too many columns.
    """
    columns = {name: j for j, name in enumerate(dict.fromkeys(sources))}
    place = np.array([columns[name] for name in sources])
    mean = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    x = X[row : row + 1]
    x = np.asarray(x.toarray() if hasattr(x, "toarray") else x, dtype=np.float64).ravel()
    classifier: Any = model.classifier
    weights = np.zeros((len(columns), len(labels)))
    if classifier.kernel == "linear":
        moved = (x - mean)[:, None] * to_numpy(classifier.coef_)[list(labels)].T
        np.add.at(weights, place, moved)
    elif len(columns) * len(x) > MOST_NUMBERS:
        return None
    else:
        without = np.where(place == np.arange(len(columns))[:, None], mean, x)
        scores = classifier.decision_function(np.vstack([x, without]))[:, list(labels)]
        weights = to_numpy(scores[:1] - scores[1:])
    return list(columns), weights


def _strongest(names: list[str], values: NDArray[np.float64], top: int) -> list[tuple[str, float]]:
    order = np.argsort(-np.abs(values), kind="stable")[:top]
    return [(names[j], float(values[j])) for j in order if values[j] != 0]
