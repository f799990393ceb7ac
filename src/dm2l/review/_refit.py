"""The model fitted again with a person's answers, and what the answers have changed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from dm2l.labels import ConstantLabelWarning
from dm2l.model_selection import Interval
from dm2l.tables import FitOptions, Table, TableModel
from dm2l.tables._measures import changes, hold_out, intervals, measure, predictions
from dm2l.tables._model import score_correlation
from dm2l.tables._options import fit_pipeline

# Share of the observed labels that is kept back, and how often.
KEPT_BACK, REPETITIONS = 0.2, 3

Labels = NDArray[np.float64]


@dataclass(frozen=True)
class Quality:
    """Measures on observed labels that were kept back, without and with a person's answers.

    Attributes
    ----------
    n_answers : int
        Answers (yes or no) that the second of each pair of models had.
    n_entries : int
        Labels that were kept back each time; all were observed in the table, none is an answer.
    repetitions : int
        How often.
    before, after : dict of str to Interval
        Measures of the models without and with the answers, on the same entries.
    change : dict of str to Interval
        After less before.
    """

    n_answers: int
    n_entries: int
    repetitions: int
    before: Mapping[str, Interval]
    after: Mapping[str, Interval]
    change: Mapping[str, Interval]


@dataclass(frozen=True)
class Refitting:
    """Whether the model is being fitted again, and what came of the last time.

    ``number`` counts the fits that were begun, ``error`` says why the last one failed.
    """

    running: bool = False
    number: int = 0
    error: str = ""
    quality: Quality | None = None


class Refit:
    """Fits with the columns and settings of a model, to any labels of its table.

    A search would take minutes, and be a second thing that changes between before and after.
    """

    def __init__(self, model: TableModel, table: Table) -> None:
        self.model, self.table = model, table
        self.inputs = model.inputs(table)[0]
        classifier, settings = model.classifier, model.settings
        if settings is None:  # the automatic estimator, whose quick effort takes seconds
            self.options = FitOptions(effort="quick", random_state=classifier.random_state)
        else:
            self.options = FitOptions(
                kernel=settings.kernel,
                lambda_d=settings.lambda_d,
                alpha=settings.alpha,
                calibration=classifier.calibration,
                cv=getattr(classifier.cv, "n_splits", FitOptions.cv),
                random_state=classifier.random_state,
            )
        self._kept_back: list[tuple[Labels, Labels]] = []
        self._before: list[dict[str, float]] = []
        self._wrong = np.zeros(table.Y.shape, dtype=bool)

    def fit(self, Y: Labels) -> TableModel:
        """The model fitted to other labels."""
        pipeline = self._pipeline(Y, self.model.label_names)
        scores = pipeline[-1].decision_function(pipeline[:-1].transform(self.inputs))
        correlation = score_correlation(scores)
        return replace(self.model, pipeline=pipeline, correlation=correlation, estimate=None)

    def quality(self, Y: Labels) -> Quality | None:
        """What the answers in ``Y`` change; None if too little is observed to keep some back.

        A fifth of each label's observed positives and negatives is kept back. One model learns from
        the rest, another from the rest and the answers, and both are scored on what was kept back.
        """
        kept_back = self._split()
        if not kept_back:
            return None
        given = np.isnan(self.table.Y) & ~np.isnan(Y)
        # A label that was corrected is no truth to measure by, and with it no longer one to learn.
        wrong = ~np.isnan(self.table.Y) & (self.table.Y != Y)
        kept_back = [(left, np.where(wrong, np.nan, hidden)) for left, hidden in kept_back]
        if not self._before or (wrong != self._wrong).any():
            self._before = [self._measure(left, hidden) for left, hidden in kept_back]
            self._wrong = wrong
        after = [
            self._measure(np.where(given | (wrong & ~np.isnan(left)), Y, left), hidden)
            for left, hidden in kept_back
        ]
        return Quality(
            n_answers=int((given | wrong).sum()),
            n_entries=int((~np.isnan(kept_back[0][1])).sum()),
            repetitions=len(kept_back),
            before=intervals(self._before, KEPT_BACK),
            after=intervals(after, KEPT_BACK),
            change=changes(after, self._before, KEPT_BACK),
        )

    def _split(self) -> list[tuple[Labels, Labels]]:
        """Observed labels that are left and that are hidden, the same at every call."""
        if not self._kept_back:
            for seed in range(REPETITIONS):
                left, hidden = hold_out(self.table.Y, KEPT_BACK, seed)
                both = (left == 1).any(axis=0) & (left == 0).any(axis=0)
                if both.any() and not np.isnan(hidden).all():
                    self._kept_back.append((left, hidden))
        return self._kept_back

    def _measure(self, Y: Labels, hidden: Labels) -> dict[str, float]:
        pipeline = self._pipeline(Y)
        return measure(hidden, *predictions(pipeline[-1], pipeline[:-1].transform(self.inputs)))

    def _pipeline(self, Y: Labels, label_names: list[str] | None = None) -> Any:
        with warnings.catch_warnings():
            # `dm2l fit` has said these of the table; a person at a page can do nothing about them.
            warnings.simplefilter("ignore", ConstantLabelWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            uses = self.model.uses
            Y = np.where(self.model.unread(self.inputs)[:, None], np.nan, Y)
            return fit_pipeline(self.inputs, uses, Y, self.options, label_names=label_names)[0]
