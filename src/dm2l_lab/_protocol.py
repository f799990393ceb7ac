"""What an experiment consists of: protocols, and the cells of the table they fill."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dm2l.simulate import simulate_per_label, simulate_per_row, simulate_uniform
from dm2l_lab._settings import Method

MASKS = {"per_row": simulate_per_row, "uniform": simulate_uniform, "per_label": simulate_per_label}
NO_MASK = "none"  # the mask of a cell in which every label is observed


# -- cells --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One fit: the key of one row of results.

    Seeds are the first word of numpy's ``SeedSequence``, whose entropy is the SHA-256 of the JSON
    list ``["dm2l", purpose, data set, repetition]``, with the mask and the rate appended except
    for the split. So all methods of a repetition, whatever the protocol, get the same rows, the
    same holes and the same seed.

    Parameters
    ----------
    protocol, dataset, mask : str
        Names; the mask is ``"none"`` where the rate is 1.
    rate : float
        Share of the training labels that stays observed.
    repetition : int
        Number of the repetition, from 0.
    method, settings : str
        Name of the method, and ``settings_hash`` of its parameters.

    Examples
    --------
    >>> from dm2l_lab import Cell
    >>> cell = Cell("honest", "Arts", "per_row", 0.3, 0, "ridge", "0123456789ab")
    >>> cell.split_seed, cell.mask_seed, cell.estimator_seed
    (1141581998, 615230875, 4198068911)
    """

    protocol: str
    dataset: str
    mask: str
    rate: float
    repetition: int
    method: str
    settings: str

    @property
    def split_seed(self) -> int:
        """Seed of the rows to train on."""
        return _seed("split", self.dataset, self.repetition)

    @property
    def mask_seed(self) -> int:
        """Seed of the labels that are hidden."""
        return _seed("mask", self.dataset, self.repetition, self.mask, self.rate)

    @property
    def estimator_seed(self) -> int:
        """Seed of every ``random_state`` that a method leaves open."""
        return _seed("estimator", self.dataset, self.repetition, self.mask, self.rate)


def _seed(*names: Any) -> int:
    text = json.dumps(["dm2l", *names])
    entropy = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
    return int(np.random.SeedSequence(entropy).generate_state(1)[0])


# -- protocols ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Protocol:
    """Which methods meet which data, how often, and with how many labels hidden.

    Parameters
    ----------
    name : str
        Name in the store, for example ``"honest"``.
    datasets : tuple of str
        Names for :func:`dm2l.datasets.load_dataset`.
    methods : tuple of Method
        Methods; on each data set their names are all different.
    rates : tuple of float, default=(1.0, 0.7, 0.3)
        Shares of the training labels that stay observed.
    masks : tuple of {"per_row", "uniform", "per_label"}, default=("per_row",)
        Which function of :mod:`dm2l.simulate` hides the rest.
    repetitions : int, default=30
        Number of splits.
    test_size : float, default=0.4
        Share of the rows to score on, drawn uniformly at random.
    keep_copies_together : bool, default=False
        Draw among groups of identical rows instead, so that no test row has a copy in training.

    Examples
    --------
    >>> from dm2l.baselines import MaskedRidgeClassifier
    >>> from dm2l_lab import Method, Protocol
    >>> ridge = Method("ridge", MaskedRidgeClassifier())
    >>> protocol = Protocol("small", ("Arts",), (ridge,), repetitions=2)
    >>> [(cell.repetition, cell.mask, cell.rate) for cell in protocol.cells(rates=[1.0, 0.3])]
    [(0, 'none', 1.0), (0, 'per_row', 0.3), (1, 'none', 1.0), (1, 'per_row', 0.3)]
    """

    name: str
    datasets: tuple[str, ...]
    methods: tuple[Method, ...]
    rates: tuple[float, ...] = (1.0, 0.7, 0.3)
    masks: tuple[str, ...] = ("per_row",)
    repetitions: int = 30
    test_size: float = 0.4
    keep_copies_together: bool = False

    def __post_init__(self) -> None:
        for field in ("datasets", "methods", "rates", "masks"):
            object.__setattr__(self, field, tuple(getattr(self, field)))
        # 1 and 1.0 are one rate, and have to be one key.
        object.__setattr__(self, "rates", tuple(float(rate) for rate in self.rates))
        for field, values in (
            ("datasets", self.datasets),
            ("rates", self.rates),
            ("masks", self.masks),
        ):
            if not values or len(set(values)) < len(values):
                raise ValueError(
                    f"Protocol {self.name!r} needs {field}, each named once; got {values}."
                )
        for dataset in self.datasets:
            names = tuple(method.name for method in self.methods if method.runs_on(dataset))
            if not names or len(set(names)) < len(names):
                raise ValueError(
                    f"Protocol {self.name!r} needs methods for {dataset}, each named once; got "
                    f"{names}."
                )
        if unknown := set(self.masks) - set(MASKS):
            raise ValueError(f"masks must be among {', '.join(MASKS)}; got {sorted(unknown)}.")
        if not all(0 < rate <= 1 for rate in self.rates):
            raise ValueError(f"rates are shares of observed labels in (0, 1]; got {self.rates}.")
        if not 0 < self.test_size < 1:
            raise ValueError(f"test_size is a share of rows in (0, 1); got {self.test_size}.")
        if self.repetitions < 1:
            raise ValueError(f"repetitions must be at least 1, got {self.repetitions}.")

    @property
    def split(self) -> str:
        """How rows are split, in words: rows of one table must agree in it."""
        copies = ", copies together" if self.keep_copies_together else ""
        return f"test_size={self.test_size!r}{copies}"

    def method(self, name: str, dataset: str) -> Method:
        """Find a method by its name, as it is run on a data set.

        Parameters
        ----------
        name : str
            Name of one of ``methods``.
        dataset : str
            Name of one of ``datasets``.

        Returns
        -------
        Method
            The method.
        """
        here = [method for method in self.methods if method.runs_on(dataset)]
        self._chosen("methods", [name], [method.name for method in here])
        return next(method for method in here if method.name == name)

    def cells(
        self,
        *,
        datasets: Iterable[str] | None = None,
        methods: Iterable[str] | None = None,
        rates: Iterable[float] | None = None,
        masks: Iterable[str] | None = None,
        repetitions: int | Iterable[int] | None = None,
    ) -> Iterator[Cell]:
        """All cells, or some, in an order that leaves whole repetitions when it is cut short.

        Parameters
        ----------
        datasets, methods, rates, masks : iterable, default=None
            Which ones; None for all. ``masks`` may name ``"none"``, the one of rate 1.
        repetitions : int or iterable of int, default=None
            The first so many, or the numbers of some.

        Yields
        ------
        Cell
            Repetition by repetition, within it in the order of data sets, rates, masks, methods.
        """
        if isinstance(repetitions, int):
            if repetitions < 1:
                raise ValueError(f"repetitions must be at least 1, got {repetitions}.")
            repetitions = range(repetitions)
        some_rates = None if rates is None else [float(rate) for rate in rates]
        names = list(dict.fromkeys(method.name for method in self.methods))
        drawn = self._chosen("repetitions", repetitions, range(self.repetitions))
        sets = self._chosen("datasets", datasets, self.datasets)
        shares = self._chosen("rates", some_rates, self.rates)
        kinds = self._chosen("masks", masks, (NO_MASK, *self.masks))
        chosen = self._chosen("methods", methods, names)
        runs = [method for method in self.methods if method.name in chosen]
        for repetition in drawn:
            for dataset in sets:
                for rate in shares:
                    for mask in (NO_MASK,) if rate == 1 else self.masks:
                        for method in runs:
                            if mask in kinds and method.runs_on(dataset):
                                key = (self.name, dataset, mask, rate, repetition, method.name)
                                yield Cell(*key, settings=method.settings_hash)

    def _chosen(self, what: str, chosen: Iterable[Any] | None, known: Iterable[Any]) -> list[Any]:
        """Those of the known that were chosen, in the protocol's order."""
        known = list(known)
        wanted = known if chosen is None else list(chosen)
        if unknown := [value for value in wanted if value not in known]:
            raise ValueError(
                f"Protocol {self.name!r} has no {what} {_listing(unknown)}; it has "
                f"{_listing(known)}."
            )
        return [value for value in known if value in wanted]


