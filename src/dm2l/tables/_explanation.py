"""Which features a label depends on, and which labels its scores correlate with."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dm2l._auto._classifier import AutoClassifier
from dm2l._utils.arrays import to_numpy
from dm2l.io._columns import ColumnRequestError
from dm2l.tables._model import TableModel
from dm2l.tables._options import Tell

Floats = NDArray[np.float64]

SAMPLE = 300  # rows
# Shuffles of a column; of more than so many columns each is shuffled once.
SHUFFLES, FEW_COLUMNS = 5, 50
# Columns of the automatic estimator that are shuffled: those with the largest linear weights.
MOST_COLUMNS = 40
MOST_NUMBERS = 4_000_000  # in the shuffled rows that are scored at a time


@dataclass(frozen=True)
class Explanation:
    """Features that a label depends on, and other labels that it correlates with, by strength."""

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
    """List for each label the features it depends on and the labels it correlates with.

    A feature has its coefficient in a linear model, else the root mean square change of the score
    when the raw column is shuffled (for 0/1 columns of an rbf or Tanimoto model the mean of all
    shuffles). For the automatic estimator the sign is that of its linear model, which also selects
    the columns; a category has none. Labels have correlations of scores on training rows.

    Parameters
    ----------
    model : TableModel
        A fitted model.
    label : str, default=None
        The only label to explain.
    top : int, default=10
        Features and labels named for each.
    random_state : int, default=0
        Seed of sample and shuffles, which kernel models need.
    tell : callable, default=None
        Gets a line about each step.

    Returns
    -------
    list of Explanation
        For each label ``features`` and other labels, ``together``, as pairs of name and weight.

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
    names = model.label_names
    if label is not None and label not in names:
        raise ColumnRequestError(
            f"The model has no label {label!r}. Choose one of {', '.join(names)}."
        )
    chosen = list(range(len(names))) if label is None else [names.index(label)]
    if isinstance(model.classifier, AutoClassifier):
        columns, weights = _by_stack(model, chosen, random_state, tell)
    elif model.classifier.kernel == "linear":
        weights = to_numpy(model.classifier.coef_)
        columns = [feature.name for feature in model.features]
    else:
        rows = model.classifier.X_fit_
        rng = np.random.RandomState(random_state)
        X = _dense(rows[rng.permutation(rows.shape[0])[:SAMPLE]])
        sources = [feature.column for feature in model.features]
        columns = list(dict.fromkeys(sources))
        bits = two_valued(model.classifier, sources)
        flipped = [columns.index(sources[i]) for i in bits]
        weights = np.zeros((len(names), len(columns)))
        if bits:
            weights[np.ix_(chosen, flipped)] = by_flipping(model.classifier, X, bits, chosen, tell)
        others = np.delete(np.arange(len(columns)), flipped)
        left = [columns[j] for j in others]
        weights[:, others] = _by_shuffling(model.classifier, X, sources, left, rng, tell)
    return [
        Explanation(
            names[k],
            _strongest(columns, weights[k], top),
            _strongest(np.delete(names, k).tolist(), np.delete(model.correlation[k], k), top),
        )
        for k in chosen
    ]


def _by_stack(
    model: TableModel, chosen: list[int], random_state: int, tell: Tell | None
) -> tuple[list[str], Floats]:
    """Columns with the largest linear weights, and how far each moves the ensemble."""
    X, classifier = _dense(model.sample), model.classifier
    slopes = classifier._column_weights(X)
    order = np.argsort(-np.abs(slopes[chosen]).max(axis=0), kind="stable")[:MOST_COLUMNS]
    features = model.features
    sources = [feature.name for feature in features]  # a word or a bit is asked alone
    columns = [sources[j] for j in order]
    rng = np.random.RandomState(random_state)
    moved = _by_shuffling(classifier, X, sources, columns, rng, tell)
    # The values of a category have different signs.
    categories = {use.name for use in model.uses or () if use.kind == "category"}
    signed = np.array([features[j].name not in categories for j in order])
    return columns, moved * np.where((slopes[:, order] < 0) & signed, -1.0, 1.0)


def _by_shuffling(
    classifier: Any,
    X: Floats,
    sources: list[str],
    columns: list[str],
    rng: np.random.RandomState,
    tell: Tell | None,
) -> Floats:
    """How far each raw column moves every label."""
    scores = classifier.decision_function(X)
    moved = np.zeros((scores.shape[1], len(columns)))
    shuffles = SHUFFLES if len(columns) <= FEW_COLUMNS else 1
    # Some columns at once: a forest takes as long for a thousand rows as for a few thousand.
    size = max(1, MOST_NUMBERS // (shuffles * X.size))
    start = time.monotonic()
    for first in range(0, len(columns), size):
        chunk = columns[first : first + size]
        if tell is not None:
            left = (time.monotonic() - start) * (len(columns) / first - 1) if first else 0.0
            rest = f", about {left:.0f} s left" if first else ""
            tell(f"shuffling column {first + 1} of {len(columns)}{rest}")
        shuffled = np.tile(X, (len(chunk), shuffles, 1, 1))
        for j, column in enumerate(chunk):
            # All features of a raw column together: a category is one thing, not many.
            places = [i for i, source in enumerate(sources) if source == column]
            for i in range(shuffles):
                shuffled[j, i][:, places] = X[rng.permutation(len(X))][:, places]
        found = classifier.decision_function(shuffled.reshape(-1, X.shape[1]))
        off = found.reshape(len(chunk), shuffles, *scores.shape) - scores
        moved[:, first : first + size] = (off**2).mean(axis=(1, 2)).T
    return np.sqrt(moved)


def _dense(X: Any) -> Floats:
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)


