"""The page's server: who is let in, what it says, and that it serves only this machine."""

import errno
import http.client
import json
import os
import re
import socket
from contextlib import contextmanager
from html.parser import HTMLParser
from importlib.resources import files
from threading import Thread

import numpy as np
import pandas as pd
import pytest

from dm2l.review import Journal, ReviewSession, serve
from dm2l.review._server import ReviewServer
from dm2l.tables import FitOptions, fit_table, read_table
from half_labelled import as_csv, make_table, spell


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    columns, truth, observed = make_table(80, blank=0.5)
    columns["note"] = ["<script>alert(1)</script>"] * 80
    path = folder / "tickets.csv"
    path.write_text(as_csv(columns, spell(truth, observed, "Yes", "No")), encoding="utf-8")
    table = read_table(path, "topic_*")
    return table, fit_table(table, FitOptions("linear", 0.1, 0.3, cv=3), estimate_folds=0)


@contextmanager
def opened(case, folder):
    table, model = case
    with Journal(folder / "answers.jsonl", table) as journal:
        session = ReviewSession(model, table, journal, top=40)
        yield session
        session.wait(60)


@contextmanager
def serving(session, folder):
    with ReviewServer(session, output=folder / "out.csv") as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def session(case, tmp_path):
    with opened(case, tmp_path) as session:
        yield session


@pytest.fixture
def server(session, tmp_path):
    with serving(session, tmp_path) as server:
        yield server


@pytest.fixture(scope="module")
def untouched(case, tmp_path_factory):
    """The session of all requests that are refused: none may leave anything in it."""
    with opened(case, tmp_path_factory.mktemp("untouched")) as session:
        yield session


@pytest.fixture(scope="module")
def strict(untouched, tmp_path_factory):
    """The server of that session."""
    with serving(untouched, tmp_path_factory.mktemp("strict")) as server:
        yield server


def send(server, method, path, body=None, **headers):
    """A request as the page makes it, but for what is given; None leaves a header out."""
    host = f"127.0.0.1:{server.server_port}"
    sent = {"Host": host}
    if method == "POST":
        sent |= {"Origin": f"http://{host}", "Content-Type": "application/json"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    content = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    if method == "POST":
        sent.setdefault("Content-Length", str(len(content or b"")))
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(content)
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read()
    finally:
        connection.close()


def state(server, query=""):
    status, _, content = send(server, "GET", f"/{server.token}/state{query}")
    assert status == 200
    return json.loads(content)


ANSWER = {"row": 1, "answers": {"topic_bug": "yes"}, "queue": "entries"}


def answer(server, word, **headers):
    entry = state(server)["entry"]
    body = {"row": entry["row"], "answers": {entry["label"]: word}, "queue": "entries"}
    return send(server, "POST", f"/{server.token}/answer", body, **headers)


# ------------------------------------------------------------------------------------ who is let in


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "192.168.1.5", "example.org", "127.0.0.2"])
def test_a_host_that_others_can_reach_is_refused(untouched, host):
    with pytest.raises(ValueError, match=f"got '{host}'"):
        ReviewServer(untouched, host=host)
    with pytest.raises(ValueError, match="only this machine may open"):
        serve(untouched, host=host)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_the_socket_is_bound_to_the_loopback_interface(untouched, host):
    family = socket.AF_INET6 if host == "::1" else socket.AF_INET
    address = "::1" if host == "::1" else "127.0.0.1"
    try:
        with socket.socket(family) as probe:
            probe.bind((address, 0))
    except OSError as error:
        pytest.skip(f"{address} is not on this machine: {error}")
    with ReviewServer(untouched, host=host) as server:
        assert server.socket.getsockname()[0] == address
        shown = "[::1]" if host == "::1" else address
        assert server.url == f"http://{shown}:{server.server_port}/{server.token}/"
        with pytest.raises(
            OSError, match=f"Port {server.server_port} of {address} is not available"
        ):
            ReviewServer(untouched, host=host, port=server.server_port)


def test_tokens_are_long_and_new_for_every_server(session):
    tokens = set()
    for _ in range(5):
        with ReviewServer(session) as server:
            assert re.fullmatch(r"[\w-]{43}", server.token, re.ASCII)
            tokens.add(server.token)
    assert len(tokens) == 5


NAMES = ["", "page.js", "page.css", "state", "download", "nothing"]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_read_without_the_token(strict, name):
    token = strict.token
    for guess in ("", "x", token[:-1], f"{token}x", token.swapcase(), "%00", "%C3%A4"):
        status, _, content = send(strict, "GET", f"/{guess}/{name}")
        assert status == 403, guess
        assert b"No valid token" in content
    assert send(strict, "GET", f"/?token={token}")[0] == 403
    assert send(strict, "GET", f"/{token}")[0] == 403


