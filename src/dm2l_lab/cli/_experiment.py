"""``dm2l experiment``: run protocols, see how far they are, take results out and together."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from dm2l_lab import Protocol, Step, Store, get_protocol, protocols, run, status
from dm2l_lab.cli._modules import module_option

# Exit codes; for wrong arguments click has 2.
FAILED_CELLS = 1
INTERRUPTED = 130

# A cluster of our own is nobody else's business: without an address, dask's dashboard would listen
# on all of them.
LOCAL = {
    "threads_per_worker": 1,
    "host": "127.0.0.1",
    "dashboard_address": "127.0.0.1:0",
}

# What a wrong argument can raise further down. What methods raise is stored, not raised.
_MISUSE = (ValueError, OSError, ImportError)


def _rates(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> list[float] | None:
    """Numbers of an option that may be given several times, with commas in each."""
    parts = [part for value in values for part in value.split(",") if part.strip()]
    try:
        return [float(part) for part in parts] or None
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _names(values: Iterable[str], known: Iterable[str]) -> list[str] | None:
    """Names with commas between them; where a known name has commas itself, it is one name."""
    spelled = {_spaced(name.split(",")): name for name in known}
    found = []
    for value in values:
        parts = [part for part in value.split(",") if part.strip()]
        while parts:
            several = (n for n in range(len(parts), 1, -1) if _spaced(parts[:n]) in spelled)
            length = next(several, 1)
            name = _spaced(parts[:length])
            found.append(spelled.get(name, name))
            del parts[:length]
    return found or None


def _spaced(parts: Iterable[str]) -> str:
    return ", ".join(part.strip() for part in parts)


def _cells(protocol: Protocol, selection: dict[str, Any]) -> dict[str, Any]:
    """What the options choose, as arguments of ``Protocol.cells``."""
    known = {
        "datasets": protocol.datasets,
        "masks": protocol.masks,
        "methods": [method.name for method in protocol.methods],
    }
    return selection | {name: _names(selection[name], known[name]) for name in known}


def _range(_context: click.Context, _option: click.Parameter, value: str | None) -> range | None:
    """``5``: the first five; ``10:20``: numbers 10 to 19."""
    if value is None:
        return None
    first, _colon, last = value.rpartition(":")
    try:
        found = range(int(first or 0), int(last))
    except ValueError:
        found = range(0)
    if not found:
        raise click.BadParameter(f"{value!r} is no number such as 5 and no range such as 10:20.")
    return found


def _selection(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that choose cells of a protocol, named as the arguments of ``Protocol.cells``."""
    names: dict[str, Any] = {"multiple": True, "metavar": "A,B,..."}
    several = "The first N repetitions; A:B for number A up to, but without, B."
    for option in (
        click.option("--repetitions", metavar="N", callback=_range, help=several),
        click.option("--masks", help="Only these masks.", **names),
        click.option("--rates", help="Only these rates.", callback=_rates, **names),
        click.option("--methods", help="Only these methods.", **names),
        click.option("--datasets", help="Only these data sets.", **names),
    ):
        command = option(command)
    return command


def _store_option(**path: Any) -> Callable[..., Any]:
    return click.option(
        "--store",
        "path",
        required=True,
        type=click.Path(dir_okay=False, path_type=Path, **path),
        help="The SQLite file with the results.",
    )


@click.group()
def experiment() -> None:
    """Compare methods on data sets; every run can be stopped and resumed."""


# -- run ----------------------------------------------------------------------------------------


