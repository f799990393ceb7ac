"""A report is one page in which every number leads to its rows, whatever the store holds."""

import html
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm2l.baselines import MaskedRidgeClassifier
from dm2l_lab import Method, Protocol, register
from dm2l_lab._published import MEASURES
from dm2l_lab.report import report, write_tables
from dm2l_lab.report._page import environment
from dm2l_lab.report._sheets import printable
from reports import NASTY, Reader, add, check, page, patient


def test_page_is_whole_and_reaches_for_nothing(filled, tmp_path):
    text = page(filled, tmp_path)
    found = check(text)
    assert len(text) < 1_000_000
    for words in ("Results of mine", "numpy 2.0", "cpus 2, platform here", "48: 48 done, 0 failed"):
        assert words in found.text
    assert re.search(r"https?://", text) is None


def test_every_mean_leads_to_its_rows(filled, tmp_path):
    """Through the page as a reader would: from the number to the rows, whose mean it is."""
    text = page(filled, tmp_path)
    first = text.index("<h5>Ranking loss (Rkl)</h5>")
    sheet = text[first : text.index("</table>", first)]
    links = re.findall(r'<a href="#(\w+)">(?:<b>)?([\d.]+)(?:</b>)?</a>', sheet)
    assert len(links) == 3 * 2 * 4
    for anchor, mean in links:
        start = text.index(f'<div id="{anchor}">')
        rows = text[start : text.index("</table>", start)].partition("<tbody>")[2].split("<tr>")[1:]
        values = [float(row.split("<td>")[2]) for row in rows]
        assert len(values) == 2
        assert float(mean) == pytest.approx(np.mean(values), abs=0.00051)


def test_rows_have_seeds_choices_and_seconds(filled, tmp_path):
    text = page(filled, tmp_path)
    start = text.index("Arts, ρ = 0.3, per_row, DM2L linear")
    rows = text[start : text.index("</details>", start)]
    assert "<td>4000000001<td>5<td>–" in rows
    assert "<td>1.25<td>a<td>" in rows
    assert "Chosen settings: a: alpha=1.5" in rows


def test_page_is_the_same_for_the_same_rows(filled, tmp_path):
    assert page(filled, tmp_path) == page(filled, tmp_path)


def test_whatever_the_store_holds_is_text(store, tmp_path):
    add(store, NASTY, NASTY, [0.1, 0.2, None], protocol=NASTY, warnings={NASTY: 2})
    add(store, NASTY, "other", [0.3, 0.2, 0.4], protocol=NASTY, chosen={NASTY: NASTY})
    add(store, "Arts", NASTY, [0.1, 0.3], protocol=NASTY, parameters={"a": NASTY})
    add(store, "Arts", "other", [0.2, 0.2], protocol=NASTY, split=NASTY)
    run = store.add_run(versions={NASTY: NASTY}, machine={NASTY: NASTY})
    add(store, "Enron", "other", [0.2], protocol=NASTY, run=run)
    found = check(page(store, tmp_path))
    assert NASTY in found.text
    assert f"Results of {NASTY}" in found.text
    assert f"ValueError: {NASTY}" in found.text
    paths = write_tables(store, tmp_path / "tables")
    assert all(path.parent == tmp_path / "tables" for path in paths)


TEXT = environment().from_string("{{ text }}")


@patient
@given(st.text())
def test_escaped_text_comes_back_and_is_no_markup(text):
    found = TEXT.render(text=text)
    assert html.unescape(found) == printable(text)
    assert not set(found) & set("<>\"'")
    reader = Reader(f'<p title="{found}">{found}</p>')
    assert reader.tags == ["p"]


def test_control_characters_are_replaced():
    assert printable("a\x00b\x1bc\nd\x85") == "a�b�c d�"


def test_missing_and_failed_cells_are_shown_as_such(store, tmp_path):
    methods = [Method(name, MaskedRidgeClassifier(alpha=i + 1)) for i, name in enumerate("abc")]
    only = Method("d", MaskedRidgeClassifier(), sets=("Enron",))
    sets = ("Arts", "Enron")
    protocol = Protocol("known", sets, (*methods, only), rates=(1.0,), repetitions=2)
    register(protocol)
    for cell in protocol.cells(datasets=["Arts"]):
        done = {"status": "done", "metrics": {"published": {"ranking_loss": 0.25}}, "run": "r"}
        if cell.method == "a":
            store.add(cell, done)
        elif cell.method == "b":
            store.add(cell, {"status": "failed", "error": "MemoryError: full", "run": "r"})
        elif cell.repetition == 0:
            store.add(cell, done)
    found = check(page(store, tmp_path))
    assert "3 of 14 cells" not in found.text
    assert "5 of 14 cells" in found.text
    assert "Arts 1 none b 0, 1 MemoryError: full" in found.text
    assert "Arts 1 none c 1 2" in found.text  # one of two is missing
    assert "Enron 1 none d 2 2" in found.text
    row = found.text.index("Arts 1 0.250 ± 0.000 (1.5) failed 2× 0.250 (1.5), n = 1 n/a")
    assert row < found.text.index("Enron 1 – missing – missing – missing – missing")


