"""A report is one page in which every number leads to its rows, whatever the store holds."""

import base64
import hashlib
import html
import importlib
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dm2l_lab.report
from dm2l.baselines import MaskedRidgeClassifier
from dm2l.datasets import make_missing_multilabel
from dm2l_lab import METRICS, Cell, Method, Protocol, Store, _protocol, register
from dm2l_lab._results import read_results
from dm2l_lab._tables import ResultTable
from dm2l_lab.cli._report import report_results
from dm2l_lab.paper._published import MEASURES, published_figures
from dm2l_lab.report import Figure, _page, _study, report, study, write_tables
from dm2l_lab.report._blocks import block_statistics
from dm2l_lab.report._duels import dm2l_variants, duels, ridge_pairs
from dm2l_lab.report._latex import latex_sheet, latex_text
from dm2l_lab.report._markdown import markdown_sheet, markdown_text
from dm2l_lab.report._page import environment
from dm2l_lab.report._sections import Choice, sections
from dm2l_lab.report._sheets import Item, Sheet, number, printable, signed
from dm2l_lab.report._svg import inline_svg

RKL, AUC = MEASURES[:2]
patient = settings(deadline=None)  # the machine may be busy with other tests
SETTINGS = "0123456789ab"
NASTY = """<script>alert("x")</script>&amp;'|$a_b$\\ [z] {}%#~^*`"""
SVG = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(_protocol, "_registered", {})
    with Store(tmp_path / "store.db") as store:
        yield store


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    """Pages without diagrams, which take a second; tests of these ask for them."""
    monkeypatch.setattr(_page, "can_draw", lambda: False)


