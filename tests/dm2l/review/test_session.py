"""A review without a page: what is asked, what a refit learns and measures, what is exported."""

import csv
import io
from dataclasses import replace
from itertools import count
from threading import Event

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dm2l.completion import LabelErrors
from dm2l.io import read_npz
from dm2l.review import Journal, ReviewSession, _session
from dm2l.review._export import export_answers
from dm2l.review._question import Column, arranged, row_columns
from dm2l.review._session import _identifiers
from dm2l.tables import (
    FitOptions,
    Table,
    audit_table,
    complete_table,
    fit_table,
    load_bundle,
    read_table,
    suggest_entries,
    suggest_rows,
    table_from_frame,
)
from dm2l.tables._suggestion import table_values
from half_labelled import LABELS, as_csv, make_table, spell

N_ROWS = 160  # with fewer, known labels do not lower the log-loss
FIXED = FitOptions("linear", 0.1, 0.3, cv=3)
names = count()


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """Table, model, complete labels, and a folder for journals."""
    folder = tmp_path_factory.mktemp("session")
    columns, truth, observed = make_table(N_ROWS, blank=0.5)
    path = folder / "tickets.csv"
    path.write_bytes(as_csv(columns, spell(truth, observed, "Yes", "No"), "\r\n").encode())
    table = read_table(path, "topic_*")
    return table, fit_table(table, FIXED, estimate_folds=0), truth, folder


@pytest.fixture
def begin(case):
    """Begin a session; with a path again on the same answers."""
    table, model, _, folder = case
    opened = []

    def make(path=None, **options):
        path = folder / f"{next(names)}.jsonl" if path is None else path
        session = ReviewSession(model, table, Journal(path, table), **options)
        opened.append(session)
        return session

    yield make
    for session in opened:
        session.wait(60)
        session.close()


def say(session, answers):
    """Answer one entry after the other; returns which they were."""
    asked = []
    for answer in answers:
        entry = session.question()
        asked.append((entry.row, entry.label))
        session.answer(entry.row, {entry.label: answer})
    return asked


def refit(session):
    assert session.start_refit()
    session.wait(60)
    assert not session.refit_state.running
    assert session.refit_state.error == ""
    return session.quality


# --------------------------------------------------------------------------------------- asking


def test_entries_are_asked_in_the_order_of_their_value(case, begin):
    table, model, _, _ = case
    found = suggest_entries(model, table)
    session = begin()
    assert session.progress[:3] == (len(found.label), 0, 0)
    asked = say(session, ["yes"])
    ranked = list(zip(found.row.tolist(), found.label, strict=True))
    assert asked == ranked[:1]
    for word in ("no", "skip", "yes", "no"):
        entry = session.question()
        values = session._predictions.values.total
        left = session.journal.left()
        best = values[left].max()
        assert values[entry.row - 1, LABELS.index(entry.label)] == best == entry.prediction.value
        assert entry.prediction.rank == 1
        session.answer(entry.row, {entry.label: word})
    assert session.progress[:3] == (len(found.label), 4, 1)


