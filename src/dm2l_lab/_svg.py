"""Any figure as SVG for a web page."""

from __future__ import annotations

import hashlib
import html
import io
import re
from collections import Counter
from typing import Any

_MOST_LAYOUTS = 8


def to_svg(
    figure: Any,
    *,
    title: str | None = None,
    description: str | None = None,
    prefix: str | None = None,
) -> str:
    """Write a figure as SVG that can stand in an HTML page, beside others.

    Letters are outlines, so that nothing has to be installed where it is read. Nothing depends on
    time or chance: the same figure gives the same text.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Any figure.
    title, description : str, default=None
        For those who cannot see it; None tells the names of axes and series.
    prefix : str, default=None
        What every id begins with. None makes one of the content: give one where a page shows the
        very same figure twice.

    Returns
    -------
    str
        An ``<svg>`` element.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from dm2l_lab._svg import to_svg
    >>> to_svg(Figure(), title="Nothing", prefix="empty")[:28]
    '<svg id="empty" role="img" a'
    """
    if prefix is not None and not re.fullmatch(r"[A-Za-z][\w-]*", prefix, re.ASCII):
        raise ValueError(
            f"prefix must begin with a letter and hold letters, digits, - and _; got {prefix!r}."
        )
    # A layout depends a little on the one before, and settles after a few.
    text, before = _element(figure), ""
    for _ in range(_MOST_LAYOUTS):
        if text == before:
            break
        text, before = _element(figure), text
    words = [
        html.escape(found if given is None else given)
        for given, found in zip((title, description), _words(figure), strict=True)
    ]
    if prefix is None:
        prefix = "f" + hashlib.sha256("\n".join([*words, text]).encode()).hexdigest()[:10]
    text = re.sub(r'(\sid="|href="#|url\(#)', rf"\g<1>{prefix}-", text)
    attributes, _, body = text.partition(">")
    # Without a height it follows from the width, in a narrow column too.
    attributes = re.sub(r' height="[^"]*"', "", attributes)
    return (
        f'<svg id="{prefix}" role="img" aria-labelledby="{prefix}-title {prefix}-desc" '
        'style="max-width: 100%; stroke-linejoin: round; stroke-linecap: butt"'
        f'{attributes}>\n<title id="{prefix}-title">{words[0]}</title>'
        f'\n<desc id="{prefix}-desc">{words[1]}</desc>{body}'
    )


def _element(figure: Any) -> str:
    """The figure as matplotlib writes it, from ``<svg`` on, less what does not suit a page."""
    import matplotlib as mpl

    buffer = io.StringIO()
    fixed: Any = {"svg.hashsalt": "dm2l", "svg.fonttype": "path", "savefig.bbox": "standard"}
    with mpl.rc_context(fixed):
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=nothing)
    # Inside a page there is no prolog, and a style sheet would rule the whole of it.
    text = buffer.getvalue().partition("<svg")[2]
    text = re.sub(r"(?s)<!--.*?-->|<style.*?</style>|<metadata>.*?</metadata>", "", text)
    text = re.sub(r"\s*\n\s*", "\n", text)
    # Rounding of a layout is not to show. What is below one may be a scale, and stays.
    text = re.sub(r"\b[1-9]\d*\.\d{4,}", lambda number: f"{float(number[0]):.3f}", text)
    return _renamed(text)


def _renamed(text: str) -> str:
    """Number ids that come twice, and those that are digests of coordinates."""
    counts: Counter[str] = Counter()
    digests: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        mark, name = match.groups()
        if re.search(r"[0-9a-f]{10}$", name):
            name = digests.setdefault(name, f"d{len(digests) + 1}")
        if "id=" in mark:
            counts[name] += 1
            name += f"-{counts[name]}" if counts[name] > 1 else ""
        return mark + name

    return re.sub(r'(\sid="|href="#|url\(#)([^")]*)', rename, text)


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
