"""Data sets: loaded by name, made up, or bundled with scikit-learn."""

from dm2l.datasets._content import content_hash, count_shared, duplicate_groups
from dm2l.datasets._load import catalogue, load_dataset, load_digit_attributes
from dm2l.datasets._synthetic import make_missing_multilabel

__all__ = [
    "catalogue",
    "content_hash",
    "count_shared",
    "duplicate_groups",
    "load_dataset",
    "load_digit_attributes",
    "make_missing_multilabel",
]
