"""A person's walk through the holes of a table, without any page, and how far it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import RLock, Thread
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dm2l.review._answers import Answers, export_answers, make_question
from dm2l.review._beliefs import TableBeliefs
from dm2l.review._journal import Journal
from dm2l.review._question import Doubting, Key, Progress, Question, count
from dm2l.review._refit import Refit, Refitting
from dm2l.tables import Table, TableModel, audit_table, save_bundle

Made = TypeVar("Made")
# Doubtful labels that are shown.
MOST_DOUBTS = 200


class ReviewSession:
    """A model's questions about the holes of a table, and a person's answers.

    Three queues ask: single holes, whole rows, and observed labels that may be wrong. In each of
    them entries have positions: those that were decided come first, in the order in which that
    happened, then the one to be asked next. All methods may be called from several threads.

    Parameters
    ----------
    model : TableModel
        A fitted model.
    table : Table
        The table to be answered, read with the model's labels.
    journal : Journal
        Where answers go, and from which those of an earlier session come.
    top : int, default=None
        How many entries to ask for in all, those of earlier sessions included; None for all holes.
    missing : sequence of str, default=()
        Marks of missing labels with which the table was read, besides those of the model.
    save_model : str or Path, default=None
        A file for the model, written after each refit; :func:`dm2l.tables.load_bundle` reads it.

    Attributes
    ----------
    model : TableModel
        The model as it was fitted last.
    refitting : Refitting
        The state of :meth:`start_refit`.
    doubting : Doubting
        The state of :meth:`start_doubts`.
    learnt : ndarray of shape (n_rows, n_labels)
        The labels that it was fitted to; those of the table for the model that was given.
    measured : bool
        Whether a refit also says what the answers have changed, which takes several fits more.
    saved : bool
        Whether ``save_model`` was written.
    warnings : list of str
        What was odd about the table.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from dm2l.review import Journal, ReviewSession
    >>> from dm2l.tables import FitOptions, fit_table, table_from_frame
    >>> frame = pd.DataFrame({"mass": [i % 7 for i in range(60)]})
    >>> frame["tox_a"] = [i % 7 > 3 if i % 3 else None for i in range(60)]
    >>> table = table_from_frame(frame, "tox_*")
    >>> model = fit_table(table, FitOptions("linear", 0.1, 1.0), estimate_folds=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Journal(Path(folder, "answers.jsonl"), table) as journal:
    ...         session = ReviewSession(model, table, journal, top=10)
    ...         for _ in range(4):
    ...             entry = session.entry()
    ...             mass = int(entry.columns[0].text)
    ...             _ = session.answer(entry.row, entry.label, "yes" if mass > 3 else "no")
    ...         _ = session.start_refit()
    ...         session.wait()
    ...         session.refitting.quality.n_answers, session.progress[:3]
    (4, (10, 4, 0))
    """

    def __init__(
        self,
        model: TableModel,
        table: Table,
        journal: Journal,
        *,
        top: int | None = None,
        missing: Sequence[str] = (),
        save_model: str | Path | None = None,
    ) -> None:
        model.check_labels(table)
        self.model, self.table, self.journal = model, table, journal
        self.learnt = table.Y
        self.refitting = Refitting()
        self.measured = True
        self.saved = False
        self._save_model = None if save_model is None else Path(save_model)
        self._closed = False
        self._marks = [*model.missing, *missing]
        self._lock = RLock()
        self._refit = Refit(model, table)
        self._thread: Thread | None = None
        self._doubting_thread: Thread | None = None
        self.doubting = Doubting()
        self._doubts: dict[Key, float] = {}
        uses = model.uses
        self._used = None if uses is None else frozenset(use.name for use in uses if use.used)
        holes = int(np.isnan(table.Y).sum())
        decided = len(journal.decisions)
        self._suggested = holes if top is None else min(holes, max(top, decided))
        # Every hole has a belief, also those that were decided: a person may go back to them.
        self._answers = Answers(table, journal)
        self._beliefs = TableBeliefs(model, table, table.Y)
        self.warnings = self._beliefs.warnings
        if decided or journal.checks:
            self._beliefs = TableBeliefs(model, table, self.labels(), self._beliefs)

    # -------------------------------------------------------------------------- entries, answers

    @property
    def progress(self) -> Progress:
        """How far this is."""
        with self._lock:
            checks = self.journal.checks
            said = [(key, made.answer) for key, made in checks.items() if made.answer != "skip"]
            wrong = sum(answer != self._answers.observed(*key) for key, answer in said)
            found = count(self.journal.decisions, self._suggested)
            return found._replace(checked=len(checks), corrected=wrong)

    def entry(self, position: int | None = None) -> Question | None:
        """The entry at a position; the one to be asked next if there is none given.

        Parameters
        ----------
        position : int, default=None
            0 for the entry that was decided first; beyond the last it is the next one.

        Returns
        -------
        Question or None
            None if nothing is left to ask.
        """
        with self._lock:
            key = _at(self.journal.decisions, position)
            best = None if key or self._enough else self._beliefs.best(self._answers.left())
            if best is not None:
                key = best[0] + 1, self.table.label_names[best[1]]
            if key is None:
                return None
            row, k = key[0], self.table.label_names.index(key[1])
            # What the row would know after either answer.
            cases = np.tile(self._answers.row(row), (2, 1))
            cases[:, k] = 1, 0
            belief = self._beliefs.of(row - 1, k, self._answers.left())
            return self._ask(key, cases=cases, belief=belief, made=self.journal.decisions)

    def row_entry(self, position: int | None = None) -> Question | None:
        """All holes of a row at once; positions are those of rows with something decided.

        Parameters
        ----------
        position : int, default=None
            0 for the row of which something was decided first; beyond the last it is the one most
            worth reading.

        Returns
        -------
        Question or None
            Without a label; None if nothing is left to ask.
        """
        with self._lock:
            row = _at(self._answers.rows(), position)
            best = None if row or self._enough else self._beliefs.best_row(self._answers.left())
            if best is not None:
                row = best + 1
            return None if row is None else self._ask((row, ""))

    def doubt(self, position: int | None = None) -> Question | None:
        """A label that was observed and may be wrong, see :meth:`start_doubts`.

        Parameters
        ----------
        position : int, default=None
            0 for the one that was checked first; beyond the last it is the most doubtful.

        Returns
        -------
        Question or None
            None if none is left, or none was looked for.
        """
        with self._lock:
            checks = self.journal.checks
            key = _at(checks, position) or next((k for k in self._doubts if k not in checks), None)
            if key is None:
                return None
            return self._ask(key, made=checks, doubt=self._doubts.get(key, 0.0))

    def answer(self, row: int, label: str, answer: str) -> int:
        """Take an answer, or change one; it is on disk when this returns.

        Beliefs about the other holes of the row change with it.

        Parameters
        ----------
        row : int
            Row number; 1 is the first row below the header.
        label : str
            Name of the label: a hole, or a doubtful label, which is confirmed or corrected.
        answer : {"yes", "no", "skip"}
            What the person says.

        Returns
        -------
        int
            The position after that of this entry.
        """
        with self._lock:
            doubted = self._doubted(row, label)
            self.journal.check(row, label, answer, doubted)
            k = self.table.label_names.index(label)
            believed = float(self._beliefs.values.probability[row - 1, k])
            p = None if doubted else round(believed, 6)
            self.journal.add(row, label, answer, p, check=doubted)
            self._beliefs.learn(row - 1, self._answers.row(row))
            made = self.journal.checks if doubted else self.journal.decisions
            return list(made).index((row, label)) + 1

    def answer_row(self, row: int, answers: Mapping[str, str]) -> int:
        """Take answers to several holes of a row; all are checked before the first is written.

        Parameters
        ----------
        row : int
            Row number.
        answers : mapping of str to {"yes", "no", "skip"}
            By label.

        Returns
        -------
        int
            The position after that of this row, as :meth:`row_entry` counts.
        """
        with self._lock:
            self._check_row(row, answers)
            for label, answer in answers.items():
                self.answer(row, label, answer)
            return self._answers.rows().index(row) + 1

    def suppose(self, row: int, answers: Mapping[str, str]) -> dict[str, float]:
        """Probabilities of the other holes of a row if these were the answers; nothing is kept.

        Parameters
        ----------
        row, answers
            As in :meth:`answer_row`.

        Returns
        -------
        dict of str to float
            By label.
        """
        with self._lock:
            self._check_row(row, answers)
            known, names = self._answers.row(row), self.table.label_names
            for label, answer in answers.items():
                known[names.index(label)] = {"yes": 1.0, "no": 0.0}.get(answer, np.nan)
            p = self._beliefs.supposing(row - 1, known[None])[0]
            return {names[k]: float(p[k]) for k in np.flatnonzero(np.isnan(known))}

    def _check_row(self, row: int, answers: Mapping[str, str]) -> None:
        if not answers:
            raise ValueError("There is no answer.")
        for label, answer in answers.items():
            self.journal.check(row, label, answer)

    def labels(self) -> NDArray[np.float64]:
        """The labels of the table with the answers in them."""
        with self._lock:
            return self._answers.labels()

    @property
    def n_rows(self) -> int:
        """Rows of which something was decided."""
        with self._lock:
            return len(self._answers.rows())

    @property
    def _enough(self) -> bool:
        return len(self.journal.decisions) >= self._suggested

    def _ask(self, key: Key, **what: Any) -> Question:
        return make_question(self._answers, self._beliefs, self._used, key, **what)

    def _doubted(self, row: Any, label: Any) -> bool:
        if type(row) is not int or not isinstance(label, str):  # from the page it can be anything
            return False
        return (row, label) in self._doubts or (row, label) in self.journal.checks

    # -------------------------------------------------------------------------- doubtful labels

    def start_doubts(self) -> bool:
        """Look for observed labels that may be wrong, in the background; once is enough.

        Returns
        -------
        bool
            False if that is going on or was done already.
        """
        with self._lock:
            if self.doubting.running or self.doubting.done:
                return False
            self.doubting = Doubting(running=True)
            self._doubting_thread = Thread(target=self._doubt_all, daemon=True)
            self._doubting_thread.start()
            return True

    def _doubt_all(self) -> None:
        ended = Doubting(error="The search broke off; see the terminal.")
        try:
            found = audit_table(self.model, self.table, MOST_DOUBTS)
            keys = zip(found.row.tolist(), found.label, strict=True)
            doubts = dict(zip(keys, found.probability.tolist(), strict=True))
            ended = Doubting(found=len(doubts), done=True)
            with self._lock:
                self._doubts = doubts
        except (ValueError, ArithmeticError, MemoryError) as error:
            ended = Doubting(error=str(error))
        finally:
            with self._lock:
                self.doubting = ended

    # ---------------------------------------------------------------------------------- refitting

    def start_refit(self) -> bool:
        """Fit the model again with the answers so far, in the background.

        Returns
        -------
        bool
            False if that is going on already.
        """
        with self._lock:
            if self.refitting.running:
                return False
            number = self.refitting.number + 1
            self.refitting = replace(self.refitting, running=True, number=number, error="")
            self._thread = Thread(target=self._fit_again, args=(self.labels(),), daemon=True)
            self._thread.start()
            return True

    def wait(self, seconds: float | None = None) -> None:
        """Wait for what goes on in the background to end."""
        for thread in (self._thread, self._doubting_thread):
            if thread is not None:
                thread.join(seconds)

    def _fit_again(self, Y: NDArray[np.float64]) -> None:
        done = replace(self.refitting, running=False, error="The fit broke off; see the terminal.")
        try:
            model = self._refit.fit(Y)
            found = TableBeliefs(model, self.table, Y, self._beliefs)
            quality = self._refit.quality(Y) if self.measured else None
            with self._lock:
                self.model, self.learnt = model, Y
                # Answers that were given meanwhile are conditioned on, not learnt from.
                for row in sorted({key[0] for key, _ in self._answers.said()}):
                    found.learn(row - 1, self._answers.row(row))
                self._beliefs = found
                done = replace(done, error="", quality=quality)
                self._save()
        except (ValueError, ArithmeticError, MemoryError, OSError) as error:
            done = replace(done, error=str(error))
        finally:
            with self._lock:
                self.refitting = done

    def _save(self) -> None:
        # Under the lock: who closes the session waits until the file is whole.
        if self._save_model is None or self._closed:
            return
        try:
            save_bundle(self.model, self._save_model)
        except OSError as error:
            raise OSError(f"The model was fitted, but it cannot be saved: {error}") from error
        self.saved = True

    # -------------------------------------------------------------------------------------- export

    def export(self, output: str | Path) -> int:
        """Write the table with the answers in it, in the spelling of each column.

        Everything else of the file stays as it is, the other holes included.

        Parameters
        ----------
        output : str or Path
            A file of the form of the table (``.npz`` for matrices of numbers); it appears under its
            name when it is complete.

        Returns
        -------
        int
            The number of answers (yes or no) in it that the table has not.

        Raises
        ------
        ValueError
            If the table's file is not the one that was answered any more.
        """
        journal = self.journal
        return export_answers(self.table, self.labels(), Path(output), self._marks, journal.digest)

    def close(self) -> None:
        """Close the journal, after an answer or a model that is being written."""
        with self._lock:
            self._closed = True
            self.journal.close()


def _at(made: Iterable[Made], position: int | None) -> Made | None:
    """What was decided at a position; None for what comes next."""
    keys = list(made)
    return keys[position] if position is not None and 0 <= position < len(keys) else None
