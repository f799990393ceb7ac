"""The backend without Label Studio: who is let in, what is taken, what is learnt."""

import base64
import http.client
import json
import os
import socket
import stat
from contextlib import contextmanager
from threading import Thread

import numpy as np
import pytest

from dm2l.labelstudio import AnnotationSession, Backend, BackendServer, make_config
from dm2l.labelstudio._server import kept_token
from dm2l.labelstudio._tasks import export_tasks, import_annotations
from dm2l.review import Journal
from dm2l.tables import load_bundle, read_table
from half_labelled import LABELS
from studio_case import TOKEN, make_case

CONFIG = make_config(LABELS)


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    folder = tmp_path_factory.mktemp("backend")
    truth = make_case(folder)
    table = read_table(folder / "tickets.csv", "topic_*")
    return table, load_bundle(folder / "tickets.dm2l"), truth


@contextmanager
def opened(case, folder):
    table, model, _ = case
    with Journal(folder / "answers.jsonl", table) as journal:
        session = AnnotationSession(model, table, journal)
        yield session
        session.wait(60)


@contextmanager
def serving(session, lines):
    backend = Backend(session, refit_every=3, tell=lines.append)
    with BackendServer(backend, TOKEN, port=0) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
        backend.wait(60)


@pytest.fixture
def session(case, tmp_path):
    with opened(case, tmp_path) as session:
        yield session


@pytest.fixture
def lines():
    return []


@pytest.fixture
def server(session, lines):
    with serving(session, lines) as server:
        yield server


@pytest.fixture(scope="module")
def untouched(case, tmp_path_factory):
    """The session of all requests that write nothing: none may leave anything in it."""
    with opened(case, tmp_path_factory.mktemp("untouched")) as session:
        yield session


@pytest.fixture(scope="module")
def strict(untouched):
    """The server of that session."""
    with serving(untouched, []) as server:
        yield server


def send(server, method, path, body=None, **headers):
    content = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json"} if method == "POST" else {}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    try:
        connection.request(method, path, content, sent)
        reply = connection.getresponse()
        content = reply.read()
        kind = reply.headers.get_content_type()
        return reply.status, json.loads(content) if kind == "application/json" else content
    finally:
        connection.close()


def task_of(session, row, annotations=()):
    data = {"columns": {}, "dm2l_row": row, "dm2l_table": session.journal.digest[:12]}
    return {"id": row, "data": data, "annotations": list(annotations)}


def annotation(choices):
    value = {"choices": list(choices)}
    return {
        "result": [{"from_name": "labels", "to_name": "row", "type": "choices", "value": value}]
    }


def webhook(session, row, choices, action="ANNOTATION_CREATED"):
    return {
        "action": action,
        "annotation": annotation(choices),
        "task": task_of(session, row),
        "project": {"id": 1, "label_config": CONFIG},
    }


def applying(case, row):
    return [name for k, name in enumerate(LABELS) if case[2][row - 1, k]]


# ------------------------------------------------------------------------------------ who is let in


def basic(password):
    return "Basic " + base64.b64encode(f"anybody:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("path", "authorization", "status"),
    [
        (f"/{TOKEN}/health", None, 200),
        ("/health", basic(TOKEN), 200),
        ("/health", f"Token {TOKEN}", 200),
        ("/health", f"Bearer {TOKEN}", 200),
        ("/health", None, 401),
        ("/health", basic(TOKEN[:-1]), 401),
        ("/health", basic(""), 401),
        ("/health", "Basic !!!", 401),
        ("/health", "Basic /w==", 401),
        ("/health", f"Basic {TOKEN}", 401),
        ("/health", f"Token {TOKEN}x", 401),
        ("/health", "Token", 401),
        (f"/{TOKEN[:-1]}/health", None, 401),
        (f"/{TOKEN}x/health", None, 401),
        (f"/health?token={TOKEN}", None, 401),
        (f"/{TOKEN}/nothing", None, 404),
        (f"/{TOKEN}/", None, 404),
        (f"/{TOKEN}/../../etc/passwd", None, 404),
        (f"/{TOKEN}/predict", None, 404),  # it is a POST
    ],
)
def test_only_who_has_the_token_is_let_in(strict, path, authorization, status):
    headers = {"Authorization": authorization} if authorization else {}
    assert send(strict, "GET", path, **headers)[0] == status


