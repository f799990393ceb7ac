"""The file of answers of a review. Each answer is saved to disk before the next question."""

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dm2l.labels._logic import RuleLogic
from dm2l.labels._rules import LabelRules
from dm2l.review._columns import asked_columns
from dm2l.review._sample import Key, Sample, kind_of
from dm2l.tables import Table
from dm2l.tables._measures import signs_of

_SEAL = "seal"


def hold(file: IO[bytes]) -> bool:
    """Lock a file until it is closed; return False if another process has locked it."""
    try:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt

            # On Windows, locked bytes cannot be read, so lock one far after the end of the file.
            file.seek(1 << 62)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            file.seek(0)
    except (BlockingIOError, PermissionError):
        return False
    return True


def write_line(content: Mapping[str, Any], previous: str) -> tuple[bytes, str]:
    """Return a line of a journal, and a hash of this line and all earlier lines as its seal."""
    text = json.dumps(content, ensure_ascii=False)
    seal = _seal(previous, text)
    return f'{text[:-1]}, "{_SEAL}": "{seal}"}}\n'.encode(), seal


def _read_lines(path: Path, data: bytes) -> tuple[list[dict[str, Any]], str, bytes]:
    """Return the content of each line of a journal, the last seal, and an incomplete last line."""
    found: list[dict[str, Any]] = []
    seal, lines = "", data.splitlines(keepends=True)
    for number, raw in enumerate(lines, 1):
        short = repr(raw[:40].decode(errors="replace"))
        try:
            # An editor may change line ends or remove the last line end.
            content = json.loads(raw.decode().rstrip("\r\n"))
            given = content.pop(_SEAL, None) if isinstance(content, dict) else None
            seal = _seal(seal, json.dumps(content, ensure_ascii=False))
        except (ValueError, RecursionError) as error:  # Python limits the depth of nesting
            if number == len(lines) and not raw.endswith(b"\n") and _is_incomplete(raw):
                return found, seal, raw
            raise damaged(path, number, f"{short} is not JSON ({error})") from error
        if not isinstance(given, str):
            raise damaged(path, number, f"{short} is not a record of an answers file")
        if given != seal:
            raise damaged(path, number, "this line or an earlier line was changed or removed")
        found.append(content)
    return found, seal, b""


def _is_incomplete(raw: bytes) -> bool:
    with suppress(RecursionError):  # a journal never contains deep nesting
        try:
            json.JSONDecoder().raw_decode(raw.decode(errors="replace"))
        except json.JSONDecodeError:
            return True
    return False


def damaged(path: Path, number: int, why: str) -> ValueError:
    """Return the error that reports a damaged line of a journal."""
    return ValueError(
        f"{path}, line {number}: {why}. Restore the unchanged file, or start a new file. To "
        "change an answer, answer the question again."
    )


def _seal(previous: str, text: str) -> str:
    return hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()[:16]


ANSWERS = ("yes", "no", "skip")
_VALUES = {"yes": 1.0, "no": 0.0}
FORMAT = 1  # version of the file format, in the first line
_OPEN = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class Decision(NamedTuple):
    """An answer, and the probability of a positive label predicted before the answer."""

    answer: str
    probability: float | None = None


