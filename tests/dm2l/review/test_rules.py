"""Answers fill what follows from them by rules, and a column with values is one question."""

import json
from threading import Thread
from urllib.request import Request, urlopen

import numpy as np
import pandas as pd
import pytest

from dm2l.labels import LabelMatrix
from dm2l.labels._rules import LabelRules
from dm2l.labelstudio import AnnotationSession, make_config
from dm2l.labelstudio._tasks import predict_tasks, read_config
from dm2l.review import Journal, ReviewSession
from dm2l.review._server import ReviewServer
from dm2l.tables import FitOptions, fit_table, read_table, table_from_frame

RULES = LabelRules([("snake", "reptile"), ("cat", "mammal")], [("reptile", "mammal")])
KINDS = ["snake", "reptile", "cat", "mammal"]


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A table with implications, a column of values and one of ordered values, and its model."""
    rng, n = np.random.default_rng(0), 90
    kind, size = rng.integers(4, size=n), rng.integers(3, size=n)
    truth = np.stack([kind == 0, kind <= 1, kind == 2, kind >= 2], axis=1)
    frame = pd.DataFrame({"name": [f"N{i:02d}" for i in range(n)]})
    frame["length"] = kind + 0.3 * rng.normal(size=n)
    frame["weight"] = size + 0.3 * rng.normal(size=n)
    labels = pd.DataFrame(np.where(truth, "yes", "no"), columns=KINDS).astype(object)
    labels["place"] = np.array(["air", "land", "sea"])[(kind + size) % 3]
    labels["size"] = np.array(["S", "M", "L"])[size]
    labels = labels.mask(rng.random(labels.shape) < 0.4)
    labels.iloc[0], labels.iloc[1] = None, ["no", "no", None, None, None, None]
    path = tmp_path_factory.mktemp("rules") / "animals.csv"
    frame.join(labels).to_csv(path, index=False)
    table = read_table(path, [*KINDS, "place", "size"], values="size=S<M<L")
    options = FitOptions("linear", 0.0, cv=3, rules=RULES)
    return table, fit_table(table, options, estimate_folds=0)


@pytest.fixture
def begin(case, tmp_path):
    """Begin a session; again on the same answers."""
    opened = []

    def make(kind=ReviewSession, **options):
        for session in opened:
            session.close()
        opened.append(kind(case[1], case[0], Journal(tmp_path / "a.jsonl", case[0]), **options))
        return opened[-1]

    yield make
    for session in opened:
        session.wait(60)
        session.close()


def said(session, row):
    """Known labels of a row that the table does not have."""
    known, table = session.labels()[row - 1], session.table
    new = np.isnan(table.Y[row - 1]) & ~np.isnan(known)
    return {table.label_names[k]: int(known[k]) for k in np.flatnonzero(new)}


def test_an_answer_fills_what_follows_and_undoing_it_takes_that_back(begin):
    session = begin()
    before, open_ = session.labels(), session.journal.left().sum()
    implied = session.answer(1, {"snake": "yes"}).implied
    assert implied == {"reptile": "yes", "cat": "no", "mammal": "no"}
    assert said(session, 1) == {"snake": 1, "reptile": 1, "cat": 0, "mammal": 0}
    assert session.follow(1) == {"reptile": "yes", "cat": "no", "mammal": "no"}
    assert session.journal.left().sum() == open_ - 4
    assert session.progress.answered == 1
    others = {other.name: other for other in session.question(0).others}
    assert (others["mammal"].state, others["mammal"].answer) == ("implied", "no")
    lines = session.journal.path.read_text().splitlines()
    assert sum('"label"' in line for line in lines) == 1  # only the answer is in the file
    again = begin()  # a review that is continued knows the same
    assert said(again, 1) == {"snake": 1, "reptile": 1, "cat": 0, "mammal": 0}
    again.answer(1, {"snake": "no"})
    assert said(again, 1) == {"snake": 0}
    again.answer(1, {"snake": "skip"})
    assert (np.nan_to_num(again.labels(), nan=9) == np.nan_to_num(before, nan=9)).all()
    again.answer(1, {"mammal": "no"})  # and backwards: no child without its parent
    assert said(again, 1) == {"cat": 0, "mammal": 0}


def test_labels_are_those_of_the_rules(begin, case):
    session, table = begin(), case[0]
    session.answer(2, {"mammal": "yes"})
    Y = table.Y.copy()
    Y[1, 3] = 1
    closed = RULES.propagate(Y, table.label_names)
    assert np.array_equal(session.labels(), closed, equal_nan=True)
    assert LabelMatrix.from_array(closed).n_labels == len(table.label_names)


def test_answers_that_contradict_the_rules_are_refused(begin):
    session = begin()
    session.answer(1, {"snake": "yes"})
    with pytest.raises(ValueError, match="'snake' is yes and 'mammal' is yes"):
        session.answer(1, {"mammal": "yes"})
    with pytest.raises(ValueError, match="contradict"):
        session.suppose(1, {"mammal": "yes"})
    assert said(session, 1)["mammal"] == 0
    # Both answers at once replace the earlier ones.
    session.answer(1, {"mammal": "yes", "snake": "no"}, "rows")
    assert said(session, 1) == {"mammal": 1, "snake": 0, "reptile": 0}
    assert session.follow(1, {"reptile": "no", "cat": "yes"})["mammal"] == "yes"


def test_a_column_with_values_is_one_question(begin, case, tmp_path):
    session, table = begin(), case[0]
    missing = np.isnan(table.Y).copy()
    labels = table.label_names
    n = session.progress.suggested
    closed = np.isnan(RULES.propagate(table.Y, labels))
    place, size = labels.index("place=air"), labels.index("size>=M")
    assert n == closed[:, :4].sum() + missing[:, place].sum() + missing[:, size].sum()
    assert session.answer(1, {"place": "=sea"}).position == 1
    assert session.answer(1, {"size": "=M"}).position == 2
    assert said(session, 1) == {
        "place=air": 0, "place=land": 0, "place=sea": 1, "size>=M": 1, "size>=L": 0
    }  # fmt: skip
    first = session.question(0)
    assert (first.label, first.answer, first.prediction is None) == ("place", "=sea", False)
    assert [value for value, _ in first.choices] == ["air", "land", "sea"]
    others = {other.name: other for other in first.others}
    assert (others["size"].state, others["size"].answer) == ("answered", "=M")
    assert [value for value, _ in others["size"].choices] == ["S", "M", "L"]
    assert sum(p for _, p in others["size"].choices) == pytest.approx(1)
    assert not any("=" in name for name in others)
    assert session.answer(1, {"place": "=air"}).position == 1
    assert (session.progress.answered, session.progress.skipped) == (2, 0)
    session.answer(1, {"size": "skip"})
    assert (session.progress.answered, session.progress.skipped) == (1, 1)
    assert session.progress.suggested == n
    with pytest.raises(ValueError, match=r"=fire' is no answer for 'place'.*skip or =air or =land"):
        session.answer(1, {"place": "=fire"})
    session.answer(1, {"place": "=land", "size": "=L", "snake": "yes"}, "rows")
    session.export(tmp_path / "out.csv")
    written = pd.read_csv(tmp_path / "out.csv", dtype=str).iloc[0]
    found = [written[name] for name in (*KINDS, "place", "size")]
    assert found == ["yes", "yes", "no", "no", "land", "L"]


@pytest.mark.parametrize("queue", ["entries", "label_errors", "sample"])
def test_no_queue_asks_a_cell_twice(begin, queue):
    session = begin(top=60)
    if queue == "sample":
        session.start_sample(120)
    elif queue == "label_errors":
        session.start_label_errors()
        session.wait(60)
    asked = []
    while (entry := session.question(queue=queue)) is not None:
        asked.append((entry.row, entry.label))
        word = f"={entry.choices[0][0]}" if entry.choices else "skip"
        assert session.answer(entry.row, {entry.label: word}, queue).position > 0
    assert {"place", "size"} < {label for _, label in asked}
    assert len(set(asked)) == len(asked)
    again = [session.question(k, queue) for k in range(len(session.asked(queue)))]
    assert sorted((entry.row, entry.label) for entry in again) == sorted(asked)


def test_each_tag_is_a_question(tmp_path):
    tags = ["a,b", "a", "b,c", None] * 8
    frame = pd.DataFrame({"x": np.sin(np.arange(32.0)), "tags": tags, "old": ["yes", "no"] * 16})
    table = table_from_frame(frame, ["tags", "old"], split=",")
    model = fit_table(table, FitOptions("linear", 0.0, 1.0, missing_as="unlabelled"))
    with Journal(tmp_path / "a.jsonl", table) as journal:
        session = ReviewSession(model, table, journal)
        n = session.progress.suggested
        assert n == np.isnan(table.Y).sum()
        session.answer(4, {"tags=a": "yes"})
        assert session.progress[:2] == (n, 1)


def test_every_question_can_be_answered_until_none_is_left(begin):
    session, count = begin(), 0
    total = session.progress.suggested
    while (entry := session.question()) is not None:
        word = f"={entry.choices[0][0]}" if entry.choices else "no"
        session.answer(entry.row, {entry.label: word})
        count += 1
        assert session.progress.decided == count
    assert not session.journal.left().any()
    assert session.progress.suggested == count <= total
    assert session.question(queue="rows") is None


def test_annotations_are_closed_under_the_rules(begin):
    session = begin(AnnotationSession)
    session.annotate(1, {"snake": "yes"})
    p, known = session.row_probabilities(1)
    places = [session.table.label_names.index(name) for name in KINDS]
    assert known[places].all()
    assert p[places].tolist() == [1, 1, 0, 0]


def test_labels_that_are_not_chosen_do_not_contradict_those_that_are(begin):
    session = begin(AnnotationSession)
    unchosen = dict.fromkeys(session.table.label_names, "no")
    session.annotate(1, unchosen | {"snake": "yes"})
    kinds = {"snake": 1, "reptile": 1, "cat": 0, "mammal": 0}
    assert said(session, 1) == kinds | {"size>=M": 0, "size>=L": 0}  # without a place
    session.annotate(1, unchosen | {"place=sea": "yes", "size>=L": "yes"})
    places = {"place=air": 0, "place=land": 0, "place=sea": 1}
    assert said(session, 1) == dict.fromkeys(kinds, 0) | places | {"size>=M": 1, "size>=L": 1}
    assert session.annotate(1, dict.fromkeys(unchosen, "skip")) == 0


def test_predictions_for_label_studio_obey_the_rules(begin):
    session = begin(AnnotationSession)
    table, digest = session.table, session.journal.digest[:12]
    names, rules = table.label_names, session.model.classifier.rules
    controls = read_config(make_config(names), tuple(names))
    tasks = [{"data": {"dm2l_row": row, "dm2l_table": digest}} for row in range(1, 91)]
    tasks += [{"data": {"length": k / 4, "weight": k % 5 / 2}} for k in range(16)]
    found = predict_tasks(session, tasks, controls)
    chosen = [one["result"][0]["value"]["choices"] for one in found]
    Y = np.array([[name in some for name in names] for some in chosen], dtype=float)
    assert not rules.violations(Y, names).any()
    known = ~np.isnan(table.Y)
    np.testing.assert_array_equal(Y[:90][known], table.Y[known])


def test_the_reply_tells_what_follows(begin):
    with ReviewServer(begin()) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()

        def send(name, **body):
            headers = {"Origin": server.origin, "Content-Type": "application/json"}
            request = Request(server.url + name, json.dumps(body).encode(), headers)
            with urlopen(request, timeout=30) as reply:
                return json.load(reply)

        try:
            found = send("suppose", row=1, answers={"snake": "yes", "size": "=L"})
            assert found["implied"] == {"reptile": "yes", "cat": "no", "mammal": "no"}
            assert set(found["probabilities"]) == {"place"}
            assert [value for value, _ in found["probabilities"]["place"]] == ["air", "land", "sea"]
            found = send("answer", row=1, answers={"snake": "yes"}, queue="entries")
            assert found["implied"] == {"reptile": "yes", "cat": "no", "mammal": "no"}
            assert found["progress"]["implied"] > 0
            found = send("answer", row=1, answers={"size": "=L"}, queue="entries")
            assert (found["implied"], found["position"]) == ({}, 2)
        finally:
            server.shutdown()
            thread.join()
