"""``dm2l backend`` and the files of ``dm2l review`` as processes: kill -9 and the next start."""

import json
import urllib.error
import urllib.request

import pytest
from click.testing import CliRunner

from dm2l.cli._review import backend_command, review_command
from half_labelled import LABELS
from running_commands import Command
from studio_case import make_case

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("process")
    make_case(folder)
    return [str(folder / "tickets.dm2l"), str(folder / "tickets.csv")]


@pytest.fixture
def start(files, tmp_path):
    """Start backends on the same answers; they are ended with the test."""
    started = []

    def start():
        options = ["--answers", tmp_path / "answers.jsonl", "--port", "0", "--json"]
        started.append(Command("backend", *files, *options))
        return started[-1], json.loads(started[-1].first_line())

    yield start
    for one in started:
        one.end()


def post(url, body):
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def test_tasks_are_exported_answered_kept_through_a_kill_and_imported(files, tmp_path, start):
    answers, tasks_file = tmp_path / "answers.jsonl", tmp_path / "tasks.json"
    options = ["--answers", str(answers), "--export", "labelstudio", "-o", str(tasks_file)]
    exported = CliRunner().invoke(review_command, [*files, *options, "--top", "6", "--json"])
    assert exported.exit_code == 0, exported.output
    config = json.loads(exported.stdout.splitlines()[-1])["config"]
    tasks = json.loads(tasks_file.read_text())
    assert len(tasks) == 6
    value = {"choices": LABELS[:2]}
    result = {"from_name": "labels", "to_name": "row", "type": "choices", "value": value}
    backend, said = start()
    taken = 0
    for task in tasks[:4]:
        body = {"action": "ANNOTATION_CREATED", "annotation": {"result": [result]}}
        body |= {"task": task, "project": {"label_config": config}}
        taken += post(f"{said['url']}/webhook", body)["answers"]
    wrong = said["url"][:-1] + ("a" if said["url"][-1] != "a" else "b")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        post(f"{wrong}/webhook", body)
    backend.end()
    _, again = start()
    assert again["answered"] + again["checked"] == taken > 4
    assert again["url"].rsplit("/", 1)[1] == said["url"].rsplit("/", 1)[1]  # the same token
    # The same annotations, as a file, for a journal of their own.
    for task in tasks[:4]:
        task["annotations"] = [{"result": [result]}]
    tasks_file.write_text(json.dumps(tasks))
    options = ["--answers", str(tmp_path / "other.jsonl"), "--import", str(tasks_file), "--json"]
    imported = CliRunner().invoke(review_command, [*files, *options])
    assert imported.exit_code == 0, imported.output
    assert json.loads(imported.stdout.splitlines()[-1]) == {"answers": taken, "other_tasks": 0}


def test_an_export_needs_a_file_and_a_token_file_a_token(files, tmp_path):
    options = [*files, "--answers", str(tmp_path / "answers.jsonl")]
    told = CliRunner().invoke(review_command, [*options, "--export", "labelstudio"])
    assert told.exit_code == 2
    assert "--export requires -o" in told.output
    (tmp_path / "token").write_text("short")
    told = CliRunner().invoke(backend_command, [*options, "--token-file", str(tmp_path / "token")])
    assert told.exit_code == 1
    assert "has no valid token" in told.output
