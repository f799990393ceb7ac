"""Results of protocols as pages of Markdown with figures beside them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from experiments import studies
from experiments.comparisons import (
    LEVEL,
    BlockStatistics,
    against_best,
    block_statistics,
    dm2l_variants,
    duels,
    reproduced,
    ridge_pairs,
    won,
)
from experiments.figures import figures
from experiments.paper_tables import markdown
from experiments.published import PAPER_MEASURES, Measure
from experiments.ranks import nemenyi_critical_difference
from experiments.results import Results, paired_means

# Of nine methods; the paper uses it for its six.
PAPER_CONSTANT = 3.102
PAPER_METHODS, PAPER_BLOCKS = 6, 24
VERDICTS = ("better", "no difference shown", "worse")


def report(rows: pd.DataFrame, folder: Path, protocols: Iterable[str] | None = None) -> list[Path]:
    """Write a page, and its figures, for each protocol and mask; names joined by + are one."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in protocols or rows["protocol"].unique():
        for mask in Results(rows, name).masks:
            results = Results(rows, name, mask)
            path = folder / f"{name}-{mask}.md"
            parts = [f"# {name}, labels hidden: {mask}", _facts(results), *_sections(results)]
            parts += [_drawn(path, *figure) for figure in figures(results)]
            path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
            written.append(path)
    return written


def study_page(found: studies.Study, folder: Path) -> Path:
    """Write the figures of a study, and a page that shows them."""
    path = folder / f"study-{found.dataset.lower()}.md"
    parts = [f"# {found.dataset}: ranks of labels, convergence, sensitivity"]
    parts += [_drawn(path, *figure) for figure in studies.figures(found)]
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return path


def _drawn(path: Path, name: str, caption: str, figure: object) -> str:
    """Store a figure beside a page; the Markdown that shows it."""
    image = path.with_name(f"{path.stem}-{name}.svg")
    figure.savefig(image, metadata={"Date": None})  # type: ignore[attr-defined]
    return f"{caption}\n\n![{caption}]({image.name})"


def _facts(results: Results) -> str:
    planned = sum(len(list(protocol.cells())) for protocol in results.protocols)
    count = f"{len(results.all_rows)}" + (f" of {planned} cells" if planned else " cells")
    splits = "; ".join(sorted(results.all_rows["split"].unique()))
    return f"{count}; splits: {splits}."


def _sections(results: Results) -> Iterator[str]:
    for measure in results.measures:
        yield f"## {measure.title} ({measure.name})"
        yield _measure_table(results, measure)
    variants = dm2l_variants(results.methods)
    cells = against_best(results, variants)
    if won(cells) or (cells["outcome"] == "worse").any():
        yield "## Comparison with the best published figure"
        yield from _against_best(results, variants, cells)
    beside = reproduced(results)
    if len(beside):
        yield "## Comparison with the published figures of the same methods"
        yield from _beside(results, beside)
    if pairs := ridge_pairs(results.methods):
        yield "## DM2L and ridge"
        yield from _against_ridge(results, pairs)
    blocks = [b for m in results.measures if (b := block_statistics(results, m)) is not None]
    if blocks:
        yield "## Over all data sets and rates"
        yield from _ranks(blocks)


def _measure_table(results: Results, measure: Measure) -> str:
    """Mean and standard deviation; the best mean over common repetitions is bold."""
    rows = []
    for dataset in results.datasets:
        for rate in results.rates:
            line = results.line(dataset, rate, measure.name)
            if not line.notna().any(axis=None):
                continue
            means = paired_means(line)
            best = means.max() if measure.higher_is_better else means.min()
            cells = []
            for method in results.methods:
                values = line[method].dropna()
                text = "–"
                if len(values):
                    text = f"{values.mean():.3f}" + (
                        f" ± {values.std():.3f}" if len(values) > 1 else ""
                    )
                    if np.isclose(means.get(method, np.nan), best, rtol=0, atol=1e-12):
                        text = f"**{text}**"
                cells.append(text)
            n = line.count()
            counts = sorted(set(n[n > 0]))
            span = "–".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
            rows.append((dataset, f"{rate:g}", span, *cells))
    arrow = "↑" if measure.higher_is_better else "↓"
    return markdown((f"{measure.name} {arrow}", "ρ", "n", *results.methods), rows)


def _against_best(results: Results, variants: list[str], cells: pd.DataFrame) -> Iterator[str]:
    counts = Counter(cells["outcome"])
    yield (
        f"In {won(cells)} of the paper's {len(cells)} cells the best of {', '.join(variants)} is "
        "at least as good as the best published figure of any method, both rounded to three "
        f"decimals ({counts['better']} better, {counts['equal']} equal); {counts['worse']} are "
        f"worse, {counts['missing']} have no results. Published figures use masks per row, and "
        "the old edition of Tmc2007-500."
    )
    names = [measure.name for measure in PAPER_MEASURES]
    rows = []
    for label, found in [
        *((name, against_best(results, [name])) for name in variants),
        ("best of them", cells),
    ]:
        groups = found.groupby("measure")
        rows.append((label, *(f"{won(groups.get_group(m))} of 24" for m in names), won(found)))
    yield markdown(("method", *names, "all"), rows)
    lost = cells[cells["outcome"] == "worse"]
    if len(lost):
        yield _plain(lost.drop(columns="outcome"))


