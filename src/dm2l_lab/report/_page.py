"""A report as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dm2l_lab._results import Results
from dm2l_lab.report._drawings import can_draw, diagrams
from dm2l_lab.report._part import Part
from dm2l_lab.report._sections import Choice
from dm2l_lab.report._sheets import printable
from dm2l_lab.report._svg import Figure, inline_svg


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
    script, style = (Markup(_resource(name)) for name in ("page.js", "page.css"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        environment()
        .get_template("page.html")
        .render(
            title=f"Results of {', '.join(results.name for results in found)}",
            # Whatever a name in the store may smuggle in, nothing but this script can run or load.
            policy=(
                "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
                f"form-action 'none'; script-src 'sha256-{digest}'"
            ),
            script=script,
            style=style,
            overview=_overview(found, convention),
            parts=[Part(results, convention, choice, f"p{i}") for i, results in enumerate(found)],
            figures=figures,
            diagrams=diagrams if can_draw() else None,
        )
    )


def environment() -> Environment:
    """Templates in which nothing that is put in is markup, unless it is marked so."""
    found = Environment(
        loader=PackageLoader("dm2l_lab.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else printable(value),
    )
    found.filters["inline"] = lambda svg, name: Markup(inline_svg(svg, name))
    return found


def _resource(name: str) -> str:
    return files("dm2l_lab.report").joinpath("templates", name).read_text(encoding="utf-8")


# -- what it rests on ---------------------------------------------------------------------------


def _overview(found: Sequence[Results], convention: str) -> dict[str, str]:
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
    return facts


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
