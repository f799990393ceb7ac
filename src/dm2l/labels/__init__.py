"""Label matrices with missing entries, which are read from arrays, data frames and lists."""

from dm2l.labels._matrix import ConstantLabelWarning, LabelMatrix
from dm2l.labels._parsing import SparseLabelMatrix
from dm2l.labels._rules import LabelRules

__all__ = ["ConstantLabelWarning", "LabelMatrix", "LabelRules", "SparseLabelMatrix"]
