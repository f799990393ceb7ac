"""A person's walk through the holes of a table, without any page, and how far it is."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import RLock, Thread
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dm2l.readers.csv_file import TEXT
from dm2l.readers.parquet_file import PARQUET
from dm2l.readers.unpacking import form, unpacked_name
from dm2l.review._journal import Decision, Journal, table_digest
from dm2l.review._question import Belief, Key, Question, beliefs, make_question
from dm2l.review._refit import Refit, Refitting
from dm2l.tables import (
    Completion,
    Table,
    TableModel,
    save_bundle,
    suggest_entries,
    write_completion,
)


class Progress(NamedTuple):
    """How far a review is.

    ``suggested`` entries are asked for in all; ``answered`` of them got a yes or no, ``skipped``
    none. Of the ``believed`` answers to which the model gave a probability when it asked,
    ``foreseen`` lie on its side of one half: it had not learnt from them yet.
    """

    suggested: int
    answered: int
    skipped: int
    foreseen: int
    believed: int

    @property
    def decided(self) -> int:
        """Entries that were answered or skipped."""
        return self.answered + self.skipped


def _count(decisions: Mapping[Key, Decision], suggested: int) -> Progress:
    """Sum up what was decided."""
    answered = [made for made in decisions.values() if made.answer != "skip"]
    known = [(answer == "yes", p) for answer, p in answered if p is not None]
    return Progress(
        suggested=suggested,
        answered=len(answered),
        skipped=len(decisions) - len(answered),
        foreseen=sum((p > 0.5) == yes for yes, p in known),
        believed=len(known),
    )


class ReviewSession:
    """A model's questions about the holes of a table, and a person's answers.

    Entries have positions: those that were decided come first, in the order in which that
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
    >>> from dm2l.tables import Wishes, fit_table, table_from_frame
    >>> frame = pd.DataFrame({"mass": [i % 7 for i in range(60)]})
    >>> frame["tox_a"] = [i % 7 > 3 if i % 3 else None for i in range(60)]
    >>> table = table_from_frame(frame, "tox_*")
    >>> model = fit_table(table, Wishes("linear", 0.1, 1.0), estimate_folds=0)
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
        self.refitting = Refitting()
        self.saved = False
        self._save_model = None if save_model is None else Path(save_model)
        self._closed = False
        self._marks = [*model.missing, *missing]
        self._lock = RLock()
        self._refit = Refit(model, table)
        self._thread: Thread | None = None
        uses = model.uses
        self._used = None if uses is None else frozenset(use.name for use in uses if use.used)
        holes = int(np.isnan(table.Y).sum())
        if not holes:
            raise ValueError(f"{table.path}: no label has a hole; there is nothing to answer.")
        decided = len(journal.decisions)
        self._suggested = holes if top is None else min(holes, max(top, decided))
        # Every hole has a belief, also those that were decided: a person may go back to them.
        found = suggest_entries(model, table)
        self.warnings = found.warnings
        self._beliefs = beliefs(found)
        self._queue = list(self._beliefs)
        if decided:
            self._ask(self._rank(model, self.labels()))

    # -------------------------------------------------------------------------- entries, answers

    @property
    def progress(self) -> Progress:
        """How far this is."""
        with self._lock:
            return _count(self.journal.decisions, self._suggested)

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
            decisions = self.journal.decisions
            if position is not None and 0 <= position < len(decisions):
                key = list(decisions)[position]
            else:
                left = self._next()
                if left is None:
                    return None
                key = left
            return make_question(self.table, key, self._beliefs, decisions, self._used)

    def answer(self, row: int, label: str, answer: str) -> int:
        """Take an answer, or change one; it is on disk when this returns.

        Parameters
        ----------
        row : int
            Row number; 1 is the first row below the header.
        label : str
            Name of the label.
        answer : {"yes", "no", "skip"}
            What the person says.

        Returns
        -------
        int
            The position after that of this entry.
        """
        with self._lock:
            self.journal.check(row, label, answer)
            probability = round(self._beliefs[row, label].probability, 6)
            self.journal.add(row, label, answer, probability)
            return list(self.journal.decisions).index((row, label)) + 1

    def labels(self) -> NDArray[np.float64]:
        """The labels of the table with the answers in them."""
        with self._lock:
            Y = self.table.Y.copy()
            for (row, label), (answer, _) in self.journal.decisions.items():
                if answer != "skip":
                    Y[row - 1, self.table.label_names.index(label)] = answer == "yes"
            return Y

    def _next(self) -> Key | None:
        decisions = self.journal.decisions
        if len(decisions) >= self._suggested:
            return None
        return next((key for key in self._queue if key not in decisions), None)

    def _rank(self, model: TableModel, Y: NDArray[np.float64]) -> dict[Key, Belief]:
        """Holes of these labels, the most valuable first."""
        return beliefs(suggest_entries(model, replace(self.table, Y=Y)))

    def _ask(self, found: dict[Key, Belief]) -> None:
        """Ask in this order from now on; what was answered keeps the belief it was asked with."""
        with self._lock:
            self._queue = list(found)
            self._beliefs |= found

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
        """Wait for the refit to end, if one is going on."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _fit_again(self, Y: NDArray[np.float64]) -> None:
        done = replace(self.refitting, running=False, error="The fit broke off; see the terminal.")
        try:
            model = self._refit.fit(Y)
            found = self._rank(model, Y)
            quality = self._refit.quality(Y)
            with self._lock:
                self.model = model
                self._ask(found)
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
            The number of answers (yes or no) in it.

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


def export_answers(
    table: Table, Y: NDArray[np.float64], output: Path, marks: Sequence[str], digest: str
) -> int:
    """Write a table with those holes filled that ``Y`` fills; returns how many these are."""
    if not table.path.is_file():
        raise ValueError(f"{table.path} is not a file, so there is no table to put answers into.")
    if table_digest(table) != digest:
        raise ValueError(
            f"{table.path} has changed since the review began, so that answers may not belong to "
            "its rows any more. Restore it as it was; the answers are kept."
        )
    given = np.isnan(table.Y) & ~np.isnan(Y)
    completion = Completion(
        label_names=table.label_names,
        holes=given,
        positive=given & (Y == 1),
        look=np.zeros_like(given),
        probabilities=np.zeros(given.shape),
        warnings=[],
    )
    # Details in a file of their own keep the table free of further columns; nobody asked for them.
    with tempfile.TemporaryDirectory() as folder:
        write_completion(
            completion, table, output, missing=marks, details=Path(folder, "details.csv")
        )
    return int(given.sum())


def export_name(table: Table) -> str:
    """A name for the table with answers, of the form in which it is written."""
    name = unpacked_name(table.path)
    suffix = name.suffix if form(name) in (*TEXT, *PARQUET) else ".npz"
    return f"{name.stem}-reviewed{suffix}"