def test_nothing_is_written_without_the_token(server, session):
    entry = session.question()
    body = {"row": entry.row, "answers": {entry.label: "yes"}, "queue": "entries"}
    for name in ("answer", "suppose", "label_errors", "refit", "export"):
        assert send(server, "POST", f"/wrong/{name}", body)[0] == 403
    assert not session.journal.decisions
    assert session.refit_state.number == 0
    assert not server.output.exists()


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        None,
        "https://127.0.0.1",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
    ],
)
def test_another_origin_may_not_write(strict, untouched, origin):
    assert answer(strict, "yes", Origin=origin)[0] == 403
    assert send(strict, "POST", f"/{strict.token}/refit", {}, Origin=origin)[0] == 403
    assert send(strict, "POST", f"/{strict.token}/export", {}, Origin=origin)[0] == 403
    assert not untouched.journal.decisions
    assert untouched.refit_state.number == 0
    assert not strict.output.exists()


def test_a_name_of_somebody_else_that_leads_here_is_refused(server):
    port = server.server_port
    evil = f"evil.example:{port}"
    for host in ("evil.example", evil, "127.0.0.1", f"127.0.0.1:{port + 1}", None):
        assert send(server, "GET", f"/{server.token}/state", Host=host)[0] == 403, host
    assert answer(server, "yes", Host=evil, Origin=f"http://{evil}")[0] == 403
    good = f"localhost:{port}"
    assert answer(server, "yes", Host=good, Origin=f"http://{good}")[0] == 200


def test_a_preflight_of_another_origin_gets_no_permission(strict):
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    status, sent, _ = send(strict, "OPTIONS", f"/{strict.token}/answer", **headers)
    assert status == 501
    assert not [name for name in sent if name.lower().startswith("access-control")]


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{}", {"Content_Type": "text/plain"}, 415),
        (b"{}", {"Content_Type": None}, 415),
        (b"{}", {"Content_Length": None}, 411),
        (b"{}", {"Content_Length": "two"}, 411),
        (b"{}", {"Content_Length": None, "Transfer_Encoding": "chunked"}, 411),
        (b" " * (2**18 + 1), {}, 413),
        (b"{", {}, 400),
        (b"[" * 10000, {}, 400),
        (b"\xff", {}, 400),
        ([], {}, 400),
        ({"row": 1}, {}, 400),
        ({**ANSWER, "path": "/etc/passwd"}, {}, 400),
        ({**ANSWER, "row": "1"}, {}, 400),
        ({**ANSWER, "row": []}, {}, 400),
        ({**ANSWER, "row": 10**30}, {}, 400),
        ({**ANSWER, "answers": {"topic_bug": []}}, {}, 400),
        ({**ANSWER, "queue": "nothing"}, {}, 400),
        ({**ANSWER, "queue": {}}, {}, 400),
    ],
)
def test_requests_that_are_no_answers_are_refused(strict, untouched, body, headers, status):
    assert send(strict, "POST", f"/{strict.token}/answer", body, **headers)[0] == status
    assert not untouched.journal.decisions
    assert state(strict)["progress"]["decided"] == 0  # it goes on serving


def test_a_body_far_too_large_is_not_read_to_its_end(server):
    status, _, _ = send(
        server, "POST", f"/{server.token}/answer", b" " * 1000, Content_Length="1000"
    )
    assert status == 400
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as connection:
        host = f"127.0.0.1:{server.server_port}"
        head = f"POST /{server.token}/answer HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {10**15}\r\n\r\n"
        connection.sendall(head.encode() + bytes(4 * 2**18))
        assert connection.recv(100).startswith(b"HTTP/1.0 413 ")


@pytest.mark.parametrize(
    "name",
    ["../_server.py", "_server.py", "page.html", "/etc/passwd", "..%2f..%2fetc/passwd", "answer"],
)
def test_no_path_of_a_request_reaches_a_file(strict, name):
    assert send(strict, "GET", f"/{strict.token}/{name}")[0] == 404
    assert send(strict, "POST", f"/{strict.token}/state", {})[0] == 404


# ------------------------------------------------------------------------------------ what it says


class Inline(HTMLParser):
    """Collects what a strict policy forbids, and what is loaded from where."""

    def __init__(self):
        super().__init__()
        self.forbidden, self.loaded, self.inside = [], [], None

    def handle_starttag(self, tag, attrs):
        self.inside = tag
        for name, value in attrs:
            if name.startswith("on") or name == "style":
                self.forbidden.append((tag, name))
            if name in ("src", "href"):
                self.loaded.append(value)

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside in ("script", "style") and data.strip():
            self.forbidden.append((self.inside, data))


