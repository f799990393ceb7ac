"""Server of the Label Studio backend."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable
from pathlib import Path
from secrets import compare_digest, token_urlsafe

from dm2l.labelstudio._backend import Backend
from dm2l.review._web import AccessError, Handler, LocalServer, Reply, json_reply

# Label Studio sends all tasks that want predictions at once.
MOST_BYTES = 2**26


class _Handler(Handler):
    """A request of Label Studio."""

    server: BackendServer
    most_bytes = MOST_BYTES

    def admitted(self, path: str) -> str:
        # Label Studio is a server: only pages in a browser send an Origin.
        if "Origin" in self.headers:
            raise AccessError(403, "Pages may not ask this server.")
        first, slash, rest = path.removeprefix("/").partition("/")
        # Its connections send a password (basic authentication), its webhooks only an address.
        for given, name in ((first, rest), (self._secret(), f"{first}{slash}{rest}")):
            if compare_digest(given.encode(), self.server.token.encode()):
                return name
        raise AccessError(401, "The token is missing or wrong.")

    def _secret(self) -> str:
        scheme, _, value = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() in ("bearer", "token"):
            return value.strip()
        try:
            text = base64.b64decode(value, validate=True).decode()
        except ValueError:
            return ""
        return text.partition(":")[2]

    def get(self, name: str, query: dict[str, str]) -> Reply | None:
        return self._reply(name, None) if name in ("health", "versions") else None

    def post(self, name: str) -> Reply | None:
        return self._reply(name, self.body())

    def _reply(self, name: str, body: object) -> Reply | None:
        found = self.server.backend.reply(name, body)
        return None if found is None else json_reply(found)


class BackendServer(LocalServer):
    """Serves a ``Backend`` to requests with the token.

    The token is in the path of the address (``http://127.0.0.1:9090/TOKEN``), which is all that
    the webhooks of Label Studio support, in a header ``Authorization: Token TOKEN``, or the
    password of basic authentication. ``url`` is the address for Label Studio, with the token.
    """

    def __init__(
        self, backend: Backend, token: str, *, host: str = "127.0.0.1", port: int = 9090
    ) -> None:
        check_token(token)
        self.backend, self.token = backend, token
        super().__init__(_Handler, host, port)
        self.url = f"{self.origin}/{token}"


def serve_backend(server: BackendServer, announce: Callable[[str], None]) -> None:
    """Serve until Ctrl-C, then close the session."""
    try:
        server.serve_until_interrupted(lambda: announce(server.url))
    finally:
        server.backend.session.close()


def check_token(token: str) -> None:
    """Refuse tokens that can be guessed, or do not fit into an address."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{20,200}", token):
        raise ValueError("A token has 20 to 200 letters, digits, - and _.")


def kept_token(path: Path) -> str:
    """The token in a file, which is created, readable by its owner only, if it does not exist.

    Label Studio stores the token, so it must be the same after a restart.
    """
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        token = path.read_bytes()[:1000].decode("ascii", errors="replace").strip()
        try:
            check_token(token)
        except ValueError as error:
            raise ValueError(f"{path} does not hold a token. {error}") from error
        return token
    with os.fdopen(number, "w") as file:
        token = token_urlsafe(32)
        file.write(f"{token}\n")
    return token
