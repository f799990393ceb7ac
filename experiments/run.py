"""Running the cells of a protocol: each once, in any number of attempts."""

import argparse
import math
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from experiments import resumable
from experiments.cell import circumstances, load, run_cell
from experiments.protocols import Cell, Protocol
from experiments.results import KEY, read


def run(
    protocol: Protocol,
    out: Path,
    *,
    jobs: int = 1,
    device: str | None = None,
    have: Iterable[Path] = (),
    minutes: float = math.inf,
    **selection: Any,
) -> None:
    """Run the cells that neither ``out`` nor a file of ``have`` holds, and add them to ``out``.

    However a run ends, the next one continues where it stopped, and the rows are the same in the
    end. ``selection`` is that of :meth:`Protocol.cells`. Cells that fail are
    named, and run again next time.
    """
    cells = list(protocol.cells(**selection))
    names = [path for path in (*have, out) if path.exists()]
    rows = read(*names) if names else None
    if rows is not None:
        rows = rows[rows["protocol"] == protocol.name]
        done = set(rows[list(KEY)].itertuples(index=False, name=None))
        cells = [cell for cell in cells if tuple(cell) not in done]
    # A set that is not there, or not what it was, stops the run before anything is fitted.
    digests = {name: load(name).digest for name in dict.fromkeys(c.dataset for c in cells)}
    if rows is not None:
        check(protocol, rows, digests)
    if not cells:
        print(f"All cells of {protocol.name} are there.")
        return
    options = argparse.Namespace(out=out, jobs=jobs, minutes=minutes)
    compute = partial(_compute, protocol, device, circumstances(device))
    resumable.run(compute, [cell._asdict() for cell in cells], options)


def check(protocol: Protocol, rows: Any, digests: dict[str, str]) -> None:
    """Refuse stored rows that no table should hold together with those of this protocol."""
    columns = rows[["method", "dataset", "settings", "split", "data"]].drop_duplicates()
    for method, dataset, settings, split, data in columns.itertuples(index=False, name=None):
        for what, stored, now in (
            (f"settings of {method!r}", settings, protocol.method(method, dataset).settings),
            ("split", split, protocol.split),
            (f"contents of {dataset}", data, digests.get(dataset, data)),
        ):
            if stored != now:
                raise ValueError(
                    f"Stored rows of protocol {protocol.name!r} on {dataset} have another {what}: "
                    f"{stored} instead of {now}. Use another file."
                )


def _compute(
    protocol: Protocol, device: str | None, facts: dict[str, Any], /, **key: Any
) -> dict[str, Any]:
    return run_cell(protocol, Cell(**key), device) | facts
