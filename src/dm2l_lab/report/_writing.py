"""Reports and tables as files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from dm2l._utils.files import whole_file
from dm2l_lab._protocol import Protocol
from dm2l_lab._results import Results, read_results
from dm2l_lab._store import Store
from dm2l_lab._tables import ResultTable
from dm2l_lab.report._latex import latex_sheet
from dm2l_lab.report._markdown import markdown_sheet, markdown_text
from dm2l_lab.report._page import page
from dm2l_lab.report._sections import Choice, sections
from dm2l_lab.report._svg import Figure


def report(
    store: Store,
    path: str | os.PathLike[str],
    *,
    protocol: str | Protocol | None = None,
    convention: str = "published",
    variants: Sequence[str] | None = None,
    pairs: Sequence[tuple[str, str]] | None = None,
    figures: Iterable[tuple[str, str, str]] = (),
) -> None:
    """Write everything a store tells as one HTML file.

    The file needs no network and nothing beside it. It has sortable tables of all measures, what
    they say against the published figures and against ridge, tests over all blocks with
    critical-difference diagrams (they need matplotlib), failures, and the rows behind every
    number. The same results give the same file.

    Parameters
    ----------
    store : Store
        Results.
    path : path-like
        The file; one that is there is replaced, at once.
    protocol : str or Protocol, default=None
        Which results; names joined by ``+`` are read as one protocol. None for all, each by
        itself.
    convention : {"published", "default"}, default="published"
        How metrics treat rows in which they are undefined.
    variants : sequence of str, default=None
        Methods of which the best is set against the best published figure; None for those whose
        names begin with DM2L.
    pairs : sequence of (str, str), default=None
        Methods to compare split by split; None for each DM2L with each ridge of its kind.
    figures : iterable of (title, caption, svg)
        Further figures, as texts of SVG files.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dm2l_lab import Cell, Store
    >>> from dm2l_lab.report import report
    >>> cell = Cell("trial", "Arts", "none", 1.0, 0, "ridge", "0123456789ab")
    >>> row = {"status": "done", "metrics": {"published": {"ranking_loss": 0.114}}}
    >>> with tempfile.TemporaryDirectory() as folder, Store(":memory:") as store:
    ...     _ = store.add(cell, {**row, "run": store.add_run(versions={}, machine={})})
    ...     report(store, Path(folder, "report.html"))
    ...     text = Path(folder, "report.html").read_text(encoding="utf-8")
    >>> text[:15], "0.114" in text
    ('<!DOCTYPE html>', True)
    """
    found, choice = _chosen(store, protocol, variants, pairs)
    text = page(found, convention, choice, [Figure(*figure) for figure in figures])
    _write(Path(path), text)


def write_tables(
    store: Store,
    folder: str | os.PathLike[str],
    *,
    protocol: str | Protocol | None = None,
    convention: str = "published",
    variants: Sequence[str] | None = None,
    pairs: Sequence[tuple[str, str]] | None = None,
) -> list[Path]:
    r"""Write the tables of a report as Markdown and LaTeX.

    Parameters
    ----------
    store : Store
        Results.
    folder : path-like
        Made if it does not exist.
    protocol, convention, variants, pairs
        As in :func:`report`.

    Returns
    -------
    list of Path
        For each protocol and mask one ``.md`` file with all tables, and a ``.tex`` file for each
        table, to be read with ``\input``; they need booktabs and longtable.

    Examples
    --------
    >>> import tempfile
    >>> from dm2l_lab import Cell, Store
    >>> from dm2l_lab.report import write_tables
    >>> cell = Cell("trial", "Arts", "none", 1.0, 0, "ridge", "0123456789ab")
    >>> row = {"status": "done", "metrics": {"published": {"ranking_loss": 0.114}}}
    >>> with tempfile.TemporaryDirectory() as folder, Store(":memory:") as store:
    ...     _ = store.add(cell, {**row, "run": store.add_run(versions={}, machine={})})
    ...     paths = write_tables(store, folder)
    >>> [path.name for path in paths]
    ['trial-none.md', 'trial-none-rkl.tex']
    """
    found, choice = _chosen(store, protocol, variants, pairs)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written: dict[Path, str] = {}
    for results in found:
        for mask in results.masks:
            name = _unused(f"{_file_name(results.name)}-{_file_name(mask)}", written, folder)
            markdown = folder / f"{name}.md"
            written[markdown] = f"# {markdown_text(results.name)}, {markdown_text(mask)}\n"
            for section in sections(ResultTable(results, mask, convention), choice):
                written[markdown] += f"\n## {section.title}\n"
                for sheet in section.sheets:
                    written[markdown] += f"\n{markdown_sheet(sheet)}"
                    latex = latex_sheet(sheet, f"{name}-{sheet.name}".replace("_", "-"))
                    written[folder / f"{name}-{sheet.name}.tex"] = latex
    for path, text in written.items():
        _write(path, text)
    return list(written)


def _chosen(
    store: Store,
    protocol: str | Protocol | None,
    variants: Sequence[str] | None,
    pairs: Sequence[tuple[str, str]] | None,
) -> tuple[list[Results], Choice]:
    found = read_results(store, protocol)
    if not found:
        raise ValueError(f"{store.path} has no rows yet: there is nothing to report.")
    choice = Choice(variants, pairs)
    choice.check(found)
    return found, choice


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_+-]+", "-", text).strip("-") or "unnamed"


def _unused(name: str, written: dict[Path, str], folder: Path) -> str:
    """The name, with a number if another protocol's looks the same in a file name."""
    number, found = 1, name
    while folder / f"{found}.md" in written:
        number += 1
        found = f"{name}-{number}"
    return found


def _write(path: Path, text: str) -> None:
    """Write a file so that there is never a part of it."""
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")
