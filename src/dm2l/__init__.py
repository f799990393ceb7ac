"""Multi-label learning when labels are missing."""

from dm2l.classifier import DM2LClassifier
from dm2l.labels import ConstantLabelWarning
from dm2l.search import DM2LClassifierCV

__version__ = "0.1.0"

__all__ = ["ConstantLabelWarning", "DM2LClassifier", "DM2LClassifierCV", "__version__"]
