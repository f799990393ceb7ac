"""Readers: CSV, Parquet, ARFF, svmlight, MATLAB and npz files with label columns."""

from dm2l.readers._archive import read_npz, write_npz
from dm2l.readers._arff import read_arff
from dm2l.readers._mat import read_mat
from dm2l.readers._svmlight import read_svmlight
from dm2l.readers._table import read_csv, read_parquet

__all__ = [
    "read_arff",
    "read_csv",
    "read_mat",
    "read_npz",
    "read_parquet",
    "read_svmlight",
    "write_npz",
]