def test_nothing_is_written_without_the_token(strict, untouched, case):
    body = webhook(untouched, 1, applying(case, 1))
    for name in ("webhook", "predict", "setup", "versions"):
        assert send(strict, "POST", f"/{name}", body)[0] == 401
        assert send(strict, "POST", f"/wrong/{name}", body)[0] == 401
    assert send(strict, "POST", f"/{TOKEN}/webhook", body, Origin="http://evil.example")[0] == 403
    assert send(strict, "POST", f"/{TOKEN}/webhook", body, Host="evil.example")[0] == 403
    assert not untouched.journal.decisions


def test_a_refusal_asks_for_a_password_which_label_studio_then_asks_its_user_for(strict):
    connection = http.client.HTTPConnection("127.0.0.1", strict.server_port, timeout=60)
    connection.request("GET", "/health")
    reply = connection.getresponse()
    assert (reply.status, reply.headers["WWW-Authenticate"]) == (401, 'Basic realm="dm2l"')
    connection.close()


def test_a_body_is_not_read_before_the_token_is_right(strict):
    head = f"POST /wrong/predict HTTP/1.1\r\nHost: 127.0.0.1:{strict.server_port}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {2**26}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", strict.server_port), timeout=30) as connection:
        connection.sendall(head.encode() + bytes(2**20))
        assert connection.recv(100).startswith(b"HTTP/1.0 401 ")


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("predict", b"{", 400),
        ("predict", b"[" * 100_000, 400),
        ("predict", [], 400),
        ("predict", {}, 400),
        ("predict", {"label_config": CONFIG}, 400),
        ("predict", {"label_config": CONFIG, "tasks": [1]}, 400),
        ("predict", {"label_config": CONFIG, "tasks": [{}]}, 400),
        ("predict", {"label_config": CONFIG, "tasks": [{"data": {"columns": 3}}]}, 400),
        ("predict", {"label_config": "<View/>", "tasks": []}, 400),
        ("predict", {"label_config": CONFIG, "tasks": []}, 200),
        ("setup", {"schema": CONFIG}, 200),
        ("setup", {"schema": "<View/>"}, 400),
        ("setup", {"schema": 7}, 400),
        ("webhook", {"action": "ANNOTATION_CREATED"}, 400),
        ("webhook", {"action": {"odd": 1}}, 200),
        ("webhook", {"action": "PROJECT_UPDATED"}, 200),
        ("webhook", {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 1}]}, 200),
        ("webhook", {}, 200),
        ("_take", {}, 404),
        ("refit", {}, 404),
    ],
)
def test_requests_that_make_no_sense_are_refused_in_a_line(strict, untouched, name, body, status):
    found, said = send(strict, "POST", f"/{TOKEN}/{name}", body)
    assert found == status
    assert b"Traceback" not in json.dumps(str(said)).encode()
    assert not untouched.journal.decisions
    assert send(strict, "GET", f"/{TOKEN}/health")[0] == 200


def test_a_token_is_kept_for_the_next_start_where_only_its_owner_can_read_it(tmp_path):
    path = tmp_path / "answers.jsonl.token"
    token = kept_token(path)
    assert kept_token(path) == token
    assert kept_token(tmp_path / "other") != token
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("short")
    with pytest.raises(ValueError, match="has no valid token"):
        kept_token(path)


# -------------------------------------------------------------------- what is taken, what is learnt


