"""Requests to the review page and to the backend of Label Studio: malformed, hostile and slow.

A case is a line of JSON, which says how the request is sent, and the bytes of the request; names in
@ stand for host, token and the like until it is sent. Each process that runs cases has a server.
"""

from __future__ import annotations

import base64
import json
import os
import random
import re
import shutil
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from dm2l.labelstudio import AnnotationSession, Backend, BackendServer, make_config
from dm2l.review import Journal, ReviewSession
from dm2l.review._server import MOST_WORKERS, LocalServer, ReviewServer
from dm2l.tables import FitOptions, fit_table, load_bundle, read_table, save_bundle
from fuzz.corpus import CORPUS
from fuzz.mutations import BLIND, document

TIMEOUT = 0.25  # seconds in place of 30, for a request to arrive
PATIENCE = 120.0  # seconds until a connection counts as held open, also on a busy machine
TOKEN = "fuzz-0123456789-0123456789"
GOOD = (200, 202, 409)
REFUSED = (400, 401, 403, 404, 405, 408, 411, 413, 414, 415, 417, 431, 501, 505)
# What a reply without headers says when it refuses a request: one sentence, or an error in JSON.
REFUSAL = re.compile(rb'[A-Z][^{}<>\n]*\.\n|\{"error": .*', re.DOTALL)
HEADERS = (
    b"Host: evil.example",
    b"Host: 127.0.0.1",
    b"Origin: http://evil.example",
    b"Origin: null",
    b"Content-Length: -1",
    b"Content-Length: 99999999999999999999",
    b"Content-Length: 12",
    b"Content-Length: \xb2",
    b"Transfer-Encoding: chunked",
    b"Content-Type: text/plain",
    b"Content-Type: application/json; charset=utf-16",
    b"Expect: 100-continue",
    b"Connection: keep-alive",
    b"Authorization: Basic @BASIC@",
    b"Authorization: Basic !!",
    b"Authorization: Token \xff",
    b"X: " + b"a" * 70_000,
    b"\n".join(b"X-%d: y" % k for k in range(300)),
    b"no colon",
    b": nothing",
)
METHODS = (b"GET", b"POST", b"PUT", b"HEAD", b"OPTIONS", b"TRACE", b"get", b"\0", b"GET GET")
PATHS = (b"/", b"//", b"/../../etc/passwd", b"/%00", b"*", b"http://evil.example/", b"/\xff/state")
PATHS += (b"/@TOKEN@", b"/@TOKEN@/../state", b"/@TOKEN@/page.css?at=1&at=2", b"/@TOKEN@/a" * 900)
BODIES = (b"[" * 5000, b"[" * 60 + b"]" * 60, b"[0" + b",0" * 100_000 + b"]", b'{"a": NaN}')
BODIES += (b"1" * 5000, b"\xff\xfe[\x001\x00]\x00", b'"\\ud800"', b"{}", b"null", b"")


class Refused(ValueError):  # noqa: N818 - a reply, not an error
    """The server has refused a request, as it should."""


def _request(method: str, name: str, body: Any = None, **options: Any) -> bytes:
    """A case whose request is as it should be."""
    head = [f"{method} /@TOKEN@/{name} HTTP/1.1", "Host: @HOST@"]
    content = b"" if body is None else json.dumps(body).encode()
    if body is not None:
        head += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    head += [f"{key}: {value}" for key, value in options.items()]
    return b"{}\n" + "\r\n".join([*head, "", ""]).encode() + content


def _write(folder: Path, requests: list[bytes]) -> list[Path]:
    shutil.copy(CORPUS / "table.csv", folder / "seed-table.csv")
    table = read_table(folder / "seed-table.csv", "t_*")
    options = FitOptions("linear", 0.1, 1.0, cv=2)
    save_bundle(fit_table(table, options, estimate_folds=0), folder / "seed-model.dm2l")
    for number, content in enumerate(requests):
        (folder / f"seed-{number}").write_bytes(content)
    return [folder / f"seed-{number}" for number in range(len(requests))]


def page_requests(folder: Path) -> list[Path]:
    """Requests that the page of a review makes."""
    label = read_table(CORPUS / "table.csv", "t_*").label_names[0]
    answers = {"row": 3, "answers": {label: "yes"}}
    names = [
        "",
        "page.js",
        "state",
        "state?at=0&queue=rows",
        "state?queue=label_errors",
        "download",
    ]
    made = [_request("GET", name) for name in names]
    for row in range(1, 9):
        words = {label: ("yes", "no", "skip")[row % 3]}
        body = {"row": row, "answers": words, "queue": ("entries", "rows")[row % 2]}
        made.append(_request("POST", "answer", body, Origin="http://@HOST@"))
    others = {"suppose": answers, "export": {}, "refit": {}}
    made += [_request("POST", *one, Origin="http://@HOST@") for one in others.items()]
    return _write(folder, made)


