"""Commands to be killed: what they do, what they leave, and what of it is right."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from dm2l.cli._commands import cli
from dm2l.review import Journal
from dm2l.tables import load_bundle, read_table
from fuzz.corpus import CORPUS

TABLE = CORPUS / "table.csv"
FIT = ["--labels", "t_*", "--estimate-folds", "0", "--folds", "2", "--kernel", "linear"]
FIT += ["--lambda-d", "0.1", "--alpha", "1"]


def tell(pipe: int, **said: Any) -> None:
    """A line in one write, which is whole or not there."""
    os.write(pipe, json.dumps(said).encode() + b"\n")


class Killed:
    """A command in a folder; ``act`` and ``look`` run in processes of their own."""

    renames = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def act(self, pipe: int) -> None:
        """Run it, and tell what is safe."""
        raise NotImplementedError

    def look(self, pipe: int) -> None:
        """Tell what is there."""
        raise NotImplementedError

    def sizes(self) -> tuple[int, int] | None:
        """Bytes between which a file that is being written has its end; None for a journal."""
        return None

    def check(self, seen: list[Any], told: list[Any]) -> tuple[int, int]:
        """How much is lost, and how much is half."""
        raise NotImplementedError

    def reset(self) -> None:
        """Begin anew."""

    def after(self, rng: random.Random) -> None:
        """Begin anew now and then, where a command goes on with what there is."""


class Overwritten(Killed):
    """A command that replaces a file: the old one, or the new one."""

    name, arguments = "", ()

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.target = folder / self.name
        self.old, self.new = self.prepared(), b""
        self.reset()

    def prepared(self) -> bytes:
        """What is there before."""
        raise NotImplementedError

    def act(self, pipe: int) -> None:
        cli([*map(str, self.arguments), "-o", str(self.target), "--force"], standalone_mode=False)

    def look(self, pipe: int) -> None:
        tell(pipe, there=self.target.exists(), whole=self.whole())

    def whole(self) -> bool:
        """Whether what is there is a file of its kind."""
        return True

    def is_new(self, found: bytes) -> bool:
        """Whether this is what an undisturbed command writes."""
        return found == self.new

    def sizes(self) -> tuple[int, int]:
        return 1, len(self.new)

    def check(self, seen: list[Any], told: list[Any]) -> tuple[int, int]:
        found = self.target.read_bytes() if self.target.exists() else b""
        self.new = self.new or found  # of the first, which nobody disturbs
        proper = found == self.old or (seen and seen[0]["whole"] and self.is_new(found))
        self.reset()
        return int(not found), int(bool(found) and not proper)

    def reset(self) -> None:
        self.target.write_bytes(self.old)
        for part in self.folder.glob(".*.part.*"):  # of killed ones
            part.unlink()


class Fit(Overwritten):
    """``dm2l fit``: an old model, or a new one that loads."""

    name = "model.dm2l"
    arguments = ("fit", TABLE, *FIT)

    def prepared(self) -> bytes:
        fitted = self.folder / "old.dm2l"
        in_child(lambda: cli(["fit", str(TABLE), *FIT, "--alpha", "9", "-o", str(fitted)]))
        return fitted.read_bytes()

    def whole(self) -> bool:
        load_bundle(self.target)  # which compares hashes of all that is in it
        return True

    def is_new(self, found: bytes) -> bool:
        return True  # the time is in it


class Complete(Overwritten):
    """``dm2l complete``: an old table, or the new one."""

    name = "out.csv"

    def prepared(self) -> bytes:
        model = self.folder / "model.dm2l"
        in_child(lambda: cli(["fit", str(TABLE), *FIT, "-o", str(model)]))
        self.arguments = ("complete", model, TABLE)
        return b"old\n"


class Review(Killed):
    """``dm2l review``: every answer that was confirmed, and a written table that is whole."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.journal, self.output = folder / "answers.jsonl", folder / "out.csv"
        self.table = folder / "table.csv"
        rows = TABLE.read_text().splitlines()
        self.table.write_text("\n".join([rows[0], *(rows[1:] * 8)]))
        in_child(lambda: cli(["fit", str(self.table), *FIT, "-o", str(folder / "model.dm2l")]))
        self.answered: dict[str, str] = {}

    def act(self, pipe: int) -> None:
        """The command, with somebody who answers as fast as it goes, then presses Ctrl-C."""
        ends = os.pipe()
        os.dup2(ends[1], 1)
        sys.stdout = os.fdopen(1, "w")
        signal.signal(signal.SIGINT, signal.default_int_handler)
        Thread(target=self._answer, args=(ends[0], pipe), daemon=True).start()
        files = ["review", self.folder / "model.dm2l", self.table, "--answers", self.journal]
        options = ["-o", self.output, "--no-browser", "--json"]
        cli([*map(str, [*files, *options])], standalone_mode=False)

    def _answer(self, page: int, pipe: int) -> None:
        try:
            with os.fdopen(page) as lines:
                base = json.loads(lines.readline())["url"]
            for k in range(12):
                entry = _ask(base, "state")["entry"]
                if entry is None:
                    break
                key, word = f"{entry['row']} {entry['label']}", ("yes", "no", "skip")[k % 3]
                tell(pipe, tried=key, answer=word)
                answers = {entry["label"]: word}
                _ask(base, "answer", {"row": entry["row"], "answers": answers, "queue": "entries"})
                tell(pipe, key=key, answer=word)
                if k % 4 == 3:
                    _ask(base, "export", {})
        except Exception as error:
            tell(pipe, failed=repr(error))
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    def look(self, pipe: int) -> None:
        with Journal(self.journal, read_table(self.table, "t_*")) as journal:
            found = {f"{row} {label}": d.answer for (row, label), d in journal.decisions.items()}
        rows = read_table(self.output, "t_*").n_rows if self.output.exists() else None
        tell(pipe, decisions=found, rows=rows, size=self.journal.stat().st_size)

    def check(self, seen: list[Any], told: list[Any]) -> tuple[int, int]:
        if not seen:
            return 1, 1  # the journal or the table cannot be read
        if failed := [one["failed"] for one in told if "failed" in one]:
            raise RuntimeError(f"the page does not answer: {failed}")
        found = seen[0]["decisions"]
        safe = self.answered | {one["key"]: one["answer"] for one in told if "key" in one}
        tried = {one["tried"]: one["answer"] for one in told if "tried" in one}
        lost = sum(found.get(key) != word for key, word in safe.items())
        odd = sum({**safe, **tried}.get(key) != word for key, word in found.items())
        self.answered = found
        return lost, odd + (seen[0]["rows"] not in (None, 8 * 24))

    def reset(self) -> None:
        self.journal.unlink(missing_ok=True)
        self.output.unlink(missing_ok=True)
        self.answered = {}

    def after(self, rng: random.Random) -> None:
        if len(self.answered) > 40:
            self.reset()


def _ask(base: str, name: str, body: Any = None) -> Any:
    parts = urlsplit(base + name)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    headers = {"Origin": f"http://{parts.netloc}", "Content-Type": "application/json"}
    content = None if body is None else json.dumps(body)
    connection.request("GET" if body is None else "POST", parts.path, content, headers)
    reply = connection.getresponse()
    text = reply.read()
    connection.close()
    if reply.status != 200:
        raise RuntimeError(f"{name}: {reply.status} {text!r:.200}")
    return json.loads(text)


def in_child(action: Callable[[], Any]) -> None:
    """Do something in a process of its own: threads that it starts would not survive a fork."""
    child = os.fork()
    if not child:
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            with suppress(SystemExit), redirect_stderr(None):  # that is how click ends
                action()
            code = 0
        finally:
            os._exit(code)
    if os.waitpid(child, 0)[1]:
        raise RuntimeError("a file cannot be prepared")


COMMANDS: dict[str, Callable[[Path], Killed]] = {
    "review": Review,
    "complete": Complete,
    "fit": Fit,
}
