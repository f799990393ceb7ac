"""Reports of experiments: one HTML page, and tables in Markdown and LaTeX."""

from dm2l_lab.report._drawings import store_figures
from dm2l_lab.report._svg import Figure
from dm2l_lab.report._writing import report, write_tables

__all__ = [
    "Figure",
    "report",
    "store_figures",
    "write_tables",
]
