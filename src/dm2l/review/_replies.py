"""Replies to the requests of the page."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dm2l.review._answers import export_name
from dm2l.review._refit import Quality
from dm2l.review._session import ReviewSession
from dm2l.review._web import Reply, json_reply
from dm2l.tables._measures import MEASURES

_PAGE = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
}


class Replies:
    """Replies to the requests of the page, which are authorised before."""

    def __init__(self, session: ReviewSession, output: Path | None) -> None:
        self.session, self.output = session, output
        folder = files("dm2l.review")
        self._static = {
            name: Reply(folder.joinpath(file).read_bytes(), kind)
            for name, (file, kind) in _PAGE.items()
        }

    def get(self, name: str, query: Mapping[str, str]) -> Reply | None:
        """Reply to a GET request; None if the name is unknown."""
        if name == "state":
            at = query.get("at", "")
            at_number = int(at) if at.isascii() and at.isdecimal() else None
            return self._state(at_number, query.get("queue", "entries"))
        if name == "download":
            return self._download()
        return self._static.get(name)

    def post(self, name: str, body: Any) -> Reply | None:
        """Reply to a POST request; None if the name is unknown."""
        if name == "answer":
            if not isinstance(body, dict) or set(body) != {"row", "label", "answer"}:
                raise ValueError("An answer has row, label and answer, and nothing else.")
            following = self.session.answer(body["row"], body["label"], body["answer"])
            missing = (body["row"], body["label"]) in self.session.journal.decisions
            return self._state(following, "entries" if missing else "label_errors")
        if name in ("answers", "suppose"):
            answers = body.get("answers") if isinstance(body, dict) else None
            if not isinstance(answers, dict) or set(body) != {"row", "answers"}:
                raise ValueError("Answers to a row have row and answers, and nothing else.")
            if name == "suppose":
                return json_reply(self.session.suppose(body["row"], answers))
            return self._state(self.session.answer_row(body["row"], answers), "rows")
        if name in ("label_errors", "refit"):
            session = self.session
            begun = session.start_refit() if name == "refit" else session.start_label_errors()
            return json_reply({"begun": begun}, 202 if begun else 409)
        if name == "export":
            if self.output is None:
                raise ValueError("No file was named to export to; download the table instead.")
            n_answers = self.session.export(self.output)
            return json_reply({"path": str(self.output), "n_answers": n_answers})
        return None

    def _state(self, at: int | None, queue: str) -> Reply:
        session = self.session
        # First the states: what a run has changed is there once it has ended.
        refit, label_errors = session.refit_state, session.label_errors_state
        progress, quality = session.progress, session.quality
        queues = {
            "entries": (session.entry, progress.decided),
            "rows": (session.row_entry, session.n_rows),
            "label_errors": (session.label_error, progress.checked),
        }
        if queue not in queues:
            raise ValueError(f"There is no queue {queue!r:.40}.")
        ask, made = queues[queue]
        state = {
            "table": session.table.path.name,
            "queue": queue,
            "position": made if at is None else min(at, made),
            "made": made,
            "progress": {**progress._asdict(), "decided": progress.decided},
            "entry": ask(at),
            "refit": {**refit._asdict(), "quality": quality and _quality(quality)},
            "label_errors": {**label_errors._asdict(), "done": label_errors.done},
            "output": None if self.output is None else str(self.output),
        }
        return json_reply(state)

    def _download(self) -> Reply:
        name = export_name(self.session.table) if self.output is None else self.output.name
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "table").with_suffix(Path(name).suffix)
            self.session.export(path)
            content = path.read_bytes()
        return Reply(
            content,
            "application/octet-stream",
            disposition=f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        )


def _quality(quality: Quality) -> dict[str, Any]:
    return {
        **{key: vars(quality)[key] for key in ("n_answers", "n_entries", "repetitions")},
        "measures": [
            {
                "words": words,
                "higher_is_better": up,
                "before": quality.before[key].mean,
                "after": quality.after[key].mean,
                "change": quality.change[key],
            }
            for key, words, up in MEASURES
            if not math.isnan(quality.after[key].mean)
        ],
    }
