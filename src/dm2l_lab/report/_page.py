"""A report as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from dm2l_lab._results import Results
from dm2l_lab.report._figures import Figure
from dm2l_lab.report._html import escape, facts_html, link
from dm2l_lab.report._part import Part, figure_html
from dm2l_lab.report._sections import Choice


def page(
    found: Sequence[Results], convention: str, choice: Choice, figures: Sequence[Figure]
) -> str:
    """The text of the page.

    Parameters
    ----------
    found : sequence of Results
        One part of the page for each.
    convention : str
        Of the metrics.
    choice : Choice
        Which methods are ours.
    figures : sequence of Figure
        Further figures.

    Returns
    -------
    str
        The same for the same results.
    """
    parts = [Part(results, convention, choice, f"p{i}") for i, results in enumerate(found)]
    contents = "".join(part.contents() for part in parts)
    body = "".join(part.html() for part in parts)
    if figures:
        contents += f"<li>{link('figures', 'Figures')}</li>"
        shown = (figure_html(figure, f"x{i}") for i, figure in enumerate(figures))
        body += f'<h2 id="figures">Figures</h2>\n<div class="figures">{"".join(shown)}</div>\n'
    contents += f"<li>{link('rows', 'Rows behind the numbers')}</li>"
    title = f"Results of {', '.join(results.name for results in found)}"
    script, style = (_resource(name) for name in ("page.js", "page.css"))
    # Whatever a name in the store might smuggle in, nothing but this script may run or load.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        f"form-action 'none'; script-src 'sha256-{digest}'"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<header>\n<h1>{escape(title)}</h1>\n{_overview(found, convention)}</header>\n"
        f'<nav aria-label="Contents"><ul>{contents}</ul></nav>\n'
        f"<main>\n{body}"
        '<h2 id="rows">Rows behind the numbers</h2>\n'
        '<p class="note">For each repetition: the measures, seconds in all, settings that a '
        "search chose, and the seeds of split, mask and estimator. Every mean above leads here."
        f"</p>\n{''.join(part.rows() for part in parts)}</main>\n"
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _resource(name: str) -> str:
    return files("dm2l_lab.report").joinpath(name).read_text(encoding="utf-8")


# -- what it rests on ---------------------------------------------------------------------------


def _overview(found: Sequence[Results], convention: str) -> str:
    rows = [row for results in found for row in results.rows]
    statuses = Counter(row["status"] for row in rows)
    started = sorted(row["started"] for row in rows if row["started"])
    facts = {
        "Rows": f"{len(rows)}: {statuses['done']} done, {statuses['failed']} failed",
        "Metrics": f"convention {convention!r} for rows in which a metric is undefined",
        "Runs": f"{len({row['run'] for row in rows})}",
        "Versions": "; ".join(_versions(rows)),
        "Machines": "; ".join(_machines(rows)),
    }
    if started:
        facts["Runs"] += f", begun {started[0]}" + (
            f" to {started[-1]}" if started[-1] != started[0] else ""
        )
    return facts_html(facts)


def _versions(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Each package with its versions; with more than one, how many rows each has."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        for package, version in (row["versions"] or {}).items():
            if version is not None:
                counts.setdefault(package, Counter())[version] += 1
    for package, versions in sorted(counts.items()):
        yield _counted(package, versions)


def _machines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    counts = Counter(
        ", ".join(f"{k} {v}" for k, v in sorted((row["machine"] or {}).items()) if v is not None)
        for row in rows
    )
    known = {name: count for name, count in counts.items() if name}
    for name, count in sorted(known.items()):
        yield f"{name} ({count} rows)" if len(known) > 1 else name


def _counted(package: str, versions: Counter[str]) -> str:
    if len(versions) == 1:
        return f"{package} {next(iter(versions))}"
    return f"{package} " + ", ".join(f"{v} ({n} rows)" for v, n in sorted(versions.items()))
