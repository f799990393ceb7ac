"""Half-labelled tables: read them, learn from them, fill their holes, and say how good that is."""

from dm2l.tables._audit import Audit, audit_table
from dm2l.tables._bundle import load_bundle, save_bundle
from dm2l.tables._completion import Completion, complete_table
from dm2l.tables._evaluation import evaluate_table
from dm2l.tables._explanation import explain_model
from dm2l.tables._filled import write_completion
from dm2l.tables._inspection import Inspection, inspect_table
from dm2l.tables._model import TableModel, fit_table
from dm2l.tables._pipeline import make_table_pipeline
from dm2l.tables._reading import read_table
from dm2l.tables._settings import FitOptions
from dm2l.tables._suggestion import suggest_entries, suggest_rows
from dm2l.tables._table import Table, table_from_frame

__all__ = [
    "Audit",
    "Completion",
    "FitOptions",
    "Inspection",
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
