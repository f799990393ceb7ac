"""The picture at the top of README.md: real labels before and after imputation.

    python docs/images/filled.py        # writes filled.svg beside it

Ten of the 900 images in the README's example, with its model; the count is over all missing labels.
"""

from __future__ import annotations

import numpy as np
from method import HERE, INK, NO, OTHER, YES, box, picture, text

from dm2l import DM2LClassifier
from dm2l.datasets import load_digit_attributes
from dm2l.simulate import simulate_uniform

CELL, TOP, ROWS = 19, 100, slice(20, 30)


def image(y: float, pixels: np.ndarray) -> list[str]:
    shades = np.rint(255 - 240 * pixels.reshape(8, 8)).astype(int)
    step = (CELL - 3) / 8
    return [
        f'<rect x="{20 + j * step:.2f}" y="{y + i * step:.2f}" width="{step:.2f}" '
        f'height="{step:.2f}" fill="rgb({shade},{shade},{shade})"/>'
        for (i, j), shade in np.ndenumerate(shades)
        if shade < 240  # white is the paper
    ]


def matrix(x: float, values: np.ndarray, wrong: np.ndarray) -> list[str]:
    dashed = 'fill="#ffffff" stroke="#c3ccd2" stroke-dasharray="2 2"'
    parts = []
    for (i, j), value in np.ndenumerate(values):
        look = dashed if np.isnan(value) else f'fill="{YES if value else NO}"'
        if wrong[i, j]:
            look += f' stroke="{OTHER}" stroke-width="2.5"'
        parts.append(box(x + CELL * j, TOP + CELL * i, CELL - 2, CELL - 2, look))
    return parts


def names(x: float, words: list[str]) -> list[str]:
    return [
        text(px, TOP - 8, word, 10, "start", f'transform="rotate(-50 {px} {TOP - 8})"')
        for px, word in ((x + CELL * j + 9, word) for j, word in enumerate(words))
    ]


def main() -> None:
    data = load_digit_attributes()
    X, truth = data.data[:900], data.target[:900]
    Y = simulate_uniform(truth, rho=0.3, random_state=0)
    filled = DM2LClassifier(kernel="rbf").fit(X, Y).complete(X, Y)
    missing, wrong = np.isnan(Y), filled != truth
    right = 1 - wrong[missing].mean()
    first, second = 50, 50 + CELL * Y.shape[1] + 70
    height = TOP + CELL * 10
    parts = [part for i, row in enumerate(X[ROWS] / X.max()) for part in image(TOP + CELL * i, row)]
    parts += matrix(first, Y[ROWS], np.zeros_like(wrong[ROWS])) + names(first, data.target_names)
    parts += matrix(second, filled[ROWS], wrong[ROWS]) + names(second, data.target_names)
    middle, y = second - 37, TOP + CELL * 5
    parts.append(f'<path d="M {middle - 18} {y} h 30 m -9 -7 l 9 7 l -9 7" fill="none" '
                 f'stroke="{INK}" stroke-width="2.5"/>')  # fmt: skip
    below = height + 22
    parts.append(text(first, below, f"{missing.mean():.0%} of the labels are missing", 13, "start"))
    said = f"{right:.1%} of {missing.sum():,} imputed labels are correct"
    parts.append(text(second, below, said, 13, "start"))
    legend = {"yes": 1.0, "no": 0.0, "missing": np.nan, "wrong": 1.0}
    for k, (word, value) in enumerate(legend.items()):
        x = first + 90 * k
        key = matrix(x, np.array([[value]]), np.array([[word == "wrong"]]))
        parts += [f'<g transform="translate(0 {below + 10 - TOP})">{key[0]}</g>']
        parts.append(text(x + 22, below + 22, word, 13, "start"))
    width = second + CELL * Y.shape[1] + 80
    (HERE / "filled.svg").write_text(picture(width, below + 34, *parts), encoding="utf-8")


if __name__ == "__main__":
    main()
