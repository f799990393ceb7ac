"""How much may be tried: three efforts, a clock, and the bytes that are free."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from dm2l._utils.memory import available_memory

Tell = Callable[[str], None]

# Seconds without a word while labels are fitted one by one.
SILENCE = 5.0


class OutOfTimeError(Exception):
    """Raised inside a part that the time limit does not leave room for."""


class NoGainError(Exception):
    """Raised inside a part that brings the stack nothing."""


@dataclass(frozen=True)
class Effort:
    """What is spent.

    Parameters
    ----------
    folds : int
        Folds of the held-out scores.
    sample : int
        Rows on which settings are chosen.
    kernels : int
        Kernels that get into the stack.
    exact, components : int
        Rows up to which a kernel is exact, and columns that stand for it beyond.
    trees, fold_trees : int
        Trees of a forest and a label, in the end and in a fold.
    rounds : int
        Of boosting.
    most_trees : int
        Of all forests and labels together, which bounds the file as well.
    work : float
        Seconds of one core, roughly, that trees may take.
    labels : int
        With more of them there are no nuclear terms, which cost their square.
    thorough : bool
        Whether to try what seldom helps.
    """

    folds: int
    sample: int
    kernels: int
    exact: int
    components: int
    trees: int
    fold_trees: int
    rounds: int
    most_trees: int
    work: float
    labels: int
    thorough: bool = False


EFFORTS = {
    "quick": Effort(3, 1000, 1, 6000, 1000, 0, 0, 0, 0, 0.0, 150),
    "normal": Effort(5, 2000, 2, 15_000, 2000, 200, 100, 100, 6000, 600.0, 400),
    "best": Effort(5, 4000, 2, 20_000, 4000, 500, 200, 300, 18_000, 6000.0, 1000, True),
}


class TimeBudget:
    """Progress, time that has passed and time that is left.

    Parameters
    ----------
    limit : float or None
        Seconds that may pass.
    tell : callable or None
        Gets a line about each step.

    Attributes
    ----------
    binding : bool
        Whether the limit stops what is being done.
    owed : float
        Estimated seconds of what has to be done after the parts were tried: the stack, and those
        that have a say fitted to all rows. Trees that end at the limit would end the fit beyond it.
    """

    def __init__(self, limit: float | None, tell: Tell | None) -> None:
        self.start = time.monotonic()
        self.limit = float("inf") if limit is None else float(limit)
        self._tell = tell
        self._planned = self._done = self._step = 0.0
        self._shown: tuple[float, float] | None = None  # when, and how much was left
        self.binding = False
        self.owed = 0.0

    @property
    def passed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    def plan(self, seconds: float) -> None:
        """Announce work, or take it back; ``seconds`` is a rough estimate."""
        self._planned += seconds

    @property
    def ahead(self) -> float:
        """Estimated seconds of what was announced and not done."""
        return self._planned - self._done

    def begin(self, step: float) -> None:
        """Begin work of which every :meth:`tick` reports so many of the estimated seconds."""
        self._step = step

    def tick(self) -> None:
        """Report a step as done."""
        self._done += self._step

    def room(self, seconds: float) -> bool:
        """Whether work that was estimated so can be done in time, and what is owed after it."""
        return self.passed + (seconds + self.owed) * self._pace() <= self.limit

    def check(self) -> None:
        """Stop a part that leaves no time for what is owed, unless it is the first."""
        if self.binding and not self.room(0.0):
            raise OutOfTimeError

    def _pace(self) -> float:
        """Seconds for an estimated one, by what has been done so far.

        The first part is a small one and says little of the others: estimates count for a tenth.
        """
        known = 0.1 * self._planned
        return (self.passed + known) / (self._done + known) if known else 1.0

    def say(self, line: str) -> None:
        """Tell what is being done, how long it has taken and what is left."""
        if self._tell is None:
            return
        left = self._smooth(max(self.ahead * self._pace(), 0.0))
        left = min(left, max(self.limit - self.passed, 0.0))
        self._tell(f"{line} ({self.passed:.0f} s, about {left:.0f} s left)")

    def _smooth(self, left: float) -> float:
        """What to show: it falls, at once by half of a surprise, and rises only if it doubles."""
        now = self.passed
        if self._shown is not None:
            then, told = self._shown
            due = max(told - (now - then), 0.0)
            if left < due:
                left = (left + due) / 2
            elif left < 2 * told:
                left = min(left, told)
        self._shown = now, left
        return left


def to_stderr(line: str) -> None:
    """Print a line of progress as the searches do."""
    sys.stderr.write(f"[DM2L auto] {line}\n")


def bytes_free(memory: float | None) -> float:
    """Bytes to count on: those given, or three quarters of what is free."""
    return 0.75 * available_memory(2**31) if memory is None else float(memory)


class LabelByLabel:
    """Tells from time to time how many labels are fitted, and stops where the limit comes.

    Parameters
    ----------
    clock : Clock
        Of the fit.
    line : str
        What is being done.
    stops : bool, default=True
        Whether the fit may be given up.
    """

    def __init__(self, clock: TimeBudget, line: str, *, stops: bool = True) -> None:
        self._clock, self._line, self._stops = clock, line, stops
        self._next = clock.passed + SILENCE

    def __call__(self, done: int, of: int) -> None:
        """Hear how many labels of how many are done."""
        if done == of:
            return
        if self._clock.passed >= self._next:
            self._clock.say(f"{self._line}, label {done} of {of}")
            self._next = self._clock.passed + SILENCE
        if self._stops:
            self._clock.check()
