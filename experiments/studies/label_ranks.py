"""Ranks of a label matrix and of the rows that share a label."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from dm2l.labels._matrix import parse_labels
from dm2l.labels._structure import Spectrum


@dataclass(frozen=True, eq=False)
class LabelRanks:
    """Spectra of all rows, of the rows that share a label, and of random rows, as many.

    What a group of a label lacks in rank against random rows is due to its label, not to its size.
    """

    whole: Spectrum
    groups: dict[str, Spectrum]
    random: dict[str, tuple[Spectrum, ...]]


def label_ranks(
    Y: Any, *, draws: int = 5, random_state: Any = 0, label_names: Any = None
) -> LabelRanks:
    """Compare the rank of a label matrix with the ranks of the groups ``Y_k``.

    The matrix is that of the signs, 0 where a label is missing, which adds to the ranks. ``Y_k``
    has the rows in which label ``k`` is an observed positive; labels without one have no group.
    """
    labels = parse_labels(Y)
    T = labels.signs
    found = labels.names if label_names is None else label_names
    names = [str(name) for name in (range(T.shape[1]) if found is None else found)]
    if len(names) != T.shape[1] or len(set(names)) < len(names):
        raise ValueError(f"label_names must name {T.shape[1]} labels, each differently: {names}.")
    rng = check_random_state(random_state)
    groups, random = {}, {}
    for k, name in enumerate(names):
        members = np.flatnonzero(T[:, k] > 0)
        if len(members):
            groups[name] = Spectrum.of(T[members])
            random[name] = tuple(
                Spectrum.of(T[rng.permutation(len(T))[: len(members)]]) for _ in range(draws)
            )
    return LabelRanks(Spectrum.of(T), groups, random)
