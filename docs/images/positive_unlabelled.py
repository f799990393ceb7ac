"""The picture of docs/guide/positive-unlabelled.md: missing labels read in two ways.

    python docs/images/positive_unlabelled.py    # writes positive_unlabelled.svg beside it

Drawn as text, without a library, so that it looks the same wherever it is made.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
YES, NO, INK = "#2f6f8f", "#dfe6ea", "#333f48"
TRUTH = ("1100", "0110", "1010", "0001", "1100")
RECORDED = ("1000", "0100", "0010", "0001", "0100")
# Probabilities: higher for labels that are related to a recorded positive of the row.
BELIEF = (
    (1.0, 0.6, 0.3, 0.05),
    (0.3, 1.0, 0.5, 0.05),
    (0.6, 0.4, 1.0, 0.05),
    (0.05, 0.1, 0.05, 1.0),
    (0.7, 1.0, 0.3, 0.05),
)


def text(x: float, y: float, words: str, size: int = 13) -> str:
    font = f'font-family="system-ui, sans-serif" font-size="{size}" fill="{INK}"'
    return f'<text x="{x}" y="{y}" text-anchor="middle" {font}>{words}</text>'


def cell(x: float, y: float, share: float | None) -> str:
    if share is None:
        look = 'fill="#fff" stroke="#9aa7b0" stroke-width="1.5" stroke-dasharray="4 3"'
        return f'<rect x="{x + 1}" y="{y + 1}" width="24" height="24" rx="3" {look}/>'
    under = f'<rect x="{x}" y="{y}" width="26" height="26" rx="3" fill="{NO}"/>'
    over = f'<rect x="{x}" y="{y}" width="26" height="26" rx="3" fill="{YES}"'
    return under + f'{over} fill-opacity="{share}"/>'


def panel(x: float, title: str, below: str, values: list[list[float | None]]) -> str:
    cells = [
        cell(x + 32 * j, 44 + 32 * i, value)
        for i, row in enumerate(values)
        for j, value in enumerate(row)
    ]
    return "\n".join([text(x + 62, 26, title, 14), *cells, text(x + 62, 226, below, 12)])


def picture() -> str:
    truth = [[float(v) for v in row] for row in TRUTH]
    recorded = [[1.0 if v == "1" else None for v in row] for row in RECORDED]
    negative = [[float(v) for v in row] for row in RECORDED]
    belief: list[list[float | None]] = [list(row) for row in BELIEF]
    parts = (
        panel(20, "true labels", "not known", truth),
        panel(215, "recorded positives", "dashed: unlabelled", recorded),
        panel(410, "missing_as=&quot;negative&quot;", "probabilities too low", negative),
        panel(605, "missing_as=&quot;unlabelled&quot;", "probabilities of a positive", belief),
    )
    size = 'viewBox="0 0 770 244" width="770"'
    ground = '<rect width="770" height="244" fill="#ffffff"/>'
    return "\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', ground, *parts, "</svg>\n"]
    )


if __name__ == "__main__":
    (HERE / "positive_unlabelled.svg").write_text(picture(), encoding="utf-8")
