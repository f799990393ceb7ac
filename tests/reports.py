"""Stores for tests of reports, and what every page has to be."""

import base64
import hashlib
from html.parser import HTMLParser

from hypothesis import settings

from dm2l_lab import METRICS, Cell
from dm2l_lab._published import MEASURES
from dm2l_lab._results import read_results
from dm2l_lab._tables import ResultTable
from dm2l_lab.report import report

RKL, AUC = MEASURES[:2]
patient = settings(deadline=None)  # the machine may be busy with other tests
SETTINGS = "0123456789ab"
NASTY = """<script>alert("x")</script>&amp;'|$a_b$\\ [z] {}%#~^*`"""
SVG = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'


def add(store, dataset, method, values, *, rate=1.0, mask=None, protocol="mine", **others):
    """Store one row for each value of all metrics, as repetitions 0, 1, ...; None: it failed."""
    mask = mask or ("none" if rate == 1 else "per_row")
    for repetition, value in enumerate(values):
        cell = Cell(protocol, dataset, mask, rate, repetition, method, SETTINGS)
        row = {"status": "failed", "error": f"ValueError: {NASTY}"}
        if value is not None:
            row = {"status": "done", "metrics": {"published": dict.fromkeys(METRICS, value)}}
        store.add(cell, {"run": "r", **row, **others})


def table(store, **choice):
    (results,) = read_results(store)
    return ResultTable(results, **choice)


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
