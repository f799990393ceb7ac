"""Tables ready for print say what the rows say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm2l_lab._published import published_figures
from dm2l_lab.report import report, write_tables
from dm2l_lab.report._sections import Choice, sections
from dm2l_lab.report._sheets import number, signed
from reports import add, check, page, patient, table


def sheets(store, **choice):
    found = sections(table(store), Choice(**choice))
    return {sheet.name: sheet for section in found for sheet in section.sheets}


def lines(sheet):
    return [[item.text for item in row] for row in sheet.rows]


def test_every_sheet_has_an_item_for_each_column(filled):
    for sheet in sheets(filled).values():
        assert len(sheet.numeric) == len(sheet.columns)
        assert all(len(row) == len(sheet.columns) for row in sheet.rows)
        assert sheet.rows


def test_best_as_printed_is_bold(store):
    for method, value in {"a": 0.1231, "b": 0.1234, "c": 0.1236}.items():
        add(store, "Arts", method, [value])
    (low,), (high,) = (sheets(store)[name].rows for name in ("rkl", "auc"))
    assert [item.bold for item in low[2:]] == [True, True, False]
    assert [item.bold for item in high[2:]] == [False, False, True]
    assert [item.small for item in low[2:]] == ["(1)", "(2)", "(3)"]


def test_wins_by_hand(store):
    # Best in print at rate 1: Arts Rkl 0.125, Enron Rkl 0.109; Auc, Cvg, Ap of 0.12 and 0.11 are
    # lost but for Cvg.
    add(store, "Arts", "DM2L linear", [0.12])
    add(store, "Enron", "DM2L linear", [0.12])
    add(store, "Enron", "DM2L kernel", [0.11])
    found = sheets(store)
    assert lines(found["wins"]) == [
        ["DM2L kernel", "0 of 24", "0 of 24", "1 of 24", "0 of 24", "1 of 96", "92"],
        ["DM2L linear", "1 of 24", "0 of 24", "2 of 24", "0 of 24", "3 of 96", "88"],
        ["best of them", "1 of 24", "0 of 24", "2 of 24", "0 of 24", "3 of 96", "88"],
    ]
    assert ["Enron", "1", "Rkl", "0.109", "DM2L-nl", "0.110", "DM2L kernel", "+0.001", "lost"] in (
        lines(found["lost"])
    )
    assert len(found["lost"].rows) == 5
    assert len(found["contests"].rows) == 96
    assert "In 3 of the 96 cells" in found["wins"].notes[0]
    assert "5 are lost, 88 have no results" in found["wins"].notes[0]


def test_reproduced_figures_are_counted(store):
    for rate in (1.0, 0.3):
        add(store, "Arts", "LEML", [published_figures()["Arts", rate, "Rkl", "LEML"]], rate=rate)
    add(store, "Enron", "LEML", [0.5])
    found = sheets(store)
    assert lines(found["reproduced"])[0][:2] == ["LEML", "2 of 3"]
    assert found["reproduced"].notes[0].startswith("2 of 12 figures are as published")
    first = lines(found["published"])[0]
    assert first == ["Arts", "1", "Rkl", "LEML", "0.167", "1", "0.167", "0.000", "yes"]


def test_headlines_come_first(filled, tmp_path):
    text = check(page(filled, tmp_path)).text
    start, end = text.index("row by row In "), text.index("Results Ranking loss (Rkl)")
    for words in (
        "cells of the paper",
        "as published (Rkl within 10 %",
        "comparisons",
        "LEML (Rkl",
    ):
        assert start < text.index(words, start) < end


def test_what_there_is_nothing_to_say_about_is_left_out(store):
    add(store, "new set", "new method", [0.1])
    found = [section.title for section in sections(table(store), Choice())]
    assert found == ["Results"]


def test_footnote_on_the_constant_of_the_paper(filled):
    notes = " ".join(sheets(filled)["friedman"].notes)
    assert "1.675 for its 6 methods and 24 blocks, from the constant 3.102" in notes
    assert "1.539" in notes


def test_variants_and_pairs_can_be_chosen(filled, tmp_path):
    found = sheets(filled, variants=["other"], pairs=[("other", "LEML")])
    assert lines(found["wins"])[0][0] == "other"
    assert {row[0] for row in lines(found["ridge"])} == {"other"}
    for wrong in ({"variants": ["none"]}, {"pairs": [("LEML", "none")]}):
        with pytest.raises(ValueError, match="no results of a method 'none'"):
            report(filled, tmp_path / "r.html", **wrong)
        with pytest.raises(ValueError, match="no results of a method 'none'"):
            write_tables(filled, tmp_path, **wrong)


@patient
@given(st.floats(-10, 10))
def test_numbers_have_no_negative_zero(value):
    assert number(value) != "-0.000"
    assert float(number(value)) == pytest.approx(value, abs=0.0005001)
    assert float(signed(value)) == pytest.approx(value, abs=0.0005001)
    assert signed(value)[0] in "+-0"
