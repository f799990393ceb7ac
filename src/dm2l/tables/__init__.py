"""Read tables with missing labels, fit models to them, and impute, evaluate and check labels."""

from dm2l.tables._bundle import load_bundle, save_bundle
from dm2l.tables._completion import Completion, audit_table, complete_table
from dm2l.tables._explanation import explain_model
from dm2l.tables._filled import write_completion
from dm2l.tables._inspection import inspect_table
from dm2l.tables._measures import evaluate_table
from dm2l.tables._model import TableModel, fit_table
from dm2l.tables._options import FitOptions
from dm2l.tables._preparation import make_table_pipeline
from dm2l.tables._reading import Table, read_table, table_from_frame
from dm2l.tables._suggestion import suggest_entries, suggest_rows

__all__ = [
    "Completion",
    "FitOptions",
    "Table",
    "TableModel",
    "audit_table",
    "complete_table",
    "evaluate_table",
    "explain_model",
    "fit_table",
    "inspect_table",
    "load_bundle",
    "make_table_pipeline",
    "read_table",
    "save_bundle",
    "suggest_entries",
    "suggest_rows",
    "table_from_frame",
    "write_completion",
]
