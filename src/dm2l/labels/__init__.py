"""Label matrices with missing entries: what is accepted, and the one form it is read into."""

from dm2l.labels._matrix import ConstantLabelWarning, LabelMatrix
from dm2l.labels._structure import Cooccurrence, Implication

__all__ = ["ConstantLabelWarning", "Cooccurrence", "Implication", "LabelMatrix"]
