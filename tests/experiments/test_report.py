"""Pages have the tables that the rows give, and figures beside them."""

import re

import pytest

from experiments.paper_tables import markdown
from experiments.report import report, study_page
from small_experiments import Rows

pytest.importorskip("matplotlib", reason="figures need the extra plot")


def tables(text):
    """Tables of a page, as lists of cells."""
    found = re.findall(r"(?:^\|.*\n)+", text + "\n", flags=re.MULTILINE)
    return [[line.strip("| ").split(" | ") for line in table.splitlines()] for table in found]


def test_a_page_has_means_figures_in_print_ridge_and_ranks(filled, tmp_path):
    (path,) = report(filled.frame(), tmp_path)
    text = path.read_text()
    assert path.name == "p-per_row.md"
    heads = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert heads == [
        *(
            "Ranking loss (Rkl)",
            "AUC by instance (Auc)",
            "Comparison with the best published figure",
        ),
        *("Comparison with the published figures of the same methods", "DM2L and ridge"),
        "Over all data sets and rates",
    ]
    values = filled.results().line("Arts", 0.3, "Rkl")["LEML"]
    first = tables(text)[0]
    assert first[0] == ["Rkl ↓", "ρ", "n", "LEML", "DM2L linear", "masked ridge", "other"]
    line = next(row for row in first if row[:2] == ["Arts", "0.3"])
    assert line[3].strip("*") == f"{values.mean():.3f} ± {values.std():.3f}"
    assert line[2] == "2"


def test_every_table_has_as_many_cells_in_every_line(filled, tmp_path):
    (path,) = report(filled.frame(), tmp_path)
    found = tables(path.read_text())
    assert len(found) >= 9
    for table in found:
        assert len({len(row) for row in table if not row[0].startswith("-")}) == 1


def test_the_best_over_common_repetitions_is_bold(tmp_path):
    rows = Rows()
    rows.add("Arts", "a", [0.10, 0.30])
    rows.add("Arts", "b", [0.15])  # below the mean of a, which is better where both are
    rows.add("Arts", "c", [0.10])
    (path,) = report(rows.frame(), tmp_path)
    line = tables(path.read_text())[0][-1]
    assert [cell.startswith("**") for cell in line[3:]] == [True, False, True]


def test_figures_of_a_page_are_there(filled, tmp_path):
    (path,) = report(filled.frame(), tmp_path)
    shown = re.findall(r"!\[[^]]*\]\(([^)]+)\)", path.read_text())
    assert len(shown) == len(set(shown)) == 4
    for name in shown:
        assert (tmp_path / name).read_text().startswith("<?xml")


def test_protocols_are_pages_of_their_own_or_one(tmp_path):
    rows = Rows()
    rows.add("Arts", "ridge", [0.1], protocol="one")
    rows.add("Enron", "ridge", [0.3], protocol="two", rate=0.3, mask="uniform")
    names = [path.name for path in report(rows.frame(), tmp_path)]
    assert names == ["one-none.md", "two-uniform.md"]
    (path,) = report(rows.frame(), tmp_path, ["one+two"])
    assert path.name == "one+two-uniform.md"
    assert "Arts" in path.read_text()


def test_a_part_of_the_ten_sets_says_so(tmp_path):
    rows = Rows()
    for name in ("Corel16k001", "Corel16k002"):
        rows.add(name, "LSML", [0.15])
    text = report(rows.frame(), tmp_path)[0].read_text()
    assert "Corel16k (2 of 10) is compared with the published Corel16k, a mean of data sets" in text


def test_a_study_is_a_page_of_four_figures(studied, tmp_path):
    path = study_page(studied, tmp_path)
    shown = re.findall(r"\(([^)]+\.svg)\)", path.read_text())
    assert len(shown) == 4
    assert all((tmp_path / name).exists() for name in shown)


def test_markdown_tables_have_a_head_and_a_line_for_each_row():
    text = markdown(("a", "", "c"), [(1, "", "x"), (2, "y", 3.5)])
    assert text == "| a | | c |\n|---|---|---|\n| 1 | | x |\n| 2 | y | 3.5 |"