def _listing(values: list[Any]) -> str:
    """All values, or the first and the last of whole numbers in a row."""
    first, last = values[0], values[-1]
    if isinstance(first, int) and len(values) > 2 and values == list(range(first, last + 1)):
        return f"{first} to {last}"
    return ", ".join(repr(value) if "," in str(value) else str(value) for value in values)


# -- known protocols ----------------------------------------------------------------------------

_registered: dict[str, Protocol] = {}


def register(protocol: Protocol) -> None:
    """Make a protocol known by its name, as long as this process lasts.

    The command line imports the modules that ``--module`` names, and so knows what they register.

    Parameters
    ----------
    protocol : Protocol
        Takes the place of one with the same name.

    Examples
    --------
    >>> from dm2l.baselines import MaskedRidgeClassifier
    >>> from dm2l_lab import Method, Protocol, protocols, register
    >>> register(Protocol("mine", ("Arts",), (Method("ridge", MaskedRidgeClassifier()),)))
    >>> protocols()["mine"].datasets
    ('Arts',)
    """
    _registered[protocol.name] = protocol


def protocols() -> dict[str, Protocol]:
    """Protocols by name: those of the library, and registered ones.

    Returns
    -------
    dict of str to Protocol
        A registered protocol takes the place of the library's of the same name.

    Examples
    --------
    >>> from dm2l_lab import protocols
    >>> isinstance(protocols(), dict)
    True
    """
    # Only now: the definitions import every method of the library, and this module.
    built_in = importlib.import_module("dm2l_lab.paper._methods").protocols()
    return {**built_in, **_registered}


def get_protocol(name: str) -> Protocol:
    """Find a protocol by its name.

    Parameters
    ----------
    name : str
        Name of a protocol of the library, or of a registered one.

    Returns
    -------
    Protocol
        The protocol.

    Examples
    --------
    >>> from dm2l_lab import get_protocol
    >>> get_protocol("no such")
    Traceback (most recent call last):
    ValueError: There is no protocol 'no such'...
    """
    known = protocols()
    if name not in known:
        listing = f"Known: {', '.join(sorted(known))}." if known else "None is known."
        raise ValueError(
            f"There is no protocol {name!r}. {listing} dm2l_lab.register adds one, for the "
            "command line in a file that --module names."
        )
    return known[name]
