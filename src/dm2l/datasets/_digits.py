"""Handwritten digits of scikit-learn with attributes as labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.utils import Bunch

# What holds for a digit whoever wrote it. "has a loop" follows the usual closed-loop convention of
# print (0, 6, 8, 9): most writers of this set leave the 4 open, so it does not count.
_DIGITS_WITH = {
    "even": (0, 2, 4, 6, 8),
    "prime": (2, 3, 5, 7),
    "has a loop": (0, 6, 8, 9),
    "greater than 4": (5, 6, 7, 8, 9),
    "divisible by 3": (0, 3, 6, 9),
    "square number": (0, 1, 4, 9),
    "straight strokes only": (1, 4, 7),
}

_DESCR = """\
Digit attributes
----------------

The 1797 images of handwritten digits that come with scikit-learn (8 x 8 pixels, grey values
divided by 16), each with 19 labels instead of one class:

- "is 0" ... "is 9": the digit itself;
- what follows from the digit: "even", "prime", "has a loop" (0, 6, 8, 9; the 4 counts as open),
  "greater than 4", "divisible by 3" (0 included), "square number" (0, 1, 4, 9),
  "straight strokes only" (1, 4, 7);
- what depends on the writer: "heavy ink" (mean grey value above the median of the set) and
  "leans right" (the mixed central moment of the ink, sum of I (x - mean x)(y - mean y) with y
  counted upwards, is positive: the ink drifts to the right on its way up).

A digit implies its attributes and no attribute implies the digit ("is 4" => "even", never the
other way round): the one-way co-occurrence that the local low-rank structure of DM2L is about.
No label is missing; hide some with dm2l.simulate.
"""


def load_digit_attributes(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load scikit-learn's digit images with labels such as "is 4", "even", "prime".

    A digit implies its attributes, and no attribute implies the digit. Nothing is downloaded.

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        ``data`` and ``target`` are pandas data frames.

    Returns
    -------
    Bunch
        ``data`` (1797 x 64, float64 in [0, 1]), ``target`` (1797 x 19, int8, 0/1),
        ``target_names``, ``feature_names``, ``images`` (1797 x 8 x 8, in [0, 1]), ``digit`` (1797),
        ``DESCR``.

    Examples
    --------
    >>> from dm2l.datasets import load_digit_attributes
    >>> digits = load_digit_attributes()
    >>> digits.data.shape, digits.target.shape
    ((1797, 64), (1797, 19))
    >>> digits.target_names[10:14]
    ['even', 'prime', 'has a loop', 'greater than 4']
    >>> row = digits.target[4]
    >>> [name for name, value in zip(digits.target_names, row) if value]
    ['is 4', 'even', 'square number', 'straight strokes only']
    """
    raw = load_digits()
    digit = raw.target
    images = raw.images / 16.0
    labels = {f"is {d}": digit == d for d in range(10)}
    labels |= {name: np.isin(digit, digits) for name, digits in _DIGITS_WITH.items()}
    # On the whole grey values 0 to 16, so that both comparisons are exact on every machine.
    ink = raw.images.sum(axis=(1, 2))
    labels["heavy ink"] = ink > np.median(ink)
    labels["leans right"] = _drift(raw.images) > 0

    data: Any = images.reshape(len(images), -1)
    target: Any = np.column_stack(list(labels.values())).astype(np.int8)
    feature_names, target_names = list(raw.feature_names), list(labels)
    if as_frame:
        import pandas as pd  # only as_frame needs it

        data = pd.DataFrame(data, columns=feature_names)
        target = pd.DataFrame(target, columns=target_names)
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        target_names=target_names,
        feature_names=feature_names,
        images=images,
        digit=digit,
        DESCR=_DESCR,
    )


def _drift(images: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mixed central moment of the ink times the ink, rows counted from the bottom."""
    _, height, width = images.shape
    x, y = np.arange(width), np.arange(height)[::-1]
    moment = images @ x @ y
    return images.sum(axis=(1, 2)) * moment - (images.sum(axis=1) @ x) * (images.sum(axis=2) @ y)
