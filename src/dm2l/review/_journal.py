"""Answers on disk, each written before it is confirmed."""

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dm2l.tables import Table

if sys.platform == "win32":
    import msvcrt

    def hold(file: IO[bytes]) -> bool:
        """Lock an open file until it is closed or its process ends; False if another has it."""
        position = file.tell()
        # Locks of Windows keep others from reading, too: a byte far behind the end is taken.
        file.seek(1 << 62)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            file.seek(position)
        return True
else:
    import fcntl

    def hold(file: IO[bytes]) -> bool:
        """Lock an open file until it is closed or its process ends; False if another has it."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


_SEAL = "seal"


def write_line(content: Mapping[str, Any], previous: str) -> tuple[bytes, str]:
    """A line with its end, and its seal, from which that of the next line is computed."""
    text = json.dumps(content, ensure_ascii=False)
    seal = _seal(previous, text)
    return f'{text[:-1]}, "{_SEAL}": "{seal}"}}\n'.encode(), seal


def _read_lines(path: Path, data: bytes) -> tuple[list[dict[str, Any]], str, bytes]:
    """Contents of the lines of a journal, the last seal, and what a crash left of a last line."""
    found: list[dict[str, Any]] = []
    seal, left = "", len(data)
    for number, raw in enumerate(data.splitlines(keepends=True), 1):
        left -= len(raw)
        if not raw.endswith(b"\n") and not left and _incomplete(raw):
            return found, seal, raw
        content, seal = _read_line(path, number, raw, seal)
        found.append(content)
    return found, seal, b""


def damaged(path: Path, number: int, why: str) -> ValueError:
    """The error for a line that is not as it was written."""
    return ValueError(
        f"{path}, line {number}: {why}. A journal is only ever added to; restore the file as "
        "it was (an answer is changed by answering again), or begin a new one."
    )


def _read_line(path: Path, number: int, raw: bytes, previous: str) -> tuple[dict[str, Any], str]:
    short = repr(raw[:40].decode(errors="replace"))
    try:
        # An editor may remove the end of the last line, or change all line ends.
        content = json.loads(raw.decode().rstrip("\r\n"))
        seal = content.pop(_SEAL, None) if isinstance(content, dict) else None
        sealed = _seal(previous, json.dumps(content, ensure_ascii=False))
    except (ValueError, RecursionError) as error:  # nested deeper than Python goes
        raise damaged(path, number, f"{short} is not JSON ({error})") from error
    if not isinstance(seal, str):
        raise damaged(path, number, f"{short} is not a line of a journal")
    if seal != sealed:
        raise damaged(path, number, "this line, or one before it, was changed or left out")
    return content, seal


def _incomplete(raw: bytes) -> bool:
    """Whether this is no more than the beginning of a line."""
    try:
        json.JSONDecoder().raw_decode(raw.decode(errors="replace"))
    except (ValueError, RecursionError) as error:  # others: none that was written here
        return isinstance(error, json.JSONDecodeError)
    return False


def _seal(previous: str, text: str) -> str:
    return hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()[:16]


ANSWERS = ("yes", "no", "skip")
FORMAT = 1  # of the file, in its first line
_OPEN = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


Key = tuple[int, str]  # row, counted from 1, and label


class Decision(NamedTuple):
    """An answer, and the probability of a yes that the model predicted before."""

    answer: str
    probability: float | None = None


class Journal(AbstractContextManager["Journal"]):
    """Answers about one table, in a file of JSON lines that is only appended to.

    A last line that a crash has torn is dropped when the file is opened again. A line that was
    changed, moved or left out is a ValueError, and so is another table than the one that was
    answered; a file that another process has open is a BlockingIOError.

    Parameters
    ----------
    path : str or Path
        The file; it is created if it does not exist.
    table : Table
        The table with the missing labels.

    Attributes
    ----------
    decisions : dict of (int, str) to Decision
        The current decision for each row (1 is the first below the header) and label, in the order
        in which entries were first decided.
    checks : dict of (int, str) to Decision
        The same for observed labels that were confirmed or corrected.
    outputs : set of str
        Full paths of the files that the review writes.
    dropped : str
        A message about the torn last line that was dropped; blank if there was none.
    digest : str
        SHA-256 of the table.

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
        self.digest = table_digest(table)
        self.decisions: dict[Key, Decision] = {}
        self.checks: dict[Key, Decision] = {}
        self.outputs: set[str] = set()
        self.dropped = ""
        self._labels = table.Y.copy()  # with the answers
        head = {
            "journal": "dm2l review",
            "format": FORMAT,
            "table": table.path.name,
            "sha256": self.digest,
            "rows": table.n_rows,
            "labels": list(table.label_names),
        }
        # The lock is taken before the file is read, whether it is new or not.
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
        """Write an answer ("yes", "no" or "skip"); it is on disk when this returns.

        Rows count from 1. A later answer to the same entry replaces it. ``probability`` of a yes is
        what the model predicted; with ``check`` the answer confirms or corrects an observed label.
        """
        self.check(row, label, answer, check)
        content: dict[str, Any] = {"row": row, "label": label, "answer": answer}
        if check:
            content["observed"] = self.observed(row, label)
        if probability is not None:
            content["probability"] = float(probability)
        self._append(content)

    def owns(self, path: str | Path) -> bool:
        """Whether the review writes a file."""
        return str(Path(path).resolve()) in self.outputs

    def own(self, path: str | Path) -> None:
        """Record that the review writes a file, and may overwrite it."""
        if not self.owns(path):
            self._append({"output": str(Path(path).resolve())})

    def check(self, row: Any, label: Any, answer: Any, observed: bool = False) -> None:
        """Raise a ValueError if this is no answer to a missing, or to an observed label."""
        table = self.table
        if answer not in ANSWERS:
            raise ValueError(f"The answer must be one of {', '.join(ANSWERS)}; got {answer!r}.")
        if not isinstance(label, str) or label not in table.label_names:
            raise ValueError(f"{label!r} is not a label of {table.path}.")
        if type(row) is not int or not 1 <= row <= table.n_rows:
            raise ValueError(
                f"{row!r} is not a row of {table.path}, whose rows are 1 to {table.n_rows}."
            )
        missing = not self.observed(row, label)
        if observed and missing:
            raise ValueError(f"Label {label!r} of row {row} is missing in {table.path}.")
        if not observed and not missing:
            raise ValueError(
                f"Label {label!r} of row {row} is not missing in {table.path}: it was observed. "
                "Was the table read with other marks of missing labels?"
            )

    def observed(self, row: Any, label: Any) -> str:
        """The label in the table, blank if it is missing."""
        value = self.table.Y[row - 1, self.table.label_names.index(label)]
        return "" if np.isnan(value) else "yes" if value else "no"

    def labels(self, row: int | None = None) -> NDArray[np.float64]:
        """The labels of the table, or of one row, with the answers."""
        return (self._labels if row is None else self._labels[row - 1]).copy()

    def rows(self) -> list[int]:
        """Rows with a decision, in the order of the first one."""
        return list(dict.fromkeys(row for row, _ in self.decisions))

    def left(self) -> NDArray[np.bool_]:
        """Where labels are missing without a decision."""
        left = np.isnan(self.table.Y)
        for row, label in self.decisions:
            left[row - 1, self.table.label_names.index(label)] = False
        return left

    def close(self) -> None:
        """Close the file, so that another process can open it."""
        self._file.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    # --------------------------------------------------------------------------------- reading

    def _read(self, head: Mapping[str, Any]) -> str:
        if not hold(self._file):
            raise BlockingIOError(
                f"{self.path} is open in another review; end that one, or use another file."
            )
        first = write_line(head, "")[0]
        data = self._file.read()
        if len(data) < len(first) and first.startswith(data):  # new, or left while it was made
            data = self._begin(first)
        known = data.startswith(b'{"journal"')
        lines, seal, torn = _read_lines(self.path, data) if known else ([], "", b"")
        if not lines:
            raise ValueError(f"{self.path} is not a journal of answers; name another file.")
        self._check_head(lines[0], head)
        for number, content in enumerate(lines[1:], 2):
            self._check_line(number, content)
            self._take(content)
        self._size = len(data) - len(torn)
        if torn:
            text = torn[:60].decode(errors="replace")
            self.dropped = (
                f"{self.path}: line {len(lines) + 1} was not written to its end and is "
                f"dropped: {text!r}. An answer in it will be asked for again."
            )
            self._file.truncate(self._size)
            os.fsync(self._file.fileno())
        self._file.seek(self._size)
        if not torn and not data.endswith(b"\n"):  # an editor took it away
            self._write(b"\n")
        return seal

    def _check_head(self, found: Mapping[str, Any], head: Mapping[str, Any]) -> None:
        if found.get("format") != FORMAT:
            raise ValueError(
                f"{self.path} was written by another version of dm2l (format "
                f"{found.get('format')!r}, here {FORMAT})."
            )
        if found.get("labels") != head["labels"]:
            raise ValueError(
                f"{self.path} has answers to the labels {found.get('labels')}, the table "
                f"{self.table.path} has {head['labels']}."
            )
        if found.get("sha256") != head["sha256"]:
            raise ValueError(
                f"{self.path} has answers to another table, {found.get('table')!r}, or "
                f"{self.table.path} has changed since: its SHA-256 is {head['sha256'][:12]}..., "
                f"that of the answers' table is {str(found.get('sha256'))[:12]}... Continue "
                "with the table as it was, or begin a new file of answers."
            )

    def _check_line(self, number: int, content: Mapping[str, Any]) -> None:
        if "output" in content:
            if not isinstance(content["output"], str):
                raise damaged(self.path, number, "its output is not a path")
            return
        row, label, answer = (content.get(key) for key in ("row", "label", "answer"))
        probability = content.get("probability", 0.5)
        try:
            self.check(row, label, answer, "observed" in content)
            if content.get("observed", "") != self.observed(row, label):
                raise ValueError("its observed label is not that of the table")
            if type(probability) not in (int, float) or not 0 <= probability <= 1:
                raise ValueError(f"{probability!r:.40} is not a probability")
        except ValueError as error:
            raise damaged(self.path, number, str(error).rstrip(".")) from error

    def _take(self, content: Mapping[str, Any]) -> None:
        if "output" in content:
            self.outputs.add(content["output"])
            return
        key = content["row"], content["label"]
        probability = content.get("probability")
        made = self.checks if "observed" in content else self.decisions
        place = key[0] - 1, self.table.label_names.index(key[1])
        answer = {"yes": 1.0, "no": 0.0}.get(content["answer"], self.table.Y[place])
        self._labels[place] = answer
        # The model may have learned from the first answer: the first probability counts.
        if key in made:
            probability = made[key].probability
        made[key] = Decision(content["answer"], probability)

    # --------------------------------------------------------------------------------- writing

    def _begin(self, first: bytes) -> bytes:
        self._file.seek(0)
        self._file.truncate()
        self._size = 0
        self._write(first)
        if os.name == "posix":  # the name of a new file is on disk when its folder is
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        return first

    def _append(self, content: dict[str, Any]) -> None:
        content["time"] = datetime.now(UTC).isoformat(timespec="milliseconds")
        line, seal = write_line(content, self._seal)
        self._write(line)
        self._seal = seal
        self._take(content)

    def _write(self, data: bytes) -> None:
        try:
            if self._file.write(data) != len(data):
                raise OSError(f"{self.path}: no room for another answer on this disk.")
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(self._size)
            self._file.seek(self._size)
            raise
        self._size += len(data)


def table_digest(table: Table) -> str:
    """SHA-256 of a table's file; of its columns and labels if it never was in one."""
    if table.path.is_file():
        with table.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    text = "" if table.frame is None else table.frame.to_csv(index=False)
    return hashlib.sha256(text.encode() + table.Y.tobytes()).hexdigest()
