"""The page of a review, for one person on this machine."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import compare_digest, token_urlsafe
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from dm2l.review._replies import Replies, Reply, error_reply
from dm2l.review._session import ReviewSession

# Names of this machine's own interface, and what a browser calls them.
LOOPBACK = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "::1": "[::1]"}
# An answer takes a few hundred bytes, the most of it the name of the label; a row has hundreds.
MOST_BYTES = 2**18

_HEADERS = {
    # Nothing but this package's own script and style may run, load or be sent anywhere.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address has the token in it
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def check_host(host: str) -> None:
    """Refuse an interface that other machines can reach."""
    if host not in LOOPBACK:
        raise ValueError(
            "A review is served to this machine only: host must be 127.0.0.1 or ::1, got "
            f"{host!r}. From another machine, use 'ssh -L'."
        )


class _AccessError(Exception):
    """A request that is not let in."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    """One request: checked from outside to inside, then passed on."""

    server: ReviewServer
    timeout = 30  # seconds for a browser to say what it wants

    def do_GET(self) -> None:
        self._handle(self.server.replies.get)

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        known = length.isascii() and length.isdecimal() and "Transfer-Encoding" not in self.headers
        self._length = int(length[:12]) if known else None
        # Also of who will be refused: to close with bytes unread can cost the sender the reply.
        self._content = self.rfile.read(min(self._length or 0, 4 * MOST_BYTES))
        self._handle(self._post)

    def _handle(self, reply_to: Callable[[str, dict[str, str]], Reply | None]) -> None:
        try:
            name, query = self._admitted()
            reply = reply_to(name, query)
            if reply is None:
                raise _AccessError(404, "There is nothing here.")
        except _AccessError as refusal:
            reply = Reply(f"{refusal}\n".encode(), "text/plain; charset=utf-8", refusal.status)
        except ValueError as error:
            reply = error_reply(400, str(error))
        except OSError as error:
            reply = error_reply(500, str(error))
        self._send(reply)

    def _admitted(self) -> tuple[str, dict[str, str]]:
        """The rest of the path and the query of a request with the right host and token."""
        # A page elsewhere can have its name lead to this machine; browsers then say that name.
        if self.headers.get_all("Host", []) not in self.server.hosts:
            raise _AccessError(403, "This host is not served.")
        parts = urlsplit(self.path)
        _, _, path = parts.path.partition("/")
        token, slash, name = path.partition("/")
        if not compare_digest(token.encode(), self.server.token.encode()) or not slash:
            raise _AccessError(
                403, "The token is missing or wrong: open the address that was printed."
            )
        return name, dict(parse_qsl(parts.query))

    def _post(self, name: str, _query: dict[str, str]) -> Reply | None:
        host = self.headers["Host"]
        if self.headers.get_all("Origin", []) != [f"http://{host}"]:
            raise _AccessError(403, "Only the page of this server may write.")
        if self.headers.get_content_type() != "application/json":
            raise _AccessError(415, "Requests must be JSON.")
        return self.server.replies.post(name, self._body())

    def _body(self) -> Any:
        if self._length is None:
            raise _AccessError(411, "Requests must state their length.")
        if self._length > MOST_BYTES:
            raise _AccessError(413, f"Requests may have at most {MOST_BYTES} bytes.")
        try:
            return json.loads(self._content)
        except (ValueError, RecursionError) as error:
            raise _AccessError(400, "The request is not JSON.") from error

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.kind)
        self.send_header("Content-Length", str(len(reply.content)))
        if reply.disposition:
            self.send_header("Content-Disposition", reply.disposition)
        self.end_headers()
        self.wfile.write(reply.content)

    def end_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def version_string(self) -> str:
        return "dm2l"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the terminal belongs to the person, and lines would have the token."""


class ReviewServer(ThreadingHTTPServer):
    """A page for a review, which only this machine can reach and only with the token.

    Parameters
    ----------
    session : ReviewSession
        What is shown and answered.
    host : {"127.0.0.1", "localhost", "::1"}, default="127.0.0.1"
        The interface to listen on.
    port : int, default=0
        The port; 0 takes one that is free.
    output : str or Path, default=None
        Where the page's export goes; without it the page offers the download only.

    Attributes
    ----------
    url : str
        The address of the page with its token, which is another one for every server.

    Raises
    ------
    ValueError
        If ``host`` is an interface that other machines can reach.
    """

    daemon_threads = True
    # Connections that wait to be taken; with the usual five a crowd of them times out.
    request_queue_size = 256
    # On Windows this would let another program take the port while it is in use.
    allow_reuse_address = os.name == "posix"

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
        self.replies = Replies(session, None if output is None else Path(output))
        self.token = token_urlsafe(32)
        self.address_family = socket.AF_INET6 if host == "::1" else socket.AF_INET
        address = "::1" if host == "::1" else "127.0.0.1"
        try:
            super().__init__((address, port), _Handler)
        except OSError as error:
            raise OSError(f"Port {port} of {address} is not available: {error}.") from error
        names = (LOOPBACK[host], "localhost")
        self.hosts = [[f"{name}:{self.server_port}"] for name in names]
        if self.server_port == 80:  # browsers leave it out
            self.hosts += [[name] for name in names]
        self.url = f"http://{LOOPBACK[host]}:{self.server_port}/{self.token}/"

    def server_bind(self) -> None:
        """Take the port, without asking a name server what this machine is called."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let a browser go that has gone; all else is shown on the terminal."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


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
        What is shown and answered.
    host, port, output
        As in :class:`ReviewServer`.
    announce : callable, default=None
        Gets the address as soon as it can be opened.
    """
    with ReviewServer(session, host=host, port=port, output=output) as server:
        try:
            if announce is not None:
                announce(server.url)
            server.serve_forever()
        except KeyboardInterrupt:
            pass
        finally:
            session.close()
