"""Write what the stored results say into README.md and docs/results.md, or check it.

python -m dm2l_lab.paper.document [--check]              the tables
python -m dm2l_lab.paper.document --report REPORT.html   the whole report

The results are those of ``cells.parquet``: every row is a fit, with its seeds, versions, machine,
chosen settings and all measures.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from pathlib import Path

from dm2l_lab import Store
from dm2l_lab.paper import _against_print, _against_ridge, studies
from dm2l_lab.paper._against_print import HONEST
from dm2l_lab.paper.study import study_figures
from dm2l_lab.report import report, store_figures

HERE = Path(__file__).parents[3] / "results"
PAGES = ("README.md", "docs/results.md")

BLOCKS = {
    "headline": _against_print.headline,
    "by data set": _against_print.by_data_set,
    "reproduced": _against_print.reproduced,
    "settings": _against_print.settings,
    "terms": _against_ridge.terms,
    "shown": _against_ridge.shown,
    "largest": _against_ridge.largest,
    "overall": _against_ridge.overall,
    "means": _against_ridge.means,
    "compared": _against_ridge.compared,
    "uniform": _against_ridge.uniform,
}


def write_pages(store: Store, *, check: bool) -> None:
    """Write the blocks into the pages, or end with a message where one differs."""
    texts = {name: make(store) for name, make in BLOCKS.items()}
    for page in PAGES:
        path = HERE.parent / page
        old = new = path.read_text(encoding="utf-8")
        for name, text in texts.items():
            marks = rf"(<!-- results: {name} -->\n).*?(<!-- end -->)"
            block = text.replace("\\", r"\\")
            new = re.sub(marks, rf"\g<1>{block}\n\g<2>", new, flags=re.DOTALL)
        if not check:
            path.write_text(new, encoding="utf-8")
        elif new != old:
            sys.exit(
                f"{page} does not match results/cells.parquet: "
                "run python -m dm2l_lab.paper.document"
            )


def main() -> None:
    """Write pages, check them, or write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where a page differs")
    parser.add_argument("--report", type=Path, help="write the report here instead")
    arguments = parser.parse_args()
    with Store(":memory:") as store:
        store.merge(HERE / "cells.parquet")
        if arguments.report is None:
            write_pages(store, check=arguments.check)
            return
        for protocol in (HONEST, "as_published"):
            name = arguments.report.stem + ("" if protocol == HONEST else "-as-published")
            figures = store_figures(store, protocol=protocol)
            if protocol == "as_published":
                figures += itertools.chain.from_iterable(map(study_figures, studies.read()))
            report(store, arguments.report.with_stem(name), protocol=protocol, figures=figures)


if __name__ == "__main__":
    main()
