"""Estimate error rates of filled entries from a random sample that a person checks."""

from bisect import bisect_left
from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np
from scipy.stats import hypergeom

from dm2l.tables import Completion

Key = tuple[int, str]  # row, counted from 1, and label


class Sample(NamedTuple):
    """A sample of the entries that a model fills, stratified by the filled answers yes and no."""

    entries: dict[Key, str]  # the filled answers, in random order
    filled: dict[str, int]  # the number of entries that are filled with each answer

    @classmethod
    def draw(cls, completion: Completion, size: int, seed: int) -> Self:
        """Draw half of the sample from each answer, or all its entries if there are fewer."""
        rng, yes = np.random.default_rng(seed), completion.positive
        parts = {"yes": completion.filled & yes, "no": completion.filled & ~yes}
        filled = {answer: int(part.sum()) for answer, part in parts.items()}
        n_yes = min(filled["yes"], max(size // 2, size - filled["no"]))
        entries: list[tuple[Key, str]] = []
        for (answer, part), n in zip(parts.items(), (n_yes, size - n_yes), strict=True):
            for place in rng.permutation(np.flatnonzero(part))[:n].tolist():
                row, label = divmod(place, part.shape[1])
                entries.append(((row + 1, completion.label_names[label]), answer))
        return cls({entries[i][0]: entries[i][1] for i in rng.permutation(len(entries))}, filled)

    def matches(self, completion: Completion) -> bool:
        """Return whether a completion fills equal numbers and the same values in the sample."""
        names = {name: k for k, name in enumerate(completion.label_names)}
        filled, yes = completion.filled, completion.positive
        counts = {"yes": int((filled & yes).sum()), "no": int((filled & ~yes).sum())}
        return counts == self.filled and all(
            filled[row - 1, names[label]] and yes[row - 1, names[label]] == (answer == "yes")
            for (row, label), answer in self.entries.items()
        )

    def rates(self, said: Mapping[Key, str]) -> list["FilledRate"]:
        """Estimate the error rate of each filled answer, when all sampled entries are checked."""
        found = []
        for answer, size in self.filled.items():
            words = [said[key] for key, filled in self.entries.items() if filled == answer]
            skipped = words.count("skip")
            wrong = len(words) - skipped - words.count(answer)
            bounds = error_bounds(wrong, len(words), size, skipped)
            found.append(FilledRate(answer, size, len(words), skipped, wrong, *bounds))
        return found


class FilledRate(NamedTuple):
    """Estimated errors among the entries that are filled with one answer."""

    answer: str
    filled: int
    checked: int
    skipped: int
    wrong: int  # number of checked entries that are wrong
    low: int  # 95 % confidence interval of the number of errors among the filled entries
    high: int

    def __str__(self) -> str:
        if not self.filled:
            return f"No entry is filled with {self.answer}."
        skipped = f" ({self.skipped} skipped)" if self.skipped else ""
        return (
            f"Filled with {self.answer}: {self.wrong} of {self.checked} checked entries are "
            f"wrong{skipped}. 95% confidence interval of the error rate: "
            f"{self.low / self.filled:.1%} to {self.high / self.filled:.1%}, which is {self.low} "
            f"to {self.high} of {self.filled} entries."
        )


def error_bounds(wrong: int, checked: int, size: int, skipped: int = 0) -> tuple[int, int]:
    """Return a 95 % Clopper-Pearson interval for the number of errors among ``size`` entries."""
    # It inverts hypergeometric tests, because the sample is drawn without replacement. Skipped
    # entries count as right for the lower bound, and as wrong for the upper bound.
    tail, numbers = (1 - 0.95) / 2 * (1 - 1e-9), range(size + 1)  # ties are kept
    less, most = wrong - 1, wrong + skipped
    low = bisect_left(numbers, True, key=lambda k: hypergeom.sf(less, size, k, checked) > tail)
    high = bisect_left(numbers, True, key=lambda k: hypergeom.cdf(most, size, k, checked) <= tail)
    return low, high - 1
