"""Answers survive whatever happens to the process, and damage is never read as an answer."""

import errno
import hashlib
import json
import os
from itertools import count

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm2l.review import Journal
from dm2l.review._journal import Decision, hold, write_line
from dm2l.tables import read_table, table_from_frame

HOLES = [
    (row, label)
    for row in range(1, 7)
    for label in ("tox_ä", "tox_b")
    if (row, label) != (1, "tox_b")
]
patient = settings(deadline=None, max_examples=60)  # the machine may be busy with other tests
names = count()


@pytest.fixture(scope="module")
def table():
    frame = pd.DataFrame({"mass": range(6), "tox_ä": [None] * 6, "tox_b": ["yes", *[None] * 5]})
    return table_from_frame(frame, "tox_*")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("journal")


@pytest.fixture
def path(folder):
    return folder / f"{next(names)}.jsonl"


def written(path, table, lines):
    """A journal with these answers, and the sizes of the file after each line."""
    with Journal(path, table) as journal:
        sizes = [path.stat().st_size]
        for (row, label), answer in lines:
            journal.add(row, label, answer, 0.25)
            sizes.append(path.stat().st_size)
    return sizes


def replayed(lines):
    """What holds after these answers, in the order of first decisions."""
    return {key: Decision(answer, 0.25) for key, answer in lines}


answers = st.lists(st.tuples(st.sampled_from(HOLES), st.sampled_from(["yes", "no", "skip"])))


@patient
@given(lines=answers)
def test_what_was_answered_last_holds_when_the_file_is_opened_again(folder, table, lines):
    path = folder / f"{next(names)}.jsonl"
    written(path, table, lines)
    with Journal(path, table) as journal:
        assert list(journal.decisions.items()) == list(replayed(lines).items())
        assert journal.dropped == ""


def test_the_files_that_a_review_writes_are_noted_once(path, table, folder):
    with Journal(path, table) as journal:
        journal.add(2, "tox_b", "yes")
        assert not journal.owns(folder / "out.csv")
        journal.own(folder / "out.csv")
        size = path.stat().st_size
        journal.own(folder / "no" / ".." / "out.csv")
        assert path.stat().st_size == size
        journal.add(3, "tox_b", "no")
    with Journal(path, table) as journal:
        assert journal.owns(folder / "out.csv")
        assert not journal.owns(folder / "other.csv")
        assert list(journal.decisions) == [(2, "tox_b"), (3, "tox_b")]


def test_checks_of_observed_labels_are_kept_apart_and_belong_to_what_was_observed(path, table):
    with Journal(path, table) as journal:
        journal.add(2, "tox_b", "yes", 0.25)
        journal.add(1, "tox_b", "no", check=True)
        with pytest.raises(ValueError, match="is not missing in"):
            journal.add(1, "tox_b", "no")
        with pytest.raises(ValueError, match="is missing in"):
            journal.add(2, "tox_b", "no", check=True)
    with Journal(path, table) as journal:
        assert journal.decisions == {(2, "tox_b"): Decision("yes", 0.25)}
        assert journal.checks == {(1, "tox_b"): Decision("no", None)}
    lines = path.read_text(encoding="utf-8").splitlines()
    content = json.loads(lines[2])
    assert content["observed"] == "yes"
    seal = json.loads(lines[1])["seal"]
    del content["seal"]
    forged = write_line(content | {"observed": "no"}, seal)[0]
    path.write_bytes("".join(f"{line}\n" for line in lines[:2]).encode() + forged)
    with pytest.raises(ValueError, match=r"line 3: the observed label .* has changed"):
        Journal(path, table)


@patient
@given(lines=answers.filter(len), data=st.data())
def test_of_a_file_cut_off_anywhere_all_whole_lines_are_read(folder, table, lines, data):
    path = folder / f"{next(names)}.jsonl"
    sizes = written(path, table, lines)
    cut = data.draw(st.integers(sizes[0], sizes[-1]))
    path.write_bytes(path.read_bytes()[:cut])
    # A line that lacks nothing but its end is whole.
    whole = sum(size - 1 <= cut for size in sizes[1:])
    with Journal(path, table) as journal:
        assert journal.decisions == replayed(lines[:whole])
        torn = cut not in sizes and cut + 1 not in sizes
        assert bool(journal.dropped) == torn
        if torn:
            assert f"line {whole + 2} " in journal.dropped
        journal.add(2, "tox_b", "no")
    with Journal(path, table) as journal:  # what is written after a crash is read like the rest
        assert journal.dropped == ""
        assert journal.decisions[2, "tox_b"].answer == "no"
        assert len(path.read_bytes().splitlines()) == 1 + whole + 1


