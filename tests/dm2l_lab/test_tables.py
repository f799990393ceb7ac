"""Tables say what the rows say, and compare with what the paper prints."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm2l.baselines import MaskedRidgeClassifier
from dm2l.datasets import catalogue
from dm2l_lab import METRICS, Cell, Method, Protocol, Store, _protocol, register
from dm2l_lab._published import (
    MEASURES,
    PAPER_MEASURES,
    SOURCES,
    best_published,
    published_figures,
)
from dm2l_lab._results import read_results
from dm2l_lab._tables import ResultTable, contests, paired_means

BY_NAME = {measure.name: measure for measure in MEASURES}
COREL = tuple(f"Corel16k{i:03d}" for i in range(1, 11))
patient = settings(deadline=None)  # the machine may be busy with other tests
SETTINGS = "0123456789ab"
FOLDER = os.environ.get("DM2L_DATA")
REFERENCE = Path(FOLDER or ".").parent / "reference" / "published.json"


@pytest.fixture
def store(monkeypatch):
    monkeypatch.setattr(_protocol, "_registered", {})
    with Store(":memory:") as store:
        yield store


def add(store, dataset, method, values, *, rate=1.0, mask=None, measure="Rkl", **others):
    """Store one row for each value, as repetitions 0, 1, ...; None is a failure."""
    mask = mask or ("none" if rate == 1 else "per_row")
    protocol, settings = others.pop("protocol", "p"), others.pop("settings", SETTINGS)
    for repetition, value in enumerate(values):
        cell = Cell(protocol, dataset, mask, rate, repetition, method, settings)
        row = {"status": "failed", "error": "ValueError: no", "run": "r"}
        if value is not None:
            numbers = value if isinstance(value, dict) else {measure: value}
            metrics = {BY_NAME[name].metric: number for name, number in numbers.items()}
            row = {"status": "done", "metrics": {"published": metrics}, "run": "r", **others}
        assert store.add(cell, row)


def table(store, protocol=None, mask=None, convention="published"):
    (results,) = read_results(store, protocol)
    return ResultTable(results, mask, convention)


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


def test_measures_are_metrics_of_the_store():
    assert [measure.metric for measure in PAPER_MEASURES] == [
        "ranking_loss",
        "instance_auc",
        "coverage",
        "average_precision",
    ]
    assert {measure.metric for measure in MEASURES} == set(METRICS)
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


# -- entries ------------------------------------------------------------------------------------


def test_means_deviations_and_ranks_by_hand(store):
    add(store, "Arts", "LEML", [0.10, 0.14])
    add(store, "Arts", "ridge", [0.13, 0.11])
    add(store, "Arts", "slow", [0.3])
    add(store, "Arts", "best", [0.05, 0.06, 0.07])
    line = table(store).line("Arts", 1.0, "Rkl")
    assert {m: round(e.mean, 12) for m, e in line.items()} == {
        "LEML": 0.12,
        "best": 0.06,
        "ridge": 0.12,
        "slow": 0.3,
    }
    assert line["LEML"].deviation == pytest.approx(np.sqrt(2 * 0.02**2))
    assert line["slow"].deviation is None
    assert [e.n for e in line.values()] == [2, 3, 2, 1]


def test_means_that_only_rounding_tells_apart_share_a_rank(store):
    add(store, "Arts", "LEML", [0.10, 0.14])
    add(store, "Arts", "ridge", [0.13, 0.11])
    add(store, "Arts", "best", [0.05, 0.06])
    line = table(store).line("Arts", 1.0, "Rkl")
    assert {m: e.rank for m, e in line.items()} == {"LEML": 2.5, "best": 1, "ridge": 2.5}


def test_ranks_are_of_the_repetitions_that_all_have(store):
    add(store, "Arts", "LEML", [0.10, 0.30])
    add(store, "Arts", "ridge", [0.15])  # below LEML's mean, but LEML is better there
    line = table(store).line("Arts", 1.0, "Rkl")
    assert {m: e.rank for m, e in line.items()} == {"LEML": 1, "ridge": 2}
    assert paired_means(line) == {"LEML": 0.10, "ridge": 0.15}
    assert line["LEML"].mean == 0.2


def test_methods_without_a_common_repetition_have_no_rank(store):
    add(store, "Arts", "LEML", [0.10])
    add(store, "Arts", "ridge", [None, 0.2])
    line = table(store).line("Arts", 1.0, "Rkl")
    assert {e.rank for e in line.values()} == {None}


numbers = st.floats(0, 1).map(lambda number: round(number, 1))


@patient
@given(st.lists(numbers, min_size=1, max_size=6), st.sampled_from(["Rkl", "Ap"]))
def test_ranks_count_the_better_and_share_ties(values, measure):
    with Store(":memory:") as store:
        for i, value in enumerate(values):
            add(store, "Arts", f"m{i}", [value], measure=measure)
        line = table(store).line("Arts", 1.0, measure)
    for i, value in enumerate(values):
        better = sum(v > value if measure == "Ap" else v < value for v in values)
        assert line[f"m{i}"].rank == better + (values.count(value) + 1) / 2
    assert sum(e.rank for e in line.values()) == len(values) * (len(values) + 1) / 2


def test_published_figure_difference_and_tolerance(store):
    add(store, "Arts", "LEML", [0.150, 0.152])  # in print 0.167: 10 % is 0.0167
    add(store, "Arts", "LSML", [0.160])  # in print 0.127
    add(store, "Arts", "LEML, tuned", [0.15])
    line = table(store).line("Arts", 1.0, "Rkl")
    assert line["LEML"].published == 0.167
    assert line["LEML"].difference == pytest.approx(-0.016)
    assert line["LEML"].reproduced is True
    assert line["LSML"].reproduced is False
    assert line["LEML, tuned"].published is None
    assert line["LEML, tuned"].difference is None
    assert line["LEML, tuned"].reproduced is None


def test_figures_belong_to_rates_and_measures(store):
    add(store, "Arts", "LEML", [{"Rkl": 0.2, "lAuc": 0.7}], rate=0.3)
    add(store, "Arts", "LEML", [{"Rkl": 0.2}], rate=0.5)
    found = table(store)
    assert found.line("Arts", 0.3, "Rkl")["LEML"].published == 0.234
    assert found.line("Arts", 0.5, "Rkl")["LEML"].published is None
    assert found.line("Arts", 0.3, "lAuc")["LEML"].published is None
    assert [measure.name for measure in found.measures] == ["Rkl", "lAuc"]
    assert found.results.rates == (0.5, 0.3)


def test_failures_and_undefined_values_are_no_values(store):
    add(store, "Arts", "LEML", [None, 0.1, {"Rkl": None}])
    add(store, "Arts", "LSML", [None])
    line = table(store).line("Arts", 1.0, "Rkl")
    assert line["LEML"].values == {1: 0.1}
    assert line["LEML"].n_failed == 1
    assert line["LSML"].mean is None
    assert line["LSML"].rank is None
    assert line["LSML"].reproduced is None
    assert line["LEML"].rank == 1


def test_a_restricted_entry_has_some_repetitions(store):
    add(store, "Arts", "LEML", [0.1, 0.2, 0.6])
    entry = table(store).line("Arts", 1.0, "Rkl")["LEML"].restricted({0, 1, 7})
    assert entry.mean == pytest.approx(0.15)
    assert entry.values == {0: 0.1, 1: 0.2}


# -- masks, conventions, order ------------------------------------------------------------------


def test_rows_without_hidden_labels_belong_to_every_mask(store):
    add(store, "Arts", "LEML", [0.1])
    add(store, "Arts", "LEML", [0.2], rate=0.3)
    add(store, "Arts", "LEML", [0.3], rate=0.3, mask="uniform")
    (results,) = read_results(store)
    assert results.masks == ("per_row", "uniform")
    for mask, mean in (("per_row", 0.2), ("uniform", 0.3)):
        found = ResultTable(results, mask)
        assert found.line("Arts", 1.0, "Rkl")["LEML"].mean == 0.1
        assert found.line("Arts", 0.3, "Rkl")["LEML"].mean == mean


def test_without_hidden_labels_there_is_one_table(store):
    add(store, "Arts", "LEML", [0.1])
    assert table(store).mask == "none"


def test_unknown_mask_or_convention_is_named(store):
    add(store, "Arts", "LEML", [0.1])
    (results,) = read_results(store)
    with pytest.raises(ValueError, match="none, got 'uniform'"):
        ResultTable(results, "uniform")
    with pytest.raises(ValueError, match="'other'"):
        ResultTable(results, convention="other")


def test_conventions_are_kept_apart(store):
    cell = Cell("p", "Arts", "none", 1.0, 0, "LEML", SETTINGS)
    metrics = {"published": {"coverage": 5.0}, "default": {"coverage": 6.0}}
    store.add(cell, {"status": "done", "metrics": metrics, "run": "r"})
    means = [table(store, convention=c).line("Arts", 1.0, "Cvg")["LEML"].mean for c in metrics]
    assert means == [5.0, 6.0]


def test_sets_and_methods_come_in_the_order_of_the_paper(store):
    for dataset in ("zoo", "Social", "Arts", "abc"):
        for method in ("ridge", "DM2L-l", "LEML", "a"):
            add(store, dataset, method, [0.1])
    (results,) = read_results(store)
    assert list(results.datasets) == ["Arts", "Social", "abc", "zoo"]
    assert results.methods == ("LEML", "DM2L-l", "a", "ridge")


# -- sets of the paper that are several, or other editions --------------------------------------


def test_ten_sets_are_averaged_repetition_by_repetition(store):
    for i, name in enumerate(COREL):
        add(store, name, "LSML", [0.1 + i / 100, 0.2 + i / 100, *([0.3] if i else [])])
    found = table(store)
    assert list(found.results.datasets) == ["Corel16k"]
    entry = found.line("Corel16k", 1.0, "Rkl")["LSML"]
    assert entry.values == {0: pytest.approx(0.145), 1: pytest.approx(0.245)}  # 2: not all ten
    assert entry.published == 0.142
    assert not found.is_part("Corel16k")
    assert found.line("Corel16k003", 1.0, "Rkl")["LSML"].mean == pytest.approx(0.66 / 3 - 0.0066667)


def test_some_of_the_ten_sets_say_so(store):
    for name in COREL[:3]:
        add(store, name, "LSML", [0.15])
    found = table(store)
    assert list(found.results.datasets) == ["Corel16k (3 of 10)"]
    assert found.is_part("Corel16k (3 of 10)")
    assert found.line("Corel16k (3 of 10)", 1.0, "Rkl")["LSML"].published == 0.142


def test_one_of_the_ten_sets_keeps_its_name(store):
    add(store, "Corel16k004", "LSML", [0.15])
    found = table(store)
    assert list(found.results.datasets) == ["Corel16k004"]
    assert found.is_part("Corel16k004")
    assert found.published_name("Corel16k004") == "Corel16k"


def test_figures_of_tmc_belong_to_the_old_edition(store):
    for name in ("Tmc2007-500", "Tmc2007-500-old"):
        add(store, name, "LEML", [0.05])
    found = table(store)
    assert found.line("Tmc2007-500-old", 1.0, "Rkl")["LEML"].published == 0.046
    assert found.line("Tmc2007-500", 1.0, "Rkl")["LEML"].published is None
    assert found.published_name("Tmc2007-500") is None


# -- contests -----------------------------------------------------------------------------------


def test_contests_by_hand(store):
    # Best in print on Arts, rate 1: Rkl 0.125, Auc 0.876, Cvg 4.965, Ap 0.625.
    add(store, "Arts", "A", [{"Rkl": 0.1254, "Auc": 0.8766, "Cvg": 4.9656, "Ap": 0.5}])
    add(store, "Arts", "B", [{"Rkl": 0.2, "Auc": 0.9, "Cvg": 6.0, "Ap": 0.6244}])
    add(store, "Arts", "not ours", [{"Rkl": 0.0, "Auc": 1.0, "Cvg": 0.0, "Ap": 1.0}])
    found = contests(table(store), ["A", "B"])
    assert len(found) == 96
    arts = {c.measure.name: c for c in found if c.dataset == "Arts" and c.rate == 1}
    assert {name: c.outcome for name, c in arts.items()} == {
        "Rkl": "equal",
        "Auc": "better",
        "Cvg": "lost",
        "Ap": "lost",
    }
    assert {name: c.entry.place.method for name, c in arts.items()} == {
        "Rkl": "A",
        "Auc": "B",
        "Cvg": "A",
        "Ap": "B",
    }
    assert sum(c.won for c in found) == 2
    assert sum(c.outcome == "missing" for c in found) == 92
    assert all(c.entry is None for c in found if c.outcome == "missing")


def test_published_figures_win_against_themselves(store):
    """Every cell equal: with the table of the paper as our results, whatever wins there."""
    values = {}
    for (dataset, rate, measure, method), figure in published_figures().items():
        values.setdefault((dataset, rate, method), {})[measure] = figure
    for (dataset, rate, method), figures in values.items():
        for name in SOURCES[dataset]:
            add(store, name, method, [figures], rate=rate)
    found = contests(table(store), {key[2] for key in values})
    assert {c.outcome for c in found} == {"equal"}
    assert not any(c.part for c in found)
    alone = contests(table(store), ["LEML"])
    assert sum(c.won for c in alone) == sum("LEML" in c.published_by for c in alone)


def test_contests_of_a_part_are_marked(store):
    add(store, "Corel16k001", "A", [0.1])
    found = contests(table(store), ["A"])
    won = [c for c in found if c.won]
    assert [(c.dataset, c.part) for c in won] == [("Corel16k", True)]


# -- protocols ----------------------------------------------------------------------------------


def known(name, *, datasets=("Arts",), alpha=1.0, **others):
    method = Method("ridge", MaskedRidgeClassifier(alpha=alpha))
    return Protocol(name, datasets, (method,), rates=(1.0,), **others)


def run(store, protocol, value=0.1):
    for cell in protocol.cells():
        metrics = {"published": {"ranking_loss": value}}
        store.add(cell, {"status": "done", "metrics": metrics, "run": "r"})


def test_rows_with_older_settings_are_counted_and_left_out(store):
    run(store, known("mine", alpha=1.0, repetitions=3), value=0.1)
    now = known("mine", alpha=2.0, repetitions=2)
    run(store, now, value=0.2)
    register(now)
    for protocol in (None, "mine", now):
        (results,) = read_results(store, protocol)
        assert results.left_out == 3
        entry = ResultTable(results).line("Arts", 1.0, "Rkl")["ridge"]
        assert entry.values == {0: 0.2, 1: 0.2}
        assert entry.expected == 2


def test_settings_of_an_unknown_protocol_are_told_apart(store):
    add(store, "Arts", "ridge", [0.1], settings="aaaaaabbbbbb")
    add(store, "Arts", "ridge", [0.2], settings="ccccccdddddd")
    add(store, "Arts", "LEML", [0.3])
    add(store, "Enron", "LEML", [0.3], settings="eeeeeeffffff")  # on each set one: no question
    found = table(store)
    assert found.results.methods == ("LEML", "ridge [aaaaaa]", "ridge [cccccc]")
    assert found.line("Arts", 1.0, "Rkl")["ridge [cccccc]"].mean == 0.2
    assert found.line("Arts", 1.0, "Rkl")["LEML"].expected is None


def test_what_a_protocol_does_not_run_is_not_expected(store):
    ridge = Method("ridge", MaskedRidgeClassifier())
    other = Method("other", MaskedRidgeClassifier(alpha=3.0), sets=("Arts",))
    protocol = Protocol("mine", ("Arts", "Enron"), (ridge, other), rates=(1.0,), repetitions=4)
    (results,) = read_results(store, protocol)
    found = ResultTable(results)
    expected = {
        (dataset, method): entry.expected
        for dataset in protocol.datasets
        for method, entry in found.line(dataset, 1.0, "Rkl").items()
    }
    assert expected == {
        ("Arts", "ridge"): 4,
        ("Arts", "other"): 4,
        ("Enron", "ridge"): 4,
        ("Enron", "other"): 0,
    }


def test_protocols_are_read_by_themselves_or_as_one(store):
    run(store, known("one", repetitions=2), 0.1)
    run(store, known("two", datasets=("Enron",), repetitions=1), 0.3)
    assert [results.name for results in read_results(store)] == ["one", "two"]
    (joint,) = read_results(store, "one+two")
    found = ResultTable(joint)
    assert joint.name == "one+two"
    assert found.line("Arts", 1.0, "Rkl")["ridge"].n == 2
    assert found.line("Enron", 1.0, "Rkl")["ridge"].n == 1
    assert len(read_results(store, "one+one")[0].rows) == 2


def test_protocols_with_a_place_in_common_are_not_one(store):
    run(store, known("one", repetitions=1))
    run(store, known("two", repetitions=1))
    with pytest.raises(ValueError, match="'one' and 'two' both have"):
        read_results(store, "one+two")


def test_unknown_protocol_is_named_with_those_there_are(store):
    run(store, known("one", repetitions=1))
    with pytest.raises(ValueError, match="no rows of protocol 'none'; it has 'one'"):
        read_results(store, "none")
