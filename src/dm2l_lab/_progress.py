"""How far a run is, and how long the rest will take."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dm2l_lab._protocol import Cell, Protocol
from dm2l_lab._store import Store


@dataclass(frozen=True)
class Step:
    """How far a run is: told to a callback at the start, and whenever a cell has been stored.

    Parameters
    ----------
    cell : Cell or None
        The cell; None at the start.
    status : {"done", "failed"} or None
        What became of it.
    error : str or None
        Type and message of what a failed cell raised.
    done, failed, total : int
        Cells of this selection, those of earlier runs included.
    remaining : float or None
        Estimated seconds until all are done; None while nothing is known.

    Examples
    --------
    >>> from dm2l_lab import Step
    >>> Step(None, None, None, done=3, failed=0, total=9, remaining=60.0).remaining
    60.0
    """

    cell: Cell | None
    status: str | None
    error: str | None
    done: int
    failed: int
    total: int
    remaining: float | None


class Work:
    """Cells that wait, and the time they will take, judging by those that are done."""

    def __init__(
        self, store: Store, protocol: str, pending: Iterable[Cell], n_jobs: int = 1
    ) -> None:
        self.n_jobs = n_jobs
        self._pending = Counter((cell.dataset, cell.method) for cell in pending)
        self._spent = store.durations(protocol)

    def finish(self, cell: Cell, row: dict[str, Any]) -> None:
        """Take a cell off the list."""
        place = (cell.dataset, cell.method)
        self._pending[place] -= 1
        if row["status"] == "done":
            count, total = self._spent.get(place, (0, 0.0))
            self._spent[place] = (count + 1, total + row["seconds"])

    @property
    def seconds(self) -> float | None:
        """Seconds for so many processes; None while no cell has been timed."""
        waiting = +self._pending
        overall = [spent / count for count, spent in self._spent.values()]
        if not waiting or not overall:
            return None if waiting else 0.0
        total = 0.0
        near: dict[str, list[float]] = {}
        for (_, method), (count, spent) in self._spent.items():
            near.setdefault(method, []).append(spent / count)
        for place, n_cells in waiting.items():
            # The same method on the same data, or on other data, or whatever is known.
            if place in self._spent:
                count, spent = self._spent[place]
                each = spent / count
            else:
                each = statistics.fmean(near.get(place[1], overall))
            total += n_cells * each
        return total / self.n_jobs


def status(protocol: Protocol, store: Store, **selection: Any) -> dict[str, Any]:
    """Count what is done, failed and pending.

    Parameters
    ----------
    protocol : Protocol
        The protocol.
    store : Store
        Its results.
    **selection
        Which cells; as in :meth:`Protocol.cells`.

    Returns
    -------
    dict
        ``done``, ``failed``, ``pending``; ``outdated``, rows of the protocol's name that are not
        among its cells, with settings that methods had before for example; ``remaining``,
        estimated seconds of work for one process or None; ``groups``, the first three for each
        ``dataset`` and ``method``.

    Examples
    --------
    >>> from dm2l.baselines import MaskedRidgeClassifier
    >>> from dm2l_lab import Method, Protocol, Store, status
    >>> protocol = Protocol("small", ("Arts",), (Method("ridge", MaskedRidgeClassifier()),))
    >>> with Store(":memory:") as store:
    ...     counts = status(protocol, store, repetitions=10)
    >>> counts["done"], counts["pending"], counts["remaining"]
    (0, 30, None)
    """
    states = store.states(protocol.name)
    cells = list(protocol.cells(**selection))
    groups: dict[tuple[str, str], Counter[str]] = {}
    for cell in cells:
        group = groups.setdefault((cell.dataset, cell.method), Counter())
        group[states.get(cell, "pending")] += 1
    names = ("done", "failed", "pending")
    total = sum(groups.values(), Counter())
    pending = [cell for cell in cells if cell not in states]
    return {
        **{name: total[name] for name in names},
        "outdated": len(states.keys() - set(protocol.cells())),
        "remaining": Work(store, protocol.name, pending).seconds,
        "groups": [
            {"dataset": dataset, "method": method, **{name: group[name] for name in names}}
            for (dataset, method), group in groups.items()
        ],
    }
