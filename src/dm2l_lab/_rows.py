"""Rows of results: their columns, and tables of them in CSV and Parquet files."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from dm2l._utils.extras import require
from dm2l._utils.files import DataFileError, reading
from dm2l.io._parquet_file import read_arrow
from dm2l_lab._protocol import Cell
from dm2l_lab._settings import rekeyed

CONVENTIONS = ("published", "default")
METRICS = (
    "ranking_loss",
    "average_precision",
    "coverage",
    "instance_auc",
    "label_auc",
    "one_error",
    "hamming_loss",
)

KEY = tuple(field.name for field in fields(Cell))
# Names and SQLite types of a row's columns; those of type JSON are stored as TEXT.
COLUMNS = {
    "protocol": "TEXT",
    "dataset": "TEXT",
    "mask": "TEXT",
    "rate": "REAL",
    "repetition": "INTEGER",
    "method": "TEXT",
    "settings": "TEXT",
    "status": "TEXT",  # done or failed
    "error": "TEXT",  # type and message of what a failed cell raised
    "metrics": "JSON",  # by convention, by name; null: undefined, or there is no predict
    "parameters": "JSON",  # what the hash in settings stands for
    "chosen": "JSON",  # best_params_ of a search
    "n_iter": "INTEGER",
    "n_evaluations": "INTEGER",
    "n_train": "INTEGER",
    "n_test": "INTEGER",
    "observed": "REAL",  # share of the training labels
    "n_copies": "INTEGER",  # test rows with an identical row in training
    "split": "TEXT",
    "data": "TEXT",  # hash of features and labels
    "scores": "TEXT",  # hash of the scores of the test rows
    "split_seed": "INTEGER",
    "mask_seed": "INTEGER",
    "estimator_seed": "INTEGER",
    "seconds_fit": "REAL",
    "seconds_score": "REAL",
    "seconds": "REAL",  # all of it: data, fit, scores, metrics
    "peak_memory": "REAL",  # MiB, of the process since its start
    "device": "TEXT",
    "warnings": "JSON",  # how often, by text
    "run": "TEXT",
}
RUN_COLUMNS = {"started": "TEXT", "versions": "JSON", "machine": "JSON"}
METRIC_COLUMNS = {f"{c}_{name}": (c, name) for c in CONVENTIONS for name in METRICS}


def dump(value: Any) -> str | None:
    return None if value is None else json.dumps(value, sort_keys=True, allow_nan=False)


def table_types() -> dict[str, str]:
    """Columns of a table: those of a row and its run, with the metrics side by side."""
    types = {**COLUMNS, **RUN_COLUMNS}
    types.pop("metrics")
    return {**types, **dict.fromkeys(METRIC_COLUMNS, "REAL")}


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    metrics = row["metrics"] or {convention: {} for convention in CONVENTIONS}
    line = {
        column: dump(row[column]) if type_ == "JSON" else row[column]
        for column, type_ in {**COLUMNS, **RUN_COLUMNS}.items()
        if column != "metrics"
    }
    return line | {column: metrics[c].get(name) for column, (c, name) in METRIC_COLUMNS.items()}


def _nested(flat: Mapping[str, Any], path: Path, number: int) -> dict[str, Any]:
    if missing := set(table_types()) - set(flat):
        raise DataFileError(path, f"it lacks the columns {sorted(missing)} of a table of results")
    row: dict[str, Any] = {}
    for column, type_ in table_types().items():
        value = flat[column]
        try:
            row[column] = None if value in (None, "") else _CASTS[type_](value)
        except ValueError as error:
            place = f"row {number}, column {column}"
            raise DataFileError(path, f"{value!r} is no {_WORDS[type_]}", place=place) from error
    values = {column: row.pop(column) for column in METRIC_COLUMNS}
    row["metrics"] = None
    if row["status"] == "done":
        row["metrics"] = {c: {} for c in CONVENTIONS}
        for column, (convention, name) in METRIC_COLUMNS.items():
            row["metrics"][convention][name] = values[column]
    row["settings"], row["parameters"] = rekeyed(row["settings"], row["parameters"])
    return row


def _whole(value: Any) -> int:
    """A whole number, spelled 24.0 too, as pandas does in a column with holes."""
    number = float(value)
    if not number.is_integer() or abs(number) >= 2**63:  # SQLite has no longer ones
        raise ValueError
    return int(number)


_CASTS: dict[str, Callable[[Any], Any]] = {
    "REAL": float,
    "INTEGER": _whole,
    "JSON": json.loads,
    "TEXT": str,
}
_WORDS = {"REAL": "number", "INTEGER": "whole number", "JSON": "JSON"}


def suffix(path: str | os.PathLike[str]) -> str:
    return Path(path).suffix.lower()


def _write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(table_types()))
        writer.writeheader()
        writer.writerows(rows)


def _read_csv(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="", encoding="utf-8") as file, reading(path, "a table of results"):
        return [_nested(row, path, number) for number, row in enumerate(csv.DictReader(file), 1)]


def _write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    pa, parquet = require("pyarrow", "io"), require("pyarrow.parquet", "io")
    types = {"REAL": pa.float64(), "INTEGER": pa.int64(), "JSON": pa.string(), "TEXT": pa.string()}
    schema = pa.schema([(name, types[type_]) for name, type_ in table_types().items()])
    parquet.write_table(pa.Table.from_pylist(rows, schema=schema), path)


def _read_parquet(path: Path) -> list[dict[str, Any]]:
    table, _ = read_arrow(path)
    with reading(path, "a table of results"):
        return [_nested(row, path, number) for number, row in enumerate(table.to_pylist(), 1)]


WRITERS = {".csv": _write_csv, ".parquet": _write_parquet}
READERS = {".csv": _read_csv, ".parquet": _read_parquet}
