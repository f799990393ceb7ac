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

from dm2l import AutoClassifier
from dm2l._auto._base_models import ProgressLine
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
    assert f"Expected error rate: at most {found.expected_wrong:.1%} (yes " in found._repr_html_()
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


def test_progress_is_a_bar_for_each_stage_at_a_terminal_and_silent_elsewhere(capsys):
    with progress() as tell:
        tell("reading")
    assert capsys.readouterr() == ("", "")
    left = iter((60.0, 200.0))
    with progress(Console(file=sys.stdout, force_terminal=True, width=80)) as tell:
        tell("reading \x1b[31mred")
        tell("[bold]linear: fold 2 of 4")
        time.sleep(0.3)  # it is drawn some times a second
        line = ProgressLine("rbf kernel: fold 1 of 5 (3 s, about 9 s left)")
        line.step, line.left = "rbf kernel: fold 1 of 5", lambda: next(left, 200.0)
        tell(line)
        time.sleep(0.3)
        for step in ("fold 1 of 2: linear", "fold 1 of 2: rbf", "fold 2 of 2: linear"):
            line = ProgressLine(f"estimating the quality of each label, {step} (99 min)")
            line.step, line.left = str(line).removesuffix(" (99 min)"), lambda: 6000.0
            tell(line)
            time.sleep(0.3)
    shown = capsys.readouterr().out
    for part in ("\\u001b[31mred", "[bold]linear", "60 s left in all", "3 min left in all"):
        assert part in shown
    assert "fold" not in shown
    plain = [re.sub(r"\x1b\[[0-9;?]*\w", "", line) for line in shown.splitlines()]
    stages = [line.split("  ")[0].split(" ━")[0] for line in plain if line][-4:]
    assert stages[:3] == ["reading \\u001b[31mred", "[bold]linear", "rbf kernel"]
    assert stages[3].startswith("estimating the quality of each label")
    assert any("estimating" in line and "100 min left in all" in line for line in plain)
    assert max(map(len, plain)) <= 80


def test_progress_in_a_notebook_without_widgets_is_silent(capsys, monkeypatch):
    console = Console(force_jupyter=True)
    monkeypatch.setattr("dm2l.cli._shared.find_spec", lambda name: None)
    with progress(console) as tell:
        tell("fitting")
    assert capsys.readouterr() == ("", "")


def test_a_fitted_ensemble_shows_its_leaderboard_and_labels_with_escaped_names():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    Y = pd.DataFrame({"<script>alert(1)</script>": X[:, 0] > 0, "b": X[:, 1] > 0}).astype(float)
    Y.iloc[::7] = np.nan
    model = AutoClassifier("quick", random_state=0)
    assert "leaderboard" not in model._repr_html_inner()
    assert "CV AUC" not in model._repr_html_inner()
    model.fit(X, Y)
    text = model._repr_mimebundle_()["text/html"]
    assert "<table>" in model._repr_html_()
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    for part in (*model.leaderboard_["model"], "log-loss", "average precision"):
        assert part in text
    auc = model.label_quality_["auc"][1]
    assert f">{auc:.3f}<" in text
    assert f"width:{100 * (2 * auc - 1):.1f}%" in text