@pytest.fixture
def diagrams(_plain, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(_page, "can_draw", lambda: True)


def add(store, dataset, method, values, *, rate=1.0, mask=None, protocol="mine", **others):
    """Store one row for each value of all metrics, as repetitions 0, 1, ...; None: it failed."""
    mask = mask or ("none" if rate == 1 else "per_row")
    for repetition, value in enumerate(values):
        cell = Cell(protocol, dataset, mask, rate, repetition, method, SETTINGS)
        row = {"status": "failed", "error": f"ValueError: {NASTY}"}
        if value is not None:
            row = {"status": "done", "metrics": {"published": dict.fromkeys(METRICS, value)}}
        store.add(cell, {"run": "r", **row, **others})


@pytest.fixture
def filled(store):
    """Four methods on three sets at two rates, two repetitions each."""
    generator = np.random.default_rng(0)
    run = store.add_run(versions={"numpy": "2.0"}, machine={"cpus": 2, "platform": "here"})
    for dataset in ("Arts", "Enron", "Image"):
        for rate in (1.0, 0.3):
            for i, method in enumerate(("LEML", "DM2L linear", "masked ridge", "other")):
                values = (0.1 + i / 50 + generator.uniform(0, 0.02, 2)).tolist()
                chosen = {"alpha": 1.5} if "DM2L" in method else None
                facts = {"run": run, "seconds": 1.25, "split_seed": 4_000_000_001, "mask_seed": 5}
                add(store, dataset, method, values, rate=rate, chosen=chosen, **facts)
    return store


def table(store, **choice):
    (results,) = read_results(store)
    return ResultTable(results, **choice)


# -- pages --------------------------------------------------------------------------------------

VOID = {"meta", "br", "link", "img", "input"}
# Elements of a table that end where the next begins.
IMPLIED = {"td": {"td", "th"}, "th": {"td", "th"}, "tr": {"td", "th", "tr"}}
IMPLIED["tbody"] = {"td", "th", "tr", "thead"}


class Reader(HTMLParser):
    """Checks that elements are nested rightly, and remembers what a test asks for."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.targets, self.outside = [], [], [], []
        self.scripts, self.policy, self.words, self.tags = [], "", [], []
        self.cells = []  # (section, row, text, target)
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        while self.open and self.open[-1] in IMPLIED.get(tag, ()):
            self.open.pop()
        found = dict(attributes)
        assert len(found) == len(attributes), f"an attribute twice in {tag}"
        if tag not in VOID:
            self.open.append(tag)
        self.tags.append(tag)
        if "id" in found:
            self.ids.append(found["id"])
        for name in ("href", "src", "xlink:href", "action", "data"):
            if name in found:
                place = self.targets if found[name].startswith("#") else self.outside
                place.append(found[name])
        self.outside += [n for n in found if n.startswith("on")]
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"]

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        while self.open[-1] != tag and tag in {"table", "thead", "tbody", "tr"}:
            assert self.open[-1] in {"td", "th", "tr", "tbody", "thead"}
            self.open.pop()
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif "style" not in self.open:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def page(store, tmp_path, **choice):
    path = tmp_path / "report.html"
    report(store, path, **choice)
    return path.read_text(encoding="utf-8")


def check(text):
    """What every page has to be."""
    found = Reader(text)
    assert text.startswith("<!DOCTYPE html>")
    assert len(set(found.ids)) == len(found.ids)
    assert {target[1:] for target in found.targets} <= set(found.ids)
    assert found.outside == []
    assert found.tags.count("script") == 1
    assert not {"link", "img", "iframe", "object", "embed", "base"} & set(found.tags)
    (script,) = found.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in found.policy
    assert "default-src 'none'" in found.policy
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    return found


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


# -- figures ------------------------------------------------------------------------------------


def test_figures_of_the_caller_stand_on_the_page(filled, tmp_path):
    drawing = f'{SVG}><defs><path id="p" d="M0 0"/></defs><use xlink:href="#p"/></svg>'
    figures = [Figure(f"one {NASTY}", "c1", drawing), ("two", f"c2 {NASTY}", drawing)]
    found = check(page(filled, tmp_path, figures=figures))
    assert f"one {NASTY}" in found.text
    assert f"c2 {NASTY}" in found.text
    assert {"x0-p", "x1-p"} <= set(found.ids)
    assert {"#x0-p", "#x1-p"} <= set(found.targets)


def test_styles_and_references_of_a_figure_stay_in_it():
    text = (
        f'<?xml version="1.0"?>{SVG}><metadata><a/></metadata>'
        "<style>*{fill:red;mask:url(#c)}</style>"
        '<clipPath id="c"/><g id="same"/><g id="same" clip-path="url(#c)"/></svg>'
    )
    found = inline_svg(text, "f")
    assert "<style>#f{*{fill:red;mask:url(#f-c)}}</style>" in found
    assert '<clipPath id="f-c" />' in found
    assert 'clip-path="url(#f-c)"' in found
    assert "same" not in found
    assert "metadata" not in found
    assert "xmlns" not in found


@pytest.mark.parametrize(
    "inside",
    [
        "<script>1</script>",
        "<SCRIPT>1</SCRIPT>",
        '<g onclick="1"/>',
        '<g ONCLICK="1"/>',
        "<p>1</p>",
        '<feImage href="#a"/>',
        '<image href="https://example.org/a.png"/>',
        '<use xlink:href="other.svg#a"/>',
        '<a href="#x"/>',
        "<foreignObject/>",
        "<animate/>",
        "<style>@import 'a.css';</style>",
        "<style>*{fill:url(http://example.org)}</style>",
        '<g style="fill: url(a.svg#b)"/>',
    ],
)
def test_figures_that_run_or_load_are_refused(inside):
    with pytest.raises(ValueError, match="neither runs nor loads"):
        inline_svg(f"{SVG}>{inside}</svg>", "f")


@pytest.mark.parametrize("text", ["", "no", "<svg>", "<html/>"])
def test_what_is_no_svg_is_refused(text):
    with pytest.raises(ValueError, match="Figure f is not an SVG file"):
        inline_svg(text, "f")


# -- duels --------------------------------------------------------------------------------------


def test_duels_are_t_intervals_of_paired_differences(store):
    generator = np.random.default_rng(3)
    ours = generator.normal(0.10, 0.01, 6).tolist()
    ridge = (np.array(ours) + generator.normal(0.02, 0.002, 6)).tolist()
    facts = {"n_train": 700, "n_test": 300}
    add(store, "Arts", "DM2L linear", ours[:5], **facts)  # the sixth has no partner
    add(store, "Arts", "masked ridge", ridge, **facts)
    found = duels(table(store), [("DM2L linear", "masked ridge")])
    duel = next(d for d in found if d.measure == RKL)
    differences = np.subtract(ours[:5], ridge[:5])
    spread = stats.t.ppf(0.975, 4) * np.sqrt((1 / 5 + 3 / 7) * differences.var(ddof=1))
    assert duel.first.n == duel.second.n == 5
    assert duel.interval.mean == pytest.approx(differences.mean())
    assert duel.interval.low == pytest.approx(differences.mean() - spread)
    assert duel.interval.high == pytest.approx(differences.mean() + spread)
    assert duel.second.mean == pytest.approx(np.mean(ridge[:5]))
    verdicts = {d.measure.name: d.verdict for d in found}
    assert {verdicts[m.name] for m in MEASURES if not m.higher_is_better} == {"better"}
    assert {verdicts[m.name] for m in MEASURES if m.higher_is_better} == {"worse"}


def test_four_tenths_are_tested_on_where_rows_do_not_say(store):
    add(store, "Arts", "a", [0.1, 0.2, 0.4])
    add(store, "Arts", "b", [0.2, 0.2, 0.2])
    interval = duels(table(store), [("a", "b")])[0].interval
    d = np.array([-0.1, 0.0, 0.2])
    half = stats.t.ppf(0.975, 2) * d.std(ddof=1) * math.sqrt(1 / 3 + 0.4 / 0.6)
    assert interval.high - interval.mean == pytest.approx(half)


@pytest.mark.parametrize("values", [[0.1], [0.1, 0.1, 0.1]])
def test_no_difference_is_shown_by_one_split_or_by_equals(store, values):
    add(store, "Arts", "a", [0.9] if len(values) == 1 else values)
    add(store, "Arts", "b", values)
    assert {d.verdict for d in duels(table(store), [("a", "b")])} == {"no difference shown"}


def test_methods_without_common_repetitions_have_no_duel(store):
    add(store, "Arts", "a", [None, 0.1])
    add(store, "Arts", "b", [0.1])
    assert duels(table(store), [("a", "b")]) == []
    with pytest.raises(ValueError, match="no results of 'c'"):
        duels(table(store), [("a", "c")])


def test_names_tell_what_is_compared():
    names = ["DM2L-l", "DM2L-nl", "DM2L-Lo", "masked ridge", "masked kernel ridge", "LEML"]
    assert dm2l_variants(names) == ["DM2L-l", "DM2L-nl"]
    pairs = [("DM2L-l", "masked ridge"), ("DM2L-nl", "masked kernel ridge")]
    assert ridge_pairs(names) == pairs
    ranked = ("DM2L kernel, for ranking", "masked kernel ridge, for ranking")
    assert ridge_pairs([*names, *ranked]) == [*pairs, ranked]


# -- blocks -------------------------------------------------------------------------------------


def test_block_statistics_agree_with_scipy(filled):
    found = block_statistics(table(filled), RKL)
    assert found.methods == ["LEML", "DM2L linear", "masked ridge", "other"]
    assert len(found.blocks) == 6
    values = [[e.mean for e in table(filled).line(d, r, "Rkl").values()] for d, r in found.blocks]
    chi, p = stats.friedmanchisquare(*np.transpose(values))
    assert found.friedman.chi_square == pytest.approx(chi)
    assert found.friedman.p_value == pytest.approx(p)
    assert found.ranks == pytest.approx(stats.rankdata(values, axis=1).mean(axis=0))
    q = stats.studentized_range.ppf(0.95, 4, np.inf) / math.sqrt(2)
    assert found.cd == pytest.approx(q * math.sqrt(4 * 5 / (6 * 6)))
    assert len(found.pairs) == 6


def test_direction_of_the_measure_counts(filled):
    up, down = (block_statistics(table(filled), measure) for measure in (AUC, RKL))
    assert up.ranks == pytest.approx(5 - down.ranks)


def test_blocks_are_means_of_common_repetitions(store):
    for dataset in ("Arts", "Enron"):
        add(store, dataset, "a", [0.1, 0.2, 0.9])  # without the third a is better
        add(store, dataset, "b", [0.2, 0.3])
    assert block_statistics(table(store), RKL).ranks.tolist() == [1.0, 2.0]


def test_what_lacks_most_is_left_out(store):
    for dataset in ("Arts", "Enron", "Image"):
        add(store, dataset, "a", [0.1])
        add(store, dataset, "b", [0.2])
    add(store, "Arts", "rare", [0.3])
    add(store, "Social", "a", [0.3])
    found = block_statistics(table(store), RKL)
    assert found.left_out_methods == ["rare"]
    assert found.left_out_blocks == [("Social", 1.0)]
    assert [name for name, _ in found.blocks] == ["Arts", "Enron", "Image"]


def test_too_little_for_statistics(store):
    add(store, "Arts", "a", [0.1])
    add(store, "Arts", "b", [0.2])
    assert block_statistics(table(store), RKL) is None


# -- sheets -------------------------------------------------------------------------------------


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


# -- Markdown and LaTeX -------------------------------------------------------------------------

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


# -- the command --------------------------------------------------------------------------------


def call(*arguments, code=0):
    result = CliRunner().invoke(report_results, list(map(str, arguments)))
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_command_writes_page_and_tables(filled, tmp_path):
    page, folder = tmp_path / "r.html", tmp_path / "tables"
    result = call("--store", filled.path, "-o", page, "--protocol", "mine", "--tables", folder)
    check(page.read_text(encoding="utf-8"))
    count = len(list(folder.iterdir()))
    assert count > 10
    assert f"{count} files: {folder}" in result.output
    assert str(page) in result.output


def test_command_takes_a_convention(filled, tmp_path):
    page = tmp_path / "r.html"
    call("--store", filled.path, "-o", page, "--convention", "default")
    assert "No results yet." in page.read_text(encoding="utf-8")  # only published ones are stored


def test_command_says_what_is_left_out(store, tmp_path):
    protocol = Protocol("known", ("Arts",), (Method("a", MaskedRidgeClassifier()),), (1.0,))
    register(protocol)
    add(store, "Arts", "a", [0.1, 0.2], protocol="known")
    result = call("--store", store.path, "-o", tmp_path / "r.html")
    assert "2 rows are left out" in result.output


def test_wrong_arguments_end_with_code_2_and_say_which(filled, tmp_path, monkeypatch):
    monkeypatch.setattr(dm2l_lab.report, "store_figures", lambda *args, **choice: [])
    page = tmp_path / "r.html"
    other = tmp_path / "other.db"
    other.write_text("no store, but long enough to look like a file of something", encoding="utf-8")
    store = ("--store", filled.path)
    assert "'none'" in call(*store, "-o", page, "--protocol", "none", code=2).output
    assert "--output" in call(*store, code=2).output
    assert "absent.db" in call("--store", tmp_path / "absent.db", "-o", page, code=2).output
    assert "not a store" in call("--store", other, "-o", page, code=2).output
    assert "nowhere" in call(*store, "-o", tmp_path / "nowhere" / "r.html", code=2).output
    assert not page.exists()


# -- studies ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    """A small data set with the figures that need fits of their own."""
    folder = tmp_path_factory.mktemp("data")
    X, Y = make_missing_multilabel(n_samples=80, rho=1.0, random_state=0)
    np.savez(folder / "tiny.npz", X=X, Y=Y)
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DM2L_DATA", str(folder))
        return folder, study("tiny", repetitions=2, progress=told.append), told


def test_studies_are_of_the_splits_of_the_protocols(studied):
    _, found, told = studied
    assert told[-1] == "tiny: sensitivity, repetition 2 of 2"
    assert found.ranks.whole.shape[0] == 80
    assert set(found.course.courses) == {"lbfgs", "cccp", "published"}
    for model in (*found.lambda_ds.values(), found.sigmas):
        for table in model.scores.values():
            assert table.shape[0] == 2
            assert np.isfinite(table).all()
    # The weight and the width that stay fixed are the ones that the other figure passes.
    _, by_weight = found.lambda_ds["DM2L kernel"].along("lambda_d", "ranking_loss")
    _, by_width = found.sigmas.along("sigma", "ranking_loss")
    at = list(_study.LAMBDA_DS).index(_study.LAMBDA_D)
    np.testing.assert_allclose(by_weight[:, at], by_width[:, 2])


def test_command_draws_studies(filled, tmp_path, studied, monkeypatch):
    asked = []

    def known(name, repetitions, progress):
        asked.append((name, repetitions))
        return studied[1]

    monkeypatch.setattr(dm2l_lab.report, "study", known)
    monkeypatch.setattr(dm2l_lab.report, "store_figures", lambda *args, **choice: [])
    page = tmp_path / "r.html"
    call("--store", filled.path, "-o", page, "--study", "tiny")
    text = page.read_text(encoding="utf-8")
    check(text)
    for title in ("ranks of the labels", "convergence", "sensitivity to lambda_d", "to sigma"):
        assert title in text
    assert asked == [("tiny", 1)]


def test_a_study_of_unknown_data_is_refused(filled, tmp_path):
    page = tmp_path / "r.html"
    result = call("--store", filled.path, "-o", page, "--study", "no_such", code=2)
    assert "no_such" in result.output
    assert not page.exists()


def test_stored_studies_are_what_was_computed(studied, tmp_path, monkeypatch):
    stored = importlib.import_module("dm2l_lab.paper.studies")
    monkeypatch.setattr(stored, "PATH", tmp_path / "studies.json")
    stored.write([studied[1]])
    (found,) = stored.read()
    for new, old in zip(_numbers(found), _numbers(studied[1]), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-9)


def _numbers(part):
    """All that a study holds, in order."""
    if hasattr(part, "__dataclass_fields__"):
        part = [getattr(part, name) for name in part.__dataclass_fields__]
    if isinstance(part, dict):
        part = list(part.values())
    if isinstance(part, list | tuple) and not all(np.isscalar(item) for item in part):
        return [number for item in part for number in _numbers(item)]
    return [] if part is None or isinstance(part, str) else [np.asarray(part, dtype=float)]
