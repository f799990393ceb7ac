"""Half-labelled tables: read them, learn from them, fill their holes, and say how good that is."""

# `X as X`: a door for the review and the command line, not a page of the API.
from dm2l.tables._audit import Audit, audit_table
from dm2l.tables._batch import choose_batch as choose_batch
from dm2l.tables._bundle import load_bundle, save_bundle
from dm2l.tables._completion import MARGIN as MARGIN
from dm2l.tables._completion import Completion, complete_table
from dm2l.tables._evaluation import AUTOMATIC as AUTOMATIC
from dm2l.tables._evaluation import LabelQuality, TableEvaluation, evaluate_table
from dm2l.tables._explanation import Explanation, explain_model
from dm2l.tables._explanation import column_weights as column_weights
from dm2l.tables._filled import check_form as check_form
from dm2l.tables._filled import write_completion
from dm2l.tables._inspection import Inspection, LabelCount, Ranks, inspect_table
from dm2l.tables._inspection import column_warnings as column_warnings
from dm2l.tables._inspection import duplicate_warnings as duplicate_warnings
from dm2l.tables._inspection import label_counts as label_counts
from dm2l.tables._inspection import label_like_warnings as label_like_warnings
from dm2l.tables._inspection import tick_warnings as tick_warnings
from dm2l.tables._kinds import KINDS as KINDS
from dm2l.tables._kinds import ColumnUse, column_kinds
from dm2l.tables._measures import MEASURES as MEASURES
from dm2l.tables._measures import Estimate
from dm2l.tables._measures import changes as changes
from dm2l.tables._measures import intervals as intervals
from dm2l.tables._measures import keep_back as keep_back
from dm2l.tables._measures import measure_pipeline as measure_pipeline
from dm2l.tables._model import Answer, TableModel, fit_table, read_for
from dm2l.tables._model import score_correlation as score_correlation
from dm2l.tables._output import check_suffix as check_suffix
from dm2l.tables._output import plain_values as plain_values
from dm2l.tables._output import write_columns as write_columns
from dm2l.tables._pipeline import TableColumns, make_table_pipeline
from dm2l.tables._progress import progress
from dm2l.tables._reading import MATRIX_FORMATS as MATRIX_FORMATS
from dm2l.tables._reading import read_cells as read_cells
from dm2l.tables._reading import read_table
from dm2l.tables._settings import Settings, Wishes
from dm2l.tables._settings import fit_pipeline as fit_pipeline
from dm2l.tables._suggestion import RowSuggestions, Suggestions, suggest_entries, suggest_rows
from dm2l.tables._suggestion import answer_values as answer_values
from dm2l.tables._suggestion import row_values as row_values
from dm2l.tables._suggestion import suggested as suggested
from dm2l.tables._suggestion import table_values as table_values
from dm2l.tables._suggestion import values_and_learning as values_and_learning
from dm2l.tables._table import Table, table_from_frame
from dm2l.tables._unlearnt import prediction_warnings as prediction_warnings

__all__ = [
    "Answer",
    "Audit",
    "ColumnUse",
    "Completion",
    "Estimate",
    "Explanation",
    "Inspection",
    "LabelCount",
    "LabelQuality",
    "Ranks",
    "RowSuggestions",
    "Settings",
    "Suggestions",
    "Table",
    "TableColumns",
    "TableEvaluation",
    "TableModel",
    "Wishes",
    "audit_table",
    "column_kinds",
    "complete_table",
    "evaluate_table",
    "explain_model",
    "fit_table",
    "inspect_table",
    "load_bundle",
    "make_table_pipeline",
    "progress",
    "read_for",
    "read_table",
    "save_bundle",
    "suggest_entries",
    "suggest_rows",
    "table_from_frame",
    "write_completion",
]