def test_an_entry_shows_its_row_its_other_labels_and_the_prediction(case, begin):
    table, model, _, _ = case
    session = begin()
    (row, label), *_ = say(session, ["yes"])
    other = next(
        name for k, name in enumerate(LABELS) if name != label and np.isnan(table.Y[row - 1, k])
    )
    session.answer(row, {other: "no"})
    entry = session.question(0)
    assert (entry.row, entry.label, entry.answer) == (row, label, "yes")
    first = complete_table(model, table).probabilities[row - 1]
    assert entry.prediction.probability == pytest.approx(first[LABELS.index(label)])
    parts = entry.prediction
    assert parts.value == pytest.approx(parts.own + parts.row + parts.others)
    assert parts.own == pytest.approx(min(parts.probability, 1 - parts.probability))
    shown = {column.name: column for column in entry.columns}
    assert set(shown) == set(table.feature_names) - {"ticket"}
    assert entry.name == table.frame["ticket"][row - 1]
    assert shown["text"].text == table.frame["text"][row - 1]
    assert shown["opened"].used  # as a date
    assert shown["text"].used
    assert {"text"} <= {column.name for column in entry.columns[: entry.n_first]}
    states = {o.name: o for o in entry.others}
    assert set(states) == set(LABELS) - {label}
    # Predictions for open labels are those of `complete`, given the known labels of the row.
    cases = []
    for word in (1.0, 0.0):
        Y = session.labels()
        Y[row - 1, LABELS.index(label)] = word
        cases.append(complete_table(model, replace(table, Y=Y)).probabilities[row - 1])
    for k, name in enumerate(LABELS):
        if name == label:
            continue
        observed = table.Y[row - 1, k]
        if not np.isnan(observed):
            assert states[name][1:4] == ("observed", "yes" if observed else "no", None)
        elif name == other:
            assert states[name][1:4] == ("answered", "no", None)
        else:
            assert states[name][1:6] == pytest.approx(
                ("open", "", cases[0][k], cases[0][k], cases[1][k])
            )


def test_an_answer_changes_predictions_for_its_row_at_once_and_no_other(case, begin):
    table, model, _, _ = case
    session = begin()
    before = session._predictions.values.probability.copy()
    entry = session.question()
    row, k = entry.row - 1, LABELS.index(entry.label)
    session.answer(entry.row, {entry.label: "yes"})
    after = session._predictions.values.probability
    others = np.arange(len(before)) != row
    np.testing.assert_array_equal(after[others], before[others])
    oracle = complete_table(model, replace(table, Y=session.labels())).probabilities[row]
    holes = np.isnan(session.labels()[row])
    assert holes.any()
    np.testing.assert_allclose(after[row, holes], oracle[holes])
    assert (after[row, holes] != before[row, holes]).any()
    assert after[row, k] == before[row, k]  # with what it was asked
    # Without the answer, predictions are those of before.
    session.answer(entry.row, {entry.label: "skip"})
    np.testing.assert_allclose(session._predictions.values.probability, before)


def test_a_whole_row_is_answered_in_one_go(case, begin):
    table, model, _, _ = case
    session = begin()
    entry = session.question(queue="rows")
    assert entry.row == suggest_rows(model, table, top=1).row[0]
    assert (entry.label, entry.prediction) == ("", None)
    asked = [o.name for o in entry.others if o.state == "open"]
    assert asked == [LABELS[k] for k in np.flatnonzero(np.isnan(table.Y[entry.row - 1]))]
    first = {o.name: o.probability for o in entry.others if o.state == "open"}
    supposed = session.suppose(entry.row, {asked[0]: "yes"})
    assert set(supposed) == set(asked[1:])
    assert not session.journal.decisions
    if len(asked) > 1:
        assert any(supposed[name] != first[name] for name in asked[1:])
    words = {name: ("yes", "no", "skip")[k % 3] for k, name in enumerate(asked)}
    assert session.answer(entry.row, words, "rows").position == 1
    assert {key[1]: d.answer for key, d in session.journal.decisions.items()} == words
    assert session.question(0, "rows").row == entry.row
    assert session.question(queue="rows").row != entry.row
    with pytest.raises(ValueError, match="is not a label"):
        session.answer(entry.row, {asked[0]: "no", "nothing": "no"}, "rows")
    assert session.journal.decisions[entry.row, asked[0]].answer == words[asked[0]]
    with pytest.raises(ValueError, match="no answer"):
        session.answer(entry.row, {}, "rows")


