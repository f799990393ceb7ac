"""How much may be tried: three efforts and a time budget."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

Report = Callable[[str], None]

# Seconds between two reports while labels are fitted one by one.
SILENCE = 5.0


class OutOfTimeError(Exception):
    """The time limit leaves no time for the base model that is being fitted."""


@dataclass(frozen=True)
class Effort:
    """What may be spent."""

    folds: int
    sample: int  # rows on which hyperparameters are chosen
    kernels: int  # in the ensemble
    exact: int  # rows up to which a kernel is exact
    components: int  # columns that approximate it beyond
    trees: int  # of a forest and a label
    fold_trees: int  # the same in a fold
    rounds: int  # of boosting
    most_trees: int  # of all forests and labels, which bounds the model file
    work: float  # seconds of one core that trees may take, roughly
    labels: int  # with more there are no nuclear norms, which cost their square
    thorough: bool = False  # whether to try what seldom helps


EFFORTS = {
    "quick": Effort(3, 1000, 1, 6000, 1000, 0, 0, 0, 0, 0.0, 150),
    "normal": Effort(5, 2000, 2, 15_000, 2000, 200, 100, 100, 6000, 600.0, 400),
    "best": Effort(5, 4000, 2, 20_000, 4000, 500, 200, 300, 18_000, 6000.0, 1000, True),
}


class TimeBudget:
    """Progress, and the time that has passed and is left; ``report`` gets a line for each step."""

    def __init__(self, limit: float | None, report: Report | None) -> None:
        self.start = time.monotonic()
        self.limit = float("inf") if limit is None else float(limit)
        self._report = report
        # Estimated seconds of all work, and of the step that each advance completes.
        self.planned = self.step = self._done = 0.0
        self.binding = False  # whether the limit stops the current base model
        # Estimated seconds of what follows the last candidate: the ensemble, and the fits to all
        # rows. Candidates that ended at the limit would end the fit beyond it.
        self.reserved = 0.0

    @property
    def passed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    @property
    def ahead(self) -> float:
        """Estimated seconds of the work that is planned and not done."""
        return self.planned - self._done

    def advance(self) -> None:
        """Count a step as done."""
        self._done += self.step

    def allows(self, seconds: float) -> bool:
        """Whether work of so many estimated seconds leaves the time that is reserved."""
        return self.passed + (seconds + self.reserved) * self._pace() <= self.limit

    def check(self) -> None:
        """Stop a base model, unless it is the first, that would use reserved time."""
        if self.binding and not self.allows(0.0):
            raise OutOfTimeError

    def _pace(self) -> float:
        """Seconds that an estimated second takes, by the work done so far."""
        # The first candidate is small and not typical of the others: the plan counts for a tenth.
        known = 0.1 * self.planned
        return (self.passed + known) / (self._done + known) if known else 1.0

    def report(self, line: str) -> None:
        """Report a step, with the time that it took so far and the time that is left."""
        if self._report is not None:
            passed = self.passed
            left = min(max(self.ahead * self._pace(), 0.0), max(self.limit - passed, 0.0))
            self._report(f"{line} ({passed:.0f} s, about {left:.0f} s left)")


class LabelProgress:
    """Reports from time to time how many labels are fitted, and stops at the time limit."""

    def __init__(self, budget: TimeBudget, line: str, *, stops: bool = True) -> None:
        self._budget, self._line, self._stops = budget, line, stops
        self._next = budget.passed + SILENCE

    def __call__(self, done: int, of: int) -> None:
        """Count labels that are done."""
        if done == of:
            return
        if self._budget.passed >= self._next:
            self._budget.report(f"{self._line}, label {done} of {of}")
            self._next = self._budget.passed + SILENCE
        if self._stops:
            self._budget.check()
