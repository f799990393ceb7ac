"""Reading a workbook of 100,000 x 50 cells: time of the processor and the clock, and memory."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import openpyxl
import record

from dm2l.tables import read_table

FEATURES, LABELS = 40, 10


def write_book(path: Path, n_rows: int) -> None:
    """A sheet of numbers and labels, of which a third are missing."""
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(FEATURES)] + [f"t_{k}" for k in range(LABELS)]
    book = openpyxl.Workbook()
    book.active.append(names)
    book.save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    places = [openpyxl.utils.get_column_letter(j + 1) for j in range(len(names))]
    rows = []
    for i in range(2, n_rows + 2):
        values = [*rng.random(FEATURES).round(4).tolist(), *rng.integers(0, 3, LABELS).tolist()]
        cells = "".join(
            f'<c r="{place}{i}"><v>{value}</v></c>'
            for place, value in zip(places, values, strict=True)
            if value != 2
        )
        rows.append(f'<row r="{i}">{cells}</row>')
    sheet = "xl/worksheets/sheet1.xml"
    parts[sheet] = parts[sheet].replace("</sheetData>", "".join(rows) + "</sheetData>")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)


def read(path: str, reader: str) -> None:
    """Read in this process, and print what it took."""
    start, wall = process_time(), perf_counter()
    if reader == "dm2l":
        read_table(path, "t_*")
    else:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        sheet = book.worksheets[0]
        sheet.reset_dimensions()  # it announces the first row only
        for _ in sheet.iter_rows(values_only=True):
            pass
    figures = {
        "seconds": round(process_time() - start, 2),
        "wall_seconds": round(perf_counter() - wall, 2),
    }
    # Of this process alone: getrusage knows the peak of the one that started it.
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
    sys.stdout.write(json.dumps(figures | {"peak_bytes": peak}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/workbook.json")
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        read(*arguments.read)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "book.xlsx")
        write_book(path, arguments.rows)
        found = {"rows": arguments.rows, "bytes": path.stat().st_size}
        for reader in ("dm2l", "openpyxl"):
            command = [sys.executable, __file__, "--read", str(path), reader]
            found[reader] = json.loads(subprocess.check_output(command))
    record.write(arguments.out, {"workbook": found})


if __name__ == "__main__":
    main()
