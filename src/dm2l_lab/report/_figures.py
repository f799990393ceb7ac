"""Figures as SVG that can stand inside a page, several of them, without touching each other."""

from __future__ import annotations

import importlib.util
import io
import re
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from dm2l.plots._diagrams import critical_difference_diagram
from dm2l_lab.report._blocks import BlockStatistics
from dm2l_lab.report._html import printable

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_URL = re.compile(r"url\(\s*(['\"]?)#([^)'\"]+)\1\s*\)")
# Elements that draw. Others might run, load, or end the figure in the middle of a page.
_DRAWING = frozenset(
    {
        *("svg", "g", "defs", "symbol", "use", "switch", "title", "desc", "style", "image"),
        *("path", "rect", "circle", "ellipse", "line", "polyline", "polygon"),
        *("text", "tspan", "textPath", "clipPath", "mask", "pattern", "marker", "filter"),
        *("linearGradient", "radialGradient", "stop"),
    }
)
_REFERENCE = re.compile(r"url\(\s*['\"]?(?!#|data:)|@import", re.IGNORECASE)


class Figure(NamedTuple):
    """A figure for a report: its title, a caption, and the text of an SVG file."""

    title: str
    caption: str
    svg: str


def inline_svg(svg: str, name: str) -> str:
    """An SVG file as an element of an HTML page.

    Identifiers get the name as a prefix, styles are bound to the figure, and what the page does
    not need (metadata, comments, name spaces) goes.

    Parameters
    ----------
    svg : str
        Text of an SVG file.
    name : str
        Identifier of the figure, different for each.

    Returns
    -------
    str
        One ``svg`` element.

    Examples
    --------
    >>> from dm2l_lab.report._figures import inline_svg
    >>> text = '<svg xmlns="http://www.w3.org/2000/svg"><g id="a"/><use href="#a"/></svg>'
    >>> inline_svg(text, "f1")
    '<svg id="f1"><g id="f1-a" /><use href="#f1-a" /></svg>'
    """
    try:
        root = ET.fromstring(svg)
    except ET.ParseError as error:
        raise ValueError(f"Figure {name} is not an SVG file: {error}.") from error
    if root.tag not in ("svg", f"{_SVG}svg"):
        raise ValueError(f"Figure {name} is not an SVG file: its first element is {root.tag}.")
    for parent in root.iter():
        for child in [c for c in parent if c.tag.rpartition("}")[2] == "metadata"]:
            parent.remove(child)
    used = set()
    for element in root.iter():
        _check(element, name)
        used |= {value[1:] for key, value in element.items() if key in ("href", _HREF)}
        texts = [element.text or "", *element.attrib.values()]
        used |= {found for text in texts for _, found in _URL.findall(text)}
    for element in root.iter():
        _rename(element, used, name)
    root.set("id", name)
    root.tail = None
    return ET.tostring(root, encoding="unicode")


def _check(element: ET.Element, name: str) -> None:
    tag = element.tag.rpartition("}")[2]
    loads = [
        f"{key}={value!r}"
        for key, value in element.items()
        if key.lower().startswith("on")
        or (key in ("href", _HREF, "src") and not value.startswith(("#", "data:image/")))
        or _REFERENCE.search(value)
    ]
    if tag == "style" and _REFERENCE.search(element.text or ""):
        loads.append(element.text or "")
    filters = tag.startswith("fe") and tag != "feImage"
    if loads or not (tag in _DRAWING or filters):
        raise ValueError(
            f"Figure {name} has {'; '.join(loads) or f'an element {tag}'}: a figure of a report "
            "neither runs nor loads anything."
        )


def _rename(element: ET.Element, used: set[str], name: str) -> None:
    element.tag = element.tag.rpartition("}")[2]
    if element.tag == "style" and element.text:
        # Nested rules: of this figure only.
        rules = _URL.sub(rf"url(#{name}-\2)", element.text)
        element.text = f"#{name}{{{rules}}}"
    for key, value in list(element.items()):
        new = _URL.sub(rf"url(#{name}-\2)", value)
        if key in ("href", _HREF) and value.startswith("#"):
            new = f"#{name}-{value[1:]}"
        elif key == "id" and value in used:
            new = f"{name}-{value}"
        del element.attrib[key]
        # Drawing programs name groups alike; a name that nothing refers to says nothing here.
        if key != "id" or value in used:
            element.set(key.rpartition("}")[2], new)


# -- diagrams -----------------------------------------------------------------------------------


def can_draw() -> bool:
    """Whether matplotlib, which draws the diagrams, is there."""
    return importlib.util.find_spec("matplotlib") is not None


def diagrams(blocks: list[BlockStatistics]) -> Iterator[Figure]:
    """Critical-difference diagrams, one for each measure."""
    for each in blocks:
        yield Figure(
            f"{each.measure.title}: average ranks",
            f"{len(each.methods)} methods on {len(each.blocks)} blocks. Methods under one bar do "
            f"not differ by Nemenyi's test at 5 %: their ranks lie within {each.cd:.3f}.",
            _diagram(each),
        )


def _diagram(each: BlockStatistics) -> str:
    import matplotlib as mpl

    # A dollar would begin a formula.
    names = [printable(method).replace("$", r"\$") for method in each.methods]
    file = io.StringIO()
    # Letters stay letters, to be read aloud and found; the salt makes the file the same each time.
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": each.measure.name}
    with mpl.rc_context(style), warnings.catch_warnings():
        # Whether a font has a letter is a matter of the browser that shows the page.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure: Any = critical_difference_diagram(each.ranks, each.cd, names=names).figure
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()
