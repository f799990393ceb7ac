"""Half-labelled tables: read them, learn from them, fill their holes, and say how good that is."""

from dm2l.tables._bundle import load_bundle, save_bundle
from dm2l.tables._completion import Completion, complete_table
from dm2l.tables._evaluation import Evaluation, LabelQuality, evaluate_table
from dm2l.tables._explanation import Explanation, explain_model
from dm2l.tables._filled import write_completion
from dm2l.tables._inspection import Implication, Inspection, Ranks, inspect_table
from dm2l.tables._kinds import ColumnUse, column_kinds
from dm2l.tables._measures import Estimate, Interval
from dm2l.tables._model import Answer, TableModel, fit_table, read_for
from dm2l.tables._oddities import LabelCount
from dm2l.tables._reading import read_table
from dm2l.tables._settings import Settings, Wishes
from dm2l.tables._suggestion import Suggestions, suggest_entries
from dm2l.tables._table import Table, table_from_frame

__all__ = [
    "Answer",
    "ColumnUse",
    "Completion",
    "Estimate",
    "Evaluation",
    "Explanation",
    "Implication",
    "Inspection",
    "Interval",
    "LabelCount",
    "LabelQuality",
    "Ranks",
    "Settings",
    "Suggestions",
    "Table",
    "TableModel",
    "Wishes",
    "column_kinds",
    "complete_table",
    "evaluate_table",
    "explain_model",
    "fit_table",
    "inspect_table",
    "load_bundle",
    "read_for",
    "read_table",
    "save_bundle",
    "suggest_entries",
    "table_from_frame",
    "write_completion",
]
