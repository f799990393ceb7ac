"""Which widths and weights of DM2L-nl give the figures in print: they are not printed themselves.

One repetition of the paper's protocol with every setting of a small grid. A figure counts as in
print within 10 % (Rkl, Cvg) or 0.02 (AUC, Ap), out of the 12 of a data set. Corel16k is in print
the mean of ten sets; here it is the first.
"""

from collections import Counter

from experiments.protocols import WIDTHS
from experiments.published import PAPER_MEASURES, RESULTS, SOURCES, published_figures
from experiments.results import read


def agreement() -> Counter[tuple[str, str]]:
    """How many stored figures are as in print, for each data set and setting."""
    rows = read(RESULTS / "widths.parquet")
    printed_as = {source: name for name, sources in SOURCES.items() for source in sources}
    figures = published_figures()
    found: Counter[tuple[str, str]] = Counter()
    for row in rows[rows["protocol"].isin(WIDTHS)].to_dict("records"):
        for measure in PAPER_MEASURES:
            key = printed_as[row["dataset"]], row["rate"], measure.name, "DM2L-nl"
            value = row[measure.column]
            found[row["dataset"], row["method"]] += measure.reproduced(value, figures[key])
    return found


def text() -> str:
    """The counts of agreement, one line each."""
    counts = sorted(agreement().items())
    return "\n".join(f"{name:16s} {setting:26s} {n:2d} of 12" for (name, setting), n in counts)
