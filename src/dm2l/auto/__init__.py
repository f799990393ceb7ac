"""One estimator that chooses: :class:`AutoClassifier` and the :class:`Stack` it ends in."""

from dm2l.auto._classifier import AutoClassifier
from dm2l.auto._columns import Columns
from dm2l.auto._features import Features
from dm2l.auto._quality import label_table
from dm2l.auto._stack import Stack

__all__ = ["AutoClassifier", "Columns", "Features", "Stack", "label_table"]
