"""Data sets: loaded by name, read from files, made up, or bundled with scikit-learn."""

from dm2l.datasets._archive import read_npz, write_npz
from dm2l.datasets._arff import read_arff
from dm2l.datasets._catalogue import DataSetCard, catalogue
from dm2l.datasets._content import content_hash, count_shared, duplicate_groups
from dm2l.datasets._digits import load_digit_attributes
from dm2l.datasets._load import load_dataset
from dm2l.datasets._mat import read_mat
from dm2l.datasets._svmlight import read_svmlight
from dm2l.datasets._synthetic import make_missing_multilabel
from dm2l.datasets._table import read_csv, read_parquet

__all__ = [
    "DataSetCard",
    "catalogue",
    "content_hash",
    "count_shared",
    "duplicate_groups",
    "load_dataset",
    "load_digit_attributes",
    "make_missing_multilabel",
    "read_arff",
    "read_csv",
    "read_mat",
    "read_npz",
    "read_parquet",
    "read_svmlight",
    "write_npz",
]