def test_suspected_label_errors_are_confirmed_and_corrected(case, begin, tmp_path):
    table, model, _, _ = case
    session = begin()
    assert session.question(queue="label_errors") is None
    i, k = np.argwhere(~np.isnan(table.Y))[0].tolist()
    with pytest.raises(ValueError, match="is not missing in"):
        session.answer(i + 1, {LABELS[k]: "no"})
    assert session.start_label_errors()
    session.wait(120)
    assert session.label_errors_state.done
    assert not session.start_label_errors()
    found = audit_table(model, table, top=3)
    corrected = {}
    for n in range(3):
        entry = session.question(queue="label_errors")
        assert (entry.row, entry.label) == (found.row[n], found.label[n])
        assert entry.observed == ("yes" if found.observed[n] else "no")
        assert entry.error_probability == found.probability[n]
        word = entry.observed if n == 1 else {"yes": "no", "no": "yes"}[entry.observed]
        saved = session.answer(entry.row, {entry.label: word}, "label_errors")
        assert saved.position == n + 1
        if n != 1:
            corrected[entry.row, entry.label] = word
    assert session.progress[5:7] == (3, 2)
    assert session.progress.decided == 0
    Y = table.Y.copy()
    for (row, label), word in corrected.items():
        Y[row - 1, LABELS.index(label)] = word == "yes"
    np.testing.assert_array_equal(session.labels(), Y)
    assert session.export(tmp_path / "out.csv") == 2
    np.testing.assert_array_equal(read_table(tmp_path / "out.csv", LABELS).Y, Y)
    assert refit(session).n_answers == 2
    path = session.journal.path
    session.close()
    again = begin(path)
    np.testing.assert_array_equal(again.labels(), Y)
    first = again.question(0, "label_errors")
    assert first.answer == corrected[first.row, first.label]


def test_a_sparse_row_shows_what_is_not_zero_and_long_ones_are_cut(tmp_path):
    X = sp.csr_matrix(np.where(np.arange(400) % 2, 1.5, 0.0) * np.ones((1, 400)))
    table = Table(
        path=tmp_path / "in.svm",
        frame=None,
        matrix=sp.vstack([X, 0 * X]).tocsr(),
        feature_names=[f"x{j}" for j in range(400)],
        label_names=["y"],
        Y=np.array([[np.nan], [1.0]]),
    )
    columns = row_columns(table, 1, None)
    assert [(c.name, c.text) for c in columns] == [(f"x{j}", "1.5") for j in range(1, 400, 2)]
    texts = {f"x{j}": ["t" * 5000] for j in range(310)}
    wide = table_from_frame(pd.DataFrame(texts | {"y": [None]}), "y")
    columns = row_columns(wide, 1, None)
    assert columns[0].text == "t" * 4000 + " ... (1000 more characters)"


def test_columns_that_speak_loudest_come_first():
    columns = [Column(f"x{j}", "", j > 2, weight) for j, weight in enumerate([0.0] * 3 + [0.1, -2])]
    columns += [Column(f"z{j}", "", True, 0.0) for j in range(3)]
    order, first = arranged(columns)
    assert [c.name for c in order[:first]] == ["x0", "x1", "x4", "x3"]
    assert [c.name for c in order[first:]] == ["x2", "z0", "z1", "z2"]
    plain = [Column(f"x{j}", "", True, 0.0) for j in range(20)]
    assert arranged(plain) == (plain, 8)


def test_going_back_and_answering_again_changes_the_answer_and_nothing_else(begin):
    session = begin()
    asked = say(session, ["yes", "no", "yes"])
    following = session.question()
    earlier = session.question(1)
    assert ((earlier.row, earlier.label), earlier.answer) == (asked[1], "no")
    assert session.answer(asked[1][0], {asked[1][1]: "skip"}).position == 2
    assert [(made, d.answer) for made, d in session.journal.decisions.items()] == list(
        zip(asked, ["yes", "skip", "yes"], strict=True)
    )
    # What is asked next is another thing only where the answer bears on it: in its row.
    assert session.question() == following or session.question().row == asked[1][0]
    assert session.question(99) == session.question()
    assert session.progress[1:3] == (2, 1)


