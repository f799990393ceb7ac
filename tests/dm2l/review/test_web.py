"""The limits of a local server: time of a request, number of threads, size and depth of JSON."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import threading
import time
import tracemalloc

import pytest

from dm2l.review import _server
from dm2l.review._server import Handler, LocalServer, json_reply, measure_json


class Echo(Handler):
    """Reply with the number of items of a body."""

    timeout = 0.5
    most_bytes = 2**26

    def admitted(self, path):
        return path

    def get(self, name, query):
        return json_reply("here")

    def post(self, name):
        return json_reply(len(self.body()))


@pytest.fixture
def server():
    with LocalServer(Echo, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def head_of(server, method, length):
    host = f"127.0.0.1:{server.server_port}"
    lines = (f"{method} / HTTP/1.1", f"Host: {host}", "Content-Type: application/json")
    return "\r\n".join((*lines, f"Content-Length: {length}", "", "")).encode()


def connect(server, content=b""):
    connection = socket.create_connection(("127.0.0.1", server.server_port), timeout=30)
    connection.sendall(content)
    return connection


def ask(server, method="GET", body=b""):
    with connect(server, head_of(server, method, len(body)) + body) as connection:
        reply = b"".join(iter(lambda: connection.recv(2**16), b""))
    return int(reply[9:12]), reply.partition(b"\r\n\r\n")[2]


def test_three_hundred_slow_bodies_hold_a_bounded_number_of_threads_for_a_bounded_time(server):
    before = threading.active_count()
    crowd = [connect(server, head_of(server, "POST", 1000) + b"[") for _ in range(300)]
    try:
        most, start = 0, time.monotonic()
        replies = []
        asking = threading.Thread(target=lambda: replies.append(ask(server)))
        asking.start()
        while asking.is_alive() and time.monotonic() < start + 30:
            most = max(most, threading.active_count() - before - 1)
            for connection in crowd:  # a byte now and then moves no deadline
                with contextlib.suppress(OSError):
                    connection.send(b" ")
            time.sleep(0.02)
        assert replies == [(200, b'"here"')]
        assert most <= _server.MOST_WORKERS
        assert crowd[0].recv(12) == b"HTTP/1.0 408"
    finally:
        for connection in crowd:
            connection.close()


@pytest.mark.parametrize("sent", [b"", b"GET ", b"GET / HTTP/1.1\r\nX: 1\r\n"])
def test_a_head_that_does_not_end_is_given_up(server, sent):
    with connect(server, sent) as connection:
        start = time.monotonic()
        while time.monotonic() < start + 20:
            try:
                connection.send(b"x")
                connection.settimeout(0.05)
                if connection.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("The connection is still open.")


def test_a_refused_request_gets_its_reply_although_its_body_never_comes(server, monkeypatch):
    monkeypatch.setattr(Echo, "most_bytes", 10)
    with connect(server, head_of(server, "POST", 1000)) as connection:
        assert connection.recv(12) == b"HTTP/1.0 413"


def test_threads_that_cannot_be_started_leave_the_server_as_it_was(server, monkeypatch):
    monkeypatch.setattr(LocalServer, "handle_error", lambda *_: None)

    def fail(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr("socketserver.threading.Thread.start", fail)
        for _ in range(_server.MOST_WORKERS + 1):
            with connect(server) as connection:
                assert connection.recv(1) == b""
    assert ask(server)[0] == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[" * 64 + b"]" * 64, 200),
        (b"[" * 65 + b"]" * 65, 400),
        (b'{"":' * 70 + b"1" + b"}" * 70, 400),
        (json.dumps(["[" * 1000, '\\"[' * 1000, "\\"]).encode(), 200),
        (b"[" + b"1," * 2**21 + b"1]", 413),
        ("[1]".encode("utf-16"), 400),
    ],
)
def test_depth_and_number_of_values_are_limited(server, monkeypatch, body, status):
    monkeypatch.setattr(Echo, "timeout", 30)
    assert ask(server, "POST", body)[0] == status


@pytest.mark.parametrize("one", [b"[],", b'{"":{}},', b"[[[]]],", b'{"":0},', b"[0,0],"])
def test_small_values_do_not_take_many_times_the_memory_of_their_text(one):
    share = 8  # memory grows with the number of values: a part of the limit shows the rate
    most = _server.MOST_VALUES // share
    per_item, _ = measure_json(one)
    content = b"[" + one * (2 * most) + b"0]"
    tracemalloc.start()
    try:
        assert measure_json(content)[0] > most
        assert tracemalloc.get_traced_memory()[1] < 3 * len(content) + 2**25
    finally:
        tracemalloc.stop()
    content = b"[" + one * (most // per_item - 1) + b"0]"
    assert measure_json(content)[0] <= most
    tracemalloc.start()
    try:
        json.loads(content)
        assert tracemalloc.get_traced_memory()[1] < 500 * 2**20 / share
    finally:
        tracemalloc.stop()


def shape_of(value):
    """Commas and brackets of a value's JSON, and its depth, by recursion."""
    if not isinstance(value, (list, dict)):
        return 0, 0
    inside = [shape_of(one) for one in (value.values() if isinstance(value, dict) else value)]
    count = max(len(inside), 1) + sum(count for count, _ in inside)
    return count, 1 + max((depth for _, depth in inside), default=0)


def test_the_measure_counts_what_is_outside_of_strings():
    draw = random.Random(0)

    def make(level):
        kind = draw.choice("lds1" if level else "s1")
        if kind == "l":
            return [make(level - 1) for _ in range(draw.randrange(4))]
        if kind == "d":
            return {text(): make(level - 1) for _ in range(draw.randrange(4))}
        return text() if kind == "s" else draw.random()

    def text():
        return "".join(draw.choices('[]{}",:\\\\aä\n\u2222', k=draw.randrange(6)))

    for _ in range(2000):
        value = make(5)
        for ascii_only in (True, False):
            content = json.dumps(value, ensure_ascii=ascii_only).encode()
            assert measure_json(content) == shape_of(value)


def test_the_measure_goes_on_from_chunk_to_chunk():
    deep = b"[" * 1000
    content = deep + b'"' + b"[" * 2**21 + b'"' + b",1" * 2**20 + deep + b"]" * 2000
    assert measure_json(content) == (2000 + 2**20, 2000)
