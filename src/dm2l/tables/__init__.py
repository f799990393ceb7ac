"""Half-labelled tables: read them, learn from them, fill their holes, and say how good that is."""

from dm2l.tables._bundle import load_bundle, save_bundle
from dm2l.tables._completion import MARGIN, Completion, complete_table
from dm2l.tables._evaluation import LabelQuality, TableEvaluation, evaluate_table
from dm2l.tables._explanation import Explanation, explain_model
from dm2l.tables._filled import check_form, write_completion
from dm2l.tables._fitting import fit_pipeline
from dm2l.tables._inspection import Implication, Inspection, Ranks, inspect_table
from dm2l.tables._kinds import KINDS, ColumnUse, column_kinds
from dm2l.tables._matrices import MATRIX_FORMATS
from dm2l.tables._measures import MEASURES, Estimate, Interval, changes, intervals, measure_pipeline
from dm2l.tables._model import Answer, TableModel, fit_table, read_for, score_correlation
from dm2l.tables._oddities import LabelCount, column_warnings
from dm2l.tables._output import PARQUET, TEXT, check_suffix, plain_values, write_columns
from dm2l.tables._reading import check_encoding, check_separator, read_cells, read_table
from dm2l.tables._settings import Settings, Wishes
from dm2l.tables._suggestion import Suggestions, suggest_entries
from dm2l.tables._table import Table, table_from_frame

__all__ = [
    "KINDS",
    "MARGIN",
    "MATRIX_FORMATS",
    "MEASURES",
    "PARQUET",
    "TEXT",
    "Answer",
    "ColumnUse",
    "Completion",
    "Estimate",
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
    "TableEvaluation",
    "TableModel",
    "Wishes",
    "changes",
    "check_encoding",
    "check_form",
    "check_separator",
    "check_suffix",
    "column_kinds",
    "column_warnings",
    "complete_table",
    "evaluate_table",
    "explain_model",
    "fit_pipeline",
    "fit_table",
    "inspect_table",
    "intervals",
    "load_bundle",
    "measure_pipeline",
    "plain_values",
    "read_cells",
    "read_for",
    "read_table",
    "save_bundle",
    "score_correlation",
    "suggest_entries",
    "table_from_frame",
    "write_columns",
    "write_completion",
]