def test_an_annotation_answers_holes_corrects_what_was_observed_and_is_taken_once(
    server, session, case
):
    table, _, truth = case
    row = int(np.flatnonzero(np.isnan(table.Y).sum(axis=1) >= 3)[0]) + 1
    holes = np.isnan(table.Y[row - 1])
    right = applying(case, row)
    status, said = send(server, "POST", f"/{TOKEN}/webhook", webhook(session, row, right))
    assert (status, said) == (200, {"answers": int(holes.sum())})
    made = {key: decision.answer for key, decision in session.journal.decisions.items()}
    assert made == {
        (row, LABELS[k]): "yes" if truth[row - 1, k] else "no" for k in np.flatnonzero(holes)
    }
    assert not session.journal.checks
    again = send(server, "POST", f"/{TOKEN}/webhook", webhook(session, row, right))
    assert again == (200, {"answers": 0})
    seen = LABELS[int(np.flatnonzero(~holes)[0])]
    wrong = set(right) ^ {seen}
    body = webhook(session, row, wrong, "ANNOTATION_UPDATED")
    assert send(server, "POST", f"/{TOKEN}/webhook", body) == (200, {"answers": 1})
    assert list(session.journal.checks) == [(row, seen)]
    body["annotation"]["was_cancelled"] = True
    assert send(server, "POST", f"/{TOKEN}/webhook", body) == (200, {"answers": 0})
    lines = session.journal.path.read_bytes().splitlines()
    assert len(lines) == 2 + holes.sum()


def test_a_task_that_is_skipped_is_remembered_as_that(server, session, case):
    row = int(np.flatnonzero(np.isnan(case[0].Y).any(axis=1))[0]) + 1
    body = webhook(session, row, ())
    body["annotation"]["was_cancelled"] = True
    assert send(server, "POST", f"/{TOKEN}/webhook", body)[1]["answers"] > 0
    assert {made.answer for made in session.journal.decisions.values()} == {"skip"}


def test_tasks_of_another_table_are_predicted_by_their_columns_and_not_learnt_from(
    server, session, case, lines
):
    table, model, _ = case
    columns = {name: str(table.frame[name].iloc[4]) for name in table.feature_names}
    other = {"id": 9, "data": columns}
    body = {"label_config": CONFIG, "tasks": [other, task_of(session, 5), other]}
    status, said = send(server, "POST", f"/{TOKEN}/predict", body)
    assert status == 200
    first, mine, second = said["results"]
    assert first == second
    found = model.answer(model.inputs(table)[0]).probabilities[4]
    chosen = {LABELS[k] for k in np.flatnonzero(found >= 0.5)}
    assert set(first["result"][0]["value"]["choices"] if first["result"] else []) == chosen
    p, known = session.row_probabilities(5)
    assert mine["score"] == pytest.approx(np.maximum(p, 1 - p)[~known].mean(), abs=1e-5)
    body = webhook(session, 5, LABELS[:2])
    body["task"] = {"id": 9, "data": {**columns, "dm2l_row": 5, "dm2l_table": "another"}}
    assert send(server, "POST", f"/{TOKEN}/webhook", body) == (200, {"answers": 0})
    assert not session.journal.decisions
    assert "not a row of the table" in lines[-1]


def test_the_model_learns_in_the_background_and_has_another_name_then(server, session, case, lines):
    rows = session.open_rows()
    before = send(server, "GET", f"/{TOKEN}/versions")[1]["versions"]
    assert before[0].startswith("dm2l-0-")
    tasks = [task_of(session, row) for row in rows[6:26]]
    body = {"label_config": CONFIG, "tasks": tasks}
    first = send(server, "POST", f"/{TOKEN}/predict", body)[1]
    for row in rows[:3]:
        send(server, "POST", f"/{TOKEN}/webhook", webhook(session, row, applying(case, row)))
    server.backend.wait(120)
    after = send(server, "GET", f"/{TOKEN}/versions")[1]["versions"]
    answers = len(session.journal.decisions)
    assert after[0].startswith(f"dm2l-{answers}-")
    assert f"refitted the model: {after[0]}" in lines
    second = send(server, "POST", f"/{TOKEN}/predict", body)[1]
    assert second["model_version"] == after[0]
    scores = [[one["score"] for one in found["results"]] for found in (first, second)]
    assert scores[0] != scores[1]


