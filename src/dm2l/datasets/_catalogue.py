"""Cards of the benchmark data sets: sizes, content, public homes. No data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files


@dataclass(frozen=True)
class DataSetCard:
    """What is known of a data set.

    Parameters
    ----------
    name : str
        What :func:`load_dataset` calls it.
    n, d, c : int
        Rows, features, labels.
    cardinality : float
        Mean number of positive labels a row.
    sha256 : str
        The :func:`content_hash` of features and labels, which does not depend on how the file is
        packed.
    home : str
        Public page to get it from.
    note : str, default=""
        Which edition it is, and what to beware of.

    Examples
    --------
    >>> from dm2l.datasets import catalogue
    >>> card = catalogue()["Arts"]
    >>> card.n, card.d, card.c, card.cardinality
    (5000, 462, 26, 1.636)
    """

    name: str
    n: int
    d: int
    c: int
    cardinality: float
    sha256: str
    home: str
    note: str = ""


def catalogue() -> dict[str, DataSetCard]:
    """Cards of the data sets of the paper and of other common ones, by name.

    Returns
    -------
    dict of str to DataSetCard
        A dictionary of your own: changing it changes nothing else.

    Examples
    --------
    >>> from dm2l.datasets import catalogue
    >>> sorted(name for name, card in catalogue().items() if card.c > 150)[-3:]
    ['Corel16k009', 'bibtex', 'delicious']
    """
    return dict(_cards())


@lru_cache(maxsize=1)
def _cards() -> dict[str, DataSetCard]:
    text = files("dm2l.datasets").joinpath("catalogue.json").read_text(encoding="utf-8")
    return {entry["name"]: DataSetCard(**entry) for entry in json.loads(text)}
