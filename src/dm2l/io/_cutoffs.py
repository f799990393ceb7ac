"""Labels that are numbers on a scale: yes on one side of a cutoff, no on the other."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from dm2l._utils.files import DataFileError
from dm2l.io._columns import ColumnRequestError, match_columns

_SIDES = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_OTHER = {">=": "<", "<=": ">", ">": "<=", "<": ">="}
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_REQUEST = re.compile(rf"(?P<column>.+?)\s*(?P<side>>=|<=|>|<)\s*(?P<value>{_NUMBER})\s*")
_CELL = re.compile(rf"(?P<side>>=|<=|>|<)?\s*(?P<value>{_NUMBER})")


@dataclass(frozen=True)
class Cutoff:
    """Numbers on one ``side`` (``>=``, ``>``, ``<=``, ``<``) of ``value`` are a yes."""

    side: str
    value: str

    @property
    def words(self) -> tuple[str, str]:
        """How yes and no are written where the number itself is not known."""
        return f"{self.side}{self.value}", f"{_OTHER[self.side]}{self.value}"

    def parse(self, text: str, decimal: str = ".") -> float | None:
        """1 or 0; None of what is no number, or a bound such as ``<10`` that leaves both open."""
        cell = _CELL.fullmatch(text.strip().replace(decimal, "."))
        if cell is None:
            return None
        # A bound stands for numbers from one point to another; the second part of a point is
        # whether it lies just below or just above its number.
        number, side = float(cell["value"]), cell["side"] or ""
        low = (-inf, 0) if side.startswith("<") else (number, int(side == ">"))
        high = (inf, 0) if side.startswith(">") else (number, -int(side == "<"))
        beyond = (float(self.value), 0)
        answers = {_SIDES[self.side](point, beyond) for point in (low, high)}
        return float(answers.pop()) if len(answers) == 1 else None


def cutoffs_of(names: Sequence[str], asked: Iterable[str], where: str) -> dict[int, Cutoff]:
    """Cutoffs of label columns by their places; each is asked for as ``column>=2``."""
    found: dict[int, Cutoff] = {}
    for one in asked:
        parts = _REQUEST.fullmatch(str(one))
        if parts is None:
            raise ColumnRequestError(
                f"A cutoff is a label, >=, >, <= or <, and a number, such as 'fold_*>=2'; got "
                f"{one!r}."
            )
        cutoff = Cutoff(parts["side"], parts["value"])
        for j in match_columns(names, parts["column"], f"{where}, among its labels,"):
            if found.setdefault(j, cutoff) != cutoff:
                raise ColumnRequestError(f"There are two cutoffs for the label {names[j]!r}.")
    return found


def undecided(where: str, label: str, text: str, row: int, cutoff: Cutoff) -> DataFileError:
    """The error for a cell under a cutoff that is neither yes nor no."""
    return DataFileError(
        where,
        f"label {label!r} holds {text.strip()[:40]!r} in row {row}, of which nobody can say "
        f"whether it is {cutoff.words[0]}",
        hint="Cells under a cutoff are numbers or bounds on one side of it, blank where nobody "
        "looked; name a mark of missing entries with --missing (missing= in Python).",
    )