def test_a_session_goes_on_where_the_last_one_ended(begin):
    first = begin(top=20)
    asked = say(first, ["yes", "skip", "no"])
    path = first.journal.path
    first.close()
    second = begin(path, top=20)
    assert second.progress == first.progress
    assert [(second.question(k).row, second.question(k).label) for k in range(3)] == asked
    key = second.question().row, second.question().label
    assert key not in asked


def test_top_counts_all_that_was_asked_for(begin):
    session = begin(top=3)
    asked = say(session, ["yes", "skip", "no"])
    assert session.question() is None
    assert session.progress[:3] == (3, 2, 1)
    session.answer(asked[0][0], {asked[0][1]: "no"})
    assert session.question() is None
    path = session.journal.path
    session.close()
    assert begin(path, top=4).question() is not None


def test_when_every_hole_is_answered_the_session_still_opens_refits_and_exports(tmp_path):
    path = tmp_path / "in.csv"
    lines = [f"{i % 7},{'' if i % 6 == 0 else int(i % 7 > 3)},{i % 2}" for i in range(42)]
    path.write_text("\n".join(["mass,y1,y2", *lines]))
    table = read_table(path, ["y1", "y2"])
    model = fit_table(table, FIXED, estimate_folds=0)
    for answers in (7, 0):
        with Journal(tmp_path / "a.jsonl", table) as journal:
            session = ReviewSession(model, table, journal)
            say(session, ["yes"] * answers)
            assert session.question() is None
            assert refit(session).n_answers == 7
            assert session.question() is None
            assert session.export(tmp_path / "out.csv") == 7
    assert not np.isnan(read_table(tmp_path / "out.csv", ["y1", "y2"]).Y).any()


def test_only_labels_that_the_model_contradicts_are_suspected(case, begin):
    table, model, _, _ = case
    session = begin()
    session.start_label_errors()
    session.wait(120)
    found = audit_table(model, table)
    expected = [
        (int(row), label)
        for row, label, wrong in zip(found.row, found.label, found.contradicted, strict=True)
        if wrong
    ]
    assert 0 < len(expected) < len(found.label)
    assert list(session._label_errors) == expected[:1000]


def test_contradicted_labels_are_those_on_the_other_side_of_one_half():
    T = np.array([[1, -1, 0], [-1, 1, 1], [1, 1, -1]])
    p = np.array([[0.9, 0.6, 0.5], [0.1, 0.8, 0.3], [0.2, 0.7, 0.4]])
    found = LabelErrors.of(T, p)
    places = zip(found.row[found.contradicted], found.label[found.contradicted], strict=True)
    assert {(int(i), int(k)) for i, k in places} == {(0, 1), (1, 2), (2, 0)}


def test_correct_counts_answers_on_the_models_side(begin):
    session = begin()
    expected = 0
    for k in range(8):
        entry = session.question()
        answer = "yes" if k % 3 else "no"
        expected += (entry.prediction.probability > 0.5) == (answer == "yes")
        session.answer(entry.row, {entry.label: answer})
    say(session, ["skip"])
    assert session.progress[3:5] == (expected, 8)


def test_a_table_without_holes_can_be_checked_and_one_with_other_labels_is_refused(case, tmp_path):
    table, model, truth, _ = case
    whole = replace(table, Y=truth.astype(float))
    with Journal(tmp_path / "a.jsonl", whole) as journal:
        session = ReviewSession(model, whole, journal)
        assert session.question() is None
        assert session.question(queue="rows") is None
        session.start_label_errors()
        session.wait(120)
        assert session.question(queue="label_errors") is not None
    few = read_table(table.path, LABELS[:3])
    with Journal(tmp_path / "b.jsonl", few) as journal, pytest.raises(ValueError, match="was read"):
        ReviewSession(model, few, journal)


# -------------------------------------------------------------------------------------- refitting


