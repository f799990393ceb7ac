"""Estimate error rates of filled entries from a random sample that a person checks."""

from bisect import bisect_left
from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

from dm2l.io._label_columns import ColumnGroup
from dm2l.tables import Completion

Key = tuple[int, str]  # row, counted from 1, and label, or column with several values


class Sample(NamedTuple):
    """A sample of filled entries, stratified by yes, no and columns with several values."""

    entries: dict[Key, str]  # the filled answers (yes, no, or = and a value), in random order
    filled: dict[str, int]  # the number of entries that are filled with each kind of answer

    @classmethod
    def draw(cls, completion: Completion, size: int, seed: int) -> Self:
        """Draw equally many entries of each kind of answer, or all entries of a rare kind."""
        rng, parts = np.random.default_rng(seed), filled_parts(completion)
        groups = {labels[0]: (labels, group) for labels, group in completion.exclusive}
        filled = {kind: int(part.sum()) for kind, part in parts.items()}
        entries: list[tuple[Key, str]] = []
        for at, (kind, part) in enumerate(parts.items()):
            left, later = size - len(entries), sum(list(filled.values())[at + 1 :])
            n = max(left // (len(parts) - at), left - later)
            for place in rng.permutation(np.flatnonzero(part))[:n].tolist():
                row, k = divmod(place, part.shape[1])
                name, word = completion.label_names[k], kind
                if kind == "values":
                    name, word = groups[k][1].column, _value(completion, row, *groups[k])
                entries.append(((row + 1, name), word))
        return cls({entries[i][0]: entries[i][1] for i in rng.permutation(len(entries))}, filled)

    def matches(self, completion: Completion, size: int | None = None) -> bool:
        """Return whether the sample could have been drawn from ``completion`` with this size."""
        n = min(size or len(self.entries), sum(self.filled.values()))
        parts = filled_parts(completion)
        names = {name: k for k, name in enumerate(completion.label_names)}
        groups = {group.column: (labels, group) for labels, group in completion.exclusive}
        names |= {name: labels[0] for name, (labels, _) in groups.items()}
        counts = {kind: int(part.sum()) for kind, part in parts.items()}
        return (
            counts == self.filled
            and len(self.entries) == n
            and all(
                parts[kind_of(word)][row - 1, names[name]]
                and (name not in groups or _value(completion, row - 1, *groups[name]) == word)
                for (row, name), word in self.entries.items()
            )
        )

    def rates(self, said: Mapping[Key, str]) -> list["FilledRate"]:
        """Estimate error rates for each kind of filled answer from answers ``said`` by a person."""
        found = []
        for kind, size in self.filled.items():
            drawn = {key: word for key, word in self.entries.items() if kind_of(word) == kind}
            pairs = [(said[key], word) for key, word in drawn.items()]
            skipped = sum(answer == "skip" for answer, _ in pairs)
            wrong = sum(answer not in ("skip", word) for answer, word in pairs)
            bounds = error_bounds(wrong, len(pairs), size, skipped)
            found.append(FilledRate(kind, size, len(pairs), skipped, wrong, *bounds))
        return found


def filled_parts(completion: Completion) -> dict[str, NDArray[np.bool_]]:
    """Return a mask of filled entries for each kind of answer, with a single entry per cell."""
    alone, cells = completion.filled.copy(), np.zeros_like(completion.filled)
    for labels, _ in completion.exclusive:
        cells[:, labels[0]] = alone[:, labels].any(axis=1)
        alone[:, labels] = False
    parts = {"yes": alone & completion.positive, "no": alone & ~completion.positive}
    return parts | ({"values": cells} if completion.exclusive else {})


def kind_of(word: str) -> str:
    """Return the kind of an answer: yes, no, skip or values."""
    return "values" if word.startswith("=") else word


def _value(completion: Completion, row: int, labels: list[int], group: ColumnGroup) -> str:
    """Return the answer with which a cell is filled."""
    return f"={group.cell(completion.positive[row, labels], completion.probabilities[row, labels])}"


class FilledRate(NamedTuple):
    """Estimated errors among the entries that are filled with the same answer."""

    answer: str
    filled: int
    checked: int
    skipped: int
    wrong: int  # number of checked entries that are wrong
    low: int  # 95 % confidence interval of the number of errors among the filled entries
    high: int

    def __str__(self) -> str:
        answer = "one of several values" if self.answer == "values" else self.answer
        if not self.filled:
            return f"No entry is filled with {answer}."
        skipped = f" ({self.skipped} skipped)" if self.skipped else ""
        return (
            f"Filled with {answer}: {self.wrong} of {self.checked} checked entries are "
            f"wrong{skipped}. 95% confidence interval of the error rate: "
            f"{self.low / self.filled:.1%} to {self.high / self.filled:.1%}, which is {self.low} "
            f"to {self.high} of {self.filled} entries."
        )


def error_bounds(wrong: int, checked: int, size: int, skipped: int = 0) -> tuple[int, int]:
    """Return a 95 % Clopper-Pearson interval for the number of errors among ``size`` entries."""
    # Hypergeometric tests are inverted, because the sample is drawn without replacement. Skipped
    # entries count as correct for the lower bound, and as wrong for the upper bound.
    tail, numbers = (1 - 0.95) / 2 * (1 - 1e-9), range(size + 1)  # ties are kept
    less, most = wrong - 1, wrong + skipped
    low = bisect_left(numbers, True, key=lambda k: hypergeom.sf(less, size, k, checked) > tail)
    high = bisect_left(numbers, True, key=lambda k: hypergeom.cdf(most, size, k, checked) <= tail)
    return low, high - 1
