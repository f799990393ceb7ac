"""The picture of docs/architecture.md: layers of the import contract, and two ways through them.

    python docs/images/architecture.py        # writes architecture.svg beside it

The rooms come from pyproject.toml, so that the picture shows what `make lint` checks.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
INK, LINE, FIT, TABLE = "#333f48", "#9aa7b0", "#2f6f8f", "#b4632a"
# What the numbered steps do, by room.
FIT_STEPS = {
    "classifier": "1 parameters, checked",
    "base": "2 X, checked · 9 probabilities, thresholds",
    "labels": "3 Y becomes signs: +1, -1, 0",
    "fitting": "4 from features to weights",
    "kernels": "5 rows of X become features",
    "objective": "6 loss and groups of rows",
    "nuclear": "7 norms and their gradients",
    "solvers": "8 the minimum",
}
TABLE_STEPS = {
    "cli": "1 options · 8 what was found, in words",
    "readers": "2 cells, label words",
    "tables": "3 columns by kind · 6 estimate of quality",
    "search": "4 lambda_d, alpha by cross-validation",
    "classifier": "5 one fit, as on the left",
    "persistence": "7 one file, with nothing to run",
}
# Bands of rooms, from the top, with what they are called.
BANDS = {
    "for people": ("cli", "tables"),
    "models": ("persistence", "baselines"),
    "the method": ("fitting", "nuclear"),
    "data": ("datasets", "readers"),
    "ground": ("masks", "arrays"),
}


def layers() -> list[list[str]]:
    """Rooms of each layer of the contract, from the top."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    found = next(contract for contract in contracts if contract["id"] == "layers")["layers"]
    rooms = [re.findall(r"\w+", layer) for layer in found]
    present = {path.stem for path in (ROOT / "src" / "dm2l").iterdir()}
    rooms = [[room for room in layer if room in present] for layer in rooms]
    return [layer for layer in rooms if layer and layer != ["__main__"]]


def text(x: float, y: float, words: str, size: int = 12, more: str = "") -> str:
    font = f'font-family="system-ui, sans-serif" font-size="{size}"'
    ink = "" if "fill=" in more else f' fill="{INK}"'
    return f'<text x="{x}" y="{y}" {font}{ink} {more}>{words}</text>'


def box(x: float, y: float, width: float, height: float, look: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width:g}" height="{height}" rx="3" {look}/>'


def draw() -> str:
    """The whole picture."""
    rows = layers()
    step, top, left, width = 30, 56, 96, 330
    height = top + step * len(rows) + 14
    parts = [
        text(left, 24, "rooms: each imports those below it", 14),
        text(450, 24, "one fit(X, Y)", 14, f'fill="{FIT}" font-weight="bold"'),
        text(745, 24, "one dm2l fit table.csv", 14, f'fill="{TABLE}" font-weight="bold"'),
    ]
    line_of = {}
    for i, rooms in enumerate(rows):
        y = top + step * i
        room_width = (width - 6 * (len(rooms) - 1)) / len(rooms)
        for j, room in enumerate(rooms):
            line_of[room] = i
            x = left + j * (room_width + 6)
            look = f'fill="#f1f4f5" stroke="{LINE}"'
            parts.append(box(round(x, 1), y, round(room_width, 1), 23, look))
            middle = 'text-anchor="middle"'
            parts.append(text(round(x + room_width / 2, 1), y + 16, room, 12, middle))
        for steps, at, colour in ((FIT_STEPS, 450, FIT), (TABLE_STEPS, 745, TABLE)):
            words = [steps[room] for room in rooms if room in steps]
            if words:
                parts.append(text(at, y + 16, words[0], 12, f'fill="{colour}"'))
                start = at - 24 if at > 450 and FIT_STEPS.keys() & set(rooms) else left + width + 4
                parts.append(
                    f'<path d="M{start} {y + 12}H{at - 6}" stroke="{colour}" stroke-opacity="0.3"/>'
                )
    for name, (first, last) in BANDS.items():
        y1, y2 = top + step * line_of[first], top + step * line_of[last] + 23
        parts.append(f'<path d="M88 {y1}V{y2}" stroke="{INK}" stroke-width="2"/>')
        parts.append(text(80, (y1 + y2) / 2 + 4, name, 12, 'text-anchor="end"'))
    size = f'viewBox="0 0 1010 {height}" width="1010"'
    background = f'<rect width="1010" height="{height}" fill="#ffffff"/>'
    return "\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', background, *parts, "</svg>\n"]
    )


if __name__ == "__main__":
    (HERE / "architecture.svg").write_text(draw(), encoding="utf-8")
