"""DM2L for thousands of labels, with sparse labels and a low-rank head."""

from dm2l.extreme._classifier import ExtremeDM2LClassifier

__all__ = ["ExtremeDM2LClassifier"]