def test_a_restart_learns_from_the_journal_and_gives_the_model_the_same_name(case, tmp_path):
    table, model, _ = case
    path, names = tmp_path / "answers.jsonl", []
    for start in range(3):
        with Journal(path, table) as journal:
            session = AnnotationSession(model, table, journal)
            backend = Backend(session)
            if start == 0:
                for row in session.open_rows()[:4]:
                    body = webhook(session, row, applying(case, row))
                    backend.reply("webhook", body)
                backend.reply("webhook", {"action": "START_TRAINING"})
            backend.wait(120)
            names.append(session.version)
    assert names[0] == names[1] == names[2]
    assert not names[0].startswith("dm2l-0-")


def test_what_was_annotated_while_no_backend_ran_comes_with_the_next_predictions(
    server, session, case
):
    row = session.open_rows()[0]
    body = {"label_config": CONFIG, "tasks": [task_of(session, row, [annotation(())])]}
    assert send(server, "POST", f"/{TOKEN}/predict", body)[0] == 200
    made = dict(session.journal.decisions)
    assert made
    assert {one.answer for one in made.values()} == {"no"}
    # An answer that was changed since is not changed back.
    label = next(label for r, label in made if r == row)
    session.answer(row, {label: "yes"})
    assert send(server, "POST", f"/{TOKEN}/predict", body)[0] == 200
    assert session.journal.decisions[row, label].answer == "yes"


# ------------------------------------------------------------------------------------ files


def test_tasks_go_out_and_their_annotations_come_back(case, session, tmp_path):
    table, model, truth = case
    assert export_tasks(session, tmp_path / "tasks.json", top=7) == 7
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    rows = [task["data"]["dm2l_row"] for task in tasks]
    assert rows == session.open_rows()[:7]
    assert all(task["predictions"][0]["model_version"] == session.version for task in tasks)
    assert tasks[0]["data"]["columns"]["ticket"] == table.frame["ticket"].iloc[rows[0] - 1]
    for task, row in zip(tasks, rows, strict=True):
        task["annotations"] = [annotation(applying(case, row))]
    other = {"data": {"text": "from elsewhere"}, "annotations": [annotation(())]}
    (tmp_path / "done.json").write_text(json.dumps([*tasks, other]))
    holes = int(np.isnan(table.Y[np.array(rows) - 1]).sum())
    assert import_annotations(session, tmp_path / "done.json") == (holes, 1)
    assert import_annotations(session, tmp_path / "done.json") == (0, 1)
    for (row, label), made in session.journal.decisions.items():
        assert (made.answer == "yes") == truth[row - 1, LABELS.index(label)]
    # Rows that are done go out with their answers.
    export_tasks(session, tmp_path / "tasks.json", top=2)
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert [("annotations" in task) for task in tasks] == [False] * 2 + [True] * 7
    with Journal(tmp_path / "again.jsonl", table) as journal:
        again = AnnotationSession(model, table, journal)
        assert import_annotations(again, tmp_path / "tasks.json") == (holes, 0)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "JSON of Label Studio"),
        ("[" * 100_000, "JSON of Label Studio"),
        ("{}", "must contain a list of tasks"),
        ("[1]", "must contain a list of tasks"),
        ('[{"annotations": [{"result": [{"from_name": "kind"}]}]}]', "with --config"),
        ('[{"annotations": [{"result": [{"from_name": ["kind"]}]}]}]', "with --config"),
        ('[{"annotations": [{"result": [{"from_name": "labels"}]}]}]', "must have a list"),
    ],
)
def test_a_file_that_is_no_export_is_refused_and_nothing_taken(session, tmp_path, content, reason):
    path = tmp_path / "export.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=reason):
        import_annotations(session, path)
    assert not session.journal.decisions
