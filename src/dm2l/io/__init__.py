"""Readers of files with features and labels; faulty files raise :class:`DataFileError`."""

from dm2l._utils.files import DataFileError
from dm2l.io._arff import read_arff
from dm2l.io._matrix_files import read_mat, read_npz, write_npz
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