@experiment.command("run")
@click.argument("protocol")
@_store_option()
@module_option
@_selection
@click.option(
    "--jobs", type=int, default=1, show_default=True, help="Processes; -1 for one a core."
)
@click.option("--device", help="Torch device, such as cuda, for the methods that can use it.")
@click.option(
    "--backend",
    type=click.Choice(["processes", "dask"]),
    default="processes",
    show_default=True,
    help="Processes of this machine, or a dask cluster.",
)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Of the dask cluster; default: one on this machine.",
)
@click.option("--retry-failed", is_flag=True, help="Run cells again that failed before.")
def run_protocol(
    protocol: str,
    path: Path,
    jobs: int,
    device: str | None,
    backend: str,
    cluster: str | None,
    retry_failed: bool,
    **selection: Any,
) -> None:
    """Run the cells of PROTOCOL that the store does not have yet.

    Whatever stops it, the same command goes on where it stopped. The exit code is 0 when all
    chosen cells are done, 1 when some failed, 130 when it was interrupted.

    Example: dm2l experiment run honest --store results.db --datasets Arts --repetitions 5
    """
    if not jobs:
        raise click.BadParameter("0 processes do nothing; -1 is one a core.", param_hint="--jobs")
    console = Console(stderr=True)
    arguments = {
        "n_jobs": jobs,
        "device": device,
        "backend": backend,
        "retry_failed": retry_failed,
    }
    if cluster is not None and backend != "dask":
        raise click.UsageError("--cluster is the address of a dask cluster: use --backend dask.")
    try:
        chosen = get_protocol(protocol)
        selection = _cells(chosen, selection)
        with Store(path) as store, _connected(backend, cluster):
            try:
                step = _watch(console, chosen, store, arguments | selection)
            except KeyboardInterrupt:
                counts = status(chosen, store, **selection)
                _say(
                    console,
                    f"Interrupted: {counts['done']} cells are done, {counts['failed']} failed, "
                    f"{counts['pending']} are pending in {path}. The same command goes on there.",
                )
                sys.exit(INTERRUPTED)
    except _MISUSE as error:
        raise click.UsageError(str(error)) from error
    click.echo(f"{step.done} of {step.total} cells done, {step.failed} failed: {path}")
    if step.failed and not retry_failed:
        click.echo("--retry-failed runs failed cells again.", err=True)
    sys.exit(FAILED_CELLS if step.failed else 0)


@contextmanager
def _connected(backend: str, cluster: str | None) -> Iterator[None]:
    """A connection to a cluster; one on this machine where no address is given."""
    if backend != "dask":
        yield
        return
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise click.UsageError("--backend dask needs: pip install 'dm2l[scale]'") from error
    with Client(**LOCAL) if cluster is None else Client(cluster):
        yield


def _watch(console: Console, protocol: Protocol, store: Store, arguments: dict[str, Any]) -> Step:
    """Run with a progress bar."""
    told = set()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(protocol.name, total=None, left="")

        def show(step: Step) -> None:
            left = f"{_duration(step.remaining)} left"
            if step.failed:
                left = f"{step.failed} failed, {left}"
            bar.update(task, completed=step.done + step.failed, total=step.total, left=left)
            cell, error = step.cell, step.error
            # Once: what fails tends to fail in every repetition.
            if cell is not None and error is not None and (cell.method, error) not in told:
                told.add((cell.method, error))
                where = f"{cell.dataset}, {cell.mask} {cell.rate:g}, repetition {cell.repetition}"
                _say(console, f"{cell.method} failed on {where}: {error}")

        return run(protocol, store, progress=show, **arguments)


# -- status -------------------------------------------------------------------------------------


@experiment.command("status")
@click.argument("names", nargs=-1, metavar="[PROTOCOL]...")
@_store_option(exists=True)
@module_option
@_selection
@click.option("--json", "as_json", is_flag=True, help="Print the status as JSON.")
def show_status(names: tuple[str, ...], path: Path, as_json: bool, **selection: Any) -> None:
    """Count what is done, failed and pending for each data set and method.

    Without PROTOCOL, for every protocol that the store has results of.

    Example: dm2l experiment status --store results.db
    """
    try:
        with Store(path, read_only=True) as store:
            stored = dict.fromkeys(cell.protocol for cell in store.states())
            found = {name: _counts(store, name, selection) for name in names or stored}
    except _MISUSE as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    console = Console()
    if not found:
        _say(console, "The store has no results yet. Name a PROTOCOL to see what is pending.")
    for protocol, counts in found.items():
        _show_counts(console, protocol, counts)


