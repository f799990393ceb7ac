"""Tables in Markdown and LaTeX."""

import re

from hypothesis import given
from hypothesis import strategies as st

from dm2l_lab.report import write_tables
from dm2l_lab.report._latex import latex_sheet, latex_text
from dm2l_lab.report._markdown import markdown_sheet, markdown_text
from dm2l_lab.report._sections import Choice, sections
from dm2l_lab.report._sheets import Item, Sheet
from reports import add, patient, table


def sheets(store, **choice):
    found = sections(table(store), Choice(**choice))
    return {sheet.name: sheet for section in found for sheet in section.sheets}


items = st.builds(Item, st.text(), st.text(), bold=st.booleans())


@patient
@given(st.lists(st.tuples(items, items), max_size=4), st.text())
def test_markdown_has_a_cell_for_each_item(rows, title):
    found = markdown_sheet(Sheet("s", title, ["a", title], "tn", rows, [title]))
    start = found.splitlines()[2:]
    assert start[1] == "| :-- | --: |"
    for line in (start[0], *start[2 : 2 + len(rows)]):
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3


def test_markdown_by_hand(store):
    add(store, "Arts", "LEML", [0.1, 0.2])
    add(store, "Arts", "a_b", [0.3, None])
    lines = markdown_sheet(sheets(store)["rkl"]).splitlines()
    assert lines[0] == "### Ranking loss (Rkl)"
    assert lines[2] == r"| Data set | ρ | LEML | a\_b |"
    assert lines[4] == "| Arts | 1 | **0.150** ± 0.071 (1) | 0.300 (2), n = 1, 1 failed |"


def balanced(text):
    """Whether braces and environments close in the order in which they open."""
    bare = re.sub(r"\\[{}\\&%$#_]", "", text)
    depth = 0
    for letter in bare:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if depth < 0:
            return False
    open_ = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if kind == "begin":
            open_.append(name)
        elif not open_ or open_.pop() != name:
            return False
    return depth == 0 and not open_ and bare.count("$") % 2 == 0


@patient
@given(st.text())
def test_latex_text_is_balanced_and_has_no_command_of_its_own(text):
    found = latex_text(text)
    assert balanced(found)
    assert "%" not in found.replace(r"\%", "")
    assert "&" not in found.replace(r"\&", "")
    assert "\n" not in found
    commands = set(re.findall(r"\\([a-zA-Z]+)", found))
    assert commands <= {"textbackslash", "textasciitilde", "textasciicircum", "textless",
                        "textgreater", "rho", "chi", "pm", "times"}  # fmt: skip


@patient
@given(st.lists(st.tuples(items, items), max_size=4), st.booleans(), st.integers(1, 5))
def test_latex_tables_are_balanced_with_a_column_for_each_item(rows, folded, times):
    wide = [row * times for row in rows]
    sheet = Sheet("s", "t", ["a", "b c"] * times, "tn" * times, wide, ["note"], folded)
    found = latex_sheet(sheet, "label")
    assert balanced(found)
    assert ("longtable" in found) == folded
    assert found.count(r"\toprule") == found.count(r"\bottomrule") == 1
    body = found.partition(r"\toprule")[2].partition(r"\bottomrule")[0]
    for line in body.splitlines():
        if line.endswith((r"\\", "pt]")):
            bare = re.sub(r"\\shortstack\[r\]\{[^}]*\}", "", line.replace(r"\&", ""))
            assert bare.count("&") == 2 * times - 1


def test_latex_by_hand(store):
    add(store, "Arts", "LEML", [0.1, 0.2])
    add(store, "Arts", "[a]_b", [0.3, None])
    found = latex_sheet(sheets(store)["rkl"], "x")
    assert r"\begin{tabular}{lrrr}" in found
    assert r"Data set & $\rho$ & LEML & {[}a{]}\_b \\" in found
    assert r"Arts & 1 & \textbf{0.150} & 0.300 \\*[-2pt]" in found
    assert r" &  & {\tiny $\pm$ 0.071 (1)} & {\tiny (2)} \\*[-2pt]" in found
    assert r" &  &  & {\tiny 1 failed} \\" in found


def test_tables_are_written_for_each_protocol_and_mask(filled, tmp_path):
    add(filled, "Arts", "LEML", [0.1], rate=0.3, mask="uniform")
    add(filled, "Arts", "LEML", [0.1], protocol="../up")
    add(filled, "Arts", "LEML", [0.1], protocol="//up")
    folder = tmp_path / "new" / "tables"
    paths = write_tables(filled, folder)
    assert sorted(paths) == sorted(folder.iterdir())
    assert {path.name for path in paths if path.suffix == ".md"} == {
        "mine-per_row.md",
        "mine-uniform.md",
        "up-none.md",
        "up-none-2.md",
    }
    names = {path.name for path in paths}
    assert {"mine-per_row-rkl.tex", "mine-per_row-wins.tex", "up-none-2-ap.tex"} <= names
    for path in paths:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".tex":
            assert balanced(text)
            assert text.count(r"\label{tab:") == 1
        else:
            assert text.startswith("# ")
            assert "## Results" in text


@patient
@given(st.text())
def test_markdown_text_is_one_line(text):
    assert "\n" not in markdown_text(text)
