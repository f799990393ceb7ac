"""The generated tables of README.md, SECURITY.md and the docs, from the stored results.

In a page a table stands between ``<!-- NAME -->`` and ``<!-- end -->``.
"""

import re
from collections.abc import Callable

from experiments.paper_tables import BLOCKS
from experiments.published import ROOT
from experiments.results import load
from experiments.tables import completion, positive_unlabelled, quality, security, speed

PAGES = ("README.md", "SECURITY.md", "docs")
_WRITTEN: dict[str, str] = {}
for _name in ("hierarchies", "study", "tolerance", "tolerance_losses"):
    _WRITTEN |= load(_name)["tables"]
# Those of docs/research/errata.md, which examples/errata writes, have other names.
_MARKED = re.compile(r"(<!-- ([^>\n]+\.json|results: [^>\n]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def _by_file(*makers: Callable[[], str], prefix: str = "") -> dict[str, Callable[[], str]]:
    """Tables by the mark that they stand behind."""
    return {f"{prefix}{make.__name__}.json": make for make in makers}


TABLES: dict[str, Callable[[], str]] = {
    **BLOCKS,
    **_by_file(completion.completion, completion.coupled, completion.label_errors),
    **_by_file(completion.new_rows, completion.error_rates, security.workbook),
    **_by_file(quality.arts, quality.cells, quality.estimates, quality.everyone, quality.gains),
    **_by_file(quality.groups, quality.newcomer, quality.pieces),
    **_by_file(quality.reference, quality.selection),
    **_by_file(security.attacks, security.checks, security.fits, security.kills, security.last),
    **_by_file(speed.baselines, speed.blocks, speed.cluster, speed.device, speed.estimate),
    **_by_file(speed.fit, speed.memory, speed.nystroem, speed.path, speed.published, speed.speed),
    **_by_file(positive_unlabelled.single, positive_unlabelled.compared, prefix="pu_"),
    **_by_file(positive_unlabelled.lost, positive_unlabelled.shares, prefix="pu_"),
    **_by_file(positive_unlabelled.rates, positive_unlabelled.rates_by_set, prefix="pu_"),
    **{f"{name}.json": text.__str__ for name, text in _WRITTEN.items()},
}


def write_pages(*, check: bool = False) -> None:
    """Write every table into its page, or raise an error where one differs."""
    unused = set(TABLES)
    for place in PAGES:
        folder = ROOT / place
        for path in sorted(folder.glob("**/*.md")) if folder.is_dir() else [folder]:
            old = path.read_text(encoding="utf-8")
            names = [found[2] for found in _MARKED.finditer(old)]
            if unknown := set(names) - set(TABLES):
                raise ValueError(f"{path.relative_to(ROOT)}: no table is called {sorted(unknown)}.")
            new = _MARKED.sub(lambda m: f"{m[1]}{TABLES[m[2]]()}\n{m[3]}", old)
            if not check:
                path.write_text(new, encoding="utf-8")
            elif new != old:
                raise ValueError(
                    f"{path.relative_to(ROOT)} does not match the stored results: run "
                    "python -m experiments tables"
                )
            unused -= set(names)
    if unused:
        raise ValueError(f"No page has the tables {sorted(unused)}.")
