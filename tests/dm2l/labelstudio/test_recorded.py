"""Exchanges with a real Label Studio, as test_real.py has recorded them, once more."""

import http.client
import json
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from dm2l.labelstudio import AnnotationSession, Backend, BackendServer
from dm2l.review import Journal
from dm2l.tables import load_bundle, read_table
from half_labelled import LABELS
from studio_case import TOKEN, make_case

EXCHANGES = json.loads(Path(__file__).with_name("exchanges.json").read_text())


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    """Statuses and replies of today's backend to what was sent then, and its journal's answers."""
    folder = tmp_path_factory.mktemp("recorded")
    make_case(folder)
    table, found = read_table(folder / "tickets.csv", "topic_*"), []
    with Journal(folder / "answers.jsonl", table) as journal:
        session = AnnotationSession(load_bundle(folder / "tickets.dm2l"), table, journal)
        backend = Backend(session)
        with BackendServer(backend, TOKEN, port=0) as server:
            thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            for one in EXCHANGES:
                connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
                body = None if one["body"] is None else json.dumps(one["body"])
                connection.request(one["method"], one["path"], body, one["headers"])
                reply = connection.getresponse()
                content = reply.read()
                found.append((reply.status, json.loads(content) if reply.status == 200 else None))
                connection.close()
            server.shutdown()
            thread.join()
        backend.wait(120)
    return found, journal.decisions | journal.checks, table


def pairs(replayed, ending):
    return [
        (one, *said)
        for one, said in zip(EXCHANGES, replayed[0], strict=True)
        if one["path"].endswith(ending)
    ]


def test_all_that_label_studio_sends_is_among_them():
    sent = {(one["method"], one["path"].rsplit("/")[-1]) for one in EXCHANGES}
    assert sent >= {("GET", "health"), ("POST", "setup"), ("POST", "predict"), ("POST", "webhook")}
    actions = {one["body"]["action"] for one in EXCHANGES if one["path"].endswith("webhook")}
    assert actions >= {"ANNOTATION_CREATED", "ANNOTATION_UPDATED", "START_TRAINING"}


def test_every_request_gets_the_status_it_got(replayed):
    for one, (status, _) in zip(EXCHANGES, replayed[0], strict=True):
        # Nobody was there to hear of one annotation: 502 is the recorder's own.
        expected = 200 if one["status"] == 502 else one["status"]
        assert status == expected, one["path"]


def test_a_connection_sends_its_password_and_the_wrong_address_is_refused(replayed):
    health = pairs(replayed, "health")
    assert [status for _, status, _ in health] == [one["status"] for one, _, _ in health]
    assert {one["status"] for one, _, _ in health} == {200, 401}
    assert any(one["headers"].get("Authorization", "").startswith("Basic ") for one, _, _ in health)


def test_setup_names_a_model_and_predictions_have_the_form_that_was_taken(replayed):
    for _, _, said in pairs(replayed, "setup"):
        assert said["model_version"].startswith("dm2l-0-")
    for one, _, said in pairs(replayed, "predict"):
        assert len(said["results"]) == len(one["body"]["tasks"])
        for new, old in zip(said["results"], one["reply"]["results"], strict=True):
            assert new.keys() == old.keys() == {"result", "score", "model_version"}
            assert 0.5 <= new["score"] <= 1
            for result in new["result"]:
                assert (result["from_name"], result["to_name"]) == ("labels", "row")
                assert set(result["value"]["choices"]) <= set(LABELS)
    first = pairs(replayed, "predict")[0]
    both = zip(first[2]["results"], first[0]["reply"]["results"], strict=True)
    same = [new["result"] == old["result"] for new, old in both]
    assert any(same)  # the models of the recording had other features


def test_the_answers_of_webhooks_are_in_the_journal(replayed):
    _, decided, table = replayed
    for one, _, _ in pairs(replayed, "webhook"):
        body = one["body"]
        if body["action"] != "ANNOTATION_UPDATED":
            continue
        row = body["task"]["data"]["dm2l_row"]
        assert body["annotation"]["result"] == []  # nothing applies
        for k, label in enumerate(LABELS):
            known = table.Y[row - 1, k]
            if np.isnan(known) or known == 1:
                assert decided[row, label].answer == "no"
