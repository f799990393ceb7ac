"""A small web server: limits and headers of the review page and the Label Studio backend."""

from __future__ import annotations

import io
import json
import os
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import BoundedSemaphore
from time import monotonic
from typing import Any, ClassVar, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from dm2l.review._session import ReviewSession
from dm2l.tables._output import plain_values

# Names of this machine's own interface, and what a browser calls them.
LOOPBACK = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "::1": "[::1]"}
# Bytes of a refused request that are read: the sender may lose the reply if some are unread.
MOST_DRAINED = 2**20
# Of the JSON of a request: an empty object takes 3 bytes there and 70 or more in memory.
MOST_VALUES = 2**21
MOST_NESTED = 64
# Requests that are read or answered at the same time; further connections wait.
MOST_WORKERS = 64


class Reply(NamedTuple):
    """Content and headers of a reply."""

    content: bytes
    kind: str = "application/json"
    status: int = 200
    disposition: str = ""


class AccessError(Exception):
    """A request that is refused."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def json_reply(content: Any, status: int = 200) -> Reply:
    """Plain values, arrays and dataclasses as JSON."""
    return Reply(json.dumps(plain_values(content)).encode(), status=status)


def measure_json(content: bytes) -> tuple[int, int]:
    """Number of values and depth of nesting of JSON in UTF-8, without parsing it."""
    # Escaped quotes do not end a string.
    content = content.replace(b"\\\\", b"").replace(b'\\"', b"")
    n_values = n_quotes = depth = deepest = 0
    for start in range(0, len(content), 2**20):
        part = np.frombuffer(content[start : start + 2**20], np.uint8)
        quotes = n_quotes + np.cumsum(part == ord('"'))
        outside = quotes % 2 == 0
        letter = part | 0x20  # makes { of [ and } of ]
        opened = outside & (letter == ord("{"))
        closed = outside & (letter == ord("}"))
        depths = depth + np.cumsum(opened.astype(np.int64) - closed)
        n_values += int(np.count_nonzero(opened | (outside & (part == ord(",")))))
        n_quotes, depth = int(quotes[-1]), int(depths[-1])
        deepest = max(deepest, int(depths.max()))
    return n_values, deepest


class _TimedReader(io.RawIOBase):
    """The bytes of a request, all of which must come before a deadline."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection, self._end = connection, monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._end - monotonic()
        if left <= 0:
            raise TimeoutError("The deadline of the request is over.")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class Handler(BaseHTTPRequestHandler):
    """A request: host, token and size are checked before its content."""

    server: LocalServer
    timeout = 30  # seconds for a whole request to arrive, and again for the reply to be taken
    most_bytes = 2**18  # an answer takes a few hundred bytes, a row has hundreds of answers
    sent_headers: ClassVar[Mapping[str, str]] = {
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }

    def admitted(self, path: str) -> str:
        """Name of a request with the right token; raises for any other."""
        raise NotImplementedError

    def get(self, name: str, query: dict[str, str]) -> Reply | None:
        """Reply to a GET request; None if the name is unknown."""
        raise NotImplementedError

    def post(self, name: str) -> Reply | None:
        """Reply to a POST request; None if the name is unknown."""
        raise NotImplementedError

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
            # DNS rebinding: a name of another page may resolve to this machine.
            if self.server.hosts and self.headers.get_all("Host", []) not in self.server.hosts:
                raise AccessError(403, "This host is not served.")
            parts = urlsplit(self.path)
            name = self.admitted(parts.path)
            if self.command == "GET":
                reply = self.get(name, dict(parse_qsl(parts.query)))
            else:
                reply = self.post(name)
            if reply is None:
                raise AccessError(404, "There is nothing here.")
        except AccessError as refusal:
            reply = Reply(f"{refusal}\n".encode(), "text/plain; charset=utf-8", refusal.status)
        except ValueError as error:
            reply = json_reply({"error": str(error)}, 400)
        except OSError as error:
            reply = json_reply({"error": str(error)}, 500)
        if not self._read:
            with suppress(TimeoutError):
                self.rfile.read(min(self._length or 0, MOST_DRAINED))
        self._send(reply)

    do_GET = do_POST = _handle  # noqa: N815 - names of http.server

    def body(self) -> Any:
        """The JSON of a request."""
        if self.headers.get_content_type() != "application/json":
            raise AccessError(415, "Requests must be JSON.")
        if self._length is None:
            raise AccessError(411, "Requests must state their length.")
        if self._length > self.most_bytes:
            raise AccessError(413, f"Requests may have at most {self.most_bytes} bytes.")
        self._read = True
        try:
            content = self.rfile.read(self._length)
        except TimeoutError as error:
            raise AccessError(408, f"Requests must arrive in {self.timeout} seconds.") from error
        n_values, depth = measure_json(content)
        if n_values > MOST_VALUES:
            raise AccessError(413, f"Requests may have at most {MOST_VALUES} values.")
        if depth > MOST_NESTED:
            raise AccessError(400, f"Requests may be nested at most {MOST_NESTED} levels deep.")
        try:
            return json.loads(content.decode())
        except (ValueError, RecursionError) as error:
            raise AccessError(400, "The request is not JSON.") from error

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
        """Log nothing: lines would contain the token."""


class LocalServer(ThreadingHTTPServer):
    """Listens on an interface; ``hosts`` are the names that it accepts on a loopback interface.

    On an interface that others can reach its names are not known, and all are accepted.
    """

    url: str  # with the token
    daemon_threads = True
    # Waiting connections; with the default of five, a burst of them times out.
    request_queue_size = 256
    # On Windows this would let another program take the port while it is in use.
    allow_reuse_address = os.name == "posix"

    def __init__(self, handler: type[Handler], host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        address = "127.0.0.1" if host == "localhost" else host
        try:
            super().__init__((address, port), handler)
        except OSError as error:
            raise OSError(f"Port {port} of {address} is not available: {error}.") from error
        self._workers = BoundedSemaphore(MOST_WORKERS)
        called = LOOPBACK.get(host, f"[{host}]" if ":" in host else host)
        names = (called, "localhost") if host in LOOPBACK else ()
        self.hosts = [[f"{name}:{self.server_port}"] for name in names]
        if self.server_port == 80:  # browsers leave it out
            self.hosts += [[name] for name in names]
        self.origin = f"http://{called}:{self.server_port}"

    def server_bind(self) -> None:
        """Bind the port without a reverse DNS lookup."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a request in a thread of its own, once fewer than ``MOST_WORKERS`` run."""
        self._workers.acquire()
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread could be started
            self._workers.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle a request, then let the next one in."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._workers.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect; other errors are shown on the terminal."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def serve(self, session: ReviewSession, announce: Callable[[str], None] | None) -> None:
        """Serve until Ctrl-C, which may also interrupt ``announce``, then close the session."""
        try:
            if announce:
                announce(self.url)
            self.serve_forever()
        except KeyboardInterrupt:
            pass
        finally:
            session.close()
