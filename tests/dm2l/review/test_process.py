"""``dm2l review`` as a process: kill -9, the next start, Ctrl-C, SIGTERM."""

import csv
import http.client
import io
import json
import os
import signal
import time
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from dm2l.cli._review import review_command
from dm2l.review import Journal
from dm2l.tables import FitOptions, fit_table, load_bundle, read_table, save_bundle
from half_labelled import LABELS, as_csv, make_table, spell
from running_commands import Command

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A table and a model of it."""
    folder = tmp_path_factory.mktemp("review")
    columns, truth, observed = make_table(80, blank=0.5)
    columns["note"] = ["<img src=x onerror=\"document.title='run'\"><b>bold</b>"] * 80
    path = folder / "tickets.csv"
    path.write_bytes(as_csv(columns, spell(truth, observed, "Yes", "No"), "\r\n").encode())
    table = read_table(path, "topic_*")
    model = fit_table(table, FitOptions("linear", 0.1, 0.3, cv=3), estimate_folds=0)
    save_bundle(model, folder / "tickets.dm2l")
    return folder


class Review:
    """A running ``dm2l review``."""

    def __init__(self, files, folder, *options, fresh=False):
        self.answers, self.output = folder / "answers.jsonl", folder / "out.csv"
        arguments = [files / "tickets.dm2l", files / "tickets.csv", "--answers", self.answers]
        arguments += ["-o", self.output, "--no-browser", "--json", *options]
        self.command = Command("review", *arguments, fresh=fresh)
        self.end = self.command.end
        self.start = json.loads(self.command.first_line())
        self.url = self.start["url"]

    def ask(self, name, body=None, status=200):
        """A request with the token, as the page makes it."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
        headers = {"Origin": f"http://{parts.netloc}", "Content-Type": "application/json"}
        method = "GET" if body is None else "POST"
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, parts.path + name, content, headers)
            reply = connection.getresponse()
            assert reply.status == status, reply.read()
            return json.loads(reply.read())
        finally:
            connection.close()

    def answer(self, row, label, word):
        """Answer a question about an entry."""
        return self.ask("answer", {"row": row, "answers": {label: word}, "queue": "entries"})


@pytest.fixture
def review(files, tmp_path):
    """Start reviews on the same answers; they are ended with the test."""
    started = []

    def start(*options, **others):
        started.append(Review(files, tmp_path, *options, **others))
        return started[-1]

    yield start
    for one in started:
        one.end()


def exported(path, files):
    """Cells that differ from the table, by row and label; nothing else may."""
    old, new = (
        list(csv.reader(io.StringIO(text.read_bytes().decode(), newline="")))
        for text in (files / "tickets.csv", path)
    )
    assert len(old) == len(new)
    assert path.read_bytes().count(b"\r\n") == len(old)
    found = {}
    for i, (before, after) in enumerate(zip(old, new, strict=True)):
        for name, a, b in zip(old[0], before, after, strict=True):
            if a != b:
                assert a == ""
                found[i, name] = {"Yes": "yes", "No": "no"}[b]
    return found


def without_skips(said):
    return {key: word for key, word in said.items() if word != "skip"}


# ----------------------------------------------------------------------------------- no browser


def test_kill_9_loses_no_answer_that_was_confirmed_and_a_torn_line_is_told(files, review):
    words = [("yes", "no", "skip")[k % 3] for k in range(14)]
    said = {}
    running = review("--top", "20")
    for k, word in enumerate(words):
        if k == 7:
            running.end(signal.SIGKILL)
            with running.answers.open("ab") as file:  # what a crash amid a line leaves
                file.write(b'{"row": 1, "lab')
            running = review("--top", "20")
            assert running.start["answered"] + running.start["skipped"] == k
        entry = running.ask("state")["entry"]
        key = entry["row"], entry["label"]
        assert key not in said
        state = running.answer(*key, word)
        said[key] = word
        assert state["progress"]["decided"] == k + 1
    first = next(iter(said))
    running.answer(*first, "no")
    said[first] = "no"
    running.ask("export", {})
    assert exported(running.output, files) == without_skips(said)
    _, _, err = running.end(signal.SIGKILL)
    # The table, the output and seven answers stand above it.
    assert "line 10 is incomplete and was dropped" in err
    running = review("--top", "20")
    back = [running.ask(f"state?at={k}")["entry"] for k in range(14)]
    assert {(e["row"], e["label"]): e["answer"] for e in back} == said


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is another signal elsewhere")
def test_ctrl_c_and_sigterm_write_the_table_and_the_same_command_goes_on(files, review):
    running = review(fresh=True)
    said = {}
    for word in ("yes", "no", "skip"):
        entry = running.ask("state")["entry"]
        running.answer(entry["row"], entry["label"], word)
        said[entry["row"], entry["label"]] = word
    running.ask("state")
    code, out, err = running.end(signal.SIGINT)
    assert code == 0, err
    assert "Traceback" not in err
    assert json.loads(out.splitlines()[-1])["output"] == str(running.output)
    assert exported(running.output, files) == without_skips(said)
    running.output.unlink()
    running.output.touch()
    again = review()  # without --force
    assert again.start["answered"] == 2
    code, out, err = again.end(signal.SIGTERM)
    assert code == 0, err
    assert json.loads(out.splitlines()[-1])["output"] == str(running.output)
    assert exported(again.output, files) == without_skips(said)


