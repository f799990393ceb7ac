"""Baseline classifiers for label matrices with missing entries."""

from dm2l.baselines._correlations import LSMLClassifier, MLLRCClassifier
from dm2l.baselines._glocal import GLOCALClassifier
from dm2l.baselines._leml import LEMLClassifier
from dm2l.baselines._linear import MaskedRidgeClassifier
from dm2l.baselines._one_vs_rest import MaskedOneVsRestClassifier, ZeroFillClassifier

__all__ = [
    "GLOCALClassifier",
    "LEMLClassifier",
    "LSMLClassifier",
    "MLLRCClassifier",
    "MaskedOneVsRestClassifier",
    "MaskedRidgeClassifier",
    "ZeroFillClassifier",
]