def _beside(results: Results, beside: pd.DataFrame) -> Iterator[str]:
    tolerances = "; ".join(
        f"{m.name} within {f'{100 * m.tolerance:g} %' if m.relative else f'{m.tolerance:g}'}"
        for m in PAPER_MEASURES
    )
    yield f"{beside['within'].sum()} of {len(beside)} are as published ({tolerances})."
    for name in filter(results.is_part, results.datasets):
        paper = results.published_name(name)
        yield f"{name} is compared with the published {paper}, a mean of data sets."
    counts = beside.groupby("method", sort=False)["within"].agg(["sum", "size"])
    rows = [(method, f"{good} of {n}") for method, (good, n) in counts.iterrows()]
    yield markdown(("method", "as published"), rows)
    yield _plain(beside.assign(difference=beside["mean"] - beside["published"]))


def _plain(frame: pd.DataFrame) -> str:
    """A data frame with three decimals."""
    shown = frame.assign(rate=frame["rate"].map("{:g}".format)).astype(object)
    rows = shown.map(lambda value: f"{value:.3f}" if isinstance(value, float) else value)
    return markdown(frame.columns, rows.to_numpy())


def _against_ridge(results: Results, pairs: list[tuple[str, str]]) -> Iterator[str]:
    found = duels(results, pairs)
    counts = Counter((d.first, d.second, d.measure.name, d.verdict) for d in found)
    yield (
        f"The table counts cells (data set and rate) by the {LEVEL:.0%} confidence interval of the "
        "mean difference over repetitions, corrected for splits that share rows (Nadeau and "
        "Bengio, 2003). For equal methods, about one of twenty intervals excludes 0."
    )
    keys = dict.fromkeys((d.first, d.second, d.measure.name) for d in found)
    rows = [(*key, *(counts[*key, verdict] for verdict in VERDICTS)) for key in keys]
    yield markdown(("DM2L", "ridge", "measure", *(f"DM2L: {v}" for v in VERDICTS)), rows)
    rows = [
        (
            *(d.dataset, f"{d.rate:g}", d.measure.name, d.first, d.second, d.n),
            *(f"{mean:.4f}" for mean in d.means),
            f"{d.interval.mean:+.4f}",
            f"{d.interval.low:+.4f} to {d.interval.high:+.4f}",
        )
        for d in found
        if d.verdict != VERDICTS[1]
    ]
    if rows:
        head = ("data set", "ρ", "measure", "DM2L", "ridge", "n", "mean", "of ridge", "difference")
        yield markdown((*head, f"{LEVEL:.0%} interval"), rows)


def _ranks(blocks: list[BlockStatistics]) -> Iterator[str]:
    methods = list(dict.fromkeys(method for block in blocks for method in block.methods))
    yield "Average ranks over blocks (a data set at a rate); 1 is best."
    ranks = [dict(zip(block.methods, block.ranks, strict=True)) for block in blocks]
    rows = [(m, *(f"{r[m]:.2f}" if m in r else "–" for r in ranks)) for m in methods]
    yield markdown(("method", *(block.measure.name for block in blocks)), rows)
    right, printed = (
        nemenyi_critical_difference(PAPER_METHODS, PAPER_BLOCKS, q=q)
        for q in (None, PAPER_CONSTANT)
    )
    yield (
        "Friedman's test, Iman and Davenport's F, and Nemenyi's critical difference at 5 %. As in "
        "the paper, rates of one data set count as blocks, although they share rows, so p-values "
        f"are too small. The paper prints a critical difference of {printed:.3f} for its "
        f"{PAPER_METHODS} methods and {PAPER_BLOCKS} blocks, from the constant {PAPER_CONSTANT} "
        f"of nine methods; the correct constant gives {right:.3f}."
    )
    tests = [
        (
            *(block.measure.name, len(block.methods), len(block.blocks)),
            *(f"{block.friedman.chi_square:.2f}", _p(block.friedman.p_value)),
            *(f"{block.friedman.f_statistic:.2f}", _p(block.friedman.f_p_value)),
            f"{block.critical_difference:.3f}",
        )
        for block in blocks
    ]
    yield markdown(("measure", "methods", "blocks", "χ²", "p", "F", "p (F)", "difference"), tests)
    yield "Wilcoxon's signed-rank test of pairs, two-sided; Holm's correction within a measure."
    pairs = [
        (
            *(block.measure.name, block.methods[pair.first], block.methods[pair.second]),
            *(pair.wins, pair.ties, pair.losses, f"{pair.median_difference:+.4f}"),
            *(_p(pair.p_value), _p(pair.p_holm)),
        )
        for block in blocks
        for pair in block.pairs
    ]
    head = ("measure", "first", "second", "won", "tied", "lost", "median gain", "p", "p (Holm)")
    yield markdown(head, pairs)


def _p(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"
