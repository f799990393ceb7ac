"""One estimator that chooses, :class:`dm2l.AutoClassifier`, and what it is made of."""

from dm2l.auto._classifier import AutoClassifier as AutoClassifier
from dm2l.auto._columns import Columns
from dm2l.auto._features import Features
from dm2l.auto._quality import label_auc as label_auc  # a door for tables
from dm2l.auto._quality import label_table
from dm2l.auto._quality import on_new_rows as on_new_rows  # another
from dm2l.auto._stack import Stack

__all__ = ["Columns", "Features", "Stack", "label_table"]