def backend_requests(folder: Path) -> list[Path]:
    """Requests that Label Studio makes."""
    label = read_table(CORPUS / "table.csv", "t_*").label_names[0]
    config = make_config([label])
    value = {"from_name": "labels", "to_name": "row", "type": "choices"}
    value["value"] = {"choices": [label]}
    made = [_request("GET", name) for name in ("health", "versions")]
    made.append(_request("POST", "setup", {"schema": config}))
    for row in range(1, 7):
        task = {"id": row, "data": {"columns": {}, "dm2l_row": row, "dm2l_table": "@TABLE@"}}
        annotation = {"id": row, "result": [value][: row % 2]}
        body = {"action": "ANNOTATION_CREATED", "task": task, "annotation": annotation}
        made.append(_request("POST", "webhook", body | {"project": {"label_config": config}}))
        tasks = [task | {"annotations": [annotation] * (row % 2)}]
        made.append(_request("POST", "predict", {"label_config": config, "tasks": tasks}))
    return _write(folder, made)


# ---------------------------------------------------------------------------------------- changes


def _options(line: bytes) -> dict[str, Any]:
    """Options of a case, which stand in its first line; none where a change has spoilt them."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    numbers = isinstance(found, dict) and all(type(value) is int for value in found.values())
    return found if numbers and found.get("crowd", 1) <= MOST_WORKERS + 6 else {}


def change(content: bytes, rng: random.Random) -> bytes:
    """Another request: spoilt lines, headers, bodies and bytes, or one that comes slowly."""
    options, _, raw = content.partition(b"\n")
    sent = _options(options)
    if rng.random() < 0.1:  # a good one: its answer has to be kept
        return content
    for _ in range(rng.choice([1, 1, 2, 3])):
        head, gap, body = raw.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        action = rng.randrange(9)
        if action == 0:
            lines.insert(rng.randrange(1, len(lines) + 1), rng.choice(HEADERS))
        elif action == 1 and len(lines) > 1:
            del lines[rng.randrange(1, len(lines))]
        elif action == 2:
            lines[0] = lines[0].replace(lines[0].partition(b" ")[0], rng.choice(METHODS), 1)
        elif action == 3:
            lines[0] = b" ".join([lines[0].partition(b" ")[0], rng.choice(PATHS), b"HTTP/1.1"])
        elif action == 4:
            lines = [
                line.replace(b"@TOKEN@", rng.choice([b"", b"x", b"@OTHER@"])) for line in lines
            ]
        elif action in (5, 6):
            body = document(body, rng) if body and action == 5 else rng.choice(BODIES)
            lines = [line for line in lines if not line.startswith(b"Content-Length")]
            lines.append(b"Content-Length: %d" % len(body))
        raw = b"\r\n".join(lines) + gap + body
        if action == 7 and raw:
            raw = rng.choice(BLIND)(raw, rng)[: 2**20]
    if rng.random() < 0.03:
        sent["stall"] = rng.randrange(len(raw) + 1)
        sent["crowd"] = rng.choice([1, 1, MOST_WORKERS + 6])
    return json.dumps(sent).encode() + b"\n" + raw


# --------------------------------------------------------------------------------------- requests


class Running:
    """A server in a thread of this process, and what has gone wrong in it."""

    def __init__(self, make: Callable[[Path, Path], LocalServer], folder: Path) -> None:
        self.errors: list[str] = []
        self.journal = folder / f"answers-{os.getpid()}.jsonl"
        self.journal.unlink(missing_ok=True)
        self.server: Any = make(folder, self.journal)
        handler = self.server.RequestHandlerClass
        self.server.RequestHandlerClass = type("Quick", (handler,), {"timeout": TIMEOUT})
        self.server.handle_error = self._note
        self.session = getattr(self.server, "session", None) or self.server.backend.session
        self.session.measured = False
        self.host = f"127.0.0.1:{self.server.server_port}".encode()
        self.kept: set[Any] = set()
        serve = self.server.serve_forever
        threading.Thread(target=serve, args=(0.01,), daemon=True).start()

    def _note(self, *_: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            self.errors.append(traceback.format_exc(limit=-3))

    def fill(self, raw: bytes) -> bytes:
        """The request with the names of this server."""
        token = self.server.token.encode()
        values = {
            b"@HOST@": self.host,
            b"@TOKEN@": token,
            b"@OTHER@": token[:-1] + b"~",
            b"@BASIC@": base64.b64encode(b"a:" + token),
            b"@TABLE@": self.session.journal.digest[:12].encode(),
        }
        for name, value in values.items():
            raw = raw.replace(name, value)
        return raw

    def send(self, raw: bytes, *, stall: int | None = None) -> bytes:
        """The reply to a request; one that stalls is left open by this side."""
        with socket.create_connection(("127.0.0.1", self.server.server_port), PATIENCE) as one:
            found = b""
            try:
                one.sendall(raw if stall is None else raw[:stall])
                if stall is None:
                    one.shutdown(socket.SHUT_WR)
                while piece := one.recv(2**16):
                    found += piece
            except TimeoutError as error:
                raise AssertionError("a connection was held open") from error
            except OSError:  # the server has closed it while this side still wrote
                pass
            return found

    def workers(self) -> int:
        """Threads that handle requests."""
        return sum("process_request_thread" in one.name for one in threading.enumerate())


def _page(folder: Path, journal: Path) -> LocalServer:
    table = read_table(folder / "seed-table.csv", "t_*")
    model = load_bundle(folder / "seed-model.dm2l")
    session = ReviewSession(model, table, Journal(journal, table))
    return ReviewServer(session, output=folder / f"out-{os.getpid()}.csv")


def _backend(folder: Path, journal: Path) -> LocalServer:
    table = read_table(folder / "seed-table.csv", "t_*")
    model = load_bundle(folder / "seed-model.dm2l")
    session = AnnotationSession(model, table, Journal(journal, table))
    return BackendServer(Backend(session, refit_every=1000), TOKEN, port=0)


@cache
def _running(kind: str, folder: Path, process: int) -> Running:
    return Running({"page": _page, "backend": _backend}[kind], folder)


def ask_page(path: Path) -> None:
    """Send a request to the page of a review."""
    _ask(_running("page", path.parent, os.getpid()), path.read_bytes(), b"page.css")


def ask_backend(path: Path) -> None:
    """Send a request to the backend of Label Studio."""
    _ask(_running("backend", path.parent, os.getpid()), path.read_bytes(), b"health")


def _ask(running: Running, content: bytes, known: bytes) -> None:
    options, _, raw = content.partition(b"\n")
    sent, raw = _options(options), running.fill(raw)
    before = running.journal.stat().st_size
    if {"stall", "crowd"} <= sent.keys():
        replies = _crowd(running, raw, sent["stall"], sent["crowd"])
    else:
        replies = [running.send(raw)]
    statuses = [_status(reply) for reply in replies]
    _check(running, raw, statuses, before)
    good = b"GET /%s/%s HTTP/1.1\r\nHost: %s\r\n\r\n"
    fine = good % (running.server.token.encode(), known, running.host)
    assert _status(running.send(fine)) == 200, "a good request is not answered any more"
    if not set(statuses) <= {200, 202}:
        raise Refused(f"status {statuses[0]}")


def _crowd(running: Running, raw: bytes, stall: int, size: int) -> list[bytes]:
    """Replies to many connections that send a part and wait."""
    replies: list[bytes] = []

    def one() -> None:
        try:
            replies.append(running.send(raw, stall=stall))
        except AssertionError as error:
            running.errors.append(str(error))

    crowd = [threading.Thread(target=one, daemon=True) for _ in range(size)]
    for thread in crowd:
        thread.start()
    most = 0
    while any(thread.is_alive() for thread in crowd):
        most = max(most, running.workers())
        time.sleep(0.01)
    assert most <= MOST_WORKERS + 1, f"{most} threads for {size} connections"
    return replies


def _status(reply: bytes) -> int:
    """The status of a reply, 0 if the connection was closed without one."""
    first = reply.split(b"\r\n", 1)[0].split(b" ")
    if not reply:
        return 0
    if first[0] in (b"HTTP/1.0", b"HTTP/1.1") and first[1:2] and first[1].isdigit():
        return int(first[1])
    # Requests of HTTP/0.9, of two words, get a body alone.
    return 400 if REFUSAL.fullmatch(reply) or b"<p>Error code: " in reply else 200


def _check(running: Running, raw: bytes, statuses: list[int], before: int) -> None:
    end = time.monotonic() + PATIENCE
    while running.workers() and time.monotonic() < end:
        time.sleep(0.002)
    assert not running.workers(), "a thread is left"
    assert not running.errors, running.errors[0]
    token = running.server.token.encode()
    let_in = token in raw or base64.b64encode(b"a:" + token) in raw
    for status in statuses:
        assert status in (0, *GOOD, *REFUSED), f"status {status}"
        assert let_in or status not in GOOD, f"status {status} without the token"
        assert running.host in raw or status not in GOOD, f"status {status} for another host"
    grown = running.journal.stat().st_size != before
    assert not grown or let_in, "an answer was written without the token"
    # A sender who has left does not hear of the answer, and a row may have been written in part.
    assert not grown or {0, 200, 400} & set(statuses), f"written, and the status is {statuses}"
    decided = {*running.session.journal.decisions, *running.session.journal.checks}
    assert running.kept <= decided, "an answer was lost"
    running.kept = decided
    lines = running.journal.read_bytes().count(b"\n")
    assert lines >= 1 + len(decided), f"{lines} lines of {len(decided)} answers"