def column_weights(
    model: TableModel, sources: Sequence[str], X: Any, row: int, labels: Sequence[int]
) -> tuple[list[str], Floats] | None:
    """How far the raw columns of a row move scores, against a row of means, (n_columns, n_labels).

    None for a kernel model with too many columns; ``sources`` are the raw columns of the features.
    """
    columns = {name: j for j, name in enumerate(dict.fromkeys(sources))}
    place = np.array([columns[name] for name in sources])
    mean = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    x = np.asarray(_dense(X[row : row + 1]), dtype=np.float64).ravel()
    classifier: Any = model.classifier
    weights = np.zeros((len(columns), len(labels)))
    if getattr(classifier, "kernel", None) == "linear":
        moved = (x - mean)[:, None] * to_numpy(classifier.coef_)[list(labels)].T
        np.add.at(weights, place, moved)
    elif len(columns) * len(x) > MOST_NUMBERS:
        return None
    else:
        without = np.where(place == np.arange(len(columns))[:, None], mean, x)
        scores = classifier.decision_function(np.vstack([x, without]))[:, list(labels)]
        weights = to_numpy(scores[:1] - scores[1:])
    return list(columns), weights


def _strongest(names: list[str], values: Floats, top: int) -> list[tuple[str, float]]:
    order = np.argsort(-np.abs(values), kind="stable")[:top]
    return [(names[j], float(values[j])) for j in order if values[j] != 0]


def two_valued(classifier: Any, sources: Sequence[str]) -> list[int]:
    """Features of a kernel model with two values that are the only ones of their raw column."""
    Z = classifier.X_fit_
    if classifier.kernel not in ("rbf", "tanimoto") or not isinstance(Z, np.ndarray):
        return []
    low, high = Z.min(axis=0), Z.max(axis=0)
    two = (np.equal(Z, low) | np.equal(Z, high)).all(axis=0)
    if classifier.kernel == "tanimoto":
        two &= np.isin([low, high], (0.0, 1.0)).all(axis=0)
    times = Counter(sources)
    return [i for i, source in enumerate(sources) if two[i] and times[source] == 1]


def by_flipping(
    classifier: Any, X: Floats, bits: list[int], labels: Sequence[int], tell: Tell | None
) -> Floats:
    r"""Root mean square change of scores by shuffles of each column ``bits``, (labels, bits).

    ``X`` are training rows, ``bits`` what :func:`two_valued` has returned. A flip of column j
    changes :math:`k(x, z)` by :math:`x_j` and :math:`z_j` alone: with the kernel :math:`k_0` after
    a flip where :math:`z_j` is low, :math:`k_1` where it is high, and weights w, a score becomes

    .. math:: \sum_z w_z k_0(x, z) + \sum_z w_z (k_1 - k_0)(x, z) [z_j \text{ high}],

    one product for all columns. A shuffle flips a row as often as others hold the other value.
    """
    kernel, Z, W = classifier._kernel, classifier.X_fit_, to_numpy(classifier.dual_coef_)
    high = Z[:, bits].max(axis=0)
    up, B = X[:, bits] == high, (Z[:, bits] == high).astype(np.float64)
    often = np.where(up, 1 - up.mean(axis=0), up.mean(axis=0))
    K = kernel(X, Z)
    rbf = classifier.kernel == "rbf"
    steps = [] if rbf else [_tanimoto_steps(X, Z, kernel.gamma, sign) for sign in (1.0, -1.0)]
    # What k is multiplied by where z had the value that x now leaves.
    away = np.exp(-kernel.gamma * (high - Z[:, bits].min(axis=0)) ** 2)
    moved = np.empty((len(labels), len(bits)))
    for j, k in enumerate(labels):
        if tell is not None:
            tell(f"flipping the 0/1 columns for label {j + 1} of {len(labels)}")
        w = W[:, k]
        score = (K @ w)[:, None]
        if rbf:
            ones = (K * w) @ B
            after = away * score + (1 / away - away) * np.where(up, score - ones, ones)
        else:
            set_, cleared = (((K0 @ w)[:, None] + ((K1 - K0) * w) @ B) for K0, K1 in steps)
            after = np.where(up, cleared, set_)
        moved[j] = np.sqrt((often * (after - score) ** 2).mean(axis=0))
    return moved


def _tanimoto_steps(X: Floats, Z: Floats, gamma: float, sign: float) -> tuple[Floats, Floats]:
    """Kernel after a bit of x was set (1) or cleared (-1), where z has it not, and where it has."""
    inner = X @ Z.T
    both = (X * X).sum(axis=1)[:, None] + sign + (Z * Z).sum(axis=1)

    def after(shared: Floats) -> Floats:
        union = both - shared
        empty = union <= 0  # two rows of zeros are alike
        like = np.where(empty, 1.0, shared) / np.where(empty, 1.0, union)
        found: Floats = np.exp(gamma * (like - 1))
        return found

    return after(inner), after(inner + sign)