@patient
@given(lines=answers.filter(len), data=st.data())
def test_a_changed_byte_is_an_error_that_names_a_line_and_never_another_answer(
    folder, table, lines, data
):
    path = folder / f"{next(names)}.jsonl"
    sizes = written(path, table, lines)
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    line = 1 + sum(size <= place for size in sizes)
    failure = None
    try:
        with Journal(path, table) as journal:
            # Blanks between values and the very end of the file carry nothing.
            assert journal.decisions == replayed(lines)
    except ValueError as error:
        failure = str(error)
    if failure is not None:
        assert f"line {line}:" in failure or (line == 1 and "is not a file of answers" in failure)
    assert path.read_bytes()[:place] == content[:place]


@pytest.mark.parametrize("damage", ["left out", "moved", "twice"])
def test_lines_left_out_moved_or_doubled_are_errors(path, table, damage):
    written(path, table, [(HOLES[k], "yes") for k in range(4)])
    lines = path.read_bytes().splitlines(keepends=True)
    before = list(lines)
    if damage == "left out":
        del lines[2]
    elif damage == "moved":
        lines[2], lines[3] = lines[3], lines[2]
    else:
        lines.insert(3, lines[2])
    path.write_bytes(b"".join(lines))
    number = next(i for i, (a, b) in enumerate(zip(lines, before, strict=False), 1) if a != b)
    with pytest.raises(ValueError, match=rf"line {number}: this line or an earlier line"):
        Journal(path, table)
    assert path.read_bytes() == b"".join(lines)


def test_bytes_that_a_crash_left_empty_are_a_torn_line(path, table):
    written(path, table, [(HOLES[0], "yes")])
    with path.open("ab") as file:
        file.write(b'{"row": 3, "lab' + bytes(40))
    with Journal(path, table) as journal:
        assert "line 3 " in journal.dropped
        assert list(journal.decisions) == [HOLES[0]]


def test_an_answer_is_synced_to_disk_before_it_counts(path, table, monkeypatch):
    with Journal(path, table) as journal:
        synced = []

        def fsync(number):
            assert not journal.decisions
            synced.append((os.fstat(number).st_ino, path.read_bytes()))

        monkeypatch.setattr(os, "fsync", fsync)
        journal.add(3, "tox_b", "yes", 0.5)
        monkeypatch.undo()
        ((number, content),) = synced
        assert number == path.stat().st_ino
        assert content == path.read_bytes()
        last = json.loads(content.splitlines()[-1])
        assert (last["row"], last["label"], last["answer"]) == (3, "tox_b", "yes")


def test_a_full_disk_loses_nothing_and_counts_nothing(path, table, monkeypatch):
    with Journal(path, table) as journal:
        journal.add(2, "tox_b", "yes")
        before = path.read_bytes()

        def full(_number):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            journal.add(3, "tox_b", "no")
        monkeypatch.undo()
        assert list(journal.decisions) == [(2, "tox_b")]
        assert path.read_bytes() == before
        journal.add(4, "tox_b", "no")
    with Journal(path, table) as journal:
        assert list(journal.decisions) == [(2, "tox_b"), (4, "tox_b")]


@pytest.mark.parametrize(
    ("row", "label", "answer", "message"),
    [
        (0, "tox_b", "yes", "0 is not a row"),
        (7, "tox_b", "yes", "7 is not a row .* 1 to 6"),
        (True, "tox_b", "yes", "True is not a row"),
        ("2", "tox_b", "yes", "'2' is not a row"),
        (2, "tox_c", "yes", "'tox_c' is not a label"),
        (2, ["tox_b"], "yes", "is not a label"),
        (2, "tox_b", "maybe", "one of yes, no, skip, got 'maybe'"),
        (1, "tox_b", "no", "'tox_b' of row 1 is not missing"),
    ],
)
def test_what_is_no_answer_to_a_missing_label_is_refused(path, table, row, label, answer, message):
    with Journal(path, table) as journal:
        before = path.read_bytes()
        with pytest.raises(ValueError, match=message):
            journal.add(row, label, answer)
        assert path.read_bytes() == before


def test_answers_are_refused_to_another_table_and_to_other_labels(tmp_path):
    text = "mass,tox_a,tox_b\n1,yes,\n2,,no\n"
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text(text)
    second.write_text(text.replace("2,,no", "3,,no"))
    path = tmp_path / "answers.jsonl"
    with Journal(path, read_table(first, "tox_*")) as journal:
        journal.add(2, "tox_a", "yes")
    with pytest.raises(ValueError, match=r"another table, 'a.csv'"):
        Journal(path, read_table(second, "tox_*"))
    with pytest.raises(ValueError, match=r"labels \['tox_a', 'tox_b'\]"):
        Journal(path, read_table(first, "tox_a"))
    second.write_text(text)  # it is the content that counts, not the name
    with Journal(path, read_table(second, "tox_*")) as journal:
        assert journal.decisions == {(2, "tox_a"): Decision("yes")}


