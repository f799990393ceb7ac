"""Important features and correlated labels of each label."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dm2l._auto._classifier import AutoClassifier
from dm2l._auto._score_classifier import ScoreClassifier
from dm2l._utils.arrays import to_numpy
from dm2l.io._columns import ColumnRequestError
from dm2l.io._label_columns import label_columns
from dm2l.labels._entries import Floats
from dm2l.tables._model import TableModel
from dm2l.tables._options import Tell

SAMPLE = 300  # the number of training rows in which columns of a kernel model are shuffled
SHUFFLES = 5  # number of shuffles of each column
MOST_COLUMNS = 40  # maximum number of shuffled columns
MOST_FEATURES = 5000  # maximum number of features of an automatic model whose columns are shuffled
MOST_NUMBERS = 4_000_000  # maximum number of values in the rows that are scored in one call


@dataclass(frozen=True)
class Explanation:
    """Important features of a label, and labels with correlated scores, strongest first."""

    label: str
    features: list[tuple[str, float]]
    together: list[tuple[str, float]]


def explain_model(
    model: TableModel,
    label: str | None = None,
    *,
    top: int = 10,
    random_state: int = 0,
    tell: Tell | None = None,
) -> list[Explanation]:
    """List the important features of each label, and other labels with correlated scores.

    In a linear model, the weight of a feature is its coefficient. In other models, the weight of a
    raw column is the root mean square change of the score when the column is shuffled among
    training rows. Only the 40 columns with the largest weights in a linear model are shuffled.
    For the automatic model, the sign comes from this linear model; a category has no sign. With
    more than 5000 features, such as words, the weight is the effect of one standard deviation of a
    feature in the linear model. For labels of other columns, the weight is the correlation between
    the scores of both labels on training rows. These scores use the features alone, so the
    weight is not a residual correlation.

    Parameters
    ----------
    model : TableModel
        A fitted model.
    label : str, default=None
        The label, column with several values, value or tag to explain. None explains all labels.
    top : int, default=10
        Maximum number of features, and of correlated labels, to list for each label.
    random_state : int, default=0
        Seed for sampling and shuffling rows.
    tell : callable, default=None
        Function that is called with a line of text about each step.

    Returns
    -------
    list of Explanation
        One explanation per label: ``features`` and, in ``together``, labels with correlated scores,
        as pairs of name and weight.

    Examples
    --------
    >>> import pandas as pd
    >>> from dm2l.tables import FitOptions, explain_model, fit_table, table_from_frame
    >>> frame = pd.DataFrame({"mass": [0, 1, 2, 3] * 20, "toxic": [0, None, 1, 1] * 20})
    >>> table = table_from_frame(frame, "toxic")
    >>> model = fit_table(table, FitOptions("linear", 0.1, 1.0), estimate_folds=0)
    >>> item = explain_model(model, "toxic")[0]
    >>> item.features[0][0], item.features[0][1] > 0
    ('mass', True)
    """
    names, columns_of = model.label_names, label_columns(model)
    chosen = columns_of[label][0] if label in columns_of else list(range(len(names)))
    if label is not None and label not in columns_of:  # a label, or the value or tag of one
        chosen = [k for k in chosen if label in (names[k], names[k].partition("=")[2])]
    if not chosen:
        raise ColumnRequestError(
            f"The model has no label {label!r}. Choose one of {', '.join(columns_of)}."
        )
    if isinstance(model.classifier, ScoreClassifier):
        raise ValueError("The model has scores but no features to explain. Fit it to features.")
    same = {k: labels for labels, _ in columns_of.values() for k in labels}
    if getattr(model.classifier, "kernel", None) == "linear":
        weights = to_numpy(model.classifier.coef_)
        columns = [feature.name for feature in model.features]
    else:
        columns, weights = _by_shuffling(model, chosen, random_state, tell)
    found = []
    for k in chosen:
        others, near = (np.delete(values, same[k]) for values in (names, model.correlation[k]))
        together = _strongest(others.tolist(), near, top)
        found.append(Explanation(names[k], _strongest(columns, weights[k], top), together))
    return found


def _by_shuffling(
    model: TableModel, labels: list[int], random_state: int, tell: Tell | None
) -> tuple[list[str], Floats]:
    """Return important columns, and the change of each label's scores if a column is shuffled."""
    classifier = model.classifier
    rng, automatic = np.random.RandomState(random_state), isinstance(classifier, AutoClassifier)
    if automatic:
        sources = [feature.name for feature in model.features]
        slopes = classifier._column_weights(model.sample)
        if len(sources) > MOST_FEATURES:
            return sources, slopes
        X = _dense(model.sample)
        scores = classifier.decision_function(X)
    else:
        rows = classifier.X_fit_
        X = _dense(rows[rng.permutation(rows.shape[0])[:SAMPLE]])
        scores, spread = classifier.decision_function(X), X - X.mean(axis=0)
        slopes = scores.T @ spread / np.maximum(np.linalg.norm(spread, axis=0), 1e-12)
        sources = [feature.column for feature in model.features]
    order = np.argsort(-np.abs(slopes[labels]).max(axis=0), kind="stable")
    columns = list(dict.fromkeys(sources[j] for j in order))[:MOST_COLUMNS]
    moved = np.zeros((scores.shape[1], len(columns)))
    # Score several columns in one call, because a forest scores a thousand rows as fast as a few.
    size = max(1, MOST_NUMBERS // (SHUFFLES * X.size))
    for first in range(0, len(columns), size):
        chunk = columns[first : first + size]
        if tell is not None:
            tell(f"shuffling column {first + 1} of {len(columns)}")
        shuffled = np.tile(X, (len(chunk), SHUFFLES, 1, 1))
        for j, column in enumerate(chunk):
            # All features of a raw column, such as the values of a category, are shuffled together.
            places = [i for i, source in enumerate(sources) if source == column]
            for i in range(SHUFFLES):
                shuffled[j, i][:, places] = X[rng.permutation(len(X))][:, places]
        found = classifier.decision_function(shuffled.reshape(-1, X.shape[1]))
        off = found.reshape(len(chunk), SHUFFLES, *scores.shape) - scores
        moved[:, first : first + size] = (off**2).mean(axis=(1, 2)).T
    if automatic:
        # A category has no sign, because its values may have different signs.
        categories = {use.name for use in model.uses or () if use.kind == "category"}
        places = [sources.index(name) for name in columns]
        signed = np.array([name not in categories for name in columns])
        return columns, np.sqrt(moved) * np.where((slopes[:, places] < 0) & signed, -1.0, 1.0)
    return columns, np.sqrt(moved)


def _dense(X: Any) -> Floats:
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)