def test_a_refit_is_the_fit_to_the_table_with_the_answers(case, begin):
    table, _, truth, _ = case
    session = begin()
    Y = table.Y.copy()
    for k in range(25):
        entry = session.question()
        answer = bool(truth[entry.row - 1, LABELS.index(entry.label)])
        word = "skip" if k % 5 == 4 else ("yes" if answer else "no")
        session.answer(entry.row, {entry.label: word})
        if word != "skip":
            Y[entry.row - 1, LABELS.index(entry.label)] = answer
    quality = refit(session)
    assert quality.n_answers == 20
    later = replace(table, Y=Y)
    oracle = fit_table(later, FIXED, estimate_folds=0)
    inputs = oracle.inputs(table)[0]
    for ours, theirs in zip(session.model.answer(inputs), oracle.answer(inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-8)
    np.testing.assert_allclose(session.model.correlation, oracle.correlation, atol=1e-8)
    # What is left comes in the order of the new model; what was skipped is not asked again.
    left = np.isnan(table.Y)
    for row, label in session.journal.decisions:
        left[row - 1, LABELS.index(label)] = False
    values = table_values(oracle, later)[0].total
    row, k = np.unravel_index(np.argmax(np.where(left, values, -1)), left.shape)
    assert say(session, ["yes"]) == [(row + 1, LABELS[k])]


def test_quality_is_measured_on_observed_labels_that_neither_model_saw(case, begin, monkeypatch):
    table, _, _, _ = case
    trained, scored = [], []

    def fit(inputs, uses, Y, options, **others):
        trained.append(Y.copy())
        return _refit_fit(inputs, uses, Y, options, **others)

    def measure(hidden, *answer, ranked):
        scored.append((trained[-1], hidden.copy()))
        return _refit_measure(hidden, *answer)

    _refit_fit, _refit_measure = _session.fit_pipeline, _session.measure
    monkeypatch.setattr(_session, "fit_pipeline", fit)
    monkeypatch.setattr(_session, "measure", measure)
    session = begin()
    say(session, ["yes", "no"] * 5)
    for answers in (10, 14):
        quality = refit(session)
        assert quality.n_answers == answers
        say(session, ["yes", "no"] * 2)
    # Before is measured once, after at each refit.
    assert len(scored) == 3 * quality.repetitions
    observed = ~np.isnan(table.Y)
    for k, (Y, hidden) in enumerate(scored):
        kept_back = ~np.isnan(hidden)
        assert kept_back.sum() == pytest.approx(0.2 * observed.sum(), rel=0.2)
        assert not (kept_back & ~np.isnan(Y)).any()
        assert (observed | ~kept_back).all()
        np.testing.assert_array_equal(hidden[kept_back], table.Y[kept_back])
        given_answers = (~np.isnan(Y) & ~observed).sum()
        assert given_answers == (0, 10, 14)[k // quality.repetitions]
        np.testing.assert_array_equal(scored[k % quality.repetitions][1], hidden)


def test_right_answers_raise_the_measures_and_change_is_their_difference(tmp_path):
    columns, truth, observed = make_table(200, seed=1)
    observed &= np.random.RandomState(0).uniform(size=observed.shape) < 0.25
    path = tmp_path / "tickets.csv"
    path.write_text(as_csv(columns, spell(truth, observed)), encoding="utf-8")
    table = read_table(path, "topic_*")
    model = fit_table(table, FIXED, estimate_folds=0)
    with Journal(tmp_path / "answers.jsonl", table) as journal:
        session = ReviewSession(model, table, journal)
        nothing = refit(session)
        assert all(change.mean == 0 or np.isnan(change.mean) for change in nothing.change.values())
        for row, k in np.argwhere(~observed)[::2]:
            journal.add(int(row) + 1, LABELS[k], "yes" if truth[row, k] else "no")
        quality = refit(session)
    assert quality.change["label_auc"].mean > 0.02, quality
    assert quality.change["brier"].mean < -0.005, quality
    for key, change in quality.change.items():
        expected = quality.after[key].mean - quality.before[key].mean
        assert change.mean == pytest.approx(expected, nan_ok=True)


def n_learnt(session):
    """Number of answers that the model was fitted to."""
    return int((~np.isnan(session.learnt) & np.isnan(session.table.Y)).sum())


@pytest.fixture
def unmeasured(monkeypatch):
    """Refits without measures, which take seven times as long."""
    monkeypatch.setattr(ReviewSession, "measured", False)


def test_answers_are_taken_while_the_model_is_fitted(begin, monkeypatch, unmeasured):
    session = begin()
    say(session, ["yes", "no"])
    reached, go_on = Event(), Event()

    def slow(*arguments, **options):
        reached.set()
        assert go_on.wait(60)
        return fit(*arguments, **options)

    fit = _session.fit_pipeline
    monkeypatch.setattr(_session, "fit_pipeline", slow)
    assert session.start_refit()
    assert reached.wait(60)
    assert session.refit_state.running
    assert not session.start_refit()
    meanwhile = say(session, ["no", "yes", "skip"])
    go_on.set()
    session.wait(60)
    assert n_learnt(session) == 2
    following = [say(session, ["yes"])[0] for _ in range(10)]
    assert not set(following) & set(meanwhile)


def test_a_refitted_model_is_saved(case, begin, tmp_path, unmeasured):
    path = tmp_path / "refitted.dm2l"
    session = begin(save_model=path)
    say(session, ["yes", "no"])
    assert not path.exists()
    refit(session)
    assert session.saved
    again = load_bundle(path)
    inputs = again.inputs(case[0])[0]
    np.testing.assert_array_equal(again.answer(inputs).scores, session.model.answer(inputs).scores)
    assert session.model is not case[1]
    assert list(tmp_path.iterdir()) == [path]


def test_a_model_that_cannot_be_saved_is_used_and_told(case, begin, tmp_path, unmeasured):
    session = begin(save_model=tmp_path / "none" / "refitted.dm2l")
    say(session, ["yes", "no"])
    session.start_refit()
    session.wait(60)
    assert "was refitted, but cannot be saved" in session.refit_state.error
    assert n_learnt(session) == 2
    assert session.model is not case[1]
    assert not session.saved


def test_nothing_is_saved_after_the_end(begin, monkeypatch, tmp_path, unmeasured):
    path, ended = tmp_path / "refitted.dm2l", Event()

    def slow(*arguments, **options):
        ended.wait(30)
        return fit(*arguments, **options)

    fit = _session.fit_pipeline
    monkeypatch.setattr(_session, "fit_pipeline", slow)
    session = begin(save_model=path)
    session.start_refit()
    session.close()
    ended.set()
    session.wait(60)
    assert not session.refit_state.running
    assert not path.exists()


def test_a_refit_that_fails_says_why_and_leaves_all_as_it_was(begin, unmeasured):
    session = begin()
    say(session, ["yes"])
    before, model = session.question(), session.model

    def broken(*_arguments, **_options):
        raise ValueError("no label has both a yes and a no")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_session, "fit_pipeline", broken)
        session.start_refit()
        session.wait(60)
    assert session.refit_state.error == "no label has both a yes and a no"
    assert not session.refit_state.running
    assert session.model is model
    assert session.question() == before
    refit(session)


def test_quality_is_left_out_where_nothing_can_be_kept_back(tmp_path):
    path = tmp_path / "few.csv"
    lines = [f"{i % 5},{('yes', 'no')[i] if i < 2 else ''}" for i in range(30)]
    path.write_text("\n".join(["mass,tox", *lines]))
    table = read_table(path, "tox")
    model = fit_table(table, FIXED, estimate_folds=0)
    with Journal(tmp_path / "a.jsonl", table) as journal:
        session = ReviewSession(model, table, journal)
        assert refit(session) is None


# ----------------------------------------------------------------------------------------- export


def test_an_export_differs_from_the_table_in_the_answered_cells_only(case, begin, tmp_path):
    table, _, _, _ = case
    session = begin()
    words = ["yes", "no", "skip"] * 10
    asked = dict(zip(say(session, words), words, strict=True))
    output = tmp_path / "out.csv"
    assert session.export(output) == 20
    before, after = table.path.read_bytes(), output.read_bytes()
    assert before.count(b"\r\n") == after.count(b"\r\n") == N_ROWS + 1
    old, new = (list(csv.reader(io.StringIO(t.decode(), newline=""))) for t in (before, after))
    header = old[0]
    for i, line in enumerate(old):
        for j, cell in enumerate(line):
            word = asked.get((i, header[j]), "skip")
            assert new[i][j] == (cell if word == "skip" else {"yes": "Yes", "no": "No"}[word])
    # The bytes, too: what was put in taken out again gives the same file.
    lines = after.split(b"\r\n")
    for (row, label), word in asked.items():
        if word != "skip":
            cells = lines[row].split(b",")  # no label holds a comma, so they count from the end
            cells[header.index(label) - len(header)] = b""
            lines[row] = b",".join(cells)
    assert b"\r\n".join(lines) == before


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-16-le", "latin-1"])
def test_an_export_has_the_bytes_of_its_encoding(tmp_path, encoding):
    text = "größe,a\r\n1.5,1\r\n2.5,\r\n-3,0\r\n4,1\r\n-1,0\r\n"
    path, output = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_bytes(text.encode(encoding))
    table = read_table(path, "a", encoding=encoding)
    model = fit_table(table, FitOptions("linear", 0.1, 0.3, cv=2), estimate_folds=0)
    with Journal(tmp_path / "a.jsonl", table) as journal:
        session = ReviewSession(model, table, journal)
        assert session.export(output) == 0
        assert output.read_bytes() == path.read_bytes()
        session.answer(2, {"a": "yes"})
        session.export(output)
    assert output.read_bytes() == text.replace("2.5,", "2.5,1").encode(encoding)


def test_numbers_are_shown_as_they_are(tmp_path):
    frame = pd.DataFrame({"id": [12345678901234567, 2], "x": [0.5, np.nan], "y": [np.nan, 1.0]})
    table = table_from_frame(frame, ["y"])
    shown = {column.name: column.text for column in row_columns(table, 1, None)}
    assert shown == {"id": "12345678901234567", "x": "0.5"}
    assert {c.name: c.text for c in row_columns(table, 2, None)} == {"id": "2", "x": ""}


spellings = st.sampled_from([("1", "0"), ("TRUE", "FALSE"), ('"yes"', '"no"'), ("+1", "-1")])


@settings(deadline=None, max_examples=25)
@given(data=st.data(), spelling=spellings, separator=st.sampled_from(",;\t"))
def test_an_export_read_again_has_the_answers(tmp_path_factory, data, spelling, separator):
    folder = tmp_path_factory.mktemp("export")
    cell = st.sampled_from([*spelling, "", "NA", "?"])
    grid = data.draw(st.lists(st.tuples(cell, cell), min_size=3, max_size=8))
    lines = [separator.join(['" a;b"', *cells]) for cells in grid]
    path = folder / "in.csv"
    path.write_text("\n".join([separator.join(["text", "y1", "y2"]), *lines]), newline="")
    table = read_table(path, ["y1", "y2"])
    holes = [(int(i) + 1, table.label_names[k]) for i, k in np.argwhere(np.isnan(table.Y))]
    answers = st.sampled_from(["yes", "no", "skip"])
    said = {key: data.draw(answers) for key in holes if data.draw(st.booleans())}
    Y = table.Y.copy()
    for (row, label), word in said.items():
        Y[row - 1, table.label_names.index(label)] = {"yes": 1, "no": 0, "skip": np.nan}[word]
    given_answers = sum(word != "skip" for word in said.values())
    with Journal(folder / "answers.jsonl", table) as journal:
        for (row, label), word in said.items():
            journal.add(row, label, word)
        digest = journal.digest
    output = folder / "out.csv"
    assert export_answers(table, Y, output, [], digest) == given_answers
    again = read_table(output, ["y1", "y2"])
    np.testing.assert_array_equal(again.Y, Y)
    if not given_answers:
        assert output.read_bytes() == path.read_bytes()


def test_parquet_and_matrices_are_exported_too(tmp_path):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(40, 3))
    Y = (X[:, :2] > 0).astype(float)
    Y[rng.uniform(size=Y.shape) < 0.4] = np.nan
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    for k in range(2):
        frame[f"y{k}"] = pd.array(np.where(np.isnan(Y[:, k]), None, Y[:, k]), dtype="Int8")
    frame.to_parquet(tmp_path / "in.parquet")
    np.savez(tmp_path / "in.npz", X=X, Y=Y, label_names=["y0", "y1"])
    for suffix in (".parquet", ".npz"):
        table = read_table(tmp_path / f"in{suffix}", ["y0", "y1"])
        model = fit_table(table, FIXED, estimate_folds=0)
        expected = Y.copy()
        with Journal(tmp_path / f"{suffix}.jsonl", table) as journal:
            session = ReviewSession(model, table, journal)
            for key, word in zip(say(session, ["yes", "no"] * 3), ["yes", "no"] * 3, strict=True):
                expected[key[0] - 1, int(key[1][1])] = word == "yes"
            output = tmp_path / f"out{suffix}"
            assert session.export(output) == 6
        if suffix == ".npz":
            found = read_npz(output)
            np.testing.assert_array_equal(found.target, expected)
            np.testing.assert_array_equal(found.data, X)
        else:
            found = pd.read_parquet(output)
            pd.testing.assert_frame_equal(found[["a", "b", "c"]], frame[["a", "b", "c"]])
            values = found[["y0", "y1"]].astype("Float64").to_numpy(dtype=float, na_value=np.nan)
            np.testing.assert_array_equal(values, expected)