def test_a_table_read_with_other_marks_is_found_out_by_line(tmp_path):
    source = tmp_path / "a.csv"
    source.write_text("mass,tox_a\n1,1\n2,-1\n3,\n")
    path = tmp_path / "answers.jsonl"
    with Journal(path, read_table(source, "tox_a", missing=["-1"])) as journal:
        journal.add(3, "tox_a", "yes")
        journal.add(2, "tox_a", "yes")
    with pytest.raises(ValueError, match=r"line 3: Label 'tox_a' of row 2 is not missing"):
        Journal(path, read_table(source, "tox_a"))


@pytest.mark.parametrize(
    "content", [b"a,b\n1,2\n", b"{}\n", b"x", b'{"journal": "dm2l rex', bytes(9)]
)
def test_a_file_that_is_no_journal_is_refused_and_left_alone(path, table, content):
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a file of answers"):
        Journal(path, table)
    assert path.read_bytes() == content


def test_a_file_of_another_format_is_refused(path, table, monkeypatch):
    monkeypatch.setattr("dm2l.review._journal.FORMAT", 2)
    Journal(path, table).close()
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"format 2 of another version of dm2l"):
        Journal(path, table)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_file_that_was_left_while_it_was_made_is_made_anew(path, table, share):
    (whole,) = written(path, table, [])
    head = path.read_bytes()
    path.write_bytes(head[: int(share * whole)])
    assert written(path, table, []) == [whole]
    assert path.read_bytes() == head


def test_two_that_make_the_same_file_at_once_do_not_both_have_it(path, table, monkeypatch):
    others = []

    def late(file):
        # The other one comes when this one has opened the new file, and before it holds it.
        monkeypatch.undo()
        others.append(Journal(path, table))
        others[0].add(2, "tox_b", "yes")
        return hold(file)

    monkeypatch.setattr("dm2l.review._journal.hold", late)
    with pytest.raises(BlockingIOError, match="open in another review"):
        Journal(path, table)
    others[0].add(3, "tox_b", "no")
    others[0].close()
    with Journal(path, table) as journal:
        assert {key: d.answer for key, d in journal.decisions.items()} == {
            (2, "tox_b"): "yes",
            (3, "tox_b"): "no",
        }


def test_two_cannot_write_to_one_file(path, table):
    with Journal(path, table) as journal:
        journal.add(2, "tox_b", "yes")
        with pytest.raises(BlockingIOError, match="open in another review"):
            Journal(path, table)
        journal.add(3, "tox_b", "yes")
    with Journal(path, table) as journal:
        assert len(journal.decisions) == 2


def test_line_ends_that_an_editor_changed_are_read(path, table):
    written(path, table, [(HOLES[0], "yes"), (HOLES[1], "no")])
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    with Journal(path, table) as journal:
        assert [made.answer for made in journal.decisions.values()] == ["yes", "no"]
        journal.add(*HOLES[2], "skip")
    with Journal(path, table) as journal:
        assert len(journal.decisions) == 3


def test_the_prediction_of_the_first_question_is_kept(path, table):
    with Journal(path, table) as journal:
        journal.add(2, "tox_b", "yes", 0.3)
        journal.add(2, "tox_b", "no", np.float64(0.9))
        assert journal.decisions[2, "tox_b"] == Decision("no", 0.3)
    with Journal(path, table) as journal:
        assert journal.decisions[2, "tox_b"] == Decision("no", 0.3)


def sealed_on(path, table, content):
    """A journal to which one has added a line with a right seal."""
    with Journal(path, table) as journal:
        seal = journal._seal
    text = json.dumps(content, ensure_ascii=False)
    digest = hashlib.sha256(f"{seal}\n{text}".encode()).hexdigest()[:16]
    with path.open("a", encoding="utf-8") as file:
        file.write(f'{text[:-1]}, "seal": "{digest}"}}\n')


@pytest.mark.parametrize(
    "content",
    [
        {"output": ["a"]},
        {"output": {}},
        {"output": None},
        {"row": 2, "label": "tox_b", "answer": "yes", "probability": [0.5]},
        {"row": 2, "label": "tox_b", "answer": "yes", "probability": "high"},
        {"row": 2, "label": "tox_b", "answer": "yes", "probability": float("nan")},
        {"row": 2, "label": "tox_b", "answer": ["yes"]},
        {"row": [2], "label": "tox_b", "answer": "yes"},
    ],
)
def test_a_sealed_line_with_values_of_the_wrong_kind_is_an_error(content, path, table):
    sealed_on(path, table, content)
    with pytest.raises(ValueError, match="line 2: "):
        Journal(path, table)


@pytest.mark.parametrize("end", ["\n", ""])
@pytest.mark.parametrize(
    "text", ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000, r'{"a": "\ud800", "seal": "x"}']
)
def test_a_line_that_is_nested_too_deeply_is_an_error(text, end, path, table):
    with Journal(path, table):
        pass
    whole = path.read_text()
    path.write_text(whole + text + "\n" + whole + end)
    with pytest.raises(ValueError, match="line 2: "):
        Journal(path, table)
    path.write_text(whole + text + end)
    with pytest.raises(ValueError, match="line 2: "):
        Journal(path, table)
