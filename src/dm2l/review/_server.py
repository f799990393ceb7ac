"""The page of a review, for one person on this machine."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from secrets import compare_digest, token_urlsafe
from typing import Any
from urllib.parse import quote

from dm2l.review._refit import Quality
from dm2l.review._session import ReviewSession, export_name
from dm2l.review._web import LOOPBACK, AccessError, Handler, LocalServer, Reply, json_reply
from dm2l.tables._measures import MEASURES

_PAGE = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
}
_HEADERS = {
    # Nothing but this package's own script and style may run, load or be sent anywhere.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address has the token in it
    **Handler.sent_headers,
}


def check_host(host: str) -> None:
    """Refuse an interface that other machines can reach."""
    if host not in LOOPBACK:
        raise ValueError(
            "A review is served to this machine only: host must be 127.0.0.1 or ::1, got "
            f"{host!r}. From another machine, use 'ssh -L'."
        )


class _Handler(Handler):
    """A request of the page."""

    server: ReviewServer
    sent_headers = _HEADERS

    def admitted(self, path: str) -> str:
        token, slash, name = path.removeprefix("/").partition("/")
        if not compare_digest(token.encode(), self.server.token.encode()) or not slash:
            raise AccessError(
                403, "The token is missing or wrong: open the address that was printed."
            )
        return name

    def get(self, name: str, query: dict[str, str]) -> Reply | None:
        if name == "state":
            at = query.get("at", "")
            at_number = int(at) if at.isascii() and at.isdecimal() else None
            return self._state(at_number, query.get("queue", "entries"))
        if name == "download":
            return self._download()
        return self.server.static.get(name)

    def post(self, name: str) -> Reply | None:
        if self.headers.get_all("Origin", []) != [f"http://{self.headers['Host']}"]:
            raise AccessError(403, "Only the page of this server may write.")
        body, session, output = self.body(), self.server.session, self.server.output
        if name == "answer":
            if not isinstance(body, dict) or set(body) != {"row", "label", "answer"}:
                raise ValueError("An answer has row, label and answer, and nothing else.")
            following = session.answer(body["row"], body["label"], body["answer"])
            missing = (body["row"], body["label"]) in session.journal.decisions
            return self._state(following, "entries" if missing else "label_errors")
        if name in ("answers", "suppose"):
            answers = body.get("answers") if isinstance(body, dict) else None
            if not isinstance(answers, dict) or set(body) != {"row", "answers"}:
                raise ValueError("Answers to a row have row and answers, and nothing else.")
            if name == "suppose":
                return json_reply(session.suppose(body["row"], answers))
            return self._state(session.answer_row(body["row"], answers), "rows")
        if name in ("label_errors", "refit"):
            begun = session.start_refit() if name == "refit" else session.start_label_errors()
            return json_reply({"begun": begun}, 202 if begun else 409)
        if name == "export":
            if output is None:
                raise ValueError("No file was named to export to; download the table instead.")
            n_answers = session.export(output)
            return json_reply({"path": str(output), "n_answers": n_answers})
        return None

    def _state(self, at: int | None, queue: str) -> Reply:
        session, output = self.server.session, self.server.output
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
            "output": None if output is None else str(output),
        }
        return json_reply(state)

    def _download(self) -> Reply:
        session, output = self.server.session, self.server.output
        name = export_name(session.table) if output is None else output.name
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "table").with_suffix(Path(name).suffix)
            session.export(path)
            content = path.read_bytes()
        return Reply(
            content,
            "application/octet-stream",
            disposition=f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        )


class ReviewServer(LocalServer):
    """A page for a review, which only this machine can reach and only with the token.

    ``url`` is the address of the page with its token, which is another one for every server.
    """

    def __init__(
        self,
        session: ReviewSession,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        output: str | Path | None = None,
    ) -> None:
        check_host(host)
        self.session = session
        self.output = None if output is None else Path(output)
        folder = files("dm2l.review")
        self.static = {
            name: Reply(folder.joinpath(file).read_bytes(), kind)
            for name, (file, kind) in _PAGE.items()
        }
        self.token = token_urlsafe(32)
        super().__init__(_Handler, host, port)
        self.url = f"{self.origin}/{self.token}/"


def _quality(quality: Quality) -> dict[str, Any]:
    return {
        **{key: getattr(quality, key) for key in ("n_answers", "n_entries", "repetitions")},
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


def serve(
    session: ReviewSession,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    output: str | Path | None = None,
    announce: Callable[[str], None] | None = None,
) -> None:
    """Serve the page of a review until it is interrupted (Ctrl-C), then close the session.

    Parameters
    ----------
    session : ReviewSession
        The review.
    host : str, default="127.0.0.1"
        An interface of this machine: "127.0.0.1", "localhost" or "::1".
    port : int, default=0
        The port; 0 takes a free one.
    output : str or Path, default=None
        File of the table with the answers; None for a download only.
    announce : callable, default=None
        Called with the address as soon as it can be opened.
    """
    with ReviewServer(session, host=host, port=port, output=output) as server:
        server.serve(session, announce)
