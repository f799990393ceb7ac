"""The session of a review: queues of questions, answers, and refits of the model."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from threading import RLock, Thread
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dm2l.labels import ConstantLabelWarning
from dm2l.model_selection import Interval
from dm2l.review._columns import Labels
from dm2l.review._export import export_answers
from dm2l.review._journal import Journal
from dm2l.review._question import Question, TablePredictions, make_question
from dm2l.review._sample import Key, Sample
from dm2l.tables import FitOptions, Table, TableModel, audit_table, complete_table, save_bundle
from dm2l.tables._measures import (
    changes,
    held_out_scores,
    hold_out,
    intervals,
    measure,
    predictions,
)
from dm2l.tables._model import score_correlation
from dm2l.tables._options import fit_pipeline
from dm2l.tables._preparation import unread_rows
from dm2l.tables._reading import count_cells

HELD_OUT, REPETITIONS = 0.2, 3  # share of labels held out, and number of repetitions


@dataclass(frozen=True)
class Quality:
    """Quality of models trained without and with the answers, on held-out observed labels."""

    n_answers: int  # number of answers "yes" or "no"
    n_entries: int  # number of held-out labels per repetition
    repetitions: int
    before: Mapping[str, Interval]
    after: Mapping[str, Interval]
    change: Mapping[str, Interval]


class Refit:
    """Refits a model with the same columns and hyperparameters, without a new search."""

    def __init__(self, model: TableModel, table: Table) -> None:
        self.model, self.table = model, table
        self.inputs = model.inputs(table)[0]
        classifier, settings = model.classifier, model.settings
        # An automatic model is refitted with quick effort, which takes seconds.
        seed, rules = getattr(classifier, "random_state", 0), classifier.rules
        self._options = FitOptions(effort="quick", rules=rules, random_state=seed)
        if settings is not None:
            self._options = replace(
                self._options,
                **{name: getattr(settings, name) for name in ("kernel", "lambda_d", "alpha")},
                calibration=classifier.calibration,
                cv=getattr(classifier.cv, "n_splits", FitOptions.cv),
                missing_as=classifier.missing_as or FitOptions.missing_as,
            )
        self._before: list[dict[str, float]] = []
        self._wrong = np.zeros(table.Y.shape, dtype=bool)

    def fit(self, Y: Labels) -> TableModel:
        """Fit the model to the labels ``Y``."""
        pipeline = self._pipeline(Y, self.model.label_names)
        scores = pipeline[-1].decision_function(pipeline[:-1].transform(self.inputs))
        correlation = score_correlation(scores)
        return replace(self.model, pipeline=pipeline, correlation=correlation, estimate=None)

    def quality(self, Y: Labels) -> Quality | None:
        """Measure how the answers in ``Y`` change the quality; None with too few labels."""
        # Training and held-out labels of each repetition, the same in every call.
        pairs = [hold_out(self.table.Y, HELD_OUT, seed) for seed in range(REPETITIONS)]
        held_out = [
            (left, hidden)
            for left, hidden in pairs
            if ((left == 1).any(axis=0) & (left == 0).any(axis=0)).any()
            and not np.isnan(hidden).all()
        ]
        if not held_out:
            return None
        given = np.isnan(self.table.Y) & ~np.isnan(Y)
        # Corrected labels are not evaluated; the model without answers is trained without them.
        wrong = ~np.isnan(self.table.Y) & (self.table.Y != Y)
        held_out = [(left, np.where(wrong, np.nan, hidden)) for left, hidden in held_out]
        if not self._before or (wrong != self._wrong).any():
            self._wrong = wrong
            self._before = [self._measure(left, hidden) for left, hidden in held_out]
        after = [
            self._measure(np.where(given | (wrong & ~np.isnan(left)), Y, left), hidden)
            for left, hidden in held_out
        ]
        return Quality(
            n_answers=count_cells(given | wrong, self.table.exclusive),
            n_entries=count_cells(~np.isnan(held_out[0][1]), self.table.exclusive),
            repetitions=len(held_out),
            before=intervals(self._before, HELD_OUT),
            after=intervals(after, HELD_OUT),
            change=changes(after, self._before, HELD_OUT),
        )

    def _measure(self, Y: Labels, hidden: Labels) -> dict[str, float]:
        pipeline = self._pipeline(Y)
        X = pipeline[:-1].transform(self.inputs)
        answer = predictions(pipeline[-1], X)
        # Ranking metrics use all labels of the table except corrected labels.
        known = np.where(self._wrong, np.nan, self.table.Y)
        ranked = known, held_out_scores(pipeline[-1], X, Y, hidden, answer.scores)
        return measure(hidden, *answer, ranked=ranked)

    def _pipeline(self, Y: Labels, label_names: list[str] | None = None) -> Any:
        with warnings.catch_warnings():
            # `dm2l fit` has already shown these warnings.
            warnings.simplefilter("ignore", ConstantLabelWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            uses = self.model.uses
            Y = np.where(unread_rows(self.inputs, uses)[:, None], np.nan, Y)
            return fit_pipeline(self.inputs, uses, Y, self._options, label_names=label_names)[0]


class State(NamedTuple):
    """State of background work: whether it is running, the number of runs, and the last error."""

    running: bool = False
    number: int = 0
    error: str = ""

    @property
    def done(self) -> bool:
        """Whether the last run ended without an error."""
        return self.number > 0 and not self.running and not self.error


class Background:
    """Runs a function in a background thread, and stores its errors in ``state``."""

    def __init__(self, work: Callable[..., None], lock: RLock) -> None:
        self.state = State()
        self._work, self._lock = work, lock
        self._thread: Thread | None = None

    def start(self, *arguments: Any) -> bool:
        """Start a run; return False if the function is already running."""
        with self._lock:
            if self.state.running:
                return False
            self.state = State(True, self.state.number + 1)
            self._thread = Thread(target=self._run, args=arguments, daemon=True)
            self._thread.start()
            return True

    def wait(self, seconds: float | None = None) -> None:
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self, *arguments: Any) -> None:
        error = "An unexpected error occurred. The terminal shows its message."
        try:
            self._work(*arguments)
            error = ""
        except (ValueError, ArithmeticError, MemoryError, OSError) as problem:
            error = str(problem)
        finally:
            with self._lock:
                self.state = State(False, self.state.number, error)


QUEUES = ("entries", "rows", "label_errors", "sample")
MOST_LABEL_ERRORS = 1000  # maximum number of suspected label errors, as of dm2l audit


class Progress(NamedTuple):
    """Numbers of questions and answers of a review."""

    suggested: int  # all questions
    answered: int  # questions answered with "yes" or "no"
    skipped: int
    correct: int  # answers that the model predicted correctly
    predicted: int  # answers for which the model had a prediction
    checked: int  # observed labels that were confirmed or corrected
    corrected: int
    implied: int = 0  # labels that follow from observed labels and answers
    sampled: int = 0  # entries of the random sample
    sample_decided: int = 0  # sampled entries that were answered or skipped

    @property
    def decided(self) -> int:
        """Number of questions that were answered or skipped."""
        return self.answered + self.skipped


class Saved(NamedTuple):
    """Result of saving answers: the next position in the queue, and labels that rules imply."""

    position: int
    implied: dict[str, str]


class ReviewSession:
    """Questions about the missing labels of a table, and their answers.

    There are four queues of questions: "entries" (single missing labels), "rows" (all missing
    labels of a row), "label_errors" (suspected errors), and "sample" (a random sample of filled
    entries). Positions in a queue are counted from 0; None means the next open question. Rows are
    counted from 1, below the header. Answers are "yes", "no" and "skip". All methods are
    thread-safe.

    Parameters
    ----------
    model : TableModel
        A fitted model.
    table : Table
        The table to review, read with the labels of the model.
    journal : Journal
        File of answers, which may contain answers of earlier sessions.
    top : int, default=None
        Maximum number of entries to ask about, including entries of earlier sessions. By default,
        there is no limit.
    missing : sequence of str, default=()
        Additional values that mark missing labels, as passed when the table was read.
    keep : sequence of str, default=()
        Columns that identify rows in the questions. The default is the first identifier column.
    save_model : str or Path, default=None
        File to which each refitted model is saved; :func:`dm2l.tables.load_bundle` reads it.

    Attributes
    ----------
    model : TableModel
        The given model or, after a refit, the refitted model.
    learnt : ndarray of shape (n_rows, n_labels)
        The labels used by the last refit or, before the first refit, the labels of the table.
    quality : Quality or None
        Quality of models trained without and with the answers, measured by the last refit.
    measured : bool
        Whether refits measure ``quality``; a measurement takes several additional fits.
    saved, warnings : bool and list of str
        Whether a model was saved to ``save_model``, and warnings about the table.

    Notes
    -----
    :doc:`/commands/review` has an example.
    """

    measured = True

    def __init__(
        self,
        model: TableModel,
        table: Table,
        journal: Journal,
        *,
        top: int | None = None,
        missing: Sequence[str] = (),
        keep: Sequence[str] = (),
        save_model: str | Path | None = None,
    ) -> None:
        model.check_labels(table)
        self.model, self.table, self.journal = model, table, journal
        self.learnt = table.Y
        self.quality: Quality | None = None
        self.saved = False
        self._save_model = None if save_model is None else Path(save_model)
        self._closed = False
        self._marks = [*model.missing, *missing]
        self._lock = RLock()
        self._refit = Refit(model, table)
        self._refits = Background(self._fit_again, self._lock)
        self._audit = Background(self._find_label_errors, self._lock)
        self._label_errors: dict[Key, float] = {}
        # For positive-unlabelled labels, suspected errors are missing labels.
        self._unlabelled = getattr(model.classifier, "missing_as", None) == "unlabelled"
        journal.obey(model.classifier.rules)
        self._top = top
        # Decided entries also need a prediction, because a person can return to them.
        self._predictions = TablePredictions(model, table, table.Y)
        self._identifiers = _identifiers(model, table, keep)
        self._columns, self.warnings = journal.columns, self._predictions.warnings
        if not np.array_equal(self.labels(), table.Y, equal_nan=True):
            self._predictions = TablePredictions(model, table, self.labels(), self._predictions)

    @property
    def progress(self) -> Progress:
        """Return the numbers of questions and answers so far."""
        with self._lock:
            journal, exclusive = self.journal, self.table.exclusive
            answers = {key: journal.answer(*key) for key in self.asked()}
            total = len(answers) + count_cells(journal.left(), exclusive)
            right = [self._foreseen(*key, word) for key, word in answers.items() if word != "skip"]
            checked = [(key, journal.answer(*key)) for key in self.asked("label_errors")]
            return Progress(
                suggested=total if self._top is None else min(total, max(self._top, len(answers))),
                answered=len(right),
                skipped=len(answers) - len(right),
                correct=right.count(True),
                predicted=len(right) - right.count(None),
                checked=len(checked),
                implied=count_cells(journal.implied, exclusive),
                sampled=len(list(self._sampled)),
                sample_decided=len(self.asked("sample")),
                corrected=sum(
                    word not in ("skip", self._columns[name].answer(self.table.Y[row - 1]) or "no")
                    for (row, name), word in checked
                ),
            )

    def _foreseen(self, row: int, name: str, word: str) -> bool | None:
        """Return whether the model predicted this answer; None if no prediction was stored."""
        column, names = self._columns[name], self.table.label_names
        made = [self.journal.decisions.get((row, names[k])) for k in column.labels]
        p = np.array([np.nan if one is None else one.probability for one in made], dtype=float)
        return None if np.isnan(p).any() else column.predicted(p) == word

    def asked(self, queue: str = "entries") -> list[Key]:
        """Return the row and label of each answered or skipped question of a queue, in order."""
        with self._lock:
            journal = self.journal
            if queue not in QUEUES:
                raise ValueError(f"queue must be one of {', '.join(QUEUES)}, got {queue!r:.40}.")
            if queue == "sample":
                return [key for key in self._sampled if journal.answer(*key)]
            keys: Iterable[Key] = journal.decisions
            if queue == "label_errors":
                suspected = [key for key in keys if key in self._label_errors]
                keys = suspected if self._unlabelled else journal.checks
            # A column with several values is one question.
            names = ((row, self._columns[label].name * (queue != "rows")) for row, label in keys)
            return list(dict.fromkeys(names))

    @property
    def _sampled(self) -> Iterable[Key]:
        return self.journal.sample.entries if self.journal.sample else ()

    def question(self, position: int | None = None, queue: str = "entries") -> Question | None:
        """Return the question at ``position`` or, by default, the most valuable open question."""
        with self._lock:
            asked = self.asked(queue)
            known = position is not None and 0 <= position < len(asked)
            key = asked[position or 0] if known else self._next(queue)
            if key is None:
                return None
            prediction = None
            if queue == "entries":
                labels, total = self._columns[key[1]].labels, self._predictions.values.total
                label = labels[int(np.argmax(total[key[0] - 1, labels]))]
                prediction = self._predictions.entry(key[0] - 1, label, self.journal.left())
            error = self._label_errors.get(key, 0.0) if queue == "label_errors" else 0.0
            about = self._predictions, key, prediction, error, self._identifiers
            return make_question(self.journal, *about)

    def _next(self, queue: str) -> Key | None:
        """Return row and label of the next open question of a queue; None if there is none."""
        journal, left = self.journal, self.journal.left()
        if queue in ("label_errors", "sample"):
            found = self._sampled if queue == "sample" else self._label_errors
            return next((key for key in found if not journal.answer(*key)), None)
        if self.progress.decided >= self.progress.suggested:
            return None
        if queue == "rows":
            return int(self._predictions.values.rank_rows(left)[0][0]) + 1, ""
        best = int(np.argmax(np.where(left, self._predictions.values.total, -1.0)))
        i, k = divmod(best, left.shape[1])
        return i + 1, self._columns[self.table.label_names[k]].name

    def start_sample(self, size: int, max_error_rate: float | None = None) -> None:
        """Draw a random sample of the entries that the model fills, unless a sample exists."""
        with self._lock:
            drawn, model = self.journal.sample, self._refit.model
            completion = complete_table(model, self.table, max_error_rate=max_error_rate)
            if drawn is None:
                seed = int(self.journal.digest[:16], 16)
                self.journal.start_sample(Sample.draw(completion, size, seed))
            elif not drawn.matches(completion, size):
                raise ValueError(
                    f"{self.journal.path} has a sample of {len(drawn.entries)} entries that was "
                    "drawn with another size, model or --max-error-rate (max_error_rate=). Pass "
                    "the same values as for this sample, or start a new file of answers."
                )

    def answer(self, row: int, answers: Mapping[str, str], queue: str = "entries") -> Saved:
        """Save answers to labels of a row, and update the predictions for the row.

        The answers replace earlier answers. In the queue "label_errors", answers confirm or correct
        observed labels or, for positive-unlabelled labels, blanks that are probably positive.
        """
        with self._lock:
            self.asked(queue)  # raises an error for an unknown queue
            observed = queue == "label_errors" and not self._unlabelled
            spread = self._checked(row, answers, observed)
            if not observed:
                self.journal.suppose(row, spread)
            before = self.follow(row)
            self._save(row, spread)
            asked, named = enumerate(self.asked(queue), 1), {"", *answers}
            position = next((n for n, key in asked if key[0] == row and key[1] in named), 0)
            after = self.follow(row).items()
            return Saved(position, {name: word for name, word in after if before.get(name) != word})

    def suppose(self, row: int, answers: Mapping[str, str]) -> dict[str, Any]:
        """Return the probabilities of other open questions as if ``answers`` had been given.

        The result has the probability of "yes" for a label, or of each value for other columns.
        """
        with self._lock:
            known = self.journal.suppose(row, self._checked(row, answers))
            p = self._predictions.supposing(row - 1, known[None])[0]
            open_ = (one for one in self._columns.values() if not one.answer(known))
            return {one.name: one.choices(p) or float(p[one.labels[0]]) for one in open_}

    def follow(self, row: int, answers: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the labels that rules imply from the labels of a row and from ``answers``."""
        with self._lock:
            spread = self._checked(row, answers) if answers else {}
            known, made = self.journal.suppose(row, spread), self.journal.decisions
            found: dict[str, str] = {}
            for k in np.flatnonzero(~np.isnan(known) & np.isnan(self.table.Y[row - 1])).tolist():
                name = self.table.label_names[k]
                said = spread or {name: made[row, name].answer if (row, name) in made else "skip"}
                word, column = self._columns[name].answer(known), self._columns[name].name
                if said.get(name, "skip") == "skip" and word:
                    found[column] = word
            return found

    def _checked(self, row: int, answers: Mapping[str, str], check: bool = False) -> dict[str, str]:
        """Check answers, and return an answer for each label of the answered columns."""
        if not answers:
            raise ValueError("The request has no answer. Send an answer for at least one label.")
        found: dict[str, str] = {}
        for label, answer in answers.items():
            column = self._columns.get(label)
            known = column is not None and column.name == label
            found |= column.answers(answer) if column and known else {label: answer}
        for label, answer in found.items():
            self.journal.check(row, label, answer, check)
        return found

    def _save(self, row: int, answers: Mapping[str, str]) -> None:
        """Save answers by label; answers to observed labels confirm or correct these labels."""
        for label, answer in answers.items():
            check = bool(self.journal.observed(row, label))
            k = self.table.label_names.index(label)
            p = round(float(self._predictions.values.probability[row - 1, k]), 6)
            self.journal.add(row, label, answer, None if check else p, check=check)
        self._predictions.condition(row - 1, self.journal.labels(row))

    def labels(self) -> Labels:
        """Return the labels of the table, including the answers."""
        with self._lock:
            return self.journal.labels()

    @property
    def refit_state(self) -> State:
        """State of refits: whether a refit is running, the number of refits, and the last error."""
        return self._refits.state

    @property
    def label_errors_state(self) -> State:
        """State of the search for label errors."""
        return self._audit.state

    def start_refit(self) -> bool:
        """Start a refit with all answers in the background; return False if a refit is running."""
        with self._lock:
            return self._refits.start(self.labels())

    def start_label_errors(self) -> bool:
        """Search for label errors in the background, unless a search is running or has ended."""
        with self._lock:
            return not self._audit.state.done and self._audit.start()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until no background work is running."""
        self._refits.wait(seconds)
        self._audit.wait(seconds)

    def _find_label_errors(self) -> None:
        found = audit_table(self.model, self.table)
        errors: dict[Key, float] = {}  # a cell with several values has its highest probability
        for n in np.flatnonzero(found.contradicted & (found.blank == self._unlabelled)).tolist():
            key = int(found.row[n]), self._columns[found.label[n]].name
            errors.setdefault(key, float(found.probability[n]))
        with self._lock:
            self._label_errors = dict(islice(errors.items(), MOST_LABEL_ERRORS))

    def _fit_again(self, Y: Labels) -> None:
        model = self._refit.fit(Y)
        predictions = TablePredictions(model, self.table, Y, self._predictions)
        quality = self._refit.quality(Y) if self.measured else None
        with self._lock:
            self.model, self.learnt, self.quality = model, Y, quality
            # The new model lacks the answers that were given during the refit.
            made = self.journal.made.items()
            for row in sorted({key[0] for key, (answer, _) in made if answer != "skip"}):
                predictions.condition(row - 1, self.journal.labels(row))
            self._predictions = predictions
            if self._save_model is None or self._closed:
                return
            try:  # with this lock, close() waits until the file is complete
                save_bundle(model, self._save_model)
            except OSError as error:
                raise OSError(f"The model was refitted, but cannot be saved: {error}") from error
            self.saved = True

    def export(self, output: str | Path) -> int:
        """Write the table with the answers, and return the number of answers.

        Raises a ValueError if the file of the table has changed since the review began.
        """
        digest = self.journal.digest
        return export_answers(self.table, self.labels(), Path(output), self._marks, digest)

    def close(self) -> None:
        """Wait until the current answer or model is saved, and then close the journal."""
        with self._lock:
            self._closed = True
            self.journal.close()


def _identifiers(model: TableModel, table: Table, keep: Sequence[str]) -> Sequence[str]:
    """Return the columns that identify a row in questions."""
    columns = [] if table.frame is None else list(table.frame.columns)
    for name in keep:
        if name not in columns:
            raise ValueError(
                f"{table.path} has no feature column {name!r} to identify rows. Choose one of "
                f"{', '.join(map(str, columns[:5]))}{', ...' * (len(columns) > 5)}."
            )
    found = (use.name for use in model.uses or () if use.kind == "identifier")
    return keep or [name for name in found if name in columns][:1]
