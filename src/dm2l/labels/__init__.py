"""Label matrices with missing entries: what is accepted, and the one form it is read into."""

from dm2l.labels._matrix import ConstantLabelWarning, LabelMatrix
from dm2l.labels._parsing import SparseLabelMatrix

__all__ = ["ConstantLabelWarning", "LabelMatrix", "SparseLabelMatrix"]
