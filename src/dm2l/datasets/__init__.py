"""Data sets: one that needs no download, one that is made up, and those in a folder of archives."""

from dm2l.datasets._archive import load_dataset
from dm2l.datasets._digits import load_digit_attributes
from dm2l.datasets._synthetic import make_missing_multilabel

__all__ = ["load_dataset", "load_digit_attributes", "make_missing_multilabel"]