def run(*arguments):
    return CliRunner().invoke(review_command, [str(argument) for argument in arguments])


def test_misuse_is_refused_before_anything_is_written(files, tmp_path):
    model, table, answers = files / "tickets.dm2l", files / "tickets.csv", tmp_path / "a.jsonl"
    usual = (model, table, "--answers", answers, "--no-browser")
    for host in ("0.0.0.0", "192.168.1.5", "::"):
        result = run(*usual, "--host", host)
        assert result.exit_code == 2
        assert "only this machine may open" in result.output
    assert run(model, table).exit_code == 2
    result = run(model, table, "--answers", table)
    assert result.exit_code == 2
    assert "the same file" in result.output
    assert "the same file" in run(*usual, "-o", table, "--force").output
    assert "the same file" in run(*usual, "-o", answers).output
    assert "the same file" in run(*usual, "--save-model", model, "--force").output
    assert "does not exist" in run(model, table, "--answers", tmp_path / "none" / "a.jsonl").output
    assert run(*usual, "--port", "70000").exit_code == 2
    assert not answers.exists()
    result = run(*usual, "-o", tmp_path / "out.parquet")
    assert result.exit_code == 1
    assert "must end in .csv" in result.output
    assert not answers.exists()


@pytest.mark.parametrize("begun", ["with another output", "without one", "empty"])
@pytest.mark.parametrize("option", ["-o", "--save-model"])
def test_a_file_that_the_review_does_not_write_is_not_overwritten(files, tmp_path, option, begun):
    answers, precious = tmp_path / "a.jsonl", tmp_path / "precious.csv"
    answers.touch()
    if begun != "empty":
        with Journal(answers, read_table(files / "tickets.csv", LABELS)) as journal:
            if begun == "with another output":
                journal.own(tmp_path / "other.csv")
    precious.write_text("precious")
    usual = (files / "tickets.dm2l", files / "tickets.csv", "--answers", answers, "--no-browser")
    result = run(*usual, option, precious)
    assert result.exit_code == 2
    assert "was not written by this review. Pass --force" in result.output
    assert precious.read_text() == "precious"


def test_what_was_overwritten_with_force_is_the_review_s_own(files, tmp_path, review):
    Journal(tmp_path / "answers.jsonl", read_table(files / "tickets.csv", LABELS)).close()
    (tmp_path / "out.csv").write_text("not so precious")
    assert review("--force").end(signal.SIGINT)[0] == 0
    assert exported(tmp_path / "out.csv", files) == {}
    assert review().end(signal.SIGINT)[0] == 0


def test_a_refitted_model_is_kept_and_the_next_review_writes_it_again(files, tmp_path, review):
    path = tmp_path / "refitted.dm2l"
    models = []
    for word in ("yes", "no"):
        running = review("--save-model", path)
        entry = running.ask("state")["entry"]
        running.answer(entry["row"], entry["label"], word)
        running.ask("refit", {}, status=202)
        while running.ask("state")["refit"]["running"]:
            time.sleep(0.02)
        code, out, err = running.end(signal.SIGINT)
        assert code == 0, err
        assert json.loads(out.splitlines()[-1])["model"] == str(path)
        models.append(load_bundle(path))
    assert (models[0].classifier.coef_ != models[1].classifier.coef_).any()


def test_answers_of_another_table_are_refused(files, tmp_path):
    other = tmp_path / "tickets.csv"
    other.write_bytes((files / "tickets.csv").read_bytes().replace(b"T10003", b"T99999"))
    answers = tmp_path / "a.jsonl"
    Journal(answers, read_table(other, LABELS)).close()
    result = run(files / "tickets.dm2l", files / "tickets.csv", "--answers", answers)
    assert result.exit_code == 1
    assert "has answers for another table" in result.output
