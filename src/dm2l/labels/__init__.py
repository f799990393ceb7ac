"""The label contract: 0/1 or -1/+1 with holes, dense, sparse or in blocks, read in one place."""

from dm2l.labels._labels import ConstantLabelWarning
from dm2l.labels._structure import Cooccurrence, Implication

__all__ = ["ConstantLabelWarning", "Cooccurrence", "Implication"]
