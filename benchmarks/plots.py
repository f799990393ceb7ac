"""Draw the figures of the docs from the stored results.

    python benchmarks/plots.py [--results benchmarks/results] [--images docs/images]

speed-n.svg, speed-d.svg, speed-c.svg (scaling.json), speed-solvers.svg (solvers.json),
speed-nystroem.svg (nystroem.json) and scale-rows.svg (blocks.json). The same results give the same
bytes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
# Okabe and Ito's colours, which all readers can tell apart; markers say it once more.
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#666666"
STYLE = {
    "figure.figsize": (4.6, 3.2),
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "svg.fonttype": "none",  # text as text: small files, and it can be searched
    "svg.hashsalt": "dm2l",
}
NAMES = {"n": "rows n", "d": "features d", "c": "labels c"}
SOLVERS = {
    "lbfgs": ("lbfgs", BLUE, "o", "left"),
    "cccp": ("cccp", GREEN, "s", "right"),
    "published": ("published algorithm", ORANGE, "^", "right"),
}


def note(axes: Any, text: str, x: float, y: float, colour: str, **options: Any) -> None:
    """A label beside the thing itself."""
    offset = options.pop("offset", (5, 0))
    place = {"xytext": offset, "textcoords": "offset points", "va": "center"}
    axes.annotate(text, (x, y), color=colour, annotation_clip=False, **(place | options))


def scaling(record: dict[str, Any], axis: str) -> Any:
    """Seconds against one size, with the fitted power laws."""
    found = record["axes"][axis]
    figure, axes = plt.subplots()
    sizes = np.array([row["size"] for row in found["rows"]], dtype=float)
    for key, name, colour, marker in (
        ("seconds", "DM2L", BLUE, "o"),
        ("ridge", "Ridge", GREY, "s"),
    ):
        values = [row[key] for row in found["rows"]]
        law = found["fit"][key]
        line = np.exp(law["intercept"]) * sizes ** law["exponent"]
        axes.plot(sizes, values, marker, color=colour)
        power = rf"${axis}^{{{law['exponent']:.2f}}}$"
        axes.plot(sizes, line, "-", color=colour, lw=1, label=f"{name}: {power}")
    axes.set(xscale="log", yscale="log", xlabel=NAMES[axis], ylabel="seconds to fit")
    axes.set_xticks(sizes, [f"{int(size):,}" for size in sizes])
    axes.minorticks_off()
    fixed = ", ".join(f"{name} = {value:,}" for name, value in found["fixed"].items())
    axes.set_title(f"Linear model, {fixed}", loc="left")
    axes.legend(frameon=False, loc="upper left")
    axes.grid(axis="y", color="#dddddd", lw=0.5)
    return figure


def solvers(record: dict[str, Any]) -> Any:
    """Gap to the lowest objective against seconds, a panel for each data set."""
    rows = record["rows"]
    figure, panels = plt.subplots(
        len(rows), squeeze=False, figsize=(4.6, 2.8 * len(rows)), sharey=True
    )
    for axes, row in zip(panels[:, 0], rows, strict=True):
        for solver, points in row["curves"].items():
            name, colour, marker, side = SOLVERS.get(solver, (solver, PURPLE, "D", "right"))
            # A start at no time at all has no place on a log axis.
            kept = [point for point in points if point[1] > 0 and point[0] > 0.1 * row["ridge"]]
            times, gaps = np.array(kept).T
            few = max(1, len(times) // 12)
            axes.plot(times, gaps, marker=marker, color=colour, markevery=few, markersize=3)
            offset = (5, 0) if side == "right" else (-5, 0)
            ends = {"ha": "left" if side == "right" else "right", "offset": offset}
            note(axes, name, times[-1], gaps[-1], colour, **ends)
        axes.axvline(row["ridge"], color=GREY, ls=":", lw=1)
        axes.set(xscale="log", yscale="log", ylabel="objective above the lowest")
        axes.set_ylim(top=2.0)
        note(axes, "Ridge", row["ridge"], 1.2, GREY, offset=(3, 0))
        n, d, c = row["shape"]
        title = f"{row['data']} ({n:,} x {d:,}, {c} labels, {row['rho']:.0%} observed)"
        axes.set_title(title, loc="left")
        axes.minorticks_off()
        axes.margins(x=0.1)
        axes.grid(color="#eeeeee", lw=0.5)
    panels[-1, 0].set_xlabel("seconds")
    # Room for the labels at the ends of the curves.
    for axes in panels[:, 0]:
        low, high = axes.get_xlim()
        axes.set_xlim(low, high * (high / low) ** 0.3)
    return figure


def nystroem(record: dict[str, Any]) -> Any:
    """Average precision against fit time; the number of components beside each point."""
    figure, axes = plt.subplots()
    exact = record["exact"]
    marks = {"nystroem": ("Nystrom", BLUE, "o"), "fourier": ("Fourier features", ORANGE, "s")}
    for kind, (name, colour, marker) in marks.items():
        rows = [row for row in record["rows"] if row["approximation"] == kind]
        if not rows:
            continue
        times = [row["seconds"] for row in rows]
        values = [row["average_precision"] for row in rows]
        axes.plot(times, values, marker=marker, color=colour, label=name)
        for row, x, y in zip(rows, times, values, strict=True):
            note(axes, f"{row['components']:,}", x, y, colour, offset=(5, -6), fontsize=8)
    axes.plot(exact["seconds"], exact["average_precision"], "*", color="black", ms=9)
    axes.axhline(exact["average_precision"], color="black", ls=":", lw=0.8)
    place = (exact["seconds"], exact["average_precision"])
    note(axes, "exact kernel", *place, "black", offset=(0, -10), ha="right")
    axes.set(xscale="log", xlabel="seconds to fit", ylabel="average precision, test rows")
    axes.set_title(f"{record['data']}, {record['train_rows']:,} training rows", loc="left")
    axes.legend(frameon=False, loc="lower right")
    axes.margins(0.12)
    axes.grid(color="#eeeeee", lw=0.5)
    return figure


def rows(record: dict[str, Any]) -> Any:
    """Seconds and peak of memory against the number of rows, of a fit from a file."""
    found = [*record["curve"], record["fit"]]
    sizes = [row["rows"] for row in found]
    figure, (time, memory) = plt.subplots(2, sharex=True, figsize=(4.6, 4.2))
    time.plot(sizes, [row["seconds"] for row in found], "o-", color=BLUE)
    time.set(xscale="log", yscale="log", ylabel="seconds to fit")
    time.set_title(f"{record['d']} features, {record['c']} labels, Parquet", loc="left")
    memory.plot(sizes, [row["peak_gb"] for row in found], "s-", color=ORANGE)
    memory.set(ylabel="peak of memory, GB", xlabel="rows", ylim=(0, None))
    full = record["size_gb"] / record["fit"]["rows"]
    some = np.geomspace(sizes[0], sizes[-1], 60)
    memory.plot(some, full * some, ":", color=GREY)
    memory.set_ylim(0, 2.0)
    crossing = 1.9 / full
    note(memory, "size of the file", crossing, 1.85, GREY, offset=(-9, 0), ha="right")
    for axes in (time, memory):
        axes.grid(color="#eeeeee", lw=0.5)
        axes.minorticks_off()
    return figure


FIGURES: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "speed-n": ("scaling", lambda record: scaling(record, "n")),
    "speed-d": ("scaling", lambda record: scaling(record, "d")),
    "speed-c": ("scaling", lambda record: scaling(record, "c")),
    "speed-solvers": ("solvers", solvers),
    "speed-nystroem": ("nystroem", nystroem),
    "scale-rows": ("blocks", rows),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--images", type=Path, default=HERE.parent / "docs" / "images")
    arguments = parser.parse_args()
    arguments.images.mkdir(parents=True, exist_ok=True)
    mpl.rcParams.update(STYLE)
    for name, (source, draw) in FIGURES.items():
        path = arguments.results / f"{source}.json"
        if not path.exists():
            sys.stderr.write(f"{name}.svg left out: there is no {path}\n")
            continue
        target = arguments.images / f"{name}.svg"
        figure = draw(json.loads(path.read_text()))
        figure.savefig(target, metadata={"Date": None, "Creator": None})
        plt.close(figure)
        print(f"{target} ({target.stat().st_size / 1e3:.0f} kB)")


if __name__ == "__main__":
    main()