def _counts(store: Store, name: str, selection: dict[str, Any]) -> dict[str, Any]:
    states = store.states(name)
    if name in protocols() or not states:
        protocol = get_protocol(name)
        counts = status(protocol, store, **_cells(protocol, selection))
    else:  # registered elsewhere: what is pending is known only there
        groups: dict[tuple[str, str], Counter[str]] = {}
        for cell, state in states.items():
            groups.setdefault((cell.dataset, cell.method), Counter())[state] += 1
        total = Counter(states.values())
        unknown = {"pending": None, "outdated": None, "remaining": None}
        counts = {"done": total["done"], "failed": total["failed"], **unknown}
        counts["groups"] = [
            {"dataset": d, "method": m, "done": g["done"], "failed": g["failed"], "pending": None}
            for (d, m), g in groups.items()
        ]
    failures = Counter((row["method"], row["error"]) for row in store.rows(name, status="failed"))
    counts["failures"] = [
        {"method": method, "error": error, "count": count}
        for (method, error), count in failures.most_common()
    ]
    return counts


def _show_counts(console: Console, protocol: str, counts: dict[str, Any]) -> None:
    table = Table(title=protocol)
    table.add_column("data set")
    table.add_column("method")
    for name in ("done", "failed", "pending"):
        table.add_column(name, justify="right")
    for group in counts["groups"]:
        numbers = (group[name] for name in ("done", "failed", "pending"))
        shown = ("?" if number is None else str(number) for number in numbers)
        table.add_row(group["dataset"], group["method"], *shown)
    console.print(table)
    pending = "?" if counts["pending"] is None else counts["pending"]
    line = f"{counts['done']} done, {counts['failed']} failed, {pending} pending"
    if counts["pending"]:
        line += f"; {_duration(counts['remaining'])} of work for one process"
    _say(console, f"{line}.")
    if counts["pending"] is None:
        _say(console, f"No protocol {protocol!r} is known here: what is pending is unknown.")
    if counts["outdated"]:
        _say(console, f"{counts['outdated']} further rows belong to no cell of the protocol.")
    for failure in counts["failures"]:
        times = f"{failure['count']} time{'s' if failure['count'] > 1 else ''}"
        _say(console, f"{failure['method']} failed {times}: {failure['error']}")


# -- export, merge ------------------------------------------------------------------------------


@experiment.command("export")
@_store_option(exists=True)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="A .csv or .parquet file.",
)
@click.option("--protocol", help="Only results of this protocol.")
def export(path: Path, output: Path, protocol: str | None) -> None:
    """Write the results as a table, one column for each metric.

    Example: dm2l experiment export --store results.db -o results.parquet
    """
    try:
        with Store(path, read_only=True) as store:
            stored = dict.fromkeys(cell.protocol for cell in store.states())
            if protocol is not None and protocol not in stored:
                known = ", ".join(map(repr, stored)) or "none at all"
                raise ValueError(f"{path} has no rows of protocol {protocol!r}; it has {known}.")
            count = store.export(output, protocol)
    except _MISUSE as error:
        raise click.UsageError(str(error)) from error
    click.echo(f"{count} rows: {output}")


@experiment.command("merge")
@click.argument("path", metavar="STORE", type=click.Path(dir_okay=False, path_type=Path))
@click.argument(
    "others",
    metavar="OTHER...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
def merge(path: Path, others: tuple[Path, ...]) -> None:
    """Add the rows of OTHER stores, or of exported tables, to STORE.

    A row that is in several is kept once. STORE is made if it does not exist.

    Example: dm2l experiment merge all.db machine1.db machine2.db
    """
    try:
        with Store(path) as store:
            for other in others:
                click.echo(f"{store.merge(other)} new rows of {other}")
    except _MISUSE as error:
        raise click.UsageError(str(error)) from error


def _say(console: Console, text: str) -> None:
    """A line as it is: brackets in an error message are no markup."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "an unknown time"
    if seconds < 100:
        return f"about {seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"about {minutes} min" if minutes < 100 else f"about {minutes / 60:.1f} h"
