"""The web server of the review page, and a base class that the Label Studio backend also uses."""

import io
import json
import math
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from secrets import compare_digest, token_urlsafe
from socketserver import TCPServer
from time import monotonic
from typing import Any, ClassVar, NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit

import numpy as np

from dm2l.review._export import export_name
from dm2l.review._journal import Journal
from dm2l.review._session import Quality, ReviewSession
from dm2l.tables._measures import MEASURES
from dm2l.tables._output import plain_values

# Names of the loopback interfaces, which only this machine can reach, and their form in URLs.
LOOPBACK = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "::1": "[::1]"}
MOST_DRAINED = 2**20  # bytes of a rejected request that are read, so that its sender gets a reply
# Limits on JSON, because an empty object of 3 bytes takes 70 bytes in memory.
MOST_VALUES = 2**21
MOST_NESTED = 64
MOST_WORKERS = 64  # requests that are handled at the same time; further connections wait


class Reply(NamedTuple):
    """Content, type and status of an HTTP reply."""

    content: bytes
    kind: str = "application/json"
    status: int = 200
    disposition: str = ""


class AccessError(Exception):
    """Error that rejects a request with an HTTP status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def json_reply(content: Any, status: int = 200) -> Reply:
    """Return a reply with values, arrays and dataclasses as JSON."""
    return Reply(json.dumps(plain_values(content)).encode(), status=status)


def measure_json(content: bytes) -> tuple[int, int]:
    """Return the number of values and the nesting depth of a JSON text, without parsing it."""
    # Remove escaped quotes, which do not end a string.
    content = content.replace(b"\\\\", b"").replace(b'\\"', b"")
    n_values = n_quotes = depth = deepest = 0
    for start in range(0, len(content), 2**20):
        part = np.frombuffer(content[start : start + 2**20], np.uint8)
        quotes = n_quotes + np.cumsum(part == ord('"'))
        outside, letter = quotes % 2 == 0, part | 0x20  # converts [ to { and ] to }
        opened, closed = outside & (letter == ord("{")), outside & (letter == ord("}"))
        depths = depth + np.cumsum(opened.astype(np.int64) - closed)
        n_values += int(np.count_nonzero(opened | (outside & (part == ord(",")))))
        n_quotes, depth = int(quotes[-1]), int(depths[-1])
        deepest = max(deepest, int(depths.max()))
    return n_values, deepest


class _TimedReader(io.RawIOBase):
    """Reads the bytes of a request, which must all arrive before a deadline."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection, self._end = connection, monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._end - monotonic()
        if left <= 0:
            raise TimeoutError("The request did not arrive in time.")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class Handler(BaseHTTPRequestHandler):
    """Handles requests; host, token and size are checked before the content is read."""

    server: "LocalServer"
    timeout = 30  # seconds for receiving a request, and for sending a reply
    most_bytes = 2**18  # maximum size of a request; enough for hundreds of answers
    sent_headers: ClassVar[Mapping[str, str]] = {
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }

    # Returns the name of a request; raises an AccessError if its token is wrong.
    admitted: Callable[[str], str]
    # Return the replies to GET and POST requests, or None if the name is unknown.
    get: Callable[[str, dict[str, str]], Reply | None]
    post: Callable[[str], Reply | None]

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_TimedReader(self.connection, self.timeout))

    def _handle(self) -> None:
        length = self.headers.get("Content-Length", "")
        known = length.isascii() and length.isdecimal() and "Transfer-Encoding" not in self.headers
        self._length = int(length[:12]) if known else None
        self._read = False
        try:
            # This prevents DNS rebinding, where the name of another site resolves to this machine.
            if self.server.hosts and self.headers.get_all("Host", []) not in self.server.hosts:
                raise AccessError(403, "The host name is wrong. Use the address that dm2l printed.")
            parts = urlsplit(self.path)
            name, query = self.admitted(parts.path), dict(parse_qsl(parts.query))
            reply = self.get(name, query) if self.command == "GET" else self.post(name)
            if reply is None:
                raise AccessError(404, "There is no such page. Use the address that dm2l printed.")
        except AccessError as refusal:
            reply = Reply(f"{refusal}\n".encode(), "text/plain; charset=utf-8", refusal.status)
        except (ValueError, OSError) as error:
            reply = json_reply({"error": str(error)}, 400 if isinstance(error, ValueError) else 500)
        if not self._read:
            with suppress(TimeoutError):
                self.rfile.read(min(self._length or 0, MOST_DRAINED))
        self._send(reply)

    do_GET = do_POST = _handle  # noqa: N815 - names of http.server

    def body(self) -> Any:
        """Parse the JSON of a request."""
        if self.headers.get_content_type() != "application/json":
            raise AccessError(415, "Requests must have the content type application/json.")
        if self._length is None:
            raise AccessError(411, "Requests must have a Content-Length header.")
        if self._length > self.most_bytes:
            raise AccessError(413, f"Requests may have at most {self.most_bytes} bytes.")
        self._read = True
        try:
            content = self.rfile.read(self._length)
        except TimeoutError as error:
            message = f"Requests must arrive within {self.timeout} seconds."
            raise AccessError(408, message) from error
        n_values, depth = measure_json(content)
        if n_values > MOST_VALUES:
            raise AccessError(413, f"Requests may have at most {MOST_VALUES} values.")
        if depth > MOST_NESTED:
            raise AccessError(400, f"Requests may be nested at most {MOST_NESTED} levels deep.")
        try:
            return json.loads(content.decode())
        except (ValueError, RecursionError) as error:
            raise AccessError(400, "The request is not valid JSON.") from error

    def _send(self, reply: Reply) -> None:
        self.connection.settimeout(self.timeout)
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.kind)
        self.send_header("Content-Length", str(len(reply.content)))
        if reply.disposition:
            self.send_header("Content-Disposition", reply.disposition)
        if reply.status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="dm2l"')
        self.end_headers()
        self.wfile.write(reply.content)

    def end_headers(self) -> None:
        for name, value in self.sent_headers.items():
            self.send_header(name, value)
        super().end_headers()

    def version_string(self) -> str:
        return "dm2l"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because a log line would contain the token."""


class LocalServer(ThreadingHTTPServer):
    """A web server; on a loopback interface, it rejects requests with another host name."""

    url: str  # address with the token
    daemon_threads = True
    # With the default of 5 waiting connections, some of many simultaneous connections time out.
    request_queue_size = 256
    # On Windows, True would allow another program to use the same port.
    allow_reuse_address = os.name == "posix"

    def __init__(self, handler: type[Handler], host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        address = "127.0.0.1" if host == "localhost" else host
        try:
            super().__init__((address, port), handler)
        except OSError as error:
            raise OSError(
                f"Port {port} of {address} is not available: {error}. Choose another port."
            ) from error
        self._workers = threading.BoundedSemaphore(MOST_WORKERS)
        called = LOOPBACK.get(host, f"[{host}]" if ":" in host else host)
        names = (called, "localhost") if host in LOOPBACK else ()
        self.hosts = [[f"{name}:{self.server_port}"] for name in names]
        if self.server_port == 80:  # browsers omit this port
            self.hosts += [[name] for name in names]
        self.origin = f"http://{called}:{self.server_port}"

    def server_bind(self) -> None:
        """Bind the port without a reverse DNS lookup."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a request in a new thread when fewer than ``MOST_WORKERS`` threads are running."""
        self._workers.acquire()
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # the thread could not be started
            self._workers.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle a request, and then release its slot for the next request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._workers.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect, and print other errors to the terminal."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def serve(self, session: ReviewSession, announce: Callable[[str], None] | None) -> None:
        """Serve until Ctrl-C or SIGTERM, and then close the session."""
        before = None
        try:
            if threading.current_thread() is threading.main_thread():
                before = signal.signal(signal.SIGTERM, signal.default_int_handler)
            if announce:
                announce(self.url)
            self.serve_forever()
        except KeyboardInterrupt:
            pass
        finally:
            session.close()
            if before is not None:
                signal.signal(signal.SIGTERM, before)


