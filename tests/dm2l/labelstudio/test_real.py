"""A real Label Studio: `make test-labelstudio` starts one, from its own environment.

It is told to pre-annotate tasks, is answered through its API, and loses its backend in between.
With DM2L_RECORD the exchanges go to that file, which test_recorded.py replays.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from dm2l.review import Journal
from dm2l.tables import read_table
from half_labelled import LABELS
from studio_case import TOKEN, Recorder, make_case

PROGRAM = os.environ.get("DM2L_LABEL_STUDIO")
pytestmark = pytest.mark.skipif(
    not PROGRAM, reason="DM2L_LABEL_STUDIO does not name a label-studio: make test-labelstudio"
)
USER_TOKEN = "0123456789abcdef0123456789abcdef01234567"
START_SECONDS = 1800  # the first start makes a database in hundreds of steps


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(found, seconds, what):
    """Ask until there is an answer."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if answer := found():
            return answer
        time.sleep(0.5)
    return pytest.fail(f"{what}: not within {seconds} seconds")


class Studio:
    """A running Label Studio and its API."""

    def __init__(self, folder):
        self.port = free_port()
        self.log = (folder / "label-studio.log").open("wb")
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {
            "LABEL_STUDIO_BASE_DATA_DIR": str(folder / "data"),
            # A backend on this machine's own interface is refused otherwise.
            "ML_BLOCK_LOCAL_IP": "false",
            "SSRF_PROTECTION_ENABLED": "false",
            "LATEST_VERSION_CHECK": "false",
            "COLLECT_ANALYTICS": "false",
        }
        arguments = ["--no-browser", "--internal-host", "127.0.0.1", "--port", str(self.port)]
        arguments += ["--username", "a@example.org", "--password", "for-the-tests-1"]
        arguments += ["--user-token", USER_TOKEN, "--enable-legacy-api-token"]
        self.process = subprocess.Popen(
            [PROGRAM, "start", *arguments],
            env=environment,
            cwd=folder,
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )

    def up(self):
        assert self.process.poll() is None, "Label Studio has ended; see its log"
        try:
            return self.ask("GET", "/api/version")
        except OSError:
            return None

    def ask(self, method, path, body=None):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Token {USER_TOKEN}", "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=120) as reply:
            content = reply.read()
        return json.loads(content) if content else None

    def end(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


class Process:
    """A running ``dm2l backend``."""

    def __init__(self, folder):
        files = [folder / "tickets.dm2l", folder / "tickets.csv"]
        options = ["--answers", folder / "answers.jsonl", "--token-file", folder / "token"]
        options += ["--port", "0", "--refit-every", "20", "--json"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dm2l", "backend", *map(str, [*files, *options])],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.start = json.loads(self.process.stdout.readline())
        self.port = int(self.start["url"].split(":")[2].split("/")[0])

    def version(self):
        with urllib.request.urlopen(f"{self.start['url']}/versions", timeout=30) as reply:
            return json.load(reply)["versions"][0]

    def end(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.communicate(timeout=60)


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    running = Studio(tmp_path_factory.mktemp("studio"))
    try:
        until(running.up, START_SECONDS, "Label Studio")
        yield running
    finally:
        running.end()


def predictions(studio, project):
    found = studio.ask("GET", f"/api/predictions/?project={project}")
    return {(one["task"], one["model_version"]): (one["result"], one["score"]) for one in found}


def retrieve(studio, project):
    """What the button "Retrieve predictions" does, for all tasks."""
    studio.ask(
        "POST",
        f"/api/dm/actions?id=retrieve_tasks_predictions&project={project}",
        {"selectedItems": {"all": True, "excluded": []}},
    )


def decided(folder, name="answers.jsonl"):
    """What the journal says, looked at beside a backend that holds the file."""
    copy = folder / "copy.jsonl"
    copy.write_bytes((folder / name).read_bytes())
    with Journal(copy, read_table(folder / "tickets.csv", "topic_*")) as journal:
        made = {**journal.decisions, **journal.checks}
    return {key: decision.answer for key, decision in made.items()}


def test_a_project_is_pre_annotated_answered_and_learnt_from_and_nothing_is_lost(studio, tmp_path):
    truth = make_case(tmp_path)
    (tmp_path / "token").write_text(TOKEN)
    observed = read_table(tmp_path / "tickets.csv", "topic_*").Y
    files = [tmp_path / "tickets.dm2l", tmp_path / "tickets.csv"]
    tasks_file = tmp_path / "tasks.json"
    options = ["--answers", tmp_path / "answers.jsonl", "--export", "labelstudio", "--top", "50"]
    exported = subprocess.run(
        [sys.executable, "-m", "dm2l", "review", *map(str, [*files, *options, "-o", tasks_file])],
        check=True,
        capture_output=True,
        text=True,
    )
    tasks = [{"data": task["data"]} for task in json.loads(tasks_file.read_text())]
    assert len(tasks) == 50
    project = studio.ask(
        "POST", "/api/projects", {"title": "tickets", "label_config": exported.stdout}
    )["id"]
    studio.ask("POST", f"/api/projects/{project}/import", tasks)

    backend, recorder = Process(tmp_path), Recorder()
    recorder.target = backend.port
    address = f"http://127.0.0.1:{recorder.server_port}"
    wrong = {"url": f"{address}/{TOKEN[:-1]}x", "project": project, "title": "wrong"}
    with pytest.raises(urllib.error.HTTPError) as refused:
        studio.ask("POST", "/api/ml", wrong)
    assert refused.value.code == 400
    assert "authentication parameters" in refused.value.read().decode()
    basic = {"url": address, "project": project, "auth_method": "BASIC_AUTH"}
    basic |= {"basic_auth_user": "dm2l", "basic_auth_pass": TOKEN}
    connection = studio.ask("POST", "/api/ml", basic)
    assert connection["readable_state"] in ("Connected", "Disconnected")
    studio.ask("DELETE", f"/api/ml/{connection['id']}")
    for webhook in studio.ask("GET", f"/api/webhooks/?project={project}"):
        studio.ask("DELETE", f"/api/webhooks/{webhook['id']}/")
    studio.ask("POST", "/api/ml", {"url": f"{address}/{TOKEN}", "project": project})

    retrieve(studio, project)
    before = backend.version()
    first = predictions(studio, project)
    assert {version for _, version in first} == {before}
    assert len(first) == 50
    assert before.startswith("dm2l-0-")

    listed = studio.ask("GET", f"/api/tasks/?project={project}&page_size=100")["tasks"]
    expected = {}

    def annotate(task):
        row = task["data"]["dm2l_row"]
        chosen = [name for k, name in enumerate(LABELS) if truth[row - 1, k]]
        result = {"from_name": "labels", "to_name": "row", "type": "choices"}
        result["value"] = {"choices": chosen}
        made = studio.ask(
            "POST",
            f"/api/tasks/{task['id']}/annotations/",
            {"result": [result] if chosen else []},
        )
        for k, name in enumerate(LABELS):
            if observed[row - 1, k] != observed[row - 1, k]:
                expected[row, name] = "yes" if truth[row - 1, k] else "no"
        return made["id"]

    for task in listed[:10]:
        annotate(task)
    assert decided(tmp_path) == expected
    backend.end()  # kill -9
    assert decided(tmp_path) == expected
    annotate(listed[10])  # nobody hears of it
    assert decided(tmp_path) != expected
    backend = Process(tmp_path)
    recorder.target = backend.port
    half = until(lambda: (v := backend.version()) != before and v, 120, "a refit at the start")
    retrieve(studio, project)  # tasks come with their annotations
    assert decided(tmp_path) == expected
    for task in listed[11:20]:
        made = annotate(task)
    assert decided(tmp_path) == expected
    # Somebody changes the last one: nothing applies.
    studio.ask("PATCH", f"/api/annotations/{made}/", {"result": []})
    row = listed[19]["data"]["dm2l_row"]
    for k, name in enumerate(LABELS):
        if (row, name) in expected or observed[row - 1, k] == 1:
            expected[row, name] = "no"
    assert decided(tmp_path) == expected

    studio.ask("POST", f"/api/ml/{studio.ask('GET', f'/api/ml?project={project}')[0]['id']}/train")
    last = until(
        lambda: (v := backend.version()).startswith(f"dm2l-{len(expected)}-") and v, 120, "a refit"
    )
    retrieve(studio, project)
    found = predictions(studio, project)
    assert len({task for task, version in found if version == last}) == 50
    tasks_left = [task["id"] for task in listed[20:]]
    changed = [task for task in tasks_left if found[task, last] != first[task, before]]
    assert changed
    choices = [task for task in tasks_left if found[task, last][0] != first[task, before][0]]
    print(f"versions {before}, {half}, {last}; {len(expected)} answers from 20 tasks; of the 30")
    print(f"tasks left {len(changed)} have other scores and {len(choices)} other choices")
    backend.end()

    # Its export says the same as its webhooks have said.
    url = f"/api/projects/{project}/export?exportType=JSON"
    (tmp_path / "export.json").write_text(json.dumps(studio.ask("GET", url)))
    options = ["--answers", tmp_path / "again.jsonl", "--import", tmp_path / "export.json"]
    command = [sys.executable, "-m", "dm2l", "review", *map(str, [*files, *options])]
    subprocess.run(command, check=True)
    assert decided(tmp_path, "again.jsonl") == expected

    record = os.environ.get("DM2L_RECORD")
    if record:
        Path(record).write_text(json.dumps(_clean(recorder.exchanges), indent=1) + "\n")


def _clean(exchanges):
    """Without secrets, without what says nothing new; a few of each kind."""
    kept, seen = [], {}
    for one in exchanges:
        action = (one["body"] or {}).get("action")
        kind = (one["method"], one["path"].rsplit("/", 1)[-1], action, one["status"])
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] > 1:
            continue
        body = one["body"]
        if body and "access_token" in body:
            body = {**body, "access_token": "removed"}
        if body and "action" in body:  # the rest is long, and a secret of the project
            project = {key: body["project"][key] for key in ("id", "label_config")}
            body = {**body, "project": project}
        if body and "tasks" in body and one["path"].endswith("predict"):
            body = {**body, "tasks": body["tasks"][:3]}
            results = (one["reply"] or {}).get("results", [])[:3]
            one = {**one, "reply": {**(one["reply"] or {}), "results": results}}
        kept.append({**one, "body": body})
    return kept