def test_the_page_needs_nothing_from_elsewhere_and_its_policy_allows_nothing_else(server):
    status, headers, content = send(server, "GET", f"/{server.token}/")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    policy = dict(
        part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["form-action"] == policy["base-uri"] == "'none'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    page = Inline()
    page.feed(content.decode())
    assert page.forbidden == []
    assert sorted(page.loaded) == ["data:,", "download", "page.css", "page.js"]
    for name, kind in (("page.js", "text/javascript"), ("page.css", "text/css")):
        status, headers, content = send(server, "GET", f"/{server.token}/{name}")
        assert (status, headers.get_content_type()) == (200, kind)
        assert b"http://" not in content.replace(b"http://127", b"")
        assert b"https://" not in content


def test_the_script_never_makes_markup_of_text():
    script = files("dm2l.review").joinpath("page.js").read_text(encoding="utf-8")
    for danger in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
    ):
        assert danger not in script


def test_refusals_do_not_repeat_what_was_sent(server):
    for path in ("/<script>alert(1)</script>/", f"/{server.token}/<script>alert(1)</script>"):
        _, headers, content = send(server, "GET", path)
        assert headers.get_content_type() == "text/plain"
        assert b"<script>" not in content


def test_the_state_tells_the_entry_and_its_place(server, session):
    entry, found = session.question(), state(server)
    assert (found["entry"]["row"], found["entry"]["label"]) == (entry.row, entry.label)
    assert found["entry"]["prediction"] == entry.prediction._asdict()
    assert found["position"] == 0
    assert found["progress"]["suggested"] == 40
    note = next(c for c in found["entry"]["columns"] if c["name"] == "note")
    assert note["text"] == "<script>alert(1)</script>"
    status, _, content = answer(server, "yes")
    assert status == 200
    after = json.loads(content)
    assert after["position"] == after["progress"]["decided"] == 1
    assert after["entry"]["row"] == session.question().row
    back = state(server, "?at=0")
    assert (back["position"], back["entry"]["row"], back["entry"]["answer"]) == (
        0,
        entry.row,
        "yes",
    )
    for odd in ("?at=-1", "?at=x", "?at=99", "?at=" + "9" * 50, "?at=%C2%B2"):
        assert state(server, odd)["entry"]["row"] == session.question().row


def test_rows_are_supposed_and_answered_and_label_errors_have_a_queue_of_their_own(server, session):
    entry = state(server, "?queue=rows")["entry"]
    names = [o["name"] for o in entry["others"] if o["state"] == "open"]
    body = {"row": entry["row"], "answers": {names[0]: "yes"}}
    status, _, content = send(server, "POST", f"/{server.token}/suppose", body)
    assert (status, set(json.loads(content)["probabilities"])) == (200, set(names[1:]))
    assert not session.journal.decisions
    for odd in (
        [],
        {"row": 1},
        {**body, "path": "/"},
        {**body, "answers": []},
        {**body, "row": "1"},
    ):
        assert send(server, "POST", f"/{server.token}/suppose", odd)[0] == 400, odd
        if odd:
            odd = {**odd, "queue": "rows"}
        assert send(server, "POST", f"/{server.token}/answer", odd)[0] == 400, odd
    assert not session.journal.decisions
    body["queue"] = "rows"
    status, _, content = send(server, "POST", f"/{server.token}/answer", body)
    found = json.loads(content)
    assert (status, found["queue"], found["position"], found["made"]) == (200, "rows", 1, 1)
    assert list(session.journal.decisions) == [(entry["row"], names[0])]
    assert send(server, "GET", f"/{server.token}/state?queue=nothing")[0] == 400
    assert state(server, "?queue=label_errors")["entry"] is None
    assert send(server, "POST", f"/{server.token}/label_errors", {})[0] == 202
    session.wait(120)
    suspected = state(server, "?queue=label_errors")["entry"]
    words = {suspected["label"]: suspected["observed"]}
    body = {"row": suspected["row"], "answers": words, "queue": "label_errors"}
    status, _, content = send(server, "POST", f"/{server.token}/answer", body)
    found = json.loads(content)
    assert (status, found["queue"], found["progress"]["checked"]) == (200, "label_errors", 1)
    assert json.loads(session.journal.path.read_bytes().splitlines()[-1])["observed"]