def test_a_table_that_has_changed_meanwhile_is_not_exported(tmp_path):
    path = tmp_path / "in.csv"
    rows = [f"{i % 7},{'' if i % 3 else i % 2}" for i in range(40)]
    path.write_text("\n".join(["mass,tox", *rows]))
    table = read_table(path, "tox")
    model = fit_table(table, FIXED, estimate_folds=0)
    with Journal(tmp_path / "a.jsonl", table) as journal:
        session = ReviewSession(model, table, journal)
        say(session, ["yes"])
        path.write_text("\n".join(["mass,tox", *reversed(rows)]))
        with pytest.raises(ValueError, match=r"in\.csv has changed since the review began"):
            session.export(tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_a_refit_of_positive_unlabelled_labels_is_one_again(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"mass": rng.normal(size=90)})
    noted = (frame["mass"] > 0) & (rng.random(size=90) < 0.6)
    frame["tag"] = [True if yes else None for yes in noted]
    table = table_from_frame(frame, ["tag"])
    options = FitOptions(kernel="linear", lambda_d=0.1, alpha=1.0, missing_as="unlabelled")
    model = fit_table(table, options, estimate_folds=0)
    with Journal(tmp_path / "answers.jsonl", table) as journal:
        session = ReviewSession(model, table, journal, top=2)
        for answer in ("yes", "no"):
            entry = session.question()
            session.answer(entry.row, {entry.label: answer})
        session.start_refit()
        session.wait()
        assert session.refit_state.error == ""
        assert session.model.classifier.missing_as == "unlabelled"


def test_a_row_is_identified_by_chosen_columns(begin, case):
    table = case[0]
    entry = begin(keep=["channel", "vip"]).question()
    cells = [table.frame[name].iloc[entry.row - 1] for name in ("channel", "vip")]
    assert entry.name == " ".join(map(str, cells))
    assert "ticket" in {column.name for column in entry.columns}
    with pytest.raises(ValueError, match="no feature column 'vi' to identify rows"):
        _identifiers(case[1], table, ["vi"])


def test_texts_come_first():
    columns = [Column("a", "1", True, 3.0), Column("b", "word " * 20, True, 0.1)]
    assert [column.name for column in arranged(columns)[0]] == ["b", "a"]
