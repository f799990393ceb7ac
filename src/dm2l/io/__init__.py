"""Readers: CSV, Parquet, ARFF, svmlight, MATLAB and npz files with label columns.

What they share is in modules of its own: `columns` (which columns are meant), `words` (what a label
says), `unpacking`, `csv_file`, `parquet_file`, `svmlight_file`, `npz_file`, `cells`. What is wrong
with a file is a :class:`DataFileError`.
"""

from dm2l._utils.files import DataFileError
from dm2l.io._arff import read_arff
from dm2l.io._mat import read_mat
from dm2l.io._npz_file import read_npz, write_npz
from dm2l.io._svmlight_file import read_svmlight
from dm2l.io._table import read_csv, read_labels, read_parquet

__all__ = [
    "DataFileError",
    "read_arff",
    "read_csv",
    "read_labels",
    "read_mat",
    "read_npz",
    "read_parquet",
    "read_svmlight",
    "write_npz",
]
