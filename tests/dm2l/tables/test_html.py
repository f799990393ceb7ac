"""What tables show in a notebook: the right numbers, bars that fit, and nothing that runs."""

import re
import sys
import time
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from dm2l.cli._shared import progress
from dm2l.tables import (
    Completion,
    FitOptions,
    complete_table,
    evaluate_table,
    fit_table,
    inspect_table,
    table_from_frame,
)

HOSTILE = "is_<script>alert('\u202e\x1b')</script>\" onload=x"


@pytest.fixture(scope="module")
def shown():
    """An inspection, an evaluation and completions of a table with a hostile name."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"mass": rng.normal(size=120)})
    for name in ("is_a", HOSTILE):
        known = (frame["mass"] + rng.normal(size=120) > 0).astype(object)
        frame[name] = known.where(rng.random(120) > 0.4, None)
    table = table_from_frame(frame, "is_*")
    options = FitOptions("linear", 0.1, 1.0, cv=3)
    model = fit_table(table, options, estimate_folds=0)
    return {
        "inspection": inspect_table(table),
        "evaluation": evaluate_table(table, options, repetitions=2),
        "completion": complete_table(model, table),
        "bounded": complete_table(model, table, max_error_rate=0.2),
    }


class Page(HTMLParser):
    """Tags, attributes and cells of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.names, self.rows, self.open = set(), set(), [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data


@pytest.mark.parametrize("name", ["inspection", "evaluation", "completion", "bounded"])
def test_names_are_text_and_nothing_runs(shown, name):
    text = shown[name]._repr_html_()
    page = Page(text)
    assert not page.open
    table = {"table", "thead", "tbody", "tr", "th", "td"}
    assert page.tags <= table | {"div", "p", "strong", "ul", "li", "span"}
    assert page.names <= {"style", "title"}
    assert "\u202e" not in text
    assert "\x1b" not in text
    cells = [cell for row in page.rows for cell in row]
    assert "is_<script>alert('\\u202e\\u001b')</script>\" onload=x" in cells


@pytest.mark.parametrize("name", ["inspection", "completion", "bounded"])
def test_bars_are_shares_of_their_cell(shown, name):
    bars = re.findall(r"<div style=\"width:10em.*?</div>", shown[name]._repr_html_())
    widths = [[float(w) for w in re.findall(r"width:([\d.]+)%", bar)] for bar in bars]
    assert widths
    assert all(sum(one) == pytest.approx(100, abs=0.2) for one in widths)


def test_numbers_are_those_of_the_object(shown):
    rows = Page(shown["inspection"]._repr_html_()).rows
    counts = shown["inspection"].labels[0]
    assert rows[1][:4] == [
        "is_a",
        *(str(k) for k in (counts.positive, counts.negative, counts.missing)),
    ]
    found = shown["bounded"]
    rows = Page(found._repr_html_()).rows
    n_missing, filled = found.missing[:, 0].sum(), found.filled[:, 0].sum()
    yes = found.positive[:, 0].sum()
    expected = [n_missing, yes, filled - yes, n_missing - filled, found.look[:, 0].sum()]
    assert rows[1][1:6] == [str(number) for number in expected]
    assert f"Expected error rate: {found.expected_wrong:.1%} (yes " in found._repr_html_()
    auc = shown["evaluation"].methods["DM2L"]["label_auc"]
    assert Page(shown["evaluation"]._repr_html_()).rows[1][2] == f"{auc.mean:.3f}"


def test_many_labels_are_cut_short_and_nothing_at_all_is_shown(shown):
    none = np.zeros((3, 150), dtype=bool)
    many = Completion([f"l{k}" for k in range(150)], none, none, none, none.astype(float), ["odd"])
    text = many._repr_html_()
    assert "50 more rows" in text
    assert "<li>warning: odd</li>" in text
    assert len(Page(text).rows) == 101
    undefined = replace(shown["evaluation"], labels=[], methods={})
    assert Page(undefined._repr_html_()).rows


def test_progress_is_lines_in_a_file_and_a_spinner_at_a_terminal(capsys):
    with progress() as tell:
        tell("reading \x1b[31mred")
    assert capsys.readouterr().err == "reading \\u001b[31mred ...\n"
    with progress(Console(file=sys.stdout, force_terminal=True, width=60)) as tell:
        tell("[bold]fitting")
        time.sleep(0.3)  # it is drawn some times a second
    assert "[bold]fitting" in capsys.readouterr().out


def test_progress_in_a_notebook_without_widgets_is_lines(capsys, monkeypatch):
    console = Console(force_jupyter=True)
    monkeypatch.setattr("dm2l.cli._shared.find_spec", lambda name: None)
    with progress(console) as tell:
        tell("fitting")
    assert capsys.readouterr().err == "fitting ...\n"