def column_weights(
    model: TableModel, sources: Sequence[str], X: Any, row: int, labels: Sequence[int]
) -> tuple[list[str], Floats] | None:
    """Return the contribution of each raw column to a row's scores; None with too many columns."""
    columns = {name: j for j, name in enumerate(dict.fromkeys(sources))}
    place = np.array([columns[name] for name in sources])
    mean = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    x = np.asarray(_dense(X[row : row + 1]), dtype=np.float64).ravel()
    classifier: Any = model.classifier
    weights = np.zeros((len(columns), len(labels)))
    if getattr(classifier, "kernel", None) == "linear":
        moved = (x - mean)[:, None] * to_numpy(classifier.coef_)[list(labels)].T
        np.add.at(weights, place, moved)
    elif len(columns) * len(x) > MOST_NUMBERS:  # too many columns for a kernel model
        return None
    else:
        without = np.where(place == np.arange(len(columns))[:, None], mean, x)
        scores = classifier.decision_function(np.vstack([x, without]))[:, list(labels)]
        weights = to_numpy(scores[:1] - scores[1:])
    return list(columns), weights


def _strongest(names: list[str], values: Floats, top: int) -> list[tuple[str, float]]:
    order = np.argsort(-np.abs(values), kind="stable")[:top]
    return [(names[j], float(values[j])) for j in order if values[j] != 0]
