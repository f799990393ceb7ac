"""The schematic pictures of docs/research/method.md.

    python docs/images/method.py        # writes method-labels.svg and method-bracket.svg beside it

Drawn as text, without a library, so that they look the same wherever they are made.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
YES, NO, INK, GROUP, OTHER = "#2f6f8f", "#dfe6ea", "#333f48", "#2f6f8f", "#e08e45"


def text(x: float, y: float, words: str, size: int = 14, anchor: str = "middle", more: str = ""):
    font = f'font-family="system-ui, sans-serif" font-size="{size}" fill="{INK}"'
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" {font} {more}>{words}</text>'


def box(x: float, y: float, width: float, height: float, look: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="3" {look}/>'


def cell(x: float, y: float, value: str) -> str:
    if value == "?":
        dashes = 'fill="#fff" stroke="#9aa7b0" stroke-width="1.5" stroke-dasharray="4 3"'
        return box(x + 1, y + 1, 20, 20, dashes)
    return box(x, y, 22, 22, f'fill="{YES if value == "1" else NO}"')


def picture(width: int, height: int, *parts: str) -> str:
    size = f'viewBox="0 0 {width} {height}" width="{width}"'
    background = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', background, *parts, "</svg>\n"]
    )


def labels() -> str:
    """Labels with missing entries, and the groups of rows that share an observed positive."""
    names = ["snake", "reptile", "river", "night"]
    rows = ["1?01", "11?0", "?10?", "00?1", "0?11", "?001", "0??0"]
    parts = [text(78, 24, "labels Y", 15), text(388, 24, "rows with an observed yes", 15)]
    for j, name in enumerate(names):
        x, group = 30 + 24 * j, 258 + 70 * j
        turned = f'transform="rotate(-45 {x + 10} 86)"'
        parts.append(text(x + 10, 86, name, 12, "start", turned))
        parts.append(text(group + 24, 86, f"F {name}", 12))
        for i, row in enumerate(rows):
            parts.append(cell(x, 96 + 24 * i, row[j]))
            look = f'fill="{GROUP if row[j] == "1" else "#f1f4f5"}"'
            parts.append(box(group, 97 + 24 * i, 48, 20, look))
    parts.append(box(248, 92, 278, 148, f'fill="none" stroke="{OTHER}" stroke-width="3"'))
    parts.append(text(400, 290, "orange: F_C. The last row is in no group.", 12))
    for k, (value, meaning) in enumerate({"1": "yes", "0": "no", "?": "missing"}.items()):
        parts += [cell(14 + 62 * k, 274, value), text(42 + 62 * k, 290, meaning, 12, "start")]
    return picture(560, 310, *parts)


def bracket() -> str:
    """Scores as arrows: of a ridge, with the local norms, and with the global one too."""
    panels = {
        "ridge": (
            [(105, -27), (99, -51), (87, -72), (111, -9)],
            [(-12, -108), (21, -105), (-42, -96), (45, -93)],
        ),
        "shrink locally: each group on a line": (
            [(108, -36), (87, -29), (99, -33), (75, -25)],
            [(24, -108), (18, -84), (21, -96), (16, -72)],
        ),
        "expand globally: the lines apart": (
            [(117, -6), (93, -5), (105, -5.4), (81, -4.2)],
            [(-6, -117), (-4.8, -93), (-5.4, -105), (-4.2, -81)],
        ),
    }
    parts = []
    for k, (title, groups) in enumerate(panels.items()):
        x, y = 80 + 260 * k, 150
        axes = f"M{x - 50} {y}H{x + 140}M{x} {y + 25}V{y - 130}"
        parts.append(f'<path d="{axes}" stroke="#c5ced3" fill="none"/>')
        for group, colour in zip(groups, (GROUP, OTHER), strict=True):
            for dx, dy in group:
                line = f'd="M{x} {y}L{x + dx} {y + dy}" stroke="{colour}" stroke-width="2"'
                dot = f'cx="{x + dx}" cy="{y + dy}" r="5.5" fill="{colour}"'
                parts.append(f"<path {line}/><circle {dot}/>")
        parts.append(text(x + 40, 204, title, 14))
    explained = "each dot shows the scores of one row; the colour is its observed label"
    return picture(800, 250, *parts, text(400, 236, explained, 13))


if __name__ == "__main__":
    (HERE / "method-labels.svg").write_text(labels(), encoding="utf-8")
    (HERE / "method-bracket.svg").write_text(bracket(), encoding="utf-8")
