"""Metrics that use observed labels only and say how many they used.

Every function takes the same ``Y`` as the estimators: NaN (or ``missing_label``) entries do not
count. Where the literature disagrees, ``convention`` chooses: ``"paper"`` (the text of the DM2L
paper), ``"published"`` (what its released code computes) or ``"sklearn"``.
"""

from dm2l.metrics._decisions import f1_macro, f1_micro, hamming_loss
from dm2l.metrics._evaluate import evaluate, label_table
from dm2l.metrics._ranking import (
    average_precision,
    coverage,
    instance_auc,
    label_auc,
    one_error,
    precision_at_k,
    ranking_loss,
)
from dm2l.metrics._units import MetricValue

__all__ = [
    "MetricValue",
    "average_precision",
    "coverage",
    "evaluate",
    "f1_macro",
    "f1_micro",
    "hamming_loss",
    "instance_auc",
    "label_auc",
    "label_table",
    "one_error",
    "precision_at_k",
    "ranking_loss",
]
