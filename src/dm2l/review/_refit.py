"""Refit of the model with the answers, and the change of its measures."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import RLock, Thread
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from dm2l.labels import ConstantLabelWarning
from dm2l.model_selection import Interval
from dm2l.tables import FitOptions, Table, TableModel
from dm2l.tables._measures import changes, hold_out, intervals, measure, predictions
from dm2l.tables._model import score_correlation
from dm2l.tables._options import fit_pipeline
from dm2l.tables._preparation import unread_rows

# Share of the observed labels that is held out, and how often.
HELD_OUT, REPETITIONS = 0.2, 3

Labels = NDArray[np.float64]


@dataclass(frozen=True)
class Quality:
    """Measures on held-out observed labels of models trained without and with the answers."""

    n_answers: int  # yes or no
    n_entries: int  # labels that are held out in each repetition
    repetitions: int
    before: Mapping[str, Interval]
    after: Mapping[str, Interval]
    change: Mapping[str, Interval]


class Refit:
    """Fits with the columns and hyperparameters of a model: a search would change more."""

    def __init__(self, model: TableModel, table: Table) -> None:
        self.model, self.table = model, table
        self.inputs = model.inputs(table)[0]
        classifier, settings = model.classifier, model.settings
        if settings is None:  # the automatic estimator, whose quick effort takes seconds
            self._options = FitOptions(effort="quick", random_state=classifier.random_state)
        else:
            self._options = FitOptions(
                kernel=settings.kernel,
                lambda_d=settings.lambda_d,
                alpha=settings.alpha,
                calibration=classifier.calibration,
                cv=getattr(classifier.cv, "n_splits", FitOptions.cv),
                missing_as=classifier.missing_as or FitOptions.missing_as,
                random_state=classifier.random_state,
            )
        self._held_out: list[tuple[Labels, Labels]] = []
        self._before: list[dict[str, float]] = []
        self._wrong = np.zeros(table.Y.shape, dtype=bool)

    def fit(self, Y: Labels) -> TableModel:
        """The model fitted to other labels."""
        pipeline = self._pipeline(Y, self.model.label_names)
        scores = pipeline[-1].decision_function(pipeline[:-1].transform(self.inputs))
        correlation = score_correlation(scores)
        return replace(self.model, pipeline=pipeline, correlation=correlation, estimate=None)

    def quality(self, Y: Labels) -> Quality | None:
        """Change by the answers in ``Y``; None if too few labels are observed to hold some out."""
        held_out = self._split()
        if not held_out:
            return None
        given = np.isnan(self.table.Y) & ~np.isnan(Y)
        # A label that was corrected is neither evaluated nor learned from.
        wrong = ~np.isnan(self.table.Y) & (self.table.Y != Y)
        held_out = [(left, np.where(wrong, np.nan, hidden)) for left, hidden in held_out]
        if not self._before or (wrong != self._wrong).any():
            self._before = [self._measure(left, hidden) for left, hidden in held_out]
            self._wrong = wrong
        after = [
            self._measure(np.where(given | (wrong & ~np.isnan(left)), Y, left), hidden)
            for left, hidden in held_out
        ]
        return Quality(
            n_answers=int((given | wrong).sum()),
            n_entries=int((~np.isnan(held_out[0][1])).sum()),
            repetitions=len(held_out),
            before=intervals(self._before, HELD_OUT),
            after=intervals(after, HELD_OUT),
            change=changes(after, self._before, HELD_OUT),
        )

    def _split(self) -> list[tuple[Labels, Labels]]:
        """Observed labels that are kept and that are held out, the same at every call."""
        if not self._held_out:
            for seed in range(REPETITIONS):
                left, hidden = hold_out(self.table.Y, HELD_OUT, seed)
                both = (left == 1).any(axis=0) & (left == 0).any(axis=0)
                if both.any() and not np.isnan(hidden).all():
                    self._held_out.append((left, hidden))
        return self._held_out

    def _measure(self, Y: Labels, hidden: Labels) -> dict[str, float]:
        pipeline = self._pipeline(Y)
        return measure(hidden, *predictions(pipeline[-1], pipeline[:-1].transform(self.inputs)))

    def _pipeline(self, Y: Labels, label_names: list[str] | None = None) -> Any:
        with warnings.catch_warnings():
            # `dm2l fit` has given these warnings; nothing can be done about them on the page.
            warnings.simplefilter("ignore", ConstantLabelWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            uses = self.model.uses
            Y = np.where(unread_rows(self.inputs, uses)[:, None], np.nan, Y)
            return fit_pipeline(self.inputs, uses, Y, self._options, label_names=label_names)[0]


class State(NamedTuple):
    """Whether work is going on, how many runs were begun, and why the last one failed."""

    running: bool = False
    number: int = 0
    error: str = ""

    @property
    def done(self) -> bool:
        """Whether the last run has ended without an error."""
        return self.number > 0 and not self.running and not self.error


class Background:
    """A function that runs in a thread; errors that its input may cause end up in ``state``."""

    def __init__(self, work: Callable[..., None], lock: RLock) -> None:
        self.state = State()
        self._work, self._lock = work, lock
        self._thread: Thread | None = None

    def start(self, *arguments: Any) -> bool:
        """Begin a run, unless one is going on."""
        with self._lock:
            if self.state.running:
                return False
            self.state = State(True, self.state.number + 1)
            self._thread = Thread(target=self._run, args=arguments, daemon=True)
            self._thread.start()
            return True

    def wait(self, seconds: float | None = None) -> None:
        """Wait for the run to end."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self, *arguments: Any) -> None:
        error = "This ended unexpectedly; see the terminal."
        try:
            self._work(*arguments)
            error = ""
        except (ValueError, ArithmeticError, MemoryError, OSError) as problem:
            error = str(problem)
        finally:
            with self._lock:
                self.state = State(False, self.state.number, error)
