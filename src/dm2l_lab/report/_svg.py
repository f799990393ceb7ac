"""Figures as SVG, and SVG as a part of a page, beside others and without touching them."""

from __future__ import annotations

import html
import io
import re
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

_MOST_LAYOUTS = 8
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


def to_svg(
    figure: Any, *, title: str | None = None, description: str | None = None, outlines: bool = True
) -> str:
    """Write a figure as SVG.

    Nothing depends on time, chance or settings of the reader: the same figure gives the same text.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Any figure.
    title, description : str, default=None
        For those who cannot see it; None tells the names of axes and series.
    outlines : bool, default=True
        Whether letters are drawn, so that no font is needed, or stay letters, which can be found
        and read aloud.

    Returns
    -------
    str
        An ``<svg>`` element, for :func:`inline_svg`.
    """
    # A layout depends a little on the one before, and settles after a few.
    text, before = _written(figure, outlines), ""
    for _ in range(_MOST_LAYOUTS):
        if text == before:
            break
        text, before = _written(figure, outlines), text
    words = zip((title, description), _words(figure), strict=True)
    name, story = (html.escape(found if given is None else given) for given, found in words)
    attributes, _, body = text.partition(">")
    return f"<svg{attributes}>\n<title>{name}</title>\n<desc>{story}</desc>{body}"


def _written(figure: Any, outlines: bool) -> str:
    """The figure as matplotlib writes it, after ``<svg``."""
    import matplotlib as mpl

    buffer = io.StringIO()
    fixed: Any = {"svg.hashsalt": "dm2l", "savefig.bbox": "standard"}
    with mpl.rc_context(fixed | {"svg.fonttype": "path" if outlines else "none"}):
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=nothing)
    text = re.sub(r"\s*\n\s*", "\n", buffer.getvalue().partition("<svg")[2])
    # Rounding of a layout is not to show: neither in numbers (what is below one may be a scale,
    # and stays) nor in identifiers, which are digests of coordinates.
    text = re.sub(r"\b[1-9]\d*\.\d{4,}", lambda number: f"{float(number[0]):.3f}", text)
    names: dict[str, str] = {}
    return re.sub(
        r"""(?<=["#])\w*[0-9a-f]{10}(?=[")])""",
        lambda digest: names.setdefault(digest[0], f"d{len(names) + 1}"),
        text,
    )


def _words(figure: Any) -> tuple[str, str]:
    """A title and a description made of what is written on the axes."""
    panels: list[str] = []
    series: dict[str, None] = {}
    y = ""
    for ax in figure.axes:
        series |= dict.fromkeys(ax.get_legend_handles_labels()[1])
        y = ax.get_ylabel() or y  # panels beside each other may share it
        words = " against ".join(part for part in (y, ax.get_xlabel()) if part)
        panel = ": ".join(part for part in (ax.get_title(loc="left"), words) if part)
        if panel:
            panels.append(re.sub(r"[$\\{}]", "", panel))
    title = figure.get_suptitle() or (panels[0] if panels else "Figure")
    listed = f" Series: {', '.join(series)}." if series else ""
    return title, f"{'; '.join(panels)}.{listed}"


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
    >>> from dm2l_lab.report._svg import inline_svg
    >>> text = '<svg xmlns="http://www.w3.org/2000/svg"><g id="a"/><use href="#a"/></svg>'
    >>> inline_svg(text, "f1")
    '<svg id="f1" role="img"><g id="f1-a" /><use href="#f1-a" /></svg>'
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
    root.set("role", "img")
    words = [child for child in root if child.tag in ("title", "desc")]
    for child in words:
        child.set("id", f"{name}-{child.tag}")
    if words:
        root.set("aria-labelledby", " ".join(f"{name}-{child.tag}" for child in words))
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
