"""The picture of docs/architecture.md: layers of the import contract, and two ways through them.

    python docs/images/architecture.py        # writes architecture.svg beside it

The packages come from pyproject.toml, so the picture shows what `make lint` checks.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
INK, LINE, FIT, TABLE = "#333f48", "#9aa7b0", "#2f6f8f", "#b4632a"
# What the numbered steps do, by package.
FIT_STEPS = {
    "_classifier": "1 parameters are checked",
    "_base": "2 X is checked · 6 calibration, thresholds",
    "labels": "3 y becomes a LabelMatrix",
    "_solvers": "4 features, objective, minimum",
    "completion": "5 label correlation, from leave-one-out scores",
}
TABLE_STEPS = {
    "cli": "1 options · 7 results in words",
    "io": "2 cells and label values",
    "tables": "3 columns by type · 5 estimated quality",
    "_auto": "4 models by cross-validation",
    "persistence": "6 one model file",
}
# Groups of layers, from the top.
BANDS = {
    "interfaces": ("cli", "tables"),
    "models": ("_auto", "_base"),
    "the method": ("completion", "_solvers"),
    "data": ("model_selection", "_utils"),
}


def layers() -> list[list[str]]:
    """Packages of each layer of the contract, from the top."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    found = next(contract for contract in contracts if contract["id"] == "layers")["layers"]
    return [[name for name in re.findall(r"\w+", layer) if name != "__main__"] for layer in found]


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
        text(left, 24, "packages: each layer imports those below it", 14),
        text(450, 24, "one fit(X, y)", 14, f'fill="{FIT}" font-weight="bold"'),
        text(745, 24, "one dm2l fit table.csv", 14, f'fill="{TABLE}" font-weight="bold"'),
    ]
    line_of = {}
    for i, packages in enumerate(rows):
        y = top + step * i
        box_width = (width - 6 * (len(packages) - 1)) / len(packages)
        for j, package in enumerate(packages):
            line_of[package] = i
            x = left + j * (box_width + 6)
            look = f'fill="#f1f4f5" stroke="{LINE}"'
            parts.append(box(round(x, 1), y, round(box_width, 1), 23, look))
            middle = 'text-anchor="middle"'
            parts.append(text(round(x + box_width / 2, 1), y + 16, package, 12, middle))
        for steps, at, colour in ((FIT_STEPS, 450, FIT), (TABLE_STEPS, 745, TABLE)):
            words = " · ".join(sorted(steps[name] for name in packages if name in steps))
            if words:
                parts.append(text(at, y + 16, words, 12, f'fill="{colour}"'))
                beside = at > 450 and FIT_STEPS.keys() & set(packages)
                start = at - 24 if beside else left + width + 4
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
