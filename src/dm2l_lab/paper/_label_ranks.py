"""Ranks of a label matrix and of the rows that share a label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from dm2l.labels._parsing import parse_labels
from dm2l.labels._structure import Spectrum

__all__ = ["LabelRanks", "label_ranks"]


@dataclass(frozen=True, eq=False)
class LabelRanks:
    """Spectra of a label matrix, of its groups, and of random rows as many as in each group.

    Parameters
    ----------
    whole : Spectrum
        All rows.
    groups : dict of str to Spectrum
        By name of the label: the rows in which it is an observed positive.
    random : dict of str to tuple of Spectrum
        By name of the label: rows drawn at random, as many as the group has. What a group lacks
        in rank against these is due to its label, not to its size.
    """

    whole: Spectrum
    groups: dict[str, Spectrum]
    random: dict[str, tuple[Spectrum, ...]]


def label_ranks(
    Y: Any, *, draws: int = 5, random_state: Any = 0, label_names: Any = None, **reading: Any
) -> LabelRanks:
    """Compare the rank of a label matrix with the ranks of the groups ``Y_k``.

    The matrix is that of the signs: +1 observed positive, -1 observed negative, and **0 where a
    label is missing**, so holes add to the ranks. ``Y_k`` has the rows in which label ``k`` is an
    observed positive; hidden positives are in no group. Labels without one have no group.

    Parameters
    ----------
    Y : array-like, data frame or signed CSR of shape (n, c)
        Labels, with holes or without.
    draws : int, default=5
        Random subsets of rows to compare each group with; 0 for none.
    random_state : int, RandomState or None, default=0
        For these.
    label_names : sequence of str, default=None
        Names of the labels; None takes those of the data frame, or numbers.
    **reading
        ``label_mask``, ``missing_label``, ``missing_as`` of :func:`dm2l.labels.parse_labels`.

    Returns
    -------
    LabelRanks
        The spectra.
    """
    labels = parse_labels(Y, **reading)
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