def test_rows_left_out_are_mentioned(store, tmp_path):
    old, new = (
        Protocol("known", ("Arts",), (Method("a", MaskedRidgeClassifier(alpha=alpha)),), (1.0,))
        for alpha in (1.0, 2.0)
    )
    register(new)
    for protocol, count in ((old, 3), (new, 1)):
        for cell in protocol.cells(repetitions=count):
            metrics = {"published": {"ranking_loss": 0.25}}
            store.add(cell, {"status": "done", "metrics": metrics, "run": "r"})
    assert "1 of 30 cells; 3 more rows" in check(page(store, tmp_path)).text


def test_sets_that_are_shown_as_one_lead_to_their_parts(store, tmp_path):
    for i in range(1, 11):
        add(store, f"Corel16k{i:03d}", "LSML", [0.1 + i / 100, 0.2 + i / 100])
    text = page(store, tmp_path)
    found = check(text)
    assert "Corel16k is the mean of 10 sets: Corel16k001 to Corel16k010." in found.text
    assert "Ranking loss (Rkl), set by set" in found.text
    assert "Corel16k 1 0.205 ± 0.071 (1)" in found.text
    anchor = re.search(r'<a href="#(\w+)"><b>0.205</b></a>', text)[1]
    part = text[text.index(f'<div id="{anchor}">') :].partition("</table>")[0]
    assert part.count("<a href") == 10
    assert "<td>0.15500" in part
    assert "<td>0.25500" in part


def test_one_row_is_enough(store, tmp_path):
    add(store, "Arts", "LEML", [0.1])
    found = check(page(store, tmp_path))
    assert "Nothing failed; what is missing is not known here." in found.text


def test_a_store_of_failures_is_a_page_too(store, tmp_path):
    add(store, "Arts", "LEML", [None, None])
    found = check(page(store, tmp_path))
    assert "2: 0 done, 2 failed" in found.text
    assert "No results yet." in found.text


def test_an_empty_store_is_an_error(store, tmp_path):
    with pytest.raises(ValueError, match="no rows yet"):
        report(store, tmp_path / "report.html")
    with pytest.raises(ValueError, match="no rows yet"):
        write_tables(store, tmp_path)


@pytest.mark.usefixtures("diagrams")
def test_diagrams_stand_on_the_page_and_are_the_same_each_time(store, tmp_path):
    for dataset in ("Arts", "Enron"):
        for i, method in enumerate(("LEML", NASTY, "\N{SNOWMAN} \x00")):
            add(store, dataset, method, [0.1 + i / 10])
    text = page(store, tmp_path)
    found = check(text)
    assert found.tags.count("svg") == len(MEASURES)
    assert f"{NASTY} 2.00" in found.text
    assert "Methods under one bar do not differ" in found.text
    assert page(store, tmp_path) == text


def test_without_matplotlib_there_are_no_diagrams(filled, tmp_path):
    found = check(page(filled, tmp_path))
    assert "svg" not in found.tags
    assert "Diagrams need matplotlib" in found.text


def test_protocols_have_parts_of_their_own(filled, tmp_path):
    add(filled, "Arts", "LEML", [0.1], protocol="second")
    assert "Results of mine, second" in check(page(filled, tmp_path)).text
    text = check(page(filled, tmp_path, protocol="second")).text
    assert "Results of second" in text
    assert "Enron" not in text


def test_a_failed_write_leaves_the_old_file_and_no_other(filled, tmp_path):
    path = tmp_path / "out" / "report.html"
    path.parent.mkdir()
    path.write_text("old", encoding="utf-8")
    bad = [("f", "c", "<svg><script/></svg>")]
    with pytest.raises(ValueError, match="element script"):
        report(filled, path, figures=bad)
    assert path.read_text(encoding="utf-8") == "old"
    report(filled, path)
    assert [found.name for found in path.parent.iterdir()] == ["report.html"]