_PAGE = {
    "": ("page.html", "text/html"),
    "page.css": ("page.css", "text/css"),
    "page.js": ("page.js", "text/javascript"),
}
_HEADERS = {
    # The page may only load the script and style of this package, and only connect to this server.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address contains the token
    **Handler.sent_headers,
}


def check_host(host: str) -> None:
    """Raise an error if other machines can reach the network interface ``host``."""
    if host not in LOOPBACK:
        raise ValueError(
            f"host must be 127.0.0.1 or ::1, got {host!r}, because only this machine may open a "
            "review. To review from another machine, forward the port with 'ssh -L'."
        )


class _Handler(Handler):
    """Handles requests from the review page."""

    server: "ReviewServer"
    sent_headers = _HEADERS

    def admitted(self, path: str) -> str:
        token, slash, name = path.removeprefix("/").partition("/")
        if not compare_digest(token.encode(), self.server.token.encode()) or not slash:
            raise AccessError(403, "No valid token. Open the address that dm2l review printed.")
        return name

    def get(self, name: str, query: dict[str, str]) -> Reply | None:
        if name == "state":
            at = query.get("at", "")
            number = int(at) if at.isascii() and at.isdecimal() else None
            return self._state(number, query.get("queue", "entries"))
        if name != "download":
            return self.server.static.get(name)
        session, output = self.server.session, self.server.output
        name = export_name(session.table) if output is None else output.name
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "table").with_suffix(Path(name).suffix)
            session.export(path)
            disposition = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
            return Reply(path.read_bytes(), "application/octet-stream", disposition=disposition)

    def post(self, name: str) -> Reply | None:
        if self.headers.get_all("Origin", []) != [f"http://{self.headers['Host']}"]:
            raise AccessError(403, "A different web page sent the request. Reload the review page.")
        body, session, output = self.body(), self.server.session, self.server.output
        if name in ("answer", "suppose"):
            fields = ("row", "answers", *(["queue"] if name == "answer" else []))
            answers = body.get("answers") if isinstance(body, dict) else None
            if not isinstance(answers, dict) or set(body) != {*fields}:
                raise ValueError(f"The request must have exactly the fields {', '.join(fields)}.")
            if name == "answer":
                saved = session.answer(body["row"], answers, body["queue"])
                return self._state(saved.position, body["queue"], saved.implied)
            found = session.suppose(body["row"], answers)
            implied = session.follow(body["row"], answers)
            return json_reply({"probabilities": found, "implied": implied})
        if name in ("label_errors", "refit"):
            begun = session.start_refit() if name == "refit" else session.start_label_errors()
            return json_reply({"begun": begun}, 202 if begun else 409)
        if name != "export":
            return None
        if output is None:
            raise ValueError("Without -o, the review has no output file. Download the table.")
        return json_reply({"path": output, "n_answers": session.export(output)})

    def _state(self, at: int | None, queue: str, implied: Mapping[str, str] | None = None) -> Reply:
        session, output = self.server.session, self.server.output
        # Read these states first, so that the results of a run that has ended are included.
        refit, label_errors = session.refit_state, session.label_errors_state
        progress, made = session.progress, len(session.asked(queue))
        state = {
            "table": session.table.path.name,
            "queue": queue,
            "position": made if at is None else min(at, made),
            "made": made,
            "progress": {**progress._asdict(), "decided": progress.decided},
            "entry": session.question(at, queue),
            "refit": {**refit._asdict(), "quality": _quality(session.quality)},
            "label_errors": {**label_errors._asdict(), "done": label_errors.done},
            "sample": _sample(session.journal),
            "implied": implied or {},
            "output": output,
        }
        return json_reply(state)