def test_an_answer_is_in_the_file_when_the_reply_comes(server, session):
    path = session.journal.path
    for k, word in enumerate(["yes", "no", "skip", "no"]):
        entry = state(server)["entry"]
        assert answer(server, word)[0] == 200
        lines = path.read_bytes().splitlines()
        last = json.loads(lines[-1])
        assert len(lines) == k + 2
        assert (last["row"], last["label"], last["answer"]) == (entry["row"], entry["label"], word)


def test_a_disk_that_is_full_is_told_and_the_answer_not_counted(server, session, monkeypatch):
    def full(_number):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    status, _, content = answer(server, "yes")
    assert status == 500
    assert "No space left" in json.loads(content)["error"]
    monkeypatch.undo()
    assert state(server)["progress"]["decided"] == 0
    assert answer(server, "yes")[0] == 200


def test_a_refit_is_begun_once_and_tells_measures(server, session):
    answer(server, "yes")
    first = send(server, "POST", f"/{server.token}/refit", {})
    assert first[0] == 202
    assert json.loads(first[2]) == {"begun": True}
    session.wait(60)
    found = state(server)["refit"]
    assert (found["running"], found["number"], found["error"]) == (False, 1, "")
    assert found["quality"]["n_answers"] == 1
    by_words = {line["words"]: line for line in found["quality"]["measures"]}
    auc = session.quality.after["label_auc"]
    assert by_words["macro AUC"]["after"] == auc.mean
    assert not by_words["Brier score"]["higher_is_better"]


def test_the_export_and_the_download_are_the_sessions_export(server, session, tmp_path):
    for word in ("yes", "no", "skip"):
        answer(server, word)
    session.export(tmp_path / "expected.csv")
    expected = (tmp_path / "expected.csv").read_bytes()
    assert expected != session.table.path.read_bytes()
    status, headers, content = send(server, "GET", f"/{server.token}/download")
    assert (status, content) == (200, expected)
    assert headers["Content-Disposition"] == "attachment; filename*=UTF-8''out.csv"
    status, _, content = send(server, "POST", f"/{server.token}/export", {})
    assert (status, json.loads(content)["n_answers"]) == (200, 2)
    assert (tmp_path / "out.csv").read_bytes() == expected
    server.output = None
    headers = send(server, "GET", f"/{server.token}/download")[1]
    assert headers["Content-Disposition"] == "attachment; filename*=UTF-8''tickets-reviewed.csv"
    status, _, content = send(server, "POST", f"/{server.token}/export", {})
    assert status == 400
    assert "the review has no output file" in json.loads(content)["error"]


def test_two_hundred_connections_at_once_are_all_answered(session, tmp_path):
    """They come while nobody takes them, as in a burst: the queue has to hold them."""
    with ReviewServer(session) as server:
        host = f"127.0.0.1:{server.server_port}"
        crowd = [socket.socket() for _ in range(200)]
        for one in crowd:
            one.settimeout(20)
            one.connect(("127.0.0.1", server.server_port))
            one.sendall(f"GET /{server.token}/state HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            replies = [one.recv(12) for one in crowd]
        finally:
            server.shutdown()
            thread.join()
            for one in crowd:
                one.close()
    assert {reply[9:12] for reply in replies} == {b"200"}


def test_names_on_the_page_are_isolated_from_the_direction_of_what_is_around_them():
    page = files("dm2l.review")
    script, style = (page.joinpath(name).read_text() for name in ("page.js", "page.css"))
    assert re.search(r"#table, bdi, dd \{ unicode-bidi: isolate; \}", style)
    assert 'make("span", name)' not in script
    assert 'make("dt", name)' not in script
    assert "${label}" not in script
    assert "${shown.label}" not in script


def test_an_excel_table_is_downloaded_as_one(case, tmp_path):
    frame = pd.read_csv(case[0].path, dtype=str)
    frame.to_excel(tmp_path / "tickets.xlsx", index=False)
    table = read_table(tmp_path / "tickets.xlsx", "topic_*")
    with (
        Journal(tmp_path / "answers.jsonl", table) as journal,
        ReviewServer(ReviewSession(case[1], table, journal, top=5)) as server,
    ):
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            answer(server, "yes")
            status, headers, content = send(server, "GET", f"/{server.token}/download")
        finally:
            server.shutdown()
            thread.join()
    assert status == 200
    assert headers["Content-Disposition"].endswith("''tickets-reviewed.xlsx")
    (tmp_path / "downloaded.xlsx").write_bytes(content)
    again = read_table(tmp_path / "downloaded.xlsx", "topic_*")
    assert np.nansum(~np.isnan(again.Y)) == np.nansum(~np.isnan(table.Y)) + 1
