"""Formulas as MathML, written when the pages are built.

Every current browser shows MathML by itself, so the pages load no script for it, from nowhere.
docutils has the translator; Sphinx only does not offer it.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

logger = logging.getLogger(__name__)

# LaTeX reads \frac12 as one half; the translator would take 12 for the numerator.
_BARE_FRACTION = re.compile(r"\\([td]?frac)\s*(\d)\s*(\d)")


def translate(node: Any, block: bool) -> str:
    """MathML of a formula; what cannot be translated is a warning and stays LaTeX."""
    source = _BARE_FRACTION.sub(r"\\\1{\2}{\3}", node.astext()).replace(r"\dots", r"\ldots")
    try:
        # A prime comes out as an apostrophe.
        return tex2mathml(source, as_block=block).replace(">'<", ">′<")
    except MathError as error:
        logger.warning("formula cannot be translated: %s in %s", error, source, location=node)
        return f"<code>{source}</code>"


def visit_inline(self: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    self.body.append(translate(node, block=False))
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.math_block) -> None:
    """Write a formula of its own line, with its number if it has one."""
    # A wide formula scrolls, which must be possible with the keyboard, too.
    self.body.append(self.starttag(node, "div", CLASS="math notranslate", tabindex="0"))
    if node["number"]:
        number = get_node_equation_number(self, node)
        self.body.append(f'<span class="eqno">({number})</span>')
    self.body.append(translate(node, block=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
