"""The figures that the DM2L paper prints in its Tables 2 to 4, and how its names map to ours."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import pandas as pd

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PRINTED_DECIMALS = 3
# Sums of decimals in binary: 0.63 - 0.61 exceeds 0.02 by this kind of error only.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure: the paper's abbreviation, the metric's name, and which way is better."""

    name: str
    metric: str
    title: str
    higher_is_better: bool
    tolerance: float = 0.02  # within which a figure counts as reproduced
    relative: bool = False  # whether that is a share of the published figure

    @property
    def column(self) -> str:
        """Where rows of results have it, in the paper's convention."""
        return f"published_{self.metric}"

    def reproduced(self, value: float, published: float) -> bool:
        """Whether a value lies within the tolerance around a published one."""
        width = self.tolerance * (abs(published) if self.relative else 1.0)
        return abs(value - published) <= width + _ROUNDING

    def compare(self, value: float, other: float) -> Literal["better", "equal", "worse"]:
        """How a value compares with another one, both as they would be printed."""
        first, second = round(value, PRINTED_DECIMALS), round(other, PRINTED_DECIMALS)
        if first == second:
            return "equal"
        return "better" if (first > second) == self.higher_is_better else "worse"


MEASURES = (
    Measure("Rkl", "ranking_loss", "Ranking loss", False, tolerance=0.1, relative=True),
    # The paper describes an average over labels; what it prints is one over instances.
    Measure("Auc", "instance_auc", "AUC by instance", True),
    Measure("Cvg", "coverage", "Coverage", False, tolerance=0.1, relative=True),
    Measure("Ap", "average_precision", "Average precision", True),
    Measure("lAuc", "label_auc", "AUC by label", True),
    Measure("1err", "one_error", "One-error", False),
    Measure("Ham", "hamming_loss", "Hamming loss", False),
)
PAPER_MEASURES = MEASURES[:4]
BY_NAME = {measure.name: measure for measure in MEASURES}

# The paper's data sets, each with the sets of dm2l.datasets whose results are averaged for it.
# "Corel16k" is the mean of ten samples. "Tmc2007-500" was run on an old edition with many copied
# rows: figures from the corrected one, which dm2l calls Tmc2007-500, do not compare with it.
SOURCES = MappingProxyType(
    {
        "Arts": ("Arts",),
        "Business": ("Business",),
        "Recreation": ("Recreation",),
        "Enron": ("Enron",),
        "Image": ("Image",),
        "Social": ("Social",),
        "Corel16k": tuple(f"Corel16k{number:03d}" for number in range(1, 11)),
        "Tmc2007-500": ("Tmc2007-500-old",),
    }
)


@cache
def published_figures() -> MappingProxyType[tuple[str, float, str, str], float]:
    """The 576 printed figures, by data set, rate, measure and method.

    One of them looks like a misprint: Auc of LSML on Corel16k at rate 0.3 is 0.834 beside a
    ranking loss of 0.203, where all others add up to 1 within 0.005.
    """
    found = pd.read_csv(RESULTS / "published.csv").itertuples(index=False, name=None)
    return MappingProxyType({tuple(key): value for *key, value in found})


@cache
def best_published() -> MappingProxyType[tuple[str, float, str], tuple[float, tuple[str, ...]]]:
    """The best printed figure of each of the 96 cells, and the methods that have it."""
    cells: dict[tuple[str, float, str], dict[str, float]] = {}
    for (dataset, rate, measure, method), value in published_figures().items():
        cells.setdefault((dataset, rate, measure), {})[method] = value
    best = {}
    for key, values in cells.items():
        value = (max if BY_NAME[key[2]].higher_is_better else min)(values.values())
        best[key] = (value, tuple(method for method, other in values.items() if other == value))
    return MappingProxyType(best)
