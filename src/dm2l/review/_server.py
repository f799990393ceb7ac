"""The page of a review, for one person on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from secrets import compare_digest, token_urlsafe

from dm2l.review._replies import Replies
from dm2l.review._session import ReviewSession
from dm2l.review._web import LOOPBACK, AccessError, Handler, LocalServer, Reply

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
        return self.server.replies.get(name, query)

    def post(self, name: str, query: dict[str, str]) -> Reply | None:
        host = self.headers["Host"]
        if self.headers.get_all("Origin", []) != [f"http://{host}"]:
            raise AccessError(403, "Only the page of this server may write.")
        return self.server.replies.post(name, self.body())


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
        self.replies = Replies(session, None if output is None else Path(output))
        self.token = token_urlsafe(32)
        super().__init__(_Handler, host, port)
        self.url = f"{self.origin}/{self.token}/"


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
        try:
            server.serve_until_interrupted(lambda: announce(server.url) if announce else None)
        finally:
            session.close()
