"""Which widths and weights of DM2L-nl give the figures in print: they are not printed themselves.

python -m dm2l_lab.paper.widths                                  what the stored rows say
python -m dm2l_lab.paper.widths --run STORE.sqlite --jobs 2      fit what STORE lacks, then that

One repetition of the paper's protocol with every setting of a small grid. A figure counts as in
print within 10 % (Rkl, Cvg) or 0.02 (AUC, Ap), out of the 12 of a data set. Corel16k is in print
the mean of ten sets; here it is the first.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import click

from dm2l import DM2LClassifier
from dm2l_lab import Method, Protocol, Store, run
from dm2l_lab._published import PAPER_MEASURES, published_figures
from dm2l_lab.paper._methods import COREL, OLD_TMC, SMALL

ROWS = Path(__file__).parents[3] / "results" / "widths.parquet"
IN_PRINT = {COREL[0]: "Corel16k", OLD_TMC: "Tmc2007-500"}


def protocol(
    name: str, sets: tuple[str, ...], widths: Sequence[float], weights: Sequence[float]
) -> Protocol:
    """One repetition of the paper's protocol, with a method for each setting of a grid."""
    methods = tuple(
        Method(
            f"sigma {sigma:g}, lambda_d {weight:g}",
            DM2LClassifier.published("rbf", sigma=sigma, lambda_d=weight),
            follows_x=True,
        )
        for sigma, weight in product(widths, weights)
    )
    return Protocol(name, sets, methods, repetitions=1)


PROTOCOLS = (
    protocol("widths_small", SMALL, (0.5, 0.7, 1.0, 1.5, 2.0, 3.0), (1e-5, 0.1)),
    protocol("widths_tmc", (OLD_TMC,), (1.0, 1.5, 2.0, 3.0), (1e-5, 1e-2)),
    protocol("widths_corel", COREL[:1], (2.0, 3.0, 5.0), (0.1, 0.5, 1.0)),
)


def agreement(store: Store) -> Counter[tuple[str, str]]:
    """Figures that are as in print, by data set and setting."""
    figures = published_figures()
    found: Counter[tuple[str, str]] = Counter()
    for one in PROTOCOLS:
        for row in store.rows(one, status="done"):
            name = IN_PRINT.get(row["dataset"], row["dataset"])
            for measure in PAPER_MEASURES:
                printed = figures[name, row["rate"], measure.name, "DM2L-nl"]
                value = row["metrics"]["published"][measure.metric]
                found[row["dataset"], row["method"]] += measure.reproduced(value, printed)
    return found


def main() -> None:
    """Say how many figures each setting has as in print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, metavar="STORE", help="where results are, and go")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", help="for instance cuda")
    arguments = parser.parse_args()
    with Store(arguments.run or ":memory:") as store:
        store.merge(ROWS)
        if arguments.run is not None:
            for one in PROTOCOLS:
                run(one, store, n_jobs=arguments.jobs, device=arguments.device)
        for (dataset, setting), count in sorted(agreement(store).items()):
            click.echo(f"{dataset:16s} {setting:26s} {count:2d} of 12")


if __name__ == "__main__":
    main()
