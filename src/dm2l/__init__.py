"""Multi-label learning when labels are missing."""

from dm2l.classifier import DM2LClassifier
from dm2l.labels import ConstantLabelWarning

__version__ = "0.1.0"

__all__ = ["ConstantLabelWarning", "DM2LClassifier", "__version__"]