class ReviewServer(LocalServer):
    """Serves the review page to this machine at ``url``, which contains a secret token."""

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
        self.static = {
            name: Reply(files("dm2l.review").joinpath(file).read_bytes(), f"{kind}; charset=utf-8")
            for name, (file, kind) in _PAGE.items()
        }
        self.token = token_urlsafe(32)
        super().__init__(_Handler, host, port)
        self.url = f"{self.origin}/{self.token}/"


def _sample(journal: Journal) -> dict[str, Any] | None:
    """Return the progress of the sample and, once all entries are checked, the error rates."""
    if journal.sample is None:
        return None
    said = {key: journal.answer(*key) for key in journal.sample.entries}
    size, checked = len(said), sum(map(bool, said.values()))
    rates = journal.sample.rates(said) if checked == size else []
    return {"size": size, "checked": checked, "rates": list(map(str, rates))}


def _quality(quality: Quality | None) -> dict[str, Any] | None:
    if quality is None:
        return None
    measures = []
    for key, words, up in MEASURES:
        before, after = quality.before[key].mean, quality.after[key].mean
        if not math.isnan(after):
            shown = {"words": words, "higher_is_better": up, "before": before, "after": after}
            measures.append({**shown, "change": quality.change[key]})
    counts = {key: getattr(quality, key) for key in ("n_answers", "n_entries", "repetitions")}
    return {**counts, "measures": measures}


def serve(
    session: ReviewSession,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    output: str | Path | None = None,
    announce: Callable[[str], None] | None = None,
) -> None:
    """Serve the page of a review until Ctrl-C or SIGTERM, and then close the session.

    Parameters
    ----------
    session : ReviewSession
        The session to serve.
    host : str, default="127.0.0.1"
        Network interface of this machine: "127.0.0.1", "localhost" or "::1".
    port : int, default=0
        Port of the server; 0 selects a free port.
    output : str or Path, default=None
        File for the table with the answers. If None, the page only offers a download.
    announce : callable, default=None
        Function that is called with the address as soon as the page can be opened.
    """
    with ReviewServer(session, host=host, port=port, output=output) as server:
        server.serve(session, announce)