class Journal(AbstractContextManager["Journal"]):
    """Answers about a single table, in an append-only file of JSON lines.

    Opening the file drops an incomplete last line, which a crash may leave. A ValueError is raised
    if a line was changed or removed, or if the file belongs to another table, and a BlockingIOError
    if another process has opened the file.

    Parameters
    ----------
    path : str or Path
        The file, which is created if it does not exist.
    table : Table
        The table with the missing labels.

    Attributes
    ----------
    decisions : dict of (int, str) to Decision
        The current decision by row (counted from 1) and label, in the order of first decisions.
    checks : dict of (int, str) to Decision
        The current decision for each confirmed or corrected observed label.
    outputs : set of str
        Full paths of the files that the review writes.
    columns : dict of str to AskedColumn
        The columns that the review asks about, by column name and by label name.
    sample : Sample or None
        The random sample from which error rates are estimated.
    dropped : str
        Message about an incomplete last line that was dropped, or an empty string.
    digest : str
        SHA-256 hash of the table.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from dm2l.review import Journal
    >>> from dm2l.tables import table_from_frame
    >>> frame = pd.DataFrame({"mass": [1.5, 2.0], "tox_a": ["yes", None], "tox_b": [None, "no"]})
    >>> table = table_from_frame(frame, "tox_*")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "answers.jsonl")
    ...     with Journal(path, table) as journal:
    ...         journal.add(2, "tox_a", "no", 0.4)
    ...         journal.add(1, "tox_b", "skip")
    ...         journal.add(2, "tox_a", "yes")
    ...     with Journal(path, table) as journal:
    ...         journal.decisions
    {(2, 'tox_a'): Decision(answer='yes', probability=0.4),
     (1, 'tox_b'): Decision(answer='skip', probability=None)}
    """

    def __init__(self, path: str | Path, table: Table) -> None:
        self.path = Path(path)
        self.table = table
        self.columns = asked_columns(table)
        self.digest = table_digest(table)
        self.decisions: dict[Key, Decision] = {}
        self.checks: dict[Key, Decision] = {}
        self.outputs: set[str] = set()
        self.sample: Sample | None = None
        self.dropped = ""
        self._said = table.Y.copy()  # labels with the answers
        self._labels = self._said  # labels with the answers and with labels that follow from them
        self._logic: RuleLogic | None = None
        head = {
            "journal": "dm2l review",
            "format": FORMAT,
            "table": table.path.name,
            "sha256": self.digest,
            "rows": table.n_rows,
            "labels": list(table.label_names),
        }
        # Lock the file before reading it, because two processes may create it at the same time.
        self._file = os.fdopen(os.open(self.path, _OPEN, 0o666), "r+b", buffering=0)
        try:
            self._seal = self._read(head)
        except (ValueError, OSError):
            self._file.close()
            raise

    def add(
        self,
        row: int,
        label: str,
        answer: str,
        probability: float | None = None,
        *,
        check: bool = False,
    ) -> None:
        """Save an answer ("yes", "no" or "skip") to disk; it replaces any earlier answer.

        Rows are counted from 1. ``probability`` is the predicted probability of a positive label.
        With ``check``, the answer confirms or corrects an observed label.
        """
        self.check(row, label, answer, check)
        content: dict[str, Any] = {"row": row, "label": label, "answer": answer}
        if check:
            content["observed"] = self.observed(row, label)
        if probability is not None:
            content["probability"] = float(probability)
        self._append(content)

    def owns(self, path: str | Path) -> bool:
        """Return whether the review has recorded a file as its output."""
        return str(Path(path).resolve()) in self.outputs

    def own(self, path: str | Path) -> None:
        """Record a file as an output of the review, so that the review may overwrite the file."""
        if not self.owns(path):
            self._append({"output": str(Path(path).resolve())})

    def start_sample(self, sample: Sample) -> None:
        """Save a sample of filled entries; it replaces an earlier sample."""
        entries = [[*key, answer] for key, answer in sample.entries.items()]
        self._append({"sample": entries, "filled": sample.filled})

    def check(self, row: Any, label: Any, answer: Any, observed: bool = False) -> None:
        """Raise a ValueError if an answer, its row or its label is invalid."""
        table = self.table
        if answer not in ANSWERS:
            raise ValueError(f"The answer must be one of {', '.join(ANSWERS)}, got {answer!r}.")
        if not isinstance(label, str) or label not in table.label_names:
            raise ValueError(f"{label!r} is not a label of {table.path}.")
        if type(row) is not int or not 1 <= row <= table.n_rows:
            raise ValueError(
                f"{row!r} is not a row of {table.path}, which has rows 1 to {table.n_rows}."
            )
        if bool(self.observed(row, label)) != observed:
            raise ValueError(
                f"Label {label!r} of row {row} is {'' if observed else 'not '}missing in "
                f"{table.path}. To continue a review, pass the same --missing as before."
            )

    def observed(self, row: Any, label: Any) -> str:
        """Return the label in the table as "yes" or "no", or "" if it is missing."""
        value = self.table.Y[row - 1, self.table.label_names.index(label)]
        return "" if np.isnan(value) else "yes" if value else "no"

    def labels(self, row: int | None = None) -> NDArray[np.float64]:
        """Return the labels of the table or of a row, with answers and labels implied by rules."""
        return (self._labels if row is None else self._labels[row - 1]).copy()

    @property
    def implied(self) -> NDArray[np.bool_]:
        """Return a mask of labels that rules imply and that are neither observed nor answered."""
        return np.isnan(self._said) & ~np.isnan(self._labels)

    def obey(self, rules: LabelRules | None) -> None:
        """Apply rules from now on: fill in labels that observed labels and answers imply."""
        if rules is not None:
            self._logic = RuleLogic(list(rules._rules()), self.table.label_names)
            self._labels = self._closed(self._said)

    def suppose(self, row: int, answers: Mapping[str, str]) -> NDArray[np.float64]:
        """Return the labels of a row with ``answers``; raise an error if rules are violated."""
        said = self._given(row - 1, answers)
        if self._logic is not None:
            signs = signs_of(np.stack([said, self._said[row - 1]]))
            now, before = self._logic.propagate(signs).contradictory
            if now and not before:
                raise ValueError(
                    f"The answers contradict the rules: {self._logic.explain(signs[0])}. Change "
                    "one of the answers."
                )
        return self._closed(said[None])[0]

    def _given(self, i: int, answers: Mapping[str, str]) -> NDArray[np.float64]:
        said = self._said[i].copy()
        for label, answer in answers.items():
            k = self.table.label_names.index(label)
            said[k] = _VALUES.get(answer, self.table.Y[i, k])
        return said

    def _closed(self, said: NDArray[np.float64]) -> NDArray[np.float64]:
        """Fill in labels that rules imply, except in rows that contradict the rules."""
        if self._logic is None:
            return said
        signs = self._logic.propagate(signs_of(said)).signs
        return np.where(signs == 0, np.nan, signs > 0)

    def answer(self, row: int, name: str) -> str:
        """Return the current answer to a question: "skip" if it was skipped, "" if it is open."""
        column, names = self.columns[name], self.table.label_names
        made = self.checks if self.observed(row, names[column.labels[0]]) else self.decisions
        words = {made[row, names[k]].answer for k in column.labels if (row, names[k]) in made}
        return column.answer(self._labels[row - 1]) if words - {"skip"} else "".join(words)

    @property
    def made(self) -> dict[Key, Decision]:
        """Return the current decisions on missing labels and on observed labels."""
        return self.decisions | self.checks

    def rows(self) -> list[int]:
        """Return the rows with a decision, in the order of their first decisions."""
        return list(dict.fromkeys(row for row, _ in self.decisions))

    def left(self) -> NDArray[np.bool_]:
        """Return a mask of the missing labels without a decision."""
        left = np.isnan(self._labels)
        for row, label in self.decisions:
            left[row - 1, self.table.label_names.index(label)] = False
        return left

    def close(self) -> None:
        """Close the file, so that another process can open it."""
        self._file.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, head: Mapping[str, Any]) -> str:
        if not hold(self._file):
            raise BlockingIOError(
                f"{self.path} is open in another review. Stop that review, or use another file."
            )
        first = write_line(head, "")[0]
        data = self._file.read()
        if len(data) < len(first) and first.startswith(data):  # the file is new or incomplete
            data = self._begin(first)
        known = data.startswith(b'{"journal"')
        lines, seal, torn = _read_lines(self.path, data) if known else ([], "", b"")
        if not lines:
            raise ValueError(f"{self.path} is not a file of answers. Pass another file.")
        self._check_head(lines[0], head)
        for number, content in enumerate(lines[1:], 2):
            try:
                self._take(self._parsed(content))
            except ValueError as error:
                raise damaged(self.path, number, str(error).rstrip(".")) from error
        self._size = len(data) - len(torn)
        if torn:
            text = torn[:60].decode(errors="replace")
            self.dropped = (
                f"{self.path}: line {len(lines) + 1} is incomplete and was dropped: {text!r}. Its "
                "question will be asked again."
            )
            self._file.truncate(self._size)
            os.fsync(self._file.fileno())
        self._file.seek(self._size)
        if not torn and not data.endswith(b"\n"):  # an editor may have removed the last line end
            self._write(b"\n")
        return seal

    def _check_head(self, found: Mapping[str, Any], head: Mapping[str, Any]) -> None:
        if found.get("format") != FORMAT:
            raise ValueError(
                f"{self.path} has format {found.get('format')!r} of another version of dm2l, but "
                f"this version reads format {FORMAT}. Start a new file of answers."
            )
        if found.get("labels") != head["labels"]:
            raise ValueError(
                f"{self.path} has answers for the labels {found.get('labels')}, but "
                f"{self.table.path} has {head['labels']}. Pass the file of answers for this table."
            )
        if found.get("sha256") != head["sha256"]:
            raise ValueError(
                f"{self.path} has answers for another table, {found.get('table')!r}, or "
                f"{self.table.path} has changed. Pass the unchanged table, or start a new file of "
                "answers."
            )

    def _parsed(self, content: Any) -> Any:
        """Return the decision, sample or output in a line; raise a ValueError for invalid lines."""
        if "output" in content:
            if isinstance(content["output"], str):
                return content["output"]
            raise ValueError(f"the output {content['output']!r:.40} is not a path")
        if "sample" in content:
            try:
                return self._sample_of(content)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise ValueError(f"the random sample is invalid: {error}") from error
        row, label, answer, p = map(content.get, ("row", "label", "answer", "probability"))
        self.check(row, label, answer, "observed" in content)
        if content.get("observed", "") != self.observed(row, label):
            raise ValueError(f"the observed label {content['observed']!r:.40} has changed")
        if "probability" in content and not (type(p) in (int, float) and 0 <= p <= 1):
            raise ValueError(f"{p!r:.40} is not a probability")
        return (row, label), Decision(answer, p)

    def _sample_of(self, content: Mapping[str, Any]) -> Sample:
        kinds = ["yes", "no", *["values"] * any(column.group for column in self.columns.values())]
        filled = {kind: content["filled"].get(kind) for kind in kinds}
        entries = {(row, name): word for row, name, word in content["sample"]}
        for (row, name), word in entries.items():
            for label, answer in self.columns[name].answers(word).items():
                self.check(row, label, answer)
        counts = Counter(map(kind_of, entries.values()))
        if any(type(n) is not int or n < counts[answer] for answer, n in filled.items()):
            raise ValueError("it contains more entries than were filled")
        if counts["skip"] or len(entries) < len(content["sample"]):
            raise ValueError("it contains a skipped entry, or the same entry twice")
        return Sample(entries, filled)

    def _take(self, found: Any) -> None:
        if isinstance(found, str):
            self.outputs.add(found)
            return
        if isinstance(found, Sample):
            self.sample = found
            return
        key, decision = found
        row = key[0] - 1
        self._said[row] = self._given(row, {key[1]: decision.answer})
        self._labels[row] = self._closed(self._said[[row]])[0]
        made = self.checks if self.observed(*key) else self.decisions
        # Keep the first probability, because a refit may have used the first answer.
        made[key] = decision._replace(probability=made.get(key, decision).probability)

    def _begin(self, first: bytes) -> bytes:
        self._file.seek(0)
        self._file.truncate()
        self._size = 0
        self._write(first)
        if os.name == "posix":  # sync the folder to save the name of a new file
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        return first

    def _append(self, content: dict[str, Any]) -> None:
        found = self._parsed(content)
        content["time"] = datetime.now(UTC).isoformat(timespec="milliseconds")
        line, seal = write_line(content, self._seal)
        self._write(line)
        self._seal = seal
        self._take(found)

    def _write(self, data: bytes) -> None:
        try:
            if self._file.write(data) != len(data):
                raise OSError(f"{self.path}: the answer was not saved. Free up disk space.")
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(self._size)
            self._file.seek(self._size)
            raise
        self._size += len(data)


def table_digest(table: Table) -> str:
    """Return the SHA-256 hash of a table's file or, without a file, of its columns and labels."""
    if table.path.is_file():
        with table.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    text = "" if table.frame is None else table.frame.to_csv(index=False)
    return hashlib.sha256(text.encode() + table.Y.tobytes()).hexdigest()
