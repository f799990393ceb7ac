"""``python -m experiments``: run protocols, report on them, write the generated tables of pages."""

import argparse
import math
import os
import sys
from pathlib import Path

from experiments.protocols import PROTOCOLS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    run = commands.add_parser("run", help="Run cells that are not stored yet; can be resumed.")
    run.add_argument("protocols", nargs="+", choices=PROTOCOLS, metavar="PROTOCOL")
    run.add_argument("-o", "--out", type=Path, required=True, help="a .jsonl file, added to")
    run.add_argument("--have", type=Path, nargs="+", default=[], help="skip cells of these files")
    run.add_argument("--datasets", nargs="+")
    run.add_argument("--methods", nargs="+")
    run.add_argument("--rates", nargs="+", type=float)
    run.add_argument("--masks", nargs="+", help='"none" is the mask of rate 1')
    run.add_argument("--repetitions", type=int, help="the first so many")
    run.add_argument("--jobs", type=int, default=1, help="processes; -1 for one a core")
    run.add_argument("--device", help="torch device, such as cuda, for methods that can use it")
    run.add_argument("--minutes", type=float, default=math.inf, help="start no cell after these")

    report = commands.add_parser("report", help="Write tables and figures of stored rows.")
    report.add_argument("files", type=Path, nargs="+", help=".jsonl and .parquet files")
    report.add_argument("-o", "--out", type=Path, required=True, help="a folder")
    report.add_argument("--protocols", nargs="+", help="A+B reads two as one; default: each stored")
    report.add_argument("--study", nargs="+", default=[], help="add studies of these data sets")

    export = commands.add_parser("export", help="Write stored rows to one .parquet file.")
    export.add_argument("files", type=Path, nargs="+", help=".jsonl and .parquet files")
    export.add_argument("-o", "--out", type=Path, required=True, help="a .parquet file")

    tables = commands.add_parser("tables", help="Write the generated tables into the pages.")
    tables.add_argument("--check", action="store_true", help="fail where a page differs instead")

    commands.add_parser("widths", help="Which kernel widths give the figures in print.")
    commands.add_parser("studies", help="Compute results/studies.json anew; takes ten minutes.")
    return parser


def main() -> None:
    arguments = _parser().parse_args()
    try:
        _COMMANDS[arguments.command](arguments)
    except (ValueError, OSError) as error:
        sys.exit(f"{arguments.command}: {error}")


def _run(arguments: argparse.Namespace) -> None:
    from experiments.resumable import FailedCells
    from experiments.run import run

    names = ("datasets", "methods", "rates", "masks", "repetitions", "device", "have", "minutes")
    chosen = {name: getattr(arguments, name) for name in names}
    jobs = (os.cpu_count() or 1) if arguments.jobs == -1 else arguments.jobs
    failed = []
    for name in arguments.protocols:
        try:
            run(PROTOCOLS[name], arguments.out, jobs=jobs, **chosen)
        except FailedCells as error:  # which stops no other protocol
            failed.append(f"{name}: {error}")
    if failed:
        sys.exit("\n".join(failed))


def _report(arguments: argparse.Namespace) -> None:
    from experiments import studies
    from experiments.report import report, study_page
    from experiments.results import read

    for path in report(read(*arguments.files), arguments.out, arguments.protocols):
        print(path)
    for name in arguments.study:
        print(study_page(studies.study(name, repetitions=1), arguments.out))


def _export(arguments: argparse.Namespace) -> None:
    from experiments.results import read, write

    rows = read(*arguments.files)
    write(rows, arguments.out)
    print(f"{len(rows)} rows: {arguments.out}")


def _tables(arguments: argparse.Namespace) -> None:
    from experiments.tables import write_pages

    write_pages(check=arguments.check)


def _widths(_: argparse.Namespace) -> None:
    from experiments.widths import text

    print(text())


def _studies(_: argparse.Namespace) -> None:
    from experiments import studies

    studies.write([studies.study(name) for name in studies.DATASETS])


_COMMANDS = {
    "run": _run,
    "report": _report,
    "export": _export,
    "tables": _tables,
    "widths": _widths,
    "studies": _studies,
}

if __name__ == "__main__":
    main()
