"""Figures of anybody stand on a page and neither run nor load anything."""

import pytest

from dm2l_lab.report import Figure
from dm2l_lab.report._svg import inline_svg
from reports import NASTY, SVG, check, page


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
