"""Tables say what the rows say, and figures in print are the paper's."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm2l.datasets import catalogue
from experiments import results
from experiments.comparisons import block_statistics
from experiments.published import (
    BY_NAME,
    MEASURES,
    PAPER_MEASURES,
    SOURCES,
    best_published,
    published_figures,
)
from experiments.results import KEY, Results, paired_means, read, write
from small_experiments import Rows

COREL = tuple(f"Corel16k{i:03d}" for i in range(1, 11))
FOLDER = os.environ.get("DM2L_DATA")
REFERENCE = Path(FOLDER or ".").parent / "reference" / "published.json"


# -- the published figures ----------------------------------------------------------------------


@pytest.mark.skipif(not FOLDER, reason="DM2L_DATA does not name a folder, beside which it lies")
def test_figures_are_those_of_the_reference():
    if not REFERENCE.exists():
        pytest.skip(f"no {REFERENCE}")
    rows = json.loads(REFERENCE.read_text(encoding="utf-8"))
    found = {(r["dataset"], r["rho"], r["metric"], r["method"]): r["value"] for r in rows}
    assert len(found) == len(rows)
    assert dict(published_figures()) == found


def test_there_is_a_figure_for_every_method_in_each_of_96_cells():
    figures = published_figures()
    methods = {key[3] for key in figures}
    cells = {key[:3] for key in figures}
    assert methods == {"LEML", "ML-LRC", "GLOCAL", "LSML", "DM2L-l", "DM2L-nl"}
    measures = [measure.name for measure in PAPER_MEASURES]
    assert cells == {(d, r, m) for d in SOURCES for r in (1.0, 0.7, 0.3) for m in measures}
    assert len(cells) == 96
    assert len(figures) == 96 * 6


def test_figures_of_auc_and_ranking_loss_add_up_to_one_but_for_a_misprint():
    figures = published_figures()
    odd = [
        (dataset, rate, method)
        for (dataset, rate, measure, method), value in figures.items()
        if measure == "Rkl" and abs(value + figures[dataset, rate, "Auc", method] - 1) > 0.0052
    ]
    assert odd == [("Corel16k", 0.3, "LSML")]


def test_best_figures_by_hand():
    best = best_published()
    assert best["Arts", 1.0, "Rkl"] == (0.125, ("DM2L-nl",))
    assert best["Arts", 1.0, "Ap"] == (0.625, ("LSML",))
    assert best["Business", 0.3, "Cvg"] == (2.426, ("GLOCAL",))
    assert best["Social", 0.3, "Ap"] == (0.768, ("DM2L-l", "DM2L-nl"))


def test_figures_cannot_be_changed_by_accident():
    with pytest.raises(TypeError):
        published_figures()["Arts", 1.0, "Rkl", "LEML"] = 0.0


def test_sources_are_sets_of_the_catalogue():
    assert {name for sets in SOURCES.values() for name in sets} <= set(catalogue())
    assert SOURCES["Corel16k"] == COREL
    assert SOURCES["Tmc2007-500"] == ("Tmc2007-500-old",)


def test_measures_of_the_paper_come_first_and_know_their_direction():
    assert [measure.metric for measure in PAPER_MEASURES] == [
        "ranking_loss",
        "instance_auc",
        "coverage",
        "average_precision",
    ]
    lower = {measure.name for measure in MEASURES if not measure.higher_is_better}
    assert lower == {"Rkl", "Cvg", "1err", "Ham"}


@pytest.mark.parametrize(
    ("name", "published", "inside", "outside"),
    [
        ("Rkl", 0.2, (0.22, 0.18), (0.221, 0.179)),
        ("Cvg", 20.0, (22.0, 18.0), (22.01, 17.99)),
        ("Auc", 0.61, (0.63, 0.59), (0.6301, 0.5899)),
        ("Ap", 0.61, (0.63, 0.59), (0.6301, 0.5899)),
    ],
)
def test_tolerance_includes_its_ends(name, published, inside, outside):
    measure = BY_NAME[name]
    assert all(measure.reproduced(value, published) for value in inside)
    assert not any(measure.reproduced(value, published) for value in outside)


@pytest.mark.parametrize(
    ("name", "ours", "other", "outcome"),
    [
        ("Rkl", 0.1254, 0.125, "equal"),
        ("Rkl", 0.1256, 0.125, "worse"),
        ("Rkl", 0.1244, 0.125, "better"),
        ("Ap", 0.6246, 0.625, "equal"),
        ("Ap", 0.6244, 0.625, "worse"),
        ("Ap", 0.6256, 0.625, "better"),
    ],
)
def test_values_compare_as_printed(name, ours, other, outcome):
    assert BY_NAME[name].compare(ours, other) == outcome


# -- lines --------------------------------------------------------------------------------------


def test_lines_have_the_values_of_every_repetition(rows):
    rows.add("Arts", "LEML", [0.10, 0.14])
    rows.add("Arts", "ridge", [0.13, 0.11])
    rows.add("Arts", "slow", [0.3])
    rows.add("Arts", "best", [0.05, 0.06, 0.07])
    line = rows.results().line("Arts", 1.0, "Rkl")
    assert list(line.columns) == ["LEML", "best", "ridge", "slow"]
    assert line.mean().round(12).to_dict() == {
        "LEML": 0.12,
        "best": 0.06,
        "ridge": 0.12,
        "slow": 0.3,
    }
    assert line["LEML"].std() == pytest.approx(np.sqrt(2 * 0.02**2))
    assert line.count().to_dict() == {"LEML": 2, "best": 3, "ridge": 2, "slow": 1}


def test_paired_means_are_of_the_repetitions_that_all_have(rows):
    rows.add("Arts", "LEML", [0.10, 0.30])
    rows.add("Arts", "ridge", [0.15])  # below LEML's mean, but LEML is better there
    rows.add("Enron", "absent", [0.15])
    line = rows.results().line("Arts", 1.0, "Rkl")
    assert paired_means(line).to_dict() == {"LEML": 0.10, "ridge": 0.15}
    assert line["LEML"].mean() == 0.2


def test_methods_without_a_common_repetition_have_no_paired_mean(rows):
    rows.add("Arts", "LEML", [0.10])
    rows.add("Arts", "ridge", [None, 0.2])
    assert paired_means(rows.results().line("Arts", 1.0, "Rkl")).isna().all()


numbers = st.floats(0, 1).map(lambda number: round(number, 1))


@settings(max_examples=40)  # each makes a table of results
@given(st.lists(numbers, min_size=2, max_size=6), st.sampled_from(["Rkl", "Ap"]))
def test_ranks_count_the_better_and_share_ties(values, measure):
    rows = Rows()
    for dataset in ("Arts", "Enron"):
        for i, value in enumerate(values):
            rows.add(dataset, f"m{i}", [value], measure=measure)
    ranks = block_statistics(rows.results(), BY_NAME[measure]).ranks
    for i, value in enumerate(values):
        better = sum(v > value if measure == "Ap" else v < value for v in values)
        assert ranks[i] == better + (values.count(value) + 1) / 2
    assert sum(ranks) == len(values) * (len(values) + 1) / 2


def test_means_that_only_rounding_tells_apart_share_a_rank(rows):
    for dataset in ("Arts", "Enron"):
        rows.add(dataset, "LEML", [0.10, 0.14])
        rows.add(dataset, "ridge", [0.13, 0.11])
        rows.add(dataset, "best", [0.05, 0.06])
    found = block_statistics(rows.results(), BY_NAME["Rkl"])
    assert dict(zip(found.methods, found.ranks, strict=True)) == {
        "LEML": 2.5,
        "best": 1.0,
        "ridge": 2.5,
    }


def test_undefined_values_are_no_values(rows):
    rows.add("Arts", "LEML", [None, 0.1, {"Rkl": None}])
    rows.add("Arts", "LSML", [{"Rkl": None}])
    line = rows.results().line("Arts", 1.0, "Rkl")
    assert line["LEML"].dropna().to_dict() == {1: 0.1}
    assert line["LSML"].isna().all()
    assert rows.results().line("Arts", 0.5, "Rkl").empty


# -- masks, conventions, order ------------------------------------------------------------------


def test_rows_without_hidden_labels_belong_to_every_mask(rows):
    rows.add("Arts", "LEML", [0.1])
    rows.add("Arts", "LEML", [0.2], rate=0.3)
    rows.add("Arts", "LEML", [0.3], rate=0.3, mask="uniform")
    assert rows.results().masks == ("per_row", "uniform")
    for mask, mean in (("per_row", 0.2), ("uniform", 0.3)):
        found = rows.results(mask=mask)
        assert found.line("Arts", 1.0, "Rkl")["LEML"].mean() == 0.1
        assert found.line("Arts", 0.3, "Rkl")["LEML"].mean() == mean


def test_without_hidden_labels_there_is_one_table(rows):
    rows.add("Arts", "LEML", [0.1])
    assert rows.results().masks == ("none",)


def test_measures_follow_the_convention_of_the_paper(rows):
    rows.add("Arts", "LEML", [{"Cvg": 5.0}], default_coverage=6.0)
    assert rows.results().line("Arts", 1.0, "Cvg")["LEML"].mean() == 5.0


def test_sets_methods_rates_and_measures_come_in_the_order_of_the_paper(rows):
    for dataset in ("zoo", "Social", "Arts", "abc"):
        for method in ("ridge", "DM2L-l", "LEML", "a"):
            rows.add(dataset, method, [{"lAuc": 0.7, "Rkl": 0.1}])
    rows.add("Arts", "a", [0.1], rate=0.3)
    found = rows.results()
    assert list(found.datasets) == ["Arts", "Social", "abc", "zoo"]
    assert found.methods == ("LEML", "DM2L-l", "a", "ridge")
    assert found.rates == (1.0, 0.3)
    assert [measure.name for measure in found.measures] == ["Rkl", "lAuc"]


# -- sets of the paper that are several ---------------------------------------------------------


def test_ten_sets_are_averaged_repetition_by_repetition(rows):
    for i, name in enumerate(COREL):
        rows.add(name, "LSML", [0.1 + i / 100, 0.2 + i / 100, *([0.3] if i else [])])
    found = rows.results()
    assert list(found.datasets) == ["Corel16k"]
    values = found.line("Corel16k", 1.0, "Rkl")["LSML"]
    assert values.to_dict() == {0: pytest.approx(0.145), 1: pytest.approx(0.245)}  # 2: not all ten
    assert found.published_name("Corel16k") == "Corel16k"
    assert not found.is_part("Corel16k")


def test_some_of_the_ten_sets_say_so(rows):
    for name in COREL[:3]:
        rows.add(name, "LSML", [0.15])
    found = rows.results()
    assert list(found.datasets) == ["Corel16k (3 of 10)"]
    assert found.is_part("Corel16k (3 of 10)")


def test_one_of_the_ten_sets_keeps_its_name(rows):
    rows.add("Corel16k004", "LSML", [0.15])
    found = rows.results()
    assert list(found.datasets) == ["Corel16k004"]
    assert found.is_part("Corel16k004")
    assert found.published_name("Corel16k004") == "Corel16k"


# -- protocols and files ------------------------------------------------------------------------


def test_protocols_are_read_by_themselves_or_as_one(rows):
    rows.add("Arts", "ridge", [0.1, 0.2], protocol="one")
    rows.add("Enron", "ridge", [0.3], protocol="two")
    joint = rows.results("one+two")
    assert joint.line("Arts", 1.0, "Rkl")["ridge"].count() == 2
    assert joint.line("Enron", 1.0, "Rkl")["ridge"].count() == 1
    assert list(rows.results("two").datasets) == ["Enron"]


def test_protocols_with_a_cell_in_common_are_not_one(rows):
    for protocol in ("one", "two"):
        rows.add("Arts", "ridge", [0.1], protocol=protocol)
    with pytest.raises(ValueError, match="1 cells in common"):
        rows.results("one+two")


def test_unknown_protocol_is_named_with_those_there_are(rows):
    rows.add("Arts", "ridge", [0.1], protocol="one")
    with pytest.raises(ValueError, match="no rows of protocol none; there are of one"):
        rows.results("none")


def test_tables_hold_the_rows_and_each_cell_once(rows, tmp_path):
    rows.add("Enron", "ridge", [0.1, 0.2], n_iter=3)
    rows.add("Arts", "ridge", [0.3], rate=0.3)
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    write(rows.frame(), first)
    later = rows.frame().assign(published_ranking_loss=0.9)
    write(later.head(1), second)
    found = read(first, second)
    assert len(found) == 3
    assert not (found["published_ranking_loss"] == 0.9).any()
    assert list(found["dataset"]) == ["Arts", "Enron", "Enron"]
    assert read(second, first)["published_ranking_loss"][0] == 0.9


def test_a_file_that_is_no_table_of_results_is_refused(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text("")
    assert read(path).empty
    path = tmp_path / "other.parquet"
    Rows().frame().assign(a=[]).to_parquet(path)
    with pytest.raises(ValueError, match=r"other.parquet: no column data, dataset, mask"):
        read(path)


def test_stored_results_are_those_of_the_protocols_as_they_are_now():
    for name in ("cells", "widths"):
        stored = read(results.RESULTS / f"{name}.parquet")
        for protocol, found in stored.groupby("protocol"):
            now = results.PROTOCOLS[protocol]
            cells = {tuple(cell) for cell in now.cells()}
            assert set(found[list(KEY)].itertuples(index=False, name=None)) <= cells
            columns = found[["dataset", "method", "settings"]]
            for dataset, method, chosen in columns.itertuples(index=False, name=None):
                assert chosen == now.method(method, dataset).settings
            assert set(found["split"]) == {now.split}
    assert isinstance(results.stored_results("as_published"), Results)
